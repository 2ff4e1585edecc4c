"""From a recipe and its data to everything that training needs: towers, objective, examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from visir.encoders import encode
from visir.encoders.base import Encoder
from visir.encoders.models.views import ImageViews
from visir.encoders.towers.base import Body, Tower
from visir.encoders.towers.gru import GRUBody
from visir.encoders.towers.pretrained import own_temperature
from visir.encoders.towers.words import Vocabulary
from visir.errors import ConfigurationError
from visir.records import Collection, Modality
from visir.training.bodies import Side, build_image_side, build_text_side
from visir.training.data import Splits, owners_of
from visir.training.inputs.base import Examples, Source
from visir.training.inputs.pixels import PixelSource
from visir.training.inputs.prepared import PreparedTexts
from visir.training.inputs.vectors import VectorSource
from visir.training.inputs.words import TokenSource, WordSource
from visir.training.models import Models
from visir.training.objectives.cosine import CosineSettings
from visir.training.objectives.objective import Objective, build_objective
from visir.training.recipe import Recipe
from visir.training.sides import GRU, FrozenImages


@dataclass(frozen=True, eq=False)
class Model:
    """What a recipe builds before anything is encoded.

    - `sides`: towers and frozen encoders; `objective`: with its decoders
    - `target`: the sentence encoder whose vectors LTD decodes; `tokens`: the words that ITD says again
    """

    sides: dict[Modality, Side]
    objective: Objective
    target: Encoder | None = None
    tokens: Vocabulary | None = None

    @property
    def towers(self) -> dict[Modality, Tower]:
        """The towers by modality."""
        return {modality: side.tower for modality, side in self.sides.items()}

    @property
    def backbones(self) -> dict[Modality, Encoder | None]:
        """The frozen encoders of the sides that have one."""
        return {modality: side.backbone for modality, side in self.sides.items()}


def build_model(recipe: Recipe, train: Collection, device: str) -> Model:
    """Towers and objective with fresh weights: a function of the recipe, its seed and the training captions.

    `device` is where frozen encoders compute; towers are built on the CPU. A model that both sides name is loaded once.
    Raises `VisirError` for encoders that cannot be found or do not fit, and for missing files (word vectors, weights)
    with what to download.
    """
    models = Models(device)
    captions: list[str] = train.captions["text"].to_pylist()
    auxiliary = recipe.auxiliary
    target = models.frozen(auxiliary.ltd.target, "text") if auxiliary.ltd else None
    tokens = Vocabulary.fit(captions, auxiliary.itd.min_count) if auxiliary.itd else None
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        sides: dict[Modality, Side] = {
            "image": build_image_side(recipe, models),
            "text": build_text_side(recipe, models, captions),
        }
        _refuse_collapse(recipe, sides)
        objective = build_objective(
            recipe.objective,
            auxiliary,
            dimension=recipe.dimension,
            target_width=None if target is None else target.dimension,
            vocabulary=None if tokens is None else len(tokens),
            own_temperature=_own_temperature(recipe, sides),
        )
    return Model(sides, objective, target, tokens)


def build_examples(recipe: Recipe, model: Model, splits: Splits) -> tuple[Examples, Examples]:
    """The examples of both splits, (train, validation); encodes what is frozen, through the store.

    Fits the standard scaling of heads over frozen encoders to the training vectors.
    """
    train, validation = splits.train, splits.validation
    texts: list[str] = train.captions["text"].to_pylist()
    targets = None if model.target is None else encode(model.target, train, "text").vectors
    learnt = Examples(
        images=_images(recipe, model, train, training=True),
        texts=_texts(recipe, model, train, training=True),
        owners=owners_of(train),
        captions=train.captions["id"].to_pylist(),
        origin=_origin(model, train),
        targets=None if targets is None else np.asarray(targets, np.float32),
        tokens=None if model.tokens is None else TokenSource(*model.tokens.encode(texts)),
    )
    checked = Examples(
        images=_images(recipe, model, validation, training=False),
        texts=_texts(recipe, model, validation, training=False),
        owners=owners_of(validation),
        captions=validation.captions["id"].to_pylist(),
        origin=_origin(model, validation),
    )
    return learnt, checked


def _images(recipe: Recipe, model: Model, split: Collection, *, training: bool) -> Source:
    side, settings = model.sides["image"], recipe.image
    if side.backbone is None:
        assert not isinstance(settings, FrozenImages)
        return PixelSource(split, _body(side), settings.augment, settings.cache)
    if not training:
        # As they will be encoded in use: the mean over the views, which evaluating the checkpoint finds in the store.
        return VectorSource([encode(side.backbone, split, "image").vectors])
    # Every view by itself: training draws one of them each time it sees the image.
    backbone = side.backbone
    views = [backbone.alone(view) for view in backbone.views] if isinstance(backbone, ImageViews) else [backbone]
    return _fitted(side, [encode(view, split, "image").vectors for view in views])


def _texts(recipe: Recipe, model: Model, split: Collection, *, training: bool) -> Source:
    side, settings = model.sides["text"], recipe.text
    if side.backbone is not None:
        vectors = [encode(side.backbone, split, "text").vectors]
        return _fitted(side, vectors) if training else VectorSource(vectors)
    body, texts = _body(side), split.captions["text"].to_pylist()
    if isinstance(settings, GRU):
        assert isinstance(body, GRUBody)
        return WordSource(*body.vocabulary.encode(texts), dropout=settings.word_dropout)
    return PreparedTexts(body, texts)


def _fitted(side: Side, views: Sequence[NDArray[Any]]) -> VectorSource:
    """The training vectors; the head takes mean and deviation from them."""
    side.tower.head.fit_scaling(*views)
    return VectorSource(views)


def _body(side: Side) -> Body:
    assert side.tower.body is not None, "a side without a frozen encoder has a body"
    return side.tower.body


def _refuse_collapse(recipe: Recipe, sides: dict[Modality, Side]) -> None:
    """The negative cosine holds nothing apart: with two sides that move, all vectors may meet in one point."""
    moving = [side for side in sides.values() if any(one.requires_grad for one in side.tower.parameters())]
    if isinstance(recipe.objective, CosineSettings) and len(moving) == len(sides):
        raise ConfigurationError(
            f'{recipe.name}: objective.name = "cosine" has no negatives; both sides are trained, and would meet in one '
            "point.",
            hint='hold one side fixed (tower = "frozen", head = { identity = true }), or take infonce, ifm or triplet',
        )


def _own_temperature(recipe: Recipe, sides: dict[Modality, Side]) -> float | None:
    """The temperature of the pretrained model, when the objective asks for it."""
    if getattr(recipe.objective, "temperature", None) != "own":
        return None
    sources = {id(side.source): side.source for side in sides.values() if side.source is not None}
    found = [one for one in map(own_temperature, sources.values()) if one is not None]
    if len(found) != 1:
        raise ConfigurationError(
            f'{recipe.name}: objective.temperature = "own" needs one pretrained model that has a temperature; '
            f"there are {len(found)}.",
            hint="say a number: --set objective.temperature=0.05",
        )
    return found[0]


def _origin(model: Model, split: Collection) -> dict[str, Any]:
    """What examples are made of: the split, and each encoder whose vectors or weights went in."""
    made: dict[str, Any] = {"split": split.fingerprint}
    for modality, side in model.sides.items():
        if side.backbone is not None:
            made[f"{modality} backbone"] = side.backbone.card.fingerprint
        if side.source is not None:
            made[f"{modality} source"] = side.source.card.fingerprint
    if model.target is not None:
        made["target"] = model.target.card.fingerprint
    return made
