"""The command line: one file per verb. Verbs import what is heavy when they run, so that `--help` is instant."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import typer

import visir
from visir.applications import Verb, applications
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
from visir.cli.perturb import perturb
from visir.cli.probe import probe
from visir.cli.search import search
from visir.cli.shortcuts import app as shortcuts
from visir.cli.sparsify import sparsify
from visir.cli.stress import stress
from visir.cli.train import train
from visir.plugins import APPLICATIONS, left_out, load_target

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


# In the order of the road: this is the order of `visir --help`, single verbs before groups of verbs.
ROAD: dict[str, typer.Typer | Callable[..., Any]] = {
    "data": data,
    "shortcuts": shortcuts,
    "index": index,
    "encode": encode,
    "train": train,
    "sparsify": sparsify,
    "explain-vector": explain_vector,
    "search": search,
    "evaluate": evaluate,
    "granularity": granularity,
    "perturb": perturb,
    "probe": probe,
    "stress": stress,
    "compare": compare,
    "explain": explain,
    "demo": demo,
    "doctor": doctor,
}


def all_verbs() -> dict[str, typer.Typer | Callable[..., Any]]:
    """The verbs of the road, and those of the applications where each says that it belongs."""
    verbs = dict(ROAD)
    for application in applications():
        for verb in application.verbs:
            what = f"{application.name}, verb {verb.name}"
            if verb.name in verbs and not verb.extends:
                left_out(APPLICATIONS, what, "there is a verb of this name")
                continue
            try:
                target = load_target(verb.target)
            except Exception as fault:  # a broken package must not take the other verbs with it
                left_out(APPLICATIONS, what, f"{type(fault).__name__}: {fault}")
                continue
            verbs = _placed(verbs, verb, target)
    return verbs


def _placed(verbs: dict[str, Any], verb: Verb, target: Any) -> dict[str, Any]:
    if verb.name in verbs or verb.after not in verbs:
        return {**verbs, verb.name: target}
    placed = {}
    for name, other in verbs.items():
        placed[name] = other
        if name == verb.after:
            placed[verb.name] = target
    return placed


for _name, _verb in all_verbs().items():
    if isinstance(_verb, typer.Typer):
        app.add_typer(_verb, name=_name)
    else:
        app.command(_name)(_verb)


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
