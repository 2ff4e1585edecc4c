"""The simulations that check what tests and intervals promise: rates by hand, resuming, and all of them once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from math import nan
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import calibration_rows

    return calibration_rows


def calibrate(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "calibration.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def test_a_rate_by_hand(rows: ModuleType) -> None:
    """20 of 100 false positives: 20 ± 4 %, far outside 0 to 6 %; a rate of 0 is judged by the edge of the band."""
    draws = iter([1.0] * 20 + [0.0] * 80)
    simulation = rows.Simulation("a", "b", lambda rng: {"t": next(draws), "interval": nan})
    rates = simulation.run(100, seed=0)
    rate = rates["t"]
    assert (rate.rate, rate.error, rate.promise) == (pytest.approx(20), pytest.approx(4), "≤ 5")
    assert not rate.holds and rate.cell == "**20.0 ± 4.0**"
    assert (rates["interval"].promise, rates["interval"].repetitions, rates["interval"].cell) == ("95", 0, "none")
    never = rows.Simulation("a", "b", lambda rng: {"t": 0.0}, {"t": rows.documented(8, 60)})
    assert never.run(100, seed=0)["t"].holds  # 8 % of 100 may be none: √(8 · 92 / 100) is 2.7
    assert not never.run(1_000, seed=0)["t"].holds
    assert rows.Simulation("a", "b", lambda rng: {"t": 0.0}).run(1_000, seed=0)["t"].holds


def test_what_is_counted(rows: ModuleType) -> None:
    assert (rows.rejects(0.049), rows.rejects(0.05), rows.rejects(nan)) == (1.0, 0.0, 0.0)
    assert (rows.covers((-1.0, 1.0), 1.0), rows.covers((-1.0, 1.0), 1.1)) == (1.0, 0.0)
    assert np.isnan(rows.covers((nan, nan), 0.0))


def test_the_same_seed_gives_the_same_rate(rows: ModuleType) -> None:
    simulation = rows.Simulation("a", "b", lambda rng: {"share": rng.random()})
    assert simulation.run(50, seed=1) == simulation.run(50, seed=1)
    assert simulation.run(50, seed=1) != simulation.run(50, seed=2)


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    options = ("--only", "papers, draws of values: * seeds", "--repetitions", "20", "--out", str(tmp_path))
    first = calibrate(*options)
    assert first.returncode == 0, first.stderr
    assert "| 3 seeds |" in first.stdout and "interval of a pair (95)" in first.stdout
    file = tmp_path / "rows.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]
    assert len(lines) == 3
    lines[0]["rates"]["interval of a pair"]["rate"] = 12.0  # to see whether it is read
    text = "\n".join(map(json.dumps, lines[:2])) + "\n" + json.dumps(lines[2])[:40]  # and the last was cut off
    file.write_text(text, encoding="utf-8")
    again = calibrate(*options)
    assert again.returncode == 1  # 12 % is outside the band
    assert "2 seeds, interval of a pair: 12.0 is outside 94 to 100" in again.stderr
    assert len([line for line in file.read_text(encoding="utf-8").splitlines() if line]) == 4
    assert calibrate(*options, "--seed", "1").returncode == 0  # other draws are measured anew


def test_nothing_to_run(tmp_path: Path) -> None:
    wrong = calibrate("--only", "nothing*")
    assert wrong.returncode == 2 and "no simulation matches 'nothing*'" in wrong.stderr


@pytest.mark.parametrize(
    ("rows", "repetitions"),
    [
        ("labels, on different images: 10 % of 1,000 and 15 images*", 150),
        ("labels, on different images: 5 and 8 images*", 240),
        ("classify: classes of*", 200),
        ("sessions ab-test, no difference: amounts, log-normal 1*; 2 % buy, 336*", 300),
        ("sessions train, report of a live model: 300 visitors*", 120),
    ],
)
def test_unequal_groups_rare_hits_and_long_tails(rows: str, repetitions: int) -> None:
    few = calibrate("--only", rows, "--repetitions", str(repetitions))
    assert few.returncode == 0, few.stderr


@pytest.mark.nightly
def test_every_promise_is_kept() -> None:
    everything = calibrate("--quick")
    assert everything.returncode == 0, everything.stderr
