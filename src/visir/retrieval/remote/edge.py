"""The engine inside this process: a Qdrant shard in a folder, read and written without a server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from visir.errors import require
from visir.files import next_data
from visir.retrieval.remote.engine import Engine, EngineHit, Nearest, Space
from visir.retrieval.remote.points import ID, Point, Vector, key_of
from visir.retrieval.remote.qdrant_answers import hits_of, vector_of
from visir.storage import Scratch
from visir.storage.removal import files_below

_LARGEST_SEGMENT = 100_000_000
"""In kilobytes: one segment, because one graph answers faster than several and nothing here runs in parallel."""
_FULL_SCAN = 10_000
"""In kilobytes: up to this size a search looks at every vector, which is as fast as a graph and finds everything."""

_AT_ONCE = 2**24

_ENDINGS = "json dat mmap info mappings versions bin data wal log tmp lock deleted"
FILES = tuple(f"**/*.{ending}" for ending in _ENDINGS.split())
"""What files of a shard are called, for those that a kill leaves half-written."""


class EdgeEngine(Engine):
    """A shard that is written once, in a folder that nobody reads yet, and then only read."""

    # A shard that is open for reading would still rewrite its configuration, so it is read through a folder of its own
    # in which the segments are a link: what an index's checksums were taken of stays as it is. The engine opens its
    # segments for writing even so; where they are read-only, they are copied for as long as the index is open.

    def __init__(self, shard: Any, view: Scratch | None = None) -> None:
        self._shard = shard
        self._view = view
        if view is not None:
            view.close_with(self)

    @classmethod
    def create(cls, folder: Path, spaces: Sequence[Space], settings: Any) -> EdgeEngine:
        """A new shard in an empty folder."""
        q = _package()
        graph: dict[str, Any] = {}
        if any(space.form != "sparse" for space in spaces):
            graph["vectors"] = {
                space.name: q.EdgeVectorParams(
                    size=space.dimension,
                    distance=q.Distance.Dot,
                    multivector_config=q.MultiVectorConfig(q.MultiVectorComparator.MaxSim)
                    if space.form == "multi-vector"
                    else None,
                )
                for space in spaces
                if space.form != "sparse"
            }
            graph["hnsw_config"] = q.HnswIndexConfig(
                m=settings.m,
                ef_construct=settings.ef_construction,
                full_scan_threshold=_FULL_SCAN,
                max_indexing_threads=settings.threads,
            )
        sparse = {space.name: q.EdgeSparseVectorParams() for space in spaces if space.form == "sparse"}
        config = q.EdgeConfig(
            **graph,
            sparse_vectors=sparse or None,
            optimizers=q.EdgeOptimizersConfig(
                default_segment_number=1, indexing_threshold=_FULL_SCAN, max_segment_size=_LARGEST_SEGMENT
            ),
            max_search_threads=1,
            wal_enabled=False,  # a folder that is half-written is thrown away, not repaired
        )
        return cls(q.EdgeShard.create(str(folder), config))

    @classmethod
    def writable(cls, folder: Path) -> EdgeEngine:
        """The shard in a folder that nobody else reads."""
        return cls(_package().EdgeShard.load(str(folder)))

    @classmethod
    def readable(cls, folder: Path) -> EdgeEngine:
        """The shard in a folder that is left as it is."""
        view = Scratch.temporary("qdrant")
        inside = view.folder("shard", *FILES)
        writable = os.access(folder / "segments", os.W_OK)
        for path in sorted(folder.iterdir()):
            if path.is_file():
                shutil.copyfile(path, view.file(f"shard/{path.name}"))
                continue
            try:
                if not writable:
                    raise PermissionError
                view.file(f"shard/{path.name}").symlink_to(path.resolve(), target_is_directory=True)
            except OSError:  # nor does every system let every user make links
                for name in files_below(path):
                    copy_with_holes(path / name, view.file(f"shard/{path.name}/{name}"))
        return cls(_package().EdgeShard.load(str(inside)), view)

    def put(self, points: Sequence[Point]) -> None:
        """Put points in."""
        q = _package()
        made = [
            q.Point(key_of(point.id), {name: _given(vector) for name, vector in point.vectors.items()}, {ID: point.id})
            for point in points
        ]
        self._shard.update(q.UpdateOperation.upsert_points(made))

    def drop(self, ids: Sequence[str]) -> None:
        """Take points out."""
        self._shard.update(_package().UpdateOperation.delete_points(list(map(key_of, ids))))

    def settle(self) -> None:
        """Build the graph and the lists of what was put in, and write everything."""
        self._shard.optimize()
        self._shard.flush()

    def ask(
        self, questions: Sequence[Nearest], *, vectors: bool, allowed: Sequence[str] | None = None
    ) -> list[list[EngineHit]]:
        """The nearest points, with or without their vectors."""
        q = _package()
        among = None if allowed is None else q.Filter(must=[q.HasIdCondition(set(map(key_of, allowed)))])
        requests = [
            q.QueryRequest(
                limit=question.limit,
                query=q.Query.Nearest(_given(question.vector), using=question.space),
                filter=among,
                with_vector=[question.space] if vectors else None,
                with_payload=[ID],
                params=q.SearchParams(hnsw_ef=question.ef, exact=question.exact),
            )
            for question in questions
        ]
        answers = self._shard.query_batch(q.QueryBatchRequest(requests))
        spaces = [question.space if vectors else None for question in questions]
        return [hits_of(answer, space) for answer, space in zip(answers, spaces, strict=True)]

    def fuse(
        self, questions: Sequence[Sequence[Nearest]], weights: Sequence[Sequence[float]], limit: int, constant: int
    ) -> list[list[EngineHit]]:
        """Reciprocal rank fusion inside the engine (which counts ranks from 0), every list alike."""
        q = _package()
        requests = [
            q.QueryRequest(
                limit=limit,
                query=q.Fusion.Rrf(k=constant + 1),
                with_payload=[ID],
                prefetches=[
                    q.Prefetch(
                        limit=question.limit,
                        query=q.Query.Nearest(_given(question.vector), using=question.space),
                        params=q.SearchParams(hnsw_ef=question.ef, exact=question.exact),
                    )
                    for question in several
                ],
            )
            for several in questions
        ]
        answers = self._shard.query_batch(q.QueryBatchRequest(requests))
        return [hits_of(answer) for answer in answers]

    def get(self, ids: Sequence[str], space: str) -> Mapping[str, Vector | None]:
        """The vectors of these points."""
        wanted = {key_of(id): id for id in ids}
        records = self._shard.retrieve(list(wanted), with_payload=False, with_vector=[space])
        return {
            wanted[record.id]: vector_of(record.vector[space]) if space in (record.vector or {}) else None
            for record in records
        }

    def about(self) -> dict[str, Any]:
        """What the shard says of itself."""
        shard = self._shard.info()
        return {"points": shard.points_count, "segments": shard.segments_count, "indexed": shard.indexed_vectors_count}

    @classmethod
    def seal(cls, folder: Path) -> None:
        """Bring the files of a shard that was written and closed into the state in which opening it changes none."""
        cls.writable(folder).close()  # journals of the last writes are worked in, and removed

    def close(self) -> None:
        """Let go of the files."""
        self._shard.close()
        if self._view is not None:
            self._view.close()


def copy_with_holes(source: Path, target: Path) -> None:
    """Copy a file, holes as holes: the engine's pages are files of 32 MB of which little is ever written."""
    with source.open("rb", buffering=0) as read, target.open("wb", buffering=0) as write:
        write.truncate(os.fstat(read.fileno()).st_size)
        end = 0
        while (start := next_data(read.fileno(), end)) is not None:
            end = os.lseek(read.fileno(), start, os.SEEK_HOLE) if hasattr(os, "SEEK_HOLE") else start + _AT_ONCE
            read.seek(start)
            write.seek(start)
            while (piece := read.read(min(_AT_ONCE, end - read.tell()))) != b"":
                write.write(piece)


def _given(vector: Vector) -> Any:
    if isinstance(vector, np.ndarray):
        return vector.tolist()
    return _package().SparseVector(*(part.tolist() for part in vector))


def _package() -> Any:
    try:
        import qdrant_edge
    except ImportError:
        require("qdrant_edge", extra="qdrant", purpose="the embedded engine of Qdrant")
        raise
    return qdrant_edge
