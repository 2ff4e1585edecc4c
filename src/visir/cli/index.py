"""`visir index`: build an index once, change it, search it, hand it to other engines."""

from __future__ import annotations

from visir.cli import output
from visir.cli.index_build import add_command, build_command, delete_command
from visir.cli.index_parts import DOCUMENT_NAMES, FolderArgument, place_in_words
from visir.cli.index_search import export_command, search_command
from visir.cli.verbs import group


def kinds_command() -> None:
    """List the kinds of index with their settings."""
    from rich.table import Table

    from visir.retrieval.kinds import KINDS, settings_of_kind

    output.answer(
        {
            name: {
                "title": kind.title,
                "vectors": kind.vectors,
                "exact": kind.exact,
                "extra": kind.extra,
                "settings": {setting: default for setting, default, _ in settings_of_kind(kind)},
            }
            for name, kind in KINDS.items()
        }
    )
    console = output.console_of_verb()
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

    from visir.retrieval.kinds import open_index

    info = open_index(folder).info()
    output.answer({"index": folder.absolute(), **output.plain(info)})
    table = Table("index", str(folder), show_edge=False)
    rows = {
        "kind": f"{info.kind} ({'exact' if info.exact else 'approximate'})",
        "documents": f"{info.documents:,} {DOCUMENT_NAMES[info.modality]}",
        "deleted, not yet removed": f"{info.deleted:,}",
        "dimension": f"{info.dimension:,}",
        "on the server" if info.place else "on disk": place_in_words(info),
        "encoder": info.encoder,
        **{name: f"{value:,}" if isinstance(value, int) else str(value) for name, value in info.details.items()},
    }
    for name, value in rows.items():
        table.add_row(name.replace("_", " "), value)
    output.rich_table(table)


app = group(
    "index",
    "Vector indexes: build, change, search and export them.",
    {
        "build": build_command,
        "add": add_command,
        "delete": delete_command,
        "search": search_command,
        "export": export_command,
        "info": info_command,
        "kinds": kinds_command,
    },
)
