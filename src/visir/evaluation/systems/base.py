"""The interface of everything that can be evaluated: it answers the queries of a task with ranked documents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from visir.display import counted
from visir.errors import ConfigurationError, ProtocolError
from visir.evaluation.folds import Ranked, joined_runs
from visir.records import PLAIN, Items, Run, Task, Ties
from visir.retrieval.exact import SearchResult
from visir.retrieval.pools import marked, most_excluded, within_pools, without_excluded_answers


class System(ABC):
    """Anything that answers the queries of a `Task`: an encoder, vectors, runs, a command.

    A new kind of system is a subclass with `search`. `system_of` makes one from other objects.

    Attributes:
        name: The name in tables.
        notes: Notes for the reader of the numbers, collected while the system answers.
        seconds: The time of the system itself, by stage ("encode images", "command").
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
            `task.judgements()` (`visir.retrieval.ranks.ranks_of(run, task.judgements(), ties)`).
        """

    def prepare(self, tasks: Sequence[Task], *, skip_broken: bool = False) -> None:  # noqa: B027 (a hook)
        """Prepare the searches of these tasks. Called once, before the first search.

        Args:
            tasks: The whole tasks, before they are cut into folds.
            skip_broken: Leave out inputs that cannot be read (see `broken`) instead of stopping.
        """

    def broken(self, items: Items) -> pa.StringArray:
        """The ids of the items that `prepare` left out.

        Args:
            items: The queries or documents of a task.

        Returns:
            Their ids.
        """
        return items.ids[:0]

    def rank(self, tasks: Mapping[str, Sequence[Task]], *, depth: int, ties: Ties) -> Ranked:
        """Search every fold of every task.

        Args:
            tasks: By name: one task per fold.
            depth: How many documents per query the runs keep.
            ties: How the ranks of equal scores are counted.

        Returns:
            (ranks of each fold by name, runs by name).
        """
        searched: dict[str, list[SearchResult]] = {name: [] for name in tasks}
        for fold in zip(*tasks.values(), strict=True):
            for name, result in zip(tasks, self.checked_search(fold, depth=depth, ties=ties), strict=True):
                searched[name].append(result)
        ranks = {name: [part.ranks for part in parts if part.ranks is not None] for name, parts in searched.items()}
        runs = {name: [part.run for part in parts] for name, parts in searched.items()}
        return ranks, {name: parts[0] if len(parts) == 1 else joined_runs(parts) for name, parts in runs.items()}

    def checked_search(self, tasks: Sequence[Task], *, depth: int, ties: Ties) -> list[SearchResult]:
        """Search, and check the answers: a subclass may come from anybody.

        Args:
            tasks: Tasks of different names.
            depth: How many documents per query the runs keep.
            ties: How the ranks of equal scores are counted.

        Returns:
            The answers of `search`. Queries without an answer are counted in the notes.

        Raises:
            ConfigurationError: `search` returns something else than it should.
            ProtocolError: Answers are no candidates.
        """
        excludes = any(task.excluded is not None for task in tasks)
        deeper = depth + max(map(most_excluded, tasks)) if excludes else depth
        searched = [marked(task) for task in tasks] if excludes else tasks
        results: list[Any] = list(self.search(searched, depth=deeper, ties=ties))
        good = [isinstance(result, SearchResult) and result.ranks is not None for result in results]
        if len(results) != len(tasks) or not all(good):
            given = ", ".join(type(result).__name__ for result in results) or "nothing"
            raise ConfigurationError(
                f"{type(self).__name__}.search returned {given} for {len(tasks)} tasks.",
                hint="return one SearchResult(run, ranks) for each task; visir.retrieval.ranks.ranks_of(run, "
                "task.judgements(), ties) gives the ranks",
            )
        for task, result in zip(tasks, results, strict=True):
            if not type(self).search.__module__.startswith("visir."):  # visir's own searches look at candidates only
                self._check(task, result.run)
            queries = task.measured_queries()
            missing = len(queries) - int(pc.sum(pc.is_in(queries, result.run.queries)).as_py() or 0)
            if missing:
                where = task.name if task.condition == PLAIN else f"{task.name}, {task.condition}"
                self.notes.append(
                    f"{where}: {missing:,} of {len(queries):,} queries are not answered; they count as failed"
                )
        if not excludes:
            return results
        return [without_excluded_answers(result, task, depth) for task, result in zip(tasks, results, strict=True)]

    def _check(self, task: Task, run: Run) -> None:
        """Refuse answers that are no candidates."""
        where = f"{type(self).__name__}.search, task {task.name}"
        gallery = task.gallery.ids
        if gallery is not None and not run.documents.equals(gallery):
            foreign = run.documents.filter(pc.invert(pc.is_in(run.documents, gallery)))
            if len(foreign):
                raise ProtocolError(
                    f"{where}: {counted(len(foreign), 'documents', 'are')} not in the gallery, "
                    f"e.g. {foreign[0].as_py()!r}.",
                    hint="answer with ids of task.gallery only",
                    code="not-gallery",
                )
        if task.pools is not None:
            others = len(run.indices) - len(within_pools(run, task.pools).indices)
            if others:
                raise ProtocolError(
                    f"{where}: {counted(others, 'answers', 'are')} outside the candidates of the query.",
                    hint="search task.pools: visir.retrieval.pools.within_pools(run, task.pools) cuts a run to them",
                    code="outside-candidates-query",
                )

    def fields(self) -> dict[str, Any]:
        """The system's fields of the protocol: similarity, preprocessing, truncation, …"""
        return {}

    def origins(self) -> dict[str, str]:
        """The source of vectors or runs, and their date, as far as they are known."""
        return {}

    def answers(self, task: str) -> bool:
        """Whether the system can answer a task.

        Args:
            task: The name of the task.

        Returns:
            True if it can.
        """
        return True

    def conditions(self, task: str) -> Sequence[str] | None:
        """The perturbations of a task's queries that the system can answer.

        Args:
            task: The name of the task.

        Returns:
            Their names; None if it can answer any.
        """
        return None
