"""`visir compare`: results beside one another, or beside published values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visir.cli import output
from visir.cli.options import (
    CorrectionOption,
    MeasureOption,
    PublishedCollectionOption,
    PublishedOption,
    PublishedSystems,
    SeedOption,
)
from visir.cli.verbs import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from visir.evaluation.published import Judgement
    from visir.records import Result


@examples(
    "visir compare results/clip results/siglip",
    "visir compare results/clip --published brittleness-table-2 --as CLIP",
    "visir compare bm25.trec mine.trec --qrels qrels.txt --measure nDCG@10",
)
def compare(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULT…",
            help="Folders that visir evaluate --out or visir classify --out wrote, or runs with --qrels; the first "
            "is the baseline.",
        ),
    ],
    qrels: Annotated[
        Path | None, typer.Option(help="Judgements (TREC, TSV, CSV, JSON), when the results are files of runs.")
    ] = None,
    published: PublishedOption = None,
    system: PublishedSystems = None,
    collection: PublishedCollectionOption = None,
    tolerance: Annotated[float, typer.Option(help="Relative tolerance for published values.")] = 0.05,
    measure: MeasureOption = None,
    test: Annotated[str, typer.Option(help="t, randomisation or wilcoxon.")] = "t",
    correction: CorrectionOption = "holm",
    unit: Annotated[
        str | None,
        typer.Option(
            help="What is a sample: image, with all its captions (default), or caption, which finds too much."
        ),
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="A protocol field that may differ; all others may not. Repeatable.")
    ] = None,
    seed: SeedOption = 0,
) -> None:
    """Say whether systems differ, with significance.

    Say whether systems differ, query by query, with significance; or whether published values are reproduced.

    Results of different protocols are refused with the list of differences, unless each is allowed by name.
    """
    from visir.errors import ConfigurationError
    from visir.evaluation.compare import compare as compare_results
    from visir.evaluation.compare import result_in
    from visir.reports import comparison_table

    if qrels is not None:
        if published is not None:
            raise ConfigurationError(
                "--published is for results, and --qrels for runs.",
                hint="visir evaluate … --run t2i=mine.trec --out runs/mine, then visir compare runs/mine --published …",
            )
        runs = {name: str(path) for name, path in zip(_names(results), results, strict=True)}
        comparison = compare_results(
            runs,
            qrels=qrels,
            measures=measure,
            test=test,  # type: ignore[arg-type]
            correction=correction,  # type: ignore[arg-type]
            allow=allow or (),
            unit=unit,  # type: ignore[arg-type]
            seed=seed,
        )
        output.facts(comparison=comparison)
        output.table(comparison_table(comparison))
        return
    loaded = [result_in(folder) for folder in results]
    if published is not None:
        _beside_published(loaded, published, system, collection, tolerance)
        if len(loaded) == 1:
            return
    comparison = compare_results(
        loaded,
        measures=measure,
        test=test,  # type: ignore[arg-type]
        correction=correction,  # type: ignore[arg-type]
        allow=allow or (),
        unit=unit,  # type: ignore[arg-type]
        seed=seed,
    )
    output.facts(comparison=comparison)
    output.table(comparison_table(comparison))


def _names(paths: list[Path]) -> list[str]:
    """Names of the files of runs without their endings; where two are alike whole paths, or paths with numbers."""
    stems, whole = [path.stem for path in paths], [str(path) for path in paths]
    numbered = [f"{name} ({number})" for number, name in enumerate(whole, 1)]
    return next((names for names in (stems, whole) if len(set(names)) == len(names)), numbered)


def _beside_published(
    results: list[Result], published: str, names: list[str] | None, collection: str | None, tolerance: float
) -> None:
    from visir.cli.explain import show_doubts
    from visir.errors import ConfigurationError
    from visir.evaluation.published import judge, load, orders
    from visir.evaluation.results import remarks

    table = load(published)
    if names is not None and len(names) != len(results):
        raise ConfigurationError(f"{len(names)} --as for {len(results)} results.", hint="name each, in order")
    systems = names or [result.system for result in results]
    if collection is None and len(table.collections) > 1:
        collection = results[0].protocol.collection
    only = systems[0] if len(table.systems) > 1 or len(systems) > 1 else None
    output.text(f"{table.title}\n{table.source}", "dim")
    for result, name in zip(results, systems, strict=True):
        row = table.row(name if only else None, collection)
        judged = judge(
            result.aggregates, row, recall=result.protocol.recall, decimals=table.decimals, tolerance=tolerance
        )
        output.rich_table(_judged(judged, table.decimals))
        output.facts(published=[*output.current().facts.get("published", ()), *judged])
        within = sum(judgement.within for judgement in judged)
        digits = sum(judgement.digits != "off" for judgement in judged)
        verdict = f"{within} of {len(judged)} values within ±{100 * tolerance:g} %, {digits} to the printed digits"
        read_as = f"R@k read as {result.protocol.recall}@k"
        output.text(f"{result.system}: {verdict} ({read_as})")
        show_doubts(table, row, [(judgement.task, judgement.label) for judgement in judged])
        for remark in remarks(row, result.protocol):
            output.text(f"→ {remark}", "bold")
    if len(results) > 1:
        ours = {name: result.aggregates for name, result in zip(systems, results, strict=True)}
        for order in orders(ours, table, collection=collection, recall=results[0].protocol.recall):
            verdict = (
                "kept"
                if order.is_kept
                else "not kept: " + "; ".join(f"{above} should be above {below}" for above, below in order.swapped)
            )
            output.text(f"order of systems, {order.task} {order.label}: {verdict}")


def _judged(judged: Sequence[Judgement], decimals: int) -> Table:
    from rich import box
    from rich.table import Table

    from visir.evaluation.published.judge import decimals_of

    printed = Table(box=box.SIMPLE_HEAD)
    for heading in ("", "read as"):
        printed.add_column(heading)
    for heading in ("published", "here", "difference"):
        printed.add_column(heading, justify="right", no_wrap=True)
    for heading in ("within", "digits"):
        printed.add_column(heading)
    for judgement in judged:
        printed.add_row(
            f"{judgement.task} {judgement.label}",
            judgement.measure,
            f"{judgement.published:.{decimals_of(judgement.label, decimals)}f}",
            f"{judgement.ours:.{decimals_of(judgement.label, decimals)}f}",
            f"{judgement.relative:+.1%}",
            "yes" if judgement.within else "no",
            judgement.digits,
        )
    return printed
