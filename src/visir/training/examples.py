"""The examples of a recipe's splits: what is frozen is encoded, everything else is read batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

from visir.encoders import encode, encode_dense
from visir.encoders.base import Encoder
from visir.encoders.encoding import is_stored, texts_of
from visir.encoders.forms import as_dense
from visir.encoders.models.joined import ImageViews, WithWhole
from visir.encoders.store import check_there, content_fingerprint
from visir.encoders.towers.base import LENGTHS, PRESENT, VECTORS, WHOLE, Backbone, Inputs, PromptInputs, SetTower
from visir.encoders.towers.gru import END, START, UNKNOWN, GRUBackbone, WordVocabulary
from visir.errors import ConfigurationError, EmbeddingError
from visir.progress import Progress
from visir.records import Collection, Modality, MultiVectorEmbeddings, TokenVectors
from visir.records.shortcuts import DIGITS
from visir.robustness.perturb import perturb_texts
from visir.shortcuts.stamp import Stamp, numbers
from visir.shortcuts.view import caption_places, ending, picture_numbers, picture_places, plain, reassigned, with_texts
from visir.training.build import ModelSide, TrainingModel
from visir.training.data import Splits, image_rows_of
from visir.training.inputs import (
    PROMPTS,
    VIEWS,
    WORDS,
    EpochRandom,
    HardNegatives,
    InputSource,
    Mined,
    PixelSource,
    Rows,
    Swapped,
    TrainingExamples,
    VectorSource,
    uniform,
)
from visir.training.learner import search
from visir.training.recipe import GRU, FrozenImages, MinedNegatives, Negatives, Recipe, SwappedNegatives

# Batches with shortcuts: sources of pictures, words, texts and vectors, with the numbers of the epoch put on.

_EPOCHS_APART = 1 << 32
"""Handwriting is drawn by the caption's row, anew every epoch: no split has so many captions."""


class Numbering:
    """The number of every example, a caption with its image, in every epoch."""

    # With a few bits and no fixed assignments a number is drawn for every *example* (thesis, setup IV: for each pair of
    # the batch), so captions of one image differ; otherwise it belongs to the tuple.

    def __init__(self, split: Collection, shuffles: int) -> None:
        assert split.injected is not None
        self._injected, self._shuffles, self._places = split.injected, shuffles, caption_places(split.items("text"))
        self._each = split.injected.shortcuts.kind == "bits" and shuffles == 0

    def of(self, captions: Rows, epoch: int) -> Rows:
        """(n,) numbers of the examples `captions`, given by their rows."""
        assignment = epoch % self._shuffles if self._shuffles else epoch
        return numbers(self._injected, captions if self._each else self._places[captions], assignment)


class StampedPictures:
    """A source of pictures, each with its number along the top edge; stamped on the finished batch, so after everything
    that is random, and before normalisation."""

    is_slow = True

    def __init__(self, source: InputSource, backbone: Backbone, split: Collection, numbering: Numbering) -> None:
        assert split.injected is not None
        self._source, self._numbering = source, numbering
        self._stamp = Stamp(
            split.injected.shortcuts, lambda image: _tensor(backbone.collate([backbone.prepare(image)]))[0]
        )
        images = split.items("image")
        numbers = picture_numbers(images)
        assert numbers is not None
        self._still, self._places = numbers, picture_places(images)

    def __len__(self) -> int:
        return len(self._source)

    def batch(self, rows: Rows, draw: EpochRandom | None = None, keys: Rows | None = None) -> Inputs:
        """The pictures `rows` with the numbers of their captions `keys`; without a draw, as at evaluation."""
        pictures = _tensor(self._source.batch(rows, draw, keys))
        if draw is None:
            carried, hands = self._still[rows], self._places[rows]
            have = np.flatnonzero(carried >= 0)
        else:
            assert keys is not None, "in training every picture stands beside a caption"
            carried, hands = self._numbering.of(keys, draw.epoch), keys + _EPOCHS_APART * (draw.epoch + 1)
            have = np.arange(len(rows))
        self._stamp.batch(pictures, have, carried, hands)
        return pictures


