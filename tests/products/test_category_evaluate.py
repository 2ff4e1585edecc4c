"""The evaluation: by hand, against ir_measures, over splits, by seen and unseen, and compared."""

from __future__ import annotations

from typing import Any

import ir_measures
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from refusals import refused
from visir.errors import ConfigurationError, EmbeddingError
from visir.products import CategoryTree
from visir.products.evaluation import TABLE, CategoryEvaluation, evaluate, evaluate_task, first_answers, hits
from visir.products.generated import generate_catalogue
from visir.products.opening import TreeErrors
from visir.products.systems import CategoryVectorSystem, TitleBm25, TrainedSystem
from visir.products.task import Split, category_task, folds
from visir.records import Catalogue, Embeddings, EncoderCard

CARD = EncoderCard("by hand", "imported")


def dense(
    catalogue: Catalogue, seed: int = 0, *, name: str = "dense", skill: float = 0.0, without: int = 0
) -> CategoryVectorSystem:
    """Random vectors; with `skill`, those of a product lean towards its most specific category's."""
    rng = np.random.default_rng(seed)
    tree = CategoryTree.of(catalogue)
    categories = rng.standard_normal((len(tree), 16)).astype(np.float32)
    own = tree.rows(catalogue.products["category_id"])
    products = rng.standard_normal((len(own), 16)).astype(np.float32) + skill * categories[own]
    ids = catalogue.products["id"].combine_chunks()
    return CategoryVectorSystem(
        name,
        Embeddings("text", catalogue.categories["id"].combine_chunks(), categories, CARD),
        Embeddings("text", ids[without:], products[without:], CARD),
    )


@pytest.fixture(scope="module")
def small() -> Catalogue:
    return generate_catalogue(300).catalogue


def test_measures_equal_ir_measures(small: Catalogue) -> None:
    # Some products have no vector: they are relevant and never found.
    found = evaluate(small, [dense(small, skill=0.5, without=20), TitleBm25()], folds(small, 2)[:1], depth=10_000)
    named = {
        "precision@1": "P@1", "precision@5": "P@5", "precision@10": "P@10", "rprecision": "Rprec",
        "map@5": "AP@5", "map@10": "AP@10", "mrr": "RR", "hit@1": "Success@1",
    }  # fmt: skip
    parsed = {ours: ir_measures.parse_measure(theirs) for ours, theirs in named.items()}
    for (system, setting), trials in found.trials.items():
        (trial,) = trials
        qrels = {q: {d: int(g) for d, g in own.items()} for q, own in trial.task.judgements().to_dict().items()}
        # The referee breaks ties its own way: ranks stand in for the scores.
        run = {
            query: {one: -float(rank) for rank, (one, _) in enumerate(trial.run.answer(query))}
            for query in trial.run.queries.to_pylist()
        }
        theirs = ir_measures.calc_aggregate(list(parsed.values()), qrels, run)
        for ours, measure in parsed.items():
            assert trial.mean(ours) == pytest.approx(theirs[measure], abs=1e-9), (system, setting, ours)


FOUR = Catalogue.of("four", ids=["a", "b", "c", "d"], paths=[["X", "X1"], ["X", "X2"], ["Y", "Y1"], ["Y", "Y1", "Y11"]])
ALL_TEST = Split(np.zeros(4, bool), np.zeros(4, bool), np.ones(4, bool), "by hand")


def by_hand(rankings: dict[str, str], split: Split = ALL_TEST) -> CategoryVectorSystem:
    """Vectors of which each category ranks the products as written, "bacd"."""
    ids = FOUR.categories["id"].to_pylist()
    vectors = np.zeros((len(ids), 4), np.float32)
    for row, one in enumerate(ids):
        for rank, product in enumerate(rankings.get(one, "abcd")):
            vectors[row, "abcd".index(product)] = 4 - rank
    return CategoryVectorSystem(
        "by hand",
        Embeddings("text", pa.array(ids), vectors, CARD),
        Embeddings("text", pa.array(list("abcd")), np.eye(4, dtype=np.float32), CARD),
    )


