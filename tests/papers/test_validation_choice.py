"""The validation split chooses, the test split is measured; the choice is written down, and every training is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from visir.evaluation.evaluate import evaluate
from visir.evaluation.results import load_evaluation
from visir.training.data import open_whole
from visir.training.recipe import read_recipe
from visir.training.run import train
from visir.training.shipped import find_recipe
from visir_papers.cells import run_study as run
from visir_papers.experiment import ExperimentContext, FolderLocks
from visir_papers.experiments.train import _validation_rsum
from visir_papers.study import read_study

STUDY = """
title = "Toy"
paper = "Toy, Table 4"
published = "none"
claims = "None."
pairs = "none"

[smoke]
data = "generated"
description = "Sixty scenes."
hours = 0.01
cells = [{ system = "chosen", choices = [["optimiser.rate=1e-9"], ["optimiser.rate=2e-3"]] }]

[smoke.defaults]
experiment = "train"
recipe = "scenes-heads"
collection = "scenes"
set = ["data.collection=scenes:200?size=64", "optimiser.epochs=2"]
"""


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("thesis-table-4-1", {f"auxiliary.ltd.bound={eta}" for eta in (0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)}
         | {"auxiliary.ltd.beta=1.0"}),
        ("thesis-table-4-2", {f"objective.epsilon={epsilon}" for epsilon in (0.05, 0.1, 0.2, 0.5, 1.0)}),
    ],
)  # fmt: skip
def test_the_grids_are_those_of_section_4_5(name: str, chosen: set[str]) -> None:
    experiments = read_study(name).experiments("replica")
    grids = [getattr(one, "choices", ()) for one in experiments]
    assert [len(grid) for grid in grids] == [0, len(chosen), 0, len(chosen)]
    for grid in (grids[1], grids[3]):
        assert {choice[-1] for choice in grid} == chosen
    for one in experiments:
        for choice in getattr(one, "choices", ()):
            read_recipe(find_recipe(one.recipe), (*one.set, *choice))  # type: ignore[attr-defined]


def test_the_validation_split_is_what_is_searched(tmp_path: Path) -> None:
    """Fresh heads: they are as good on any split, so what was searched is read from the result that is kept."""
    recipe = read_recipe(find_recipe("scenes-heads"), ["data.collection=scenes:40?size=64", "optimiser.epochs=1"])
    train(recipe, out=tmp_path / "checkpoint")
    context = ExperimentContext(tmp_path / "cell", tmp_path, 0, None, 1, False, FolderLocks())
    rsum = _validation_rsum(recipe, tmp_path, tmp_path / "validation", context)
    kept = load_evaluation(tmp_path / "validation").result
    assert kept.protocol.split == recipe.data.validation != recipe.data.train
    assert rsum == kept.mean("both", "rsum")
    assert rsum == _validation_rsum(recipe, Path("nowhere"), tmp_path / "validation", context)  # it is not done again


@pytest.mark.nightly
def test_validation_chooses_and_the_test_split_is_measured(tmp_path: Path) -> None:
    (tmp_path / "toy.toml").write_text(STUDY)
    out = tmp_path / "out"
    (cell,) = run(read_study(tmp_path / "toy.toml"), "toy", "smoke", out, jobs=1)
    assert (cell.state, cell.reason) == ("done", "")
    chosen = cell.measured.provenance["chosen"]
    assert chosen.startswith("optimiser.rate=2e-3, by validation rsum (optimiser.rate=1e-9: ")
    assert len(list(out.glob("shared/trainings/*/seed0/trial.json"))) == 2
    recipe = read_recipe(find_recipe("scenes-heads"), ["data.collection=scenes:200?size=64", "optimiser.rate=2e-3",
                                                       "optimiser.epochs=2", "seed=0"])  # fmt: skip
    sums = {}
    for folder in out.glob("shared/trainings/*/seed0/checkpoint"):
        for split in (recipe.data.validation, "test"):
            sums[folder, split] = evaluate(open_whole(recipe.data), str(folder), split=split).result.mean(
                "both", "rsum"
            )
    best = max(
        (folder for folder, split in sums if split == "test"), key=lambda folder: sums[folder, recipe.data.validation]
    )
    assert cell.measured.values["both rsum"] == pytest.approx(sums[best, "test"])
