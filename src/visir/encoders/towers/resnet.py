"""ResNets of torchvision (He et al., CVPR 2016), average-pooled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor, nn

from visir.encoders.checkpoints import read_torch_file, read_weights
from visir.encoders.towers.base import PixelBackbone
from visir.errors import EncoderError, nearest, require

Depth = Literal[18, 50, 101, 152]
_RELEASES = {"imagenet": "IMAGENET1K_V1", "imagenet-v2": "IMAGENET1K_V2"}
_TRAINED_AT = 224
_SCALED_TO = 256


class ResNetBackbone(PixelBackbone):
    """A residual network up to and with its average pooling: 512 features (18 layers) or 2,048 (50, 101, 152).

    While the network is held fixed its batch normalisation has to be in evaluation mode (the loop sees to that); when
    it is tuned, statistics are of the batch, so that a vector in training depends on its neighbours.

    Args:
        weights: "imagenet" (torchvision's IMAGENET1K_V1, VSE++'s and LTD's), "imagenet-v2" (IMAGENET1K_V2, the same
            network trained longer and better; not for 18 layers), "random", or a file: `.safetensors`, or `.pth` (read
            without running code). None leaves them to be put in, as `load` does.
        size: Pixels of the square that enters. The picture's shorter side is scaled to 256/224 of that (bilinear), as
            for ImageNet's validation set, and the centre is cut out, whatever the weights (torchvision judges V2 at
            232/224). The papers scaled training pictures likewise and cropped them at random: that is the recipe's
            augmentation.
    """

    kind = "resnet"

    def __init__(self, *, depth: Depth = 50, weights: str | None = "imagenet", size: int = _TRAINED_AT) -> None:
        require("torchvision", extra="vision", purpose="a ResNet")
        if depth not in get_args(Depth):
            raise EncoderError(
                f"there is no ResNet of {depth} layers.",
                hint=nearest(str(depth), map(str, get_args(Depth))),
                code="no-resnet-layers",
            )
        super().__init__(size, round(size * _SCALED_TO / _TRAINED_AT))
        self.depth: Depth = depth
        network = _network(depth, empty=weights != "random")
        assert isinstance(network.fc, nn.Linear)
        self.outputs = network.fc.in_features
        network.fc = nn.Identity()
        if weights in _RELEASES:
            _fill(network, _released(depth, weights), f"ResNet-{depth} of torchvision")
        elif weights not in (None, "random"):
            _fill(network, _from_file(Path(weights)), weights)
        self.network = network.to(memory_format=torch.channels_last)
        self._came_trained = weights not in (None, "random")

    def features(self, pixels: Tensor) -> Tensor:
        """(n, outputs) averages over the last convolution's places."""
        features: Tensor = self.network(pixels)
        return features

    def spec(self) -> dict[str, Any]:
        """Depth and size."""
        return {"depth": self.depth, "size": self.size}

    @classmethod
    def load(cls, folder: Path, spec: Mapping[str, Any]) -> Self:
        """From `spec` alone."""
        return cls(**spec, weights=None)

    def pretrained_modules(self) -> Sequence[nn.Module]:
        """The whole network, unless it began at random."""
        return (self.network,) if self._came_trained else ()


def _network(depth: Depth, *, empty: bool) -> nn.Module:
    """The architecture, at random or (much faster) empty: weights undefined, buffers zero."""
    from torchvision import models

    build = getattr(models, f"resnet{depth}")
    if not empty:
        return build(weights=None)  # type: ignore[no-any-return]
    with torch.device("meta"):
        network: nn.Module = build(weights=None)
    network.to_empty(device="cpu")
    for buffer in network.buffers():
        buffer.zero_()  # files of old lack batch norm's count of batches, and loading them leaves it as it is
    return network


