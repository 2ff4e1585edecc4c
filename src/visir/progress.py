"""Progress of long work: a bar with rate and time left on a terminal or in a notebook, a line now and then in a log.

Nothing is shown with the environment variable `VISIR_QUIET` (in a notebook: `%env VISIR_QUIET=1`), and inside
`with quiet():`.
"""

from __future__ import annotations

import html
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any

from visir.threads import launched_here

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

LOG_SECONDS = 30.0
"""Where standard error is no terminal, a line this often; work that is shorter stays silent."""
NOTEBOOK_SECONDS = (0.5, 0.25)
"""In a notebook: work that is shorter than the first shows no bar; the second is how often a bar moves."""

_SPANS = ((1.0, "a second"), (60.0, "a minute"), (3600.0, "an hour"))


def pace(rate: float) -> str:
    """`rate` per second in the shortest span in which one is done: "99 a second", "3 a minute"."""
    counts = ((rate * seconds, name) for seconds, name in _SPANS if rate * seconds >= 1)
    count, span = next(counts, (rate * 3600, "an hour"))
    return f"{count:,.0f} {span}"


class Progress:
    """Progress to be advanced by hand: `with Progress("encoding", n, "images") as advance: advance(64)`."""

    # Of several processes that a launcher started, the first one on each machine speaks; bars of all would overwrite
    # one another.

    def __init__(self, title: str, total: int | None, unit: str = "") -> None:
        self.title, self.total, self.unit = title, total, unit
        self.done = 0
        self._started = self._logged = time.monotonic()
        self._waited = 0.0
        self._silent = _quiet.get() or bool(os.environ.get("VISIR_QUIET")) or launched_here()[0] != 0
        self._notebook = _NotebookBar() if in_notebook() and not self._silent else None
        self._bar = _terminal_bar(unit) if sys.stderr.isatty() and not self._silent and not self._notebook else None
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task(title, total=total)

    def __call__(self, done: int = 1, /) -> None:
        """Advance by `done` units."""
        self.done += done
        if self._bar is not None:
            self._bar.advance(self._task, done)
        elif self._notebook is not None:
            self._notebook.show(self, time.monotonic() - self._started - self._waited)
        elif not self._silent and (now := time.monotonic()) - self._logged >= LOG_SECONDS:
            self._logged = now
            print(self.line(now - self._started - self._waited), file=sys.stderr, flush=True)  # noqa: T201

    def say(self, text: str) -> None:
        """Show a line beside the progress: what the work waits for."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        elif not self._silent:
            print(text, file=sys.stderr, flush=True)  # noqa: T201

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """What happens inside is no work: rates do not count its time."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._waited += time.monotonic() - began

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
        if self._notebook is not None:
            seconds = time.monotonic() - self._started - self._waited
            self._notebook.close(f"{self.line(seconds)} (stopped)" if kind else "")


_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """No bars and lines from what happens inside: answering one question is no long work. For this thread only."""
    before = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(before)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    if "ipykernel" not in sys.modules:  # a kernel has it from the beginning; nothing is imported to find out
        return False
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


class _NotebookBar:
    """A bar in the output of the running cell: it appears when work takes long, and goes when the work is done."""

    # What was stopped, by an error or by hand, leaves a line that says how far it was.

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown = 0.0

    def show(self, progress: Progress, seconds: float) -> None:
        """Show the bar as it is now."""
        first, step = NOTEBOOK_SECONDS
        if seconds < first or seconds - self._shown < step:
            return
        self._shown = seconds
        part = f'value="{progress.done}" max="{progress.total}"' if progress.total else ""
        line = progress.line(seconds)
        bar = f'<progress {part} style="width:16em;max-width:100%;vertical-align:middle"></progress>'
        self._write(line, f"<div>{bar} <span>{html.escape(line)}</span></div>")

    def close(self, line: str) -> None:
        """Take the bar away, or leave this line in its place."""
        if line or self._handle is not None:
            self._write(line, f"<div>{html.escape(line)}</div>" if line else "")

    def _write(self, text: str, markup: str) -> None:
        import IPython.display

        display: Any = IPython.display.display
        bundle = {"text/plain": text, "text/html": markup}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


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
