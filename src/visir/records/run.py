"""The run: what a search answered, in order: one record for every kind of search."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import RunError
from visir.records.columns import strings
from visir.records.gallery import Gallery


@dataclass(frozen=True, eq=False)
class Run:
    """Ranked documents of each query: dense, sparse, BM25, re-ranked, perturbed, imported: all the same record.

    - `queries`: (n,) query ids, unique
    - `offsets`: (n + 1,) int64; the answer to query i is the slice `offsets[i]:offsets[i + 1]`, best first
    - `documents`: (u,) the distinct document ids that the run mentions (often the gallery)
    - `indices`: (m,) int32 into `documents`
    - `scores`: (m,) float32 or float64, never rising within a query
    - `gallery`: the candidates it was made over; evaluation refuses a run made over another gallery
    - `depth`: how many documents per query were asked for

    The *order* is part of the record: a file whose scores were rounded keeps the order its authors gave. Only where
    there is no order but scores alone (`Run.ranked`) does the tie rule decide.
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

    def __post_init__(self) -> None:
        where = f"run {self.name} ({self.task})"
        if len(self.queries) == 0:
            raise RunError(f"{where} is empty.")
        if len(self.offsets) != len(self.queries) + 1 or self.offsets[0] != 0 or self.offsets[-1] != len(self.indices):
            raise RunError(f"{where}: offsets do not fit: {len(self.queries)} queries, {len(self.indices)} entries.")
        if len(self.scores) != len(self.indices):
            raise RunError(f"{where}: {len(self.scores)} scores for {len(self.indices)} entries.")
        if pc.count_distinct(self.queries).as_py() != len(self.queries):
            raise RunError(f"{where}: a query is answered twice.")
        bad = np.flatnonzero(np.isnan(self.scores))
        if len(bad):
            raise RunError(f"{where}: NaN score for query {self._query_of(int(bad[0]))!r}.")
        inner = np.ones(len(self.scores), bool)
        inner[self.offsets[:-1][np.diff(self.offsets) > 0]] = False
        rising = np.flatnonzero(inner[1:] & (np.diff(self.scores) > 0)) if len(self.scores) else np.empty(0, int)
        if len(rising):
            raise RunError(
                f"{where}: scores rise inside the answer to query {self._query_of(int(rising[0]) + 1)!r}.",
                hint="sort each answer by falling score, or build it with Run.ranked",
            )
        self._check_no_repeats(where)

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
        """From parallel columns (query id, document id, score) in any order: by falling score, ties by document id."""
        query, document = strings(queries), strings(documents)
        score = np.asarray(scores, np.float64 if np.asarray(scores).dtype == np.float64 else np.float32)
        if not len(query) == len(document) == len(score):
            raise RunError(f"run {name}: {len(query)} queries, {len(document)} documents, {len(score)} scores.")
        table = pa.table({"q": query, "d": document, "s": score})
        order = pc.sort_indices(table, sort_keys=[("q", "ascending"), ("s", "descending"), ("d", "ascending")])
        query = query.take(order)
        if len(query) == 0:
            raise RunError(f"run {name} ({task}) is empty.")
        groups = pc.run_end_encode(query, run_end_type=pa.int64())
        offsets = np.concatenate([[0], groups.run_ends.to_numpy()]).astype(np.int64)
        encoded = document.take(order).dictionary_encode()
        return cls(
            name,
            task,
            groups.values.cast(pa.string()),
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

    def answer(self, query: str, k: int | None = None) -> list[tuple[str, float]]:
        """The (document id, score) pairs of one query, best first."""
        at = pc.index(self.queries, query).as_py()
        if at < 0:
            raise RunError(f"run {self.name} ({self.task}) has no query {query!r}.")
        part = slice(
            self.offsets[at], self.offsets[at + 1] if k is None else min(self.offsets[at] + k, self.offsets[at + 1])
        )
        ids = self.documents.take(pa.array(self.indices[part])).to_pylist()
        return list(zip(ids, map(float, self.scores[part]), strict=True))

    def cut(self, depth: int) -> Run:
        """The run with at most the first `depth` documents of each query."""
        lengths = np.minimum(np.diff(self.offsets), depth)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        flat = np.repeat(self.offsets[:-1] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return replace(
            self, offsets=offsets, indices=self.indices[flat], scores=self.scores[flat], depth=min(depth, self.depth)
        )

    def to_table(self) -> pa.Table:
        """Long form: columns query_id, document_id, rank (from 1), score."""
        lengths = np.diff(self.offsets)
        return pa.table(
            {
                "query_id": self.queries.take(pa.array(np.repeat(np.arange(len(self)), lengths))),
                "document_id": self.documents.take(pa.array(self.indices)),
                "rank": (np.arange(len(self.indices)) - np.repeat(self.offsets[:-1], lengths) + 1).astype(np.int32),
                "score": self.scores,
            }
        )

    def _check_no_repeats(self, where: str) -> None:
        lengths = np.diff(self.offsets)
        if len(lengths) and (lengths == lengths[0]).all():  # the usual case: short rows sort faster than one long list
            rows = np.sort(self.indices.reshape(len(self), lengths[0]), axis=1)
            repeated = np.argwhere(rows[:, 1:] == rows[:, :-1])
            repeats = [(int(query), int(rows[query, at])) for query, at in repeated[:1]]
        else:
            pairs = np.repeat(np.arange(len(self), dtype=np.int64), lengths) * len(self.documents) + self.indices
            pairs.sort()
            twice = pairs[1:][pairs[1:] == pairs[:-1]]
            repeats = [divmod(int(pair), len(self.documents)) for pair in twice[:1]]
        for query, document in repeats:
            raise RunError(f"{where}: query {self.queries[query]} lists document {self.documents[document]} twice.")

    def _query_of(self, entry: int) -> str:
        return str(self.queries[int(np.searchsorted(self.offsets, entry, side="right")) - 1])
