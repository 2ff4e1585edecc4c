"""Descriptions without a group of visitors: what is left out, and the intervals that follow from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from described import folder, visit

from visir.sessions import load_mapping, sessionise
from visir.sessions.description import describe, open_log
from visir.sessions.simulator import generate
from visir_papers.draws import few_units
from visir_papers.experiments.describe import GROUPS, leave_one_out

pytest.importorskip("duckdb", reason="needs the extra 'sessions'")


def test_every_visitor_is_left_out_once_with_its_customer_and_its_events(tmp_path: Path) -> None:
    rows = [visit(f"v{number}", customer=f"c{number // 2}", asked=("red",)) for number in range(40)]
    log = folder(tmp_path / "log", rows)
    missing: list[set[str]] = []
    for group in range(4):
        with open_log(log, left_out=(group, 4)) as opened:
            sessions = {visitor for (visitor,) in opened.rows(f"SELECT visitor FROM {opened.sessions}")}
            events = {
                visitor
                for _, path in opened.parts
                for (visitor,) in opened.rows(f"SELECT DISTINCT visitor FROM '{path}'")
            }
            assert sessions == events
            missing.append({row["visitor"] for row in rows} - sessions)
    assert sorted(visitor for group in missing for visitor in group) == sorted(row["visitor"] for row in rows)
    for group in missing:
        assert all(
            {f"v{2 * (int(visitor[1:]) // 2)}", f"v{2 * (int(visitor[1:]) // 2) + 1}"} <= group for visitor in group
        )
    assert len(list(log.iterdir())) == len({*log.iterdir()}), "the folder itself is as it was"


def test_the_interval_of_a_share_is_that_of_the_description(tmp_path: Path) -> None:
    """Twenty groups of visitors against the linearised variance over all visitors, within what twenty can tell."""
    generate(tmp_path / "raw", 8_000, seed=3)
    sessionise(tmp_path / "raw" / "events", load_mapping(tmp_path / "raw" / "mapping.toml"), tmp_path / "log")
    described, groups = describe(tmp_path / "log"), leave_one_out(tmp_path / "log")
    assert len(groups) == GROUPS
    statistic = described.statistic("table-6-4")
    ratios = []
    for column in ("Purchase sessions", "Non-purchase sessions"):
        for row in ("pc", "smartphone", "tablet"):
            cell = statistic.value(row, column)
            assert cell.low is not None and cell.high is not None
            values = np.array([[group["table-6-4"][column][row]] for group in groups])
            drawn = few_units(values, (GROUPS - 1) ** 2 / GROUPS, "visitors")[:, 0]
            low, high = np.quantile(drawn, [0.025, 0.975])
            ratios.append((high - low) / (cell.high - cell.low))
    assert 0.75 < np.mean(ratios) < 1.35, ratios
    assert min(ratios) > 0.5 and max(ratios) < 1.8, ratios
