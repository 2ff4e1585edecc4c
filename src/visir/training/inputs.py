"""What a training learns from: pairs of an anchor and a positive, by row, and the randomness that goes into them.

An anchor may have several positives: an image and its captions, a category and its products. Training has one example
for each positive, beside its anchor.
"""

from __future__ import annotations

import math
import shutil
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from visir.arrays import load_array
from visir.collections.images import ImageReader
from visir.encoders.models.image_processors import NORMALISATIONS
from visir.encoders.store import image_contents
from visir.encoders.towers.base import Backbone, Inputs
from visir.errors import ConfigurationError, EmbeddingError, ImageError, VisirError
from visir.fingerprint import hash_columns, hash_json
from visir.progress import Progress
from visir.records import Collection
from visir.splitmix import seed_of, splitmix64
from visir.storage import ContentStore, FolderChange, FolderKind
from visir.threads import usable_cores
from visir.training.recipe import Augmentation, MinedNegatives

Rows = NDArray[np.int64]
Side = Literal["anchor", "positive"]
"""The two sides of a pair."""


@dataclass(frozen=True)
class EpochRandom:
    """The randomness of one epoch: a function of seed and epoch, never of the order in which rows are read."""

    # So an epoch can run again after an interruption, from its middle, or split over several processes, and every row
    # is augmented in the same way.

    seed: int  # of the training
    epoch: int  # from 0

    def of_row(self, stream: int, row: int) -> np.random.Generator:
        """The generator of one row."""
        # stream: Separates what must not share numbers (views, crops, words).
        return np.random.default_rng([self.seed, self.epoch, stream, row])


class TrainingData(Protocol):
    """What a training learns from, as the loop sees it: rows that become batches."""

    def __len__(self) -> int: ...

    @property
    def unit(self) -> str:
        """What the positives are called, in the plural."""
        ...

    @property
    def ids(self) -> Sequence[str]:
        """(m,) ids of the positives, for messages."""
        ...

    @property
    def origin(self) -> dict[str, Any]:
        """Fingerprints of what the examples are made of, as plain values."""
        ...

    @property
    def is_slow(self) -> bool:
        """Whether making a batch takes so long that threads should make it ahead."""
        ...

    def batch(self, rows: Rows, draw: EpochRandom | None = None) -> TrainingBatch:
        """The rows as one batch."""
        ...

    def labels(self, rows: Rows) -> tuple[Any, Any]:
        """(n,) anchor rows and classes (or None) of pairs whose inputs another process reads."""
        ...


class InputSource(Protocol):
    """The inputs of one side, by row."""

    def __len__(self) -> int: ...

    def batch(self, rows: Rows, draw: EpochRandom | None = None, keys: Rows | None = None) -> Inputs:
        """The rows as one batch on the CPU."""
        # rows: (n,) which items.
        # keys: (n,) in training, the rows of the pairs, by which each item gets a draw of its own: one photo beside two
        # captions is augmented twice.
        ...


class NegativeSource(Protocol):
    """Hard negatives of pairs, by row; see `visir.training.inputs.HardNegatives`."""

    def positives(
        self, source: InputSource, anchor_rows: Rows, rows: Rows, draw: EpochRandom
    ) -> tuple[Sequence[Inputs], Any] | None:
        """For the anchors: h batches of n inputs of the positives' tower, and the (n, h) anchors they belong to."""
        ...

    def anchors(
        self, source: InputSource, anchor_rows: Rows, rows: Rows, draw: EpochRandom
    ) -> tuple[Sequence[Inputs], Any] | None:
        """For the positives: h batches of n inputs of the anchors' tower, and the (n, h) anchors they are."""
        ...


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """The pairs of one step, or one process's share of them, on the CPU."""

    anchors: Inputs  # inputs of the anchors' tower
    positives: Inputs  # inputs of the positives' tower; row i belongs to row i of the anchors
    anchor_rows: Any  # (n,) int64, which anchors they are; equal for positives of one anchor
    targets: Any = None  # (n, t) float32 latent targets of the positives (LTD), or None
    tokens: Any = None  # (n, L) int64 token ids of the positives for an input decoder (ITD), 0 is padding, or None
    classes: Any = None  # (n,) int64 classes of the positives, or None
    rows: Any = None  # (n,) int64, which pairs they are, or None
    # h batches of n inputs of the positives' tower, a hard negative of each pair in each.
    negatives: Sequence[Inputs] = ()
    negative_rows: Any = None  # (n, h) int64, the anchors to which they belong, -1 is none; or None
    anchor_negatives: Sequence[Inputs] = ()  # the same of the anchors' tower
    anchor_negative_rows: Any = None  # (n, h) int64, which anchors they are, or None


