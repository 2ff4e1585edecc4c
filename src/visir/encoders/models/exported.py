"""Towers without PyTorch: compiled by OpenVINO for the processor, and texts kept as ONNX networks.

A tower is traced, exported and compared with PyTorch once. The result is kept in the cache (`VISIR_CACHE`/compiled,
text-networks) under a key over its weights and the packages' versions; it can be deleted at any time. A text network
is found by the card of the model whose vectors are searched, so it is never that of other weights, whatever now lies
where the model was.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import shutil
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.encoders.devices import INT8
from visir.encoders.forms import one_each
from visir.encoders.intake import InputBatch
from visir.encoders.models.precision import inference, to_vectors
from visir.encoders.models.text_inputs import PIECES, TOKENIZER, TextInputs, described, pieces_of, read_inputs
from visir.errors import EncoderError, VisirError, is_installed, require
from visir.fingerprint import hash_json
from visir.records import EncoderCard, Modality, Role
from visir.storage import ContentStore, FolderChange, FolderKind
from visir.threads import cores

if TYPE_CHECKING:
    from torch import nn

    from visir.encoders.towers.base import Backbone, Inputs, TextSide


# What every export shares: a network that is traced, and its vectors beside those of PyTorch.

LARGEST_DIFFERENCE = 1e-6
"""1 less the cosine of a vector and that of PyTorch, up to which an exported network is used."""


@contextmanager
def traceable(network: nn.Module, names: Sequence[str] | None) -> Iterator[nn.Module]:
    """A network that takes its inputs one by one, in the order of their names; meanwhile libraries are quiet."""
    from torch import Tensor, nn

    class Positional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, *values: Tensor) -> Any:
            inputs = values[0] if names is None else dict(zip(names, values, strict=True))
            return self.network(inputs)

    # Tracing asks for all attributes of a model, also those that warn of being old.
    logger = logging.getLogger("sentence_transformers.base.model")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with inference(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield Positional().eval()
    finally:
        logger.setLevel(level)


def difference_of(vectors: NDArray[Any], expected: NDArray[Any]) -> float:
    """The largest 1 - cosine between two sets of vectors, row by row; infinite where shapes differ or none is known."""
    if vectors.shape != expected.shape:
        return float("inf")
    first, second = vectors.astype(np.float64), expected.astype(np.float64)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines = (first * second).sum(axis=1) / np.maximum(lengths, 1e-30)
    largest = float(np.max(1 - np.where(first.any(axis=1) | second.any(axis=1), cosines, 1)))  # zeros are equal
    return float("inf") if np.isnan(largest) else largest


def _last_line(fault: BaseException) -> str:
    """What a library says of a network that it does not know."""
    return str(fault).strip().splitlines()[-1] if str(fault).strip() else type(fault).__name__


def _warn_not_kept(name: str, what: str, place: Path, fault: BaseException) -> None:
    reason = fault.message if isinstance(fault, VisirError) else f"{place}: {fault or 'no memory left'}"
    warnings.warn(f"{name}: {what} is not kept: {reason}", stacklevel=3)


# Compiled by OpenVINO.

# Products of a compiled network in 8-bit integers.

GROUP = 64
"""Values of an input that have one step. With 32, the vectors of MiniLM are a fifth nearer to those of float32, and
take a sixth more time; with 128 they are half as far again, in the same time."""
LARGEST_INT8_DIFFERENCE = 0.05
"""1 less the cosine of a vector and that in float32, up to which a network is used."""
_LEVELS = 127
_LEAST_SHARE = 0.5


COMPILED = FolderKind("compiled", "a folder of a compiled network", remedy="delete it: the network is compiled again")
MODEL, NETWORK, WEIGHTS = "network.xml", "network.onnx", "network.bin"
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

    def __init__(self, tower: Callable[[Modality], Backbone]) -> None:
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


def compiled_tower(tower: Backbone, card: EncoderCard, dtype: str) -> CompiledTower:
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
            _warn_not_kept(card.name, f"the compiled {tower.modality} tower", store.path(key), fault)
            return CompiledTower(model, dtype)
    return CompiledTower(store.path(key) / MODEL, dtype)


def _converted(tower: Backbone, name: str, dtype: str) -> Any:
    """The network as an OpenVINO model that gives PyTorch's vectors; with rounded weights for int8."""
    import torch
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    samples = tower.prepare_all(_samples(tower.modality))
    batches = [tower.collate(part) for part in (samples[-2:], samples[:1], samples[:-1])]
    inputs = batches[0]
    names = list(inputs) if isinstance(inputs, Mapping) else None
    try:
        with traceable(tower.eval(), names) as network:
            traced = torch.jit.trace(network, tuple(tensors(inputs)), strict=False, check_trace=False)
            expected = [to_vectors(tower(batch)) for batch in batches]
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
            f"{name}: OpenVINO cannot compile its {tower.modality} tower: {_last_line(fault)}",
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


# Text towers as ONNX networks.

