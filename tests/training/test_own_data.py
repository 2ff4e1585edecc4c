"""Training on own pictures and captions: without splits, in few pairs, from Python objects, stopped and resumed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import visir
from refusals import refused
from visir.collections import open_collection
from visir.encoders import load
from visir.errors import CollectionError, ConfigurationError, VisirError
from visir.storage import Manifest
from visir.training.data import TOWERS, default_rule, divided, open_splits, settled
from visir.training.recipe import Data
from visir.training.trained import StepLog

SMALL: dict[str, Any] = {"image_model": "pixels", "text_model": "bow:64", "dimension": 8, "device": "cpu"}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))


def pictures(folder: Path, count: int) -> list[tuple[str, str]]:
    folder.mkdir()
    draw = np.random.default_rng(0)
    pairs = []
    for number in range(count):
        Image.fromarray(draw.integers(0, 255, (40, 40, 3), np.uint8)).save(folder / f"{number}.png")
        pairs.append((f"{number}.png", f"thing number {number}"))
    return pairs


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Twenty pictures with a caption each, as people have them: no splits."""
    rows = [f"{image},{text}" for image, text in pictures(tmp_path / "photos", 20)]
    (tmp_path / "mine.csv").write_text("\n".join(["image,caption", *rows]))
    return tmp_path / "mine.csv"


def test_a_table_without_splits_is_divided_aloud_and_written_down(table: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="mine has no split at all: 18 pictures are trained on and 2 validate") as log:
        run = visir.train("heads", table, images=tmp_path / "photos", out=tmp_path / "run", epochs=2, **SMALL)
    assert "with seed 0; so few say little" in str(log[0].message) and "--split-by" in str(log[0].message)
    assert run.recipe["data"]["split_by"] == "random(train=0.9,val=0.1,seed=0)"
    assert len(run.curve) == 2 and run.validation.keys() == run.curve[0].validation.keys()
    # Run again from its own recipe, it is the same model, and divides without another word.
    again = visir.train(run.path / "recipe.toml", out=tmp_path / "again")
    assert (again.path / "towers.safetensors").read_bytes() == (run.path / "towers.safetensors").read_bytes()


