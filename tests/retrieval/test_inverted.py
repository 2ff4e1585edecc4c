"""The inverted index answers what the slow oracle answers, whatever it is given and however it came about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sparse_oracle import OracleIndex

from manifests import seal
from refusals import refused
from visir.errors import ConfigurationError, EmbeddingError, RunError
from visir.records import EncoderCard, Run, SparseEmbeddings, Vocabulary
from visir.retrieval.index import IndexFolderError
from visir.retrieval.kinds import build_index, open_index
from visir.retrieval.rows import SPARSE
from visir.retrieval.sparse.inverted import INVERTED, InvertedSettings, _shares, lists_of

CARD = EncoderCard("test", "imported")


def words(n: int) -> Vocabulary:
    return Vocabulary("test", pa.array([f"w{i}" for i in range(n)]), np.ones(n, np.bool_))


def vectors(modality: str, matrix: object, ids: list[str] | None = None) -> SparseEmbeddings:
    rows = csr_array(matrix)
    ids = ids or [f"{modality[0]}{i:05}" for i in range(rows.shape[0])]
    return SparseEmbeddings.from_scipy(modality, ids, rows, words(rows.shape[1]), CARD)  # type: ignore[arg-type]


def drawn(rng: np.random.Generator, rows: int, terms: int, density: float, spread: float = 1.0) -> np.ndarray:
    """Weights over `spread` decades; frequent terms and rare ones."""
    often = density * 2 * rng.random(terms) ** 2
    return (10.0 ** rng.uniform(-spread, spread, (rows, terms))) * (rng.random((rows, terms)) < often)


def same(one: Run, other: Run) -> None:
    assert one.queries.equals(other.queries)
    assert one.documents.equals(other.documents)
    for part in ("offsets", "indices", "scores"):
        np.testing.assert_array_equal(getattr(one, part), getattr(other, part), err_msg=part)


def check(documents: SparseEmbeddings, queries: SparseEmbeddings, k: int) -> None:
    truth = OracleIndex.build(documents).search(queries, k)
    same(build_index(documents, "inverted").search(queries, k), truth)


def test_by_hand() -> None:
    # a = (1, 2, 0), b = (0, 1, 3), c = (0, 0, 0), d = (1, 2, 0); the query (2, 1, 0) gives a: 2 + 2 = 4, b: 1, d: 4.
    documents = vectors("image", [[1, 2, 0], [0, 1, 3], [0, 0, 0], [1, 2, 0]], ["a", "b", "c", "d"])
    run = build_index(documents, "inverted").search(vectors("text", [[2, 1, 0], [0, 0, 0]], ["q", "nothing"]), 10)
    assert run.answer("q") == [("a", 4.0), ("d", 4.0), ("b", 1.0)]
    assert run.answer("nothing") == []
    assert build_index(documents, "inverted").search(vectors("text", [[2, 1, 0]], ["q"]), 1).answer("q") == [("a", 4.0)]


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10**6),
    st.integers(1, 400),
    st.integers(1, 60),
    st.sampled_from([0.02, 0.2, 0.9]),
    st.sampled_from([0.3, 2.0, 6.0]),
    st.sampled_from([1, 3, 10, 1000]),
)
def test_as_the_oracle(seed: int, n: int, terms: int, density: float, spread: float, k: int) -> None:
    rng = np.random.default_rng(seed)
    pool = drawn(rng, max(1, n // 2), terms, density, spread)  # many equal documents
    documents = vectors("image", pool[rng.integers(0, len(pool), n)])
    check(documents, vectors("text", drawn(rng, 9, terms, density, spread)), k)


@pytest.mark.parametrize("k", [1, 10, 100])
def test_as_the_oracle_with_long_lists(k: int) -> None:
    """Enough postings that bounds decide what is read, in two blocks; some terms are in all documents."""
    rng = np.random.default_rng(5)
    terms = 150
    often = rng.random(terms) ** 3
    often[:3] = 1.0
    chosen = rng.random((40_000, terms)) < often
    documents = vectors("image", csr_array(rng.gamma(2.0, 0.3, chosen.shape) * chosen))
    queries = vectors("text", rng.gamma(2.0, 0.4, (12, terms)) * (rng.random((12, terms)) < 0.7))
    check(documents, queries, k)


def test_equal_documents_and_weights_far_apart() -> None:
    rng = np.random.default_rng(6)
    row = np.zeros(30)
    row[[1, 5, 9]] = [1e-6, 1.0, 1e6]
    light = np.zeros(30)
    light[1] = 1e-6
    matrix = np.vstack([np.tile(row, (700, 1)), np.tile(light, (700, 1)), drawn(rng, 300, 30, 0.3, 6.0)])
    queries = vectors("text", np.vstack([row, light, 1e6 * light, drawn(rng, 5, 30, 0.5, 6.0)]))
    for k in (1, 10, 699, 701, 5000):
        check(vectors("image", matrix), queries, k)


def test_a_query_of_more_terms_than_sums_have_room_for() -> None:
    rng = np.random.default_rng(7)
    many = 20_000
    documents = csr_array(drawn(rng, 40, many, 0.02))
    check(vectors("image", documents), vectors("text", np.vstack([np.ones(many), np.arange(many) % 7])), 5)


@pytest.mark.nightly
def test_more_terms_than_16_bits_number() -> None:
    """Kernels are compiled once more for them, which is what takes long."""
    rng = np.random.default_rng(11)
    matrix = csr_array(drawn(rng, 60, 90_000, 0.3))
    assert (matrix.sum(axis=0) > 0).sum() > 1 << 16
    queries = vectors("text", csr_array(drawn(rng, 4, 90_000, 0.002)))
    check(vectors("image", matrix), queries, 5)
    same(
        build_index(vectors("image", matrix), "inverted").search(queries, 60, budget=10**7),
        OracleIndex.build(vectors("image", matrix)).search(queries, 60),
    )


@pytest.mark.parametrize("form", ["memory", "folder"])
def test_parts_deletions_threads_and_order_change_nothing(form: str, tmp_path: object) -> None:
    rng = np.random.default_rng(8)
    pool = drawn(rng, 150, 50, 0.3)
    documents = vectors("image", pool[rng.integers(0, len(pool), 900)])
    queries = vectors("text", drawn(rng, 33, 50, 0.3))
    ids = documents.ids.to_pylist()
    kept = [one for one in ids if int(one[1:]) % 5]
    shuffled = [ids[i] for i in rng.permutation(len(ids))]
    folder = tmp_path / "index" if form == "folder" else None  # type: ignore[operator]
    index = build_index(documents.select(shuffled[:500]), "inverted", folder)
    for start, stop in ((500, 750), (750, 760), (760, 761), (761, 900)):
        index.add(documents.select(shuffled[start:stop]))
    index.delete([one for one in ids if int(one[1:]) % 5 == 0])
    for k in (1, 10, 400):
        truth = OracleIndex.build(documents.select(kept)).search(queries, k)
        for threads in (1, 2, 3):
            same(index.search(queries, k, threads=threads), truth)
    assert index.info().documents == 720
    assert index.info().details["parts"] > 1
    if folder is not None:
        assert open_index(folder).kind == "inverted"
        same(open_index(folder).search(queries, 10), index.search(queries, 10))
    before = index.search(queries, 10)
    index.compact()
    assert index.info().details["parts"] == 1
    assert index.info().deleted == 0
    same(index.search(queries, 10), before)


def test_a_budget_misses_documents_but_changes_no_score() -> None:
    rng = np.random.default_rng(9)
    documents = vectors("image", drawn(rng, 3000, 300, 0.1))
    queries = vectors("text", drawn(rng, 40, 300, 0.2))
    index = build_index(documents, "inverted")
    truth = index.search(queries, 3000)
    known = [dict(truth.answer(query)) for query in truth.queries.to_pylist()]
    for budget, least in ((1, 0.0), (500, 0.3), (20_000, 0.97), (10**9, 1.0)):
        run = index.search(queries, 10, budget=budget)
        found = 0
        for query, scores in zip(run.queries.to_pylist(), known, strict=True):
            answer, best = run.answer(query), truth.answer(query, 10)
            assert len(answer) == len(best)
            assert all(scores[document] == score for document, score in answer)
            found += sum(score >= best[-1][1] for _, score in answer)
        assert found >= least * 400, budget
        same(index.search(queries, 10, budget=budget, threads=2), run)


def test_two_stages() -> None:
    # Retrieved with (1, 0, 0): b, then a. Scored with (1, 5, 0): a: 1 + 5 = 6, b: 2. c, the best, is not seen.
    documents = vectors("image", [[1, 1, 0], [2, 0, 0], [0, 9, 0]], ["a", "b", "c"])
    index = build_index(documents, "inverted")
    plain, expanded = vectors("text", [[1, 0, 0]], ["q"]), vectors("text", [[1, 5, 0]], ["q"])
    assert index.search(expanded, 10, first=plain).answer("q") == [("a", 6.0), ("b", 2.0)]
    assert index.search(expanded, 1, first=plain, candidates=1).answer("q") == [("b", 2.0)]
    with refused(EmbeddingError, "1", "1", code="queries-retrieve-score-not"):
        index.search(expanded, first=vectors("text", [[1, 0, 0]], ["other"]))


@pytest.mark.parametrize(("k", "settings", "wanted"), [(3, {}, 100), (30, {}, 300), (3, {"candidates": 7}, 7)])
def test_two_stages_retrieve_ten_times_as_many(k: int, settings: dict[str, int], wanted: int) -> None:
    """The document that scores best is the `wanted`-th of the first stage, and the one behind it is not seen."""
    matrix = [[400 - row, 0] for row in range(400)]
    matrix[wanted - 1][1], matrix[wanted][1] = 10, 20
    index = build_index(vectors("image", matrix, [f"i{row:03}" for row in range(400)]), "inverted")
    plain, expanded = vectors("text", [[1, 0]], ["q"]), vectors("text", [[1, 1000]], ["q"])
    run = index.search(expanded, k, first=plain, **settings)
    assert run.answer("q")[0][0] == f"i{wanted - 1:03}"


def test_a_budget_looks_at_twice_as_many_and_one_for_800_postings() -> None:
    assert _shares(InvertedSettings(budget=8000), 10, 1.0) == (8000, 30)
    assert _shares(InvertedSettings(budget=8000), 10, 0.25) == (2000, 15)
    assert _shares(InvertedSettings(budget=8000, candidates=12), 10, 1.0) == (8000, 12)


def test_two_stages_score_as_one_does() -> None:
    rng = np.random.default_rng(10)
    matrix = drawn(rng, 500, 40, 0.4)
    index = build_index(vectors("image", matrix[:300]), "inverted")
    index.add(vectors("image", matrix[300:], [f"i{i:05}" for i in range(300, 500)]))
    queries = drawn(rng, 20, 40, 0.5)
    expanded, plain = vectors("text", queries), vectors("text", queries * (queries > np.median(queries)))
    whole = index.search(expanded, 500)
    run = index.search(expanded, 10, first=plain, candidates=500)
    for query in run.queries.to_pylist():
        scores = dict(whole.answer(query))
        assert all(scores[document] == score for document, score in run.answer(query))
    same(index.search(expanded, 10, first=expanded), index.search(expanded, 10))


def test_faults() -> None:
    documents = vectors("image", [[1, 2], [0, 1]])
    index = build_index(documents, "inverted")
    queries = vectors("text", [[1, 2]])
    with refused(ConfigurationError, "unknown setting", "bugdet", meant="budget", hint=False):
        index.search(queries, bugdet=5)
    with refused(ConfigurationError, "budget", "whole number from 0", "not -1", hint=False):
        index.search(queries, budget=-1)
    with pytest.raises(RunError, match="k must be at least 1, not 0"):
        index.search(queries, 0, first=queries)
    with refused(EmbeddingError, "t00000", "i00000", "t2i", code="score-query-document-too"):
        build_index(vectors("image", [[1e38, 0]]), "inverted").search(vectors("text", [[1e3, 0]]))


def test_a_damaged_list_is_named(tmp_path: object) -> None:
    folder = tmp_path / "index"  # type: ignore[operator]
    build_index(vectors("image", [[1, 2], [0, 1]]), "inverted", folder)
    (path,) = folder.glob("part-*/list-postings.npy")
    path.write_bytes(path.read_bytes()[:-4])
    with refused(IndexFolderError, "list-postings.npy has 142 bytes", "146 were written"):
        open_index(folder)


def test_documents_on_disk_are_those_given(tmp_path: Path) -> None:
    rng = np.random.default_rng(12)
    matrix = drawn(rng, 70, 5000, 0.01)
    matrix[3], matrix[69, 4999] = 0.0, 1.0  # a document without terms, and one with the last term
    documents = vectors("image", csr_array(matrix))
    index = build_index(documents, "inverted", tmp_path / "index")
    gaps = np.load(tmp_path / "index" / "part-1-0" / "list-gaps.npy")
    assert (gaps == 0).any(), "gaps beyond 255"
    some = documents.ids.take(pa.array([69, 3, 0, 41]))
    for source, read in ((documents, index.documents()), (documents.select(some), index.select(some))):
        assert type(read) is SparseEmbeddings
        assert source.ids.equals(read.ids)
        for name in ("offsets", "terms", "values"):
            np.testing.assert_array_equal(getattr(source, name), getattr(read, name))
    part = INVERTED.read(tmp_path / "index" / "part-1-0", "image", CARD)
    np.testing.assert_array_equal(part.terms, documents.terms)
    assert part.words("i00041") == documents.words("i00041")


def test_lists_of_the_earlier_layout_are_built_again(tmp_path: Path) -> None:
    """The earlier layout had the terms in a file, and other lists beside it."""
    documents = vectors("image", drawn(np.random.default_rng(13), 50, 30, 0.3))
    SPARSE.write(documents, tmp_path)
    part = INVERTED.read(tmp_path, "image", CARD)
    np.testing.assert_array_equal(part.terms, documents.terms)
    np.testing.assert_array_equal(lists_of(part).postings, lists_of(documents).postings)


def test_a_damaged_number_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    build_index(vectors("image", drawn(np.random.default_rng(14), 50, 30, 0.3)), "inverted", folder)
    for name, fault in (("gaps", "terms of another number than weights"), ("levels", "levels out of order")):
        array = np.load(folder / "part-1-0" / f"list-{name}.npy")
        array.flat[5] = 0 if name == "gaps" else 60_000
        before = (folder / "part-1-0" / f"list-{name}.npy").read_bytes()
        np.save(folder / "part-1-0" / f"list-{name}.npy", array)
        with refused(IndexFolderError, f"list-{name}.npy"):
            open_index(folder)
        sound = (folder / "visir.json").read_bytes()
        seal(folder)  # as somebody else may have written it
        with pytest.raises(IndexFolderError, match=fault):
            open_index(folder)
        (folder / "part-1-0" / f"list-{name}.npy").write_bytes(before)
        (folder / "visir.json").write_bytes(sound)
    assert open_index(folder).info().documents == 50
