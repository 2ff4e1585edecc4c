"""Describe the sessions of a log: Tables 6.1 to 6.6 and Figures 6.2 to 6.5 of the thesis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from visir.errors import VisirError, nearest
from visir.sessions.experiments.log_experiment import (
    SessionLogExperiment,
    counts_of,
    description_of,
    left_out_of,
    sessions_of,
)
from visir.sessions.table_labels import CHANNELS, DEVICES, table_label
from visir.studies.draws import Draws, few_units
from visir.studies.experiment import ExperimentContext, InsufficientDataError, Measurement


class DescribeExperiment(SessionLogExperiment):
    """One column of a statistic of `visir sessions describe`; labels are its rows, in the words of the thesis."""

    # A log from which it cannot be computed (no customers, no searches) leaves the cell "not run", with the reason.

    experiment: Literal["describe"] = "describe"
    statistic: str  # its name, "table-6-4"
    column: str  # "Purchase sessions"; of Figure 6.5 the device that is gone to; of Figure 6.2 "PC, purchase"

    def describe(self) -> str:
        """See `Experiment.describe`."""
        return f"visir sessions describe, {self.statistic}, of {self.log}"

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        folder = sessions_of(self, context)
        statistics, counts = description_of(folder, context), counts_of(folder)
        if self.statistic not in statistics:
            raise VisirError(f"nothing is called {self.statistic!r}.", hint=nearest(self.statistic, statistics))
        statistic = statistics[self.statistic]
        if statistic["unavailable"]:
            raise InsufficientDataError(statistic["unavailable"])
        column = self._column(statistic["columns"])
        cells = {row: cells[column]["value"] for row, cells in zip(statistic["rows"], statistic["cells"], strict=True)}
        named = Counter(map(table_label, cells))
        values: dict[str, float] = {}
        words: dict[str, str] = {}
        notes = []
        for row, value in cells.items():
            label = table_label(row)
            if named[label] > 1:  # two words of the log for one row: neither is the row
                notes.append(
                    f"{label}: the log has several: {', '.join(word for word in cells if table_label(word) == label)}"
                )
            elif isinstance(value, str):
                words |= {label: ", ".join(map(table_label, value.split(", ")))} if label == "Device types" else {}
            elif value is None:
                notes.append(f"{label}: nothing of it in this log")
            else:
                values[label] = float(value)
        for rows in (DEVICES, CHANNELS):
            if set(rows) & set(named):
                notes += [f"{row}: not in this log, which names {', '.join(cells)}" for row in rows if row not in named]
        return Measurement(
            values,
            self.provenance(counts),
            self.protocol(counts),
            notes=tuple(notes),
            words=words,
            draws=self._draws(values, statistic["columns"][column], folder, context),
        )

    def _draws(
        self, values: Mapping[str, float], column: str, folder: Path, context: ExperimentContext
    ) -> dict[str, Draws]:
        """Draws of the values: the deviations of a jackknife over visitors, the same visitors for all of the log."""
        by_group = [
            {table_label(row): value for row, value in group.get(self.statistic, {}).get(column, {}).items()}
            for group in left_out_of(folder, context)
        ]
        labels = [label for label in values if all(label in group for group in by_group)]
        count = len(by_group)
        if count < 2 or not labels:
            return {}
        matrix = np.array([[group[label] for label in labels] for group in by_group])
        deviations = few_units(matrix, (count - 1) ** 2 / count, folder.name)
        return {label: values[label] + drawn for label, drawn in zip(labels, deviations.T, strict=True)}

    def _column(self, columns: list[Any]) -> int:
        named = [", ".join(map(table_label, column.split(", "))) for column in columns]
        if named.count(self.column) > 1:  # two words of the log for one device: neither is the device
            several = [column for column, word in zip(columns, named, strict=True) if word == self.column]
            raise InsufficientDataError(f"the log has several: {'; '.join(several)}")
        if self.column in named:
            return named.index(self.column)
        device = self.column.partition(", ")[0]
        if device in DEVICES:
            devices = dict.fromkeys(
                column.partition(", ")[0] for column in columns[: -1 if device == self.column else None]
            )
            raise InsufficientDataError(f"the log names no {device}: {', '.join(devices)}")
        raise VisirError(f"{self.statistic} has no column {self.column!r}.", hint=nearest(self.column, columns))
