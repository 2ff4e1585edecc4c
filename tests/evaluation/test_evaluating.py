"""Evaluation on toy collections worked by hand; refusals by text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from evaluation_toys import embed, make_collection, random_pair

from refusals import refused
from visir.errors import CollectionError, ConfigurationError, EmbeddingError, EncoderError, ProtocolError
from visir.evaluation.assembly import CaptionChoice, choose
from visir.evaluation.evaluate import evaluate
from visir.evaluation.folds import joined
from visir.records import Collection, Embeddings, Gallery, Ranks, Run
from visir.retrieval.exact import search


@pytest.fixture
def toy() -> Collection:
    return make_collection()


@pytest.fixture
def four() -> tuple[Collection, list[Embeddings]]:
    """Four images i0–i3 with one caption each; unit vectors of the images are the axes, so a caption's vector *is* its
    row of scores (all rows of one length, so cosine keeps the order).

    caption   i0 i1 i2 i3   its image's rank: all four | within its half {i0, i1} or {i2, i3}
    i0#0       4  3  2  1   1 | 1
    i1#0       3  1  4  2   4 | 2
    i2#0       4  1  3  2   2 | 1
    i3#0       2  3  4  1   4 | 2
    """
    scores = [[4, 3, 2, 1], [3, 1, 4, 2], [4, 1, 3, 2], [2, 3, 4, 1]]
    collection = make_collection(4, 1)
    return collection, [
        embed("image", ["i0", "i1", "i2", "i3"], np.eye(4)),
        embed("text", ["i0#0", "i1#0", "i2#0", "i3#0"], scores),
    ]


def test_ranks_by_hand(four: tuple[Collection, list[Embeddings]]) -> None:
    result = evaluate(*four).result
    assert result.per_query["t2i"]["query_id"].to_pylist() == ["i0#0", "i1#0", "i2#0", "i3#0"]
    assert result.values("t2i", "mean_rank").tolist() == [1, 4, 2, 4]
    assert result.mean("t2i", "hit@1") == 1 / 4
    assert result.mean("t2i", "mrr") == pytest.approx((1 + 1 / 4 + 1 / 2 + 1 / 4) / 4)
    assert result.mean("t2i", "median_rank") == 3
    # i2t: image i0 sees captions 4 3 4 2: i0#0 and i2#0 tie, ids decide: rank 1. i1: 3 1 1 3 -> ties again:
    # i0#0, i3#0 (3), then i1#0, i2#0 (1): rank 3. i2: 2 4 3 4 -> i1#0, i3#0, i2#0: rank 3. i3: 1 2 2 1 -> rank 4.
    assert result.values("i2t", "mean_rank").tolist() == [1, 3, 3, 4]


@pytest.mark.parametrize("tasks", [None, ["t2i"]])
def test_a_search_device_changes_no_number(four: tuple[Collection, list[Embeddings]], tasks: list[str] | None) -> None:
    plain = evaluate(*four, tasks, ties="pessimistic")
    other = evaluate(*four, tasks, ties="pessimistic", search_device="cpu")
    for task, run in plain.runs.items():
        assert other.runs[task].to_arrow().equals(run.to_arrow())
        assert other.result.per_query[task].equals(plain.result.per_query[task])
    with pytest.raises(EncoderError, match="the device 'cuda:99' cannot be used"):
        evaluate(*four, search_device="cuda:99")
    with refused(ConfigurationError, "cpu", code="not-searched-vectors"):
        evaluate(four[0], plain.runs["t2i"], search_device="cpu")


def test_pessimistic_ties_by_hand(four: tuple[Collection, list[Embeddings]]) -> None:
    """i0's caption ties with another: rank 2 instead of 1; i1's with i2#0: 4; i2's with none: 3; i3's with i0#0: 4."""
    result = evaluate(*four, ties="pessimistic").result
    assert result.values("i2t", "mean_rank").tolist() == [2, 4, 3, 4]
    assert result.protocol.ties == "pessimistic"


