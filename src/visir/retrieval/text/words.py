"""A text becomes words, a word the term under which it is compared, and a query the plan of what is looked up."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import ConfigurationError, nearest, raise_faults, require
from visir.jit import pays, plain
from visir.records import Embeddings, Items
from visir.retrieval.bm25 import singular
from visir.retrieval.text import kernels

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.encoders.store import Store


OWN = ("plural", "none")
"""Ways to make terms that need no package."""
STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "  # noqa: SIM905
    "to was will with".split()
)
"""The 33 English stop words of Lucene."""
_WORD = re.compile(r"[^\W_]+")
_POSSESSIVE = re.compile(r"['\u2019]s\b")
_IDEOGRAPHS = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{2,}")
"""Scripts that put no space between words."""


def words_of(text: str) -> list[str]:
    """Return the words of a text: runs of letters and digits, in lower case (NFKC, casefold)."""
    # The English possessive 's is removed. Chinese characters and Japanese kana become overlapping pairs, because these
    # scripts do not separate words. A change of this function needs a new version of `TEXT_INDEX`: saved indexes hold
    # what it returned.
    if text.isascii():
        text = text.lower()
    else:
        text = unicodedata.normalize("NFKC", text).casefold()
        text = _IDEOGRAPHS.sub(_pairs, text)
    if "'" in text or "\u2019" in text:
        text = _POSSESSIVE.sub("", text)
    return _WORD.findall(text)


def _pairs(match: re.Match[str]) -> str:
    characters = match.group()
    return " " + " ".join(characters[at : at + 2] for at in range(len(characters) - 1)) + " "


def without_accents(word: str) -> str:
    """Return a word without the marks on its letters: "crème" and "creme" are one term."""
    if word.isascii():
        return word
    letters = unicodedata.normalize("NFD", word)
    return unicodedata.normalize("NFC", "".join(letter for letter in letters if not unicodedata.combining(letter)))


@dataclass(frozen=True)
class Language:
    """How words become terms. Words with the same term match each other."""

    # "plural" removes English plural endings (`visir.retrieval.bm25.singular`); "none" compares words as they are; the
    # name of a Snowball stemmer ("english", "german", "french", …) needs the package snowballstemmer.
    name: str = "plural"

    def __post_init__(self) -> None:
        self._stem()

    def terms(self, words: Iterable[str]) -> list[str]:
        """Return the term of each word."""
        stem = self._stem()
        return [without_accents(stem(word)) for word in words]

    @property
    def stop_words(self) -> frozenset[str]:
        """Words that are left out of a query when other words remain; English only."""
        return STOP_WORDS if self.name in ("plural", "english", "porter") else frozenset()

    def _stem(self) -> Callable[[str], str]:
        if self.name == "plural":
            return singular
        if self.name == "none":
            return str
        require("snowballstemmer", extra="products", purpose="stemming by language (plural and none need no package)")
        import snowballstemmer as snowball

        if self.name not in snowball.algorithms():
            known = (*OWN, *snowball.algorithms())
            raise ConfigurationError(
                f"unknown language {self.name!r}", hint=nearest(self.name, known), code="unknown-language"
            )
        stem: Callable[[str], str] = snowball.stemmer(self.name).stemWord
        return stem


# Synonyms from a file: words and phrases that mean the same.

Phrase = tuple[str, ...]
"""The words of a synonym, in order."""

MOST_PAIRS = 2_000_000
"""Pairs of phrases that rules may make: some 300 MB. A rule of n phrases makes n² of them, and a short file from
somebody else would fill the memory; 100,000 rules of three words make 900,000."""


@dataclass(frozen=True)
class Synonyms:
    """What else a word or a phrase of a query may match."""

    # The format is that of Solr and Elasticsearch (`synonyms.txt`), one rule a line:
    # - `sofa, couch, settee`: a query with one matches all.
    # - `tee => t shirt`: a query with the left side is searched with the right side instead.
    # - Empty lines and lines that start with # are left out.

    same: dict[Phrase, tuple[Phrase, ...]] = field(default_factory=dict)  # from a phrase to those that mean the same
    instead: dict[Phrase, tuple[Phrase, ...]] = field(default_factory=dict)  # from a phrase to those that replace it
    _by_language: dict[str, Synonyms] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def read(cls, path: str | Path) -> Synonyms:
        """Read a file of rules, in UTF-8."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except OSError as fault:
            raise ConfigurationError(
                f"{path}: cannot be read ({fault.strerror}).", hint="check the path", code="cannot-read"
            ) from None
        except UnicodeDecodeError as fault:
            raise ConfigurationError(
                f"{path}: is not UTF-8 (byte {fault.start:,}).", hint="save it as UTF-8", code="not-utf-8-byte"
            ) from None
        return cls.of(text.splitlines(), str(path))

    @classmethod
    def of(cls, lines: Iterable[str], name: str = "synonyms") -> Synonyms:
        """Read rules."""
        same: dict[Phrase, dict[Phrase, None]] = {}
        instead: dict[Phrase, dict[Phrase, None]] = {}
        faults = []
        pairs = 0
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            left, arrow, right = line.partition("=>")
            given = [left, right] if arrow else [left]
            sides = [[tuple(words_of(part)) for part in side.split(",")] for side in given]
            pairs += len(sides[0]) * len(sides[-1])
            if pairs > MOST_PAIRS:
                raise ConfigurationError(
                    f"{name}: line {number}: its rules up to this one make more than {MOST_PAIRS:,} pairs of words.",
                    hint="a rule of n words makes n × n pairs: leave words out of the longest rules",
                    code="line-rules-up-one",
                )
            if "=>" in right:
                faults.append(f"line {number}: more than one =>: {line.strip()!r}")
            elif any(() in side for side in sides):
                faults.append(f"line {number}: a word is missing: {line.strip()!r}")
            elif arrow:
                for phrase in sides[0]:
                    instead.setdefault(phrase, {}).update(dict.fromkeys(sides[1]))
            elif len(set(sides[0])) < 2:
                faults.append(f"line {number}: one word alone has no synonym: {line.strip()!r}")
            else:
                for phrase in sides[0]:
                    same.setdefault(phrase, {}).update(dict.fromkeys(other for other in sides[0] if other != phrase))
        raise_faults(
            ConfigurationError, name, faults, hint="a rule is `sofa, couch` or `tee => t shirt`, one on each line"
        )
        return cls(*({phrase: tuple(others) for phrase, others in rules.items()} for rules in (same, instead)))

    def under(self, language: Language) -> Synonyms:
        """Return the rules for queries of terms: "sofas" is then "sofa". The right sides remain words."""
        if language.name in self._by_language:
            return self._by_language[language.name]
        joined: list[dict[Phrase, dict[Phrase, None]]] = [{}, {}]
        for rules, terms in zip((self.same, self.instead), joined, strict=True):
            for phrase, others in rules.items():
                terms.setdefault(tuple(language.terms(phrase)), {}).update(dict.fromkeys(others))
        under = Synonyms(*({phrase: tuple(others) for phrase, others in rules.items()} for rules in joined))
        return self._by_language.setdefault(language.name, under)

    @cached_property
    def _longest(self) -> int:
        """Words of the longest phrase that a rule names."""
        return max(map(len, (*self.same, *self.instead)), default=0)

    def matches(self, terms: Phrase) -> Iterator[tuple[int, int, bool, tuple[Phrase, ...]]]:
        """Yield the rules that fit somewhere in a query: first word, number of words, is it `=>`, the other phrases."""
        for at in range(len(terms)):
            for length in range(1, min(self._longest, len(terms) - at) + 1):
                phrase = terms[at : at + length]
                for rules, is_instead in ((self.instead, True), (self.same, False)):
                    if phrase in rules:
                        yield at, length, is_instead, rules[phrase]


