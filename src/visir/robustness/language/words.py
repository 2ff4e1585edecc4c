"""Captions cut into words, with part of speech and lemma: what every linguistic step works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Sentence:
    """One caption, cut: token i is `text[starts[i] : ends[i]]`, with part of speech `tags[i]` and lemma `lemmas[i]`.

    Tokens never overlap and stand in order; what lies between them is white space. Cutting loses nothing: whoever
    changes a token keeps everything around it by writing only between `starts[i]` and `ends[i]`.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    tags: Sequence[str]
    lemmas: Sequence[str]

    def tokens(self) -> list[str]:
        """The tokens as they are written."""
        return [self.text[a:b] for a, b in zip(self.starts, self.ends, strict=True)]


@dataclass(frozen=True, eq=False)
class Words:
    """Many captions, cut, in columns: those of caption i lie from `offsets[i]` to `offsets[i + 1]`.

    - `texts` (n,); `offsets` (n + 1,) int64; `starts`, `ends` (m,) int32, positions of characters in their text
    - `tags`, `lemmas` (m,): dictionary-encoded strings
    """

    texts: pa.StringArray
    offsets: NDArray[np.int64]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    tags: pa.DictionaryArray
    lemmas: pa.DictionaryArray

    def __len__(self) -> int:
        return len(self.texts)

    def sentences(self) -> list[Sentence]:
        """All of them as plain Python values, which loops over words are fastest on."""
        starts, ends = self.starts.tolist(), self.ends.tolist()
        tags, lemmas = self.tags.to_pylist(), self.lemmas.to_pylist()
        edges = self.offsets.tolist()
        return [
            Sentence(text, starts[a:b], ends[a:b], tags[a:b], lemmas[a:b])
            for text, a, b in zip(self.texts.to_pylist(), edges[:-1], edges[1:], strict=True)
        ]
