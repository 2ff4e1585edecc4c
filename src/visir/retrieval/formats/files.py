"""Runs in files: which formats there are, and how a suffix names one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import visir.retrieval.formats.json_runs as json_runs
import visir.retrieval.formats.parquet as parquet
import visir.retrieval.formats.trec as trec
from visir.errors import RunError
from visir.records import Run
from visir.registry import Registry

FORMATS: Registry[Any] = Registry("run format")
FORMATS.add("trec", trec)
FORMATS.add("parquet", parquet)
FORMATS.add("json", json_runs)

_SUFFIXES = {".trec": "trec", ".run": "trec", ".txt": "trec", ".res": "trec", ".parquet": "parquet", ".json": "json"}


def read_file(path: str | Path, *, format: str | None = None, **options: Any) -> Run:
    """Read a run from a file; `visir.read_run` says what the options are."""
    run: Run = FORMATS.get(format or _format_of(path)).read(path, **options)
    return run


def write_run(run: Run, path: str | Path, *, format: str | None = None, replace: bool = False) -> None:
    """Write a run to a file, completely or not at all.

    Parquet and JSON store the whole run; TREC stores order, scores and name.

    Args:
        run: The run.
        path: The file.
        format: A name in `FORMATS`; None takes it from the suffix.
        replace: Whether to replace an existing file.

    Raises:
        FolderError: The file exists, and `replace` is false.
        RunError: The format is unknown, or cannot store this run.

    Example:
        >>> from visir.records import Gallery
        >>> run = Run.ranked("toy", "t2i", ["q"], ["a"], [0.5], Gallery.of("image", ["a", "b"]))
        >>> write_run(run, "toy.json")
        >>> read_file("toy.json").gallery.ids.to_pylist()
        ['a', 'b']
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
