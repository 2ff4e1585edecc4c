"""What the files of a model say about it, without its weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import visir
from refusals import refused
from visir.errors import EncoderError


def _write(folder: Path, **files: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        path = folder / name.replace("__", "/").replace("_json", ".json")
        path.parent.mkdir(exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value))
    return folder


def test_a_folder_of_transformers(tmp_path: Path) -> None:
    folder = _write(
        tmp_path / "clip",
        config_json={"model_type": "clip", "architectures": ["CLIPModel"], "projection_dim": 96},
    )
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: mit\n---\n# A model\nlicense: none\n")
    (folder / "model.safetensors").write_bytes(b"\0" * 3_000_000)
    [model] = visir.models(str(folder))
    assert (model.family, model.architecture, model.dimension) == ("transformers", "CLIPModel", 96)
    assert (model.takes, model.form, model.licence, model.megabytes) == (("image", "text"), "dense", "mit", 3)
    assert model.here
    assert not model.remote_code


def test_what_a_configuration_leaves_out_is_its_architectures_default(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    [model] = visir.models(str(_write(tmp_path / "siglip", config_json={"model_type": "siglip"})))
    assert (model.dimension, model.takes) == (768, ("image", "text"))
    [model] = visir.models(str(_write(tmp_path / "colpali", config_json={"model_type": "colpali"})))
    assert (model.dimension, model.form) == (128, "multi-vector")
    [model] = visir.models(str(_write(tmp_path / "dino", config_json={"model_type": "dinov2"})))
    assert (model.dimension, model.takes) == (768, ("image",))


def test_folders_of_sentence_transformers(tmp_path: Path) -> None:
    dense = _write(
        tmp_path / "dense",
        modules_json=[{"type": "sentence_transformers.models.Transformer"}],
        config_json={"model_type": "bert"},
    )
    _write(dense / "1_Pooling", config_json={"word_embedding_dimension": 384})
    [model] = visir.models(str(dense))
    assert (model.family, model.form, model.dimension, model.takes) == ("sentence", "dense", 384, ("text",))
    sparse = _write(
        tmp_path / "sparse",
        modules_json=[{"type": "sentence_transformers.sparse_encoder.models.SpladePooling"}],
        config_json={"model_type": "bert"},
    )
    assert visir.models(str(sparse))[0].form == "sparse"
    several = _write(
        tmp_path / "several",
        modules_json=[{"type": "sentence_transformers.models.Transformer"}],
        config_sentence_transformers_json={"model_type": "MultiVectorEncoder"},
        config_json={"model_type": "bert"},
    )
    (several / "config_sentence_transformers.json").write_text('{"model_type": "MultiVectorEncoder"}')
    assert visir.models(str(several))[0].form == "multi-vector"


def test_code_of_the_models_page_is_named_and_not_run(tmp_path: Path) -> None:
    folder = _write(tmp_path / "own", config_json={"model_type": "mine", "auto_map": {"AutoModel": "code.Mine"}})
    (folder / "code.py").write_text("raise SystemExit('this must not run')")
    assert visir.models(str(folder))[0].remote_code


def test_a_configuration_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = _write(tmp_path / "broken", config_json="{")
    with refused(EncoderError, "broken/config.json", code="configuration-cannot-read"):
        visir.models(str(folder))
    (tmp_path / "empty").mkdir()
    with refused(EncoderError, code="folder-holds-no-model"):
        visir.models(str(tmp_path / "empty"))


def test_a_model_of_the_hubs_cache_that_is_not_in_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    _write(tmp_path / "models--me--mine" / "snapshots" / "1", config_json={"model_type": "clip", "projection_dim": 64})
    (tmp_path / "models--me--mine/snapshots/1/config.json").write_text('{"model_type": "clip", "projection_dim": 64}')
    [model] = visir.models("me/mine")
    assert (model.name, model.dimension, model.here) == ("me/mine", 64, False)


def test_a_checkpoint_of_visir(tmp_path: Path) -> None:
    from visir.encoders import load

    encoder = load("bow:64")
    assert encoder.dimension == 64
    folder = _write(tmp_path / "own", visir_json={"kind": "towers", "dimension": 32})
    [model] = visir.models(str(folder))
    assert (model.family, model.architecture, model.dimension) == ("checkpoint", "visir checkpoint: towers", 32)


def test_a_model_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    bert = _write(tmp_path / "bert", config_json={"model_type": "bert", "architectures": ["BertModel"]})
    [model] = visir.models(str(bert))
    assert "are text models" in model.refusal and "→ with mean pooling it becomes a sentence encoder" in model.refusal
    assert "cannot be read here" in visir.models(str(bert)).to_markdown()
    video = _write(tmp_path / "video", config_json={"model_type": "videomae", "architectures": ["VideoMAEModel"]})
    [model] = visir.models(str(video))
    assert "no reader for models of type 'videomae'" in model.refusal
    clip = _write(tmp_path / "clip", config_json={"model_type": "clip", "architectures": ["CLIPModel"]})
    [model] = visir.models(str(clip))
    assert model.refusal == ""
    assert "cannot be read here" not in visir.models(str(clip)).to_markdown()


def test_blip2_has_several_vectors(tmp_path: Path) -> None:
    config = {"model_type": "blip-2", "architectures": ["Blip2ForImageTextRetrieval"]}
    [model] = visir.models(str(_write(tmp_path / "blip2", config_json=config)))
    assert model.form == "multi-vector"
    assert "Salesforce/blip2-itm-vit-g" in visir.models(form="multi-vector").names
