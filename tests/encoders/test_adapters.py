"""Adapters of peft: trained, kept in peft's format, loaded here and there, merged, and refused over another model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

import visir
from manifests import seal
from refusals import refused
from visir.encoders.checkpoints import read_description
from visir.encoders.towers.adapters import AdapterSpec
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone
from visir.errors import ConfigurationError, EncoderError
from visir.storage.claims import Claims
from visir.storage.disk import files_below

peft = pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")

import tiny_openclip  # noqa: E402
import tiny_sentence  # noqa: E402
from safetensors import SafetensorError  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from tiny_transformers import photos, save  # noqa: E402

from verbs import say  # noqa: E402
from visir.cli.shortcuts import merge  # noqa: E402

TEXTS = ["a red circle", "two dogs on a hill", ""]
CALL: dict[str, Any] = {"data": "scenes:30?size=64", "epochs": 1, "batch": 16, "device": "cpu"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for kind in ("clip", "siglip"):
        save(kind, folder / kind)
    return folder


@pytest.fixture(scope="module")
def trained(models: Path, tmp_path_factory: pytest.TempPathFactory) -> visir.TrainedModel:
    out = tmp_path_factory.mktemp("runs") / "lora"
    return visir.train("clip-lora", model=str(models / "clip"), out=out, adapter={"kind": "lora", "rank": 4}, **CALL)


def vectors(encoder: Any) -> np.ndarray:
    return np.concatenate([encoder.encode_texts(TEXTS), encoder.encode_images(photos()[:3])])


def test_the_folder_holds_adapters_and_the_hash_of_their_base(trained: visir.TrainedModel, models: Path) -> None:
    files = {path.relative_to(trained.path).as_posix() for path in trained.path.rglob("*") if path.is_file()}
    assert {"adapter/adapter_config.json", "adapter/adapter_model.safetensors", "heads.safetensors"} <= files
    assert not any("towers" in name for name in files)
    whole = (models / "clip" / "model.safetensors").stat().st_size
    assert sum((trained.path / name).stat().st_size for name in files if "adapter" in name) < whole / 4
    config = json.loads((trained.path / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(models / "clip") and config["r"] == 4
    card = read_description(trained.path)["image"]["card"]
    assert card["weights"] == visir.load(str(models / "clip")).card.weights


def test_loaded_merged_and_by_peft_the_vectors_are_the_same(
    trained: visir.TrainedModel, models: Path, tmp_path: Path
) -> None:
    base, loaded = visir.load(str(models / "clip")), visir.load(trained)
    expected = vectors(loaded)
    assert np.abs(expected - vectors(base)).max() > 1e-3  # something was learnt
    merged = trained.merge(tmp_path / "merged")
    assert np.abs(vectors(visir.load(merged)) - expected).max() <= 1e-5
    by_verb = say(merge, trained.path, "--out", tmp_path / "by-verb")
    assert by_verb.status == 0 and visir.load(str(tmp_path / "by-verb")).card.weights == visir.load(merged).card.weights
    again = say(merge, merged, "--out", tmp_path / "again")
    assert again.status == 2 and "it stands by itself already" in again.text and not (tmp_path / "again").exists()
    there = say(merge, trained.path, "--out", tmp_path / "by-verb")
    assert there.status == 2 and "name a new folder: nothing is replaced" in " ".join(there.text.split())
    other = say(merge, trained.path / "adapter", "--out", tmp_path / "again")
    assert other.status == 2 and "visir train did not write this folder" in " ".join(other.text.split())
    assert merged.name == trained.name and (merged.path / "towers.safetensors").is_file()
    by_folder = visir.load(str(trained.path / "adapter"))
    np.testing.assert_array_equal(vectors(by_folder), expected)
    assert by_folder.card.weights not in (base.card.weights, loaded.card.weights)
    # peft itself puts it over the whole model, every weight in its place.
    model = transformers.CLIPModel.from_pretrained(models / "clip")
    whole = peft.PeftModel.from_pretrained(model, trained.path / "adapter").eval()
    tower = base.pretrained_tower("text")
    with torch.no_grad():
        output = whole.get_text_features(**tower.collate(tower.prepare_all(TEXTS)))
    features = getattr(output, "pooler_output", output)
    np.testing.assert_allclose(features.numpy(), expected[: len(TEXTS)], rtol=0, atol=1e-5)


def test_a_place_that_cannot_be_written_is_refused_before_models_are_read(
    trained: visir.TrainedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    with monkeypatch.context() as patch:
        patch.setattr("visir.encoders.models.towers.load_checkpoint", None)
        with pytest.raises(EncoderError, match=r"did not write, or no longer knows \(notes\.txt\)"):
            trained.merge(tmp_path / "mine")
    full = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    monkeypatch.setattr("safetensors.torch.save_file", Mock(side_effect=full))
    out = tmp_path / "merged"
    with pytest.raises(EncoderError, match=rf"^{out}: cannot be written \(No space left on device\)") as caught:
        trained.merge(out)
    assert caught.value.hint == "make room, or name a place on another disk"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    with refused(EncoderError, "runs/mein", code="no-such-folder"):
        visir.TrainedModel(Path("runs/mein")).merge(out)


def test_gradients_are_those_of_peft(models: Path) -> None:
    encoder = visir.load(str(models / "clip"))
    backbone = PretrainedBackbone.of(encoder, "image", AdapterSpec("lora", rank=3, modules=("q_proj", "fc1"))).train()
    model = transformers.CLIPModel.from_pretrained(models / "clip")
    config = peft.LoraConfig(r=3, target_modules=r"vision_model.*\.(q_proj|fc1)")
    theirs = peft.get_peft_model(model, config).train()
    own = {name: weight for name, weight in backbone.base_module().named_parameters() if weight.requires_grad}
    other = {
        name.removeprefix("base_model.model."): weight
        for name, weight in theirs.named_parameters()
        if weight.requires_grad
    }
    assert own.keys() == other.keys() and len(own) == 8
    for name, weight in own.items():
        torch.nn.init.normal_(weight, generator=torch.Generator().manual_seed(len(name)))
        other[name].data.copy_(weight.data)
    pixels = backbone.collate([backbone.prepare(photo) for photo in photos()[:4]])
    output = theirs.get_image_features(pixel_values=pixels)
    weights = torch.randn(4, backbone.outputs, generator=torch.Generator().manual_seed(0))
    (backbone(pixels) * weights).sum().backward()
    (getattr(output, "pooler_output", output) * weights).sum().backward()
    for name, weight in own.items():
        assert weight.grad is not None and torch.equal(weight.grad, other[name].grad), name
    assert all(weight.grad is None for weight in backbone.parameters() if not weight.requires_grad)


@pytest.mark.parametrize("kind", ["lora", "dora", "loha", "lokr", "ia3"])
def test_every_kind_is_merged_to_the_same_vectors(kind: str, models: Path) -> None:
    # SigLIP's image tower ends in torch's own attention, which peft adapts as a whole, with "lora" alone.
    encoder = visir.load(str(models / "siglip"))
    backbone = PretrainedBackbone.of(encoder, "image", AdapterSpec(kind)).eval()
    for name, weight in backbone.named_parameters():
        if weight.requires_grad:
            torch.nn.init.normal_(weight, std=0.3, generator=torch.Generator().manual_seed(len(name)))
    pixels = backbone.collate([backbone.prepare(photo) for photo in photos()[:3]])
    with torch.no_grad():
        adapted, merged = backbone(pixels), backbone.merged().eval()
        unit = [torch.nn.functional.normalize(vectors, dim=-1) for vectors in (adapted, merged(pixels))]
        plain = encoder.pretrained_tower("image").network(pixels)
    assert float((unit[0] - unit[1]).abs().max()) <= 1e-5
    assert float((adapted - plain).abs().max()) > 1e-3  # and the base kept its weights
    kinds = {type(module).__module__ for module in merged.modules()}
    assert not any(name.startswith("peft") for name in kinds)


def test_an_adapter_over_a_sentence_encoder_stands_where_its_library_puts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # transformers 5.24 asks for peft 0.22, which was not released when it was.
    monkeypatch.setattr("transformers.integrations.peft.MIN_PEFT_VERSION", "0.17.0")
    tiny_sentence.save(tmp_path / "base")
    base = visir.load(str(tmp_path / "base"))
    library = pytest.importorskip("sentence_transformers").SentenceTransformer(str(tmp_path / "base"), device="cpu")
    library.add_adapter(peft.LoraConfig(r=2, target_modules=["query", "value"], task_type="FEATURE_EXTRACTION"))
    for name, weight in library.named_parameters():
        if "lora" in name:
            torch.nn.init.normal_(weight, std=0.3)
    library[0].auto_model.save_pretrained(tmp_path / "adapter")
    adapted = visir.load(f"{tmp_path / 'adapter'}?base={tmp_path / 'base'}").encode_texts(TEXTS)
    expected = library.encode(TEXTS)
    np.testing.assert_allclose(adapted, expected, rtol=0, atol=1e-5)
    assert np.abs(adapted - base.encode_texts(TEXTS)).max() > 1e-3


def test_an_adapter_over_open_clip(tmp_path: Path) -> None:
    zoo = tiny_openclip.save_zoo(tmp_path)
    run = visir.train("clip-lora", model=f"openclip:tiny-ViT/{zoo}/tiny-ViT.safetensors", out=tmp_path / "run", **CALL)
    expected = vectors(visir.load(run))
    assert np.abs(vectors(visir.load(run.merge(tmp_path / "merged"))) - expected).max() <= 1e-5
    np.testing.assert_allclose(vectors(visir.load(str(run.path / "adapter"))), expected, rtol=0, atol=1e-6)


def test_an_adapter_of_another_model_is_refused(trained: visir.TrainedModel, models: Path, tmp_path: Path) -> None:
    adapter = trained.path / "adapter"
    with pytest.raises(EncoderError, match=r"this adapter is for another model than .*siglip: its weights have the"):
        visir.load(f"{adapter}?base={models / 'siglip'}")
    # Of the same names, but wider: told by its shapes where nobody noted a hash.
    model = transformers.CLIPModel.from_pretrained(models / "clip")
    peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["fc1"])).save_pretrained(tmp_path / "wide")
    config = json.loads((tmp_path / "wide" / "adapter_config.json").read_text())
    (tmp_path / "wide" / "adapter_config.json").write_text(json.dumps(config | {"r": 3}))
    with refused(EncoderError, "clip", "lora_A.weight", "2", "3", code="adapter-another-model"):
        visir.load(str(tmp_path / "wide"))
    (tmp_path / "wide" / "adapter_config.json").write_text(json.dumps(config | {"target_modules": ["q_proj"]}))
    with refused(EncoderError, "unknown to the model", "all", code="adapter-another-model"):
        visir.load(str(tmp_path / "wide"))


def test_a_base_that_changed_is_refused(models: Path, tmp_path: Path) -> None:
    save("clip", tmp_path / "base")
    run = visir.train("clip-lora", model=str(tmp_path / "base"), out=tmp_path / "run", **CALL)
    model = transformers.CLIPModel.from_pretrained(tmp_path / "base")
    with torch.no_grad():
        model.visual_projection.weight += 0.01
    model.save_pretrained(tmp_path / "base")
    with refused(EncoderError, "image", "weights", code="base-encoder-not-one"):
        visir.load(run)


def test_the_settings_of_an_adapter_are_in_the_key(trained: visir.TrainedModel, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(trained.path, tmp_path / "copy"))
    assert visir.load(copy).card.weights == visir.load(trained.path).card.weights
    settings = copy / "adapter" / "adapter_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "lora_alpha": 40}))
    with pytest.raises(EncoderError, match=r"damaged .*\n  - adapter/adapter_config.json (has|is not as)"):
        visir.load(copy)
    seal(copy)
    changed = visir.load(copy)
    assert changed.card.weights != visir.load(trained.path).card.weights
    assert np.abs(changed.encode_texts(TEXTS) - visir.load(trained.path).encode_texts(TEXTS)).max() > 1e-3


def test_the_file_of_an_adapter_lets_no_code_run(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(
        json.dumps({"peft_type": "LORA", "base_model_name_or_path": "/evil?code=trusted", "target_modules": ["q"]})
    )
    save_file({"x": torch.zeros(1)}, str(tmp_path / "adapter_model.safetensors"))
    with refused(EncoderError, code="names-model-runs-code") as caught:
        visir.load(tmp_path)
    assert f"{tmp_path}?base=/evil?code=trusted" in caught.value.hint


def test_only_adapters_are_merged(tmp_path: Path) -> None:
    run = visir.train("scenes-heads", data="scenes:30?size=64", out=tmp_path / "heads", epochs=1, batch=16)
    with refused(EncoderError, "towers", code="checkpoint-kind-adapters-merged"):
        run.merge(tmp_path / "merged")


def test_what_was_adapted_is_tuned_further(trained: visir.TrainedModel, tmp_path: Path) -> None:
    changes = {key: value for key, value in CALL.items() if key != "data"}
    whole = visir.train("clip-finetune", CALL["data"], model=trained, out=tmp_path / "whole", **changes)
    again = visir.train("clip-lora", CALL["data"], model=trained, out=tmp_path / "again", **changes)
    assert vectors(visir.load(whole)).shape == vectors(visir.load(again)).shape
    assert np.abs(vectors(visir.load(again.merge(tmp_path / "m"))) - vectors(visir.load(again))).max() <= 1e-5


def test_interrupted_it_goes_on_and_its_state_is_small(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from visir.training import loop as module

    whole = visir.train("clip-lora", model=str(models / "clip"), out=tmp_path / "whole", **{**CALL, "epochs": 2})
    sizes: list[int] = []
    real = module.save_state

    def stop(folder: Any, tensors: Any, notes: Any) -> None:
        real(folder, tensors, notes)
        sizes.append((folder.folder / "state.safetensors").stat().st_size)
        if len(notes["curve"]) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "save_state", stop)
    with pytest.raises(KeyboardInterrupt):
        visir.train("clip-lora", model=str(models / "clip"), out=tmp_path / "run", **{**CALL, "epochs": 2})
    with refused(EncoderError, "run", code="training-unfinished"):
        visir.load(tmp_path / "run")
    again = {**CALL, "epochs": 2, "resume": True}
    run = visir.train("clip-lora", model=str(models / "clip"), out=tmp_path / "run", **again)
    name = "adapter/adapter_model.safetensors"
    assert (run.path / name).read_bytes() == (whole.path / name).read_bytes()
    with Claims.take(run.path, busy="") as claims:  # a kill after the last step but one leaves the state
        claims.add("state.safetensors")
        (run.path / "state.safetensors").touch()
    visir.train("clip-lora", model=str(models / "clip"), out=run.path, **again)
    assert files_below(run.path) == files_below(whole.path)
    # Only what is trained, with two moments and the best epoch's copy: no copy of the base.
    assert max(sizes) < 8 * (run.path / name).stat().st_size + 100_000


def test_faults_are_listed_together(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        visir.train("heads", "scenes:30", adapter={"kind": "ia3", "rank": 4, "options": {"use_rsloar": True}})
    for part in (
        "adapter.rank: 'ia3' has none",
        "adapter.options.use_rsloar: unknown to peft's IA3Config",
        'adapter: no side has tower = "pretrained"',
    ):
        assert part in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"adapter.kind: 'lorra' is none of its values: did you mean 'lora'"):
        visir.train("clip-lora", "scenes:30", adapter={"kind": "lorra"})
    with pytest.raises(ConfigurationError, match=r"'pissa' changes the base model's own weights"):
        visir.train("clip-lora", "scenes:30", adapter={"options": {"init_lora_weights": "pissa"}})


def test_unknown_modules_name_those_there_are(models: Path, tmp_path: Path) -> None:
    with refused(ConfigurationError, "qproj", code="no-module-adapt-called", hint=("fc1", "fc2", "k_proj")):
        visir.train("clip-lora", model=str(models / "clip"), out=tmp_path / "x", adapter={"modules": ["qproj"]}, **CALL)
