"""The embedding store: encoding is the costly step, so vectors are kept, by content."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.arrays import load_array
from visir.collections.images import ImageReader, content_id
from visir.collections.segments import file_of
from visir.display import counted
from visir.encoders.base import Encoder, faulty_inputs, not_finite
from visir.encoders.forms import joined, taken
from visir.encoders.intake import Embedded
from visir.encoders.loading import family_named
from visir.errors import EmbeddingError, ImageError, VisirError
from visir.fingerprint import hash_columns, hash_json
from visir.parquet import read_table
from visir.progress import Progress
from visir.records import (
    Collection,
    Embeddings,
    EncoderCard,
    HasImages,
    Items,
    MultiVectorEmbeddings,
    Role,
    TokenVectors,
    modality_of,
    strings,
)
from visir.records.vectors import NOT_FINITE
from visir.remote import RemoteFolder, UnreachableError
from visir.storage import ContentStore, FolderChange, FolderError, FolderKind, Manifest, Scratch, SharedFolder
from visir.threads import usable_cores

_MISSING, _FILE = "missing", "contents.json"
_MANY, _LARGE = 1000, 1 << 26
"""Fewer and smaller files are hashed in a tenth of a second: that needs no entry in the cache."""
_SETTLED = 2_000_000_000
"""Nanoseconds after its last change from which on a file's times tell the next change: clocks of disks tick slowly."""
CONTENTS = FolderKind("contents", "hashes of pictures", remedy="delete it: they are hashed again")


def content_fingerprint(items: Items, known: Mapping[str, str] | None = None) -> str:
    """A hash over ids and contents of all items, independent of their order."""
    # Texts enter as they are, images by `image_contents` (where `known` is explained).
    injected, columns = items.injected, [items.ids]
    if items.texts is not None:
        columns.append(items.texts)
    if items.places is not None:
        columns.append(image_contents(items, known))
    if injected is not None and any(injected.on(modality) for modality in items.modality.split("+")):
        # Texts too: a caption that ends in a shortcut is cut before it, not at its end, which gives other tokens.
        columns.append(strings([injected.fingerprint] * len(items)))
    if items.corrupted is not None and items.places is not None:
        columns.append(strings([items.corrupted.fingerprint] * len(items)))
    return hash_columns(columns)


def image_marks(source: HasImages) -> pa.StringArray:
    """A mark per image that changes when its bytes do, without reading them; of this place only."""
    # In a zip: checksum and size from its directory. A file: its size, and the times of change of its content and of
    # its entry in the file system; the latter a program cannot set. In another archive: the same of the archive, and
    # the member's name. A generated scene: its location, which determines it.
    # Two places can have the same marks: what must tell pictures of any two apart takes `image_contents`.
    marks: list[str] = []
    archives: dict[str, Callable[[str], str]] = {}
    root = str(source.root)
    for path, archive in zip(source.images["path"].to_pylist(), source.images["archive"].to_pylist(), strict=True):
        if path is None:
            marks.append("none")
        elif archive is not None:
            if archive not in archives:
                archives[archive] = _marker(Path(root, archive))
            marks.append(archives[archive](path))
        elif path.startswith("scene:"):
            marks.append(path)
        else:
            marks.append(_stat(os.path.join(root, path)))  # noqa: PTH118 (a Path per photo takes twice as long)
    return strings(marks)


def image_contents(source: HasImages, known: Mapping[str, str] | None = None) -> pa.StringArray:
    """What each image is: two have the same only where their bytes are the same, wherever they lie."""
    # A hash of its bytes; of a member of a zip, checksum and size, which are checked when it is read. What was hashed
    # is remembered with place, size and times of the files (`image_marks`), so many files are read once and not every
    # time.
    # known: Of some images, by id, the hash of the bytes (`visir.collections.images.content_id`).
    contents: list[str] = image_marks(source).to_pylist()
    ids, paths, archives = (source.images[name].to_pylist() for name in ("id", "path", "archive"))
    rows = []
    for row, (id, path, archive) in enumerate(zip(ids, paths, archives, strict=True)):
        of_zip = archive is not None and archive.lower().endswith(".zip")
        if path is None or path.startswith("scene:") or of_zip or contents[row] == _MISSING:
            continue  # the mark is of the content, or there is none
        if known is not None and id in known and path == file_of(path):
            contents[row] = known[id]
        else:
            rows.append(row)
    root = str(Path(source.root).absolute())
    places = [f"{root}\0{archives[row] or ''}\0{paths[row]}" for row in rows]
    for row, content in zip(rows, _remembered(source, rows, places, [contents[row] for row in rows]), strict=True):
        contents[row] = content
    return strings(contents)


