"""Read and write runs in the formats of other tools. A format is one file here and one entry in `FORMATS`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from visir.errors import RunError
from visir.records import Run
from visir.registry import Registry
from visir.retrieval.formats import json_runs, parquet, trec
from visir.retrieval.formats.dictionaries import from_dict, from_ranx, qrels_to_dict, to_dict, to_ir_measures, to_ranx
from visir.retrieval.formats.frames import from_pandas, to_pandas
from visir.retrieval.formats.trec import write_qrels

FORMATS: Registry[Any] = Registry("run format")
FORMATS.add("trec", trec)
FORMATS.add("parquet", parquet)
FORMATS.add("json", json_runs)

_SUFFIXES = {".trec": "trec", ".run": "trec", ".txt": "trec", ".res": "trec", ".parquet": "parquet", ".json": "json"}


def read_run(path: str | Path, *, format: str | None = None, **options: Any) -> Run:
    """Read a run from a file.

    Args:
        path: The file.
        format: A name in `FORMATS`; None takes it from the suffix: .trec .run .txt .res (TREC), .json, .parquet; TREC
            and JSON files may be compressed (.gz, .xz).
        options: `task` and `gallery` (required unless visir wrote the file as Parquet or JSON), `name`, `depth`, and
            for TREC and Parquet `order` ("rank", the default, or "score").

    Raises:
        RunError: The format is unknown, the task or the gallery is missing, or the file has a fault.

    Example:
        >>> from visir.records import Gallery
        >>> gallery = Gallery.of("image", ["a", "b"])
        >>> run = Run.ranked("toy", "t2i", ["q", "q"], ["a", "b"], [0.5, 0.75], gallery)
        >>> write_run(run, "toy.trec")
        >>> read_run("toy.trec", task="t2i", gallery=gallery).answer("q")
        [('b', 0.75), ('a', 0.5)]
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
        >>> read_run("toy.json").gallery.ids.to_pylist()
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


__all__ = [
    "FORMATS",
    "from_dict",
    "from_pandas",
    "from_ranx",
    "qrels_to_dict",
    "read_run",
    "to_dict",
    "to_ir_measures",
    "to_pandas",
    "to_ranx",
    "write_qrels",
    "write_run",
]
