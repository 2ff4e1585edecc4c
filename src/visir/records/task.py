"""Tasks: which queries search which documents, and which documents are right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import Displayed, brief, counted, listed
from visir.errors import CollectionError, nearest
from visir.fingerprint import hash_columns
from visir.records.columns import strings
from visir.records.gallery import Gallery
from visir.records.items import Items, Modality
from visir.records.labels import query_labels
from visir.records.protocol import Ties
from visir.records.qrels import Qrels

PLAIN = "none"
"""The condition of unchanged queries, as the logs of the brittleness paper name it."""
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


def check_task_name(name: str) -> None:
    """Raise `CollectionError` for a name that no file can have: results are saved under the names of their tasks."""
    if not name or len(name) > 80 or name.startswith(".") or not all(c.isalnum() or c in " ._+-()" for c in name):
        raise CollectionError(
            f"{name[:100]!r} cannot be the name of a task.",
            hint="up to 80 letters, digits and ._+-() that do not begin with a dot",
            code="cannot-name-task",
        )


class QrelsByName(Displayed, Mapping[str, Qrels]):
    """Sets of judgements by name; each is built when it is first used.

    Args:
        names: The names of the sets; the first is the default of the task.
        build: Builds the set of a name.

    Example:
        >>> sets = QrelsByName(["links"], lambda name: Qrels.of(["q"], ["d"], name=name))
        >>> list(sets), sets["links"].to_dict()
        (['links'], {'q': {'d': 1.0}})
    """

    def __init__(self, names: Sequence[str], build: Callable[[str], Qrels]) -> None:
        self._names = tuple(names)
        self._build = build
        self._built: dict[str, Qrels] = {}

    def __repr__(self) -> str:
        return brief(self, ", ".join(self._names))

    def __getitem__(self, name: str) -> Qrels:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._built:
            self._built[name] = self._build(name)
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True, eq=False)
class Pools(Displayed):
    """The candidates of each query, for tasks where they differ from query to query.

    Attributes:
        queries: (n,) query ids, sorted and unique.
        offsets: (n + 1,) int64; the candidates of query i are `documents[offsets[i]:offsets[i + 1]]`, sorted by id.
        documents: (m,) document ids.

    Example:
        >>> pools = Pools.of(["q1", "q1", "q2", "q2"], ["b", "a", "c", "a"])
        >>> pools.candidates("q1"), str(pools)
        (['a', 'b'], '2 candidates per query')
    """

    queries: pa.StringArray
    offsets: NDArray[np.int64]
    documents: pa.StringArray

    @classmethod
    def of(cls, queries: object, documents: object) -> Pools:
        """Make pools from parallel columns in any order.

        Args:
            queries: (m,) the query id of each pair.
            documents: (m,) the id of a candidate of that query.

        Raises:
            CollectionError: The columns differ in length or are empty, or a pair occurs twice.
        """
        pairs = Qrels.of(queries, documents, name="pools")
        if len(pairs) == 0:
            raise CollectionError("pools: there are no candidates.")
        return cls(pairs.queries, pairs.offsets, pairs.documents)

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        return brief(
            self,
            f"{counted(len(self), 'queries')}, {self}",
            f"queries: {listed(self.queries[:3].to_pylist(), len(self))}",
        )

    def __str__(self) -> str:
        """The number of candidates per query, in words."""
        sizes = np.diff(self.offsets)
        low, high = int(sizes.min()), int(sizes.max())
        return f"{low if low == high else f'{low} to {high}'} candidates per query"

    @cached_property
    def fingerprint(self) -> str:
        """A hash over all pairs."""
        return hash_columns([self.queries.take(pa.array(self.query_rows)), self.documents], sort=False)

    @property
    def query_rows(self) -> NDArray[np.int64]:
        """(m,) the row in `queries` of each candidate's query."""
        return np.repeat(np.arange(len(self.queries)), np.diff(self.offsets))

    def candidates(self, query: str) -> list[str]:
        """Return the ids of the candidates of a query, sorted.

        Raises:
            CollectionError: The query is unknown.
        """
        row = pc.index(self.queries, query).as_py()
        if row < 0:
            raise CollectionError(f"pools: unknown query {query!r}")
        ids: list[str] = self.documents[int(self.offsets[row]) : int(self.offsets[row + 1])].to_pylist()
        return ids

    def select(self, queries: object) -> Pools:
        """Return the pools of these queries only; queries without a pool are left out."""
        rows = np.flatnonzero(pc.is_in(self.queries, strings(queries)).to_numpy(zero_copy_only=False))
        lengths = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        inside = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Pools(self.queries.take(pa.array(rows)), offsets, self.documents.take(pa.array(inside)))

    def without(self, queries: pa.StringArray, documents: pa.StringArray) -> Pools:
        """Return the pools without these queries and these candidates."""
        names = self.queries.take(pa.array(self.query_rows))
        left = pc.invert(pc.or_(pc.is_in(names, queries), pc.is_in(self.documents, documents)))
        return Pools.of(names.filter(left), self.documents.filter(left))


