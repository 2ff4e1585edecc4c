"""Exact MaxSim search over memory-mapped vectors: every query against every document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from visir.display import counted, listed
from visir.errors import EmbeddingError
from visir.records import MultiVectorEmbeddings
from visir.retrieval.answers import Hits
from visir.retrieval.multi_vector.compression import CompressedVectors, ResidualCodec, other_lengths
from visir.retrieval.multi_vector.scan import scan_tokens
from visir.retrieval.multi_vector.sides import BLOCK, TokenSide, cut
from visir.retrieval.parts import MULTI
from visir.retrieval.rows import Rows
from visir.retrieval.scan import SearchState
from visir.retrieval.settings import setting
from visir.retrieval.stored import StoredIndex

QUANTISATION = "none: vectors as they are; float16; residual: the nearest centroid and a few bits for each number"


@dataclass(frozen=True)
class MaxSimSettings:
    """The settings of an exact index of multi-vectors."""

    quantisation: str = setting("none", QUANTISATION, among=("none", "float16", "residual"))
    bits: int = setting(
        4, "with residual: bits for each number; 3 take the bytes of 4, 5 to 7 those of 8", least=1, most=8
    )
    device: str = setting("", "a device of torch (cuda) for the matrix products; empty: the cores", search=True)


class MaxSimIndex(StoredIndex[MultiVectorEmbeddings]):
    """Kind "maxsim": the vectors without a further structure."""

    # Its answers are those of `visir.retrieval.exact.search` over the vectors that it holds, bit by bit, in whatever
    # order documents were added and deleted. With `quantisation` it holds other vectors than it was given: nearby ones,
    # in fewer bytes (`info().details` says how many a vector takes).

    kind = "maxsim"
    exact = True
    form = MULTI
    settings_type: ClassVar[type[Any]] = MaxSimSettings

    @classmethod
    def _as_stored(
        cls, documents: MultiVectorEmbeddings, held: MultiVectorEmbeddings | None, settings: Any
    ) -> MultiVectorEmbeddings:
        vectors: Any = documents.vectors
        if settings.quantisation == "float16":
            with np.errstate(over="ignore"):  # infinities are refused by name
                vectors = np.asarray(vectors).astype(np.float16, copy=False)
        elif settings.quantisation == "residual":
            known = None if held is None else held.vectors
            trained = isinstance(known, CompressedVectors)
            codec = known.codec if trained else ResidualCodec.trained(vectors, settings.bits)  # type: ignore[union-attr]
            if trained and codec.unit:
                _check_unit(documents)
            vectors = codec.encode(vectors)
        return MultiVectorEmbeddings(
            documents.modality, documents.ids, documents.offsets, vectors, documents.encoder, documents.origin
        )

    def documents(self) -> MultiVectorEmbeddings:
        """Return the vectors of all documents, in order of their ids, copied into memory."""
        return _plain(super().documents())

    def select(self, ids: object) -> MultiVectorEmbeddings:
        """Return the vectors of these documents, in this order."""
        return _plain(super().select(ids))

    def _construct(self, rows: Rows[MultiVectorEmbeddings]) -> Any:
        check_lengths(rows.parts[-1])
        return {}  # the side of each part, made when it is first searched

    def _extend(self, built: Any, before: Rows[MultiVectorEmbeddings], after: Rows[MultiVectorEmbeddings]) -> Any:
        return {} if len(after) == len(before) else self._construct(after)

    def _read(self, rows: Rows[MultiVectorEmbeddings], path: Path | None, facts: Mapping[str, Any]) -> Any:
        return {}

    def _find(
        self, rows: Rows[MultiVectorEmbeddings], built: Any, queries: MultiVectorEmbeddings, k: int, settings: Any
    ) -> Hits:
        return scan_parts(rows, built, queries, np.arange(len(queries)), k, settings.device)

    def _details(self, rows: Rows[MultiVectorEmbeddings], built: Any) -> dict[str, Any]:
        vectors: Any = rows.parts[0].vectors
        each = (
            vectors.codec.width if isinstance(vectors, CompressedVectors) else vectors.dtype.itemsize * vectors.shape[1]
        )
        count = sum(len(part.vectors) for part in rows.parts)
        return {"vectors": count, "bytes_per_vector": int(each)}


def _check_unit(documents: MultiVectorEmbeddings) -> None:
    """Refuse vectors of other lengths than 1, which an index of vectors of length 1 would change to 1."""
    rows = other_lengths(documents.vectors)
    if len(rows):
        owners = np.unique(np.searchsorted(documents.offsets, rows, side="right") - 1)
        raise EmbeddingError(
            f"vectors of this compressed index have length 1, but not those of {counted(len(owners), 'documents')}: "
            f"{listed((repr(documents.ids[int(row)].as_py()) for row in owners[:3]), len(owners))}.",
            hint="normalise them, or build the index with quantisation=float16",
            code="vectors-compressed-index-length",
        )


def scan_parts(
    rows: Rows[MultiVectorEmbeddings],
    sides: dict[int, TokenSide],
    queries: MultiVectorEmbeddings,
    chosen: NDArray[np.int64],
    k: int,
    device: str = "",
) -> Hits:
    """Return the best `k` documents of some queries, part by part: the score of a pair is the same in every part."""
    asking = TokenSide(queries, chosen)
    hits = []
    for part in range(len(rows.parts)):
        places = rows.part_rows(part)
        if len(places) == 0:
            continue
        if part not in sides:
            sides[part] = TokenSide(rows.parts[part], places)
        depth, none = min(k, len(places)), np.zeros(len(chosen) + 1, np.int64)
        state = SearchState(np.arange(len(chosen)), none, np.empty(0, np.int64), depth)
        indices, scores = scan_tokens(asking, sides[part], state, "id", device or None)
        row = places[indices.ravel()] + rows.starts[part]
        hits.append(Hits(np.repeat(chosen, depth), rows.places[row], scores.ravel()))
    return Hits.joined(hits)


def check_lengths(vectors: MultiVectorEmbeddings) -> None:
    """Check, before vectors are added, that they can be scored."""
    for start, stop in cut(vectors.offsets, BLOCK):
        TokenSide(vectors, np.arange(start, stop))


def _plain(vectors: MultiVectorEmbeddings) -> MultiVectorEmbeddings:
    """The same vectors as an array."""
    return MultiVectorEmbeddings(
        vectors.modality, vectors.ids, vectors.offsets, np.asarray(vectors.vectors), vectors.encoder, vectors.origin
    )
