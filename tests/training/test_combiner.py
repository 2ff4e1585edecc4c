"""A trained combiner: what it learns from, the folder it leaves, and that it loads and evaluates like any other."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import visir
from visir.encoders import encode_items
from visir.encoders.combiner import Combiner, CombinerEncoder, CombinerSpec
from visir.encoders.towers.base import HeadSpec
from visir.errors import CollectionError, ConfigurationError, EncoderError
from visir.training.combining import AlikeNegatives, examples_of, nearest_pictures
from visir.training.inputs import EpochRandom, VectorSource

sys.path.append(str(Path(__file__).parents[1] / "evaluation"))
from composed_toys import Colours, mixing

from refusals import refused

SCENES = "scenes:40?task=composed&size=64"
SMALL = {"epochs": 2, "batch": 16, "set": {"combiner.projection": 16, "combiner.hidden": 16, "dimension": 32}}


def small_combiner(width: int = 3) -> Combiner:
    identity = HeadSpec(width, width, identity=True)
    return Combiner(CombinerSpec(identity, identity, 4, 5, 0.0)).eval()


def test_the_network_by_hand() -> None:
    # With all weights zero the gate is 1/2 and nothing is added: the mean of the two unit vectors.
    combiner = small_combiner()
    with torch.no_grad():
        for parameter in combiner.parameters():
            parameter.zero_()
    inputs = {"text": torch.tensor([[0.0, 4.0, 0.0]]), "image": torch.tensor([[2.0, 0.0, 0.0]])}
    assert combiner(inputs).tolist() == [[0.5, 0.5, 0.0]]
    with torch.no_grad():  # a gate that is shut to the text, and an addition
        combiner.gate[-2].bias.fill_(-100.0)
        combiner.output.bias.copy_(torch.tensor([0.0, 0.0, 3.0]))
    assert combiner(inputs).tolist() == [[1.0, 0.0, 3.0]]


def test_an_encoder_of_texts_images_and_both(tmp_path: Path) -> None:
    task = mixing(tmp_path).task("it2i")
    colours = Colours()
    encoder = CombinerEncoder(small_combiner(), {"image": colours, "text": colours}, device="cpu")
    assert sorted(encoder.modalities) == ["image", "text", "text+image"]
    pictures = encode_items(encoder, task.documents)
    assert np.array_equal(pictures["red"], encode_items(colours, task.documents)["red"])  # identity heads
    both = encode_items(encoder, task.queries, "query")
    again = encoder.embed_texts_with_images(["more green"], [encoder.preprocess(image(tmp_path / "red.png"))])
    assert np.asarray(both["q1"]) == pytest.approx(again[0], abs=1e-6)
    assert both.encoder.text_preprocessing["compose"] == "combiner"


def image(path: Path):
    from PIL import Image

    return Image.open(path).convert("RGB")


def test_wrong_widths_are_refused() -> None:
    with refused(EncoderError, "image", "4", "images", "3", code="head-takes-values"):
        CombinerEncoder(small_combiner(4), {"image": Colours(), "text": Colours()})


def test_examples_are_right_pairs_and_whole_galleries() -> None:
    source = visir.open(SCENES).split("train")
    task = source.task("it2i")
    encoders = {"image": visir.load("pixels"), "text": visir.load("bow:64")}
    examples = examples_of({"it2i": task}, encoders, validation=False)  # type: ignore[arg-type]
    qrels = task.judgements()
    assert len(examples) == len(qrels.documents)
    assert examples.ids[: qrels.positives[0]] == qrels.documents[: int(qrels.positives[0])].to_pylist()
    validation = examples_of({"it2i": task}, encoders, validation=True)  # type: ignore[arg-type]
    (gallery,) = validation.galleries
    assert gallery.right.shape == (len(task.queries), len(task.documents))
    assert gallery.right.sum() == len(qrels.documents)


def test_alike_pictures() -> None:
    documents = np.array([[1, 0], [1, 0.1], [0, 1], [1, 0.2]], np.float32)
    right = np.array([[False, True, False, False], [False, False, True, False]])
    nearest = nearest_pictures(documents[[0, 2]], documents, right, 4)
    assert nearest.tolist() == [[0, 3, 2, -1], [3, 1, 0, -1]]
    negatives = AlikeNegatives(VectorSource([documents]), nearest, 2)
    rows, anchor_rows = np.array([0, 1, 2]), np.array([0, 0, 1])
    inputs, belong = negatives.positives(VectorSource([documents]), anchor_rows, rows, EpochRandom(0, 0))
    assert len(inputs) == 2
    assert belong.shape == (3, 2)
    assert (belong >= 2).all()  # of no query
    for column, batch in enumerate(inputs):
        chosen = belong[:, column].numpy() - 2
        assert np.array_equal(batch.numpy(), documents[chosen])  # type: ignore[union-attr]
        assert not right[anchor_rows[rows], chosen].any()


def test_training_loads_and_evaluates_like_any_other(tmp_path: Path) -> None:
    run = visir.train("composed-scenes", data=SCENES, out=tmp_path / "run", **SMALL)  # type: ignore[arg-type]
    assert sorted(run.validation) == ["it2i hit@1", "it2i hit@10", "it2i hit@5", "rsum"]
    encoder = visir.load(run.path)
    assert isinstance(encoder, CombinerEncoder)
    assert encoder.card.is_versioned
    evaluation = visir.evaluate(SCENES, run, split="val", measures=["hit@1", "hit@5", "hit@10"])
    for k in (1, 5, 10):  # the figure of validation is the measure
        assert 100 * evaluation[f"it2i hit@{k}"] == pytest.approx(run.validation[f"it2i hit@{k}"], abs=1e-3)
    assert evaluation.result.protocol.composition == "combiner"
    again = visir.train("composed-scenes", data=SCENES, out=tmp_path / "again", **SMALL)  # type: ignore[arg-type]
    assert visir.load(again.path).card.weights == encoder.card.weights
    answers = visir.search(SCENES, run, visir.Query(text="the same, but at night", image=picture(tmp_path)), k=3)
    assert len(answers.top(answers.queries[0].as_py())) == 3
    with refused(visir.errors.VisirError, code="holds-finished-checkpoint"):
        visir.train("composed-scenes", data=SCENES, out=tmp_path / "run", **SMALL)  # type: ignore[arg-type]


def picture(folder: Path) -> Path:
    from PIL import Image

    Image.new("RGB", (64, 64), "red").save(folder / "query.png")
    return folder / "query.png"


def test_what_a_combiner_does_not_go_with() -> None:
    with pytest.raises(ConfigurationError) as caught:
        visir.train("composed-scenes", SCENES, set={"text.prompts": ["a {}"]})
    assert "combiner: text.prompts does not go with it" in str(caught.value)
    with refused(CollectionError, code="images-captions"):
        visir.train("composed-scenes", "scenes:20?size=64")
    with refused(CollectionError, code="task-not-pairs", hint=False):
        visir.train("scenes-heads", visir.open(SCENES))


def test_two_spaces_need_a_head() -> None:
    recipe = {
        "name": "mine", "data": {"collection": SCENES}, "dimension": "own",
        "image": {"tower": "frozen", "encoder": "pixels", "head": {"identity": True}},
        "text": {"tower": "frozen", "encoder": "bow:64", "head": {"identity": True}},
        "combiner": {"projection": 8, "hidden": 8},
    }  # fmt: skip
    with refused(ConfigurationError, code="dimension-two-identity-heads"):
        visir.train(recipe)
