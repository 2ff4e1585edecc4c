"""Small studies in files, and cells that were never run, for the tests of the papers' tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from visir_papers.cells import CellState, TableCell
from visir_papers.draws import DRAWS
from visir_papers.experiment import Measurement
from visir_papers.study import Study

COUNTING = """
title = "Toy"
paper = "Toy, Table 1"
published = "brittleness-table-1"
claims = "None."
groups = [["MS-COCO", "MS-COCO-FG"]]

[smoke]
data = "{data}"
description = "Forty scenes."
hours = 0.01
seeds = [0, 1]
cells = [
    {{ system = "MS-COCO", source = "{first}" }},
    {{ system = "MS-COCO-FG", source = "scenes:40?seed=1" }},
    {{ system = "Flickr30k", source = "scenes:40?seed=2" }},
]

[smoke.defaults]
experiment = "count"
split = "all"
captions = "all"
"""


def counting(folder: Path, *, first: str = "scenes:40", data: str = "generated") -> Path:
    """A study that counts words: three cells with two seeds, a second or so."""
    path = folder / "toy.toml"
    path.write_text(COUNTING.format(first=first, data=data).replace('split = "all"\n', 'split = "none"\n'))
    return path


def study(scale: str = "full", data: str = "same", **changes: Any) -> Study:
    """The study of LTD's Table 3: two systems on COCO, six recalls each."""
    cells = [{"experiment": "train", "recipe": "r", "system": one, "collection": "COCO"} for one in ("Ours", "VSE++")]
    said: dict[str, Any] = {"title": "T", "paper": "LTD, Table 3", "published": "ltd-table-3", "claims": "C"}
    said[scale] = {"data": data, "description": "S", "hours": 1, "cells": cells}
    return Study.model_validate({**said, **changes})


def cell(
    system: str,
    collection: str = "COCO",
    seed: int = 0,
    state: CellState = "done",
    error: float | None = 0.0,
    **values: float,
) -> TableCell:
    """A finished cell; `values` are labels with "_" for their blank: t2i_R1 is "t2i R@1".

    Its draws are normal with the standard error `error`, independent of those of other systems; 0 is for certain, None
    for a cell without draws.
    """
    labels = {name.replace("_R", " R@").replace("_", " "): value for name, value in values.items()}
    rng = np.random.default_rng(list(f"{system}{seed}".encode()))
    draws = (
        {} if error is None else {label: value + error * rng.standard_normal(DRAWS) for label, value in labels.items()}
    )
    reason = "" if state == "done" else "why not"
    return TableCell(system, collection, seed, {}, state, reason, Measurement(labels, {}, draws=draws))
