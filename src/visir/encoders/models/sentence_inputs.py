"""What a sentence-transformers model takes (texts, pictures, both), and how these become its inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.intake import Pixels
from visir.encoders.models.image_processors import check_sliver, processor_values
from visir.encoders.models.late_interaction import check_no_marks
from visir.errors import ImageError
from visir.records import Modality

if TYPE_CHECKING:
    from PIL.Image import Image

Features = dict[str, Any]
"""What a model's `preprocess` returns: tensors by name, and the modality."""
_LONGEST = 200
"""How many times as long as its other side a picture may be. The processors of Qwen's models refuse longer ones, and
do not say which picture of a batch it was."""


def modalities_of(model: Any) -> frozenset[Modality]:
    """What a model of the library embeds, as it says itself."""
    parts: dict[Modality, Any] = {"text": "text", "image": "image", "text+image": ("image", "text")}
    return frozenset(modality for modality, theirs in parts.items() if model.supports(theirs))


def takes_messages(model: Any) -> bool:
    """Whether the library writes every input as a message of a chat: prompts then stand before pictures too."""
    return "message" in model.modalities


def check_marks(texts: Sequence[str], model: Any) -> None:
    """Raise `EncoderError` for a text with a mark that stands for a picture or a video in this model."""
    for kind in ("image", "video"):
        mark = getattr(model.processor, f"{kind}_token", None)
        if isinstance(mark, str) and mark:
            check_no_marks(texts, mark, "picture" if kind == "image" else kind)


def has_marks(model: Any) -> bool:
    """Whether there are marks that `check_marks` refuses."""
    marks = (getattr(model.processor, f"{kind}_token", None) for kind in ("image", "video"))
    return any(isinstance(mark, str) and mark for mark in marks)


def as_texts(texts: Sequence[str], model: Any) -> list[Any]:
    """Texts as the library takes them: one that looks like an address, or names a file, stays a text."""
    # The library guesses what a string is: it would fetch addresses of pictures, videos and sounds, and open files.
    if set(model.modalities) == {"text"}:
        return list(texts)
    from sentence_transformers.base.modality import infer_modality

    return [text if infer_modality(text) == "text" else {"text": text} for text in texts]


@dataclass(frozen=True)
class PictureShapes:
    """Which pictures a model takes, so that one that it would not take is named before it meets others in a batch."""

    # To how many pixels the shorter side of a picture is scaled; None where that is not the rule.
    shortest_edge: int | None
    any_resolution: bool  # whether the model sees a picture at its own proportions

    @classmethod
    def of(cls, model: Any) -> PictureShapes:
        """By the settings of the model's image processor."""
        processor = _image_processor(model)
        settings = {} if processor is None else processor.to_dict()
        size = dict(settings.get("size") or {}) if settings.get("do_resize", True) else {}
        # With both, Qwen's processors mean the least and the largest number of pixels of a picture.
        edge = None if "longest_edge" in size else size.get("shortest_edge")
        merges = hasattr(processor, "merge_size")  # Qwen's, where no chat is written around pictures
        return cls(edge if isinstance(edge, int) else None, takes_messages(model) or merges)

    def check(self, image: Image) -> None:
        """Raise `ImageError` for a picture that the model does not take."""
        check_sliver(image, self.shortest_edge)
        if self.any_resolution and max(image.size) > _LONGEST * min(image.size):
            raise ImageError(
                f"an image of {image.width} × {image.height} pixels is too narrow: one side is more than {_LONGEST} "
                "times the other.",
                hint="crop it, or set it aside (--skip-broken)",
            )


class SentencePictures:
    """Pictures on their way into a model."""

    # `prepare` runs in threads. Where the library makes the same numbers of one picture as of many, and they are pixels
    # of one size, it does all of the preprocessing; otherwise (models of any resolution, messages of a chat) it gives
    # the picture itself as (height, width, 3) bytes, and the library sees the whole batch.

    def __init__(self, model: Any) -> None:
        self._model = model
        self._shapes = PictureShapes.of(model)
        self.one_by_one = False
        self.one_by_one = not takes_messages(model) and self._same_alone()

    @property
    def any_resolution(self) -> bool:
        """Whether the model sees a picture at its own proportions."""
        return self._shapes.any_resolution

    def prepare(self, image: Image) -> Pixels:
        """One RGB picture: its pixels as the model wants them, or as they are."""
        self._shapes.check(image)
        if not self.one_by_one:
            return np.asarray(image)
        pixels: NDArray[Any] = self._model.preprocess([image])["pixel_values"][0].numpy()
        return pixels

    def features(self, batch: Sequence[Pixels]) -> Features:
        """The model's input of n pictures that went one by one, on the CPU."""
        import torch

        return {"pixel_values": torch.from_numpy(np.stack(batch)), "modality": "image"}

    def pictures(self, batch: Sequence[Pixels]) -> list[Image]:
        """Prepared pictures as PIL images again, where `prepare` left them as they were."""
        from PIL import Image as images

        return [images.fromarray(pixels) for pixels in batch]

    def values(self) -> dict[str, Any]:
        """The settings of the model's image processor, for the card."""
        processor = _image_processor(self._model)
        if processor is None:
            return {"processor": type(self._model.processor).__name__}
        return processor_values(processor)

    def _same_alone(self) -> bool:
        from PIL import Image as images

        random = np.random.default_rng(0)
        trial = [images.fromarray(random.integers(0, 256, (*size, 3), np.uint8)) for size in ((41, 67), (67, 41))]
        try:
            both = self._model.preprocess(trial)
            alone = [self._model.preprocess([image]) for image in trial]
            pixels = both["pixel_values"]
            return (
                {name for name, value in both.items() if hasattr(value, "shape")} == {"pixel_values"}
                and both["modality"] == "image"
                and pixels.ndim == 4
                and all(bool((pixels[row] == single["pixel_values"][0]).all()) for row, single in enumerate(alone))
            )
        except Exception:  # whatever a library's code does not do with one picture, it may do with a batch
            return False


def message_values(model: Any) -> dict[str, Any]:
    """How a model that takes messages is spoken to: a hash over its chat template; empty for other models."""
    if not takes_messages(model):
        return {}
    template = getattr(model.processor, "chat_template", None)
    return {"chat_template": hashlib.blake2b(str(template).encode(), digest_size=8).hexdigest()}


def to_model(features: Features, device: Any) -> Features:
    """The tensors on the model's device."""
    move: Callable[[Any], Any] = lambda value: value.to(device) if hasattr(value, "to") else value  # noqa: E731
    return {name: move(value) for name, value in features.items()}


def _image_processor(model: Any) -> Any:
    from transformers.image_processing_utils import BaseImageProcessor

    processor = model.processor
    return processor if isinstance(processor, BaseImageProcessor) else getattr(processor, "image_processor", None)
