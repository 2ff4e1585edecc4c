"""Captions cut into words, laid out for counting: columns over the tokens of all captions at once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.robustness.language.tagged_captions import TaggedCaptions
from visir.robustness.language.tagging import is_noun

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