# Words near a misspelt word: by edit distance against the words of an index, and by splitting.

MUCH_MORE = 50
"""A word that some documents have is corrected only to one that this many times more have."""


class Spelling:
    """Finds known words for an unknown one."""

    # The largest edit distance depends on the length of the word: 0 up to 2 letters, 1 up to 5, 2 from 6 on (as the
    # fuzziness "AUTO" of Lucene). Words with digits are not corrected: they are sizes and model numbers.

    def __init__(self, words: Sequence[str], frequencies: NDArray[np.int64]) -> None:
        self.words = words
        self.frequencies = frequencies

    @cached_property
    def _packed(self) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.uint64]]:
        """The letters of all words one after another, where each word starts, and its set of letters as bits."""
        lengths = np.fromiter((len(word) for word in self.words), np.int64, len(self.words))
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        codes = _codes("".join(self.words))
        marks = np.bitwise_or.reduceat(_marks(codes), offsets[:-1]) if len(self.words) else np.zeros(0, np.uint64)
        return codes, offsets, marks

    def nearest(self, word: str, *, at_least: int = 1) -> tuple[str, ...]:
        """Return the known word that is meant, or the two known words into which it splits; () for none."""
        # The order of preference: the smaller edit distance, the same first letter, more documents. A split comes after
        # distance 1 and before distance 2.
        if len(word) < 3 or any(letter.isdigit() for letter in word):
            return ()
        codes = _codes(word)
        most = 1 if len(word) <= 5 else 2
        mark = np.bitwise_or.reduce(_marks(codes))
        compiled = pays(64 * len(self.words), kernels.near)
        near: Any = kernels.near if compiled else kernels.near_in_numpy
        numbers, distances = near(plain(codes), mark, *map(plain, self._packed), most)
        usable = (self.frequencies[numbers] >= at_least) & (distances > 0)
        numbers, distances = numbers[usable], distances[usable]
        usable = np.array([not any(map(str.isdigit, self.words[number])) for number in numbers], dtype=np.bool_)
        numbers, distances = numbers[usable], distances[usable]
        halves = self._split(word, at_least)
        if halves and not (distances == 1).any():
            return halves
        if not len(numbers):
            return ()
        other = np.array([self.words[number][0] != word[0] for number in numbers])
        best = np.lexsort((numbers, -self.frequencies[numbers], other, distances))[0]
        return (self.words[numbers[best]],)

    def _split(self, word: str, at_least: int) -> tuple[str, ...]:
        """Two known words of three letters or more; those of which the rarer is in most documents."""
        best: tuple[str, ...] = ()
        most = at_least - 1
        for at in range(3, len(word) - 2):
            halves = (word[:at], word[at:])
            numbers = [bisect_left(self.words, half) for half in halves]
            is_known = all(number < len(self.words) and self.words[number] == half
                           for number, half in zip(numbers, halves, strict=True))  # fmt: skip
            rarer = min(int(self.frequencies[number]) for number in numbers) if is_known else 0
            if rarer > most:
                best, most = halves, rarer
        return best


def _codes(text: str) -> NDArray[np.uint32]:
    """The characters as numbers."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _marks(codes: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """A bit for each character; different characters may share one."""
    marks: NDArray[np.uint64] = np.left_shift(np.uint64(1), codes.astype(np.uint64) % np.uint64(64))
    return marks


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
