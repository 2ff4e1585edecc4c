"""Pictures as a backbone wants to see them: decoded or out of the cache, changed in training, prepared and stacked."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visir.arrays import load_array
from visir.collections.images import ImageReader
from visir.encoders.models.image_processors import NORMALISATIONS
from visir.encoders.store import image_contents
from visir.encoders.towers.base import Backbone, Inputs
from visir.errors import ConfigurationError, ImageError, VisirError
from visir.fingerprint import hash_columns, hash_json
from visir.progress import Progress
from visir.records import Collection
from visir.storage import ContentStore, FolderChange, FolderKind
from visir.threads import usable_cores
from visir.training.inputs.base import PICTURES, EpochRandom, made_ahead
from visir.training.sides import Augmentation

# Decoded pictures kept on disk, so that an epoch decodes no JPEG.

DECODED = FolderKind("pictures", "a folder of decoded pictures", remedy="delete it: it is made again")

_PIXELS, _SHAPES = "pixels.u8", "shapes.npy"
_LOOK_AFTER = 64
"""After so many pictures the room that all will need is known well enough to refuse a disk that has less."""
_AHEAD = 64


class PictureCache:
    """The pictures of a collection as bytes in one memory-mapped file, their shorter side scaled to `shorter`
    pixels."""

    # Aspect ratios stay. A picture that is smaller is kept as it is: scaling it up would cost room and add nothing.
    # Scaling is Pillow's bicubic, which smooths. What a backbone then sees has been scaled twice and differs a little
    # from what it sees in use; with `shorter` at the backbone's size or a little above, by less than JPEG's own error.
    # It is made on first use in `VISIR_CACHE`/pictures, in a folder named by the ids and contents of the pictures,
    # their order and `shorter`. A second process that wants the same waits for the first. One that is killed leaves an
    # unfinished folder, which the next begins anew; a finished one appears in one rename. All can be deleted at any
    # time.
    # Room: about 4·`shorter`² bytes a picture (COCO's 113,000 training photos at 256 pixels: 30 GB).
    # Raises `ImageError` that names a picture which cannot be read, and `VisirError` with the bytes that are needed
    # when the disk has too little room.

    def __init__(self, collection: Collection, shorter: int) -> None:
        key = hash_json(
            {
                "pictures": hash_columns([collection.images["id"], image_contents(collection)], sort=False),
                "shorter": shorter,
                "scaling": "bicubic",
            }
        )
        store = ContentStore(DECODED)
        self.folder = store.path(key)
        if store.find(key, hashed=lambda name: False) is None:
            waiting = "another process is decoding the same pictures; waiting"
            with store.writing(key, waiting=waiting, resume=False) as change:
                if change.manifest.generation == 0:
                    _write(collection, shorter, change)
        self._shapes = shapes = load_array(self.folder / _SHAPES)
        self._offsets = _offsets(shapes)
        pixels = self.folder / _PIXELS
        # An empty file cannot be mapped; and a plain view of the map is sliced faster than the map's own class.
        self._pixels = np.asarray(np.memmap(pixels, np.uint8, mode="r")) if len(shapes) else np.zeros(0, np.uint8)

    def __len__(self) -> int:
        return len(self._shapes)

    def open(self, row: int) -> Image.Image:
        """The picture in row `row` of `collection.images`."""
        height, width = self._shapes[row].tolist()
        data = self._pixels[self._offsets[row] : self._offsets[row + 1]]
        return Image.frombuffer("RGB", (width, height), data, "raw", "RGB", 0, 1)


def scaled(image: Image.Image, shorter: int) -> Image.Image:
    """`image` with its shorter side at `shorter` pixels, the longer one rounded; a smaller one as it is."""
    factor = shorter / min(image.size)
    if factor >= 1:
        return image
    width, height = (max(1, round(side * factor)) for side in image.size)
    return image.resize((width, height), Image.Resampling.BICUBIC)


def _write(collection: Collection, shorter: int, change: FolderChange) -> None:
    """Write the files of a cache that is being made."""
    count = collection.images.num_rows
    shapes = np.zeros((count, 2), np.int32)
    written = needed = 0
    try:
        with (
            closing(_decoded(collection, shorter)) as pictures,
            Progress("decoding", count, "images") as advance,
            change.file(_PIXELS).open("wb") as stream,
        ):
            for row, pixels in enumerate(pictures):
                shapes[row] = pixels.shape[:2]
                written += pixels.nbytes
                needed = written * count // (row + 1)
                stream.write(pixels.data)
                if row + 1 == _LOOK_AFTER and shutil.disk_usage(change.folder).free < needed - written:
                    raise _no_room(change.folder, count, needed, "too little room")
                advance(1)
        np.save(change.file(_SHAPES), shapes, allow_pickle=False)
    except OSError as fault:
        raise _no_room(change.folder, count, needed, fault.strerror or str(fault)) from fault


def _no_room(folder: Path, count: int, needed: int, reason: str) -> VisirError:
    room = f"about {needed:,} bytes" if needed else "room"
    return VisirError(
        f"{folder}: cannot be written ({reason}); {count:,} decoded pictures need {room}.",
        hint="make room, name another place in VISIR_CACHE, keep smaller pictures (image.cache=128), "
        "or none and decode every time: image.cache=0",
        code="cannot-written-decoded-pictures",
    )


def _decoded(collection: Collection, shorter: int) -> Generator[NDArray[np.uint8], None, None]:
    """Every picture as (height, width, 3) bytes, in order, decoded by all cores a little ahead."""
    reader = ImageReader(collection)

    def decode(row: int) -> NDArray[np.uint8]:
        return np.ascontiguousarray(scaled(reader.open(row), shorter))

    yield from made_ahead(decode, range(len(reader)), usable_cores(), _AHEAD)


def _offsets(shapes: NDArray[np.int32]) -> NDArray[np.int64]:
    sizes = shapes.astype(np.int64).prod(axis=1) * 3
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


# Augmentation of pictures: random crops, mirroring, erased rectangles; a function of the epoch and the key alone.

Box = tuple[int, int, int, int]
"""Left, top, width, height in pixels."""

_TRIES = 10
_CROP_RATIOS = (3 / 4, 4 / 3)
_ERASED_AREA = (0.02, 0.33)
_ERASED_RATIOS = (0.3, 3.3)
_MEAN_COLOUR = tuple(round(255 * mean) for mean in NORMALISATIONS["imagenet"][0])


def change(
    image: Image.Image, augmentation: Augmentation, size: tuple[int, int], draw: np.random.Generator
) -> Image.Image:
    """Crop and mirror a picture before a backbone prepares it; a crop comes out at `size` (height, width)."""
    # Bilinear with smoothing, as torchvision's `RandomResizedCrop` does it. The rectangle is cut out first, so that no
    # pixel outside of it shines in at its edges.
    if augmentation.crop is not None:
        left, top, width, height = crop_box(image.width, image.height, augmentation.crop, draw)
        image = image.crop((left, top, left + width, top + height))
        image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    if augmentation.flip and draw.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return image


def erase(prepared: Any, probability: float, draw: np.random.Generator) -> Any:
    """Blank a random rectangle of a prepared (3, height, width) picture with this probability (Zhong et al. 2020)."""
    # Bytes get ImageNet's mean colour, floats 0: both are what the papers' code leaves, which erases to 0 after
    # normalising. (Black bytes would be a strong colour, two standard deviations from the mean.) The rectangle has 2 to
    # 33 % of the area and sides between 0.3 and 3.3, torchvision's defaults.
    # Returns `prepared` itself when nothing is erased, otherwise a copy. Raises `ConfigurationError` for a backbone
    # whose inputs are not laid out like that.
    if len(prepared.shape) != 3 or prepared.shape[0] != 3:
        raise ConfigurationError(
            f"this backbone's pictures are {tuple(prepared.shape)} arrays; random erasing needs (3, height, width).",
            hint="leave it out: image.augment.erase=0",
            code="backbone-pictures-arrays",
        )
    box = erased_box(prepared.shape[2], prepared.shape[1], draw) if draw.random() < probability else None
    if box is None:
        return prepared
    left, top, width, height = box
    changed = prepared.copy() if isinstance(prepared, np.ndarray) else prepared.clone()
    whole = isinstance(changed, np.ndarray) and changed.dtype == np.uint8
    for channel, colour in enumerate(_MEAN_COLOUR if whole else (0, 0, 0)):
        changed[channel, top : top + height, left : left + width] = colour
    return changed


def crop_box(width: int, height: int, least: float, draw: np.random.Generator) -> Box:
    """A crop of a width × height picture as torchvision's `RandomResizedCrop(scale=(least, 1))` draws it."""
    # Its share of the area is uniform, the logarithm of its ratio of sides too. When none of ten draws fits inside, it
    # is the largest centred crop whose ratio is allowed.
    for crop_width, crop_height in _rectangles(width, height, (least, 1.0), _CROP_RATIOS, draw):
        if 0 < crop_width <= width and 0 < crop_height <= height:
            left = int(draw.integers(width - crop_width + 1))
            return left, int(draw.integers(height - crop_height + 1)), crop_width, crop_height
    crop_width = min(width, round(height * _CROP_RATIOS[1]))
    crop_height = min(height, round(width / _CROP_RATIOS[0]))
    return (width - crop_width) // 2, (height - crop_height) // 2, crop_width, crop_height


