"""The command line: one file per verb. Verbs import what is heavy when they run, so that `--help` is instant."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import typer

import visir
from visir.cli.categories import app as categories
from visir.cli.compare import compare
from visir.cli.data import app as data
from visir.cli.demo import demo
from visir.cli.doctor import doctor
from visir.cli.encode import encode
from visir.cli.evaluate import evaluate
from visir.cli.explain import explain
from visir.cli.explain_vector import explain_vector
from visir.cli.granularity import granularity
from visir.cli.index import app as index
from visir.cli.intent import app as intent
from visir.cli.perturb import perturb
from visir.cli.probe import probe
from visir.cli.search import search
from visir.cli.serve import serve
from visir.cli.shortcuts import app as shortcuts
from visir.cli.sparsify import sparsify
from visir.cli.stress import stress
from visir.cli.study import app as study
from visir.cli.token import app as token
from visir.cli.train import train

_ALIASES = {"replace": "force"}
"""Other names of options. `--replace`, as Python calls it, is known to every verb that knows `--force`."""

app = typer.Typer(
    name="visir",
    help="Image–text retrieval whose numbers can be trusted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda name: _ALIASES.get(name, name),
    },
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"visir {visir.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Image–text retrieval whose numbers can be trusted."""


# In the order of the road: this is the order of `visir --help`.
app.add_typer(data, name="data")
app.add_typer(shortcuts, name="shortcuts")
app.add_typer(index, name="index")
app.add_typer(categories, name="categories")
app.add_typer(intent, name="intent")
app.add_typer(study, name="study")
app.add_typer(token, name="token")
for verb in (
    encode,
    train,
    sparsify,
    explain_vector,
    search,
    serve,
    evaluate,
    granularity,
    perturb,
    probe,
    stress,
    compare,
    explain,
    demo,
    doctor,
):
    app.command()(verb)


_INTERRUPTED = 130
_show_others = warnings.showwarning


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """A warning of visir's as people read it; those of other libraries as Python shows them."""
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
