from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from intent_log import BEGAN, MINUTE, Row, event, folder_of, random_log

from manifests import seal
from refusals import refused
from visir.errors import VisirError
from visir.sessions.examples import SETTINGS, Sample, draw
from visir.sessions.prediction.live import LiveScorer, Score
from visir.sessions.prediction.models import MODELS
from visir.sessions.prediction.purchase_model import PurchaseModel, load_model
from visir.sessions.prediction.stream_events import examples_of
from visir.sessions.prediction.training import base_rates, rate_at, train

for package in ("duckdb", "sklearn", "skops"):
    pytest.importorskip(package, reason="needs the extra 'sessions'")

LOG = random_log(70)
SAMPLES = tuple(Sample(setting, min_pages=8) for setting in SETTINGS)


@pytest.fixture(scope="module")
def log_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(LOG, tmp_path_factory.mktemp("log"))


@pytest.fixture(scope="module")
def model(log_folder: Path) -> PurchaseModel:
    return train(log_folder, "lr", protocol="thesis", min_pages=8)


@pytest.fixture(scope="module")
def saved(model: PurchaseModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model.save(tmp_path_factory.mktemp("model") / "lr")


def test_a_stream_has_the_features_and_answers_of_the_batch(
    log_folder: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_model(saved)
    live, told, rows = LiveScorer(loaded), {}, {}

    def watched(*arguments):  # type: ignore[no-untyped-def]
        rows["last"] = examples_of(*arguments)
        return rows["last"]

    monkeypatch.setattr("visir.sessions.prediction.live.examples_of", watched)
    for row in LOG:
        for score in live.observe(row):
            learnt = loaded.part(score.setting).learnt
            told[score.visitor, score.session, score.step, score.setting] = (
                learnt.matrix(rows["last"], score.step)[0],
                score.probability,
            )
    assert not live.rejected
    compared = 0
    for setting, sample in zip(SETTINGS, SAMPLES, strict=True):
        part, examples = loaded.parts[setting], draw(log_folder, sample)
        for step in sample.steps:
            matrix, chances = part.learnt.matrix(examples, step), part.probability(examples, step)
            for row in range(len(examples)):
                key = (examples.visitor[row], int(examples.session[row]), step, setting)
                if setting == "anonymous" and examples.customer_step[row] <= step:
                    assert key not in told  # who logged in is asked as identified from then on
                    continue
                features, chance = told[key]
                np.testing.assert_array_equal(features, matrix[row])
                assert chance == pytest.approx(chances[row], rel=1e-9)  # products of matrices round by their size
                compared += 1
    assert compared > 1_000


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_answers_as_the_one_that_was_trained(name: str, log_folder: Path, tmp_path: Path) -> None:
    trained = train(log_folder, name, protocol="thesis", settings=["identified"], min_pages=8, seed=3)
    loaded = load_model(trained.save(tmp_path / name))
    examples = draw(log_folder, SAMPLES[1])
    for step in (0, 4):
        before = trained.parts["identified"].probability(examples, step)
        np.testing.assert_array_equal(loaded.parts["identified"].probability(examples, step), before)
        assert ((before >= 0) & (before <= 1)).all()
        assert np.unique(before).size > 1
    assert loaded.card == trained.card


def test_the_anonymous_baseline_knows_the_share_alone_at_step_0(log_folder: Path, tmp_path: Path) -> None:
    trained = train(log_folder, "rf", protocol="thesis", settings=["anonymous"], min_pages=8, features="baseline")
    loaded = load_model(trained.save(tmp_path / "m"))
    examples = draw(log_folder, SAMPLES[0])
    rates = base_rates(log_folder)
    expected = rate_at(rates, SETTINGS, 0)  # the anonymous model is the only one: it scores every session
    assert expected == pytest.approx(trained.card["base_rates"]["anonymous"][0])
    assert loaded.parts["anonymous"].probability(examples, 0) == pytest.approx(expected)
    assert not (tmp_path / "m" / "anonymous-step-00.skops").exists()


def test_faulty_folders_are_refused(saved: Path, tmp_path: Path) -> None:
    import skops.io

    with refused(VisirError, code="no-purchase-model"):
        load_model(tmp_path)
    told = json.loads((saved / "model.json").read_text())
    for change, says in (({"visir_purchase_model": 3}, "newer"), ({"versions": {"scikit-learn": "0.1"}}, "0.1")):
        (tmp_path / "model.json").write_text(json.dumps(told | change))
        with pytest.raises(VisirError, match=says):
            load_model(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps(told))
    skops.io.dump({"what": Score("a", 1, 0, 0, 0, "anonymous", 0.5)}, tmp_path / "anonymous-step-00.skops")
    with refused(VisirError, code="holds-no-purchase-model"):
        load_model(tmp_path)
    part = sorted(path.name for path in saved.glob("*.skops"))[0]
    sound = (saved / part).read_bytes()
    shutil.copytree(saved, tmp_path / "damaged")
    for data in (
        b"",
        b"no zip",
        sound[: len(sound) // 2],
        b"PK\5\6" + b"\0" * 18,
        sound[:40] + b"\xff" * 40 + sound[80:],
    ):
        (tmp_path / "damaged" / part).write_bytes(data)
        seal(tmp_path / "damaged")
        with refused(VisirError, part, code="damaged-no-model"):
            load_model(tmp_path / "damaged")


def steps(live: LiveScorer, rows: list[Row]) -> list[tuple[str, int, int, str]]:
    return [(one.visitor, one.session, one.step, one.setting) for row in rows for one in live.observe(row)]


def test_a_session_ends_after_thirty_minutes_or_with_another_customer(model: PurchaseModel) -> None:
    rows = [
        event("a", 0),
        event("a", 30),  # exactly thirty minutes
        event("a", 60.001),  # a second session
        event("a", 61, customer="x"),
        event("a", 62, customer="y"),  # a third
    ]
    assert steps(LiveScorer(model), rows) == [
        ("a", 1, 0, "anonymous"),
        ("a", 1, 1, "anonymous"),
        ("a", 1, 2, "anonymous"),
        ("a", 2, 0, "anonymous"),
        ("a", 2, 1, "anonymous"),
        ("a", 2, 2, "identified"),
        ("a", 3, 0, "identified"),
        ("a", 3, 1, "identified"),
    ]


def test_what_cannot_be_used_is_counted(model: PurchaseModel) -> None:
    live = LiveScorer(model)
    rows = [
        event("a", 0),
        event("a", 0),
        event("a", 1),
        event("a", 0.5),
        {**event("a", 2), "time": None},
        event("", 2),
        event("a", 2, None, "dance"),
    ]
    assert [one[2] for one in steps(live, rows)] == [0, 1, 2]
    assert live.rejected == {"duplicate": 1, "late": 1, "no_time": 1, "no_visitor": 1, "unknown_action": 1}


def test_answers_end_with_the_order_and_with_the_last_step(model: PurchaseModel) -> None:
    rows = [event("a", k / 10) for k in range(12)]
    assert [one[2] for one in steps(LiveScorer(model), rows)] == [
        0,
        1,
        2,
        3,
        4,
        5,
        6,
    ]  # eight pages, two of them the buffer
    rows.insert(3, event("a", 0.25, None, "order"))
    assert [one[2] for one in steps(LiveScorer(model), rows)] == [0, 1, 2, 3]


def test_history_can_come_from_a_log(model: PurchaseModel) -> None:
    live = LiveScorer(model)
    before = BEGAN - 60 * MINUTE
    for day in (4, 3, 2, 1):
        at = before - day * 24 * 60 * MINUTE
        live.remember("x", "a", began=at, ended=at, device="pc", orders=2)
    first = event("a", 0, customer="x")
    (score, _) = live.observe(first)
    assert (score.session, score.setting) == (5, "identified")
    (alone, _) = LiveScorer(model).observe(first)
    assert alone.probability != score.probability


def test_a_model_shows_itself(model: PurchaseModel) -> None:
    assert repr(model).startswith("PurchaseModel(lr, protocol thesis)\n  anonymous: ")
    rates = model.card["base_rates"]["anonymous"]
    assert "so many buy" in (model._repr_html_() or "") and f"{100 * rates[0]:.1f}" in model.to_markdown()
