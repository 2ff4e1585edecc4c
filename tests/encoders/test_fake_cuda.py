"""Every family on a GPU that is not there: no tensor stays on the CPU, types fit together (`tests/fake_cuda.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_dual
import tiny_fusion
import tiny_late
import tiny_multi_vector
import tiny_openclip
import tiny_sentence
import tiny_towers
import tiny_transformers as tiny
import torch
from PIL import Image
from torch import nn

import fake_cuda
import visir
from visir.collections.images import to_rgb
from visir.encoders.loading import load, load_cross_encoder
from visir.encoders.towers.base import Head, HeadSpec, PixelBackbone, Tower, to_device
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone
from visir.encoders.towers.resnet import ResNetBackbone, SmallCNNBackbone

KINDS = ("clip", "groupvit", "altclip", "align", "siglip", "blip")
SENTENCES: dict[str, Callable[[Path], Path]] = {
    "bert": tiny_sentence.save,
    "clip": tiny_sentence.save_clip,
    "vit": tiny_sentence.save_vit,
    "late": tiny_multi_vector.save_text,
    "pylate": tiny_multi_vector.save_pylate,
}


@pytest.fixture(params=["float32", "bfloat16"])
def dtype(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[fake_cuda.FakeCuda]:
    with fake_cuda.gpu(monkeypatch) as mode:
        yield mode


def both_ways(gpu: fake_cuda.FakeCuda, name: Any, dtype: str) -> None:
    """Load on the GPU, embed what the model reads; then every weight was on the GPU and did something there."""
    encoder = load(str(name), device="cuda", dtype=dtype)
    before = gpu.operations
    pictures = [to_rgb(picture) for picture in tiny_dual.photos()[:3]]
    if "image" in encoder.modalities:
        check(encoder, encoder.encode_images(pictures), 3)
    if "text" in encoder.modalities:
        check(encoder, encoder.for_role("query").encode_texts(["a dog", "two children on a hill"]), 2)
    assert gpu.operations > before + 5


def check(encoder: Any, vectors: Any, count: int) -> None:
    if encoder.form == "dense":
        assert vectors.shape == (count, encoder.dimension) and vectors.dtype == np.float32


@pytest.mark.parametrize("kind", KINDS)
def test_dual_encoders(gpu: fake_cuda.FakeCuda, tmp_path: Path, kind: str, dtype: str) -> None:
    tiny.save(kind, tmp_path)
    both_ways(gpu, tmp_path, dtype)


@pytest.mark.parametrize("kind", list(tiny_dual.BUILDERS))
def test_more_dual_encoders(gpu: fake_cuda.FakeCuda, tmp_path: Path, kind: str) -> None:
    tiny_dual.save(kind, tmp_path)
    both_ways(gpu, tmp_path, "float32")


@pytest.mark.parametrize("kind", list(tiny_towers.BUILDERS))
def test_single_towers(gpu: fake_cuda.FakeCuda, tmp_path: Path, kind: str) -> None:
    tiny_towers.save(kind, tmp_path)
    both_ways(gpu, tmp_path, "float32")


@pytest.mark.parametrize("kind", tiny_fusion.KINDS)
def test_fusion_encoders(gpu: fake_cuda.FakeCuda, tmp_path: Path, kind: str, dtype: str) -> None:
    both_ways(gpu, tiny_fusion.write(kind, tmp_path), dtype)


# The others compute shapes of values, which are not there.
@pytest.mark.parametrize("kind", ["colpali", "neomme"])
def test_late_interaction(gpu: fake_cuda.FakeCuda, tmp_path: Path, kind: str) -> None:
    tiny_late.save(kind, tmp_path)
    both_ways(gpu, tmp_path, "float32")


@pytest.mark.parametrize("kind", list(SENTENCES))
def test_sentence_transformers(gpu: fake_cuda.FakeCuda, tmp_path: Path, kind: str) -> None:
    both_ways(gpu, SENTENCES[kind](tmp_path / kind), "float32")


@pytest.mark.parametrize("name", ["tiny-RN50", "tiny-ViT", "tiny-CoCa"])
def test_open_clip(gpu: fake_cuda.FakeCuda, tmp_path: Path, name: str, dtype: str) -> None:
    folder = tiny_openclip.save_zoo(tmp_path)
    both_ways(gpu, f"openclip:{name}/{folder / name}.safetensors", dtype)


@pytest.mark.parametrize("kind", ["blip", "albef"])
def test_matching_heads(gpu: fake_cuda.FakeCuda, tmp_path: Path, kind: str, dtype: str) -> None:
    if kind == "blip":
        tiny.save(kind, tmp_path)
    name = tmp_path if kind == "blip" else tiny_fusion.write(kind, tmp_path)
    head = load_cross_encoder(str(name), device="cuda", dtype=dtype)
    assert head.score_pairs([Image.new("RGB", (40, 30))] * 2, ["a dog", "two dogs"]).shape == (2,)


@pytest.mark.parametrize("kind", ["small-cnn", "resnet"])
def test_own_towers(gpu: fake_cuda.FakeCuda, kind: str, dtype: str) -> None:
    """The image side; the GRU's kernels ask the driver."""
    small = kind == "small-cnn"
    backbone: PixelBackbone = (
        SmallCNNBackbone(width=8) if small else ResNetBackbone(depth=18, weights="random", size=64)
    )
    tower = Tower(backbone, Head(HeadSpec(backbone.outputs, 8))).to("cuda", getattr(torch, dtype))
    pixels = backbone.collate([backbone.prepare(Image.new("RGB", (80, 70)))] * 2)
    vectors = tower(to_device(pixels, fake_cuda.DEVICE))
    assert vectors.shape == (2, 8) and vectors.device.type == "cuda" and gpu.reads == 0


