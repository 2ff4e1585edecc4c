"""A second stage in an evaluation: what k_test does to the numbers, and whether that is said."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluation_toys import embed, random_pair

from matching_toys import Nearness, reds, tiny_blip
from refusals import refused
from visir.collections import open_collection
from visir.encoders import Store, load
from visir.errors import ConfigurationError, EncoderError, ProtocolError
from visir.evaluation import evaluate
from visir.evaluation.compare import compare
from visir.evaluation.explaining import explain
from visir.evaluation.published import PublishedRow, shipped
from visir.evaluation.published import load as published
from visir.evaluation.published.denominators import ends_early, remarks
from visir.evaluation.results import load as load_result
from visir.evaluation.results import load_evaluation, save
from visir.evaluation.second_stage import SecondStage
from visir.records import Collection, Embeddings


@pytest.fixture(scope="module")
def blip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blip")
    tiny_blip(folder)
    return folder


@pytest.fixture(scope="module")
def scenes() -> Collection:
    return open_collection("scenes:24?size=64")


class Nearer(Nearness):
    """Another name for a cross-encoder."""

    def __init__(self, cross_encoder: Any) -> None:
        super().__init__()
        self.card = replace(cross_encoder.card, name="nearer", weights="another")
        self.preprocess, self.image_tokens = cross_encoder.preprocess, cross_encoder.image_tokens  # type: ignore[method-assign]
        self.text_tokens, self.match = cross_encoder.text_tokens, cross_encoder.match  # type: ignore[method-assign]


def planted(scenes: Collection) -> list[Embeddings]:
    """Vectors that find some: R@1 < R@2 < R@5 < R@10 in both tasks."""
    return random_pair(scenes, noise=2.5, name="planted")


@pytest.fixture
def toy(tmp_path: Path) -> tuple[Collection, list[Embeddings]]:
    """Red 10 to 60, captions 1 to 6. The first stage looks one picture too far: of t0 (a) it says b a c d e f, …"""
    toy = reds(tmp_path / "toy", [10, 20, 30, 40, 50, 60], [*"123456"], range(6))
    angle = 0.2 * np.arange(6)
    vectors = [np.stack([np.cos(at), np.sin(at)], 1) for at in (angle, angle + 0.19)]
    return toy, [
        embed("image", [*"abcdef"], vectors[0], "off"),
        embed("text", [f"t{i}" for i in range(6)], vectors[1], "off"),
    ]


def test_a_matcher_that_is_right(toy: tuple[Collection, list[Embeddings]]) -> None:
    """First stage, t2i: t0 → b, t1 → c, …, t4 → f, and t5 → f: one of six is right at rank 1, all at rank 2."""
    collection, pair = toy
    first = evaluate(collection, pair, tasks=["t2i"]).result
    assert (first.mean("t2i", "hit@1"), first.protocol.rerank) == (1 / 6, None)
    for k, right in ((1, 1 / 6), (2, 1.0), (128, 1.0)):
        second = evaluate(collection, pair, tasks=["t2i"], rerank=Nearness(), k_test=k).result
        assert second.mean("t2i", "hit@1") == pytest.approx(right)
    assert second.system == "off + nearness"
    assert second.protocol.rerank == "top 128; nothing behind them"
    assert second.protocol.matcher == "nearness, itm"
    assert second.protocol.depth is None and "re-rank" in second.timing


def test_without_k_test_as_many_are_re_ranked_as_for_flickr30k(toy: tuple[Collection, list[Embeddings]]) -> None:
    """128, ALBEF's and X-VLM's k_test for Flickr30k."""
    result = evaluate(*toy, tasks=["t2i"], rerank=Nearness()).result
    assert result.protocol.rerank == "top 128; nothing behind them"
    assert SecondStage(Nearness()).k == 128


@pytest.mark.parametrize("task", ["t2i", "i2t"])
def test_k_test_2_and_everything_beyond_is_r_at_2(scenes: Collection, blip: Path, task: str) -> None:
    """The signature of thesis Table 2.1: R@5 = R@10, and both are the first stage's R@2, whatever the second does."""
    measures = ["hit@1", "hit@2", "hit@5", "hit@10", "mean_rank"]
    first = evaluate(scenes, planted(scenes), measures=measures).result
    values = [first.mean(task, f"hit@{k}") for k in (1, 2, 5, 10)]
    assert values == sorted(set(values))  # the first stage finds more and more
    second = evaluate(scenes, planted(scenes), measures=measures, rerank=load(blip, device="cpu"), k_test=2).result
    for k in (2, 5, 10):
        assert second.mean(task, f"hit@{k}") == first.mean(task, "hit@2")
    assert second.mean(task, "hit@1") < second.mean(task, "hit@2")
    said = "only 2 candidates are re-ranked and nothing is found behind them (k_test): every R@k beyond 2 is R@2"
    assert said in second.notes
    # Who is not found counts as one rank below the whole gallery.
    last = {"t2i": 25.0, "i2t": 121.0}[task]
    missed = second.values(task, "hit@10") == 0
    assert (second.values(task, "mean_rank")[missed] == last).all() and missed.any()


