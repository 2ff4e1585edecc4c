"""Images are read, decoded and preprocessed ahead of the model: in threads, in order, with bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from visir.collections.images import ImageReader
from visir.encoders.base import Encoder
from visir.encoders.cross_encoder import CrossEncoder
from visir.encoders.inputs import Pixels
from visir.errors import EncoderError, ImageError, VisirError
from visir.records import Items
from visir.robustness.corruptions import spoilt
from visir.shortcuts.pictures import stamped
from visir.threads import usable_cores

if TYPE_CHECKING:
    from PIL.Image import Image

_BATCHES_AHEAD = 3


@dataclass(frozen=True)
class Loaded:
    """A batch: the rows `start` to `stop`.

    Attributes:
        start: The first row.
        stop: The row after the last one.
        pixels: The preprocessed images, in order, without the broken ones.
        broken: Id to reason, of the images that cannot be used.
    """

    start: int
    stop: int
    pixels: list[Pixels]
    broken: dict[str, str]


def load_images(
    items: Items,
    encoder: Encoder | CrossEncoder,
    *,
    start: int,
    batch_size: int,
    workers: int | None,
    skip_broken: bool,
) -> Generator[Loaded, None, None]:
    """The images of the items from row `start` on, preprocessed, in batches, at most a few batches ahead.

    Threads suffice: decoding and resizing happen in C without the interpreter's lock, and nothing has to be copied
    between processes. Batches end at multiples of `batch_size`, whatever `start` is and whichever images are broken, so
    a resumed encode computes the same batches as an uninterrupted one.

    Raises:
        ImageError: An image is broken, and `skip_broken` is false.
    """
    reader = ImageReader(items)
    spoil, stamp = spoilt(items), stamped(items, encoder.preprocess)
    ids = items.ids.to_pylist()

    def prepare(row: int) -> Pixels | ImageError:
        try:
            with reader.opened(row) as image:
                return preprocess(row, image)
        except ImageError as fault:
            return fault

    def preprocess(row: int, image: Image) -> Pixels | ImageError:
        try:
            pixels: Pixels = stamp(row, encoder.preprocess(spoil(row, image)))
            return pixels
        except ImageError as fault:  # a picture that this model cannot take: a sliver of 10,000 × 1 pixels
            return ImageError(f"{reader.where(row)}: {fault.message}", hint=fault.hint)
        except VisirError:
            raise
        except Exception as fault:
            # The preprocessing is a library's code; what it raises does not say which image it was.
            raise EncoderError(
                f"{reader.where(row)}: the preprocessing of {encoder.card.name} failed on {image.size}: {fault!r}"
            ) from fault

    bounds = [
        (begin, min(begin + batch_size, len(ids)))
        for begin in range(start - start % batch_size, len(ids), batch_size)
    ]  # fmt: skip
    # Closed explicitly: after an error the traceback would keep the generator, and so its threads, alive.
    with closing(_ahead(prepare, [(max(a, start), b) for a, b in bounds], workers)) as batches:
        for begin, stop, prepared in batches:
            pixels: list[Pixels] = []
            broken: dict[str, str] = {}
            for row, result in enumerate(prepared, begin):
                if not isinstance(result, ImageError):
                    pixels.append(result)
                elif skip_broken:
                    broken[ids[row]] = result.message
                else:
                    raise ImageError(
                        result.message, hint=f"{result.hint}; or set broken images aside, counted: --skip-broken"
                    ) from result
            yield Loaded(begin, stop, pixels, broken)


def _ahead(
    work: Callable[[int], Pixels | ImageError], bounds: list[tuple[int, int]], workers: int | None
) -> Generator[tuple[int, int, list[Pixels | ImageError]], None, None]:
    executor = ThreadPoolExecutor(workers or usable_cores(), thread_name_prefix="load")
    waiting: deque[tuple[int, int, list[Future[Pixels | ImageError]]]] = deque()
    coming = iter(bounds)
    try:
        while True:
            while len(waiting) < _BATCHES_AHEAD and (bound := next(coming, None)) is not None:
                waiting.append((*bound, [executor.submit(work, row) for row in range(*bound)]))
            if not waiting:
                return
            begin, stop, futures = waiting.popleft()
            yield begin, stop, [future.result() for future in futures]
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
