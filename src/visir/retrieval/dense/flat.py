"""Exact search over memory-mapped vectors: every query against every document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from visir.records import Embeddings
from visir.retrieval.answers import Hits
from visir.retrieval.best import best_of
from visir.retrieval.parts import DENSE
from visir.retrieval.rows import Rows
from visir.retrieval.settings import setting
from visir.retrieval.stored import StoredIndex
from visir.retrieval.vectors import Side


@dataclass(frozen=True)
class FlatSettings:
    """The settings of an exact index."""

    similarity: str = setting("cosine", "cosine, or dot: vectors as they are", among=("cosine", "dot"))
    device: str = setting("", "a device of torch (cuda) for the matrix products; empty: the cores", search=True)


class FlatIndex(StoredIndex[Embeddings]):
    """Kind "exact": the vectors without a further structure."""

    # Its answers are those of `visir.retrieval.exact.search` over the same documents, bit by bit, in whatever order
    # documents were added and deleted. The score of a pair depends on its two vectors alone, so the parts can be
    # searched one by one. Parts of up to 1 GiB as float32 stay in memory after the first search; larger parts are read
    # block by block. With `device` they are searched on a GPU, to the same answers; what fits into half of its free
    # memory stays there after the first search.

    kind = "exact"
    exact = True
    form = DENSE
    settings_type = FlatSettings

    def _construct(self, rows: Rows[Embeddings]) -> dict[int, Side]:
        check_no_zero_vectors(rows.parts[-1], self.settings.similarity)
        return {}  # the side of each part, made when it is first searched

    def _extend(self, built: Any, before: Rows[Embeddings], after: Rows[Embeddings]) -> dict[int, Side]:
        return {} if len(after) == len(before) else self._construct(after)

    def _read(self, rows: Rows[Embeddings], path: Path | None, facts: Mapping[str, Any]) -> dict[int, Side]:
        return {}

    def _find(
        self, rows: Rows[Embeddings], built: dict[int, Side], queries: Embeddings, k: int, settings: FlatSettings
    ) -> Hits:
        asking = Side(queries, np.arange(len(queries)), self.settings.similarity)
        hits = []
        for part in range(len(rows.parts)):
            if part not in built:
                built[part] = Side(rows.parts[part], rows.part_rows(part), self.settings.similarity)
            places = built[part].rows
            if len(places) == 0:
                continue
            depth = min(k, len(places))
            indices, scores = best_of(asking, built[part], depth, settings.device)
            row = places[indices.ravel()] + rows.starts[part]
            hits.append(Hits(np.repeat(np.arange(len(queries)), depth), rows.places[row], scores.ravel()))
        return Hits.joined(hits)

    def _details(self, rows: Rows[Embeddings], built: Any) -> dict[str, Any]:
        return {"dtype": str(rows.parts[0].vectors.dtype)}


def check_no_zero_vectors(vectors: Embeddings, similarity: Any) -> None:
    """Check, before vectors are added, that they can be scored."""
    step = 8192
    for start in range(0, len(vectors), step):
        Side(vectors, np.arange(start, min(start + step, len(vectors))), similarity)
