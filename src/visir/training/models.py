"""The encoders that a recipe names: each loaded once, frozen or to be tuned."""

from __future__ import annotations

from collections.abc import Sequence

from visir.encoders import load
from visir.encoders.base import Encoder
from visir.encoders.families import family_of
from visir.encoders.models.bag_of_words import BagOfWords
from visir.encoders.models.joined import JoinedTexts
from visir.encoders.models.views import ImageViews
from visir.records import Modality
from visir.training.recipe import expand
from visir.training.sides import FITTED_WORDS, FrozenImages, FrozenTexts


class ModelLoader:
    """`device` is where frozen encoders compute; those to be tuned are given on the CPU and move with their tower."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._loaded: dict[tuple[str, str | None], Encoder] = {}

    def frozen(self, name: str, modality: Modality) -> Encoder:
        """An encoder that stays as it is.

        Raises:
            EncoderError: It does not encode this modality.
        """
        return _of(modality, self._load(name, self._device))

    def tuned(self, name: str, modality: Modality) -> Encoder:
        """An encoder of which one tower is tuned: the same object for both modalities."""
        return _of(modality, self._load(name, "cpu"))

    def image_base_encoder(self, side: FrozenImages) -> Encoder:
        """The frozen encoder of images, under its views."""
        encoder = self.frozen(side.encoder, "image")
        return encoder if side.views == ("whole",) else ImageViews(encoder, side.views)

    def text_base_encoder(self, side: FrozenTexts, train: Sequence[str]) -> Encoder:
        """The frozen encoder of texts, or several joined; `train` are the captions that a bag of words is fitted to."""
        parts = [self._text(name, train) for name in side.encoder]
        return parts[0] if len(parts) == 1 else JoinedTexts(parts)

    def _text(self, name: str, train: Sequence[str]) -> Encoder:
        if name.startswith(FITTED_WORDS):
            return BagOfWords.fit(train, limit=int(name.removeprefix(FITTED_WORDS)))
        return self.frozen(name, "text")

    def _load(self, name: str, device: str) -> Encoder:
        name = expand(name)
        key = (name, device if family_of(name).devices else None)
        if key not in self._loaded:
            self._loaded[key] = load(name, device=key[1])
        return self._loaded[key]


def _of(modality: Modality, encoder: Encoder) -> Encoder:
    if modality not in encoder.modalities:
        raise encoder.cannot(modality)
    return encoder
