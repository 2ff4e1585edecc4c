"""Dense and sparse vectors of the same documents in one collection, and a search by both in one request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from visir.display import counted
from visir.errors import ConfigurationError, EmbeddingError, RunError, nearest
from visir.records import Embeddings, Run, SparseEmbeddings
from visir.retrieval.answers import Hits, check_depth, run_of
from visir.retrieval.remote.addresses import name_address
from visir.retrieval.remote.dense import (
    MilvusIndex,
    PgvectorIndex,
    PgvectorSparseIndex,
    QdrantIndex,
    RemoteDenseIndex,
    RemoteSparseIndex,
    held_as,
)
from visir.retrieval.remote.engine import Engine, Nearest, Point, Space
from visir.retrieval.remote.index import VALUES
from visir.retrieval.remote.storage import RemoteStorage, SearchPlaces
from visir.retrieval.rows import DENSE, SPARSE, check_fits_index
from visir.retrieval.settings import searching, settings_of
from visir.retrieval.stored import read_index
from visir.retrieval.vectors import in_order

# Reciprocal rank fusion outside of the engine, where it ranks documents of another program among the index's.


def fuse_known(
    engine: Engine,
    searches: Sequence[Nearest],
    weights: Sequence[float],
    documents: SearchPlaces,
    limit: int,
    constant: int,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The places and scores of the best `limit` documents, by falling score, ties by place."""
    sums: dict[int, float] = {}
    for search, weight in zip(searches, weights, strict=True):
        wanted = search.limit
        while True:  # until there are as many documents that count as are wanted
            ef = None if search.ef is None else max(search.ef, wanted)
            [answer] = engine.ask([replace(search, limit=wanted, ef=ef)], vectors=False)
            places = documents.places([hit.id for hit in answer])
            known: list[int] = places[places >= 0][: search.limit].tolist()
            if len(known) == search.limit or len(answer) < wanted:
                break
            wanted *= 4
        for rank, place in enumerate(known, 1):
            sums[place] = sums.get(place, 0.0) + weight / (constant + rank)
    best = sorted(sums, key=lambda place: (-sums[place], place))[:limit]
    return np.array(best, np.int64), np.array([sums[place] for place in best], np.float32)


ENGINES: dict[str, type[RemoteDenseIndex]] = {"qdrant": QdrantIndex, "pgvector": PgvectorIndex, "milvus": MilvusIndex}
"""The engines that hold both forms, and their kind of dense index, whose settings a collection has."""
_UNWEIGHTED = {
    "qdrant": "Qdrant weights lists by a formula of its own",
    "milvus": "Milvus fuses ranks without weights",
}
"""Those that do not weight the lists of a fusion as the formula says, and why."""
_ENDING = "-hybrid"
"""`visir.json` calls such a folder qdrant-hybrid. It is no kind of `visir.retrieval.kinds`: those hold one form."""
_QUERIES = 64


