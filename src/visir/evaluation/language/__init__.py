"""Language models that say how likely a text is: what a blind system knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import fsum, log
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from visir.collections import open_source
from visir.encoders.models.hub import untrusted
from visir.encoders.models.small import words
from visir.errors import ConfigurationError, require
from visir.records import Collection

__all__ = ["LanguageModel", "NgramModel", "language_model"]

_BEGIN, _END, _UNKNOWN = "<s>", "</s>", "<unk>"


class NgramModel:
    """Trigrams with interpolated Kneser–Ney smoothing (Kneser & Ney 1995; Chen & Goodman 1999, section 4.1.6).

    Words are those of `bow`: lower case, without punctuation. A word that was seen once in training, or never, is
    unknown.

    Args:
        texts: (n,) the texts to learn from.
        name: The name in tables.

    Example:
        >>> model = NgramModel.fit(["a red boat", "a red car", "a blue car", "the red car"])
        >>> likely, unlikely = model.log_likelihoods(["a red car", "car red a"])
        >>> bool(likely > unlikely)
        True
    """

    def __init__(self, texts: Iterable[Sequence[str]], name: str) -> None:
        self.name = name
        sentences = [list(sentence) for sentence in texts]
        counts = Counter(word for sentence in sentences for word in sentence)
        self.vocabulary = frozenset(word for word, count in counts.items() if count > 1) | {_END, _UNKNOWN}
        if len(self.vocabulary) == 2:
            raise ConfigurationError("no word occurs twice in the texts.", hint="a language model needs many texts")
        self._trigrams: Counter[tuple[str, str, str]] = Counter()
        for sentence in sentences:
            known = self._known(sentence)
            self._trigrams.update(zip(known, known[1:], known[2:], strict=False))
        # Lower orders count in how many contexts a word occurs, not how often.
        self._bigrams = Counter((second, third) for _, second, third in self._trigrams)
        self._unigrams = Counter(second for _, second in self._bigrams)
        self._orders = [_Order(self._trigrams), _Order(self._bigrams)]
        self._total = sum(self._unigrams.values())
        self._discount = _discount(self._unigrams.values())

    @classmethod
    def fit(cls, texts: Iterable[str], *, name: str = "3-grams") -> NgramModel:
        """Learn from texts.

        Args:
            texts: The texts.
            name: The name in tables.

        Raises:
            ConfigurationError: No word occurs twice.
        """
        return cls((words(text) for text in texts), name)

    def log_likelihoods(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """(n,) the mean logarithm of the probability of a word of each text, its end included."""
        values = []
        for text in texts:
            known = self._known(words(text))
            logs = [log(self.probability(*place)) for place in zip(known, known[1:], known[2:], strict=False)]
            values.append(fsum(logs) / len(logs))
        return np.array(values)

    def probability(self, first: str, second: str, word: str) -> float:
        """The probability of a word after two others; all three are in the vocabulary."""
        share = max(self._unigrams[word] - self._discount, 0.0) / self._total
        below = share + self._discount * len(self._unigrams) / self._total / len(self.vocabulary)
        below = self._orders[1].probability((second,), word, below)
        return self._orders[0].probability((first, second), word, below)

    def _known(self, sentence: Iterable[str]) -> list[str]:
        known = [word if word in self.vocabulary else _UNKNOWN for word in sentence]
        return [_BEGIN, _BEGIN, *known, _END]


class _Order:
    """The counts of one order, by context."""

    def __init__(self, counts: Mapping[Any, int]) -> None:
        self.counts: dict[tuple[str, ...], int] = dict(counts)
        self.totals: Counter[tuple[str, ...]] = Counter()
        self.followers: Counter[tuple[str, ...]] = Counter()
        for ngram, count in self.counts.items():
            self.totals[ngram[:-1]] += count
            self.followers[ngram[:-1]] += 1
        self.discount = _discount(self.counts.values())

    def probability(self, context: tuple[str, ...], word: str, below: float) -> float:
        total = self.totals.get(context, 0)
        if not total:
            return below
        share = max(self.counts.get((*context, word), 0) - self.discount, 0.0) / total
        return share + self.discount * self.followers[context] / total * below


def _discount(counts: Iterable[int]) -> float:
    """Ney, Essen & Kneser's estimate: n1 / (n1 + 2 n2), of the n-grams that were seen once and twice."""
    seen = Counter(counts)
    return seen[1] / (seen[1] + 2 * seen[2]) if seen[1] else 0.5


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
