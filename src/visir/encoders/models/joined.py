"""Encoders made of encoders: texts joined, several views of an image, and parts of an item beside the whole of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder, EncoderOver
from visir.encoders.checkpoints import load_part, read_description, save_part, write_description
from visir.encoders.forms import one_each
from visir.encoders.intake import Embedded, InputBatch
from visir.errors import EncoderError, nearest
from visir.fingerprint import hash_json
from visir.records import EncoderCard, Role, TokenVectors, VectorForm

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.encoders.towers.base import TextSide

_LONGER_THAN_ANY = 1 << 16
"""Tokens of a text, at most: so the lengths of two parts fit into one number."""


def _weights_over(encoders: Mapping[str, Encoder], **others: Any) -> str | None:
    """A hash over the cards of encoders, and what else decides the vectors; None where one has no version."""
    if not all(encoder.card.is_versioned for encoder in encoders.values()):
        return None
    return hash_json({**{name: encoder.card.fingerprint for name, encoder in encoders.items()}, **others})


class JoinedTexts(Encoder):
    """`JoinedTexts([load("st:all-MiniLM-L6-v2"), load("bow")])`: what one encoder misses, the other may say."""

    # A sentence encoder is made to forget the wording, a bag of words is nothing but wording; heads trained over both
    # are clearly better than over either. Every part is brought to length 1 first, so that none drowns the others; a
    # part that is zero (no known word) stays zero.

    def __init__(self, parts: Sequence[Encoder]) -> None:
        if len(parts) < 2:
            raise EncoderError(
                "at least two encoders are needed to join them.",
                hint="use the one encoder as it is",
                code="least-two-encoders-needed",
            )
        for part in parts:
            if "text" not in part.modalities:
                raise part.cannot("text")
        self.encoders = tuple(parts)
        self.dimension = sum(part.dimension for part in parts)
        self.modalities = frozenset({"text"})
        self.distinguishes_roles = any(part.distinguishes_roles for part in parts)
        self.batch_size = min(part.batch_size for part in parts)
        self.card = EncoderCard(
            name=" + ".join(part.card.name for part in parts),
            family="joined",
            weights=_weights_over({str(number): part for number, part in enumerate(parts)}),
            text_preprocessing={
                "parts": [part.card.text_preprocessing for part in parts],
                "dimensions": [part.dimension for part in parts],
                "length of each part": 1,
            },
            dtype=parts[0].card.dtype,
        )

    def prepare(self, item: str | Image, role: Role) -> list[Any]:
        """What every part reads."""
        return [part.prepare(item, role) for part in self.encoders]

    def forward(self, batch: InputBatch, role: Role) -> NDArray[np.float32]:
        """(n, sum of the parts' dimensions): the unit vectors of every part, in the order of the parts."""
        units = []
        for number, part in enumerate(self.encoders):
            own = replace(batch, texts=[text[number] for text in batch.texts or ()])
            vectors = one_each(part.forward(own, role), part.label)
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            units.append(vectors / np.where(lengths > 0, lengths, 1.0))
        return np.concatenate(units, axis=1, dtype=np.float32)

    def text_limit(self) -> None:
        """None: every part has its own."""
        return

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64] | None:
        """(n,) the lengths that every part tells, in one number."""
        joined = np.zeros(len(texts), np.int64)
        for part in self._parts():
            lengths = part.text_lengths(texts)
            if lengths is None:
                return None
            joined = joined * _LONGER_THAN_ANY + lengths
        return joined

    def text_side(self) -> TextSide | None:
        """See `TextSide`: those of the parts side by side, where each has one."""
        from visir.encoders.towers.base import joined_sides, text_side_of

        sides = [side for part in self._parts() if (side := text_side_of(part)) is not None]
        return joined_sides(sides) if len(sides) == len(self.encoders) else None

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """Cut for the part that reads least: every part is given the same text."""
        for part in self._parts():
            texts = part.truncate(texts, ending)
        return list(texts)

    def _parts(self) -> list[Encoder]:
        return [part.for_role(self._role) for part in self.encoders]

    def save(self, folder: Path) -> None:
        """Write the names of the parts into `folder`, and a folder for each part that has a state of its own."""
        entries = [save_part(part, folder, f"part{number}") for number, part in enumerate(self.encoders)]
        write_description(folder, "joined", {"parts": entries})


_MARGIN = 12
"""The centre leaves out a twelfth of each side: five sixths of the width remain."""


def _mirrored(image: Image) -> Image:
    from PIL import ImageOps

    return ImageOps.mirror(image)


