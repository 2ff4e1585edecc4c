"""Sparse vectors in the forms that other engines read: documents and queries."""

from __future__ import annotations

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
from visir.retrieval.sparse.ciff import write_ciff
from visir.retrieval.sparse.quantise import LEVELS, Quantised, quantise
from visir.storage import new_file


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
