"""The one tower of a sentence-transformers model: its tokenizer and its modules, for tuning."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from safetensors.torch import save
from torch import Tensor, nn

from visir.encoders.models.hub import (
    SAFETENSORS,
    SMALL_FILES,
    TORCH_BIN,
    loading,
    no_progress_bar,
    read_small_files,
)
from visir.encoders.models.sentence_inputs import as_texts
from visir.encoders.models.text_inputs import TextInputs, TokenRules
from visir.encoders.models.tokens import inputs_of_tokenizer, pad, token_counts, vocabulary_hash
from visir.encoders.towers.base import Inputs
from visir.encoders.towers.pretrained_backbone import (
    PretrainedBackbone,
    part,
    random_weights,
    recompute_activations,
)
from visir.encoders.truncation import TextLimit
from visir.errors import EncoderError
from visir.files import read_json
from visir.records import Modality, Role
from visir.storage import Scratch

MODULES_FILE = "modules.json"
UNLIMITED = 10**9
"""From here on a number of tokens is no limit: transformers writes 10**30 for a tokenizer without one."""


class SentenceTower(PretrainedBackbone):
    """Texts through a `SentenceTransformer` that begins with a transformer; dropout is on in training."""

    # A model that ends in a normalisation gives unit vectors here too.

    family: ClassVar[str] = "sentence-transformers"
    modality: Modality = "text"
    network: _SentenceNetwork

    def __init__(self, model: Any, folder: Path, *, outputs: int, template: str, max_length: int | None) -> None:
        super().__init__()
        self.folder, self.outputs = folder, outputs
        self._template, self._max_length, self._lock = template, max_length, threading.Lock()
        # A BERT here has a pooler that the library's own pooling takes no notice of.
        self.network = _SentenceNetwork(part(model, without=("0.*.pooler",)), outputs)
        tried = self._tokenise(["a"])
        if not {"input_ids", "attention_mask"} <= set(tried) or bool(
            np.any(np.asarray(tried.get("token_type_ids", 0)))
        ):
            raise EncoderError(
                f"{folder}: this sentence encoder begins with a {type(model[0]).__name__} and cannot be tuned; "
                "those that begin with a transformer can.",
                hint='tower = "frozen" trains a head over it',
                code="sentence-encoder-begins-cannot",
            )
        self.network.constant = {name: value for name, value in tried.items() if not isinstance(value, Tensor)}

    def prepare_all(self, items: Sequence[Any]) -> list[Any]:
        """int32 token ids of each text: prompt and template included, cut, not padded."""
        encoded = self._tokenise(items)
        masks = encoded["attention_mask"].numpy().astype(bool)
        return [ids[mask].astype(np.int32) for ids, mask in zip(encoded["input_ids"].numpy(), masks, strict=True)]

    def text_limit(self) -> TextLimit | None:
        """How many tokens are read, those of prompt and template counted."""
        model = self.network.model
        return sentence_limit(model, default_prompt(model), self._template, self._lock)

    def collate(self, prepared: Sequence[Any]) -> Inputs:
        """ "input_ids" and "attention_mask", padded to the longest."""
        tokenizer = self.network.model.tokenizer
        return pad(prepared, token=int(tokenizer.pad_token_id), side=tokenizer.padding_side)

    def text_inputs(self) -> TextInputs | None:
        """As the tokenizer, under the prompt of every text."""
        model = self.network.model
        return sentence_inputs_of(model, default_prompt(model), self._template, ("input_ids", "attention_mask"))

    def preprocessing(self) -> dict[str, Any]:
        """The tokenizer's settings, and the names of the modules."""
        return sentence_values(self.network.model, self._template, default_prompt(self.network.model))

    def options(self) -> dict[str, Any]:
        """Width, template and limit."""
        return {"outputs": self.outputs, "template": self._template, "max_length": self._max_length}

    def files(self) -> dict[str, bytes]:
        """All of the model's folder but the weights of the transformer; modules after it need theirs to be built."""
        first = Path(read_json(self.folder / MODULES_FILE)[0].get("path", ""))
        contents = read_small_files(self.folder, [*SMALL_FILES, *(f"*/{name}" for name in SMALL_FILES)])
        weights = read_small_files(self.folder, [f"*/{SAFETENSORS}", f"*/{TORCH_BIN}"])
        return contents | {name: content for name, content in weights.items() if Path(name).parent != first}

    def base_module(self) -> nn.Module:
        """The transformer, on which the library itself puts adapters."""
        transformer: nn.Module = self.network.model[0].auto_model
        return transformer

    def checkpoint_gradients(self) -> None:
        """Compute the transformer's activations again."""
        recompute_activations(self.network.model[0].auto_model, "this sentence encoder")

    def _tokenise(self, texts: Sequence[str]) -> dict[str, Any]:
        model = self.network.model
        with self._lock:  # a fast tokenizer changes its padding state in place
            filled = as_texts([self._template.replace("{}", text) for text in texts], model)
            encoded: dict[str, Any] = model.preprocess(filled, prompt=default_prompt(model) or None)
        return encoded


