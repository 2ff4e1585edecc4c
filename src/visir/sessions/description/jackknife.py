"""What a description would be without a twentieth of the visitors: for intervals of whatever is made of its values.

The intervals of a description are of one value each. Two shares of one log are not independent, so the interval of
their difference, or how sure an order of days is, needs them together. Here the units are hashed into groups, and
everything is counted again without each group in turn (the delete-a-group jackknife, Kott 2001).
"""

from __future__ import annotations

from pathlib import Path

from visir.sessions.description.describe import statistics_of
from visir.sessions.description.session_log import open_log

GROUPS = 20

Values = dict[str, dict[str, dict[str, float]]]
"""Statistic → column → row → value."""


def leave_one_out(folder: str | Path, *, threads: int | None = None) -> list[Values]:
    """The values of all statistics without each group of visitors; fewer than `GROUPS` for a log of few visitors."""
    groups = []
    for group in range(GROUPS):
        with open_log(folder, threads=threads, left_out=(group, GROUPS)) as log:
            if not log.value(f"SELECT count(*) FROM {log.sessions}"):
                continue
            groups.append(
                {
                    statistic.name: {
                        column: {
                            row: float(value)
                            for row, cells in zip(statistic.rows, statistic.cells, strict=True)
                            if isinstance(value := cells[position].value, int | float)
                        }
                        for position, column in enumerate(statistic.columns)
                    }
                    for statistic in statistics_of(log)
                }
            )
    return groups
