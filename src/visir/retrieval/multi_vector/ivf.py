"""Approximate MaxSim search: centroids find candidates, exact MaxSim scores them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.arrays import ArrayArchive
from visir.records import MultiVectorEmbeddings
from visir.retrieval.answers import Hits
from visir.retrieval.clustering import nearest_centroids, train_centroids, usual_count
from visir.retrieval.multi_vector.compression import CompressedVectors
from visir.retrieval.multi_vector.flat import QUANTISATION, MaxSimIndex, MultiRows, scan_parts
from visir.retrieval.multi_vector.sides import TokenSide, cut, loops_for, score_token_places
from visir.retrieval.settings import recall, setting
from visir.threads import Share, one_blas_thread, spread

_PURPOSE = "an index of kind 'maxsim-ivf'"
_PRODUCTS = 2**23
"""Products of centroids and vectors of queries at once (32 MiB)."""


@dataclass(frozen=True)
class MaxSimIvfSettings:
    """The settings of an index of multi-vectors with centroids: its cost and its quality."""

    quantisation: str = setting("none", QUANTISATION, among=("none", "float16", "residual"))
    bits: int = setting(4, "with residual: bits for each number", least=1, most=8)
    lists: int = setting(0, "centroids, each with a list of documents; 0: about twice the root of all vectors", least=0)
    probes: int = setting(
        4, "lists read for each vector of a query: more find better, and cost more", least=1, search=True
    )
    candidates: int = setting(
        512, "documents scored exactly, chosen by their centroids: more find better", least=1, search=True
    )
    device: str = setting("", "a device of torch (cuda) for exact scans; empty: the cores", search=True)
    recall: float = recall()


@dataclass(frozen=True, eq=False)
class CentroidLists:
    """Which centroids each document has, and the documents of each centroid."""

    centroids: NDArray[np.float32]  # (k, d) float32
    offsets: NDArray[np.int64]  # (rows + 1,) where the centroids of each row start
    codes: NDArray[np.int32]  # (m,) int32, the centroids of a row, ascending, each once
    starts: NDArray[np.int64]  # (k + 1,) where the list of each centroid starts
    rows: NDArray[np.int32]  # (m,) int32, the rows that have a centroid

    @classmethod
    def of(cls, centroids: NDArray[np.float32], offsets: NDArray[np.int64], codes: NDArray[np.int32]) -> CentroidLists:
        """Make the lists of the centroids of each row."""
        owners = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(len(centroids) + 1))
        return cls(centroids, offsets, codes, starts.astype(np.int64), owners[order])


class MaxSimIvfIndex(MaxSimIndex):
    """Kind "maxsim-ivf": the centroids near the vectors of a query find candidates, exact MaxSim scores them."""

    # Every vector of a query reads the lists of its nearest `probes` centroids. The documents there are ranked by
    # MaxSim with their vectors replaced by their centroids, which is cheap; the best `candidates` of them are scored
    # exactly (Santhanam et al., 2022, PLAID, arXiv:2205.09707, without its steps of pruning). So a pair has the same
    # score as in every search of visir, and a run differs from the exact one only by documents that are no candidates.
    # If fewer than `k` documents are candidates, the query is answered exactly.
    # Centroids stay as they were built when documents are added; they are computed again when more than half of the
    # documents were deleted. After many additions of another kind, build the index again.

    kind = "maxsim-ivf"
    exact = False
    settings_type = MaxSimIvfSettings
    built_suffix = ".npz"

    def _construct(self, rows: MultiRows) -> CentroidLists:
        vectors: Any = rows.parts[0].vectors
        if isinstance(vectors, CompressedVectors) and self.settings.lists == 0:
            centroids = vectors.codec.centroids  # each vector has its nearest one already
        else:
            count = min(self.settings.lists or usual_count(len(vectors)), len(vectors))
            centroids = train_centroids(vectors, count, _PURPOSE)
        return _grown(CentroidLists.of(centroids, np.zeros(1, np.int64), np.empty(0, np.int32)), rows)

    def _extend(self, built: CentroidLists, after: MultiRows) -> CentroidLists:
        return _grown(built, after)

    def _write(self, built: CentroidLists, path: Path) -> None:
        np.savez(path, centroids=built.centroids, offsets=built.offsets, codes=built.codes)

    def _read(self, rows: MultiRows, path: Path | None, facts: Mapping[str, Any]) -> CentroidLists:
        with ArrayArchive(Path(str(path))) as arrays:
            lists = CentroidLists.of(arrays["centroids"], arrays["offsets"], arrays["codes"])
        if len(lists.offsets) != len(rows) + 1:
            raise ValueError(f"centroids of {len(lists.offsets) - 1} documents for {len(rows)} rows")
        return lists

    def _find(self, rows: MultiRows, built: Any, queries: MultiVectorEmbeddings, k: int, settings: Any) -> Hits:
        wanted = min(max(k, settings.candidates), len(rows.live))
        if wanted == len(rows.live):
            return scan_parts(rows, queries, np.arange(len(queries)), k, settings.device)
        asking = TokenSide(queries, np.arange(len(queries)))
        query, row = _candidates(built, rows.dead, asking, wanted, settings.probes)
        short = np.bincount(query, minlength=len(queries)) < k
        hits = [scan_parts(rows, queries, np.flatnonzero(short), k, settings.device)] if short.any() else []
        query, row = query[~short[query]], row[~short[query]]
        part_of = np.searchsorted(rows.starts, row, side="right") - 1
        for part in np.unique(part_of):
            mine = part_of == part
            if (side := rows.prepared.get(("whole", part))) is None:  # all rows of the part, the deleted ones too
                side = rows.prepared["whole", part] = TokenSide(rows.parts[part], np.arange(len(rows.parts[part])))
            places = row[mine] - rows.starts[part]
            scores = score_token_places(asking, query[mine], side, places)
            hits.append(Hits(query[mine], rows.places[row[mine]], scores))
        return Hits.joined(hits)

    def _efforts(self, rows: MultiRows) -> list[dict[str, int]]:
        steps = [64 * 2**step for step in range(24)]
        efforts = [
            {"candidates": count, "probes": 4 if count < 2048 else 16} for count in steps if count < len(rows.live)
        ]
        return [*efforts, {"candidates": len(rows.live)}]

    def _details(self, rows: MultiRows, built: CentroidLists) -> dict[str, Any]:
        return {**super()._details(rows, built), "centroids": len(built.centroids), "postings": len(built.codes)}


def _grown(lists: CentroidLists, rows: MultiRows) -> CentroidLists:
    """Give their centroids to all rows that have none."""
    offsets, codes = [lists.offsets], [lists.codes]
    first = len(lists.offsets) - 1
    for part, start in zip(rows.parts, rows.starts, strict=False):
        begin = max(first - int(start), 0)
        if begin >= len(part):
            continue
        edges = part.offsets[begin:] - part.offsets[begin]
        nearest = _nearest(part.vectors[int(part.offsets[begin]) :], lists.centroids)
        owners = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        pairs = np.unique(owners * len(lists.centroids) + nearest)
        counts = np.bincount(pairs // len(lists.centroids), minlength=len(edges) - 1)
        offsets.append(offsets[-1][-1] + np.cumsum(counts))
        codes.append((pairs % len(lists.centroids)).astype(np.int32))
    return CentroidLists.of(lists.centroids, np.concatenate(offsets).astype(np.int64), np.concatenate(codes))


def _nearest(vectors: Any, centroids: NDArray[np.float32]) -> NDArray[np.int32]:
    if isinstance(vectors, CompressedVectors) and np.array_equal(vectors.codec.centroids, centroids):
        return vectors.nearest
    return nearest_centroids(vectors, centroids, _PURPOSE)


def _candidates(
    lists: CentroidLists, dead: NDArray[np.bool_], queries: TokenSide, wanted: int, probes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pairs of a query and a row: the best `wanted` rows of each query by their centroids, or fewer."""
    size, probes = len(lists.centroids), min(probes, len(lists.centroids))
    selected = np.full((len(queries), wanted), -1, np.int32)
    with one_blas_thread():
        for start, stop in cut(queries.offsets, max(_PRODUCTS // size, 1)):
            vectors, offsets = queries.block(start, stop)
            products = vectors @ lists.centroids.T
            nearest = np.argpartition(-products, probes - 1, axis=1)[:, :probes].astype(np.int64)
            across = np.ascontiguousarray(products.T)
            loops = loops_for(products.size)

            def share(part: Share) -> None:
                a, b = (round((stop - start) * edge) for edge in part)  # noqa: B023 (called before the next turn)
                loops.choose(  # noqa: B023
                    across, nearest, offsets, a, b, lists.starts, lists.rows, lists.offsets, lists.codes, dead,  # noqa: B023
                    selected[start:stop],  # noqa: B023
                )  # fmt: skip

            spread(share)
    query, place = np.nonzero(selected >= 0)
    return query, selected[query, place].astype(np.int64)