def test_judgements_are_those_that_were_asked_for(small: Catalogue) -> None:
    split = folds(small, 3)[0]
    systems = [dense(small, skill=0.5)]
    found = {
        relevance: evaluate(small, systems, [split], settings=["all"], relevance=relevance)  # type: ignore[arg-type]
        for relevance in ("path", "drawn")
    }
    for relevance, evaluation in found.items():
        task = category_task(small, split, "all", relevance=relevance)  # type: ignore[arg-type]
        (trial,) = evaluation.trials["dense", "all"]
        assert trial.task.judgements().to_dict() == task.judgements().to_dict()
        assert trial.mean("mrr") == evaluate_task(systems[0], task).mean("mrr")
    assert found["path"].spread("dense", "all", "mrr") != found["drawn"].spread("dense", "all", "mrr")


def test_all_folds_or_some_of_them_are_tested(small: Catalogue) -> None:
    def names(**options: Any) -> list[str]:
        evaluation = evaluate(small, [dense(small)], settings=["general"], **options)
        return [trial.task.fold.name for trial in evaluation.trials["dense", "general"]]

    assert names() == [f"fold {number} of 5, seed 0" for number in range(1, 6)]
    assert names(folds=3, fold=[3, 1], split_seed=2) == ["fold 1 of 3, seed 2", "fold 3 of 3, seed 2"]
    assert names(fold=2) == ["fold 2 of 5, seed 0"]


def test_three_settings_by_hand() -> None:
    rankings = {"X": "acbd", "Y": "abcd", "X > X1": "abcd", "X > X2": "abcd", "Y > Y1": "cabd", "Y > Y1 > Y11": "cdab"}
    found = evaluate(FOUR, [by_hand(rankings)], [ALL_TEST])

    def mean(setting: str, name: str) -> float:
        return found.spread("by hand", setting, name).mean  # type: ignore[arg-type]

    # general: X = {a, b}: ranks 1, 3; Y = {c, d}: ranks 3, 4.
    assert mean("general", "precision@1") == 0.5
    assert mean("general", "precision@5") == pytest.approx((2 / 5 + 2 / 5) / 2)
    assert mean("general", "rprecision") == (1 / 2 + 0) / 2
    # AP@5 over min(R, 5) = 2: X (1 + 2/3) / 2, Y (1/3 + 2/4) / 2.
    assert mean("general", "capped_map@5") == pytest.approx(((1 + 2 / 3) / 2 + (1 / 3 + 2 / 4) / 2) / 2)
    # specific: X1 = {a}: 1; X2 = {b}: 2; Y1 = {c, d}: 1, 4; Y11 = {d}: 2. So P@1 is 2 of 4.
    assert mean("specific", "precision@1") == 0.5
    assert mean("specific", "rprecision") == pytest.approx((1 + 0 + 1 / 2 + 0) / 4)
    assert mean("all", "precision@1") == 3 / 6
    np.testing.assert_array_equal(
        hits(found.trials["by hand", "general"][0], 6), [[1, 0, 1, 0, 0, 0], [0, 0, 1, 1, 0, 0]]
    )


def test_wrong_first_answers_on_a_hand_made_tree() -> None:
    rankings = {"X > X1": "bacd", "X > X2": "dabc", "Y > Y1": "abcd", "Y > Y1 > Y11": "cdab"}
    found = first_answers(evaluate(FOUR, [by_hand(rankings)], [ALL_TEST]).trials["by hand", "specific"])
    # X1 gets b of X2: the same tree, side by side (difference 0, 2 edges). Y11 gets c of Y1: one level up (-1, 1 edge).
    # X2 (depth 2) gets d of Y11 (depth 3): 2 + 3 edges over a common root. Y1 gets a of X1: 2 + 2.
    assert found.errors == TreeErrors(0, 2, 2, {-1: 1, 0: 1}, {1: 1, 2: 1, 4: 1, 5: 1})
    assert (found.queries, found.right, found.unanswered) == (4, 0, 0)


def test_two_roots_are_never_in_one_tree() -> None:
    found = first_answers(
        evaluate(FOUR, [by_hand({"X": "cabd", "Y": "dabc"})], [ALL_TEST], settings=["general"]).trials[
            "by hand", "general"
        ]
    )
    assert (found.right, found.errors.same_tree, found.errors.different_tree) == (1, 0, 1)
    assert found.errors.distances == {2: 1}


