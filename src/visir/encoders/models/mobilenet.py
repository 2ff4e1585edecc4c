"""MobileNetV2 trained on ImageNet: a small frozen image backbone, by a short name.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", CVPR 2018. The vector is the 1280-d average
over the last feature map, before the classifier.
"""

from __future__ import annotations

from pathlib import Path

from visir.encoders.base import Encoder
from visir.encoders.families import FAMILIES
from visir.encoders.loading import require_packages
from visir.encoders.models.grid import Grid
from visir.errors import EncoderError
from visir.files import data_directory
from visir.options import split_options

ONNX_FILE = "mobilenetv2_dynrange_float32.onnx"
ONNX_TENSOR = "mobilenetv2_1.00_224/global_average_pooling2d_3/Mean_Squeeze__632:0"
ONNX_MAP = "Relu6__90:0"
"""The last feature map, 7 x 7 places of 1,280 numbers, whose average `ONNX_TENSOR` is."""
NPZ_FILE = "mobilenet_v2_1.0_224_int8.npz"
INPUT = {"size": 224, "normalise": "half", "resize": "squash", "interpolation": "bicubic"}
"""Squashed rather than cropped: what a caption mentions may stand at the edge of the photo."""


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> Encoder:
    """`mobilenet_v2[:FOLDER]` (ONNX, by onnxruntime) or `mobilenet_v2_int8[:FOLDER]` (NPZ of int8 weights, by
    torch)."""
    # `mobilenet_v2?vectors=grid` gives a vector for each of the 7 x 7 places of the last feature map, for late
    # interaction; `?vectors=4x4` the means over 4 x 4 cells of it.
    # Two quantisations of the same network: over real photos the mean cosine of their vectors is 0.985. Alike, but not
    # interchangeable, which is why they have two names.
    bare, options = split_options(name, ("vectors",), error=EncoderError)
    which, _, folder = bare.partition(":")
    root = Path(folder) if folder else data_directory() / "mobilenet_v2"
    file = root / (ONNX_FILE if which == "mobilenet_v2" else NPZ_FILE)
    if not file.is_file():
        raise EncoderError(
            f"{name}: {file} is not there.",
            hint=f"put {file.name} into a folder and name it ({which}:FOLDER), or set VISIR_DATA to the directory that "
            "holds mobilenet_v2/",
            code="weights-not-there",
        )
    if which == "mobilenet_v2":
        require_packages(FAMILIES.get("onnx"))
        from visir.encoders.models.onnx_image import OnnxImageEncoder

        grid = Grid.named(options["vectors"], bare) if "vectors" in options else None
        tensor = ONNX_TENSOR if grid is None else ONNX_MAP
        return OnnxImageEncoder(file, tensor=tensor, options=INPUT, name=name, device=device, grid=grid)
    if options:
        raise EncoderError(
            f"{name}: {NPZ_FILE} is read for one vector of an image.", hint="mobilenet_v2?vectors=grid has the places"
        )
    from visir.encoders.models.mobilenet_npz import MobileNetNpz

    return MobileNetNpz(file, options=INPUT, name=name, device=device)
