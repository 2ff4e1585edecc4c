"""`visir study`: every table of the papers as a command with a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from visir.papers.standing import Standing
    from visir.papers.study import Study
    from visir.reports.table import Table

app = typer.Typer(
    name="study",
    help="Every table and figure of the papers: run it, and put it beside what is printed.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A study: visir study list.", show_default=False)]
Out = Annotated[Path, typer.Option("--out", "-o", help="The folder of all studies.")]
_OUT = Path("runs/studies")
_WIDTH = 130
"""Tables of the papers are wide; a narrower terminal breaks lines, which is better than broken words."""


@app.callback()
def _root() -> None:
    """Every table and figure of the papers: run it, and put it beside what is printed."""


def _require_torch() -> None:
    """What a table is made of is said by recipes of training, which are read by what they build."""
    from visir.errors import require

    require("torch", extra="torch", purpose="visir study")


@app.command("list")
def list_command(out: Out = _OUT) -> None:
    """List every table and figure: whether its data is at hand, and how far it is."""
    _require_torch()
    from visir.papers.standing import standings
    from visir.reports.table import Cell, Column, Table

    rows: list[list[Cell]] = []
    for one in standings(out):
        at_hand = [f"{scale} {there}/{count}" for scale, (there, count) in one.at_hand.items()]
        state = one.state + (f": {one.study.not_built}" if one.study.not_built else "")
        rows.append([one.name, one.study.title, ", ".join(at_hand) or None, state])
    columns = [Column("name"), Column("what"), Column("cells at hand"), Column("state")]
    _print(
        Table.of(
            columns,
            rows,
            notes=[
                "cells at hand: for how many rows of the table data and weights are here, at each scale",
                "smoke: generated data; replica: other real data; logs: the authors' runs; full: the paper's own data",
            ],
        )
    )


@app.command("show")
def show_command(name: Name) -> None:
    """Show what a table claims, its published values with doubts, and what each scale does and lacks."""
    _require_torch()
    from visir.console import Console
    from visir.evaluation.published import as_plain
    from visir.papers.study import read_study
    from visir.reports.table import Column, Table

    study = read_study(name)
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{study.paper}: {study.title}", style="bold", markup=False)
    console.print(study.claims, markup=False)
    table = study.table()
    if table is not None:
        plain = as_plain(table)
        columns = [Column("row"), *(Column(one) for one in plain.columns)]
        marked = [
            [row, *(cell + " ?" * bool(plain.doubt(row, at)) for at, cell in zip(plain.columns, cells, strict=True))]
            for row, cells in plain.rows.items()
        ]
        notes = [f"source: {plain.source}", *plain.notes]
        notes += [f"?: {', '.join(filter(None, (one.row, one.column)))}: {one.reason}" for one in plain.doubtful]
        _print(Table.of(columns, marked, caption=plain.title, notes=notes))
    if study.not_built:
        console.print(f"not built yet: {study.not_built}", markup=False)
    for scale in study.scales:
        _show_scale(study, scale)


@app.command("run")
def run_command(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Studies, or all of them: all.", show_default=False)
    ],
    scale: Annotated[
        str, typer.Option(help="smoke: generated data; replica: other real data; logs: authors' runs; full.")
    ] = "smoke",
    out: Out = _OUT,
    jobs: Annotated[int | None, typer.Option(min=1, help="Cells side by side. Default: one per core.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run, and what is missing.")] = False,
) -> None:
    """Run a study at a scale; what is finished is kept, so that the same command goes on where it was stopped."""
    _require_torch()
    from visir.errors import VisirError
    from visir.papers import study as papers
    from visir.papers.run import run

    everything = names == ["all"]
    chosen = papers.names() if everything else names
    studies = {papers.name_of(one): papers.read_study(one) for one in chosen}
    for name, study in studies.items():
        if everything and scale in papers.SCALES and scale not in study.scales:
            typer.echo(f"{name}: {study.not_built or f'no scale {scale}'}")
            continue
        study.scale(scale)
        if dry_run:
            _show_scale(study, scale)
            continue
        try:
            cells = run(study, name, scale, out, jobs=jobs)
        except VisirError as fault:
            if not everything:
                raise
            typer.echo(f"{name}: {fault.message.splitlines()[0]}")
            continue
        states = ", ".join(
            f"{sum(one.state == state for one in cells)} {state}" for state in ("done", "failed", "not run")
        )
        typer.echo(f"{name}, {scale}: {states}")
        for one in cells:
            if one.state == "failed":
                typer.echo(f"  failed: {one.system} {one.collection} seed {one.seed}: {one.reason}")
    if not dry_run and not everything:
        typer.echo("measured beside published: visir study compare " + " ".join(chosen) + _outside(out))


@app.command("compare")
def compare_command(
    name: Name,
    scale: Annotated[str | None, typer.Option(help="One scale only. Default: every one that was run.")] = None,
    out: Out = _OUT,
) -> None:
    """Put measured values beside published ones: verdicts, orders, the three answers, and the nearest reading."""
    _require_torch()
    from visir.console import Console
    from visir.errors import VisirError
    from visir.papers.reports.papers import tables_of
    from visir.papers.standing import standing

    found = standing(name, out)
    if scale is not None:
        found.study.scale(scale)
    shown = [one for one in found.verdicts if scale in (None, one.scale)]
    if not shown:
        raise VisirError(
            f"{name}: nothing was run{f' at the scale {scale}' if scale else ''} in {out}.",
            hint=found.study.not_built or f"visir study run {name} --scale {scale or 'smoke'}",
        )
    console = Console(highlight=False, soft_wrap=True)
    for verdict in shown:
        for table in tables_of(verdict):
            _print(table)
        for cell, sentence in verdict.explained:
            console.print(f"→ {cell}: {sentence}", markup=False)
        for row, sentence in verdict.marks:
            console.print(f"→ R@10 is R@5. {row}: {sentence}", markup=False)
    for one in found.answers:
        console.print(f"{one.question}: {one.answer}: {one.because}", style="bold", markup=False)


@app.command("report")
def report_command(out: Out = _OUT) -> None:
    """Write one HTML page of all studies, and every table in Markdown, LaTeX and CSV."""
    _require_torch()
    from visir.papers.reports.papers import summary_table, write_papers_report
    from visir.papers.standing import standings

    found: list[Standing] = standings(out)
    page = write_papers_report(out, found)
    _print(summary_table(found))
    typer.echo(f"report: {page}")


def _show_scale(study: Study, name: str) -> None:
    """What a scale does, with what, and what it lacks: by name and place."""
    from visir.papers.run import lacking

    scale, acts = study.scale(name), study.acts(name)
    typer.echo(f"\n{study.paper}, {name}: {scale.says}")
    typer.echo(
        f"  {len(acts)} cells, seeds {', '.join(map(str, scale.seeds))}; {scale.hardware}, about {_time(scale.hours)}"
    )
    for act in acts:
        typer.echo(f"  - {act.system}{f', {act.collection}' if act.collection else ''}: {act.what()}")
    lacks = lacking(study, name)
    for place, systems in lacks.items():
        typer.echo(f"  lacks {place}\n    for {len(systems)} of {len(acts)}: {'; '.join(systems)}")
    if not lacks:
        typer.echo("  everything that it needs is at hand")


def _time(hours: float) -> str:
    return f"{hours:g} h" if hours >= 1 else f"{60 * hours:.0f} min"


def _outside(out: Path) -> str:
    return "" if out == _OUT else f" --out {out}"


def _print(table: Table) -> None:
    from visir.console import Console
    from visir.reports import to_terminal

    Console(width=max(Console().width, _WIDTH)).print(to_terminal(table))
