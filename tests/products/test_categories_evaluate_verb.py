"""`visir products evaluate` and `search` end to end, with baselines and with models that were just trained."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import visir
from refusals import refused
from verbs import say
from visir.errors import ConfigurationError
from visir.products.cli.evaluate import evaluate
from visir.products.cli.train import search, train
from visir.products.generated import generate_catalogue
from visir.products.systems import trained_systems
from visir.products.task import Split, folds, seen_categories


def test_tables_and_files(tmp_path: Path) -> None:
    said = say(evaluate, "generated:150", "--baselines", "bm25,text:bow", "--folds", 2, "--out", tmp_path / "out")
    assert said.status == 0, said.text
    for part in ("Most general categories (3 in each split)", "BM25", "bow:4096, titles", "unseen", "report.html"):
        assert part in said.text, said.text
    written = json.loads((tmp_path / "out" / "result.json").read_text("utf-8"))
    assert {(one["system"], one["setting"]) for one in written["results"]} == {
        (system, setting) for system in ("BM25", "bow:4096, titles") for setting in ("all", "general", "specific")
    }
    one = next(found for found in written["results"] if found["setting"] == "all")
    queries = pq.read_table(tmp_path / "out" / "per_query.parquet").to_pandas()
    mine = queries[(queries.system == one["system"]) & (queries.setting == "all")]
    by_split = mine.groupby("split")["rprecision"].mean()
    assert one["measures"]["rprecision"]["mean"] == pytest.approx(by_split.mean())
    assert one["measures"]["rprecision"]["sd"] == pytest.approx(by_split.std())
    assert one["first answers"]["queries"] == len(mine)
    answers = pq.read_table(tmp_path / "out" / "answers.parquet").to_pandas()
    firsts = answers[(answers.system == one["system"]) & (answers.setting == "all") & (answers["rank"] == 1)]
    assert firsts.relevant.sum() == one["first answers"]["right"] == mine["precision@1"].sum()
    assert "<html" in (tmp_path / "out" / "report.html").read_text("utf-8")


def test_both_readings_of_bm25_stand_side_by_side_and_say_what_they_compare(tmp_path: Path) -> None:
    # The titles of "Skirts" are singular, so only the plural of "Trains" is found as it stands.
    rows = [("a", "red skirt", "Skirts"), ("b", "blue skirt", "Skirts"), ("c", "two trains", "Trains")]
    shop = tmp_path / "shop.csv"
    shop.write_text("id,title,category\n" + "\n".join(map(",".join, rows)), "utf-8")
    split = Split(np.zeros(3, bool), np.zeros(3, bool), np.ones(3, bool), "all of it")
    found = visir.products.evaluate(f"products:{shop}", splits=[split], settings=["specific"])
    assert found.systems == ["BM25", "BM25, plain"]
    assert [found.spread(system, "specific", "rprecision").mean for system in found.systems] == [1.0, 0.5]
    said = say(evaluate, "generated:60", "--folds", 2, "--out", tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    for text in (said.text, page, found.to_markdown(), found._repr_html_() or ""):
        flat = " ".join(text.split())
        assert "BM25: without plural endings" in flat and "BM25, plain: words as they are" in flat, flat


def test_all_faults_at_once() -> None:
    said = say(evaluate, "generated:50", "-s", "generl", "--fold", 7)
    assert said.status == 2
    assert "unknown setting 'generl' (did you mean 'general'?" in said.text and "fold 7: there are 1 to 5" in said.text
    said = say(evaluate, "generated:50", "-b", "")
    assert said.status == 2 and "name --model, --baselines, or both" in said.text


def test_searching_marks_what_is_right(tmp_path: Path) -> None:
    said = say(search, "generated:200", "wooden dogs", "-k", 5, "--html", tmp_path / "a.html")
    assert said.status == 0, said.text
    assert "Animals › Dogs" in said.text and "yes" in said.text and "which has" in said.text
    assert "Where they belong" in (tmp_path / "a.html").read_text("utf-8")
    free = say(search, "generated:200", "a dog", "-m", "text:bow", "-k", 3)
    assert "No category has this name" in free.text and "cosine" in free.text
    for query, why in ((" ", "the query is empty"), ("dogs", "unknown baseline 'nothing'")):
        faulty = say(search, "generated:50", query, "-m", "nothing" if query == "dogs" else "bm25")
        assert faulty.status == 2 and why in faulty.text


def test_models_are_tested_on_the_fold_they_have_not_seen(tmp_path: Path) -> None:
    def made(fold: int, recipe: str = "clip-ita", seed: int = 0) -> Path:
        out = tmp_path / f"{recipe}-{fold}-{seed}"
        said = say(
            train, "generated:150", "--recipe", recipe, "--image-model", "pixels", "--text-model", "bow:256",
            "--folds", 2, "--fold", fold, "--out", out, "--set", "optimiser.epochs=1", "--set", f"seed={seed}",
            "--set", "dimension=8", "--set", "category.head.hidden=[8]", "--set", "product.head.hidden=[8]",
        )  # fmt: skip
        assert said.status == 0, said.text
        return out

    models = [made(1), made(2), made(1, "clip-ita-general")]
    arguments = [part for one in models for part in ("--model", one)]
    said = say(evaluate, "generated:150", *arguments, "--folds", 2, "--out", tmp_path / "out")
    assert said.status == 0, said.text
    written = json.loads((tmp_path / "out" / "result.json").read_text("utf-8"))
    splits = {(one["system"], one["setting"]): one["measures"]["rprecision"]["splits"] for one in written["results"]}
    # The general model was trained for the first fold only; nobody was trained for specific categories.
    assert splits["clip-ita", "all"] == 2 and splits["clip-ita", "general"] == 1
    assert ("clip-ita", "specific") not in splits and splits["BM25", "specific"] == 2
    assert written["cards"]["clip-ita"]["images"].startswith("pixels")
    # Three folds were cut otherwise: their test products are among those that the models learnt.
    wrong = say(evaluate, "generated:150", *arguments, "--folds", 3)
    assert wrong.status == 2 and "(3 faults)" in wrong.text and "that they were trained with" in wrong.text
    asked = say(search, "generated:150", "dogs", "--model", models[0], "-k", 3)
    assert asked.status == 0 and "cosine" in asked.text

    catalogue = generate_catalogue(150).catalogue
    cut = folds(catalogue, 2)
    (everywhere,) = trained_systems(models[:2], catalogue, cut, every_setting=True)
    assert everywhere.name == "clip-ita (trained for all)" and len(everywhere.members) == 6
    named = [one.name for one in trained_systems([models[0], made(1, seed=1)], catalogue, cut)]
    assert named == ["clip-ita, seed 0", "clip-ita, seed 1"]
    with refused(ConfigurationError, "clip-ita", "fold 1 of 2", "seed 0", "all", code="is-the-second"):
        trained_systems([models[0], models[0]], catalogue, cut)


def test_a_model_has_seen_the_categories_that_its_own_seed_drew(tmp_path: Path) -> None:
    small = {"dimension": 8, "category.head.hidden": [8], "product.head.hidden": [8], "seed": 3}
    model = visir.products.train("generated:60", image="pixels", text="bow:64", out=tmp_path / "model", folds=2,
                                 epochs=1, changes=small)  # fmt: skip
    catalogue = generate_catalogue(60).catalogue
    first, second = folds(catalogue, 2)
    (system,) = trained_systems([model], catalogue, [first, second])
    (member,) = system.members.values()
    assert member.trained_on is not None
    seen = [seen_categories(catalogue, first, "all", seed) for seed in (0, 3)]
    assert (member.trained_on == seen[1]).all() and (member.trained_on != seen[0]).any()