TEXT_NETWORKS = FolderKind("text-networks", "a text tower", remedy="delete it: it is made again")
_PACKAGES = (
    "onnxruntime", "torch", "transformers", "tokenizers", "sentence-transformers", "open_clip_torch", "sentencepiece",
)  # fmt: skip
PROBE = "two children in red shirts run along the water beside an old wooden boat, 1962"
"""Its vector is kept, and compared when a network is opened: on another processor, or with other packages."""


class TextNetwork(Encoder):
    """The texts of a model with one vector each, as it encodes queries; thread-safe."""

    modalities: frozenset[Modality] = frozenset({"text"})

    def __init__(
        self, folder: Path, card: EncoderCard, inputs: TextInputs, outputs: int, threads: int = 0, *, once: bool = False
    ) -> None:
        import onnxruntime

        self.card, self.dimension = replace(card, dtype="float32 (onnxruntime)"), outputs
        self._inputs = inputs
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or cores()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads leave the cores free
        options.log_severity_level = 3
        if once:
            options.add_session_config_entry("session.disable_prepacking", "1")
            # What is done for every processor was done when it was kept; the rest does not pay for one text.
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._session = onnxruntime.InferenceSession(str(folder / NETWORK), options, providers=["CPUExecutionProvider"])

    def forward(self, batch: InputBatch, role: Role) -> NDArray[np.float32]:
        """(n, dimension) vectors of n texts."""
        if not len(batch):
            return np.empty((0, self.dimension), np.float32)
        vectors: NDArray[np.float32]
        [vectors] = self._session.run(None, self._inputs(batch.texts or ()))
        return vectors


def text_network(card: EncoderCard, threads: int = 0, *, once: bool = False) -> TextNetwork | None:
    """The kept text tower of the model with this card; None where there is none, or it cannot be used here."""
    if card.weights is None or not is_installed("onnxruntime"):
        return None
    store, key = ContentStore(TEXT_NETWORKS), key_of(card)
    manifest = store.find(key, hashed=lambda name: name not in (NETWORK, WEIGHTS))
    if manifest is None or manifest.content["refused"]:
        return None
    facts, folder = manifest.content, store.path(key)
    try:
        inputs = read_inputs(facts["inputs"], folder, once=once)
        network = TextNetwork(folder, card, inputs, int(facts["outputs"]), threads, once=once)
        difference = float(difference_of(_expected(network, [PROBE]), np.asarray(facts["probe"])[None]))
    except ModuleNotFoundError:  # the tower is sound, and of no use here
        return None
    except Exception as fault:  # whatever another library raises over a file that it cannot read
        store.put_aside(key, str(fault).strip().splitlines()[0])
        return None
    if not difference <= LARGEST_DIFFERENCE:
        store.put_aside(key, f"it gives other vectors than when it was made: 1 - cosine is {difference:.1e}")
        return None
    return network


def _is_settled(content: Mapping[str, Any]) -> bool:
    """Whether what is known of a tower is the last word: it is kept, or other packages did not refuse it."""
    return not content["refused"] or content["packages"] == package_versions()


def key_of(card: EncoderCard) -> str:
    """What the text tower of a model is found by: all that its vectors depend on, but for their rounding."""
    identity = {name: value for name, value in card.identity("text").items() if name != "dtype"}
    return hash_json({"tower": identity, "visir": version("visir"), "form": 2})


def package_versions() -> dict[str, str]:
    """The versions of the packages that decide whether a tower can be kept."""
    versions = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def runs_on_processor(device: str | None) -> bool:
    """Whether texts are for the processor: asked for, or there is no GPU. PyTorch is not imported to find out."""
    return device == "cpu" or (device is None and not os.path.exists("/dev/nvidia0"))  # noqa: PTH110 (quicker)


# Text towers made into ONNX networks and kept (`text_network`), once they give PyTorch's vectors.

_DIFFICULT = (
    PROBE,
    "a",
    "",
    "A Dog, running!  At 5 o'clock…\n(Ünïcode e\u0301, 中文, 🐕)",
    "word " * 40,
    "many more words than are read " * 80,
    "<|endoftext|> [SEP] </s> <unk>",
    "\u3000it's  Jane's; they'LL say: don't_do_this -- 3.14 & 1,000\t<start_of_text><end_of_text>\u00a0",
    "&lt;b&gt; schÃ¶n \ufb01ne \u201cquotes\u201d \uff21\uff22 İstanbul Straße ΣΊΣΥΦΟΣ",
    "ภาษาไทย हिन्दी العربية עִבְרִית 👩‍👩‍👧 \u200b▁ \x07 \u2126 ½ ²",
)
"""Difficult for tokenizers: cut, empty, marks of their own, spaces and letters of many kinds, broken encodings."""