def erased_box(width: int, height: int, draw: np.random.Generator) -> Box | None:
    """A rectangle to erase as torchvision's `RandomErasing` draws it; None when none of ten draws fits inside."""
    for erased_width, erased_height in _rectangles(width, height, _ERASED_AREA, _ERASED_RATIOS, draw, upright=True):
        if erased_width < width and erased_height < height:
            left = int(draw.integers(width - erased_width + 1))
            return left, int(draw.integers(height - erased_height + 1)), erased_width, erased_height
    return None


def _rectangles(
    width: int,
    height: int,
    share: tuple[float, float],
    ratios: tuple[float, float],
    draw: np.random.Generator,
    upright: bool = False,
) -> list[tuple[int, int]]:
    """Ten (width, height): a uniform share of the area, a log-uniform ratio width : height (`upright`: the inverse)."""
    areas = width * height * draw.uniform(*share, size=_TRIES)
    roots = np.exp(0.5 * draw.uniform(math.log(ratios[0]), math.log(ratios[1]), size=_TRIES))
    sides = np.sqrt(areas)
    wide, high = np.rint(sides * roots).astype(int).tolist(), np.rint(sides / roots).astype(int).tolist()
    return list(zip(high, wide, strict=True) if upright else zip(wide, high, strict=True))


