"""A frozen image backbone in an ONNX file: any tensor of its graph can be the vector, or the vectors.

MobileNetV2 trained on ImageNet is one by a short name: Sandler et al., "MobileNetV2: Inverted Residuals and Linear
Bottlenecks", CVPR 2018. Its vector is the 1280-d average over the last feature map, before the classifier.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from visir.encoders.base import Encoder
from visir.encoders.families import FAMILIES
from visir.encoders.intake import InputBatch, Pixels
from visir.encoders.loading import require_packages
from visir.encoders.models.image_processors import ImageInput
from visir.errors import EncoderError, VisirError, nearest
from visir.files import data_directory, hash_file, read_json
from visir.fingerprint import hash_json
from visir.options import split_options
from visir.records import EncoderCard, Role
from visir.threads import usable_cores

# A feature map as several vectors: one for each of its places, or for each cell of a coarser grid.

Box = tuple[float, float, float, float]
"""x0, y0, x1, y1."""


@dataclass(frozen=True)
class Grid:
    """Which vectors a feature map gives, row by row from the top left."""

    # "grid", every place of the map; or "4x4", the means over 4 times 4 cells, which may overlap (of seven places: 1
    # and 2, 2 to 4, 4 to 6, 6 and 7). Cells are the same from the left as from the right.
    name: str
    cells: tuple[int, int] | None = None  # (rows, columns); None for the map's own

    @classmethod
    def named(cls, name: str, where: str) -> Grid:
        """The grid that an option `vectors=NAME` means."""
        match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", name)
        if name != "grid" and match is None:
            raise EncoderError(
                f"{where}: vectors={name} is none of its vectors.",
                hint="vectors=grid takes every place of the feature map, vectors=4x4 the means over 4 x 4 cells; "
                "without it, there is one vector for an image",
                code="vectors-none-vectors",
            )
        return cls(name, (int(match[1]), int(match[2])) if match else None)

    def check(self, shape: tuple[int, int], where: str) -> None:
        """Raise `EncoderError` when a map of `shape` (rows, columns) has fewer places than the grid has cells."""
        if self.cells is not None and (self.cells[0] > shape[0] or self.cells[1] > shape[1]):
            raise EncoderError(
                f"{where}: vectors={self.name}, and the feature map has {shape[0]} x {shape[1]} places.",
                hint=f"at most vectors={shape[0]}x{shape[1]}, which is vectors=grid",
                code="vectors-feature-map-places",
            )

    def vectors(self, maps: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, cells, d) vectors of (n, d, rows, columns) maps."""
        if self.cells is not None:
            down, across = _spans(self.cells[0], maps.shape[2]), _spans(self.cells[1], maps.shape[3])
            maps = np.stack([maps[:, :, start:stop].mean(2) for start, stop in down], axis=2)
            maps = np.stack([maps[..., start:stop].mean(3) for start, stop in across], axis=3)
        return np.ascontiguousarray(maps.reshape(*maps.shape[:2], -1).transpose(0, 2, 1))

    def regions(self, shape: tuple[int, int], shown: Box) -> NDArray[np.float64]:
        """(cells, 4) where each vector looks."""
        # A place of the map is drawn as its share of the input. The network sees more than that, with weight falling
        # outwards.
        # shape: (rows, columns) of the map.
        rows, columns = self.cells or shape
        left, top, right, bottom = shown
        boxes = [
            (
                left + (right - left) * x0 / shape[1],
                top + (bottom - top) * y0 / shape[0],
                left + (right - left) * x1 / shape[1],
                top + (bottom - top) * y1 / shape[0],
            )
            for y0, y1 in _spans(rows, shape[0])
            for x0, x1 in _spans(columns, shape[1])
        ]
        return np.asarray(boxes, np.float64).clip(0.0, 1.0)


