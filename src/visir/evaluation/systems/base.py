"""The one interface of everything that can be evaluated: queries of a task in, ranked documents out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import pyarrow as pa

from visir.errors import ConfigurationError
from visir.evaluation.folds import Ranked, joined_runs
from visir.records import Items, Task, Ties
from visir.search.exact import SearchResult


class System(ABC):
    """Whatever answers the queries of a `Task`: an encoder, vectors, runs, a command.

    A new kind of system is a subclass with `search`. `system_of` makes one from what people hand over.

    Attributes:
        name: What tables call the system.
        notes: What a reader of the numbers must know, collected while the system answers.
        seconds: The time that the system itself took, by stage ("encode images", "command").
    """

    name: str
    notes: list[str]
    seconds: dict[str, float]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """A system with its attributes, also when a subclass has an `__init__` that does not call this one's."""
        system = super().__new__(cls)
        system.name, system.notes, system.seconds = cls.__name__, [], {}
        return system

    def __init__(self, name: str = "") -> None:
        self.name = name or type(self).__name__

    @abstractmethod
    def search(self, tasks: Sequence[Task], *, depth: int, ties: Ties) -> list[SearchResult]:
        """Answer the judged queries of each task, over its gallery or its pools.

        Args:
            tasks: Tasks of different names, which may be searched together.
            depth: How many documents per query the runs keep.
            ties: How the ranks of equal scores are counted.

        Returns:
            For each task the run (`Run.ranked` makes one of three columns), and the ranks of the positives of
            `task.judgements()` (`visir.search.ranks.ranks_of(run, task.judgements(), ties)`).
        """

    def prepare(self, tasks: Sequence[Task], *, skip_broken: bool = False) -> None:  # noqa: B027 (a hook)
        """Make what all searches of these tasks need. Called once, before the first search.

        Args:
            tasks: The tasks as a whole, before they are cut into folds.
            skip_broken: Set inputs that cannot be read aside (see `broken`) instead of stopping.
        """

    def broken(self, items: Items) -> pa.StringArray:
        """The ids of the items that `prepare` set aside."""
        return items.ids[:0]

    def rank(self, tasks: Mapping[str, Sequence[Task]], *, depth: int, ties: Ties) -> Ranked:
        """Search every fold of every task: `tasks` has one task per fold under each name."""
        searched: dict[str, list[SearchResult]] = {name: [] for name in tasks}
        for fold in zip(*tasks.values(), strict=True):
            for name, result in zip(tasks, self._answers(fold, depth, ties), strict=True):
                searched[name].append(result)
        ranks = {name: [part.ranks for part in parts if part.ranks is not None] for name, parts in searched.items()}
        return ranks, {name: joined_runs([part.run for part in parts]) for name, parts in searched.items()}

    def _answers(self, tasks: Sequence[Task], depth: int, ties: Ties) -> list[SearchResult]:
        """What `search` returns, checked: a subclass may come from anybody."""
        results: list[Any] = list(self.search(tasks, depth=depth, ties=ties))
        good = [isinstance(result, SearchResult) and result.ranks is not None for result in results]
        if len(results) != len(tasks) or not all(good):
            given = ", ".join(type(result).__name__ for result in results) or "nothing"
            raise ConfigurationError(
                f"{type(self).__name__}.search returned {given} for {len(tasks)} tasks.",
                hint="return one SearchResult(run, ranks) for each task; visir.search.ranks.ranks_of(run, "
                "task.judgements(), ties) gives the ranks",
            )
        return results

    def fields(self) -> dict[str, Any]:
        """What the system says of itself for the protocol: similarity, preprocessing, truncation, …"""
        return {}

    def origins(self) -> dict[str, str]:
        """Where vectors or runs come from, and when they were made, as far as that is known."""
        return {}

    def answers(self, task: str) -> bool:
        """Whether the system can answer a task of this name."""
        return True

    def conditions(self, task: str) -> Sequence[str] | None:
        """The perturbations of a task's queries that the system has answers to; None when it answers any."""
        return None
