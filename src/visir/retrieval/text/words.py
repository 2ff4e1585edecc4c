"""A text becomes words, and a word becomes the term under which it is compared."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from visir.errors import ConfigurationError, nearest, require
from visir.retrieval.bm25 import singular

OWN = ("plural", "none")
"""Ways to make terms that need no package."""
STOP_WORDS = frozenset(
    (
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "for",
        "if",
        "in",
        "into",
        "is",
        "it",
        "no",
        "not",
        "of",
        "on",
        "or",
        "such",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "will",
        "with",
    )
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
        snowball = _snowball()
        if self.name not in snowball.algorithms():
            known = (*OWN, *snowball.algorithms())
            raise ConfigurationError(
                f"unknown language {self.name!r}", hint=nearest(self.name, known), code="unknown-language"
            )
        stem: Callable[[str], str] = snowball.stemmer(self.name).stemWord
        return stem


def _snowball() -> Any:
    require("snowballstemmer", extra="products", purpose="stemming by language (plural and none need no package)")
    import snowballstemmer

    return snowballstemmer