class EndedWords:
    """Word ids for a `GRUBackbone`, each caption followed by the six digits of its number; no digit is ever dropped."""

    def __init__(self, source: InputSource, vocabulary: WordVocabulary, numbering: Numbering) -> None:
        self._source, self._numbering = source, numbering
        self._digits = vocabulary.encode(["0 1 2 3 4 5 6 7 8 9"])[0].astype(np.int64)

    def __len__(self) -> int:
        return len(self._source)

    def batch(self, rows: Rows, draw: EpochRandom | None = None, keys: Rows | None = None) -> dict[str, Tensor]:
        """The captions `rows`, padded with 0 to the longest of them."""
        assert draw is not None, "at evaluation texts end in their digits already"
        read = self._source.batch(rows, draw, keys)
        assert not isinstance(read, Tensor)
        lengths = read[LENGTHS].numpy()
        ids = np.pad(read["ids"].numpy(), ((0, 0), (0, DIGITS)))
        at = lengths[:, None] + np.arange(DIGITS)
        digits = self._numbering.of(rows, draw.epoch)[:, None] // 10 ** np.arange(DIGITS - 1, -1, -1) % 10
        np.put_along_axis(ids, at, self._digits[digits], axis=1)  # the highest first
        return {"ids": torch.from_numpy(ids), LENGTHS: torch.from_numpy(lengths + DIGITS)}


class EndedTexts:
    """Texts under a backbone's own tokeniser, each ending in its number of the epoch; long texts are cut before it."""

    def __init__(self, backbone: Backbone, texts: Sequence[str], numbering: Numbering) -> None:
        # Digits between spaces are single tokens to every tokeniser: room for one number is room for all.
        self._backbone, self._numbering = backbone, numbering
        self._texts = backbone.truncate(texts, ending(0))

    def __len__(self) -> int:
        return len(self._texts)

    def batch(self, rows: Rows, draw: EpochRandom | None = None, keys: Rows | None = None) -> Inputs:
        """The texts `rows` as `backbone.collate` lays them out."""
        assert draw is not None, "at evaluation texts end in their digits already"
        carried = self._numbering.of(rows, draw.epoch).tolist()
        texts = [f"{self._texts[row]} {ending(number)}" for row, number in zip(rows.tolist(), carried, strict=True)]
        return self._backbone.collate([self._backbone.prepare(text) for text in texts])


class EndedTargets:
    """Latent targets of captions with the numbers of the epoch: encoded batch by batch, because they are new each
    time."""

    is_slow = True

    def __init__(self, encoder: Encoder, texts: Sequence[str], numbering: Numbering) -> None:
        self._encoder, self._numbering = encoder, numbering
        self._texts = encoder.truncate(texts, ending(0))

    def __len__(self) -> int:
        return len(self._texts)

    def batch(self, rows: Rows, draw: EpochRandom | None = None, keys: Rows | None = None) -> Tensor:
        """(len(rows), t) float32."""
        assert draw is not None, "only training decodes"
        carried = self._numbering.of(rows, draw.epoch).tolist()
        ended = {
            str(place): f"{self._texts[row]} {ending(number)}"
            for place, (row, number) in enumerate(zip(rows.tolist(), carried, strict=True))
        }
        vectors = as_dense(self._encoder.encode_inputs("text", ended, role="document")).vectors
        return torch.from_numpy(np.array(vectors, np.float32))


class Assignments:
    """Vectors of a frozen encoder under several fixed assignments of numbers: epoch e takes the (e mod k)-th."""

    def __init__(self, sources: Sequence[InputSource]) -> None:
        self._sources = list(sources)

    def __len__(self) -> int:
        return len(self._sources[0])

    def batch(self, rows: Rows, draw: EpochRandom | None = None, keys: Rows | None = None) -> Any:
        """The vectors `rows` of the epoch's assignment."""
        assert draw is not None, "at evaluation there is one assignment"
        return self._sources[draw.epoch % len(self._sources)].batch(rows, draw, keys)


def _tensor(inputs: Inputs) -> Tensor:
    if not isinstance(inputs, Tensor):
        raise ConfigurationError(
            "shortcuts are stamped on pictures, one tensor (n, 3, height, width); this backbone takes "
            f"{sorted(inputs)}.",
            hint='shortcuts.on = "captions" leaves pictures alone',
        )
    return inputs


# Captions as word ids, padded to a batch without a loop over captions.