def test_the_tail_kept_is_as_exact_as_the_first_stage(scenes: Collection, blip: Path) -> None:
    """Beyond the candidates nothing moves: R@5, R@10 and the ranks of what is there are the first stage's."""
    first = evaluate(scenes, planted(scenes)).result
    options: dict[str, Any] = {"rerank": load(blip, device="cpu"), "k_test": 2, "tail": "kept"}
    second = evaluate(scenes, planted(scenes), **options).result
    whole = evaluate(scenes, planted(scenes), **options, depth=120).result  # the run itself holds every rank
    assert second.protocol.rerank == "top 2; the rest of the first stage behind them"
    assert second.protocol.matcher == f"{blip}, itm"
    assert second.protocol.depth is None
    for task in ("t2i", "i2t"):
        assert second.mean(task, "hit@5") == first.mean(task, "hit@5")
        far = first.values(task, "mean_rank") > 2
        assert np.array_equal(second.values(task, "mean_rank")[far], first.values(task, "mean_rank")[far])
        assert not np.array_equal(second.values(task, "mean_rank"), first.values(task, "mean_rank"))
        for measure in second.measures:
            assert np.array_equal(second.values(task, measure), whole.values(task, measure)), measure
    shallow = evaluate(scenes, planted(scenes), **options, depth=3).result
    assert shallow.aggregates == second.aggregates


@pytest.mark.parametrize("ties", ["pessimistic", "optimistic"])
def test_ties_of_the_first_stage_stay_behind_the_border(ties: str, tmp_path: Path) -> None:
    """All cosines are equal. Candidates of every query are a, b; by the cross-encoder t0 (1) has a before b."""
    toy = reds(tmp_path / "toy", [10, 20, 30, 40], [*"1234"], range(4))
    pair = [embed("image", [*"abcd"], np.ones((4, 2))), embed("text", [f"t{i}" for i in range(4)], np.ones((4, 2)))]
    result = evaluate(toy, pair, tasks=["t2i"], rerank=Nearness(), k_test=2, tail="kept", ties=ties).result  # type: ignore[arg-type]
    # t2 and t3 look for c and d, which tie behind the border: rank 3 at best, 4 at worst.
    assert result.values("t2i", "mean_rank").tolist() == [1, 1, *([4, 4] if ties == "pessimistic" else [3, 3])]


