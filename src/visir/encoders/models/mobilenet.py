"""MobileNetV2 trained on ImageNet: a small frozen image backbone, by a short name.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", CVPR 2018. The vector is the 1280-d average
over the last feature map, before the classifier.
"""

from __future__ import annotations

from pathlib import Path

from visir.encoders.base import Encoder
from visir.encoders.families import FAMILIES
from visir.encoders.loading import require_packages
from visir.errors import EncoderError
from visir.files import data_directory

ONNX_FILE = "mobilenetv2_dynrange_float32.onnx"
ONNX_TENSOR = "mobilenetv2_1.00_224/global_average_pooling2d_3/Mean_Squeeze__632:0"
NPZ_FILE = "mobilenet_v2_1.0_224_int8.npz"
INPUT = {"size": 224, "normalise": "half", "resize": "squash", "interpolation": "bicubic"}
"""Squashed rather than cropped: what a caption mentions may stand at the edge of the photo."""


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> Encoder:
    """`mobilenet_v2[:FOLDER]` (ONNX, by onnxruntime) or `mobilenet_v2_int8[:FOLDER]` (NPZ of int8 weights, by torch).

    Two quantisations of the same network: over real photos the mean cosine of their vectors is 0.985. Alike, but not
    interchangeable, which is why they have two names.
    """
    which, _, folder = name.partition(":")
    root = Path(folder) if folder else data_directory() / "mobilenet_v2"
    file = root / (ONNX_FILE if which == "mobilenet_v2" else NPZ_FILE)
    if not file.is_file():
        raise EncoderError(
            f"{name}: {file} is not there.",
            hint=f"put {file.name} into a folder and name it ({which}:FOLDER), or set VISIR_DATA to the directory that "
            "holds mobilenet_v2/",
        )
    if which == "mobilenet_v2":
        require_packages(FAMILIES.get("onnx"))
        from visir.encoders.models.onnx_image import OnnxImageEncoder

        return OnnxImageEncoder(file, tensor=ONNX_TENSOR, options=INPUT, name=name, device=device)
    from visir.encoders.models.mobilenet_npz import MobileNetNpz

    return MobileNetNpz(file, options=INPUT, name=name, device=device)
