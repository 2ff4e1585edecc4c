"""ResNets: torchvision's own pooled features and evaluation transform, and files of weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from refusals import refused
from visir.encoders.towers.resnet import ResNetBackbone
from visir.errors import EncoderError, ImageError

models = pytest.importorskip("torchvision.models")


def picture(width: int, height: int) -> Image.Image:
    rng = np.random.default_rng(width)
    small = Image.fromarray(rng.integers(0, 256, (9, 7, 3), dtype=np.uint8))
    return small.resize((width, height), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return models.resnet18(weights=None).eval()


@pytest.fixture(scope="module")
def weights(network: torch.nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "resnet18.pth"
    torch.save(network.state_dict(), path)
    return path


@pytest.mark.parametrize("size", [(300, 200), (200, 411), (64, 64)])
def test_from_picture_to_features_as_torchvision_does_it(
    size: tuple[int, int], network: torch.nn.Module, weights: Path
) -> None:
    backbone = ResNetBackbone(depth=18, weights=str(weights)).eval()
    image = picture(*size)
    found = backbone(backbone.collate([backbone.prepare(image)]))
    referee = models.resnet18(weights=None)
    referee.load_state_dict(network.state_dict())
    referee.fc = torch.nn.Identity()
    expected = referee.eval()(models.ResNet18_Weights.IMAGENET1K_V1.transforms()(image)[None])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert backbone.outputs == found.shape[1] == 512


def test_another_size_scales_the_rest_of_the_rule() -> None:
    backbone = ResNetBackbone(depth=18, weights="random", size=112)
    assert backbone.preprocessing()["shorter"] == 128  # 112 · 256 / 224
    assert backbone.prepare(picture(90, 300)).shape == (3, 112, 112)
    with pytest.raises(ImageError, match=r"1 × 60000|60000 × 1"):
        backbone.prepare(Image.new("RGB", (60000, 1)))


def test_what_came_trained_is_given(weights: Path) -> None:
    assert list(ResNetBackbone(depth=18, weights="random").pretrained_modules()) == []
    backbone = ResNetBackbone(depth=18, weights=str(weights))
    assert list(backbone.pretrained_modules()) == [backbone.network]


def test_deeper_ones_have_2048_features() -> None:
    backbone = ResNetBackbone(depth=50, weights="random", size=32).eval()
    assert backbone(torch.zeros(1, 3, 32, 32, dtype=torch.uint8)).shape == (1, 2048) == (1, backbone.outputs)


def test_safetensors_and_pth_give_the_same(network: torch.nn.Module, weights: Path, tmp_path: Path) -> None:
    save_file(network.state_dict(), str(tmp_path / "resnet18.safetensors"))
    one = ResNetBackbone(depth=18, weights=str(weights)).state_dict()
    other = ResNetBackbone(depth=18, weights=str(tmp_path / "resnet18.safetensors")).state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_weights_that_cannot_be_had_say_what_to_do(
    network: torch.nn.Module, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refused(EncoderError, code="no-such-file-weights"):
        ResNetBackbone(depth=18, weights=str(tmp_path / "nowhere.pth"))
    with refused(EncoderError, code="not-weights-resnet") as caught:
        ResNetBackbone(depth=50, weights=str(weights))
    assert "is the depth right?" in str(caught.value)
    (tmp_path / "short.pth").write_bytes(weights.read_bytes()[:5000])
    with refused(EncoderError, "short.pth", code="weights-cannot-read"):
        ResNetBackbone(depth=18, weights=str(tmp_path / "short.pth"))
    (tmp_path / "short.safetensors").write_bytes(b"\x09\0\0\0\0\0\0\0{")
    with refused(EncoderError, "short.safetensors", code="cannot-read"):
        ResNetBackbone(depth=18, weights=str(tmp_path / "short.safetensors"))
    torch.save({"epoch": 3, "state_dict": network.state_dict()}, tmp_path / "whole.pth")
    with refused(EncoderError, code="holds-no-weights-name"):
        ResNetBackbone(depth=18, weights=str(tmp_path / "whole.pth"))
    torch.save(network, tmp_path / "pickled.pth")  # would run code
    with refused(EncoderError, "pickled.pth", "ResNet", code="holds-more-weights-plain"):
        ResNetBackbone(depth=18, weights=str(tmp_path / "pickled.pth"))
    with refused(EncoderError, "34", code="no-resnet-layers"):
        ResNetBackbone(depth=34)  # type: ignore[arg-type]


def test_offline_the_error_names_address_and_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.setattr("urllib.request._opener", None)  # it keeps the proxies that it was made with: not for others
    with pytest.raises(EncoderError) as caught:
        ResNetBackbone(depth=18)
    assert str(tmp_path / "hub/checkpoints/resnet18-f37072fd.pth") in str(caught.value)
    assert "https://download.pytorch.org/models/resnet18-f37072fd.pth" in str(caught.value)


def test_weights_from_torchs_cache(network: torch.nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    (tmp_path / "hub/checkpoints").mkdir(parents=True)
    torch.save(network.state_dict(), tmp_path / "hub/checkpoints/resnet18-f37072fd.pth")
    found = ResNetBackbone(depth=18).network.state_dict()["conv1.weight"]
    assert torch.equal(found, network.state_dict()["conv1.weight"])


def test_the_later_release(network: torch.nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    (tmp_path / "hub/checkpoints").mkdir(parents=True)
    deep = models.resnet50(weights=None).state_dict()
    torch.save(deep, tmp_path / "hub/checkpoints/resnet50-11ad3fa6.pth")
    backbone = ResNetBackbone(depth=50, weights="imagenet-v2")
    assert torch.equal(backbone.network.state_dict()["conv1.weight"], deep["conv1.weight"])
    assert list(backbone.pretrained_modules()) == [backbone.network]
    with refused(EncoderError, "imagenet-v2", "18", code="torchvision-no-weights-layers"):
        ResNetBackbone(depth=18, weights="imagenet-v2")


def test_what_is_loaded_later_is_not_drawn_and_the_rest_is_right(
    network: torch.nn.Module, weights: Path, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    backbone = ResNetBackbone.load(tmp_path, {"depth": 18, "size": 32})
    assert torch.equal(torch.rand(1), expected)
    random = ResNetBackbone(depth=18, weights="random", size=32)
    assert list(backbone.pretrained_modules()) == []
    backbone.load_state_dict(random.state_dict())
    pixels = random.collate([random.prepare(picture(50, 40))])
    assert torch.equal(backbone.eval()(pixels), random.eval()(pixels))
    assert all(weight.requires_grad and weight.device.type == "cpu" for weight in backbone.parameters())
    # Files of 2017 do not count batches.
    old = {name: one for name, one in network.state_dict().items() if "num_batches" not in name}
    torch.save(old, tmp_path / "old.pth")
    state = ResNetBackbone(depth=18, weights=str(tmp_path / "old.pth")).network.state_dict()
    full = {name: one for name, one in network.state_dict().items() if not name.startswith("fc.")}
    assert state.keys() == full.keys() and all(torch.equal(one, full[name]) for name, one in state.items())
