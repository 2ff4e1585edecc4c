"""Evaluations, results, protocols, comparisons and explanations in a notebook, as columns and as plots."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from visir.evaluation.compare import Comparison, Difference
from visir.evaluation.explaining import Explanation
from visir.evaluation.published.denominators import Denominators
from visir.evaluation.results import Evaluation
from visir.records import Protocol, Result
from visir.reports.page import Block, Bullets, Definitions, Fold, Notice, Paragraph, Section, inline
from visir.reports.plots import difference_dots, measure_dots
from visir.reports.report import Chart, StudyReport
from visir.reports.table import Column, Table
from visir.reports.tables import (
    compared_systems_table,
    comparison_table,
    denominators_table,
    explain_table,
    headline_table,
    measures_table,
)
from visir.reports.views.parts import facts, protocol_card
from visir.reports.words import display, meaning

if TYPE_CHECKING:
    from visir.reports.plot import Plot


def evaluation_blocks(shown: Result | Evaluation) -> list[Block]:
    """The named recall by task, notes, and folded: all measures, what they mean, the protocol."""
    result = _result(shown)
    protocol = result.protocol
    heading = facts(
        result.system,
        f"on {protocol.collection}",
        f"split {protocol.split}" if protocol.split else "",
        inline("protocol <code>{}</code>", protocol.fingerprint[:12]),
    )
    origins = [f"{items}: {where}" for items, where in result.origins.items()]
    more: list[Block] = [
        Fold("All measures", [replace(measures_table(result), caption="", notes=())]),
        Fold("What these numbers mean", [Definitions(meaning(protocol))]),
        protocol_card(protocol),
    ]
    notices: list[Block] = [Notice(result.notes)] if result.notes else []
    table = replace(headline_table(result), caption="", notes=())
    return [heading, table, *notices, *([Paragraph("; ".join(origins), "soft")] if origins else []), *more]


def evaluation_table(shown: Result | Evaluation) -> Table:
    """Tasks × the named recall and `rsum`, in percent."""
    return headline_table(_result(shown))


def evaluation_arrow(shown: Result | Evaluation) -> pa.Table:
    """One row per task, with a column for every measure: fractions from 0 to 1, rsum in points."""
    # A rank with queries whose rank is not known has a second column, `_beyond`, which counts them.
    aggregates, beyond = _result(shown).aggregates, _result(shown).beyond
    measures = dict.fromkeys(name for values in aggregates.values() for name in values)
    columns = {name: pa.array([values.get(name) for values in aggregates.values()], pa.float64()) for name in measures}
    for name in dict.fromkeys(name for counts in beyond.values() for name in counts):
        columns[f"{name}_beyond"] = pa.array([beyond.get(task, {}).get(name, 0) for task in aggregates], pa.int64())
    return pa.table({"task": pa.array(aggregates), **columns})


def evaluation_plot(shown: Result | Evaluation, *, measures: list[str] | None = None) -> Plot:
    """Each measure of each task, with its 95 % interval."""
    return measure_dots(_result(shown), measures)


def _result(shown: Result | Evaluation) -> Result:
    return shown.result if isinstance(shown, Evaluation) else shown


# A protocol: what its numbers mean, and its card.


def protocol_blocks(protocol: Protocol) -> list[Block]:
    """In words, and the card folded."""
    heading = facts(f"Protocol {protocol.fingerprint[:12]}", protocol.collection, protocol.split)
    return [heading, Definitions(meaning(protocol)), protocol_card(protocol)]


# A comparison: a sentence that says what differs, and the table of differences.


def comparison_blocks(comparison: Comparison) -> list[Block]:
    """The verdicts, systems × measures as a paper prints them, and every difference folded."""
    of_all = compared_systems_table(comparison)
    differences = Fold("Every difference, with its interval", [replace(comparison_table(comparison), caption="")])
    return [_verdicts(comparison), replace(of_all, caption=""), differences]


def comparison_report(comparison: Comparison) -> StudyReport:
    """Describe a comparison: its verdicts, its tables, its plot."""
    of_all = compared_systems_table(comparison)
    first, *others = comparison.systems
    title = f"{' and '.join(others)} against {first}" if len(others) < 4 else f"{len(others)} systems against {first}"
    chart = Chart(
        "differences",
        partial(difference_dots, comparison),
        caption=f"What each system has more or less than {first}. Filled: significant after the correction.",
        label="Differences of each measure with their 95 % intervals",
    )
    is_drawn = any(display(entry.measure).scale == 100 for entry in comparison.differences)
    differing = [
        [name.replace("_", " "), *map(str, values)]
        for name, values in {**comparison.allowed, **comparison.system_differences}.items()
    ]
    apart = Table.of([Column("of the protocol"), *map(Column, comparison.systems)], differing)
    sections = [
        Section("numbers", "Systems side by side", [_verdicts(comparison), of_all]),
        Section("plot", "Differences", [*([chart] if is_drawn else []), comparison_table(comparison)]),
        Section("protocol", "What differs between the systems", [apart] if differing else []),
    ]
    facts = {"systems": str(len(comparison.systems)), "correction": comparison.correction}
    printed = [of_all, comparison_table(comparison)]
    return StudyReport("comparison", title, sections, facts, [of_all], printed, "comparison")


def _verdicts(comparison: Comparison) -> Block:
    verdicts = [
        inline("<b>{}</b> against <b>{}</b>: {}.", system, comparison.systems[0], comparison.verdict(system))
        for system in comparison.systems[1:]
    ]
    return Paragraph(verdicts[0]) if len(verdicts) == 1 else Bullets(verdicts)


def comparison_arrow(comparison: Comparison) -> pa.Table:
    """One row per difference, with the fields of `Difference`: fractions as they are."""
    names = list(Difference.__dataclass_fields__)
    return pa.Table.from_pylist([asdict(difference) for difference in comparison.differences]).select(names)


# An explanation: the sentence, and the readings with their distance.


def explanation_blocks(explanation: Explanation) -> list[Block]:
    """The answer, the nearest readings, and those that could not be computed."""
    readings = explain_table(explanation)
    shown: list[Block] = [Paragraph(explanation.sentence), replace(readings, caption="", notes=readings.notes[1:])]
    if explanation.not_computable:
        reasons = Table.of([Column("reading"), Column("why not")], explanation.not_computable)
        shown.append(Fold("Readings that could not be computed", [reasons]))
    return shown


def denominators_blocks(digits: Denominators) -> list[Block]:
    """The answer, and the sizes of each row."""
    return [Paragraph(digits.sentence), denominators_table(digits)]


def explanation_table(explanation: Explanation) -> Table:
    """All readings, the nearest first."""
    return explain_table(explanation, limit=len(explanation.fits))
