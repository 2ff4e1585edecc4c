"""Approximate sparse search by Seismic: blocks of similar documents in each list, skipped by their summaries."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import require
from visir.records import SparseEmbeddings
from visir.retrieval.answers import Hits
from visir.retrieval.rows import SPARSE
from visir.retrieval.settings import setting
from visir.retrieval.sparse.scan import SparseRows, best, postings, transposed
from visir.retrieval.sparse.scan_kernels import score_pairs
from visir.retrieval.stored import StoredIndex

_LARGE = 65_536
"""Vocabularies beyond this need Seismic's variant with wider term numbers."""


@dataclass(frozen=True)
class SeismicSettings:
    """The settings of Seismic (Bruch et al., 2024: arXiv:2404.18812)."""

    n_postings: int = setting(
        3500,
        "weights kept per term, on average over the terms; the lightest go first; building takes some 20 µs of "
        "processor time for each weight that is kept",
        least=1,
    )
    centroid_fraction: float = setting(
        0.1, "blocks per list, as a share of its length: more are skipped better and cost memory", least=0, most=1
    )
    summary_energy: float = setting(0.4, "share of a block's weight that its summary keeps", least=0, most=1)
    query_cut: int = setting(
        10, "heaviest terms of a query whose lists are opened: more find better", least=1, search=True
    )
    heap_factor: float = setting(
        0.7,
        "a block is skipped when its summary's score is below the k-th best so far divided by this: smaller is slower "
        "and finds better",
        least=0,
        most=1,
        search=True,
    )


@dataclass(frozen=True)
class Blocks:
    """A Seismic index over the first rows; later rows are searched exactly until there are enough to build again."""

    index: Any  # the Seismic index; None if no row has a term
    covered: int  # the number of rows in the index


class SeismicIndex(StoredIndex[SparseEmbeddings]):
    """Kind "seismic": Seismic finds candidates, visir scores them."""

    # A Seismic index cannot change. Added documents are searched exactly until they are a tenth of all; then the index
    # is built again. Deleted documents are skipped; if an answer is then too short, the query is searched again for
    # more. Scores are computed from the vectors as in every sparse search (Seismic stores weights in half precision),
    # so runs differ from exact ones only by documents that were not found.
    # A build uses every core, and prints its progress on standard error.

    kind = "seismic"
    exact = False
    form = SPARSE
    settings_type = SeismicSettings
    built_suffix = ".index.seismic"

    def _construct(self, rows: SparseRows) -> Blocks:
        seismic = _seismic()
        large = rows.parts[0].dimension > _LARGE
        dataset = (seismic.SeismicDatasetLV if large else seismic.SeismicDataset)(dim=rows.parts[0].dimension)
        count = 0
        for part, start in zip(rows.parts, rows.starts, strict=False):
            count += dataset.add_documents_by_id(
                [str(start + row) for row in range(len(part))],
                np.asarray(part.terms, np.int64),
                np.asarray(part.values, np.float32),
                np.asarray(part.offsets, np.int64),
            )
        if count == 0:
            return Blocks(None, len(rows))
        with _said_on_standard_error():
            index = (seismic.SeismicIndexLV if large else seismic.SeismicIndex).build_from_dataset(
                dataset,
                n_postings=self.settings.n_postings,
                centroid_fraction=self.settings.centroid_fraction,
                summary_energy=self.settings.summary_energy,
            )
        return Blocks(index, len(rows))

    def _extend(self, built: Blocks, after: SparseRows) -> Blocks:
        if (len(after) - built.covered) * 10 > len(after):
            return self._construct(after)
        return built

    def _has_file(self, built: Blocks) -> bool:
        return built.index is not None

    def _write(self, built: Blocks, path: Path) -> None:
        with _said_on_standard_error():
            built.index.save(str(path).removesuffix(self.built_suffix))  # appends that suffix

    def _facts(self, built: Blocks) -> dict[str, Any]:
        return {"covered": built.covered}

    def _read(self, rows: SparseRows, path: Path | None, facts: Mapping[str, Any]) -> Blocks:
        if path is None:
            return Blocks(None, facts["covered"])
        seismic = _seismic()
        reader = seismic.SeismicIndexLV if rows.parts[0].dimension > _LARGE else seismic.SeismicIndex
        return Blocks(reader.load(str(path)), facts["covered"])

    def _find(
        self, rows: SparseRows, built: Blocks, queries: SparseEmbeddings, k: int, settings: SeismicSettings
    ) -> Hits:
        hits = []
        remaining, wanted = np.flatnonzero(np.diff(queries.offsets)), k
        while built.index is not None and len(remaining):
            query, row = _ask(built.index, queries, remaining, wanted, settings)
            alive = ~rows.dead[row]
            counts, living = (np.bincount(rows_of, minlength=len(queries)) for rows_of in (query, query[alive]))
            short = (living < k) & (counts >= wanted)  # there was more, but deleted documents took its place
            usable = alive & ~short[query]
            hits.append(_scored(rows, queries, query[usable], row[usable]))
            remaining, wanted = remaining[short[remaining]], 2 * wanted
        for at, part in enumerate(rows.parts):
            start, end = rows.starts[at], rows.starts[at + 1]
            if end > built.covered:
                if at not in rows.prepared:
                    rows.prepared[at] = transposed(part)
                places = rows.places[start:end].copy()
                places[: max(built.covered - start, 0)] = -1
                hits.append(best(queries, rows.prepared[at], places, k))
        return Hits.joined(hits)

    def _details(self, rows: SparseRows, built: Blocks) -> dict[str, Any]:
        return {**postings(rows), "searched exactly": len(rows) - built.covered}


