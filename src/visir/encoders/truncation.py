"""How much of a text a model reads, and room for an ending: texts cut until they are read whole with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from visir.errors import EncoderError

_WORD = re.compile(r"\S+")
_AT_ONCE = 1024
Value = TypeVar("Value")


@dataclass(frozen=True)
class TextLimit:
    """How many tokens of a text a model reads."""

    tokens: int  # the limit
    # From texts to the number of tokens of each before anything is cut. Template and end tokens count where they count
    # for the limit.
    count: Callable[[Sequence[str]], Sequence[int]]

    def fits(self, texts: Sequence[str]) -> list[bool]:
        """Whether the model reads all of each text."""
        return [count <= self.tokens for count in self.count(texts)]

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """The texts, each cut word by word from its end so that f"{text} {ending}" is read whole. Thread-safe."""
        return truncate_texts(texts, ending, self.fits, limit=self.tokens)


def truncate_texts(
    texts: Sequence[str], ending: str, fits: Callable[[list[str]], Sequence[bool]], *, limit: int
) -> list[str]:
    """The texts, each cut so that f"{text} {ending}" fits; one that fits already is returned as it is."""
    # Words are what stands between white space. As many as possible are kept from the start of a text, with the space
    # between them; a text may become empty. A long text without white space (Chinese, Thai) is one word: it is kept
    # whole or not at all. The other reading, cutting the token ids instead, keeps up to one word more, but then the
    # text that was encoded cannot be shown or given to another model.
    # The search towers the number of words, for all texts in one call: about log2(words) + 1 calls per 1,024 texts. A
    # tokenizer for which a longer text has fewer tokens could make it stop early; what it returns fits in any case.

    def whole(heads: list[str]) -> Sequence[bool]:
        return fits([f"{head} {ending}" for head in heads])

    result = list(texts)
    too_long = [row for row, fit in enumerate(in_blocks(whole, result)) if not fit]
    if not too_long:
        return result
    if not all(whole([""])):
        raise EncoderError(
            f"max_length={limit} is too small: the ending {ending!r} does not fit, even after an empty text.",
            hint="a larger max_length in the encoder's name, a shorter template, "
            "or shortcuts on the images alone (on=images)",
            code="ending-not-fit-even",
        )
    ends = [_ends(result[row]) for row in too_long]
    lasts = last_fitting([result[row] for row in too_long], ends, whole)
    for row, places, last in zip(too_long, ends, lasts, strict=True):
        result[row] = result[row][: places[last]]
    return result


def last_fitting(
    texts: Sequence[str], ends: Sequence[Sequence[int]], fits: Callable[[list[str]], Sequence[bool]]
) -> list[int]:
    """For each text, the last of the places where it may be cut so that what is before it fits."""
    # texts: (n,) texts that do not fit whole.
    # Returns: (n,) the number of a place in `ends`; 0 where nothing fits.
    fitting, failing = [0] * len(texts), [len(places) - 1 for places in ends]
    while unsettled := [row for row in range(len(texts)) if failing[row] - fitting[row] > 1]:
        middles = [(fitting[row] + failing[row]) // 2 for row in unsettled]
        heads = [texts[row][: ends[row][middle]] for row, middle in zip(unsettled, middles, strict=True)]
        for row, middle, fit in zip(unsettled, middles, in_blocks(fits, heads), strict=True):
            (fitting if fit else failing)[row] = middle
    return fitting


def in_blocks(function: Callable[[list[str]], Sequence[Value]], texts: Sequence[str]) -> list[Value]:
    """What a function says of each of many texts, called with at most 1,024 of them, so that memory stays bounded."""
    blocks = (list(texts[start : start + _AT_ONCE]) for start in range(0, len(texts), _AT_ONCE))
    return [value for block in blocks for value in function(block)]


def _ends(text: str) -> list[int]:
    """Where a text may be cut, ascending: before it, behind every word, behind all of it ("a bc " gives 0, 1, 4, 5)."""
    ends = [0, *(word.end() for word in _WORD.finditer(text))]
    return ends if ends[-1] == len(text) else [*ends, len(text)]
