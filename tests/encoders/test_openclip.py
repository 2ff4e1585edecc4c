"""open_clip's models against open_clip: its transforms, its tokenizer, `encode_image` and `encode_text`."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import tiny_transformers as tiny
import torch
from PIL import Image
from tiny_openclip import ARCHITECTURES, save_zoo

from refusals import refused
from visir.collections.images import to_rgb
from visir.encoders.loading import load
from visir.errors import EncoderError, ImageError


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with random weights of every architecture; the architectures are added to open_clip's own."""
    return save_zoo(tmp_path_factory.mktemp("openclip"))


def reference(architecture: str, weights: Path, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    model, _, transform = open_clip.create_model_and_transforms(architecture, pretrained=str(weights))
    model.eval()
    tokenizer = open_clip.get_tokenizer(architecture)
    with torch.no_grad():
        images = model.encode_image(
            torch.stack([transform(to_rgb(photo)) for photo in tiny.photos()]), normalize=False
        ).numpy()
        return images, model.encode_text(tokenizer(texts), normalize=False).numpy()


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("architecture", "weights"),
    [
        ("tiny-RN50", "tiny-RN50"),
        ("tiny-RN50-quickgelu", "tiny-RN50"),
        ("tiny-ViT", "tiny-ViT"),
        ("tiny-ViT-quickgelu", "tiny-ViT"),
        ("tiny-CoCa", "tiny-CoCa"),
        ("tiny-PE-Core", "tiny-PE-Core"),
    ],
)
def test_equals_the_reference(zoo: Path, architecture: str, weights: str) -> None:
    path = zoo / f"{weights}.safetensors"
    expected = reference(architecture, path, tiny.CAPTIONS)
    encoder = load(f"openclip:{architecture}/{path}", device="cpu")
    found = encoder.encode_images(tiny.photos()), encoder.encode_texts(tiny.CAPTIONS)
    differences = [float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True)]
    print("openclip", architecture, [f"{value:.1e}" for value in differences])
    assert max(differences) <= 1e-5
    assert all(unit(vectors).std(axis=0).mean() > 0.005 for vectors in found)
    assert encoder.dimension == ARCHITECTURES[architecture]["embed_dim"] == found[0].shape[1] == found[1].shape[1]
    one_by_one = np.concatenate([encoder.encode_images([photo]) for photo in tiny.photos()])
    assert np.abs(one_by_one - found[0]).max() <= 1e-5
    one_by_one = np.concatenate([encoder.encode_texts([text]) for text in tiny.CAPTIONS])
    assert np.abs(one_by_one - found[1]).max() <= 1e-5


def test_the_card(zoo: Path) -> None:
    plain, quick = (
        load(f"openclip:tiny-ViT{suffix}/{zoo}/tiny-ViT.safetensors", device="cpu") for suffix in ("", "-quickgelu")
    )
    assert plain.card.family == "openclip"
    assert plain.card.image_preprocessing["interpolation"] == "bicubic"
    assert plain.card.image_preprocessing["resize_mode"] == "shortest"
    assert np.max(plain.card.image_preprocessing["size"]) == 32
    assert plain.card.text_preprocessing["max_length"] == 77
    assert json.loads(json.dumps(plain.card.to_dict())) == plain.card.to_dict()
    # One file of weights, two models.
    assert plain.card.weights != quick.card.weights
    assert not np.allclose(plain.encode_texts(["a dog"]), quick.encode_texts(["a dog"]), atol=1e-3)


