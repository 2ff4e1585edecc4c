"""Folders of models: question marks in their paths, bases that were moved, and models built over themselves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import visir
from refusals import refused
from visir.encoders.checkpoints import save_part, write_description
from visir.encoders.loading import split_own
from visir.encoders.models.joined import JoinedTexts
from visir.errors import EncoderError
from visir.options import split_mark, with_option


def save_joined(folder: Path, *parts: str) -> str:
    folder.mkdir(parents=True)
    JoinedTexts([visir.load(part) for part in parts]).save(folder)
    return str(folder)


def test_a_question_mark_in_a_path_is_no_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = save_joined(tmp_path / "holidays?" / "mo?del", "bow:64", "bow:32")
    assert visir.load(name).dimension == 96
    assert split_own(f"{name}?compose=text", "compose")[0] == name
    assert with_option(name, "compose", "text") == f"{name}?compose=text"
    with refused(EncoderError, "joined", code="checkpoint-kind-no-options"):
        visir.load(f"{name}?dimension=8")
    monkeypatch.chdir(tmp_path / "holidays?")
    assert visir.load("mo?del").dimension == 96
    np.savez("vec?tors.npz", image=np.eye(3, dtype=np.float32), image_ids=np.array(["a", "b", "c"]))
    part = save_part(visir.load("npz:vec?tors.npz?image=image"), tmp_path, "part")
    assert part["name"] == f"npz:{tmp_path}/holidays?/vec?tors.npz?image=image"  # read from any folder
    assert split_mark("/gone?/model") == ("/gone?/model", "")
    assert split_mark("/gone/model?code_revision=a/b@1") == ("/gone/model", "code_revision=a/b@1")


def test_a_model_over_itself_is_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, other in ((first, second), (second, first)):
        folder.mkdir()
        parts = [{"name": "bow:16", "revision": None}, {"name": str(other), "revision": None}]
        write_description(folder, "joined", {"parts": parts})
    with pytest.raises(EncoderError, match=f"{first}: it is built over itself: {first} → {second} → {first}"):
        visir.load(first)


@pytest.mark.parametrize("away", ["/elsewhere/model", "../model"])
def test_a_part_outside_its_checkpoint_is_refused(tmp_path: Path, away: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    write_description(folder, "joined", {"parts": [{"name": "bow:16", "revision": None}, {"folder": away}]})
    with refused(EncoderError, away, code="part-lies-outside-checkpoint"):
        visir.load(folder)


def test_adapters_over_each_other_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="peft is not installed")
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    first, second = tmp_path / "first", tmp_path / "second"
    for folder, other in ((first, second), (second, first)):
        folder.mkdir()
        config = {"peft_type": "LORA", "base_model_name_or_path": str(other), "target_modules": ["q"]}
        (folder / "adapter_config.json").write_text(json.dumps(config))
        save_file({"w": torch.zeros(1)}, folder / "adapter_model.safetensors")
    with pytest.raises(EncoderError, match=f"built over itself: {first} → {second} → {first}") as caught:
        visir.load(first)
    assert "ADAPTER?base=NAME" in caught.value.hint


def test_a_base_that_was_moved_is_named_with_where_it_was(tmp_path: Path) -> None:
    base = save_joined(tmp_path / "base", "bow:64", "bow:32")
    over = tmp_path / "over"
    over.mkdir()
    parts = [{"name": "bow:16", "revision": None}, {"name": base, "revision": None}]
    write_description(over, "joined", {"parts": parts})
    (tmp_path / "base").rename(tmp_path / "elsewhere")
    with refused(EncoderError, over, base, code="built-over-not-more") as caught:
        visir.load(over)
    assert "ln -s NEW_PLACE OLD_PLACE" in caught.value.hint
    (tmp_path / "base").symlink_to(tmp_path / "elsewhere")
    assert visir.load(over).dimension == 112


@pytest.mark.parametrize(
    ("saved", "model_type", "reason", "way"),
    [
        ("BiQwen2", "qwen2_vl", "are models of one vector for each input", "wrap('mine', image=function, text="),
        ("ColQwen2_5", "qwen2_5_vl", "are late-interaction models", "form='multi-vector'"),
    ],
)
def test_models_of_colpali_engine_get_a_way_that_works(
    saved: str, model_type: str, reason: str, way: str, tmp_path: Path
) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type, "architectures": [saved]}))
    with pytest.raises(EncoderError, match=reason) as caught:
        visir.load(tmp_path)
    assert way in caught.value.hint and "VLM2Vec" not in caught.value.hint