@dataclass(frozen=True, eq=False)
class TrainingExamples:
    """A split as training sees it: one example for each positive."""

    anchors: InputSource  # a source
    positives: InputSource  # a source
    anchor_rows: Rows  # (m,) int64, the row of each positive's anchor
    ids: Sequence[str]  # (m,) ids of the positives, for messages
    origin: dict[str, Any]  # fingerprints of what the examples are made of (split, backbones, targets), as plain values
    targets: InputSource | None = None  # a source of (n, t) latent targets, or None
    tokens: InputSource | None = None  # a source of padded token ids, or None
    # (m,) int64, what each positive is beyond the anchor it belongs to, for objectives that need it.
    classes: Rows | None = None
    unit: str = "captions"  # what the positives are called, in the plural
    negatives: NegativeSource | None = None  # hard negatives beside the pairs of a batch, or None

    def __len__(self) -> int:
        return len(self.anchor_rows)

    @property
    def is_slow(self) -> bool:
        """See `TrainingData.is_slow`: where pictures are read. Looking up 128 vectors and captions takes 0.3 ms."""
        return getattr(self.anchors, "is_slow", False)

    def batch(self, rows: Rows, draw: EpochRandom | None = None) -> TrainingBatch:
        """The positives `rows` with their anchors."""
        anchor_rows = self.anchor_rows[rows]
        hard: dict[str, Any] = {}
        if self.negatives is not None and draw is not None:
            for side, entries in (
                ("", self.negatives.positives(self.positives, self.anchor_rows, rows, draw)),
                ("anchor_", self.negatives.anchors(self.anchors, self.anchor_rows, rows, draw)),
            ):
                if entries is not None:
                    hard[f"{side}negatives"], hard[f"{side}negative_rows"] = entries
        return TrainingBatch(
            anchors=self.anchors.batch(anchor_rows, draw, rows),
            positives=self.positives.batch(rows, draw, rows),
            anchor_rows=torch.from_numpy(anchor_rows),
            targets=None if self.targets is None else self.targets.batch(rows, draw),
            tokens=None if self.tokens is None else self.tokens.batch(rows),
            classes=None if self.classes is None else torch.from_numpy(self.classes[rows]),
            **hard,
        )

    def labels(self, rows: Rows) -> tuple[Any, Any]:
        """See `TrainingData.labels`."""
        classes = None if self.classes is None else torch.from_numpy(self.classes[rows])
        return torch.from_numpy(self.anchor_rows[rows]), classes


Input = TypeVar("Input")
Output = TypeVar("Output")


def made_ahead(
    make: Callable[[Input], Output], inputs: Iterable[Input], workers: int, ahead: int
) -> Generator[Output, None, None]:
    """What `make` makes of the inputs in threads, in order, so many at most ahead of what was asked for."""
    # An error is raised where what it spoils would have come. The threads end with the generator: close it where you
    # stop before its end; an error's traceback would otherwise keep it alive.
    executor = ThreadPoolExecutor(workers, thread_name_prefix="prefetch")
    waiting: deque[Future[Output]] = deque()
    coming = iter(inputs)
    try:
        while True:
            for value in islice(coming, ahead - len(waiting)):
                waiting.append(executor.submit(make, value))
            if not waiting:
                return
            yield waiting.popleft().result()
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def pin_batch(batch: TrainingBatch) -> TrainingBatch:
    """Copy a batch into page-locked memory, from which CUDA copies while the program goes on."""
    # torch keeps such memory and gives it out again when the copies out of it are done.
    return replace(batch, **{each.name: _pinned(getattr(batch, each.name)) for each in fields(batch)})


def _pinned(value: Any) -> Any:
    """What is on a device already, or is not there, stays as it is."""
    if isinstance(value, Tensor):
        return value.pin_memory() if value.device.type == "cpu" else value
    if isinstance(value, Mapping):
        kind: Any = type(value)
        return kind({name: _pinned(part) for name, part in value.items()})
    return [_pinned(part) for part in value] if isinstance(value, list | tuple) else value


