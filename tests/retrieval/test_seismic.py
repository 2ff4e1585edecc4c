"""The Seismic index: Seismic finds, visir scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from index_data import CARD, TERMS, random_sparse, sparse
from scipy.sparse import csr_array, random_array

pytest.importorskip("seismic")

from visir.errors import MissingPackageError
from visir.records import Run, SparseEmbeddings, Vocabulary
from visir.retrieval.kinds import build_index
from visir.retrieval.sparse.scan import OracleIndex
from visir.retrieval.sparse.seismic import SeismicIndex

THOROUGH = {"query_cut": TERMS, "heap_factor": 0.0}


def overlap(found: Run, truth: Run) -> float:
    pairs = [(dict(found.answer(q)), dict(truth.answer(q))) for q in truth.queries.to_pylist()]
    return sum(len(a.keys() & b.keys()) for a, b in pairs) / sum(len(b) for _, b in pairs)


def drawn(n: int, seed: int, modality: str) -> SparseEmbeddings:
    rng = np.random.default_rng(seed)
    return sparse(modality, rng.lognormal(0, 1, (n, TERMS)) * (rng.random((n, TERMS)) < 0.2))


def test_scores_are_exact_and_a_thorough_search_finds_nearly_everything() -> None:
    documents, queries = drawn(800, 1, "image"), drawn(40, 2, "text")
    index, truth = SeismicIndex.build(documents), OracleIndex.build(documents)
    exact = truth.search(queries, 800)
    for options, least in (({}, 0.85), (THOROUGH, 0.98)):
        found = index.search(queries, 10, **options)
        assert overlap(found, exact.cut(10)) >= least
        for query in queries.ids.to_pylist():
            scores = dict(exact.answer(query))
            assert all(scores[one] == score for one, score in found.answer(query))


def test_what_came_later_is_searched_exactly_until_it_is_a_tenth(tmp_path: Path) -> None:
    documents, queries = drawn(400, 3, "image"), drawn(20, 4, "text")
    ids = documents.ids.to_pylist()
    index = SeismicIndex.build(documents.select(ids[:370]), tmp_path / "index")
    index.add(documents.select(ids[370:390]))
    assert index.info().details["searched exactly"] == 20
    assert SeismicIndex.load(tmp_path / "index").info().details["searched exactly"] == 20
    late = OracleIndex.build(documents.select(ids[370:390])).search(queries, 3)
    found = index.search(queries, 400)
    for query in queries.ids.to_pylist():
        assert dict(late.answer(query)).items() <= dict(found.answer(query)).items()
    index.add(documents.select(ids[390:]))
    assert index.info().details["searched exactly"] == 30
    index.add(sparse("image", drawn(20, 9, "image").to_scipy(), [f"z{i}" for i in range(20)]))
    assert index.info().details["searched exactly"] == 0


def test_deleted_documents_leave_no_answer_short() -> None:
    documents, queries = drawn(300, 5, "image"), drawn(5, 6, "text")
    ids = documents.ids.to_pylist()
    index = SeismicIndex.build(documents)
    best = [one for one, _ in OracleIndex.build(documents).search(queries, 140).answer("t0000")]
    index.delete(best)
    kept = OracleIndex.build(documents.select([one for one in ids if one not in set(best)]))
    found = index.search(queries, 10, **THOROUGH)
    assert len(found.answer("t0000")) == len(kept.search(queries, 10).answer("t0000")) == 10
    assert overlap(found, kept.search(queries, 10)) >= 0.95


def test_empty_rows_and_empty_queries(tmp_path: Path) -> None:
    nothing = sparse("image", csr_array((3, TERMS)))
    queries = random_sparse("text", 6, 1)
    index = SeismicIndex.build(nothing, tmp_path / "index")
    assert len(SeismicIndex.load(tmp_path / "index").search(queries).indices) == 0
    index.add(sparse("image", np.ones((1, TERMS)), ["one"]))
    found = index.search(queries)
    assert np.diff(found.offsets).tolist() == (np.diff(queries.offsets) > 0).astype(int).tolist()


def test_a_vocabulary_beyond_16_bits(tmp_path: Path) -> None:
    size = 70_000
    words = Vocabulary("large", pa.array([f"w{i}" for i in range(size)]), np.ones(size, np.bool_))
    rng = np.random.default_rng(1)

    def of(modality: str, n: int) -> SparseEmbeddings:
        matrix = random_array((n, size), density=0.002, rng=rng, data_sampler=lambda size: 0.1 + rng.random(size))
        return SparseEmbeddings.from_scipy(modality, [f"{modality}{i}" for i in range(n)], matrix, words, CARD)  # type: ignore[arg-type]

    documents, queries = of("image", 100), of("text", 5)
    SeismicIndex.build(documents, tmp_path / "index")
    found = SeismicIndex.load(tmp_path / "index").search(queries, 5, query_cut=1000, heap_factor=0.0)
    assert overlap(found, OracleIndex.build(documents).search(queries, 5)) >= 0.9


def test_standard_output_stays_ours(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    SeismicIndex.build(drawn(50, 1, "image"), tmp_path / "index")
    said = capfd.readouterr()
    assert said.out == "" and "posting" in said.err


def test_without_seismic_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visir.errors.find_spec", lambda name: None if name == "seismic" else object())
    with pytest.raises(MissingPackageError, match="needs the package 'seismic', which is not installed") as caught:
        build_index(random_sparse("image", 5, 1), "seismic")
    assert "pip install 'visir[seismic]'" in str(caught.value)
