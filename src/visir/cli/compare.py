"""`visir compare`: results beside one another, or beside published values."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from visir.cli import output
from visir.cli.options import argument, option
from visir.cli.verbs import Call, calls, examples, reports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visir.evaluation.explaining import Explanation
    from visir.evaluation.published import Published, PublishedRow
    from visir.evaluation.results import Evaluation
    from visir.records import Collection, Protocol, Result, Vectors


@calls(
    "visir.evaluation.compare:compare",
    qrels=option(kind=Path),
    measures=option(to="measure"),
    allow=option(default=None),
)
@examples(
    "visir compare results/clip results/siglip",
    "visir compare results/clip --published brittleness-table-2 --as CLIP",
    "visir compare bm25.trec mine.trec --qrels qrels.txt --measure nDCG@10",
)
@reports
def compare(
    results: Annotated[list[Path], argument("RESULT…")],
    call: Call,
    published: str | None = None,
    system: Annotated[list[str] | None, option("--as")] = None,
    collection: Annotated[str | None, option("--on")] = None,
    tolerance: float = 0.05,
    out: Path | None = None,
    replace: bool = False,
) -> None:
    """Say whether systems differ, with significance.

    Say whether systems differ, query by query, with significance; or whether published values are reproduced.

    Results of different protocols are refused with the list of differences, unless each is allowed by name.

    Args:
        results: Folders that visir evaluate --out or visir classify --out wrote, or runs with --qrels; the first is the
            baseline.
        allow: A protocol field that may differ; all others may not. Repeatable.
        system: The system's name in the published table: one for each result, in their order.
        collection: The collection's name in the published table.
        tolerance: Relative tolerance for published values.
        out: Where to write: a new folder for the page, the tables and what visir report reads.
    """
    from visir.errors import ConfigurationError, raise_faults
    from visir.evaluation.compare import result_in
    from visir.reports.report import REPORT
    from visir.reports.views.evaluation import comparison_report
    from visir.storage import check_new_folder

    faults = []
    if not 0 <= tolerance < math.inf:
        faults.append(f"--tolerance {tolerance:g}: a share of the published value, 0 or more: 0.05")
    if published is None and (system or collection):
        given = [name for name, value in (("--as", system), ("--on", collection)) if value]
        faults.append(f"{' and '.join(given)}: a place in a published table, which is not named (--published)")
    if published is not None and system is not None and len(system) != len(results):
        faults.append(f"{len(system)} --as for {len(results)} results: name each, in order")
    if published is not None and call.given["qrels"] is not None:
        faults.append(
            "--published is for results, and --qrels for runs: visir evaluate … --run t2i=mine.trec --out FOLDER"
        )
    raise_faults(ConfigurationError, "compare", faults, hint="visir compare RESULT --published TABLE --as SYSTEM")
    if out is not None:
        check_new_folder(out, REPORT, replace=replace)

    allow = call.given["allow"] or ()
    if call.given["qrels"] is not None:
        runs = {name: str(path) for name, path in zip(_names(results), results, strict=True)}
        comparison = call(None, runs, allow=allow)
    else:
        loaded = [result_in(folder) for folder in results]
        if published is not None:
            _beside_published(loaded, published, system, collection, tolerance)
            if len(loaded) == 1:
                return
        comparison = call(None, loaded, allow=allow)
    output.facts(comparison=comparison)
    output.finish(comparison_report(comparison), out=out)


def _names(paths: list[Path]) -> list[str]:
    """Names of the files of runs without their endings; where two are alike what differs in their paths."""
    absolute = [path.absolute() for path in paths]
    shared = Path(os.path.commonpath([path.parent for path in absolute]))
    stems, short = [path.stem for path in paths], [str(path.relative_to(shared)) for path in absolute]
    numbered = [f"{name} ({number})" for number, name in enumerate(short, 1)]
    return next((names for names in (stems, short) if len(set(names)) == len(names)), numbered)


def _beside_published(
    results: list[Result], published: str, names: list[str] | None, collection: str | None, tolerance: float
) -> None:
    from visir.evaluation.published import judge, load, orders
    from visir.evaluation.published.denominators import remarks
    from visir.reports import published_table

    table = load(published)
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
        output.table(published_table(judged, system=result.system, decimals=table.decimals, tolerance=tolerance))
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


# `visir explain`: under which protocol was a published number computed?


@examples(
    "visir explain results/clip --published brittleness-table-2 --as CLIP",
    "visir explain results/clip --published paper.json --data flickr8k/ --model openai/clip-vit-base-patch32",
    "visir explain results/clip --published paper.json --direction t2i",
    'visir explain --published "t2i R@1=37.82,R@5=82.36,R@10=82.48" --on Flickr30k --stated 1000',
)
@reports
def explain(
    result: Annotated[Path | None, argument("RESULT_OR_RUN")] = None,
    published: str = "",
    system: Annotated[str | None, option("--as")] = None,
    row: Annotated[str | None, option("--on")] = None,
    direction: str | None = None,
    data: str | None = None,
    model: str | None = None,
    also: Annotated[list[str] | None, option(metavar="SPLIT")] = None,
    stated: list[int] | None = None,
    limit: int = 5,
) -> None:
    """Find the protocol that gives a published number.

    Find the plainest reading of the protocol that gives the published values to all printed digits. Without a result,
    find the numbers of queries that can give these digits.

    Readings: split, captions, candidates, folds, similarity, ties, recall, cutoffs, unit, digits and more. What cannot
    be computed is listed with the reason, and what to give.

    Args:
        result: A folder that visir evaluate --out wrote, or a log of the brittleness paper. Left out: the digits alone
            say how many queries there were.
        published: Published values: a JSON, TOML or CSV file, the name of an installed table, or the values themselves,
            "t2i R@1=37.82,R@5=82.36". (required)
        system: The system's name in the published table.
        row: The collection's name in the published table.
        direction: t2i or i2t: explain the values of this direction only. Default: both.
        data: A collection: that of the result. With --model, other splits, candidates and similarities are tried.
        also: A further split whose vectors are computed, or all. Repeatable. Default: val and test, and whatever a file
            of vectors holds.
        stated: Without a result: a number of queries that a paper states, to be judged too. Repeatable.
        limit: How many readings are shown.
    """
    from visir.errors import ConfigurationError, raise_faults
    from visir.evaluation.explaining import explain as explain_run
    from visir.evaluation.published.judge import published_row, values_or_table

    faults = [] if published else ["--published is missing: a file, the name of a table, or values"]
    if result is None:
        others = {"--direction": direction, "--data": data, "--model": model, "--also": also}
        faults += [f"{name} goes with a result" for name, value in others.items() if value]
    elif stated:
        faults.append("--stated is for digits alone, without a result")
    raise_faults(ConfigurationError, "explain", faults, hint='visir explain --published "t2i R@1=37.82,R@5=82.36"')
    if result is None:
        _show_denominators(published, stated or (), system, row)
        return
    table = values_or_table(published)
    evaluation, source, vectors = _at_hand(result, data, model, also)
    explanation = explain_run(
        evaluation, table, source=source, vectors=vectors, direction=direction, system=system, collection=row
    )
    tasks = [direction] if direction else list(evaluation.runs)
    of = (evaluation.system, evaluation.protocol.collection)
    decimals = published_row(table, tasks, system=system, collection=row, of=of)[1]
    output.answer(
        {
            "sentence": explanation.sentence,
            "verdict": explanation.verdict,
            "accidents": explanation.accidents,
            "remarks": explanation.remarks,
            "ranks": explanation.scored,
            "readings": [
                {
                    "reading": str(fit.reading),
                    "fits": fit.fits,
                    "distance": fit.distance,
                    "reproduced": fit.reproduced,
                    "values": fit.values,
                    "same": [str(item) for item in fit.same],
                }
                for fit in explanation.fits[:limit]
            ],
            "not_computable": dict(explanation.not_computable),
        }
    )
    _show_explanation(explanation, limit, decimals)


def _show_denominators(published: str, queries: Sequence[int], system: str | None, collection: str | None) -> None:
    from visir.evaluation.published import denominators
    from visir.reports.tables import denominators_table

    digits = denominators(published, queries=queries, system=system, collection=collection)
    output.answer({"sentence": digits.sentence, "rows": digits.rows, "left_out": digits.left_out})
    output.table(denominators_table(digits))
    output.text(f"→ {digits.sentence}", "bold")


def _show_explanation(explanation: Explanation, limit: int, decimals: int) -> None:
    """Readings are numbered and listed below the values: their words would not fit beside them."""
    from rich import box
    from rich.table import Table

    from visir.evaluation.published.judge import decimals_of

    console = output.console_of_verb()
    fits = explanation.fits[:limit]
    values = Table(box=box.SIMPLE_HEAD)
    values.add_column("", no_wrap=True)
    for heading in ("published", *(f"[{number}]" for number in range(1, len(fits) + 1))):
        values.add_column(heading.replace("[", "\\["), justify="right", no_wrap=True)
    names = {(value.task, value.label): value.published for fit in fits for value in fit.values}
    for (task, label), published in names.items():
        printed = decimals_of(label, decimals)
        cells = [f"{task} {label}", f"{published:.{printed}f}"]
        for fit in fits:
            ours = [value for value in fit.values if (value.task, value.label) == (task, label)]
            digits = f"{ours[0].ours:.{printed}f}" if ours else "–"
            cells.append(f"[bold]{digits}[/bold]" if ours and ours[0].digits != "off" else digits)
        values.add_row(*cells)
    console.print(values)
    console.print(f"Ranks: {explanation.scored}", markup=False, soft_wrap=True)
    console.print("Bold: to the printed digits. Readings, those that fit first (mean relative difference):")
    for number, fit in enumerate(fits, 1):
        exact = f"{fit.reproduced} of {len(fit.values)} to the printed digits"
        console.print(f"[{number}] {fit.reading}: {fit.distance:.2%}, {exact}", markup=False, soft_wrap=True)
        if fit.same:
            same = " / ".join(map(str, fit.same))
            console.print(f"    the same numbers come from: {same}", style="dim", markup=False, soft_wrap=True)
    if len(explanation.fits) > limit:
        console.print(f"{len(explanation.fits) - limit} further readings are not shown (--limit)", style="dim")
    console.print("Not computable from what is at hand:", style="dim")
    by_reason: dict[str, list[str]] = {}
    for reading, reason in explanation.not_computable:
        by_reason.setdefault(reason, []).append(reading)
    for reason, readings in by_reason.items():
        console.print(f"- {'; '.join(readings)}: {reason}", style="dim", soft_wrap=True, markup=False)
    for sentence in (explanation.sentence, *explanation.remarks):
        console.print(f"\n→ {sentence}", style="bold", markup=False, soft_wrap=True)


def show_doubts(table: Published, row: PublishedRow, values: Sequence[tuple[str, str]]) -> None:
    """Which of these (task, label) are doubtful in print, and why: once for each reason."""

    doubts = {label: table.doubt(row, *label) for label in values}
    for reason in dict.fromkeys(filter(None, doubts.values())):
        about = ", ".join(" ".join(name) for name, doubt in doubts.items() if doubt == reason)
        output.console_of_verb().print(
            f"doubtful in print, {about}: {reason}", style="dim", markup=False, soft_wrap=True
        )


def _at_hand(
    path: Path, collection: str | None, model: str | None, also: list[str] | None
) -> tuple[Evaluation, Collection | None, tuple[Vectors, Vectors] | None]:
    """What readings are computed from: a result, and its collection and vectors where they are given."""
    from visir.errors import ConfigurationError
    from visir.evaluation.brittleness_runs import evaluate_log, is_log, read
    from visir.evaluation.results import load_evaluation

    evaluation = evaluate_log(read(path)) if is_log(path) else load_evaluation(path)
    protocol = evaluation.protocol
    if (collection is None) != (model is None):
        raise ConfigurationError("to search anew, both are needed.", hint="--data COLLECTION --model MODEL")
    if also and collection is None:
        raise ConfigurationError(
            "--also names splits whose vectors are computed.", hint="--data COLLECTION --model MODEL --also train"
        )
    if collection is None or model is None:
        return evaluation, None, None
    if protocol.rerank:
        raise ConfigurationError(
            f"{path} is re-ranked ({protocol.rerank}); a new search would leave the second stage out.",
            hint="explain it without --data and --model",
        )
    from visir.collections import open_collection

    opened = open_collection(collection)
    if opened.fingerprint != protocol.collection_fingerprint:
        raise ConfigurationError(
            f"{collection} is not the collection of this result (fingerprint {opened.fingerprint[:12]}, the "
            f"result's {protocol.collection_fingerprint[:12]}).",
            hint="name the collection that was evaluated",
        )
    return evaluation, opened, _vectors(opened, model, protocol, also)


def _vectors(collection: Collection, model: str, protocol: Protocol, also: list[str] | None) -> tuple[Vectors, Vectors]:
    """The vectors of the splits that are tried: of the whole collection where a file has them already."""
    from visir.encoders import load
    from visir.errors import ConfigurationError, VisirError, nearest
    from visir.evaluation.systems import EncoderSystem

    encoder = load(model)
    system = EncoderSystem(encoder)
    names = [name for name in collection.splits if name]
    unknown = [name for name in also or () if name not in (*names, "all")]
    if unknown:
        raise ConfigurationError(
            f"--also {', '.join(unknown)}: there is no such split.", hint=nearest(unknown[0], (*names, "all"))
        )
    of_all = any("of the collection" in line for line in protocol.galleries.values()) or "all" in (also or ())

    def encoded(part: Collection) -> tuple[Vectors, Vectors]:
        return system.vectors(part.items("image"), "document"), system.vectors(part.items("text"), "query")

    if encoder.card.family == "imported" and not of_all:
        try:
            return encoded(collection)
        except VisirError:  # it holds vectors of some splits only
            return encoded(collection.split(protocol.split))
    wanted = [*protocol.split.split("+"), *(also if also is not None else (n for n in names if n in ("val", "test")))]
    if of_all or "all" in wanted:
        return encoded(collection)
    return encoded(collection.split("+".join(dict.fromkeys(wanted))))
