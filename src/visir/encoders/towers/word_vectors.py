"""Files of word vectors: GloVe's text format, and word2vec's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visir.errors import EncoderError
from visir.files import open_binary

SOURCE = "https://nlp.stanford.edu/projects/glove/"
_BROKEN = "is the download complete? compare its size"


@dataclass(frozen=True, eq=False)
class WordVectors:
    """The vectors of some words, in their order."""

    vectors: NDArray[np.float32]  # (words, d) float32; zeros where a word has no vector
    has_vector: NDArray[np.bool_]  # (words,) whether the file has a vector of the word


def read_vectors(path: str | Path, words: Sequence[str], width: int) -> WordVectors:
    """The vectors of `words` in a text file of lines `word v1 … v_width`, plain, `.gz` or `.xz`, in UTF-8."""
    # Only the lines of these words are parsed, so that GloVe's 2.2 million take as long as reading them does. The word
    # is what is left of the last `width` numbers: a few hundred tokens of glove.840B hold spaces. Of a word that comes
    # twice the first vector is taken. A first line of two integers, as word2vec writes it, is passed over.
    if not Path(path).is_file():
        raise EncoderError(
            f"{path}: no such file of word vectors.",
            hint=f"download glove.6B.zip or glove.840B.300d.zip from {SOURCE}, unpack it, and name the file "
            "(text.vectors), or leave it out to learn the embeddings",
            code="no-such-file-word",
        )
    row_of = {word.encode(): row for row, word in enumerate(words)}
    vectors, has_vector = np.zeros((len(words), width), np.float32), np.zeros(len(words), bool)
    with open_binary(path) as stream:
        for number, line in enumerate(stream, 1):
            word = line[: line.find(b" ")]
            if number == 1 and _is_header(path, line, width):
                continue
            if not word.isascii():
                _check_encoding(path, number, word)
            # Nearly every line is of none of our words: one look-up decides.
            row = row_of.get(word)
            if row is not None and not has_vector[row]:
                vector = _parse(path, number, line, width)
                if vector is not None:
                    vectors[row], has_vector[row] = vector, True
    if not has_vector.any():
        raise EncoderError(
            f"{path}: holds none of the {len(words):,} words.", hint="is it of this language, and in lower case?"
        )
    return WordVectors(vectors, has_vector)


def _is_header(path: str | Path, line: bytes, width: int) -> bool:
    """Whether the first line is word2vec's count and width; refuses a file of another width."""
    parts = line.split()
    header = len(parts) == 2 and parts[0].isdigit() and parts[1].isdigit()
    numbers = int(parts[1]) if header else len(line.rstrip().split(b" ")) - 1
    if numbers != width:
        raise EncoderError(
            f"{path}, line 1: vectors of {numbers} numbers; the embeddings have {width}.",
            hint=f"set the width of the embeddings to {numbers} (text.words), or take another file",
            code="vectors-numbers",
        )
    return header


def _check_encoding(path: str | Path, number: int, word: bytes) -> None:
    try:
        word.decode()
    except UnicodeDecodeError as fault:
        raise EncoderError(
            f"{path}, line {number}: not UTF-8 (byte 0x{word[fault.start]:02x}).",
            hint="is this a text file of word vectors? convert it: iconv -f latin1 -t utf-8",
        ) from fault


def _parse(path: str | Path, number: int, line: bytes, width: int) -> NDArray[np.float32] | None:
    """The vector of a line that begins with a word of ours; None when its word goes on behind a space."""
    parts = line.rstrip().split(b" ")[1:]
    if len(parts) > width and not _is_number(parts[0]):
        return None
    if len(parts) != width:
        raise EncoderError(f"{path}, line {number}: {len(parts)} numbers, not {width}.", hint=_BROKEN)
    try:
        vector = np.array([float(part) for part in parts])
    except ValueError:
        vector = np.array(np.nan)
    if not np.isfinite(vector).all():
        wrong = next(part for part in parts if not _is_number(part)).decode(errors="replace")
        raise EncoderError(f"{path}, line {number}: {wrong!r} is no finite number.", hint=_BROKEN)
    return vector.astype(np.float32)


def _is_number(text: bytes) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
