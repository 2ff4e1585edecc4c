"""`encode_items`: items through an encoder, kept in the store. Everything is encoded on this road."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar, Unpack

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.collections.images import ImageReader
from visir.display import Displayed
from visir.encoders.base import Encoder
from visir.encoders.cross_encoder import CrossEncoder
from visir.encoders.forms import ItemPart, as_dense, joined, shared_part, taken
from visir.encoders.intake import Embedded, Pixels
from visir.encoders.lanes import TEXTS, lanes_of, over_lanes, pieces
from visir.encoders.loading import Reader, load, with_suffixes
from visir.encoders.sources import check_accepted, items_of, order_named
from visir.encoders.store import (
    Chunks,
    Entry,
    Store,
    check_broken,
    check_there,
    image_marks,
    inside_entry,
    kept_form,
    usable_entry,
    without_broken,
    write_entry,
)
from visir.errors import (
    CollectionError,
    ConfigurationError,
    EmbeddingError,
    EncoderError,
    ImageError,
    VisirError,
    nearest,
    raise_faults,
)
from visir.progress import Progress
from visir.records import (
    Embeddings,
    Items,
    Modality,
    MultiVectorEmbeddings,
    Role,
    SparseEmbeddings,
    TokenVectors,
    Vectors,
)
from visir.records.items import PLURALS
from visir.robustness.corruptions import spoilt
from visir.shortcuts.view import endings, plain_texts, stamped
from visir.threads import usable_cores

if TYPE_CHECKING:
    from PIL.Image import Image


Input = TypeVar("Input")
Group = TypeVar("Group", bound=Sequence[Any])
_BATCHES_AHEAD = 3
_AT_ONCE = 16
"""Pictures that a thread gets at once, at most."""


@dataclass(frozen=True)
class Loaded:
    """A batch: the rows `start` to `stop`."""

    start: int  # the first row
    stop: int  # the row after the last one
    pixels: list[Pixels]  # the preprocessed images, in order, without the broken ones
    broken: dict[str, str]  # id to reason, of the images that cannot be used


def load_images(
    items: Items,
    encoder: Encoder | CrossEncoder,
    *,
    start: int,
    batch_size: int,
    workers: int | None,
    skip_broken: bool,
) -> Generator[Loaded, None, None]:
    """The images of the items from row `start` on, preprocessed, in batches, at most a few batches ahead."""
    # Batches end at multiples of `batch_size`, whatever `start` is and whichever images are broken, so a resumed encode
    # computes the same batches as an uninterrupted one. Threads suffice: decoding and resizing happen in C without the
    # interpreter's lock, and nothing has to be copied between processes.
    ids, groups = items.ids.to_pylist(), _batches(start, len(items), batch_size)
    ahead = prepared_ahead(_preparation(items, encoder), groups, ids.__getitem__, workers, skip_broken)
    with closing(ahead) as batches:
        for rows, pixels, broken in batches:
            yield Loaded(rows.start, rows.stop, pixels, broken)


def _batches(start: int, stop: int, size: int) -> Iterator[range]:
    """The rows from `start` to `stop` in batches that end at multiples of their size."""
    for begin in range(start - start % size, stop, size):
        yield range(max(begin, start), min(begin + size, stop))


def _preparation(items: Items, encoder: Encoder | CrossEncoder) -> Callable[[int], Pixels | ImageError]:
    """From the row of an image to its pixels, or why there are none. Thread-safe."""
    reader = ImageReader(items)
    spoil, stamp = spoilt(items), stamped(items, encoder.preprocess)
    least = getattr(encoder, "decoded_side", None)  # a cross-encoder has none

    def prepare(row: int) -> Pixels | ImageError:
        def work(image: Image) -> Pixels:
            pixels: Pixels = stamp(row, encoder.preprocess(spoil(row, image)))
            return pixels

        try:
            with reader.opened(row, least=least) as image:
                return preprocessed(work, image, lambda: reader.where(row), encoder.card.name)
        except ImageError as fault:
            return fault

    return prepare


def preprocessed(
    work: Callable[[Image], Pixels], image: Image, where: Callable[[], str], name: str
) -> Pixels | ImageError:
    """A picture as the input of a model, or why it cannot be one."""
    try:
        return work(image)
    except ImageError as fault:  # a picture that this model cannot take: a sliver of 10,000 × 1 pixels
        return ImageError(f"{where()}: {fault.message}", hint=fault.hint, lasting=True, code=fault.code)
    except VisirError:
        raise
    except Exception as fault:
        # The preprocessing is a library's code; what it raises does not say which image it was.
        raise EncoderError(
            f"{where()}: the preprocessing of {name} failed on {image.size}: {fault!r}", code="preprocessing-failed"
        ) from fault


def prepared_ahead(
    work: Callable[[Input], Pixels | ImageError],
    batches: Iterable[Group],
    id_of: Callable[[Input], str],
    workers: int | None,
    skip_broken: bool,
) -> Generator[tuple[Group, list[Pixels], dict[str, str]], None, None]:
    """Batches with what `work` makes of their inputs in threads, and why it makes nothing of some, by id."""
    # In order, at most a few batches ahead.
    threads = workers or usable_cores()
    executor = ThreadPoolExecutor(threads, thread_name_prefix="load")
    waiting: deque[tuple[Group, list[Future[list[Pixels | ImageError]]]]] = deque()
    coming = iter(batches)
    try:
        while True:
            while len(waiting) < _BATCHES_AHEAD and (batch := next(coming, None)) is not None:
                # Few pictures at once: handing over one costs 20 µs, and every thread is to have some of each batch.
                step = max(1, min(_AT_ONCE, len(batch) // (2 * threads)))
                pieces = (batch[start : start + step] for start in range(0, len(batch), step))
                waiting.append(
                    (batch, [executor.submit(lambda piece: list(map(work, piece)), piece) for piece in pieces])
                )
            if not waiting:
                return
            batch, futures = waiting.popleft()
            results = (result for future in futures for result in future.result())
            pixels, broken = _sorted_out(batch, results, id_of, skip_broken)
            yield batch, pixels, broken
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _sorted_out(
    batch: Sequence[Input], results: Iterable[Pixels | ImageError], id_of: Callable[[Input], str], skip_broken: bool
) -> tuple[list[Pixels], dict[str, str]]:
    """The pixels of a batch, and id to reason of what cannot be used."""
    pixels: list[Pixels] = []
    broken: dict[str, str] = {}
    for item, result in zip(batch, results, strict=True):
        if not isinstance(result, ImageError):
            pixels.append(result)
        elif skip_broken:
            broken[id_of(item)] = result.reason
        else:
            raise ImageError(
                result.message,
                hint=f"{result.hint}; or set broken images aside, counted: --skip-broken (for training, take them out "
                "of the list)",
            ) from result
    return pixels, broken


Batch = TypeVar("Batch")
_WINDOW = 8
"""Batches of texts that are sorted by length together, so that a batch is padded to little more than its content."""


@dataclass(frozen=True)
class ForwardOptions:
    """How items go through an encoder."""

    batch_size: int | None = None  # inputs per forward pass; None for the encoder's own
    workers: int | None = None  # threads that read, decode and preprocess; None for one per core
    skip_broken: bool = False  # whether broken images are set aside; otherwise the first one stops the work


def encode_missing(
    chunks: Chunks, encoder: Encoder, items: Items, options: ForwardOptions, rows: range | None = None
) -> tuple[int, float]:
    """Encode those of the items, or of these rows of them, that are in no chunk: how many, and in how many seconds."""
    rows = range(len(items)) if rows is None else rows
    check_broken(chunks.broken(rows), items, options.skip_broken)
    started, gaps = time.perf_counter(), chunks.missing(rows)
    computed, size, title = sum(map(len, gaps)), options.batch_size or encoder.batch_size, PLURALS[items.modality]
    step = alignment(encoder, items.modality, options.batch_size)
    with Progress(f"encoding {title} with {encoder.card.name}", len(rows), title) as advance:
        advance(len(rows) - computed)
        for gap in gaps:
            first = gap.start - gap.start % step
            part = items if (first, gap.stop) == (0, len(items)) else items.take(np.arange(first, gap.stop))
            if items.modality == "text":
                made = _text_parts(encoder, part, gap.start - first, size)
            else:
                made = _image_parts(encoder, part, gap.start - first, len(items) - first, size, options)
            chunks.begin(row := gap.start)
            with closing(made):
                for stop, vectors, broken in made:
                    chunks.append(first + stop, vectors, broken)
                    advance(first + stop - row)
                    row = first + stop
    check_broken(chunks.broken(rows), items, options.skip_broken)
    return computed, time.perf_counter() - started


def entry_card(encoder: Encoder, items: Items, seconds: float) -> dict[str, object]:
    """What the card of an entry says about where its vectors come from."""
    return {
        "modality": items.modality,
        "encoder": encoder.card.to_dict(),
        "items": {
            "name": items.name,
            "title": items.title,
            "count": len(items),
            "fingerprint": items.fingerprint,
        },
        "form": encoder.form,
        "seconds": round(seconds, 3),
    }


def alignment(encoder: Encoder, modality: Modality, batch_size: int | None) -> int:
    """Encoding that begins at a multiple of so many inputs makes the same batches as encoding from the first on."""
    # Same batches, same vectors: to the last bit, where the machine and its number of threads are the same.
    size = batch_size or encoder.batch_size
    return size * _WINDOW if modality == "text" else size


class _Part(NamedTuple):
    """The vectors of the items up to row `stop`, without those of the broken ones."""

    stop: int
    vectors: Embedded
    broken: dict[str, str]


def _image_parts(
    encoder: Encoder, items: Items, start: int, total: int, size: int, options: ForwardOptions
) -> Generator[_Part, None, None]:
    """The vectors of images, or of texts with images, batch by batch, or piece by piece."""
    # total: So many items there are in all, from the first of these on.

    def begin(rows: range, pixels: list[Pixels], broken: Mapping[str, str]) -> Callable[[], Embedded]:
        if not pixels:
            none = np.zeros((0, encoder.dimension_of(items.modality) or 0), np.float32)
            return lambda: TokenVectors(none, np.zeros(1, np.int64)) if encoder.form == "multi-vector" else none
        if items.texts is None:
            return encoder.begin_images(pixels)
        texts = texts_of(encoder, items.take(np.arange(rows.start, rows.stop)))
        paired = [text for row, text in zip(rows, texts, strict=True) if ids[row] not in broken]
        return partial(encoder.embed_texts_with_images, paired, pixels)

    ids, lanes = items.ids.to_pylist(), lanes_of(encoder) if items.texts is None else None
    if lanes is not None and encoder.form == "multi-vector":
        size = 1  # hundreds of tokens a picture: products are large enough, and no vector depends on other pictures
    groups = _batches(start, len(items), size) if lanes is None else pieces(start, len(items), size, total)
    made = embedded(encoder, groups, _preparation(items, encoder), begin, ids.__getitem__, options, lanes)
    with closing(made):
        for rows, vectors, broken in made:
            yield _Part(rows.stop, vectors, broken)


def embedded(
    encoder: Encoder,
    groups: Iterable[Group],
    prepare: Callable[[Input], Pixels | ImageError],
    begin: Callable[[Group, list[Pixels], Mapping[str, str]], Callable[[], Embedded]],
    id_of: Callable[[Input], str],
    options: ForwardOptions,
    lanes: int | None,
) -> Generator[tuple[Group, Embedded, dict[str, str]], None, None]:
    """Groups of inputs with their vectors, in order, and why there are none of some of them, by id."""
    # prepare: An input as the model takes it, or why it cannot be had. begin: Begins to compute what is left of a
    # group; what it returns waits for the vectors. lanes: See `lanes_of`.
    if lanes is None or lanes == 1 or options.workers is not None:
        # Closed explicitly: after an error the traceback would keep the generator, and so its threads, alive.
        with closing(prepared_ahead(prepare, groups, id_of, options.workers, options.skip_broken)) as ahead:
            if lanes is None:
                for (group, _, broken), vectors in computed(encoder, ahead, lambda batch: begin(*batch)):
                    yield group, vectors, broken
            else:
                yield from over_lanes(lambda batch: (batch[0], begin(*batch)(), batch[2]), ahead, lanes)
        return

    # A lane reads what it computes: threads that read ahead would compete with it for its core.
    def work(group: Group) -> tuple[Group, Embedded, dict[str, str]]:
        pixels, broken = _sorted_out(group, map(prepare, group), id_of, options.skip_broken)
        return group, begin(group, pixels, broken)(), broken

    yield from over_lanes(work, groups, lanes)


def computed(
    encoder: Encoder, batches: Iterable[Batch], begin: Callable[[Batch], Callable[[], Embedded]]
) -> Generator[tuple[Batch, Embedded], None, None]:
    """Batches with their vectors, in order; the next one is begun first where the encoder computes ahead."""
    begun: deque[tuple[Batch, Callable[[], Embedded]]] = deque()
    for batch in batches:
        begun.append((batch, begin(batch)))
        if len(begun) > encoder.computes_ahead:
            first, wait = begun.popleft()
            yield first, wait()
    for last, wait in begun:
        yield last, wait()


def _text_parts(encoder: Encoder, items: Items, start: int, size: int) -> Generator[_Part, None, None]:
    """The vectors of texts, window by window."""
    column, suffixes, lanes = plain_texts(items), endings(items), lanes_of(encoder)
    window, size = size * _WINDOW, size if lanes is None else min(size, TEXTS)
    begun: deque[tuple[int, NDArray[np.int64], int]] = deque()

    def batches() -> Iterator[list[str]]:
        for begin in range(start, len(column), window):
            texts: list[str] = column[begin : begin + window].to_pylist()
            if suffixes is not None:
                texts = with_suffixes(encoder, texts, suffixes[begin : begin + window])
            # A stable sort: equal lengths keep their order, so the batches are the same in every run.
            order = np.argsort([len(text) for text in texts], kind="stable")
            firsts = range(0, len(texts), size)
            begun.append((begin + len(texts), order, len(firsts)))
            for first in firsts:
                yield [texts[row] for row in order[first : first + size]]

    made: list[Embedded] = []
    with closing(over_lanes(encoder.embed_texts, batches(), lanes or 1)) as embedded:
        for vectors in embedded:
            made.append(vectors)
            stop, order, count = begun[0]
            if len(made) == count:
                yield _Part(stop, taken(joined(made), np.argsort(order)), {})
                begun.popleft()
                made = []


def texts_of(reader: Reader, items: Items) -> list[str]:
    """The texts of items as an encoder reads them, whatever is too long cut before its shortcut."""
    texts: list[str] = plain_texts(items).to_pylist()
    suffixes = endings(items)
    return texts if suffixes is None else with_suffixes(reader, texts, suffixes)


_BLOCK = 4096
_ORDER = "the model comes first: visir.encode(model, source)"


@dataclass(frozen=True, eq=False, repr=False)
class Encoding(Displayed):
    """What `encode_detailed` did.

    Attributes:
        embeddings: The vectors in the order of the items, without the broken ones.
        broken: Id to reason, of the images that were set aside.
        computed: How many items have their vectors from the model now; 0 when everything was in the store.
        resumed: How many an interrupted call had left.
        seconds: Wall-clock time of the computation.
        folder: Where the vectors are kept; None where they are not.
        made: When the vectors were made, in UTC; None for imported ones.
    """

    embeddings: Vectors
    broken: dict[str, str]
    computed: int
    resumed: int
    seconds: float
    folder: Path | None
    made: str | None = None

    @property
    def source(self) -> str:
        """Where the vectors come from, for people, and in which folder they are."""
        where = f" ({self.folder})" if self.folder and not self.computed else ""
        return self.embeddings.origin + where


class EncodeOptions(TypedDict, total=False):
    """How items are encoded: the options of `encode`, `encode_items` and `encode_detailed`."""

    # Where vectors are kept and looked for: a store or its folder; by default the user's cache. Vectors of an encoder
    # whose card has neither weights nor a revision are not kept: nothing shows when its code changes.
    store: Store | str | Path | None
    batch_size: int | None  # inputs per forward pass; by default the encoder's own
    workers: int | None  # threads that read, decode and preprocess; by default one per core
    # Set broken images aside instead of stopping at the first one. `encode_detailed` names them. A later call without
    # `skip_broken` refuses the incomplete result.
    skip_broken: bool


def encode(
    model: Encoder | str | Path,
    source: Any,
    modality: Modality | None = None,
    *,
    role: Role = "document",
    split: str | None = None,
    images: object = None,
    **options: Unpack[EncodeOptions],
) -> Vectors:
    """The vectors of texts, of pictures, or of one side of a collection.

    Args:
        model: An encoder, or a name that `visir.load` takes.
        source: A list of texts, or {id: text}; a list of pictures (PIL images, paths, arrays), or {id: picture}; a list
            or {id: item} of texts, pictures, and both ({"text": …, "image": …}); one picture; anything that
            `visir.open` takes; `Items`, a `Task`.
        modality: Which side of a collection: "image" or "text" (captions). None takes images, where the model takes
            images and there are any.
        role: "query" or "document". It matters for models that embed the two in different ways.
        split: A split of a collection.
        images: Where the pictures of a collection are.
        **options: As of `EncodeOptions`: `store`, `batch_size`, `workers`, `skip_broken`.

    Returns:
        `Embeddings` with `ids` and `vectors` (n, d), in the order of the source; `np.asarray` gives the vectors, and
        `embeddings[id]` the vector of an item. Texts of a list are their own ids. A model of late interaction gives
        `MultiVectorEmbeddings`, a sparse one `SparseEmbeddings`.

    Raises:
        EncoderError: The model does not take this modality.
        CollectionError: The source cannot be opened.

    Example:
        >>> import visir
        >>> visir.encode("bow:64", ["a red boat", "two dogs"]).vectors.shape
        (2, 64)
        >>> len(visir.encode("pixels", "scenes:3?size=64"))
        3
    """
    with order_named(_ORDER, model, source):
        encoder = model if isinstance(model, Encoder) else load(model)
    if isinstance(source, Encoder):
        raise EncoderError(
            f"{source.card.name} is an encoder: there is nothing to encode in it.", hint=_ORDER, code="nothing-encode"
        )
    items = items_of(source, encoder, modality, role, split=split, images=images)
    return encode_items(encoder, items, role, **options)


def encode_dense(
    model: Encoder | str | Path,
    source: Any,
    modality: Modality | None = None,
    *,
    role: Role = "document",
    **options: Unpack[EncodeOptions],
) -> Embeddings:
    """`encode`, for a model that makes one dense vector for each item.

    Raises:
        EncoderError: The model makes weighted words, or several vectors for each item; and as `encode`.
    """
    return as_dense(encode(model, source, modality, role=role, **options))


def encode_items(encoder: Encoder, items: Items, role: Role = "document", **options: Unpack[EncodeOptions]) -> Vectors:
    """Encode items, or find their vectors in the store.

    An interrupted call continues where it stopped when it is repeated. Vectors are float32, not normalised. On a CPU
    they depend on batch size, order and processor by rounding only (1e-5). Several vectors per item (form
    "multi-vector") are float16, unless the encoder says `kept_dtype = "float32"`: those that were just computed too.

    Args:
        encoder: Any encoder: a model, a head over one, imported vectors.
        items: Texts, images, or both.
        role: "query" or "document". It matters for models that embed the two in different ways
            (`Encoder.distinguishes_roles`).
        **options: As of `EncodeOptions`: `store`, `batch_size`, `workers`, `skip_broken`.

    Returns:
        `Embeddings`, or `SparseEmbeddings` by an encoder that makes weighted words: (n, d), in the order of the items.

    Raises:
        ImageError: An image is broken; the message names it.
        EmbeddingError: Vectors are NaN; the message names the items.
        EncoderError: The encoder does not take items of this modality.

    Example:
        >>> from visir.encoders import encode_items, load
        >>> from visir.records import Items
        >>> queries = Items.of_texts({"q1": "a red boat", "q2": "two dogs"}, title="queries")
        >>> encode_items(load("bow:64"), queries, "query").vectors.shape
        (2, 64)
    """
    return encode_detailed(encoder, items, role, **options).embeddings


def encode_detailed(
    encoder: Encoder, items: Items, role: Role = "document", **options: Unpack[EncodeOptions]
) -> Encoding:
    """`encode_items`, and what it did: the vectors, the broken images, what was computed, and where it is kept."""
    known = tuple(EncodeOptions.__annotations__)  # one that is not known would mislead, were it ignored
    faults = [f"unknown option {name!r} ({nearest(name, known)})" for name in options if name not in known]
    raise_faults(ConfigurationError, "encoding", faults, hint="visir.encode(model, source, batch_size=64)")
    broken: dict[str, str] = {}
    if options.get("skip_broken") and items.modality == "image" and len(lacking := encoder.lacking(items)):
        whole, (items, broken) = items, without_broken(items, lacking)
        check_broken(broken, whole, skip_broken=True)
    existing = encoder.existing_vectors(items)
    if existing is not None:
        return Encoding(existing, broken, 0, 0, 0.0, None)
    check_accepted(encoder, [items])
    parts = encoder.parts(items)
    if parts is not None:
        return _joined(encoder, items, parts, role, options)
    base_encoder = encoder.base_encoder(items.modality)
    if base_encoder is not None:
        below = encode_detailed(base_encoder, items, role, **options)
        return replace(below, embeddings=encoder.project_items(items, below.embeddings))
    check_not_empty(items)
    store = options.get("store")
    store = Store(store) if isinstance(store, str | Path) else store
    forward = ForwardOptions(options.get("batch_size"), options.get("workers"), options.get("skip_broken", False))
    if encoder.card.is_versioned:
        return _encode(encoder, items, role, store or Store(), forward)
    with Store.temporary() as temporary:
        encoding = _encode(encoder, items, role, temporary, forward)
        if os.name == "nt":  # a file that is mapped cannot be removed there
            mapped = encoding.embeddings
            assert not isinstance(mapped, SparseEmbeddings), "the store keeps no weighted words"
            encoding = replace(encoding, embeddings=replace(mapped, vectors=np.array(mapped.vectors)))
        return replace(encoding, folder=None)


def _joined(
    encoder: Encoder, items: Items, parts: Mapping[Modality, ItemPart], role: Role, options: EncodeOptions
) -> Encoding:
    """The parts of items, encoded apart and joined."""
    if not parts:
        raise CollectionError(f"{items.name}: there is nothing to encode.", hint="is the split right?")
    below = {
        modality: encode_detailed(encoder.encoder_of(modality), part.items, role, **options)
        for modality, part in parts.items()
    }
    broken: dict[str, str] = {}
    for modality, part in parts.items():
        broken |= _broken_items(items, part, below[modality].broken)
    vectors = encoder.join_parts(items, parts, {kind: side.embeddings for kind, side in below.items()}, role)
    computed, resumed = (sum(getattr(side, name) for side in below.values()) for name in ("computed", "resumed"))
    return Encoding(vectors, broken, computed, resumed, sum(side.seconds for side in below.values()), None)


def _broken_items(items: Items, part: ItemPart, broken: Mapping[str, str]) -> dict[str, str]:
    """Id to reason, of the items whose text or image is broken."""
    if not broken:
        return {}
    pairs = zip(items.ids.to_pylist(), part.owners.to_pylist(), strict=True)
    return {name: broken[owner] for name, owner in pairs if owner in broken}


def key_of(encoder: Encoder, items: Items, role: Role, store: Store) -> str:
    """The name of the entry of a store for items by this encoder."""
    return store.key(encoder.stored_card, items, role if encoder.distinguishes_roles else None, kept_form(encoder))


def is_stored(encoder: Encoder, items: Items, role: Role = "document", store: Store | str | Path | None = None) -> bool:
    """Whether vectors of all these items are at hand, so that encoding them costs nothing."""
    if encoder.precomputed or not len(items):
        return encoder.precomputed
    place = Store(store) if isinstance(store, str | Path) else store or Store()
    parts = encoder.parts(items)
    if parts is not None:
        return all(is_stored(encoder.encoder_of(kind), part.items, role, place) for kind, part in parts.items())
    root = encoder.root_encoder(items.modality)
    if root.precomputed or not root.card.is_versioned:
        return root.precomputed
    return place.find(key_of(root, items, role, place)) is not None


def check_not_empty(items: Items) -> None:
    """Raise `CollectionError` when there are no items."""
    if len(items) == 0:
        raise CollectionError(
            f"{items.name}: there are no {PLURALS[items.modality]} to encode.",
            hint="is the split right?",
            code="no-encode",
        )


def _encode(encoder: Encoder, items: Items, role: Role, store: Store, options: ForwardOptions) -> Encoding:
    key = key_of(encoder, items, role, store)
    entry, done, seconds, computed = usable_entry(store, key, items), 0, 0.0, 0
    if entry is None:
        if items.places is not None and not options.skip_broken:
            check_there([items], "set broken images aside, counted: --skip-broken (skip_broken=True)")
        marks = None if items.places is None else image_marks(items)
        with store.writing(key) as change:
            if change.manifest.generation == 0:  # otherwise another process finished it while this one waited
                shared, form = shared_part(items), kept_form(encoder)
                if shared is None:
                    chunks = Chunks(inside_entry(change), items.ids, key, form, label=encoder.label)
                    chunks.remove_damaged()
                    with chunks:
                        computed, seconds = encode_missing(chunks, encoder.for_role(role), items, options)
                        done = len(items) - computed
                        write_entry(change, items.ids, chunks.parts(), form, entry_card(encoder, items, seconds))
                else:
                    below = _encode(encoder, shared.items, role, store, options)
                    vectors = below.embeddings
                    assert not isinstance(vectors, SparseEmbeddings), "the store keeps no weighted words"
                    distinct = vectors.tokens if isinstance(vectors, MultiVectorEmbeddings) else vectors.vectors
                    rows, aside = shared.rows(vectors), _broken_items(items, shared, below.broken)
                    blocks = (rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK))
                    parts = ((taken(distinct, block[block >= 0]), aside) for block in blocks)
                    write_entry(change, items.ids, parts, form, entry_card(encoder, items, below.seconds))
                    # Items with a text or image that an interrupted call had encoded; all, where it had all.
                    place = pc.index_in(shared.owners, shared.items.ids).to_numpy()
                    done = int((place < below.resumed).sum()) if below.computed else len(items)
                    computed, seconds, is_made = len(items) - done, below.seconds, below.computed > 0
                    del below, vectors, distinct, parts  # what is mapped cannot be removed everywhere
                    if is_made:
                        store.remove(key_of(encoder, shared.items, role, store))
        if marks is not None and image_marks(items) != marks and key_of(encoder, items, role, store) != key:
            store.remove(key)
            raise CollectionError(
                f"{items.name}: pictures changed while they were encoded; nothing of them is kept.",
                hint="run the same again, when nothing writes to them any more",
                code="pictures-changed-while-encoded",
            )
        entry = store.entry(key)
    check_broken(entry.broken, items, options.skip_broken)
    described = f"encoded at {entry.made}"
    origin = described if computed else f"from the vector store, {described}"
    embeddings = _in_order(entry, encoder, items, origin)
    return Encoding(embeddings, entry.broken, computed, done, seconds, entry.folder, entry.made)


def _in_order(entry: Entry, encoder: Encoder, items: Items, origin: str) -> Embeddings | MultiVectorEmbeddings:
    """The entry's vectors in the order of the items; copied only when the entry was made in another order."""
    embeddings, broken = entry.embeddings(encoder.card, origin), entry.broken
    ids = items.ids.to_pylist()
    if broken:
        ids = [name for name in ids if name not in broken]
    if len(ids) != len(embeddings):
        raise EmbeddingError(f"{entry.folder}: {len(embeddings)} vectors for {len(ids)} items.", hint="delete it")
    return embeddings if ids == embeddings.ids.to_pylist() else embeddings.select(ids)
