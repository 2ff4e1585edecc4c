"""The recurrent model: PyTorch's answers, one step at a time, and nothing of what comes later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from intent_log import event, folder_of, random_log

from visir.sessions.examples import EverySession, draw
from visir.sessions.features import LAST
from visir.sessions.prediction.live import LiveScorer, restore_state, save_state
from visir.sessions.prediction.models import CLASSIFIERS, GruModel, SequenceClassifier, expanded
from visir.sessions.prediction.purchase_model import PurchaseModel, load_model
from visir.sessions.prediction.training import train
from visir.sessions.table_labels import SessionExamples

for package in ("duckdb", "sklearn", "torch"):
    pytest.importorskip(package, reason="needs the extras 'sessions' and 'torch'")

LOG = random_log(60)


@pytest.fixture(scope="module")
def log_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(LOG, tmp_path_factory.mktemp("log"))


@pytest.fixture(scope="module")
def model(log_folder: Path) -> PurchaseModel:
    return train(log_folder, "gru")


@pytest.fixture(scope="module")
def examples(log_folder: Path) -> SessionExamples:
    return draw(log_folder, EverySession())


def gru_of(model: PurchaseModel) -> GruModel:
    part = model.parts["all"]
    assert isinstance(part, GruModel) and isinstance(part, SequenceClassifier)
    return part


def test_it_answers_as_pytorch_does(model: PurchaseModel, examples: SessionExamples) -> None:
    import torch

    part = gru_of(model)
    matrices = [part.learnt.matrix(examples, step) for step in part.steps]
    columns = [part.scaling.apply(expanded(part.learnt, matrix)) for matrix in matrices]
    hidden, width = len(part.weights["output"]), columns[0].shape[1]
    reference = torch.nn.GRU(width, hidden, batch_first=True).double()
    names = ("input", "recurrent", "input_bias", "recurrent_bias")
    with torch.no_grad():
        for parameter, name in zip(reference.parameters(), names, strict=True):
            parameter.copy_(torch.from_numpy(part.weights[name]))
        states = reference(torch.from_numpy(np.stack(columns, axis=1)))[0].numpy()
    expected = 1 / (1 + np.exp(-(states @ part.weights["output"] + part.weights["offset"])))
    for step in part.steps:
        np.testing.assert_allclose(part.probability(examples, step), expected[:, step], rtol=1e-12)


def test_it_learns_what_the_log_has(model: PurchaseModel) -> None:
    report = model.card["report"]
    (last,) = [page for page in report["pages"] if page["step"] == 5]
    assert last["measures"]["roc_auc"]["model"][0] > last["measures"]["roc_auc"]["base rate"][0] + 0.1


def test_the_same_seed_gives_the_same_model_and_another_seed_another(log_folder: Path, model: PurchaseModel) -> None:
    import torch

    before = torch.random.get_rng_state()
    again, other = train(log_folder, "gru"), train(log_folder, "gru", seed=1)
    assert torch.equal(torch.random.get_rng_state(), before), "the caller's random numbers stay as they are"
    assert gru_of(again).to_json() == gru_of(model).to_json() != gru_of(other).to_json()


def test_nothing_after_the_step_is_used(model: PurchaseModel, examples: SessionExamples) -> None:
    part = gru_of(model)
    for step in (0, 1, 3):
        pages, opened = examples.pages.codes.copy(), examples.opened.copy()
        added, queried = examples.added.copy(), examples.queried.copy()
        pages[:, step:], opened[:, step:] = -1, -1
        added[:, step + 1 :], queried[:, step + 1 :] = 9, 9
        coded = replace(examples.pages, codes=pages)
        blind = replace(examples, pages=coded, opened=opened, added=added, queried=queried, purchase=~examples.purchase)
        np.testing.assert_array_equal(part.probability(blind, step), part.probability(examples, step))


def test_a_stream_goes_on_from_the_state_before(
    model: PurchaseModel, examples: SessionExamples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, steps = gru_of(model), []
    advance = GruModel.advance

    def watched(self, states, rows, step):  # type: ignore[no-untyped-def]
        steps.append(step)
        return advance(self, states, rows, step)

    expected = {
        (examples.visitor[row], int(examples.began[row]), step): chance
        for step in part.steps
        for row, chance in enumerate(part.probability(examples, step))
        if examples.reached[row] >= step
    }
    monkeypatch.setattr(GruModel, "advance", watched)
    one_by_one, together = LiveScorer(model), LiveScorer(model)
    scores = [score for row in LOG for score in one_by_one.observe(row)]
    assert len(steps) == len(scores) == len(expected), "a page costs one step"
    for score in scores:
        chance = expected[score.visitor, score.began, score.step]
        assert score.probability == pytest.approx(chance, rel=1e-9)
    half, path = len(LOG) // 2, tmp_path / "state"
    first = together.observe_all(LOG[:half])
    save_state(together, path, lines=half)
    after = LiveScorer(load_model(model.save(tmp_path / "model", even_if_worse=True)))
    assert restore_state(after, path) == half
    rest = first + after.observe_all(LOG[half:])
    assert [(score.visitor, score.step) for score in rest] == [(score.visitor, score.step) for score in scores]
    assert [score.probability for score in rest] == pytest.approx([score.probability for score in scores], rel=1e-9)


def test_the_dwell_time_of_the_page_before_by_hand(tmp_path: Path) -> None:
    drawn = draw(folder_of([event("a", minute) for minute in (0, 2, 5)], tmp_path), EverySession())
    values = [LAST.values(drawn, step, {})[0] for step in range(5)]
    np.testing.assert_array_equal(values, [np.nan, np.nan, 120.0, 180.0, np.nan])


def test_the_kinds_are_those_that_can_be_asked_for() -> None:
    assert list(CLASSIFIERS) == ["blend", "lr", "gbdt", "gru"]