def keep_text_network(encoder: Encoder, begins: Callable[[], None] = lambda: None) -> bool:
    """Keep the text tower of an encoder, so that its texts are encoded without PyTorch from now on."""
    # Made into ONNX by tracing, and compared with PyTorch: the tokens of difficult texts, their vectors alone and
    # together. Where anything differs, that is noted, and the tower is not tried again.
    # What is kept encodes texts as queries. A refusal holds as long as the packages stay as they are.
    # begins: Called before work that takes seconds.
    if not is_installed("onnxruntime") or encoder.card.weights is None:
        return False
    store = ContentStore(TEXT_NETWORKS)
    manifest = store.find(key_of(encoder.card), hashed=lambda name: False)
    if manifest is not None and _is_settled(manifest.content):
        return False
    from visir.encoders.towers.base import text_side_of

    encoder = encoder.for_role("query")
    side = text_side_of(encoder)
    if side is None or not any(True for _ in side.network.parameters()):  # no network: it needs no PyTorch anyway
        return False
    begins()
    key = key_of(encoder.card)
    try:
        waiting = "another process keeps the same text tower; waiting for it"
        with store.writing(key, waiting=waiting, resume=False) as change:
            if change.manifest.generation and _is_settled(change.manifest.content):
                return False
            change.content = _made(side, encoder, change)
            if change.content["refused"]:
                change.keep_only()
            return not change.content["refused"]
    except (OSError, MemoryError, VisirError) as fault:
        _warn_not_kept(encoder.card.name, "its text tower", store.path(key), fault)
        return False


def _made(side: TextSide, encoder: Encoder, change: FolderChange) -> dict[str, Any]:
    """Write the files of a tower; what `text_network` reads of it, or why it is refused."""
    refused = ""
    try:
        for texts in ([text] for text in _DIFFICULT):
            _check_inputs(side, texts)
        _check_inputs(side, _DIFFICULT)
        for name, content in side.reader.files.items():
            change.write(name, content)
            if Path(name).name == TOKENIZER and (pieces := pieces_of(content)) is not None:
                change.write(str(Path(name).with_name(PIECES)), pieces)
        _export(side, change)
        few = read_inputs(described(side.reader), change.folder, once=True)
        for text in _DIFFICULT:
            _check_same(side.reader([text]), few([text]))
        inputs = read_inputs(described(side.reader), change.folder)
        network = TextNetwork(change.folder, encoder.card, inputs, encoder.dimension)
        groups = [_DIFFICULT, *([text] for text in _DIFFICULT), _DIFFICULT[:2]]
        difference = np.max([difference_of(_expected(network, texts), _expected(encoder, texts)) for texts in groups])
        if not difference <= LARGEST_DIFFERENCE:
            refused = f"other vectors than PyTorch: 1 - cosine is {difference:.1e}"
    except (OSError, MemoryError):  # says nothing about the network: another time there may be room
        raise
    except Exception as fault:  # whatever another library raises over a network that it does not know
        refused = _last_line(fault)
    if refused:
        return {"refused": refused, "packages": package_versions()}
    probe = _expected(encoder, [PROBE])[0]
    return {"refused": "", "inputs": described(side.reader), "outputs": len(probe), "probe": probe.tolist()}


def _expected(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
    return one_each(encoder.embed_texts(texts), encoder.label)


def _check_inputs(side: TextSide, texts: Sequence[str]) -> None:
    """Raise `EncoderError` where the inputs of texts are not those that the encoder makes."""
    _check_same(side.reader(texts), {name: tensor.numpy() for name, tensor in side.inputs(texts).items()})


def _check_same(own: Mapping[str, NDArray[Any]], theirs: Mapping[str, NDArray[Any]]) -> None:
    if own.keys() != theirs.keys() or not all(np.array_equal(own[name], theirs[name]) for name in own):
        raise EncoderError("its tokens without PyTorch differ from those of its own tokenizer")


def _export(side: TextSide, change: FolderChange) -> None:
    """Write the network, its weights beside it, so that they are mapped into memory and not read."""
    import onnxruntime
    import torch

    names = side.reader.names
    weights = sum(tensor.nbytes for tensor in side.network.parameters())
    if shutil.disk_usage(change.folder).free < 2.2 * weights:  # of two files at once; they fail in many ways
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(change.folder))
    inputs = side.inputs(_DIFFICULT[:3])
    traced = change.file("traced.onnx", counts=False, fresh=True)
    with traceable(side.network.eval(), names) as network:
        # dynamo=False: the newer exporter needs a further package (onnxscript), and gives the same network.
        torch.onnx.export(
            network,
            tuple(inputs[name] for name in names),
            str(traced),
            input_names=list(names),
            output_names=["vectors"],
            dynamic_axes={name: {0: "texts", 1: f"{name} of a text"} for name in names},
            opset_version=18,
            dynamo=False,
        )
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        change.file(WEIGHTS, fresh=True)
        # What is done for every processor is done once, here; what is for this one, whenever it is opened.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(change.file(NETWORK, fresh=True))
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", WEIGHTS)
        options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
        onnxruntime.InferenceSession(str(traced), options, providers=["CPUExecutionProvider"])
