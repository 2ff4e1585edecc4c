"""Tables of queries, documents, judgements and candidates become a task, wherever the tables are."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from visir.collections.archives import PictureCells
from visir.collections.cells import Counts, id_of
from visir.collections.draft import Side, TaskDraft, TaskSetDraft
from visir.collections.readers.locate import relative
from visir.collections.readers.names import SPLITS, plain_name, plain_stem
from visir.collections.sources import Format, Option, bad_rows_option, one_of
from visir.collections.tables import (
    IMAGE_COLUMNS,
    JSON_LINES,
    TABLES,
    BadRows,
    ColumnPicker,
    OnFault,
    RowFault,
    read_rows,
    sniffed_columns,
)
from visir.display import counted
from visir.errors import CollectionError, MissingPackageError, nearest, raise_faults
from visir.files import names_in
from visir.records.qrels import not_negative

TaskPart = Literal["queries", "documents", "judgements", "candidates"]
PARTS: dict[TaskPart, tuple[str, ...]] = {
    "queries": ("queries", "query"),
    "documents": ("corpus", "documents"),
    "judgements": ("qrels", "relevant_docs"),
    "candidates": ("pools", "top_ranked"),
}
"""The names of the parts of a task: of files, of folders, of configurations on the hub, of keys in Python."""
QUERY_IDS = ("query-id", "query_id", "qid")
DOCUMENT_IDS = ("corpus-id", "corpus_id", "doc-id", "doc_id", "docid", "docno", "document-id", "document_id", "pid")
LISTED_IDS = ("corpus-ids", "corpus_ids", "document-ids", "document_ids")
ITEM_IDS: dict[Side, tuple[str, ...]] = {
    "queries": ("_id", "id", *QUERY_IDS),
    "documents": ("_id", "id", *DOCUMENT_IDS),
}
"""The first of these that a table has: pages of ViDoRe have a `corpus-id`, and the `doc-id` of their document."""
TEXTS = ("text", "query", "caption", "contents", "content", "passage", "sentence")
IMAGES = ("image", *(name for name in IMAGE_COLUMNS if name != "image"))
GRADES = ("score", "grade", "relevance", "label", "rel")
SPLIT_COLUMNS = ("split",)
LABELS = ("language", "lang", "category", "domain", "type", "query_type", "query_types", "source_type")
"""Columns of queries by which results are looked at, where nobody names others."""

MOST_CHOICES = 10
"""Where no query has more candidates than this, a task is one of choices."""


@dataclass(frozen=True)
class TaskTable:
    """One table of a task: a file, or something in memory."""

    name: str  # what errors call it: "qrels/test.tsv"
    # The rows, each with its place ("line 7"); what cannot be read goes to the callback.
    rows: Callable[[OnFault], Iterator[tuple[str, dict[str, Any]]]]
    split: str = ""  # the split that its name says; "" where it says none
    # Where the picture of a row is known to be, as (path, archive), by the number of the row from 0; None where
    # pictures are named in a column, or where there are none.
    cell: Callable[[int], tuple[str, str | None] | None] | None = None
    names_too: bool = False  # whether a row without such a place may name its picture in a column


@dataclass
class TaskReader:
    """Reads the parts of a task into a draft."""

    draft: TaskDraft  # what is filled
    # The columns that somebody named: "query_text_column" and so on.
    columns: Mapping[str, str | None] = field(default_factory=dict)
    labels: str | None = None  # the columns of queries that are labels, joined by commas; None for those of `LABELS`
    bad_rows: str = ""  # what becomes of rows that cannot be read, where somebody is asked: "refuse" or "skip"
    left_out: Counts = field(default_factory=Counts)  # rows that were left out
    dropped: dict[str, int] = field(default_factory=dict)
    empty_texts: int = 0
    _rows_of: dict[Side, dict[str, int]] = field(default_factory=dict)

    def read(self, tables: Mapping[TaskPart, list[TaskTable]], *, join_titles: bool, drop: bool) -> TaskDraft:
        """Read a whole task."""
        self.read_items("queries", tables["queries"], join_titles=False)
        self.read_items("documents", tables["documents"], join_titles=join_titles)
        self.read_judgements(tables["judgements"], drop=drop)
        self.read_candidates(tables["candidates"], drop=drop)
        return self.finish()

    def read_items(self, side: Side, tables: list[TaskTable], *, join_titles: bool) -> None:
        """The queries, or the documents."""
        role = "query" if side == "queries" else "document"
        items = self.draft.queries if side == "queries" else self.draft.documents
        divided = len({table.split for table in tables}) > 1
        for table in tables:
            named = {kind: self.columns.get(f"{role}_{kind}_column") for kind in ("id", "text", "image")}
            images = () if table.cell and not table.names_too else IMAGES
            named |= {} if images else {"image": None}
            pick = ColumnPicker(table.name, named, prefix=f"{role} ", first=("id",), id=ITEM_IDS[side], text=TEXTS,
                            image=images, title=("title",))  # fmt: skip
            for number, (place, row) in enumerate(self._rows(table)):
                values = pick(row)
                item = self._id(values["id"], place, f"{role} id")
                if item is None:
                    continue
                text, image, name = values["text"], values["image"], values["title"]
                faulty = next((kind for kind, value in (("text", text), ("image", image), ("title", name))
                              if value is not None and not isinstance(value, str)), None)  # fmt: skip
                if faulty is not None:
                    self.draft.fault(
                        f"{place}: the {faulty} of {role} {item!r} is no text: {str(values[faulty])[:40]!r}"
                    )
                    continue
                cell = table.cell(number) if table.cell else None
                if join_titles and name:
                    text = f"{name} {text or ''}".strip()
                if (image or cell) and not (text or "").strip():
                    text = None  # an empty text beside a picture says nothing
                if text is None and not image and cell is None:
                    self.draft.fault(f"{place}: {role} {item!r} has neither a text nor an image")
                    continue
                if divided and side == "documents":
                    self.draft.galleries[split_name(table.split), item] = None
                if item in items.known:
                    self._repeated(side, item, text, place, divided and not image and cell is None)
                    continue
                self.empty_texts += text == ""
                self.draft.add_item(side, item, text, picture=image or None, cell=cell)
                if side == "queries":
                    self._label(item, row)
            for fault in pick.never_seen():
                self.draft.fault(fault)
        if side == "queries" and self.labels is not None:
            self._check_labels(tables)
        if not items.ids and not self.draft.faults:
            self.draft.fault(f"{', '.join(table.name for table in tables)}: no {side} in it")

    def read_judgements(self, tables: list[TaskTable], *, drop: bool) -> None:
        """Which documents are right for a query. A judgement may stand twice, with the same grade."""
        repeated = 0
        for table in tables:
            pick = ColumnPicker(table.name, {}, first=("query", "document"), query=QUERY_IDS, document=DOCUMENT_IDS,
                            grade=GRADES, split=SPLIT_COLUMNS)  # fmt: skip
            for place, row in self._rows(table):
                values = pick(row)
                pair = self._pair(values["query"], values["document"], place, "judgements", drop=drop)
                grade = _grade(values["grade"])
                if grade is None:
                    self.draft.fault(f"{place}: a grade must be a finite number, found {values['grade']!r}")
                elif pair is not None:
                    key = (_split(values["split"], table), *pair)
                    before = self.draft.judgements.get(key)
                    repeated += before is not None
                    if before not in (None, grade):
                        self.draft.fault(
                            f"{place}: query {pair[0]!r} and document {pair[1]!r} are judged twice, "
                            f"with the grades {before:g} and {grade:g}"
                        )
                    self.draft.judgements[key] = grade
        if repeated:
            self.draft.notes.append(f"{repeated:,} judgements stand twice")

    def read_candidates(self, tables: list[TaskTable], *, drop: bool) -> None:
        """The documents among which a query searches."""
        for table in tables:
            pick = ColumnPicker(table.name, {}, first=("query", "document"), query=QUERY_IDS, document=DOCUMENT_IDS,
                            listed=LISTED_IDS, split=SPLIT_COLUMNS)  # fmt: skip
            for place, row in self._rows(table):
                values = pick(row)
                listed = values["listed"] if isinstance(values["listed"], list) else [values["document"]]
                for document in listed:
                    pair = self._pair(values["query"], document, place, "candidates", drop=drop)
                    if pair is None:
                        continue
                    key = (_split(values["split"], table), *pair)
                    if key in self.draft.candidates:
                        self.draft.fault(f"{place}: document {pair[1]!r} is a candidate of query {pair[0]!r} twice")
                    self.draft.candidates[key] = None
        if tables:
            self._check_pools()

    def finish(self) -> TaskDraft:
        """The draft, with notes of what was dropped."""
        draft = self.draft
        draft.notes += [f"{count:,} {kind} of unknown ids left out" for kind, count in self.dropped.items()]
        draft.notes += self.left_out.lines("{what} (left out): {count:,} ({shown})", ", ")
        if self.empty_texts:
            draft.notes.append(f"{self.empty_texts:,} empty texts")
        return draft

    def _label(self, query: str, row: Mapping[str, Any]) -> None:
        """What a row says of a query beside its text and picture."""
        wanted = LABELS if self.labels is None else [name.strip().lower() for name in self.labels.split(",")]
        for column, value in row.items():
            if column.lower() in wanted:
                entries = value if isinstance(value, list) else [value]
                text = " + ".join(str(entry) for entry in entries if entry not in (None, ""))
                if text:
                    self.draft.labels.setdefault(column.lower(), {})[query] = text

    def _check_labels(self, tables: list[TaskTable]) -> None:
        names = [name.strip() for name in (self.labels or "").split(",")]
        for name in names:
            if name.lower() not in self.draft.labels:
                self.draft.fault(f"{', '.join(table.name for table in tables)}: no column {name!r} of labels")

    def _repeated(self, side: Side, item: str, text: str | None, place: str, shared: bool) -> None:
        """An id that was there before: the same text in another split, or a fault."""
        items = self.draft.queries if side == "queries" else self.draft.documents
        role = "query" if side == "queries" else "document"
        if shared:
            known = self._rows_of.setdefault(side, {})
            for row in range(len(known), len(items.ids)):
                known[items.ids[row]] = row
            if items.texts[known[item]] == text:
                return
            other = "another text in another split: read one split alone (split=)"
            self.draft.fault(f"{place}: {role} {item!r} has {other}")
        else:
            self.draft.fault(f"{place}: {role} {item!r} stands twice")

    def _rows(self, table: TaskTable) -> Iterator[tuple[str, dict[str, Any]]]:
        def report(fault: RowFault, place: str, detail: str) -> None:
            self.draft.fault(f"{table.name}, {place}: {fault.message.format(detail)}")

        bad = BadRows(table.name, self.draft.fault, self.bad_rows, self.left_out)
        for place, row in table.rows(bad.row if self.bad_rows else report):
            yield f"{table.name}, {place}", row

    def _id(self, value: object, place: str, kind: str) -> str | None:
        if value in (None, ""):
            self.draft.fault(f"{place}: no {kind}")
            return None
        try:
            return id_of(value)
        except TypeError as fault:
            self.draft.fault(f"{place}: {kind}: {fault}")
            return None

    def _pair(self, query: object, document: object, place: str, kind: str, *, drop: bool) -> tuple[str, str] | None:
        ids = [self._id(query, place, "query id"), self._id(document, place, "document id")]
        if ids[0] is None or ids[1] is None:
            return None
        unknown = [
            f"unknown {role} {item!r}"
            for role, item, items in (("query", ids[0], self.draft.queries), ("document", ids[1], self.draft.documents))
            if item not in items.known
        ]
        if unknown and drop:
            self.dropped[kind] = self.dropped.get(kind, 0) + 1
        elif unknown:
            self.draft.fault(f"{place}: {', '.join(unknown)}")
        return None if unknown else (ids[0], ids[1])

    def _check_pools(self) -> None:
        """Every judged query needs candidates; a positive that is no candidate cannot be found, which the notes say."""
        # Queries with a few candidates each are choices: a model that cannot tell the candidates apart must not win
        # because the right one has the smaller id.
        pools: dict[tuple[str, str], set[str]] = {}
        for split, query, document in self.draft.candidates:
            pools.setdefault((split, query), set()).add(document)
        unreachable = 0
        without_pool: dict[tuple[str, str], None] = {}
        for (split, query, document), grade in self.draft.judgements.items():
            pool = pools.get((split, query), set()) | pools.get(("", query), set())
            if not pool:
                without_pool[split, query] = None
            elif grade > 0 and document not in pool:
                unreachable += 1
        for split, query in without_pool:
            self.draft.fault(f"query {query!r}{f' of {split}' if split else ''} is judged, and has no candidates")
        if pools and max(map(len, pools.values())) <= MOST_CHOICES:
            self.draft.ties, self.draft.measures = "pessimistic", ("all_first",)
        if unreachable:
            self.draft.notes.append(f"{counted(unreachable, 'positives', 'are')} outside the candidates of the query")


def split_name(name: str) -> str:
    """The name of a split here: "val" of "dev" and of "validation"."""
    return SPLITS.get(name.lower(), name)


def _split(value: object, table: TaskTable) -> str:
    return split_name(table.split if value in (None, "") else str(value))


def _grade(value: object) -> float | None:
    """A grade as a number, 1 where there is none, 0 for a negative one; None for what is no finite number."""
    if value in (None, ""):
        return 1.0
    try:
        grade = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return not_negative(grade) if math.isfinite(grade) else None


# Which files of a folder are the queries, documents, judgements and candidates of a task, or of several.

REQUIRED: tuple[TaskPart, ...] = ("documents", "queries", "judgements")
UNNAMED = ("default", "data")
"""Where the hub keeps the judgements of a data set whose default configuration they are."""
_SUFFIXES = tuple(dict.fromkeys((*TABLES, *JSON_LINES)))
_SHARD = re.compile(r"-\d{5}-of-\d{5}(?:-[0-9a-f]+)?$")
_OF_NAME = {name: part for part, names in PARTS.items() for name in names}
_CARD = re.compile(r"\A﻿?---\s*\n(.*?)\n---\s*$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class PartFile:
    """One file of a task, and the split that its place says; "" where it says none."""

    file: Path
    split: str = ""


@dataclass
class TaskFiles:
    """The files of one task."""

    parts: dict[TaskPart, list[PartFile]] = field(default_factory=dict)  # by part; an absent part has none
    named: dict[TaskPart, str] = field(default_factory=dict)  # by part: what it is called in the folder, for errors

    @property
    def missing(self) -> list[TaskPart]:
        """The parts that every task needs and this one lacks."""
        return [part for part in REQUIRED if not self.parts.get(part)]


def find_parts(folder: Path) -> dict[str, TaskFiles]:
    """The tasks of a folder by name; that of a folder with one task is ""."""
    # Looked for are, in this order: files and folders named for the parts (`corpus.jsonl`, `qrels/`), with the name of
    # a task before them where there are several (`en-corpus/`); the configurations that the card of a data set lists
    # (`README.md`); and folders that hold a task each.
    if not folder.is_dir():
        return {}
    by_name = _named_parts(folder)
    if not _complete(by_name):
        listed = _listed_parts(folder)
        if _complete(listed):
            return listed
    if not by_name:
        inside = {entry.name: _named_parts(entry).get("", TaskFiles()) for entry in sorted(folder.iterdir())
                  if entry.is_dir() and not entry.name.startswith(".")}  # fmt: skip
        by_name = {name: files for name, files in inside.items() if not files.missing}
    return by_name


def part_of(name: str) -> tuple[str, TaskPart] | None:
    """The task and the part that a name says: "en-corpus" is ("en", "documents"); None where it says no part."""
    if name in _OF_NAME:
        return "", _OF_NAME[name]
    task, _, last = name.rpartition("-")
    return (task, _OF_NAME[last]) if task and last in _OF_NAME else None


def is_part(file: Path) -> bool:
    """Whether a file is a table."""
    return plain_name(file).lower().endswith(_SUFFIXES) and not file.name.startswith(".") and file.is_file()


def looks_like_task(folder: Path) -> bool:
    """Whether a folder has the names of a task. It reads no table."""
    if not folder.is_dir():
        return False
    tasks: dict[str, set[TaskPart]] = {}
    folders = set(names_in(folder)[0])
    for entry in folder.iterdir():
        named = part_of(_stem(entry)) if entry.name in folders or is_part(entry) else None
        if named is not None:
            tasks.setdefault(named[0], set()).add(named[1])
    # Judgements beside one of the sides: a task, or one that lacks a part, which is then named.
    if any("judgements" in parts and len(parts & set(REQUIRED)) > 1 for parts in tasks.values()):
        return True
    if any({"documents", "queries"} <= parts for parts in tasks.values()):
        return any((folder / name).is_dir() for name in UNNAMED)
    return "config_name: corpus" in _card(folder) or any(
        (entry / f"queries{suffix}").exists() and looks_like_task(entry)
        for entry in (folder / name for name in sorted(folders))
        for suffix in ("", ".jsonl", ".parquet")
    )


def _complete(tasks: Mapping[str, TaskFiles]) -> bool:
    return any(not files.missing for files in tasks.values())


def _named_parts(folder: Path) -> dict[str, TaskFiles]:
    """Files and folders by their names."""
    tasks: dict[str, TaskFiles] = {}
    for entry in sorted(folder.iterdir()):
        named = part_of(_stem(entry)) if entry.is_dir() or is_part(entry) else None
        if named is None:
            continue
        files = tasks.setdefault(named[0], TaskFiles())
        if named[1] in files.parts:
            raise CollectionError(
                f"{folder}: {files.named[named[1]]} and {entry.name}: which of them?",
                hint="leave one of them",
                code="two-of-a-kind",
            )
        files.parts[named[1]] = list(_files(entry, named[1]))
        files.named[named[1]] = entry.name
    only = tasks.get("")
    if only is not None and only.missing == ["judgements"]:
        for name in UNNAMED:
            tables = list(_files(folder / name, "judgements")) if (folder / name).is_dir() else []
            if tables and _has_judgements(tables[0].file):
                only.parts["judgements"], only.named["judgements"] = tables, name
                break
    return tasks


def _files(entry: Path, part: TaskPart) -> Iterator[PartFile]:
    if entry.is_file():
        yield PartFile(entry)
        return
    for file in sorted(entry.iterdir()):
        if is_part(file):
            stem = _SHARD.sub("", plain_stem(file))
            yield PartFile(file, "" if stem in (entry.name, *PARTS[part], "data", "part") else stem)


def _has_judgements(file: Path) -> bool:
    columns = {column.lower() for column in sniffed_columns(file)}
    return bool(columns & set(QUERY_IDS)) and bool(columns & set(DOCUMENT_IDS))


def _listed_parts(folder: Path) -> dict[str, TaskFiles]:
    """The configurations of a data set of the hub, as its card lists them."""
    text = _card(folder)
    if "config_name" not in text:
        return {}
    try:
        import yaml
    except ImportError as fault:
        raise MissingPackageError("yaml", extra="datasets", purpose=f"reading {folder / 'README.md'}") from fault
    try:
        card = yaml.safe_load(text)
    except yaml.YAMLError:
        return {}
    configurations = card.get("configs") if isinstance(card, dict) else None
    tasks: dict[str, TaskFiles] = {}
    named = [entry for entry in configurations or [] if isinstance(entry, dict)]
    for entry in sorted(named, key=lambda entry: str(entry.get("config_name")) in UNNAMED):
        name = str(entry.get("config_name"))
        files = [
            PartFile(file, split)
            for split, pattern in _patterns(entry.get("data_files"))
            for file in ([folder / pattern] if (folder / pattern).is_file() else sorted(folder.glob(pattern)))
            if is_part(file)
        ]
        task, part = part_of(name) or ("", "judgements")
        if not files or (name not in UNNAMED and part_of(name) is None):
            continue
        if name in UNNAMED and (part in tasks.get(task, TaskFiles()).parts or not _has_judgements(files[0].file)):
            continue
        parts = tasks.setdefault(task, TaskFiles())
        parts.parts[part], parts.named[part] = files, name
    return tasks


def _patterns(data_files: Any) -> Iterable[tuple[str, str]]:
    """(split, pattern) of what a card says of a configuration: a pattern, several, or some for each split."""
    for entry in data_files if isinstance(data_files, list) else [data_files]:
        split, path = (entry.get("split"), entry.get("path")) if isinstance(entry, dict) else ("", entry)
        for pattern in path if isinstance(path, list) else [path]:
            if isinstance(pattern, str) and pattern and not pattern.startswith("/") and ".." not in pattern:
                yield str(split or ""), pattern


def _card(folder: Path) -> str:
    """What stands before the text of a data set's README."""
    readme = folder / "README.md"
    if not readme.is_file():
        return ""
    match = _CARD.match(readme.read_text(encoding="utf-8", errors="replace")[:1_000_000])
    return match[1] if match else ""


