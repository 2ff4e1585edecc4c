"""Models of strangers, whose configurations name code, other folders or addresses: nothing of it runs, by any road."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("open_clip")
pytest.importorskip("sentence_transformers")
pytest.importorskip("peft")

import open_clip
import tiny_openclip
import tiny_sentence
import tiny_towers
import tiny_transformers as tiny
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file

import visir
from manifests import content_of, rewrite
from refusals import refused
from visir.encoders.checkpoints import write_description
from visir.encoders.devices import CodeNotTrustedError
from visir.encoders.loading import load
from visir.encoders.models.hub import check_configurations, without_code
from visir.errors import EncoderError, VisirError
from visir.library.searcher import Searcher
from visir.library.updating import update

TOKENIZER = """
from pathlib import Path

from transformers import BertTokenizer

Path({marker!r}).touch()


class Own(BertTokenizer):
    pass
"""


class Attack:
    """What a pickle runs."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """What code of the model would make."""
    return tmp_path / "ran"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small model of each library; none of them names anything."""
    top = tmp_path_factory.mktemp("models")
    tiny.save("clip", top / "clip")
    tiny_towers.save("timm", top / "timm")
    tiny_sentence.save(top / "st")
    tiny_sentence.save_routed(top / "routed")
    tiny_sentence.save_re_ranker(top / "re-ranker")
    _save_openclip(top / "openclip")
    _save_adapter(top / "adapter", top / "clip")
    return {path.name: path for path in top.iterdir()}


def _save_openclip(folder: Path) -> None:
    folder.mkdir()
    words = tiny.wordpiece_tokenizer(folder, limit=16)
    text = {"hf_tokenizer_name": "bert", "context_length": 16, "vocab_size": words, "width": 32, "heads": 4}
    vision = tiny_openclip.ARCHITECTURES["tiny-ViT"]["vision_cfg"]
    content = {"embed_dim": 24, "vision_cfg": vision, "text_cfg": {**text, "layers": 2}}
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": content, "preprocess_cfg": {"size": 32}}))
    model = open_clip.create_model(f"local-dir:{folder}", load_weights=False)
    tiny_openclip.save_weights(model, folder / "open_clip_model.safetensors")


def _save_adapter(folder: Path, base: Path) -> None:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=2, target_modules=r".*vision_model.*(q_proj|v_proj)", rank_pattern={"layers.0.*q_proj": 3})
    model = get_peft_model(transformers.CLIPModel.from_pretrained(base), config)
    torch.manual_seed(0)
    for name, value in model.named_parameters():
        if "lora_B" in name:
            value.data.normal_()
    model.save_pretrained(folder)
    edit(folder, "adapter_config.json", base_model_name_or_path=str(base))


def edit(folder: Path, file: str, **values: Any) -> None:
    path = folder / file
    content = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(content | values))


def copy_of(saved: dict[str, Path], name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved[name], tmp_path / f"{name}_{abs(hash(str(tmp_path)))}"))


def openclip_text(folder: Path, **values: Any) -> None:
    path = folder / "open_clip_config.json"
    content = json.loads(path.read_text())
    content["model_cfg"]["text_cfg"] |= values
    path.write_text(json.dumps(content))


def with_own_tokenizer(folder: Path, marker: Path) -> Path:
    (folder / "own.py").write_text(TOKENIZER.format(marker=str(marker)))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", None]}})
    )
    openclip_text(folder, tokenizer_kwargs={"trust_remote_code": True})
    return folder


@pytest.mark.parametrize("name", ["clip", "timm", "st", "routed", "openclip", "adapter"])
def test_what_names_nothing_is_read(saved: dict[str, Path], name: str) -> None:
    encoder = load(saved[name], device="cpu")
    if "text" in encoder.modalities:
        assert np.isfinite(encoder.encode_texts(["a dog"])).all()
    else:
        assert np.isfinite(encoder.encode_images([Image.new("RGB", (40, 60))])).all()


@pytest.mark.parametrize("road", ["folder", "openclip:", "openclip:local-dir:"])
def test_a_tokenizer_of_its_own_does_not_run_in_open_clip(
    saved: dict[str, Path], tmp_path: Path, marker: Path, road: str
) -> None:
    folder = with_own_tokenizer(copy_of(saved, "openclip", tmp_path), marker)
    with refused(EncoderError, "tokenizer_kwargs.trust_remote_code=", "True", "runs code") as caught:
        load(f"{'' if road == 'folder' else road}{folder}", device="cpu")
    assert "open_clip_config.json" in caught.value.message and caught.value.hint
    assert not marker.exists()