def _remembered(source: HasImages, rows: list[int], places: list[str], marks: list[str]) -> list[str]:
    """The hashes of images, from the user's cache where the same places with the same marks were hashed before."""
    archives = source.images["archive"]
    sizes = {archives[row].as_py() or row: int(mark.split(":", 1)[0]) for row, mark in zip(rows, marks, strict=True)}
    if len(rows) < _MANY and sum(sizes.values()) < _LARGE:
        return _hashed(source, rows)
    store, key = ContentStore(CONTENTS), hash_columns([strings(places), strings(marks)], sort=False)
    if store.find(key) is not None:
        remembered: list[str] = orjson.loads((store.path(key) / _FILE).read_bytes())
        return remembered
    contents = _hashed(source, rows)
    changed = max(int(mark.split("+", 1)[1].split(":", 1)[0]) for mark in marks)
    if _MISSING not in contents and time.time_ns() - changed > _SETTLED:
        waiting = "another process is reading the same pictures; waiting for it"
        # A cache that can only be read has vectors all the same.
        with contextlib.suppress(VisirError, OSError), store.writing(key, waiting=waiting) as change:
            if change.manifest.generation == 0:
                change.write(_FILE, orjson.dumps(contents))
    return contents


def _hashed(source: HasImages, rows: list[int]) -> list[str]:
    reader, paths = ImageReader(source), source.images["path"]

    def hashed(row: int) -> str:
        path: str = paths[row].as_py()
        try:
            return content_id(reader.stored(row)) + path[len(file_of(path)) :]
        except ImageError:  # reading it again says what is wrong
            return _MISSING

    if len(rows) < _MANY:
        return [hashed(row) for row in rows]
    with (
        ThreadPoolExecutor(usable_cores(), "visir-hash") as pool,
        Progress("comparing", len(rows), "images") as advance,
    ):
        contents = []
        for content in pool.map(hashed, rows):
            contents.append(content)
            advance(1)
    return contents


def _marker(archive: Path) -> Callable[[str], str]:
    """From a member's name to its mark, for one archive."""
    if archive.suffix.lower() == ".zip":
        try:
            with zipfile.ZipFile(archive) as opened:
                marks = {member.filename: f"{member.CRC:08x}:{member.file_size}" for member in opened.infolist()}
        except (OSError, zipfile.BadZipFile):
            marks = {}  # reading the image says what is wrong with the archive, naming image and place
        return lambda name: marks.get(name, _MISSING)
    mark = _stat(str(archive))
    return lambda name: f"{mark}:{name}"


def _stat(path: str) -> str:
    try:
        status = os.stat(path)  # noqa: PTH116 (a Path per photo takes twice as long)
    except OSError:
        return _MISSING
    return f"{status.st_size}:{status.st_mtime_ns}+{status.st_ctime_ns}"


def without_change(mark: str) -> str:
    """A mark as earlier versions wrote it: without the time of change of the entry in the file system."""
    return _CHANGE.sub(r"\1", mark)


def is_same(recorded: str, now: str) -> bool:
    """Whether a recorded mark, perhaps of an earlier version, is that of the same bytes."""
    return recorded == now or (bool(recorded) and recorded == without_change(now))


_CHANGE = re.compile(r"^(\d+:-?\d+)\+-?\d+")


# How vectors are kept on disk: one for each item, or several, and in which arithmetic.

VECTORS_FILE, OFFSETS_FILE, IDS_FILE = "vectors.npy", "offsets.npy", "ids.parquet"


@dataclass(frozen=True)
class KeptForm:
    """How the vectors of an entry are kept."""

    # Whether an item has several vectors. Then `offsets.npy` (n + 1,) says which: item i has
    # `vectors[offsets[i]:offsets[i + 1]]`.
    several: bool = False
    dtype: str = "float32"  # the arithmetic of `vectors.npy`

    @property
    def name(self) -> str:
        """The form of the vectors: "dense" or "multi-vector"."""
        return "multi-vector" if self.several else "dense"


DENSE = KeptForm()


def kept_form(encoder: Encoder) -> KeptForm:
    """How the vectors of an encoder are kept."""
    return KeptForm(True, encoder.kept_dtype) if encoder.form == "multi-vector" else DENSE


