"""A folder with queries, documents and judgements: as BEIR and MTEB lay tasks out, or as the hub keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from visir.collections.cells import PictureCells
from visir.collections.draft import TaskDraft, TaskSetDraft
from visir.collections.readers.locate import relative
from visir.collections.readers.task_reader import (
    IMAGES,
    ITEM_IDS,
    PARTS,
    TEXTS,
    PartFile,
    TaskFiles,
    TaskPart,
    TaskReader,
    TaskTable,
    find_parts,
    looks_like_task,
    split_name,
)
from visir.collections.sources import Format, Option, one_of
from visir.collections.tables import OnFault, read_rows
from visir.errors import CollectionError, nearest, raise_faults


def read(
    path: Path,
    *,
    title: str = "join",
    unknown: str = "fault",
    task: str = "",
    subset: str | None = None,
    only: str | None = None,
    labels: str | None = None,
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
    options: dict[str, Any] = {"title": title, "unknown": unknown, "only": only, "labels": labels, "columns": columns}
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
        chosen = listed if only is None else _of_split(listed, only)
        tables[part] = [file_table(file, path, image_columns.get(part)) for file in chosen]
    drop = unknown == "drop" or only is not None
    return TaskReader(draft, columns, labels).read(tables, join_titles=title == "join", drop=drop)


def file_table(part: PartFile, root: Path, image: str | None = None) -> TaskTable:
    """A file as a table of a task."""
    cells = PictureCells.of(part.file, image)
    name = relative(part.file, root)

    def rows(report: OnFault) -> Iterator[tuple[str, dict[str, Any]]]:
        return read_rows(part.file, report, columns=cells.others if cells else None)

    def cell(row: int) -> tuple[str, str] | None:
        assert cells is not None
        member = cells.member(row)
        return None if member is None else (member, name)

    return TaskTable(name, rows, part.split, cell if cells else None)


def _of_split(files: list[PartFile], split: str) -> list[PartFile]:
    """The files of a split; all of them where a part is not divided into splits."""
    own = [file for file in files if split_name(file.split) == split_name(split)]
    return own or (files if len({file.split for file in files}) == 1 else [])


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
