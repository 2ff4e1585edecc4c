"""Text towers made into ONNX networks and kept (`text_network`), once they give PyTorch's vectors."""

from __future__ import annotations

import errno
import os
import shutil
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from visir.encoders.base import Encoder
from visir.encoders.models.text_network import (
    LARGEST_DIFFERENCE,
    NETWORK,
    PACKAGES,
    PROBE,
    TEXT_NETWORKS,
    TOKENIZER,
    WEIGHTS,
    TextNetwork,
    TextRules,
    difference_of,
    facts_of,
    is_decided,
    key_of,
)
from visir.errors import VisirError, is_installed
from visir.storage import ContentStore, FolderChange

_TEXTS = (
    PROBE,
    "a",
    "",
    "A Dog, running!  At 5 o'clock…\n(Ünïcode e\u0301, 中文, 🐕)",
    "word " * 40,
    "many more words than are read " * 80,
    "<|endoftext|> [SEP] </s> <unk>",
)


def keep_text_network(encoder: Encoder, begins: Callable[[], None] = lambda: None) -> bool:
    """Keep the text tower of an encoder, so that its texts are encoded without PyTorch from now on.

    Made into ONNX by tracing, and compared with PyTorch: the tokens of difficult texts, their vectors alone and
    together. Where anything differs, that is noted, and the tower is not tried again.

    Args:
        encoder: One with a text tower that reads the tokens of a fast tokenizer of transformers.
        begins: Called before work that takes seconds.

    Returns:
        Whether the tower is kept now; False also where it was before.
    """
    tower = _text_tower(encoder)
    if tower is None or not all(map(is_installed, PACKAGES)) or encoder.card.weights is None:
        return False
    if is_decided(encoder.card):
        return False
    begins()
    store, key = ContentStore(TEXT_NETWORKS), key_of(encoder.card)
    try:
        waiting = "another process keeps the same text tower; waiting for it"
        with store.writing(key, waiting=waiting, resume=False) as change:
            if change.manifest.generation:
                return False
            change.content = _made(tower, encoder, change)
            if change.content["refused"]:
                change.keep_only()
            return not change.content["refused"]
    except (OSError, MemoryError, VisirError) as fault:
        reason = fault.message if isinstance(fault, VisirError) else f"{store.path(key)}: {fault or 'no memory left'}"
        warnings.warn(f"{encoder.card.name}: its text tower is not kept: {reason}", stacklevel=2)
        return False


def _text_tower(encoder: Encoder) -> Any:
    """The tower, where it is of a kind that can be kept: on the CPU in float32, as it is compared with its network."""
    from visir.encoders.models.pretrained_towers import PretrainedTowersEncoder
    from visir.encoders.models.token_tower import TokenTower

    if not isinstance(encoder, PretrainedTowersEncoder) or "text" not in encoder.modalities:
        return None
    if encoder.cross_encoder is not None or encoder.card.dtype != "float32":
        return None
    tower = encoder.pretrained_tower("text")
    if any(weights.device.type != "cpu" for weights in tower.network.parameters()):
        return None
    kind = getattr(tower, "kind", None)
    if not isinstance(tower, TokenTower) or (kind is not None and kind.is_foreign):
        return None  # code that comes with a model runs by its user's word alone, also where it could be left out
    return tower if tower.tokens.fast_tokenizer() is not None else None


def _made(tower: Any, encoder: Encoder, change: FolderChange) -> dict[str, Any]:
    """Write the files of a tower; what is known of it, or why it is refused."""
    rules = TextRules(outputs=tower.outputs, **tower.tokens.rules())
    change.write(TOKENIZER, tower.tokens.fast_tokenizer().to_str().encode())
    try:
        _export(tower, rules, change)
        network = TextNetwork(change.folder, encoder.card, rules)
        expected = [ids.tolist() for ids in tower.prepare(_TEXTS)]
        if network.token_ids(_TEXTS) != expected:
            return {"refused": "the library tokenizers gives other tokens than transformers"}
        groups = [_TEXTS, *([text] for text in _TEXTS), _TEXTS[:2]]
        difference = np.max(
            [difference_of(network.embed_texts(texts), np.asarray(encoder.embed_texts(texts))) for texts in groups]
        )
    except (OSError, MemoryError):  # says nothing about the network: another time there may be room
        raise
    except Exception as fault:  # whatever another library raises over a network that it does not know
        return {"refused": str(fault).strip().splitlines()[-1] if str(fault).strip() else type(fault).__name__}
    if not difference <= LARGEST_DIFFERENCE:
        return {"refused": f"other vectors than PyTorch: 1 - cosine is {difference:.1e}"}
    return facts_of(rules, np.asarray(encoder.embed_texts([PROBE]))[0])


def _export(tower: Any, rules: TextRules, change: FolderChange) -> None:
    """Write the network, its weights beside it, so that they are mapped into memory and not read."""
    import onnxruntime
    import torch

    from visir.encoders.models.compiled import positional, tensors
    from visir.encoders.models.forward import inference

    weights = sum(tensor.nbytes for tensor in tower.network.parameters())
    if shutil.disk_usage(change.folder).free < 2.2 * weights:  # of two files at once; they fail in many ways
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(change.folder))
    inputs = tower.collate(tower.prepare(_TEXTS[:3]))
    traced = change.file("traced.onnx", counts=False, fresh=True)
    with inference(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # dynamo=False: the newer exporter needs a further package (onnxscript), and gives the same network.
        torch.onnx.export(
            positional(tower.network.eval(), rules.inputs),
            tuple(tensors({name: inputs[name] for name in rules.inputs})),
            str(traced),
            input_names=list(rules.inputs),
            output_names=["vectors"],
            dynamic_axes={name: {0: "texts", 1: "tokens"} for name in rules.inputs},
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