def _spans(cells: int, places: int) -> list[tuple[int, int]]:
    """The places of each cell: from the floor of its beginning to the ceiling of its end, so that none is left out."""
    return [(cell * places // cells, -(-(cell + 1) * places // cells)) for cell in range(cells)]


_AT_ONCE = 8
"""Images per call of the runtime: measured fastest on two cores (activations stay in the cache); results do not depend
on it."""


ONNX_FILE = "mobilenetv2_dynrange_float32.onnx"
ONNX_TENSOR = "mobilenetv2_1.00_224/global_average_pooling2d_3/Mean_Squeeze__632:0"
ONNX_MAP = "Relu6__90:0"
"""The last feature map, 7 x 7 places of 1,280 numbers, whose average `ONNX_TENSOR` is."""
INPUT = {"size": 224, "normalise": "half", "resize": "squash", "interpolation": "bicubic"}
"""Squashed rather than cropped: what a caption mentions may stand at the edge of the photo."""


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> OnnxImageEncoder:
    """`onnx:FILE[?option=value&…][#TENSOR]`, options being those of `ImageInput`, also read from `FILE.json`; or
    `mobilenet_v2[:FOLDER]`."""
    if not name.startswith("onnx:"):
        return _mobilenet(name, device)
    # An option in the name wins over the file. "tensor" and "vectors" are also allowed in the file. Size and layout are
    # read from the graph's input where it states them.
    rest, _, tensor = name.removeprefix("onnx:").partition("#")
    file, named = split_options(rest, error=EncoderError)
    options: dict[str, Any] = {}
    sidecar = Path(f"{file}.json")
    if sidecar.is_file():
        options.update(read_json(sidecar))
    options.update(named)
    tensor = tensor or str(options.get("tensor", ""))
    options.pop("tensor", None)
    vectors = options.pop("vectors", None)
    grid = None if vectors is None else Grid.named(str(vectors), name)
    return OnnxImageEncoder(Path(file), tensor=tensor, options=options, name=name, device=device, grid=grid)


def _mobilenet(name: str, device: str | None) -> OnnxImageEncoder:
    # `?vectors=grid` gives a vector for each of the 7 x 7 places of the last feature map, for late interaction;
    # `?vectors=4x4` the means over 4 x 4 cells of it.
    bare, options = split_options(name, ("vectors",), error=EncoderError)
    folder = bare.partition(":")[2]
    file = (Path(folder) if folder else data_directory() / "mobilenet_v2") / ONNX_FILE
    if not file.is_file():
        raise EncoderError(
            f"{name}: {file} is not there.",
            hint=f"put {file.name} into a folder and name it (mobilenet_v2:FOLDER), or set VISIR_DATA to the directory "
            "that holds mobilenet_v2/",
            code="weights-not-there",
        )
    require_packages(FAMILIES.get("onnx"))
    grid = Grid.named(options["vectors"], bare) if "vectors" in options else None
    tensor = ONNX_TENSOR if grid is None else ONNX_MAP
    return OnnxImageEncoder(file, tensor=tensor, options=INPUT, name=name, device=device, grid=grid)


class OnnxImageEncoder(Encoder):
    """An image backbone run by onnxruntime; its vector is `tensor`, an (n, d) tensor anywhere in the graph."""

    # A tensor inside the graph is added as an output in memory, and what comes after it is cut off; the file stays as
    # it is. `options` are those of `ImageInput` (`visir.encoders.models.image_processors`).
    # With a `grid`, the tensor is a feature map, (n, d, h, w) as convolutions have it, and each of its places is a
    # vector: the encoder is of form "multi-vector".

    def __init__(
        self,
        file: Path,
        *,
        tensor: str = "",
        options: Mapping[str, Any] | None = None,
        name: str = "",
        device: str | None = None,
        grid: Grid | None = None,
    ) -> None:
        if not file.is_file():
            raise EncoderError(
                f"{file}: no such ONNX file.", hint="check the path after onnx:", code="no-such-onnx-file"
            )
        model, weights = _read(file)
        source = _image_input(model, file)
        self.input = ImageInput.declared({**_stated(source), **(options or {})}, str(file))
        self._exactly = source.type.tensor_type.shape.dim[0].dim_value  # 0 when the graph takes any number of images
        self._tensor = _keep_only(model, tensor, file)
        self._source = source.name
        try:
            self._session = _session(model, file, device)
        except VisirError:
            raise
        except Exception as fault:  # onnxruntime raises a dozen classes of its own, all derived from Exception alone
            raise EncoderError(
                f"{file}: onnxruntime cannot read this graph: {_first(fault)}",
                hint="the file is damaged, or of a newer ONNX: fetch it again, or pip install -U onnxruntime",
            ) from fault
        self._cores = usable_cores()
        self._threads = ThreadPoolExecutor(self._cores, thread_name_prefix="onnx")
        self.modalities = frozenset({"image"})
        self._grid = grid
        if grid is not None:
            self.form = "multi-vector"
        self.dimension = self._measure(file)
        self.card = EncoderCard(
            name=name or f"onnx:{file}#{self._tensor}",
            family="onnx",
            weights=weights,
            image_preprocessing={
                **self.input.to_dict(),
                "tensor": self._tensor,
                **({} if grid is None else {"vectors": grid.name}),
            },
        )

    def prepare(self, item: str | Image, role: Role) -> Any:
        """(H, W, 3) bytes; normalised later, for a whole batch at once."""
        return item if isinstance(item, str) else self.input.prepare(item)

    def forward(self, batch: InputBatch, role: Role) -> NDArray[np.float32]:
        """(n, dimension), or (n, places, dimension). Small parts of the batch run side by side, one per core."""
        images = batch.images or ()
        size = self._exactly or max(1, min(_AT_ONCE, -(-len(images) // self._cores)))
        parts = [images[start : start + size] for start in range(0, len(images), size)]
        done = list(self._threads.map(self._run, parts))
        if not done:
            return np.zeros((0, self.dimension) if self._grid is None else (0, 1, self.dimension), np.float32)
        return np.concatenate(done)

    def image_regions(self, image: Image) -> NDArray[np.float64]:
        """(places, 4): where each vector looks, as fractions of the upright image; NaN where there is one vector."""
        if self._grid is None:
            return np.full((1, 4), np.nan)
        return self._grid.regions(self._map, self.input.shown(image.size))

    def _run(self, part: Sequence[Pixels]) -> NDArray[np.float32]:
        pixels = self.input.batch(part)
        if len(part) < self._exactly:  # a graph for exactly n images gets n, and the surplus is dropped
            pixels = np.concatenate([pixels, np.repeat(pixels[-1:], self._exactly - len(part), axis=0)])
        vectors: NDArray[np.float32] = self._session.run([self._tensor], {self._source: pixels})[0]
        vectors = vectors[: len(part)].astype(np.float32, copy=False)
        return vectors if self._grid is None or vectors.ndim != 4 else self._grid.vectors(vectors)

    def _measure(self, file: Path) -> int:
        """The dimension, found by running one grey image; anything but one vector or one map of it is an error."""
        height, width = self.input.size
        pixels = self.input.batch([np.full((height, width, 3), 127, dtype=np.uint8)] * max(1, self._exactly))
        try:
            shape = (1, *self._session.run([self._tensor], {self._source: pixels})[0].shape[1:])
        except Exception as fault:
            # onnxruntime raises a dozen classes of its own, all derived from Exception alone.
            raise EncoderError(
                f"{file}: the graph does not run on one {height}x{width} {self.input.layout} image: {fault}",
                hint="declare size and layout as the model was exported: onnx:FILE?size=…&layout=…",
                code="graph-not-run-one",
            ) from fault
        if self._grid is None and len(shape) != 2:
            raise EncoderError(
                f"{file}: the tensor {self._tensor!r} is {shape} for one image; a vector per image is (1, d).",
                hint="name a tensor after the pooling: onnx:FILE#TENSOR"
                + ("; or take each place as a vector: ?vectors=grid" if len(shape) == 4 else ""),
                code="tensor-one-image",
            )
        if self._grid is not None:
            if len(shape) != 4:
                raise EncoderError(
                    f"{file}: vectors={self._grid.name}, but the tensor {self._tensor!r} is {shape}; a feature map "
                    "is (n, d, height, width).",
                    hint="name a tensor before the pooling: onnx:FILE?vectors=grid#TENSOR",
                    code="vectors-tensor-feature-map",
                )
            self._map = (int(shape[2]), int(shape[3]))
            self._grid.check(self._map, str(file))
        return int(shape[1])


def _read(file: Path) -> tuple[Any, str]:
    """The graph with its weights, and a hash over all files that they come from."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model = onnx.load(str(file), load_external_data=False)
    except DecodeError as fault:
        raise EncoderError(
            f"{file}: not an ONNX file ({fault}).", hint="is the download complete?", code="not-onnx-file"
        ) from fault
    stored = [tensor for tensor in _tensors(model) if tensor.data_location == onnx.TensorProto.EXTERNAL]
    others = sorted({entry.value for tensor in stored for entry in tensor.external_data if entry.key == "location"})
    try:
        onnx.load_external_data_for_model(model, str(file.parent))
        hashes = {name: hash_file(file.parent / name) for name in [file.name, *others]}
    except Exception as fault:  # onnx raises what comes: its own errors, those of the system, of values
        raise EncoderError(
            f"{file}: its weights lie in another file; it is missing, cut, or outside its folder: {_first(fault)}",
            hint="copy the files of its weights beside it, under the names that they had",
            code="weights-lie-another-file",
        ) from fault
    return model, hash_json(hashes) if others else hashes[file.name]


def _tensors(model: Any) -> Iterator[Any]:
    """Every tensor of a graph, also those of constants and of graphs within it."""
    from google.protobuf.message import Message
    from onnx import TensorProto

    waiting = [model]
    while waiting:
        message = waiting.pop()
        if isinstance(message, TensorProto):
            yield message
            continue
        for field, value in message.ListFields():
            if field.message_type is not None:
                waiting += [value] if isinstance(value, Message) else list(value)


def _first(fault: BaseException) -> str:
    """The kind of an error, and its first line."""
    lines = (line.strip() for line in str(fault).splitlines())
    return f"{type(fault).__name__}: {next(filter(None, lines), 'no more is known')}"


def _image_input(model: Any, file: Path) -> Any:
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    images = [value for value in inputs if len(value.type.tensor_type.shape.dim) == 4]
    if len(inputs) != 1 or len(images) != 1:
        shapes = ", ".join(f"{value.name} {_shape(value)}" for value in inputs)
        raise EncoderError(f"{file}: expected one input of four axes (a batch of images), found {shapes or 'none'}.")
    return images[0]


def _stated(source: Any) -> dict[str, Any]:
    """Size and layout as the shape of the input states them: (n, 3, H, W) or (n, H, W, 3)."""
    _, *shape = _shape(source)
    if shape[2] == 3 and shape[0] != 3:
        layout, sides = "NHWC", shape[:2]
    elif shape[0] == 3:
        layout, sides = "NCHW", shape[1:]
    else:
        return {}
    return {"layout": layout, **({"size": sides} if all(sides) else {})}


def _shape(source: Any) -> list[int]:
    return [axis.dim_value for axis in source.type.tensor_type.shape.dim]


def _keep_only(model: Any, tensor: str, file: Path) -> str:
    """Make `tensor` the only output of the graph (the one there is, when no name is given); return its name."""
    import onnx

    outputs: list[str] = [value.name for value in model.graph.output]
    if not tensor:
        if len(outputs) != 1:
            raise EncoderError(f"{file}: has the outputs {', '.join(outputs)}.", hint="name one: onnx:FILE#TENSOR")
        return outputs[0]
    tensors = [name for node in model.graph.node for name in node.output]
    if tensor not in tensors:
        raise EncoderError(
            f"{file}: has no tensor {tensor!r}.",
            hint=f"{nearest(tensor, tensors)}; its outputs: {', '.join(outputs)}; "
            f"what comes before them: {', '.join(list(model.graph.node[-1].input)[:3])}",
            code="no-tensor",
        )
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info(tensor, onnx.TensorProto.FLOAT, None))
    return tensor


def _session(model: Any, file: Path, device: str | None) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # the parts of a batch run side by side instead, which is faster and deterministic
    options.log_severity_level = 3
    available = onnxruntime.get_available_providers()
    providers = ["CPUExecutionProvider"]
    if device is not None and device != "cpu":
        kind, _, index = device.partition(":")
        if kind != "cuda" or "CUDAExecutionProvider" not in available:
            raise EncoderError(
                f"{file}: the device {device!r} cannot be used by the installed onnxruntime.",
                hint="use the CPU, or pip install onnxruntime-gpu",
            )
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options,
            providers=[("CUDAExecutionProvider", {"device_id": int(index or 0), "use_tf32": 0}), *providers],
        )  # fmt: skip
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)
