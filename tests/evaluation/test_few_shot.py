"""Linear probe and Tip-Adapter against scikit-learn, torch and the formulas by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from visir.evaluation.classification.few_shot import (
    ALPHA,
    BETA,
    FIXED,
    STRENGTHS,
    DrawnPictures,
    FewShotPlan,
    Shots,
    cache_scores,
    few_shot,
    first_of_each,
    folds_of_shots,
    key_gradient,
    probe_scores,
    shuffled_by_class,
    tip_scores,
    trained_keys,
)
from visir.evaluation.classification.result import (
    Predictions,
    confusion,
    judged,
    mean_per_class,
    over_draws,
    per_class,
    top,
)
from visir.records import Items


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def clusters(count: int, classes: int, size: int, seed: int = 0, noise: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors around a random centre for each class."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(classes, size))
    codes = np.repeat(np.arange(classes), count)
    return unit(centres[codes] + noise * np.sqrt(size) * rng.normal(size=(len(codes), size)) / 3), codes


def test_shots_follow_from_ids_and_seed_and_lie_in_one_another() -> None:
    ids, codes = [f"p{number}" for number in range(40)], np.arange(40) % 3
    rows = shuffled_by_class(ids, codes, 3, seed=1, draw=0)
    assert [sorted(codes[of_class]) == list(codes[of_class]) for of_class in rows] == [True] * 3
    assert {len(of_class) for of_class in rows} == {13, 14}
    two, four = first_of_each(rows, 2), first_of_each(rows, 4)
    assert set(two) < set(four) and len(four) == 12
    backwards = shuffled_by_class(ids[::-1], codes[::-1], 3, seed=1, draw=0)
    assert [[ids[row] for row in of_class] for of_class in rows] == [
        [ids[::-1][row] for row in of_class] for of_class in backwards
    ]
    assert list(shuffled_by_class(ids, codes, 3, seed=1, draw=1)[0]) != list(rows[0])
    assert [len(part) for part in shuffled_by_class(["a"], np.array([2]), 4, 0, 0)] == [0, 0, 1, 0]
    assert first_of_each(rows, None).tolist() == [row for of_class in rows for row in of_class]
    assert folds_of_shots(np.array([0, 0, 1, 0]), 3).tolist() == [0, 1, 0, 2]


def test_every_draw_trains_in_an_order_of_its_own() -> None:
    """Tip-Adapter-F in batches of 256: the same 320 shots in both draws, and yet not the same keys."""
    vectors, codes = clusters(8, 40, 8, noise=2.0)
    pictures, truth = clusters(40, 40, 8, seed=1, noise=2.0)
    ids = pa.array([f"p{row}" for row in range(len(codes))])
    order = [np.flatnonzero(codes == code) for code in range(40)]
    training = DrawnPictures(codes, [order, order], vectors, np.arange(len(codes)), Items(ids, ids))

    def predicted(seed: int) -> np.ndarray:
        plan = FewShotPlan(("tip-adapter-f",), (8,), 2, "fixed", seed)
        (predictions,) = few_shot(plan, training, None, pictures, truth, None, 40).values()
        return predictions.predicted

    first, second = predicted(0)
    assert 0 < (first != second).sum() < len(pictures) / 5
    assert (second == predicted(1)[0]).all()


def test_accuracy_by_hand() -> None:
    scores = np.array([[0.9, 0.5, 0.1], [0.2, 0.3, 0.1], [0.4, 0.4, 0.1], [0.0, 0.0, 1.0]])
    truth = np.array([0, 0, 1, 2])
    predictions = judged(scores, truth)
    assert predictions.ranks.tolist() == [[1, 2, 2, 1]]
    assert predictions.predicted.tolist() == [[0, 1, 0, 2]]  # the tie of the third counts against the classifier
    assert top(predictions, 1).mean == 0.5 and top(predictions, 2).mean == 1.0
    shares, counts = per_class(predictions, truth, 4)
    assert shares[0, :3].tolist() == [0.5, 0.0, 1.0] and counts.tolist() == [2, 1, 1, 0]
    assert mean_per_class(predictions, truth, 4).mean == 0.5
    assert confusion(predictions, truth, 3).tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 1]]


def test_intervals() -> None:
    from scipy.stats import binomtest, ttest_1samp

    expected = binomtest(7, 30).proportion_ci(0.95, method="wilson")
    value = top(judged(np.eye(2)[[0] * 7 + [1] * 23], np.zeros(30, np.int64)), 1)
    assert (value.low, value.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    shares = np.array([0.5, 0.52, 0.55, 0.49, 0.6])
    ends = ttest_1samp(shares, 0).confidence_interval(0.95)
    value = over_draws(shares)
    assert (value.low, value.high) == pytest.approx((ends.low, ends.high), abs=1e-12)
    assert value.deviation == pytest.approx(shares.std(ddof=1))
    assert np.isnan([over_draws(np.full(3, 0.5)).low, over_draws(np.full(3, 0.5)).high]).all()  # no spread, no interval
    draws = Predictions.stacked([judged(np.eye(2), np.array([0, 1])), judged(np.eye(2), np.array([0, 0]))])
    assert top(draws, 1).mean == 0.75


def test_a_classifier_that_cannot_tell_classes_apart_is_never_right() -> None:
    assert top(judged(np.zeros((6, 3)), np.array([0, 1, 2, 0, 1, 2])), 1).mean == 0


@pytest.mark.parametrize(("count", "size"), [(2, 64), (12, 8)], ids=["in the span", "more pictures than dimensions"])
def test_the_probe_is_that_of_scikit_learn(count: int, size: int) -> None:
    sklearn = pytest.importorskip("sklearn.linear_model")
    vectors, codes = clusters(count, 5, size)
    pictures, truth = clusters(20, 5, size, seed=1)
    scores, setting = probe_scores(Shots(vectors, codes, 5, tuned=False), pictures)
    assert setting == f"C = {FIXED:g}"
    own = sklearn.LogisticRegression(C=FIXED, max_iter=5_000, tol=1e-10).fit(vectors, codes)
    np.testing.assert_allclose(scores, own.decision_function(pictures), atol=0.06)  # where its steps end
    assert (scores.argmax(1) == own.predict(pictures)).all()
    assert (scores.argmax(1) == truth).mean() > 0.5


def test_the_strength_is_chosen_on_shots_or_validation_and_not_on_what_is_measured() -> None:
    sklearn = pytest.importorskip("sklearn.linear_model")
    vectors, codes = clusters(6, 4, 16)
    validation, validation_codes = clusters(4, 4, 16, seed=2)
    likelihoods = []
    for strength in STRENGTHS:
        line = sklearn.LogisticRegression(C=strength, max_iter=5_000, tol=1e-8).fit(vectors, codes)
        chances = line.predict_proba(validation)
        likelihoods.append(np.log(chances[np.arange(len(validation)), validation_codes]).mean())
    _, setting = probe_scores(Shots(vectors, codes, 4, validation, validation_codes), vectors)
    assert setting == f"C = {STRENGTHS[int(np.argmax(likelihoods))]:g}"
    _, cross = probe_scores(Shots(vectors, codes, 4), vectors)
    assert cross.startswith("C = ")
    parts = list(Shots(vectors, codes, 4).parts())
    assert len(parts) == 4 and sum(len(judged_codes) for *_, judged_codes in parts) == 24
    assert list(Shots(vectors[::6], codes[::6], 4).parts()) == []  # one shot: nothing can be held out


def test_a_class_without_shots_gets_the_lowest_score() -> None:
    pytest.importorskip("sklearn")
    vectors, codes = clusters(3, 3, 8)
    scores, _ = probe_scores(Shots(vectors, codes, 4), vectors)
    assert (scores[:, 3] == -np.inf).all() and np.isfinite(scores[:, :3]).all()
    alone, _ = probe_scores(Shots(vectors[:3], codes[:3], 4), vectors)
    assert alone.argmax(1).tolist() == [0] * 9
    two, _ = probe_scores(Shots(vectors[:6], codes[:6], 3), vectors[:6])
    assert (two.argmax(1) == codes[:6]).mean() > 0.8


def test_the_search_of_clip() -> None:
    sklearn = pytest.importorskip("sklearn.linear_model")
    vectors, codes = clusters(6, 3, 16, noise=1.5)
    validation, validation_codes = clusters(20, 3, 16, seed=5, noise=1.5)
    scores, setting = probe_scores(Shots(vectors * 7, codes, 3, validation * 7, validation_codes), vectors, clip=True)
    strength = float(setting.removeprefix("C = "))
    assert 1e-6 <= strength <= 1e6
    both, both_codes = np.concatenate([vectors, validation]) * 7, np.concatenate([codes, validation_codes])
    own = sklearn.LogisticRegression(C=strength, max_iter=1_000).fit(both, both_codes)
    assert (own.predict(vectors) == scores.argmax(1)).mean() > 0.9


def test_the_formula_of_tip_adapter_by_hand() -> None:
    """Paper, equations 5 and 6, with loops."""
    rng = np.random.default_rng(3)
    keys, pictures, text = unit(rng.normal(size=(7, 5))), unit(rng.normal(size=(4, 5))), unit(rng.normal(size=(3, 5)))
    codes = np.array([0, 2, 1, 0, 2, 0, 1])
    expected = np.zeros((4, 3))
    for row, picture in enumerate(pictures):
        for key, code in zip(keys, codes, strict=True):
            expected[row, code] += 0.7 * np.exp(-3.0 * (1 - float(picture @ key)))
        for code in range(3):
            expected[row, code] += 100 * float(picture @ text[code])
    np.testing.assert_allclose(cache_scores(pictures, keys, codes, 3, text, 0.7, 3.0), expected, rtol=1e-4)
    scores, setting = tip_scores(Shots(keys, codes, 3, tuned=False), pictures, text)
    assert setting == "α = 1, β = 5.5"
    np.testing.assert_allclose(scores, cache_scores(pictures, keys, codes, 3, text, ALPHA, BETA))
    alone = cache_scores(pictures, keys[:2], codes[:2], 3, None, 1.0, 2.0)
    assert (alone[:, 1] == 0).all() and (alone[:, [0, 2]] > 0).all()


def test_alpha_and_beta_are_those_with_the_highest_accuracy() -> None:
    vectors, codes = clusters(4, 4, 12, noise=1.2)
    validation, validation_codes = clusters(6, 4, 12, seed=8, noise=1.2)
    text = unit(np.random.default_rng(0).normal(size=(4, 12)))  # knows nothing
    scores, setting = tip_scores(Shots(vectors, codes, 4, validation, validation_codes), validation, text)
    fixed, _ = tip_scores(Shots(vectors, codes, 4, tuned=False), validation, text)
    assert (scores.argmax(1) == validation_codes).mean() > (fixed.argmax(1) == validation_codes).mean()
    assert setting.startswith("α = 10")  # the cache outweighs class vectors that know nothing
    _, without = tip_scores(Shots(vectors, codes, 4), validation, None)
    assert without.startswith("β = ")


def test_the_training_of_tip_adapter_f_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    vectors, codes = clusters(3, 4, 10)
    text = unit(np.random.default_rng(1).normal(size=(4, 10)))
    values = np.eye(4, dtype=np.float32)[codes]
    keys = torch.nn.Parameter(torch.tensor(vectors))
    optimiser = torch.optim.AdamW([keys], lr=1e-3, eps=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 20)
    pictures, right = torch.tensor(vectors), torch.tensor(codes)
    for step in range(20):
        affinity = torch.exp(-5.5 * (1 - pictures @ keys.T))
        scores = affinity @ torch.tensor(values) + 2.0 * pictures @ torch.tensor(text).T
        loss = torch.nn.functional.cross_entropy(scores, right)
        optimiser.zero_grad()
        loss.backward()
        if step == 0:
            own = key_gradient(vectors, vectors, codes, values, 2.0 * vectors @ text.T, 1.0, 5.5)
            np.testing.assert_allclose(own, keys.grad.numpy(), atol=1e-6)
        optimiser.step()
        schedule.step()
    own = trained_keys(vectors, codes, 4, text, alpha=1.0, beta=5.5, scale=2.0)
    np.testing.assert_allclose(own, keys.detach().numpy(), atol=2e-4)
    assert not np.allclose(own, vectors, atol=1e-3)
