"""How a function becomes a verb: `--json` and `--quiet` for all of them, examples in the help, groups of verbs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import typer

F = TypeVar("F", bound=Callable[..., Any])

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON, and nothing else.", rich_help_panel="Output")
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress, and no notes beside the result.", rich_help_panel="Output")
]
_PRINTED = {
    "as_json": inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption),
    "quiet": inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=QuietOption),
}


def examples(*lines: str) -> Callable[[F], F]:
    """Give a verb examples, which its help shows and a test reads with the verb's own parser.

    Args:
        lines: Command lines: "visir search photos.visir 'a dog'".
    """

    def given(function: F) -> F:
        function.examples = lines  # type: ignore[attr-defined]
        return function

    return given


def streams(function: F) -> F:
    """Mark a verb that prints while it runs, or runs other verbs: it has no `--json` and no `--quiet`."""
    function.streams = True  # type: ignore[attr-defined]
    return function


def verb(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with `--json` and `--quiet`, and with a help that fits the terminal's width."""
    if getattr(function, "is_verb", False):
        return function
    own = inspect.signature(function, eval_str=True).parameters

    @functools.wraps(function)
    def run(**options: Any) -> Any:
        from visir.cli.output import printing

        if getattr(function, "streams", False):
            return function(**options)
        with printing(options.pop("as_json"), options.pop("quiet")):
            return function(**options)

    added = {} if getattr(function, "streams", False) else {n: item for n, item in _PRINTED.items() if n not in own}
    parameters = {name: item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, item in own.items()} | added
    run.__signature__ = inspect.Signature([*parameters.values()])  # type: ignore[attr-defined]
    run.__annotations__ = {name: item.annotation for name, item in parameters.items()}
    run.__doc__ = help_text(function.__doc__ or "", getattr(function, "examples", ()))
    run.is_verb = True  # type: ignore[attr-defined]
    return run


def help_text(doc: str, lines: Sequence[str]) -> str:
    """A docstring as the help of a verb: the first paragraph, the examples, the rest; each paragraph is one line."""
    paragraphs = [" ".join(item.split()) for item in inspect.cleandoc(doc).split("\n\n")]
    shown = ["\n".join(f"$ {item}" for item in lines)] if lines else []
    return "\n\n".join([paragraphs[0], *shown, *paragraphs[1:]])


def group(name: str, about: str, verbs: dict[str, Callable[..., Any]]) -> typer.Typer:
    """A group of verbs: `visir NAME VERB`.

    Args:
        name: The group's name.
        about: What it is for, in a line.
        verbs: Its verbs by name, in the order of the help.
    """
    from visir.cli.groups import VerbGroup
    from visir.cli.help import VerbCommand

    made = typer.Typer(name=name, help=about, cls=VerbGroup, no_args_is_help=True)
    made.callback(help=about)(_nothing)
    for verb_name, function in verbs.items():
        made.command(verb_name, cls=VerbCommand)(verb(function))
    return made


def _nothing() -> None:
    """Nothing is done by the name of a group alone."""


def prepare(target: typer.Typer) -> typer.Typer:
    """Make verbs of all functions of a group, also of one from another package."""
    from typer.core import TyperGroup

    from visir.cli.groups import VerbGroup
    from visir.cli.help import VerbCommand

    for command in target.registered_commands:
        if command.callback is not None:
            command.callback, command.cls = verb(command.callback), VerbCommand
    if not target.registered_callback or not isinstance(target.info.cls, type) or target.info.cls is TyperGroup:
        target.info.cls = VerbGroup
    for below in target.registered_groups:
        if below.typer_instance is not None:
            prepare(below.typer_instance)
    return target
