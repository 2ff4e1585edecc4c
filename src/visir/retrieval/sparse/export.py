"""Sparse vectors in the forms that other engines read: documents and queries."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.records import SparseEmbeddings
from visir.registry import Registry
from visir.storage import new_file

# Weights as small whole numbers, for engines that support term frequencies only.

LEVELS = 255
"""The largest whole number by default: 8 bits, as engines store impacts. More levels cost them memory and time."""


@dataclass(frozen=True)
class Quantised:
    """Weights as whole numbers: `whole[j]` ≈ `values[j]` × `scale`."""

    # All documents have one scale, so the order of answers changes by rounding only. A weight that would round to 0
    # becomes 1, so that the same documents match.

    whole: NDArray[np.int32]  # (m,) int32, from 1 to `levels`
    scale: float  # the factor
    levels: int  # the largest whole number

    def __str__(self) -> str:
        return f"weight × {self.scale:.6g}, rounded, at least 1, at most {self.levels}"


def quantise(vectors: SparseEmbeddings, levels: int = LEVELS, scale: float | None = None) -> Quantised:
    """Return the weights as whole numbers."""
    if levels < 1:
        raise EmbeddingError(f"levels must be at least 1, not {levels}.", code="levels-least-not")
    if scale is None:
        scale = levels / float(vectors.values.max()) if len(vectors.values) else 1.0
    whole = np.rint(np.asarray(vectors.values, np.float64) * scale)
    return Quantised(np.clip(whole, 1, levels).astype(np.int32), scale, levels)


# CIFF, the Common Index File Format: an inverted index as one file, which PISA, Lucene and others import.

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
    total, documents = int(lengths.sum()), len(vectors)
    about = f"visir: {vectors.encoder.name}; whole = {quantised}".encode()
    header = _message(_VERSION, len(lists), documents, len(lists), documents, total, total / max(documents, 1), about)
    with path.open("wb") as stream:
        stream.write(_delimited(header))
        for term, rows, weights in lists:
            postings = zip(np.diff(rows, prepend=0).tolist(), weights.tolist(), strict=True)
            about_list = _message(term, len(rows), int(weights.sum()))
            stream.write(_delimited(about_list + b"".join(_field(4, _message(*posting)) for posting in postings)))
        for number, (identifier, length) in enumerate(zip(vectors.ids.to_pylist(), lengths.tolist(), strict=True)):
            stream.write(_delimited(_message(number, identifier.encode(), length)))


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


def _delimited(message: bytes) -> bytes:
    return _varint(len(message)) + message


def _message(*values: int | float | bytes) -> bytes:
    """A message of protobuf with these fields, numbered from 1."""
    return b"".join(_field(number, value) for number, value in enumerate(values, 1))


def _field(number: int, value: int | float | bytes) -> bytes:
    if isinstance(value, bytes):
        return _varint(number << 3 | 2) + _delimited(value)
    if isinstance(value, float):
        return _varint(number << 3 | 1) + struct.pack("<d", value)
    # 0 is what a reader assumes for a number that is not there, so it is left out.
    return _varint(number << 3) + _varint(value) if value else b""


def _varint(value: int) -> bytes:
    """Seven bits a byte, lowest first; the eighth says that more follow."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@dataclass(frozen=True)
class ExportForm:
    """A form of file that another engine reads."""

    name: str  # the name of the form
    title: str  # the engine that reads it; printed by `visir index export --help` and the docs
    documents: str  # the name of the file of documents
    queries: str  # the name of the file of queries
    whole: bool  # whether weights must be whole numbers (`quantise`)
    # Writes documents: (vectors, quantised weights, path).
    write_documents: Callable[[SparseEmbeddings, Quantised, Path], None]
    # Writes queries: (vectors, quantised weights, path).
    write_queries: Callable[[SparseEmbeddings, Quantised, Path], None]