class HybridCollection:
    """One collection whose points have a dense and a sparse vector, embedded or on a server by the setting `url`."""

    # `search` asks for both and lets the engine fuse the two lists by reciprocal rank (Cormack et al., 2009): a
    # document scores the sum of weight / (constant + rank) over the lists that it stands in, ranks counted from 1. One
    # request instead of two, and no vector comes back; the price is that the engine ranks by its own single-precision
    # scores, so that of documents that score equally, which one stands first is the engine's choice.

    def __init__(self, storage: RemoteStorage) -> None:
        self._storage = storage
        self._dense, self._sparse = storage.state.own["dense"], storage.state.own["sparse"]

    @classmethod
    def build(
        cls,
        dense: Embeddings,
        sparse: SparseEmbeddings,
        folder: Path | None = None,
        *,
        engine: str = "qdrant",
        **options: Any,
    ) -> Self:
        """Build a collection of documents with both vectors."""
        if engine not in ENGINES:
            raise ConfigurationError(f"engine={engine!r} holds no vectors of both forms ({nearest(engine, ENGINES)}).")
        settings = settings_of(engine + _ENDING, ENGINES[engine].settings_type, options)
        if settings.url:
            name_address(settings.url, getattr(settings, "grpc", 0))
        _check(dense, sparse, settings, ENGINES[engine])
        facts = {
            "kind": engine + _ENDING,
            "modality": dense.modality,
            "encoder": dense.encoder.to_dict(),
            "sparse encoder": sparse.encoder.to_dict(),
        }

        storage = RemoteStorage.create(
            None if folder is None else Path(folder),
            facts,
            settings,
            [Space("dense", dense.dimension), Space("sparse", sparse.dimension, "sparse")],
            lambda: {"dense": dense.select([]), "sparse": sparse.select([])},
            dense.ids,
            lambda: _batches(dense, sparse, settings),
        )
        return cls(storage)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Open the collection in a folder."""
        folder = Path(folder)
        kind = read_index(folder).content["kind"]
        if kind.removesuffix(_ENDING) not in ENGINES or not kind.endswith(_ENDING):
            raise ConfigurationError(
                f"{folder}: holds an index of kind {kind!r}, no collection of both forms.",
                hint="visir.retrieval.open_index reads it",
                code="holds-index-kind-no",
            )
        return cls(RemoteStorage.load(folder, ENGINES[kind.removesuffix(_ENDING)].settings_type, "dense", "sparse"))

    def add(self, dense: Embeddings, sparse: SparseEmbeddings) -> None:
        """Add documents; as `Index.add`."""
        check_fits_index(DENSE, dense, self._dense, added=True)
        check_fits_index(SPARSE, sparse, self._sparse, added=True)
        _check(dense, sparse, self._storage.settings, ENGINES[self._kind.removesuffix(_ENDING)])
        self._storage.add(dense.ids, lambda: _batches(dense, sparse, self._storage.settings))

    def delete(self, ids: object) -> None:
        """Delete documents; as `Index.delete`."""
        self._storage.delete(ids)

    def __len__(self) -> int:
        return len(self._storage.state.documents)

    @property
    def _kind(self) -> str:
        kind: str = self._storage.content["kind"]
        return kind

    def search(
        self,
        dense: Embeddings,
        sparse: SparseEmbeddings,
        k: int = 10,
        *,
        depth: int = 100,
        constant: int = 60,
        weights: tuple[float, float] = (1.0, 1.0),
        **options: Any,
    ) -> Run:
        """Return the best `k` documents of each query by the fused ranks of the dense and the sparse search."""
        # A query without a term is answered by its dense vector alone.
        engine = self._kind.removesuffix(_ENDING)
        if weights != (1.0, 1.0) and engine in _UNWEIGHTED:
            raise RunError(
                f"weights={weights}: {_UNWEIGHTED[engine]}.",
                hint="leave them out, or build the collection with engine='pgvector'",
            )
        state, settings = self._storage.state, searching(self._kind, self._storage.settings, options)
        check_depth(depth, "depth")
        if len(weights) != 2 or not all(0 < weight < np.inf for weight in weights):
            raise RunError(f"weights are two numbers greater than 0, of the dense and the sparse list, not {weights}.")
        if not constant >= 0:
            raise RunError(
                f"constant={constant}: the constant of reciprocal rank fusion is a number from 0.",
                code="constant-reciprocal-rank-fusion",
            )
        ordered = in_order(DENSE, dense, self._dense, len(state.documents), k)
        deep, best = min(depth, len(state.documents)), min(k, len(state.documents))
        _check_same_ids(ordered, in_order(SPARSE, sparse, self._sparse, len(state.documents), k), "query")
        words = sparse.select(ordered.ids)
        hits, answers = [], state.documents.begin_search()
        for first in range(0, len(ordered), _QUERIES):
            last = min(first + _QUERIES, len(ordered))
            vectors = [
                held_as(vector, settings) for vector in RemoteDenseIndex._outgoing(ordered, first, last, settings)
            ]
            terms = RemoteSparseIndex._outgoing(words, first, last, settings)
            searches = [
                [Nearest("dense", vector, deep, max(settings.ef_search, deep))]
                + ([Nearest("sparse", weighted, deep)] if len(weighted[0]) else [])
                for vector, weighted in zip(vectors, terms, strict=True)
            ]
            of_each = [weights[: len(several)] for several in searches]
            fused = state.engine.fuse(searches, of_each, best, constant)
            for at, several in enumerate(searches):
                places = answers.places([hit.id for hit in fused[at]])
                if (places < 0).any():  # another program has put documents there
                    places, scores = fuse_known(state.engine, several, of_each[at], answers, best, constant)
                else:
                    scores = np.array([hit.score for hit in fused[at]], np.float32)
                hits.append(Hits(np.full(len(places), first + at), places, scores))
        about = {"search": self._kind, "depth": depth, "constant": constant, "weights": weights, **asdict(settings)}
        documents, hits_of_all = answers.finish(Hits.joined(hits))
        return run_of(hits_of_all, ordered, state.documents.gallery, k, self._dense.encoder, about, documents)


def _batches(dense: Embeddings, sparse: SparseEmbeddings, settings: Any) -> Iterator[list[Point]]:
    ids = dense.ids.to_pylist()
    words = sparse.select(dense.ids)
    width = dense.dimension + 2 * len(words.terms) // max(len(words), 1)
    step = max(1, min(4096, VALUES // max(width, 1)))
    for start in range(0, len(ids), step):
        stop = min(start + step, len(ids))
        vectors = RemoteDenseIndex._outgoing(dense, start, stop, settings)
        terms = RemoteSparseIndex._outgoing(words, start, stop, settings)
        yield [Point(ids[start + i], {"dense": vectors[i], "sparse": terms[i]}) for i in range(stop - start)]


def _check(dense: Embeddings, sparse: SparseEmbeddings, settings: Any, kind: type[RemoteDenseIndex]) -> None:
    if len(dense) == 0:
        raise EmbeddingError(
            "there is no vector to index.", hint="is the split, or the filter, right?", code="no-vector-index"
        )
    _check_same_ids(dense, sparse, "document")
    kind._check(dense, settings)
    if kind is PgvectorIndex:
        PgvectorSparseIndex._check(sparse, replace(settings, m=0))


def _check_same_ids(dense: Embeddings, sparse: SparseEmbeddings, what: str) -> None:
    other = set(dense.ids.to_pylist()) ^ set(sparse.ids.to_pylist())
    if other:
        raise EmbeddingError(
            f"{counted(len(other), 'ids', 'have')} only one of the two vectors: "
            f"{', '.join(map(repr, sorted(other)[:5]))}"
            f"{', …' if len(other) > 5 else ''}.",
            hint=f"encode every {what} with both models",
            code="one-of-two-vectors",
        )