def test_folds(scenes: Collection, blip: Path) -> None:
    """Four galleries of six images: two candidates each from its own, and R@5 is the folds' mean R@2."""
    measures, cross_encoder = ["hit@1", "hit@2", "hit@5", "mean_rank"], load(blip, device="cpu")
    first = evaluate(scenes, planted(scenes), folds=4, measures=measures).result
    for tail in ("dropped", "kept"):
        second = evaluate(
            scenes,
            planted(scenes),
            folds=4,
            measures=measures,
            rerank=cross_encoder,
            k_test=2,
            tail=tail,  # type: ignore[arg-type]
        ).result
        for task in ("t2i", "i2t"):
            assert second.mean(task, "hit@2") == first.mean(task, "hit@2") < first.mean(task, "hit@5")
            after = {"dropped": "hit@2", "kept": "hit@5"}[tail]
            assert second.mean(task, "hit@5") == first.mean(task, after)
    assert second.values("t2i", "mean_rank").max() <= 6


def test_imported_runs_and_queries_that_are_not_measured(scenes: Collection, blip: Path) -> None:
    runs = evaluate(scenes, planted(scenes), depth=30).runs
    cross_encoder = load(blip, device="cpu").cross_encoder
    from_vectors = evaluate(scenes, planted(scenes), rerank=cross_encoder, k_test=5).result
    from_runs = evaluate(scenes, runs, rerank=cross_encoder, k_test=5).result
    assert from_runs.aggregates == from_vectors.aggregates
    assert "re-ranking: 0 pairs scored" in " ".join(from_runs.notes)
    assert from_runs.protocol.depth is None and "rank" in from_runs.timing
    kept = evaluate(scenes, runs, rerank=cross_encoder, k_test=5, tail="kept").result
    assert kept.protocol.depth == 30
    few = evaluate(scenes, {"t2i": runs["t2i"]}, captions="first", rerank=cross_encoder, k_test=5)
    assert len(few.runs["t2i"]) == 24


def test_cost_and_the_store(scenes: Collection, blip: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"rerank": load(blip, device="cpu"), "k_test": 3, "store": Store(tmp_path / "store")}
    pair = planted(scenes)
    notes = evaluate(scenes, pair, **options).result.notes
    (cost,) = [note for note in notes if note.startswith("re-ranking")]
    # 24 images × 3 and 120 captions × 3; a pair that both tasks ask for counts once.
    count = int(cost.split()[1])
    assert 360 <= count <= 432 and " pairs scored, " in cost and " of the time" in cost
    again = evaluate(scenes, pair, **options).result
    assert f"re-ranking: 0 pairs scored, {count} found in the store" in " ".join(again.notes)
    assert list((tmp_path / "store" / "matching").rglob("pairs.bin"))


def test_refused(scenes: Collection) -> None:
    pair = planted(scenes)
    with refused(ConfigurationError, code="test-tail-fusion-second"):
        evaluate(scenes, pair, k_test=2)
    with refused(EncoderError, "pixels", code="makes-vectors"):
        evaluate(scenes, pair, rerank=load("pixels"))
    with refused(ConfigurationError, code="model-condition-words"):
        evaluate(scenes, pair, rerank=Nearness(), conditions={"rerank": "top 5 by hand"})
    with refused(ConfigurationError, "batch_size", code="unknown-option"):
        evaluate(scenes, pair, rerank=Nearness(), batch_size=3)
    runs = evaluate(scenes, pair).runs
    with refused(ConfigurationError, code="matching-scores-no-cosines"):
        evaluate(scenes, runs, rerank=Nearness(), estimator="self")


# --- what published numbers betray ------------------------------------------------------------------------------------


def test_a_ranking_that_ends_early_by_hand() -> None:
    """t2i of X-VLM on Flickr30k: 0.12 of the 17.64 that are missed; i2t: nothing of 8.9."""
    assert ends_early({"R@1": 37.82, "R@5": 82.36, "R@10": 82.48})
    assert ends_early({"R@1": 63.3, "R@5": 91.1, "R@10": 91.1})
    assert not ends_early({"R@1": 71.9, "R@5": 93.3, "R@10": 96.4})
    assert not ends_early({"R@1": 0.1, "R@5": 0.5, "R@10": 1.0})  # chance: 0.5 of 99.5 more, but twice as many
    assert not ends_early({"R@1": 99.0, "R@5": 99.9, "R@10": 99.9})  # nothing left to find
    assert not ends_early({"R@1": 20.0, "R@5": 30.0})
    assert not ends_early({"R@1": 79.3, "R@5": 58.06, "R@10": 72.54})  # another recall: R@5 below R@1


