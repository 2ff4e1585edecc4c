"""A recurrent network over word embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from visir.encoders.towers.base import Body, Inputs
from visir.encoders.towers.words import PADDING, TOKENISER, Vocabulary
from visir.errors import EncoderError

VOCABULARY_FILE = "vocabulary.txt"


class GRUBody(Body):
    """Word embeddings, then a gated recurrent unit (Cho et al. 2014), then one vector per text."""

    kind = "gru"
    modality = "text"

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        words: int = 300,
        hidden: int = 1024,
        bidirectional: bool = True,
        layers: int = 1,
        pooling: Literal["last", "mean", "max"] = "last",
        pretrained_words: bool = False,
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self._spec = {"words": words, "hidden": hidden, "bidirectional": bidirectional, "layers": layers,
                      "pooling": pooling, "pretrained_words": pretrained_words}  # fmt: skip
        self.pooling = pooling
        self.outputs = hidden * (2 if bidirectional else 1)
        self.embedding = nn.Embedding(len(vocabulary), words, padding_idx=PADDING)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.gru = nn.GRU(words, hidden, layers, batch_first=True, bidirectional=bidirectional)

    def prepare(self, item: str) -> NDArray[np.int32]:
        """The ids of the words, at least one."""
        return self.vocabulary.encode([item])[0]

    def collate(self, prepared: Sequence[Any]) -> dict[str, Tensor]:
        """`ids` (n, L) int64, padded with 0 to the longest, and `lengths` (n,) int64."""
        lengths = np.array([len(one) for one in prepared], np.int64)
        ids = np.full((len(prepared), lengths.max(initial=1)), PADDING, np.int64)
        for row, one in zip(ids, prepared, strict=True):
            row[: len(one)] = one
        return {"ids": torch.from_numpy(ids), "lengths": torch.from_numpy(lengths)}

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, outputs)."""
        if isinstance(inputs, Tensor):
            raise EncoderError("gru takes ids and lengths, not one tensor.")
        ids, lengths = inputs["ids"], inputs["lengths"]
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(ids), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        states, last = self.gru(packed)
        if self.pooling == "last":
            directions = 2 if self.gru.bidirectional else 1
            found: Tensor = last[-directions:].transpose(0, 1).reshape(len(ids), -1)
            return found
        padded, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=ids.shape[1])
        inside = (torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]).unsqueeze(-1)
        if self.pooling == "mean":
            return (padded * inside).sum(1) / lengths[:, None]
        return padded.masked_fill(~inside, -torch.inf).amax(1)

    def spec(self) -> dict[str, Any]:
        """The settings; the words are in `vocabulary.txt`."""
        return dict(self._spec)

    def preprocessing(self) -> dict[str, Any]:
        """The tokeniser."""
        return {"words": TOKENISER, "vocabulary": len(self.vocabulary)}

    def save(self, folder: Path) -> None:
        """The words."""
        self.vocabulary.save(folder / VOCABULARY_FILE)

    @classmethod
    def load(cls, folder: Path, spec: Mapping[str, Any]) -> Self:
        """From what `save` wrote."""
        return cls(Vocabulary.load(folder / VOCABULARY_FILE), **spec)

    def given(self) -> Sequence[nn.Module]:
        """The embeddings, when they came from a file."""
        return (self.embedding,) if self._spec["pretrained_words"] else ()
