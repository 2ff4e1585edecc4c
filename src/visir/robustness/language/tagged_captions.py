"""Captions cut into words, with part of speech and lemma: what every linguistic step works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.errors import require


@dataclass(frozen=True, slots=True)
class TaggedCaption:
    """One caption, cut into tokens."""

    # Token i is `text[starts[i] : ends[i]]`. Tokens never overlap and stand in order; what lies between them is white
    # space. So nothing is lost: who changes a token keeps everything around it by writing only between `starts[i]` and
    # `ends[i]`.

    text: str  # the caption
    starts: Sequence[int]  # (m,) where each token begins, in characters
    ends: Sequence[int]  # (m,) where it ends
    tags: Sequence[str]  # (m,) its part of speech
    lemmas: Sequence[str]  # (m,) its lemma

    def tokens(self) -> list[str]:
        """The tokens as they are written."""
        return [self.text[a:b] for a, b in zip(self.starts, self.ends, strict=True)]


@dataclass(frozen=True, eq=False)
class TaggedCaptions:
    """Many captions, cut into tokens, in columns."""

    texts: pa.StringArray  # (n,) the captions
    # (n + 1,) int64; the tokens of caption i are those from `offsets[i]` to `offsets[i + 1]`.
    offsets: NDArray[np.int64]
    starts: NDArray[np.int32]  # (m,) int32, where each token begins, in characters of its caption
    ends: NDArray[np.int32]  # (m,) int32, where it ends
    tags: pa.DictionaryArray  # (m,) its part of speech, dictionary-encoded
    lemmas: pa.DictionaryArray  # (m,) its lemma, dictionary-encoded

    def __len__(self) -> int:
        return len(self.texts)

    def sentences(self) -> list[TaggedCaption]:
        """All of them as plain Python values, which loops over words are fastest on."""
        starts, ends = self.starts.tolist(), self.ends.tolist()
        tags, lemmas = _plain(self.tags), _plain(self.lemmas)
        edges = self.offsets.tolist()
        return [
            TaggedCaption(text, starts[a:b], ends[a:b], tags[a:b], lemmas[a:b])
            for text, a, b in zip(self.texts.to_pylist(), edges[:-1], edges[1:], strict=True)
        ]

    def take(self, rows: NDArray[np.integer[Any]]) -> TaggedCaptions:
        """Those captions only, in this order; one may come several times."""
        counts = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        tokens = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][rows] - offsets[:-1], counts)
        return TaggedCaptions(
            self.texts.take(pa.array(rows)),
            offsets,
            self.starts[tokens],
            self.ends[tokens],
            self.tags.take(pa.array(tokens)),
            self.lemmas.take(pa.array(tokens)),
        )


def _plain(column: pa.DictionaryArray) -> list[str]:
    """The strings; each distinct one is the same object wherever it stands. (`to_pylist` is thirty times slower.)"""
    values: list[str] = np.array([*column.dictionary.to_pylist(), None], object)[column.indices.to_numpy()].tolist()
    return values


# A lemma put in the form of the word it replaces: "hound" for "Dogs" becomes "Hounds".

_FORMS = {"NN2": "NNS", "AJC": "JJR", "AJS": "JJS", "VVD": "VBD", "VVG": "VBG", "VVN": "VBN", "VVZ": "VBZ"}
"""The tags whose words are inflected, in Penn's names, which lemminflect goes by."""

_PERIPHRASIS = {"JJR": "more", "JJS": "most"}


def inflect_like(lemma: str, example: str, tag: str) -> str:
    """A lemma in the form of another word, and with its capitals."""
    # Plurals (NN2), comparatives and superlatives (AJC, AJS; "more red-haired" where there is no form of one word) and
    # the forms of verbs; other tags leave the lemma as it is. WordNet's "_" becomes a space; of several words the one
    # that carries the ending is inflected (the last of a noun, but "man of letters": the one before the preposition;
    # the first of a verb). Capitals: "Dog" → "Hound", "DOG" → "HOUND"; otherwise the lemma's own ("Labrador").
    words = lemma.replace("_", " ")
    form = _FORMS.get(tag)
    if form is not None:
        words = _inflected(words, form)
    if len(example) > 1 and example.isupper():
        return words.upper()
    return words[:1].upper() + words[1:] if example[:1].isupper() else words


@lru_cache(1 << 16)
def _inflected(words: str, form: str) -> str:
    require("lemminflect", extra="robustness", purpose="inflecting words")
    from lemminflect import getAllInflections, getInflection

    if not words.strip():  # blanks have no form
        return words
    if form in _PERIPHRASIS:
        inflections = getAllInflections(words, "ADJ").get(form)
        return inflections[0] if inflections else f"{_PERIPHRASIS[form]} {words}"
    parts = words.split(" ")
    position = _head(parts) if form == "NNS" else 0
    if form == "NNS" and _is_plural(parts[position], set(getAllInflections(parts[position]))):
        return words
    inflections = getInflection(parts[position], form) if parts[position] else ()  # of nothing it raises
    if inflections:
        parts[position] = inflections[0]
    return " ".join(parts)


def _is_plural(noun: str, known_forms: set[str]) -> bool:
    """Lemmas of WordNet that are plurals already ("sunglasses"); "glass", "bus", "iris" are not."""
    return "NNS" not in known_forms and noun.endswith("s") and not noun.endswith(("ss", "us", "is"))


def _head(parts: list[str]) -> int:
    """Which word of a noun of several is inflected: the one before a preposition, otherwise the last."""
    prepositions = (i for i, part in enumerate(parts) if i and part in ("of", "in", "at", "for", "to"))
    return next(prepositions, len(parts)) - 1
