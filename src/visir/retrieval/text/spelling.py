"""Words near a misspelt word: by edit distance against the words of an index, and by splitting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from visir.retrieval.text import kernels

MUCH_MORE = 50
"""A word that some documents have is corrected only to one that this many times more have."""


class Spelling:
    """Finds known words for an unknown one.

    The largest edit distance depends on the length of the word: 0 up to 2 letters, 1 up to 5, 2 from 6 on (as the
    fuzziness "AUTO" of Lucene). Words with digits are not corrected: they are sizes and model numbers.

    Args:
        words: (v,) the known words.
        frequencies: (v,) how many documents have each.

    Example:
        >>> import numpy as np
        >>> spelling = Spelling(["cotton", "button", "shirt", "blue", "jeans"], np.array([9, 3, 5, 4, 2]))
        >>> [spelling.nearest(word) for word in ("coton", "shrit", "bluejeans", "xyz", "b12")]
        [('cotton',), ('shirt',), ('blue', 'jeans'), (), ()]
    """

    def __init__(self, words: Sequence[str], frequencies: NDArray[np.int64]) -> None:
        self.words = words
        self.frequencies = frequencies
        self._numbers = {word: number for number, word in enumerate(words)}
        lengths = np.fromiter((len(word) for word in words), np.int64, len(words))
        self._offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._codes = _codes("".join(words))
        owner = np.repeat(np.arange(len(words)), lengths)
        self._marks = np.zeros(len(words), np.uint64)
        np.bitwise_or.at(self._marks, owner, _marks(self._codes))

    def nearest(self, word: str, *, at_least: int = 1) -> tuple[str, ...]:
        """Return the known word that is meant, or the two known words into which it splits; () for none.

        The order of preference: the smaller edit distance, the same first letter, more documents. A split comes after
        distance 1 and before distance 2.

        Args:
            word: A word in lower case.
            at_least: In how many documents the known word must be.
        """
        if len(word) < 3 or any(letter.isdigit() for letter in word):
            return ()
        codes = _codes(word)
        most = 1 if len(word) <= 5 else 2
        mark = np.bitwise_or.reduce(_marks(codes))
        numbers, distances = kernels.near(codes, mark, self._codes, self._offsets, self._marks, most)
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
            numbers = [self._numbers.get(half, -1) for half in halves]
            rarer = min(int(self.frequencies[number]) for number in numbers) if min(numbers) >= 0 else 0
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
