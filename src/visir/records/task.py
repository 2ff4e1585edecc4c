"""Tasks: which queries search which documents, and which documents are right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import Displayed, brief, counted, listed
from visir.errors import CollectionError, nearest, raise_faults
from visir.fingerprint import hash_columns
from visir.records.columns import conform, owners, rows_of_spans, strings
from visir.records.items import Items, labels_of, query_labels
from visir.records.qrels import Qrels
from visir.records.result import Ties
from visir.records.run import Gallery, task_name

PLAIN = "none"
"""The condition of unchanged queries, as the logs of the brittleness paper name it."""


def check_task_name(name: str) -> None:
    """Raise `CollectionError` for a name that no file can have: results are saved under the names of their tasks."""
    if not name or len(name) > 80 or name.startswith(".") or not all(c.isalnum() or c in " ._+-()" for c in name):
        raise CollectionError(
            f"{name[:100]!r} cannot be the name of a task.",
            hint="up to 80 letters, digits and ._+-() that do not begin with a dot",
            code="cannot-name-task",
        )


def check_known(where: str, kind: Literal["task", "relevance", "split"], name: str, known: Iterable[str]) -> None:
    """Raise `CollectionError` for the name of a task, of judgements or of a split that a source does not have."""
    if name not in (names := list(known)):
        hint = nearest(name, filter(None, names))
        raise CollectionError(f"{where}: unknown {kind} {name!r}", hint=hint, code=f"unknown-{kind}")


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
        return owners(self.offsets)

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
        inside, offsets = rows_of_spans(self.offsets, rows)
        return Pools(self.queries.take(pa.array(rows)), offsets, self.documents.take(pa.array(inside)))

    def without(self, queries: pa.StringArray, documents: pa.StringArray) -> Pools:
        """Return the pools without these queries and these candidates."""
        names = self.queries.take(pa.array(self.query_rows))
        left = pc.invert(pc.or_(pc.is_in(names, queries), pc.is_in(self.documents, documents)))
        return Pools.of(names.filter(left), self.documents.filter(left))


@dataclass(frozen=True, eq=False)
class Task(Displayed):
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
            sides = () if pairs is None else ((pairs.queries, self.queries), (pairs.documents, self.documents))
            for role, (ids, items) in zip(("query", "document"), sides, strict=False):
                if unknown := _unknown(ids, items):
                    raise CollectionError(
                        f"{where}: the {title} name the {role} {unknown[0]!r}, which is not in the task.",
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


# Tasks from files: queries, documents and judgements in the layout of BEIR and MTEB.

TASK_JUDGEMENTS = pa.schema(
    [
        ("split", pa.string()),  # "" where the source has no splits
        ("query_id", pa.string()),
        ("document_id", pa.string()),
        ("grade", pa.float32()),  # > 0 is a positive; 0 is judged and not relevant
    ]
)
TASK_CANDIDATES = pa.schema([("split", pa.string()), ("query_id", pa.string()), ("document_id", pa.string())])
TASK_DOCUMENTS = pa.schema([("split", pa.string()), ("document_id", pa.string())])
TASK_QUERIES = pa.schema([("split", pa.string()), ("query_id", pa.string())])
TASK_EXCLUDED = pa.schema([("query_id", pa.string()), ("document_id", pa.string())])
_TABLES = {
    "judgements": (TASK_JUDGEMENTS, "judged"),
    "candidates": (TASK_CANDIDATES, "a candidate"),
    "galleries": (TASK_DOCUMENTS, "in a gallery"),
    "unjudged": (TASK_QUERIES, "a query of a split"),
    "excluded": (TASK_EXCLUDED, "excluded"),
}
"""The tables of a task from files: the columns of each, and what a query or a document there is."""
QRELS = "qrels"
"""The name of the judgements of a task from files."""


@dataclass(frozen=True, eq=False)
class TaskFile(Displayed):
    """Queries, documents and judgements from files: one task, of any modalities.

    All splits share the documents, unless there are `galleries`. The queries of a split are those that it judges, and
    those of `unjudged`.

    Args:
        name: The name of the source.
        queries: The queries of all splits.
        documents: The documents.
        judgements: Rows of `TASK_JUDGEMENTS`: which documents are relevant to a query, by split.
        candidates: Rows of `TASK_CANDIDATES`: the documents among which a query searches, by split; the split "" holds
            for all splits. None where every document is a candidate of every query.
        task_named: How results name the task; "" takes the usual name of its modalities ("t2i", "t2t", …).
        source: Where it comes from, in words.
        part: The splits of these judgements, joined by "+"; "all" for everything.
        labels: What is known of the queries, as in `Task`: a column `query_id` and one of strings for each label.
        ties: How equal scores are counted where the caller of an evaluation does not say.
        measures: The names of the measures that are taken where the caller does not say; () takes the default ones.
        notes: What a reader of the numbers must know: items that were left out, …
        galleries: Rows of `TASK_DOCUMENTS`: the documents of each split, where they differ.
        unjudged: Rows of `TASK_QUERIES`: queries of splits whose answers are not published (the test split of a
            benchmark). They can be searched, not measured.
        excluded: Rows of `TASK_EXCLUDED`: documents that are no candidates of a query, such as the picture that it
            begins from.
        skip_first: Whether the first answer of every query is left out, as in `Task`.
        submission: The format of the file in which answers are handed in; "" where there is none. See
            `visir.retrieval.submissions`.

    Raises:
        CollectionError: The judgements or candidates name queries or documents that do not exist; the message lists
            them all. Or the labels do.

    Example:
        >>> queries = Items.of_texts({"q1": "a boat", "q2": "a dog"}, title="queries")
        >>> documents = Items.of_texts({"d1": "the boat", "d2": "two dogs"}, title="documents")
        >>> judgements = {"split": ["test", "dev"], "query_id": ["q1", "q2"], "document_id": ["d1", "d2"],
        ...               "grade": [1.0, 1.0]}
        >>> source = TaskFile("toy", queries, documents, pa.table(judgements))
        >>> source.tasks, source.splits, len(source.split("test").task("t2t").queries)
        (('t2t',), ('dev', 'test'), 1)
    """

    name: str
    queries: Items
    documents: Items
    judgements: pa.Table
    candidates: pa.Table | None = None
    task_named: str = ""
    source: str = ""
    part: str = "all"
    labels: pa.Table | None = None
    ties: Ties = "id"
    measures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    galleries: pa.Table | None = None
    unjudged: pa.Table | None = None
    excluded: pa.Table | None = None
    submission: str = ""
    skip_first: bool = False

    def __post_init__(self) -> None:
        if self.task_named:
            check_task_name(self.task_named)
        if self.labels is not None:
            object.__setattr__(self, "labels", query_labels(self.labels, self.queries.ids, self.name))
        faults = []
        for name, table in self._tables().items():
            schema, verb = _TABLES[name]
            table = conform(table, schema, f"{self.name}: {name}")
            object.__setattr__(self, name, table)
            faults += [
                f"{role} {unknown!r} is {verb}, and is not among the {items.title}"
                for role, items in (("query", self.queries), ("document", self.documents))
                if f"{role}_id" in table.column_names
                for unknown in _unknown(table[f"{role}_id"], items)
            ]
        raise_faults(CollectionError, f"{self.name}{f' ({self.source})' if self.source else ''}", faults)

    def __repr__(self) -> str:
        return brief(
            self,
            f"{self.name}: {self.tasks[0]}, {counted(len(self.queries), 'queries')}, "
            f"{counted(len(self.documents), 'documents')}",
            f"splits: {', '.join(self.splits)}" if set(self.splits) - {""} else "",
            f"queries: {self.queries.shown}",
            f"documents: {self.documents.shown}",
            f"{counted(self.judgements.num_rows, 'judgements')}"
            + ("" if self.candidates is None else f", {counted(self.candidates.num_rows, 'candidates')} in pools"),
            f"from {self.source}" if self.source else "",
        )

    @property
    def tasks(self) -> tuple[str, ...]:
        """The name of its one task."""
        return (self.task_named or task_name(self.queries.modality, self.documents.modality),)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits, sorted."""
        tables = [table for table in (self.judgements, self.unjudged) if table is not None]
        return tuple(sorted({split for table in tables for split in pc.unique(table["split"]).to_pylist()}))

    @property
    def relevances(self) -> tuple[str, ...]:
        """The names of the sets of judgements: "qrels" alone."""
        return (QRELS,)

    @cached_property
    def fingerprint(self) -> str:
        """A hash over queries, documents, judgements and candidates: 32 hexadecimal digits, independent of row order.

        The location of the images has no influence, as in `Collection.fingerprint`.
        """
        parts = [self.queries.fingerprint, self.documents.fingerprint]
        parts += [hash_columns(table.columns) for table in self._tables().values()]
        return hash_columns([pa.array(parts)], sort=False)

    def split(self, name: str | None) -> TaskFile:
        """Return one split of the judgements with its queries.

        Args:
            name: A split, or several joined by "+"; None or "all" is everything.

        Raises:
            CollectionError: There is no split of this name.
        """
        if name is None or name == "all":
            return self
        names = _split_names(self, name)
        judgements, unjudged, galleries = (
            None if table is None else table.filter(pc.is_in(table["split"], pa.array(names)))
            for table in (self.judgements, self.unjudged, self.galleries)
        )
        named = [table.select(["query_id"]) for table in (judgements, unjudged) if table is not None]
        queries = _selected(self.queries, pa.concat_tables(named)["query_id"])
        documents = self.documents if galleries is None else _selected(self.documents, galleries["document_id"])
        candidates, excluded = (
            None if table is None else table.filter(pc.is_in(table["query_id"], queries.ids))
            for table in (self.candidates, self.excluded)
        )
        if candidates is not None:
            candidates = candidates.filter(pc.is_in(candidates["split"], pa.array([*names, ""])))
        if excluded is not None:
            excluded = excluded.filter(pc.is_in(excluded["document_id"], documents.ids))
        return replace(
            self,
            queries=queries,
            documents=documents,
            judgements=judgements,
            candidates=candidates,
            galleries=None if len(names) == 1 else galleries,
            unjudged=unjudged,
            excluded=excluded,
            part=name,
            labels=None if self.labels is None else labels_of(self.labels, queries.ids),
        )

    def task(self, name: str) -> Task:
        """Return the task of this name; there is one, see `tasks`.

        Raises:
            CollectionError: There is no task of this name, or each split has documents of its own and none is named.
        """
        check_known(self.name, "task", name, self.tasks)
        if self.galleries is not None and self.part == "all" and len(self.splits) > 1:
            raise CollectionError(
                f"{self.name}: each split is searched in documents of its own; which split?",
                hint=f"split={'val' if 'val' in self.splits else self.splits[0]!r}: there are {', '.join(self.splits)}",
                code="each-split-searched-documents",
            )
        return Task(
            name,
            self.queries,
            self.documents,
            {QRELS: self.qrels(name)},
            _pools_of(self.candidates),
            source=self.name,
            source_fingerprint=self.fingerprint,
            split=self.part,
            labels=self.labels,
            ties=self.ties,
            measures=self.measures,
            notes=self.notes,
            excluded=_pools_of(self.excluded) if self.excluded is not None and len(self.excluded) else None,
            skip_first=self.skip_first,
        )

    def qrels(self, task: str, relevance: str = QRELS) -> Qrels:
        """Return the judgements of all splits together.

        A pair that several splits judge has the highest of its grades.

        Args:
            task: The name of the task.
            relevance: The name of the judgements.

        Raises:
            CollectionError: There is no task, or no set of judgements, of this name.
        """
        check_known(self.name, "task", task, self.tasks)
        check_known(self.name, "relevance", relevance, self.relevances)
        pairs = self.judgements.group_by(["query_id", "document_id"]).aggregate([("grade", "max")])
        return Qrels.of(pairs["query_id"], pairs["document_id"], pairs["grade_max"].to_numpy(), name=QRELS)

    def describe(self) -> dict[str, object]:
        """Return the counts that identify the task."""
        judged = {name: self.judgements.filter(pc.equal(self.judgements["split"], name)) for name in self.splits}
        return {
            "name": self.name,
            "task": self.tasks[0],
            "queries": len(self.queries),
            "documents": len(self.documents),
            "splits": {
                name: pc.count_distinct(rows["query_id"]).as_py() or len(self.split(name).queries)
                for name, rows in judged.items()
            },
            "judgements": self.judgements.num_rows,
            "pools": None if self.candidates is None else str(_pools_of(self.candidates)),
            "labels": [] if self.labels is None else self.labels.column_names[1:],
            "fingerprint": self.fingerprint,
            "source": self.source,
        }

    def _tables(self) -> dict[str, pa.Table]:
        """The tables that there are, by name."""
        return {name: getattr(self, name) for name in _TABLES if getattr(self, name) is not None}


