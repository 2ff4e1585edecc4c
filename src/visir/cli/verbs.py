"""The names of verbs, and how their help looks: groups, headings, what is said to an unknown one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from visir.cli.options import argument
from visir.cli.verb import examples, verb
from visir.terminal import safe, trusted

if TYPE_CHECKING:
    from rich.text import Text


# A heading between lines of text.


def heading(text: str) -> None:
    """Print a line in bold, where the output is a terminal."""
    typer.secho(safe(text), file=trusted(sys.stdout), bold=True)


# The names of verbs: in which order and under which heading they are listed, and what is said to an unknown one.

GROUPS = {
    "find": "Find",
    "measure": "Measure",
    "train": "Train",
    "analyse": "Research",
    "shop": "Shops",
    "applications": "More",
    "set-up": "Set up and look around",
}
"""The groups of verbs in their order, with their headings."""

FIRST_PAGE = """visir {version}: image-text search and its measurement.

Three commands to begin with:

  visir demo                                   see everything once
  visir library make ~/Photos --model MODEL    make your photos searchable
  visir evaluate COLLECTION --model MODEL      measure a model

Which models there are:                        visir models
What is installed, which models work here:     visir doctor
All commands:                                  visir --help
Help for one of them:                          visir evaluate --help
The command for a purpose:                     visir help photos
"""

SHELVES = {
    "research": (GROUPS["analyse"], "Vectors and indexes, classes, probes, captions, shortcuts, sparse heads."),
    "shop": (GROUPS["shop"], "Catalogues, and logs of visits."),
}
"""Groups that `visir --help` lists as one line, `visir NAME` as a whole: their headings, and what they are for.

