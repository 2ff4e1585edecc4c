"""`visir sessions make`: raw events in, sessions out, everything counted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli import output
from visir.cli.options import (
    MemoryOption,
    NewFolder,
    ReplaceOption,
    ThreadsOption,
)
from visir.cli.verbs import examples
from visir.sessions.cli.mappings import MappingOption, PresetOption

if TYPE_CHECKING:
    from visir.sessions import LogCounts, LogMapping


@examples(
    "visir sessions make log/ --preset events --out sessions",
)
def make(
    log: Annotated[
        list[Path], typer.Argument(metavar="LOG...", help="Files, folders or tar archives.", show_default=False)
    ],
    out: NewFolder,
    preset: PresetOption = None,
    mapping: MappingOption = None,
    idle: Annotated[float, typer.Option(help="More minutes than this without a request end a session.")] = 30.0,
    zone: Annotated[
        str | None,
        typer.Option(help="Time zone of hours, weekdays and days. Default: the mapping's."),
    ] = None,
    location: Annotated[
        list[str] | None, typer.Option(help="Accept events of this location only; several times for several.")
    ] = None,
    buckets: Annotated[int | None, typer.Option(min=1, help="Parts of the work. Default: by the log's rows.")] = None,
    threads: ThreadsOption = None,
    memory: MemoryOption = None,
    replace: ReplaceOption = False,
) -> None:
    """Find the sessions of a raw log.

    Find the sessions of a raw log. Rejected rows are counted by reason and written beside them.
    """
    from visir.sessions import LogCounts
    from visir.sessions import make as make_sessions

    made = make_sessions(
        log,
        out,
        mapping=_mapping(preset, mapping),
        idle_minutes=idle,
        zone=zone,
        locations=location or (),
        buckets=buckets,
        threads=threads,
        memory=memory,
        replace=replace,
    )
    output.facts(out=out.absolute(), **made.counts)
    _show(LogCounts(**made.counts), out)
    for sentence in made.advice:
        output.note(sentence)


def _mapping(name: str | None, path: Path | None) -> LogMapping:
    from visir.errors import ConfigurationError
    from visir.sessions import load_mapping, preset, presets

    if name is not None and path is None:
        return preset(name)
    if path is not None and name is None:
        return load_mapping(path)
    raise ConfigurationError(
        "sessions make: say how the log's columns become events, in one of two ways.",
        hint=f"--preset NAME ({', '.join(presets())}) or --mapping FILE",
    )


def _show(counts: LogCounts, out: Path) -> None:
    """Every count with what it means; reasons and flags that did not occur are left out."""
    from rich.table import Table

    from visir.sessions import FLAGS, REASONS
    from visir.sessions.counts import passed_over_words

    def share(part: int, whole: int) -> str:
        return f"{part / whole:.2%}" if whole else ""

    table = Table("", "count", "share", "what it is", show_edge=False)
    for column in table.columns[1:3]:
        column.justify = "right"
    table.add_row("rows read", f"{counts.read:,}", "", "")
    table.add_row("accepted", f"{counts.accepted:,}", share(counts.accepted, counts.read), "of the rows")
    for reason, count in counts.rejected.items():
        if count:
            table.add_row(f"  rejected: {reason}", f"{count:,}", share(count, counts.read), REASONS[reason])
    for flag, count in counts.flags.items():
        if count:
            table.add_row(f"  accepted: {flag}", f"{count:,}", share(count, counts.read), FLAGS[flag])
    if counts.malformed:
        table.add_row("malformed lines", f"{counts.malformed:,}", "", "no rows; listed in malformed.parquet")
    if counts.passed_over:
        table.add_row("files passed over", f"{len(counts.passed_over):,}", "", passed_over_words(counts.passed_over))
    table.add_row("visitors", f"{counts.visitors:,}", "", "")
    table.add_row("sessions", f"{counts.sessions:,}", "", "")
    for name, part, whole, meaning in (
        ("identified", counts.identified, counts.sessions, "of the sessions: a customer is known"),
        ("with a purchase", counts.purchases, counts.sessions, "of the sessions"),
        ("both", counts.purchases_identified, counts.purchases, "of the purchase sessions are identified"),
    ):
        table.add_row(f"  {name}", f"{part:,}", share(part, whole), meaning)
    if counts.purchases_without_page:
        part, meaning = counts.purchases_without_page, "of the purchase sessions: no page to learn from"
        table.add_row("  without a page", f"{part:,}", share(part, counts.purchases), meaning)
    if not output.wants_json():
        output.rich_table(table)
    if counts.read and not counts.accepted:
        most = max(counts.rejected, key=lambda reason: counts.rejected[reason])
        output.line(f"no row was accepted, most because of {most}: are the mapping's columns, unit and limits right?")
    output.line(f"{out}: sessions, events, rejected, counts.json")
