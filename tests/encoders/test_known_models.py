"""Which models there are, and which to begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

import visir
from visir.encoders import recommended
from visir.encoders.known_models import where_to_begin


def test_models_say_what_they_take() -> None:
    takes = {model.name: model.takes for model in visir.models()}
    assert takes["openai/clip-vit-base-patch32"] == ("image", "text")
    assert (takes["pixels"], takes["bow"], takes["st:NAME"]) == (("image",), ("text",), ("image", "text"))
    assert {model.name for model in visir.models() if model.here} >= {"pixels", "bow"}


def test_the_model_to_begin_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert recommended().name == "openai/clip-vit-base-patch32" and not recommended().here
    assert "visir train scenes-heads --out heads" in where_to_begin()
    snapshot = tmp_path / "models--google--siglip2-base-patch16-224" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").touch()
    assert recommended().name == recommended("any").name == "google/siglip2-base-patch16-224" and recommended().here
    assert where_to_begin().endswith("on this machine: google/siglip2-base-patch16-224")


def test_a_model_of_pictures_names_one_that_takes_texts() -> None:
    with pytest.raises(visir.errors.EncoderError, match="pixels encodes no texts, only images") as error:
        visir.search("scenes:3?size=64", "pixels", "a red circle")
    assert "openai/clip-vit-base-patch32" in error.value.hint or "on this machine" in error.value.hint
