"""The live protocol: all sessions at every step, later sessions as the test, and what a model must beat."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from intent_log import BEGAN, DAY, MINUTE, Row, event, folder_of, random_log

from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.sessions.examples import EverySession, draw
from visir.sessions.prediction.live_report import live_report, log_losses, rankings, reference_chances
from visir.sessions.prediction.models import (
    CLASSIFIERS,
    L2,
    LEAF_ROWS,
    LEARNING_RATE,
    LEAVES,
    ROUNDS,
    BoostedTrees,
    LiveModel,
    temporal_split,
)
from visir.sessions.prediction.purchase_model import load_model
from visir.sessions.prediction.training import train
from visir.sessions.table_labels import STEPS, SessionExamples

for package in ("duckdb", "sklearn"):
    pytest.importorskip(package, reason="needs the extra 'sessions'")


def short_log(customers: int = 120) -> list[Row]:
    """The log of `random_log`, most sessions cut short: two of three have one to four pages and no order."""
    rng = np.random.default_rng(1)
    keeps: dict[tuple[str, int], int] = {}
    rows: list[Row] = []
    for row in random_log(customers):
        key = (row["visitor"], (row["time"] - BEGAN) // DAY)
        keeps.setdefault(key, int(rng.integers(1, 5)) if rng.random() < 0.66 else 99)
        if keeps[key] > 0 and (row["action"] != "order" or keeps[key] > 20):
            rows.append(row)
            keeps[key] -= row["action"] == "page"
    return rows


@pytest.fixture(scope="module")
def log_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(short_log(), tmp_path_factory.mktemp("log"))


@pytest.fixture(scope="module")
def examples(log_folder: Path) -> SessionExamples:
    return draw(log_folder, EverySession())


def test_every_session_is_an_example_of_any_length(tmp_path: Path) -> None:
    rows = [
        event("a", 0, "home"),
        event("a", 0.5, None, "add"),
        event("a", 1, "list"),
        event("a", 2, None, "query", query="shoe"),
        event("a", 3, "basket"),
        event("a", 4, None, "order"),
        event("a", 5, "thanks"),
        event("b", 0, None, "order"),  # nothing is left to predict
        event("c", 0, None, "add"),
        event("c", 1, "list", customer="x"),
    ]
    drawn = draw(folder_of(rows, tmp_path), EverySession())
    assert drawn.visitor.tolist() == ["a", "c"]
    assert drawn.reached.tolist() == [3, 1], "pages after the order are no steps"
    assert drawn.purchase.tolist() == [True, False]
    assert drawn.added[:, :4].tolist() == [[0, 0, 1, 1], [1, 1, 1, 1]], "up to the page before; the first request at 0"
    assert drawn.queried[0, :4].tolist() == [0, 0, 0, 1]
    assert drawn.customer_step.tolist()[1] == 1


def test_what_a_second_request_says_before_any_page_is_not_known_at_the_start(tmp_path: Path) -> None:
    rows = [event("a", 0, None, "other"), event("a", 1, None, "other", customer="x"), event("a", 2)]
    assert draw(folder_of(rows, tmp_path), EverySession()).customer_step.tolist() == [1]


def test_what_an_order_says_is_not_known_when_the_last_page_opens(tmp_path: Path) -> None:
    rows = [event("a", 0), event("a", 1), event("a", 2, None, "order", customer="x", device="pc")]
    drawn = draw(folder_of(rows, tmp_path), EverySession())
    assert drawn.reached.tolist() == [2] and not drawn.is_known(2)[0]
    assert drawn.known_device(2).codes.tolist() == [-1]


def test_earlier_visits_are_forgotten_after_thirty_days_away(tmp_path: Path) -> None:
    days = [0, 1, 30, 61, 62]  # 29 days away, then 31
    rows = [event("a", day * DAY / MINUTE) for day in days] + [event("b", 0)]
    drawn = draw(folder_of(rows, tmp_path), EverySession())
    assert drawn.visits[drawn.visitor == "a"].tolist() == [0, 1, 2, 0, 1]


def test_the_customer_s_past_goes_back_a_year(tmp_path: Path) -> None:
    year = 365 * DAY / MINUTE
    rows = [event("a", minute, customer="x") for minute in (0, year - 1, 2 * year - 2)]
    drawn = draw(folder_of(rows, tmp_path), EverySession())
    assert drawn.earlier.counts.tolist() == [0, 1, 1]


def test_trees_answer_as_scikit_learn_does() -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(0)
    columns = np.round(rng.normal(size=(900, 5)), 1)
    purchase = rng.random(900) < 1 / (1 + np.exp(-2 * columns[:, 0] * columns[:, 1]))
    trees = BoostedTrees.fit(columns, purchase)
    reference = HistGradientBoostingClassifier(
        max_leaf_nodes=LEAVES,
        max_iter=ROUNDS,
        learning_rate=LEARNING_RATE,
        l2_regularization=L2,
        min_samples_leaf=LEAF_ROWS,
        early_stopping=False,
    ).fit(columns, purchase)
    new = np.concatenate([columns, rng.normal(size=(300, 5))])
    np.testing.assert_allclose(trees.log_odds(new), reference.decision_function(new), atol=1e-12)
    again = BoostedTrees.from_json(trees.to_json())
    np.testing.assert_array_equal(again.log_odds(new), trees.log_odds(new))


def test_drawn_measures_are_scikit_learn_s_with_weights() -> None:
    from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

    rng = np.random.default_rng(0)
    chance = np.round(rng.random(200), 1)  # many ties
    purchase = rng.random(200) < chance / 2
    weights = rng.integers(0, 4, (3, 200)).astype(float)
    ranked = rankings(chance, purchase, weights)
    for row, auc, precision in zip(weights, ranked["roc_auc"], ranked["pr_auc"], strict=True):
        assert auc == pytest.approx(roc_auc_score(purchase, chance, sample_weight=row))
        assert precision == pytest.approx(average_precision_score(purchase, chance, sample_weight=row))
    inner = np.clip(chance, 0.1, 0.9)
    assert log_losses(inner, purchase).mean() == pytest.approx(log_loss(purchase, inner))


def test_lift_counts_the_first_tenth() -> None:
    chance, purchase = np.arange(20) / 20, np.zeros(20, bool)
    purchase[[19, 0]] = True  # of the first two one buys, of all a tenth
    assert rankings(chance, purchase, np.ones((1, 20)))["lift"].tolist() == [5.0]
    assert rankings(np.full(20, 0.5), purchase, np.ones((1, 20)))["lift"].tolist() == [1.0]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_model_is_saved_as_numbers_and_answers_the_same(name: str, log_folder: Path, tmp_path: Path) -> None:
    trained = train(log_folder, name)
    loaded = load_model(trained.save(tmp_path / name, even_if_worse=True))
    assert sorted(path.name for path in (tmp_path / name).glob("model*")) == ["model.json"]
    assert loaded.card == trained.card
    drawn = draw(log_folder, EverySession())
    for step in (0, 1, 4, STEPS):
        before = trained.parts["all"].probability(drawn, step)
        np.testing.assert_array_equal(loaded.parts["all"].probability(drawn, step), before)
        assert ((before > 0) & (before < 1)).all()


def test_nothing_after_the_step_and_no_later_outcome_is_used(examples: SessionExamples) -> None:
    split = temporal_split(examples)
    fitted = LiveModel.fit("blend", examples, split.train)
    other = replace(examples, purchase=np.where(split.train, examples.purchase, ~examples.purchase))
    again = LiveModel.fit("blend", other, split.train)
    for step in (0, 1, 3):
        np.testing.assert_array_equal(again.probability(other, step), fitted.probability(examples, step))
        pages, opened = examples.pages.codes.copy(), examples.opened.copy()
        added, queried = examples.added.copy(), examples.queried.copy()
        pages[:, step:] = -1
        opened[:, step:] = -1
        added[:, step + 1 :] = 9
        queried[:, step + 1 :] = 9
        blind = replace(
            examples, pages=replace(examples.pages, codes=pages), opened=opened, added=added, queried=queried
        )
        np.testing.assert_array_equal(fitted.probability(blind, step), fitted.probability(examples, step))


def test_the_chances_are_those_of_all_sessions(examples: SessionExamples) -> None:
    # On the sessions it learnt from, the mean chance is the share that buys: nothing is weighted.
    everything = np.ones(len(examples), bool)
    for name in ("lr", "gbdt"):
        fitted = LiveModel.fit(name, examples, everything)
        for step in (0, 1, 5):
            reached = examples.reached >= step
            mean = fitted.probability(examples, step)[reached].mean()
            assert mean == pytest.approx(examples.purchase[reached].mean(), abs=1e-4 if name == "lr" else 0.02)


def test_a_step_with_one_outcome_has_its_rate(examples: SessionExamples) -> None:
    rows = (examples.reached < 6) | examples.purchase
    fitted = LiveModel.fit("lr", examples, rows)
    buys = int((rows & (examples.reached >= 8)).sum())
    assert fitted.regressions[8] is None
    assert fitted.probability(examples, 8) == pytest.approx((buys + 0.5) / (buys + 1))


def test_references_learn_from_the_same_sessions(examples: SessionExamples) -> None:
    from sklearn.linear_model import LogisticRegression

    split = temporal_split(examples)
    chances = reference_chances(examples, split.train, split.test, 2)
    train, test = split.train & (examples.reached >= 2), split.test & (examples.reached >= 2)
    buys = int(examples.purchase[train].sum())
    assert chances["base rate"] == pytest.approx((buys + 0.5) / (train.sum() + 1))
    # The same by hand: one column for each name, hours and weekdays on a circle.
    names = ("device", "channel")
    columns = []
    for name, words in ((name, getattr(examples, f"known_{name}")(1)) for name in names):
        used = getattr(examples, name).used_names(split.train)
        codes = words.codes_in(used, missing=len(used), unseen=len(used))
        columns += [(codes == code).astype(float) for code in range(len(used) + 1)]
    first = replace(examples.pages, codes=examples.pages.codes[:, 0])
    used = examples.pages.used_names(split.train)
    codes = first.codes_in(used, missing=len(used), unseen=len(used))
    columns += [(codes == code).astype(float) for code in range(len(used) + 1)]
    for values, period in ((examples.hour, 24), (examples.weekday - 1, 7)):
        columns += [np.sin(2 * np.pi * values / period), np.cos(2 * np.pi * values / period)]
    matrix = np.column_stack(columns)
    model = LogisticRegression(max_iter=1000).fit(matrix[train], examples.purchase[train])
    np.testing.assert_allclose(chances["plain LR"], model.predict_proba(matrix[test])[:, 1], atol=1e-4)


def test_the_report_is_of_later_sessions(log_folder: Path, examples: SessionExamples) -> None:
    trained = train(log_folder, "lr", test_from="2025-03-15")
    report, cut = trained.card["report"], BEGAN + 14 * DAY
    later = examples.began >= cut
    assert trained.card["test_from"] == "2025-03-15T00:00:00+00:00"
    assert (report["sessions"], report["purchases"]) == (later.sum(), examples.purchase[later].sum())
    reached = later & (examples.reached >= 3)
    page = next(page for page in report["pages"] if page["step"] == 3)
    chance, buys = trained.parts["all"].probability(examples, 3)[reached], examples.purchase[reached]
    value, low, high = page["measures"]["log_loss"]["model"]
    assert value == pytest.approx(log_losses(chance, buys).mean())
    assert low < value < high
    assert page["measures"]["mean_p"]["model"][0] == pytest.approx(chance.mean())
    lengths = {row["group"]: row["sessions"] for row in report["reliability"]}
    assert lengths["1 page in all"] == (later & (examples.reached == 1)).sum()
    shown = trained.to_markdown()
    assert "plain LR" in shown and "ROC-AUC" in shown and "base rate" in (trained._repr_html_() or "")


def test_visitors_are_drawn_whole(examples: SessionExamples) -> None:
    # Sessions of one visitor come and go together: other intervals than sessions each for itself.
    split = temporal_split(examples)
    fitted = LiveModel.fit("lr", examples, split.train)
    report = live_report(fitted, examples, split.train, split.test, test_from=0, samples=200)
    one = next(page for page in report["pages"] if page["step"] == 1)["measures"]["log_loss"]["model"]
    alone = replace(examples, visitor=np.array([f"{row}" for row in range(len(examples))], object))
    apart = live_report(fitted, alone, split.train, split.test, test_from=0, samples=200)
    other = next(page for page in apart["pages"] if page["step"] == 1)["measures"]["log_loss"]["model"]
    assert one[0] == other[0] and one[1:] != other[1:]


def test_refit_learns_from_all_sessions_after_the_test(log_folder: Path, examples: SessionExamples) -> None:
    plain, again = train(log_folder, "lr"), train(log_folder, "lr", refit=True)
    assert again.card["report"] == plain.card["report"]
    assert again.card["drawn"]["train"]["sessions"] == len(examples) > plain.card["drawn"]["train"]["sessions"]
    assert (again.parts["all"].probability(examples, 1) != plain.parts["all"].probability(examples, 1)).any()


def test_a_model_that_loses_is_not_saved_unless_you_ask(tmp_path: Path) -> None:
    rows: list[Row] = []
    for number in range(400):  # until the middle those on a pc buy, then those on a phone
        device, early = ("pc", "phone")[number % 2], number < 200
        start = number * DAY / MINUTE / 20
        rows += [
            event(f"v{number}", start, "home", device=device),
            event(f"v{number}", start + 1, "list", device=device),
        ]
        if (device == "pc") == early and number % 4 < 2:
            rows.append(event(f"v{number}", start + 2, None, "order"))
    trained = train(folder_of(sorted(rows, key=lambda row: row["time"]), tmp_path), "lr", test_share=0.5)
    assert "base rate" in trained.loses_to
    with refused(VisirError, "base rate", code="not-saved") as caught:
        trained.save(tmp_path / "model")
    assert "--even-if-worse" in (caught.value.hint or "") and not (tmp_path / "model").exists()
    assert load_model(trained.save(tmp_path / "model", even_if_worse=True)).loses_to == trained.loses_to


def test_options_of_the_other_protocol_are_refused_together(log_folder: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        train(log_folder, "rf", min_pages=6, features="baseline", test_share=2.0)
    for part in ("min_pages", "features", "'rf'", "thesis protocol", "test_share 2.0"):
        assert part in str(caught.value)
    with refused(ConfigurationError, "test_from"):
        train(log_folder, protocol="thesis", test_from="2025-03-10")
    with refused(ConfigurationError, "lives", code="unknown-protocol"):
        train(log_folder, protocol="lives")  # type: ignore[arg-type]
    with refused(ConfigurationError, code="not-date-time"):
        train(log_folder, test_from="tomorrow")
    with refused(VisirError, "2025-03-01T00", code="sessions-learn-before-test"):
        train(log_folder, test_from="2035-01-01")


def test_the_reliability_plot_shows_every_group(log_folder: Path) -> None:
    pytest.importorskip("matplotlib")
    trained = train(log_folder, "lr")
    figure = trained.plot()
    rows = trained.card["report"]["reliability"]
    left, right = figure.axes
    for axes, own in (
        (left, [row for row in rows if row["group"].startswith("page ")]),
        (right, [row for row in rows if row["group"].endswith(" in all")]),
    ):
        lines = {line.get_label(): line for line in axes.lines}
        assert lines["share that buys, 95 %"].get_xdata().tolist() == [100 * row["rate"] for row in own]
        assert lines["mean probability"].get_xdata().tolist() == [100 * row["mean_p"] for row in own]
        names = [label.get_text() for label in axes.get_yticklabels()]
        assert [name.split("(")[1] for name in names] == [f"{row['sessions']:,})" for row in own]
    assert len(rows) == len(left.get_yticks()) + len(right.get_yticks())
    assert "<svg" in (trained._repr_html_() or "")
    study = train(log_folder, "lr", protocol="thesis", min_pages=4)
    with refused(VisirError, "thesis", code="no-report"):
        study.plot()


def two_pages_each(visitors: int, buyers: set[int]) -> list[Row]:
    """One session an hour; those of `buyers` end with an order."""
    rows: list[Row] = []
    for number in range(visitors):
        rows += [event(f"v{number}", 60 * number, "home"), event(f"v{number}", 60 * number + 1, "list")]
        rows += [event(f"v{number}", 60 * number + 2, None, "order")] * (number in buyers)
    return rows


def test_a_model_that_no_later_purchase_has_tested_is_not_saved_unless_you_ask(tmp_path: Path) -> None:
    trained = train(folder_of(two_pages_each(100, set(range(0, 60, 9))), tmp_path), "lr")
    with refused(VisirError, "none", "31", code="visir-not-saved") as caught:
        trained.save(tmp_path / "model")
    assert "--test-share" in (caught.value.hint or "") and not (tmp_path / "model").exists()
    assert trained.save(tmp_path / "model", even_if_worse=True).is_dir()


def test_too_little_to_learn_from_is_refused_for_every_classifier(tmp_path: Path) -> None:
    few = folder_of(two_pages_each(4, {0}), tmp_path / "few")
    none = folder_of(two_pages_each(100, {99}), tmp_path / "none")
    for classifier in ("lr", "gbdt", "blend", "gru"):
        with pytest.raises(
            VisirError, match=r"2 sessions to learn from before (?s:.)*they are of 2 people; at least 5"
        ) as caught:
            train(few, classifier)
        assert "--test-from" in (caught.value.hint or "")
        with pytest.raises(VisirError, match="none has a purchase: nothing to tell apart") as caught:
            train(none, classifier)
        assert "--test-from" in (caught.value.hint or "") and "folds" not in str(caught.value)


def test_a_log_of_orders_alone_has_no_session_to_score(tmp_path: Path) -> None:
    rows = [event(f"v{number}", 60 * number, None, "order") for number in range(20)]
    with refused(VisirError, code="no-session-score") as caught:
        train(folder_of(rows, tmp_path), "lr")
    assert "--min-pages" not in (caught.value.hint or "")


def test_numbers_that_cannot_be_used_are_refused_before_the_work(tmp_path: Path) -> None:
    for seed in (-1, 2**32):
        with refused(ConfigurationError, "n 0", "at least one session", f"seed {seed}", "whole number"):
            train(tmp_path / "nowhere", "gbdt", seed=seed, n=0)