def prefetch(
    examples: TrainingData,
    batches: Iterable[Rows],
    draw: EpochRandom | None = None,
    workers: int | None = None,
    *,
    pin: bool = False,
) -> Generator[TrainingBatch, None, None]:
    """Make the batches of a training ahead of the model, in their order."""
    # At most `workers` + 1 batches wait at a time; `batches` is read no further ahead than that (`made_ahead`).
    # workers: How many threads make batches; 0 makes each when it is needed. Left out, there are two when the examples
    # are slow (pixels, each batch of which is spread over all cores besides), and none otherwise: looking up 128
    # vectors and captions takes 0.3 ms, handing them from one thread to another adds 0.1.

    def make(rows: Rows) -> TrainingBatch:
        batch = examples.batch(rows, draw)
        return pin_batch(batch) if pin else batch

    workers = (2 if examples.is_slow else 0) if workers is None else workers
    yield from map(make, batches) if workers == 0 else made_ahead(make, batches, workers, workers + 1)


# Random numbers by place: the number at any position of an epoch, without those before it.

VIEWS, PICTURES, WORDS, PROMPTS, NEGATIVES = 1, 2, 3, 4, 5
"""Streams of a `EpochRandom`: which view of an image, how a picture is changed, which words are dropped,
which prompt stands around a text, which hard negatives stand beside a pair (6 too, of pictures)."""


def uniform(draw: EpochRandom, stream: int, positions: Rows) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1) at `positions` ≥ 0 of one epoch's stream, in the shape of `positions`."""
    # NumPy's generators would draw the whole epoch for that (and keep it, under a lock, for every thread that works
    # ahead), or be seeded anew for each row.
    drawn = splitmix64(seed_of(draw.seed, draw.epoch, stream), positions)
    numbers: NDArray[np.float64] = (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return numbers


# Vectors that a frozen encoder gave: looked up, one view at random in training.


class VectorSource:
    """Views of vectors, looked up by row."""

    # In training each key sees one view, drawn anew every epoch; with no draw the views are averaged, as in use.
    # Nothing is copied but the rows of a batch, so the vectors of a large collection stay on disk.

    def __init__(self, vectors: NDArray[np.float32] | Sequence[NDArray[np.float32]]) -> None:
        self._views = list(vectors)
        shapes = {view.shape for view in self._views}
        if len(shapes) != 1 or len(self._views[0].shape) != 2:
            raise EmbeddingError(
                f"views of shape {', '.join(map(str, sorted(shapes))) or '(none)'}; expected one or more (n, d) "
                "matrices of the same shape.",
                hint="stack them to (views, n, d)",
                code="views-shape-expected-one",
            )

    def __len__(self) -> int:
        return len(self._views[0])

    @property
    def width(self) -> int:
        """d, the length of a vector."""
        return int(self._views[0].shape[1])

    def batch(self, rows: Rows, draw: EpochRandom | None = None, keys: Rows | None = None) -> Tensor:
        """(len(rows), d) float32."""
        if len(self._views) == 1:
            return torch.from_numpy(_taken(self._views[0], rows))
        if draw is None:
            total = _taken(self._views[0], rows)
            for view in self._views[1:]:
                total += view[rows]
            return torch.from_numpy(total / np.float32(len(self._views)))
        drawn = (uniform(draw, VIEWS, rows if keys is None else keys) * len(self._views)).astype(np.int64)
        chosen = np.empty((len(rows), self.width), np.float32)
        for number, view in enumerate(self._views):
            places = np.flatnonzero(drawn == number)
            chosen[places] = view[rows[places]]
        return torch.from_numpy(chosen)


def _taken(view: NDArray[np.float32], rows: Rows) -> NDArray[np.float32]:
    """The rows as a plain array of their own: fancy indexing copies, `asarray` sheds the memory map's class."""
    return np.asarray(view[rows], np.float32)


# Hard negatives of a batch: changed captions, and captions and pictures that a model found.


@dataclass(frozen=True, eq=False)
class Swapped:
    """Changed captions, one of each kind for each pair."""

    sources: Sequence[Sequence[InputSource]]  # by kind, then by variant: a changed caption for each row
    # By kind, then by variant: (m,) -1, or the caption's own anchor where it is as it was.
    anchor_rows: Sequence[Sequence[Rows]]

    @property
    def count(self) -> int:
        """How many for each pair."""
        return len(self.sources)

    def batch(self, rows: Rows, draw: EpochRandom) -> tuple[list[Inputs], Rows]:
        """Inputs by kind, and the (n, kinds) anchors to which they belong."""
        variant = draw.epoch % len(self.sources[0])
        inputs = [sources[variant].batch(rows, draw, rows) for sources in self.sources]
        return inputs, np.stack([of_kind[variant][rows] for of_kind in self.anchor_rows], axis=1)


@dataclass(eq=False)
class Mined:
    """What a search found; filled by `visir.training.learner`, again and again while training runs."""

    settings: MinedNegatives  # of the recipe
    first_pairs: Rows  # (anchors,) a pair of each anchor; -1 of one without positives
    # The rows of positives that are right for each anchor, and of anchors that are right for each positive.
    right: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]
    # The search sees anchors and positives as the epoch's training does: their shortcuts change.
    as_trained: bool = False
    # (anchors, nearest) rows of positives that are near each anchor and wrong, or None; -1 is none.
    captions: Rows | None = None
    images: Rows | None = None  # (m, nearest) rows of anchors that are near each positive and wrong, or None
    epoch: int = -1  # for which it was searched last; -1 before

    def is_due(self, epoch: int) -> bool:
        """Whether the trained model has to search before an epoch, counted from 0."""
        return not self.settings.model and epoch % self.settings.every == 0 and self.epoch != epoch

    def tensors(self) -> dict[str, Tensor]:
        """What was found, for the state of a training."""
        rows = {"captions": self.captions, "images": self.images}
        return {name: torch.from_numpy(near) for name, near in rows.items() if near is not None}

    def restore(self, tensors: Mapping[str, Tensor], epoch: int) -> None:
        """Put back what `tensors` gave."""
        near = {name: tensor.numpy() for name, tensor in tensors.items()}
        self.captions, self.images, self.epoch = near.get("captions"), near.get("images"), epoch

    def drawn(self, near: Rows, rows: Rows, draw: EpochRandom, stream: int) -> Rows:
        """(n, count) of (n, nearest), drawn without repetition by the place of the pair; -1 is none."""
        places = rows[:, None] * near.shape[1] + np.arange(near.shape[1])
        order = np.where(near < 0, 2.0, uniform(draw, stream, places)).argsort(axis=1, kind="stable")
        chosen: Rows = np.take_along_axis(near, order, axis=1)[:, : self.settings.count]
        return chosen


