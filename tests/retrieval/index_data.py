"""Vectors for tests of indexes: random ones in which equal vectors, and so ties, are common."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from visir.errors import ConfigurationError
from visir.records import Embeddings, EncoderCard, MultiVectorEmbeddings, SparseEmbeddings, Vocabulary
from visir.retrieval.settings import Kind

CARD = EncoderCard("test", "imported")
TERMS = 40
WORDS = Vocabulary("test", pa.array([f"w{i}" for i in range(TERMS)]), np.ones(TERMS, np.bool_))


def dense(modality: str, vectors: np.ndarray, ids: list[str] | None = None, card: EncoderCard = CARD) -> Embeddings:
    ids = [f"{modality[0]}{i:04}" for i in range(len(vectors))] if ids is None else ids
    return Embeddings(modality, pa.array(ids, pa.string()), np.asarray(vectors, np.float32), card)  # type: ignore[arg-type]


def sparse(modality: str, matrix: object, ids: list[str] | None = None, card: EncoderCard = CARD) -> SparseEmbeddings:
    rows = csr_array(matrix)
    ids = [f"{modality[0]}{i:04}" for i in range(rows.shape[0])] if ids is None else ids
    return SparseEmbeddings.from_scipy(modality, ids, rows, WORDS, card)  # type: ignore[arg-type]


def several(modality: str, matrices: object, ids: list[str] | None = None, card: EncoderCard = CARD) -> Any:
    """One document for each matrix; of a (n, d) matrix each row is a document of one vector."""
    entries = [np.atleast_2d(np.asarray(matrix, np.float32)) for matrix in matrices]  # type: ignore[attr-defined]
    ids = [f"{modality[0]}{i:04}" for i in range(len(entries))] if ids is None else ids
    offsets = np.concatenate([[0], np.cumsum([len(entry) for entry in entries])]).astype(np.int64)
    return MultiVectorEmbeddings(modality, pa.array(ids, pa.string()), offsets, np.concatenate(entries), card)  # type: ignore[arg-type]


def random_several(modality: str, n: int, seed: int, dimension: int = 12, distinct: int = 30) -> Any:
    """From one to four vectors each, drawn with repetition from few on a grid."""
    rng = np.random.default_rng(seed)
    pool = np.round(rng.standard_normal((distinct, dimension))) + 0.5
    return several(modality, [pool[rng.integers(0, distinct, rng.integers(1, 5))] for _ in range(n)])


MAKE = {"dense": dense, "sparse": sparse, "multi-vector": several}
WIDTH = {"dense": 12, "sparse": TERMS, "multi-vector": 12}
PARTS = {"dense": ("vectors",), "sparse": ("offsets", "terms", "values"), "multi-vector": ("offsets", "vectors")}
TRUTH = {"dense": "exact", "sparse": "inverted", "multi-vector": "maxsim"}
"""By form of vectors: how they are made, their length in these tests, and the arrays that hold them, and the kind
whose answers are right."""


def random_dense(modality: str, n: int, seed: int, dimension: int = 12, distinct: int = 30) -> Embeddings:
    """Drawn with repetition from few vectors on a grid."""
    rng = np.random.default_rng(seed)
    pool = np.round(rng.standard_normal((distinct, dimension))) + 0.5
    return dense(modality, pool[rng.integers(0, distinct, n)])


def random_sparse(modality: str, n: int, seed: int, density: float = 0.15, distinct: int = 30) -> SparseEmbeddings:
    """The same; every tenth or so is empty."""
    rng = np.random.default_rng(seed)
    pool = np.round(4 * rng.random((distinct, TERMS)) + 0.5) / 4 * (rng.random((distinct, TERMS)) < density)
    rows = pool[rng.integers(0, distinct, n)] * (rng.random((n, 1)) > 0.1)
    return sparse(modality, rows)


def vectors(form: str, modality: str, n: int, seed: int) -> Any:
    made = {"dense": random_dense, "sparse": random_sparse, "multi-vector": random_several}
    return made[form](modality, n, seed)


def same_run(one, other) -> bool:  # type: ignore[no-untyped-def]
    return (
        one.queries.equals(other.queries)
        and one.documents.equals(other.documents)
        and all(np.array_equal(getattr(one, part), getattr(other, part)) for part in ("offsets", "indices", "scores"))
    )


def lies_in_a_folder(kind: Kind) -> bool:
    """Whether an index of this kind needs no server; `test_engines.py` has the others."""
    try:
        return kind.settings_type() is not None
    except ConfigurationError:
        return False
