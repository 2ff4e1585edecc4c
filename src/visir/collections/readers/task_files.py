"""Which files of a folder are the queries, documents, judgements and candidates of a task, or of several."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from visir.collections.readers.columns import sniffed_columns
from visir.collections.readers.rows import JSON_LINES, TABLES
from visir.collections.readers.sniffing import plain_name, plain_stem
from visir.collections.readers.task_reader import DOCUMENT_IDS, PARTS, QUERY_IDS, TaskPart
from visir.errors import CollectionError, MissingPackageError

REQUIRED: tuple[TaskPart, ...] = ("documents", "queries", "judgements")
UNNAMED = ("default", "data")
"""Where the hub keeps the judgements of a data set whose default configuration they are."""
_SUFFIXES = tuple(dict.fromkeys((*TABLES, *JSON_LINES)))
_SHARD = re.compile(r"-\d{5}-of-\d{5}(?:-[0-9a-f]+)?$")
_OF_NAME = {name: part for part, names in PARTS.items() for name in names}
_CARD = re.compile(r"\A﻿?---\s*\n(.*?)\n---\s*$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class PartFile:
    """One file of a task, and the split that its place says; "" where it says none."""

    file: Path
    split: str = ""


@dataclass
class TaskFiles:
    """The files of one task."""

    parts: dict[TaskPart, list[PartFile]] = field(default_factory=dict)  # by part; an absent part has none
    named: dict[TaskPart, str] = field(default_factory=dict)  # by part: what it is called in the folder, for errors

    @property
    def missing(self) -> list[TaskPart]:
        """The parts that every task needs and this one lacks."""
        return [part for part in REQUIRED if not self.parts.get(part)]


def find_parts(folder: Path) -> dict[str, TaskFiles]:
    """The tasks of a folder by name; that of a folder with one task is ""."""
    # Looked for are, in this order: files and folders named for the parts (`corpus.jsonl`, `qrels/`), with the name of
    # a task before them where there are several (`en-corpus/`); the configurations that the card of a data set lists
    # (`README.md`); and folders that hold a task each.
    if not folder.is_dir():
        return {}
    by_name = _named_parts(folder)
    if not _complete(by_name):
        listed = _listed_parts(folder)
        if _complete(listed):
            return listed
    if not by_name:
        inside = {entry.name: _named_parts(entry).get("", TaskFiles()) for entry in sorted(folder.iterdir())
                  if entry.is_dir() and not entry.name.startswith(".")}  # fmt: skip
        by_name = {name: files for name, files in inside.items() if not files.missing}
    return by_name


def part_of(name: str) -> tuple[str, TaskPart] | None:
    """The task and the part that a name says: "en-corpus" is ("en", "documents"); None where it says no part."""
    if name in _OF_NAME:
        return "", _OF_NAME[name]
    task, _, last = name.rpartition("-")
    return (task, _OF_NAME[last]) if task and last in _OF_NAME else None


def is_part(file: Path) -> bool:
    """Whether a file is a table."""
    return file.is_file() and plain_name(file).lower().endswith(_SUFFIXES) and not file.name.startswith(".")


def looks_like_task(folder: Path) -> bool:
    """Whether a folder has the names of a task. It reads no table."""
    if not folder.is_dir():
        return False
    tasks: dict[str, set[TaskPart]] = {}
    for entry in folder.iterdir():
        named = part_of(_stem(entry)) if entry.is_dir() or is_part(entry) else None
        if named is not None:
            tasks.setdefault(named[0], set()).add(named[1])
    # Judgements beside one of the sides: a task, or one that lacks a part, which is then named.
    if any("judgements" in parts and len(parts & set(REQUIRED)) > 1 for parts in tasks.values()):
        return True
    if any({"documents", "queries"} <= parts for parts in tasks.values()):
        return any((folder / name).is_dir() for name in UNNAMED)
    return "config_name: corpus" in _card(folder) or any(
        (entry / f"queries{suffix}").exists() and looks_like_task(entry)
        for entry in sorted(folder.iterdir())
        if entry.is_dir()
        for suffix in ("", ".jsonl", ".parquet")
    )


def _complete(tasks: Mapping[str, TaskFiles]) -> bool:
    return any(not files.missing for files in tasks.values())


def _named_parts(folder: Path) -> dict[str, TaskFiles]:
    """Files and folders by their names."""
    tasks: dict[str, TaskFiles] = {}
    for entry in sorted(folder.iterdir()):
        named = part_of(_stem(entry)) if entry.is_dir() or is_part(entry) else None
        if named is None:
            continue
        files = tasks.setdefault(named[0], TaskFiles())
        if named[1] in files.parts:
            raise CollectionError(
                f"{folder}: {files.named[named[1]]} and {entry.name}: which of them?",
                hint="leave one of them",
                code="two-of-a-kind",
            )
        files.parts[named[1]] = list(_files(entry, named[1]))
        files.named[named[1]] = entry.name
    only = tasks.get("")
    if only is not None and only.missing == ["judgements"]:
        for name in UNNAMED:
            tables = list(_files(folder / name, "judgements")) if (folder / name).is_dir() else []
            if tables and _has_judgements(tables[0].file):
                only.parts["judgements"], only.named["judgements"] = tables, name
                break
    return tasks


def _files(entry: Path, part: TaskPart) -> Iterator[PartFile]:
    if entry.is_file():
        yield PartFile(entry)
        return
    for file in sorted(entry.iterdir()):
        if is_part(file):
            stem = _SHARD.sub("", plain_stem(file))
            yield PartFile(file, "" if stem in (entry.name, *PARTS[part], "data", "part") else stem)


def _has_judgements(file: Path) -> bool:
    columns = {column.lower() for column in sniffed_columns(file)}
    return bool(columns & set(QUERY_IDS)) and bool(columns & set(DOCUMENT_IDS))


def _listed_parts(folder: Path) -> dict[str, TaskFiles]:
    """The configurations of a data set of the hub, as its card lists them."""
    text = _card(folder)
    if "config_name" not in text:
        return {}
    try:
        import yaml
    except ImportError as fault:
        raise MissingPackageError("yaml", extra="datasets", purpose=f"reading {folder / 'README.md'}") from fault
    try:
        card = yaml.safe_load(text)
    except yaml.YAMLError:
        return {}
    configurations = card.get("configs") if isinstance(card, dict) else None
    tasks: dict[str, TaskFiles] = {}
    named = [entry for entry in configurations or [] if isinstance(entry, dict)]
    for entry in sorted(named, key=lambda entry: str(entry.get("config_name")) in UNNAMED):
        name = str(entry.get("config_name"))
        files = [
            PartFile(file, split)
            for split, pattern in _patterns(entry.get("data_files"))
            for file in _named(folder, pattern)
            if is_part(file)
        ]
        task, part = part_of(name) or ("", "judgements")
        if not files or (name not in UNNAMED and part_of(name) is None):
            continue
        if name in UNNAMED and (part in tasks.get(task, TaskFiles()).parts or not _has_judgements(files[0].file)):
            continue
        parts = tasks.setdefault(task, TaskFiles())
        parts.parts[part], parts.named[part] = files, name
    return tasks


def _named(folder: Path, pattern: str) -> list[Path]:
    """The files that a card names: the one of this very name, or those of the pattern."""
    named = folder / pattern
    return [named] if named.is_file() else sorted(folder.glob(pattern))


def _patterns(data_files: Any) -> Iterable[tuple[str, str]]:
    """(split, pattern) of what a card says of a configuration: a pattern, several, or some for each split."""
    for entry in data_files if isinstance(data_files, list) else [data_files]:
        split, path = (entry.get("split"), entry.get("path")) if isinstance(entry, dict) else ("", entry)
        for pattern in path if isinstance(path, list) else [path]:
            if isinstance(pattern, str) and pattern and not pattern.startswith("/") and ".." not in pattern:
                yield str(split or ""), pattern


def _card(folder: Path) -> str:
    """What stands before the text of a data set's README."""
    readme = folder / "README.md"
    if not readme.is_file():
        return ""
    match = _CARD.match(readme.read_text(encoding="utf-8", errors="replace")[:1_000_000])
    return match[1] if match else ""


def _stem(entry: Path) -> str:
    return entry.name if entry.is_dir() else plain_stem(entry)