@pytest.mark.parametrize(
    ("five", "ten"),
    [
        (84.48, 84.50),
        (67.61, 67.64),
        (91.10, 91.10),
        (82.36, 82.48),
        (2.35, 2.45),
        (2.28, 2.45),
        (3.96, 4.04),
        (6.62, 6.70),
        (7.42, 7.50),
        (6.48, 6.56),
    ],
)
def test_all_that_the_thesis_measured_of_x_vlm_ends_early(five: float, ten: float) -> None:
    """Tables 2.1 and 2.2: MS COCO, Flickr30k, CUB-200, Fashion200k, ABO, image-to-text and text-to-image."""
    assert ends_early({"R@5": five, "R@10": ten})


@pytest.mark.parametrize(
    ("five", "ten"),
    [
        (44.13, 53.41),
        (40.22, 49.80),
        (94.18, 96.84),
        (93.09, 96.15),
        (3.40, 5.48),
        (2.38, 4.42),
        (9.82, 14.56),
        (8.56, 12.85),
        (18.96, 25.57),
        (13.90, 18.50),
    ],
)
def test_none_that_it_measured_of_clip_does(five: float, ten: float) -> None:
    assert not ends_early({"R@5": five, "R@10": ten})


def test_every_shipped_row_that_ends_early_is_a_two_stage_model_of_the_thesis() -> None:
    found = {
        (name, row.system, row.collection)
        for name in shipped()
        for row in published(name).rows
        if any(ends_early(values) for values in row.values.values())
    }
    assert all(system.startswith("X-VLM") for _, system, _ in found), found


def test_explain_names_the_cause(scenes: Collection, blip: Path) -> None:
    """The numbers of a run with k_test = 2 are published; a run of the first stage alone is compared with them."""
    pair, options = planted(scenes), {"rerank": load(blip, device="cpu"), "k_test": 2}
    two = evaluate(scenes, pair, **options)  # type: ignore[arg-type]
    values = {
        one: {f"R@{k}": round(100 * two.result.mean(one, f"hit@{k}"), 2) for k in (1, 5, 10)} for one in ("i2t", "t2i")
    }
    row = PublishedRow("theirs", values)
    ours = explain(evaluate(scenes, pair), row)
    assert "theirs: the published R@5 and R@10 are the same (i2t" in ours.remarks[0]
    assert "2 to 5 candidates (k_test)" in ours.remarks[0]
    assert "--rerank MODEL --k-test 2" in ours.remarks[1]
    assert ours.best.reading["depth"] == "2"  # R@5 and R@10 are R@2 of the first stage
    theirs = explain(two, row)
    assert theirs.best.reproduced == 6 and theirs.best.reading.departures == 0
    assert f"These runs were re-ranked too: top 2; nothing behind them ({blip}, itm)." in theirs.remarks[1]
    assert explain(two, PublishedRow("other", {"t2i": {"R@1": 20.0, "R@5": 50.0, "R@10": 60.0}})).remarks == ()
    assert len(remarks(row)) == 1


