"""A text tower kept as an ONNX network with its tokenizer: vectors of texts without PyTorch and without the model.

`keep_text_network` makes it. It is found by the card of the model whose vectors are searched, so it is never that of
other weights, whatever now lies where the model was.
"""

from __future__ import annotations

import errno
import os
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.encoders.forms import one_each
from visir.encoders.intake import Batch
from visir.encoders.models.text_inputs import TextInputs, described, read_inputs
from visir.errors import EncoderError, VisirError, is_installed
from visir.fingerprint import hash_json
from visir.records import EncoderCard, Modality, Role
from visir.storage import ContentStore, FolderChange, FolderKind
from visir.threads import cores

if TYPE_CHECKING:
    from visir.encoders.towers.pretrained_backbone import TextSide


TEXT_NETWORKS = FolderKind("text-networks", "a text tower", remedy="delete it: it is made again")
NETWORK, WEIGHTS = "network.onnx", "network.bin"
_PACKAGES = (
    "onnxruntime", "torch", "transformers", "tokenizers", "sentence-transformers", "open_clip_torch", "sentencepiece",
)  # fmt: skip
LARGEST_DIFFERENCE = 1e-6
"""1 less the cosine of a vector and that of PyTorch, up to which a network is used."""
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

    def forward(self, batch: Batch, role: Role) -> NDArray[np.float32]:
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
        inputs = read_inputs(facts["inputs"], folder)
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


def difference_of(vectors: NDArray[Any], expected: NDArray[Any]) -> float:
    """The largest 1 - cosine between two sets of vectors, row by row; infinite where shapes differ or none is known."""
    if vectors.shape != expected.shape:
        return float("inf")
    first, second = vectors.astype(np.float64), expected.astype(np.float64)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines = (first * second).sum(axis=1) / np.maximum(lengths, 1e-30)
    largest = float(np.max(1 - np.where(first.any(axis=1) | second.any(axis=1), cosines, 1)))  # zeros are equal
    return float("inf") if np.isnan(largest) else largest


def runs_on_processor(device: str | None) -> bool:
    """Whether texts are for the processor: asked for, or there is no GPU. PyTorch is not imported to find out."""
    return device == "cpu" or (device is None and not os.path.exists("/dev/nvidia0"))  # noqa: PTH110 (quicker)


# Text towers made into ONNX networks and kept (`text_network`), once they give PyTorch's vectors.

_TEXTS = (
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
    from visir.encoders.towers.pretrained_backbone import text_side_of

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
        reason = fault.message if isinstance(fault, VisirError) else f"{store.path(key)}: {fault or 'no memory left'}"
        warnings.warn(f"{encoder.card.name}: its text tower is not kept: {reason}", stacklevel=2)
        return False


def _made(side: TextSide, encoder: Encoder, change: FolderChange) -> dict[str, Any]:
    """Write the files of a tower; what `text_network` reads of it, or why it is refused."""
    refused = ""
    try:
        for texts in ([text] for text in _TEXTS):
            _check_inputs(side, texts)
        _check_inputs(side, _TEXTS)
        for name, content in side.reader.files.items():
            change.write(name, content)
        _export(side, change)
        inputs = read_inputs(described(side.reader), change.folder)
        network = TextNetwork(change.folder, encoder.card, inputs, encoder.dimension)
        groups = [_TEXTS, *([text] for text in _TEXTS), _TEXTS[:2]]
        difference = np.max([difference_of(_expected(network, texts), _expected(encoder, texts)) for texts in groups])
        if not difference <= LARGEST_DIFFERENCE:
            refused = f"other vectors than PyTorch: 1 - cosine is {difference:.1e}"
    except (OSError, MemoryError):  # says nothing about the network: another time there may be room
        raise
    except Exception as fault:  # whatever another library raises over a network that it does not know
        refused = str(fault).strip().splitlines()[-1] if str(fault).strip() else type(fault).__name__
    if refused:
        return {"refused": refused, "packages": package_versions()}
    probe = _expected(encoder, [PROBE])[0]
    return {"refused": "", "inputs": described(side.reader), "outputs": len(probe), "probe": probe.tolist()}


def _expected(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
    return one_each(encoder.embed_texts(texts), encoder.label)


def _check_inputs(side: TextSide, texts: Sequence[str]) -> None:
    """Raise `EncoderError` where the inputs of texts are not those that the encoder makes."""
    own, theirs = side.reader(texts), {name: tensor.numpy() for name, tensor in side.inputs(texts).items()}
    if own.keys() != theirs.keys() or not all(np.array_equal(own[name], theirs[name]) for name in own):
        raise EncoderError("its tokens without PyTorch differ from those of its own tokenizer")


def _export(side: TextSide, change: FolderChange) -> None:
    """Write the network, its weights beside it, so that they are mapped into memory and not read."""
    import onnxruntime
    import torch

    from visir.encoders.models.precision import inference, positional

    names = side.reader.names
    weights = sum(tensor.nbytes for tensor in side.network.parameters())
    if shutil.disk_usage(change.folder).free < 2.2 * weights:  # of two files at once; they fail in many ways
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(change.folder))
    inputs = side.inputs(_TEXTS[:3])
    traced = change.file("traced.onnx", counts=False, fresh=True)
    with inference(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # dynamo=False: the newer exporter needs a further package (onnxscript), and gives the same network.
        torch.onnx.export(
            positional(side.network.eval(), names),
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
