"""Runs in files: which formats there are, and how a suffix names one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from visir.errors import RunError, VisirError
from visir.files import is_comment, iter_lines
from visir.records import Run
from visir.registry import Registry
from visir.retrieval.formats.json_runs import read as read_json
from visir.retrieval.formats.json_runs import write as write_json
from visir.retrieval.formats.parquet import read as read_parquet
from visir.retrieval.formats.parquet import write as write_parquet
from visir.retrieval.formats.trec import is_trec
from visir.retrieval.formats.trec import read as read_trec
from visir.retrieval.formats.trec import write as write_trec
from visir.storage import check_written


class RunFormat(NamedTuple):
    """How runs of a format are read and written."""

    read: Callable[..., Run]
    write: Callable[..., None]


FORMATS: Registry[RunFormat] = Registry("run format")
FORMATS.add("trec", RunFormat(read_trec, write_trec))
FORMATS.add("parquet", RunFormat(read_parquet, write_parquet))
FORMATS.add("json", RunFormat(read_json, write_json))

_SUFFIXES = {".trec": "trec", ".run": "trec", ".txt": "trec", ".res": "trec", ".parquet": "parquet", ".json": "json"}


def read_file(path: str | Path, *, format: str | None = None, **options: Any) -> Run:
    """Read a run from a file; `visir.read_run` says what the options are."""
    # A file whose suffix tells no format is read as TREC where its first line is one of a TREC run (`results.trunc`).
    check_written(path)
    if format is None and _suffix(path) not in _SUFFIXES and has_trec_lines(path):
        format = "trec"
    return FORMATS.get(format or _format_of(path)).read(path, **options)


def has_trec_lines(path: str | Path) -> bool:
    """Whether the first line of a file, after comments, is one of a TREC run."""
    try:
        lines = (line.decode("utf-8") for line in iter_lines(path)) if Path(path).is_file() else iter(())
        entries = (line for line in lines if line.strip() and not is_comment(line, is_trec))
        return any(is_trec(line) for line in islice(entries, 1))
    except (VisirError, UnicodeDecodeError):
        return False


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
    form = format or _format_of(path)
    if form == "parquet" and Path(path).suffix in (".gz", ".xz"):
        raise RunError(f"{path}: Parquet is packed already, and is not read back under this name.",
                       hint=f"name it {Path(path).with_suffix('').name}",
                       code="parquet-packed-already-not")  # fmt: skip
    FORMATS.get(form).write(run, path, replace=replace)


def _suffix(path: str | Path) -> str:
    suffixes = [suffix for suffix in Path(path).suffixes if suffix not in (".gz", ".xz")]
    return suffixes[-1].lower() if suffixes else ""


def _format_of(path: str | Path) -> str:
    suffix = _suffix(path)
    if suffix not in _SUFFIXES:
        raise RunError(
            f"{path}: the suffix {suffix!r} tells no run format.",
            hint=f"name it (format=...): {', '.join(FORMATS)}; or use one of {' '.join(_SUFFIXES)}",
            code="suffix-tells-no-run",
        )
    return _SUFFIXES[suffix]
