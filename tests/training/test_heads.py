"""From a recipe to a checkpoint that encodes: over generated scenes, with encoders that need no download."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from visir.collections import open_collection
from visir.encoders import encode, load
from visir.errors import CollectionError, VisirError
from visir.files import read_json
from visir.training.fit import Epoch
from visir.training.heads import plan_heads, train_heads
from visir.training.recipe import Recipe, read_recipe
from visir.training.validation import validate


def small(**changes: object) -> Recipe:
    values: dict[str, object] = {
        "name": "small",
        "data": {"collection": "scenes:120?size=64"},
        "backbones": {"image": "pixels", "text": ["bow:64", "bow:fitted:2048"]},
        "model": {"dimension": 16, "text": {"hidden": [24], "shortcut": True, "dropout": 0.1}},
        "optimiser": {"epochs": 3, "batch": 32, "rate": 0.003},
    }
    return Recipe.model_validate(values | changes)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heads")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VISIR_CACHE", str(folder / "cache"))
        return train_heads(small(), folder / "out")


def test_the_folder_holds_what_it_should_and_nothing_of_the_way_there(checkpoint: Path) -> None:
    assert sorted(one.name for one in checkpoint.iterdir()) == [
        "curve.json", "heads.safetensors", "recipe.toml", "text_backbone", "visir.json",
    ]  # fmt: skip
    assert read_recipe(checkpoint / "recipe.toml") == small()
    description = read_json(checkpoint / "visir.json")
    assert description["kind"] == "heads"
    facts = description["facts"]
    assert [epoch["epoch"] for epoch in facts["curve"]] == [1, 2, 3]
    assert facts["validation"] == facts["curve"][facts["chosen_epoch"] - 1]["validation"]
    assert facts["trained_on"]["image backbone"] == [load("pixels").card.fingerprint]


def test_the_loaded_encoder_gives_the_validated_figures_end_to_end(checkpoint: Path) -> None:
    encoder = load(checkpoint)
    assert encoder.modalities == {"image", "text"} and encoder.dimension == 16
    split = open_collection("scenes:120?size=64").split("val")
    images, texts = (encode(encoder, split, side).normalise() for side in ("image", "text"))
    found = validate(images.vectors, texts.vectors, images.rows(split.captions["image_id"]))
    assert found == pytest.approx(read_json(checkpoint / "visir.json")["facts"]["validation"])
    # What the store gave in one go is what single inputs give.
    alone = encoder.encode_texts([split.captions["text"][0].as_py()])
    alone /= np.linalg.norm(alone)
    np.testing.assert_allclose(alone[0], texts.vectors[0], atol=1e-5)


def test_an_interrupted_training_resumes_to_the_same_file(checkpoint: Path, tmp_path: Path) -> None:
    def interrupt(epoch: Epoch) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_heads(small(), tmp_path / "out", report=interrupt)
    with pytest.raises(VisirError, match="holds an interrupted training") as caught:
        train_heads(small(), tmp_path / "out")
    assert "--resume" in str(caught.value)
    again = train_heads(small(), tmp_path / "out", resume=True)
    assert (again / "heads.safetensors").read_bytes() == (checkpoint / "heads.safetensors").read_bytes()


def test_folders_that_hold_something_are_left_alone(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(VisirError, match="holds a finished checkpoint"):
        train_heads(small(), checkpoint)
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(VisirError, match="not a training's folder"):
        train_heads(small(), tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "x"


def test_missing_data_says_what_to_get(tmp_path: Path) -> None:
    data = {"collection": "$VISIR_DATA/nowhere.json", "obtain": "download it to $VISIR_DATA"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VISIR_DATA", str(tmp_path))
        with pytest.raises(CollectionError) as caught:
            train_heads(small(data=data), tmp_path / "out")
    assert "nowhere.json: no such file" in str(caught.value)
    assert f"→ download it to {tmp_path}" in str(caught.value)


@pytest.mark.parametrize(
    ("backbones", "complaint"),
    [
        ({"image": "bow", "text": "bow"}, "encodes no images"),
        ({"image": "pixels", "text": "pixels"}, "encodes no texts"),
        ({"image": "pixls", "text": "bow"}, "unknown encoder 'pixls'"),
    ],
)
def test_backbones_that_do_not_fit(tmp_path: Path, backbones: dict[str, str], complaint: str) -> None:
    with pytest.raises(VisirError, match=complaint):
        train_heads(small(backbones=backbones), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_plan_counts_what_training_will_take() -> None:
    plan = plan_heads(small(backbones={"image": "pixels", "text": "bow:64"}))
    assert plan.captions == {"train": 480, "validation": 60}
    assert plan.steps == 3 * 15  # 480 captions in batches of 32
    # Text: 64·24 + 24 (hidden), 2·24 (layer norm), 24·16 + 16 (out), 64·16 + 16 (shortcut).
    assert plan.parameters["text"] == 1560 + 48 + 400 + 1040
    assert plan.parameters["image"] == plan.dimensions["image"] * 16 + 16
