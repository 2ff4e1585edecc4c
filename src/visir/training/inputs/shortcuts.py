"""Batches with shortcuts: sources of pictures, words, texts and vectors, with the numbers of the epoch put on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visir.encoders.base import Encoder
from visir.encoders.forms import as_dense
from visir.encoders.loading import with_suffixes
from visir.encoders.towers.base import LENGTHS, Backbone, Inputs
from visir.encoders.towers.gru import WordVocabulary
from visir.errors import ConfigurationError
from visir.records import Collection
from visir.records.shortcuts import DIGITS
from visir.shortcuts.stamp import Stamp, numbers
from visir.shortcuts.view import caption_places, ending, endings, picture_numbers, picture_places, plain_texts
from visir.training.inputs.base import EpochRandom, InputSource

Rows = NDArray[np.int64]

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
        np.put_along_axis(ids, at, self._digits[_digits_of(self._numbering.of(rows, draw.epoch))], axis=1)
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


def evaluated_texts(backbone: Backbone, split: Collection) -> list[str]:
    """The captions as at evaluation, whatever is too long cut before its shortcut."""
    captions = split.items("text")
    ends = endings(captions)
    texts: list[str] = plain_texts(captions).to_pylist()
    return texts if ends is None else with_suffixes(backbone, texts, ends)


def _digits_of(carried: Rows) -> Rows:
    """(n, 6) digits of n numbers, the highest first."""
    powers = 10 ** np.arange(DIGITS - 1, -1, -1)
    digits: Rows = carried[:, None] // powers % 10
    return digits


def _tensor(inputs: Inputs) -> Tensor:
    if not isinstance(inputs, Tensor):
        raise ConfigurationError(
            "shortcuts are stamped on pictures, one tensor (n, 3, height, width); this backbone takes "
            f"{sorted(inputs)}.",
            hint='shortcuts.on = "captions" leaves pictures alone',
        )
    return inputs
