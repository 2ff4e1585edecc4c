"""The files of a log: a file, a folder, several files, or an archive of them; as a table that the engine can read."""

from __future__ import annotations

import errno
import json
import os
import tarfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import accumulate, count
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from visir.collections.archives import SMALL
from visir.collections.cells import amount_of, moment_of
from visir.collections.readers.names import escaped
from visir.collections.tables import arrow_table, columns_of
from visir.collections.tars import END_REMEDY, GOES_ON, LINKS_REMEDY, MAX_RATIO, TAR_FAULTS, TARS, TarHeaders, remedy_of
from visir.display import counted
from visir.errors import VisirError, require
from visir.sessions.definition import LogMapping
from visir.sessions.sql import file_pattern, source_literal, text_literal
from visir.sessions.table_labels import A_FORK, A_LINK
from visir.storage import Scratch, check_written
from visir.terminal import one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


# DuckDB, as sessions use it: opened, closed, and its faults of disk and memory explained.


@contextmanager
def duckdb_engine(
    place: Path,
    purpose: str,
    *,
    scratch: Scratch | None = None,
    threads: int | None = None,
    memory: str | None = None,
    **settings: Any,
) -> Iterator[DuckDBPyConnection]:
    """Open DuckDB for one piece of work."""
    require("duckdb", extra="sessions", purpose=purpose)
    import duckdb

    if scratch is not None:
        settings["temp_directory"] = str(scratch.folder("spill", "duckdb_temp_*"))
    if threads is not None:
        settings["threads"] = threads
    if memory is not None:
        settings["memory_limit"] = memory
    engine = duckdb.connect(config=settings)
    try:
        add_cell_readers(engine)
        engine.execute("SET TimeZone = 'UTC'")
        with suppress(duckdb.InvalidInputException):  # in a notebook without ipywidgets it refuses, and shows none
            engine.execute("SET enable_progress_bar = false")
        yield engine
    except (duckdb.IOException, duckdb.OutOfMemoryException) as fault:
        reason = reason_of(str(fault))
        raise VisirError(
            f"{place}: {reason}",
            hint="make room on the disk, or give more memory (--memory), and run the same again",
        ) from fault
    finally:
        engine.close()


def add_cell_readers(engine: DuckDBPyConnection) -> None:
    """Let SQL ask what a cell means where DuckDB does not know it (`visir.collections.cells`)."""
    for name, read, cells, kind in (
        ("visir_amount", _amounts, ["VARCHAR", "VARCHAR"], "DOUBLE"),
        ("visir_moment", _moments, ["VARCHAR", "BOOLEAN"], "BIGINT"),
    ):
        engine.create_function(
            name,
            read,
            cells,
            kind,
            type="arrow",
            null_handling="special",
            side_effects=False,  # type: ignore[call-overload]
        )


def _amounts(cells: Any, decimals: Any) -> Any:
    """(n,) the amounts of cells; `decimals` is how all of them are written, "" where nobody says."""
    import pyarrow as pa

    pairs = zip(cells.to_pylist(), decimals.to_pylist(), strict=True)
    return pa.array([amount_of(cell, decimal or None) for cell, decimal in pairs], pa.float64())


def _moments(cells: Any, local: Any) -> Any:
    """(n,) the microseconds of times; where clocks are local, a time with an offset is none."""
    import pyarrow as pa

    read = [None if cell is None else moment_of(cell) for cell in cells.to_pylist()]
    pairs = zip(read, local.to_pylist(), strict=True)
    return pa.array([None if moment is None or (is_local and moment[1]) else moment[0]
                     for moment, is_local in pairs], pa.int64())  # fmt: skip


def without_query(message: str) -> str:
    """A message of DuckDB without the query that it quotes."""
    return message.partition("\n\nLINE ")[0].strip()


def reason_of(text: str) -> str:
    """What the system refused, from a message of DuckDB, which may be JSON and name files that are gone by now."""
    try:
        details = json.loads(text[max(text.find("{"), 0) :])
    except ValueError:
        return without_query(text)
    return os.strerror(int(details["errno"])) if "errno" in details else str(details.get("exception_message", text))


# A log in a tar archive: unpacked into a scratch folder, within limits of size.

_NAME_FAULTS = (errno.ENAMETOOLONG, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.EILSEQ, errno.EINVAL, errno.ELOOP)
"""What the system says of a name that no file can have, or that another member has taken."""
_HEADER = 512
"""Bytes that an archive spends on each member besides its content."""
_SHOWN = 100
"""Letters of a member's name in an error."""


@dataclass(frozen=True)
class UnpackedLog:
    """What an archive was unpacked to."""

    folder: Path  # the folder of its members
    links: tuple[str, ...]  # the names of its links, hard and symbolic, which are not unpacked


