"""The encoders that a recipe names: each loaded once, frozen or to be tuned."""

from __future__ import annotations

from collections.abc import Sequence

from visir.encoders import load
from visir.encoders.base import Encoder
from visir.encoders.families import facts_of_folder, named_like
from visir.encoders.families import models as known_models
from visir.encoders.loading import family_named, require_packages
from visir.encoders.models.hub import find_model
from visir.encoders.models.joined import ImageViews, JoinedTexts, WithWhole
from visir.encoders.models.sentence import find
from visir.encoders.models.small import BagOfWords
from visir.encoders.towers.pretrained_backbone import LATE_INTERACTION, not_tunable
from visir.errors import ConfigurationError
from visir.options import split_mark
from visir.records import Modality
from visir.training.recipe import expand
from visir.training.sides import FITTED_WORDS, FrozenImages, FrozenTexts


class ModelLoader:
    """`device` is where frozen encoders compute; those to be tuned are given on the CPU and move with their tower."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._loaded: dict[tuple[str, str | None], Encoder] = {}

    def frozen(self, name: str, modality: Modality) -> Encoder:
        """An encoder that stays as it is."""
        return _of(modality, self._load(name, self._device))

    def tuned(self, name: str, modality: Modality) -> Encoder:
        """An encoder of which one tower is tuned: the same object for both modalities."""
        _check_tunable(expand(name))
        return _of(modality, self._load(name, "cpu"))

    def image_base_encoder(self, side: FrozenImages) -> Encoder:
        """The frozen encoder of images, under its views."""

        def seen(name: str) -> Encoder:
            encoder = self.frozen(name, "image")
            return encoder if side.views == ("whole",) else ImageViews(encoder, side.views)

        if side.whole is None:
            return seen(side.encoder)
        if len(side.whole.encoder) > 1:
            raise ConfigurationError(
                f"image.whole.encoder names {len(side.whole.encoder)} encoders; images have one.",
                hint="encoders of texts can be joined",
                code="image-whole-encoder-names",
            )
        return WithWhole(seen(side.encoder), seen(side.whole.encoder[0]))

    def text_base_encoder(self, side: FrozenTexts, train: Sequence[str]) -> Encoder:
        """The frozen encoder of texts, or several joined; `train` are the captions that a bag of words is fitted to."""
        encoder = self._texts(side.encoder, train)
        return encoder if side.whole is None else WithWhole(encoder, self._texts(side.whole.encoder, train))

    def _texts(self, names: Sequence[str], train: Sequence[str]) -> Encoder:
        parts = [self._text(name, train) for name in names]
        return parts[0] if len(parts) == 1 else JoinedTexts(parts)

    def _text(self, name: str, train: Sequence[str]) -> Encoder:
        if name.startswith(FITTED_WORDS):
            return BagOfWords.fit(train, limit=int(name.removeprefix(FITTED_WORDS)))
        return self.frozen(name, "text")

    def _load(self, name: str, device: str) -> Encoder:
        name = expand(name)
        key = (name, device if family_named(name).devices else None)
        if key not in self._loaded:
            self._loaded[key] = load(name, device=key[1])
        return self._loaded[key]


def _check_tunable(name: str) -> None:
    """Raise `EncoderError` for a late-interaction model, by its name or its configurations."""
    meant = named_like(name)
    likely = [model for model in known_models() if model.name in meant]
    if likely and all(model.form == "multi-vector" for model in likely):
        raise not_tunable(name, LATE_INTERACTION)
    family = family_named(name)
    if family.name not in ("transformers", "sentence"):
        return
    require_packages(family)
    bare, _ = split_mark(name)
    files = find(bare, None) if family.name == "sentence" else find_model(bare, None)
    if facts_of_folder(bare, files.folder).form == "multi-vector":
        raise not_tunable(name, LATE_INTERACTION)


def _of(modality: Modality, encoder: Encoder) -> Encoder:
    if modality not in encoder.modalities:
        raise encoder.cannot(modality)
    return encoder