def _stem(entry: Path) -> str:
    return entry.name if entry.is_dir() else plain_stem(entry)


# A folder with queries, documents and judgements: as BEIR and MTEB lay tasks out, or as the hub keeps them.


def read(
    path: Path,
    *,
    title: str = "join",
    unknown: str = "fault",
    task: str = "",
    subset: str | None = None,
    only: str | None = None,
    labels: str | None = None,
    bad_rows: str = "refuse",
    **columns: str | None,
) -> TaskDraft | TaskSetDraft:
    """Read a folder with `corpus`, `queries` and `qrels`, and with `pools` where queries have candidates of their
    own."""
    # Each is a file (JSON lines, CSV, TSV or Parquet; plain, `.gz` or `.xz`) or a folder of such files. The files of a
    # folder are named for their splits: `qrels/test.tsv`. A copy of a data set of the hub has its parts as
    # configurations (`README.md` lists them); several tasks stand side by side as `en-corpus`, `de-corpus`, or each in
    # a folder.
    # - `corpus` and `queries`: an id (`_id`), a text (`text`), an image (`image`: a file name, or the picture itself in
    #   a cell of a Parquet file), or both. A document's `title` is put before its text, as BEIR does.
    # - `qrels`: `query-id`, `corpus-id`, `score`. Without a score every pair is a positive of grade 1.
    # - `pools`: `query-id` and `corpus-id`, or a list `corpus-ids`.
    tasks = find_parts(path)
    if subset is not None and subset not in tasks:
        raise CollectionError(
            f"{path}: no task {subset!r}.", hint=nearest(subset, filter(None, tasks)), code="collection-no-task"
        )
    options: dict[str, Any] = {"title": title, "unknown": unknown, "only": only, "labels": labels, "bad_rows": bad_rows,
                               "columns": columns}  # fmt: skip
    name, source = path.absolute().name, f"task {path.absolute().name}/"
    if subset is not None or set(tasks) <= {""}:
        return _fill(TaskDraft(name, path, source, task=task), path, tasks.get(subset or "", TaskFiles()), **options)
    if task:
        raise CollectionError(f"{path}: several tasks, which have names; task= does not apply.")
    drafts = TaskSetDraft(name, path, source)
    for part, files in tasks.items():
        _fill(drafts.add_task(part or "default"), path, files, **options)
    return drafts