def test_what_comes_back_stands_where_a_model_does(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = "random(train=0.8, val=0.2, seed=3)"
    monkeypatch.chdir(tmp_path)
    run = visir.train("heads", table, images="photos", out="run", split_by=rule, epochs=1, **SMALL)
    assert os.fspath(run) == str(run) == "run" and run.chosen_epoch == 1
    assert load(run).encode_texts(["a"]).shape == run.load().encode_texts(["a"]).shape == (1, 8)  # type: ignore[arg-type]
    assert visir.evaluate(table, run, images="photos").result is not None
    assert repr(run).startswith("TrainedModel('run'): heads, epoch 1 of 1\n  validation: i2t hit@1")
    assert repr(visir.TrainedModel("run")) == repr(run)  # type: ignore[arg-type]
    assert repr(visir.TrainedModel("run")) == repr(run)  # type: ignore[arg-type]
    assert repr(run.curve).startswith("TrainingCurve(heads: 1 epochs, loss ")
    assert run.curve.rows()[0].keys() >= {"epoch", "loss", "rsum", "i2t hit@1", "seconds"}
    further = visir.train("heads", table, images="photos", model=run, out="further", split_by=rule, epochs=1,
                          dimension=4, device="cpu")  # fmt: skip
    assert further.recipe["image"]["encoder"] == "run" and load(str(further)).dimension == 4


def test_a_collection_made_in_python(tmp_path: Path) -> None:
    scenes = open_collection("scenes:20?size=64")
    run = visir.train("scenes-heads", scenes, out=tmp_path / "run", epochs=1)
    assert run.recipe["data"]["collection"] == scenes.name
    with pytest.raises(CollectionError, match="its pairs were given in Python"):
        visir.train(run.path / "recipe.toml", out=tmp_path / "again")


def test_too_few_pairs_say_so(tmp_path: Path) -> None:
    rows = [f"{image},{text}" for image, text in pictures(tmp_path / "photos", 3)]
    (tmp_path / "three.csv").write_text("\n".join(["image,caption", *rows]))
    with refused(CollectionError, "three", "3", "4", code="pictures-captions"):
        visir.train("heads", tmp_path / "three.csv", images=tmp_path / "photos", out=tmp_path / "run", **SMALL)
    assert not (tmp_path / "run").exists()


def test_a_rule_needs_a_part_to_train_and_a_part_to_validate() -> None:
    scenes = open_collection("scenes:40?size=64")
    parts = divided(scenes, "random(0.8, 0.1, 0.1, seed=7)")
    assert [parts.split(name).images.num_rows for name in ("train", "val", "test")] == [32, 4, 4]
    with refused(ConfigurationError, "val", code="makes-no-split"):
        divided(scenes, "random(0.9, 0.1)")
    for count in range(4, 60):
        few = open_collection(f"scenes:{count}?size=64")
        parts = divided(few, default_rule(few))
        assert min(parts.split(name).images.num_rows for name in ("train", "val")) >= 2, count


def test_splits_of_other_names_and_missing_ones() -> None:
    from dataclasses import replace

    import pyarrow as pa

    scenes = open_collection("scenes:40?size=64")

    def named(*names: str) -> Any:
        column = pa.array([names[row % len(names)] for row in range(40)])
        return replace(scenes, images=scenes.images.set_column(3, "split", column))

    assert settled(Data(), named("train", "valid")) == Data(validation="valid")
    with pytest.warns(UserWarning, match="no split to validate on: 18 pictures are trained on and 2 validate"):
        data = settled(Data(), named("train", "test"))
    recipe, _ = TOWERS.resolve("scenes-heads")
    splits = open_splits(recipe.model_copy(update={"data": data}), named("train", "test"))
    held_out = set(splits.validation.images["id"].to_pylist()) | set(splits.train.images["id"].to_pylist())
    assert held_out == set(named("train", "test").split("train").images["id"].to_pylist())
    with refused(CollectionError, "unknown split", "train"):
        open_splits(recipe, named("a", "b"))


def test_ctrl_c_saves_the_step_and_resuming_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"data": "scenes:60?size=64", "epochs": 2, "batch": 32}
    whole = visir.train("scenes-heads", out=tmp_path / "whole", **asked)
    real = StepLog.write
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark, in the same process, leaves its own

    def press(log: StepLog, step: Any) -> None:
        real(log, step)
        if step.step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(StepLog, "write", press)
        with pytest.raises(KeyboardInterrupt, match=r"stopped after step 5; its state is in .*run: the same with"):
            visir.train("scenes-heads", out=tmp_path / "run", **asked)
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler
    with refused(VisirError, code="holds-interrupted-training"):
        visir.train("scenes-heads", out=tmp_path / "run", **asked)
    run = visir.train("scenes-heads", out=tmp_path / "run", resume=True, **asked)
    for name in ("towers.safetensors", "steps.jsonl"):
        assert (run.path / name).read_bytes() == (whole.path / name).read_bytes()
    # Finished, the same call has nothing left to do; another training is refused.
    written = (run.path / "visir.json").stat().st_mtime_ns
    assert visir.train("scenes-heads", out=tmp_path / "run", resume=True, **asked) == run
    assert (run.path / "visir.json").stat().st_mtime_ns == written
    manifest = Manifest.read(run.path)  # as an earlier version wrote it, without the key
    del manifest.content["facts"]["recipe"]["objective"]["local_loss"]
    (run.path / "visir.json").write_bytes(manifest.to_bytes())
    assert visir.train("scenes-heads", out=tmp_path / "run", resume=True, **asked).path == run.path
    with refused(VisirError, "seed", code="finished-by-another"):
        visir.train("scenes-heads", out=tmp_path / "run", resume=True, seed=4, **asked)
    with refused(VisirError, code="holds-finished-checkpoint"):
        visir.train("scenes-heads", out=tmp_path / "run", **asked)
