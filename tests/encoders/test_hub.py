"""Models from the hub: asked of a hub on this machine by the hub's own client. What is refused is never downloaded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tiny_transformers as tiny
from hub_server import COMMIT, Hub, running_hub

import visir
from refusals import refused
from visir.encoders.loading import load
from visir.encoders.models.hub import find_model, refuse_code, trusted_code
from visir.encoders.models.sentence import packaged_model
from visir.errors import EncoderError

WEIGHTS = ("model.safetensors", "pytorch_model.bin")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clip")
    tiny.save("clip", folder)
    return folder


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running_hub(tmp_path / "cache", monkeypatch) as running:
        yield running


def repository(hub: Hub, folder: Path, name: str, config: dict[str, object], *others: str) -> None:
    """A repository with this configuration and weights that nobody may ask for."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    for file in (*WEIGHTS, "tokenizer.json", *others):
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(b"{}")
    hub.repositories[name] = folder


def test_a_model_is_fetched_in_two_steps(hub: Hub, clip: Path) -> None:
    hub.repositories["someone/clip"] = clip
    files = find_model("someone/clip", None)
    assert files.revision == COMMIT
    assert sorted(hub.downloads) == ["config.json", "preprocessor_config.json", "tokenizer_config.json"]
    encoder = load("someone/clip", device="cpu")
    assert sorted(hub.downloads) == sorted(hub.files("someone/clip"))  # each once
    assert encoder.card.revision == COMMIT and encoder.card.weights == load(clip, device="cpu").card.weights
    assert np.array_equal(encoder.encode_texts(["a dog"]), load(clip, device="cpu").encode_texts(["a dog"]))


def test_weights_of_other_precisions_and_programs_stay_where_they_are(hub: Hub, clip: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(clip, tmp_path / "both"))
    for name in ("pytorch_model.bin", "flax_model.msgpack", "model.onnx", "photo.jpg", "modeling.py"):
        (folder / name).write_bytes(b"?")
    hub.repositories["someone/both"] = folder
    load("someone/both", device="cpu")
    assert set(hub.files("someone/both")) - set(hub.downloads) == {
        "pytorch_model.bin",
        "flax_model.msgpack",
        "model.onnx",
        "photo.jpg",
        "modeling.py",
    }


def test_a_repository_without_weights(hub: Hub, clip: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(clip, tmp_path / "empty"))
    (folder / "model.safetensors").rename(folder / "model.gguf")
    hub.repositories["someone/empty"] = folder
    with refused(EncoderError, code="no-weights-machine-hub") as caught:
        load("someone/empty", device="cpu")
    assert "GGUF" in caught.value.hint