def test_two_folds_by_hand(four: tuple[Collection, list[Embeddings]]) -> None:
    """Each caption meets the images of its half only: ranks 1, 2 | 1, 2; hit@1 is 1/2 in each fold, the mean 1/2."""
    evaluation = evaluate(*four, folds=2)
    result = evaluation.result
    assert result.values("t2i", "mean_rank").tolist() == [1, 2, 1, 2]
    assert result.mean("t2i", "hit@1") == 1 / 2
    assert result.mean("t2i", "mean_rank") == 1.5
    # i2t, half {i0, i1}: i0 sees 4 3, rank 1; i1 sees 3 1: rank 2. Half {i2, i3}: i2 sees 3 4: 2; i3 sees 2 1: 2.
    assert result.values("i2t", "mean_rank").tolist() == [1, 2, 2, 2]
    assert result.mean("i2t", "hit@1") == (1 / 2 + 0) / 2
    assert result.protocol.folds == 2
    assert result.protocol.galleries["t2i"].startswith("2 × 2 images · all images of the collection")
    assert [one for one, _ in evaluation.runs["t2i"].answer("i1#0")] == ["i0", "i1"]
    assert evaluation.runs["t2i"].provenance["folds"] == 2 * [{"queries": 2, "candidates": 2}]


def test_five_folds_equal_five_evaluations() -> None:
    collection = make_collection(20, 3)
    system = random_pair(collection)
    result = evaluate(collection, system, folds=5).result
    single = [
        evaluate(collection.keep_images(np.arange(20) // 4 == fold), system).result.aggregates for fold in range(5)
    ]
    for task in ("i2t", "t2i"):
        for name, value in result.aggregates[task].items():
            assert value == pytest.approx(np.mean([one[task][name] for one in single]), abs=1e-12), name
    whole_run = evaluate(collection, system).runs
    assert evaluate(collection, whole_run, folds=5).result.aggregates == result.aggregates


def test_folds_together_are_as_deep_as_the_shallowest() -> None:
    def fold(depth: int | None, size: int | None) -> Ranks:
        return Ranks(pa.array(["q"]), np.array([0, 2]), np.array([1, 0]), np.ones(2, np.float32), depth, size)

    whole = joined([fold(5, 8), fold(None, 9), fold(3, 7)])
    assert (whole.depth, whole.gallery_size, whole.offsets.tolist()) == (3, 9, [0, 2, 4, 6])
    assert (joined([fold(None, 8), fold(None, 8)]).depth, joined([fold(5, 8), fold(5, None)]).gallery_size) == (
        None,
    ) * 2


def test_rsum_is_of_the_named_recall(toy: Collection) -> None:
    system = random_pair(toy)
    hit, capped = (evaluate(toy, system, recall=recall).result for recall in ("hit", "capped_recall"))
    for result, name in ((hit, "hit"), (capped, "capped_recall")):
        for task in ("i2t", "t2i"):
            expected = 100 * sum(result.mean(task, f"{name}@{k}") for k in (1, 5, 10))
            assert result.mean(task, "rsum") == pytest.approx(expected)
        assert result.mean("both", "rsum") == pytest.approx(result.mean("i2t", "rsum") + result.mean("t2i", "rsum"))
    assert list(hit.protocol.differences(capped.protocol)) == ["recall"]


def test_runs_and_embeddings_give_the_same_numbers() -> None:
    collection = make_collection(30, 2)
    searched = evaluate(collection, random_pair(collection))
    again = evaluate(collection, searched.runs)
    assert again.result.aggregates == searched.result.aggregates
    # the runs are as deep as their galleries (30 images, 60 captions < 100): ranks are exact, and it says so
    assert again.result.protocol.depth is None
    assert again.result.protocol.fingerprint == searched.result.protocol.fingerprint


def test_a_shallow_run_declares_its_depth() -> None:
    collection = make_collection(30, 2)
    runs = evaluate(collection, random_pair(collection), depth=5).runs
    result = evaluate(collection, runs).result
    assert result.protocol.depth == 5
    assert "hit@5" in result.measures
    assert "hit@10" not in result.measures
    assert "rsum" not in result.aggregates["i2t"]
    assert any("left out: hit@10, recall@10, capped_recall@10, ndcg@10" in note for note in result.notes)
    assert any(note == "no rsum: it needs hit@10" for note in result.notes)
    with refused(ProtocolError, "hit@10 looks deeper"):
        evaluate(collection, runs, measures=["hit@10"])


def test_the_image_pool_can_be_the_whole_collection() -> None:
    collection = make_collection(30, 1)
    split = replace(
        collection, images=collection.images.set_column(3, "split", pa.array(["test"] * 10 + ["train"] * 20))
    )
    system = random_pair(split, noise=3)
    small, large = (evaluate(split, system, split="test", gallery=pool).result for pool in ("split", "collection"))
    assert small.protocol.galleries["t2i"].startswith("10 images · all images of the test split")
    assert large.protocol.galleries["t2i"].startswith("30 images · all images of the collection")
    assert small.protocol.queries == large.protocol.queries
    assert (large.values("t2i", "mean_rank") >= small.values("t2i", "mean_rank")).all()
    assert large.mean("t2i", "mean_rank") > small.mean("t2i", "mean_rank")
    assert sorted(small.protocol.differences(large.protocol)) == ["galleries"]


def test_a_run_over_another_gallery_is_refused() -> None:
    collection = make_collection(12, 1)
    images, texts = random_pair(collection)
    smaller = Gallery.of("image", [f"i{n}" for n in range(10)], "ten of them")
    queries = collection.qrels("t2i")
    run = search(texts, images, "t2i", gallery=smaller, qrels=queries).run
    with pytest.raises(ProtocolError) as fault:
        evaluate(collection, run)
    assert "made over another gallery (10, ten of them) than declared (12, all images of the collection)" in str(
        fault.value
    )
    assert "2 declared images are missing from its gallery, e.g. 'i10', 'i11'" in str(fault.value)
    assert evaluate(collection, run, gallery={"t2i": smaller}).result.notes == (
        "t2i: 2 positives are outside the gallery and cannot be found",
    )


def test_a_run_that_lists_foreign_documents_is_refused() -> None:
    collection = make_collection(4, 1)
    gallery = Gallery.stated("image", 4, "as the authors say")
    run = Run.ranked("mine", "t2i", ["i0#0", "i1#0"], ["i0", "x9"], [1.0, 2.0], gallery)
    with refused(ProtocolError, "1 image", "x9", code="lists-not"):
        evaluate(collection, run)


def test_a_stated_gallery_must_agree_in_size() -> None:
    collection = make_collection(4, 1)
    run = Run.ranked("mine", "t2i", ["i0#0"], ["i0"], [1.0], Gallery.stated("image", 31_783, "all of the folder"))
    with refused(ProtocolError, "31,783", "images", "all of the folder", "4", code="run-made-over-gallery"):
        evaluate(collection, run)
    fitting = replace(run, gallery=Gallery.stated("image", 4, "all"))
    notes = evaluate(collection, fitting).result.notes
    assert "the gallery of run mine (t2i) is known by its size only (4 images)" in notes
    assert "t2i: 3 of 4 queries are not answered; they count as failed" in notes


def test_missing_vectors_stop_or_are_set_aside() -> None:
    collection = make_collection(6, 2)
    images, texts = random_pair(collection)
    fewer = images.select(["i0", "i1", "i2", "i4", "i5"])
    with refused(EmbeddingError, "image vector by random", "1 id", "i3", code="vectors-missing"):
        evaluate(collection, (fewer, texts))
    result = evaluate(collection, (fewer, texts), skip_broken=True).result
    assert "1 image could not be encoded; set aside, with the captions: i3" in result.notes
    assert result.protocol.galleries["t2i"].startswith("5 images")
    assert len(result.per_query["t2i"]) == 10


def test_images_without_captions_are_candidates_but_no_queries() -> None:
    collection = Collection.build(
        "odd",
        images={"id": ["a", "b", "c"]},
        captions={"id": ["a0", "b0"], "text": ["x", "y"], "image_id": ["a", "b"]},
    )
    system = (embed("image", ["a", "b", "c"], np.eye(3)), embed("text", ["a0", "b0"], [[1, 0, 2], [0, 1, 0]]))
    result = evaluate(collection, system).result
    assert result.notes == ("1 image has no caption; among the candidates, but no query",)
    assert result.values("t2i", "mean_rank").tolist() == [2, 1]  # c outranks a for a0
    assert result.per_query["i2t"]["query_id"].to_pylist() == ["a", "b"]


def test_the_encoder_cards_are_on_the_card() -> None:
    collection = make_collection(3, 1)
    images, texts = random_pair(collection)
    images = replace(images, encoder=replace(images.encoder, image_preprocessing={"resize": 224, "crop": "center"}))
    texts = replace(
        texts, encoder=replace(texts.encoder, text_preprocessing={"template": "a photo of {}", "max_length": 77})
    )
    protocol = evaluate(collection, (texts, images)).result.protocol
    assert protocol.image_preprocessing == "crop center, resize 224"
    assert protocol.truncation == "max length 77"
    assert protocol.query_template == "a photo of {}"


def test_every_faulty_option_is_named_at_once(toy: Collection) -> None:
    with pytest.raises(ConfigurationError) as fault:
        evaluate(
            toy,
            random_pair(toy),
            split="tset",
            captions="fist",
            recall="hits",  # type: ignore[arg-type]
            ties="index",  # type: ignore[arg-type]
            gallery="all",  # type: ignore[arg-type]
            tasks=["t2t"],  # type: ignore[list-item]
            folds=0,
            depth=0,
            conditions={"perturbaton": "typos"},
        )
    text = str(fault.value)
    assert "(9 faults)" in text
    for part in (
        "unknown split 'tset' (did you mean 'test'?",
        "unknown choice of captions 'fist' (did you mean 'first'?",
        "unknown recall 'hits' (did you mean 'hit'?",
        "unknown ties 'index'",
        "unknown gallery 'all'",
        "unknown task 't2t'",
        "folds must be at least 1, not 0",
        "depth must be at least 1, not 0",
        "unknown condition 'perturbaton' (did you mean 'perturbation'?",
    ):
        assert part in text, text


def test_refusals(toy: Collection) -> None:
    images, texts = random_pair(toy)
    with refused(ConfigurationError, "4", "3", code="images-not-divide-equal"):
        evaluate(toy, (images, texts), folds=3)
    with refused(ConfigurationError, "int", code="cannot-evaluate"):
        evaluate(toy, 42)
    with refused(ConfigurationError, "captions", "texts", "document", "images", code="modalities-swapped"):
        evaluate(toy, (images, images))
    with refused(ConfigurationError, "image", "16", "text", "8", code="configuration-not-one-space"):
        evaluate(toy, (images, embed("text", texts.ids.to_pylist(), texts.vectors[:, :8])))
    with refused(ConfigurationError, "batchsize", code="unknown-option"):
        evaluate(toy, (images, texts), batchsize=3)
    runs = evaluate(toy, (images, texts)).runs
    with refused(ConfigurationError, "t2i", code="two-runs-task"):
        evaluate(toy, [runs["t2i"], runs["t2i"]])
    with refused(ConfigurationError, "i2t", "t2i", code="under-run-task", hint=False):
        evaluate(toy, {"i2t": runs["t2i"]})
    silent = Collection.build("silent", images={"id": ["a"]})
    with refused(CollectionError, "silent", "1 image", code="no-captions-to-measure"):
        evaluate(silent, (images, texts))


def test_first_captions_keep_the_order_of_the_source() -> None:
    collection = Collection.build(
        "order",
        images={"id": ["a", "b"]},
        captions={"id": ["z", "y", "x", "w"], "text": ["1", "2", "3", "4"], "image_id": ["a", "b", "a", "a"]},
    )
    assert choose(collection, "first").captions["id"].to_pylist() == ["z", "y"]
    assert choose(collection, "first 2").captions["id"].to_pylist() == ["z", "y", "x"]
    assert choose(collection, "first 5").captions["id"].to_pylist() == ["z", "y", "x", "w"]
    result = evaluate(collection, random_pair(collection), captions="first").result
    assert result.protocol.captions == "first"
    assert result.protocol.galleries["i2t"].startswith("2 captions · captions (first of each image) of the collection")


def test_random_captions_are_seeded_and_do_not_depend_on_order() -> None:
    collection = make_collection(40, 5)
    shuffled = np.random.default_rng(0).permutation(200)
    other_order = replace(collection, captions=collection.captions.take(pa.array(shuffled)))
    chosen = {seed: set(choose(collection, f"random(seed={seed})").captions["id"].to_pylist()) for seed in (0, 1)}
    assert len(chosen[0]) == 40
    assert {one.split("#")[0] for one in chosen[0]} == set(collection.images["id"].to_pylist())
    assert chosen[0] != chosen[1]
    assert set(choose(other_order, "random(seed=0)").captions["id"].to_pylist()) == chosen[0]
    # the choice for an image does not depend on the other images
    half = choose(collection.keep_images(np.arange(40) < 20), "random").captions["id"].to_pylist()
    assert set(half) <= chosen[0]
    # each place of the five is drawn now and then
    assert {one.split("#")[1] for one in chosen[0]} == {"0", "1", "2", "3", "4"}
    assert str(CaptionChoice.parse("random")) == "random(seed=0)"


def test_judgement_sets_replace_the_links() -> None:
    """Caption a0 also fits b: with i = a, b as axes and a0 closest to b, the links give rank 2, the set rank 1."""
    collection = Collection.build(
        "judged",
        images={"id": ["a", "b"]},
        captions={"id": ["a0", "b0"], "text": ["x", "y"], "image_id": ["a", "b"]},
        judgements={
            "relevance": ["extra"] * 2,
            "task": ["both"] * 2,
            "caption_id": ["a0", "a0"],
            "image_id": ["a", "b"],
            "grade": [1.0, 1.0],
        },
    )
    system = (embed("image", ["a", "b"], np.eye(2)), embed("text", ["a0", "b0"], [[1, 2], [0, 1]]))
    assert evaluate(collection, system).result.values("t2i", "mean_rank").tolist() == [2, 1]
    extra = evaluate(collection, system, relevance="extra").result
    assert extra.values("t2i", "mean_rank").tolist() == [1]
    assert extra.protocol.relevance == "extra"
    with refused(CollectionError, "extras", code="unknown-relevance"):
        evaluate(collection, system, relevance="extras")


def test_timing_and_versions(toy: Collection) -> None:
    result = evaluate(toy, random_pair(toy)).result
    assert set(result.timing) == {"search", "measure"}
    assert result.versions["visir"]
    assert result.versions["numpy"] == np.__version__


def test_cross_modal_dcg_by_hand() -> None:
    """Two images on the axes; a0 = (0.6, 0.8) is nearer to b: ranks b (0.8), then its own a. b0 = (0, 1).

    Self-estimated: a0: 0.8 / log2(2) + 1 / log2(3) = 0.8 + 0.63093; b0: 1 + 0 / log2(3) = 1.
    By an estimator that sees b as (0.28, 0.96) and a0 as (1, 0): a0 with b is worth 0.28: 0.28 + 0.63093.
    """
    collection = make_collection(2, 1)
    system = (embed("image", ["i0", "i1"], np.eye(2)), embed("text", ["i0#0", "i1#0"], [[0.6, 0.8], [0, 1]]))
    own = evaluate(collection, system, estimator="self", tasks=["t2i"])
    assert own.result.values("t2i", "dcg_cm@10") == pytest.approx([0.8 + 1 / np.log2(3), 1.0])
    assert own.result.protocol.estimator == "self (circular): toy"
    assert any("circular" in note for note in own.result.notes)
    other = (
        embed("image", ["i0", "i1"], [[1, 0], [0.28, 0.96]], "judge"),
        embed("text", ["i0#0", "i1#0"], [[2, 0], [0, 3]], "judge"),
    )
    result = evaluate(collection, system, estimator=other, measures=["dcg_cm@1", "dcg_cm@2", "hit@1"]).result
    assert result.values("t2i", "dcg_cm@1") == pytest.approx([0.28, 1.0])
    assert result.values("t2i", "dcg_cm@2") == pytest.approx([0.28 + 1 / np.log2(3), 1.0])
    assert result.mean("t2i", "dcg_cm@1") == pytest.approx(0.64)
    assert result.protocol.estimator == "judge"
    assert result.notes == ()
    assert evaluate(collection, system, estimator=system).result.protocol.estimator == "self (circular): toy"
    by_run = evaluate(collection, own.runs, estimator="self").result
    assert by_run.values("t2i", "dcg_cm@10") == pytest.approx(own.result.values("t2i", "dcg_cm@10"))


def test_cross_modal_dcg_refusals(toy: Collection) -> None:
    system = random_pair(toy)
    with refused(ConfigurationError, code="says-wrong-answer-worth"):
        evaluate(toy, system, measures=["dcg_cm@10"])
    with refused(ConfigurationError, "write dcg_cm@p"):
        evaluate(toy, system, measures=["dcg_cm"], estimator="self")
    with refused(EncoderError, "unknown encoder", "clip"):
        evaluate(toy, system, estimator="clip")
    with refused(ProtocolError, "10", "2", code="dcg-cm-looks-deeper"):
        evaluate(toy, system, estimator="self", depth=2)
    gallery = Gallery.of("image", ["i0", "i1", "i2", "i3"])
    scored = Run.ranked("bm25", "t2i", ["i0#0"], ["i0"], [17.3], gallery)
    with refused(ConfigurationError, "17.3", code="scores-run-reach-no"):
        evaluate(toy, scored, measures=["dcg_cm@1"], estimator="self")


def test_what_cannot_be_measured_is_told_before_anything_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gain without an estimator, an estimator that is none, a model that lacks a side: nothing is encoded first."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("encoded")

    monkeypatch.setattr("visir.evaluation.systems.vectors.encode_items", never)
    with refused(ConfigurationError, code="says-wrong-answer-worth"):
        evaluate("scenes:12?size=64", "colours", measures=["dcg_cm@5"])
    with refused(EncoderError, "nosuchmodel"):
        evaluate("scenes:12?size=64", "colours", estimator="nosuchmodel")
    with refused(EncoderError, "pixels"):
        evaluate("scenes:12?size=64", "pixels")


def test_the_gallery_may_be_given_by_task() -> None:
    """One task over candidates of the caller's, the other over those of the split; the protocol names both."""
    collection = make_collection(12, 2)
    few = Gallery.of("image", collection.images["id"].to_pylist()[:6], "six of them")
    result = evaluate(collection, random_pair(collection), gallery={"t2i": few}).result
    assert result.protocol.galleries["t2i"].startswith("6 images · six of them")
    assert result.protocol.galleries["i2t"].startswith("24 captions")
    assert any("positives are outside the gallery" in note for note in result.notes)
