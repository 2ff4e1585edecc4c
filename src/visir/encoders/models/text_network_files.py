"""Text towers made into ONNX networks and kept (`text_network`), once they give PyTorch's vectors."""

from __future__ import annotations

import errno
import os
import shutil
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.encoders.forms import one_each
from visir.encoders.models.text_inputs import described, read_inputs
from visir.encoders.models.text_network import (
    LARGEST_DIFFERENCE,
    NETWORK,
    PROBE,
    TEXT_NETWORKS,
    WEIGHTS,
    TextNetwork,
    difference_of,
    facts_of,
    is_decided,
    is_settled,
    key_of,
    refusal,
)
from visir.errors import EncoderError, VisirError, is_installed
from visir.storage import ContentStore, FolderChange

if TYPE_CHECKING:
    from visir.encoders.models.text_side import TextSide

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
    if not is_installed("onnxruntime") or encoder.card.weights is None or is_decided(encoder.card):
        return False
    from visir.encoders.models.text_side import text_side_of

    encoder = encoder.for_role("query")
    side = text_side_of(encoder)
    if side is None or not any(True for _ in side.network.parameters()):  # no network: it needs no PyTorch anyway
        return False
    begins()
    store, key = ContentStore(TEXT_NETWORKS), key_of(encoder.card)
    try:
        waiting = "another process keeps the same text tower; waiting for it"
        with store.writing(key, waiting=waiting, resume=False) as change:
            if change.manifest.generation and is_settled(change.manifest.content):
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
    """Write the files of a tower; what is known of it, or why it is refused."""
    try:
        for texts in ([text] for text in _TEXTS):
            _check_inputs(side, texts)
        _check_inputs(side, _TEXTS)
        for name, content in side.reader.files().items():
            change.write(name, content)
        _export(side, change)
        inputs = read_inputs(described(side.reader), change.folder)
        network = TextNetwork(change.folder, encoder.card, inputs, encoder.dimension)
        groups = [_TEXTS, *([text] for text in _TEXTS), _TEXTS[:2]]
        difference = np.max([difference_of(network.embed_texts(texts), _expected(encoder, texts)) for texts in groups])
    except (OSError, MemoryError):  # says nothing about the network: another time there may be room
        raise
    except Exception as fault:  # whatever another library raises over a network that it does not know
        return refusal(str(fault).strip().splitlines()[-1] if str(fault).strip() else type(fault).__name__)
    if not difference <= LARGEST_DIFFERENCE:
        return refusal(f"other vectors than PyTorch: 1 - cosine is {difference:.1e}")
    return facts_of(side.reader, _expected(encoder, [PROBE])[0])


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

    from visir.encoders.models.compiled import positional
    from visir.encoders.models.forward import inference

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
