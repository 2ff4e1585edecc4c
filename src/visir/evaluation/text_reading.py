"""How much of each text a model reads: what an evaluation notes, and labels of the queries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.encoders.truncation import TextLimit, in_blocks, last_fitting
from visir.encoders.unspaced import UNSPACED
from visir.records import Items, Task

if TYPE_CHECKING:
    from visir.encoders.base import Encoder

TRUNCATION, LENGTH = "truncation", "tokens"
"""The labels of queries: whether the model reads all of a text, and how many tokens it has."""
WHOLE, CUT = "whole", "cut"
_MARGIN = 2
_WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
"""A word: what stands between white space; a character of the scripts that put none between words."""


@dataclass(frozen=True, eq=False)
class TextReading:
    """How much a model reads of texts."""

    limit: int  # how many tokens of a text it reads
    # (n,) the tokens of each text before anything is cut; 0 where the text is so short that it surely fits.
    tokens: NDArray[np.int64]
    cut: NDArray[np.bool_]  # (n,) whether the model does not read the end
    words: NDArray[np.int64]  # (n,) the words of each text that is cut; 0 for the others
    words_read: NDArray[np.int64]  # (n,) how many of them the model reads whole

    @property
    def words_lost(self) -> float:
        """The share of the words of the texts that are cut which the model does not read; NaN where none is cut."""
        total = int(self.words.sum())
        return 1.0 - int(self.words_read.sum()) / total if total else float("nan")


def read_texts(texts: Sequence[str], limit: TextLimit, *, count_all: bool = True) -> TextReading:
    """Find out how much of each text is read."""
    room = limit.tokens - (limit.count([""])[0] if texts else 0) - _MARGIN
    tokens = np.zeros(len(texts), np.int64)
    rows = [row for row, text in enumerate(texts) if count_all or len(text.encode()) > room]
    tokens[rows] = in_blocks(limit.count, [texts[row] for row in rows])
    cut = tokens > limit.tokens
    words, words_read = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64)
    too_long = [texts[row] for row in np.flatnonzero(cut).tolist()]
    ends = [[0, *(word.end() for word in _WORD.finditer(text))] for text in too_long]
    words[cut] = [len(places) - 1 for places in ends]
    words_read[cut] = last_fitting(too_long, ends, limit.fits)
    return TextReading(limit.tokens, tokens, cut, words, words_read)


def length_bands(tokens: NDArray[np.int64], limit: int) -> list[str]:
    """The band of each length, in halves of the limit: "1–38", "39–77", "78–154", "155–308", "309 or more"."""
    edges = [limit // 2, limit, 2 * limit, 4 * limit]
    firsts = [1, *(edge + 1 for edge in edges)]
    names = [f"{first}–{last}" for first, last in zip(firsts, edges, strict=False)] + [f"{firsts[-1]} or more"]
    return [names[place] for place in np.searchsorted(edges, tokens, side="left")]


def reading_of(encoder: Encoder, tasks: Mapping[str, Task]) -> tuple[list[str], dict[str, pa.Table]]:
    """Notes on texts that the encoder does not read whole, and labels of the queries among them."""
    # Returns: (notes, labels by task); both empty where everything is read.
    limit = encoder.root_encoder("text").text_limit() if "text" in encoder.modalities else None
    if limit is None:
        return [], {}
    notes: dict[str, None] = {}
    labels: dict[str, pa.Table] = {}
    readings: list[tuple[Items, pa.StringArray, TextReading]] = []
    for name, task in tasks.items():
        for items, ids in ((task.queries, task.measured_queries()), (task.documents, task.gallery.ids)):
            if items.texts is None or not len(items):
                continue
            ids = items.ids if ids is None else ids
            reading = next((known for same, read, known in readings if same is items and read.equals(ids)), None)
            if reading is None:
                reading = read_texts(texts_of(items.select(ids)), limit, count_all=False)
                readings.append((items, ids, reading))
            if not reading.cut.any():
                continue
            notes[_note(reading, items.title)] = None
            if items is task.queries:
                short = np.flatnonzero(reading.tokens == 0)  # not counted yet
                tokens = reading.tokens.copy()
                tokens[short] = in_blocks(limit.count, texts_of(items.select(ids.take(pa.array(short)))))
                kinds = np.where(reading.cut, CUT, WHOLE).tolist()
                columns = {"query_id": ids, TRUNCATION: kinds, LENGTH: length_bands(tokens, limit.tokens)}
                labels[name] = pa.table(columns)
    return list(notes), labels


def texts_of(items: Items) -> list[str]:
    """The texts of items, empty where one has none."""
    return [text or "" for text in ([] if items.texts is None else items.texts.to_pylist())]


def _note(reading: TextReading, title: str) -> str:
    count, total = int(reading.cut.sum()), len(reading.cut)
    return (
        f"{count:,} of {total:,} {title} ({100 * count / total:.1f} %) are longer than the {reading.limit} "
        f"tokens that the model reads; {100 * reading.words_lost:.1f} % of the words of these are not read"
    )
