"""BM25 over titles: the baseline that knows words and nothing else (thesis section 7.4.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pyarrow.compute as pc

from visir.errors import ConfigurationError, nearest, raise_faults, require
from visir.products.split import Mask
from visir.products.systems import ranks_of
from visir.products.task import Task
from visir.products.vectors import Floats, Ints
from visir.records import Run
from visir.search.exact import SearchResult

Stemming = Literal["s", "none"]
StopWords = Literal["english", "none"]


@dataclass(frozen=True)
class Bm25:
    """Categories' names as queries to the titles of the test products, by `bm25s`.

    - `k1`, `b`: of the formula, as Lucene has it; 1.5 and 0.75 are the defaults of `bm25s`
    - `stop_words`: "english" (those of `bm25s`) or "none"
    - `stemming`: "s" takes plurals off (`singular`), "none" leaves words alone. Categories are plurals and titles
      singular ("Skirts", "a red skirt"), so without it BM25 finds little. The thesis says neither.

    Words are runs of two or more letters or digits, in lower case. How rare a word is, is counted over the titles of
    the test products. A product that shares no word with the category is not found at all, rather than ranked by
    chance. Raises `ConfigurationError` with every faulty option.
    """

    k1: float = 1.5
    b: float = 0.75
    stop_words: StopWords = "english"
    stemming: Stemming = "s"
    name: str = "BM25"

    def __post_init__(self) -> None:
        faults = [
            fault
            for wrong, fault in (
                (not self.k1 >= 0, f"k1 must be at least 0, not {self.k1}"),
                (not 0 <= self.b <= 1, f"b must be 0 to 1, not {self.b}"),
                (
                    self.stop_words not in get_args(StopWords),
                    f"unknown stop words {self.stop_words!r} ({nearest(self.stop_words, get_args(StopWords))})",
                ),
                (
                    self.stemming not in get_args(Stemming),
                    f"unknown stemming {self.stemming!r} ({nearest(self.stemming, get_args(Stemming))})",
                ),
            )
            if wrong
        ]
        raise_faults(ConfigurationError, "BM25", faults)

    @property
    def similarity(self) -> str:
        """The formula with its constants."""
        return f"BM25 (Lucene), k1 {self.k1:g}, b {self.b:g}"

    @property
    def card(self) -> Mapping[str, Any]:
        """What is searched, and how words are made."""
        words = {"stop words": self.stop_words, "stemming": self.stemming}
        return {"products": "titles", **words, "scored by": self.similarity}

    def answers(self, task: Task) -> bool:
        """Words answer any task."""
        return True

    def seen(self, task: Task) -> Mask | None:
        """It is not trained."""
        return None

    def search(self, task: Task, depth: int) -> SearchResult:
        """The run and the ranks; ties by product id."""
        assert task.gallery.ids is not None
        products = task.catalogue.products
        at = pc.index_in(task.gallery.ids, products["id"].combine_chunks())
        titles = [one or "" for one in products["title"].take(at).to_pylist()]
        judged = pc.index_in(task.qrels.documents, task.gallery.ids).to_numpy().astype(np.int64)
        queries = np.repeat(np.arange(len(task.qrels)), np.diff(task.qrels.offsets))
        places = np.zeros(len(judged), dtype=np.int64)
        here = np.zeros(len(titles), dtype=np.int64)
        answers, scores = [], []
        # The gallery is sorted by id, so what ties stands in order of id.
        for row, (matched, found) in enumerate(self.ranked(titles, task.names)):
            here[matched] = np.arange(1, len(matched) + 1)
            mine = slice(task.qrels.offsets[row], task.qrels.offsets[row + 1])
            places[mine] = here[judged[mine]]
            here[matched] = 0
            answers.append(matched[:depth].astype(np.int32))
            scores.append(found[:depth])
        run = Run(
            self.name,
            "t2i",
            task.qrels.queries,
            np.concatenate([[0], np.cumsum([len(one) for one in answers])]).astype(np.int64),
            task.gallery.ids,
            np.concatenate(answers),
            np.concatenate(scores),
            task.gallery,
            depth,
            {"search": "bm25s", **self.card},
        )
        return SearchResult(run, ranks_of(task, queries, places))

    def ranked(self, titles: list[str], queries: list[str]) -> Iterator[tuple[Ints, Floats]]:
        """For each query the rows of all titles that share a word with it, best first, and their scores.

        Equal scores stand in the order of the titles.
        """
        require("bm25s", extra="products", purpose="BM25 over titles")
        import bm25s

        corpus = self.words(titles)
        index = bm25s.BM25(k1=self.k1, b=self.b, method="lucene") if any(corpus) else None
        if index is not None:
            index.index(corpus, show_progress=False)
        nothing = np.zeros(len(titles), dtype=np.float32)
        for words in self.words(queries):
            found = nothing if index is None or not words else index.get_scores(words)
            matched = np.flatnonzero(found > 0)
            matched = matched[np.argsort(-found[matched], kind="stable")]
            yield matched, found[matched]

    def words(self, texts: list[str]) -> list[list[str]]:
        """The words of each text, as they are matched."""
        import bm25s

        return bm25s.tokenize(  # type: ignore[no-any-return]
            texts,
            stopwords="english" if self.stop_words == "english" else [],
            stemmer=None if self.stemming == "none" else lambda words: [singular(one) for one in words],
            return_ids=False,
            show_progress=False,
        )


def singular(word: str) -> str:
    """The word without its plural ending: dresses → dress, watches → watch, shoes → shoe, batteries → battery.

    The S-stemmer of Harman (1991, "How effective is suffixing?"), and before its rules one more, for endings that are
    spoken: it would take "watches" to "watche" and leave "watch" as it is. Weak on purpose: what it joins belongs
    together. The first rule that fits is applied:

    - -ches, -shes, -sses, -xes, -zes → without -es
    - -ies → -y (not after a or e)
    - -s → nothing (not after u or s)
    """
    if word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    if word.endswith("ies") and word[-4:-3] not in ("a", "e"):
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and word[-2:-1] not in ("u", "s") else word
