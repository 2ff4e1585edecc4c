"""From a recipe and its captions to a model with fresh weights: towers, objective, decoders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from visir.encoders import load
from visir.encoders.base import Encoder
from visir.encoders.families import facts_of_folder, named_like
from visir.encoders.families import models as known_models
from visir.encoders.loading import family_named, require_packages
from visir.encoders.models.hub import find_model
from visir.encoders.models.joined import ImageViews, JoinedTexts, WithWhole
from visir.encoders.models.sentence import find
from visir.encoders.models.small import BagOfWords
from visir.encoders.towers.base import Backbone, Head, HeadSpec, SetTower, Tower
from visir.encoders.towers.gru import WordVocabulary
from visir.encoders.towers.pretrained_backbone import (
    LATE_INTERACTION,
    PretrainedBackbone,
    not_tunable,
    own_bias,
    own_temperature,
)
from visir.errors import ConfigurationError, EncoderError, require
from visir.options import split_mark
from visir.records import Collection, Modality
from visir.shortcuts.view import endings, plain
from visir.training.data import given_file
from visir.training.losses import CosineSettings, FILIPSettings
from visir.training.objective import Objective, build_objective
from visir.training.recipe import (
    FETCHED,
    FITTED_WORDS,
    GRU,
    FrozenImages,
    FrozenTexts,
    HeadShape,
    PretrainedImages,
    PretrainedTexts,
    Recipe,
    ResNet,
    SmallCNN,
    expand,
)

# The encoders that a recipe names: each loaded once, frozen or to be tuned.


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


# A side of a recipe becomes a tower: a backbone that reads pictures or texts, or a frozen encoder, and a head.


@dataclass(frozen=True, eq=False)
class ModelSide:
    """One side of the model: its tower, the frozen encoder below it, and the encoder that a tuned backbone is from."""

    tower: Tower
    base_encoder: Encoder | None = None
    source: Encoder | None = None


def build_side(recipe: Recipe, modality: Modality, models: ModelLoader, train: Sequence[str]) -> ModelSide:
    """A side with fresh weights, drawn from torch's generator, where they do not come trained."""
    # train: The training captions, from which a vocabulary is made.
    side = recipe.image if modality == "image" else recipe.text
    if isinstance(side, FrozenImages | FrozenTexts):
        if isinstance(side, FrozenImages):
            base_encoder = models.image_base_encoder(side)
        else:
            base_encoder = models.text_base_encoder(side, train)
        return ModelSide(_tower(recipe, modality, None, base_encoder), base_encoder)
    if isinstance(side, PretrainedImages | PretrainedTexts):
        source = models.tuned(side.encoder, modality)
        adapter = None if recipe.adapter is None else recipe.adapter.spec
        backbone: Backbone = PretrainedBackbone.of(source, modality, adapter, checkpointing=side.checkpointing)
        return ModelSide(_tower(recipe, modality, backbone), source=source)
    backbone = _gru(recipe, side, train) if isinstance(side, GRU) else _image_backbone(recipe, side)
    return ModelSide(_tower(recipe, modality, backbone))


def _image_backbone(recipe: Recipe, side: ResNet | SmallCNN) -> Backbone:
    if isinstance(side, SmallCNN):
        from visir.encoders.towers.resnet import SmallCNNBackbone

        return SmallCNNBackbone(size=side.size, width=side.width)
    require("torchvision", extra="vision", purpose="a ResNet tower")
    from visir.encoders.towers.resnet import ResNetBackbone

    is_named = side.weights in (*FETCHED, "random")
    weights = side.weights if is_named else str(given_file(recipe, side.weights, "image.weights"))
    return ResNetBackbone(depth=side.depth, weights=weights, size=side.size)


def _gru(recipe: Recipe, side: GRU, train: Sequence[str]) -> Backbone:
    from visir.encoders.towers.gru import GRUBackbone, WordVocabulary

    # The words of prompts stand beside every caption: none of them is too rare.
    prompts = [prompt.replace("{}", " ") for prompt in side.prompts] * side.min_count
    backbone = GRUBackbone(
        WordVocabulary.fit([*train, *prompts], side.min_count),
        words=side.words,
        hidden=side.hidden,
        bidirectional=side.bidirectional,
        layers=side.layers,
        pooling=side.pooling,
    )
    if side.vectors is not None:
        backbone.read_vectors(given_file(recipe, side.vectors, "text.vectors"))
    return backbone