def test_nor_from_the_cache_of_the_hub(
    saved: dict[str, Path], tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    commit = "0" * 40
    folder = tmp_path / "hub" / "models--someone--clip"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(commit)
    shutil.copytree(with_own_tokenizer(copy_of(saved, "openclip", tmp_path), marker), folder / "snapshots" / commit)
    openclip_text(folder / "snapshots" / commit, hf_tokenizer_name="someone/clip")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with refused(EncoderError, "trust_remote_code"):
        load("openclip:hf-hub:someone/clip", device="cpu")
    assert not marker.exists()


def test_nor_by_a_library_that_names_it(saved: dict[str, Path], tmp_path: Path, marker: Path) -> None:
    folder, library = with_own_tokenizer(copy_of(saved, "openclip", tmp_path), marker), tmp_path / "photos.visir"
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (40, 40), "red").save(tmp_path / "photos" / "red.png")
    update(tmp_path / "photos", library, model="pixels")
    rewrite(library, content_of(library) | {"model": str(folder)})
    with refused(VisirError, "trust_remote_code"):
        Searcher.open(library).find(text="a dog")
    Image.new("RGB", (40, 40), "blue").save(tmp_path / "photos" / "blue.png")
    with refused(VisirError, "trust_remote_code"):
        update(None, library)
    assert not marker.exists()


