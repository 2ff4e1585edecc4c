"""A folder with queries, documents and judgements, as BEIR and MTEB lay tasks out."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from visir.collections.cells import PictureCells
from visir.collections.descriptor import Format, Option, one_of
from visir.collections.readers.columns import IMAGE_COLUMNS, ColumnPicker
from visir.collections.readers.locate import relative
from visir.collections.readers.names import SPLITS, identifier
from visir.collections.readers.rows import JSON_LINES, TABLES, RowFault, read_rows
from visir.collections.readers.sniffing import plain_name, plain_stem
from visir.collections.task_draft import Side, TaskDraft
from visir.errors import CollectionError, raise_faults

PARTS = {
    "queries": ("queries", "query"),
    "documents": ("corpus", "documents"),
    "judgements": ("qrels",),
    "candidates": ("pools", "top_ranked"),
}
"""The files or folders of a task, without their suffixes."""
QUERY_IDS = ("query-id", "query_id", "qid")
DOCUMENT_IDS = ("corpus-id", "corpus_id", "doc-id", "doc_id", "docid", "document-id", "document_id", "pid")
LISTED_IDS = ("corpus-ids", "corpus_ids", "document-ids", "document_ids")
ITEM_IDS = {"queries": ("_id", "id", *QUERY_IDS), "documents": ("_id", "id", *DOCUMENT_IDS)}
TEXTS = ("text", "query", "caption", "contents", "content", "passage", "sentence")
IMAGES = ("image", *(name for name in IMAGE_COLUMNS if name != "image"))
GRADES = ("score", "grade", "relevance", "label", "rel")
SPLIT_COLUMNS = ("split",)
_SHARD = re.compile(r"-\d{5}-of-\d{5}(?:-[0-9a-f]+)?$")
_SUFFIXES = tuple(dict.fromkeys((*TABLES, *JSON_LINES)))
_COMPRESSIONS = ("", ".gz", ".xz")


def read(
    path: Path, *, title: str = "join", unknown: str = "fault", task: str = "", **columns: str | None
) -> TaskDraft:
    """Read a folder with `corpus`, `queries` and `qrels`, and with `pools` where queries have candidates of their own.

    Each is a file (JSON lines, CSV, TSV or Parquet; plain, `.gz` or `.xz`) or a folder of such files. The files of
    `qrels/` and `pools/` are named for their splits: `qrels/test.tsv`.

    - `corpus` and `queries`: an id (`_id`), a text (`text`), an image (`image`: a file name, or the picture itself in a
      cell of a Parquet file), or both. A document's `title` is put before its text, as BEIR does.
    - `qrels`: `query-id`, `corpus-id`, `score`. Without a score every pair is a positive of grade 1.
    - `pools`: `query-id` and `corpus-id`, or a list `corpus-ids`.

    Args:
        path: The folder.
        title: What becomes of titles: "join" puts them before the text, "drop" leaves them out.
        unknown: What becomes of judgements and candidates of unknown ids: "fault", or "drop", which the notes count.
        task: How results name the task; by default the usual name of its modalities ("t2i").
        **columns: The columns where they have no usual name: `query_text_column` and so on, see `FORMAT`.
    """
    reader = _Reader(path, TaskDraft(path.absolute().name, path, f"task {path.absolute().name}/", task=task), columns)
    files = {part: _files(path, names) for part, names in PARTS.items()}
    missing = [f"no {PARTS[part][0]} (.jsonl, .csv, .tsv or .parquet, or a folder of them)"
               for part in ("documents", "queries", "judgements") if not files[part]]  # fmt: skip
    raise_faults(CollectionError, str(path), missing, hint=f"layout: {FORMAT.layout}")
    reader.read_items("queries", files["queries"], join_titles=False)
    reader.read_items("documents", files["documents"], join_titles=title == "join")
    reader.read_judgements(files["judgements"], drop=unknown == "drop")
    reader.read_candidates(files["candidates"], drop=unknown == "drop")
    return reader.finish()


@dataclass
class _Reader:
    """Reads the parts of a task into a draft."""

    path: Path
    draft: TaskDraft
    columns: dict[str, str | None]
    dropped: dict[str, int] = field(default_factory=dict)
    empty_texts: int = 0

    def read_items(self, side: Side, files: list[Path], *, join_titles: bool) -> None:
        """The queries, or the documents."""
        role = "query" if side == "queries" else "document"
        items = self.draft.queries if side == "queries" else self.draft.documents
        for file in files:
            cells = PictureCells.of(file, self.columns.get(f"{role}_image_column"))
            named = {kind: self.columns.get(f"{role}_{kind}_column") for kind in ("id", "text", "image")}
            pick = ColumnPicker(file, f"{role} ", id=(named["id"], ITEM_IDS[side]), text=(named["text"], TEXTS),
                            image=(None, ()) if cells else (named["image"], IMAGES),
                            title=(None, ("title",)))  # fmt: skip
            for number, (place, row) in enumerate(self._rows(file, cells)):
                values = pick(row)
                item = self._id(values["id"], place, f"{role} id")
                if item is None:
                    continue
                if item in items.known:
                    self.draft.fault(f"{place}: {role} {item!r} stands twice")
                    continue
                text, image, name = values["text"], values["image"], values["title"]
                faulty = next((kind for kind, value in (("text", text), ("image", image), ("title", name))
                              if value is not None and not isinstance(value, str)), None)  # fmt: skip
                if faulty is not None:
                    self.draft.fault(
                        f"{place}: the {faulty} of {role} {item!r} is no text: {str(values[faulty])[:40]!r}"
                    )
                    continue
                member = cells.member(number) if cells else None
                cell = None if member is None else (member, relative(file, self.path))
                if join_titles and name:
                    text = f"{name} {text or ''}".strip()
                if (image or cell) and not text:
                    text = None
                if text is None and not image and cell is None:
                    self.draft.fault(f"{place}: {role} {item!r} has neither a text nor an image")
                    continue
                self.empty_texts += text == ""
                self.draft.add_item(side, item, text, picture=image or None, cell=cell)
            for fault in pick.never_seen():
                self.draft.fault(fault)
        if not items.ids and not self.draft.faults:
            self.draft.fault(f"{', '.join(relative(file, self.path) for file in files)}: no {side} in it")

    def read_judgements(self, files: list[Path], *, drop: bool) -> None:
        """Which documents are right for a query."""
        for file in files:
            pick = ColumnPicker(file, query=(None, QUERY_IDS), document=(None, DOCUMENT_IDS), grade=(None, GRADES),
                            split=(None, SPLIT_COLUMNS))  # fmt: skip
            for place, row in self._rows(file):
                values = pick(row)
                pair = self._pair(values["query"], values["document"], place, "judgements", drop=drop)
                grade = _grade(values["grade"])
                if grade is None:
                    self.draft.fault(f"{place}: a grade must be a number of at least 0, found {values['grade']!r}")
                elif pair is not None:
                    key = (self._split(values["split"], file), *pair)
                    if key in self.draft.judgements:
                        self.draft.fault(f"{place}: query {pair[0]!r} and document {pair[1]!r} are judged twice")
                    self.draft.judgements[key] = grade

    def read_candidates(self, files: list[Path], *, drop: bool) -> None:
        """The documents among which a query searches."""
        for file in files:
            pick = ColumnPicker(file, query=(None, QUERY_IDS), document=(None, DOCUMENT_IDS), listed=(None, LISTED_IDS),
                            split=(None, SPLIT_COLUMNS))  # fmt: skip
            for place, row in self._rows(file):
                values = pick(row)
                listed = values["listed"] if isinstance(values["listed"], list) else [values["document"]]
                for document in listed:
                    pair = self._pair(values["query"], document, place, "candidates", drop=drop)
                    if pair is None:
                        continue
                    key = (self._split(values["split"], file), *pair)
                    if key in self.draft.candidates:
                        self.draft.fault(f"{place}: document {pair[1]!r} is a candidate of query {pair[0]!r} twice")
                    self.draft.candidates[key] = None
        if files:
            self._check_pools()

    def finish(self) -> TaskDraft:
        """The draft, with notes of what was dropped."""
        draft = self.draft
        draft.notes += [f"{count:,} {kind} of unknown ids left out" for kind, count in self.dropped.items()]
        if self.empty_texts:
            draft.notes.append(f"{self.empty_texts:,} empty texts")
        if all(name is None for name in draft.names):
            draft.names = []  # all pictures are in cells: none has to be looked for
        return draft

    def _rows(self, file: Path, cells: PictureCells | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        name = relative(file, self.path)

        def report(fault: RowFault, place: str, detail: str) -> None:
            self.draft.fault(f"{name}, {place}: {fault.message.format(detail)}")

        for place, row in read_rows(file, report, columns=cells.others if cells else None):
            yield f"{name}, {place}", row

    def _id(self, value: object, place: str, kind: str) -> str | None:
        if value in (None, ""):
            self.draft.fault(f"{place}: no {kind}")
            return None
        try:
            return identifier(value)
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

    def _split(self, value: object, file: Path) -> str:
        if value not in (None, ""):
            name = str(value)
        elif file.parent.name in (*PARTS["judgements"], *PARTS["candidates"]) and file.parent != self.path:
            name = _SHARD.sub("", plain_stem(file))
        else:
            return ""
        return SPLITS.get(name.lower(), name)

    def _check_pools(self) -> None:
        """Every judged query needs candidates; a positive that is no candidate cannot be found, which the notes say."""
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
        if unreachable:
            self.draft.notes.append(f"{unreachable:,} positives are no candidates of their query")


def _grade(value: object) -> float | None:
    """A grade as a number, 1 where there is none; None for what is no number of at least 0."""
    if value in (None, ""):
        return 1.0
    try:
        grade = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return grade if math.isfinite(grade) and grade >= 0 else None


def _files(folder: Path, names: tuple[str, ...]) -> list[Path]:
    """The files of one part of a task: the only file of one of these names, or all files of a folder."""
    if not folder.is_dir():
        return []
    entries = [
        entry
        for entry in sorted(folder.iterdir())
        if (entry.is_dir() and entry.name in names) or (_is_part(entry) and plain_stem(entry) in names)
    ]
    if len(entries) > 1:
        listing = " and ".join(entry.name for entry in entries)
        raise CollectionError(f"{folder}: {listing}: which of them?", hint="leave one of them")
    if entries and entries[0].is_dir():
        return [file for file in sorted(entries[0].iterdir()) if _is_part(file)]
    return entries


def _is_part(file: Path) -> bool:
    return file.is_file() and plain_name(file).lower().endswith(_SUFFIXES)


def _sniff(path: Path) -> bool:
    if not path.is_dir():
        return False
    entries = {entry.name if entry.is_dir() else plain_stem(entry) for entry in path.iterdir()
               if entry.is_dir() or plain_name(entry).lower().endswith(_SUFFIXES)}  # fmt: skip
    return all(any(name in entries for name in PARTS[part]) for part in ("documents", "queries", "judgements"))


FORMAT = Format(
    name="task",
    title="task: queries, documents and judgements (BEIR, MTEB)",
    layout="corpus.jsonl, queries.jsonl and qrels/test.tsv, or each as .jsonl, .csv, .tsv or .parquet, or as a folder "
    "of them; pools (or top_ranked) if at hand",
    reference="Thakur et al., BEIR (NeurIPS 2021); Enevoldsen et al., MMTEB (ICLR 2025)",
    sniff=_sniff,
    read=read,
    options=(
        Option("task", "how results name the task (default: by its modalities, such as t2i)", ""),
        Option("title", "titles of documents: join (before the text) or drop", "join", one_of("join", "drop")),
        Option("unknown", "judgements of unknown ids: fault or drop", "fault", one_of("fault", "drop")),
        *(
            Option(
                f"{role}_{kind}_column", f"the column of the {kind} of a {role} (default: {', '.join(usual[:3])}, …)"
            )
            for role, side in (("query", "queries"), ("document", "documents"))
            for kind, usual in (("id", ITEM_IDS[side]), ("text", TEXTS), ("image", IMAGES))
        ),
    ),
)
