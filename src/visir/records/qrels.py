"""Relevance judgements of one task, in the form in which measures use them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import CollectionError
from visir.records.columns import strings


@dataclass(frozen=True, eq=False)
class Qrels:
    """For each query its judged documents and grades, as one flat list cut by offsets.

    - `queries`: (n,) query ids, sorted and unique
    - `offsets`: (n + 1,) int64; the documents of query i are `documents[offsets[i]:offsets[i + 1]]`, sorted by id
    - `documents`: (m,) document ids
    - `grades`: (m,) float32; > 0 is a positive, 0 is judged and not relevant
    - `name`: which relevance this is ("links", "cxc", …)
    """

    queries: pa.StringArray
    offsets: NDArray[np.int64]
    documents: pa.StringArray
    grades: NDArray[np.float32]
    name: str = "links"

    @classmethod
    def of(cls, queries: object, documents: object, grades: object = None, *, name: str = "links") -> Qrels:
        """From parallel columns (query id, document id[, grade]); a pair listed twice is an error."""
        query = strings(queries)
        document = strings(documents)
        grade = np.ones(len(query), np.float32) if grades is None else np.asarray(grades, np.float32)
        if not len(query) == len(document) == len(grade):
            raise CollectionError(
                f"qrels {name}: {len(query)} queries, {len(document)} documents, {len(grade)} grades."
            )
        if not np.isfinite(grade).all() or (grade < 0).any():
            raise CollectionError(f"qrels {name}: grades must be finite and at least 0.")
        order = pc.sort_indices(
            pa.table({"q": query, "d": document}), sort_keys=[("q", "ascending"), ("d", "ascending")]
        )
        query, document, grade = query.take(order), document.take(order), grade[order.to_numpy()]
        if len(query) > 1:
            twice = pc.and_(pc.equal(query[1:], query[:-1]), pc.equal(document[1:], document[:-1]))
            if pc.any(twice).as_py():
                at = pc.index(twice, True).as_py()
                raise CollectionError(f"qrels {name}: query {query[at]} and document {document[at]} are judged twice.")
        runs = pc.run_end_encode(query, run_end_type=pa.int64())
        offsets = np.concatenate([[0], runs.run_ends.to_numpy()]).astype(np.int64)
        return cls(runs.values.cast(pa.string()), offsets, document, np.ascontiguousarray(grade), name)

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def positives(self) -> NDArray[np.int64]:
        """(n,) the number of positives (grade > 0) of each query."""
        summed = np.concatenate([[0], np.cumsum(self.grades > 0)])
        positives: NDArray[np.int64] = summed[self.offsets[1:]] - summed[self.offsets[:-1]]
        return positives

    def select(self, queries: object) -> Qrels:
        """The judgements of the given queries only (ids that are not judged are left out)."""
        keep = pc.is_in(self.queries, strings(queries)).to_numpy(zero_copy_only=False)
        return self.rows(np.flatnonzero(keep))

    def rows(self, rows: NDArray[np.int64]) -> Qrels:
        """The judgements of the queries at these positions, in ascending order of position."""
        rows = np.sort(rows)
        lengths = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        flat = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Qrels(
            self.queries.take(pa.array(rows)),
            offsets,
            self.documents.take(pa.array(flat)),
            self.grades[flat],
            self.name,
        )

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Nested dictionaries {query: {document: grade}}: the form that other evaluation tools take."""
        documents = self.documents.to_pylist()
        return {
            query: dict(zip(documents[a:b], self.grades[a:b].tolist(), strict=True))
            for query, a, b in zip(self.queries.to_pylist(), self.offsets[:-1], self.offsets[1:], strict=True)
        }
