"""Towers compiled by OpenVINO for the processor: the vectors of PyTorch, in less time.

A tower is traced, converted and compared with PyTorch once; the result is kept in the cache (`VISIR_CACHE`/compiled)
under a key over its weights and the packages' versions. It can be deleted at any time. In int8 (`compiled_int8`) it is
another one.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.devices import INT8
from visir.encoders.models.precision import inference, positional, to_vectors
from visir.encoders.models.text_network import LARGEST_DIFFERENCE, difference_of
from visir.errors import EncoderError, VisirError, require
from visir.fingerprint import hash_json
from visir.records import EncoderCard, Modality
from visir.storage import ContentStore, FolderKind

if TYPE_CHECKING:
    from visir.encoders.towers.base import Inputs


# Products of a compiled network in 8-bit integers.

GROUP = 64
"""Values of an input that have one step. With 32, the vectors of MiniLM are a fifth nearer to those of float32, and
take a sixth more time; with 128 they are half as far again, in the same time."""
LARGEST_INT8_DIFFERENCE = 0.05
"""1 less the cosine of a vector and that in float32, up to which a network is used."""
_LEVELS = 127
_LEAST_SHARE = 0.5


def steps_of(weights: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """(outputs, inputs) codes, and (outputs, 1) steps: codes · steps are the weights, to half a step."""
    largest = np.abs(weights).max(axis=1, keepdims=True)
    steps = np.where(largest > 0, largest / _LEVELS, 1).astype(np.float32)
    return np.rint(weights / steps).astype(np.int8), steps


def quantise(model: Any) -> bool:
    """Round the weights of all products of an OpenVINO model in place."""
    # Returns: Whether these are most of its weights, but for tables of words: convolutions stay in float32.
    from openvino import opset13 as operations
    from openvino.passes import ConstantFolding, Manager

    passes = Manager()
    passes.register_pass(ConstantFolding())  # weights that are cut out of larger ones
    passes.run_passes(model)
    rounded = 0
    for product in model.get_ops():
        weights = _weights(product)
        if weights is None:
            continue
        codes, steps = steps_of(weights)
        values = operations.multiply(
            operations.convert(operations.constant(codes), np.float32), operations.constant(steps)
        )
        exact = product.output(0)
        whole = operations.matmul(product.input_value(0), values, transpose_a=False, transpose_b=True)
        whole.set_friendly_name(product.get_friendly_name())
        for target in exact.get_target_inputs():
            target.replace_source_output(whole.output(0))
        rounded += codes.size
    return rounded >= _LEAST_SHARE * (rounded + sum(map(_unrounded, model.get_ops())))


def _weights(operation: Any) -> NDArray[np.float32] | None:
    """(outputs, inputs) weights of a product with a matrix of constants; None for anything else."""
    if operation.get_type_name() != "MatMul" or operation.get_attributes()["transpose_a"]:
        return None
    constant = operation.input_value(1).get_node()
    if constant.get_type_name() != "Constant" or len(constant.get_output_shape(0)) != 2:
        return None
    weights: NDArray[Any] = constant.data
    if weights.dtype != np.float32:
        return None
    return weights if operation.get_attributes()["transpose_b"] else np.ascontiguousarray(weights.T)


def _unrounded(operation: Any) -> int:
    """How many weights a convolution or product has that stay as they are."""
    if operation.get_type_name() not in ("Convolution", "GroupConvolution", "MatMul"):
        return 0
    constant = operation.input_value(1).get_node()
    return int(np.prod(constant.get_output_shape(0))) if constant.get_type_name() == "Constant" else 0


COMPILED = FolderKind("compiled", "a folder of a compiled network", remedy="delete it: the network is compiled again")
MODEL, WEIGHTS = "network.xml", "network.bin"
_SETTINGS: Mapping[str, dict[str, Any]] = {
    "float32": {"INFERENCE_PRECISION_HINT": "f32"},
    "bfloat16": {"INFERENCE_PRECISION_HINT": "bf16"},
    INT8: {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": GROUP},
}
"""Of the arithmetics; in int8, all but the products is float32."""
_TEXTS = (
    "a",
    "a dog on the beach",
    "two children in red shirts run along the water beside an old wooden boat, 1962",
    "two children in red shirts run along the water beside an old wooden boat " * 43,
)
"""The last is longer than the windows in which models attend to long texts (up to 512 tokens): a network that was
traced with shorter ones would not have them."""


class CompiledTowers:
    """The towers of one encoder, each compiled for the CPU when it is first needed; thread-safe."""

    # A tower is a `PretrainedBackbone`, or has `modality`, `network`, `prepare_all` and `collate` of one.

    def __init__(self, tower: Callable[[Modality], Any]) -> None:
        self._tower = tower
        self._compiled: dict[Modality, CompiledTower] = {}
        self._lock = threading.Lock()

    def vectors(self, modality: Modality, card: EncoderCard, inputs: Inputs) -> NDArray[np.float32]:
        """(n, d) vectors of a batch, as the tower of `modality` collates it."""
        with self._lock:
            if modality not in self._compiled:
                dtype = card.dtype.partition(" ")[0]
                self._compiled[modality] = compiled_tower(self._tower(modality), card, dtype)
            compiled = self._compiled[modality]
        return compiled(inputs)


class CompiledTower:
    """A compiled network; thread-safe, one batch at a time."""

    def __init__(self, model: Any, dtype: str) -> None:
        import torch

        settings = {**_SETTINGS[dtype], "INFERENCE_NUM_THREADS": torch.get_num_threads()}
        self._network = _core().compile_model(model, "CPU", settings)
        self._lock = threading.Lock()

    def __call__(self, inputs: Inputs) -> NDArray[np.float32]:
        """(n, d) vectors of a batch, as the tower collates it."""
        arrays = [tensor.numpy() for tensor in tensors(inputs)]
        with self._lock:
            vectors: NDArray[np.float32] = self._network(arrays)[0]
        return vectors


@functools.cache
def _core() -> Any:
    """One for the process, never freed: each has a stack for signals, and two freed in the order in which they were
    made leave the process with one that is gone, so that its next signal (a Ctrl+C) kills it."""
    import openvino

    return openvino.Core()


def compiled_tower(tower: Any, card: EncoderCard, dtype: str) -> CompiledTower:
    """Compile a tower, or take it from the cache."""
    # tower: The tower, on the CPU in float32.
    # dtype: The arithmetic: "float32", "bfloat16" or "int8".
    require("openvino", extra="openvino", purpose="--device openvino")
    import openvino

    if dtype not in _SETTINGS:
        raise EncoderError(
            f"{card.name}: OpenVINO computes in {' or '.join(_SETTINGS)} on the CPU, not in {dtype}.",
            hint="leave --dtype out, or choose one of these",
        )
    if not card.is_versioned:
        return CompiledTower(_converted(tower, card.name, dtype), dtype)
    packages = {name: version(name) for name in ("openvino", "torch", "visir")}
    identity = {name: value for name, value in card.identity(tower.modality).items() if name != "dtype"}
    weights = {"weights": INT8} if dtype == INT8 else {}
    key = hash_json({"tower": identity, "modality": tower.modality, "packages": packages, **weights})
    store = ContentStore(COMPILED)
    if store.find(key, hashed=lambda name: name == MODEL) is None:  # the weights by size and time: hashes take long
        model = _converted(tower, card.name, dtype)
        try:
            with store.writing(key, waiting="another process is compiling the same network; waiting for it") as change:
                if change.manifest.generation == 0:
                    path = change.file(MODEL)
                    change.file(WEIGHTS)  # it names this one itself
                    openvino.save_model(model, path, compress_to_fp16=False)
        except (OSError, VisirError) as fault:
            reason = fault.message if isinstance(fault, VisirError) else f"{store.path(key)}: {fault.strerror}"
            warnings.warn(f"{card.name}: the compiled {tower.modality} tower is not kept: {reason}", stacklevel=2)
            return CompiledTower(model, dtype)
    return CompiledTower(store.path(key) / MODEL, dtype)


def _converted(tower: Any, name: str, dtype: str) -> Any:
    """The network as an OpenVINO model that gives PyTorch's vectors; with rounded weights for int8."""
    import torch
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    samples = tower.prepare_all(_samples(tower.modality))
    batches = [tower.collate(part) for part in (samples[-2:], samples[:1], samples[:-1])]
    inputs = batches[0]
    names = list(inputs) if isinstance(inputs, Mapping) else None
    try:
        with inference(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(
                positional(tower.network.eval(), names), tuple(tensors(inputs)), strict=False, check_trace=False
            )
            expected = [to_vectors(tower.network(batch)) for batch in batches]
            # By PyTorch first: it refuses indices of another size's batch, where OpenVINO writes outside of its memory.
            difference = _difference([to_vectors(traced(*tensors(batch))) for batch in batches], expected)
            if difference <= LARGEST_DIFFERENCE:
                frontend = FrontEndManager().load_by_framework("pytorch")
                # Not `openvino.convert_model`: it reports every conversion to its makers.
                decoder = TorchScriptPythonDecoder(traced, shared_memory=False)  # has to live until all is converted
                model = frontend.convert(frontend.load(decoder))
                # With the sizes known, OpenVINO refuses what it would compute outside the picture (ALIGN's pooling).
                model.reshape(dict(enumerate(_shapes(batches))))
                difference = _difference(map(CompiledTower(model, "float32"), batches), expected)
    except Exception as fault:  # whatever another library raises over a network that it does not know
        raise EncoderError(
            f"{name}: OpenVINO cannot compile its {tower.modality} tower: {str(fault).strip().splitlines()[-1]}",
            hint="--device cpu computes it with PyTorch",
            code="openvino-cannot-compile-tower",
        ) from fault
    if not difference <= LARGEST_DIFFERENCE:
        raise EncoderError(
            f"{name}: the compiled {tower.modality} tower gives other vectors than PyTorch (1 - cosine is "
            f"{difference:.1e}, allowed {LARGEST_DIFFERENCE:.0e}).",
            hint="--device cpu computes it with PyTorch",
            code="compiled-tower-gives-other",
        )
    if dtype == INT8:
        hint = "leave --dtype out: OpenVINO then computes it in float32"
        if not quantise(model):
            raise EncoderError(
                f"{name}: the {tower.modality} tower computes mostly convolutions, not in int8.", hint=hint
            )
        difference = _difference(map(CompiledTower(model, INT8), batches), expected)
        if not difference <= LARGEST_INT8_DIFFERENCE:
            raise EncoderError(
                f"{name}: in int8 the {tower.modality} tower gives other vectors than in float32 (1 - cosine is "
                f"{difference:.1e}, allowed {LARGEST_INT8_DIFFERENCE:.0e}).",
                hint=hint,
                code="int8-tower-gives-other",
            )
    return model


def tensors(inputs: Inputs) -> list[Any]:
    """The tensors of a batch, in the order of their names."""
    return list(inputs.values()) if isinstance(inputs, Mapping) else [inputs]


def _shapes(batches: Sequence[Inputs]) -> list[list[int]]:
    """The shape of each input: -1 where it differs between batches."""
    return [
        [sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*(tensor.shape for tensor in same), strict=True)]
        for same in zip(*map(tensors, batches), strict=True)
    ]


def _samples(modality: Modality) -> list[Any]:
    """Inputs to trace and compare with: short and long texts; an even picture, a gradient and noise."""
    if modality == "text":
        return list(_TEXTS)
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (240, 320, 3), dtype=np.uint8)
    gradient = np.broadcast_to(np.linspace(0, 255, 320).astype(np.uint8)[None, :, None], noise.shape)
    return [Image.fromarray(pixels) for pixels in (np.full_like(noise, 90), np.ascontiguousarray(gradient), noise)]


def _difference(vectors: Iterable[NDArray[np.float32]], expected: Iterable[NDArray[np.float32]]) -> float:
    """The largest 1 - cosine between the vectors of several batches and those of PyTorch; NaN where any is."""
    return float(np.max([difference_of(*pair) for pair in zip(vectors, expected, strict=True)]))