class _Flat:
    """All captions one after another: caption i is `flat[offsets[i]:offsets[i + 1]]`."""

    # Two arrays hold 567,000 captions in 30 MB; as many small ones would take ten times as much, and a batch a loop.

    def __init__(self, flat: NDArray[np.int32], offsets: NDArray[np.int64]) -> None:
        if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(flat) or (np.diff(offsets) < 0).any():
            raise ValueError(f"offsets must rise from 0 to the number of ids, {len(flat)}")
        self._flat, self._offsets = flat, offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def _padded(self, rows: Rows) -> tuple[Rows, Rows, Rows, NDArray[np.bool_]]:
        """(n, L) ids padded with 0, (n,) lengths, (n, L) positions in `flat`, and where there is a word."""
        starts = self._offsets[rows]
        lengths = self._offsets[rows + 1] - starts
        columns = np.arange(max(1, int(lengths.max(initial=0))))
        positions = starts[:, None] + columns
        words = columns < lengths[:, None]
        ids = np.zeros(words.shape, np.int64)
        ids[words] = self._flat[positions[words]]
        return ids, lengths, positions, words


class WordSource(_Flat):
    """Word ids for a `GRUBackbone`: {"ids": (n, L) int64, "lengths": (n,) int64}, the same as its `collate` gives."""

    # `dropout`: in training every word is replaced by the unknown word with this probability, drawn anew each epoch by
    # the word's place in the whole split: which batch a caption is in does not matter. The sentence keeps its length. A
    # caption without a word counts as one unknown word, because a recurrent network cannot read nothing.

    def __init__(self, flat: NDArray[np.int32], offsets: NDArray[np.int64], dropout: float = 0.0) -> None:
        super().__init__(flat, offsets)
        self._dropout = dropout

    def batch(self, rows: Rows, draw: EpochRandom | None = None, keys: Rows | None = None) -> dict[str, Tensor]:
        """The captions `rows`, padded with 0 to the longest of them."""
        ids, lengths, positions, words = self._padded(rows)
        if draw is not None and self._dropout > 0:
            ids[words & (uniform(draw, WORDS, positions) < self._dropout)] = UNKNOWN
        empty = lengths == 0
        ids[empty, 0] = UNKNOWN
        return {"ids": torch.from_numpy(ids), LENGTHS: torch.from_numpy(np.where(empty, 1, lengths))}


class TokenSource(_Flat):
    """What an input decoder (ITD) is to say: (n, L) int64, start (2), the words, end (3), padded with 0."""

    # No word is dropped: the decoder learns the caption as it is, whatever the text tower saw of it.

    def batch(self, rows: Rows, draw: EpochRandom | None = None, keys: Rows | None = None) -> Tensor:
        """The captions `rows`; the longest has L - 2 words."""
        ids, lengths, _, _ = self._padded(rows)
        tokens = np.zeros((len(rows), ids.shape[1] + 2), np.int64)
        tokens[:, 0] = START
        tokens[:, 1:-1] = ids
        tokens[np.arange(len(rows)), lengths + 1] = END
        return torch.from_numpy(tokens[:, : int(lengths.max(initial=0)) + 2])


# Sets of vectors that a frozen encoder gave, several for each item: looked up, one view at random in training.


@dataclass(frozen=True, eq=False)
class Sets:
    """Several vectors for each of n items, and one (n, d) of the whole item, or none."""

    tokens: TokenVectors
    wholes: NDArray[Any] | None = None


