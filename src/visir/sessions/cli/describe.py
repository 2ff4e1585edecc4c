"""`visir sessions describe`: what distinguishes the sessions that buy, as tables, plots and one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visir.cli import output
from visir.cli.options import (
    MemoryOption,
    NewFolder,
    ReplaceOption,
    ThreadsOption,
)

_PAGE, _JSON, _TABLES = "report.html", "describe.json", "tables"


def describe(
    sessions: Annotated[
        Path, typer.Argument(metavar="SESSIONS", help="A folder that visir sessions make made.", show_default=False)
    ],
    out: NewFolder,
    zone: Annotated[
        str | None, typer.Option(help="Time zone of hours, weekdays and days. Default: the one of the sessions.")
    ] = None,
    suppress: Annotated[
        int, typer.Option(min=0, help="Hide cells of fewer sessions than this, and what would reveal them.")
    ] = 0,
    threads: ThreadsOption = None,
    memory: MemoryOption = None,
    replace: ReplaceOption = False,
) -> None:
    """Say what distinguishes sessions that buy: length, time, channel, device, switches, queries, with intervals.

    Writes one page, every table as Markdown, LaTeX and CSV, and everything as JSON.
    """
    import shlex
    import sys

    from visir.sessions.description import describe as described
    from visir.sessions.reports.findings import findings
    from visir.sessions.reports.sessions import write_sessions_report, write_sessions_tables
    from visir.sessions.reports.tables import statistic_table, unavailable_table
    from visir.storage import FolderKind, new_folder

    with new_folder(out, FolderKind("description", "a description of sessions"), replace=replace) as change:
        characterisation = described(sessions, zone=zone, suppress=suppress, threads=threads, memory=memory)
        beside = write_sessions_tables(change, _TABLES, characterisation)
        change.write_json(_JSON, characterisation.to_dict())
        beside[_JSON] = "everything on this page, with the ends of all intervals"
        command = shlex.join(["visir", *sys.argv[1:]])
        write_sessions_report(change.file(_PAGE), characterisation, command=command, beside=beside)
    output.answer(characterisation.to_dict())
    output.table(statistic_table(characterisation.statistic("table-6-1")))
    for sentences in findings(characterisation).values():
        for sentence in sentences:
            output.text(sentence)
    if any(statistic.unavailable for statistic in characterisation.statistics):
        output.table(unavailable_table(characterisation))
    output.note(f"report: {out / _PAGE}")
