"""A text tower kept as an ONNX network with its tokenizer: vectors of texts without PyTorch and without the model.

`text_network_files` makes it. It is found by the card of the model whose vectors are searched, so it is never that of
other weights, whatever now lies where the model was.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.encoders.models.tokens import padded_rows
from visir.errors import is_installed
from visir.fingerprint import hash_json
from visir.records import EncoderCard, Modality
from visir.storage import ContentStore, FolderKind
from visir.threads import cores

TEXT_NETWORKS = FolderKind("text-networks", "a text tower", remedy="delete it: it is made again")
NETWORK, WEIGHTS, TOKENIZER = "network.onnx", "network.bin", "tokenizer.json"
PACKAGES = ("onnxruntime", "tokenizers")
LARGEST_DIFFERENCE = 1e-6
"""1 less the cosine of a vector and that of PyTorch, up to which a network is used."""
PROBE = "two children in red shirts run along the water beside an old wooden boat, 1962"
"""Its vector is kept, and compared when a network is opened: on another processor, or with other packages."""


@dataclass(frozen=True)
class TextRules:
    """What happens to a text before the network, and what comes out.

    Attributes:
        outputs: The length of a vector.
        limit: Texts are cut to so many tokens.
        padded: Whether they are padded to the limit; otherwise to the longest of a batch.
        side: Where they are padded: "right" or "left".
        padding: The token that they are padded with.
        inputs: What the network takes: "input_ids" and "attention_mask", or the first alone.
        template: A text with one `{}` for the place of the text.
        lower: Whether it is lower-cased.
    """

    outputs: int
    limit: int
    padded: bool
    side: str
    padding: int
    inputs: tuple[str, ...]
    template: str
    lower: bool

    def filled(self, texts: Sequence[str]) -> list[str]:
        """The texts as the tokenizer gets them."""
        filled = [self.template.replace("{}", text) for text in texts]
        return [text.lower() for text in filled] if self.lower else filled

    def collated(self, ids: Sequence[Sequence[int]]) -> dict[str, NDArray[np.int64]]:
        """The inputs of the network, each (n, length), from the token ids of each text."""
        length = self.limit if self.padded else None
        padded = padded_rows(ids, token=self.padding, side=self.side, length=length)
        return {name: padded[name] for name in self.inputs}


class TextNetwork(Encoder):
    """The texts of a dual encoder; thread-safe.

    Args:
        folder: Holds the network and its tokenizer.
        card: That of the model.
        rules: What happens to texts.
        threads: Of one product; 0 takes every core.
    """

    modalities: frozenset[Modality] = frozenset({"text"})

    def __init__(self, folder: Path, card: EncoderCard, rules: TextRules, threads: int = 0) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        self.card, self.dimension = replace(card, dtype="float32 (onnxruntime)"), rules.outputs
        self._rules = rules
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(rules.limit)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or cores()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads leave the cores free
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(folder / NETWORK), options, providers=["CPUExecutionProvider"])

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text: cut, not padded."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch(self._rules.filled(texts))]

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimension) projections of n texts."""
        if not len(texts):
            return np.empty((0, self._rules.outputs), np.float32)
        vectors: NDArray[np.float32]
        [vectors] = self._session.run(None, self._rules.collated(self.token_ids(texts)))
        return vectors


def text_network(card: EncoderCard, threads: int = 0) -> TextNetwork | None:
    """The kept text tower of the model with this card; None where there is none, or it cannot be used here."""
    if card.weights is None or not all(map(is_installed, PACKAGES)):
        return None
    store, key = ContentStore(TEXT_NETWORKS), key_of(card)
    manifest = store.find(key, hashed=lambda name: name == TOKENIZER)
    if manifest is None or manifest.content["refused"]:
        return None
    facts, folder = manifest.content, store.path(key)
    try:
        network = TextNetwork(
            folder, card, TextRules(**{**facts["rules"], "inputs": tuple(facts["rules"]["inputs"])}), threads
        )
        difference = float(difference_of(network.embed_texts([PROBE]), np.asarray(facts["probe"])[None]))
    except Exception as fault:  # whatever another library raises over a file that it cannot read
        store.put_aside(key, str(fault).strip().splitlines()[0])
        return None
    if not difference <= LARGEST_DIFFERENCE:
        store.put_aside(key, f"it gives other vectors than when it was made: 1 - cosine is {difference:.1e}")
        return None
    return network


def is_decided(card: EncoderCard) -> bool:
    """Whether the text tower of the model with this card is kept already, or was refused."""
    return ContentStore(TEXT_NETWORKS).find(key_of(card), hashed=lambda name: False) is not None


def key_of(card: EncoderCard) -> str:
    """What the text tower of a model is found by: all that its vectors depend on, but for their rounding."""
    identity = {name: value for name, value in card.identity("text").items() if name != "dtype"}
    return hash_json({"tower": identity, "visir": version("visir")})


def facts_of(rules: TextRules, probe: NDArray[np.float32]) -> dict[str, Any]:
    """What `text_network` reads of a tower that is kept."""
    return {"refused": "", "rules": asdict(rules), "probe": probe.tolist()}


def difference_of(vectors: NDArray[Any], expected: NDArray[Any]) -> float:
    """The largest 1 - cosine between two sets of vectors, row by row; infinite where shapes differ or none is known."""
    if vectors.shape != expected.shape:
        return float("inf")
    first, second = vectors.astype(np.float64), expected.astype(np.float64)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    largest = float(np.max(1 - (first * second).sum(axis=1) / np.maximum(lengths, 1e-30)))
    return float("inf") if np.isnan(largest) else largest


def runs_on_processor(device: str | None) -> bool:
    """Whether texts are for the processor: asked for, or there is no GPU. PyTorch is not imported to find out."""
    return device == "cpu" or (device is None and not os.path.exists("/dev/nvidia0"))  # noqa: PTH110 (quicker)
