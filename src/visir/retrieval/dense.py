"""Dense indexes: exact, a graph of near neighbours (HNSW), and short codes in lists (IVF)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.files import expect_single_rows, release
from visir.fingerprint import hash_columns, hash_json
from visir.records import Embeddings, EncoderCard
from visir.retrieval.answers import Hits
from visir.retrieval.clustering import faiss_threads, load_faiss, train_centroids
from visir.retrieval.index import INDEX, IndexState, StoredIndex, check_new_index
from visir.retrieval.rows import DENSE, LARGEST, Rows
from visir.retrieval.scan import best_of
from visir.retrieval.settings import recall, setting, settings_of
from visir.retrieval.vectors import BLOCK, Side, loops_for
from visir.storage import FolderChange, changing
from visir.threads import Share, cores, piece, spread


@dataclass(frozen=True)
class FlatSettings:
    """The settings of an exact index."""

    similarity: str = setting("cosine", "cosine, or dot: vectors as they are", among=("cosine", "dot"))
    device: str = setting("", "a device of torch (cuda) for the matrix products; empty: the cores", search=True)


DenseRows = Rows[Embeddings]


class DenseIndex(StoredIndex[Embeddings]):
    """An index of dense vectors, with a setting `similarity`."""

    form = DENSE

    def _vectors(self, rows: DenseRows, wanted: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the (n, d) vectors of these rows, which ascend, as they are compared."""
        vectors = np.empty((len(wanted), rows.parts[0].dimension), np.float32)
        edges = np.searchsorted(wanted, rows.starts)
        for part, start, first, last in zip(rows.parts, rows.starts, edges, edges[1:], strict=False):
            for begin in range(first, last, BLOCK):
                end = min(begin + BLOCK, last)
                side = Side(part, wanted[begin:end] - start, self.settings.similarity)
                vectors[begin:end] = side.block(0, len(side))
        return vectors

    def _blocks(self, rows: DenseRows, first: int) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors of the rows from `first` on, as they are compared."""
        for start in range(first, len(rows), BLOCK):
            yield self._vectors(rows, np.arange(start, min(start + BLOCK, len(rows))))

    def _asking(self, queries: Embeddings) -> Side:
        return Side(queries, np.arange(len(queries)), self.settings.similarity)

    def _details(self, rows: DenseRows, built: Any) -> dict[str, Any]:
        return {"dtype": str(rows.parts[0].vectors.dtype)}


class FlatIndex(DenseIndex):
    """Kind "exact": the vectors without a further structure."""

    # Its answers are those of `visir.retrieval.exact.search` over the same documents, bit by bit, in whatever order
    # documents were added and deleted. The score of a pair depends on its two vectors alone, so the parts can be
    # searched one by one. Parts of up to 1 GiB as float32 stay in memory after the first search; larger parts are read
    # block by block. With `device` they are searched on a GPU, to the same answers; what fits into half of its free
    # memory stays there after the first search.

    kind = "exact"
    exact = True
    settings_type = FlatSettings

    @classmethod
    def _as_stored(cls, documents: Embeddings, held: Embeddings | None, settings: FlatSettings) -> Embeddings:
        check_no_zero_vectors(documents, settings.similarity)
        return documents

    def _find(self, rows: DenseRows, built: None, queries: Embeddings, k: int, settings: FlatSettings) -> Hits:
        asking, hits = self._asking(queries), []
        for part in range(len(rows.parts)):
            if part not in rows.prepared:
                rows.prepared[part] = Side(rows.parts[part], rows.part_rows(part), self.settings.similarity)
            side = rows.prepared[part]
            if len(side):
                depth = min(k, len(side))
                indices, scores = best_of(asking, side, depth, settings.device)
                row = side.rows[indices.ravel()] + rows.starts[part]
                query = np.repeat(np.arange(len(queries)), depth)
                hits.append(Hits(query, rows.places[row], scores.ravel(), in_order=True))
        return Hits.joined(hits)


Gather = Callable[[NDArray[np.int64]], tuple[NDArray[np.float32], NDArray[np.int64]]]
"""From the (q, c) rows of an index to a matrix that contains their vectors, and their rows in it."""
_PAIRS = 2**12
"""Candidates that are read at once: where the system maps 64 kB around each on disk, 256 MiB."""


def scored(rows: DenseRows, asking: NDArray[np.float32], candidates: NDArray[np.int64], k: int, gather: Gather) -> Hits:
    """The best `k` of the (q, c) rows that a kind places for each query (-1: none), by exact scores."""
    places, scores = np.empty((len(asking), k), np.int64), np.empty((len(asking), k), np.float32)
    fill = np.zeros(len(asking), np.int64)
    step = max(_PAIRS // max(candidates.shape[1], 1), 1)
    for first in range(0, len(asking), step):
        some = slice(first, first + step)
        _score(rows, asking[some], candidates[some], k, gather, (places[some], scores[some], fill[some]))
    short = np.flatnonzero(fill < k)  # few candidates: every document is compared, so an answer is never short
    if len(short) == 0:
        return Hits.ordered(places, scores, fill)
    fill[short] = 0
    hits = [Hits.ordered(places, scores, fill)]
    for start in range(0, len(rows.live), _PAIRS):
        some_rows = rows.live[start : start + _PAIRS][None]
        for query in short.tolist():
            of_one = np.empty((1, k), np.int64), np.empty((1, k), np.float32), np.zeros(1, np.int64)
            _score(rows, asking[query : query + 1], some_rows, k, gather, of_one)
            best = Hits.ordered(*of_one)
            hits.append(Hits(best.queries + query, best.places, best.scores))
    return Hits.joined(hits)


def _score(
    rows: DenseRows, asking: NDArray[np.float32], candidates: NDArray[np.int64], k: int, gather: Gather, out: Any
) -> None:
    vectors, at = gather(candidates)
    places, loops = rows.places[candidates], loops_for(candidates.size * asking.shape[1], "best_candidates")
    if len(asking) == 1:
        loops.best_candidates(0, 1, asking, vectors, at, places, k, *out)
        return
    spread(lambda part: loops.best_candidates(*piece(len(asking), part), asking, vectors, at, places, k, *out))


def check_no_zero_vectors(vectors: Embeddings, similarity: Any) -> None:
    """Check, before vectors are added, that they can be scored."""
    for start in range(0, len(vectors), BLOCK):
        Side(vectors, np.arange(start, min(start + BLOCK, len(vectors))), similarity)


@dataclass(frozen=True)
class HnswSettings:
    """The settings of a graph: its cost and its quality (Malkov and Yashunin, 2018: arXiv:1603.09320)."""

    similarity: str = setting("cosine", "cosine, or dot: vectors as they are", among=("cosine", "dot"))
    m: int = setting(
        32, "neighbours of a vector (twice as many in the lowest layer): more find better, 8 bytes each", least=2
    )
    ef_construction: int = setting(
        200, "candidates looked at when a vector is put in: more build slower and find better", least=1
    )
    ef_search: int = setting(
        64, "candidates kept while searching: more find better, time grows about in step", least=1, search=True
    )
    threads: int = setting(
        1, "threads that build; with more than one the graph depends a little on their timing", least=1
    )
    recall: float = recall()


@dataclass(frozen=True)
class Graph:
    """A FAISS graph over all rows."""

    index: Any  # the FAISS index
    # (rows, d) float32, the vectors that it compares, divided by their lengths for cosine; a view of the memory of
    # FAISS.
    vectors: NDArray[np.float32]


class HnswIndex(DenseIndex):
    """Kind "hnsw": FAISS finds candidates, visir scores them."""

    # The graph decides only *which* documents are scored: all `max(k, ef_search)` candidates are scored as in exact
    # search and ordered by that score, ties by id. So a pair has the same score as in every search of visir, and a run
    # differs from the exact one only by documents that the graph did not find. If the graph finds fewer than `k`
    # documents (it cannot reach most of many equal vectors, and some near many deleted ones), the query is answered
    # exactly, so an answer is never short.
    # Deleted documents stay in the graph as nodes of its paths, but not in answers. When they are more than half, the
    # graph is built again. The disk has the graph without vectors, and the vectors; memory has both.
    # Under similarity "dot" the graph is over inner products, which are not distances: at the same settings, vectors of
    # very unequal lengths are found less well than under cosine.

    kind = "hnsw"
    exact = False
    settings_type = HnswSettings
    built_suffix = ""

    def _construct(self, rows: DenseRows) -> Graph:
        faiss = _faiss()
        index = faiss.IndexHNSWFlat(rows.parts[0].dimension, self.settings.m, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = self.settings.ef_construction
        return self._grown(index, rows)

    def _extend(self, built: Graph, after: DenseRows) -> Graph:
        return self._grown(_faiss().clone_index(built.index), after)

    def _grown(self, index: Any, rows: DenseRows) -> Graph:
        """Add all rows to the graph that are not in it."""
        faiss = _faiss()
        # Levels are drawn from the number of rows, not from what this process drew before: the same steps give the
        # same graph, whether the index was loaded in between or not.
        index.hnsw.rng = faiss.RandomGenerator(12345 + index.ntotal)
        with faiss_threads(faiss, self.settings.threads):
            for block in self._blocks(rows, index.ntotal):
                index.add(block)
        return _graph(index)

    def _write(self, built: Graph, path: Path) -> None:
        faiss = _faiss()
        faiss.write_index(built.index, str(path), faiss.IO_FLAG_SKIP_STORAGE)

    def _read(self, rows: DenseRows, path: Path | None, facts: Mapping[str, Any]) -> Graph:
        faiss = _faiss()
        index = faiss.read_index(str(path))
        if index.ntotal != len(rows):
            raise ValueError(f"a graph of {index.ntotal} vectors for {len(rows)} rows")
        storage = faiss.IndexFlatIP(rows.parts[0].dimension)
        for block in self._blocks(rows, 0):
            storage.add(block)
        storage.this.disown()  # the graph frees it
        index.storage, index.own_fields = storage, True
        return _graph(index)

    def _find(self, rows: DenseRows, built: Graph, queries: Embeddings, k: int, settings: HnswSettings) -> Hits:
        faiss, asking = _faiss(), self._asking(queries).block(0, len(queries))
        candidates = min(max(k, settings.ef_search), len(rows))
        parameters = faiss.SearchParametersHNSW(efSearch=candidates)
        if len(rows.live) < len(rows):
            alive = np.packbits(~rows.dead, bitorder="little")
            selector = faiss.IDSelectorBitmap(alive)
            parameters.sel = selector
        _, labels = built.index.search(asking, candidates, params=parameters)
        return scored(rows, asking, labels, k, lambda wanted: (built.vectors, wanted))

    def _efforts(self, rows: DenseRows) -> list[dict[str, int]]:
        sizes = (round(16 * 2 ** (step / 2)) for step in range(14))
        return [{"ef_search": size} for size in sizes if size <= max(len(rows), 16)]

    def _details(self, rows: DenseRows, built: Graph) -> dict[str, Any]:
        return {"layers": int(built.index.hnsw.max_level) + 1}


def _graph(index: Any) -> Graph:
    faiss = _faiss()
    storage = faiss.downcast_index(index.storage)
    vectors = faiss.rev_swig_ptr(storage.get_xb(), index.ntotal * index.d).reshape(index.ntotal, index.d)
    return Graph(index, vectors)


def _faiss() -> Any:
    return load_faiss("an index of kind 'hnsw'")


# Short codes of vectors in lists of near vectors (IVF), in memory: trained, filled and searched by FAISS.

PURPOSE = "an index of kind 'ivf'"
SAMPLE = 40
"""Vectors for each centroid that training looks at."""
_MOST = 16_384
_LEAST = 16
"""Centroids of product quantisation (4 bits), and so the fewest vectors it is trained with."""
_GRAPH = 1024
"""From this many centroids on, the list of a vector that is added is found in a graph over them."""
_COARSE = 64
"""Candidates in that graph."""
_CHECKSUM, _READ = 16, 2**24
"""Bytes of a checksum, and of what is read at once to compute it."""


def usual_lists(vectors: int) -> int:
    """Return how many lists so many vectors get: about 4 √vectors, a power of two, 39 vectors in each, at most
    16,384."""
    power = round(math.log2(4 * math.sqrt(max(vectors, 1))))
    return max(1, min(int(2**power), vectors // 39, _MOST))


def usual_probes(lists: int) -> int:
    """Return how many of so many lists a search reads: about 2 √lists, at least 16."""
    # That found .98 to .99 of the best ten among a hundred thousand to ten million vectors (docs/background/scale.md).
    return min(lists, max(16, round(2 * math.sqrt(lists))))


def trained(sample: NDArray[np.float32], lists: int, numbers: int, *, unit: bool) -> Any:
    """Return an empty FAISS index of lists and codes; the same for the same sample."""
    # sample: (m, d) vectors, m at least 1.
    faiss = load_faiss(PURPOSE)
    centroids = train_centroids(sample, lists, PURPOSE, unit=unit, sample=SAMPLE)
    numbers = min(numbers, sample.shape[1])
    padded = -(-sample.shape[1] // numbers) * numbers
    with faiss_threads(faiss, 1):  # a graph made by several threads depends on their timing
        if unit and lists >= _GRAPH:
            coarse = faiss.IndexHNSWFlat(padded, 32, faiss.METRIC_INNER_PRODUCT)
            coarse.hnsw.efConstruction = 100
            coarse.hnsw.efSearch = _COARSE
        else:
            coarse = faiss.IndexFlatIP(padded)
        coarse.add(_padded(centroids, padded))
    codes = faiss.IndexIVFPQFastScan(coarse, padded, lists, padded // numbers, 4, faiss.METRIC_INNER_PRODUCT)
    coarse.this.disown()  # the index frees it
    codes.own_fields = True
    codes.pq.cp.min_points_per_centroid = 1  # else it warns of small collections
    enough = np.resize(sample, (max(len(sample), _LEAST), sample.shape[1]))
    with faiss_threads(faiss, cores()):
        codes.train(_padded(enough, padded))
    return codes


def append(codes: Any, vectors: NDArray[np.float32]) -> None:
    """Give lists and codes to (n, d) more vectors, numbered from `codes.ntotal` on."""
    faiss = load_faiss(PURPOSE)
    with faiss_threads(faiss, cores()):
        codes.add(_padded(vectors, codes.d))


def write_sealed(codes: Any, path: Path) -> None:
    """Write codes into a file that ends in a checksum of all before it, which FAISS does not read."""
    load_faiss(PURPOSE).write_index(codes, str(path))
    checksum = _checksum(path, path.stat().st_size)
    with path.open("ab") as stream:
        stream.write(checksum)


def read_sealed(path: Path) -> Any | None:
    """Return what `write_sealed` wrote; None where the file is cut, or a byte has changed: FAISS might crash of it."""
    size = path.stat().st_size - _CHECKSUM
    if size < 0:
        return None
    with path.open("rb") as stream:
        stream.seek(size)
        checksum = stream.read()
    return load_faiss(PURPOSE).read_index(str(path)) if _checksum(path, size) == checksum else None


def _checksum(path: Path, size: int) -> bytes:
    """The checksum of the first `size` bytes."""
    digest = hashlib.blake2b(digest_size=_CHECKSUM)
    with path.open("rb") as stream:
        for start in range(0, size, _READ):
            digest.update(stream.read(min(_READ, size - start)))
    return digest.digest()


def nearest_codes(
    codes: Any,
    queries: NDArray[np.float32],
    lists: NDArray[np.int32],
    products: NDArray[np.float32],
    wanted: int,
    among: DenseRows,
) -> NDArray[np.int64]:
    """Return the (n, wanted) rows whose codes are nearest to each query, -1 where there are fewer in the lists read."""
    # Queries are searched one by one, so what is found for one depends on no other.
    # queries: (n, d) vectors.
    # lists: (n, probes) the lists that are read for each query.
    # products: (n, probes) the products of the query with the centroids of these lists.
    # among: the rows; deleted ones are passed over.
    faiss = load_faiss(PURPOSE)
    padded, products = _padded(queries, codes.d), np.ascontiguousarray(products)
    rows = np.empty((len(padded), wanted), np.int64)
    options: dict[str, Any] = {}
    if len(among.live) < len(among):
        alive = np.packbits(~among.dead, bitorder="little")
        options["sel"] = faiss.IDSelectorBitmap(alive)
    parameters = faiss.SearchParametersIVF(nprobe=lists.shape[1], **options)
    numbers = lists.astype(np.int64)

    def share(part: Share) -> None:
        first, last = piece(len(padded), part)
        distances = np.empty((1, wanted), np.float32)
        with faiss_threads(faiss, 1):
            for query in range(first, last):
                own = slice(query, query + 1)
                given = map(faiss.swig_ptr, (padded[own], numbers[own], products[own], distances, rows[own]))
                vector, some, scores, best_scores, best_rows = given
                # The method without "_c" takes no parameters.
                codes.search_preassigned_c(1, vector, wanted, some, scores, best_scores, best_rows, False, parameters)

    spread(share, len(padded))
    return rows


def _padded(vectors: NDArray[np.float32], dimension: int) -> NDArray[np.float32]:
    """Vectors with zeros at the end, so that they can be cut into equal pieces."""
    missing = dimension - vectors.shape[1]
    return np.pad(vectors, ((0, 0), (0, missing))) if missing else np.ascontiguousarray(vectors)


_GROWTH = 4
"""With so many times the vectors it was trained for, the quantiser is trained anew."""


@dataclass(frozen=True)
class IvfSettings:
    """The settings of lists of codes: their cost and their quality."""

    similarity: str = setting("cosine", "cosine, or dot: vectors as they are", among=("cosine", "dot"))
    lists: int = setting(0, "lists of near vectors; 0: about 4 times the root of all vectors, up to 16,384", least=0)
    piece: int = setting(
        2, "numbers of a vector that share a code of 4 bits: fewer find better and take more memory", least=1
    )
    probes: int = setting(
        0, "lists read for each query: more find better, and cost more; 0: 2 times the root of all lists",
        least=0, search=True,
    )  # fmt: skip
    rescore: int = setting(
        100, "candidates whose vectors are read from disk and scored exactly: more find better", least=1, search=True
    )
    recall: float = recall()


@dataclass(frozen=True, eq=False)
class CodedRows:
    """The codes of all rows, in lists."""

    codes: Any  # the FAISS index; row r has the number r
    rows: int  # how many rows there were when it was trained
    dimension: int  # of the vectors; codes are of vectors with zeros at the end

    @cached_property
    def centroids(self) -> Side:
        """The centroid of each list, for exact search."""
        vectors = self.codes.quantizer.reconstruct_n(0, self.codes.nlist)[:, : self.dimension]
        ids = pa.array([str(row) for row in range(len(vectors))], pa.string())
        held = Embeddings("image", ids, np.ascontiguousarray(vectors), EncoderCard("centroids", "imported"))
        return Side(held, np.arange(len(vectors)), "dot")


class IvfIndex(DenseIndex):
    """Kind "ivf": for many vectors in little memory. Codes in memory find candidates, vectors on disk score them."""

    # Memory holds a short code of each vector (128 bytes for 512 dimensions), sorted into lists of near vectors. A
    # query reads the codes of its nearest `probes` lists. The vectors of the best `rescore` codes (or `k`, if that is
    # more) are read from disk, in the precision that they were given in (float16, say), and scored as in exact search,
    # ties by id. So a pair has the same score as in every search of visir, and a run differs from the exact one only by
    # documents that are no candidates. If a query has fewer than `k` candidates, more lists are read, so an answer is
    # never short; where codes tell nothing apart (a query of zeros, under "dot"), all vectors are scored. An index of
    # at most `rescore` documents answers exactly.
    # The vectors stay memory-mapped, and pages that were read are given back: they do not count as memory.
    # An index of more than a million vectors is built part by part. A build that was killed leaves an unfinished
    # folder, which the same call goes on from: at most one part is lost. Centroids and codes come from a seeded sample.
    # The same documents give the same index; another number of threads, or another processor, may change last bits of
    # sums, and so a few candidates.
    # Added documents get codes by the centroids that are there. With four times the documents, all is trained anew;
    # when more than half are deleted too. Under similarity "dot", vectors of very unequal lengths are found less well.

    kind = "ivf"
    exact = False
    settings_type = IvfSettings
    built_suffix = ""

    @classmethod
    def build(
        cls, documents: Embeddings, folder: Path | None = None, *, queries: Embeddings | None = None, **options: Any
    ) -> Self:
        """Build an index; of many documents in a folder, part by part."""
        if folder is None or len(documents) <= LARGEST:
            return super().build(documents, folder, queries=queries, **options)
        folder = Path(folder)
        settings = settings_of(cls.kind, cls.settings_type, options)
        check_new_index(folder)
        busy = INDEX.error(
            f"{folder}: another process is making it.", hint="wait until it is done", code="another-process-making"
        )
        with changing(folder, INDEX, busy=busy, resume=True) as change:
            index = cls(IndexState(Rows.of(cls.form, documents), None), settings)
            index._state = state = index._built_in_parts(change, documents)
            index._calibrate(queries)
            index._write_state(change, state, state)
        return cls.load(folder)

    def _built_in_parts(self, change: FolderChange, documents: Embeddings) -> IndexState[Embeddings]:
        """Write the parts of an index and return its state; go on from what a killed build has left."""
        # After each part, the codes of all parts so far are written in one step. What was left is used if its vectors
        # are those of the documents, and if it was trained with the same sample and settings.
        cuts = range(0, len(documents), LARGEST)
        names = [f"part-{change.manifest.generation + 1}-{number}" for number in range(len(cuts))]
        pieces = [_slice(documents, start, min(start + LARGEST, len(documents))) for start in cuts]
        same = 0
        while same < len(pieces) and _is_written(change, names[same], pieces[same]):
            same += 1
        sample = self._sample(Rows.of(self.form, documents))
        about = {
            **asdict(self.settings),
            "encoder": documents.encoder.to_dict(),
            "sample": hash_columns([pa.array(sample.ravel())], sort=False),
        }
        file = f"unfinished-{hash_json(about)}.faiss"
        codes = None
        if change.claimed(file) and (change.folder / file).is_file():
            codes = read_sealed(change.folder / file)
        if codes is None or codes.ntotal > sum(map(len, pieces[:same])):
            codes = self._trained(sample, len(documents))
        del sample
        parts: list[Embeddings] = []
        for number, (name, documents_of_part) in enumerate(zip(names, pieces, strict=True)):
            if number >= same:
                change.clear(name)
                self.form.write(documents_of_part, change.subfolder(name, *self.form.files))
                release(documents_of_part.vectors)
            change.written(name)
            parts.append(self.form.read(change.folder / name, documents.modality, documents.encoder))
            if codes.ntotal < cuts[number] + len(documents_of_part):
                for block in self._blocks(Rows.of(self.form, parts[-1]), codes.ntotal - cuts[number]):
                    append(codes, block)
                with change.replacing(file, counts=False) as path:
                    write_sealed(codes, path)
        rows = Rows(self.form, tuple(parts), np.zeros(len(documents), np.bool_))
        return IndexState(rows, CodedRows(codes, len(documents), documents.dimension), tuple(names))

    def _construct(self, rows: DenseRows) -> CodedRows:
        return self._grown(self._trained(self._sample(rows), len(rows)), rows, len(rows))

    def _extend(self, built: CodedRows, after: DenseRows) -> CodedRows:
        if len(after) >= _GROWTH * built.rows:
            return self._construct(after)
        return self._grown(load_faiss(PURPOSE).clone_index(built.codes), after, built.rows)

    def _grown(self, codes: Any, rows: DenseRows, trained_rows: int) -> CodedRows:
        """Add all rows to the codes that are not in them."""
        for block in self._blocks(rows, codes.ntotal):
            append(codes, block)
        return CodedRows(codes, trained_rows, rows.parts[0].dimension)

    def _trained(self, sample: NDArray[np.float32], rows: int) -> Any:
        lists = min(self.settings.lists or usual_lists(rows), len(sample))
        return trained(sample, lists, self.settings.piece, unit=self.settings.similarity == "cosine")

    def _sample(self, rows: DenseRows) -> NDArray[np.float32]:
        """Return the vectors that the quantiser is trained with, as they are compared."""
        size = max(SAMPLE * (self.settings.lists or usual_lists(len(rows))), 4096)
        chosen = np.arange(len(rows))
        if len(rows) > size:
            chosen = np.sort(np.random.default_rng(0).choice(len(rows), size, replace=False))
        return self._vectors(rows, chosen)

    def _write(self, built: CodedRows, path: Path) -> None:
        load_faiss(PURPOSE).write_index(built.codes, str(path))

    def _facts(self, built: CodedRows) -> dict[str, Any]:
        return {"trained": built.rows}

    def _read(self, rows: DenseRows, path: Path | None, facts: Mapping[str, Any]) -> CodedRows:
        codes = load_faiss(PURPOSE).read_index(str(path))
        if codes.ntotal != len(rows):
            raise ValueError(f"codes of {codes.ntotal} vectors for {len(rows)} rows")
        for part in rows.parts:
            expect_single_rows(part.vectors)
        return CodedRows(codes, int(facts["trained"]), rows.parts[0].dimension)

    def _find(self, rows: DenseRows, built: CodedRows, queries: Embeddings, k: int, settings: IvfSettings) -> Hits:
        side, wanted = self._asking(queries), max(k, settings.rescore)
        asking = side.block(0, len(queries))
        lists = int(built.codes.nlist)
        probes = min(settings.probes or usual_probes(lists), lists)
        if wanted >= len(rows.live):
            candidates = np.broadcast_to(rows.live, (len(queries), len(rows.live)))
        else:
            candidates = self._candidates(rows, built, side, wanted, probes)
            # FAISS finds nothing where all its codes are equally near.
            while probes < lists and len(short := np.flatnonzero((candidates >= 0).sum(axis=1) < k)):
                probes = min(4 * probes, lists)
                some = Side(queries, short, self.settings.similarity)
                candidates[short] = self._candidates(rows, built, some, wanted, probes)
        return scored(rows, asking, candidates, k, lambda wanted: self._gathered(rows, wanted))

    def _candidates(
        self, rows: DenseRows, built: CodedRows, asking: Side, wanted: int, probes: int
    ) -> NDArray[np.int64]:
        """Return (n, wanted) rows whose codes are near, -1 where there are fewer."""
        lists, products = best_of(asking, built.centroids, probes)
        return nearest_codes(built.codes, asking.block(0, len(asking)), lists, products, wanted, rows)

    def _gathered(self, rows: DenseRows, wanted: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the vectors of these rows, read from disk, and which of them each is."""
        if len(wanted) == 1 and len(rows.parts) == 1 and wanted.min() >= 0:
            side = Side(rows.parts[0], wanted[0], self.settings.similarity)
            return side.block(0, len(side)), np.arange(len(side))[None]
        needed, place = np.unique(wanted, return_inverse=True)
        if needed[0] < 0:
            needed, place = needed[1:], place - 1
        return self._vectors(rows, needed), place.reshape(wanted.shape)

    def _efforts(self, rows: DenseRows) -> list[dict[str, int]]:
        lists = int(self._state.built.codes.nlist)
        probes = [min(int(4 * 2 ** (step / 2)), lists) for step in range(28)]
        each = [{"probes": number, "rescore": max(100, number)} for number in dict.fromkeys(probes)]
        return [*each, *({"probes": lists, "rescore": count} for count in (400, 1600, 6400) if count < len(rows))]

    def _details(self, rows: DenseRows, built: CodedRows) -> dict[str, Any]:
        codes = built.codes
        lists = int(codes.nlist)
        return {
            "lists": lists,
            "probes": min(self.settings.probes or usual_probes(lists), lists),
            **super()._details(rows, built),
            "bytes_in_memory": int(codes.code_size) * len(rows) + 8 * len(rows) + 4 * lists * codes.d,
        }


def _slice(documents: Embeddings, start: int, end: int) -> Embeddings:
    return replace(documents, ids=documents.ids.slice(start, end - start), vectors=documents.vectors[start:end])


def _is_written(change: FolderChange, name: str, part: Embeddings) -> bool:
    """Whether a killed build has written this part, with the same ids and vectors."""
    folder = change.folder / name
    if not all(change.claimed(f"{name}/{file}") and (folder / file).is_file() for file in DENSE.files):
        return False
    try:
        written = DENSE.read(folder, part.modality, part.encoder)
    except (EmbeddingError, OSError, ValueError):
        return False  # killed while it was written
    if written.vectors.shape != part.vectors.shape or written.vectors.dtype != part.vectors.dtype:
        return False
    for start in range(0, len(part), BLOCK):
        if not np.array_equal(written.vectors[start : start + BLOCK], part.vectors[start : start + BLOCK]):
            return False
        release(written.vectors)
        release(part.vectors)
    return written.normalised == part.normalised and written.ids.equals(part.ids)