def _pools_of(pairs: pa.Table | None) -> Pools | None:
    """The pools of the distinct pairs of queries and documents."""
    if pairs is None:
        return None
    distinct = pairs.group_by(["query_id", "document_id"]).aggregate([])
    return Pools.of(distinct["query_id"], distinct["document_id"])


def _split_names(source: TaskFile | TaskSet, name: str) -> list[str]:
    """The splits that a name joins by "+", each of which the source has."""
    for split in (names := name.split("+")):
        check_known(source.name, "split", split, source.splits)
    return names


def _unknown(ids: pa.Array | pa.ChunkedArray, items: Items) -> list[str]:
    distinct = pc.unique(strings(ids))
    return [str(identifier) for identifier in distinct.filter(pc.invert(pc.is_in(distinct, items.ids))).to_pylist()]


def _selected(items: Items, ids: pa.ChunkedArray) -> Items:
    """The items of these ids, in their own order."""
    return items.take(pc.is_in(items.ids, pc.unique(ids)).to_numpy(zero_copy_only=False).nonzero()[0])


# Several tasks of one source: the two directions of a choice task, the tasks of one benchmark.


@dataclass(frozen=True, eq=False)
class TaskSet(Displayed):
    """Tasks of one source by name, each with queries and documents of its own.

    Args:
        name: The name of the source.
        parts: The tasks by name. A part is called by its name here, whatever it calls itself.
        source: Where they come from, in words.

    Raises:
        CollectionError: There is no part, or a name cannot be the name of a task.

    Example:
        >>> from visir.records import Items
        >>> texts = Items.of_texts({"1": "a boat", "2": "the boat"}, title="texts")
        >>> judgements = {"split": ["", ""], "query_id": ["1", "2"], "document_id": ["2", "1"], "grade": [1.0, 1.0]}
        >>> part = TaskFile("toy", texts, texts, pa.table(judgements))
        >>> tasks = TaskSet("toy", {"first": part, "second": part})
        >>> tasks.tasks, tasks.task("second").name
        (('first', 'second'), 'second')
    """

    name: str
    parts: Mapping[str, TaskFile]
    source: str = ""

    def __post_init__(self) -> None:
        if not self.parts:
            raise CollectionError(f"{self.name}: there are no tasks.", code="no-tasks")
        for name in self.parts:
            check_task_name(name)
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    def __repr__(self) -> str:
        lines = [
            f"{name}: {counted(len(part.queries), 'queries')}, {counted(len(part.documents), 'documents')}"
            for name, part in self.parts.items()
        ]
        return brief(self, f"{self.name}: {counted(len(self.parts), 'tasks')}", *lines)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks."""
        return tuple(self.parts)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits of all parts, sorted."""
        return tuple(sorted({split for part in self.parts.values() for split in part.splits}))

    @cached_property
    def fingerprint(self) -> str:
        """A hash over the names and the fingerprints of the parts."""
        return hash_columns([pa.array(list(self.parts)), pa.array([part.fingerprint for part in self.parts.values()])])

    def split(self, name: str | None) -> TaskSet:
        """Return one split, or several joined by "+", of every part that has it; None or "all" is everything.

        Raises:
            CollectionError: No part has such a split.
        """
        if name is None or name == "all":
            return self
        names = _split_names(self, name)
        own = {task: [split for split in names if split in part.splits] for task, part in self.parts.items()}
        return replace(self, parts={task: self.parts[task].split("+".join(own[task])) for task in own if own[task]})

    def task(self, name: str) -> Task:
        """Return the task of this name.

        Raises:
            CollectionError: There is no task of this name.
        """
        check_known(self.name, "task", name, self.parts)
        part = self.parts[name]
        return replace(part.task(part.tasks[0]), name=name, source=self.name, source_fingerprint=self.fingerprint)

    def describe(self) -> dict[str, object]:
        """Return the counts that identify the tasks."""
        return {
            "name": self.name,
            "tasks": {name: part.describe() for name, part in self.parts.items()},
            "fingerprint": self.fingerprint,
            "source": self.source,
        }
