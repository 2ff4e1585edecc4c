"""The HNSW index: FAISS finds, visir scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from index_data import dense, same_run

pytest.importorskip("faiss")

from visir.errors import EmbeddingError, MissingPackageError
from visir.records import Embeddings
from visir.retrieval.exact import search
from visir.retrieval.kinds import build_index, open_index


def clusters(n: int, seed: int, dimension: int = 32) -> tuple[Embeddings, Embeddings]:
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((25, dimension))
    documents = centres[rng.integers(0, 25, n)] + 0.6 * rng.standard_normal((n, dimension))
    queries = documents[rng.integers(0, n, 60)] + 0.3 * rng.standard_normal((60, dimension))
    return dense("image", documents), dense("text", queries)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_scores_are_exact_and_nearly_all_is_found(similarity: str) -> None:
    documents, queries = clusters(3000, 1)
    expected = search(queries, documents, "t2i", depth=10, similarity=similarity).run  # type: ignore[arg-type]
    found = build_index(documents, "hnsw", similarity=similarity, ef_construction=80).search(queries, 10)
    hits = 0
    for query in queries.ids.to_pylist():
        truth, answer = dict(expected.answer(query)), found.answer(query)
        assert all(truth[one] == score for one, score in answer if one in truth)
        hits += len(truth.keys() & dict(answer).keys())
    assert hits >= 0.97 * 600


def test_a_longer_search_finds_no_less_and_the_whole_gallery_is_exact() -> None:
    documents, queries = clusters(2000, 2)
    index = build_index(documents, "hnsw", m=4, ef_construction=10, ef_search=10)
    expected = search(queries, documents, "t2i", depth=10).run

    def hits(**options: int) -> int:
        found = index.search(queries, 10, **options)
        return sum(len(dict(found.answer(q)).keys() & dict(expected.answer(q)).keys()) for q in queries.ids.to_pylist())

    few, many = hits(), hits(ef_search=400)
    assert few < many
    assert many >= 0.95 * 600
    whole = index.search(queries, 5000)
    assert same_run(whole, search(queries, documents, "t2i", depth=5000).run)


def test_the_same_steps_give_the_same_index_loaded_in_between_or_not(tmp_path: Path) -> None:
    documents, queries = clusters(600, 3)
    ids = documents.ids.to_pylist()
    settings = {"m": 4, "ef_construction": 10, "ef_search": 10}
    memory = build_index(documents.select(ids[:400]), "hnsw", **settings)
    build_index(documents.select(ids[:400]), "hnsw", tmp_path / "index", **settings)
    for first, last in ((400, 450), (450, 600)):
        memory.add(documents.select(ids[first:last]))
        open_index(tmp_path / "index").add(documents.select(ids[first:last]))
    assert same_run(memory.search(queries, 10), open_index(tmp_path / "index").search(queries, 10))


def test_who_searches_while_documents_are_added_keeps_the_index_as_it_was() -> None:
    documents, queries = clusters(400, 4)
    ids = documents.ids.to_pylist()
    index = build_index(documents.select(ids[:200]), "hnsw")
    before, graph = index._state, index._state.built.index.ntotal
    index.add(documents.select(ids[200:]))
    assert (before.built.index.ntotal, graph, index._state.built.index.ntotal) == (200, 200, 400)
    assert len(index._state.built.vectors) == 400 and len(queries) == 60


def test_many_deleted_neighbours_leave_no_answer_short() -> None:
    documents, queries = clusters(1000, 5)
    ids = documents.ids.to_pylist()
    index = build_index(documents, "hnsw", m=4, ef_construction=10, ef_search=10)
    best = search(queries, documents, "t2i", depth=400).run.answer(queries.ids[0].as_py())
    index.delete([one for one, _ in best])  # all that is near the first query
    kept = documents.select([one for one in ids if one not in dict(best)])
    found = index.search(queries, 10)
    assert (np.diff(found.offsets) == 10).all()
    assert set(found.documents.to_pylist()) == set(kept.ids.to_pylist())


def test_zero_vectors_are_named() -> None:
    with pytest.raises(EmbeddingError, match="1 image vectors by test are zero; they have no cosine: 'i0001'"):
        build_index(dense("image", np.array([[1, 0], [0, 0]])), "hnsw")


def test_without_faiss_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visir.errors.find_spec", lambda name: None if name == "faiss" else object())
    with pytest.raises(MissingPackageError, match=r"an index of kind 'hnsw' needs the package 'faiss'") as caught:
        build_index(clusters(10, 1)[0], "hnsw")
    assert "pip install 'visir[hnsw]'" in str(caught.value)
