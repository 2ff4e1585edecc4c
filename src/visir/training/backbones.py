"""A side of a recipe becomes a tower: a backbone that reads pictures or texts, or a frozen encoder, and a head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from visir.encoders.base import Encoder
from visir.encoders.models.with_whole import WithWhole
from visir.encoders.towers.adapted_backbone import AdaptedBackbone
from visir.encoders.towers.base import Backbone, Tower
from visir.encoders.towers.head import Head, HeadSpec
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone
from visir.encoders.towers.set_tower import SetTower
from visir.errors import ConfigurationError, EncoderError, require
from visir.records import Modality
from visir.training.data import given_file
from visir.training.models import ModelLoader
from visir.training.recipe import Recipe
from visir.training.sides import (
    FETCHED,
    GRU,
    FrozenImages,
    FrozenTexts,
    HeadShape,
    PretrainedImages,
    PretrainedTexts,
    ResNet,
    SmallCNN,
)


@dataclass(frozen=True, eq=False)
class ModelSide:
    """One side of the model: its tower, the frozen encoder below it, and the encoder that a tuned backbone is from."""

    tower: Tower
    base_encoder: Encoder | None = None
    source: Encoder | None = None


def build_image_side(recipe: Recipe, models: ModelLoader) -> ModelSide:
    """The image side with fresh weights, drawn from torch's generator, where they do not come trained."""
    side = recipe.image
    if isinstance(side, FrozenImages):
        base_encoder = models.image_base_encoder(side)
        return ModelSide(_tower(recipe, "image", None, base_encoder), base_encoder)
    if isinstance(side, PretrainedImages):
        source = models.tuned(side.encoder, "image")
        return _tuned(recipe, "image", source, side.checkpointing)
    return ModelSide(_tower(recipe, "image", _image_backbone(recipe, side)))


def build_text_side(recipe: Recipe, models: ModelLoader, train: Sequence[str]) -> ModelSide:
    """The text side; `train` are the training captions, from which a vocabulary is made."""
    side = recipe.text
    if isinstance(side, FrozenTexts):
        base_encoder = models.text_base_encoder(side, train)
        return ModelSide(_tower(recipe, "text", None, base_encoder), base_encoder)
    if isinstance(side, PretrainedTexts):
        source = models.tuned(side.encoder, "text")
        return _tuned(recipe, "text", source, side.checkpointing)
    return ModelSide(_tower(recipe, "text", _gru(recipe, side, train)))


def _image_backbone(recipe: Recipe, side: ResNet | SmallCNN) -> Backbone:
    if isinstance(side, SmallCNN):
        from visir.encoders.towers.small_cnn import SmallCNNBackbone

        return SmallCNNBackbone(size=side.size, width=side.width)
    require("torchvision", extra="vision", purpose="a ResNet tower")
    from visir.encoders.towers.resnet import ResNetBackbone

    is_named = side.weights in (*FETCHED, "random")
    weights = side.weights if is_named else str(given_file(recipe, side.weights, "image.weights"))
    return ResNetBackbone(depth=side.depth, weights=weights, size=side.size)


def _gru(recipe: Recipe, side: GRU, train: Sequence[str]) -> Backbone:
    from visir.encoders.towers.gru import GRUBackbone
    from visir.encoders.towers.words import WordVocabulary

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


def _tuned(recipe: Recipe, modality: Modality, source: Encoder, checkpointing: bool) -> ModelSide:
    if recipe.adapter is None:
        backbone = PretrainedBackbone(source, modality, checkpointing=checkpointing)
    else:
        backbone = AdaptedBackbone(source, modality, recipe.adapter.spec, checkpointing=checkpointing)
    return ModelSide(_tower(recipe, modality, backbone), source=source)


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