@dataclass(frozen=True, eq=False)
class Task(Displayed, view="visir.reports.views.task"):
    """One task of retrieval: queries, documents, and which documents are relevant to a query.

    Queries and documents may each be texts, images, or both. A `Collection` of images and captions has two tasks ("t2i"
    and "i2t"); catalogues and task folders have others.

    Args:
        name: How results name the task: "t2i", "i2t", "category", "composed", "choice", …
        queries: The queries.
        documents: The documents; all of them are candidates of every query, unless there are `pools`.
        qrels: Judgements by name; the first name is the default. Queries without judgements are not measured.
        pools: The candidates of each query, where they are not the same for all.
        candidates: The documents that are candidates, when not all are (one fold, one caption per image).
        source: The collection, catalogue or folder from which the task comes.
        source_fingerprint: The hash of that source, for the protocol.
        split: The split of the source; "all" is the whole source.
        condition: "none", or the name of the perturbation of the queries.
        labels: What is known of the queries: a column `query_id` and one of strings for each label ("category",
            "language", …); results can be looked at by label. The label "group" joins queries that are one item;
            "image" names the image of a query.
        ties: How equal scores are counted where the caller of an evaluation does not say.
        measures: The names of the measures that are taken where the caller does not say; () takes the default ones.
        notes: What a reader of the numbers must know: items that were left out, …
        excluded: The documents that are no candidates of a query, by query: the picture that it begins from, …
        skip_first: Whether the first answer of every query is left out, because it is taken for the query itself.

    Raises:
        CollectionError: The pools, the excluded documents or the labels name a query or a document that the task does
            not have.

    Example:
        >>> queries = Items.of_texts({"q1": "a boat"}, title="queries")
        >>> documents = Items.of_texts({"d1": "the boat", "d2": "a dog"}, title="documents")
        >>> Task("t2t", queries, documents, {"links": Qrels.of(["q1"], ["d1"])}, source="two texts")
        Task(t2t of two texts: 1 query, 2 documents)
          queries: 'a boat'
          documents: 'the boat', 'a dog'
          judgements: links
    """

    name: str
    queries: Items
    documents: Items
    qrels: Mapping[str, Qrels]
    pools: Pools | None = None
    source: str = ""
    source_fingerprint: str = ""
    split: str = "all"
    candidates: Gallery | None = None
    condition: str = PLAIN
    labels: pa.Table | None = None
    ties: Ties = "id"
    measures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    excluded: Pools | None = None
    skip_first: bool = False

    def __post_init__(self) -> None:
        check_task_name(self.name)
        where = f"task {self.name} of {self.source or 'no named source'}"
        if self.labels is not None:
            object.__setattr__(self, "labels", query_labels(self.labels, self.queries.ids, where))
        if not self.qrels:
            raise CollectionError(
                f"{where}: there are no judgements.",
                hint="give at least one set of qrels by name",
                code="collection-no-judgements",
            )
        for title, pairs in (("pools", self.pools), ("excluded documents", self.excluded)):
            if pairs is None:
                continue
            for role, ids, items in (
                ("query", pairs.queries, self.queries),
                ("document", pairs.documents, self.documents),
            ):
                unknown = pc.invert(pc.is_in(ids, items.ids))
                if pc.any(unknown).as_py():
                    first = ids.filter(unknown)[0].as_py()
                    raise CollectionError(
                        f"{where}: the {title} name the {role} {first!r}, which is not in the task.",
                        code="name-not-task",
                    )

    def __repr__(self) -> str:
        candidates = self.candidates
        special = [
            f"split {self.split}" if self.split != "all" else "",
            f"queries perturbed by {self.condition}" if self.condition != PLAIN else "",
            str(self.pools) if self.pools is not None else "",
            f"{counted(len(self.excluded.documents), 'documents')} excluded" if self.excluded is not None else "",
            f"{candidates.size:,} of them are candidates"
            if candidates and candidates.size != len(self.documents)
            else "",
        ]
        return brief(
            self,
            f"{self.name}{f' of {self.source}' if self.source else ''}: "
            f"{counted(len(self.queries), self.queries.title)}, {counted(len(self.documents), self.documents.title)}",
            f"{self.queries.title}: {self.queries.shown}",
            f"{self.documents.title}: {self.documents.shown}",
            f"judgements: {', '.join(self.relevances)}"
            + (f"; labels: {', '.join(self.labels.column_names[1:])}" if self.labels is not None else ""),
            ", ".join(filter(None, special)),
        )

    @property
    def relevances(self) -> tuple[str, ...]:
        """The names of the sets of judgements; the first is the default."""
        return tuple(self.qrels)

    def judgements(self, relevance: str | None = None) -> Qrels:
        """Return the judgements of this name; None is the first set.

        Raises:
            CollectionError: The task has no judgements of this name.
        """
        name = self.relevances[0] if relevance is None else relevance
        if name not in self.qrels:
            raise CollectionError(
                f"{self.source}: unknown relevance {name!r} for the task {self.name}",
                hint=nearest(name, self.relevances),
                code="unknown-relevance-task",
            )
        return self.qrels[name]

    def measured_queries(self, relevance: str | None = None) -> pa.StringArray:
        """Return the ids of the queries that are measured: the queries of the task that have judgements.

        Args:
            relevance: The name of the judgements; None is the first set.

        Raises:
            CollectionError: The task has no judgements of this name.
        """
        judged = self.judgements(relevance).queries
        return judged.filter(pc.is_in(judged, self.queries.ids))

    @cached_property
    def gallery(self) -> Gallery:
        """The declared candidates: `candidates`, or all documents."""
        if self.candidates is not None:
            return self.candidates
        title = self.documents.title
        return Gallery.of(self.documents.modality, self.documents.ids, f"all {title}", title=title)
