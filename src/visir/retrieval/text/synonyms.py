"""Synonyms from a file: words and phrases that mean the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from visir.errors import ConfigurationError, raise_faults
from visir.retrieval.text.words import Language, words_of

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
            sides = [_phrases(side) for side in ([left, right] if arrow else [left])]
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


def _phrases(side: str) -> list[Phrase]:
    return [tuple(words_of(part)) for part in side.split(",")]
