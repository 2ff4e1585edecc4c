"""Collections of any size: one input file becomes one part, made by whichever process claims it first.

Nothing is opened to begin with. The input files are listed; each process, on any machine that sees the folder of parts
(`parts_folder.py`), claims one file at a time, streams it through the encoder and publishes its part in one step.
Processes may start and stop at any time. The bytes of a part depend on its file, the encoder and the size of batches,
not on which process made it, when, or how often it was tried.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.collections.images import opened
from visir.collections.streams import InputFiles, PassedOver, StreamedPicture
from visir.display import counted, named
from visir.encoders.base import Encoder, finite
from visir.encoders.claims import (
    LEASE_SECONDS,
    PartLease,
    SharedPlace,
    about_lease,
    is_at_work,
    lease_states,
    open_place,
    patiently,
    this_moment,
)
from visir.encoders.encoding import ForwardOptions, embedded, preprocessed
from visir.encoders.forms import one_each
from visir.encoders.intake import Embedded, Pixels
from visir.encoders.lanes import PIECE, lanes_of
from visir.encoders.loading import load
from visir.encoders.parts_folder import (
    FOLDER,
    FORMAT,
    SET_ASIDE,
    SIZES,
    PartOf,
    Parts,
    agreed_parts,
    agreed_plan,
    clear_away,
    given_up_parts,
    note_number,
    read_card,
)
from visir.encoders.sources import order_named
from visir.errors import CollectionError, EmbeddingError, EncoderError, ImageError, VisirError, nearest, raise_faults
from visir.files import cache_directory
from visir.fingerprint import hash_json
from visir.progress import Progress
from visir.remote import UnreachableError
from visir.storage import Scratch, SharedFolder
from visir.storage.disk import disk_faults

_Group: TypeAlias = tuple[list[str], NDArray[np.float32]]
WAITING_SECONDS = 600.0
"""A process that waits for others says so at once, and then this often."""
_LISTED_SECONDS, _WAIT_SECONDS = 10.0, 10.0
_GROUP = 16_384
"""Rows of a row group of a part, or a few more: batches are not cut."""


class LostError(Exception):
    """Another process works on this part by now."""


# One input file becomes one part: a Parquet file of ids and vectors, with the card in its metadata. It is written row
# group by row group as its pictures come, so memory does not grow with the file. It says nothing of when, where or by
# whom it was made: the same input gives the same bytes.


def write_part(
    path: Path,
    encoder: Encoder,
    pictures: Iterator[StreamedPicture],
    options: ForwardOptions,
    *,
    prefix: str = "",
    facts: Mapping[str, Any],
    lost: Callable[[], bool] = lambda: False,
) -> tuple[int, int]:
    """Encode the pictures of one file into a new local file: how many have a vector, and how many are set aside."""
    size = options.batch_size or encoder.batch_size
    count, broken = 0, dict[str, str]()
    writer: pq.ParquetWriter | None = None
    with ExitStack() as opened:
        batches = _vectors(encoder, pictures, options, prefix, broken, lost)
        for ids, vectors in _groups(opened.enter_context(closing(batches)), encoder.dimension_of("image") or 1):
            schema = pa.schema([("image_id", pa.large_string()), ("vector", pa.list_(pa.float32(), vectors.shape[1]))])
            if writer is None:
                writer = pq.ParquetWriter(
                    path,
                    schema,
                    compression="none",
                    use_dictionary=False,
                    write_statistics=False,  # they would stand where no checksum is
                    write_page_checksum=True,
                )
                opened.callback(writer.close)
            rows = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
            writer.write_table(pa.table([pa.array(ids, pa.large_string()), rows], schema=schema))
            count += len(ids)
        assert writer is not None, "there is always a last group"
        card = {
            **facts,
            "version": FORMAT,
            "modality": "image",
            "encoder": encoder.stored_card.to_dict(),
            "batch size": size,
            "count": count,
            "broken": broken,
        }
        writer.add_key_value_metadata({"visir": orjson.dumps(card, option=orjson.OPT_SORT_KEYS).decode()})
    return count, len(broken)


def _vectors(
    encoder: Encoder,
    pictures: Iterator[StreamedPicture],
    options: ForwardOptions,
    prefix: str,
    broken: dict[str, str],
    lost: Callable[[], bool],
) -> Generator[_Group, None, None]:
    """The ids and vectors of pictures, batch by batch; those that cannot be used are added to `broken`."""
    size = options.batch_size or encoder.batch_size
    root = encoder.root_encoder("image").for_role("document")
    heads, above = list[Encoder](), encoder  # those that are functions of another one's vectors, the lowest first
    while (below := above.base_encoder("image")) is not None:
        heads, above = [above, *heads], below

    def id_of(picture: StreamedPicture) -> str:
        return prefix + picture.id

    def prepare(picture: StreamedPicture) -> Pixels | ImageError:
        if isinstance(picture.data, ImageError):
            return picture.data
        try:
            with opened(picture.data, picture.where, least=root.decoded_side) as image:
                return preprocessed(root.preprocess, image, lambda: picture.where, encoder.card.name)
        except ImageError as fault:
            return fault

    def begin(_: object, pixels: list[Pixels], faults: object) -> Callable[[], Embedded]:
        return root.begin_images(pixels) if pixels else lambda: np.zeros((0, 1), np.float32)

    lanes = lanes_of(root)
    step = size if lanes is None else min(size, PIECE)
    batches = iter(lambda: list(islice(pictures, size)), [])
    pieces = (batch[start : start + step] for batch in batches for start in range(0, len(batch), step))
    with closing(embedded(root, pieces, prepare, begin, id_of, options, lanes)) as made:
        for piece, several, faults in made:
            if lost():
                raise LostError
            broken.update(faults)
            ids = [name for name in map(id_of, piece) if name not in faults]
            if ids:
                vectors = one_each(finite(several, ids, encoder.label), encoder.card.name)
                for head in heads:
                    vectors = head.project("image", vectors)
                yield ids, vectors


def _groups(batches: Iterator[_Group], dimension: int) -> Iterator[_Group]:
    """The batches, joined into row groups; the last one has what is left, which may be nothing."""
    names, parts = list[str](), [np.zeros((0, dimension), np.float32)]
    for ids, vectors in batches:
        parts = [*(parts if names else ()), vectors]
        names += ids
        if len(names) >= _GROUP:
            yield names, np.concatenate(parts)
            names, parts = [], [vectors[:0]]
    yield names, np.concatenate(parts)


@dataclass
class PartsEncoding:
    """What `encode_parts` did in this process."""

    parts: Parts  # the folder of parts
    files: int = 0  # how many input files it encoded
    images: int = 0  # how many pictures have a vector from this process
    broken: int = 0  # how many it set aside
    passed_over: int = 0  # how many pictures of tars it passed over: of a sample with several the first is taken
    links: int = 0  # how many links in tars it passed over, hard or symbolic, with the name of a picture
    # The tars with more behind the mark of their end, which is not read.
    going_on: list[str] = field(default_factory=list)
    seconds: float = 0.0  # how long the call took, waiting for others included
    encoding_seconds: float = 0.0  # how long of this it was at files, its own failures included
    # Input file → why it was given up, and by whom. Nothing of these files is in the parts.
    given_up: Mapping[str, str] = field(default_factory=dict)


def encode_parts(
    model: Encoder | str | Path,
    source: str | Path,
    parts: str | Path,
    *,
    batch_size: int | None = None,
    workers: int | None = None,
    skip_broken: bool = False,
    ids: Literal["file", "key"] | None = None,
    replace: bool = False,
    lease: float | None = None,
) -> PartsEncoding:
    """Encode the pictures in files of any number and size, together with whoever else calls the same.

    The call returns when all files have their parts, or cannot have them. A killed one loses the file that it was at.

    Args:
        model: An encoder with a version, or a name that `visir.load` takes.
        source: A folder, a pattern or an address of tars, zips or Parquet files: "s3://bucket/laion/*.tar". They are
            streamed.
        parts: A new folder, or one of such parts, here or elsewhere ("s3://bucket/parts").
        batch_size: Pictures per forward pass; by default the encoder's own. All processes take that of the first.
        workers: Threads that decode and preprocess; by default one per core.
        skip_broken: Set broken pictures aside, and list them in their part. Otherwise a file with one fails.
        ids: "file" puts the name of the file before the key of a picture ("00012.tar/000120007"); "key" takes the key
            alone, for keys that are unique over all files. By default "file". All processes take that of the first.
        replace: Encode again what has changed in the source, and what was given up (`Parts.give_up`) and is there;
            with `skip_broken`, also the files with pictures that were set aside: the cause may have passed.
        lease: Seconds without a sign of life after which a process counts as dead; by default 120. All processes take
            that of the first. Clocks of machines may differ by less than this.

    Raises:
        CollectionError: Files could not be encoded; all others are. It names each of them.
        EmbeddingError: The folder holds something else, or parts of another model.
        EncoderError: The model encodes no pictures, several vectors for each, or has no version; or an option is wrong.
        UnreachableError: A place elsewhere did not answer several times.

    Example:
        >>> import io, tarfile
        >>> from pathlib import Path
        >>> from PIL import Image
        >>> from visir.encoders import encode_parts
        >>> Path("shards").mkdir()
        >>> for number in range(2):
        ...     Image.new("RGB", (8, 8), (number, 0, 0)).save(f"{number}.png")
        ...     with tarfile.open(f"shards/{number}.tar", "w") as tar:
        ...         tar.add(f"{number}.png")
        >>> encode_parts("pixels", "shards", "parts").files
        2
        >>> [vectors.ids.to_pylist() for vectors in encode_parts("pixels", "shards", "parts").parts]
        [['0.tar/0'], ['1.tar/1']]
    """
    started = time.monotonic()
    for name, value, unit in (("batch_size", batch_size, "pictures"), ("lease", lease, "seconds")):
        if value is not None and not value > 0:
            raise EncoderError(f"{name}={value!r}: a number of {unit} above 0.", hint=f"or leave {name} out")
    with order_named("the model comes first: encode_parts(model, source, parts)", model, source):
        encoder = _encoder_of_images(model)
    inputs = patiently(InputFiles, source)
    if inputs.holds(parts):
        raise EmbeddingError(
            f"{parts}: lies in the source, {source}.", hint="name a folder elsewhere (--parts)", code="lies-source"
        )
    place = open_place(parts)
    settings = {"batch size": batch_size, "ids": ids, "lease": lease}
    if ids not in (None, "file", "key"):
        raise EncoderError(f"ids={ids!r}: no way to make ids.", hint=nearest(str(ids), ("file", "key")))
    usual = {"batch size": encoder.batch_size, "ids": "file", "lease": LEASE_SECONDS}
    given = {name: value for name, value in settings.items() if value is not None}
    own = {"encoder": encoder.stored_card.to_dict(), **usual, **given}
    plan = patiently(agreed_plan, place, own, given)
    todo = patiently(agreed_parts, place, inputs, replace=replace, retry=replace and skip_broken)
    options = ForwardOptions(int(plan["batch size"]), workers, skip_broken)
    worker = _Worker(place, inputs, encoder, options, plan, PartsEncoding(Parts(place)))
    clear_away(place, worker.seconds)
    worker.work(todo)
    clear_away(place, worker.seconds)  # what was left a moment before this began is old enough now
    worker.result.seconds = time.monotonic() - started
    worker.result.given_up = patiently(worker.result.parts.given_up)
    raise_faults(
        CollectionError,
        f"{inputs.source}: {len(worker.failed):,} of {counted(len(todo), 'files')} could not be encoded",
        [named(name, reason) for name, reason in sorted(worker.failed.items())],
        hint="mend them (broken pictures: --skip-broken), and run the same again: finished files are skipped; "
        "one that cannot be mended is left out by --give-up FILE (in Python: Parts(place).give_up)",
        code="could-not-encoded",
    )
    return worker.result


@dataclass
class _Worker:
    """This process among those that make the parts."""

    place: SharedPlace
    inputs: InputFiles
    encoder: Encoder
    options: ForwardOptions
    plan: Mapping[str, Any]
    result: PartsEncoding
    failed: dict[str, str] = field(default_factory=dict)
    began: float = field(default_factory=time.time)
    waiting_shown: float | None = None

    @property
    def spare(self) -> SharedFolder:
        """Where a part lies whose upload failed, until it is sent."""
        key = hash_json({"place": self.place.place, "encoder": self.plan["encoder"]})[:16]
        return SharedFolder(cache_directory() / "parts" / key)

    @property
    def seconds(self) -> float:
        """After so many without a sign of life a process counts as dead."""
        return float(self.plan["lease"])

    def work(self, parts: list[PartOf]) -> None:
        """Make parts until all are finished or have failed."""
        first = random.randrange(max(1, len(parts)))  # others begin elsewhere
        todo = parts[first:] + parts[:first]
        with Progress(f"encoding images with {self.encoder.card.name}", None, "images") as advance:
            while todo := self._unfinished(todo):
                if self._take_one_by_one(todo, advance):
                    self.waiting_shown = None
                    continue
                # Wait for the others, or for their leases.
                if self.waiting_shown is None or time.monotonic() - self.waiting_shown >= WAITING_SECONDS:
                    line = patiently(waiting_line, self.place, todo, self.seconds)
                    if line:
                        self.waiting_shown = time.monotonic()
                        advance.say(line)
                with advance.waiting():
                    time.sleep(min(_WAIT_SECONDS, self.seconds / 4))

    def _unfinished(self, parts: list[PartOf]) -> list[PartOf]:
        finished = patiently(self.place.listing, FOLDER)
        over = patiently(given_up_parts, self.place, finished)
        return [
            part for part in parts if not (part.is_in(finished) or part.part in over or part.file.name in self.failed)
        ]

    def _take_one_by_one(self, parts: list[PartOf], advance: Progress) -> bool:
        """Whether any part was made, or given up, before the listings were too old to go by."""
        place, seconds = self.place, self.seconds
        states, listed, worked = patiently(lease_states, place), time.monotonic(), False
        for part in parts:
            state = states.get(part.part)
            if state is not None and state.ending == "failed" and state.renewed >= self.began:
                self.failed[part.file.name] = about_lease(place, state).get("reason", "failed in another process")
                worked = True
                continue
            if state is not None and patiently(is_at_work, place, state, seconds):
                continue
            if state is not None and state.ending == "made" and patiently(place.exists, part.path):
                worked = True  # after the parts were listed
                continue
            lease = patiently(PartLease.take, place, part.part, state, seconds)
            if lease is not None:
                self._make(part, lease, advance)
                worked = True
            elif time.monotonic() - listed > _LISTED_SECONDS:
                return True
        return worked

    def _make(self, part: PartOf, lease: PartLease, advance: Progress) -> None:
        began, since = time.monotonic(), this_moment()
        with lease:
            try:
                facts: dict[str, str] = {}
                if not patiently(self.place.exists, part.path):  # it may have been finished meanwhile
                    images = patiently(self._encode, part, lease, advance)
                    facts = {} if images is None else {"began": since, "images": str(images)}
                patiently(lease.end, "made", **facts)
            except LostError:
                return
            except (ImageError, CollectionError, EmbeddingError) as fault:
                if not lease.lost:
                    self.failed[part.file.name] = reason = fault.message
                    patiently(lease.end, "failed", reason)
            except BaseException:
                with contextlib.suppress(Exception):
                    lease.end("released")
                raise
            finally:
                self.result.encoding_seconds += time.monotonic() - began

    def _encode(self, part: PartOf, lease: PartLease, advance: Progress) -> int | None:
        """How many pictures have a vector in the part; None where another process has published it."""
        about, result, passed = part.file, self.result, PassedOver()
        facts: dict[str, Any] = {"source": {"name": about.name, "size": about.size, "tag": about.tag}}
        prefix = f"{about.name}/" if self.plan["ids"] == "file" else ""

        def pictures() -> Iterator[StreamedPicture]:
            yield from self.inputs.pictures(about, passed)
            facts.update(passed.facts())  # all are read: the card is written now

        with Scratch.temporary("part") as scratch, disk_faults(scratch.path, VisirError):
            if is_there := self.spare.exists(part.path):  # its upload failed: nothing is encoded again
                path = self.spare.folder / part.path
                with path.open("rb") as stream:
                    card = read_card(stream, str(path))
                images, broken = int(card["count"]), len(card["broken"])
            else:
                path = scratch.file("part.parquet")
                images, broken = write_part(
                    path, self.encoder, pictures(), self.options, prefix=prefix, facts=facts, lost=lambda: lease.lost
                )
            if not patiently(lease.is_held):
                raise LostError
            for folder, number in ((SET_ASIDE, broken), (SIZES, path.stat().st_size)):
                if number:
                    patiently(note_number, self.place, folder, part, number)
            try:
                is_new = patiently(self.place.publish, path, part.path, lease.writer)
            except UnreachableError:
                self.spare.publish(path, part.path, lease.writer)
                raise
            if is_there:
                self.spare.remove(part.path)
            if not is_new:
                return None
        result.files += 1
        result.images += images
        result.broken += broken
        result.passed_over += passed.count
        result.links += passed.links
        result.going_on += [about.name] if passed.goes_on else []
        advance(images)
        return images


def waiting_line(place: SharedPlace, parts: Sequence[PartOf], seconds: float) -> str:
    """What is waited for, and until when; "" where nobody works on any of the parts."""
    states = lease_states(place)
    held = [(states[part.part], part) for part in parts if part.part in states]
    held = [(state, part) for state, part in held if is_at_work(place, state, seconds)]
    if not held:
        return ""
    state, first = min(held, key=lambda item: item[0].renewed)
    about = about_lease(place, state)
    until = datetime.fromtimestamp(state.renewed + seconds, UTC)
    which = "" if len(held) == 1 else "first "
    return (
        f"waiting for {counted(len(held), 'files')} that other processes encode: {which}{first.file.name}, by "
        f"{about.get('owner', 'unknown')} since {about.get('since', 'unknown')}; without a sign of life from there it "
        f"is taken over at {until:%H:%M:%S} UTC"
    )


def _encoder_of_images(model: Encoder | str | Path) -> Encoder:
    encoder = model if isinstance(model, Encoder) else load(model)
    if encoder.precomputed:
        raise EncoderError(f"{encoder.card.name}: these vectors are made already; there is nothing to encode.")
    if "image" not in encoder.modalities:
        raise encoder.cannot("image")
    if encoder.form != "dense":
        raise EncoderError(
            f"{encoder.card.name} makes several vectors, or weighted words, for each input; parts hold one each.",
            hint="a model of dense vectors; or visir encode without --parts",
        )
    encoder.check_versioned("parts are made by several processes")
    return encoder
