"""The command line: one file per verb. Verbs import what is heavy when they run, so that `--help` is instant."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import TextIO

import typer

import visir
from visir.applications import Verb, applications
from visir.plugins import APPLICATIONS, left_out, load_target

app = typer.Typer(
    name="visir",
    help="Image–text retrieval whose numbers can be trusted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"visir {visir.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Image–text retrieval whose numbers can be trusted."""


ROAD = {
    "data": "visir.cli.data:app",
    "shortcuts": "visir.cli.shortcuts:app",
    "index": "visir.cli.index:app",
    "encode": "visir.cli.encode:encode",
    "train": "visir.cli.train:train",
    "sparsify": "visir.cli.sparsify:sparsify",
    "explain-vector": "visir.cli.explain_vector:explain_vector",
    "search": "visir.cli.search:search",
    "evaluate": "visir.cli.evaluate:evaluate",
    "granularity": "visir.cli.granularity:granularity",
    "perturb": "visir.cli.perturb:perturb",
    "probe": "visir.cli.probe:probe",
    "stress": "visir.cli.stress:stress",
    "compare": "visir.cli.compare:compare",
    "explain": "visir.cli.explain:explain",
    "demo": "visir.cli.demo:demo",
    "doctor": "visir.cli.doctor:doctor",
}
"""The verbs of the road, "module:attribute", in the order of `visir --help` (which lists groups of verbs last)."""


def all_verbs() -> dict[str, str]:
    """Name → target of every verb: those of the road, and those of applications at their positions."""
    verbs = dict(ROAD)
    for application in applications():
        for verb in application.verbs:
            if verb.name in verbs and not verb.extends:
                _leave_out(application.name, verb, "there is a verb of this name")
                continue
            try:
                load_target(verb.target)
            except Exception as fault:  # a broken package must not stop the other verbs
                _leave_out(application.name, verb, f"{type(fault).__name__}: {fault}")
                continue
            verbs = _inserted(verbs, verb)
    return verbs


def _leave_out(application: str, verb: Verb, reason: str) -> None:
    left_out(APPLICATIONS, f"{application}, verb {verb.name}", reason)


def _inserted(verbs: dict[str, str], verb: Verb) -> dict[str, str]:
    """The verbs with one more, after the verb that it names; one that extends another replaces it."""
    if verb.name in verbs or verb.after not in verbs:
        return {**verbs, verb.name: verb.target}
    names = list(verbs)
    position = names.index(verb.after) + 1
    names.insert(position, verb.name)
    return {name: verb.target if name == verb.name else verbs[name] for name in names}


def _register(name: str, target: str) -> None:
    verb = load_target(target)
    if isinstance(verb, typer.Typer):
        app.add_typer(verb, name=name)
    else:
        app.command(name)(verb)


for _name, _target in all_verbs().items():
    _register(_name, _target)


_INTERRUPTED = 130
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
        if isinstance(end, SystemExit) and end.code != _INTERRUPTED:
            raise
        print("\nvisir: stopped; the same command goes on, or begins again", file=sys.stderr)  # noqa: T201
        sys.exit(_INTERRUPTED)