def test_nor_below_an_adapter_or_a_checkpoint(saved: dict[str, Path], tmp_path: Path, marker: Path) -> None:
    folder = with_own_tokenizer(copy_of(saved, "openclip", tmp_path), marker)
    adapter = copy_of(saved, "adapter", tmp_path)
    edit(adapter, "adapter_config.json", base_model_name_or_path=str(folder))
    write_description((tmp_path / "joined").mkdir() or tmp_path / "joined", "joined",
                      {"parts": [{"name": str(folder), "revision": None}] * 2})  # fmt: skip
    for name in (adapter, tmp_path / "joined"):
        with refused(EncoderError, "trust_remote_code"):
            load(name, device="cpu")
    assert not marker.exists()


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("text_cfg", {"hf_model_name": "/etc"}),
        ("text_cfg", {"hf_model_name": "../other"}),
        ("text_cfg", {"hf_model_name": "here/model"}),
        ("text_cfg", {"hf_tokenizer_name": "https://example.org/words"}),
        ("text_cfg", {"tokenizer_kwargs": {"gguf_file": "words.gguf"}}),
        ("text_cfg", {"tokenizer_kwargs": {"clean": {"a": 1}}}),
        ("text_cfg", {"tokenizer_kwargs": ["x"]}),
        ("vision_cfg", {"timm_model_name": "local-dir:/etc"}),
        ("vision_cfg", {"timm_model_name": "hf-hub:someone/model"}),
        ("vision_cfg", {"norm_kwargs": {"file": "/etc/passwd"}}),
    ],
)
def test_open_clip_is_led_nowhere_else(
    saved: dict[str, Path], tmp_path: Path, part: str, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copy_of(saved, "openclip", tmp_path)
    (tmp_path / "here" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    content = json.loads((folder / "open_clip_config.json").read_text())
    content["model_cfg"][part] |= values
    (folder / "open_clip_config.json").write_text(json.dumps(content))
    with refused(EncoderError, "open_clip_config.json", next(iter(values)), code="configuration-refused"):
        load(folder, device="cpu")


REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    ("timm", "config.json", {"architecture": "local-dir:/etc"}),
    ("timm", "config.json", {"architecture": "HF-HUB:someone/model"}),
    ("timm", "config.json", {"model_args": {"checkpoint_path": "weights.bin"}}),
    ("timm", "config.json", {"model_args": {"pretrained_cfg": {"file": "/etc/passwd"}}}),
    ("timm", "config.json", {"pretrained_cfg": {"custom_load": True, "input_size": [3, 160, 160]}}),
    ("timm", "config.json", {"pretrained_cfg": {"url": "https://example.org/x.pth"}}),
    ("clip", "config.json", {"vision_config": {"model_type": "timm_wrapper", "model_args": {"checkpoint_path": "x"}}}),
    ("clip", "config.json", {"attn_implementation": "someone/kernels"}),
    ("clip", "config.json", {"text_config": {"_attn_implementation": {"": "someone/kernels:attention"}}}),
    ("clip", "config.json", {"use_pretrained_backbone": True}),
    ("clip", "config.json", {"backbone": "../../other"}),
    ("clip", "processor_config.json", {"audio_tokenizer": {"audio_tokenizer_name_or_path": "someone/model"}}),
    ("clip", "tokenizer_config.json", {"trust_remote_code": True}),
    ("clip", "tokenizer_config.json", {"vocab_file": "/etc/passwd"}),
    ("clip", "model.safetensors.index.json", {"weight_map": {"a": "../other/model.safetensors"}}),
    ("clip", "adapter_config.json", {"peft_type": "LORA", "megatron_config": {"x": 1}}),
    ("st", "sentence_bert_config.json", {"model_args": {"trust_remote_code": True}}),
    ("st", "sentence_bert_config.json", {"model_kwargs": {"allow_all_kernels": True}}),
    ("st", "sentence_bert_config.json", {"model_kwargs": {"attn_implementation": "someone/kernels"}}),
    ("st", "sentence_bert_config.json", {"config_args": {"name": "someone/model"}}),
    ("st", "sentence_bert_config.json", {"tokenizer_args": {"gguf_file": "words.gguf"}}),
    ("st", "sentence_bert_config.json", {"model_kwargs": {"adapter_kwargs": {"_adapter_model_path": "/etc"}}}),
    ("st", "config.json", {"backbone": "//server/share"}),
    ("clip", "config.json", {"text_config": {"num_hidden_layers": 10**7}}),
    ("clip", "processor_config.json", {"image_processor": {"crop_size": {"height": 60_000, "width": 60_000}}}),
    ("st", "adapter_config.json", {"peft_type": "LORA", "base_model_name_or_path": "/home/somebody/model"}),
    ("openclip", "tokenizer_config.json", {"trust_remote_code": True}),
    ("openclip", "tokenizer_config.json", {"x": "https://example.org/words"}),
    ("st", "1_Pooling/config.json", {"x": "~/model"}),
    ("re-ranker", "config.json", {"sentence_transformers": {"activation_fn": "torch.hub.load"}}),
    ("adapter", "adapter_config.json", {"megatron_config": {"x": 1}, "megatron_core": "mine"}),
    ("adapter", "adapter_config.json", {"megatron_core": "mine"}),
    ("adapter", "adapter_config.json", {"base_model_name_or_path": "s3://bucket/model"}),
    ("adapter", "adapter_config.json", {"corda_config": {"cache_file": "/etc/passwd"}}),
    ("adapter", "adapter_config.json", {"peft_type": "XLORA", "adapters": {"0": "/etc"}}),
    (
        "adapter",
        "adapter_config.json",
        {"layers_pattern": "(a+)+$", "layers_to_transform": [0], "target_modules": ["q_proj"]},
    ),
]


@pytest.mark.parametrize(("name", "file", "values"), REFUSED, ids=[f"{a}-{b}-{list(c)}" for a, b, c in REFUSED])
def test_what_names_code_or_another_place_is_refused_by_name(
    saved: dict[str, Path], tmp_path: Path, name: str, file: str, values: dict[str, Any]
) -> None:
    folder = copy_of(saved, name, tmp_path)
    edit(folder, file, **values)
    read: Callable[..., Any] = visir.load_cross_encoder if name == "re-ranker" else load
    with refused(EncoderError, Path(file).name) as caught:
        read(folder, device="cpu")
    keys = [key for key in values if key not in ("peft_type", "layers_to_transform", "target_modules")]
    assert all(key in caught.value.message for key in keys) or "adapters" in keys
    assert caught.value.hint


@pytest.mark.parametrize(
    ("key", "value"),
    [("path", "../other"), ("path", "/etc"), ("path", "C:/x"), ("type", "sentence_transformers.base.model.torch")],
)
def test_modules_lie_in_the_folder_and_are_classes_of_the_library(
    saved: dict[str, Path], tmp_path: Path, key: str, value: str
) -> None:
    folder = copy_of(saved, "st", tmp_path)
    modules = json.loads((folder / "modules.json").read_text())
    modules[1][key] = value
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(EncoderError, match=r"modules.json: (the part|this configuration is refused)"):
        load(folder, device="cpu")


def test_routes_lie_in_the_folder(saved: dict[str, Path], tmp_path: Path) -> None:
    folder = copy_of(saved, "routed", tmp_path)
    path = next(folder.rglob("router_config.json"))
    content = json.loads(path.read_text())
    content["types"]["../other"] = next(iter(content["types"].values()))
    path.write_text(json.dumps(content))
    with refused(EncoderError, "router_config.json", "../other", code="part-lies-outside-folder"):
        load(folder, device="cpu")


def test_who_trusts_a_model_may_read_it(saved: dict[str, Path], tmp_path: Path) -> None:
    folder = copy_of(saved, "clip", tmp_path)
    edit(folder, "config.json", dataset="/data/photos")
    with refused(EncoderError, "dataset=", "/data/photos", "names a place outside") as caught:
        load(folder, device="cpu")
    assert f"{folder}?code=trusted" in caught.value.hint
    assert load(f"{folder}?code=trusted", device="cpu").modalities == {"image", "text"}


def test_what_people_write_into_configurations_is_read(saved: dict[str, Path], tmp_path: Path) -> None:
    """Where a model once was, words for people, and texts that look like paths."""
    folder = copy_of(saved, "clip", tmp_path)
    said = {"_name_or_path": "/home/somebody/clip", "license_link": "https://example.org"}
    labels = {"id2label": {"0": "/m/01"}, "label2id": {"/m/01": 0}}
    edit(folder, "config.json", **said, **labels, auto_map={"AutoModel": "someone/code--modeling.X"})
    old = {"name_or_path": "/home/somebody/clip", "tokenizer_file": "/nowhere/tokenizer.json"}
    edit(folder, "tokenizer_config.json", **old, special_tokens_map_file="/nowhere/x", trust_remote_code=False)
    check_configurations([folder])
    assert load(folder, device="cpu").modalities == {"image", "text"}


def test_a_pickle_runs_nothing_while_a_model_is_read(tmp_path: Path, marker: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(pickle.dumps(Attack(marker)))
    with refused(CodeNotTrustedError, "pickle"), without_code("someone/model"):
        pickle.loads((tmp_path / "weights.bin").read_bytes())  # noqa: S301
    with pytest.raises(CodeNotTrustedError), without_code("someone/model"):
        torch.load(tmp_path / "weights.bin", weights_only=False)
    assert not marker.exists()
    pickle.loads(pickle.dumps(Path("a")))  # noqa: S301 (elsewhere pickles are what they were)


@pytest.mark.parametrize("name", ["clip", "openclip"])
def test_pickled_weights_run_nothing(saved: dict[str, Path], tmp_path: Path, marker: Path, name: str) -> None:
    folder = copy_of(saved, name, tmp_path)
    weights = next(folder.glob("*.safetensors"))
    state = load_file(weights)
    weights.unlink()
    torch.save(
        {**state, "x": Attack(marker)},
        folder / ("pytorch_model.bin" if name == "clip" else "open_clip_pytorch_model.bin"),
    )
    with pytest.raises(EncoderError):
        load(folder, device="cpu")
    assert not marker.exists()


def test_fetched_code_does_not_run_whatever_a_library_is_told(
    saved: dict[str, Path], tmp_path: Path, marker: Path
) -> None:
    folder = with_own_tokenizer(copy_of(saved, "openclip", tmp_path), marker)
    with (
        refused(CodeNotTrustedError, "someone", "own.py", code="code-nobody-said-run"),
        without_code("someone"),
    ):
        transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    assert not marker.exists()


def test_patterns_of_an_adapter_are_tried_for_a_bounded_time(saved: dict[str, Path], tmp_path: Path) -> None:
    folder = copy_of(saved, "adapter", tmp_path)
    for key, value in (
        ("target_modules", "(([a-z]|[a-z_.0-9])+)+[A-Z]"),
        ("rank_pattern", {"(([a-z]|[a-z_.0-9])+)+[A-Z]": 1}),
    ):
        attacked = Path(shutil.copytree(folder, tmp_path / key))
        edit(attacked, "adapter_config.json", **{key: value})
        with refused(EncoderError, key):
            load(attacked, device="cpu")


def test_an_adapter_gives_the_vectors_of_peft(saved: dict[str, Path]) -> None:
    from peft import PeftModel

    photo = Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 60, 3), np.uint8))
    encoder = load(saved["adapter"], device="cpu")
    whole = PeftModel.from_pretrained(transformers.CLIPModel.from_pretrained(saved["clip"]), saved["adapter"]).eval()
    pixels = torch.from_numpy(encoder.preprocess(photo))[None]
    with torch.no_grad():
        expected = whole.base_model.model.get_image_features(pixel_values=pixels)
    expected = getattr(expected, "pooler_output", expected).numpy()
    assert np.abs(encoder.encode_images([photo]) - expected).max() < 1e-5


def test_a_checkpoint_of_visir_has_its_files_inside(saved: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "lora"
    visir.train("clip-lora", model=str(saved["clip"]), out=out, data="scenes:30?size=64", epochs=1, batch=16,
                device="cpu", adapter={"kind": "lora", "rank": 2})  # fmt: skip
    shutil.copytree(out / "adapter", tmp_path / "elsewhere")
    content = content_of(out)
    for side in ("image", "text"):
        content[side]["adapter"] = "../elsewhere"
    rewrite(out, content)
    with pytest.raises(EncoderError, match=r"'\.\./elsewhere' is no name below a folder"):
        load(out, device="cpu")


def test_language_models_beside_encoders_are_read_by_the_same_rule(tmp_path: Path, marker: Path) -> None:
    from visir.evaluation.language import CausalModel
    from visir.sparse.language_model import words_of

    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", "attn_implementation": "someone/kernels"}))
    for read in (CausalModel.load, lambda name: words_of(name, 8)):
        with refused(VisirError, "attn_implementation=", "someone/kernels", "runs code"):
            read(str(tmp_path))
