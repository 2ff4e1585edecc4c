"""Where a log lies: a file, a folder, several files, or an archive of them; as a table that the engine can read."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from collections.abc import Collection, Sequence
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from visir.errors import VisirError
from visir.sessions.mapping import LogMapping
from visir.storage import Scratch

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LINES = (".json", ".jsonl", ".ndjson")
ENDINGS = {
    "parquet": (".parquet",),
    "csv": (".csv", ".csv.gz"),
    "json": (*_LINES, *(f"{one}.gz" for one in _LINES)),
}


def log_files(source: str | Path | Sequence[str | Path], mapping: LogMapping, scratch: Scratch) -> list[Path]:
    """The files of a log, those of a folder or an archive sorted by name; an archive is unpacked into `scratch`."""
    if not isinstance(source, (str, Path)):
        return [file for one in source for file in log_files(one, mapping, scratch)]
    path = Path(source)
    if tarfile_name(path):
        _unpack(path, scratch)
        path = _unpacked(path, scratch)
    if path.is_dir():
        files = sorted(one for one in path.rglob("*") if one.is_file() and one.name.endswith(ENDINGS[mapping.format]))
        if not files:
            raise VisirError(
                f"{source}: no file that ends in {' or '.join(ENDINGS[mapping.format])}.",
                hint=f"mapping {mapping.name!r} reads {mapping.format}; is it the right one?",
            )
        return files
    if not path.is_file():
        raise VisirError(f"{path}: no such file or folder.", hint="check the path")
    return [path]


def passed_over(source: str | Path | Sequence[str | Path], mapping: LogMapping, scratch: Scratch) -> tuple[str, ...]:
    """What lies in a log's folders and archives and is not read, because of its ending; sorted.

    Of archives what `log_files` unpacked into `scratch`. Names that begin with "." or "_" are marks of programs.
    """
    if not isinstance(source, (str, Path)):
        return tuple(sorted(name for one in source for name in passed_over(one, mapping, scratch)))
    path = Path(source)
    folder = _unpacked(path, scratch) if tarfile_name(path) else path
    files = (one.relative_to(folder) for one in folder.rglob("*") if one.is_file())
    told = (one for one in files if not any(part.startswith((".", "_")) for part in one.parts))
    return tuple(sorted(str(one) for one in told if not one.name.endswith(ENDINGS[mapping.format])))


def _unpacked(path: Path, scratch: Scratch) -> Path:
    return scratch.path / "unpacked" / path.name


def _unpack(path: Path, scratch: Scratch) -> None:
    folder = _unpacked(path, scratch)
    hint = f"fetch it again and compare its size; where it breaks: tar -tf {path.name}"
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile():
                    scratch.file(f"unpacked/{path.name}/{PurePosixPath(tarfile.data_filter(member, str(folder)).name)}")
                archive.extract(member, folder, filter="data")
    except tarfile.FilterError as fault:
        raise VisirError(
            f"{path}: an archive that reaches out of its folder: {fault}.", hint="unpack it by hand"
        ) from fault
    except (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error) as fault:
        raise VisirError(f"{path}: no archive that can be unpacked: {_told(fault)}.", hint=hint) from fault
    except OSError as fault:
        if fault.errno is not None:  # the disk's fault, not the archive's
            raise
        raise VisirError(f"{path}: no archive that can be unpacked: {_told(fault)}.", hint=hint) from fault


def _told(fault: Exception) -> str:
    return (str(fault).splitlines() or ["it ends too early"])[0].rstrip(":.")


def tarfile_name(path: Path) -> bool:
    """Whether this is a tar archive by its name: `.tar`, `.tar.gz`, `.tar.xz`, `.tgz`."""
    return path.is_file() and path.name.endswith((".tar", ".tar.gz", ".tar.xz", ".tar.bz2", ".tgz"))


def table_sql(files: Sequence[Path], mapping: LogMapping) -> str:
    """The table expression that reads these files, columns matched by name, rows in the order of the files.

    CSV is read as text and by RFC 4180: commas, double quotes. A line with too many columns or an open quote is not
    guessed at; it lands among the malformed lines.
    """
    names = "[" + ", ".join(f"'{_escaped(one)}'" for one in files) + "]"
    if mapping.format == "parquet":
        return f"read_parquet({names}, union_by_name = true)"
    if mapping.format == "json":
        return (
            f"read_json({names}, format = 'newline_delimited', records = true, union_by_name = true, sample_size = -1)"
        )
    options = "all_varchar = true, header = true, delim = ',', quote = '\"', escape = '\"', store_rejects = true"
    each = [f"SELECT * FROM read_csv('{_escaped(one)}', {options})" for one in files]
    return f"({' UNION ALL BY NAME '.join(each)})"  # the reader's own union by name keeps no refused lines


def arrival_sql(
    engine: DuckDBPyConnection, files: Sequence[Path], mapping: LogMapping, present: Collection[str]
) -> str | None:
    """An expression for the number of a row in the log, where its files know theirs: then many threads can read it."""
    if mapping.format != "parquet" or mapping.unnest is not None or {"file_index", "file_row_number"} & set(present):
        return None
    found = engine.execute("SELECT file_name, num_rows FROM parquet_file_metadata(?)", [[str(one) for one in files]])
    rows = dict(found.fetchall())
    before = list(accumulate((rows[str(one)] for one in files), initial=0))[:-1]
    return f"{before}[CAST(file_index AS BIGINT) + 1] + file_row_number + 1"


def _escaped(path: Path) -> str:
    return str(path).replace("'", "''")