def _ask(
    index: Any, queries: SparseEmbeddings, query_rows: NDArray[np.int64], k: int, settings: SeismicSettings
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(query, row) of what Seismic finds for the queries at these places."""
    # Its fixed-width type of text; documents were added by number, and so "42" is a term.
    text = _seismic().get_seismic_string()
    rows = [queries.row(int(query_row)) for query_row in query_rows]
    answers = index.batch_search(
        np.array([str(query_row) for query_row in query_rows], dtype=text),
        [terms.astype(text) for terms, _ in rows],
        [np.asarray(weights, np.float32) for _, weights in rows],
        k=k,
        query_cut=settings.query_cut,
        heap_factor=settings.heap_factor,
    )
    pairs = [(int(query), int(row)) for answer in answers for query, _, row in answer]
    flat = np.array(pairs, np.int64).reshape(-1, 2)
    return flat[:, 0], flat[:, 1]


def _scored(rows: SparseRows, queries: SparseEmbeddings, query: NDArray[np.int64], row: NDArray[np.int64]) -> Hits:
    left = (np.asarray(queries.offsets), np.asarray(queries.terms), np.asarray(queries.values))
    scores = np.empty(len(row), np.float32)
    part_of = np.searchsorted(rows.starts, row, side="right") - 1
    for at in np.unique(part_of):
        here, part = part_of == at, rows.parts[at]
        right = (np.asarray(part.offsets), np.asarray(part.terms), np.asarray(part.values))
        out = np.empty(int(here.sum()), np.float32)
        score_pairs(left, query[here], right, row[here] - rows.starts[at], out)
        scores[here] = out
    return Hits(query, rows.places[row], scores)


def _seismic() -> Any:
    require("seismic", extra="seismic", purpose="an index of kind 'seismic'")
    import seismic

    return seismic


@contextlib.contextmanager
def _said_on_standard_error() -> Iterator[None]:
    """Seismic talks on standard output, where our own output is meant to be read by other programs."""
    sys.stdout.flush()
    standard_output = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(standard_output, 1)
        os.close(standard_output)
