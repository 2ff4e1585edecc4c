"""Several tasks of one source: the two directions of a choice task, the tasks of one benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import pyarrow as pa

from visir.display import Displayed, brief, counted
from visir.errors import CollectionError, nearest
from visir.fingerprint import hash_columns
from visir.records.task import Task, check_task_name
from visir.records.task_file import TaskFile


@dataclass(frozen=True, eq=False)
class TaskSet(Displayed):
    """Tasks of one source by name, each with queries and documents of its own.

    Args:
        name: The name of the source.
        parts: The tasks by name. A part is called by its name here, whatever it calls itself.
        source: Where they come from, in words.

    Raises:
        CollectionError: There is no part, or a name cannot be the name of a task.

    Example:
        >>> from visir.records import Items
        >>> texts = Items.of_texts({"1": "a boat", "2": "the boat"}, title="texts")
        >>> judgements = {"split": ["", ""], "query_id": ["1", "2"], "document_id": ["2", "1"], "grade": [1.0, 1.0]}
        >>> part = TaskFile("toy", texts, texts, pa.table(judgements))
        >>> tasks = TaskSet("toy", {"first": part, "second": part})
        >>> tasks.tasks, tasks.task("second").name
        (('first', 'second'), 'second')
    """

    name: str
    parts: Mapping[str, TaskFile]
    source: str = ""

    def __post_init__(self) -> None:
        if not self.parts:
            raise CollectionError(f"{self.name}: there are no tasks.", code="no-tasks")
        for name in self.parts:
            check_task_name(name)
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    def __repr__(self) -> str:
        lines = [
            f"{name}: {counted(len(part.queries), 'queries')}, {counted(len(part.documents), 'documents')}"
            for name, part in self.parts.items()
        ]
        return brief(self, f"{self.name}: {counted(len(self.parts), 'tasks')}", *lines)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks."""
        return tuple(self.parts)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits of all parts, sorted."""
        return tuple(sorted({split for part in self.parts.values() for split in part.splits}))

    @cached_property
    def fingerprint(self) -> str:
        """A hash over the names and the fingerprints of the parts."""
        return hash_columns([pa.array(list(self.parts)), pa.array([part.fingerprint for part in self.parts.values()])])

    def split(self, name: str | None) -> TaskSet:
        """Return one split, or several joined by "+", of every part that has it; None or "all" is everything.

        Raises:
            CollectionError: No part has such a split.
        """
        if name is None or name == "all":
            return self
        for split in name.split("+"):
            if split not in self.splits:
                raise CollectionError(
                    f"{self.name}: unknown split {split!r}",
                    hint=nearest(split, filter(None, self.splits)),
                    code="unknown-split",
                )
        parts = {}
        for task, part in self.parts.items():
            present = [split for split in name.split("+") if split in part.splits]
            if present:
                parts[task] = part.split("+".join(present))
        return replace(self, parts=parts)

    def task(self, name: str) -> Task:
        """Return the task of this name.

        Raises:
            CollectionError: There is no task of this name.
        """
        if name not in self.parts:
            raise CollectionError(
                f"{self.name}: unknown task {name!r}", hint=nearest(name, self.parts), code="unknown-task"
            )
        part = self.parts[name]
        return replace(part.task(part.tasks[0]), name=name, source=self.name, source_fingerprint=self.fingerprint)

    def describe(self) -> dict[str, object]:
        """Return the counts that identify the tasks."""
        return {
            "name": self.name,
            "tasks": {name: part.describe() for name, part in self.parts.items()},
            "fingerprint": self.fingerprint,
            "source": self.source,
        }