def _tower(recipe: Recipe, modality: Modality, backbone: Backbone | None, base_encoder: Encoder | None = None) -> Tower:
    side = recipe.image if modality == "image" else recipe.text
    shape = side.head
    if backbone is not None and shape.scaling == "standard":
        raise ConfigurationError(
            f'{recipe.name}: {modality}.head.scaling = "standard" takes mean and deviation from the vectors of '
            "a frozen encoder; a backbone that is trained has none yet.",
            hint=f"--set {modality}.head.scaling=none (or unit)",
        )
    below = base_encoder.several if isinstance(base_encoder, WithWhole) else base_encoder
    width = backbone.outputs if backbone is not None else below.dimension if below is not None else 0
    outputs = width if recipe.dimension == "own" else recipe.dimension
    head = _head(recipe, f"{modality}.head", shape, width, outputs)
    if below is None or below.form != "multi-vector":
        return Tower(backbone, head)
    if not isinstance(base_encoder, WithWhole) or not isinstance(side, FrozenImages | FrozenTexts) or not side.whole:
        return SetTower(head)
    whole = _head(recipe, f"{modality}.whole.head", side.whole.head, base_encoder.whole.dimension, outputs)
    return SetTower(head, whole)


def _head(recipe: Recipe, key: str, shape: HeadShape, inputs: int, outputs: int) -> Head:
    try:
        return Head(HeadSpec(inputs=inputs, outputs=outputs, **shape.model_dump()))
    except EncoderError as fault:
        raise ConfigurationError(f"{recipe.name}: {key}: {fault.message}", hint=fault.hint, code=fault.code) from fault


@dataclass(frozen=True, eq=False)
class TrainingModel:
    """What a recipe builds before anything is encoded."""

    sides: dict[Modality, ModelSide]  # towers and frozen encoders
    objective: Objective  # with its decoders
    target: Encoder | None = None  # the sentence encoder whose vectors LTD decodes
    tokens: WordVocabulary | None = None  # the words that ITD says again
    searcher: Encoder | None = None  # the given model that searches for hard negatives

    @property
    def towers(self) -> dict[Modality, Tower]:
        """The towers by modality."""
        return {modality: side.tower for modality, side in self.sides.items()}

    @property
    def is_late(self) -> bool:
        """Whether items have several vectors, which are compared in late interaction."""
        return isinstance(self.towers["image"], SetTower)

    @property
    def dimension(self) -> int:
        """Of the common space."""
        return self.sides["image"].tower.head.spec.outputs

    @property
    def base_encoders(self) -> dict[Modality, Encoder | None]:
        """The frozen encoders of the sides that have one."""
        return {modality: side.base_encoder for modality, side in self.sides.items()}


def build_model(recipe: Recipe, train: Collection, device: str) -> TrainingModel:
    """Towers and objective with fresh weights: a function of the recipe, its seed and the training captions."""
    # A model that both sides name is loaded once.
    # device: Where frozen encoders compute; towers are built on the CPU. On a GPU tuned ones take bytes.
    models = ModelLoader(device)
    captions: list[str] = plain(train).captions["text"].to_pylist()
    auxiliary = recipe.auxiliary
    target = models.frozen(auxiliary.ltd.target, "text") if auxiliary.ltd else None
    tokens = WordVocabulary.fit(captions, auxiliary.itd.min_count) if auxiliary.itd else None
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        sides: dict[Modality, ModelSide] = {
            "image": build_side(recipe, "image", models, ()),
            "text": build_side(recipe, "text", models, [*captions, *_digits(recipe, train)]),
        }
        tuned = sides["image"].tower.backbone
        if isinstance(tuned, PretrainedBackbone):
            tuned.as_bytes = device.startswith("cuda")
        _refuse_collapse(recipe, sides)
        _check_forms(recipe, sides)
        dimension, text = (sides[modality].tower.head.spec.outputs for modality in ("image", "text"))
        if dimension != text:
            raise ConfigurationError(
                f'{recipe.name}: dimension = "own" needs two encoders of one dimension; images have {dimension}, texts '
                f"{text}.",
                hint=f"--set dimension={min(dimension, text)} --set image.head.identity=false --set "
                "text.head.identity=false",
            )
        objective = build_objective(
            recipe.objective,
            auxiliary,
            dimension=dimension,
            target_width=None if target is None else target.dimension,
            vocabulary=None if tokens is None else len(tokens),
            own_temperature=_own(recipe, sides, "temperature", own_temperature),
            own_bias=_own(recipe, sides, "bias", own_bias),
        )
    return TrainingModel(sides, objective, target, tokens, _searcher(recipe, models))


