"""Progress of long work: a bar with rate and time left on a terminal, silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")


def track(items: Iterable[T], *, what: str, total: int | None = None, unit: str = "") -> Iterator[T]:
    """Yield `items`, showing progress on a terminal's standard error (and nothing when it is not a terminal)."""
    if total is None and hasattr(items, "__len__"):
        total = len(items)  # type: ignore[arg-type]
    with Progress(what, total, unit) as advance:
        for item in items:
            yield item
            advance(1)


class Progress:
    """A bar to be advanced by hand: `with Progress("encoding", n, "images") as advance: advance(64)`."""

    def __init__(self, what: str, total: int | None, unit: str) -> None:
        self._progress = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            class Rate(TextColumn):
                def render(self, task: object) -> object:  # type: ignore[override]
                    speed = getattr(task, "finished_speed", None) or getattr(task, "speed", None)
                    from rich.text import Text

                    return Text(f"{speed:,.0f} {unit}/s" if speed else "", style="progress.data.speed")

            self._progress = RichProgress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                Rate(""),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=False,
            )
            self._progress.start()
            self._task = self._progress.add_task(what, total=total)

    def __call__(self, done: int = 1, /) -> None:
        """Advance by `done` units."""
        if self._progress is not None:
            self._progress.advance(self._task, done)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
