"""Captions cut into words, laid out for counting: columns over the tokens of all captions at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.robustness.language.tagged_captions import TaggedCaptions
from visir.robustness.language.tagging import is_noun
from visir.robustness.language.wordnet import Pos, wordnet

Values = NDArray[np.float64]
"""(n,) one value per caption; NaN where the feature is not defined for a caption."""
Mask = NDArray[np.bool_]
"""(m,) which tokens."""


class TokenColumns:
    """Captions in columns with a number for each distinct word, so that each word is looked at once only."""

    def __init__(self, words: TaggedCaptions) -> None:
        self.n = len(words)
        self.texts: list[str] = words.texts.to_pylist()
        self.caption = np.repeat(np.arange(self.n), np.diff(words.offsets))
        edges, starts, ends = words.offsets.tolist(), words.starts.tolist(), words.ends.tolist()
        written = [
            text[a:b]
            for text, low, high in zip(self.texts, edges[:-1], edges[1:], strict=True)
            for a, b in zip(starts[low:high], ends[low:high], strict=True)
        ]
        distinct = pa.array(written, pa.string()).dictionary_encode()
        self.forms, form_codes = _numbered([form.lower() for form in distinct.dictionary.to_pylist()])
        self.form = form_codes[distinct.indices.to_numpy(zero_copy_only=False)]
        self.tags, tag_codes = _numbered(words.tags.dictionary.to_pylist())
        self.tag = tag_codes[words.tags.indices.to_numpy(zero_copy_only=False)]

    def __len__(self) -> int:
        return len(self.form)

    def tagged(self, tags: Collection[str] | Callable[[str], bool]) -> Mask:
        """The tokens whose tag is among these, or for whose tag this is true."""
        mask: Mask = _chosen(self.tags, tags)[self.tag]
        return mask

    def written(self, words: Collection[str] | Callable[[str], bool]) -> Mask:
        """The tokens that are one of these words, given in small letters, or for which this is true."""
        mask: Mask = _chosen(self.forms, words)[self.form]
        return mask

    @cached_property
    def nouns(self) -> Mask:
        """The tokens that are nouns, names among them ("Paris")."""
        return self.tagged(is_noun) | self.tagged({"NP0"})

    def sum(self, values: Mask | Values) -> Values:
        """(n,) the sum of the tokens' values, caption by caption."""
        return np.bincount(self.caption, values, self.n).astype(np.float64)

    def before(self, mask: Mask, steps: int = 1) -> Mask:
        """The tokens whose neighbour `steps` places to the left, in the same caption, is in the mask."""
        shifted = np.zeros(len(mask), bool)
        shifted[steps:] = mask[:-steps] & (self.caption[steps:] == self.caption[:-steps])
        return shifted

    def after(self, mask: Mask) -> Mask:
        """The tokens whose neighbour to the right, in the same caption, is in the mask."""
        shifted = np.zeros(len(mask), bool)
        shifted[:-1] = mask[1:] & (self.caption[1:] == self.caption[:-1])
        return shifted


def share(numerator: Values, denominator: Values) -> Values:
    """(n,) the quotient; NaN where there is nothing to divide by."""
    quotient: Values = np.full(len(numerator), np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator > 0)
    return quotient


def _numbered(values: list[str]) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct values in the order in which they come, and for each value which of them it is."""
    numbers: dict[str, int] = {}
    codes = [numbers.setdefault(value, len(numbers)) for value in values]
    return list(numbers), np.array(codes, np.int64)


def _chosen(names: list[str], choice: Collection[str] | Callable[[str], bool]) -> Mask:
    test = choice if callable(choice) else choice.__contains__
    return np.array([test(name) for name in names], bool)


# What a feature of granularity is: two ways of counting, and a description of itself.

Profile = Literal["paper", "strict", "per-noun"]
PROFILES: tuple[Profile, ...] = ("paper", "strict", "per-noun")

Count = Callable[[TokenColumns], Values]
"""Captions, laid out → (n,) one value per caption, NaN where it is not defined."""


@dataclass(frozen=True)
class CaptionFeature:
    """A feature of captions that describes itself; tables on the command line and in the docs are printed from this.

    Section 3.1 of the brittleness paper says what is counted, but not how exactly, and for some features Table 1 shows
    that something else was counted than the name says. So each feature has two definitions.

    Args:
        name: "adjectives".
        title: Its name in Table 1.
        level: As in Table 1: "noun phrase" or "caption".
        paper: The definition whose means come nearest to Table 1, found by trying those that the text admits.
        strict: The definition that does what the name says; the sound default.
        paper_says: The first definition in one sentence.
        strict_says: The second definition in one sentence.
        per_noun: Whether the text speaks of it "per identified noun"; under the profile "per-noun" its strict count is
            divided by the nouns of the caption (not defined for a caption without a noun).
    """

    name: str
    title: str
    level: Literal["noun phrase", "caption"]
    paper: Count
    strict: Count
    paper_says: str
    strict_says: str
    per_noun: bool = False


# What a word may mean, by WordNet.


def all_senses(form: str, pos: Sequence[Pos]) -> list[int]:
    """Every synset of every base form of a word in these parts of speech, as NLTK's `wordnet.synsets(form)` lists."""
    net = wordnet()
    bases = ((base, part) for part in pos for base in net.base_forms(form, part))
    return [synset for base, part in bases for synset in net.synsets(base, part)]
