"""The files of a log: a file, a folder, several files, or an archive of them; as a table that the engine can read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from visir.errors import VisirError
from visir.sessions.counts import A_FORK, A_LINK
from visir.sessions.log_archive import is_archive, unpack
from visir.sessions.mapping import LogMapping
from visir.sessions.sql import file_pattern, source_literal, text_literal
from visir.storage import Scratch, check_written

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FORK = "._"
"""With what the name begins under which macOS, and its tar, keep what belongs to a file."""
_JSON_LINES = (".json", ".jsonl", ".ndjson")
SUFFIXES = {
    "parquet": (".parquet",),
    "csv": (".csv", ".csv.gz"),
    "json": (*_JSON_LINES, *(f"{suffix}.gz" for suffix in _JSON_LINES)),
}
"""Format of a mapping → the ends of names of files that are read."""


@dataclass(frozen=True)
class LogFiles:
    """The files of a log."""

    read: list[Path]  # those that are read; those of a folder or an archive are sorted by name
    # Names of the others in its folders and archives, sorted: of another format, links in an archive, or what macOS
    # keeps beside a file ("._log.csv" beside "log.csv": no log, whatever its name ends in). Other names that begin with
    # "." or "_" are left out: programs use them for marks of their own.
    passed_over: tuple[str, ...]


def log_files(source: str | Path | Sequence[str | Path], mapping: LogMapping, scratch: Scratch) -> LogFiles:
    """Find the files of a log."""
    if not isinstance(source, (str, Path)):
        parts = [log_files(part, mapping, scratch) for part in source]
        passed_over = sorted(name for part in parts for name in part.passed_over)
        return LogFiles([file for part in parts for file in part.read], tuple(passed_over))
    path = Path(source)
    links: tuple[str, ...] = ()
    if is_archive(path):
        unpacked = unpack(path, scratch)
        path, links = unpacked.folder, unpacked.links
    if path.is_dir():
        suffixes = SUFFIXES[mapping.format]
        files = sorted(file for file in path.rglob("*") if file.is_file())
        named = [file for file in files if file.name.endswith(suffixes)]
        read = [file for file in named if not file.name.startswith(_FORK)]
        check_written(path, lambda name: name.endswith(suffixes))
        if not read:
            raise VisirError(
                f"{source}: no file that ends in {' or '.join(suffixes)}.",
                hint=f"mapping {mapping.name!r} reads {mapping.format}; is it the right one?",
            )
        others = {file.relative_to(path): "" for file in files if not file.name.endswith(suffixes)}
        others |= {Path(name): f" ({A_LINK})" for name in links}
        visible = [name for name in others if not any(part.startswith((".", "_")) for part in name.parts)]
        forks = [f"{file.relative_to(path)} ({A_FORK})" for file in named if file.name.startswith(_FORK)]
        return LogFiles(read, tuple(sorted([*(f"{name}{others[name]}" for name in visible), *forks])))
    if not path.is_file():
        raise VisirError(f"{path}: no such file or folder.", hint="check the path")
    check_written(path)
    return LogFiles([path], ())


def table_sql(files: Sequence[Path], mapping: LogMapping) -> str:
    """SQL: the table of these files, columns matched by name, rows in the order of the files."""
    # No name is a pattern, and no name of a folder is a column.
    # CSV is read as text and by RFC 4180 (double quotes; the mapping's delimiter). The engine does not guess at a line
    # with too many columns or an open quote; it writes it into its table of rejected lines.
    names = "[" + ", ".join(map(source_literal, files)) + "]"
    if mapping.format == "parquet":
        return f"read_parquet({names}, union_by_name = true, hive_partitioning = false)"
    if mapping.format == "json":
        return (
            f"read_json({names}, format = 'newline_delimited', records = true, union_by_name = true, sample_size = -1, "
            "hive_partitioning = false)"
        )
    options = f"all_varchar = true, header = true, delim = {text_literal(mapping.delimiter)}, "
    options += "quote = '\"', escape = '\"', store_rejects = true, hive_partitioning = false"
    tables = [f"SELECT * FROM read_csv({source_literal(file)}, {options})" for file in files]
    return f"({' UNION ALL BY NAME '.join(tables)})"  # the reader's own union by name loses rejected lines


def arrival_sql(
    engine: DuckDBPyConnection, files: Sequence[Path], mapping: LogMapping, present: Collection[str]
) -> str | None:
    """SQL: the number of a row in the log, from 1; None where the files do not know it."""
    # Parquet files know how many rows each has, so that many threads can read them and still number the rows.
    if mapping.format != "parquet" or mapping.unnest is not None or {"file_index", "file_row_number"} & set(present):
        return None
    patterns = [file_pattern(file) for file in files]
    metadata = engine.execute("SELECT file_name, num_rows FROM parquet_file_metadata(?)", [patterns])
    counts = dict(metadata.fetchall())
    rows_before = list(accumulate((counts[str(file.absolute())] for file in files), initial=0))[:-1]
    return f"{rows_before}[CAST(file_index AS BIGINT) + 1] + file_row_number + 1"
