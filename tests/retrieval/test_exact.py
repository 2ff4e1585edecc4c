"""Exact search against a slow oracle in float64, and its promises: order, blocks and sides change nothing."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refusals import refused
from visir.errors import EmbeddingError, RunError
from visir.records import Embeddings, EncoderCard, Gallery, Qrels, Run
from visir.retrieval import scan
from visir.retrieval.exact import SearchResult, search, search_both
from visir.retrieval.ranks import ranks_of

CARD = EncoderCard("test", "imported")


def embeddings(modality: str, vectors: np.ndarray, ids: list[str] | None = None) -> Embeddings:
    ids = ids or [f"{modality[0]}{i:05}" for i in range(len(vectors))]
    return Embeddings(modality, pa.array(ids), vectors, CARD)  # type: ignore[arg-type]


def oracle(queries: np.ndarray, candidates: np.ndarray, similarity: str = "cosine") -> np.ndarray:
    """All scores as defined: float32 vectors, summed in float64 one by one (never by a matrix product), as float32."""
    sides = []
    for side in (queries, candidates):
        side = side.astype(np.float32)
        if similarity == "cosine":
            lengths = np.sqrt((side.astype(np.float64) ** 2).sum(1))
            side = (side.astype(np.float64) / lengths[:, None]).astype(np.float32)
        sides.append(side.astype(np.float64))
    return np.array([[(q * c).sum() for c in sides[1]] for q in sides[0]]).astype(np.float32)


def same(one: SearchResult, other: SearchResult) -> bool:
    runs = all(
        np.array_equal(getattr(one.run, part), getattr(other.run, part)) for part in ("offsets", "indices", "scores")
    )
    ids = one.run.queries.equals(other.run.queries) and one.run.documents.equals(other.run.documents)
    if one.ranks is None or other.ranks is None:
        return runs and ids and one.ranks is other.ranks
    return runs and ids and np.array_equal(one.ranks.ranks, other.ranks.ranks)


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Two sides in which equal vectors are common (drawn with repetition from few), so that ties are."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dimension = draw(st.sampled_from([1, 3, 8, 17, 64]))
    distinct = draw(st.integers(1, 40))
    pool = rng.standard_normal((distinct, dimension))
    if draw(st.booleans()):
        pool = np.round(pool) + 0.5  # values on a grid: equal scores of unequal vectors
    images = pool[rng.integers(0, distinct, draw(st.integers(1, 90)))]
    texts = pool[rng.integers(0, distinct, draw(st.integers(1, 130)))] + 0.0
    return images.astype(np.float32), texts.astype(np.float32), rng


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(problem=problems(), depth=st.sampled_from([1, 3, 10, 1000]), similarity=st.sampled_from(["cosine", "dot"]))
def test_equals_the_oracle_in_both_directions_under_every_tie_rule(
    problem: tuple[np.ndarray, np.ndarray, np.random.Generator],
    depth: int,
    similarity: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    images, texts, rng = problem
    monkeypatch.setattr(scan, "WIDTH", int(rng.integers(1, 60)))
    monkeypatch.setattr(scan, "TILE", 64)
    scores = oracle(texts, images, similarity)
    positive = rng.random(scores.shape) < 0.1
    positive[rng.integers(0, len(texts)), rng.integers(0, len(images))] = True
    text_ids, image_ids = (embeddings(m, v).ids.to_pylist() for m, v in (("text", texts), ("image", images)))
    pairs = [(text_ids[t], image_ids[i]) for t, i in np.argwhere(positive)]
    qrels = {
        "t2i": Qrels.of([t for t, _ in pairs], [i for _, i in pairs]),
        "i2t": Qrels.of([i for _, i in pairs], [t for t, _ in pairs]),
    }
    for ties in ("id", "pessimistic", "optimistic"):
        found = search_both(
            embeddings("image", images),
            embeddings("text", texts),
            qrels=qrels,  # type: ignore[arg-type]
            depth=depth,
            similarity=similarity,  # type: ignore[arg-type]
            ties=ties,  # type: ignore[arg-type]
        )
        for task, matrix, relevant in (("t2i", scores, positive), ("i2t", scores.T, positive.T)):
            one = found[task]  # type: ignore[index]
            asked = np.flatnonzero(relevant.any(1))
            order = np.argsort(-matrix[asked], axis=1, kind="stable")[:, :depth]
            assert np.array_equal(one.run.indices.reshape(len(asked), -1), order)
            assert np.array_equal(
                one.run.scores.reshape(len(asked), -1), np.take_along_axis(matrix[asked], order, axis=1)
            )
            expected = []
            for q in asked:
                row, places = matrix[q], np.flatnonzero(relevant[q])
                ranks = []
                for p in places:
                    tied = row == row[p]
                    before = tied & (np.arange(len(row)) < p)
                    if ties == "pessimistic":
                        before = tied & ~relevant[q] | before & relevant[q]
                    elif ties == "optimistic":
                        before = before & relevant[q]
                    ranks.append(1 + (row > row[p]).sum() + before.sum())
                expected += sorted(ranks)
            assert one.ranks is not None
            assert one.ranks.ranks.tolist() == expected


def clustered(seed: int = 0, images: int = 300, dimension: int = 64) -> tuple[Embeddings, Embeddings, dict[str, Qrels]]:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((images, dimension)).astype(np.float32)
    texts = np.repeat(vectors, 5, axis=0) + 2 * rng.standard_normal((5 * images, dimension)).astype(np.float32)
    one, other = embeddings("image", vectors), embeddings("text", texts)
    owner = np.repeat(one.ids.to_pylist(), 5).tolist()
    return one, other, {"t2i": Qrels.of(other.ids, owner), "i2t": Qrels.of(owner, other.ids)}


def test_the_order_of_the_input_changes_no_bit() -> None:
    images, texts, qrels = clustered()
    rng = np.random.default_rng(1)
    shuffled = [
        Embeddings(side.modality, side.ids.take(pa.array(order)), side.vectors[order], CARD)
        for side, order in ((images, rng.permutation(len(images))), (texts, rng.permutation(len(texts))))
    ]
    plain = search_both(images, texts, qrels=qrels)  # type: ignore[arg-type]
    mixed = search_both(*shuffled, qrels=qrels)  # type: ignore[arg-type]
    assert all(same(plain[d], mixed[d]) for d in plain)


def test_blocks_threads_and_the_number_of_passes_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    images, texts, qrels = clustered()
    plain = search_both(images, texts, qrels=qrels)  # type: ignore[arg-type]
    alone = {
        "t2i": search(texts, images, "t2i", qrels=qrels["t2i"]),
        "i2t": search(images, texts, "i2t", qrels=qrels["i2t"]),
    }
    assert all(same(plain[d], alone[d]) for d in plain)
    monkeypatch.setattr(scan, "WIDTH", 37)
    monkeypatch.setattr(scan, "TILE", 64)
    monkeypatch.setattr("visir.threads.cores", lambda: 3)
    monkeypatch.setattr("visir.retrieval.scan.IN_MEMORY", 0)
    small = search_both(images, texts, qrels=qrels)  # type: ignore[arg-type]
    assert all(same(plain[d], small[d]) for d in plain)


def test_a_smaller_gallery_leaves_every_score_as_it_was() -> None:
    images, texts, _ = clustered()
    whole = search(texts, images, "t2i", depth=300).run
    some = Gallery.of("image", images.ids.to_pylist()[::3], "every third")
    part = search(texts, images, "t2i", gallery=some, depth=100).run
    for query in texts.ids.to_pylist()[:50]:
        kept = [(d, s) for d, s in whole.answer(query) if d in set(some.ids.to_pylist())]  # type: ignore[union-attr]
        assert part.answer(query) == kept


@pytest.mark.parametrize("dimension", [64, 512, 513, 768])
def test_equal_vectors_get_equal_scores_wherever_they_stand(dimension: int) -> None:
    """A matrix product alone fails this: its last bits depend on the column."""
    rng = np.random.default_rng(dimension)
    vectors = rng.standard_normal((700, dimension)).astype(np.float32)
    twins = rng.choice(700, 200, replace=False)
    vectors[twins] = vectors[twins[0]]
    queries = rng.standard_normal((333, dimension)).astype(np.float32)
    run = search(embeddings("text", queries), embeddings("image", vectors), "t2i", depth=700).run
    scores = np.empty((333, 700), np.float32)
    np.put_along_axis(scores, run.indices.reshape(333, 700).astype(np.int64), run.scores.reshape(333, 700), axis=1)
    assert (scores[:, twins] == scores[:, twins[:1]]).all()
    place = np.argsort(run.indices.reshape(333, 700), axis=1)[:, np.sort(twins)]
    assert (np.diff(place, axis=1) == 1).all()  # and stand one after the other, in order of id


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_scores_bunched_together_are_still_told_apart(
    similarity: Literal["cosine", "dot"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that has hardly learnt: all scores within 1e-4, far more near-equal ones than a query has room for, and
    most near some positive. So blocks after the first are multiplied in double precision.
    """
    precise = []
    look = scan._look
    monkeypatch.setattr(scan, "_look", lambda *given: precise.append(given[-1]) or look(*given))
    monkeypatch.setattr(scan, "pays", lambda numbers, *loops: True)  # by the kernels, compiled before or not
    monkeypatch.setattr(scan, "WIDTH", 512)
    rng = np.random.default_rng(5)
    candidates = (1 + rng.standard_normal((3000, 64)) * 1e-3).astype(np.float32)
    candidates[rng.choice(3000, 900, replace=False)] = candidates[7]
    queries = (1 + rng.standard_normal((40, 64)) * 1e-3).astype(np.float32)
    texts, images = embeddings("text", queries), embeddings("image", candidates)
    positives = np.array([np.sort(rng.choice(3000, 60, replace=False)) for _ in range(40)])
    qrels = Qrels.of(
        texts.ids.take(pa.array(np.repeat(np.arange(40), 60))), images.ids.take(pa.array(positives.ravel()))
    )
    back = Qrels.of(qrels.documents, texts.ids.take(pa.array(np.repeat(np.arange(40), 60))))
    found = search_both(images, texts, similarity=similarity, qrels={"t2i": qrels, "i2t": back})
    assert precise == [False] + [True] * 5
    scores = oracle(queries, candidates, similarity)
    order = np.argsort(-scores, axis=1, kind="stable")
    run, ranks = found["t2i"].run, found["t2i"].ranks
    assert np.array_equal(run.indices.reshape(40, 100), order[:, :100])
    assert np.array_equal(run.scores.reshape(40, 100), np.take_along_axis(scores, order[:, :100], axis=1))
    places = np.argsort(order, axis=1)  # of each candidate in the ranking of each query
    assert ranks is not None
    assert np.array_equal(
        ranks.ranks.reshape(40, 60), np.sort(np.take_along_axis(places, positives, axis=1) + 1, axis=1)
    )
    answered = found["i2t"].run
    rows = [int(one.as_py()[1:]) for one in answered.queries]
    assert np.array_equal(answered.indices.reshape(len(rows), 40), np.argsort(-scores.T[rows], axis=1, kind="stable"))


