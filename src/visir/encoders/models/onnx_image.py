"""A frozen image backbone in an ONNX file: any tensor of its graph can be the vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from visir.encoders.base import Encoder
from visir.encoders.inputs import Pixels
from visir.encoders.models.image_input import ImageInput
from visir.encoders.weights import hash_file
from visir.errors import EncoderError, nearest
from visir.files import read_json
from visir.options import split_options
from visir.records import EncoderCard
from visir.threads import usable_cores

_AT_ONCE = 8
"""Images per call of the runtime: measured fastest on two cores (activations stay in the cache); results do not depend
on it."""


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> OnnxImageEncoder:
    """`onnx:FILE[?option=value&…][#TENSOR]`; options are those of `ImageInput`, also read from `FILE.json`.

    An option in the name wins over the file. "tensor" is also allowed in the file. Size and layout are read from the
    graph's input where it states them.
    """
    rest, _, tensor = name.removeprefix("onnx:").partition("#")
    file, named = split_options(rest, error=EncoderError)
    options: dict[str, Any] = {}
    sidecar = Path(f"{file}.json")
    if sidecar.is_file():
        options.update(read_json(sidecar))
    options.update(named)
    tensor = tensor or str(options.get("tensor", ""))
    options.pop("tensor", None)
    return OnnxImageEncoder(Path(file), tensor=tensor, options=options, name=name, device=device)


class OnnxImageEncoder(Encoder):
    """An image backbone run by onnxruntime; its vector is `tensor`, an (n, d) tensor anywhere in the graph.

    A tensor inside the graph is added as an output in memory, and what comes after it is cut off; the file stays as it
    is. `options` are those of `ImageInput` (`visir.encoders.models.image_input`).
    """

    def __init__(
        self,
        file: Path,
        *,
        tensor: str = "",
        options: Mapping[str, Any] | None = None,
        name: str = "",
        device: str | None = None,
    ) -> None:
        if not file.is_file():
            raise EncoderError(f"{file}: no such ONNX file.", hint="check the path after onnx:")
        model = _read(file)
        source = _image_input(model, file)
        self.input = ImageInput.declared({**_stated(source), **(options or {})}, str(file))
        self._exactly = source.type.tensor_type.shape.dim[0].dim_value  # 0 when the graph takes any number of images
        self._tensor = _keep_only(model, tensor, file)
        self._source = source.name
        self._session = _session(model, file, device)
        self._cores = usable_cores()
        self._threads = ThreadPoolExecutor(self._cores, thread_name_prefix="onnx")
        self.modalities = frozenset({"image"})
        self.dimension = self._measure(file)
        self.card = EncoderCard(
            name=name or f"onnx:{file}#{self._tensor}",
            family="onnx",
            weights=hash_file(file),
            image_preprocessing={**self.input.to_dict(), "tensor": self._tensor},
        )

    def preprocess(self, image: Image) -> Pixels:
        """(H, W, 3) bytes; normalised later, for a whole batch at once."""
        return self.input.prepare(image)

    def embed_images(self, batch: Sequence[Pixels]) -> NDArray[np.float32]:
        """(n, dimension). Small parts of the batch run side by side, one per core."""
        size = self._exactly or max(1, min(_AT_ONCE, -(-len(batch) // self._cores)))
        parts = [batch[start : start + size] for start in range(0, len(batch), size)]
        done = list(self._threads.map(self._run, parts))
        return np.concatenate(done) if done else np.zeros((0, self.dimension), dtype=np.float32)

    def _run(self, part: Sequence[Pixels]) -> NDArray[np.float32]:
        pixels = self.input.batch(part)
        if len(part) < self._exactly:  # a graph for exactly n images gets n, and the surplus is dropped
            pixels = np.concatenate([pixels, np.repeat(pixels[-1:], self._exactly - len(part), axis=0)])
        vectors: NDArray[np.float32] = self._session.run([self._tensor], {self._source: pixels})[0]
        return vectors[: len(part)].astype(np.float32, copy=False)

    def _measure(self, file: Path) -> int:
        """The dimension, found by running one grey image; anything but one vector per image is an error."""
        height, width = self.input.size
        grey = np.full((height, width, 3), 127, dtype=np.uint8)
        try:
            vectors = self._run([grey])
        except Exception as fault:
            # onnxruntime raises a dozen classes of its own, all derived from Exception alone.
            raise EncoderError(
                f"{file}: the graph does not run on one {height}x{width} {self.input.layout} image: {fault}",
                hint="declare size and layout as the model was exported: onnx:FILE?size=…&layout=…",
            ) from fault
        if vectors.ndim != 2:
            raise EncoderError(
                f"{file}: the tensor {self._tensor!r} is {vectors.shape} for one image; a vector per image is (1, d).",
                hint="name a tensor after the pooling: onnx:FILE#TENSOR",
            )
        return int(vectors.shape[1])


def _read(file: Path) -> Any:
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        return onnx.load(str(file))
    except DecodeError as fault:
        raise EncoderError(f"{file}: not an ONNX file ({fault}).", hint="is the download complete?") from fault


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
            providers=[("CUDAExecutionProvider", {"device_id": int(index or 0)}), *providers],
        )  # fmt: skip
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)
