"""Tasks from files: queries, documents and judgements in the layout of BEIR and MTEB."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from visir.display import Displayed, brief, counted
from visir.errors import CollectionError, nearest, raise_faults
from visir.fingerprint import hash_columns
from visir.records.columns import conform, strings
from visir.records.items import Items
from visir.records.labels import labels_of, query_labels
from visir.records.protocol import Ties
from visir.records.qrels import Qrels
from visir.records.task import Pools, Task, check_task_name, task_name

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
        object.__setattr__(self, "judgements", conform(self.judgements, TASK_JUDGEMENTS, f"{self.name}: judgements"))
        tables = [("judged", self.judgements)]
        if self.candidates is not None:
            candidates = conform(self.candidates, TASK_CANDIDATES, f"{self.name}: candidates")
            object.__setattr__(self, "candidates", candidates)
            tables.append(("a candidate", candidates))
        for name, schema, verb in (
            ("galleries", TASK_DOCUMENTS, "in a gallery"),
            ("unjudged", TASK_QUERIES, "a query of a split"),
            ("excluded", TASK_EXCLUDED, "excluded"),
        ):
            if getattr(self, name) is not None:
                table = conform(getattr(self, name), schema, f"{self.name}: {name}")
                object.__setattr__(self, name, table)
                tables.append((verb, table))
        faults = [
            f"{role} {unknown!r} is {verb}, and is not among the {items.title}"
            for verb, table in tables
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
        tables = [self.judgements] if self.unjudged is None else [self.judgements, self.unjudged]
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
        optional = (self.candidates, self.galleries, self.unjudged, self.excluded)
        tables = [self.judgements, *(table for table in optional if table is not None)]
        parts = [self.queries.fingerprint, self.documents.fingerprint]
        parts += [hash_columns([table[name] for name in table.column_names]) for table in tables]
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
        names = name.split("+")
        for split in names:
            if split not in self.splits:
                raise CollectionError(
                    f"{self.name}: unknown split {split!r}",
                    hint=nearest(split, filter(None, self.splits)),
                    code="unknown-split",
                )
        judgements, unjudged, galleries = (
            None if table is None else table.filter(pc.is_in(table["split"], pa.array(names)))
            for table in (self.judgements, self.unjudged, self.galleries)
        )
        named = [table.select(["query_id"]) for table in (judgements, unjudged) if table is not None]
        queries = _selected(self.queries, pa.concat_tables(named)["query_id"])
        documents = self.documents if galleries is None else _selected(self.documents, galleries["document_id"])
        candidates, excluded = self.candidates, self.excluded
        if candidates is not None:
            of_split = pc.is_in(candidates["split"], pa.array([*names, ""]))
            candidates = candidates.filter(pc.and_(of_split, pc.is_in(candidates["query_id"], queries.ids)))
        if excluded is not None:
            inside = pc.is_in(excluded["document_id"], documents.ids)
            excluded = excluded.filter(pc.and_(inside, pc.is_in(excluded["query_id"], queries.ids)))
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
        if name not in self.tasks:
            raise CollectionError(
                f"{self.name}: unknown task {name!r}", hint=nearest(name, self.tasks), code="unknown-task"
            )
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
            self._pools(),
            source=self.name,
            source_fingerprint=self.fingerprint,
            split=self.part,
            labels=self.labels,
            ties=self.ties,
            measures=self.measures,
            notes=self.notes,
            excluded=self._excluded(),
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
        for kind, name, names in (("task", task, self.tasks), ("relevance", relevance, self.relevances)):
            if name not in names:
                raise CollectionError(f"{self.name}: unknown {kind} {name!r}", hint=nearest(name, names))
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
            "pools": None if self.candidates is None else str(self._pools()),
            "labels": [] if self.labels is None else self.labels.column_names[1:],
            "fingerprint": self.fingerprint,
            "source": self.source,
        }

    def _excluded(self) -> Pools | None:
        if self.excluded is None or not self.excluded.num_rows:
            return None
        return Pools.of(self.excluded["query_id"], self.excluded["document_id"])

    def _pools(self) -> Pools | None:
        if self.candidates is None:
            return None
        pairs = self.candidates.group_by(["query_id", "document_id"]).aggregate([])
        return Pools.of(pairs["query_id"], pairs["document_id"])


def _unknown(ids: pa.ChunkedArray, items: Items) -> list[str]:
    distinct = pc.unique(strings(ids))
    return [str(identifier) for identifier in distinct.filter(pc.invert(pc.is_in(distinct, items.ids))).to_pylist()]


def _selected(items: Items, ids: pa.ChunkedArray) -> Items:
    """The items of these ids, in their own order."""
    return items.take(pc.is_in(items.ids, pc.unique(ids)).to_numpy(zero_copy_only=False).nonzero()[0])