@pytest.fixture
def published(zoo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Our weights as if they were published under the tags "openai" (trained with QuickGELU) and "exact"."""
    from open_clip import pretrained

    tables = copy.deepcopy(pretrained._PRETRAINED)
    for architecture in ("tiny-RN50", "tiny-RN50-quickgelu"):
        tables[architecture] = {
            "openai": {"file": str(zoo / "tiny-RN50.safetensors"), "quick_gelu": True},
            "exact": {"file": str(zoo / "tiny-RN50.safetensors"), "mean": (0.5,) * 3, "interpolation": "bilinear"},
        }
    monkeypatch.setattr(pretrained, "_PRETRAINED", tables)
    return zoo


def test_openais_weights_are_computed_with_quickgelu_whatever_the_architecture_says(published: Path) -> None:
    _, expected = reference("tiny-RN50-quickgelu", published / "tiny-RN50.safetensors", tiny.CAPTIONS)
    for architecture in ("tiny-RN50", "tiny-RN50-quickgelu"):
        texts = load(f"openclip:{architecture}/openai", device="cpu").encode_texts(tiny.CAPTIONS)
        assert np.abs(texts - expected).max() <= 1e-5
    exact = load("openclip:tiny-RN50/exact", device="cpu")
    assert not np.allclose(exact.encode_texts(tiny.CAPTIONS), expected, atol=1e-3)
    assert exact.card.image_preprocessing["interpolation"] == "bilinear"  # the tag's own preprocessing
    with refused(EncoderError, code="exact-gelu") as caught:
        load("openclip:tiny-RN50-quickgelu/exact", device="cpu")
    assert caught.value.hint == "use openclip:tiny-RN50/exact"


def test_real_tags_that_need_quickgelu() -> None:
    """No download: only what would be asked of open_clip."""
    from visir.encoders.models.openclip import OpenClipSource, find_source

    assert find_source("openclip:RN50/openai") == OpenClipSource("RN50", "openai", True)
    assert find_source("openclip:RN50-quickgelu/openai") == OpenClipSource("RN50-quickgelu", "openai", False)
    assert find_source("openclip:ViT-B-32/laion400m_e32") == OpenClipSource("ViT-B-32", "laion400m_e32", True)
    assert find_source("openclip:ViT-B-32/laion2b_s34b_b79k") == OpenClipSource("ViT-B-32", "laion2b_s34b_b79k", False)
    assert find_source("openclip:hf-hub:laion/x") == OpenClipSource("hf-hub:laion/x")


def test_every_tag_of_the_zoo_has_a_reading() -> None:
    """No published pair of architecture and tag is refused, and the activation asked for is that of the training."""
    from visir.encoders.models.openclip import find_source

    pairs = open_clip.list_pretrained()
    assert len(pairs) > 100
    for architecture, tag in pairs:
        source = find_source(f"openclip:{architecture}/{tag}")
        built = open_clip.get_model_config(architecture).get("quick_gelu", False)
        trained = open_clip.get_pretrained_cfg(architecture, tag).get("quick_gelu", False)
        assert (built or source.quick_gelu) == trained or architecture == "roberta-ViT-B-32", (architecture, tag)


def test_a_folder_in_open_clips_own_format(zoo: Path, tmp_path: Path) -> None:
    weights = zoo / "tiny-ViT.safetensors"
    (tmp_path / "open_clip_model.safetensors").write_bytes(weights.read_bytes())
    settings = {"size": 32, "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25], "interpolation": "bilinear"}
    settings |= {"mode": "RGB", "resize_mode": "squash", "fill_color": 0}
    (tmp_path / "open_clip_config.json").write_text(
        json.dumps({"model_cfg": ARCHITECTURES["tiny-ViT"], "preprocess_cfg": settings})
    )
    model, _, transform = open_clip.create_model_and_transforms(f"local-dir:{tmp_path}")
    model.eval()
    with torch.no_grad():
        expected = model.encode_image(torch.stack([transform(to_rgb(photo)) for photo in tiny.photos()])).numpy()
    for name in (str(tmp_path), f"openclip:{tmp_path}", f"openclip:local-dir:{tmp_path}"):
        encoder = load(name, device="cpu")
        assert np.abs(encoder.encode_images(tiny.photos()) - expected).max() <= 1e-5
        assert encoder.card.image_preprocessing["resize_mode"] == "squash"
    assert encoder.preprocess(Image.new("RGB", (200_000, 1))).shape == (3, 32, 32)  # squashed, so no sliver
    (tmp_path / "open_clip_model.safetensors").unlink()
    with pytest.raises(EncoderError, match=r"cannot be loaded.*could not be loaded"):
        load(str(tmp_path), device="cpu")


def test_template_sliver_empty_and_bfloat16(zoo: Path) -> None:
    name = f"openclip:tiny-RN50/{zoo}/tiny-RN50.safetensors"
    plain, asked = load(name, device="cpu"), load(f"{name}?template=a photo of {{}}", device="cpu")
    assert np.array_equal(asked.encode_texts(["a dog"]), plain.encode_texts(["a photo of a dog"]))
    assert plain.embed_images([]).shape == plain.embed_texts([]).shape == (0, 48)
    with refused(ImageError, code="scaled-shortest-edge-million"):
        plain.preprocess(Image.new("RGB", (200_000, 1)))
    rough = load(name, device="cpu", dtype="bfloat16")
    near, far = unit(rough.encode_images(tiny.photos())), unit(plain.encode_images(tiny.photos()))
    assert rough.encode_texts(["a dog"]).dtype == np.float32
    assert np.median((near * far).sum(axis=1)) > 0.98 and not np.array_equal(near, far)
    assert rough.card.weights == plain.card.weights


def test_tokens_equal_openais(data_dir: Path) -> None:
    """5,000 real captions; the tokenizer that `load` uses for every architecture without one of its own."""
    import lzma

    path = data_dir / "clip_tokenizer" / "reference_token_ids_5000.jsonl.xz"
    rows = [json.loads(line) for line in lzma.decompress(path.read_bytes()).splitlines()]
    ids = open_clip.get_tokenizer("RN50")([row["caption"] for row in rows]).tolist()
    for row, mine in zip(rows, ids, strict=True):
        assert mine == row["token_ids"] + [0] * (77 - len(row["token_ids"])), row["caption"]


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("openclip:RN5/openai", "has no architecture 'RN5'", "did you mean"),
        ("openclip:ViT-B/32/openai", "has no architecture 'ViT-B'", "ViT-B-32"),
        ("openclip:RN50", "which weights", "openclip:RN50/TAG, where TAG is one of openai"),
        ("openclip:RN50/openaii", "neither a tag of RN50 nor a file", "did you mean 'openai'"),
        ("openclip:RN50/openai?templat=x", "unknown option 'templat'", ""),
        ("openclip:tiny-ViT/nowhere.pt", "neither a tag of tiny-ViT nor a file", "no published weights"),
    ],
)
def test_names_are_checked(zoo: Path, name: str, message: str, hint: str) -> None:
    with pytest.raises(EncoderError, match=message) as caught:
        load(name, device="cpu")
    assert hint in caught.value.hint


def test_no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    for name in ("openclip:ViT-B-32/laion2b_s34b_b79k", "openclip:hf-hub:someone/nothing"):
        with refused(EncoderError, code="not-machine-hub-could"):
            load(name, device="cpu")


def test_openais_own_files_hold_code_and_are_refused(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "RN50.pt")
    with refused(EncoderError, code="file-torchscript-archive-holds") as caught:
        load(f"openclip:RN50/{tmp_path}/RN50.pt", device="cpu")
    assert "openclip:RN50/openai" in caught.value.hint


@pytest.mark.parametrize("damage", ["cut", "other architecture", "pickle"])
def test_damaged_weights(zoo: Path, tmp_path: Path, damage: str) -> None:
    path: Any = tmp_path / "weights.safetensors"
    if damage == "cut":
        path.write_bytes((zoo / "tiny-ViT.safetensors").read_bytes()[:-100])
    elif damage == "other architecture":
        path.write_bytes((zoo / "tiny-RN50.safetensors").read_bytes())
    else:
        path = tmp_path / "weights.pt"
        torch.save({"state_dict": Path("/")}, path)  # an object that is no tensor: never unpickled
    with pytest.raises(EncoderError, match=r"weights\.\w+: (cannot be loaded|its weights cannot be read)"):
        load(f"openclip:tiny-ViT/{path}", device="cpu")