def _searcher(recipe: Recipe, models: ModelLoader) -> Encoder | None:
    mined = recipe.negatives.mined
    if mined is None or not mined.model:
        return None
    models.frozen(mined.model, "image")
    return models.frozen(mined.model, "text")


def _digits(recipe: Recipe, train: Collection) -> list[str]:
    """Texts from which a vocabulary learns all ten digits, when captions end in them, however few there are."""
    least = recipe.text.min_count if isinstance(recipe.text, GRU) else 1
    return ["0 1 2 3 4 5 6 7 8 9"] * least if endings(train.items("text")) is not None else []


def _refuse_collapse(recipe: Recipe, sides: dict[Modality, ModelSide]) -> None:
    """The negative cosine holds nothing apart: with two sides that move, all vectors may meet in one point."""
    moving = [side for side in sides.values() if any(parameter.requires_grad for parameter in side.tower.parameters())]
    if isinstance(recipe.objective, CosineSettings) and len(moving) == len(sides):
        raise ConfigurationError(
            f'{recipe.name}: objective.name = "cosine" has no negatives; both sides are trained, and would meet in one '
            "point.",
            hint='hold one side fixed (tower = "frozen", head = { identity = true }), or take infonce, ifm or triplet',
        )


def _check_forms(recipe: Recipe, sides: dict[Modality, ModelSide]) -> None:
    """FILIP compares sets of vectors, and nothing else does: both sides or none have several vectors for an item."""
    several = [modality for modality, side in sides.items() if isinstance(side.tower, SetTower)]
    wanted = isinstance(recipe.objective, FILIPSettings)
    auxiliary = [name for name, settings in recipe.auxiliary if settings is not None]
    if wanted and auxiliary:
        raise ConfigurationError(
            f"{recipe.name}: auxiliary.{auxiliary[0]} decodes a caption from its one vector, and under "
            'objective.name = "filip" a caption has several.',
            hint=f"leave auxiliary.{auxiliary[0]} out",
        )
    if wanted and recipe.text.prompts:
        raise ConfigurationError(
            f'{recipe.name}: text.prompts are averaged, and under objective.name = "filip" a caption has several '
            "vectors.",
            hint="leave text.prompts out, or name one prompt with the encoder: ?template=a photo of {}",
        )
    if len(several) == (len(sides) if wanted else 0):
        return
    have = " and ".join(f"{modality}s" for modality in several)
    raise ConfigurationError(
        f'{recipe.name}: objective.name = "{recipe.objective.name}" compares '
        f"{'several vectors' if wanted else 'one vector'} of an image with {'those' if wanted else 'one'} of a text, "
        f"and {f'of {have} there are several' if several else 'there is one of each'}.",
        hint='late interaction needs two frozen encoders that give several vectors (e.g. "mobilenet_v2?vectors=grid" '
        'and "st:all-MiniLM-L6-v2?vectors=tokens") and objective.name = "filip"',
    )


def _own(recipe: Recipe, sides: dict[Modality, ModelSide], name: str, own: Callable[[Encoder], float | None]) -> Any:
    """The temperature (or the bias) of the pretrained model, when the objective asks for it."""
    if getattr(recipe.objective, name, None) != "own":
        return None
    sources = {id(side.source): side.source for side in sides.values() if side.source is not None}
    values = [value for value in map(own, sources.values()) if value is not None]
    if len(values) != 1:
        raise ConfigurationError(
            f'{recipe.name}: objective.{name} = "own" needs one pretrained model that has a {name}; '
            f"there are {len(values)}.",
            hint=f"say a number: --set objective.{name}={'0.05' if name == 'temperature' else '-10'}",
        )
    return values[0]
