"""`make gpu`: the same code on the cores, in its smallest scale; without a GPU it says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu.py"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *options], capture_output=True, text=True, check=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_one_line_says_so() -> None:
    done = run()
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("no GPU: ") and done.stderr.count("\n") == 1


def test_a_section_runs_on_the_cores_and_nothing_is_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "new" / "gpu.json"
    options = ("--device", "cpu", "--quick", "--only", "search", "--out", str(out))
    done = run(*options)
    assert done.returncode == 0, done.stderr
    written = json.loads(out.read_text())
    several, single, ranks = written["rows"]
    assert all(row["section"] == "search" and not row["fault"] for row in written["rows"])
    assert several["subject"] == "MaxSim, 60 documents" and several["figures"]["queries/s, device"] > 0
    assert single["subject"] == "exact, 3,000 vectors" and single["figures"].keys() == {
        *(
            "queries/s, cores",
            "ms for one, cores",
            "queries/s, device, first",
            "queries/s, device",
            "ms for one, device",
        )
    }
    assert ranks["subject"] == "ranks, 40 pictures, 200 texts" and ranks["figures"]["seconds, device"] > 0
    assert written["protocol"]["versions"]["torch"] == torch.__version__
    again = run(*options)
    assert again.returncode == 1 and "is there already" in again.stderr
    assert json.loads(out.read_text()) == written


@pytest.mark.nightly
def test_all_of_it_runs_on_the_cores(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    done = run("--device", "cpu", "--quick", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(out.read_text())["rows"]
    assert {row["section"] for row in rows} == {"parity", "encoding", "training", "sparse", "search"}
    distances = [
        row["figures"]["largest distance"]
        for row in rows
        if row["subject"].endswith("float32") and row["section"] == "parity"
    ]
    assert len(distances) == 11 and max(distances) <= 1e-6  # the same device, in batches of one size
