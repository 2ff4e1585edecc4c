"""What a verb prints: lines and tables for people, or one JSON value for programs (`--json`).

With `--json` standard output holds that value and nothing else; what a verb says otherwise goes to standard error.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from visir.terminal import one_line

if TYPE_CHECKING:
    import rich.table

    from visir.reports.report import StudyReport
    from visir.reports.table import Table


WIDTH = 130
"""Of tables in a file or a pipe, where lines need not fit a window."""


class Output:
    """Where the lines, tables and values of one verb go."""

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.shown: list[Table] = []
        self.lines: list[str] = []
        self.tables: list[dict[str, Any]] = []
        self.value: Any = None
        self.facts: dict[str, Any] = {}

    def answer(self) -> Any:
        """The JSON value: what the verb gave, or else its tables and lines."""
        if self.value is not None:
            return self.value
        if self.facts:
            return {**self.facts, **({"tables": self.tables} if self.tables else {})}
        return {"tables": self.tables, "lines": self.lines} if self.tables else {"lines": self.lines}


_output: ContextVar[Output | None] = ContextVar("output", default=None)


def current() -> Output:
    """The output of the verb that runs; a plain one outside of verbs."""
    return _output.get() or Output()


def wants_json() -> bool:
    """Whether `--json` was given: then nothing needs to be drawn."""
    return current().as_json


def answer(value: Any) -> None:
    """Say what `--json` prints."""
    current().value = value


def facts(**values: Any) -> None:
    """Say what `--json` prints, name by name."""
    current().facts.update(values)


def line(text: str) -> None:
    """Print a line of the result."""
    output = current()
    if output.as_json:
        output.lines.append(text)
    else:
        typer.echo(text)


def note(text: str) -> None:
    """Print a line that helps and is no result; `--quiet` and `--json` leave it out."""
    output = current()
    if not output.as_json and not output.quiet:
        typer.echo(text)


def table(shown: Table, width: int | None = None, *, latex: bool = True) -> None:
    """Print a table of a report; `--latex` has it too, unless others stand for it."""
    from visir.reports import to_terminal

    output = current()
    output.shown += [shown] if latex else []
    if output.as_json:
        names = shown.names
        rows = [dict(zip(names, texts, strict=True)) for texts in shown.texts()]
        output.tables.append({"title": shown.caption or "", "rows": rows})
        return
    console = console_of_verb()
    if width is not None:
        console.width = max(console.width, width)
    console.print(to_terminal(shown))


def finish(
    report: StudyReport, value: Any = None, out: Path | None = None, *, page: Path | None = None, replace: bool = False
) -> None:
    """End a verb that made a report: write its folder, or its page alone, print its tables and sentences, and say
    where it is."""
    from visir.cli.options import command_line

    if out is not None:  # before anything is printed: whoever pipes the tables into `head` loses nothing
        report.save(out, command=command_line(), replace=True)
    if page is not None:
        report.write(page, command=command_line(), replace=replace)
    if value is not None:
        answer(value)
    current().shown += report.headline or report.tables[:1]  # what the report itself writes: `to_latex`
    for part in report.printed or report.headline or report.tables[:1]:
        if isinstance(part, str):
            text(part, "bold" if part.startswith("→") else None)
        else:
            table(part, latex=False)
    if out is not None:
        note(f"report: {out / report.name}.html")
    if page is not None:
        note(f"page: {page}")


def rich_table(shown: rich.table.Table, *, markup: bool = False) -> None:
    """Print a table that is no report."""
    from rich.text import Text

    output = current()
    if not output.as_json:
        console_of_verb().print(shown, markup=markup)
        return
    columns = [[str(cell) for cell in column.cells] for column in shown.columns]
    names = [str(column.header) for column in shown.columns]
    rows = [
        dict(zip(names, [Text.from_markup(cell).plain if markup else cell for cell in row], strict=True))
        for row in zip(*columns, strict=True)
    ]
    output.tables.append({"title": str(shown.title or ""), "rows": rows})


def text(shown: str, style: str | None = None) -> None:
    """Print a line as it is, whatever brackets it holds, in a style; a long line is not broken in pieces."""
    output = current()
    if output.as_json:
        output.lines.append(shown)
    else:
        console_of_verb().print(shown, style=style, markup=False, highlight=False, soft_wrap=True)


def console_of_verb() -> Any:
    """A console on standard output, wide and without colours where it is no terminal; silent with `--json`."""
    from visir.console import Console

    if wants_json():
        return Console(file=io.StringIO())
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH
    return console


@contextmanager
def printing(as_json: bool, quiet: bool, latex: Path | None = None, replace: bool = False) -> Iterator[None]:
    """Run a verb: notes and progress as it was asked, and at its end, also an early one, its JSON and LaTeX."""
    from visir.files import json_bytes
    from visir.progress import quiet as without_progress
    from visir.storage import check_new_file, write_new

    if latex is not None:
        check_new_file(latex, replace=replace)
    output = Output(as_json, quiet)
    before = _output.set(output)
    ended: typer.Exit | None = None
    try:
        with ExitStack() as stack:
            if quiet:
                stack.enter_context(without_progress())
            if as_json:
                stack.enter_context(redirect_stdout(sys.stderr))
            try:
                yield
            except typer.Exit as early:
                ended = early
        if latex is not None:
            write_new(latex, "\n".join(shown.to_latex() for shown in output.shown).encode(), replace=replace)
        if as_json:
            typer.echo(json_bytes(plain(output.answer())).decode(), nl=False)
        if ended is not None:
            raise ended
    finally:
        _output.reset(before)


def plain(value: Any) -> Any:
    """A value as JSON has it: names as keys, paths as text, no NaN."""
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if is_dataclass(value):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value) if not item.name.startswith("_")}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)


# Answers of a search: a line for each, with rank, score, and at its end where the picture is, so that a long path is
# never cut or broken by visir; a terminal that knows links opens it with a click.


_NAME = 28
"""Characters of a name; a longer one loses its middle."""


@dataclass(frozen=True)
class ShownAnswer:
    """One answer."""

    rank: int
    score: float  # how well it fits
    id: str  # of the image or the caption
    place: str = ""  # where the picture is, as it is written; "" for a caption
    path: Path | None = None  # the picture's file, absolute; None where it is no file of its own
    caption: str = ""  # the caption, or the first one of an image
    terms: str = ""  # the words that matched, with what each gave


def show_answers(title: str, side: str, answers: Sequence[ShownAnswer], *, unit: str = "score") -> None:
    """Print answers, best first."""
    # side: "images" or "captions"; unit: what a score is, "" where there are none.
    listed_answers = current().facts.setdefault("answers", [])
    listed_answers += [as_json(answer, side) for answer in answers]
    if wants_json():
        return
    from rich.text import Text

    console = console_of_verb()
    console.print(Text(one_line(title), style="bold"), soft_wrap=True)
    if not answers:
        if unit == "score":
            console.print("nothing found: no document shares a term with it")
        return
    names = ["" if answer.place.endswith(answer.id) else shortened(answer.id) for answer in answers]
    width = max(map(len, names))
    digits = len(str(answers[-1].rank))
    indent = " " * (digits + (11 if unit else 2))
    console.print(Text(f"{'':>{digits}}  {f'{unit:>7}  ' if unit else ''}{side[:-1]}", style="dim"))
    for answer, name in zip(answers, names, strict=True):
        line = Text(f"{answer.rank:>{digits}}  " + (f"{answer.score:>7.4f}  " if unit else ""))
        if width:
            line.append(f"{name:<{width}}  ")
        behind = answer.place or answer.caption
        line.append(one_line(behind), style=f"link {answer.path.as_uri()}" if answer.path else "")
        console.print(line, soft_wrap=True, highlight=False)
        for more in (answer.caption if answer.place else "", answer.terms and f"matched terms: {answer.terms}"):
            if more:
                console.print(Text(f"{indent}{one_line(more)}", style="dim"), soft_wrap=True)


def as_json(answer: ShownAnswer, side: str) -> dict[str, Any]:
    """An answer as `--json` has it."""
    fields_of_answer: dict[str, Any] = {"rank": answer.rank, "score": answer.score, "kind": side[:-1], "id": answer.id}
    if answer.place:
        fields_of_answer["path"] = answer.path or answer.place
    if answer.caption:
        fields_of_answer["caption"] = answer.caption
    if answer.terms:
        fields_of_answer["terms"] = answer.terms
    return fields_of_answer


def shortened(name: str, width: int = _NAME) -> str:
    """A name of at most so many characters, with its beginning and its end."""
    name = one_line(name)
    if len(name) <= width:
        return name
    end = (width - 1) // 2
    return f"{name[: width - 1 - end]}…{name[len(name) - end :]}"