KEPT_BYTES = 1_000_000_000
"""Prepared pictures of a split are kept in memory up to this size, where nothing random happens to them."""


class PixelSource:
    """The pictures of a collection, by row of `collection.images`, as `backbone` prepares them."""

    # Pictures to which nothing random happens are prepared once and kept in memory when all of them need no more than
    # `KEPT_BYTES`: the epochs after the first then cost next to nothing.
    # A batch is spread over a few threads, which suffice because decoding and resizing leave the interpreter's lock.
    # Raises `ImageError` that names a picture which cannot be read, and `ConfigurationError` when the cache is smaller
    # than what the backbone sees.

    is_slow = True

    def __init__(
        self, collection: Collection, backbone: Backbone, augmentation: Augmentation | None = None, cache: int = 0
    ) -> None:
        self._reader = ImageReader(collection)
        self._backbone = backbone
        self._augmentation = augmentation or Augmentation()
        example = backbone.prepare(Image.new("RGB", (64, 64)))
        self._size: tuple[int, int] = (int(example.shape[-2]), int(example.shape[-1]))
        if 0 < cache < max(self._size):
            raise ConfigurationError(
                f"image.cache={cache} keeps pictures of {cache} pixels, but the model sees {max(self._size)}.",
                hint=f"image.cache={max(self._size)} or more; 0 decodes the files every time",
                code="image-cache-keeps-pictures",
            )
        self._cache = PictureCache(collection, cache) if cache else None
        self._keep = example.nbytes * len(self._reader) <= KEPT_BYTES
        self._kept: dict[int, Any] = {}
        cores = usable_cores()
        self._parts = 2 * cores
        self._threads = ThreadPoolExecutor(cores, thread_name_prefix="pixels")

    def __len__(self) -> int:
        return len(self._reader)

    def batch(
        self, rows: NDArray[np.int64], draw: EpochRandom | None = None, keys: NDArray[np.int64] | None = None
    ) -> Inputs:
        """The pictures `rows` as `backbone.collate` lays them out."""
        if draw is None or self._augmentation == Augmentation():
            if all(row in self._kept for row in rows.tolist()):
                return self._backbone.collate([self._kept[row] for row in rows.tolist()])
            work: Callable[[int, int], Any] = self._plain
        else:
            work = partial(self._augmented, draw)
        jobs = list(zip(rows.tolist(), (rows if keys is None else keys).tolist(), strict=True))
        # In a few parts: a task for each picture costs as much as a tenth of the work on a small one.
        share = -(-len(jobs) // self._parts)
        parts = [jobs[start : start + share] for start in range(0, len(jobs), share or 1)]
        done = self._threads.map(lambda part: [work(row, key) for row, key in part], parts)
        return self._backbone.collate([prepared for part in done for prepared in part])

    def _plain(self, row: int, key: int) -> Any:
        prepared = self._kept.get(row)
        if prepared is None:
            prepared = self._prepared(row, self._open(row), self._backbone.prepare)
            if self._keep:
                self._kept[row] = prepared
        return prepared

    def _augmented(self, draw: EpochRandom, row: int, key: int) -> Any:
        numbers = draw.of_row(PICTURES, key)
        image = change(self._open(row), self._augmentation, self._size, numbers)
        cropped = self._augmentation.crop is not None
        prepared = self._prepared(row, image, self._backbone.prepare_sized if cropped else self._backbone.prepare)
        return erase(prepared, self._augmentation.erase, numbers) if self._augmentation.erase else prepared

    def _open(self, row: int) -> Image.Image:
        return self._reader.open(row) if self._cache is None else self._cache.open(row)

    def _prepared(self, row: int, image: Image.Image, prepare: Callable[[Image.Image], Any]) -> Any:
        try:
            return prepare(image)
        except ImageError as fault:  # a picture that this backbone cannot take: a sliver of 10,000 × 1 pixels
            raise ImageError(
                f"{self._reader.where(row)}: {fault.message}", hint="crop it, or drop it from the collection"
            ) from fault
