"""An evaluation or its result: the headline table, what must be said with it, and the rest folded away."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from visir.evaluation.results import Evaluation
from visir.records import Result
from visir.reports.page import Block, Definitions, Fold, Notice, Paragraph, inline
from visir.reports.plots import measure_dots
from visir.reports.table import Table
from visir.reports.tables import card_table, headline_table, measures_table
from visir.reports.views.parts import facts
from visir.reports.words import meaning

if TYPE_CHECKING:
    from visir.reports.plot import Plot


def blocks(shown: Result | Evaluation) -> list[Block]:
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
        Fold("Protocol card", [replace(card_table(protocol), caption="")]),
    ]
    notices: list[Block] = [Notice(result.notes)] if result.notes else []
    table = replace(headline_table(result), caption="", notes=())
    return [heading, table, *notices, *([Paragraph("; ".join(origins), "soft")] if origins else []), *more]


def table(shown: Result | Evaluation) -> Table:
    """Tasks × the named recall and `rsum`, in percent."""
    return headline_table(_result(shown))


def arrow(shown: Result | Evaluation) -> pa.Table:
    """One row per task, with a column for every measure: fractions from 0 to 1, rsum in points."""
    # A rank with queries whose rank is not known has a second column, `_beyond`, which counts them.
    aggregates, beyond = _result(shown).aggregates, _result(shown).beyond
    measures = dict.fromkeys(name for values in aggregates.values() for name in values)
    columns = {name: pa.array([values.get(name) for values in aggregates.values()], pa.float64()) for name in measures}
    for name in dict.fromkeys(name for counts in beyond.values() for name in counts):
        columns[f"{name}_beyond"] = pa.array([beyond.get(task, {}).get(name, 0) for task in aggregates], pa.int64())
    return pa.table({"task": pa.array(aggregates), **columns})


def plot(shown: Result | Evaluation, *, measures: list[str] | None = None) -> Plot:
    """Each measure of each task, with its 95 % interval."""
    return measure_dots(_result(shown), measures)


def _result(shown: Result | Evaluation) -> Result:
    return shown.result if isinstance(shown, Evaluation) else shown
