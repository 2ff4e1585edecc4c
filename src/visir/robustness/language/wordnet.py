"""WordNet 3.0: which words mean the same, and what is a kind of what."""

from __future__ import annotations

import io
import lzma
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Pos = Literal["n", "v", "a", "r"]
"""Noun, verb, adjective, adverb, as WordNet's index files tell them apart."""

FILE = Path(__file__).parent / "wordnet-3.0.npz.xz"
"""Made from WordNet's database files by `scripts/build_wordnet.py`; its licence lies beside it."""

_PLACES: dict[str, int] = {"n": 0, "v": 1, "a": 2, "r": 3}

_ENDINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "n": (
        *(("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z")),
        *(("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y")),
    ),
    "v": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}
"""Morphy's "rules of detachment" (WordNet's manual, morphy(7WN)): an ending, and what the base form has instead."""


class WordNet:
    """The net: synsets (sets of lemmas that share a meaning) are numbers from 0 to `len(net)` - 1."""

    # Lemmas are written as WordNet writes them: "New_York", "hot_dog". Nothing here inflects or guesses: whoever has a
    # form of a word asks `morphy` or `base_forms` first. (NLTK's `synsets` does that by itself: what it returns for a
    # word is `[s for base in base_forms(word, pos) for s in synsets(base, pos)]`.)
    # The columns, as `scripts/build_wordnet.py` makes them: `lemmas` (a line of text per synset), `kinds` (a letter per
    # synset), `senses` (which sense, from 0, of its lemma a lemma of a synset is; the index is derived from it),
    # `hypernym_counts` and `hypernyms` (4, n: the bytes of little-endian int32), `exceptions_n` and so on (lines "form
    # base …").

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        text = columns["lemmas"].tobytes().decode()
        counts = np.array([line.count(" ") + 1 for line in text.split("\n")])
        self._lemmas = text.split()
        self._first_lemma = _edges(counts)
        self._kinds = columns["kinds"].tobytes().decode()
        self._hypernym_targets = np.ascontiguousarray(columns["hypernyms"].T).view("<i4").ravel()
        self._hypernyms = self._hypernym_targets.tolist()
        self._first_hypernym = _edges(columns["hypernym_counts"])
        self._exceptions = {
            pos: {line[0]: line[1:] for line in map(str.split, _text(columns[f"exceptions_{pos}"]).split("\n")) if line}
            for pos in _ENDINGS
        }
        # The index: senses grouped by lemma (in lower case) and part of speech. A synset may hold a lemma twice
        # ("Ca", "CA"): it is listed once.
        self._numbers: dict[str, int] = {}
        numbers = [self._numbers.setdefault(lemma, len(self._numbers)) for lemma in text.lower().split()]
        pos_of_synset = np.array([_PLACES.get(kind, 2) for kind in self._kinds])  # "s", satellites, are adjectives
        synsets = np.repeat(np.arange(len(counts)), counts)
        keys = np.array(numbers) * 4 + pos_of_synset[synsets]
        order = np.lexsort((columns["senses"], keys))
        keys, synsets = keys[order], synsets[order]
        new = np.concatenate([[True], (keys[1:] != keys[:-1]) | (synsets[1:] != synsets[:-1])])
        self._senses: list[int] = synsets[new].tolist()
        self._first_sense = _edges(np.bincount(keys[new], minlength=4 * len(self._numbers)))
        self._depths = _depths(self._hypernym_targets, np.array(self._first_hypernym))

    def __len__(self) -> int:
        return len(self._kinds)

    def synsets(self, lemma: str, pos: Pos) -> list[int]:
        """The synsets of a lemma, the most frequent sense first; empty when WordNet does not know it."""
        # Case does not matter, and "hot dog" is "hot_dog". "a" means all adjectives, satellites included.
        number = self._numbers.get(lemma.lower().replace(" ", "_"))
        if number is None:
            return []
        entry = number * 4 + _PLACES[pos]
        return self._senses[self._first_sense[entry] : self._first_sense[entry + 1]]

    def lemmas(self, synset: int) -> list[str]:
        """The lemmas of a synset in WordNet's order, with their capitals, "_" for a space."""
        return self._lemmas[self._first_lemma[synset] : self._first_lemma[synset + 1]]

    def hypernyms(self, synset: int) -> list[int]:
        """What it is a kind of ("dog": "canine", "domestic animal") or an instance of ("Paris": "national capital")."""
        return self._hypernyms[self._first_hypernym[synset] : self._first_hypernym[synset + 1]]

    def min_depth(self, synset: int) -> int:
        """How many steps up, by the shortest way, to a synset that has no hypernym; 0 for that one itself."""
        # So 0 for every adjective and adverb, which have no hypernyms. The same number as NLTK's `min_depth`.
        return self._depths[synset]

    def pos_of(self, synset: int) -> Literal["n", "v", "a", "s", "r"]:
        """Its part of speech; "s" is a satellite adjective, near another in meaning ("tiny" around "small")."""
        return self._kinds[synset]  # type: ignore[return-value]

    def morphy(self, form: str, pos: Pos) -> str | None:
        """The base form of an inflected one ("geese": "goose"), the first that WordNet has, or None."""
        # A form that is itself a lemma is its own base form: "lenses" gives "lens", but "glasses" gives "glasses".
        forms = self.base_forms(form, pos)
        return forms[0] if forms else None

    def base_forms(self, form: str, pos: Pos) -> list[str]:
        """All lemmas that a form may be of, itself first if it is one ("axes" as a noun: "ax", "axis"), in lower
        case."""
        # Morphy, WordNet's own: the list of exceptions, otherwise the endings of `_ENDINGS`, applied once.
        form = form.lower().replace(" ", "_")
        candidates = self._exceptions[pos].get(form)
        if candidates is None:
            candidates = [form[: -len(old)] + new for old, new in _ENDINGS[pos] if form.endswith(old)]
        return [candidate for candidate in dict.fromkeys([form, *candidates]) if self._has(candidate, pos)]

    def _has(self, lemma: str, pos: Pos) -> bool:
        number = self._numbers.get(lemma)
        if number is None:
            return False
        entry = number * 4 + _PLACES[pos]
        return self._first_sense[entry] < self._first_sense[entry + 1]


@cache
def wordnet() -> WordNet:
    """The net, read when first asked for (about a quarter of a second) and then kept."""
    with np.load(io.BytesIO(lzma.decompress(FILE.read_bytes())), allow_pickle=False) as columns:
        return WordNet(dict(columns))


def _edges(counts: NDArray[Any]) -> list[int]:
    edges: list[int] = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).tolist()
    return edges


def _depths(targets: NDArray[np.int32], first: NDArray[np.int64]) -> list[int]:
    """Breadth first from the roots: depth d + 1 for whatever has a hypernym of depth d and no depth yet."""
    counts = np.diff(first)
    children = np.repeat(np.arange(len(counts)), counts)
    depths = np.where(counts == 0, 0, -1)
    depth = 0
    while True:
        reached = children[depths[targets] == depth]
        reached = reached[depths[reached] < 0]
        if not len(reached):
            break
        depth += 1
        depths[reached] = depth
    return np.maximum(depths, 0).tolist()  # type: ignore[no-any-return]


def _text(column: NDArray[np.uint8]) -> str:
    return column.tobytes().decode()
