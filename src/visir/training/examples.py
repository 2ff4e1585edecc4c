"""The examples of a recipe's splits: what is frozen is encoded, everything else is read batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.encoders import encode, encode_dense
from visir.encoders.base import Encoder
from visir.encoders.broken import check_there
from visir.encoders.encoding import is_stored
from visir.encoders.forms import as_dense
from visir.encoders.models.views import ImageViews
from visir.encoders.models.with_whole import WithWhole
from visir.encoders.towers.base import Backbone
from visir.encoders.towers.gru import GRUBackbone
from visir.encoders.towers.set_tower import SetTower
from visir.errors import ConfigurationError
from visir.records import Collection, Modality, MultiVectorEmbeddings, TokenVectors
from visir.shortcuts.view import plain, reassigned, with_texts
from visir.training.backbones import ModelSide
from visir.training.build import TrainingModel
from visir.training.data import Splits, image_rows_of
from visir.training.inputs.base import InputSource, TrainingExamples
from visir.training.inputs.pixels import PixelSource
from visir.training.inputs.prepared import PreparedTexts
from visir.training.inputs.prompts import PromptedTexts
from visir.training.inputs.sets import SetSource, SetsWithWholes
from visir.training.inputs.shortcuts import (
    Assignments,
    EndedTargets,
    EndedTexts,
    EndedWords,
    Numbering,
    StampedPictures,
    evaluated_texts,
)
from visir.training.inputs.vectors import VectorSource
from visir.training.inputs.words import TokenSource, WordSource
from visir.training.negative_sources import hard_negatives
from visir.training.recipe import Recipe
from visir.training.sides import GRU, FrozenImages

Frozen: TypeAlias = NDArray[Any] | TokenVectors | SetsWithWholes
"""The vectors of a frozen encoder: one for each item, several, or several and one of the whole."""


def build_examples(recipe: Recipe, model: TrainingModel, splits: Splits) -> tuple[TrainingExamples, TrainingExamples]:
    """The examples of both splits, (train, validation); encodes what is frozen, through the store."""
    # Fits the standard scaling of heads over frozen encoders to the training vectors. What auxiliary losses decode (the
    # latent targets of LTD, the words of ITD) is the caption without its shortcut, unless the recipe says otherwise.
    train, validation = splits.train, splits.validation
    texts: list[str] = plain(train).captions["text"].to_pylist()
    train_examples = TrainingExamples(
        anchors=_training_images(recipe, model.sides["image"], train),
        positives=_training_texts(recipe, model.sides["text"], train),
        anchor_rows=image_rows_of(train),
        ids=train.captions["id"].to_pylist(),
        origin=_origin(model, train),
        targets=None if model.target is None else _targets(recipe, model.target, train),
        tokens=None if model.tokens is None else TokenSource(*model.tokens.encode(texts)),
        negatives=hard_negatives(
            recipe.negatives, train, partial(_texts_as_trained, recipe, model.sides["text"]), model.searcher
        ),
    )
    validation_examples = TrainingExamples(
        anchors=_validation_images(recipe, model.sides["image"], validation),
        positives=_validation_texts(recipe, model.sides["text"], validation),
        anchor_rows=image_rows_of(validation),
        ids=validation.captions["id"].to_pylist(),
        origin=_origin(model, validation),
    )
    return train_examples, validation_examples


def check_pictures(recipe: Recipe, model: TrainingModel, splits: Splits) -> None:
    """Raise one `ImageError` for all pictures of both splits that would be read and that are not there."""
    base_encoder = model.sides["image"].base_encoder

    def is_read(split: Collection) -> bool:
        if base_encoder is None:
            return True
        sides = [assigned.items("image") for assigned in _assigned(recipe, split, "image")]
        encoders = [part for view in [*_views(base_encoder), base_encoder] for part in _kept_encoders(view)]
        return not all(is_stored(encoder, items) for encoder in encoders for items in sides)

    check_there([split for split in (splits.train, splits.validation) if is_read(split)])


def _views(base_encoder: Encoder) -> list[Encoder]:
    """Every view by itself: training draws one of them each time it sees the image."""
    if isinstance(base_encoder, ImageViews | WithWhole) and len(base_encoder.views) > 1:
        return [base_encoder.alone(view) for view in base_encoder.views]
    return [base_encoder]


def _kept_encoders(encoder: Encoder) -> list[Encoder]:
    """Whose vectors the store keeps."""
    return [encoder.several, encoder.whole] if isinstance(encoder, WithWhole) else [encoder]


def _training_images(recipe: Recipe, side: ModelSide, split: Collection) -> InputSource:
    settings, carried = recipe.image, _carries(split, "image")
    if side.base_encoder is None:
        assert not isinstance(settings, FrozenImages)
        backbone = _backbone(side)
        pictures = PixelSource(plain(split), backbone, settings.augment, settings.cache)
        return StampedPictures(pictures, backbone, split, _numbering(recipe, split)) if carried else pictures
    views, assigned = _views(side.base_encoder), _assigned(recipe, split, "image")
    return _fitted(side, [[_frozen(view, part, "image") for view in views] for part in assigned])


def _training_texts(recipe: Recipe, side: ModelSide, split: Collection) -> InputSource:
    if side.base_encoder is None:
        return _texts_as_trained(recipe, side, split)
    frozen = _frozen_texts(recipe, side.base_encoder, split)
    return _prompted(recipe, _fitted(side, frozen))


def _texts_as_trained(recipe: Recipe, side: ModelSide, split: Collection) -> InputSource:
    """The captions of a split as the text side reads them in training; nothing is fitted to them."""
    if side.base_encoder is not None:
        return _prompted(recipe, _one_or_all(_frozen_texts(recipe, side.base_encoder, split)))
    settings, carried = recipe.text, _carries(split, "text")
    backbone, texts = _backbone(side), _in_prompts(recipe, plain(split).captions["text"].to_pylist())
    if isinstance(settings, GRU):
        assert isinstance(backbone, GRUBackbone)
        words = WordSource(*backbone.vocabulary.encode(texts), dropout=settings.word_dropout)
        return (
            EndedWords(words, backbone.vocabulary, _numbering(recipe, split)) if carried else _prompted(recipe, words)
        )
    if carried:
        return EndedTexts(backbone, texts, _numbering(recipe, split))
    return _prompted(recipe, PreparedTexts(backbone, texts))


def _in_prompts(recipe: Recipe, texts: list[str]) -> list[str]:
    """All texts in the first prompt, then all of them in the second one; themselves without prompts."""
    prompts = recipe.text.prompts
    return [prompt.replace("{}", text) for prompt in prompts for text in texts] if prompts else texts


def _prompted(recipe: Recipe, source: InputSource) -> InputSource:
    """A source of `_in_prompts` as one of texts."""
    prompts = recipe.text.prompts
    return PromptedTexts(source, len(prompts), recipe.text.prompting) if prompts else source


def _frozen_texts(recipe: Recipe, base_encoder: Encoder, split: Collection) -> list[list[Frozen]]:
    """The vectors of a frozen encoder, by assignment of shortcuts and by view."""
    if not recipe.text.prompts:
        return [[_frozen(base_encoder, assigned, "text")] for assigned in _assigned(recipe, split, "text")]
    texts = split.captions["text"]
    filled = [
        with_texts(split, pa.array([prompt.replace("{}", text) for text in texts.to_pylist()], pa.string()))
        for prompt in recipe.text.prompts
    ]
    return [[np.concatenate([encode_dense(base_encoder, view, "text").vectors for view in filled])]]


def _validation_images(recipe: Recipe, side: ModelSide, split: Collection) -> InputSource:
    if side.base_encoder is not None:
        # As they will be encoded in use: with all views, which evaluating the checkpoint finds in the store.
        return _source([_frozen(side.base_encoder, split, "image")])
    assert not isinstance(recipe.image, FrozenImages)
    backbone = _backbone(side)
    pictures = PixelSource(plain(split), backbone, cache=recipe.image.cache)
    carried = _carries(split, "image")
    return StampedPictures(pictures, backbone, split, _numbering(recipe, split)) if carried else pictures


def _validation_texts(recipe: Recipe, side: ModelSide, split: Collection) -> InputSource:
    if side.base_encoder is not None:
        if recipe.text.prompts:
            return _prompted(recipe, _one_or_all(_frozen_texts(recipe, side.base_encoder, split)))
        return _source([_frozen(side.base_encoder, split, "text")])
    backbone = _backbone(side)
    texts = _in_prompts(recipe, evaluated_texts(backbone, split))
    if isinstance(backbone, GRUBackbone):
        return _prompted(recipe, WordSource(*backbone.vocabulary.encode(texts)))
    return _prompted(recipe, PreparedTexts(backbone, texts))


def _targets(recipe: Recipe, target: Encoder, split: Collection) -> InputSource:
    """The latent targets of the captions: without their shortcuts, or with them."""
    # Of a few fixed assignments all are encoded beforehand. Numbers that are new in every epoch are encoded batch by
    # batch.
    assert recipe.auxiliary.ltd is not None
    if not recipe.auxiliary.ltd.shortcuts:
        return VectorSource([encode_dense(target, plain(split), "text").vectors])
    if _carries(split, "text") and recipe.shortcuts is not None and recipe.shortcuts.shuffles == 0:
        return EndedTargets(target, plain(split).captions["text"].to_pylist(), _numbering(recipe, split))
    return _one_or_all(
        [[encode_dense(target, assigned, "text").vectors] for assigned in _assigned(recipe, split, "text")]
    )


def _assigned(recipe: Recipe, split: Collection, modality: Modality) -> list[Collection]:
    """The split under every assignment of its shortcuts, for what is encoded beforehand; itself without any."""
    if not _carries(split, modality):
        return [split]
    assert recipe.shortcuts is not None
    if recipe.shortcuts.per == "caption" and modality == "image":
        raise ConfigurationError(
            f'{recipe.name}: shortcuts.per = "caption" gives a picture another number beside each of its captions; '
            "a frozen image side sees one picture.",
            hint='shortcuts.per = "image", or an image side that is trained',
        )
    if recipe.shortcuts.shuffles == 0:
        raise ConfigurationError(
            f"{recipe.name}: shortcuts.shuffles = 0 gives new numbers every epoch, and what is frozen would be encoded "
            "anew for each.",
            hint="a few fixed assignments: --set shortcuts.shuffles=4",
        )
    return [reassigned(split, number) for number in range(recipe.shortcuts.shuffles)]


def _carries(split: Collection, modality: Modality) -> bool:
    return split.injected is not None and split.injected.on(modality)


def _numbering(recipe: Recipe, split: Collection) -> Numbering:
    assert recipe.shortcuts is not None
    return Numbering(split, recipe.shortcuts.shuffles)


def _frozen(encoder: Encoder, items: Collection, modality: Modality) -> Frozen:
    """What a frozen encoder gives for one side of a split."""
    if isinstance(encoder, WithWhole):
        sets = _frozen(encoder.several, items, modality)
        assert isinstance(sets, TokenVectors)
        return SetsWithWholes(sets, encode_dense(encoder.whole, items, modality).vectors)
    vectors = encode(encoder, items, modality)
    return vectors.tokens if isinstance(vectors, MultiVectorEmbeddings) else as_dense(vectors).vectors


def _fitted(side: ModelSide, assigned: Sequence[Sequence[Frozen]]) -> InputSource:
    """The training vectors, by assignment and view; the head takes mean and deviation from them."""
    views = [view for views in assigned for view in views]
    wholes = [view.wholes for view in views if isinstance(view, SetsWithWholes)]
    parts = [view.sets if isinstance(view, SetsWithWholes) else view for view in views]
    side.tower.head.fit_scaling(*(part.vectors if isinstance(part, TokenVectors) else part for part in parts))
    if isinstance(side.tower, SetTower) and side.tower.whole is not None:
        side.tower.whole.fit_scaling(*wholes)
    return _one_or_all(assigned)


def _one_or_all(assigned: Sequence[Sequence[Frozen]]) -> InputSource:
    sources = [_source(views) for views in assigned]
    return sources[0] if len(sources) == 1 else Assignments(sources)


def _source(views: Sequence[Frozen]) -> InputSource:
    """One vector of each item or several, as the encoder gave them."""
    both = [view for view in views if isinstance(view, SetsWithWholes)]
    sets = [view for view in views if isinstance(view, TokenVectors)]
    if both or sets:
        return SetSource(both or sets)
    return VectorSource([view for view in views if isinstance(view, np.ndarray)])


def _backbone(side: ModelSide) -> Backbone:
    assert side.tower.backbone is not None, "a side without a frozen encoder has a backbone"
    return side.tower.backbone


def _origin(model: TrainingModel, split: Collection) -> dict[str, Any]:
    """What examples are made of: the split, and each encoder whose vectors or weights went in."""
    origin: dict[str, Any] = {"split": split.fingerprint}
    for modality, side in model.sides.items():
        if side.base_encoder is not None:
            origin[f"{modality} base encoder"] = side.base_encoder.card.fingerprint
        if side.source is not None:
            origin[f"{modality} source"] = side.source.card.fingerprint
    if model.searcher is not None:
        origin["searcher"] = model.searcher.card.fingerprint
    if model.target is not None:
        origin["target"] = model.target.card.fingerprint
    return origin