def test_it_is_saved_and_loaded(scenes: Collection, blip: Path, tmp_path: Path) -> None:
    """Runs that have been through a second stage say so, to whoever evaluates them."""
    cross_encoder = load(blip, device="cpu").cross_encoder
    for tail in ("dropped", "kept"):
        done = evaluate(scenes, planted(scenes), rerank=cross_encoder, k_test=2, tail=tail, depth=120)  # type: ignore[arg-type]
        save(done, tmp_path / tail)
        assert load_result(tmp_path / tail).protocol == done.result.protocol
        again = evaluate(scenes, load_evaluation(tmp_path / tail).runs).result  # its runs, as anybody's
        assert again.aggregates == done.result.aggregates
        assert again.protocol.rerank == done.result.protocol.rerank
        assert again.protocol.depth is None
    runs = load_evaluation(tmp_path / "kept").runs
    third = evaluate(scenes, runs, rerank=Nearer(cross_encoder), k_test=1).result.protocol
    assert third.rerank == "top 2; the rest of the first stage behind them, then top 1; nothing behind them"
    assert third.matcher == f"{blip}, itm, then nearer, itm"
    plain = evaluate(scenes, planted(scenes)).runs
    mixed = evaluate(scenes, {"i2t": runs["i2t"], "t2i": plain["t2i"]}).result.protocol
    assert mixed.rerank == "top 2; the rest of the first stage behind them / no second stage"
    assert mixed.matcher == f"{blip}, itm / none"


def test_systems_with_heads_of_their_own_are_compared_but_not_with_other_candidates(
    scenes: Collection, blip: Path
) -> None:
    """Whose head it is belongs to the system; how many candidates it is given, to the task."""
    pair, cross_encoder = planted(scenes), load(blip, device="cpu").cross_encoder
    one = evaluate(scenes, pair, rerank=cross_encoder, k_test=3, name="one").result
    other = evaluate(scenes, pair, rerank=Nearer(cross_encoder), k_test=3, name="other").result
    found = compare([one, other], measures=["hit@1"])
    assert found.allowed == {}
    assert found.system_differences["matcher"] == (f"{blip}, itm", "nearer, itm")
    first = evaluate(scenes, pair, name="first").result
    deeper = evaluate(scenes, pair, rerank=cross_encoder, k_test=4, name="deeper").result
    for another in (first, deeper):
        with refused(ProtocolError, "rerank", "top 3; nothing behind them"):
            compare([one, another])


def test_a_re_ranked_run_is_not_cut_down_to_a_smaller_gallery(scenes: Collection, blip: Path) -> None:
    done = evaluate(scenes, planted(scenes), rerank=load(blip, device="cpu"), k_test=12, depth=120)
    found = explain(done, PublishedRow("x", {"i2t": {"R@1": 10.0}}))
    assert any("others would be among the first k" in reason for _, reason in found.not_computable)
    assert all(fit.reading["captions"] is None for fit in found.fits)


def test_a_cross_encoder_by_name_is_loaded_as_asked(toy: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name, device and arithmetic are those of the call; a model beside it takes the store and the workers."""
    calls: list[Any] = []

    def load_one(name: str, **options: Any) -> Nearness:
        calls.append((name, options))
        return Nearness()

    monkeypatch.setattr(sys.modules["visir.evaluation.second_stage"], "load_cross_encoder", load_one)
    result = evaluate(*toy, tasks=["t2i"], rerank="some/matcher", k_test=3, device="cpu", dtype="bfloat16", workers=2)
    assert calls == [("some/matcher", {"device": "cpu", "dtype": "bfloat16"})]
    assert result.protocol.rerank == "top 3; nothing behind them" and result.timing["re-rank"] >= 0
    with refused(ConfigurationError, "batch_size", code="unknown-option"):  # of the first stage, which has no encoder
        evaluate(*toy, tasks=["t2i"], rerank="some/matcher", batch_size=2)


def test_a_model_that_re_ranks_itself_is_loaded_once(
    scenes: Collection, blip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def counted(name: str, **options: Any) -> Any:
        loaded.append(name)
        return load(name, device="cpu")

    for module in ("second_stage", "systems.given"):
        monkeypatch.setattr(sys.modules[f"visir.evaluation.{module}"], "load", counted)
    result = evaluate(scenes, str(blip), rerank=str(blip), k_test=2, tasks=["t2i"]).result
    assert loaded == [str(blip)] and result.protocol.matcher.endswith(", itm")
