"""CIFF, the Common Index File Format: an inverted index as one file, which PISA, Lucene and others import.

Lin et al., 2020: arXiv:2003.08276; the messages are those of osirrc/ciff's CommonIndexFileFormat.proto. A file is a
header, the postings lists, and the records of the documents, each a protobuf message behind its length. The messages
are so few that their bytes are written here; no protobuf library is needed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visir.records import SparseEmbeddings
from visir.retrieval.sparse.quantise import Quantised

_VERSION = 1


def write_ciff(vectors: SparseEmbeddings, quantised: Quantised, path: Path) -> None:
    """Write the documents, in the order of their rows, as one CIFF file."""
    # A posting is (document number, whole-number weight); document numbers are written as differences to the one before
    # (the first as it is), lists in the order of their terms' UTF-8 bytes, as readers expect. A document's length is
    # the sum of its whole-number weights. The header's description says the scale: an engine has to score with the
    # plain sum of products ("quantized" in PISA), not with BM25.
    lists = _lists(vectors, quantised.whole)
    lengths = np.zeros(len(vectors), np.int64)
    np.add.at(lengths, np.repeat(np.arange(len(vectors)), np.diff(vectors.offsets)), quantised.whole)
    total = int(lengths.sum())
    header = b"".join(
        [
            *(_number(field, value) for field, value in enumerate((_VERSION, len(lists), len(vectors)), 1)),
            *(_number(field, value) for field, value in enumerate((len(lists), len(vectors), total), 4)),
            _tag(7, 1) + struct.pack("<d", total / max(len(vectors), 1)),
            _bytes(8, f"visir: {vectors.encoder.name}; whole = {quantised}".encode()),
        ]
    )
    with path.open("wb") as stream:
        stream.write(_delimited(header))
        for term, documents, weights in lists:
            stream.write(_delimited(_list(term, documents, weights)))
        for number, (identifier, length) in enumerate(zip(vectors.ids.to_pylist(), lengths.tolist(), strict=True)):
            record = _number(1, number) + _bytes(2, identifier.encode()) + _number(3, length)
            stream.write(_delimited(record))


def _lists(
    vectors: SparseEmbeddings, whole: NDArray[np.int32]
) -> list[tuple[bytes, NDArray[np.int64], NDArray[np.int32]]]:
    """(term, rising document numbers, weights) of every term that some document has, in order of the terms' bytes."""
    order = np.argsort(vectors.terms, kind="stable")  # stable: documents stay in order
    document = np.repeat(np.arange(len(vectors)), np.diff(vectors.offsets))[order]
    used, first = np.unique(vectors.terms[order], return_index=True)
    ends = [*first[1:].tolist(), len(order)]
    parts = [
        (str(vectors.vocabulary.terms[term]).encode(), document[a:b], whole[order[a:b]])
        for term, a, b in zip(used.tolist(), first.tolist(), ends, strict=True)
    ]
    return sorted(parts, key=lambda posting_list: posting_list[0])


def _list(term: bytes, documents: NDArray[np.int64], weights: NDArray[np.int32]) -> bytes:
    postings = _postings(np.diff(documents, prepend=0), weights)
    return b"".join([_bytes(1, term), _number(2, len(documents)), _number(3, int(weights.sum())), *postings])


def _postings(gaps: NDArray[np.int64], weights: NDArray[np.int32]) -> Iterator[bytes]:
    for gap, weight in zip(gaps.tolist(), weights.tolist(), strict=True):
        yield _bytes(4, _number(1, gap) + _number(2, weight))


def _delimited(message: bytes) -> bytes:
    return _varint(len(message)) + message


def _tag(field: int, wire: int) -> bytes:
    return _varint(field << 3 | wire)


def _number(field: int, value: int) -> bytes:
    """A whole number; 0 is what a reader assumes for a field that is not there, so it is left out, as protobuf does."""
    return _tag(field, 0) + _varint(value) if value else b""


def _bytes(field: int, content: bytes) -> bytes:
    return _tag(field, 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Seven bits a byte, lowest first; the eighth says that more follow."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
