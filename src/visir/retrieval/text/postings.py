"""The counts of words in documents with fields, as arrays: made from texts, and merged with new texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.retrieval.text.words import words_of

MOST = np.iinfo(np.uint16).max


@dataclass(frozen=True, eq=False)
class Postings:
    """For each word the documents that have it, and how often each field has it."""

    words: list[str]  # (v,) the distinct words, sorted; each is in at least one document
    # (v + 1,) int64. The postings of word i are `starts[i]:starts[i + 1]`, in ascending order of documents.
    starts: NDArray[np.int64]
    documents: NDArray[np.int32]  # (p,) int32, rows of documents
    # (p, fields) uint16, occurrences of the word in each field of the document; at most 65,535.
    counts: NDArray[np.uint16]
    lengths: NDArray[np.int32]  # (documents, fields) int32, words in each field

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def of(cls, fields: Sequence[Sequence[str]]) -> Postings:
        """Count the words of documents."""
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__
        n = len(fields[0])
        lengths = np.zeros((n, len(fields)), np.int32)
        number_of, texts_of, keys = numbers.__getitem__, dict[str, list[int]](), list[NDArray[np.int64]]()
        for field, texts in enumerate(fields):
            ids: list[int] = []
            for row, text in enumerate(texts):
                part = texts_of.get(text)
                if part is None:
                    part = texts_of[text] = [number_of(word) for word in words_of(text)]
                lengths[row, field] = len(part)
                ids += part
            texts_of.clear()
            keys.append(np.array(ids, np.int64) * n + np.repeat(np.arange(n), lengths[:, field]))
        words = sorted(numbers)
        place = np.empty(len(words), np.int64)
        place[[numbers[word] for word in words]] = np.arange(len(words))
        keys = [place[key // max(n, 1)] * n + key % max(n, 1) for key in keys]
        pairs = np.unique(np.concatenate(keys))
        counts = np.zeros((len(pairs), len(fields)), np.uint16)
        for field, key in enumerate(keys):
            distinct, times = np.unique(key, return_counts=True)
            counts[np.searchsorted(pairs, distinct), field] = np.minimum(times, MOST)
        starts = np.searchsorted(pairs, np.arange(len(words) + 1) * n).astype(np.int64)
        return cls(words, starts, (pairs % max(n, 1)).astype(np.int32), counts, lengths)

    def merged(self, rows: NDArray[np.int64], new: Postings, new_rows: NDArray[np.int64]) -> Postings:
        """Return the postings after a change of documents; the result equals `Postings.of` over all texts."""
        # rows: (documents,) the row of each document afterwards, ascending where not −1; −1 removes it.
        words = sorted({*self.words, *new.words})
        place = {word: number for number, word in enumerate(words)}
        n = int((rows >= 0).sum()) + len(new)
        lengths = np.zeros((n, self.lengths.shape[1]), np.int32)
        keys, counts = [], []
        for part, places in ((self, rows), (new, new_rows)):
            word = np.repeat(np.array([place[name] for name in part.words], np.int64), np.diff(part.starts))
            document = places[part.documents]
            here = document >= 0
            keys.append(word[here] * n + document[here])
            counts.append(part.counts[here])
            lengths[places[places >= 0]] = part.lengths[places >= 0]
        key, count = np.concatenate(keys), np.concatenate(counts)
        order = np.argsort(key, kind="stable")  # two sorted runs: the sort merges them
        key = key[order]
        starts = np.searchsorted(key, np.arange(len(words) + 1) * n).astype(np.int64)
        used = np.diff(starts) > 0
        words = [word for word, is_used in zip(words, used.tolist(), strict=True) if is_used]
        starts = np.concatenate([starts[:-1][used], starts[-1:]])
        return Postings(words, starts, (key % max(n, 1)).astype(np.int32), count[order], lengths)


def check_arrays(arrays: Sequence[NDArray[Any]], fields: int, n: int, v: int) -> None:
    """Raise `ValueError` for arrays that do not fit together: the kernels read without a check of their own."""
    starts, documents, counts, lengths = arrays
    shapes = starts.shape == (v + 1,) and counts.shape == (len(documents), fields) and lengths.shape == (n, fields)
    types = [array.dtype.str[1:] for array in arrays] == ["i8", "i4", "u2", "i4"]
    if not shapes or not types:
        raise ValueError("its arrays do not fit together")
    inside = len(documents) == 0 or (documents.min() >= 0 and documents.max() < n)
    if starts[0] != 0 or starts[-1] != len(documents) or (np.diff(starts) < 0).any() or not inside:
        raise ValueError("its postings lead nowhere")
