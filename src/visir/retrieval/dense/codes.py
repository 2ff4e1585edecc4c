"""Short codes of vectors in lists of near vectors (IVF), in memory: trained, filled and searched by FAISS.

A vector belongs to the list of its nearest centroid. Its code is what product quantisation leaves of the difference to
that centroid (Jégou et al., 2011, "Product Quantization for Nearest Neighbor Search"), 4 bits for each piece, in the
layout that processors compare 32 at a time (André et al., 2015, "Cache locality is not enough", FAISS "fast scan").
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.retrieval.clustering import train_centroids
from visir.retrieval.faiss_library import faiss_threads, load_faiss
from visir.threads import Share, cores, piece, spread

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


def copied(codes: Any) -> Any:
    """Return a copy, to be changed."""
    return load_faiss(PURPOSE).clone_index(codes)


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


def centroids_of(codes: Any) -> NDArray[np.float32]:
    """Return the (lists, d) centroids, with zeros at the end as `codes` has them."""
    centroids: NDArray[np.float32] = codes.quantizer.reconstruct_n(0, codes.nlist)
    return centroids


def nearest_codes(
    codes: Any,
    queries: NDArray[np.float32],
    lists: NDArray[np.int32],
    products: NDArray[np.float32],
    wanted: int,
    dead: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Return the (n, wanted) rows whose codes are nearest to each query, -1 where there are fewer in the lists read."""
    # Queries are searched one by one, so what is found for one depends on no other.
    # queries: (n, d) vectors.
    # lists: (n, probes) the lists that are read for each query.
    # products: (n, probes) the products of the query with the centroids of these lists.
    # dead: (rows,) the rows that are passed over.
    faiss = load_faiss(PURPOSE)
    padded, products = _padded(queries, codes.d), np.ascontiguousarray(products)
    rows = np.empty((len(padded), wanted), np.int64)
    options: dict[str, Any] = {}
    if dead.any():
        alive = np.packbits(~dead, bitorder="little")
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
