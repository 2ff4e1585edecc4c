"""Progress of long work: a bar with rate and time left on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING

from visir.launched import launched_here

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

LOG_SECONDS = 30.0
"""Where standard error is no terminal, a line this often; work that is shorter stays silent."""


_SPANS = ((1.0, "a second"), (60.0, "a minute"), (3600.0, "an hour"))


def pace(rate: float) -> str:
    """`rate` per second in the shortest span in which one is done: "99 a second", "3 a minute"."""
    counts = ((rate * seconds, name) for seconds, name in _SPANS if rate * seconds >= 1)
    count, span = next(counts, (rate * 3600, "an hour"))
    return f"{count:,.0f} {span}"


class Progress:
    """Progress to be advanced by hand: `with Progress("encoding", n, "images") as advance: advance(64)`.

    Of several processes that a launcher started, the first one on each machine speaks; bars of all would overwrite one
    another.
    """

    def __init__(self, title: str, total: int | None, unit: str = "") -> None:
        self.title, self.total, self.unit = title, total, unit
        self.done = 0
        self._started = self._logged = time.monotonic()
        self._silent = _quiet.get() or launched_here()[0] != 0
        self._bar = _terminal_bar(unit) if sys.stderr.isatty() and not self._silent else None
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task(title, total=total)

    def __call__(self, done: int = 1, /) -> None:
        """Advance by `done` units."""
        self.done += done
        if self._bar is not None:
            self._bar.advance(self._task, done)
        elif not self._silent and (now := time.monotonic()) - self._logged >= LOG_SECONDS:
            self._logged = now
            print(self.line(now - self._started), file=sys.stderr, flush=True)  # noqa: T201

    def line(self, seconds: float) -> str:
        """What a log shows after so many seconds: "encoding: 3,200 of 6,000 images, 99 a second, 28 s left"."""
        rate = self.done / max(seconds, 1e-9)
        if self.total is None:
            return f"{self.title}: {self.done:,} {self.unit}, {pace(rate)}"
        seconds_left = (self.total - self.done) / max(rate, 1e-9)
        return f"{self.title}: {self.done:,} of {self.total:,} {self.unit}, {pace(rate)}, {seconds_left:,.0f} s left"

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """No bars and lines from what happens inside: answering one question is no long work. For this thread only."""
    before = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(before)


def _terminal_bar(unit: str) -> RichProgress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    from visir.console import Console

    class Rate(TextColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{unit}, {pace(speed)}" if speed else "", style="progress.data.speed")

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(""),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
