"""What a language model does here, and which one a name means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from visir.collections import open_source
from visir.encoders.models.foreign import untrusted
from visir.errors import ConfigurationError, require
from visir.evaluation.language.ngrams import NgramModel
from visir.records import Collection

# Causal language models of transformers: GPT-2 and its like.

_BATCH = 32


class CausalModel:
    """A causal language model and its tokenizer."""

    def __init__(self, name: str, model: Any, tokenizer: Any) -> None:
        self.name, self._model, self._tokenizer = name, model.eval(), tokenizer
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        tokenizer.padding_side = "right"

    @classmethod
    def load(cls, name: str) -> CausalModel:
        """Load a model by its folder or its name on the hub."""
        require("transformers", extra="hf", purpose="a language model")
        import transformers

        try:
            with untrusted(name):
                tokenizer = transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
                model = transformers.AutoModelForCausalLM.from_pretrained(name, trust_remote_code=False)
        except (OSError, ValueError) as fault:
            raise ConfigurationError(
                f"{name}: no language model ({str(fault).splitlines()[0][:200]}).",
                hint="name a causal language model (gpt2), its folder, or a collection of captions",
            ) from fault
        return cls(name, model, tokenizer)

    def log_likelihoods(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """(n,) the mean logarithm of the probability of a token of each text, given those before it."""
        # A token that begins texts is put before the first one, if the model has one.
        import torch

        values: list[float] = []
        begin = self._tokenizer.bos_token or ""
        device = next(self._model.parameters()).device
        for start in range(0, len(texts), _BATCH):
            batch = [begin + text for text in texts[start : start + _BATCH]]
            tokens = self._tokenizer(batch, return_tensors="pt", padding=True, add_special_tokens=not begin).to(device)
            ids, mask = tokens["input_ids"], tokens["attention_mask"]
            with torch.inference_mode():
                logits = self._model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
            logs = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None])[..., 0].double()
            inside = mask[:, 1:].double()
            values += ((logs * inside).sum(1) / inside.sum(1).clamp(min=1)).tolist()
        return np.array(values)


class LanguageModel(Protocol):
    """Anything that says how likely texts are."""

    @property
    def name(self) -> str:
        """The name in tables."""
        ...

    def log_likelihoods(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """(n,) the mean logarithm of the probability of a word (or token) of each text: −ln of the perplexity."""
        ...


def language_model(name: str | Path) -> LanguageModel:
    """The language model of a name.

    Args:
        name: A source of captions, as `visir.open` takes it: an n-gram model of them. Or the folder, or the name on the
            hub, of a causal language model of transformers (GPT-2 and its like).

    Raises:
        ConfigurationError: It is neither.

    Example:
        >>> model = language_model("scenes:50?size=64")
        >>> likely, unlikely = model.log_likelihoods(["there is a red fish", "fish red a is there"])
        >>> bool(likely > unlikely)
        True
    """
    folder = Path(str(name).partition("?")[0])
    if (folder / "config.json").is_file() and not (folder / "captions.parquet").is_file():
        return CausalModel.load(str(name))
    if folder.exists() or ":" in str(name):
        source = open_source(str(name), images="none") if folder.exists() else open_source(str(name))
        if not isinstance(source, Collection) or not len(source.captions):
            raise ConfigurationError(
                f"{name}: no captions, of which a language model could be made.",
                hint="name a collection of images and captions, or a causal language model (gpt2)",
                code="no-captions-language-model",
            )
        return NgramModel.fit(source.captions["text"].to_pylist(), name=f"3-grams of {source.name}")
    return CausalModel.load(str(name))
