"""Which models there are, and which to begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

import visir
from refusals import refused
from visir.encoders import recommended
from visir.encoders.families import FORMS, OF_FAMILIES, TAKES, family_of, where_to_begin
from visir.errors import EncoderError
from visir.reports.views.lists import details


def test_models_say_what_they_take() -> None:
    takes = {model.name: model.takes for model in visir.models()}
    assert takes["openai/clip-vit-base-patch32"] == ("image", "text")
    assert takes["st:Qwen/Qwen3-VL-Embedding-2B"] == ("image", "text", "text+image")
    assert (takes["pixels"], takes["bow"]) == (("image",), ("text",))
    assert {model.name for model in visir.models() if model.here} >= {"pixels", "bow"}


def test_every_model_of_the_list_is_of_a_family_and_has_its_facts() -> None:
    names = visir.models().names
    assert len(set(names)) == len(names)
    for model in visir.models():
        assert model.title
        assert model.takes
        assert set(model.takes) <= set(TAKES)
        if model.group != OF_FAMILIES:
            assert family_of(model.name).name == model.family
            assert model.form in FORMS
            assert model.source, model.name  # a fact without a source was not verified


def test_models_are_chosen_by_what_they_take_by_form_and_by_words() -> None:
    both = visir.models(takes=["image", "text"], form="multi-vector")
    assert both
    assert all(model.form == "multi-vector" and "image" in model.takes for model in both)
    assert visir.models("siglip 2 naflex").names == ("google/siglip2-base-patch16-naflex",)
    assert all("text+image" in model.takes for model in visir.models(takes="text+image"))


def test_one_model_is_found_by_its_name_with_options_or_without() -> None:
    [model] = visir.models("st:Qwen/Qwen3-VL-Embedding-2B?dimension=256")
    assert (model.dimension, model.licence, model.family) == (2048, "apache-2.0", "sentence")
    assert visir.models("Qwen/Qwen3-VL-Embedding-2B") == visir.models("st:Qwen/Qwen3-VL-Embedding-2B")


def test_what_no_model_is_says_what_there_is() -> None:
    with refused(EncoderError, "colqwn", code="no-model-list") as error:
        visir.models("colqwn")
    assert "did you mean vidore/colqwen2-v1.0-hf?" in error.value.hint
    with refused(EncoderError, "takes", "picture", code="no-such-choice"):
        visir.models(takes="picture")
    with refused(EncoderError, "form", "multi", code="no-such-choice") as error:
        visir.models(form="multi")
    assert "dense, multi-vector, sparse" in error.value.hint
    with pytest.raises(EncoderError, match="no model of the list that takes image and is of the form sparse"):
        visir.models(takes="image", form="sparse")


def test_the_list_shows_itself() -> None:
    everything = visir.models()
    assert repr(everything) == f"ModelList: {len(everything)} models\n  {', '.join(everything.names[:3])}, …"
    assert "google/siglip2-base-patch16-224" in (everything._repr_html_() or "")
    [model] = [model for model in everything if model.name == "openai/clip-vit-large-patch14"]
    assert "CLIP ViT-L/14 " in everything.to_markdown()
    assert model.licence == ""
    facts = visir.models("ModernVBERT/colmodernvbert-merged").to_markdown()
    assert "multi-vector" in facts
    assert "252.0" in facts


def test_the_model_to_begin_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert recommended().name == "openai/clip-vit-base-patch32"
    assert not recommended().here
    assert "visir train scenes-heads --out heads" in where_to_begin()
    snapshot = tmp_path / "models--google--siglip2-base-patch16-224" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text('{"model_type": "siglip"}')
    assert not recommended("any").here  # a model that was refused leaves its configuration alone
    (snapshot / "model.safetensors").touch()
    assert recommended().name == recommended("any").name == "google/siglip2-base-patch16-224"
    assert recommended().here
    assert where_to_begin().endswith("on this machine: google/siglip2-base-patch16-224")


def test_a_model_of_pictures_names_one_that_takes_texts() -> None:
    with refused(visir.errors.EncoderError, "pixels", "texts", "images", code="encodes-no") as error:
        visir.search("scenes:3?size=64", "pixels", "a red circle")
    assert "openai/clip-vit-base-patch32" in error.value.hint or "on this machine" in error.value.hint


def test_models_are_found_by_a_language_that_they_read() -> None:
    german = visir.models("german", takes=["image", "text"])
    assert {model.languages for model in german} == {"many"}
    assert "google/siglip2-base-patch16-224" in german.names
    assert german.names == visir.models("multilingual", takes=["image", "text"]).names
    assert "OFA-Sys/chinese-clip-vit-base-patch16" in visir.models("chinese").names
    assert "many languages" in details(german[0])


def test_a_word_that_is_no_name_gets_the_models_that_have_it() -> None:
    with refused(EncoderError, "unknown encoder", "colqwen2") as error:
        visir.load("colqwen2")
    assert error.value.hint.startswith("did you mean vidore/colqwen2-v1.0-hf? visir models colqwen2 lists all")


def test_a_word_that_is_near_to_nothing_gets_no_names() -> None:
    with refused(EncoderError, "klingon", code="no-model-list") as error:
        visir.models("klingon")
    assert error.value.hint == "visir models lists them; others load too, try one with visir doctor --load klingon"
    with refused(EncoderError, "clipp", code="no-model-list") as error:
        visir.models("clipp")
    assert "did you mean openai/clip-vit-base-patch32, " in error.value.hint and "more with 'clip'?" in error.value.hint
