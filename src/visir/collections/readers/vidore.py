"""ViDoRe: questions and the pages of documents that answer them, as pictures in Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from visir.collections.cells import PictureCells, pictures_in_cells
from visir.collections.readers import task_folder
from visir.collections.readers.columns import sniffed_columns
from visir.collections.readers.locate import relative
from visir.collections.readers.names import identifier
from visir.collections.readers.rows import read_rows
from visir.collections.sources import Format
from visir.collections.task_draft import TaskDraft

QUERY_IDS, PAGE_IDS = ("query-id", "query_id"), ("corpus-id", "corpus_id")
FLAT = frozenset({"query", "image", "image_filename"})
"""The columns that every file of the first ViDoRe has."""


def read(path: Path) -> TaskDraft:
    """Read a data set of ViDoRe as it lies on the hub: text queries, and pages as pictures."""
    # - With `corpus/`, `queries/` and `qrels/` (the second and third ViDoRe, and the first in BEIR's form): ids and
    #   judgements are those of the files. The language of a query is its label "language".
    # - One table with `query`, `image` and `image_filename` (the first ViDoRe), which has a row for each question and
    #   its page: a page is a document once, under its file name; questions with the same text are one query with all
    #   their pages; a row without a question is a page more. Queries are called "query-0", "query-1", … in the order of
    #   rows.
    parts = {name: _files(path / name) for name in ("corpus", "queries", "qrels")}
    if any(parts.values()):
        missing = [f"no folder {name}/ with Parquet files" for name, files in parts.items() if not files]
        if missing:
            raise FORMAT.lacks(path, *missing)
        return _in_parts(path, parts)
    files = [path] if path.is_file() else _files(path / "data") or _files(path)
    lacking = sorted({name for file in files for name in FLAT - set(sniffed_columns(file))})
    if not files or lacking:
        named = f"no column {', '.join(lacking)} in {files[0].name}" if files else "no corpus/, queries/ and qrels/"
        raise FORMAT.lacks(path, named, *([] if files else ["no data/test-00000-of-00001.parquet"]))
    return _flat(path, files)


def _in_parts(path: Path, parts: dict[str, list[Path]]) -> TaskDraft:
    """The form with queries, documents and judgements."""
    pages, queries = sniffed_columns(parts["corpus"][0]), sniffed_columns(parts["queries"][0])
    ids = {"query_id_column": _first(queries, QUERY_IDS), "document_id_column": _first(pages, PAGE_IDS)}
    named = {"query_text_column": _first(queries, ("query",)), "document_image_column": _first(pages, ("image",))}
    lacking = [("corpus-id", "query-id")[name.startswith("query")] for name, column in ids.items() if column is None]
    lacking += [name.removesuffix("_column").rpartition("_")[2] for name, column in named.items() if column is None]
    if lacking:
        raise FORMAT.lacks(path, f"no column {', '.join(lacking)}")
    draft = task_folder.read(path, title="join", unknown="fault", task="", **ids, **named)
    assert isinstance(draft, TaskDraft), "parts without the name of a task"
    return draft


def _flat(path: Path, files: Sequence[Path]) -> TaskDraft:
    """The form with a row for each question and its page."""
    root = path.parent if path.is_file() else path
    draft = TaskDraft(path.absolute().name.removesuffix(".parquet"), root, f"ViDoRe {path.absolute().name}")
    queries: dict[str, str] = {}
    alone = 0
    for file in files:
        split = file.stem.partition("-")[0]
        cells = PictureCells.of(file, "image")
        if cells is None:
            raise FORMAT.lacks(path, f"no pictures in the column image of {file.name}")
        place = relative(file, root)
        for row, (line, values) in enumerate(read_rows(file, columns=cells.others)):
            page, member = _page(values["image_filename"]), cells.member(row)
            if page is None or member is None:
                draft.fault(f"{place}, {line}: no {'picture' if page else 'image_filename'}")
                continue
            if page not in draft.documents.known:
                draft.add_item("documents", page, None, cell=(member, place))
            text = values["query"]
            if not text:
                alone += 1
                continue
            if text not in queries:
                queries[text] = f"query-{len(queries)}"
                draft.add_item("queries", queries[text], str(text))
            draft.judgements[split, queries[text], page] = 1.0
    draft.names = []
    if alone:
        draft.notes.append(f"{alone:,} pages without a question")
    return draft


def _page(name: Any) -> str | None:
    try:
        return identifier(name) if name not in (None, "") else None
    except TypeError:
        return None


def _first(columns: Sequence[str], names: Sequence[str]) -> str | None:
    return next((name for name in names if name in columns), None)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet")) if folder.is_dir() else []


def _sniff(path: Path) -> bool:
    if path.is_dir() and (files := _files(path / "corpus")):
        columns = sniffed_columns(files[0])
        return _first(columns, PAGE_IDS) is not None and "image" in pictures_in_cells(files[0])
    files = ([path] if path.name.endswith(".parquet") else []) if path.is_file() else _files(path / "data")
    return bool(files) and set(sniffed_columns(files[0])) >= FLAT and "image" in pictures_in_cells(files[0])


FORMAT = Format(
    name="vidore",
    title="ViDoRe (pages of documents)",
    layout="corpus/*.parquet {corpus-id, image}, queries/*.parquet {query-id, query, language}, qrels/*.parquet "
    "{query-id, corpus-id, score}; or data/test-*.parquet {query, image, image_filename}",
    reference="Faysse et al., ColPali (ICLR 2025); Macé et al., ViDoRe Benchmark V2 (2025); ViDoRe V3 (2026)",
    obtain="hf download vidore/docvqa_test_subsampled --repo-type dataset --local-dir FOLDER "
    "(https://huggingface.co/vidore lists them all)",
    sniff=_sniff,
    read=read,
)
