"""`visir sessions describe`: what distinguishes the sessions that buy, as tables, plots and one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_PAGE, _JSON, _TABLES = "report.html", "describe.json", "tables"


def describe(
    sessions: Annotated[
        Path, typer.Argument(metavar="SESSIONS", help="A folder that visir sessions make made.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to make.", show_default=False)],
    suppress: Annotated[
        int, typer.Option(min=0, help="Hide cells of fewer sessions than this, and what would reveal them.")
    ] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Default: one per core.")] = None,
    memory: Annotated[str | None, typer.Option(help="What the engine may hold, for example 2GB.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the folder if it is there.")] = False,
) -> None:
    """Say what distinguishes sessions that buy: length, time, channel, device, switches, queries, with intervals.

    Writes one page, every table as Markdown, LaTeX and CSV, and everything as JSON.
    """
    import shlex
    import sys

    from visir.console import Console
    from visir.reports import to_terminal
    from visir.sessions.description import describe as described
    from visir.sessions.reports.findings import findings
    from visir.sessions.reports.sessions import write_sessions_report, write_sessions_tables
    from visir.sessions.reports.tables import statistic_table, unavailable_table
    from visir.storage import FolderKind, new_folder

    with new_folder(out, FolderKind("description", "a description of sessions"), replace=replace) as change:
        characterisation = described(sessions, suppress=suppress, threads=threads, memory=memory)
        beside = write_sessions_tables(change, _TABLES, characterisation)
        change.write_json(_JSON, characterisation.to_dict())
        beside[_JSON] = "everything on this page, with the ends of all intervals"
        command = shlex.join(["visir", *sys.argv[1:]])
        write_sessions_report(change.file(_PAGE), characterisation, command=command, beside=beside)
    console = Console()
    console.print(to_terminal(statistic_table(characterisation.statistic("table-6-1"))))
    for sentences in findings(characterisation).values():
        for sentence in sentences:
            console.print(sentence, markup=False, highlight=False)
    if any(statistic.unavailable for statistic in characterisation.statistics):
        console.print()
        console.print(to_terminal(unavailable_table(characterisation)))
    console.print(f"report: {out / _PAGE}", soft_wrap=True, highlight=False)
