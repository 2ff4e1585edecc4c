"""The command line: one file per verb. Verbs import what is heavy when they run, so that `--help` is instant."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, TextIO

import typer

import visir
from visir.cli.verbs import FIRST_PAGE, GROUPS, FirstGroup, group
from visir.plugins import APPLICATIONS, Verb, applications, left_out, load_target

# How a process ends at Ctrl-C: with a line and status 130, never with a traceback.

INTERRUPTED = 130


def stop() -> NoReturn:
    """Say that the process was stopped, and end it with status 130; a second Ctrl-C ends it at once."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    print("\nvisir: stopped; the same command goes on, or begins again", file=sys.stderr)  # noqa: T201
    # A Ctrl-C in code that is made from text, as data classes are, makes CPython end by the signal, whatever status it
    # is told. The next text that is run takes that back.
    exec("")
    sys.exit(INTERRUPTED)


ROAD = (
    Verb("evaluate", "visir.cli.evaluate:evaluate", group="measure"),
    Verb("compare", "visir.cli.compare:compare", group="measure"),
    Verb("explain", "visir.cli.compare:explain", group="measure"),
    Verb("stress", "visir.cli.stress:stress", group="measure"),
    Verb("train", "visir.cli.train:train", group="train"),
    Verb("report", "visir.cli.compare:report", group="measure"),
    Verb("publish", "visir.cli.compare:publish", group="analyse"),
    Verb("encode", "visir.cli.encode:encode", group="analyse"),
    Verb("index", "visir.cli.index:app", group="analyse"),
    Verb("classify", "visir.cli.classify:classify", group="analyse"),
    Verb("profile", "visir.cli.evaluate:profile", group="analyse"),
    Verb("submit", "visir.cli.evaluate:submit", group="analyse"),
    Verb("probe", "visir.cli.classify:probe", group="analyse"),
    Verb("granularity", "visir.cli.stress:granularity", group="analyse"),
    Verb("truncation", "visir.cli.shortcuts:truncation", group="analyse"),
    Verb("perturb", "visir.cli.stress:perturb", group="analyse"),
    Verb("shortcuts", "visir.cli.shortcuts:app", group="analyse"),
    Verb("merge", "visir.cli.shortcuts:merge", group="analyse"),
    Verb("export", "visir.cli.train:export", group="analyse"),
    Verb("sparsify", "visir.cli.shortcuts:sparsify", group="analyse"),
    Verb("explain-vector", "visir.cli.shortcuts:explain_vector", group="analyse"),
    Verb("demo", "visir.cli.doctor:demo", group="set-up"),
    Verb("models", "visir.cli.train:models", group="set-up"),
    Verb("doctor", "visir.cli.doctor:doctor", group="set-up"),
    Verb("data", "visir.cli.data:app", group="set-up"),
    Verb("help", "visir.cli.verbs:find_verbs", group="set-up"),
)
"""The verbs of the road, in the order of `visir --help` within their groups."""


def all_verbs() -> dict[str, Verb]:
    """Every verb by name, group by group: those of the road, and those of applications at their positions."""
    verbs = {entry.name: entry for entry in ROAD}
    for application in applications():
        for registered in application.verbs:
            follows = verbs.get(registered.after)
            group = registered.group or (follows.group if follows is not None else "applications")
            entry = replace(registered, group=group)
            if entry.name in verbs and not entry.extends:
                _leave_out(application.name, entry, "there is a verb of this name")
                continue
            if entry.group not in GROUPS:
                _leave_out(application.name, entry, f"unknown group {entry.group!r}; known: {', '.join(GROUPS)}")
                continue
            if not entry.target.startswith("visir."):  # one of visir's own is imported when somebody looks at it
                try:
                    load_target(entry.target)
                except Exception as fault:  # a broken package must not stop the other verbs
                    _leave_out(application.name, entry, f"{type(fault).__name__}: {fault}")
                    continue
            verbs = _inserted(verbs, entry)
    return {name: entry for heading in GROUPS for name, entry in verbs.items() if entry.group == heading}


def _leave_out(application: str, entry: Verb, reason: str) -> None:
    left_out(APPLICATIONS, f"{application}, verb {entry.name}", reason)


def _inserted(verbs: dict[str, Verb], new: Verb) -> dict[str, Verb]:
    """The verbs with one more, after the verb that it names; one that extends another replaces it."""
    if new.name in verbs:
        return {**verbs, new.name: replace(new, group=verbs[new.name].group)}
    if new.after not in verbs:
        return {**verbs, new.name: new}
    names = list(verbs)
    names.insert(names.index(new.after) + 1, new.name)
    return {name: new if name == new.name else verbs[name] for name in names}


def _print_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"visir {visir.__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Search, measure and train models of images and texts."""
    if context.invoked_subcommand is None:
        typer.echo(FIRST_PAGE.format(version=visir.__version__), nl=False)


app = group("visir", "Image-text search whose numbers can be trusted.", all_verbs(), FirstGroup)
app.info.no_args_is_help, app.info.invoke_without_command = False, True
app.callback()(_root)


_show_others = warnings.showwarning


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning of visir in a line for people, and warnings of other libraries as Python does."""
    if Path(filename).is_relative_to(Path(visir.__file__).parent):
        print(f"visir: {message}", file=sys.stderr)  # noqa: T201
    else:
        _show_others(message, category, filename, lineno, file, line)


def run() -> None:
    """Run the command line; a fault that the user can mend is printed without a traceback, exit status 2."""
    from visir.errors import VisirError, from_system
    from visir.terminal import protect

    protect()
    warnings.showwarning = _show_warning
    try:
        app()
    except VisirError as fault:
        print(f"visir: {fault}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    except BrokenPipeError:  # `visir … | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as fault:
        if (disk := from_system(fault)) is None:
            raise
        print(f"visir: {disk}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as end:
        # Typer makes an exit of Ctrl-C.
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        stop()
