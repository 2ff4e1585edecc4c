"""Every verb that writes: killed, on a full and a read-only disk, by two at once, read meanwhile, over all it finds.

In the fast suite a few points of each; `-m nightly` takes every operation on files.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
from acts import ACTS
from faulty import compiled

SCRIPT = Path(__file__).with_name("faulty.py")
SAMPLE = ("kill:3", "full:3", "read-only", "two:1", "reader", "states")
EVERY = ("kill", "full", "read-only", "two", "reader", "states")


def hold(name: str, faults: tuple[str, ...], folder: Path, timeout: int) -> str:
    for package in ACTS[name].needs:
        if find_spec(package) is None:
            pytest.skip(f"needs {package}")
    if compiled() is None:
        pytest.skip("needs a C compiler, and Linux")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), name, *faults],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout


@pytest.mark.parametrize("name", ACTS)
def test_nothing_is_lost(name: str, tmp_path: Path) -> None:
    told = hold(name, SAMPLE, tmp_path / "trial", 600)
    assert [line.split(": ")[-2] for line in told.splitlines()] == [fault.split(":")[0] for fault in SAMPLE]


@pytest.mark.nightly
@pytest.mark.parametrize("name", ACTS)
def test_nothing_is_lost_at_any_operation(name: str, tmp_path: Path) -> None:
    told = hold(name, EVERY, tmp_path / "trial", 7200)
    points = {line.split(": ")[-2]: int(line.split(": ")[-1]) for line in told.splitlines()}
    assert points["kill"] >= 10 and points["full"] == points["kill"]
    print(told)
