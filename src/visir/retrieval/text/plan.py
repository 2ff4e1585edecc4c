"""Synonyms from vectors: the words of an index that a text encoder places near a word of the query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visir.errors import ConfigurationError
from visir.records import Embeddings, Items
from visir.retrieval.text.words import MUCH_MORE, Language, Phrase, Spelling, Synonyms, words_of

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.encoders.store import Store

NEAR = 0.6
"""The smallest cosine of two words that count as near."""
MOST_WORDS = 3


@dataclass(frozen=True, eq=False)
class NearWords:
    """The words of an index as vectors; `near` compares a word of a query with them."""

    encoder: Encoder  # a text encoder
    words: Sequence[str]  # (v,) the words
    vectors: NDArray[np.float32]  # (v, d) their vectors, of length 1
    threshold: float = NEAR  # the smallest cosine

    @classmethod
    def of(
        cls, encoder: Encoder, words: Sequence[str], *, threshold: float = NEAR, store: Store | None = None
    ) -> NearWords:
        """Encode the words; their vectors are kept in the store."""
        from visir.encoders.encoding import encode_items

        if not -1 <= threshold <= 1:
            raise ConfigurationError(
                f"the smallest cosine must be -1 to 1, not {threshold}", code="smallest-cosine-not"
            )
        if "text" not in encoder.modalities:
            raise encoder.cannot("text")
        embeddings = encode_items(encoder, Items.of_texts({word: word for word in words}, title="words"), store=store)
        if not isinstance(embeddings, Embeddings):
            raise ConfigurationError(
                f"{encoder.card.name} makes no single dense vectors.", hint="near words need a dense text encoder"
            )
        rows = embeddings.rows(list(words))
        return cls(encoder, words, _unit(np.asarray(embeddings.vectors)[rows]), threshold)

    def near(self, word: str) -> list[tuple[str, float]]:
        """Return up to three words with their cosines, the nearest first."""
        query = _unit(np.asarray(self.encoder.encode_texts([word], "query"), np.float32))[0]
        cosines = self.vectors @ query
        best = np.lexsort((np.arange(len(cosines)), -cosines))[: MOST_WORDS + 1]
        pairs = [(self.words[row], float(cosines[row])) for row in best if cosines[row] >= self.threshold]
        return [pair for pair in pairs if pair[0] != word][:MOST_WORDS]


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    vectors = vectors.astype(np.float32)
    unit: NDArray[np.float32] = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit


FEW = 2
"""A word in at most this many documents may be a misspelling that the documents share."""


@dataclass(frozen=True)
class Alternative:
    """A phrase that a word of the query may match."""

    # For each word of the phrase the numbers of the words of the index with its term.
    groups: tuple[NDArray[np.int64], ...]
    weight: float = 1.0  # what a match counts, above 0 and at most 1


@dataclass(frozen=True)
class Plan:
    """What is looked up for a query."""

    # For each word of the query its alternatives; none for a word that nothing matches.
    concepts: tuple[tuple[Alternative, ...], ...]
    changes: tuple[str, ...]  # what is searched beside or instead of the words of the query, a sentence each
    corrected: str  # the query with misspelt words replaced, for other systems; as it was typed where none is
    word_count: int = 0  # how many words of the query are looked up, whether anything matches them or not

    def arrays(self) -> tuple[NDArray[np.int64], ...]:
        """Return concepts, alternatives, groups and words by nested offsets, and the weights (see `kernels.score`)."""
        alternatives = [alternative for concept in self.concepts for alternative in concept]
        groups = [group for alternative in alternatives for group in alternative.groups]
        return (
            _offsets([len(concept) for concept in self.concepts]),
            _offsets([len(alternative.groups) for alternative in alternatives]),
            _offsets([len(group) for group in groups]),
            np.concatenate([*groups, np.zeros(0, np.int64)]).astype(np.int64),
            np.array([alternative.weight for alternative in alternatives], np.float64),
        )


@dataclass(frozen=True)
class Lexicon:
    """What an index knows of words."""

    language: Language  # how words become terms
    groups: Mapping[str, list[int]]  # from each term to the numbers of its words
    frequencies: NDArray[np.int64]  # (v,) how many documents have each word
    spelling: Spelling  # finds near words
    words: list[str]  # (v,) the words

    def group(self, word: str) -> NDArray[np.int64]:
        """Return the numbers of the words with the term of this word; none for an unknown word."""
        return np.array(self.groups.get(self.language.terms([word])[0], ()), np.int64)

    def frequency(self, word: str) -> int:
        """Return the number of documents of the most frequent word with the term of this word."""
        group = self.group(word)
        return int(self.frequencies[group].max()) if len(group) else 0

    def alternative(self, phrase: Phrase, weight: float = 1.0) -> Alternative | None:
        """Return what a phrase looks up; None where no document has one of its words."""
        groups = tuple(self.group(word) for word in phrase)
        return Alternative(groups, weight) if all(len(group) for group in groups) else None


@dataclass
class _Word:
    """A word of the query while it is worked on."""

    word: str
    phrases: list[tuple[Phrase, float]]


def plan(
    query: str,
    lexicon: Lexicon,
    *,
    spelling: bool = True,
    synonyms: Synonyms | None = None,
    near_words: NearWords | None = None,
) -> Plan:
    """Work out what is looked up for a query."""
    # spelling: words that no document has are replaced by near ones; and a word of at most two documents is searched
    # together with a near word of at least 50 times as many. synonyms: rules for queries of terms (`Synonyms.under`).
    # near_words: near words by vectors, weighted by their cosine, for words that no document has and no rule names.
    words = words_of(query)
    stop_words = lexicon.language.stop_words
    words = [word for word in words if word not in stop_words] or words
    first: dict[str, str] = {}
    for word, term in zip(words, lexicon.language.terms(words), strict=True):
        first.setdefault(term, word)  # a term that is typed twice counts once
    words = list(first.values())
    entries = [_Word(word, [((word,), 1.0)]) for word in words]
    changes: list[str] = []
    named = set() if synonyms is None else _add_synonyms(entries, lexicon, synonyms, changes)
    corrected: list[_Word] = []
    spelt: dict[str, str] = {}
    for entry in entries:
        is_named = entry.word in named and any(lexicon.alternative(phrase) for phrase, _ in entry.phrases)
        corrected += _correct(entry, lexicon, changes, spelt) if spelling and not is_named else [entry]
    for entry in corrected:
        if near_words is not None and entry.word not in named and not lexicon.frequency(entry.word):
            pairs = near_words.near(entry.word)
            entry.phrases += [((word,), cosine) for word, cosine in pairs]
            listed = ", ".join(f"{word!r} ({cosine:.2f})" for word, cosine in pairs)
            changes += [f"searched for {listed} beside {entry.word!r}: near in vectors"] * bool(pairs)
    concepts = []
    for entry in corrected:
        alternatives = [lexicon.alternative(phrase, weight) for phrase, weight in entry.phrases]
        concepts.append(tuple(alternative for alternative in alternatives if alternative is not None))
    typed = " ".join(spelt.get(word, word) for word in words_of(query)) if spelt else query
    return Plan(tuple(concept for concept in concepts if concept), tuple(changes), typed, len(corrected))


def _add_synonyms(entries: list[_Word], lexicon: Lexicon, synonyms: Synonyms, changes: list[str]) -> set[str]:
    """Add the phrases of the rules to the words that they fit; return the words that a rule names."""
    terms = tuple(lexicon.language.terms([entry.word for entry in entries]))
    named: set[str] = set()
    for first, length, is_instead, phrases in synonyms.matches(terms):
        part = entries[first : first + length]
        typed = " ".join(entry.word for entry in part)
        known = [phrase for phrase in phrases if lexicon.alternative(phrase) is not None]
        if not known:
            continue
        listed = ", ".join(repr(" ".join(phrase)) for phrase in known)
        changes.append(f"searched for {listed} {'instead of' if is_instead else 'beside'} {typed!r}: synonyms")
        named.update(entry.word for entry in part)
        for entry in part:
            own = [] if is_instead else entry.phrases
            entry.phrases = [*own, *((phrase, 1.0) for phrase in known)]
    return named


def _correct(entry: _Word, lexicon: Lexicon, changes: list[str], spelt: dict[str, str]) -> list[_Word]:
    """Replace a word that no document has by near ones; search a rare one together with a much more frequent one."""
    # What is replaced is added to `spelt`.
    frequency = lexicon.frequency(entry.word)
    if frequency > FEW or (frequency and len(entry.word) <= 3):
        return [entry]
    nearest = lexicon.spelling.nearest(entry.word, at_least=max(1, frequency * MUCH_MORE))
    if not nearest or (frequency and len(nearest) > 1):
        return [entry]
    searched = " ".join(nearest)
    if frequency:
        changes.append(f"searched for {searched!r} beside {entry.word!r}, which is rare")
        return [_Word(entry.word, [*entry.phrases, (nearest, 1.0)])]
    changes.append(f"searched for {searched!r} instead of {entry.word!r}")
    spelt[entry.word] = searched
    return [_Word(entry.word, [((word,), 1.0)]) for word in nearest]


def _offsets(lengths: list[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
