"""Each reading worked by hand: three images with two captions each, and scores that are written down."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.special
from evaluation_toys import embed, make_collection, random_pair

import visir
from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.evaluation.explaining import Material, explain
from visir.evaluation.explaining.ranks import Ranked, chance_of_fit
from visir.evaluation.explaining.readings import (
    AXES,
    BY_NAME,
    NEEDS,
    Reading,
    pairs,
    singles,
    tiers,
    triples,
)
from visir.evaluation.explaining.search import Bench, Search
from visir.evaluation.results import load_evaluation

# Rows are captions i0#0, i0#1, i1#0, i1#1, i2#0, i2#1; columns are images i0, i1, i2.
SCORES = np.array(
    [
        [0.9, 0.1, 0.2],  # the right image is at rank 1
        [0.3, 0.8, 0.1],  # 2
        [0.5, 0.6, 0.4],  # 1
        [0.7, 0.4, 0.6],  # 3
        [0.1, 0.2, 0.3],  # 1
        [0.2, 0.5, 0.5],  # a tie of i1 and i2: 2 by id, 1 at best
    ]
)
# Image to text, the ranks of right captions: i0 1 and 4 (behind 0.7 and 0.5), i1 2 and 4, i2 2 and 4.
COLLECTION = make_collection(3, 2)


def toy(depth: int = 100) -> visir.Evaluation:
    """Vectors whose dot products are the scores: the images are the axes."""
    images = embed("image", ["i0", "i1", "i2"], np.eye(3))
    texts = embed("text", COLLECTION.captions["id"].to_pylist(), SCORES)
    return visir.evaluate(COLLECTION, (images, texts), similarity="dot", depth=depth)


def value(label: str, **choices: str) -> float:
    """Our value of a label under a reading, in percent."""
    task, _, name = label.partition(" ")
    reading = Reading.of(**choices)
    vectors = (
        embed("image", ["i0", "i1", "i2"], np.eye(3)),
        embed("text", COLLECTION.captions["id"].to_pylist(), SCORES),
    )
    material = Material.of(toy(), vectors if reading.needs_vectors else None)
    trial = Search(Bench(material), {task: {name: 50.0}}, 2).trial(task, reading)
    assert trial is not None
    return round(trial.values[0].ours, 2)


@pytest.mark.parametrize(
    ("label", "choices", "expected"),
    [
        ("t2i R@1", {}, 50.0),  # 1, 2, 1, 3, 1, 2
        ("t2i R@2", {}, 83.33),
        ("i2t R@1", {}, 33.33),  # best ranks 1, 2, 2
        ("i2t R@2", {"recall": "recall"}, 50.0),  # one of two each
        ("i2t R@1", {"recall": "capped_recall"}, 33.33),
        ("i2t R@4", {"recall": "all"}, 100.0),
        ("i2t R@2", {"recall": "all"}, 0.0),
        ("i2t R@2", {"recall": "precision"}, 50.0),
        ("i2t R@3", {"recall": "separate"}, 100.0),  # with the other right one left out, 4 is 3
        ("i2t R@2", {"recall": "mrr"}, 66.67),  # 1, 1/2, 1/2
        ("t2i R@1", {"ties": "optimistic"}, 66.67),
        ("t2i R@2", {"ties": "average"}, 83.33),  # 1.5 is within 2
        ("t2i R@1", {"ties": "trec"}, 66.67),  # i2 before i1
        ("t2i R@1", {"captions": "first"}, 100.0),
        ("i2t R@1", {"captions": "first"}, 66.67),  # i0: 0.9; i1: 0.6; i2: 0.4 of i1 is before 0.3
        ("t2i R@1", {"captions": "second"}, 0.0),
        ("t2i R@1", {"queries": "first captions"}, 100.0),
        ("i2t R@1", {"queries": "first captions"}, 33.33),
        ("i2t R@1", {"positives": "first caption"}, 33.33),  # 1, 2, 4
        ("t2i R@1", {"folds": "3"}, 100.0),  # one image each
        ("i2t R@1", {"cutoffs": "from 0"}, 100.0),
        ("t2i R@1", {"cutoffs": "@1 is @2"}, 83.33),
        ("t2i R@2", {"depth": "1"}, 50.0),
        ("t2i R@1", {"unit": "fraction"}, 0.5),
        ("t2i R@1", {"unit": "missed"}, 50.0),
        ("t2i R@1", {"direction": "swapped"}, 33.33),
        ("t2i R@1", {"direction": "mean"}, 41.67),  # of 50 and 33.33
        ("t2i R@1", {"columns": "@1 swapped"}, 33.33),
        ("t2i R@2", {"columns": "@1 swapped"}, 83.33),
        ("i2t R@10", {"columns": "moved left"}, 50.0),  # what stands in the next column, t2i R@1
        ("t2i R@10", {"columns": "moved left"}, 33.33),  # in the first, i2t R@1
        ("i2t R@1", {"columns": "moved right"}, 100.0),  # t2i R@10
        ("i2t R@5", {"columns": "by cutoff"}, 50.0),  # both @1, both @5, both @10: t2i R@1
        ("i2t R@1", {"columns": "by cutoff, text-to-image first"}, 50.0),
        ("t2i R@5", {"columns": "by direction"}, 50.0),  # the fourth column: t2i R@1
        ("t2i R@1", {"captions": "mean of scores"}, 66.67),  # .6 .45 .15; .6 .5 .5; .15 .35 .4: ranks 1, 2, 1
        ("i2t R@1", {"captions": "mean of scores"}, 66.67),  # the tie of i0 and i1 for image i0 goes to i0
        ("t2i R@1", {"captions": "best score"}, 33.33),  # .9 .8 .2; .7 .6 .6; .2 .5 .5: ranks 1, 2, 2
        ("i2t R@1", {"captions": "best score"}, 33.33),
        ("t2i R@1", {"copies": "own"}, 50.0),  # of the three captions that rank first, all are first copies
        ("t2i R@2", {"copies": "own"}, 50.0),  # the right image of i0#1 is behind two copies of i1
        ("t2i R@1", {"links": "modulo"}, 50.0),  # right images i0, i1, i2, i0, i1, i2: ranks 1, 1, 3, 1, 3, 2
        ("t2i R@1", {"links": "next image"}, 16.67),  # i1, i1, i2, i2, i0, i0: ranks 3, 1, 3, 2, 3, 3
    ],
)
def test_by_hand(label: str, choices: dict[str, str], expected: float) -> None:
    assert value(label, **choices) == expected


def test_what_is_merged_counts_as_all_captions_that_are_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    """One score for each of 3 images and 3 candidates, of the scores of 6 captions: 18, not 9."""
    vectors = (
        embed("image", ["i0", "i1", "i2"], np.eye(3)),
        embed("text", COLLECTION.captions["id"].to_pylist(), SCORES),
    )
    reading = Reading.of(captions="mean of scores")
    for most, is_tried in ((18, True), (17, False)):
        monkeypatch.setattr("visir.evaluation.explaining.search.MOST_SCORES", most)
        search = Search(Bench(Material.of(toy(), vectors)), {"t2i": {"R@1": 50.0}}, 2)
        assert (search.trial("t2i", reading) is not None) is is_tried
        assert is_tried or "too many to try" in search.impossible["t2i", reading]


@pytest.mark.parametrize(
    ("gallery", "images"),
    [
        ("first 100", range(100)),
        ("last 100", range(50, 150)),
        ("first half", range(75)),
        ("second half", range(75, 150)),
    ],
)
def test_some_images_are_those_that_the_reading_names(gallery: str, images: range) -> None:
    collection = make_collection(150, 1)
    bench = Bench(Material.of(visir.evaluate(collection, random_pair(collection))))
    candidates = bench.part("t2i", Reading.of(gallery=gallery)).candidates
    assert bench.world.image_ids.take(np.flatnonzero(candidates)).to_pylist() == [f"i{at}" for at in images]


def test_right_candidates_behind_the_end_of_a_list_are_in_no_stretch() -> None:
    """Of i2 only the first answer is listed; its other right caption is not taken for one of the first stretch."""
    whole, short = (
        Search(Bench(Material.of(toy(depth))), {"i2t": {"R@1": 50.0}}, 2).trial("i2t", Reading.of(ties="optimistic"))
        for depth in (6, 3)
    )
    assert whole is not None and short is not None
    assert short.values[0].ours == whole.values[0].ours


def test_one_list_that_ends_early_by_itself_tells_nothing_of_the_others() -> None:
    """The search gave only one answer to the first query; behind the two of each other one there is a third image."""
    run = toy(depth=2).runs["t2i"]
    offsets, kept = np.maximum(run.offsets - 1, 0), np.delete(np.arange(len(run.scores)), 1)
    cut = replace(run, offsets=offsets, indices=run.indices[kept], scores=run.scores[kept])
    material = Material.of(toy(depth=2))
    assert not Bench(replace(material, runs={**material.runs, "t2i": cut})).knows_all("t2i")
    assert Bench(Material.of(toy(depth=3))).knows_all("t2i")


def test_the_mean_of_directions_needs_both() -> None:
    material = Material.of(toy())
    search = Search(Bench(replace(material, runs={"t2i": material.runs["t2i"]})), {"t2i": {"R@1": 50.0}}, 2)
    reading = Reading.of(direction="mean")
    assert search.trial("t2i", Reading()) is not None and search.trial("t2i", reading) is None
    assert search.impossible["t2i", reading] == "the result has no i2t"


def test_val_and_test_as_one_split() -> None:
    collection = make_collection(30, 2)
    splits = np.repeat(["test", "val", "train"], 10).tolist()
    collection = replace(collection, images=collection.images.set_column(3, "split", [splits]))
    vectors = random_pair(collection)
    material = Material.of(visir.evaluate(collection, vectors, split="test"), vectors, collection)
    part = Bench(material).part("t2i", Reading.of(split="val+test"))
    assert len(part.queries) == 40 and part.candidates.sum() == 20
    both = visir.evaluate(collection, vectors, split="val+test")
    printed = {f"{task} R@{k}": f"{100 * both[f'{task} R@{k}']:.2f}" for task in ("i2t", "t2i") for k in (1, 5, 10)}
    explained = explain(material, printed)
    assert any(fit.reading["split"] == "val+test" for fit in explained.named)


def test_inverted_softmax_ranks_as_the_softmax_over_queries() -> None:
    random = np.random.default_rng(0)
    queries, documents = random.normal(size=(50, 8)), random.normal(size=(20, 8))
    cosines = (queries / np.linalg.norm(queries, axis=1, keepdims=True)) @ (
        documents / np.linalg.norm(documents, axis=1, keepdims=True)
    ).T
    for scale in (1, 20, 100):
        expected = scipy.special.softmax(scale * cosines, axis=0)
        ours = BY_NAME["similarity"][f"inverted softmax, {scale}"].do(queries, documents, "t2i")
        np.testing.assert_allclose(np.exp(ours.astype(np.float64)), expected, rtol=2e-5)
        assert (np.argsort(-ours, axis=1)[:, 0] == np.argsort(-expected, axis=1)[:, 0]).all()


def test_similarities_by_hand() -> None:
    images, texts = np.array([[3.0, 4.0], [1.0, 0.0]]), np.array([[2.0, 0.0]])
    expected = {
        "cosine": [0.6, 1.0],
        "dot": [6.0, 2.0],
        "euclidean": [12 - 25, 4 - 1],  # 2qd − d²; the distances are √17 and 1
        "images normalised": [0.6, 1.0],
        "texts normalised": [6.0, 2.0],  # of images, only their own lengths change an order
        "signs": [2.0, 2.0],
        "first half": [1.0, 1.0],
    }
    for name, values in expected.items():
        assert BY_NAME["similarity"][name].do(texts, images, "t2i")[0] == pytest.approx(values, abs=1e-6), name
    assert BY_NAME["similarity"]["images normalised"].do(images, texts, "i2t")[:, 0] == pytest.approx([6.0, 2.0])


def with_equal_captions() -> tuple[visir.records.Collection, tuple[visir.records.Embeddings, ...]]:
    """Captions 0 and 2 have one text and are of two images, 4 and 5 have one and are of one image."""
    texts = ["a dog", "b", "a dog", "c", "d", "d"]
    scores = SCORES[[0, 1, 0, 3, 4, 4]]
    columns = {"id": COLLECTION.captions["id"].to_pylist(), "text": texts}
    columns["image_id"] = ["i0", "i0", "i1", "i1", "i2", "i2"]
    collection = visir.records.Collection.build("equal", images={"id": ["i0", "i1", "i2"]}, captions=columns)
    return collection, (embed("image", ["i0", "i1", "i2"], np.eye(3)), embed("text", columns["id"], scores))


@pytest.mark.parametrize("way", ["folder", "source", "vectors"])
def test_captions_of_one_text_are_merged(way: str, tmp_path: Path) -> None:
    """Queries: a dog .9 .1 .2 (i0, i1), b .3 .8 .1 (i0), c .7 .4 .6 (i1), d .1 .2 .3 (i2)."""
    collection, vectors = with_equal_captions()
    visir.evaluate(collection, vectors, similarity="dot").save(tmp_path / "own")
    own = load_evaluation(tmp_path / "own")
    assert own.captions is not None and own.captions.column_names == ["id", "image_id", "same_text_as"]
    material = Material.of(
        own, vectors if way == "vectors" else None, None if way == "folder" else collection
    )  # fmt: skip
    bench, reading = Bench(material), Reading.of(queries="one per text")
    search = Search(bench, {task: {"R@1": 50.0, "R@2": 50.0} for task in ("t2i", "i2t")}, 2)
    to_image, to_text = search.trial("t2i", reading), search.trial("i2t", reading)
    assert to_image is not None and to_text is not None
    # Ranks 1, 2, 3, 1 of the first right image.
    assert [round(value.ours, 2) for value in to_image.values] == [50.0, 75.0]
    # i0: a dog is first; i1: b .8, c .4 second; i2: c .6, d .3 second. Four candidates.
    assert [round(value.ours, 2) for value in to_text.values] == [33.33, 100.0] and to_text.sizes == (4,)


def test_where_no_text_is_known_captions_are_not_merged() -> None:
    search = Search(Bench(Material.of(toy())), {"t2i": {"R@1": 50.0}}, 2)
    assert search.trial("t2i", Reading.of(queries="one per text")) is None
    assert "which captions have one text" in search.impossible["t2i", Reading.of(queries="one per text")]
    search = Search(Bench(Material.of(toy(), None, COLLECTION)), {"t2i": {"R@1": 50.0}}, 2)
    assert search.trial("t2i", Reading.of(queries="one per text")) is None  # all texts differ


def test_queries_without_an_answer_or_a_right_candidate() -> None:
    """Of four captions one finds nothing at all, and the image of another is no candidate."""
    collection = make_collection(4, 1)
    ids = collection.captions["id"].to_pylist()
    answers = {ids[0]: {"i0": 2.0, "i1": 1.0}, ids[1]: {"i0": 2.0, "i1": 1.0}, ids[3]: {"i0": 1.0}}
    gallery = visir.records.Gallery.of("image", ["i0", "i1", "i2"], "three")
    run = visir.records.Run.ranked(
        "mine", "t2i", *zip(*((q, d, s) for q, found in answers.items() for d, s in found.items()), strict=True),
        gallery, depth=3,
    )  # fmt: skip
    own = visir.evaluate(collection, {"t2i": run}, tasks="t2i", gallery={"t2i": gallery}, measures=["R@1", "R@2"])
    search = Search(Bench(Material.of(own)), {"t2i": {"R@1": 50.0, "R@2": 50.0}}, 2)
    expected = {None: [25.0, 50.0], "answered": [50.0, 100.0], "answerable": [33.33, 66.67]}
    for choice, values in expected.items():
        trial = search.trial("t2i", Reading() if choice is None else Reading.of(queries=choice))
        assert trial is not None and [round(value.ours, 2) for value in trial.values] == values, choice


def test_a_part_of_a_split_that_is_too_large_to_search_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    collection = make_collection(120, 2)
    splits = ["test"] * 20 + ["train"] * 100
    collection = replace(collection, images=collection.images.set_column(3, "split", [splits]))
    vectors = random_pair(collection, noise=1.5)
    own = visir.evaluate(collection, vectors, split="test")
    half = collection.keep_images(np.array([False] * 20 + [True] * 50 + [False] * 50))
    monkeypatch.setattr("visir.evaluation.explaining.world.MOST_PAIRS", 10_000)  # train has 20,000
    found = explain(own, numbers(visir.evaluate(half, vectors)), source=collection, vectors=vectors)
    assert "too many to try" in dict(found.not_computable)["the train split"]
    assert any({"split", "gallery"} == {axis for axis, _ in fit.reading.reading.choices} for fit in found.named)


def test_the_table_of_readings() -> None:
    names = [axis.name for axis in AXES]
    assert len(set(names)) == len(names) == len(BY_NAME)
    words = [choice.words for axis in AXES for choice in axis.choices]
    assert len(set(words)) == len(words), "two choices are one sentence"
    for axis in AXES:
        assert axis.asks.endswith("?") and all(choice.needs in NEEDS and choice.cost > 0 for choice in axis.choices)
        assert len({choice.name for choice in axis.choices}) == len(axis.choices)
        if axis.name != "depth":
            assert all(choice.do or choice.takes for choice in axis.choices), "a choice without its function"


def test_plain_readings_come_first() -> None:
    costs = [cost for cost, _ in tiers()]
    assert costs == sorted(costs) and costs[0] == 0
    assert max(reading.cost for reading in singles()) < min(reading.cost for reading in pairs())
    assert max(reading.cost for reading in pairs()) < min(reading.cost for reading in triples())
    for reading in (*pairs(), *triples()):
        assert Reading.of(**dict(reading.choices)) == reading


def test_accidents_of_few_digits() -> None:
    assert chance_of_fit({"R@1": 50.0}, 100, 0) > 0.05
    assert chance_of_fit({"R@1": 0.1, "R@5": 0.5}, 1000, 1) > 0.05
    assert chance_of_fit({"R@1": 20.5, "R@5": 43.1, "R@10": 57.0}, 1000, 1) < 1e-4


TWO = make_collection(200, 2)
VECTORS = random_pair(TWO, noise=1.5, name="model")


def numbers(evaluation: visir.Evaluation, decimals: int = 2) -> dict[str, str]:
    recall = evaluation.protocol.recall
    return {
        f"{task} R@{k}": f"{100 * evaluation.mean(task, f'{recall}@{k}'):.{decimals}f}"
        for task in ("i2t", "t2i")
        for k in (1, 5, 10)
    }


def test_few_digits_are_not_explained() -> None:
    """One value without decimals fits several readings; none of them is stated."""
    own = visir.evaluate(TWO, VECTORS, depth=400)
    other = numbers(visir.evaluate(TWO, VECTORS, captions="random"), 0)
    found = explain(own, {"t2i R@1": other["t2i R@1"]})
    assert found.best.reading.departures == 0 or found.verdict != "named"


def test_values_at_chance_are_called_so() -> None:
    own = visir.evaluate(TWO, VECTORS)
    random = np.random.default_rng(2)
    shuffled = replace(VECTORS[1], vectors=VECTORS[1].vectors[random.permutation(len(VECTORS[1]))])
    found = explain(own, numbers(visir.evaluate(TWO, (VECTORS[0], shuffled))), vectors=VECTORS)
    assert found.verdict == "chance" and not found.named
    assert "are at chance, no better than a random ranking" in found.sentence


@pytest.mark.parametrize("images", [60, 200])
def test_values_at_chance_of_a_small_gallery_are_called_so(images: int) -> None:
    """Of 60 candidates a random ranking has up to 37 % at 10, but 10 % at 1: six values together are clear."""
    collection = make_collection(images, 5)
    vectors, random = random_pair(collection, noise=1.0), np.random.default_rng(5)
    shuffled = replace(vectors[1], vectors=vectors[1].vectors[random.permutation(len(vectors[1]))])
    found = explain(visir.evaluate(collection, vectors), numbers(visir.evaluate(collection, (vectors[0], shuffled))))
    assert found.verdict == "chance" and "are at chance, no better than a random ranking" in found.sentence


def test_of_few_candidates_chance_says_nothing() -> None:
    """Of 12 candidates a random ranking may find a third at once."""
    collection = make_collection(12, 5)
    vectors, random = random_pair(collection, noise=1.0), np.random.default_rng(5)
    shuffled = replace(vectors[1], vectors=vectors[1].vectors[random.permutation(len(vectors[1]))])
    found = explain(visir.evaluate(collection, vectors), numbers(visir.evaluate(collection, (vectors[0], shuffled))))
    assert "are at chance" not in found.sentence


def test_captions_in_another_order_are_named() -> None:
    """Caption i taken for one of image i mod n: at chance, but with certain digits."""
    own = visir.evaluate(TWO, VECTORS, depth=400)
    ids, images = TWO.captions["id"].to_pylist(), TWO.images["id"].to_pylist()
    wrong = visir.records.Collection.build(
        "tiled",
        images={"id": images, "split": ["test"] * len(images)},
        captions={"id": ids, "text": ids, "image_id": [images[row % len(images)] for row in range(len(ids))]},
    )
    found = explain(own, numbers(visir.evaluate(wrong, VECTORS)))
    assert any("i mod n" in str(fit.reading) for fit in found.named)


def test_another_split_needs_the_collection() -> None:
    both = make_collection(100, 2).images.num_rows
    collection = make_collection(2 * both, 2)
    splits = ["test"] * both + ["val"] * both
    collection = replace(collection, images=collection.images.set_column(3, "split", [splits]))
    vectors = random_pair(collection, noise=1.5)
    own = visir.evaluate(collection, vectors, split="test")
    of_val = numbers(visir.evaluate(collection, vectors, split="val"))
    alone = explain(own, of_val)
    assert alone.verdict == "none" and "--data COLLECTION --model MODEL" in alone.sentence
    assert "its vectors are not at hand" in dict(alone.not_computable)["the val split"]
    found = explain(own, of_val, source=collection, vectors=vectors)
    assert found.verdict == "named" and found.sentence.startswith("the val split, over all 200 captions and 100 images")
    wider = numbers(visir.evaluate(collection, vectors, split="test", gallery="collection"))
    found = explain(own, wider, source=collection, vectors={side.modality: side for side in vectors})
    assert "candidates of the val split too" in found.sentence


def test_a_reading_of_one_direction_is_said_of_it() -> None:
    own = visir.evaluate(TWO, VECTORS, depth=400)
    mixed = numbers(own) | {k: v for k, v in numbers(visir.evaluate(TWO, VECTORS, folds=5)).items() if k[0] == "i"}
    found = explain(own, mixed)
    assert found.verdict == "named" and str(found.best.reading) == "i2t: the mean over 5 folds"
    assert explain(own, {"R@1": mixed["t2i R@1"]}, direction="t2i").best.reading.departures == 0


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ((5, 10, 1), "rotated: @5, @10, @1"),
        ((10, 1, 5), "rotated: @10, @1, @5"),
        ((5, 1, 10), "@1 and @5 exchanged"),
        ((1, 10, 5), "@5 and @10 exchanged"),
        ((10, 5, 1), "in reverse order"),
    ],
)
def test_columns_in_another_order_are_named(order: tuple[int, ...], words: str) -> None:
    own = visir.evaluate(TWO, VECTORS, depth=400)
    as_ours = numbers(own)
    moved = {
        f"{task} R@{k}": as_ours[f"{task} R@{of}"]
        for task in ("i2t", "t2i")
        for k, of in zip((1, 5, 10), order, strict=True)
    }
    found = explain(own, moved)
    assert found.verdict == "named" and words in str(found.best.reading)


def test_errors_name_the_next_action() -> None:
    own = visir.evaluate(TWO, VECTORS)
    with refused(ConfigurationError, "t2t", code="result-no"):
        explain(own, {"t2i R@1": 30.0}, direction="t2t")
    with refused(ConfigurationError, code="images-captions-needed"):
        explain(own, {"t2i R@1": 30.0}, vectors={"image": VECTORS[0]})
    with refused(VisirError, "200"):
        explain(own, {"t2i R@1": 30.0}, vectors=(embed("image", ["other"], [[1.0] * 16]), VECTORS[1]))
    with pytest.raises(ConfigurationError, match=r"t2i 'F1', t2i 'F2' are no measures"):
        explain(own, {"t2i F1": 30.0, "t2i F2": 30.0})


def test_hits_of_ranks() -> None:
    ranked = Ranked(np.array([1.0, 7.0, 3.0, np.inf]), np.array([0, 2, 4]))
    assert ranked.hits(5).tolist() == [1.0, 1.0] and ranked.best.tolist() == [1.0, 3.0]
    assert BY_NAME["recall"]["map"].do(ranked, 10).tolist() == pytest.approx([(1 + 2 / 7) / 2, 1 / 6])
    assert BY_NAME["recall"]["ndcg"].do(ranked, 1).tolist() == [1.0, 0.0]