class SetSource:
    """Views of sets of vectors, looked up by row, for a `SetTower`; with one vector of each whole item, or without."""

    # In training each key sees one view, drawn anew every epoch; with no draw it is the first: places of a mirrored
    # picture are other places, so sets cannot be averaged. Nothing is copied but the rows of a batch, so the vectors of
    # a large collection stay on disk.

    def __init__(self, views: Sequence[Sets]) -> None:
        self._views = [view.tokens for view in views]
        self._wholes = [view.wholes for view in views if view.wholes is not None]
        shapes = {(len(view), view.dimension) for view in self._views}
        if len(shapes) != 1:
            raise EmbeddingError(
                f"views of {', '.join(f'{n} items of {d} numbers' for n, d in sorted(shapes)) or '(none)'}; expected "
                "one or more of the same.",
                hint="encode the same items in each view",
            )
        self._most = max(int(view.counts.max(initial=1)) for view in self._views)

    def __len__(self) -> int:
        return len(self._views[0])

    @property
    def width(self) -> int:
        """The length of a vector."""
        return self._views[0].dimension

    def batch(self, rows: Rows, draw: EpochRandom | None = None, keys: Rows | None = None) -> dict[str, Tensor]:
        """The sets of `rows`."""
        # Returns: {"vectors": (m, width) float32, "present": (n, the most of any item) booleans}, and "whole": (n, d)
        # float32 where items have a vector of the whole.
        drawn = np.zeros(len(rows), np.int64)
        if len(self._views) > 1 and draw is not None:
            drawn = (uniform(draw, VIEWS, rows if keys is None else keys) * len(self._views)).astype(np.int64)
        places = [np.flatnonzero(drawn == number) for number in range(len(self._views))]
        order = np.argsort(np.concatenate(places), kind="stable")
        sets = [view.take(rows[some]) for view, some in zip(self._views, places, strict=True)]
        joined = TokenVectors.concatenate(sets).take(order) if len(sets) > 1 else sets[0]
        present = np.arange(self._most) < joined.counts[:, None]
        vectors = np.asarray(joined.vectors, np.float32)
        batch = {VECTORS: torch.from_numpy(vectors), PRESENT: torch.from_numpy(present)}
        if self._wholes:
            wholes = np.empty((len(rows), self._wholes[0].shape[1]), np.float32)
            for view, some in zip(self._wholes, places, strict=True):
                wholes[some] = view[rows[some]]
            batch[WHOLE] = torch.from_numpy(wholes)
        return batch


# The hard negatives that a recipe asks for: the inputs of changed captions, and a search by a given model.

TextSource = Callable[[Collection], InputSource]
"""The inputs of a split's captions as the text side reads them in training."""


def hard_negatives(
    settings: Negatives, split: Collection, texts: TextSource, searcher: Encoder | None
) -> HardNegatives | None:
    """The hard negatives of a training; None where the recipe asks for none."""
    if settings.swapped is None and settings.mined is None:
        return None
    swapped = None if settings.swapped is None else _swapped(settings.swapped, split, texts)
    mined = None if settings.mined is None else mined_over(split, settings.mined)
    if mined is not None and searcher is not None:
        sides = (encode_dense(searcher, plain(split), side).normalise().vectors for side in ("image", "text"))
        mined.captions, mined.images = search(mined, *sides)
    return HardNegatives(swapped, mined)


def _swapped(settings: SwappedNegatives, split: Collection, texts: TextSource) -> Swapped:
    before, rows = plain(split).captions, image_rows_of(split)
    own: list[set[str]] = [set() for _ in range(split.images.num_rows)]
    for row, text in zip(rows, before["text"].to_pylist(), strict=True):
        own[row].add(plain_words(text))
    sources, anchor_rows = [], []
    for kind in settings.kinds:
        of_kind, belong = [], []
        for variant in range(settings.variants):
            changed = perturb_texts(before["text"], before["id"], kind, seed=settings.seed + variant)
            # Words in another order may give another caption of the image ("a dog and a cat"), which is right.
            wrong = [
                plain_words(text) not in own[row] for row, text in zip(rows, changed.texts.to_pylist(), strict=True)
            ]
            if not any(wrong):
                raise ConfigurationError(
                    f"negatives.swapped.kinds: {kind!r} makes no wrong caption of any of {len(rows):,}.",
                    hint="another kind, e.g. shuffle_all_words",
                )
            of_kind.append(texts(with_texts(split, changed.texts)))
            belong.append(np.where(wrong, -1, rows))
        sources.append(of_kind)
        anchor_rows.append(belong)
    return Swapped(sources, anchor_rows)


# Texts under fixed prompts: one prompt drawn for each, or all of them.

Prompting = Literal["drawn", "averaged"]


class PromptedTexts:
    """The texts of a split, each under several prompts."""

    # In training, with "drawn", every text of an epoch stands in one of the prompts, drawn by its row; with "averaged",
    # and in use, it stands in all of them, and its vector is the mean of their unit vectors.

    def __init__(self, source: InputSource, prompts: int, prompting: Prompting) -> None:
        self._source, self._prompts, self._prompting = source, prompts, prompting
        self._texts = len(source) // prompts

    def __len__(self) -> int:
        return self._texts

    def batch(self, rows: Rows, draw: EpochRandom | None = None, keys: Rows | None = None) -> Inputs:
        """The texts `rows`."""
        if draw is not None and self._prompting == "drawn":
            drawn = (uniform(draw, PROMPTS, rows) * self._prompts).astype(np.int64)
            return self._at(drawn, rows, draw)
        return PromptInputs({str(prompt): self._at(prompt, rows, draw) for prompt in range(self._prompts)})

    def _at(self, prompt: int | Rows, rows: Rows, draw: EpochRandom | None) -> Inputs:
        places = prompt * self._texts + rows
        return self._source.batch(places, draw, places)


