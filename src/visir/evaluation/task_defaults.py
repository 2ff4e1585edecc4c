"""What tasks say about their evaluation where the caller does not: ties and measures."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from visir.errors import ConfigurationError
from visir.evaluation.measures import MEASURES, base_of
from visir.records import Task, Ties


def ties_of(tasks: Iterable[Task]) -> Ties:
    """How equal scores are counted where nobody says: as the tasks do."""
    rules = {task.ties: task.name for task in tasks}
    if len(rules) > 1:
        listing = ", ".join(f"{name}: {rule}" for rule, name in rules.items())
        raise ConfigurationError(
            f"the tasks count equal scores in different ways ({listing}).",
            hint="say one for all: ties='pessimistic'",
            code="tasks-count-equal-scores",
        )
    return next(iter(rules), "id")


def measures_of(tasks: Collection[Task]) -> list[str] | None:
    """The measures that are taken where nobody says: those of the tasks."""
    names = list(dict.fromkeys(name for task in tasks for name in task.measures))
    if len(tasks) < 2:
        names = [name for name in names if MEASURES.get(base_of(name)).joined != "all"]
    return names or None
