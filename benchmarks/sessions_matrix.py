"""What can be computed of thesis chapter 6 from each of several logs: one matrix, from the code alone.

    python benchmarks/sessions_matrix.py NAME=FOLDER [NAME=FOLDER ...]

FOLDER is a folder of sessions (`visir sessions make`). docs/background/sessions-that-buy.md holds the matrix of
the four real logs.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from visir.errors import VisirError
from visir.reports import to_terminal
from visir.reports.table import Cell, Column, Table
from visir.sessions.description import Characterisation, Statistic, describe
from visir.sessions.examples import MIN_PAGES, SETTINGS, Sample, Setting, draw
from visir.sessions.features import LearntFeatures, features_of
from visir.sessions.table_labels import CHANNELS, DEVICES, TOTALS, table_label

FEWER = (MIN_PAGES, 6, 4, 3)
"""Pages that a session must have, tried in turn where a log has no longer session, to see which features it has."""
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
    """Tables 6.1 to 6.7 and Figures 6.2 to 6.7 by row, logs by column."""
    # A cell is "yes", with what of the printed rows the log lacks or how little it has; or "no" and the reason. All of
    # it comes from `describe` and `draw`; nothing is known of logs by their names.
    characterisations = {name: describe(folder) for name, folder in logs.items()}
    rows: list[list[Cell]] = [
        [
            next(iter(characterisations.values())).statistic(name).source,
            *(_described(characterisation, name) for characterisation in characterisations.values()),
        ]
        for name in _DESCRIBED
    ]
    drawn = {name: _drawn(folder) for name, folder in logs.items()}
    rows.insert(6, ["Table 6.7", *(_features(folder) for folder in logs.values())])
    rows += [[figure, *drawn.values()] for figure in ("Figure 6.6", "Figure 6.7")]
    columns = [Column("thesis"), *(Column(name) for name in logs)]
    return Table.of(
        columns, rows, caption="What each log tells", notes=[f"Figures 6.6 and 6.7: sessions of {MIN_PAGES} pages."]
    )


def _described(characterisation: Characterisation, name: str) -> str:
    statistic = characterisation.statistic(name)
    if statistic.unavailable:
        return f"no: {statistic.unavailable.removeprefix('Cannot be computed: ').rstrip('.')}"
    limits = [_lacking(statistic)]
    if name == "figure-6-3":
        column = statistic.columns.index("Days in the log")
        limits.append(
            _without(
                [row for row, cells in zip(statistic.rows, statistic.cells, strict=True) if not cells[column].value]
            )
        )
    if name == "figure-6-5":
        steps = sum(int(cells[statistic.columns.index("Transitions")].value or 0) for cells in statistic.cells)
        limits.append(f"{steps:,} step{'s' * (steps != 1)}")
    return "; ".join(("yes", *filter(None, limits)))


def _lacking(statistic: Statistic) -> str:
    named = {table_label(row) for row in statistic.rows} | set(statistic.rows)
    return _without([row for row in _OF_TABLE.get(statistic.name, ()) if row not in named])


def _without(missing: Sequence[str]) -> str:
    return f"without {' / '.join(missing)}" if missing else ""


def _features(folder: str | Path) -> str:
    """How many features of each setting take more than one value over sessions and steps, and which do not."""
    parts, has_any = [], False
    for setting in SETTINGS:
        features = features_of(setting)
        sample = _sample(folder, setting)
        if sample is None:
            parts.append(f"{setting}: none")
            continue
        examples = draw(folder, sample)
        learnt = LearntFeatures.of(features, examples, np.ones(len(examples), bool))
        values = np.concatenate([learnt.matrix(examples, step) for step in sample.steps])
        different = [len(np.unique(column[~np.isnan(column)])) for column in values.T]
        missing = [feature.name for feature, count in zip(features, different, strict=True) if not count]
        same = [feature.name for feature, count in zip(features, different, strict=True) if count == 1]
        has_any = True
        part = f"{setting}: {len(features) - len(missing) - len(same)} of {len(features)}"
        part += f", of sessions of {sample.min_pages} pages" if sample.min_pages < MIN_PAGES else ""
        part += f", {_without(missing)}" if missing else ""
        parts.append(part + (f"; always the same: {' / '.join(same)}" if same else ""))
    return "; ".join(("yes" if has_any else "no", *parts))


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
    parts, has_any = [], False
    for setting in SETTINGS:
        try:
            examples = draw(folder, Sample(setting))
        except VisirError:
            parts.append(f"{setting}: none")
            continue
        bought = int(examples.purchase.sum())
        has_any = has_any or 0 < bought < len(examples)
        parts.append(f"{setting}: {len(examples):,} sessions, {bought:,} with a purchase")
    return f"{'yes' if has_any else 'no'}; {'; '.join(parts)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", metavar="NAME=FOLDER", help="folders of sessions, and what to call them")
    asked = parser.parse_args()
    Console(width=160).print(to_terminal(matrix(dict(log.split("=", 1) for log in asked.logs))))


if __name__ == "__main__":
    main()
