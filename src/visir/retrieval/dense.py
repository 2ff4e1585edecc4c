"""Dense indexes: exact, a graph of near neighbours (HNSW), and short codes in lists (IVF)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.files import expect_single_rows, release
from visir.fingerprint import hash_columns, hash_json
from visir.records import Embeddings, EncoderCard
from visir.retrieval.answers import CandidateRows, Hits
from visir.retrieval.clustering import faiss_threads, load_faiss, train_centroids
from visir.retrieval.index import Finder
from visir.retrieval.rows import DENSE, LARGEST, Rows
from visir.retrieval.scan import BLOCK, Side, best_of
from visir.retrieval.settings import SimilaritySettings, recall, setting
from visir.storage import FolderChange
from visir.threads import Share, cores, piece, spread


@dataclass(frozen=True)
class FlatSettings(SimilaritySettings):
    """The settings of an exact index."""

    device: str = setting("", "a device of torch (cuda) for the matrix products; empty: the cores", search=True)


DenseRows = Rows[Embeddings]


class Flat(Finder[Embeddings]):
    """Kind "exact": the vectors without a further structure."""

    # Its answers are those of `visir.retrieval.exact.search` over the same documents, bit by bit, in whatever order
    # documents were added and deleted. The score of a pair depends on its two vectors alone, so the parts can be
    # searched one by one. Parts of up to 1 GiB as float32 stay in memory after the first search; larger parts are read
    # block by block. With `device` they are searched on a GPU, to the same answers; what fits into half of its free
    # memory stays there after the first search.

    settings_type = FlatSettings

    def search(self, built: None, rows: DenseRows, queries: Side, k: int, settings: FlatSettings) -> Hits:
        form: Any = rows.form
        hits: Hits = form.scan(rows, queries, k, settings.device)
        return hits

    def details(self, built: None, rows: DenseRows, settings: FlatSettings) -> dict[str, Any]:
        return {"dtype": str(rows.parts[0].vectors.dtype)}


@dataclass(frozen=True)
class HnswSettings(SimilaritySettings):
    """The settings of a graph: its cost and its quality (Malkov and Yashunin, 2018: arXiv:1603.09320)."""

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


class Hnsw(Finder[Embeddings]):
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

    settings_type = HnswSettings
    knows_its_rows = True

    def build(self, rows: DenseRows, settings: HnswSettings) -> Graph:
        faiss = _faiss()
        index = faiss.IndexHNSWFlat(rows.parts[0].dimension, settings.m, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = settings.ef_construction
        return _grown(index, rows, settings)

    def add(self, built: Graph, rows: DenseRows, settings: HnswSettings) -> Graph:
        return _grown(_faiss().clone_index(built.index), rows, settings)

    def search(self, built: Graph, rows: DenseRows, queries: Side, k: int, settings: HnswSettings) -> CandidateRows:
        candidates = min(max(k, settings.ef_search), len(rows))
        parameters = _parameters(rows, "SearchParametersHNSW", efSearch=candidates)
        _, labels = built.index.search(queries.block(0, len(queries)), candidates, params=parameters)
        return CandidateRows(labels, built.vectors)

    def dump(self, built: Graph, path: Path) -> None:
        faiss = _faiss()
        faiss.write_index(built.index, str(path), faiss.IO_FLAG_SKIP_STORAGE)

    def load(self, path: Path, rows: DenseRows, facts: Mapping[str, Any], settings: HnswSettings) -> Graph:
        faiss = _faiss()
        index = faiss.read_index(str(path))
        if index.ntotal != len(rows):
            raise ValueError(f"a graph of {index.ntotal} vectors for {len(rows)} rows")
        storage = faiss.IndexFlatIP(rows.parts[0].dimension)
        for block in rows.blocks():
            storage.add(block)
        storage.this.disown()  # the graph frees it
        index.storage, index.own_fields = storage, True
        return _graph(index)

    def efforts(self, built: Graph, rows: DenseRows) -> list[dict[str, int]]:
        sizes = (round(16 * 2 ** (step / 2)) for step in range(14))
        return [{"ef_search": size} for size in sizes if size <= max(len(rows), 16)]

    def details(self, built: Graph, rows: DenseRows, settings: HnswSettings) -> dict[str, Any]:
        return {"layers": int(built.index.hnsw.max_level) + 1}


def _grown(index: Any, rows: DenseRows, settings: HnswSettings) -> Graph:
    """Add all rows to the graph that are not in it."""
    faiss = _faiss()
    # Levels are drawn from the number of rows, not from what this process drew before: the same steps give the same
    # graph, whether the index was loaded in between or not.
    index.hnsw.rng = faiss.RandomGenerator(12345 + index.ntotal)
    with faiss_threads(faiss, settings.threads):
        for block in rows.blocks(index.ntotal):
            index.add(block)
    return _graph(index)


def _graph(index: Any) -> Graph:
    faiss = _faiss()
    storage = faiss.downcast_index(index.storage)
    vectors = faiss.rev_swig_ptr(storage.get_xb(), index.ntotal * index.d).reshape(index.ntotal, index.d)
    return Graph(index, vectors)


def _faiss() -> Any:
    return load_faiss("an index of kind 'hnsw'")


_MOST_PARAMETERS = 64
"""Of those that are remembered: people ask for few depths."""


def _parameters(rows: DenseRows, name: str, **settings: int) -> Any:
    """The parameters of FAISS for a search among the rows that are not deleted; remembered, for alone they take as
    long as the scores."""
    known: dict[Any, Any] = rows.prepared.setdefault("parameters", {})
    key = (name, *settings.items())
    parameters = known.get(key)
    if parameters is None:
        faiss = load_faiss("a search by FAISS")
        parameters = getattr(faiss, name)(**settings)
        if len(rows.live) < len(rows):
            if "selector" not in rows.prepared:  # one of all rows, as long as they are there: FAISS does not own it
                bits = np.packbits(~rows.dead, bitorder="little")
                rows.prepared.setdefault("selector", faiss.IDSelectorBitmap(bits))
            parameters.sel = rows.prepared["selector"]
        if len(known) >= _MOST_PARAMETERS:
            known.clear()
        known[key] = parameters
    return parameters


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
"""CandidateRows in that graph."""
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
    parameters = _parameters(among, "SearchParametersIVF", nprobe=lists.shape[1])
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

    if len(padded) == 1:
        share((0.0, 1.0))
    else:
        spread(share, len(padded))
    return rows


def _padded(vectors: NDArray[np.float32], dimension: int) -> NDArray[np.float32]:
    """Vectors with zeros at the end, so that they can be cut into equal pieces."""
    missing = dimension - vectors.shape[1]
    return np.pad(vectors, ((0, 0), (0, missing))) if missing else np.ascontiguousarray(vectors)


_GROWTH = 4
"""With so many times the vectors it was trained for, the quantiser is trained anew."""


@dataclass(frozen=True)
class IvfSettings(SimilaritySettings):
    """The settings of lists of codes: their cost and their quality."""

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

    def nearest(self, rows: DenseRows, asking: Side, wanted: int, probes: int) -> NDArray[np.int64]:
        """Return (n, wanted) rows whose codes are near, -1 where there are fewer."""
        lists, products = best_of(asking, self.centroids, probes)
        return nearest_codes(self.codes, asking.block(0, len(asking)), lists, products, wanted, rows)


class Ivf(Finder[Embeddings]):
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

    settings_type = IvfSettings

    def build(self, rows: DenseRows, settings: IvfSettings) -> CodedRows:
        return _coded(_trained(_sample(rows, settings), len(rows), settings), rows, len(rows))

    def add(self, built: CodedRows, rows: DenseRows, settings: IvfSettings) -> CodedRows:
        if len(rows) >= _GROWTH * built.rows:
            return self.build(rows, settings)
        return _coded(load_faiss(PURPOSE).clone_index(built.codes), rows, built.rows)

    def search(self, built: CodedRows, rows: DenseRows, queries: Side, k: int, settings: IvfSettings) -> CandidateRows:
        lists, wanted = int(built.codes.nlist), max(k, settings.rescore)
        probes = min(settings.probes or usual_probes(lists), lists)
        if wanted >= len(rows.live):
            return CandidateRows(np.broadcast_to(rows.live, (len(queries), len(rows.live))))
        candidates = built.nearest(rows, queries, wanted, probes)
        # FAISS finds nothing where all its codes are equally near.
        while probes < lists and len(short := np.flatnonzero((candidates >= 0).sum(axis=1) < k)):
            probes = min(4 * probes, lists)
            some = Side(queries.embeddings, short, queries.similarity)
            candidates[short] = built.nearest(rows, some, wanted, probes)
        return CandidateRows(candidates)

    def dump(self, built: CodedRows, path: Path) -> dict[str, Any]:
        load_faiss(PURPOSE).write_index(built.codes, str(path))
        return {"trained": built.rows}

    def load(self, path: Path, rows: DenseRows, facts: Mapping[str, Any], settings: IvfSettings) -> CodedRows:
        faiss = load_faiss(PURPOSE)
        codes = faiss.read_index(str(path))
        if codes.ntotal != len(rows):
            raise ValueError(f"codes of {codes.ntotal} vectors for {len(rows)} rows")
        numbers = np.zeros(len(rows), np.bool_)
        for at in range(codes.nlist):
            if size := codes.invlists.list_size(at):
                held = faiss.rev_swig_ptr(codes.invlists.get_ids(at), size)
                numbers[held[held >= 0]] = True
        if not numbers.all():
            raise ValueError("codes of other rows")
        for part in rows.parts:
            expect_single_rows(part.vectors)
        return CodedRows(codes, int(facts["trained"]), rows.parts[0].dimension)

    def efforts(self, built: CodedRows, rows: DenseRows) -> list[dict[str, int]]:
        lists = int(built.codes.nlist)
        probes = [min(int(4 * 2 ** (step / 2)), lists) for step in range(28)]
        each = [{"probes": number, "rescore": max(100, number)} for number in dict.fromkeys(probes)]
        return [*each, *({"probes": lists, "rescore": count} for count in (400, 1600, 6400) if count < len(rows))]

    def details(self, built: CodedRows, rows: DenseRows, settings: IvfSettings) -> dict[str, Any]:
        codes = built.codes
        lists = int(codes.nlist)
        return {
            "lists": lists,
            "probes": min(settings.probes or usual_probes(lists), lists),
            "dtype": str(rows.parts[0].vectors.dtype),
            "bytes_in_memory": int(codes.code_size) * len(rows) + 8 * len(rows) + 4 * lists * codes.d,
        }

    def build_by_parts(
        self, change: FolderChange, documents: Embeddings, settings: IvfSettings
    ) -> tuple[tuple[Embeddings, ...], CodedRows, tuple[str, ...]]:
        # After each part, the codes of all parts so far are written in one step. What was left is used if its vectors
        # are those of the documents, and if it was trained with the same sample and settings.
        form = DENSE.under(settings)
        cuts = range(0, len(documents), LARGEST)
        names = [f"part-{change.manifest.generation + 1}-{number}" for number in range(len(cuts))]
        pieces = [_slice(documents, start, min(start + LARGEST, len(documents))) for start in cuts]
        same = 0
        while same < len(pieces) and _is_written(change, names[same], pieces[same]):
            same += 1
        sample = _sample(Rows.of(form, documents), settings)
        about = {
            **asdict(settings),
            "encoder": documents.encoder.to_dict(),
            "sample": hash_columns([pa.array(sample.ravel())], sort=False),
        }
        file = f"unfinished-{hash_json(about)}.faiss"
        codes = None
        if change.claimed(file) and (change.folder / file).is_file():
            codes = read_sealed(change.folder / file)
        if codes is None or codes.ntotal > sum(map(len, pieces[:same])):
            codes = _trained(sample, len(documents), settings)
        del sample
        parts: list[Embeddings] = []
        for number, (name, documents_of_part) in enumerate(zip(names, pieces, strict=True)):
            if number >= same:
                change.clear(name)
                form.write(documents_of_part, change.subfolder(name, *form.files))
                release(documents_of_part.vectors)
            change.written(name)
            parts.append(form.read(change.folder / name, documents.modality, documents.encoder))
            if codes.ntotal < cuts[number] + len(documents_of_part):
                for block in Rows.of(form, parts[-1]).blocks(codes.ntotal - cuts[number]):
                    append(codes, block)
                with change.replacing(file, counts=False) as path:
                    write_sealed(codes, path)
        return tuple(parts), CodedRows(codes, len(documents), documents.dimension), tuple(names)


def _coded(codes: Any, rows: DenseRows, trained_rows: int) -> CodedRows:
    """Add all rows to the codes that are not in them."""
    for block in rows.blocks(codes.ntotal):
        append(codes, block)
    return CodedRows(codes, trained_rows, rows.parts[0].dimension)


def _trained(sample: NDArray[np.float32], rows: int, settings: IvfSettings) -> Any:
    lists = min(settings.lists or usual_lists(rows), len(sample))
    return trained(sample, lists, settings.piece, unit=settings.similarity == "cosine")


def _sample(rows: DenseRows, settings: IvfSettings) -> NDArray[np.float32]:
    """Return the vectors that the quantiser is trained with, as they are compared."""
    size = max(SAMPLE * (settings.lists or usual_lists(len(rows))), 4096)
    chosen = np.arange(len(rows))
    if len(rows) > size:
        chosen = np.sort(np.random.default_rng(0).choice(len(rows), size, replace=False))
    form: Any = rows.form
    vectors: NDArray[np.float32] = form.compared(rows, chosen)
    return vectors


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
