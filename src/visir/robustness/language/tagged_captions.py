"""Captions cut into words, with part of speech and lemma: what every linguistic step works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class TaggedCaption:
    """One caption, cut into tokens."""

    # Token i is `text[starts[i] : ends[i]]`. Tokens never overlap and stand in order; what lies between them is white
    # space. So nothing is lost: who changes a token keeps everything around it by writing only between `starts[i]` and
    # `ends[i]`.

    text: str  # the caption
    starts: Sequence[int]  # (m,) where each token begins, in characters
    ends: Sequence[int]  # (m,) where it ends
    tags: Sequence[str]  # (m,) its part of speech
    lemmas: Sequence[str]  # (m,) its lemma

    def tokens(self) -> list[str]:
        """The tokens as they are written."""
        return [self.text[a:b] for a, b in zip(self.starts, self.ends, strict=True)]


@dataclass(frozen=True, eq=False)
class TaggedCaptions:
    """Many captions, cut into tokens, in columns."""

    texts: pa.StringArray  # (n,) the captions
    # (n + 1,) int64; the tokens of caption i are those from `offsets[i]` to `offsets[i + 1]`.
    offsets: NDArray[np.int64]
    starts: NDArray[np.int32]  # (m,) int32, where each token begins, in characters of its caption
    ends: NDArray[np.int32]  # (m,) int32, where it ends
    tags: pa.DictionaryArray  # (m,) its part of speech, dictionary-encoded
    lemmas: pa.DictionaryArray  # (m,) its lemma, dictionary-encoded

    def __len__(self) -> int:
        return len(self.texts)

    def sentences(self) -> list[TaggedCaption]:
        """All of them as plain Python values, which loops over words are fastest on."""
        starts, ends = self.starts.tolist(), self.ends.tolist()
        tags, lemmas = _plain(self.tags), _plain(self.lemmas)
        edges = self.offsets.tolist()
        return [
            TaggedCaption(text, starts[a:b], ends[a:b], tags[a:b], lemmas[a:b])
            for text, a, b in zip(self.texts.to_pylist(), edges[:-1], edges[1:], strict=True)
        ]

    def take(self, rows: NDArray[np.integer[Any]]) -> TaggedCaptions:
        """Those captions only, in this order; one may come several times."""
        counts = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        tokens = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][rows] - offsets[:-1], counts)
        return TaggedCaptions(
            self.texts.take(pa.array(rows)),
            offsets,
            self.starts[tokens],
            self.ends[tokens],
            self.tags.take(pa.array(tokens)),
            self.lemmas.take(pa.array(tokens)),
        )


def _plain(column: pa.DictionaryArray) -> list[str]:
    """The strings; each distinct one is the same object wherever it stands. (`to_pylist` is thirty times slower.)"""
    values: list[str] = np.array([*column.dictionary.to_pylist(), None], object)[column.indices.to_numpy()].tolist()
    return values
