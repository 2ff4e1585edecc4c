"""Defaults of public functions, options and recipes, and sentences, are those of the snapshot, unless meant to change.

What changed on purpose is written anew by `python scripts/snapshots.py`, and read in the diff. What verbs pass on is
compared verb by verb, in `cli/test_what_verbs_pass.py`.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
SCRIPT: Any = importlib.import_module("snapshots")


@pytest.mark.parametrize("name", [name for name in SCRIPT.SNAPSHOTS if name != "passed-on"])
def test_what_is_public_is_as_before(name: str) -> None:
    before = (SCRIPT.FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    now = list(SCRIPT.SNAPSHOTS[name]())
    lost, new = [line for line in before if line not in set(now)], [line for line in now if line not in set(before)]
    assert (lost, new) == ([], []), "meant so? python scripts/snapshots.py"
