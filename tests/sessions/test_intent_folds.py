from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from intent_log import folder_of, random_log

from refusals import refused
from visir.errors import VisirError
from visir.sessions.examples import Sample, draw
from visir.sessions.prediction.models import (
    assign_folds,
    at_share,
    calibration_error,
    f1,
    measure_predictions,
    people_of,
    splits,
    temporal_split,
)
from visir.sessions.table_labels import SessionExamples

for package in ("duckdb", "sklearn"):
    pytest.importorskip(package, reason="needs the extra 'sessions'")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> SessionExamples:
    where = folder_of(random_log(60), tmp_path_factory.mktemp("log"))
    return draw(where, Sample("identified", min_pages=8, setting_from="session"))


def test_a_person_is_in_one_fold_and_every_session_is_predicted_once(drawn: SessionExamples) -> None:
    made = splits(drawn, "grouped", folds=5)
    assert (sum(one.test.astype(int) for one in made) == 1).all()
    for one in made:
        assert not (one.train & one.test).any()
        assert not set(drawn.customer[one.train]) & set(drawn.customer[one.test])
    shares = [drawn.purchase[one.test].mean() for one in made]
    assert max(shares) - min(shares) < 0.2
    apart = splits(drawn, "ungrouped", folds=5)
    assert any(set(drawn.customer[one.train]) & set(drawn.customer[one.test]) for one in apart)


def test_a_login_ties_visitors_and_customers(drawn: SessionExamples) -> None:
    three = replace(
        drawn,
        visitor=np.array(["phone", "pc", "pc", "tv", "tablet"], object),
        customer=np.array(["x", "x", None, None, "y"], object),
    )
    tied = people_of(three)
    assert len({tied[0], tied[1], tied[2]}) == 1
    assert len(set(tied.tolist())) == 3


def test_folds_depend_on_the_seed_and_not_on_the_order() -> None:
    groups, names = np.arange(20), [f"g{number}" for number in range(20)]
    purchase = np.arange(20) < 6
    fold = assign_folds(groups, names, purchase, 3, 0)
    assert np.bincount(fold[purchase]).tolist() == [2, 2, 2]
    turned = assign_folds(groups, names[::-1], purchase[::-1], 3, 0)
    np.testing.assert_array_equal(turned[::-1], fold)
    assert (assign_folds(groups, names, purchase, 3, 1) != fold).any()
    with refused(VisirError, "20", "21", code="people-cannot-dealt-folds"):
        assign_folds(groups, names, purchase, 21, 0)


def test_the_past_was_over_before_the_future_began(drawn: SessionExamples) -> None:
    split = temporal_split(drawn)
    assert drawn.ended[split.train].max() + 30 * 60_000_000 < drawn.began[split.test].min()
    assert split.test.sum() == pytest.approx(len(drawn) / 5, abs=2)


def test_sessions_that_are_not_over_train_nothing(drawn: SessionExamples) -> None:
    # The moment is 10:00, and a session is over half an hour after its last request.
    clock = [(8, 0, 8, 30), (9, 0, 9, 29), (9, 0, 9, 31), (9, 50, 10, 20), (10, 0, 10, 5), (11, 0, 11, 1)]
    began, ended = (np.array([60 * row[at] + row[at + 1] for row in clock]) * 60_000_000 for at in (0, 2))
    split = temporal_split(replace(drawn, began=began, ended=ended), cut=10 * 60 * 60_000_000)
    assert split.train.tolist() == [True, True, False, False, False, False]
    assert split.test.tolist() == [False, False, False, False, True, True]


def test_measures_by_hand() -> None:
    said, bought = np.array([1, 1, 1, 0, 0], bool), np.array([1, 0, 1, 1, 0], bool)
    assert f1(said, bought) == pytest.approx(4 / 6)  # 2 · 2 / (3 + 3)
    assert f1(np.zeros(3, bool), np.zeros(3, bool)) == 0
    # Bins of a tenth: 0.05 and 0.08 (none bought), 0.9 (bought) and 1.0 (not): |0.13| + |0.9 + 1 - 1|, by 4.
    assert calibration_error(np.array([0.05, 0.08, 0.9, 1.0]), np.array([0, 0, 1, 0], bool)) == pytest.approx(1.03 / 4)
    # One half where half buys is one in five where a fifth does; and back.
    assert at_share(np.array([0.5, 0.8]), 0.2).tolist() == pytest.approx([0.2, 0.5])
    assert at_share(np.array([0.2]), 0.5, 0.2).tolist() == pytest.approx([0.5])
    found = measure_predictions(np.array([0.5, 0.5, 0.5, 0.5]), 0.25, np.array([1, 0, 0, 0], bool))
    assert found == pytest.approx({"f1": 0.4, "roc_auc": 0.5, "pr_auc": 0.25, "brier": 0.1875, "ece": 0})
    assert np.isnan(measure_predictions(np.array([0.2]), 0.5, np.array([False]))["roc_auc"])
