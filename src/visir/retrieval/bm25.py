"""BM25 over texts: the baseline that compares words only."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from visir.errors import ConfigurationError, nearest, raise_faults, require

Stemming = Literal["s", "none"]
StopWords = Literal["english", "none"]


@dataclass(frozen=True)
class Bm25:
    """The settings of a BM25 search, computed by `bm25s`."""

    # Words are runs of two or more letters or digits, in lower case. Document frequencies are counted over the texts
    # that are searched. A text that shares no word with the query is not in the answer.

    k1: float = 1.5  # the constant k1 of the formula of Lucene; at least 0. 1.5 is the default of `bm25s`.
    b: float = 0.75  # the constant b of the formula, 0 to 1. 0.75 is the default of `bm25s`.
    stop_words: StopWords = "english"  # "english" (those of `bm25s`) or "none"
    stemming: Stemming = "s"  # "s" removes plural endings (see `singular`); "none" leaves words as they are

    def __post_init__(self) -> None:
        faults = [] if self.k1 >= 0 else [f"k1 must be at least 0, not {self.k1}"]
        faults += [] if 0 <= self.b <= 1 else [f"b must be 0 to 1, not {self.b}"]
        named = (("stop words", self.stop_words, get_args(StopWords)), ("stemming", self.stemming, get_args(Stemming)))
        faults += [f"unknown {kind} {x!r} ({nearest(x, known)})" for kind, x, known in named if x not in known]
        raise_faults(ConfigurationError, "BM25", faults)

    @property
    def similarity(self) -> str:
        """The formula with its constants."""
        return f"BM25 (Lucene), k1 {self.k1:g}, b {self.b:g}"

    def ranked(
        self, texts: Sequence[str], queries: Sequence[str]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Yield for each query the rows of the texts that share a word with it, best first, and their scores."""
        # Equal scores keep the order of the texts.
        bm25s = _bm25s()
        corpus = self.words(texts)
        index = bm25s.BM25(k1=self.k1, b=self.b, method="lucene") if any(corpus) else None
        if index is not None:
            index.index(corpus, show_progress=False)
        nothing = np.zeros(len(texts), dtype=np.float32)
        for words in self.words(queries):
            scores = nothing if index is None or not words else index.get_scores(words)
            rows = np.flatnonzero(scores > 0)
            rows = rows[np.argsort(-scores[rows], kind="stable")]
            yield rows, scores[rows]

    def words(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the words of each text as BM25 compares them."""
        bm25s = _bm25s()
        return bm25s.tokenize(  # type: ignore[no-any-return]
            list(texts),
            stopwords="english" if self.stop_words == "english" else [],
            stemmer=None if self.stemming == "none" else lambda words: [singular(word) for word in words],
            return_ids=False,
            show_progress=False,
        )


def singular(word: str) -> str:
    """Return a word without its plural ending."""
    # The S-stemmer of Harman (1991, "How effective is suffixing?"). One rule is added before its rules, for the ending
    # -es after ch, sh, ss, x and z: Harman's rules make "watche" of "watches" and leave "watch" as it is. The stemmer
    # changes few words, so two words that it makes equal mean the same. The first rule that fits is applied:
    # - -ches, -shes, -sses, -xes, -zes → without -es
    # - -ies → -y (not after a or e)
    # - -s → nothing (not after u or s)
    if word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    if word.endswith("ies") and word[-4:-3] not in ("a", "e"):
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and word[-2:-1] not in ("u", "s") else word


def _bm25s() -> Any:
    """The package; in a notebook it warns that it draws no bars, which are not wanted."""
    require("bm25s", extra="bm25", purpose="BM25")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="IProgress not found")
        import bm25s

    return bm25s
