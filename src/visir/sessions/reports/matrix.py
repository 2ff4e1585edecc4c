"""What can and what cannot be computed of thesis chapter 6 from each of several logs: one matrix, asked of the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from visir.errors import VisirError
from visir.reports.table import Cell, Column, Table
from visir.sessions.describe import Characterisation, Statistic, describe
from visir.sessions.examples import MIN_PAGES, SETTINGS, Sample, Setting, draw
from visir.sessions.features import LearntFeatures, features_of
from visir.sessions.table_labels import CHANNELS, DEVICES, TOTALS, table_label

FEWER = (MIN_PAGES, 6, 4, 3)
"""Pages that are asked for in turn where a log has no session of as many, to see which features it has at all."""
_OF_TABLE = {
    "table-6-1": (*TOTALS, "Queries", "Queries per session"),
    "figure-6-2-percentiles": tuple(DEVICES),
    "table-6-2": tuple(CHANNELS),
    "table-6-4": tuple(DEVICES),
    "figure-6-5": tuple(DEVICES),
    "table-6-5": tuple(DEVICES),
    "table-6-6": tuple(DEVICES),
}
"""Rows that the thesis prints (of Table 6.1, those that a log may lack)."""
_DESCRIBED = (
    *(f"table-6-{number}" for number in range(1, 7)),
    "figure-6-2-percentiles", "figure-6-3", "figure-6-4", "figure-6-5",
)  # fmt: skip


def matrix(logs: Mapping[str, str | Path]) -> Table:
    """Tables 6.1 to 6.7 and Figures 6.2 to 6.7 by row, {name: folder of sessions} by column.

    "yes", with what of the printed rows the log lacks or how little it has; or "no" and the reason. All of it is what
    `describe` says of the log and what `draw` finds in it; nothing is known of logs by their names.
    """
    found = {name: describe(folder) for name, folder in logs.items()}
    rows: list[list[Cell]] = [
        [next(iter(found.values())).statistic(name).source, *(_described(one, name) for one in found.values())]
        for name in _DESCRIBED
    ]
    drawn = {name: _drawn(folder) for name, folder in logs.items()}
    rows.insert(6, ["Table 6.7", *(_features(folder) for folder in logs.values())])
    rows += [[one, *drawn.values()] for one in ("Figure 6.6", "Figure 6.7")]
    columns = [Column("thesis"), *(Column(name) for name in logs)]
    return Table.of(
        columns, rows, caption="What each log tells", notes=[f"Figures 6.6 and 6.7: sessions of {MIN_PAGES} pages."]
    )


def _described(found: Characterisation, name: str) -> str:
    one = found.statistic(name)
    if one.cannot:
        return f"no: {one.cannot.removeprefix('Cannot be computed: ').rstrip('.')}"
    limits = [_lacking(one)]
    if name == "figure-6-3":
        at = one.columns.index("Days in the log")
        limits.append(_without([row for row, cells in zip(one.rows, one.cells, strict=True) if not cells[at].value]))
    if name == "figure-6-5":
        steps = sum(int(cells[one.columns.index("Transitions")].value or 0) for cells in one.cells)
        limits.append(f"{steps:,} step{'s' * (steps != 1)}")
    return "; ".join(("yes", *filter(None, limits)))


def _lacking(one: Statistic) -> str:
    named = {table_label(row) for row in one.rows} | set(one.rows)
    return _without([row for row in _OF_TABLE.get(one.name, ()) if row not in named])


def _without(missing: Sequence[str]) -> str:
    return f"without {' / '.join(missing)}" if missing else ""


def _features(folder: str | Path) -> str:
    """How many features of each setting take more than one value over sessions and steps, and which do not."""
    said, any_ = [], False
    for setting in SETTINGS:
        features = features_of(setting)
        sample = _sample(folder, setting)
        if sample is None:
            said.append(f"{setting}: none")
            continue
        examples = draw(folder, sample)
        learnt = LearntFeatures.of(features, examples, np.ones(len(examples), bool))
        values = np.concatenate([learnt.matrix(examples, step) for step in sample.steps])
        different = [len(np.unique(column[~np.isnan(column)])) for column in values.T]
        missing = [one.name for one, count in zip(features, different, strict=True) if not count]
        same = [one.name for one, count in zip(features, different, strict=True) if count == 1]
        any_ = True
        told = f"{setting}: {len(features) - len(missing) - len(same)} of {len(features)}"
        told += f", of sessions of {sample.min_pages} pages" if sample.min_pages < MIN_PAGES else ""
        told += f", {_without(missing)}" if missing else ""
        said.append(told + (f"; always the same: {' / '.join(same)}" if same else ""))
    return "; ".join(("yes" if any_ else "no", *said))


def _sample(folder: str | Path, setting: Setting) -> Sample | None:
    """The longest sessions of `FEWER` that there are, with both outcomes; None where there are none."""
    for pages in FEWER:
        sample = Sample(setting, min_pages=pages)
        try:
            examples = draw(folder, sample)
        except VisirError:
            continue
        if 0 < examples.purchase.sum() < len(examples):
            return sample
    return None


def _drawn(folder: str | Path) -> str:
    """How many sessions of the thesis's length there are to predict, setting by setting."""
    said, any_ = [], False
    for setting in SETTINGS:
        try:
            examples = draw(folder, Sample(setting))
        except VisirError:
            said.append(f"{setting}: none")
            continue
        bought = int(examples.purchase.sum())
        any_ = any_ or 0 < bought < len(examples)
        said.append(f"{setting}: {len(examples):,} sessions, {bought:,} with a purchase")
    return f"{'yes' if any_ else 'no'}; {'; '.join(said)}"
