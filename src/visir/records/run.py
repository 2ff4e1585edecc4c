"""The run: the ranked documents of each query, one record for every kind of search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import Columnar, Displayed, brief, counted, listed
from visir.errors import RunError
from visir.fingerprint import hash_columns
from visir.records.columns import groups, is_sorted, owners, rows_of_spans, strings
from visir.records.items import Items, Modality

# The gallery: the declared candidates of one task.

TITLES: dict[Modality, str] = {"image": "images", "text": "captions", "text+image": "documents"}
"""The usual title of the candidates of a modality."""


def modality_of(value: object) -> Modality:
    """Return a value from a file as a modality.

    Raises:
        ValueError: The value is not the name of a modality.

    Example:
        >>> modality_of("image")
        'image'
    """
    for modality in TITLES:
        if value == modality:
            return modality
    raise ValueError(f"{value!r} is no modality ({', '.join(TITLES)})")


_LETTERS: dict[Modality, str] = {"text": "t", "image": "i", "text+image": "it"}


def task_name(queries: Modality, documents: Modality) -> str:
    """Return the usual name of a task: "t2i", "i2t", "t2t", "i2it", …

    Args:
        queries: The modality of the queries.
        documents: The modality of the documents.

    Example:
        >>> task_name("text", "image"), task_name("text+image", "image")
        ('t2i', 'it2i')
    """
    return f"{_LETTERS[queries]}2{_LETTERS[documents]}"


@dataclass(frozen=True, eq=False)
class Gallery(Displayed):
    """The documents that were the candidates of a search.

    Two retrieval numbers can be compared only if their galleries are equal. A gallery is *listed* when its ids are
    known. It is *stated* when only its size is known, as for an imported run whose authors write "all 31,783 images".
    It is *unknown* for a run from a file that says nothing about it. Every card shows which of the three it is.

    Attributes:
        modality: What the documents hold: "image", "text" or "text+image".
        ids: (size,) ids, sorted and unique; ties are broken in this order. None for a stated gallery.
        size: The number of documents; 0 for an unknown gallery.
        description: What the documents are, in words, e.g. "all of the test split".
        title: What people call the documents, in the plural: "images", "captions", "products".

    Example:
        >>> gallery = Gallery.of("image", ["b", "a"], "two images")
        >>> gallery.ids.to_pylist(), gallery.size, gallery.is_listed
        (['a', 'b'], 2, True)
        >>> Gallery.stated("image", 31783, "all images of Flickr30k").is_listed
        False
    """

    modality: Modality
    ids: pa.StringArray | None
    size: int
    description: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", TITLES[self.modality])

    @classmethod
    def of(cls, modality: Modality, ids: object, description: str = "", *, title: str = "") -> Gallery:
        """Make a listed gallery.

        Args:
            modality: What the documents hold.
            ids: The ids, unique, in any order: any iterable of strings.
            description: What the documents are, in words.
            title: What people call them; "" takes the usual title of the modality.

        Raises:
            RunError: There is no id, or an id occurs twice.

        Example:
            >>> Gallery.of("text", ["2", "1"]).ids.to_pylist()
            ['1', '2']
        """
        array = strings(ids)
        if not is_sorted(array):
            array = array.take(pc.sort_indices(array))
        if len(array) == 0:
            raise RunError(
                f"the gallery ({description or modality}) is empty.",
                hint="is the split, or the filter, right?",
                code="gallery-empty",
            )
        same = pc.equal(array[1:], array[:-1])
        if pc.any(same).as_py():
            twice = array[pc.index(same, True).as_py()].as_py()
            raise RunError(
                f"the gallery ({description or modality}) holds {twice!r} twice.", code="gallery-holds-twice"
            )
        return cls(modality, array, len(array), description, title)

    @classmethod
    def stated(cls, modality: Modality, size: int, description: str, *, title: str = "") -> Gallery:
        """Make a gallery of which only the size is known, as its authors state it."""
        return cls(modality, None, size, description, title)

    @classmethod
    def unknown(cls) -> Gallery:
        """Make the gallery of a run that does not say what was searched.

        Example:
            >>> Gallery.unknown().is_known
            False
        """
        return cls("text+image", None, 0, "not known")

    @property
    def is_known(self) -> bool:
        """Whether at least the size of the gallery is known."""
        return self.ids is not None or self.size > 0

    @property
    def counted(self) -> str:
        """How many documents there are, as people read it: "1,000 images", or that nobody knows."""
        return counted(self.size, self.title) if self.is_known else f"{self.title}, how many is not known"

    def ends_by(self, depth: int) -> bool:
        """Whether an answer of so many documents holds the whole gallery; of an unknown one nobody can say so.

        Example:
            >>> Gallery.of("image", ["a", "b"]).ends_by(2), Gallery.unknown().ends_by(2)
            (True, False)
        """
        return self.is_known and depth >= self.size

    def __repr__(self) -> str:
        if not self.is_known:
            return brief(self, self.description)
        return brief(
            self,
            f"{counted(self.size, self.title)}{f', {self.description}' if self.description else ''}",
            "stated, not listed" if self.ids is None else f"ids: {listed(self.ids[:3].to_pylist(), self.size)}",
        )

    @property
    def is_listed(self) -> bool:
        """Whether the ids of the candidates are known."""
        return self.ids is not None

    @cached_property
    def fingerprint(self) -> str:
        """A hash over modality and ids; "stated:" and the size for a stated gallery."""
        if self.ids is None:
            return f"stated:{self.size}"
        return hash_columns([pa.array([self.modality]), self.ids], sort=False)

    def restrict(self, keep: pa.Array, description: str) -> Gallery:
        """Return a gallery of the candidates that are also in `keep`.

        Args:
            keep: Ids, in any order; ids that are not in this gallery are ignored.
            description: What the remaining documents are, in words.

        Raises:
            RunError: The gallery is stated, or no candidate remains.
        """
        if self.ids is None:
            raise RunError(
                f"the gallery ({self.description}) is only stated; it cannot be restricted.", code="gallery-stated"
            )
        return Gallery.of(self.modality, self.ids.filter(pc.is_in(self.ids, keep)), description, title=self.title)


# Ranks of the positives: the few numbers per query that a ranking measure needs.


@dataclass(frozen=True, eq=False)
class Ranks(Displayed):
    """The rank of each positive of each query.

    Hits, recalls, precision, MRR, mAP, R-precision, nDCG and first ranks are functions of these ranks alone. So a
    search need not store whole rankings to be measured exactly over the whole gallery.

    Attributes:
        queries: (n,) query ids.
        offsets: (n + 1,) int64; query i has the slice `offsets[i]:offsets[i + 1]` of the flat arrays.
        ranks: (m,) int64, ascending within a query, from 1; 0 (sorted last) marks a positive that was not retrieved
            within `depth`.
        grades: (m,) float32 above 0, the grade of each positive.
        depth: The length of the rankings; None is the whole gallery. Then a rank is 0 only for a positive outside the
            gallery, or for one that a second stage dropped.
        gallery_size: The number of candidates; None where nobody knows it. Then there is a depth.
    """

    queries: pa.StringArray
    offsets: NDArray[np.int64]
    ranks: NDArray[np.int64]
    grades: NDArray[np.float32]
    depth: int | None
    gallery_size: int | None

    def __post_init__(self) -> None:
        assert self.depth is not None or self.gallery_size is not None, "a ranking without an end"

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        depth = "to the end of the gallery" if self.depth is None else f"{self.depth:,} deep"
        return brief(
            self,
            f"{counted(len(self), 'queries')}, {counted(len(self.ranks), 'positives')}, {depth}, "
            + ("candidates not known" if self.gallery_size is None else counted(self.gallery_size, "candidates")),
            f"queries: {listed(self.queries[:3].to_pylist(), len(self))}",
        )

    @property
    def last(self) -> int:
        """The last rank that the rankings reach."""
        return min(end for end in (self.depth, self.gallery_size) if end is not None)

    @property
    def positives(self) -> NDArray[np.int64]:
        """(n,) the number of positives of each query, retrieved or not."""
        return np.diff(self.offsets)

    def of_grade(self, lowest: float) -> Ranks:
        """Return the ranks of the positives from a grade on; the others count as wrong.

        Args:
            lowest: The lowest grade that counts as right.

        Example:
            >>> grades = np.array([1, 3], np.float32)
            >>> ranks = Ranks(pa.array(["q"]), np.array([0, 2]), np.array([1, 2]), grades, None, 4)
            >>> ranks.of_grade(2).ranks.tolist()
            [2]
        """
        right = self.grades >= lowest
        ends = np.concatenate([[0], np.cumsum(right)])
        return replace(self, offsets=ends[self.offsets], ranks=self.ranks[right], grades=self.grades[right])


@dataclass(frozen=True, eq=False)
class Run(Columnar):
    """The ranked documents of each query.

    Dense, sparse, BM25, re-ranked, perturbed and imported results are all this record. The *order* of the documents is
    part of the record: a file with rounded scores keeps the order of its authors. The tie rule is used only where there
    are scores and no order (`Run.ranked`).

    Attributes:
        name: The name of the system.
        task: The name of the task, e.g. "t2i".
        queries: (n,) query ids, unique.
        offsets: (n + 1,) int64; the answer to query i is the slice `offsets[i]:offsets[i + 1]`, best first.
        documents: (u,) distinct document ids that include all ids in the run; often the whole gallery.
        indices: (m,) int32, rows of `documents`.
        scores: (m,) float32 or float64, never rising within a query.
        gallery: The candidates of the search. Evaluation refuses a run over another gallery.
        depth: How many documents per query the search was to return.
        provenance: How the run was computed, as plain values for JSON.
        query_items: The texts and images of the queries, to show them. Files do not hold them.
        document_items: Those of the documents: at least of all that the run names. Files do not hold them.

    Raises:
        RunError: The run is empty, the lengths of its arrays do not fit, a query or one of its documents occurs twice,
            or scores are NaN or rise within a query.

    Example:
        >>> gallery = Gallery.of("image", ["a", "b", "c"])
        >>> run = Run.ranked("my system", "t2i", ["q", "q"], ["a", "b"], [0.5, 0.75], gallery)
        >>> run.answer("q")
        [('b', 0.75), ('a', 0.5)]
    """

    name: str
    task: str
    queries: pa.StringArray
    offsets: NDArray[np.int64]
    documents: pa.StringArray
    indices: NDArray[np.int32]
    scores: NDArray[Any]
    gallery: Gallery
    depth: int
    provenance: dict[str, Any] = field(default_factory=dict)
    query_items: Items | None = field(default=None, repr=False)
    document_items: Items | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        where = f"run {self.name} ({self.task})"
        if len(self.queries) == 0:
            raise RunError(f"{where} is empty.", code="run-empty")
        if len(self.offsets) != len(self.queries) + 1 or self.offsets[0] != 0 or self.offsets[-1] != len(self.indices):
            raise RunError(f"{where}: offsets do not fit: {len(self.queries)} queries, {len(self.indices)} entries.")
        if len(self.scores) != len(self.indices):
            raise RunError(f"{where}: {len(self.scores)} scores for {len(self.indices)} entries.")
        several = len(self.queries) > 1 or self.queries.null_count
        if several and pc.count_distinct(self.queries).as_py() != len(self.queries):
            raise RunError(f"{where}: a query is answered twice.", code="query-answered-twice")
        bad = np.flatnonzero(np.isnan(self.scores))
        if len(bad):
            raise RunError(f"{where}: NaN score for query {self._query_of(int(bad[0]))!r}.", code="nan-score-query")
        inner = np.ones(len(self.scores), bool)
        inner[self.offsets[:-1][np.diff(self.offsets) > 0]] = False
        rising = np.flatnonzero(inner[1:] & (self.scores[1:] > self.scores[:-1]))
        if len(rising):
            raise RunError(
                f"{where}: scores rise inside the answer to query {self._query_of(int(rising[0]) + 1)!r}.",
                hint="sort each answer by falling score, or build it with Run.ranked",
                code="scores-rise-inside-answer",
            )
        self._check_no_repeats(where)

    @classmethod
    def of_search(cls, **fields: Any) -> Run:
        """Make a run of what a search of visir found, which is in order and without faults: nothing is checked."""
        # The checks take longer than many a search for one query.
        run = object.__new__(cls)
        run.__dict__.update(query_items=None, document_items=None)
        run.__dict__.update(fields)
        return run

    @classmethod
    def ranked(
        cls,
        name: str,
        task: str,
        queries: object,
        documents: object,
        scores: object,
        gallery: Gallery,
        *,
        depth: int | None = None,
        provenance: dict[str, Any] | None = None,
    ) -> Run:
        """Make a run from parallel columns in any order: by falling score, ties by document id.

        Args:
            name: The name of the system.
            task: The name of the task, e.g. "t2i".
            queries: (m,) the query id of each answer.
            documents: (m,) the document id of each answer.
            scores: (m,) the scores; float64 stays float64, all else becomes float32.
            gallery: The candidates of the search.
            depth: How many documents per query the search was to return; None is the length of the longest answer.
            provenance: How the run was computed, as plain values for JSON.

        Raises:
            RunError: The columns differ in length or are empty, or the run has another fault (see `Run`).

        Example:
            >>> run = Run.ranked("toy", "t2i", ["q", "q", "q"], ["c", "b", "a"], [0.5, 0.25, 0.5],
            ...                  Gallery.of("image", ["a", "b", "c"]))
            >>> run.answer("q")
            [('a', 0.5), ('c', 0.5), ('b', 0.25)]
        """
        query, document = strings(queries), strings(documents)
        score = np.asarray(scores, np.float64 if np.asarray(scores).dtype == np.float64 else np.float32)
        if not len(query) == len(document) == len(score):
            raise RunError(f"run {name}: {len(query)} queries, {len(document)} documents, {len(score)} scores.")
        table = pa.table({"q": query, "d": document, "s": score})
        order = pc.sort_indices(table, sort_keys=[("q", "ascending"), ("s", "descending"), ("d", "ascending")])
        query = query.take(order)
        if len(query) == 0:
            raise RunError(f"run {name} ({task}) is empty.", code="run-empty")
        answered, offsets = groups(query)
        encoded = document.take(order).dictionary_encode()
        return cls(
            name,
            task,
            answered,
            offsets,
            encoded.dictionary.cast(pa.string()),
            encoded.indices.to_numpy().astype(np.int32),
            score[order.to_numpy()],
            gallery,
            depth or int(np.diff(offsets).max()),
            provenance or {},
        )

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        shown = [
            f"{query}: {listed((f'{name} {score:.4g}' for name, score in self.answer(query, 3)), int(length))}"
            for query, length in zip(self.queries[:3].to_pylist(), np.diff(self.offsets[:4]), strict=True)
        ]
        among = f"among {self.gallery.counted}" if self.gallery.is_known else "gallery not known"
        return brief(
            self,
            f"{self.name}, {self.task}: {counted(len(self), 'queries')}, {self.depth:,} deep, {among}",
            *shown,
            f"… {len(self) - 3:,} more" if len(self) > 3 else "",
        )

    def answer(self, query: str, k: int | None = None) -> list[tuple[str, float]]:
        """Return the (document id, score) pairs of one query, best first.

        Args:
            query: The id of the query.
            k: At most this many pairs; None is all.

        Raises:
            RunError: The run has no such query.
        """
        row = pc.index(self.queries, query).as_py()
        if row < 0:
            some = ", ".join(map(repr, self.queries[:3].to_pylist())) + (", …" if len(self) > 3 else "")
            raise RunError(
                f"run {self.name} ({self.task}) has no query {query!r}.",
                hint=f"its queries are {some}",
                code="run-no-query",
            )
        start, stop = self.offsets[row], self.offsets[row + 1]
        part = slice(start, stop if k is None else min(start + k, stop))
        ids = self.documents.take(pa.array(self.indices[part])).to_pylist()
        return list(zip(ids, map(float, self.scores[part]), strict=True))

    def __iter__(self) -> Iterator[str]:
        return iter(self.queries.to_pylist())

    def __getitem__(self, query: str) -> list[tuple[str, float]]:
        return self.answer(query)

    def top(self, query: str, k: int = 10) -> list[str]:
        """Return the ids of the best `k` documents of one query, best first.

        Raises:
            RunError: The run has no such query.

        Example:
            >>> gallery = Gallery.of("image", ["a", "b"])
            >>> Run.ranked("toy", "t2i", ["q", "q"], ["a", "b"], [0.5, 0.75], gallery).top("q", 1)
            ['b']
        """
        return [document for document, _ in self.answer(query, k)]

    def to_dict(self, *, keep_order: bool = False) -> dict[str, dict[str, float]]:
        """Return {query: {document: score}}, best first, as ranx, ir_measures and pytrec_eval read it.

        Tools that read this form sort by score and break ties in their own way: trec_eval (and so ir_measures) by
        falling document id, ranx by its sorting.

        Args:
            keep_order: Write -rank instead of the scores. There are no ties then, so every tool measures the order of
                the run.

        Example:
            >>> run = Run.ranked("toy", "t2i", ["q", "q"], ["a", "b"], [0.5, 0.5], Gallery.of("image", ["a", "b"]))
            >>> run.to_dict(), run.to_dict(keep_order=True)
            ({'q': {'a': 0.5, 'b': 0.5}}, {'q': {'a': -1.0, 'b': -2.0}})
        """
        ids = self.documents.to_pylist()
        scores = (-self._ranks() if keep_order else self.scores).astype(np.float64).tolist()
        indices = self.indices.tolist()
        cuts = zip(self.queries.to_pylist(), self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)
        return {q: {ids[indices[e]]: scores[e] for e in range(a, b)} for q, a, b in cuts}

    def select(self, queries: object) -> Run:
        """Return the answers to these queries, in this order; a query without an answer is left out.

        Example:
            >>> gallery = Gallery.of("image", ["a"])
            >>> run = Run.ranked("toy", "t2i", ["p", "q"], ["a", "a"], [0.5, 0.75], gallery)
            >>> list(run.select(["q", "p"]))
            ['q', 'p']
        """
        wanted = strings(queries)
        rows = pc.drop_null(pc.index_in(wanted, self.queries)).to_numpy().astype(np.int64)
        flat, offsets = rows_of_spans(self.offsets, rows)
        chosen = self.queries.take(pa.array(rows))
        return replace(self, queries=chosen, offsets=offsets, indices=self.indices[flat], scores=self.scores[flat])

    def cut(self, depth: int) -> Run:
        """Return the run with at most the first `depth` documents of each query."""
        lengths = np.minimum(np.diff(self.offsets), depth)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        flat = np.repeat(self.offsets[:-1] - offsets[:-1], lengths) + np.arange(offsets[-1])
        indices, scores = self.indices[flat], self.scores[flat]
        return replace(self, offsets=offsets, indices=indices, scores=scores, depth=min(depth, self.depth))

    def to_arrow(self) -> pa.Table:
        """Return one row per answer, with columns query_id, document_id, rank (from 1) and score."""
        return pa.table(
            {
                "query_id": self.queries.take(pa.array(owners(self.offsets))),
                "document_id": self.documents.take(pa.array(self.indices)),
                "rank": self._ranks().astype(np.int32),
                "score": self.scores,
            }
        )

    def _ranks(self) -> NDArray[np.int64]:
        """(m,) the rank of each answer, from 1."""
        return np.arange(1, len(self.indices) + 1) - np.repeat(self.offsets[:-1], np.diff(self.offsets))

    def _check_no_repeats(self, where: str) -> None:
        lengths = np.diff(self.offsets)
        if len(lengths) and (lengths == lengths[0]).all():  # the usual case: short rows sort faster than one long list
            rows = np.sort(self.indices.reshape(len(self), lengths[0]), axis=1)
            repeated = np.argwhere(rows[:, 1:] == rows[:, :-1])
            repeats = [(int(query), int(rows[query, column])) for query, column in repeated[:1]]
        else:
            pairs = owners(self.offsets) * len(self.documents) + self.indices
            pairs.sort()
            twice = pairs[1:][pairs[1:] == pairs[:-1]]
            repeats = [divmod(int(pair), len(self.documents)) for pair in twice[:1]]
        for query, document in repeats:
            raise RunError(
                f"{where}: query {self.queries[query]} lists document {self.documents[document]} twice.",
                code="query-lists-document-twice",
            )

    def _query_of(self, entry: int) -> str:
        return str(self.queries[int(np.searchsorted(self.offsets, entry, side="right")) - 1])
