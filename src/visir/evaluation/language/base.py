"""What a language model does here, and which one a name means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from visir.collections import open_source
from visir.errors import ConfigurationError
from visir.evaluation.language.causal import CausalModel
from visir.evaluation.language.ngrams import NgramModel
from visir.records import Collection


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