def test_identical_vectors_everywhere() -> None:
    """A collapsed encoder: all scores tie. The i-th image by id has rank i; pessimistic: the last, optimistic: 1."""
    images, texts = np.ones((50, 16), np.float32), np.ones((50, 16), np.float32)
    qrels = Qrels.of([f"t{i:05}" for i in range(50)], [f"i{i:05}" for i in range(50)])
    for ties, expected in (("id", list(range(1, 51))), ("pessimistic", [50] * 50), ("optimistic", [1] * 50)):
        found = search(embeddings("text", texts), embeddings("image", images), "t2i", qrels=qrels, ties=ties)  # type: ignore[arg-type]
        assert found.ranks is not None and found.ranks.ranks.tolist() == expected
        assert found.run.answer("t00000", 3) == [("i00000", 1.0), ("i00001", 1.0), ("i00002", 1.0)]


def test_ranks_of_the_whole_run_are_the_ranks_of_the_search() -> None:
    images, texts, qrels = clustered()
    for ties in ("id", "pessimistic", "optimistic"):
        for task, one in search_both(images, texts, qrels=qrels, depth=5000, ties=ties).items():  # type: ignore[arg-type]
            again = ranks_of(one.run, qrels[task], ties)  # type: ignore[arg-type]
            assert one.ranks is not None
            assert np.array_equal(again.ranks, one.ranks.ranks) and again.depth is None


