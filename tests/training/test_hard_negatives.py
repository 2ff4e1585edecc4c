"""Hard negatives from recipes: captions whose words changed places, and what a search finds and leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import visir
from visir.collections import open_collection
from visir.errors import ConfigurationError
from visir.records import Collection
from visir.training.build import build_model
from visir.training.data import open_splits
from visir.training.examples import _swapped, build_examples, mined_over, right_pairs
from visir.training.inputs import EpochRandom, Mined, TrainingExamples
from visir.training.learner import DualEncoder, nearest_wrong
from visir.training.recipe import MinedNegatives, SwappedNegatives, read_recipe
from visir.training.shipped import find_recipe
from visir.training.trained import STEPS_FILE, StepLog, read_steps

SMALL: dict[str, Any] = {"data": "scenes:40?size=64", "epochs": 2, "batch": 24}
EPOCH = EpochRandom(0, 1)


def examples(*changes: str) -> TrainingExamples:
    recipe = read_recipe(find_recipe("scenes-heads"), ["data.collection=scenes:40?size=64", *changes])
    splits = open_splits(recipe)
    return build_examples(recipe, build_model(recipe, splits.train, "cpu"), splits)[0]


def test_nearest_wrong_by_hand() -> None:
    queries = np.eye(2, dtype=np.float32)
    candidates = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0.8, 0.6], [0, 1]], np.float32)
    # The first query's own is candidate 0; 1 and 3 are equally near, the earlier row comes first.
    assert nearest_wrong(queries, candidates, [[0], [4, 2]], 3).tolist() == [[1, 3, 2], [1, 3, 0]]
    assert nearest_wrong(queries, candidates, [[0], [4, 2]], 2, skip=1).tolist() == [[3, 2], [3, 0]]
    # Where everything is right, or little is left, the rest is none.
    assert nearest_wrong(queries, candidates, [[0, 1, 2, 3, 4], [4]], 5).tolist()[0] == [-1] * 5
    assert nearest_wrong(queries, candidates, [[0], [4]], 8).tolist()[0] == [1, 3, 2, 4, -1, -1, -1, -1]


def test_what_is_right_is_linked_judged_or_of_the_same_text() -> None:
    texts = ["A dog.", "two cats", "a  DOG.", "a hat"]
    images, captions = right_pairs(np.array([0, 0, 1, 2]), texts, np.array([[2, 1]]), 4)
    assert images == [[0, 1, 2], [0, 2], [1, 3], []]
    assert captions == [[0, 1], [0, 2], [0, 1], [2]]


def test_judged_pairs_of_a_collection_are_never_mined() -> None:
    split = open_collection("scenes:30?size=64").split("train")
    ids = split.images["id"].to_pylist(), split.captions["id"].to_pylist()
    wrong = next(row for row, of in enumerate(split.captions["image_id"].to_pylist()) if of != ids[0][0])
    columns = {
        "relevance": ["people"] * 2,
        "task": ["i2t"] * 2,
        "image_id": [ids[0][0]] * 2,
        "caption_id": ids[1][wrong : wrong + 2],
        "grade": [1.0, 0.0],
    }
    judged = pa.table(columns)
    mined = mined_over(
        split.with_judgements(judged.select(split.judgements.column_names).cast(split.judgements.schema)),
        MinedNegatives(),
    )
    assert wrong in mined.right[0][0] and 0 in mined.right[1][wrong]
    assert wrong + 1 not in mined.right[0][0]  # looked at, and found to be wrong


def test_drawn_by_place_without_repetition() -> None:
    mined = Mined(MinedNegatives(count=3), np.zeros(1, np.int64), ([], []))
    near = np.arange(5)[None, :] + 10 * np.arange(400)[:, None]
    near[:, 4] = -1
    rows = np.arange(400)
    drawn = mined.drawn(near, rows, EPOCH, 5)
    assert drawn.shape == (400, 3) and all(len(set(row)) == 3 for row in drawn.tolist())
    assert (drawn >= 0).all()  # four are there, three are drawn: none that is missing
    part = mined.drawn(near[[7, 300]], rows[[7, 300]], EPOCH, 5)
    np.testing.assert_array_equal(part, drawn[[7, 300]])  # whatever the batch
    counts = np.bincount((drawn % 10).ravel(), minlength=4)
    assert counts.min() > 250  # each of the four about 300 times


def test_a_batch_has_a_changed_caption_for_each_pair() -> None:
    train = examples("negatives.swapped.kinds=shuffle_all_words", "negatives.swapped.variants=2")
    rows = np.array([3, 0, 11])
    batch = train.batch(rows, EPOCH)
    assert len(batch.negatives) == 1 and batch.negative_rows.shape == (3, 1)
    assert set(batch.negative_rows.ravel().tolist()) <= {-1, *train.anchor_rows[rows].tolist()}
    # A bag of words does not see the order of words: the changed caption has the vector of the caption itself.
    torch.testing.assert_close(batch.negatives[0], batch.positives)
    assert train.batch(rows).negatives == () and train.batch(rows).negative_rows is None  # none in validation


def test_a_caption_that_cannot_change_is_no_negative_of_its_own_picture() -> None:
    train = examples("negatives.swapped.kinds=shuffle_nouns_and_adj")
    swapped = train.negatives.swapped  # type: ignore[union-attr]
    assert swapped is not None
    belongs = swapped.anchor_rows[0][0]
    assert ((belongs == -1) | (belongs == train.anchor_rows)).all()


def test_a_changed_caption_that_is_right_in_other_words_is_no_negative() -> None:
    """ "a dog and a cat" is another caption of the picture, "dog chases another Dog" the caption itself."""
    pictures = Collection.build(
        "pairs",
        images={"id": ["a", "b"]},
        captions={
            "id": ["1", "2", "3", "4"],
            "text": ["a cat and a dog", "a dog and a cat", "Dog chases another dog", "a man bites a dog"],
            "image_id": ["a", "a", "b", "b"],
        },
    )
    settings = SwappedNegatives(kinds=("shuffle_nouns_and_adj",), variants=1, seed=0)
    given: list[list[str]] = []

    def texts(changed: Collection) -> Any:
        given.append(changed.captions["text"].to_pylist())
        return None

    (belong,) = _swapped(settings, pictures, texts).anchor_rows[0]
    assert given == [["a dog and a cat", "a cat and a dog", "dog chases another Dog", "a dog bites a man"]]
    assert belong.tolist() == [0, 0, 1, -1]


def test_mined_ones_are_near_and_wrong(tmp_path: Path) -> None:
    recipe = read_recipe(
        find_recipe("scenes-heads"),
        ["data.collection=scenes:40?size=64", "negatives.mined.nearest=4", "negatives.mined.count=2"],
    )
    splits = open_splits(recipe)
    built = build_model(recipe, splits.train, "cpu")
    train, _ = build_examples(recipe, built, splits)
    learner = DualEncoder(built.towers, built.objective)
    from visir.training.optimiser import Precision

    learner.prepare(Precision("float32", torch.device("cpu")))
    mined = train.negatives.mined  # type: ignore[union-attr]
    assert mined is not None
    assert train.batch(np.arange(3), EPOCH).negatives == ()  # nothing was searched yet
    mined.captions, mined.images = learner.mine(train, mined, EPOCH)
    assert mined.captions.shape == (len(train.anchors), 4) and mined.images.shape == (len(train), 4)
    owners = train.anchor_rows
    assert (owners[mined.captions] != np.arange(len(train.anchors))[:, None]).all()
    assert (mined.images != owners[:, None]).all()
    batch = train.batch(np.arange(5), EPOCH)
    assert len(batch.negatives) == len(batch.anchor_negatives) == 2
    assert (batch.negative_rows.numpy() != owners[:5, None]).all()
    # What stands in the batch is the vector of the picture that is named.
    named = train.anchors.batch(batch.anchor_negative_rows[:, 1].numpy())
    torch.testing.assert_close(batch.anchor_negatives[1], named)


@pytest.mark.parametrize("chunk", [None, 7])
@pytest.mark.parametrize("objective", ["infonce", "sigmoid", "multi-positive", "triplet"])
def test_trainings_with_both_kinds_run_and_resume(objective: str, chunk: int | None, tmp_path: Path) -> None:
    still = {"optimiser.per_image": 2, "image.head.dropout": 0.0, "text.head.dropout": 0.0}
    asked = SMALL | {
        "objective": {"name": objective},
        "set": still | {"optimiser.chunk": chunk or "none", "negatives.swapped.variants": 2,
                "negatives.swapped.kinds": ["shuffle_all_words"], "negatives.mined.nearest": 5},
    }  # fmt: skip
    whole = visir.train("scenes-heads", out=tmp_path / "whole", **asked)
    plain = visir.train("scenes-heads", out=tmp_path / "plain", **(asked | {"set": still}))
    # The first step sees the same pairs with the same weights: only the hard negatives make it dearer.
    first = [next(iter(read_steps(one.path / STEPS_FILE))).losses["contrastive"] for one in (whole, plain)]
    assert first[0] >= first[1] and (objective == "triplet" or first[0] > first[1])
    real, count = StepLog.write, 3

    def stop(log: StepLog, step: Any) -> None:
        real(log, step)
        if step.step == count:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(StepLog, "write", stop)
        visir.train("scenes-heads", out=tmp_path / "run", **asked)
    run = visir.train("scenes-heads", out=tmp_path / "run", resume=True, **asked)
    for name in ("towers.safetensors", STEPS_FILE):
        assert (run.path / name).read_bytes() == (whole.path / name).read_bytes()


def test_a_given_model_searches_once_and_every_few_epochs_the_trained_one() -> None:
    mined = Mined(MinedNegatives(every=2), np.zeros(1, np.int64), ([], []))
    assert [mined.is_due(epoch) for epoch in range(5)] == [True, False, True, False, True]
    mined.epoch = 2
    assert not mined.is_due(2)  # a resumed epoch has those of its begin
    assert not Mined(MinedNegatives(model="x"), np.zeros(1, np.int64), ([], [])).is_due(0)


def test_shortcuts_stand_on_negatives_too(tmp_path: Path) -> None:
    run = visir.train(
        "scenes-vse",
        out=tmp_path / "run",
        set={"shortcuts.kind": "unique", "negatives.mined.nearest": 3, "negatives.swapped.kinds": "shuffle_all_words"},
        **SMALL,
    )
    assert len(run.curve) == 2


def test_faults_say_what_takes_negatives(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        visir.train("scenes-heads", set={"negatives.mined.count": 1, "objective.name": "cosine"}, **SMALL)
    assert "negatives: objective.name = 'cosine' takes none; infonce, ifm, triplet, sigmoid, multi-positive do" in str(
        caught.value
    )
    with pytest.raises(ConfigurationError, match=r"'char_swap' leaves a caption right for its picture; those that do"):
        visir.train("scenes-heads", set={"negatives.swapped.kinds": ["char_swap"]}, **SMALL)
    with pytest.raises(ConfigurationError, match=r"with optimiser.per_image = 1: a batch has one caption of an image"):
        visir.train("scenes-heads", objective={"name": "multi-positive"}, **SMALL)