def _fill(
    draft: TaskDraft,
    path: Path,
    files: TaskFiles,
    *,
    title: str,
    unknown: str,
    only: str | None,
    labels: str | None,
    bad_rows: str,
    columns: dict[str, str | None],
) -> TaskDraft:
    missing = [f"no {PARTS[part][0]} (.jsonl, .csv, .tsv or .parquet, or a folder of them)" for part in files.missing]
    raise_faults(CollectionError, str(path), missing, hint=f"layout: {FORMAT.layout}")
    if only is not None and split_name(only) not in {split_name(file.split) for file in files.parts["judgements"]}:
        only = None  # judgements in one file have a column of splits
    image_columns = {"queries": columns.get("query_image_column"), "documents": columns.get("document_image_column")}
    tables: dict[TaskPart, list[TaskTable]] = {}
    for part in PARTS:
        listed = files.parts.get(part, [])
        chosen = [file for file in listed if only is not None and split_name(file.split) == split_name(only)]
        if only is None or (not chosen and len({file.split for file in listed}) == 1):  # not divided into splits
            chosen = listed
        tables[part] = [file_table(file, path, image_columns.get(part)) for file in chosen]
    drop = unknown == "drop" or only is not None
    return TaskReader(draft, columns, labels, bad_rows).read(tables, join_titles=title == "join", drop=drop)