def test_a_first_answer_by_name_is_measured_from_the_nearest_namesake() -> None:
    two = Catalogue.of("two", ids=list("abcd"), paths=[["X", "Caps"], ["X", "Hats"], ["Y", "Hats"], ["Y", "Bags"]])
    system = CategoryVectorSystem(
        "s",
        Embeddings("text", two.categories["id"].combine_chunks(), np.eye(6, 4, dtype=np.float32) + 0.01, CARD),
        Embeddings("text", pa.array(list("abcd")), np.tile([[0, 0, 0, 1]], (4, 1)).astype(np.float32), CARD),
    )
    # All products tie, so "a" (X > Caps) is first for everyone: right for Caps, wrong for Hats and Bags.
    found = first_answers(evaluate(two, [system], [ALL_TEST], by="name", settings=["specific"]).trials["s", "specific"])
    assert (found.queries, found.right) == (3, 1)
    assert found.errors.distances == {2: 1, 4: 1}  # X > Hats is beside it, Y > Hats not; Bags is in the other tree


def test_unanswered_is_wrong_and_lies_nowhere() -> None:
    titled = Catalogue.of("t", ids=list("abcd"), paths=[["X"], ["X"], ["Y"], ["Y"]], titles=["x-ray x", "", "", ""])
    found = first_answers(evaluate(titled, [TitleBm25()], [ALL_TEST], settings=["general"]).trials["BM25", "general"])
    assert (found.queries, found.right, found.unanswered) == (2, 0, 2)  # one-letter words are no words
    assert found.errors == TreeErrors(0, 0, 0, {}, {})


def test_seen_and_unseen_make_the_whole(small: Catalogue) -> None:
    found = evaluate(small, [dense(small, skill=1.0)], folds(small, 3))
    for setting in found.settings:
        trials = found.trials["dense", setting]
        parts = found.by_seen("dense", setting, "rprecision")
        whole = np.concatenate([one.values("rprecision") for one in trials])
        assert sum(n for _, n in parts.values()) == len(whole)
        assert sum(value * n for value, n in parts.values()) == pytest.approx(whole.sum())
    assert set(found.by_seen("dense", "general", "rprecision")) == {"seen"}  # a part without queries is left out


def test_spread_is_over_splits(small: Catalogue) -> None:
    found = evaluate(small, [dense(small)], folds(small, 3))
    values = [one.mean("precision@10") for one in found.trials["dense", "all"]]
    spread = found.spread("dense", "all", "precision@10")
    assert (spread.mean, spread.sd, spread.splits) == (np.mean(values), pytest.approx(np.std(values, ddof=1)), 3)
    assert np.isnan(evaluate(small, [dense(small)], folds(small, 3)[:1]).spread("dense", "all", "mrr").sd)


def test_an_evaluation_shows_itself(small: Catalogue) -> None:
    evaluation = evaluate(small, ["bm25"], folds=2, settings=["all", "general"])
    value = 100 * evaluation.spread("BM25", "all", "rprecision").mean
    first, second, *_ = repr(evaluation).splitlines()
    assert (first, second) == (
        f"CategoryEvaluation({small.name}: BM25, 2 folds)",
        f"  all: rprecision BM25 {value:.1f}",
    )
    assert (evaluation._repr_html_() or "").count("<table") == 2 and "Most general" in evaluation.to_latex()
    rows = evaluation.to_arrow().to_pylist()
    assert len(rows) == 2 * len(evaluation.measures) and rows[0]["system"] == "BM25"
    other = evaluate(small, ["bm25"], folds=2, settings=["all"], measures=["mrr"])
    assert "mrr BM25" in repr(other) and "mrr" in other.to_markdown() and other._repr_html_()


