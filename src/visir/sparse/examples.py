"""What is learnt from: dense vectors and own terms, on the device once and for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visir.encoders.base import Encoder
from visir.encoders.encoding import encode_dense
from visir.records import Collection
from visir.sparse.vocabulary import TextTerms, Tokenizer
from visir.training.data import image_rows_of
from visir.training.inputs.base import EpochRandom, TrainingBatch


@dataclass(frozen=True, eq=False)
class SparseExamples:
    """The captions of one split, each with its image, as dense vectors and terms; all tensors are on the device."""

    images: Tensor  # (n, d) dense vectors, float32
    texts: Tensor  # (m, d) dense vectors of the captions, float32
    image_rows: Tensor  # (m,) the row of each caption's image
    own: Tensor  # (m, L) each caption's terms, filled up with the size of the vocabulary
    terms: TextTerms  # the same, packed
    frequencies: Tensor  # (|V|,) the share of the captions that have a term, float64
    origin: dict[str, Any]  # where they come from, as plain values
    ids: Sequence[str]  # of the captions

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def unit(self) -> str:
        """See `visir.training.inputs.base.TrainingData.unit`."""
        return "captions"

    @property
    def is_slow(self) -> bool:
        """See `visir.training.inputs.base.TrainingData.is_slow`: everything is on the device."""
        return False

    def batch(self, rows: NDArray[np.int64], draw: EpochRandom | None = None) -> TrainingBatch:
        """The captions `rows` with their images, as dense vectors; the `tokens` are the captions' own terms."""
        index = torch.from_numpy(rows).to(self.texts.device)
        image_rows = self.image_rows[index]
        return TrainingBatch(self.images[image_rows], self.texts[index], image_rows, tokens=self.own[index], rows=index)

    def labels(self, rows: NDArray[np.int64]) -> tuple[Tensor, None]:
        """See `visir.training.inputs.base.TrainingData.labels`."""
        return self.image_rows[torch.from_numpy(rows).to(self.image_rows.device)], None

    @classmethod
    def of(cls, split: Collection, encoder: Encoder, tokenizer: Tokenizer, device: torch.device) -> SparseExamples:
        """Encode a split, or find its vectors in the store, and tokenise its captions."""
        vectors = {
            side: torch.from_numpy(np.array(encode_dense(encoder, split, side).vectors, dtype=np.float32)).to(device)
            for side in ("image", "text")
        }
        terms = tokenizer.terms(split.captions["text"].to_pylist())
        size = len(tokenizer.vocabulary)
        return cls(
            vectors["image"],
            vectors["text"],
            torch.from_numpy(image_rows_of(split)).to(device),
            torch.from_numpy(padded(terms, size)).to(device),
            terms,
            torch.from_numpy(terms.frequencies(size)).to(device),
            {"collection": split.describe(), "encoder": encoder.card.to_dict(), "vocabulary": tokenizer.name},
            split.captions["id"].to_pylist(),
        )


def padded(terms: TextTerms, size: int) -> NDArray[np.int64]:
    """(m, L) int64: the terms of each text, filled up with `size`; L is the longest text's number, at least 1."""
    lengths = np.diff(terms.offsets)
    table = np.full((len(terms), max(1, int(lengths.max(initial=0)))), size, np.int64)
    table[np.arange(table.shape[1]) < lengths[:, None]] = terms.terms
    return table