def unpack(archive: Path, scratch: Scratch) -> UnpackedLog:
    """Unpack a tar archive into a folder of its own in `scratch`."""
    # An archive may unpack to `MAX_RATIO` times its own size, and to `SMALL` bytes in any case. Sizes are checked
    # against the archive's own headers before anything of a member is written, so a decompression bomb does not fill
    # the disk.
    folders = (scratch.path / "unpacked" / str(number) / archive.name for number in count(1))
    folder = next(folder for folder in folders if not folder.exists())  # no other archive of this name has it
    hint = f"fetch it again and compare its size; where it breaks: tar -tf {archive.name}"
    packed = archive.stat().st_size
    size = 0
    headers, links = TarHeaders(brief=False), list[str]()
    try:
        with archive.open("rb") as stream, headers.open(stream) as members:
            for member in members:
                if member.issym() or member.islnk():  # its log is elsewhere in the archive, or not in it
                    links.append(escaped(member.name))
                if not (member.isfile() or member.isdir()):
                    continue  # nothing would name it when the scratch folder is cleared
                size += member.size + _HEADER
                _check_size(archive, size, packed)
                with _named(archive, member.name):
                    if member.isfile() and escaped(member.name) != member.name:  # no text: no log of claims can hold it
                        raise OSError(errno.EILSEQ, os.strerror(errno.EILSEQ))
                    if not member.isdir():
                        name = PurePosixPath(tarfile.data_filter(member, str(folder)).name)
                        if (folder / name).is_dir():  # such a claim would keep the folder for ever
                            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                        scratch.file(f"unpacked/{folder.parent.name}/{archive.name}/{name}")
                    members.extract(member, folder, filter="data")
            goes_on = headers.check_end(members)
    except tarfile.FilterError as fault:
        raise VisirError(
            f"{archive}: an archive that reaches out of its folder: {fault}.", hint="unpack it by hand"
        ) from fault
    except TAR_FAULTS as fault:
        if isinstance(fault, OSError) and fault.errno is not None:  # the disk's fault, not the archive's
            raise
        raise VisirError(
            f"{archive}: no archive that can be unpacked: {_reason(fault)}.", hint=remedy_of(fault, hint)
        ) from fault
    if goes_on:
        raise VisirError(f"{archive}: {GOES_ON}.", hint=END_REMEDY, code="goes-behind-mark-end")
    if not folder.is_dir():
        only = f" but {counted(len(links), 'links')}" if links else ""
        raise VisirError(
            f"{archive}: no file in it{only}.",
            hint=LINKS_REMEDY if links else "is it the right archive?",
            code="visir-no-file",
        )
    return UnpackedLog(folder, tuple(links))


@contextmanager
def _named(archive: Path, name: str) -> Iterator[None]:
    """Errors of the disk that are faults of a member's name as an error of the archive."""
    try:
        yield
    except OSError as fault:
        if fault.errno not in _NAME_FAULTS:
            raise
        shown = one_line(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…")
        raise VisirError(
            f"{archive}: its member {shown} cannot be unpacked: {os.strerror(fault.errno)}.",
            hint="no file can have this name here, or another member has it: unpack it by hand under another name",
            code="member-cannot-unpacked",
        ) from fault


def _check_size(archive: Path, size: int, packed: int) -> None:
    if size > max(SMALL, MAX_RATIO * packed):
        raise VisirError(
            f"{archive}: unpacks to {size:,} bytes or more from {packed:,}, more than {MAX_RATIO} to 1 "
            "(a decompression bomb?).",
            hint="if it is meant, unpack it by hand and name the folder",
            code="unpacks-bytes-more-more",
        )


def _reason(fault: Exception) -> str:
    return (str(fault).splitlines() or ["it ends too early"])[0].rstrip(":.")


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
    mapping: LogMapping  # how they are read


def log_files(source: Any, mapping: LogMapping, scratch: Scratch) -> LogFiles:
    """Find the files of a log; one that is in memory becomes a file of Parquet."""
    if (columns := columns_of(source)) is not None:
        import pyarrow.parquet as pq

        file = scratch.file("memory.parquet")
        pq.write_table(arrow_table(columns), file)
        return LogFiles([file], (), replace(mapping, format="parquet"))
    if not isinstance(source, (str, Path)):
        parts = [log_files(part, mapping, scratch) for part in source]
        passed_over = sorted(name for part in parts for name in part.passed_over)
        return LogFiles([file for part in parts for file in part.read], tuple(passed_over), mapping)
    path = Path(source)
    links: tuple[str, ...] = ()
    if path.is_file() and path.name.endswith(TARS):
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
        return LogFiles(read, tuple(sorted([*(f"{name}{others[name]}" for name in visible), *forks])), mapping)
    if not path.is_file():
        raise VisirError(f"{path}: no such file or folder.", hint="check the path")
    check_written(path)
    return LogFiles([path], (), mapping)


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