class _SentenceNetwork(nn.Module):
    """All modules, one after the other. `constant`: what the tokenizer adds that is no tensor."""

    constant: Mapping[str, Any]

    def __init__(self, model: Any, outputs: int) -> None:
        super().__init__()
        self.model: Any = model
        self._outputs = outputs

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        # The width is smaller than the last module's in a model that is saved to be truncated (Matryoshka).
        vectors: Tensor = self.model({**inputs, **self.constant})["sentence_embedding"][:, : self._outputs]
        return vectors


def default_prompt(model: Any) -> str:
    """What the library puts before every text unless told otherwise; often nothing."""
    return str(model.prompts.get(model.default_prompt_name) or "") if model.default_prompt_name else ""


_ROLE_NAMES: dict[Role, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""What models call the prompt of a role, as `encode_query` and `encode_document` of the library look for it."""


def role_prompts(model: Any) -> dict[Role, str]:
    """What stands before a query, and before a document: the model's prompt of this role, or its default prompt."""
    # The library's `encode_query` and `encode_document` take an empty prompt of a role as it is. Here, and in
    # `SentenceTransformer.encode`, a model with a default prompt uses that one, and "passage" is looked for where the
    # prompt named "document" is empty: the library adds that name, empty, to models that were saved without it.
    default = default_prompt(model)
    return {
        role: next((prompt for name in names if (prompt := str(model.prompts.get(name) or ""))), default)
        for role, names in _ROLE_NAMES.items()
    }


def sentence_values(model: Any, template: str, prompt: str | Mapping[str, str]) -> dict[str, Any]:
    """Everything between a text and the first module, as plain values for the card."""
    tokenizer = model.tokenizer
    return {
        "modules": [type(module).__name__ for module in model],
        "tokenizer": type(tokenizer).__name__.removesuffix("Fast"),
        "vocabulary": vocabulary_hash(tokenizer),
        "template": template,
        "prompt": prompt,
        "max_length": limit_of(model),
        "padding": "longest",
    }


def sentence_inputs_of(model: Any, prompt: str, template: str, names: tuple[str, ...]) -> TextInputs | None:
    """What the model's first module takes of texts, without the library; None where that cannot be told."""
    tokenizer = model.tokenizer
    if not hasattr(tokenizer, "pad_token_id") or not {*names} <= {"input_ids", "attention_mask", "token_type_ids"}:
        return None
    if "{}" in prompt or tokenizer.pad_token_id is None:
        return None
    rules = TokenRules(
        names=names,
        limit=limit_of(model),
        padded=False,
        side=tokenizer.padding_side,
        padding=int(tokenizer.pad_token_id),
        template=prompt + template,
    )
    return inputs_of_tokenizer(tokenizer, rules)


def sentence_limit(model: Any, prompt: str, template: str, lock: threading.Lock) -> TextLimit | None:
    """How many tokens the model reads, those of prompt and template counted; None where it reads all."""
    limit, tokenizer = limit_of(model), model.tokenizer
    if limit is None:
        return None

    def count(texts: Sequence[str]) -> list[int]:
        filled = [prompt + template.replace("{}", text) for text in texts]
        with lock:  # a fast tokenizer changes its state in place
            # Word vectors come with a tokenizer of the library's own, which puts no end tokens.
            own = not callable(tokenizer)
            return [len(tokenizer.tokenize(text)) for text in filled] if own else token_counts(tokenizer, filled)

    return TextLimit(limit, count)


def limit_of(model: Any) -> int | None:
    """Tokens a text may have; None where all of it is read: bags of word vectors, tokenizers without a limit."""
    limit = model.max_seq_length
    return None if limit is None or limit >= UNLIMITED else int(limit)


def load_tower(folder: Path, modality: Modality, spec: Mapping[str, Any]) -> PretrainedBackbone:
    """The text tower with random weights, from the `files` of a tower that lie in `folder`."""
    from sentence_transformers import SentenceTransformer

    del modality
    with loading(str(folder), folder), Scratch.temporary("model") as scratch, random_weights(), no_progress_bar():
        # The library builds a transformer only by reading its weights: a file that holds none leaves them random.
        files = read_small_files(folder, ["**/*"])
        first = json.loads(files[MODULES_FILE])[0].get("path", "")
        files[f"{first}/model.safetensors".lstrip("/")] = save({}, metadata={"format": "pt"})
        for name, content in files.items():
            scratch.file(f"files/{name}").write_bytes(content)
        model = SentenceTransformer(str(scratch.path / "files"), device="cpu", local_files_only=True)
    if spec["max_length"] is not None:
        model.max_seq_length = spec["max_length"]
    return SentenceTower(
        model, folder, outputs=int(spec["outputs"]), template=spec["template"], max_length=spec["max_length"]
    )
