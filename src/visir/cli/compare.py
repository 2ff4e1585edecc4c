"""Results beside one another, beside published values, and looked at again: `visir compare`, `explain`, `report`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from visir.cli import output
from visir.cli.options import DATA, argument, option
from visir.cli.verbs import Call, calls, examples, reports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visir.evaluation.explaining import Explanation
    from visir.evaluation.published import Denominators
    from visir.reports import StudyReport
    from visir.reports.table import Table


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
    from dataclasses import replace as changed

    from visir.errors import ConfigurationError, raise_faults
    from visir.reports.report import REPORT, StudyReport
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
    made: list[StudyReport] = []
    if published is not None:
        parts = list(_beside_published(results, published, system, collection, tolerance))
        made.append(StudyReport.of_parts("comparison", f"Beside {published}", parts))
    if published is None or len(results) > 1:
        comparison = call(None, *results, allow=call.given["allow"] or ())
        output.facts(comparison=comparison)
        made.append(comparison_report(comparison))
    first, *others = made
    for more in others:
        sections, printed = [*more.sections, *first.sections], [*first.printed, *more.printed]
        first = changed(more, sections=sections, headline=[*first.headline, *more.headline], printed=printed)
    output.finish(first, out=out)


def _beside_published(
    folders: list[Path], published: str, names: list[str] | None, collection: str | None, tolerance: float
) -> Iterator[Table | str]:
    from visir.evaluation.compare import result_in
    from visir.evaluation.published import judge, load, orders
    from visir.evaluation.published.denominators import remarks
    from visir.records.collection import task_words
    from visir.reports import published_table

    results = [result_in(folder) for folder in folders]
    table = load(published)
    systems = names or [result.system for result in results]
    if collection is None and len(table.collections) > 1:
        collection = results[0].protocol.collection
    only = systems[0] if len(table.systems) > 1 or len(systems) > 1 else None
    yield f"{table.title}\n{table.source}"
    for result, name in zip(results, systems, strict=True):
        row = table.row(name if only else None, collection)
        judged = judge(
            result.aggregates, row, recall=result.protocol.recall, decimals=table.decimals, tolerance=tolerance
        )
        yield published_table(judged, system=result.system, decimals=table.decimals, tolerance=tolerance)
        output.facts(published=[*output.current().facts.get("published", ()), *judged])
        within = sum(judgement.within for judgement in judged)
        digits = sum(judgement.digits != "off" for judgement in judged)
        verdict = f"{within} of {len(judged)} values within ±{100 * tolerance:g} %, {digits} to the printed digits"
        yield f"{result.system}: {verdict} (R@k read as {result.protocol.recall}@k)"
        doubts = {(judgement.task, judgement.label): "" for judgement in judged}
        doubts = {label: table.doubt(row, *label) or "" for label in doubts}
        for reason in dict.fromkeys(filter(None, doubts.values())):
            about = ", ".join(
                f"{task_words(task)} {label}" for (task, label), doubt in doubts.items() if doubt == reason
            )
            yield f"doubtful in print, {about}: {reason}"
        yield from (f"→ {remark}" for remark in remarks(row, result.protocol))
    if len(results) > 1:
        ours = {name: result.aggregates for name, result in zip(systems, results, strict=True)}
        for order in orders(ours, table, collection=collection, recall=results[0].protocol.recall):
            swapped = "; ".join(f"{above} should be above {below}" for above, below in order.swapped)
            whether = "kept" if order.is_kept else f"not kept: {swapped}"
            yield f"order of systems, {task_words(order.task)} {order.label}: {whether}"


# `visir explain`: under which protocol was a published number computed?


@calls(
    "visir.evaluation.explaining.explain:explain",
    result=argument("RESULT_OR_RUN", kind=Path, default=None),
    published=option(default=""),
    source=option("--data", to="data"),
    system=option("--as"),
    collection=option("--on", to="row"),
    leave="vectors also decimals",
)
@examples(
    "visir explain results/clip --published brittleness-table-2 --as CLIP",
    "visir explain results/clip --published paper.json --data flickr8k/ --model openai/clip-vit-base-patch32",
    "visir explain results/clip --published paper.json --direction t2i",
    'visir explain --published "t2i R@1=37.82,R@5=82.36,R@10=82.48" --on Flickr30k --stated 1000',
)
@reports
def explain(
    call: Call,
    also: Annotated[list[str] | None, option(metavar="SPLIT")] = None,
    stated: list[int] | None = None,
    limit: int | None = None,
    everything: Annotated[bool, option("--all")] = False,
    out: Path | None = None,
    replace: bool = False,
) -> None:
    """Find the protocol that gives a published number.

    Find the plainest reading of the protocol that gives the published values to all printed digits. Without a result,
    find the numbers of queries that can give these digits.

    Readings: split, captions, candidates, folds, similarity, ties, recall, cutoffs, unit, digits and more. What cannot
    be computed is listed with the reason, and what to give.

    Args:
        result: A folder that visir evaluate --out wrote, or a log of the brittleness paper. Left out: the digits alone
            say how many queries there were.
        published: Published values: a JSON, TOML or CSV file, a model of the Hub (its folder or its card), the name of
            an installed table, or the values themselves, "t2i R@1=37.82,R@5=82.36". (required)
        system: The system's name in the published table.
        row: The collection's name in the published table.
        direction: t2i or i2t: explain the values of this direction only. Default: both.
        data: A collection: that of the result. With --model, other splits, candidates and similarities are tried.
        model: A model: a hub name, a checkpoint folder, st:…, openclip:…, pixels (visir models).
        also: A further split whose vectors are computed, or all. Repeatable. Default: val and test, and whatever a file
            of vectors holds.
        stated: Without a result: a number of queries that a paper states, to be judged too. Repeatable.
        limit: How many readings are shown. Default: one, or two where none fits.
        everything: Show five readings, those that give the same numbers, and what could not be computed.
        out: Where to write: a new folder for the page, the tables and what visir report reads.
    """
    from visir.errors import ConfigurationError, raise_faults
    from visir.evaluation.published import denominators
    from visir.reports.report import REPORT
    from visir.storage import check_new_folder

    given = call.given
    faults = [] if given["published"] else ["--published is missing: a file, the name of a table, or values"]
    if given["result"] is None:
        others = {"--direction": "direction", "--data": "source", "--model": "model"}
        unused = [*(flag for flag, name in others.items() if given[name]), *(["--also"] if also else [])]
        faults += [f"{flag} goes with a result" for flag in unused]
    elif stated:
        faults.append("--stated is for digits alone, without a result")
    raise_faults(ConfigurationError, "explain", faults, hint='visir explain --published "t2i R@1=37.82,R@5=82.36"')
    if out is not None:
        check_new_folder(out, REPORT, replace=replace)
    if given["result"] is not None:
        report, answer = _explained(call(also=also), limit, everything)
    else:
        numbers = {"queries": stated or (), "system": given["system"], "collection": given["collection"]}
        report, answer = _of_digits(denominators(given["published"], **numbers))
    output.finish(report, answer, out)


def _of_digits(digits: Denominators) -> tuple[StudyReport, dict[str, Any]]:
    """The report, and what `--json` prints."""
    from visir.reports.report import StudyReport
    from visir.reports.tables import denominators_table

    parts: list[Table | str] = [denominators_table(digits), f"→ {digits.sentence}"]
    answer = {"sentence": digits.sentence, "rows": digits.rows, "left_out": digits.left_out}
    return StudyReport.of_parts("denominators", "How many queries there were", parts), answer


def _explained(explanation: Explanation, limit: int | None, everything: bool) -> tuple[StudyReport, dict[str, Any]]:
    """The same. Readings are numbered and listed below the values: their words would not fit beside them."""
    from visir.display import counted
    from visir.reports.report import StudyReport
    from visir.reports.tables import fits_table

    usual = 5 if everything else 1 if explanation.fits[0].fits else 2
    fits = explanation.fits[: limit or usual]
    readings = [
        {
            "reading": str(fit.reading),
            "fits": fit.fits,
            "distance": fit.distance,
            "reproduced": fit.reproduced,
            "values": fit.values,
            "same": [str(item) for item in fit.same],
        }
        for fit in fits
    ]
    names = ("sentence", "verdict", "accidents", "remarks")
    answered = {name: getattr(explanation, name) for name in names} | {"ranks": explanation.scored}
    parts: list[Table | str] = [fits_table(explanation, limit=len(fits))]
    for number, fit in enumerate(fits, 1):
        exact = f"{fit.reproduced} of {len(fit.values)} to the printed digits"
        parts.append(f"[{number}] {fit.reading}: {fit.distance:.2%} off, {exact}")
        if fit.same and everything:
            parts.append(f"    the same numbers come from: {' / '.join(map(str, fit.same))}")
    hidden = len(explanation.fits) - len(fits)
    if everything:
        parts += [f"{hidden} further readings are not shown (--limit)"] if hidden else []
        parts += [f"Ranks: {explanation.scored}", "Not computable from what is at hand:"]
        by_reason: dict[str, list[str]] = {}
        for reading, reason in explanation.not_computable:
            by_reason.setdefault(reason, []).append(reading)
        parts += [f"- {'; '.join(together)}: {reason}" for reason, together in by_reason.items()]
    elif hidden or explanation.not_computable:
        others = [f"{counted(hidden, 'further readings')}"] if hidden else []
        others += [f"{len(explanation.not_computable)} that cannot be computed"] if explanation.not_computable else []
        parts.append(f"{' and '.join(others)}: --all")
    parts += [f"→ {sentence}" for sentence in (explanation.sentence, *explanation.remarks)]
    answer = answered | {"readings": readings, "not_computable": dict(explanation.not_computable)}
    return StudyReport.of_parts("explanation", "Which reading gives the published numbers", parts), answer


# `visir report`: anything that visir measured or made, looked at again; several side by side.


@calls(
    "visir.reports.side_by_side:report",
    leave="sources out replace",
    data=option("--data", metavar="COLLECTION", panel=DATA),
)
@examples(
    "visir report results/clip",
    "visir report results/clip results/siglip --out both.html --latex both.tex",
    "visir report results/clip --data photos.csv --out clip.html",
)
@reports
def report(
    folders: Annotated[list[Path], argument("FOLDER…")],
    call: Call,
    out: Path | None = None,
    replace: bool = False,
) -> None:
    """Show again what a command wrote; several side by side.

    Show what any command wrote into a folder: its tables, and with --out the page. Several stand side by side; results
    of one protocol are tested against one another.

    Args:
        folders: Folders that visir wrote: results, stress, profiles, probes, descriptions, trainings, indexes, …
        data: A collection: the one that was searched; with it the page shows the best and the worst queries.
        out: Where to write: a page, FILE.html, or a new folder with the page and its tables.
    """
    from visir.errors import ConfigurationError, raise_faults
    from visir.reports.side_by_side import check_place

    faults = [f"{folder}: not there" for folder in folders if not folder.exists()]
    raise_faults(ConfigurationError, "report", faults, hint="visir report FOLDER")
    is_page = check_place(out, replace=replace)
    names = ("data", "images", "title")
    shown = call(None, [str(folder) for folder in folders], **{name: call.given[name] for name in names})
    output.finish(shown, shown.to_dict(), None if is_page else out, page=out if is_page else None, replace=replace)


# `visir publish`: results of any systems on any tasks as one site.


@calls("visir.reports.site:publish", leave="sources", data=option("--data", metavar="COLLECTION", panel=DATA))
@examples(
    "visir publish results/ --out site",
    "visir publish results/clip results/siglip others/*.json --out site --title 'Our photos'",
    "visir publish results/clip --out clip.json",
    "visir publish others/*.json",
)
@reports
def publish(results: Annotated[list[Path], argument("RESULT…")], call: Call) -> None:
    """Results of many systems as one site, ranked.

    Show results as a site of plain files that opens from the disk and on any static host: systems and tasks in one
    table, every number with its interval, its places and its protocol. Numbers of other protocols stand in columns of
    their own. Without --out the results are checked, and printed.

    Args:
        results: Folders that visir evaluate --out or visir classify --out wrote, folders that hold such folders, and
            packed results of others (JSON).
        out: Where to write: a new folder for the site; or, of one result, FILE.json, which others can add to theirs.
        data: A collection: one that was searched; pages of its results show pictures.
    """
    from visir.errors import ConfigurationError, raise_faults

    faults = [f"{result}: not there" for result in results if not result.exists()]
    raise_faults(ConfigurationError, "publish", faults, hint="visir publish results/ --out site")
    shown = call(None, *map(str, results))
    output.finish(shown, shown.to_dict())
    if (out := call.given["out"]) is not None:
        output.note(f"result: {out}" if Path(out).suffix == ".json" else f"site: {Path(out) / 'index.html'}")
