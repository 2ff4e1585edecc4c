"""The size of each package stays below a ceiling, which falls as the third edition is built.

To raise a number is a decision: it goes with a reason, in a comment on its line.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
LEDGER: Any = importlib.import_module("ledger")

CEILINGS: dict[str, tuple[int, int]] = {
    "core": (21, 2_690),  # wiring.py, every folder opens; names of files, compressed files and hints at both doors
    "stats": (6, 1_950),  # the one place for intervals and p-values; a third of it says what each assumes
    "storage": (7, 2_580),  # forged values are damage at each door
    "records": (12, 4_700),  # what each field of a protocol means, which stood in scripts/ and reports/ before
    "collections": (49, 16_790),  # one picture a file; tables in archives and among photos; one reader of cells
    "encoders": (49, 18_900),
    "training + sparse": (36, 10_650),
    "robustness + shortcuts": (26, 4_250),
    "retrieval": (48, 14_250),  # runs of other tools: three columns, tables, JSON lines, lists
    "evaluation": (50, 16_850),
    "reports": (28, 7_450),  # side by side; tables as papers print them
    "cli": (16, 5_150),
    "library": (49, 13_500),
    "sessions": (43, 12_250),
    "products": (28, 7_100),
    "studies": (6, 1_400),
    "papers (own distribution)": (22, 5_800),
}
"""Package to the most files and lines that it may have."""


@pytest.fixture(scope="module")
def sizes() -> dict[str, Any]:
    return LEDGER.measure()


@pytest.mark.parametrize("package", CEILINGS)
def test_a_package_stays_below_its_ceiling(sizes: dict[str, Any], package: str) -> None:
    files, lines = CEILINGS[package]
    assert sizes[package].files <= files and sizes[package].lines <= lines


def test_every_package_has_a_ceiling(sizes: dict[str, Any]) -> None:
    assert {*sizes} == {*CEILINGS, "sum"}
