"""The kind ivf: codes find, vectors score; built part by part, and gone on with after a kill."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from index_data import CARD, dense, same_run
from index_killed import killed

pytest.importorskip("faiss")

from ivf_stopped import stop_at_fourth_part

from refusals import refused
from visir.errors import EmbeddingError
from visir.records import Embeddings
from visir.retrieval import dense as ivf
from visir.retrieval.dense import usual_lists
from visir.retrieval.exact import search
from visir.retrieval.index import IndexFolderError, check_new_index
from visir.retrieval.kinds import build_index, open_index
from visir.storage import MANIFEST
from visir.storage.disk import files_below


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


def clusters(n: int, seed: int, dimension: int = 32) -> tuple[Embeddings, Embeddings]:
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((25, dimension))
    documents = centres[rng.integers(0, 25, n)] + 0.6 * rng.standard_normal((n, dimension))
    queries = documents[rng.integers(0, n, 60)] + 0.3 * rng.standard_normal((60, dimension))
    return dense("image", documents), dense("text", queries)


def hits(found, expected) -> int:  # type: ignore[no-untyped-def]
    """How many of the best ten are found, of 600."""
    pairs = ((dict(found.answer(q)), dict(expected.answer(q))) for q in expected.queries.to_pylist())
    return sum(len(answer.keys() & truth.keys()) for answer, truth in pairs)


@pytest.mark.parametrize(
    ("similarity", "dimension", "share"), [("cosine", 32, 0.97), ("dot", 32, 0.97), ("cosine", 7, 0.9)]
)
def test_scores_are_exact_and_nearly_all_is_found(similarity: str, dimension: int, share: float) -> None:
    documents, queries = clusters(3000, 1, dimension)
    expected = search(queries, documents, "t2i", depth=10, similarity=similarity).run  # type: ignore[arg-type]
    found = build_index(documents, "ivf", similarity=similarity).search(queries, 10)
    for query in queries.ids.to_pylist():
        truth = dict(expected.answer(query))
        assert all(truth[document] == score for document, score in found.answer(query) if document in truth)
    assert hits(found, expected) >= share * 600


def test_more_probes_and_more_candidates_find_no_less_and_the_whole_gallery_is_exact() -> None:
    documents, queries = clusters(2000, 2)
    index = build_index(documents, "ivf", rescore=10, probes=1)
    expected = search(queries, documents, "t2i", depth=10).run
    first, read, scored = (
        hits(index.search(queries, 10, **options), expected)
        for options in ({}, {"probes": 1000}, {"probes": 1000, "rescore": 400})
    )
    assert first < read < scored
    assert scored >= 0.97 * 600
    assert same_run(index.search(queries, 10, rescore=2000), expected)
    assert same_run(index.search(queries, 5000), search(queries, documents, "t2i", depth=5000).run)


def test_what_is_found_for_a_query_depends_on_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    documents, queries = clusters(2500, 3)
    index = build_index(documents, "ivf", probes=4, rescore=20)
    together = index.search(queries, 20)
    monkeypatch.setattr("visir.retrieval.rows._PAIRS", 64)
    for query in queries.ids.to_pylist():
        assert index.search(queries.select([query]), 20).answer(query) == together.answer(query)


@pytest.mark.parametrize("n", [1, 2, 10, 17, 300])
def test_small_collections_answer_exactly_and_faiss_warns_of_nothing(n: int, capfd: pytest.CaptureFixture[str]) -> None:
    documents, queries = clusters(n, 4)
    index = build_index(documents, "ivf", rescore=300)
    assert index.info().details["lists"] == usual_lists(n)
    assert same_run(index.search(queries, 5), search(queries, documents, "t2i", depth=5).run)
    assert len(index.search(queries, 5, rescore=1).answer(queries.ids[0].as_py())) == min(5, n)
    output = capfd.readouterr()
    assert output.out == output.err == ""


def test_the_same_steps_give_the_same_index_loaded_in_between_or_not(tmp_path: Path) -> None:
    documents, queries = clusters(1500, 5)
    ids = documents.ids.to_pylist()
    settings = {"probes": 2, "rescore": 10}
    memory = build_index(documents.select(ids[:1000]), "ivf", **settings)
    build_index(documents.select(ids[:1000]), "ivf", tmp_path / "index", **settings)
    before = memory._state.built.codes
    for first, last in ((1000, 1050), (1050, 1500)):
        memory.add(documents.select(ids[first:last]))
        open_index(tmp_path / "index").add(documents.select(ids[first:last]))
    assert same_run(memory.search(queries, 10), open_index(tmp_path / "index").search(queries, 10))
    assert (before.ntotal, memory._state.built.codes.ntotal) == (1000, 1500)


def test_with_four_times_the_documents_all_is_trained_anew() -> None:
    documents, queries = clusters(4000, 6)
    ids = documents.ids.to_pylist()
    index = build_index(documents.select(ids[:500]), "ivf")
    index.add(documents.select(ids[500:1900]))
    assert (index.info().details["lists"], index._state.built.rows) == (usual_lists(500), 500)
    index.add(documents.select(ids[1900:]))
    assert (index.info().details["lists"], index._state.built.rows) == (usual_lists(4000), 4000)
    assert same_run(index.search(queries, 10), build_index(documents, "ivf").search(queries, 10))


def test_many_deleted_neighbours_leave_no_answer_short() -> None:
    documents, queries = clusters(1000, 7)
    index = build_index(documents, "ivf", probes=1, rescore=10)
    best = search(queries, documents, "t2i", depth=400).run.answer(queries.ids[0].as_py())
    index.delete([document for document, _ in best])  # all that is near the first query
    found = index.search(queries, 10)
    assert (np.diff(found.offsets) == 10).all()
    assert not {document for document, _ in best} & set(found.documents.to_pylist())


@pytest.mark.parametrize("question", [np.zeros(8), np.full(8, 1e-38), np.eye(8)[5]])
def test_where_codes_tell_nothing_apart_every_vector_is_compared(question: np.ndarray) -> None:
    vectors = np.zeros((600, 8))
    vectors[:, 0] = 1
    vectors[7, 1] = 0.5
    documents = dense("image", vectors)
    queries = dense("text", np.array([question, np.eye(8)[0]]))
    index = build_index(documents, "ivf", similarity="dot", rescore=5)
    index.delete(["i0003"])
    left = documents.select([id for id in documents.ids.to_pylist() if id != "i0003"])
    expected = search(queries, left, "t2i", depth=10, similarity="dot").run
    found = index.search(queries, 10)
    assert found.answer("t0000") == expected.answer("t0000")
    assert len(found.answer("t0001")) == 10


def test_a_piece_of_more_numbers_than_there_are_is_the_whole_vector() -> None:
    documents, queries = clusters(600, 13)
    whole, more = (build_index(documents, "ivf", piece=piece, rescore=10) for piece in (32, 10**9))
    assert same_run(whole.search(queries, 10), more.search(queries, 10))
    assert whole.info().details["bytes_in_memory"] == more.info().details["bytes_in_memory"]


def test_float16_stays_float16_and_is_what_is_scored(tmp_path: Path) -> None:
    documents, queries = clusters(800, 8)
    half = Embeddings("image", documents.ids, documents.vectors.astype(np.float16), CARD)
    index = build_index(half, "ivf", tmp_path / "index", rescore=800)
    assert index.info().details["dtype"] == "float16"
    assert np.load(tmp_path / "index" / "part-1-0" / "vectors.npy", mmap_mode="r").dtype == np.float16
    assert same_run(index.search(queries, 10), search(queries, half, "t2i", depth=10).run)


def test_zero_vectors_are_named() -> None:
    with pytest.raises(EmbeddingError, match="1 image vectors by test are zero; they have no cosine: 'i0001'"):
        build_index(dense("image", np.array([[1, 0], [0, 0]])), "ivf")


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ivf, "LARGEST", 100)
    monkeypatch.setattr("visir.retrieval.rows.LARGEST", 100)
    monkeypatch.setattr("visir.retrieval.index.LARGEST", 100)


@pytest.mark.usefixtures("small_parts")
def test_built_part_by_part_it_is_as_built_at_once(tmp_path: Path) -> None:
    documents, queries = clusters(450, 9)
    ids = documents.ids.to_pylist()
    np.save(tmp_path / "vectors.npy", documents.vectors)
    mapped = Embeddings("image", documents.ids, np.load(tmp_path / "vectors.npy", mmap_mode="r"), CARD)
    settings = {"probes": 2, "rescore": 10}
    index, memory = build_index(mapped, "ivf", tmp_path / "index", **settings), build_index(mapped, "ivf", **settings)
    assert index.info().details["parts"] == 5
    assert same_run(index.search(queries, 10), memory.search(queries, 10))
    assert index.select(ids[95:105]).vectors.tolist() == documents.select(ids[95:105]).vectors.tolist()
    for changed in (index, memory):
        changed.delete(ids[90:110])
        changed.add(documents.select(ids[90:95]))
    assert same_run(open_index(tmp_path / "index").search(queries, 10), memory.search(queries, 10))
    assert sorted(files_below(tmp_path / "index")) == sorted([*_files(tmp_path / "index"), MANIFEST])
    with refused(IndexFolderError, "index", "ivf", code="index-folder-exists-already"):
        build_index(mapped, "ivf", tmp_path / "index")


@pytest.mark.usefixtures("small_parts")
def test_a_killed_build_goes_on_and_loses_at_most_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, queries = clusters(450, 10)
    whole = build_index(documents, "ivf", tmp_path / "whole", probes=2, rescore=10)
    coded = stop_at_fourth_part(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        build_index(documents, "ivf", tmp_path / "index", probes=2, rescore=10)
    assert coded == [100, 100, 100]
    with pytest.raises(IndexFolderError, match="holds no index"):
        open_index(tmp_path / "index")
    check_new_index(tmp_path / "index")
    with refused(IndexFolderError, code="holds-process-killed-work"):
        build_index(documents, "exact", tmp_path / "index")
    coded.clear()
    again = build_index(documents, "ivf", tmp_path / "index", probes=2, rescore=10)
    assert coded == [100, 50]
    assert same_run(again.search(queries, 10), whole.search(queries, 10))
    assert sorted(files_below(tmp_path / "index")) == sorted([*_files(tmp_path / "index"), MANIFEST])


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("change", ["vectors", "settings", "ids"])
def test_what_was_left_of_another_build_is_not_used(change: str, tmp_path: Path) -> None:
    documents, queries = clusters(450, 11)

    def interrupted() -> None:
        build_index(documents, "ivf", tmp_path / "index", rescore=10, probes=2)

    (tmp_path / "index").mkdir()
    assert killed(interrupted, tmp_path, 40)
    assert files_below(tmp_path / "index")
    vectors, ids, settings = documents.vectors.copy(), documents.ids, {"rescore": 10, "probes": 2}
    if change == "vectors":
        vectors[120:140] = vectors[300:320]
    elif change == "ids":
        ids = pa.array([f"j{number:04}" for number in range(450)], pa.string())
    else:
        settings["piece"] = 4
    other = Embeddings("image", ids, vectors, CARD)
    index = build_index(other, "ivf", tmp_path / "index", **settings)
    assert same_run(index.search(queries, 10), build_index(other, "ivf", **settings).search(queries, 10))
    assert index.documents().vectors.tolist() == vectors.tolist()


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_codes_of_a_killed_build_that_were_damaged_since_are_made_anew(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, queries = clusters(450, 14)
    append, appended = ivf.append, []

    def interrupted(codes, vectors) -> None:  # type: ignore[no-untyped-def]
        if len(appended) == 2:
            raise KeyboardInterrupt
        appended.append(len(vectors))
        append(codes, vectors)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(ivf, "append", interrupted)
        build_index(documents, "ivf", tmp_path / "index", rescore=10, probes=2)
    [left] = (tmp_path / "index").glob("unfinished-*.faiss")
    data = bytearray(left.read_bytes())
    middle = len(data) // 2
    data[middle] ^= 1
    left.write_bytes({"cut": data[:middle], "changed": data, "empty": b""}[damage])
    index = build_index(documents, "ivf", tmp_path / "index", rescore=10, probes=2)
    assert same_run(index.search(queries, 10), build_index(documents, "ivf", rescore=10, probes=2).search(queries, 10))


@pytest.mark.nightly
@pytest.mark.usefixtures("small_parts")
def test_a_kill_at_any_moment_leaves_a_build_that_goes_on(tmp_path: Path) -> None:
    documents, queries = clusters(250, 12)
    expected = build_index(documents, "ivf", tmp_path / "whole").search(queries, 10)
    for at in count(1):
        folder = tmp_path / str(at) / "index"
        if not killed(lambda folder=folder: build_index(documents, "ivf", folder), folder.parent, at):  # type: ignore[misc]
            break
        if not (folder / MANIFEST).exists():
            build_index(documents, "ivf", folder)
        index = open_index(folder)
        index.add(dense("image", np.ones((1, 32)), ["new"]))
        index.delete(["new"])
        assert same_run(index.search(queries, 10), expected)
        assert sorted(files_below(folder)) == sorted([*_files(folder), MANIFEST])
    assert at > 30


def _files(folder: Path) -> list[str]:
    from visir.retrieval.index import read_index

    return list(read_index(folder).files)