VECTORS = FolderKind("vectors", "a folder of vectors", remedy="delete it: it is made again", error=EmbeddingError)


@dataclass(frozen=True)
class Entry:
    """One complete entry: a folder with `vectors.npy`, `ids.parquet` and the manifest, whose content is the card."""

    # Where items have several vectors, `offsets.npy` says which.

    folder: Path  # the folder of the entry
    card: dict[str, Any]  # encoder, collection, counts, broken inputs, when it was made (UTC)

    @property
    def broken(self) -> dict[str, str]:
        """The inputs that were set aside, with the reason."""
        with VECTORS.reading(self.folder):
            return {**self.card["broken"]}

    @property
    def made(self) -> str:
        """When it was made, UTC."""
        with VECTORS.reading(self.folder):
            return str(self.card["made"])

    def content(self) -> tuple[pa.StringArray, Embedded]:
        """The ids, and their vectors, memory-mapped."""
        flat = load_array(self.folder / VECTORS_FILE, mapped=True)
        several = self.card.get("form") == "multi-vector"
        vectors = TokenVectors(flat, load_array(self.folder / OFFSETS_FILE)) if several else flat
        return strings(read_table(self.folder / IDS_FILE)["id"]), vectors

    def embeddings(self, encoder: EncoderCard | None = None, origin: str = "") -> Embeddings | MultiVectorEmbeddings:
        """The vectors, memory-mapped. `encoder` replaces the card (the same model under another name)."""
        record = copy(self._record)  # checked as a whole, which need not be done again for another card
        vars(record).update({"origin": origin} if encoder is None else {"origin": origin, "encoder": encoder})
        return record

    @cached_property
    def _record(self) -> Embeddings | MultiVectorEmbeddings:
        with VECTORS.reading(self.folder):
            modality, encoder = modality_of(self.card["modality"]), EncoderCard.from_dict(self.card["encoder"])
            ids, vectors = self.content()
            if isinstance(vectors, TokenVectors):
                return MultiVectorEmbeddings(modality, ids, vectors.offsets, vectors.vectors, encoder)
            return Embeddings(modality, ids, vectors, encoder)


class Store:
    """A folder of entries, each named by a key over everything that determines its vectors.

    The key covers the encoder (family, revision, hash over the weights, preprocessing, dtype; its name too when the
    weights cannot be hashed), whether it makes one vector for an input or several, the modality, and the ids and
    contents of the inputs. Nothing else counts: the same photos in another collection, encoded by the same model, are
    found.

    Args:
        root: The folder of the store; `VISIR_CACHE`/embeddings by default. It can be deleted at any time.
        known: Of images that are encoded into it, by id, the hash of their bytes, as `image_contents` takes it: they
            need not be read again to be told apart.

    Example:
        >>> import tempfile
        >>> from visir.encoders import Store, encode_detailed, load
        >>> from visir.records import Items
        >>> items = Items.of_texts({"1": "a red boat"})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(folder)
        ...     [encode_detailed(load("bow:64"), items, store=store).computed for _ in range(2)]
        [1, 0]
    """

    def __init__(self, root: str | Path | None = None, *, known: Mapping[str, str] | None = None) -> None:
        self._folders, self._known = ContentStore(VECTORS, root, name="embeddings"), known
        self.root = self._folders.root

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r})"

    @classmethod
    @contextmanager
    def temporary(cls) -> Iterator[Store]:
        """A store that is removed at the end; vectors that are memory-mapped stay readable (not on Windows)."""
        with Scratch.temporary("vectors") as scratch:
            scratch.made("store/*/*/*")
            yield cls(scratch.path / "store")

    def key(self, encoder: EncoderCard, items: Items, role: Role | None = None, form: KeptForm = DENSE) -> str:
        """The name of an entry: 32 hexadecimal digits.

        Args:
            encoder: The card of the encoder.
            items: What is encoded.
            role: The role of the items, for an encoder that distinguishes roles; None for all others.
            form: How its vectors are kept.
        """
        identity = encoder.identity(items.modality)
        values: dict[str, Any] = {"encoder": identity, items.modality: content_fingerprint(items, self._known)}
        if role is not None:
            values["role"] = role
        if form.several:
            values |= {"form": form.name, "kept dtype": form.dtype}
        return hash_json(values)

    def find(self, key: str) -> Entry | None:
        """The sound entry of this key, or None. A damaged one is put aside, with a warning."""
        manifest = self._folders.find(key)
        if manifest is None:
            return None
        entry = Entry(self._folders.path(key), dict(manifest.content))
        try:
            entry.embeddings()
        except (OSError, ValueError, KeyError, EmbeddingError) as fault:
            self._folders.put_aside(key, str(fault))
            return None
        return entry

    def remove(self, key: str) -> None:
        """Remove an entry. Vectors that are memory-mapped somewhere stay readable there (not on Windows)."""
        self._folders.remove(key)

    @contextmanager
    def writing(self, key: str) -> Iterator[FolderChange]:
        """Be the only writer of this key; another process that needs the same waits, and then finds the entry."""
        with self._folders.writing(key, waiting="another process is encoding the same; waiting for it") as change:
            yield change

    def entry(self, key: str) -> Entry:
        """The entry that was just written."""
        path = self._folders.path(key)
        return Entry(path, dict(Manifest.read(path, VECTORS).content))

    def shards(self, key: str) -> SharedFolder:
        """Where several processes put the chunks of this entry while they make it (`visir.encoders.shards`)."""
        return SharedFolder(self._folders.path(key).with_suffix(".shards"))