def _released(depth: Depth, weights: str) -> Mapping[str, Tensor]:
    """The weights of one of torchvision's releases, from torch's cache or else from the network."""
    from torchvision import models

    releases = getattr(models, f"ResNet{depth}_Weights")
    if _RELEASES[weights] not in releases.__members__:
        raise EncoderError(
            f"torchvision has no {weights} weights of {depth} layers.",
            hint='weights = "imagenet"',
            code="torchvision-no-weights-layers",
        )
    url: str = releases[_RELEASES[weights]].url
    try:
        state: Mapping[str, Tensor] = torch.hub.load_state_dict_from_url(
            url, progress=False, check_hash=True, weights_only=True
        )
    except (OSError, RuntimeError) as fault:  # no network, no space; a download whose hash is not that in its name
        target = Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]
        raise EncoderError(
            f"ResNet-{depth}: its ImageNet weights are not at {target} and could not be downloaded ({fault}).",
            hint=f"download {url} elsewhere and put it there, or name a file of weights (image.weights)",
        ) from fault
    return state


def _from_file(path: Path) -> Mapping[str, Tensor]:
    if not path.is_file():
        raise EncoderError(
            f"{path}: no such file of weights.",
            hint='"imagenet", "imagenet-v2", "random", or a .safetensors or .pth',
            code="no-such-file-weights",
        )
    return read_weights(path, "file")[0] if path.suffix == ".safetensors" else read_torch_file(path)[0]


def _fill(network: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Put in everything but the classifier, which a tower has none of."""
    weights = {name: tensor for name, tensor in state.items() if not name.startswith("fc.")}
    try:
        network.load_state_dict(weights)
    except RuntimeError as fault:
        raise EncoderError(
            f"{where}: not the weights of this ResNet: {fault}", hint="is the depth right?", code="not-weights-resnet"
        ) from fault


# A small convolutional network, trained from scratch: for small pictures and machines without a GPU.

_GROUPS = 8
_GRID = 4


class SmallCNNBackbone(PixelBackbone):
    """Four convolutions of 3 × 3, the first three halving the picture, read out both in places and as a whole.

    The last maps are averaged over a grid of 4 × 4 places, which keeps what is left of what; beside them stands every
    channel's maximum over the whole picture, which says what is there wherever it is. 68 · `width` features in all.

    Normalisation is over groups of channels of one picture (Wu & He 2018). Batch normalisation would make a vector
    depend on its neighbours, and a batch in chunks, or over several processes, would not be the same batch.

    Args:
        size: Pixels of the square that enters.
        width: Channels of the first convolution, doubled twice. A multiple of 8, because of the groups below.
    """

    kind = "small-cnn"

    def __init__(self, *, size: int = 64, width: int = 32) -> None:
        if width % _GROUPS:
            raise EncoderError(
                f"the width {width} is no multiple of {_GROUPS}.",
                hint="e.g. image.width = 32",
                code="width-no-multiple",
            )
        super().__init__(size, size)
        self.width = width
        channels = [3, width, 2 * width, 4 * width, 4 * width]
        layers: list[nn.Module] = []
        for (before, after), stride in zip(pairwise(channels), (2, 2, 2, 1), strict=True):
            layers += [
                nn.Conv2d(before, after, 3, stride, padding=1, bias=False),
                nn.GroupNorm(_GROUPS, after),
                nn.ReLU(inplace=True),
            ]
        self.layers = nn.Sequential(*layers).to(memory_format=torch.channels_last)
        self.places = nn.AdaptiveAvgPool2d(_GRID)
        self.outputs = 4 * width * (_GRID**2 + 1)

    def features(self, pixels: Tensor) -> Tensor:
        """(n, outputs): the means of 4 × 4 places, then the maxima."""
        maps = self.layers(pixels)
        return torch.cat([self.places(maps).flatten(1), maps.amax((2, 3))], dim=1)

    def spec(self) -> dict[str, Any]:
        """Size and width."""
        return {"size": self.size, "width": self.width}

    @classmethod
    def load(cls, folder: Path, spec: Mapping[str, Any]) -> Self:
        """From `spec` alone."""
        return cls(**spec)
