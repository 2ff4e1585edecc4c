"""Items through an encoder, batch by batch, into a journal."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from visir.collections.images import ImageReader
from visir.encoders.base import Encoder
from visir.encoders.cross_encoder import CrossEncoder
from visir.encoders.forms import joined, taken
from visir.encoders.intake import Embedded, Pixels
from visir.encoders.loading import with_suffixes
from visir.encoders.store import Journal, check_broken
from visir.errors import EncoderError, ImageError, VisirError
from visir.progress import Progress
from visir.records import Items, Modality, TokenVectors
from visir.records.items import PLURALS
from visir.robustness.corruptions import spoilt
from visir.shortcuts.view import endings, plain_texts, stamped
from visir.threads import usable_cores

if TYPE_CHECKING:
    from PIL.Image import Image


Input = TypeVar("Input")
Group = TypeVar("Batch", bound=Sequence[Any])
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
    # Threads suffice: decoding and resizing happen in C without the interpreter's lock, and nothing has to be copied
    # between processes. Batches end at multiples of `batch_size`, whatever `start` is and whichever images are broken,
    # so a resumed encode computes the same batches as an uninterrupted one.
    reader = ImageReader(items)
    spoil, stamp = spoilt(items), stamped(items, encoder.preprocess)
    ids = items.ids.to_pylist()

    def prepare(row: int) -> Pixels | ImageError:
        def work(image: Image) -> Pixels:
            pixels: Pixels = stamp(row, encoder.preprocess(spoil(row, image)))
            return pixels

        try:
            with reader.opened(row) as image:
                return preprocessed(work, image, lambda: reader.where(row), encoder.card.name)
        except ImageError as fault:
            return fault

    bounds = [
        (begin, min(begin + batch_size, len(ids)))
        for begin in range(start - start % batch_size, len(ids), batch_size)
    ]  # fmt: skip
    # Closed explicitly: after an error the traceback would keep the generator, and so its threads, alive.
    with closing(prepared_ahead(prepare, (range(max(a, start), b) for a, b in bounds), workers)) as batches:
        for rows, prepared in batches:
            pixels, broken = sorted_out((ids[row] for row in rows), prepared, skip_broken)
            yield Loaded(rows.start, rows.stop, pixels, broken)


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


def sorted_out(
    ids: Iterable[str], prepared: Iterable[Pixels | ImageError], skip_broken: bool
) -> tuple[list[Pixels], dict[str, str]]:
    """The usable pictures of a batch, and from the id of each other one to the reason."""
    pixels: list[Pixels] = []
    broken: dict[str, str] = {}
    for name, result in zip(ids, prepared, strict=True):
        if not isinstance(result, ImageError):
            pixels.append(result)
        elif skip_broken:
            broken[name] = result.reason
        else:
            raise ImageError(
                result.message,
                hint=f"{result.hint}; or set broken images aside, counted: --skip-broken (for training, take them out "
                "of the list)",
            ) from result
    return pixels, broken


def prepared_ahead(
    work: Callable[[Input], Pixels | ImageError], batches: Iterable[Group], workers: int | None
) -> Generator[tuple[Group, list[Pixels | ImageError]], None, None]:
    """Batches with what `work` makes of their inputs in threads, in order, at most a few batches ahead."""
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
                waiting.append((batch, [executor.submit(_each, work, piece) for piece in pieces]))
            if not waiting:
                return
            batch, futures = waiting.popleft()
            yield batch, [prepared for future in futures for prepared in future.result()]
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _each(work: Callable[[Input], Pixels | ImageError], inputs: Iterable[Input]) -> list[Pixels | ImageError]:
    return [work(each) for each in inputs]


Batch = TypeVar("Batch")
_WINDOW = 8
"""Batches of texts that are sorted by length together, so that a batch is padded to little more than its content."""


@dataclass(frozen=True)
class ForwardOptions:
    """How items go through an encoder."""

    batch_size: int | None = None  # inputs per forward pass; None for the encoder's own
    workers: int | None = None  # threads that read, decode and preprocess; None for one per core
    skip_broken: bool = False  # whether broken images are set aside; otherwise the first one stops the work


def complete(
    journal: Journal,
    encoder: Encoder,
    items: Items,
    options: ForwardOptions,
    *,
    whole: Items | None = None,
    facts: Mapping[str, Any] | None = None,
) -> tuple[int, float]:
    """Encode the items that the journal lacks, and finish it."""
    # Returns: How many items were encoded now, and the seconds that it took.
    whole = whole or items
    started, done = time.perf_counter(), journal.done
    check_broken(journal.broken, whole, options.skip_broken)
    _fill(journal, encoder, items, options)
    seconds = time.perf_counter() - started
    check_broken(journal.broken, whole, options.skip_broken)
    journal.finish({**entry_card(encoder, whole, journal.rows, seconds), **(facts or {})})
    return journal.done - done, seconds


def dimension_of(encoder: Encoder, items: Items) -> int:
    """The length of an encoder's vectors; of an encoder that does not know it, the first item is encoded."""
    known = encoder.dimension_of(items.modality)
    if known is not None:
        return known
    options = ForwardOptions(workers=1, skip_broken=True)
    for row in range(len(items)):
        first = items.take(np.array([row]))
        texts = items.modality == "text"
        parts = _text_parts(encoder, first, 0, 1) if texts else _image_parts(encoder, first, 0, 1, options)
        for part in parts:
            if len(part.vectors):
                return _width(part.vectors)
    return 1  # no image can be read, which the encoding says


