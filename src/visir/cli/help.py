"""How help looks: what a command does, examples, and its options in two columns that fit a narrow terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

if TYPE_CHECKING:
    from rich.text import Text

_LEFT = 28
"""Columns of the names; a longer name has a line of its own."""
_WIDEST = 110
"""Longer lines are hard to read."""
OPTIONS, OUTPUT = "Options", "Output"


class VerbCommand(TyperCommand):
    """A verb with visir's help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        print_help(self, ctx)


def print_help(command: Any, context: Any, commands: dict[str, list[tuple[str, str]]] | None = None) -> None:
    """Print what a command does, how it is called, and its options.

    Args:
        command: The command.
        context: Of it.
        commands: Of a group: heading → name and first line of each command below it.
    """
    from rich.text import Text

    from visir.console import Console

    console = Console(highlight=False)
    console.width = min(console.width, _WIDEST)
    first, *others = [part for part in (command.help or "").split("\n\n") if part]
    console.print(Text(f"\n{first}\n", style="bold"))
    console.print(Text(f"Usage: {_usage(command, context, commands is not None)}"))
    for part in others:
        console.print()
        if part.startswith("$ "):
            console.print(Text("Examples:", style="bold"))
            console.print(Text("\n".join(f"  {line}" for line in part.split("\n"))), soft_wrap=True)
        else:
            for line in Text(part).wrap(console, console.width - 1):
                line.rstrip()
                console.print(line, soft_wrap=True)
    commands = commands or {}
    for heading, rows in commands.items():
        widest = 4 + max(len(name) for below in commands.values() for name, _ in below)
        _section(console, heading, [(Text(name, style="cyan"), Text(about)) for name, about in rows], widest)
    for heading, parameters in _panels(command.get_params(context)):
        _section(console, heading, [(_names(item), _about(item)) for item in parameters])
    console.print()


def _usage(command: Any, context: Any, is_group: bool) -> str:
    path = context.command_path.replace("python -m ", "")
    arguments = [_argument(item) for item in command.get_params(context) if item.param_type_name == "argument"]
    return " ".join([path, "COMMAND …"] if is_group else [path, *arguments, "[OPTIONS]"])


def _argument(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name.upper())
    if not name.endswith(("…", "...")) and parameter.nargs == -1:
        name += "…"
    return name if parameter.required or name.startswith("[") else f"[{name}]"


def _panels(parameters: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    """The headings with their options: arguments, what has no heading, headings as they come, what is printed."""
    panels: dict[str, list[Any]] = {"Arguments": [], OPTIONS: []}
    for item in parameters:
        if getattr(item, "hidden", False):
            continue
        own = "Arguments" if item.param_type_name == "argument" else OPTIONS
        is_help = "--help" in item.opts or item.name in ("install_completion", "show_completion")
        panels.setdefault(OUTPUT if is_help else getattr(item, "rich_help_panel", None) or own, []).append(item)
    printed = panels.pop(OUTPUT, [])
    heading = OUTPUT if any(panels.values()) else OPTIONS
    yield from ((name, listed) for name, listed in [*panels.items(), (heading, printed)] if listed)


def _names(parameter: Any) -> Text:
    from rich.text import Text

    if parameter.param_type_name == "argument":
        return Text(_argument(parameter), style="cyan")
    short = [name for name in parameter.opts if not name.startswith("--")]
    long = [name for name in parameter.opts if name.startswith("--")]
    shown = ", ".join([*short, *long])
    if parameter.secondary_opts:
        shown += " / " + ", ".join(parameter.secondary_opts)
    value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.upper().replace('_', '-')}"
    return Text(("" if short else "    ") + shown, style="cyan").append(value, style="not bold dim")


def _about(parameter: Any) -> Text:
    from rich.text import Text

    text = Text(" ".join((getattr(parameter, "help", None) or "").split()))
    default = parameter.default
    shown = getattr(parameter, "show_default", True)
    if parameter.required and parameter.param_type_name != "argument":
        text.append(" (required)", style="dim")
    elif shown and not callable(default) and default not in (None, False, True, "", (), []):
        text.append(f" (default: {default})", style="dim")
    return text


def _section(console: Any, heading: str, rows: Iterable[tuple[Text, Text]], width: int = _LEFT) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(Text(f"\n{heading}:", style="bold"))
    for left, right in rows:
        lines = right.wrap(console, max(console.width - width - 2, 30))
        if left.cell_len > width - 2:
            console.print(Text("  ").append(left))
            lead: Iterator[Text] = iter(())
        else:
            lead = iter([Text("  ").append(left)])
        for item in lines:
            start = next(lead, Text(""))
            start.pad_right(width + 2 - start.cell_len)
            item.rstrip()
            console.print(start.append(item), soft_wrap=True)
        for start in lead:
            console.print(Padding(start, 0))
