"""What the benchmarks of composed image retrieval share: a picture and a text as query, pictures as documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from visir.collections.draft import SourceDraft
from visir.collections.readers.locate import relative
from visir.collections.readers.names import identifier
from visir.collections.readers.sniffing import plain_name
from visir.collections.sources import Option, one_of
from visir.collections.task_draft import TaskDraft
from visir.errors import CollectionError
from visir.files import read_json
from visir.records import IMAGE

_DEPTH = 2


def reference_option(default: str) -> Option:
    """The option of the two readings of the picture that a query begins from."""
    return Option(
        "reference",
        f"the picture of a query among its candidates: candidate or excluded (the benchmark: {default})",
        default,
        one_of("candidate", "excluded"),
    )


def files_like(folder: Path, pattern: re.Pattern[str]) -> dict[tuple[str, ...], Path]:
    """The files in a folder and the folders in it whose plain names fit a pattern, by the groups of the pattern."""
    files: dict[tuple[str, ...], Path] = {}
    for depth in range(_DEPTH):
        for file in sorted(folder.glob("/".join(["*"] * (depth + 1)))):
            match = pattern.fullmatch(plain_name(file))
            if match is None or not file.is_file():
                continue
            if match.groups() in files:
                first = relative(files[match.groups()], folder)
                raise CollectionError(
                    f"{folder}: {first} and {relative(file, folder)}: which of them?",
                    hint="leave one of them",
                    code="two-of-a-kind",
                )
            files[match.groups()] = file
    return files


def rows_of(draft: SourceDraft, file: Path, texts: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON list, each with its place; a row that lacks one of the named ids or texts is a fault."""
    content = read_json(file)
    if not isinstance(content, list):
        draft.fault(f"{file.name}: expected a list of queries")
        return
    for number, row in enumerate(content):
        place = f"{file.name}, entry {number + 1}"
        if not isinstance(row, dict):
            draft.fault(f"{place}: expected an object")
            continue
        missing = [key for key in texts if not isinstance(row.get(key), str | int)]
        if missing:
            draft.fault(f"{place}: no {', '.join(missing)}")
            continue
        yield place, row


def ids_in(values: object) -> list[str] | None:
    """A list of ids as text; None for anything else."""
    if not isinstance(values, list):
        return None
    try:
        return [identifier(value) for value in values]
    except TypeError:
        return None


def add_query(
    task: TaskDraft, query: str, text: str, reference: str, name: str, split: str, grades: Mapping[str, float] | None
) -> None:
    """Add one composed query."""
    task.add_item("queries", query, text, picture=name)
    task.labels.setdefault(IMAGE, {})[query] = reference
    if grades is None:
        task.unjudged[split, query] = None
    for document, grade in (grades or {}).items():
        task.judgements[split, query, document] = grade


def check_documents(task: TaskDraft, split: str, query: str, place: str, *documents: str) -> bool:
    """Whether these pictures are documents of a split; a fault where they are not."""
    missing = [document for document in documents if (split, document) not in task.galleries]
    if missing:
        task.fault(f"{place}: picture {missing[0]!r} of query {query!r} is not in the gallery of {split}")
    return not missing
