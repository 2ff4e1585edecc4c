"""MobileNetV2 from an NPZ of int8 weights, computed by torch: what the ONNX file is compared with.

The file holds, for every convolution, `NAME.weight_int8` (out, in/groups, k, k), `NAME.scale` (one per output channel)
and `NAME.bias`, batch normalisation folded in, and `meta_json`: the operations in order, which tensor each reads and
writes. The weight is weight_int8 · scale.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from torch import Tensor, nn
from torch.nn import functional

from visir.arrays import ArrayArchive
from visir.encoders.base import Encoder
from visir.encoders.intake import Pixels
from visir.encoders.models.image_processors import ImageInput
from visir.encoders.models.onnx_image import INPUT
from visir.errors import EncoderError
from visir.files import hash_file
from visir.records import EncoderCard

_AT_ONCE = 16


class Network(nn.Module):
    """The operations of the file up to its `mean`: (n, 3, 224, 224) to (n, 1280); `classify` goes on to the logits."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        with ArrayArchive(file, hint="is it the right NPZ?") as stored:
            if "meta_json" not in stored:
                raise EncoderError(f"{file}: has no list of operations (meta_json).", hint="is it the right NPZ?")
            self.operations: list[dict[str, Any]] = json.loads(stored["meta_json"].tobytes())
            for operation in self.operations:
                if operation["op"] == "conv":
                    weight = stored[f"{operation['name']}.weight_int8"].astype(np.float32)
                    scale = stored[f"{operation['name']}.scale"].astype(np.float32)
                    self.register_buffer(
                        f"{operation['name']}_weight", torch.from_numpy(weight * scale[:, None, None, None])
                    )
                    self.register_buffer(
                        f"{operation['name']}_bias", torch.from_numpy(stored[f"{operation['name']}.bias"].copy())
                    )
        self.features = next(operation["out"] for operation in self.operations if operation["op"] == "mean")
        self.logits = next(operation["out"] for operation in self.operations if operation["op"] == "reshape")

    def forward(self, pixels: Tensor) -> Tensor:
        """The averaged features, (n, 1280)."""
        return self._compute(pixels, self.features).flatten(1)

    def classify(self, pixels: Tensor) -> Tensor:
        """The logits of the classifier, (n, 1001); class 0 is "background"."""
        return self._compute(pixels, self.logits)

    def _compute(self, pixels: Tensor, output: int) -> Tensor:
        tensors = {0: pixels}
        for operation in self.operations:
            if operation["op"] == "add":
                result = tensors[operation["inp"][0]] + tensors[operation["inp"][1]]
            elif operation["op"] == "conv":
                result = self._convolve(operation, tensors[operation["inp"]])
            elif operation["op"] == "mean":
                result = tensors[operation["inp"]].mean(dim=(2, 3), keepdim=True)
            elif operation["op"] == "reshape":
                result = tensors[operation["inp"]].flatten(1)
            elif operation["op"] == "quantize":  # activations stay in float32: only the weights are quantised here
                result = tensors[operation["inp"]]
            else:
                raise EncoderError(f"the operation {operation['op']!r} is not one of a MobileNetV2.")
            if operation["out"] == output:
                return result
            tensors[operation["out"]] = result
        raise EncoderError(f"no operation writes the tensor {output}.")

    def _convolve(self, operation: dict[str, Any], value: Tensor) -> Tensor:
        weight, bias = self.get_buffer(f"{operation['name']}_weight"), self.get_buffer(f"{operation['name']}_bias")
        # TensorFlow's SAME: the output has ceil(n / stride) places and the odd zero comes after, so a stride-2
        # convolution over 224 pads (0, 1). Torch's symmetric padding of 1 would shift every feature by half a pixel.
        above, below = _same(value.shape[2], operation["k"], operation["stride"])
        left, right = _same(value.shape[3], operation["k"], operation["stride"])
        if (above, left) == (below, right):
            value = functional.conv2d(
                value, weight, bias, operation["stride"], (above, left), groups=operation["groups"]
            )
        else:
            value = functional.pad(value, (left, right, above, below))
            value = functional.conv2d(value, weight, bias, operation["stride"], groups=operation["groups"])
        return functional.relu6(value, inplace=True) if operation["act"] == "relu6" else value


class MobileNetNpz(Encoder):
    """1280-d image vectors."""

    def __init__(self, folder: Path) -> None:
        self.device, file = "cpu", folder / "mobilenet_v2_1.0_224_int8.npz"
        self.network = Network(file).eval().to(self.device).to(memory_format=torch.channels_last)
        self.input = ImageInput.declared({**INPUT, "layout": "NCHW"}, str(file))
        self.modalities = frozenset({"image"})
        self.dimension = 1280
        self.card = EncoderCard(
            name=str(file), family="mobilenet", weights=hash_file(file), image_preprocessing=self.input.to_dict()
        )

    def preprocess(self, image: Image) -> Pixels:
        """(224, 224, 3) bytes; normalised later, for a whole batch at once."""
        return self.input.prepare(image)

    def embed_images(self, batch: Sequence[Pixels]) -> NDArray[np.float32]:
        """(n, 1280)."""
        result = np.empty((len(batch), self.dimension), dtype=np.float32)
        with torch.inference_mode():
            for start in range(0, len(batch), _AT_ONCE):
                pixels = torch.from_numpy(self.input.batch(batch[start : start + _AT_ONCE]))
                pixels = pixels.to(self.device, memory_format=torch.channels_last)
                result[start : start + len(pixels)] = self.network(pixels).cpu().numpy()
        return result


def _same(size: int, kernel: int, stride: int) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2