# Texts that a backbone has prepared once, before the first epoch.


class PreparedTexts:
    """The texts of a split under a backbone's own tokeniser; tokenised here, only collated per batch."""

    def __init__(self, backbone: Backbone, texts: Sequence[str]) -> None:
        self._collate = backbone.collate
        self._prepared = []
        with Progress("tokenising", len(texts), "captions") as advance:
            for text in texts:
                self._prepared.append(backbone.prepare(text))
                advance(1)

    def __len__(self) -> int:
        return len(self._prepared)

    def batch(self, rows: Rows, draw: EpochRandom | None = None, keys: Rows | None = None) -> Inputs:
        """The texts `rows` as `backbone.collate` lays them out; the same with and without a draw."""
        return self._collate([self._prepared[row] for row in rows])


Frozen: TypeAlias = NDArray[Any] | Sets
"""The vectors of a frozen encoder: one for each item, or several."""


def build_examples(recipe: Recipe, model: TrainingModel, splits: Splits) -> tuple[TrainingExamples, TrainingExamples]:
    """The examples of both splits, (train, validation); encodes what is frozen, through the store."""
    # Fits the standard scaling of heads over frozen encoders to the training vectors. What auxiliary losses decode (the
    # latent targets of LTD, the words of ITD) is the caption without its shortcut, unless the recipe says otherwise.
    train, validation = splits.train, splits.validation
    texts: list[str] = plain(train).captions["text"].to_pylist()
    train_examples = TrainingExamples(
        anchors=_images(recipe, model.sides["image"], train, trains=True),
        positives=_texts_as_trained(recipe, model.sides["text"], train, fits=True),
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
        anchors=_images(recipe, model.sides["image"], validation, trains=False),
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
        views = [*_views(base_encoder), base_encoder]  # of two together the vectors of each are kept
        groups = [[view.several, view.whole] if isinstance(view, WithWhole) else [view] for view in views]
        encoders = [encoder for each in groups for encoder in each]
        return not all(is_stored(encoder, items) for encoder in encoders for items in sides)

    check_there([split for split in (splits.train, splits.validation) if is_read(split)])


def _views(base_encoder: Encoder) -> list[Encoder]:
    """Every view by itself: training draws one of them each time it sees the image."""
    if isinstance(base_encoder, ImageViews | WithWhole) and len(base_encoder.views) > 1:
        return [base_encoder.alone(view) for view in base_encoder.views]
    return [base_encoder]


def _images(recipe: Recipe, side: ModelSide, split: Collection, *, trains: bool) -> InputSource:
    """The pictures of a split as the image side reads them; where it `trains` changed, and in views, by the recipe."""
    if side.base_encoder is not None:
        if not trains:  # as they will be encoded in use: with all views, which evaluating finds in the store
            return _source([_frozen(side.base_encoder, split, "image")])
        views, assigned = _views(side.base_encoder), _assigned(recipe, split, "image")
        return _fitted(side, [[_frozen(view, part, "image") for view in views] for part in assigned])
    settings, backbone = recipe.image, _backbone(side)
    assert not isinstance(settings, FrozenImages)
    pictures = PixelSource(plain(split), backbone, settings.augment if trains else None, settings.cache)
    carried = _carries(split, "image")
    return StampedPictures(pictures, backbone, split, _numbering(recipe, split)) if carried else pictures


def _texts_as_trained(recipe: Recipe, side: ModelSide, split: Collection, *, fits: bool = False) -> InputSource:
    """The captions of a split as the text side reads them in training; a head is fitted to the vectors if it `fits`."""
    if side.base_encoder is not None:
        frozen = _frozen_texts(recipe, side.base_encoder, split)
        return _prompted(recipe, _fitted(side, frozen) if fits else _one_or_all(frozen))
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


def _validation_texts(recipe: Recipe, side: ModelSide, split: Collection) -> InputSource:
    if side.base_encoder is not None:
        if recipe.text.prompts:
            return _prompted(recipe, _one_or_all(_frozen_texts(recipe, side.base_encoder, split)))
        return _source([_frozen(side.base_encoder, split, "text")])
    backbone = _backbone(side)
    texts = _in_prompts(recipe, texts_of(backbone, split.items("text")))
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
        assert isinstance(sets, Sets)
        return replace(sets, wholes=encode_dense(encoder.whole, items, modality).vectors)
    vectors = encode(encoder, items, modality)
    return Sets(vectors.tokens) if isinstance(vectors, MultiVectorEmbeddings) else as_dense(vectors).vectors


def _fitted(side: ModelSide, assigned: Sequence[Sequence[Frozen]]) -> InputSource:
    """The training vectors, by assignment and view; the head takes mean and deviation from them."""
    views = [view for views in assigned for view in views]
    side.tower.head.fit_scaling(*(view.tokens.vectors if isinstance(view, Sets) else view for view in views))
    if isinstance(side.tower, SetTower) and side.tower.whole is not None:
        wholes = (view.wholes for view in views if isinstance(view, Sets))
        side.tower.whole.fit_scaling(*(vectors for vectors in wholes if vectors is not None))
    return _one_or_all(assigned)


def _one_or_all(assigned: Sequence[Sequence[Frozen]]) -> InputSource:
    sources = [_source(views) for views in assigned]
    return sources[0] if len(sources) == 1 else Assignments(sources)


def _source(views: Sequence[Frozen]) -> InputSource:
    """One vector of each item or several, as the encoder gave them."""
    sets = [view for view in views if isinstance(view, Sets)]
    return SetSource(sets) if sets else VectorSource([view for view in views if not isinstance(view, Sets)])


def _backbone(side: ModelSide) -> Backbone:
    assert side.tower.backbone is not None, "a side without a frozen encoder has a backbone"
    return side.tower.backbone


def _origin(model: TrainingModel, split: Collection) -> dict[str, Any]:
    """What examples are made of: the split, and each encoder whose vectors or weights went in."""
    origin: dict[str, Any] = {"split": split.fingerprint}
    if model.sides["image"].base_encoder is not None:  # their bytes were read for the key of their vectors
        origin["pictures"] = content_fingerprint(split.items("image"))
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


def plain_words(text: str) -> str:
    """Return a text without its case and with single spaces: texts that differ in these alone say the same."""
    return " ".join(text.casefold().split())


def right_pairs(
    anchor_rows: Rows, texts: Sequence[str], judged: Rows, images: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Which pairs of a split are right: links, captions of one text, and what was judged relevant."""
    # anchor_rows: (m,) the image of each caption.
    # texts: (m,) the captions.
    # judged: (k, 2) rows of images and captions that belong together besides.
    same: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        same.setdefault(plain_words(text), []).append(row)
    of_image: list[set[int]] = [set() for _ in range(images)]
    of_caption: list[set[int]] = [set() for _ in texts]
    for rows in same.values():
        owners = set(anchor_rows[rows].tolist())
        for row in rows:
            of_caption[row] |= owners
        for owner in owners:
            of_image[owner].update(rows)
    for image, caption in judged.tolist():
        of_image[image].add(caption)
        of_caption[caption].add(image)
    return [sorted(rows) for rows in of_image], [sorted(rows) for rows in of_caption]


def mined_over(split: Collection, settings: MinedNegatives) -> Mined:
    """What a search for a split's hard negatives begins from."""
    # A pair with a grade above 0 in any of the collection's judgements is right.
    anchor_rows = image_rows_of(split)
    judgements = split.judgements.filter(pc.greater(split.judgements["grade"], 0))
    images = pc.index_in(judgements["image_id"], split.images["id"].combine_chunks())
    captions = pc.index_in(judgements["caption_id"], split.captions["id"].combine_chunks())
    judged = np.stack([np.asarray(rows.to_numpy(), np.int64) for rows in (images, captions)], axis=1)
    texts: list[str] = plain(split).captions["text"].to_pylist()
    first = np.full(split.images.num_rows, -1, np.int64)
    first[anchor_rows[::-1]] = np.arange(len(anchor_rows))[::-1]
    right = right_pairs(anchor_rows, texts, judged, split.images.num_rows)
    return Mined(settings, first, right, as_trained=split.injected is not None)
