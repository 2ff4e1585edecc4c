"""Small logs, and tables of chapter 6 about them, for the tests of its studies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from visir_papers.cells import TableCell
from visir_papers.cells import run_study as run
from visir_papers.study import read_study
from visir_papers.verdicts import StudyComparison, compare_cells

TABLE = """
title = "Toy"
paper = "Toy, Table 1"
published = "thesis-table-6-{number}"
claims = "None."
pairs = "labels"
of_images = false

[replica]
data = "other"
description = "Five sessions."
hours = 0.01
cells = [
{cells}
]

[replica.defaults]
experiment = "describe"
statistic = "table-6-{number}"
mapping = "events"
"""


def log(path: Path, devices: dict[str, str]) -> Path:
    """One session of one page for each visitor; capital letters buy. Nothing but device and action is known."""
    rows: list[dict[str, Any]] = []
    for at, (visitor, device) in enumerate(devices.items()):
        said = {"visitor": visitor, "device": device, "time": at * 1_000_000}
        rows.append({**said, "action": "page"})
        rows += [{**said, "action": "order", "time": at * 1_000_000 + 1}] if visitor.isupper() else []
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def ran(path: Path, scale: str, out: Path) -> tuple[list[TableCell], StudyComparison]:
    """Every cell of a study in a file, and the verdict on them."""
    study = read_study(path)
    cells = run(study, path.stem, scale, out, jobs=1)
    return cells, compare_cells(path.stem, study, scale, cells)


def table(folder: Path, number: int, cells: list[str]) -> Path:
    path = folder / f"toy{number}.toml"
    path.write_text(TABLE.format(number=number, cells="\n".join(f"    {{ {one} }}," for one in cells)))
    return path


FIVE = {"A": "Desktop", "b": "Desktop", "c": "mobile", "d": "mobile", "E": "mobile"}
