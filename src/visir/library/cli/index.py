"""`visir index`, with libraries: a place made searchable, beside what can be done with a single index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from visir.cli.index import COMMANDS
from visir.cli.index_parts import FolderArgument
from visir.library.cli.index_library import check_command, duplicates_command, library_command, print_library

PLACE = "PLACE"


class _PlaceGroup(TyperGroup):
    """A first argument that is no command is a place: `visir index ~/Photos` is `visir index PLACE ~/Photos`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that was named, or the one for places."""
        known = args and self.get_command(ctx, args[0]) is not None
        return super().resolve_command(ctx, args if known else [PLACE, *args])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Options before the place belong to it."""
        own = not args or args[0] in ctx.help_option_names or not args[0].startswith("-")
        return super().parse_args(ctx, args if own else [PLACE, *args])


app = typer.Typer(
    name="index",
    cls=_PlaceGroup,
    help="Make photos searchable (visir index PLACE --model M); or build, change, ask and export single indexes.",
    no_args_is_help=True,
)


@app.callback()
def _root() -> None:
    """Make photos searchable (visir index PLACE --model M); or build, change, ask and export single indexes."""


def info_command(folder: FolderArgument) -> None:
    """Say what an index, or a library, holds."""
    from visir.library.layout import check_first_update_done, is_library

    check_first_update_done(folder)
    if is_library(folder):
        print_library(folder)
    else:
        COMMANDS["info"](folder)


_OWN: dict[str, Callable[..., None]] = {
    PLACE: library_command,
    "duplicates": duplicates_command,
    "check": check_command,
}
for _name, _command in {**_OWN, **COMMANDS, "info": info_command}.items():
    app.command(_name)(_command)
