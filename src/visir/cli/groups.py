"""The names of verbs: in which order and under which heading they are listed, and what is said to an unknown one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.core import TyperGroup

GROUPS = {
    "find": "Find",
    "measure": "Measure",
    "train": "Train",
    "analyse": "Analyse",
    "applications": "Applications",
    "set-up": "Set up and look around",
}
"""The groups of `visir --help` in their order, with their headings."""

FIRST_PAGE = """visir {version}: image-text search and its measurement.

Three commands to begin with:

  visir demo                                   see everything once
  visir library make ~/Photos --model MODEL    make your photos searchable
  visir evaluate COLLECTION --model MODEL      measure a model

Which models there are:                        visir models
What is installed, which models work here:     visir doctor
All commands:                                  visir --help
Help for one of them:                          visir evaluate --help
"""


class VerbGroup(TyperGroup):
    """Verbs in the order in which they were registered; an unknown one is answered with the nearest."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names: group by group, in the order of registration."""
        headings = list(GROUPS.values())
        known = dict.fromkeys(self.commands)

        def place(name: str) -> int:
            heading = getattr(self.commands[name], "rich_help_panel", None)
            return headings.index(heading) if heading in headings else len(headings)

        return sorted(known, key=place)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help: commands under their headings."""
        from visir.cli.help import print_help

        listed: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            heading = getattr(command, "rich_help_panel", None) or "Commands"
            listed.setdefault(heading, []).append((name, (command.help or "").partition("\n\n")[0]))
        print_help(self, ctx, listed)

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
