"""Every purchase of a log is accounted for: made, used, or not used for a reason that is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from intent_log import event, folder_of, random_log
from typer.testing import CliRunner

from visir.cli.main import app
from visir.sessions import load_model, predict, train
from visir.sessions.making import Sessions
from visir.sessions.prediction.purchase_model import NOT_DRAWN, ORDERED_FIRST, PER_FEATURE, UNDER_WAY, PurchaseUse

for package in ("duckdb", "sklearn"):
    pytest.importorskip(package, reason="needs the extra 'sessions'")

LOG = random_log(60)
EARLY = [event(f"first{n}", 100 * n, None, "order") for n in range(7)]  # nothing but the order
EARLY += [event(f"add{n}", 100 * n, None, "add") for n in range(5)]
EARLY += [event(f"add{n}", 100 * n + 1, None, "order") for n in range(5)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(sorted([*LOG, *EARLY], key=lambda row: row["time"]), tmp_path_factory.mktemp("use"))


def test_making_counts_purchases_without_a_page(folder: Path) -> None:
    made = Sessions.open(folder)
    assert made.counts["purchases_without_page"] == 12
    assert "with a purchase (12 of these without a page)" in repr(made)


def test_a_live_model_says_where_every_purchase_went(folder: Path) -> None:
    trained = train(folder, "lr")
    use, made = trained.purchases, Sessions.open(folder).counts["purchases"]
    assert use is not None and use.made == made == sum(use.used.values()) + sum(use.not_used.values())
    assert use.not_used[ORDERED_FIRST] == 7 and set(use.not_used) == {ORDERED_FIRST, UNDER_WAY}
    assert use.without_page == 5 and use.used["train"] == trained.card["drawn"]["train"]["purchases"]
    assert use.features == 19 and use.wanted == 19 * PER_FEATURE - use.used["train"] > 0
    assert f"{use.wanted:,} more purchases are wanted" in repr(trained) and f"7: {ORDERED_FIRST}" in use.sentence
    assert PurchaseUse.of(json.loads(json.dumps(trained.card["purchases"]))) == use
    few = train(folder, "lr", n=100).purchases
    assert few is not None and few.made == made == sum(few.used.values()) + sum(few.not_used.values())
    assert few.not_used[f"{ORDERED_FIRST}, or {NOT_DRAWN}"] > 7
    again = train(folder, "lr", refit=True).purchases
    assert again is not None and again.not_used[UNDER_WAY] == 0 and again.used["test"] == 0
    assert not PurchaseUse(200, {"train": 190}, {"x": 10}, features=19).warning


def test_the_study_and_its_models_say_it_too(folder: Path, tmp_path: Path) -> None:
    made = Sessions.open(folder).counts["purchases"]
    summary = predict(folder, tmp_path / "study", models=["lr"], folds=2, schemes=["grouped"], min_pages=6, jobs=1)
    thesis = train(folder, "lr", protocol="thesis", min_pages=6).purchases
    for use in (PurchaseUse.of(summary.card["purchases"]), thesis):
        assert use is not None and use.made == made == sum(use.used.values()) + sum(use.not_used.values())
        assert set(use.used) == {"anonymous", "identified"} and min(use.used.values()) > 0
        assert use.not_used["no page"] == 12 and min(use.not_used.values()) >= 0


def test_the_verbs_print_it(folder: Path, tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "model"), "--classifier", "lr", "--even-if-worse"]
    result = CliRunner().invoke(app, ["sessions", "train", str(folder), *out])
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert (
        "sessions with a purchase:" in words and f"7: {ORDERED_FIRST}" in words and "more purchases are wanted" in words
    )
    answer = CliRunner().invoke(app, ["sessions", "train", str(folder), *out, "--replace", "--json"])
    use = json.loads(answer.stdout)["purchases"]
    assert use == load_model(tmp_path / "model").card["purchases"] and use["wanted"] > 0
    study = ["--out", str(tmp_path / "study"), "--classifier", "lr", "--folds", "2", "--folds-by", "grouped"]
    result = CliRunner().invoke(app, ["sessions", "predict", str(folder), *study, "--min-pages", "6", "--jobs", "1"])
    assert result.exit_code == 0 and "12: no page" in " ".join(result.output.split()), result.output