# Images that cannot be read: when they stop the work, and when they can be read again.


def usable_entry(store: Store, key: str, items: Items) -> Entry | None:
    """The entry of a key; None where there is none, or where an image that was set aside can be read by now."""
    # An entry of the second kind is removed: a network share was not mounted when it was made.
    entry = store.find(key)
    if entry is None or not is_readable_again(entry.broken, items):
        return entry
    del entry  # what is mapped cannot be removed everywhere
    store.remove(key)
    return None


def is_readable_again(broken: Mapping[str, str], items: Items) -> bool:
    """Whether one of these images can be read by now."""
    return any(fault is None for _, fault in _faults(items, broken))


def without_broken(items: Items, suspects: pa.StringArray) -> tuple[Items, dict[str, str]]:
    """The items without those whose image cannot be read, and id to reason of these."""
    broken = {name: fault.reason for name, fault in _faults(items, suspects.to_pylist()) if fault is not None}
    left = np.flatnonzero(pc.invert(pc.is_in(items.ids, pa.array(broken, pa.string()))).to_numpy(zero_copy_only=False))
    return items.take(left), broken


def _faults(items: Items, names: Iterable[str]) -> Iterator[tuple[str, ImageError | None]]:
    """What is wrong with each of some images, which are read one after the other."""
    wanted = pa.array(names, pa.string())
    reader = ImageReader(items) if len(wanted) else None
    for name, row in zip(wanted.to_pylist(), pc.index_in(wanted, items.ids).to_pylist(), strict=True):
        try:
            if reader is not None and row is not None:
                reader.open(row)
                yield name, None
        except ImageError as fault:
            yield name, fault


def reads_pictures(model: str) -> bool:
    """Whether a model that is not loaded yet computes the vectors of pictures; imported ones are looked up."""
    return family_named(model).name != "imported"


def check_there(sides: Iterable[Items | Collection], remedy: str = "take them out of the list") -> None:
    """Raise one `ImageError` for all pictures of these that are not there, before anything is encoded."""
    parts, faults = [], list[ImageError]()
    for side in sides:
        if absent := ImageReader(side).absent():
            splits = ", ".join(filter(None, side.splits)) if isinstance(side, Collection) else ""
            name = f"{side.name} ({splits})" if splits else side.name
            parts.append(f"{name}: {len(absent):,} of {counted(side.images.num_rows, 'pictures')}")
            faults += absent.values()
    if faults:
        reasons = "; ".join(fault.message.removesuffix(".") for fault in faults[:3]) + (
            "; …" if len(faults) > 3 else ""
        )
        raise ImageError(
            f"{', '.join(parts)} cannot be read: {reasons}.", hint=f"{faults[0].hint}; or {remedy}", code="cannot-read"
        )


def check_broken(broken: Mapping[str, str], items: Items, skip_broken: bool) -> None:
    """Stop when images were set aside and the caller does not allow it, or when no image is left."""
    if not broken:
        return
    reasons = "; ".join(list(broken.values())[:3]) + ("; …" if len(broken) > 3 else "")
    if len(broken) == len(items):
        raise ImageError(
            f"{items.name}: none of its {counted(len(items), 'images')} can be used: {reasons}", code="nothing-usable"
        )
    if not skip_broken:
        raise ImageError(
            f"{items.name}: {len(broken):,} of {len(items):,} images are broken: {reasons}",
            hint="mend them, or set them aside, counted: --skip-broken (for training, take them out of the list)",
            code="images-broken",
        )


