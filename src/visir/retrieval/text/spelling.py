"""Words near a misspelt word: by edit distance against the words of an index, and by splitting."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from visir.retrieval.text import kernels

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
        numbers, distances = kernels.near(codes, mark, *self._packed, most)
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
