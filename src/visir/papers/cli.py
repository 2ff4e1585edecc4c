"""`visir papers`: every table of the papers as a command with a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli import output
from visir.cli.options import DryRunOption, JobsOption, out_option
from visir.cli.verbs import group

if TYPE_CHECKING:
    from visir.papers.study import Study
    from visir.papers.verdicts import StudyComparison
    from visir.reports.table import Table
    from visir.studies.experiment import Experiment

Name = Annotated[str, typer.Argument(metavar="NAME", help="A study: visir papers list.", show_default=False)]
Out = Annotated[Path, out_option("the folder of all studies")]
_OUT = Path("runs/studies")
_WIDTH = 130
"""Tables of the papers are wide; a narrower terminal breaks lines, which is better than broken words."""


def _require_torch() -> None:
    """Studies name training recipes, and reading a recipe imports what it builds."""
    from visir.errors import require

    require("torch", extra="torch", purpose="visir papers")


def list_command(out: Out = _OUT) -> None:
    """List every table and figure: whether its data is on this machine, and how far it is."""
    from visir.errors import is_installed

    if not is_installed("torch"):
        from visir.papers.reports.study_list import table
        from visir.papers.surface import studies

        _print(table(studies()))
        output.note("how far each is: pip install 'visir[torch]'")
        return
    from visir.papers.status import all_statuses
    from visir.reports.table import Cell, Column, Table

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
    _require_torch()
    from visir.evaluation.published import as_plain
    from visir.papers.study import read_study
    from visir.reports.table import Column, Table

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
) -> None:
    """Run a study at a scale. Finished cells stay: after an interruption the same command goes on."""
    _require_torch()
    from visir.errors import VisirError
    from visir.papers import study as papers
    from visir.papers.names import names as study_names
    from visir.papers.running import run_study
    from visir.papers.verdicts import compare_cells

    everything = names == ["all"]
    chosen = study_names() if everything else names
    studies = {papers.name_of(name): papers.read_study(name) for name in chosen}
    for name, study in studies.items():
        if everything and scale in papers.SCALES and scale not in study.scales:
            output.line(f"{name}: {study.not_built or f'no scale {scale}'}")
            continue
        study.scale(scale)
        if dry_run:
            _show_scale(study, scale)
            continue
        try:
            cells = run_study(study, name, scale, out, jobs=jobs)
        except VisirError as fault:
            if not everything:
                raise
            output.line(f"{name}: {fault.message.splitlines()[0]}")
            continue
        for line in _run_lines(compare_cells(name, study, scale, cells)):
            output.line(line)
    if not dry_run and not everything:
        output.line("measured beside published: visir papers compare " + " ".join(chosen) + _outside(out))


def compare_command(
    name: Name,
    scale: Annotated[str | None, typer.Option(help="The scale. Default: every one that was run.")] = None,
    out: Out = _OUT,
) -> None:
    """Compare measured with published values: values, orders, the verdicts, and the nearest reading."""
    _require_torch()
    from visir.papers.reports.tables import tables_of
    from visir.papers.surface import comparisons, show

    shown = comparisons(name, scale, out=out)
    for comparison in shown:
        for table in tables_of(comparison):
            _print(table)
        for cell, sentence in comparison.explained:
            output.text(f"→ {cell}: {sentence}")
        for row, sentence in comparison.row_annotations:
            output.text(f"→ R@10 is R@5. {row}: {sentence}")
    for verdict in show(name, out=out).verdicts:
        output.text(f"{verdict.question}: {verdict.answer}: {verdict.reason}", "bold")


def report_command(out: Out = _OUT) -> None:
    """Write one HTML page of all studies, and every table in Markdown, LaTeX and CSV."""
    _require_torch()
    from visir.papers.reports.papers import write_papers_report
    from visir.papers.reports.tables import summary_table
    from visir.papers.status import all_statuses

    statuses = all_statuses(out)
    page = write_papers_report(out, statuses)
    _print(summary_table(statuses))
    output.line(f"report: {page}")


def _show_scale(study: Study, name: str) -> None:
    """What a scale does, on what hardware, and what data it lacks."""
    from visir.papers.running import lacking

    scale, experiments = study.scale(name), study.experiments(name)
    output.line(f"\n{study.paper}, {name}: {scale.description}")
    seeds = ", ".join(map(str, scale.seeds))
    output.line(f"  {len(experiments)} cells, seeds {seeds}; {scale.hardware}, about {_time(scale.hours)}")
    for experiment in experiments:
        output.line(f"  - {_row_of(experiment)}: {experiment.describe()}")
    lacks = lacking(study, name)
    for requirement, rows in lacks.items():
        output.line(f"  lacks {requirement}\n    for {len(rows)} of {len(experiments)}: {'; '.join(rows)}")
    if not lacks:
        output.line("  all data that it needs is on this machine")


def _run_lines(comparison: StudyComparison) -> list[str]:
    """What was run, what failed, what was not run and why; cells, then printed values without a measured one."""
    from visir.papers.reports.tables import missing_lines

    states = ", ".join(f"{comparison.states[state]} {state}" for state in ("done", "failed", "not run"))
    return [f"{comparison.name}, {comparison.scale}: {states}", *(f"  {line}" for line in missing_lines(comparison))]


def _row_of(experiment: Experiment) -> str:
    return f"{experiment.system}, {experiment.collection}" if experiment.collection else experiment.system


def _time(hours: float) -> str:
    return f"{hours:g} h" if hours >= 1 else f"{60 * hours:.0f} min"


def _outside(out: Path) -> str:
    return "" if out == _OUT else f" --out {out}"


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
