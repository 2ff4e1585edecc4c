"""Runs in and out of other people's files and tools: a format is one file here and one line below."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from visir.errors import RunError
from visir.records import Run
from visir.registry import Registry
from visir.search.formats import json_runs, parquet, trec
from visir.search.formats.dictionaries import from_dict, from_ranx, qrels_to_dict, to_dict, to_ir_measures, to_ranx
from visir.search.formats.frames import from_pandas, to_pandas
from visir.search.formats.trec import read_qrels, write_qrels

FORMATS: Registry[Any] = Registry("run format")
FORMATS.add("trec", trec)
FORMATS.add("parquet", parquet)
FORMATS.add("json", json_runs)

_SUFFIXES = {".trec": "trec", ".run": "trec", ".txt": "trec", ".res": "trec", ".parquet": "parquet", ".json": "json"}


def read_run(path: str | Path, *, format: str | None = None, **options: Any) -> Run:
    """Read a run; unless named, the format is told by the suffix: .trec .run .txt .res, .json (also with .gz or .xz),
    .parquet.

    Options: `task` and `gallery` (required unless the file was written by visir as Parquet or JSON), `name`,
    `depth`, and for TREC and Parquet `order` ("rank", the default, or "score").
    """
    reader = FORMATS.get(format or _format_of(path))
    if reader is trec:
        missing = [option for option in ("task", "gallery") if options.get(option) is None]
        if missing:
            raise RunError(
                f"{path}: a TREC file does not say its {' and '.join(missing)}.",
                hint="give both, e.g. task='t2i', gallery=Gallery.stated('image', 31783, 'all images')",
            )
    run: Run = reader.read(path, **options)
    return run


def write_run(run: Run, path: str | Path, *, format: str | None = None, replace: bool = False) -> None:
    """Write a run, complete or not at all; Parquet and JSON keep everything, TREC keeps order, scores and name.

    Args:
        run: What a search answered.
        path: The file.
        format: Told by the suffix unless it is named.
        replace: Whether it may take the place of a file that is there.

    Raises:
        FolderError: There is a file already.
    """
    FORMATS.get(format or _format_of(path)).write(run, path, replace=replace)


def _format_of(path: str | Path) -> str:
    suffixes = [suffix for suffix in Path(path).suffixes if suffix not in (".gz", ".xz")]
    suffix = suffixes[-1].lower() if suffixes else ""
    if suffix not in _SUFFIXES:
        raise RunError(
            f"{path}: the suffix {suffix!r} tells no run format.",
            hint=f"name it (format=...): {', '.join(FORMATS)}; or use one of {' '.join(_SUFFIXES)}",
        )
    return _SUFFIXES[suffix]


__all__ = [
    "FORMATS",
    "from_dict",
    "from_pandas",
    "from_ranx",
    "qrels_to_dict",
    "read_qrels",
    "read_run",
    "to_dict",
    "to_ir_measures",
    "to_pandas",
    "to_ranx",
    "write_qrels",
    "write_run",
]