# Vectors on their way into an entry: chunks of them, files that appear whole, joined when all are there.

HEADER_BYTES = 128
_FLUSH_SECONDS = 2.0
_FLUSH_BYTES = 1 << 26
_TOO_LARGE = 'bring vectors to length 1; or keep them in float32: kept_dtype = "float32" in the class of the encoder'
_CHUNK = re.compile(r"(\d{10})-(\d{10})-(\d+)-([0-9a-f]{16})\.npz")
Part: TypeAlias = tuple[Embedded, Mapping[str, str]]
"""The vectors of consecutive items, without those of the broken ones; and of these id and reason."""


class Chunk(NamedTuple):
    """A run of consecutive items whose vectors lie in one file."""

    start: int  # the first item
    stop: int  # the item after the last one
    broken: int  # how many of them were set aside
    digest: str  # over these numbers and the bytes of the file

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.start:010}-{self.stop:010}-{self.broken}-{self.digest}.npz"

    @classmethod
    def named(cls, name: str) -> Chunk | None:
        """The chunk in a file; None where the file is none."""
        match = _CHUNK.fullmatch(name)
        return None if match is None else cls(int(match[1]), int(match[2]), int(match[3]), match[4])

    @classmethod
    def of(cls, start: int, stop: int, broken: int, data: bytes) -> Chunk:
        """The chunk with this content."""
        digest = hashlib.blake2b(f"{start} {stop} {broken} ".encode(), digest_size=8)
        digest.update(data)
        return cls(start, stop, broken, digest.hexdigest())