def entry_card(encoder: Encoder, items: Items, count: int, seconds: float) -> dict[str, object]:
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
        "count": count,
        "dimension": encoder.dimension_of(items.modality),
        "form": encoder.form,
        "seconds": round(seconds, 3),
    }


def _width(vectors: Embedded) -> int:
    return vectors.dimension if isinstance(vectors, TokenVectors) else int(vectors.shape[1])


def alignment(encoder: Encoder, modality: Modality, batch_size: int | None) -> int:
    """Encoding that begins at a multiple of so many inputs makes the same batches as encoding from the first on.

    Same batches, same vectors: to the last bit, where the machine and its number of threads are the same.
    """
    size = batch_size or encoder.batch_size
    return size * _WINDOW if modality == "text" else size


class _Part(NamedTuple):
    """The vectors of the items up to row `stop`, without those of the broken ones."""

    stop: int
    vectors: Embedded
    broken: dict[str, str]


def _fill(journal: Journal, encoder: Encoder, items: Items, options: ForwardOptions) -> None:
    size, title = options.batch_size or encoder.batch_size, PLURALS[items.modality]
    if items.modality == "text":
        parts = _text_parts(encoder, items, journal.done, size)
    else:
        parts = _image_parts(encoder, items, journal.done, size, options)
    with closing(parts), Progress(f"encoding {title} with {encoder.card.name}", len(items), title) as advance:
        advance(journal.done)
        row = journal.done
        for part in parts:
            journal.append(part.stop, part.vectors, part.broken)
            advance(part.stop - row)
            row = part.stop
    journal.flush()


def _image_parts(
    encoder: Encoder, items: Items, start: int, size: int, options: ForwardOptions
) -> Generator[_Part, None, None]:
    """The vectors of images, or of texts with images, batch by batch."""
    batches = load_images(
        items, encoder, start=start, batch_size=size, workers=options.workers, skip_broken=options.skip_broken
    )
    with closing(batches):
        for batch, vectors in computed(encoder, batches, lambda batch: _begin(encoder, items, batch)):
            yield _Part(batch.stop, vectors, batch.broken)


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


def _begin(encoder: Encoder, items: Items, batch: Loaded) -> Callable[[], Embedded]:
    """Begin to compute a batch; what is returned waits for its vectors."""
    if not batch.pixels:
        return partial(_none, encoder, items.modality)
    if items.texts is None:
        return encoder.begin_images(batch.pixels)
    ids = items.ids[batch.start : batch.stop].to_pylist()
    texts = _texts_of(encoder, items, batch.start, batch.stop)
    paired = [text for name, text in zip(ids, texts, strict=True) if name not in batch.broken]
    return partial(encoder.embed_texts_with_images, paired, batch.pixels)


def _text_parts(encoder: Encoder, items: Items, start: int, size: int) -> Generator[_Part, None, None]:
    """The vectors of texts, window by window."""
    column, suffixes = plain_texts(items), endings(items)
    window = size * _WINDOW
    for begin in range(start, len(column), window):
        texts: list[str] = column[begin : begin + window].to_pylist()
        if suffixes is not None:
            texts = with_suffixes(encoder, texts, suffixes[begin : begin + window])
        # A stable sort: equal lengths keep their order, so the batches are the same in every run.
        order = np.argsort([len(text) for text in texts], kind="stable")
        batches = [order[first : first + size] for first in range(0, len(texts), size)]
        encoded = joined([encoder.embed_texts([texts[row] for row in rows]) for rows in batches])
        yield _Part(begin + len(texts), taken(encoded, np.argsort(order)), {})


def _none(encoder: Encoder, modality: Modality) -> Embedded:
    """The vectors of no items."""
    matrix = np.zeros((0, encoder.dimension_of(modality) or 0), np.float32)
    return TokenVectors(matrix, np.zeros(1, np.int64)) if encoder.form == "multi-vector" else matrix


def _texts_of(encoder: Encoder, items: Items, start: int, stop: int) -> list[str]:
    """The texts of some rows as the encoder reads them."""
    part = items.take(np.arange(start, stop))
    texts: list[str] = plain_texts(part).to_pylist()
    suffixes = endings(part)
    return texts if suffixes is None else with_suffixes(encoder, texts, suffixes)