`visir research classify` and `visir classify` are the same.
"""


class VerbGroup(TyperGroup):
    """Verbs in the order in which they were registered; an unknown one is answered with the nearest."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names: group by group, in the order of registration; then groups that have a name."""
        headings = list(GROUPS.values())

        def place(name: str) -> int:
            heading = _heading(self.commands[name])
            return headings.index(heading) if heading in headings else len(headings)

        return [*sorted(self.commands, key=place), *(SHELVES if ctx.parent is None else ())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A verb, or a group of those that stand here."""
        found = super().get_command(ctx, cmd_name)
        if found is not None or ctx.parent is not None or cmd_name not in SHELVES:
            return found
        title, about = SHELVES[cmd_name]
        held = {name: command for name, command in self.commands.items() if _heading(command) == title}
        return VerbGroup(name=cmd_name, commands=held, help=about, no_args_is_help=True)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help: commands under their headings."""

        listed: dict[str, list[tuple[str, str]]] = {}
        shelves = {title: name for name, (title, _) in SHELVES.items()} if ctx.parent is None else {}
        for name in self.list_commands(ctx):
            heading = _heading(self.get_command(ctx, name)) or "Commands"
            if ctx.parent is None and (name in SHELVES or name == "help"):
                continue  # a shelf stands where its verbs would; of help the last line tells
            shown = shelves.get(heading, name)
            under = GROUPS["applications"] if shown in shelves.values() else heading
            line = (shown, (self.get_command(ctx, shown).help or "").partition("\n\n")[0])
            if line not in listed.setdefault(under, []):
                listed[under].append(line)
        print_help(self, ctx, listed)
        if ctx.parent is None:
            typer.echo("The command for a purpose: visir help WORD")

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The verb that is named. A place in its stead is answered with what can be done with a place."""
        from difflib import get_close_matches

        from visir.errors import ConfigurationError

        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            name, called = args[0], ctx.command_path.replace("python -m ", "")
            if Path(name).exists() or "/" in name:
                raise ConfigurationError(f"{name!r} is a place, not a command.", hint=_for_place(name))
            close = get_close_matches(name, self.list_commands(ctx), n=1, cutoff=0.5)
            meant = _deeper(ctx.find_root().command, name) or (f"{called} {close[0]}" if close else "")
            hint = f"did you mean: {meant}? All commands: {called} --help" if meant else f"{called} --help lists them"
            raise ConfigurationError(f"there is no command {called} {name}.", hint=hint)
        return super().resolve_command(ctx, args)


def _heading(command: Any) -> str | None:
    """The heading under which a verb stands."""
    shown = getattr(command, "rich_help_panel", None)
    return shown if isinstance(shown, str) else None


def every_verb(command: Any, path: str = "visir") -> Iterator[tuple[str, Any]]:
    """Every verb below a command, by the line that calls it."""
    for name, below in getattr(command, "commands", {}).items():
        yield f"{path} {name}", below
        yield from every_verb(below, f"{path} {name}")


@examples("visir help prices", "visir help --json nearest neighbours")
def find_verbs(context: typer.Context, words: Annotated[list[str], argument("WORD…")]) -> None:
    """Find the command for a purpose.

    Lists the commands in whose name, help or options all these words stand; those that have them in their name first.

    Args:
        words: Any words: a purpose (photos), an option (rerank), a part of a name.
    """
    from visir.cli import output
    from visir.errors import ConfigurationError

    asked = [word.lower() for word in words]
    found: list[tuple[int, str, str]] = []
    for path, command in every_verb(context.find_root().command):
        about, _, more = (command.help or "").partition("\n\n")
        options = " ".join(f"{' '.join(item.opts)} {getattr(item, 'help', '') or ''}" for item in command.params)
        texts = [text.lower() for text in (path, f"{path} {about}", f"{path} {about} {more} {options}")]
        places = [place for place, text in enumerate(texts) if all(word in text for word in asked)]
        if places:
            found.append((places[0], path, about))
    if not found:
        raise ConfigurationError(f"no command has {' and '.join(words)} in its help.", hint="visir --help lists them")
    output.answer([{"command": path, "about": about} for _, path, about in sorted(found, key=itemgetter(0))])
    for _, path, about in sorted(found, key=itemgetter(0))[:_FOUND]:
        output.line(f"{path}: {about}")
    if len(found) > _FOUND:
        output.note(f"… and {len(found) - _FOUND} more; another word finds fewer")


_FOUND = 12


def _deeper(root: Any, name: str) -> str:
    """The same name somewhere else: "library make" for "make"."""
    for first, command in root.commands.items():
        if name == first:
            return f"visir {first}"
        if name in getattr(command, "commands", {}):
            return f"visir {first} {name}"
    return ""


def _for_place(name: str) -> str:
    place = name if " " not in name else f"'{name}'"
    return (
        f"visir search {place} 'a dog' --model MODEL searches it once; visir library make {place} --model MODEL makes "
        f"it searchable for good; visir data inspect {place} says what it holds"
    )


# How help looks: what a command does, examples, and its options in two columns that fit a narrow terminal.

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
    """Print what a command does, how it is called, and its options."""
    from rich.text import Text

    from visir.console import Console

    console = Console(highlight=False)
    console.width = min(console.width, _WIDEST)
    first, *others = [part for part in (command.help or "").split("\n\n") if part]
    console.print(Text(f"\n{first}\n", style="bold"))
    usage = [context.command_path.replace("python -m ", "")]
    if commands is not None:
        usage.append("COMMAND …")
    else:
        listed = command.get_params(context)
        usage += [*(_argument(item) for item in listed if item.param_type_name == "argument"), "[OPTIONS]"]
    console.print(Text(f"Usage: {' '.join(usage)}"))
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


def group(name: str, about: str, verbs: dict[str, Callable[..., Any]]) -> typer.Typer:
    """A group of verbs: `visir NAME VERB`."""

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

    for command in target.registered_commands:
        if command.callback is not None:
            command.callback, command.cls = verb(command.callback), VerbCommand
    if not target.registered_callback or not isinstance(target.info.cls, type) or target.info.cls is TyperGroup:
        target.info.cls = VerbGroup
    for below in target.registered_groups:
        if below.typer_instance is not None:
            prepare(below.typer_instance)
    return target