def test_compared_by_category_and_corrected(small: Catalogue) -> None:
    systems = [dense(small, name="bad"), dense(small, skill=1.0, name="good"), dense(small, skill=1.0, name="same")]
    found = evaluate(small, systems, folds(small, 3))
    compared = found.compare()
    assert compared.family == 9 and compared.correction == "holm"
    by = {(one.task, one.baseline, one.system): one for one in compared.differences}
    clear = by["specific", "bad", "good"]
    assert clear.better and clear.p_corrected < 0.001 and clear.low > 0
    assert clear.difference == pytest.approx(clear.value - clear.baseline_value)
    assert by["all", "good", "same"].p == 1.0
    # Splits of a category are one observation: three times the same split is no more evidence than one.
    once = evaluate(small, systems[:2], folds(small, 3)[:1])
    thrice = CategoryEvaluation(small, {key: trials * 3 for key, trials in once.trials.items()})
    for one, other in zip(once.compare().differences, thrice.compare().differences, strict=True):
        assert one.p == pytest.approx(other.p)


def test_a_category_counts_once_however_many_splits_it_is_in(small: Catalogue) -> None:
    systems = [dense(small, name="bad"), dense(small, skill=1.0, name="good")]
    evaluation = evaluate(small, systems, folds(small, 3), settings=["all"])
    by_category: dict[str, list[float]] = {}
    for bad, good in zip(evaluation.trials["bad", "all"], evaluation.trials["good", "all"], strict=True):
        gaps = good.values("rprecision") - bad.values("rprecision")
        for category, gap in zip(bad.task.judgements().queries.to_pylist(), gaps, strict=True):
            by_category.setdefault(category, []).append(gap)
    assert len({len(gaps) for gaps in by_category.values()}) > 1  # some are in one split, others in several
    means = [np.mean(gaps) for gaps in by_category.values()]
    (difference,) = evaluation.compare().differences
    assert difference.difference == pytest.approx(np.mean(means))
    assert difference.p == pytest.approx(ttest_1samp(means, 0).pvalue)
    assert difference.difference == pytest.approx(difference.value - difference.baseline_value)


def test_a_system_without_a_model_for_a_setting_is_left_out(small: Catalogue) -> None:
    splits = folds(small, 2)
    trained = TrainedSystem("CLIP-I", {(one.name, "general"): dense(small, skill=1.0) for one in splits})
    found = evaluate(small, [dense(small), trained], splits)
    assert [setting for system, setting in found.trials if system == "CLIP-I"] == ["general"]
    assert {one.task for one in found.compare().differences} == {"general"}
    with refused(ConfigurationError, code="no-system-answers-settings"):
        evaluate(small, [trained], splits, settings=["all"])
    with refused(ConfigurationError, "CLIP-I", "all", code="no-trial"):
        found.spread("CLIP-I", "all", "mrr")


def test_a_model_may_say_what_it_has_seen(small: Catalogue) -> None:
    system = dense(small)
    told = CategoryVectorSystem(
        "told", system.categories, system.products, trained_on=np.ones(small.categories.num_rows, bool)
    )
    assert set(evaluate(small, [told], folds(small, 2)).by_seen("told", "all", "mrr")) == {"seen"}


def test_faults(small: Catalogue) -> None:
    with refused(ConfigurationError, "dense", code="two-systems-called"):
        evaluate(small, [dense(small), dense(small, 1)], folds(small, 2))
    with refused(ConfigurationError, code="none-test-products-vector"):
        evaluate(small, [dense(generate_catalogue(5, seed=9).catalogue)], folds(small, 2))
    fewer = dense(small)
    short = Embeddings("text", fewer.categories.ids[:3], fewer.categories.vectors[:3], CARD)
    with pytest.raises(EmbeddingError, match="no text vector by by hand for"):
        evaluate(small, [CategoryVectorSystem("short", short, fewer.products)], folds(small, 2))


@settings(max_examples=20)
@given(st.integers(1, 60), st.integers(0, 5))
def test_chance_finds_as_much_as_there_is(n: int, seed: int) -> None:
    # R-precision of whatever ranking lies between 0 and 1, and perfect vectors reach 1 for most specific categories.
    catalogue = generate_catalogue(n, seed=seed).catalogue
    split = Split(np.zeros(n, bool), np.zeros(n, bool), np.ones(n, bool))
    found = evaluate(catalogue, [dense(catalogue, skill=1e4)], [split], settings=["specific"])
    assert found.spread("dense", "specific", "rprecision").mean > 0.999
    assert all(0 <= found.spread("dense", "specific", name).mean <= 1 for name in TABLE)
