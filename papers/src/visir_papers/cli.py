"""`visir papers`: every table of the papers as a command with a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli import output
from visir.cli.options import DryRunOption, JobsOption, out_option
from visir.cli.verbs import group

if TYPE_CHECKING:
    from visir.reports.table import Table
    from visir_papers.study import Study

Name = Annotated[str, typer.Argument(metavar="NAME", help="A study: visir papers list.", show_default=False)]
Out = Annotated[Path, out_option("the folder of all studies")]
Reading = Annotated[
    str | None,
    typer.Option(help='Where a text and its table differ, one reading of the protocol: "as published". Default: all.'),
]
_OUT = Path("runs/studies")
_WIDTH = 130
"""Tables of the papers are wide; a narrower terminal breaks lines, which is better than broken words."""


def list_command(out: Out = _OUT) -> None:
    """List every table and figure: whether its data is on this machine, and how far it is."""
    from visir.errors import is_installed
    from visir.reports.table import Cell, Column, Table
    from visir_papers.reports.pages import table
    from visir_papers.status import all_statuses, studies

    if not is_installed("torch"):
        _print(table(studies()))
        output.note("how far each is: pip install 'visir[torch]'")
        return
    rows: list[list[Cell]] = []
    for status in all_statuses(out):
        available = [f"{scale} {number}/{count}" for scale, (number, count) in status.available_cells.items()]
        state = status.state + (f": {status.study.not_built}" if status.study.not_built else "")
        rows.append([status.name, status.study.title, ", ".join(available) or None, state])
    columns = [Column("name"), Column("title"), Column("cells with data"), Column("state")]
    _print(
        Table.of(
            columns,
            rows,
            notes=[
                "cells with data: for how many rows of the table data and weights are on this machine, at each scale",
                "smoke: generated data; replica: other real data; logs: the authors' runs; full: the paper's own data",
            ],
        )
    )


def show_command(name: Name) -> None:
    """Show what a table claims, its published values with doubts, and what each scale does and lacks."""
    from visir.evaluation.published import as_plain
    from visir.reports.table import Column, Table
    from visir_papers.status import require_torch
    from visir_papers.study import read_study

    require_torch()
    study = read_study(name)
    output.text(f"{study.paper}: {study.title}", "bold")
    output.text(study.claims)
    table = study.table()
    if table is not None:
        plain = as_plain(table)
        columns = [Column("row"), *map(Column, plain.columns)]
        marked = [
            [
                row,
                *(cell + " ?" * bool(plain.doubt(row, name)) for name, cell in zip(plain.columns, cells, strict=True)),
            ]
            for row, cells in plain.rows.items()
        ]
        notes = [f"source: {plain.source}", *plain.notes]
        notes += [
            f"?: {', '.join(filter(None, (doubt.row, doubt.column)))}: {doubt.reason}" for doubt in plain.doubtful
        ]
        _print(Table.of(columns, marked, caption=plain.title, notes=notes))
    for finding in study.findings:
        output.text(f"→ Text and print disagree. {finding}")
    for reading, sentence in study.readings.items():
        output.text(f"{reading}: {sentence}")
    if study.not_built:
        output.text(f"not built yet: {study.not_built}")
    for scale in study.scales:
        _show_scale(study, scale)


def run_command(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Studies, or all of them: all.", show_default=False)
    ],
    scale: Annotated[
        str, typer.Option(help="The scale: smoke, generated data; replica, other real data; logs, authors' runs; full.")
    ] = "smoke",
    out: Out = _OUT,
    jobs: JobsOption = None,
    dry_run: DryRunOption = False,
    reading: Reading = None,
) -> None:
    """Run a study at a scale. Finished cells stay: after an interruption the same command goes on."""
    import visir_papers.study as papers
    from visir.errors import VisirError
    from visir_papers.reports.tables import missing_lines
    from visir_papers.status import require_torch, run

    require_torch()
    everything = names == ["all"]
    chosen = {name: papers.read_study(name) for name in (papers.names() if everything else names)}
    for name, study in chosen.items():
        if everything and scale in papers.SCALES and scale not in study.scales:
            output.line(f"{name}: {study.not_built or f'no scale {scale}'}")
            continue
        if everything and reading is not None and reading not in study.readings:
            continue
        study.scale(scale)
        if dry_run:
            _show_scale(study, scale, reading)
            continue
        try:
            comparison = run(name, scale, out=out, jobs=jobs, reading=reading)
        except VisirError as fault:
            if not everything:
                raise
            output.line(f"{name}: {fault.message.splitlines()[0]}")
            continue
        states = ", ".join(f"{comparison.states[state]} {state}" for state in ("done", "failed", "not run"))
        output.line(f"{comparison.name}, {comparison.scale}: {states}")
        for line in missing_lines(comparison):
            output.line(f"  {line}")
    if not dry_run and not everything:
        elsewhere = "" if out == _OUT else f" --out {out}"
        output.line(f"measured beside published: visir papers compare {' '.join(chosen)}{elsewhere}")


def compare_command(
    name: Name,
    scale: Annotated[str | None, typer.Option(help="The scale. Default: every one that was run.")] = None,
    out: Out = _OUT,
    reading: Reading = None,
) -> None:
    """Compare measured with published values: values, orders, the verdicts, and the nearest reading."""
    from visir_papers.reports.tables import tables_of
    from visir_papers.status import comparisons, show

    status = show(name, out=out, reading=reading)
    for comparison in comparisons(status, name, scale, out):
        for table in tables_of(comparison):
            _print(table)
        for cell, sentence in comparison.explained:
            output.text(f"→ {cell}: {sentence}")
        for row, sentence in comparison.row_annotations:
            output.text(f"→ R@10 is R@5. {row}: {sentence}")
    for finding in status.study.findings:
        output.text(f"→ Text and print disagree. {finding}")
    for verdict in status.verdicts:
        output.text(f"{verdict.question}: {verdict.answer}: {verdict.reason}", "bold")


def report_command(out: Out = _OUT) -> None:
    """Write one HTML page of all studies, and every table in Markdown, LaTeX and CSV."""
    from visir_papers.reports.pages import write_papers_report
    from visir_papers.reports.tables import summary_table
    from visir_papers.status import all_statuses, require_torch

    require_torch()
    statuses = all_statuses(out)
    page = write_papers_report(out, statuses)
    _print(summary_table(statuses))
    output.line(f"report: {page}")


def _show_scale(study: Study, name: str, reading: str | None = None) -> None:
    """What a scale does, on what hardware, and what data it lacks."""
    from visir_papers.cells import lacking

    scale, experiments = study.scale(name), study.experiments(name, reading)
    output.line(f"\n{study.paper}, {name}: {scale.description}")
    seeds = ", ".join(map(str, scale.seeds))
    output.line(f"  {len(experiments)} cells, seeds {seeds}; {scale.hardware}, about {_time(scale.hours)}")
    for experiment in experiments:
        output.line(f"  - {experiment.row}: {experiment.describe()}")
    lacks = lacking(study, name, reading)
    for requirement, rows in lacks.items():
        output.line(f"  lacks {requirement}\n    for {len(rows)} of {len(experiments)}: {'; '.join(rows)}")
    if not lacks:
        output.line("  all data that it needs is on this machine")


def _time(hours: float) -> str:
    return f"{hours:g} h" if hours >= 1 else f"{60 * hours:.0f} min"


def _print(table: Table) -> None:
    output.table(table, _WIDTH)


app = group(
    "papers",
    "Tables and figures of the papers: run them, and compare.",
    {
        "list": list_command,
        "show": show_command,
        "run": run_command,
        "compare": compare_command,
        "report": report_command,
    },
)