REFUSED: dict[str, tuple[dict[str, object], tuple[str, ...], str, str]] = {
    # configuration, other files, what is said, the way on
    "speech": ({"model_type": "whisper"}, (), "take sounds, not images", "visir.Encoder.wrap"),
    "video": ({"model_type": "videoprism"}, (), "take videos, not images", "visir.Encoder.wrap"),
    "writer": ({"model_type": "qwen2_5_vl"}, ("model.gguf",), "write texts about images", "visir.Encoder.wrap"),
    "text": ({"model_type": "bert"}, (), "are text models", "then st:FOLDER"),
    "captions": (
        {"model_type": "blip", "architectures": ["BlipForConditionalGeneration"]},
        (),
        "it was saved as BlipForConditionalGeneration",
        "made for another task",
    ),
    "detector": ({"model_type": "detr"}, ("onnx/model.onnx",), "no reader for models of type 'detr'", "onnx:FILE"),
    "new": (
        {"model_type": "x9", "auto_map": {"AutoModel": "modeling_x9.X9"}},
        ("modeling_x9.py",),
        "needs Python code that comes with it",
        "someone/new?code=trusted",
    ),
    "open": ({}, ("open_clip_config.json",), "says no model type", "openclip:hf-hub:someone/open"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_not_downloaded(hub: Hub, tmp_path: Path, name: str) -> None:
    """Only configurations are asked for; the hint names the nearest way that works."""
    config, others, message, way = REFUSED[name]
    repository(hub, tmp_path / name, f"someone/{name}", config, *others)
    with pytest.raises(EncoderError, match=message) as caught:
        load(f"someone/{name}", device="cpu")
    assert way in caught.value.hint
    assert set(hub.downloads) <= {"config.json", "modules.json", "open_clip_config.json"}


def test_a_repository_without_config(hub: Hub, tmp_path: Path) -> None:
    """timm publishes open_clip's models so."""
    (tmp_path / "siglip").mkdir()
    (tmp_path / "siglip" / "open_clip_config.json").write_text("{}")
    (tmp_path / "siglip" / "open_clip_model.safetensors").write_bytes(b"?")
    hub.repositories["timm/siglip"] = tmp_path / "siglip"
    with refused(EncoderError, "this repository", code="no-config-json") as caught:
        load("timm/siglip", device="cpu")
    assert "openclip:hf-hub:timm/siglip" in caught.value.hint
    assert hub.downloads == ["open_clip_config.json"]


def test_a_plain_text_model_is_no_sentence_encoder(hub: Hub, tmp_path: Path) -> None:
    repository(hub, tmp_path / "plain", "someone/plain", {"model_type": "bert"})
    with refused(EncoderError, "no modules.json"):
        load("st:someone/plain", device="cpu")
    assert set(hub.downloads) == {"config.json"}


def test_a_sentence_model_is_known_without_its_prefix(hub: Hub) -> None:
    folder = packaged_model()
    assert folder is not None
    hub.repositories["someone/sentences"] = folder
    encoder = load("someone/sentences", device="cpu")
    assert encoder.card.name == "st:someone/sentences" and encoder.card.revision == COMMIT
    named = load("st:someone/sentences?dimension=64", device="cpu")
    short = load("someone/sentences?dimension=64", device="cpu")
    assert np.array_equal(short.encode_texts(["a dog"]), named.encode_texts(["a dog"]))


def test_a_model_whose_code_comes_with_it(hub: Hub, clip: Path, tmp_path: Path) -> None:
    """With code=trusted its own class is loaded; its towers are read by its own features, and are not tuned."""
    from visir.encoders.towers.pretrained_backbone import PretrainedBackbone

    folder = Path(shutil.copytree(clip, tmp_path / "foreign"))
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "x9", "auto_map": {"AutoModel": "modeling_x9.X9", "AutoConfig": "modeling_x9.X9Config"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "modeling_x9.py").write_text(
        "from transformers import CLIPConfig, CLIPModel\n\n\n"
        "class X9Config(CLIPConfig):\n    model_type = 'x9'\n\n\n"
        "class X9(CLIPModel):\n    config_class = X9Config\n"
    )
    hub.repositories["someone/foreign"] = folder
    with refused(EncoderError, code="model-needs-python-code"):
        load("someone/foreign", device="cpu")
    assert "modeling_x9.py" not in hub.downloads
    encoder = load("someone/foreign?code=trusted", device="cpu")
    expected = load(clip, device="cpu")
    assert np.array_equal(encoder.encode_texts(["a dog"]), expected.encode_texts(["a dog"]))
    assert np.array_equal(encoder.encode_images(tiny.photos()), expected.encode_images(tiny.photos()))
    assert encoder.card.code is None and encoder.card.weights != expected.card.weights  # the code is in the hash
    with refused(EncoderError, code="model-whose-code-comes"):
        PretrainedBackbone.of(encoder, "text")


def test_code_that_comes_with_a_model() -> None:
    assert trusted_code("a/b", {}) is None and trusted_code("a/b?code=trusted", {"code": "trusted"}) is not None
    with refused(EncoderError, "yes", code="code-not-known"):
        trusted_code("a/b?code=yes", {"code": "yes"})
    assert "a/b?code=trusted" in refuse_code("a/b").hint and "a/b?x=1&code=trusted" in refuse_code("a/b?x=1").hint


def test_an_adapter_on_the_hub_is_put_over_its_base(hub: Hub, clip: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    run = visir.train("clip-lora", "scenes:20?size=64", model=str(clip), out=tmp_path / "run", epochs=1, batch=8)
    hub.repositories["someone/lora"] = run.path / "adapter"
    encoder = load("someone/lora", device="cpu")
    assert sorted(hub.downloads) == ["adapter_config.json", "adapter_model.safetensors"]
    expected = load(str(run.path / "adapter"), device="cpu").encode_texts(["a dog"])
    assert np.array_equal(encoder.encode_texts(["a dog"]), expected)
    assert load(f"someone/lora?base={clip}", device="cpu").card.weights == encoder.card.weights


@pytest.mark.parametrize("local", [False, True])
def test_an_adapter_of_colpali_engine_is_refused_by_its_configuration(hub: Hub, tmp_path: Path, local: bool) -> None:
    folder = tmp_path / "colqwen2.5"
    folder.mkdir()
    config = {
        "base_model_name_or_path": "someone/colqwen2.5-base",
        "peft_type": "LORA",
        "task_type": "FEATURE_EXTRACTION",
    }
    config["target_modules"] = "(.*(model).*(q_proj|v_proj).*$|.*(custom_text_proj).*$)"
    (folder / "adapter_config.json").write_text(json.dumps(config))
    (folder / "adapter_model.safetensors").touch()
    hub.repositories["someone/colqwen2.5"] = folder
    with refused(EncoderError, code="adapter-colpali-engine-over-late-interaction"):
        load(str(folder) if local else "someone/colqwen2.5")
    assert "adapter_model.safetensors" not in hub.downloads
