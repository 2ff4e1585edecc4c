"""Words and their numbers: a tokeniser for captions, and the vocabulary of a recurrent tower."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visir.encoders.unspaced import UNSPACED
from visir.errors import EncoderError
from visir.files import read_lines

PADDING, UNKNOWN, START, END = range(4)
SPECIAL = 4
"""The ids below this are no words: padding, the unknown word, and the two marks around a sentence to be decoded."""

_WORD = re.compile(
    rf"(?=[{UNSPACED}])[^\W_]"  # 女|人
    rf"|[^\W_{UNSPACED}]+?(?=n't(?!\w))|n't(?!\w)"  # do|n't, is|n't
    r"|(?<=\w)'(?:s|re|ve|ll|d|m)(?!\w)"  # dog|'s, they|'re
    rf"|[^\W_{UNSPACED}]+"
)
TOKENISER = (
    "lower case; runs of letters and digits; 's, n't, 're, 've, 'll, 'd, 'm apart; no punctuation; "
    "single characters of scripts without spaces"
)
"""What `tokenise` does, in words, for the card."""


def tokenise(text: str) -> list[str]:
    """The words of a text, in lower case: runs of letters and digits, clitics apart."""
    # Where a script has no spaces between words (Chinese, Japanese, Thai), every character is a word: a run would be a
    # phrase that occurs once.
    # "The dog's ball isn't red." gives the, dog, 's, ball, is, n't, red. Clitics stand apart as in the Penn Treebank,
    # because GloVe's vocabularies were made that way. Punctuation is dropped: VSE++'s released code, with NLTK's
    # tokeniser, keeps it, so that nearly every caption of COCO ends in the word "."; and a hyphen parts words (t,
    # shirt), where NLTK keeps them together and most such compounds end up unknown. It is one regular expression, some
    # 10 µs for a caption.
    return _WORD.findall(text.lower().replace("’", "'"))


class WordVocabulary:
    """Words in a fixed order; the word at place i has the id i + 4, after padding 0, unknown 1, start 2, end 3."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._ids = {word: number for number, word in enumerate(self.words, SPECIAL)}
        if len(self._ids) != len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise EncoderError(
                f"a vocabulary holds every word once; {twice!r} is there more than once.",
                code="vocabulary-holds-every-word",
            )

    def __len__(self) -> int:
        """The number of ids, the four that are no words included."""
        return SPECIAL + len(self.words)

    @classmethod
    def fit(cls, texts: Iterable[str], min_count: int = 1, limit: int | None = None) -> WordVocabulary:
        """The words that occur at least `min_count` times in all, the most frequent first (equals: by alphabet).

        Fit on the training split only. `limit` keeps that many at most.

        Raises:
            EncoderError: No word is left.
        """
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(tokenise(text))
        chosen = sorted(
            (entry for entry in counts.items() if entry[1] >= min_count), key=lambda entry: (-entry[1], entry[0])
        )
        if not chosen:
            if not counts:
                raise EncoderError(
                    "there is not one word in all the texts.", hint="are the captions empty?", code="not-one-word-texts"
                )
            raise EncoderError(f"no word occurs {min_count} times in the texts.", hint="lower min_count")
        return cls([word for word, _ in chosen[:limit]])

    def encode(self, texts: Iterable[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """All ids in one array, and offsets: text i has `flat[offsets[i]:offsets[i + 1]]`.

        A word that is not in the vocabulary is the unknown word; so is the whole of a text without any word, which
        would otherwise have nothing for a network to read.
        """
        find = self._ids.get
        flat: list[int] = []
        offsets = [0]
        for text in texts:
            flat.extend([find(word, UNKNOWN) for word in tokenise(text)] or [UNKNOWN])
            offsets.append(len(flat))
        return np.array(flat, np.int32), np.array(offsets, np.int64)

    def save(self, path: Path) -> None:
        """One word per line, UTF-8."""
        path.write_bytes("".join(f"{word}\n" for word in self.words).encode())

    @classmethod
    def load(cls, path: Path) -> WordVocabulary:
        """Read what `save` wrote."""
        return cls(read_lines(path))