class Chunks:
    """The chunks of items 0, 1, 2, …; whoever made them, and when, they join to what one process makes at once."""

    # Place: of an entry that one process makes inside its folder (`inside_entry`); of shards where all see them.
    # A chunk is an NPZ file: `vectors`, `offsets` where an item has several, and `broken`, JSON as bytes. What was
    # appended waits in memory for two seconds at most. As a context, an error or Ctrl-C loses none of it.

    def __init__(
        self,
        place: SharedFolder | RemoteFolder,
        ids: pa.StringArray,
        key: str,
        form: KeptForm = DENSE,
        *,
        label: str = "the encoder",
        title: str = "chunks",
        writer: str = "",
        seconds: float | None = None,
    ) -> None:
        # The order counts here: the key of an entry does not depend on it, but which item is the first does.
        plan = {"key": key, "inputs": hash_columns([ids], sort=False), "form": form.name, "dtype": form.dtype}
        self.folder = f"{title}-{hash_json(plan)[:16]}"
        self.place, self.form, self._ids, self._label, self._writer = place, form, ids, label, writer
        self._spare: SharedFolder | None = None
        self._seconds, self._flushed, self._full = seconds, time.monotonic(), False
        self._waiting: list[Embedded] = []
        self._aside: dict[str, str] = {}
        self._start = self._stop = 0  # of what waits
        self.chunks = sorted(filter(None, map(Chunk.named, place.listing(self.folder))))

    def missing(self, rows: range) -> list[range]:
        """The runs of these items that are in no chunk."""
        gaps, row = list[range](), rows.start
        for chunk in self.chunks:
            if row < chunk.stop and chunk.start < rows.stop:
                gaps += [range(row, chunk.start)] if row < chunk.start else []
                row = chunk.stop
        return [*gaps, range(row, rows.stop)] if row < rows.stop else gaps

    def broken(self, rows: range) -> dict[str, str]:
        """Id and reason of those of these items that were set aside."""
        names, aside = set(self._ids[rows.start : rows.stop].to_pylist()), dict(self._aside)
        for chunk in self.chunks:
            if chunk.broken and chunk.start < rows.stop and rows.start < chunk.stop:
                aside |= self.read(chunk)[1]
        return {name: reason for name, reason in aside.items() if name in names}

    def read(self, chunk: Chunk) -> Part:
        """The vectors of a chunk, and what is broken of it."""
        data = self.place.read(f"{self.folder}/{chunk.name}")
        if data is None or Chunk.of(*chunk[:3], data) != chunk:
            raise EmbeddingError(
                f"{self.folder}/{chunk.name}: damaged: it is {'not as it was written' if data else 'gone'}.",
                hint="delete it, and run what made it again: what is there already is not made again",
                code="damaged",
            )
        with np.load(io.BytesIO(data)) as arrays:
            vectors = arrays["vectors"]
            several = TokenVectors(vectors, arrays["offsets"]) if self.form.several else vectors
            return several, orjson.loads(arrays["broken"].tobytes())

    def remove(self, *chunks: Chunk) -> None:
        """Remove these chunks."""
        for chunk in chunks:
            self.place.remove(f"{self.folder}/{chunk.name}")
        self.chunks = [chunk for chunk in self.chunks if chunk not in chunks]

    def remove_damaged(self) -> None:
        """Remove the chunks that are not as they were written."""
        for chunk in list(self.chunks):
            try:
                self.read(chunk)
            except EmbeddingError:
                self.remove(chunk)

    def send(self, spare: SharedFolder) -> None:
        """Write what a place that did not answer could not be given, from where it was kept; and keep it there again
        where that fails."""
        if spare.folder == getattr(self.place, "folder", None):
            return
        self._spare = spare
        for chunk in filter(None, map(Chunk.named, spare.listing(self.folder))):
            data = spare.read(f"{self.folder}/{chunk.name}") or b""
            if Chunk.of(*chunk[:3], data) == chunk and chunk not in self.chunks:
                self.place.create(f"{self.folder}/{chunk.name}", data, self._writer)
                self.chunks = sorted([*self.chunks, chunk])
            spare.remove(f"{self.folder}/{chunk.name}")

    def begin(self, start: int) -> None:
        """Go on with `append` at this item."""
        if self._stop != start:
            self.flush()
            self._start = self._stop = start

    def append(self, stop: int, vectors: Embedded, broken: Mapping[str, str]) -> None:
        """Append the vectors of the items from where the last call ended up to `stop`, without the `broken` ones."""
        ids = [name for name in self._ids[self._stop : stop].to_pylist() if name not in broken]
        flat = _flat(vectors)
        if len(vectors) != len(ids):
            raise EmbeddingError(f"{self._label} returned {flat.shape} for {len(ids)} inputs.")
        self._check_finite(vectors, flat, ids, f"{self._label} returned NaN or infinite values for", NOT_FINITE)
        with np.errstate(over="ignore"):  # checked below
            rounded = np.ascontiguousarray(flat, self.form.dtype)
        self._check_finite(vectors, rounded, ids, f"{self.form.dtype} cannot hold the values of", _TOO_LARGE)
        self._waiting.append(TokenVectors(rounded, vectors.offsets) if isinstance(vectors, TokenVectors) else rounded)
        self._aside.update(broken)
        self._stop = stop
        size = sum(_flat(part).nbytes for part in self._waiting)
        late = time.monotonic() - self._flushed >= (_FLUSH_SECONDS if self._seconds is None else self._seconds)
        if size >= _FLUSH_BYTES or late:
            self.flush()

    def flush(self) -> None:
        """Write what waits as a chunk. The error of a full disk says how much is kept."""
        if not self._waiting:
            return
        vectors, stream = joined(self._waiting), io.BytesIO()
        arrays = {"vectors": _flat(vectors), "broken": np.frombuffer(orjson.dumps(self._aside), np.uint8)}
        if isinstance(vectors, TokenVectors):
            arrays["offsets"] = vectors.offsets
        np.savez(stream, **arrays)  # type: ignore[arg-type]  # the stubs take the arrays for the option
        data = stream.getvalue()
        chunk = Chunk.of(self._start, self._stop, len(self._aside), data)
        written = len(self._ids) - sum(map(len, self.missing(range(len(self._ids)))))
        try:
            self.place.create(f"{self.folder}/{chunk.name}", data, self._writer)
        except UnreachableError:
            if self._spare is not None:  # sent by whoever goes on
                self._spare.create(f"{self.folder}/{chunk.name}", data)
                self._waiting = []
            raise
        except FolderError as fault:
            self._full = True
            raise VisirError(
                f"{fault.message.removesuffix('.')}; {written:,} of {len(self._ids):,} are kept.",
                hint="make room (or name another place in VISIR_CACHE) and run the same again: it goes on from there",
            ) from fault
        self.chunks = sorted([*self.chunks, chunk])
        self._waiting, self._aside, self._start, self._flushed = [], {}, self._stop, time.monotonic()

    def parts(self) -> Iterator[Part]:
        """The vectors of all items, in order: of the chunks, and what waits."""
        row, waiting = 0, Chunk(self._start, self._stop, 0, "")
        for chunk in sorted([*self.chunks, *([waiting] if self._waiting else ())]):
            if chunk.stop <= row:
                continue
            vectors, broken = (joined(self._waiting), self._aside) if chunk is waiting else self.read(chunk)
            if chunk.start < row:  # another process had begun elsewhere, with batches of another size
                twice = set(self._ids[chunk.start : row].to_pylist())
                vectors = taken(vectors, np.arange(len(twice.difference(broken)), len(vectors)))
                broken = {name: reason for name, reason in broken.items() if name not in twice}
            yield vectors, broken
            row = chunk.stop

    def __enter__(self) -> Chunks:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not self._full:  # a broken image, NaN or Ctrl-C ends the run; what came before is kept
            self.flush()

    def _check_finite(self, vectors: Embedded, flat: NDArray[Any], ids: list[str], fault: str, hint: str) -> None:
        bad = not_finite(vectors, flat)
        if len(bad):
            raise EmbeddingError(f"{fault} {faulty_inputs(bad, ids)}.", hint=hint)


