"""The exact index: a run is that of `search()`, bit by bit."""

from __future__ import annotations

import resource
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from index_data import CARD, dense, random_dense, same_run

from refusals import refused
from visir.errors import EmbeddingError
from visir.records import Embeddings
from visir.retrieval.exact import search
from visir.retrieval.kinds import build_index


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(1, 79), max_size=3, unique=True),
    k=st.sampled_from([1, 5, 500]),
    similarity=st.sampled_from(["cosine", "dot"]),
    half=st.booleans(),
)
def test_a_run_is_that_of_search_however_the_documents_came_in(
    seed: int, cuts: list[int], k: int, similarity: str, half: bool
) -> None:
    rng = np.random.default_rng(seed)
    documents, queries = random_dense("image", 80, seed), random_dense("text", 9, seed + 1)
    if half:
        documents = Embeddings("image", documents.ids, documents.vectors.astype(np.float16), CARD)
    order = rng.permutation(documents.ids.to_pylist()).tolist()
    edges = [0, *sorted(cuts), 80]
    index = build_index(documents.select(order[: edges[1]]), "exact", similarity=similarity)
    for first, last in pairwise(edges[1:]):
        index.add(documents.select(order[first:last]))
    gone = order[:: int(rng.integers(2, 9))]
    index.delete(gone)
    kept = documents.select([one for one in order if one not in set(gone)])
    expected = search(queries, kept, "t2i", depth=k, similarity=similarity).run  # type: ignore[arg-type]
    found = index.search(queries, k)
    assert same_run(found, expected)
    assert (found.name, found.task, found.depth) == (expected.name, "t2i", k)
    assert found.gallery.fingerprint == expected.gallery.fingerprint
    assert found.scores.dtype == expected.scores.dtype and found.indices.dtype == expected.indices.dtype
    lists = index.lists(queries, k)
    assert lists == {query: expected.answer(query) for query in queries.ids.to_pylist()}


@pytest.mark.parametrize("n", [2, 3, 8, 16, 17, 33])
def test_queries_together_are_answered_as_alone(n: int) -> None:
    # 16 queries of 160 dimensions take 700 documents in four pieces; 33 take them at once.
    documents, queries = random_dense("image", 700, 1, 160, 600), random_dense("text", n, 2, 160)
    index = build_index(documents, "exact")
    together = index.search(queries, 50)
    for query in queries.ids.to_pylist():
        alone = index.search(queries.select([query]), 50)
        assert together.answer(query) == alone.answer(query)


def test_captions_are_found_by_images_too() -> None:
    captions, images = random_dense("text", 40, 1), random_dense("image", 6, 2)
    found = build_index(captions, "exact").search(images, 5)
    assert found.task == "i2t" and same_run(found, search(images, captions, "i2t", depth=5).run)


def test_a_hand_worked_case() -> None:
    # Cosines of (3, 4): with (1, 0) 3/5, with (0, 2) 4/5, with (6, 8) 1. Dot products: 3, 8, 50.
    documents = dense("image", np.array([[1, 0], [0, 2], [6, 8]]), ["right", "up", "same"])
    query = dense("text", np.array([[3, 4]]), ["q"])
    cosine = build_index(documents, "exact").search(query, 2).answer("q")
    assert cosine == [("same", 1.0), ("up", float(np.float32(0.8)))]
    dot = build_index(documents, "exact", similarity="dot").search(query, 3).answer("q")
    assert dot == [("same", 50.0), ("up", 8.0), ("right", 3.0)]


def test_vectors_on_disk_are_read_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, queries = random_dense("image", 300, 1), random_dense("text", 9, 2)
    expected = search(queries, documents, "t2i", depth=7).run
    monkeypatch.setattr("visir.retrieval.scan.IN_MEMORY", 0)
    monkeypatch.setattr("visir.retrieval.scan.BLOCK", 64)
    index = build_index(documents, "exact", tmp_path / "index")
    assert isinstance(index._state.rows.parts[0].vectors, np.memmap)
    assert same_run(index.search(queries, 7), expected)


def test_a_zero_vector_is_refused_when_it_comes_in() -> None:
    zero = np.eye(4)
    zero[2] = 0
    with pytest.raises(EmbeddingError, match="1 image vectors by test are zero; they have no cosine: 'i0002'"):
        build_index(dense("image", zero), "exact")
    index = build_index(dense("image", np.eye(4), list("abcd")), "exact")
    with pytest.raises(EmbeddingError, match="are zero; they have no cosine: 'i0002'"):
        index.add(dense("image", zero))
    assert index.info().documents == 4
    with refused(EmbeddingError, "1", "text", "test", "zero", code="vectors-not-usable"):
        index.search(dense("text", zero))
    by_dot = build_index(dense("image", zero), "exact", similarity="dot").search(dense("text", np.eye(4)), 4)
    assert by_dot.answer("t0002") == [(f"i000{i}", 0.0) for i in range(4)]


def test_opening_takes_the_memory_of_the_ids(tmp_path: Path) -> None:
    """What Parquet needs to decode ids is given back: 200 bytes an id were held before."""
    count = 300_000
    ids = [f"{number * 7919 % count:015d}" for number in range(count)]
    vectors = np.ones((count, 1), np.float16)
    build_index(Embeddings("image", pa.array(ids), vectors, CARD), "exact", tmp_path / "index")
    program = """
import sys
from pathlib import Path
from visir.retrieval.kinds import build_index, open_index

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])

open_index(Path(sys.argv[2]))
before = resident()
index = open_index(Path(sys.argv[1]))
print(resident() - before)
"""
    build_index(Embeddings("image", ["a"], vectors[:1], CARD), "exact", tmp_path / "small")
    command = [sys.executable, "-c", program, str(tmp_path / "index"), str(tmp_path / "small")]
    pages = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert pages * resource.getpagesize() < 80 * count