@dataclass(frozen=True, eq=False)
class HardNegatives:
    """The hard negatives of a training."""

    swapped: Swapped | None = None  # changed captions, or None
    mined: Mined | None = None  # found captions and pictures, or None

    def positives(
        self, source: InputSource, anchor_rows: Rows, rows: Rows, draw: EpochRandom
    ) -> tuple[tuple[Inputs, ...], Tensor] | None:
        """Hard captions of the pairs `rows`, h batches of n, and the (n, h) anchors to which they belong."""
        inputs: list[Inputs] = []
        belong: list[Rows] = []
        if self.swapped is not None:
            inputs, of = self.swapped.batch(rows, draw)
            belong.append(of)
        if self.mined is not None and self.mined.captions is not None:
            near = self.mined.captions[anchor_rows[rows]]
            chosen = self.mined.drawn(near, rows, draw, NEGATIVES)
            # Where fewer were found the pair's own caption stands in, which counts for nothing.
            chosen = np.where(chosen < 0, rows[:, None], chosen)
            inputs += [source.batch(column, draw, column) for column in chosen.T]
            belong.append(anchor_rows[chosen])
        return (tuple(inputs), torch.from_numpy(np.concatenate(belong, axis=1))) if inputs else None

    def anchors(
        self, source: InputSource, anchor_rows: Rows, rows: Rows, draw: EpochRandom
    ) -> tuple[tuple[Inputs, ...], Tensor] | None:
        """Hard pictures of the pairs `rows`, h batches of n, and the (n, h) anchors that they are."""
        if self.mined is None or self.mined.images is None:
            return None
        chosen = self.mined.drawn(self.mined.images[rows], rows, draw, NEGATIVES + 1)
        chosen = np.where(chosen < 0, anchor_rows[rows][:, None], chosen)
        inputs = [source.batch(column, draw, self.mined.first_pairs[column]) for column in chosen.T]
        return tuple(inputs), torch.from_numpy(chosen)


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

    def batch(self, rows: Rows, draw: EpochRandom | None = None, keys: Rows | None = None) -> Inputs:
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
