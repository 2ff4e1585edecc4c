"""Relevance judgements of one task, in the form that measures use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import Columnar, brief, counted
from visir.errors import CollectionError
from visir.records.columns import groups, owners, rows_of_spans, strings

Grades = TypeVar("Grades", float, NDArray[np.float32])


def not_negative(grade: Grades) -> Grades:
    """The one rule for negative grades, as in trec_eval: 0, judged and not relevant."""
    return np.maximum(grade, np.float32(0)) if isinstance(grade, np.ndarray) else max(grade, 0.0)


@dataclass(frozen=True, eq=False)
class Qrels(Columnar):
    """The judged documents of each query, with their grades.

    Attributes:
        queries: (n,) query ids, sorted and unique.
        offsets: (n + 1,) int64; the documents of query i are `documents[offsets[i]:offsets[i + 1]]`, sorted by id.
        documents: (m,) document ids.
        grades: (m,) float32; above 0 is a positive, 0 is judged and not relevant.
        name: The name of the judgements: "links", "cxc", …

    Example:
        >>> qrels = Qrels.of(["q1", "q1", "q2"], ["a", "b", "c"], [1, 0, 2])
        >>> qrels.to_dict(), qrels.positives.tolist()
        ({'q1': {'a': 1.0, 'b': 0.0}, 'q2': {'c': 2.0}}, [1, 1])
    """

    queries: pa.StringArray
    offsets: NDArray[np.int64]
    documents: pa.StringArray
    grades: NDArray[np.float32]
    name: str = "links"

    @classmethod
    def of(cls, queries: object, documents: object, grades: object = None, *, name: str = "links") -> Qrels:
        """Make judgements from parallel columns in any order.

        Args:
            queries: (m,) the query id of each pair.
            documents: (m,) the document id of each pair.
            grades: (m,) finite numbers; a negative one counts as 0 (`not_negative`). None gives every pair the grade 1.
            name: The name of the judgements.

        Raises:
            CollectionError: The columns differ in length, a grade is not finite, or a pair occurs twice.

        Example:
            >>> Qrels.of(["q2", "q1"], ["a", "b"]).to_dict()
            {'q1': {'b': 1.0}, 'q2': {'a': 1.0}}
        """
        query = strings(queries)
        document = strings(documents)
        grade = np.ones(len(query), np.float32) if grades is None else np.asarray(grades, np.float32)
        if not len(query) == len(document) == len(grade):
            raise CollectionError(
                f"qrels {name}: {len(query)} queries, {len(document)} documents, {len(grade)} grades."
            )
        if query.null_count or document.null_count:
            missing = query.null_count + document.null_count
            raise CollectionError(f"qrels {name}: {missing:,} ids are missing (null).")
        if not np.isfinite(grade).all():
            raise CollectionError(f"qrels {name}: grades must be finite.", code="grades-finite")
        grade = not_negative(grade)
        order = pc.sort_indices(
            pa.table({"q": query, "d": document}), sort_keys=[("q", "ascending"), ("d", "ascending")]
        )
        query, document, grade = query.take(order), document.take(order), grade[order.to_numpy()]
        if len(query) > 1:
            twice = pc.and_(pc.equal(query[1:], query[:-1]), pc.equal(document[1:], document[:-1]))
            if pc.any(twice).as_py():
                row = pc.index(twice, True).as_py()
                raise CollectionError(
                    f"qrels {name}: query {query[row]} and document {document[row]} are judged twice.",
                    code="query-document-judged-twice",
                )
        return cls(*groups(query), document, np.ascontiguousarray(grade), name)

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        shown = [
            f"{query}: " + ", ".join(f"{name} {grade:g}" for name, grade in of_query.items())
            for query, of_query in self.rows(np.arange(min(3, len(self)))).to_dict().items()
        ]
        return brief(
            self,
            f"{self.name}: {counted(len(self), 'queries')}, {counted(len(self.documents), 'judgements')}, "
            f"{counted(int((self.grades > 0).sum()), 'positives')}",
            *shown,
            f"… {len(self) - 3:,} more" if len(self) > 3 else "",
        )

    def to_arrow(self) -> pa.Table:
        """Return one row per judged pair, with columns `query_id`, `document_id` and `grade`."""
        queries = self.queries.take(pa.array(owners(self.offsets)))
        return pa.table({"query_id": queries, "document_id": self.documents, "grade": self.grades})

    @property
    def positives(self) -> NDArray[np.int64]:
        """(n,) the number of positives (grade > 0) of each query."""
        summed = np.concatenate([[0], np.cumsum(self.grades > 0)])
        positives: NDArray[np.int64] = summed[self.offsets[1:]] - summed[self.offsets[:-1]]
        return positives

    def select(self, queries: object) -> Qrels:
        """Return the judgements of these queries only; ids without judgements are left out."""
        keep = pc.is_in(self.queries, strings(queries)).to_numpy(zero_copy_only=False)
        return self.rows(np.flatnonzero(keep))

    def rows(self, rows: NDArray[np.int64]) -> Qrels:
        """Return the judgements of the queries in these rows, in ascending order of the rows."""
        rows = np.sort(rows)
        flat, offsets = rows_of_spans(self.offsets, rows)
        documents = self.documents.take(pa.array(flat))
        return Qrels(self.queries.take(pa.array(rows)), offsets, documents, self.grades[flat], self.name)

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return nested dictionaries {query: {document: grade}}, the form that other evaluation tools take."""
        documents = self.documents.to_pylist()
        return {
            query: dict(zip(documents[a:b], self.grades[a:b].tolist(), strict=True))
            for query, a, b in zip(self.queries.to_pylist(), self.offsets[:-1], self.offsets[1:], strict=True)
        }
