"""What the readers of choice tasks share: files of records, checked values, categories from names of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from visir.collections.cells import pictures_in_cells
from visir.collections.choice_draft import ChoiceDraft
from visir.collections.descriptor import Option, one_of
from visir.collections.readers.rows import read_rows
from visir.collections.readers.sniffing import head, plain_name
from visir.errors import CollectionError
from visir.files import read_json

MISSING = Option(
    "missing",
    "items whose pictures are not at hand: drop (counted and named in the notes) or fault",
    "drop",
    one_of("drop", "fault"),
)
_LINES = (".jsonl", ".ndjson")


def record_files(path: Path, fits: Callable[[Path], bool]) -> list[Path]:
    """The files of records under a path: the file itself, or those in the folder and in its folder data/."""
    if not path.is_dir():
        return [path] if fits(path) else []
    for folder in (path, path / "data"):
        files = [file for file in sorted(folder.iterdir()) if fits(file)] if folder.is_dir() else []
        if files:
            return files
    return []


def has_columns(path: Path, *names: str) -> bool:
    """Whether a file of JSON or Parquet has records with these names, as far as its beginning tells."""
    if not path.is_file():
        return False
    name = plain_name(path).lower()
    if name.endswith(".parquet"):
        try:
            return set(names) <= set(pq.read_schema(path).names)
        except Exception:
            return False
    if not name.endswith((".json", *_LINES)):
        return False
    beginning = head(path)
    return all(f'"{key}"'.encode() in beginning for key in names)


def records(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The records of a file with their ids: a list or a dictionary of JSON, lines of JSON, or Parquet."""
    name = plain_name(path).lower()
    if name.endswith((".parquet", *_LINES)):
        skipped = set(pictures_in_cells(path))
        columns = [column for column in pq.read_schema(path).names if column not in skipped] if skipped else None
        for number, (_, row) in enumerate(read_rows(path, columns=columns)):
            yield str(row["id"] if row.get("id") is not None else number), row
        return
    content = read_json(path)
    if isinstance(content, dict):
        content = [{"id": key, **value} if isinstance(value, dict) else value for key, value in content.items()]
    if not isinstance(content, list):
        raise CollectionError(f"{path}: expected a list or a dictionary of items, found {type(content).__name__}.")
    for number, row in enumerate(content):
        if not isinstance(row, dict):
            raise CollectionError(f"{path}: item {number} is no object, but {str(row)[:40]!r}.")
        yield str(row["id"] if row.get("id") is not None else number), row


def texts_of(draft: ChoiceDraft, place: str, row: Mapping[str, Any], names: Sequence[str]) -> dict[str, str] | None:
    """The texts of a record by name; None, and a fault, where one is missing or no text."""
    for name in names:
        if not isinstance(row.get(name), str) or not row[name].strip():
            problem = f"found {str(row[name])[:40]!r}" if row.get(name) is not None else "there is none"
            draft.fault(f"{place}: {name!r} must be a text; {problem}")
            return None
    return {name: row[name] for name in names}