def _centre(image: Image) -> Image:
    across, down = image.width // _MARGIN, image.height // _MARGIN
    return image.crop((across, down, image.width - across, image.height - down))


VIEWS: dict[str, Callable[[Image], Image]] = {
    "whole": lambda image: image,
    "mirrored": _mirrored,
    "centre": _centre,
    "centre mirrored": lambda image: _mirrored(_centre(image)),
}


def _boxes(view: str, image: Image, regions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where regions of a view (n, 4) lie in the image itself."""
    x0, y0, x1, y1 = regions.T
    if view.endswith("mirrored"):
        x0, x1 = 1 - x1, 1 - x0
    if view.startswith("centre"):
        across, down = (image.width // _MARGIN) / image.width, (image.height // _MARGIN) / image.height
        x0, x1 = across + (1 - 2 * across) * x0, across + (1 - 2 * across) * x1
        y0, y1 = down + (1 - 2 * down) * y0, down + (1 - 2 * down) * y1
    return np.stack([x0, y0, x1, y1], axis=1)


class ImageViews(EncoderOver):
    """`ImageViews(load("mobilenet_v2"), ["whole", "mirrored", "centre"])`: encodes each image once per view."""

    # The vector of an image is the mean over the views (test-time augmentation with averaged features, as in the ten
    # crops of Krizhevsky et al. 2012, section 4.1, where the *predictions* were averaged). It costs one forward pass
    # per view. A caption that tells left from right loses that word's support under "mirrored".
    # Of an encoder that gives several vectors for an image (form "multi-vector"), an image has those of all views.

    over = "encoder"

    def __init__(self, encoder: Encoder, views: Sequence[str]) -> None:
        for view in views:
            if view not in VIEWS:
                raise EncoderError(f"unknown view {view!r}", hint=nearest(view, VIEWS), code="unknown-view")
        if not views or len(set(views)) != len(views):
            raise EncoderError(f"views must be one or more, each once, not {list(views)}.", code="views-one-more-each")
        if "image" not in encoder.modalities:
            raise encoder.cannot("image")
        self.encoder, self.views = encoder, tuple(views)
        self.form = encoder.form
        self.dimension = encoder.dimension
        self.modalities = frozenset({"image"})
        self.batch_size = max(1, encoder.batch_size // len(views))
        self.card = EncoderCard(
            name=f"{encoder.card.name} ({', '.join(views)})",
            family="views",
            weights=_weights_over({"encoder": encoder}, views=list(views)),
            image_preprocessing={**encoder.card.image_preprocessing, "views": list(views)},
            dtype=encoder.card.dtype,
        )

    def prepare(self, item: str | Image, role: Role) -> Any:
        """(views, …): the encoder's input for each view."""
        assert not isinstance(item, str), "images alone"
        return np.stack([self.encoder.prepare(VIEWS[view](item), role) for view in self.views])

    def forward(self, batch: InputBatch, role: Role) -> Embedded:
        """(n, dimension): the mean over the views; or the vectors of the views, one view after the other."""
        each = self.encoder.forward(
            InputBatch(images=[pixels for views in batch.images or () for pixels in views]), role
        )
        if isinstance(each, TokenVectors):
            return TokenVectors(each.vectors, each.offsets[:: len(self.views)])
        mean: NDArray[np.float32] = each.reshape(len(batch), len(self.views), self.dimension).mean(axis=1)
        return mean

    def image_regions(self, image: Image) -> NDArray[np.float64]:
        """(n, 4): where each vector looks, as fractions of the image itself, view by view."""
        regions_of: Callable[[Image], NDArray[np.float64]] = self.encoder.image_regions  # type: ignore[attr-defined]
        return np.concatenate([_boxes(view, image, regions_of(VIEWS[view](image))) for view in self.views])

    def alone(self, view: str) -> ImageViews:
        """The same encoder under one of the views."""
        return ImageViews(self.encoder, [view])

    def save(self, folder: Path) -> None:
        """Write the views and the encoder's name (or its state, when it has one of its own) into `folder`."""
        entry = save_part(self.encoder, folder, "encoder")
        write_description(folder, "views", {"views": list(self.views), "encoder": entry})


class WithWhole(EncoderOver):
    """`WithWhole(load("mobilenet_v2?vectors=4x4"), load("mobilenet_v2"))`: parts of an item, and the whole of it."""

    # A part sees little of its item: a word has no sentence, a place no scene. Each vector of an item is joined with
    # the one vector of the whole item, and a `SetTower` has a head for either.
    # The joined vectors repeat the whole for each part. They are made where they are used, and never kept.

    form: VectorForm = "multi-vector"
    over = "several"

    def __init__(self, several: Encoder, whole: Encoder) -> None:
        if several.form != "multi-vector" or whole.form != "dense":
            raise EncoderError(
                f"{several.card.name} and {whole.card.name} cannot stand for parts and wholes.",
                hint="the first makes several vectors for each item (mobilenet_v2?vectors=4x4), the second makes one",
                code="cannot-stand-parts-wholes",
            )
        shared = several.modalities & whole.modalities
        if not shared:
            raise EncoderError(f"{several.card.name} and {whole.card.name} encode nothing that both take.")
        self.several, self.whole = several, whole
        cards = {"several": several.card, "whole": whole.card}
        self.dimension = several.dimension + whole.dimension
        self.modalities = frozenset(shared)
        self.distinguishes_roles = several.distinguishes_roles or whole.distinguishes_roles
        self.batch_size = min(several.batch_size, whole.batch_size)
        self.card = EncoderCard(
            name=f"{several.card.name} with {whole.card.name}",
            family="with-whole",
            weights=_weights_over({"several": several, "whole": whole}),
            image_preprocessing={name: card.image_preprocessing for name, card in cards.items() if "image" in shared},
            text_preprocessing={name: card.text_preprocessing for name, card in cards.items() if "text" in shared},
            dtype=several.card.dtype,
        )
        if "image" in shared:  # noticed here, and not after a training
            from PIL import Image as images

            self.preprocess(images.new("RGB", (96, 64)))

    @property
    def views(self) -> tuple[str, ...]:
        """The views of each image; ("whole",) without any."""
        return self.several.views if isinstance(self.several, ImageViews) else ("whole",)

    def alone(self, view: str) -> WithWhole:
        """The same encoders under one of the views."""
        both = (self.several, self.whole)
        bare = [encoder.encoder if isinstance(encoder, ImageViews) else encoder for encoder in both]
        return WithWhole(*(ImageViews(encoder, [view]) for encoder in bare))

    def prepare(self, item: str | Image, role: Role) -> Any:
        """The input of both encoders; of an image (2, …)."""
        inputs = [encoder.prepare(item, role) for encoder in (self.several, self.whole)]
        if isinstance(item, str):
            return inputs
        if inputs[0].shape != inputs[1].shape:
            shapes = " and ".join(" × ".join(map(str, pixels.shape)) for pixels in inputs)
            raise EncoderError(
                f"{self.card.name}: they take images in different shapes, {shapes}.",
                code="take-images-different-shapes",
            )
        return np.stack(inputs)

    def forward(self, batch: InputBatch, role: Role) -> TokenVectors:
        """The vectors of each input, (t, dimension): its parts or words, each with the whole."""
        several, whole = (
            encoder.forward(
                replace(
                    batch,
                    texts=batch.texts and [both[number] for both in batch.texts],
                    images=batch.images and [both[number] for both in batch.images],
                    alike=batch.alike and not number,  # lengths are those of the first
                ),
                role,
            )
            for number, encoder in enumerate((self.several, self.whole))
        )
        assert isinstance(several, TokenVectors)
        each = np.repeat(one_each(whole, self.whole.label), several.counts, axis=0)
        return TokenVectors(np.concatenate([several.vectors, each], axis=1, dtype=np.float32), several.offsets)

    def text_pieces(self, texts: Sequence[str], role: Role) -> list[list[str]]:
        """What each vector of a text stands for."""
        several: Any = self.several
        pieces: list[list[str]] = several.text_pieces(texts, role)
        return pieces

    def image_regions(self, image: Image) -> NDArray[np.float64]:
        """(t, 4) where each vector of an image looks."""
        several: Any = self.several
        regions: NDArray[np.float64] = several.image_regions(image)
        return regions

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """Cut for the encoder that reads less."""
        return self.whole.for_role(self._role).truncate(super().truncate(texts, ending), ending)

    def save(self, folder: Path) -> None:
        """Write the names of both into `folder`, and a folder for each that has a state of its own."""
        entries = {name: save_part(getattr(self, name), folder, name) for name in ("several", "whole")}
        write_description(folder, "with-whole", entries)


def load_checkpoint(folder: Path, device: str | None, dtype: str) -> Encoder:
    """Read what the `save` of one of these wrote."""
    description = read_description(folder)

    def part(entry: Any) -> Encoder:
        return load_part(folder, entry, device, dtype)

    if description["kind"] == "joined":
        return JoinedTexts([part(entry) for entry in description["parts"]])
    if description["kind"] == "views":
        return ImageViews(part(description["encoder"]), description["views"])
    return WithWhole(part(description["several"]), part(description["whole"]))