def export(
    form: str,
    out: Path,
    documents: SparseEmbeddings | None = None,
    queries: SparseEmbeddings | None = None,
    *,
    levels: int = LEVELS,
    replace: bool = False,
) -> dict[Path, str]:
    """Write documents, queries or both for another engine, in the order of their rows."""
    entry = EXPORTS.get(form)
    written = {}
    for vectors, name, write in (
        (documents, entry.documents, entry.write_documents),
        (queries, entry.queries, entry.write_queries),
    ):
        if vectors is not None:
            quantised = quantise(vectors, levels)
            with new_file(out / name, replace=replace) as path:
                write(vectors, quantised, path)
            written[out / name] = str(quantised) if entry.whole else "weights as they are"
    return written


def _json_lines(
    key: str, whole: bool, contents: str | None = None
) -> Callable[[SparseEmbeddings, Quantised, Path], None]:
    """A writer of one JSON object a line: the id under `key`, an empty text under `contents`, and the vector."""

    def write(vectors: SparseEmbeddings, quantised: Quantised, path: Path) -> None:
        with path.open("wb") as stream:
            for item_id, terms, weights in _rows(vectors, quantised.whole if whole else vectors.values):
                # A float32 is written with the digits that it takes to read the same float32 back, not those of a
                # float64.
                shown = [int(w) if whole else float(str(w)) for w in weights]
                text = {} if contents is None else {contents: ""}
                vector = dict(zip(terms, shown, strict=True))
                stream.write(orjson.dumps({key: item_id, **text, "vector": vector}) + b"\n")

    return write


def _repeated_terms(separator: str) -> Callable[[SparseEmbeddings, Quantised, Path], None]:
    """A writer of one query a line: its id, and every term as often as its whole-number weight."""

    def write(vectors: SparseEmbeddings, quantised: Quantised, path: Path) -> None:
        with path.open("wb") as stream:
            for item_id, terms, weights in _rows(vectors, quantised.whole):
                if separator in item_id or "\n" in item_id:
                    raise EmbeddingError(
                        f"query id {item_id!r} holds {separator!r} or a line end, which ends the id in this form.",
                        hint="export the queries under other ids",
                        code="query-id-holds-line",
                    )
                words = [term for term, weight in zip(terms, weights, strict=True) for _ in range(weight)]
                stream.write(f"{item_id}{separator}{' '.join(words)}\n".encode())

    return write


def _rows(vectors: SparseEmbeddings, weights: NDArray[Any]) -> Iterator[tuple[str, list[str], NDArray[Any]]]:
    names = np.array(vectors.vocabulary.terms.to_pylist(), object)
    for row, identifier in enumerate(vectors.ids.to_pylist()):
        part = slice(int(vectors.offsets[row]), int(vectors.offsets[row + 1]))
        yield identifier, names[vectors.terms[part]].tolist(), np.asarray(weights[part])


EXPORTS: Registry[ExportForm] = Registry("form of export")

for _form in (
    ExportForm(
        name="ciff",
        title="one file of postings lists, for PISA (ciff2pisa, quantized scorer, whitespace tokenizer) and other "
        "readers of CIFF; queries as id:terms, a term as often as its weight",
        documents="documents.ciff",
        queries="queries.txt",
        whole=True,
        write_documents=write_ciff,
        write_queries=_repeated_terms(":"),
    ),
    ExportForm(
        name="anserini",
        title="JSON lines for Anserini and Pyserini (JsonVectorCollection, -impact -pretokenized), which repeat a term "
        "as often as its weight says; queries as id, tab, terms (TsvString)",
        documents="documents.jsonl",
        queries="queries.tsv",
        whole=True,
        write_documents=_json_lines("id", True, "contents"),
        write_queries=_repeated_terms("\t"),
    ),
    ExportForm(
        name="seismic",
        title="JSON lines with weights as they are, for Seismic (SeismicIndex.build), documents and queries alike",
        documents="documents.jsonl",
        queries="queries.jsonl",
        whole=False,
        write_documents=_json_lines("id", False, "content"),
        write_queries=_json_lines("id", False, "content"),
    ),
):
    EXPORTS.add(_form.name, _form)
