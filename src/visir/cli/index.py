"""`visir index`: build an index once, change it, search it, hand it to other engines."""

from __future__ import annotations

from collections.abc import Callable

import typer

from visir.cli.index_build import add_command, build_command, delete_command
from visir.cli.index_parts import DOCUMENT_NAMES, FolderArgument
from visir.cli.index_search import export_command, search_command


def kinds_command() -> None:
    """List the kinds of index with their settings."""
    from rich.table import Table

    from visir.console import Console
    from visir.retrieval.kinds import KINDS, settings_of_kind

    console = Console()
    for name, kind in KINDS.items():
        needs = f"visir[{kind.extra}]" if kind.extra else "core"
        answers = "exact" if kind.exact else "approximate"
        console.print(f"{name}: {kind.title}", style="bold", markup=False)
        console.print(f"  {kind.vectors} vectors, {answers} answers, needs {needs}", markup=False)
        table = Table.grid(padding=(0, 2))
        for setting, default, description in settings_of_kind(kind):
            table.add_row(f"    {setting}={default}", description)
        console.print(table, markup=False)


def info_command(folder: FolderArgument) -> None:
    """Print what an index holds."""
    from rich.table import Table

    from visir.console import Console
    from visir.retrieval.kinds import open_index

    info = open_index(folder).info()
    table = Table("index", str(folder), show_edge=False)
    rows = {
        "kind": f"{info.kind} ({'exact' if info.exact else 'approximate'})",
        "documents": f"{info.documents:,} {DOCUMENT_NAMES[info.modality]}",
        "deleted, not yet removed": f"{info.deleted:,}",
        "dimension": f"{info.dimension:,}",
        "on disk": f"{info.bytes / 1e6:,.1f} MB",
        "encoder": info.encoder,
        **{name: f"{value:,}" if isinstance(value, int) else str(value) for name, value in info.details.items()},
    }
    for name, value in rows.items():
        table.add_row(name.replace("_", " "), value)
    Console().print(table, markup=False)


COMMANDS: dict[str, Callable[..., None]] = {
    "kinds": kinds_command,
    "build": build_command,
    "add": add_command,
    "delete": delete_command,
    "info": info_command,
    "search": search_command,
    "export": export_command,
}
"""What can be done with a single index, in the order of the help; `visir.library` has more for places."""

app = typer.Typer(name="index", help="Build, change, search and export single indexes.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Build, change, search and export single indexes."""


for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
