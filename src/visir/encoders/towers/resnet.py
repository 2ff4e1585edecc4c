"""ResNets of torchvision (He et al., CVPR 2016), average-pooled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal, Self, get_args

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from visir.encoders.towers.pixel_body import PixelBody
from visir.errors import EncoderError, nearest, require

Depth = Literal[18, 50, 101, 152]
_TRAINED_AT = 224
_SCALED_TO = 256


class ResNetBody(PixelBody):
    """A residual network up to and with its average pooling: 512 features (18 layers) or 2,048 (50, 101, 152).

    - `weights`: "imagenet" (torchvision's IMAGENET1K_V1, which the papers had; V2 is a better network of the same
      shape, for other numbers than theirs), "random", or a file: `.safetensors`, or `.pth` (read without running code)
    - `size`: pixels of the square that enters. The picture's shorter side is scaled to 256/224 of that (bilinear), as
      for ImageNet's validation set, and the centre is cut out. The papers scaled training pictures likewise and cropped
      them at random: that is the recipe's augmentation.

    While the network is held fixed its batch normalisation has to be in evaluation mode (the loop sees to that); when
    it is tuned, statistics are of the batch, so that a vector in training depends on its neighbours.
    """

    kind = "resnet"

    def __init__(self, *, depth: Depth = 50, weights: str = "imagenet", size: int = _TRAINED_AT) -> None:
        require("torchvision", extra="vision", purpose="a ResNet")
        if depth not in get_args(Depth):
            raise EncoderError(f"there is no ResNet of {depth} layers.", hint=nearest(str(depth), map(str, _depths())))
        from torchvision import models

        super().__init__(size, round(size * _SCALED_TO / _TRAINED_AT))
        self.depth: Depth = depth
        network: nn.Module = getattr(models, f"resnet{depth}")(weights=None)
        assert isinstance(network.fc, nn.Linear)
        self.outputs = network.fc.in_features
        network.fc = nn.Identity()
        if weights == "imagenet":
            _fill(network, _imagenet(depth), f"ResNet-{depth} of torchvision")
        elif weights != "random":
            _fill(network, _from_file(Path(weights)), weights)
        self.network = network.to(memory_format=torch.channels_last)
        self._came_trained = weights != "random"

    def features(self, pixels: Tensor) -> Tensor:
        """(n, outputs) averages over the last convolution's places."""
        found: Tensor = self.network(pixels)
        return found

    def spec(self) -> dict[str, Any]:
        """Depth and size."""
        return {"depth": self.depth, "size": self.size}

    @classmethod
    def load(cls, folder: Path, spec: Mapping[str, Any]) -> Self:
        """From `spec` alone."""
        return cls(**spec, weights="random")

    def given(self) -> Sequence[nn.Module]:
        """The whole network, unless it began at random."""
        return (self.network,) if self._came_trained else ()


def _depths() -> tuple[int, ...]:
    return get_args(Depth)


def _imagenet(depth: Depth) -> Mapping[str, Tensor]:
    """The weights of torchvision's first release, from torch's cache or else from the network."""
    from torchvision import models

    url: str = getattr(models, f"ResNet{depth}_Weights").IMAGENET1K_V1.url
    try:
        found: Mapping[str, Tensor] = torch.hub.load_state_dict_from_url(
            url, progress=False, check_hash=True, weights_only=True
        )
    except (OSError, RuntimeError) as fault:  # no network, no space; a download whose hash is not that in its name
        target = Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]
        raise EncoderError(
            f"ResNet-{depth}: its ImageNet weights are not at {target} and could not be downloaded ({fault}).",
            hint=f"download {url} elsewhere and put it there, or name a file of weights (image.weights)",
        ) from fault
    return found


def _from_file(path: Path) -> Mapping[str, Tensor]:
    if not path.is_file():
        raise EncoderError(f"{path}: no such file of weights.", hint='"imagenet", "random", or a .safetensors or .pth')
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            found = load_file(str(path))
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, UnpicklingError, RuntimeError, EOFError, OSError) as fault:
        first = str(fault).splitlines()[0] if str(fault) else type(fault).__name__
        raise EncoderError(
            f"{path}: its weights cannot be read: {first}", hint="a .safetensors, or a .pth with a state_dict only"
        ) from fault
    if not isinstance(found, Mapping) or not all(isinstance(one, Tensor) for one in found.values()):
        raise EncoderError(f"{path}: holds no state_dict (names and tensors).", hint="save model.state_dict()")
    return found


def _fill(network: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Put in everything but the classifier, which a tower has none of."""
    kept = {name: tensor for name, tensor in state.items() if not name.startswith("fc.")}
    try:
        network.load_state_dict(kept)
    except RuntimeError as fault:
        raise EncoderError(f"{where}: not the weights of this ResNet: {fault}", hint="is the depth right?") from fault