def test_half_precision_on_disk_is_searched_as_it_is(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    images, texts, qrels = clustered()
    np.save(tmp_path / "images.npy", images.vectors.astype(np.float16))
    mapped = Embeddings("image", images.ids, np.load(tmp_path / "images.npy", mmap_mode="r"), CARD)
    in_memory = Embeddings("image", images.ids, images.vectors.astype(np.float16).astype(np.float32), CARD)
    expected = search(texts, in_memory, "t2i", qrels=qrels["t2i"])
    monkeypatch.setattr("visir.retrieval.scan.IN_MEMORY", 0)
    assert same(search(texts, mapped, "t2i", qrels=qrels["t2i"]), expected)


def test_a_positive_outside_the_gallery_is_never_found() -> None:
    images, texts, qrels = clustered(images=20)
    gallery = Gallery.of("image", images.ids.to_pylist()[:10], "the first ten")
    ranks = search(texts, images, "t2i", gallery=gallery, qrels=qrels["t2i"]).ranks
    assert ranks is not None and ranks.gallery_size == 10 and ranks.depth is None
    assert (ranks.ranks[:50] > 0).all() and (ranks.ranks[50:] == 0).all()


def test_only_judged_queries_are_searched() -> None:
    images, texts, _ = clustered(images=20)
    found = search(texts, images, "t2i", qrels=Qrels.of(["t00007"], ["i00001"]))
    assert found.run.queries.to_pylist() == ["t00007"]


def test_faults_are_named() -> None:
    images, texts, _ = clustered(images=4, dimension=8)
    zero = texts.vectors.copy()
    zero[3] = 0
    with pytest.raises(EmbeddingError, match="1 text vectors by test are zero; they have no cosine: 't00003'"):
        search(embeddings("text", zero), images, "t2i")
    by_dot = search(embeddings("text", zero), images, "t2i", similarity="dot").run
    assert by_dot.answer("t00003")[0] == ("i00000", 0.0)
    with refused(EmbeddingError, "8", "image", "test", "4", code="not-one-space"):
        search(texts, embeddings("image", np.ones((2, 4), np.float32)), "t2i")
    assert search(texts, images).run.task == "t2i" and search(images, images).run.task == "i2i"
    with refused(RunError, "t2i", "all of them", code="search-needs-listed-gallery"):
        search(texts, images, "t2i", gallery=Gallery.stated("image", 10, "all of them"))
    with refused(EmbeddingError, "text vector by test", "1 id", "unknown", code="vectors-missing"):
        search(texts, images, "t2i", qrels=Qrels.of(["unknown"], ["i00000"]))
    with pytest.raises(RunError, match="depth must be at least 1"):
        search(texts, images, "t2i", depth=0)
    huge = embeddings("text", np.full((1, 8), 1e38, np.float64))
    with refused(EmbeddingError, "too large for float32"):
        search(embeddings("text", np.full((1, 8), 1e300)), images, "t2i", similarity="dot")
    assert isinstance(search(huge, images, "t2i").run, Run)
