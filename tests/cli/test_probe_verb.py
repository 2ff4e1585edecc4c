"""`visir probe` end to end: vectors of generated scenes that hold the place and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from verbs import say
from visir.cli.classify import probe
from visir.collections import open_collection

SCENES = "scenes:400?size=64"


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    collection = open_collection(SCENES)
    assert collection.facts is not None
    places = np.unique(collection.facts["place"].to_pylist(), return_inverse=True)[1]
    images = np.eye(8, dtype=np.float32)[places]
    ids = {
        "image_ids": np.array(collection.images["id"].to_pylist()),
        "text_ids": np.array(collection.captions["id"].to_pylist()),
    }
    np.savez(tmp_path / "vectors.npz", image=images, text=np.repeat(images, 5, axis=0), **ids)
    return tmp_path / "vectors.npz"


def test_table_and_files(vectors: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = say(probe, SCENES, "--model", f"npz:{vectors}", "--folds", 3, "--out", out)
    assert said.status == 0, said.text
    for part in ("npz:", "place", "100.0", "By role", "irrelevant", "3 folds, seed 0", "probes.html"):
        assert part in said.text, said.text
    found = {one["name"]: one for one in json.loads((out / "probes.json").read_text("utf-8"))["facts"]}
    assert found["place"]["readings"]["image"]["accuracy"] == found["place"]["readings"]["told"]["accuracy"] == 1
    assert found["weather"]["readings"]["untold"]["accuracy"] < 0.3  # six values: one in six
    assert "<html" in (out / "probes.html").read_text("utf-8")
    again = say(probe, SCENES, "--model", f"npz:{vectors}", "--out", out)
    assert again.status == 2 and "out: exists already (a folder of kind 'probes')" in again.text


def test_a_small_split_is_refused_by_name(vectors: Path) -> None:
    said = say(probe, SCENES, "--model", f"npz:{vectors}", "--split", "test")
    assert said.status == 2
    assert "fact 'subject', images:" in said.text and "probe more images" in said.text


def test_shortcuts_are_probed_too(vectors: Path) -> None:
    said = say(probe, SCENES, "--model", f"npz:{vectors}", "--shortcuts", "bits:1?digits=sklearn", "--folds", 3)
    assert said.status == 0, said.text
    assert "bit 1" in said.text and "shortcut" in said.text