def test_encoding_begins_a_batch_before_it_reads_the_last(gpu: fake_cuda.FakeCuda, tmp_path: Path) -> None:
    tiny.save("clip", tmp_path / "model")
    encoder = load(tmp_path / "model", device="cuda")
    begin, reads = type(encoder).begin_images, []

    def begun(self: Any, batch: Any) -> Any:
        assert {pixels.dtype for pixels in batch} == {np.dtype(np.uint8)}
        wait = begin(self, batch)
        reads.append("begun")
        return lambda: (reads.append("read"), wait())[1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(encoder), "begin_images", begun)
        pictures = visir.open("scenes:5?size=64").items("image")
        vectors = visir.encode(encoder, pictures, batch_size=2, store=tmp_path / "store").vectors
    assert reads == ["begun", "begun", "read", "begun", "read", "read"]
    assert np.asarray(vectors).shape == (5, 24)


@pytest.mark.parametrize("kind", [*KINDS, "tiny-ViT", "tiny-RN50"])
@pytest.mark.parametrize("side", ["image", "text"])
def test_gradients_of_tuned_towers_stay_on_their_device(tmp_path: Path, kind: str, side: Any) -> None:
    # On "meta" nothing is computed either, and the backward pass needs no driver.
    if kind.startswith("tiny"):
        name = f"openclip:{kind}/{tiny_openclip.save_zoo(tmp_path) / kind}.safetensors"
    else:
        tiny.save(kind, tmp_path)
        name = str(tmp_path)
    backbone = PretrainedBackbone.of(load(name, device="cpu"), side).to("meta").train()
    items: list[Any] = [Image.new("RGB", (70, 60))] * 2 if side == "image" else ["a dog", "two dogs run"]
    batch = backbone.collate([backbone.prepare(item) for item in items])
    with fake_cuda.Answers():
        features = backbone(to_device(batch, "meta"))
        assert features.shape == (2, backbone.outputs)
        features.square().sum().backward()
    devices = {None if weight.grad is None else weight.grad.device.type for weight in backbone.parameters()}
    assert "meta" in devices and devices <= {"meta", None}


class Forgetful(nn.Module):
    """A module with a table that does not move with it."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.table, self.how = torch.ones(4), how

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(inputs)
        if self.how == "device":
            return result + self.table
        return result @ torch.ones(4, 4, dtype=torch.float64, device=result.device)


@pytest.mark.parametrize(("how", "message"), [("device", "same device"), ("type", "dtype")])
def test_what_is_looked_for_is_seen(gpu: fake_cuda.FakeCuda, how: str, message: str) -> None:
    module = Forgetful(how).to("cuda")
    with pytest.raises(RuntimeError, match=message):
        module(torch.ones(2, 4, device="cuda"))
    moved = torch.ones(2, device="cuda")
    assert gpu.reads == 0 and moved.sum().item() == 1 and gpu.reads == 1
    with pytest.raises(TypeError, match="numpy"):
        moved.numpy()
    assert moved.cpu().numpy().tolist() == [1, 1] and gpu.reads == 2
