"""Chapter 7 as studies: labels, trainings that are shared and go on after a kill, shapes by hand."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import papers_killed
import pytest
from papers_toys import cell, study

from visir.errors import ConfigurationError
from visir.evaluation.published import open_table
from visir.products import open_catalogue
from visir.products.evaluation import evaluate, first_answers
from visir.products.model import find_categories_recipe, read_categories_recipe
from visir.products.systems import TitleBm25
from visir.products.task import folds
from visir_papers.cells import run_study as run
from visir_papers.experiments.categories import LABELS, SETTINGS, CategoriesExperiment, error_draws
from visir_papers.published_values import row_of
from visir_papers.study import TREND_CHECKS, read_study
from visir_papers.verdicts import compare_cells

CHAPTER = ("thesis-table-7-1", "thesis-table-7-2", "thesis-table-7-3", "thesis-figure-7-2")
TOY = """
title = "Toy"
paper = "Toy, Table 7"
published = "{published}"
claims = "None."

[smoke]
data = "generated"
description = "Eighty products."
hours = 0.01
cells = [
{cells}
]

[smoke.defaults]
experiment = "categories"
source = "generated:80?"
folds = 2
"""
SMALL = (
    'recipe = "clip-ita", set = ["encoders.image=pixels", "encoders.text=bow:64", "optimiser.epochs=2", '
    '"category.head.hidden=[8]", "product.head.hidden=[8]", "dimension=8"]'
)


def toy(path: Path, published: str, *cells: str) -> Path:
    """A study of 80 generated products in a file."""
    lines = "\n".join(f"    {{ {one} }}," for one in cells)
    path.write_text(TOY.format(published=published, cells=lines).replace("80?", "80"))
    return path


@pytest.mark.parametrize("name", CHAPTER)
def test_the_recipes_of_the_chapter_are_readable(name: str) -> None:
    for scale in ("smoke", "replica", "full"):
        for experiment in read_study(name).experiments(scale):
            assert isinstance(experiment, CategoriesExperiment)
            if experiment.recipe is not None:
                for setting in experiment.settings:
                    stem = experiment.recipe if setting == "all" else f"{experiment.recipe}-{setting}"
                    assert read_categories_recipe(find_categories_recipe(stem), experiment.set).setting == setting


def test_labels_are_those_of_the_tables() -> None:
    assert list(open_table("thesis-table-7-1").rows[0].values["category"]) == list(LABELS)
    assert [*SETTINGS.values(), "Total"] == list(open_table("thesis-table-7-2").rows)


def test_a_cell_says_what_visir_categories_evaluate_says(tmp_path: Path) -> None:
    path = toy(
        tmp_path / "toy.toml",
        "thesis-table-7-1",
        'system = "BM25", collection = "All categories (5,471)", baseline = "bm25", settings = ["all"]',
        'system = "MPNet", collection = "All categories (5,471)", baseline = "text:bow", settings = ["all"], '
        "test = [1, 2]",
    )
    first, both = run(read_study(path), "toy", "smoke", tmp_path / "out")
    assert [(one.state, one.reason) for one in (first, both)] == [("done", "")] * 2
    catalogue = open_catalogue("generated:80")
    found = evaluate(catalogue, [TitleBm25()], folds(catalogue, 2)[:1], settings=("all",))
    assert first.measured.values == {
        f"category {label}": 100 * found.spread("BM25", "all", measure).mean for label, measure in LABELS.items()
    }
    assert first.measured.protocol["split"] == "fold 1 of 2, seed 0: test"
    assert both.measured.protocol["split"] == "fold 1 of 2, seed 0: test; fold 2 of 2, seed 0: test"
    assert first.measured.protocol["map@k"] == "over min(R, k)"
    # One fold: its categories are drawn, and seeds are folds. Two: folds are compared, and seeds would be trainings.
    assert (first.measured.fold_ratio, both.measured.fold_ratio) == (0.0, None)
    for one in (first, both):
        assert set(one.measured.draws) == set(one.measured.values)
        for label, drawn in one.measured.draws.items():
            assert drawn.mean() == pytest.approx(one.measured.values[label], abs=3)
    trials = evaluate(catalogue, [TitleBm25()], folds(catalogue, 2), settings=("all",)).trials["BM25", "all"]
    errors, counts = error_draws(trials), first_answers(trials).errors
    assert errors["same tree"].mean() == pytest.approx(counts.same_tree, abs=2)
    assert errors["different tree"].mean() == pytest.approx(counts.different_tree, abs=2)
    depths = sum(drawn for label, drawn in errors.items() if label.startswith("d = "))
    np.testing.assert_allclose(depths, errors["same tree"])


def test_a_cell_that_is_not_whole_is_a_fault(tmp_path: Path) -> None:
    row = 'system = "BM25", collection = "All categories (5,471)"'
    for wrong, said in (
        (f'{row}, settings = ["all"]', "name either a baseline or a recipe"),
        (f'{row}, baseline = "bm25"', "measures: one setting in each cell"),
        (f'{row}, baseline = "bm25", settings = ["all"], test = [3]', "test: there are 2 folds"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            read_study(toy(tmp_path / "toy.toml", "thesis-table-7-1", wrong))


def test_several_catalogues_stand_for_one_printed_row(tmp_path: Path) -> None:
    assert row_of("All categories (5,471) · Flipkart") == "All categories (5,471)" == row_of("All categories (5,471)")
    cells = [cell(one, f"COCO · {where}", i2t_R1=v) for where, v1, v2 in (("a", 2, 1), ("b", 1, 2))
             for one, v in (("VSE++", v1), ("Ours", v2))]  # fmt: skip
    found = compare_cells("x", study(data="other"), "full", cells)
    # LTD, Table 3: VSE++ 41.3 above Ours 38.9; so in a, not in b. Each printed value stands beside both.
    assert [(one.collection, one.agrees) for one in found.measured_pairs] == [("COCO · a", True), ("COCO · b", False)]
    firsts = [(one.system, one.collection, one.published) for one in found.values if one.label == "i2t R@1"]
    assert firsts == [("Ours", "COCO · a", 38.9), ("Ours", "COCO · b", 38.9), ("VSE++", "COCO · a", 41.3),
                      ("VSE++", "COCO · b", 41.3)]  # fmt: skip
    assert [one.collection for one in found.values[:12]] == ["COCO · a"] * 6 + ["COCO · b"] * 6, "row by row"
    row = 'system = "BM25", collection = "Some categories · a", baseline = "bm25", settings = ["all"]'
    with pytest.raises(ConfigurationError, match="has no row 'BM25', 'Some categories · a'"):
        read_study(toy(tmp_path / "toy.toml", "thesis-table-7-1", row))


def test_two_readings_stand_for_one_printed_system() -> None:
    assert row_of("BM25 · plurals taken off") == "BM25"
    cells = [cell(one, i2t_R1=value) for one, value in (("VSE++", 1), ("VSE++ · other", 3), ("Ours", 2))]
    found = compare_cells("x", study(data="other"), "full", cells)
    printed = {one.system: one.published for one in found.values if one.label == "i2t R@1"}
    assert printed == {"Ours": 38.9, "VSE++": 41.3, "VSE++ · other": 41.3}
    # VSE++ is printed above Ours; the two readings have one printed value, so they are no pair.
    assert [(one.higher, one.agrees) for one in found.measured_pairs] == [("VSE++", False), ("VSE++ · other", True)]


@pytest.mark.parametrize("scale", ["smoke", "replica", "full"])
def test_bm25_stands_beside_clip_ita_in_both_readings(scale: str) -> None:
    by_row: dict[str, dict[str, str | None]] = {}
    for one in read_study("thesis-table-7-1").experiments(scale):
        assert isinstance(one, CategoriesExperiment)
        by_row.setdefault(one.collection, {})[one.system] = one.baseline
    for collection, systems in by_row.items():
        assert "CLIP-ITA" in systems, collection
        assert systems["BM25"] == "bm25:plain" and systems["BM25 · plurals taken off"] == "bm25", collection


def test_models_are_trained_once_for_all_studies_and_errors_add_up(tmp_path: Path) -> None:
    seen, trees, depths = (tmp_path / f"{one}.toml" for one in ("seen", "trees", "depths"))
    parts = [
        f'system = "CLIP-ITA ({one} cat.)", collection = "Most specific category (4,100)", quantity = "{one}", '
        f'settings = ["specific"], {SMALL}'
        for one in ("seen", "unseen")
    ]
    of_trees = [f'system = "{one}", quantity = "{one.lower()}", {SMALL}' for one in ("Same tree", "Different tree")]
    toy(seen, "thesis-table-7-3", *parts)
    toy(trees, "thesis-table-7-2", *of_trees)
    toy(depths, "none", f'system = "s", quantity = "depths", settings = ["specific"], {SMALL}')
    out = tmp_path / "out"
    known, others = run(read_study(seen), "seen", "smoke", out)
    assert (known.state, known.reason, others.state) == ("done", "", "done")
    assert known.measured.notes[0] == others.measured.notes[0], "queries: … seen, … unseen"
    models = sorted(out.glob("shared/categories/*/*/visir.json"))
    stamps = [one.stat().st_mtime_ns for one in models]
    assert len(models) == 1
    same, different = run(read_study(trees), "trees", "smoke", out)
    assert [(one.state, one.reason) for one in (same, different)] == [("done", "")] * 2
    assert len(list(out.glob("shared/categories/*/*/visir.json"))) == 3, "one for each setting"
    assert [one.stat().st_mtime_ns for one in models] == stamps
    for one in (same, different):
        values = dict(one.measured.values)
        assert values.pop("Total") == sum(values.values())
    assert same.measured.values["The most general category"] == 0, "two roots share no tree"
    (deep,) = run(read_study(depths), "depths", "smoke", out)
    values = dict(deep.measured.values)
    assert values.pop("same tree") == same.measured.values["The most specific category"]
    assert values.pop("different tree") == different.measured.values["The most specific category"]
    assert set(values) <= {"d = 0"}, "all leaves of this tree are three levels deep"
    assert sum(values.values()) == same.measured.values["The most specific category"]
    for path in out.glob("*/smoke/cells/*.json"):
        assert str(tmp_path) not in path.read_text()


def test_the_sentences_of_figure_7_2() -> None:
    means = {
        "all": {"same tree": 10.0, "different tree": 4.0, "d = -1": 6.0, "d = 0": 1.0, "d = 2": 3.0},
        "general": {"same tree": 0.0, "different tree": 3.0},
        "specific": {"same tree": 8.0, "different tree": 9.0, "d = -2": 2.0, "d = -1": 6.0},
    }
    found = {one.statement.partition(" (")[0]: (one.holds, one.numbers) for one in TREND_CHECKS["figure-7-2"](means)}
    assert found == {
        "most general: some errors lie in the same tree": (False, "0 in the same tree, 3 in another"),
        "most specific: most errors lie in another tree": (True, "8 in the same tree, 9 in another"),
        "all: most errors lie in the same tree": (True, "10 in the same tree, 4 in another"),
        "most specific: most are one level more general": (True, "of 8 with d = -2: 25 %, -1: 75 %"),
        "most specific: fewer with every further level": (True, "of 8 with d = -2: 25 %, -1: 75 %"),
        "most specific: none beside the target or below": (True, "of 8 with d = -2: 25 %, -1: 75 %"),
        "most specific: |d| is 4 at most": (True, "of 8 with d = -2: 25 %, -1: 75 %"),
        "all: most are more general": (
            True,
            "60 % more general, 30 % more specific; of 10 with d = -1: 60 %, 0: 10 %, 2: 30 %",
        ),
        "all: most are more specific": (
            False,
            "60 % more general, 30 % more specific; of 10 with d = -1: 60 %, 0: 10 %, 2: 30 %",
        ),
    }
    assert TREND_CHECKS["figure-7-2"]({}) == []


@pytest.mark.nightly
def test_a_killed_training_goes_on_and_ends_in_the_same(tmp_path: Path) -> None:
    cells = [f'system = "{one}", quantity = "{one.lower()}", {SMALL}' for one in ("Same tree", "Different tree")]
    path, out = toy(tmp_path / "toy.toml", "thesis-table-7-2", *cells), tmp_path / "out"
    path.write_text(path.read_text().replace("optimiser.epochs=2", "optimiser.epochs=20"))
    process = subprocess.Popen([sys.executable, str(Path(papers_killed.__file__)), str(path), str(out)])
    deadline = time.monotonic() + 240
    while not list(out.glob("shared/categories/*general*/*/.visir-claims")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not list((out / "toy/smoke/cells").glob("*")), "killed before the first cell was finished"
    done = {one: one.stat().st_mtime_ns for one in out.glob("shared/categories/*-all-*/*/visir.json")}
    assert done, "the first model was finished"
    resumed = run(read_study(path), "toy", "smoke", out)
    assert [(one.state, one.reason) for one in resumed] == [("done", "")] * 2
    assert all(one.stat().st_mtime_ns == stamp for one, stamp in done.items())
    whole = run(read_study(path), "toy", "smoke", tmp_path / "whole")
    assert [asdict(replace(one.measured, draws={})) for one in resumed] == [
        asdict(replace(one.measured, draws={})) for one in whole
    ]
    for one, other in zip(resumed, whole, strict=True):
        assert all((drawn == other.measured.draws[label]).all() for label, drawn in one.measured.draws.items())
