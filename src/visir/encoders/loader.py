"""Images are read, decoded and preprocessed ahead of the model: in threads, in order, with bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from visir.collections.images import ImageReader
from visir.encoders.base import Encoder
from visir.encoders.cross_encoder import CrossEncoder
from visir.encoders.inputs import Pixels
from visir.errors import EncoderError, ImageError, VisirError
from visir.records import Items
from visir.robustness.corruptions import spoilt
from visir.shortcuts.view import stamped
from visir.threads import usable_cores

if TYPE_CHECKING:
    from PIL.Image import Image

Input = TypeVar("Input")
Batch = TypeVar("Batch", bound=Sequence[Any])
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
    work: Callable[[Input], Pixels | ImageError], batches: Iterable[Batch], workers: int | None
) -> Generator[tuple[Batch, list[Pixels | ImageError]], None, None]:
    """Batches with what `work` makes of their inputs in threads, in order, at most a few batches ahead."""
    threads = workers or usable_cores()
    executor = ThreadPoolExecutor(threads, thread_name_prefix="load")
    waiting: deque[tuple[Batch, list[Future[list[Pixels | ImageError]]]]] = deque()
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