def inside_entry(change: FolderChange) -> SharedFolder:
    """Where the chunks of an entry lie while one process makes it: they are gone when it is finished."""
    return SharedFolder(change.expect("chunks", "*/*.npz", "*/.new-*"))


def write_entry(
    change: FolderChange, ids: pa.StringArray, parts: Iterable[Part], form: KeptForm, card: Mapping[str, Any]
) -> None:
    """Write the files of an entry from the vectors of all items in order, and commit it."""
    broken: dict[str, str] = {}
    try:
        with (
            _NewArray(change.file(VECTORS_FILE, fresh=True), form.dtype) as array,
            _NewArray(change.file(OFFSETS_FILE, fresh=True), "int64") if form.several else nullcontext() as offsets,
        ):
            if offsets is not None:  # the first is 0, and each further one where the vectors of an item end
                offsets.write(np.zeros(1, np.int64))
            for vectors, aside in parts:
                broken |= aside
                if offsets is not None and isinstance(vectors, TokenVectors):
                    offsets.write(array.count + vectors.offsets[1:])
                array.write(_flat(vectors))
            rows = array.count if offsets is None else offsets.count - 1
        left = pa.array([name for name in ids.to_pylist() if name not in broken], pa.string())
        if rows != len(left):
            raise EmbeddingError(f"{change.folder}: {rows:,} vectors for {len(left):,} items.", hint="run it again")
        pq.write_table(pa.table({"id": left}), change.file(IDS_FILE, fresh=True))
        made = datetime.now(UTC).isoformat(timespec="seconds")
        width = array.shape[0] if array.shape else 0
        change.commit({**card, "count": rows, "dimension": width, "broken": broken, "made": made})
    except OSError as fault:
        raise VisirError(
            f"{change.folder}: cannot be written ({fault.strerror}); all vectors are kept.",
            hint="make room and run the same again: it goes on from there",
        ) from fault


class _NewArray:
    """Rows of one shape, one after the other, in a new NPY file; the header comes last, when their number is known."""

    def __init__(self, path: Path, dtype: str) -> None:
        self.count, self.shape, self._dtype = 0, tuple[int, ...](), np.dtype(dtype).newbyteorder("<")
        self._stream = path.open("wb")
        self._stream.seek(HEADER_BYTES)

    def write(self, rows: NDArray[Any]) -> None:
        """Write further rows."""
        if len(rows):
            self.count, self.shape = self.count + len(rows), rows.shape[1:]
            self._stream.write(np.ascontiguousarray(rows, self._dtype).data)

    def __enter__(self) -> _NewArray:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._stream:
            if kind is None:
                shape = (self.count, *self.shape)
                text = f"{{'descr': '{self._dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"  # format 1.0
                start = b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little")
                self._stream.seek(0)
                self._stream.write(start + text.encode().ljust(HEADER_BYTES - 11) + b"\n")


def _flat(vectors: Embedded) -> NDArray[np.float32]:
    """The vectors of all inputs, one under the other."""
    return vectors.vectors if isinstance(vectors, TokenVectors) else vectors