def file_table(part: PartFile, root: Path, image: str | None = None) -> TaskTable:
    """A file as a table of a task."""
    name = relative(part.file, root)
    cells, others = PictureCells.of(part.file, image, name) or (None, None)
    return TaskTable(name, lambda report: read_rows(part.file, report, columns=others), part.split, cells)


FORMAT = Format(
    name="beir",
    title="task: queries, documents and judgements (BEIR, MTEB)",
    layout="corpus.jsonl, queries.jsonl and qrels/test.tsv, or each as .jsonl, .csv, .tsv or .parquet, or as a folder "
    "of them; pools (or top_ranked) if at hand; several tasks as en-corpus, de-corpus, …",
    reference="Thakur et al., BEIR (NeurIPS 2021); Enevoldsen et al., MMTEB (ICLR 2025)",
    sniff=looks_like_task,
    read=read,
    options=(
        Option("task", "how results name the task (default: by its modalities, such as t2i)", ""),
        Option("title", "titles of documents: join (before the text) or drop", "join", one_of("join", "drop")),
        Option("unknown", "judgements of unknown ids: fault or drop", "fault", one_of("fault", "drop")),
        Option("subset", "one of several tasks in the folder (default: all)"),
        Option("labels", "columns of queries by which results are looked at, comma-separated (default: language, …)"),
        bad_rows_option("refuse"),
        Option("only", "read this split alone (default: what split= says, if anything)"),
        *(
            Option(
                f"{role}_{kind}_column", f"the column of the {kind} of a {role} (default: {', '.join(usual[:3])}, …)"
            )
            for role, ids in (("query", ITEM_IDS["queries"]), ("document", ITEM_IDS["documents"]))
            for kind, usual in (("id", ids), ("text", TEXTS), ("image", IMAGES))
        ),
    ),
)
