"""Search among allowed documents: exact for exact kinds, whatever is allowed."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from index_data import TRUTH, dense, lies_in_a_folder, vectors

from refusals import refused
from visir.errors import RunError
from visir.records import Embeddings, EncoderCard, Run
from visir.retrieval import filtered
from visir.retrieval.filtered import FilteredIndex, search_among
from visir.retrieval.kinds import KINDS, build_index

EVERY = [name for name, kind in KINDS.items() if all(map(find_spec, kind.packages)) and lies_in_a_folder(kind)]
EXACT = [name for name in EVERY if KINDS.get(name).exact]


def answers(run) -> dict[str, list[tuple[str, float]]]:  # type: ignore[no-untyped-def]
    return {query: run.answer(query) for query in run.queries.to_pylist()}


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(EXACT),
    n=st.integers(1, 120),
    seed=st.integers(0, 999),
    share=st.sampled_from([0.02, 0.1, 0.5, 0.9, 1.0]),
    k=st.sampled_from([1, 3, 10, 200]),
    scanned=st.sampled_from([0, 1000]),
)
def test_an_exact_kind_gives_exactly_the_best_of_the_allowed(
    name: str, n: int, seed: int, share: float, k: int, scanned: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filtered, "SCANNED", scanned)
    form = KINDS.get(name).vectors
    documents, queries = vectors(form, "image", n, seed), vectors(form, "text", 6, seed + 1)
    drawn = np.random.default_rng(seed)
    allowed = [one for one in documents.ids.to_pylist() if drawn.random() < share or one[-1] == "0"]
    index = build_index(documents, name)
    run = search_among(index, queries, allowed, k)
    truth = build_index(documents.select(allowed), TRUTH[form]).search(queries, k)
    assert answers(run) == answers(truth)
    assert run.gallery.ids.to_pylist() == sorted(allowed) and run.depth == k


def test_a_query_far_from_everything_allowed_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # 100 documents on a quarter circle, the allowed half on its far side: the first 1.5 × 4 × 100 / 50 + 10 = 22
    # answers to a query at its beginning hold none of them; the second query, at its end, is answered at once.
    monkeypatch.setattr(filtered, "SCANNED", 0)
    angle = np.linspace(0, np.pi / 2, 100)
    documents = dense("image", np.stack([np.cos(angle), np.sin(angle)], 1))
    queries = dense("text", np.array([[1, 0], [0, 1]]))
    asked: list[tuple[int, int]] = []
    index = build_index(documents, "exact")
    search = index.search
    monkeypatch.setattr(index, "search", lambda q, k: (asked.append((len(q), k)), search(q, k))[1])
    run = search_among(index, queries, documents.ids[50:], 4)
    assert [one for one, _ in run.answer("t0000")] == ["i0050", "i0051", "i0052", "i0053"]
    assert [one for one, _ in run.answer("t0001")] == ["i0099", "i0098", "i0097", "i0096"]
    assert asked == [(2, 22), (1, 44), (1, 88)]


@pytest.mark.parametrize("name", [name for name in EVERY if name not in EXACT])
def test_an_approximate_kind_gives_allowed_documents_and_exact_scores(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filtered, "SCANNED", 0)
    form = KINDS.get(name).vectors
    documents, queries = vectors(form, "image", 200, 3), vectors(form, "text", 10, 4)
    allowed = documents.ids.to_pylist()[::3]
    run = search_among(build_index(documents, name), queries, allowed, 5)
    truth = answers(build_index(documents.select(allowed), TRUTH[form]).search(queries, len(allowed)))
    for query, found in answers(run).items():
        assert set(found) <= set(truth[query])
        assert len(found) == min(5, len(truth[query]))


def test_an_index_that_filters_itself_is_asked_to() -> None:
    documents, queries = vectors("dense", "image", 20, 1), vectors("dense", "text", 2, 2)
    index = build_index(documents, "exact")

    class Own(type(index)):  # type: ignore[misc]
        filters_up_to = 3

        def search_among(self, queries, allowed, k=10, **options):  # type: ignore[no-untyped-def]
            return ("asked", allowed.to_pylist(), k)

    index.__class__ = Own
    assert search_among(index, queries, ["i0003", "nowhere", "i0001"], 2) == ("asked", ["i0001", "i0003", "nowhere"], 2)
    assert isinstance(search_among(index, queries, documents.ids[:4], 2), Run)  # more than it filters by itself


def test_nothing_allowed_and_nothing_there() -> None:
    documents, queries = vectors("dense", "image", 20, 1), vectors("dense", "text", 2, 2)
    index = build_index(documents, "exact")
    with refused(RunError, code="no-document-allowed"):
        FilteredIndex(index, []).search(queries)
    run = FilteredIndex(index, ["elsewhere"]).search(queries)
    assert len(run) == 2 and run.answer("t0000") == [] and run.gallery.ids.to_pylist() == ["elsewhere"]
    with pytest.raises(RunError, match="k must be at least 1"):
        FilteredIndex(index, ["i0001"]).search(queries, 0)


@pytest.mark.parametrize("scanned", [0, 1000])
def test_few_documents_of_a_dot_index_are_scored_by_dot(scanned: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: query (1, 0); "long" (3, 4) has dot 3 and cosine .6, "unit" (1, 0) has dot 1 and cosine 1."""
    monkeypatch.setattr(filtered, "SCANNED", scanned)
    documents = Embeddings(
        "image",
        ["long", "other", "unit"],
        np.array([[3, 4], [9, 9], [1, 0]], np.float32),
        EncoderCard("by hand", "test", "1"),
    )
    query = Embeddings("text", ["q"], np.array([[1, 0]], np.float32), EncoderCard("by hand", "test", "1"))
    for similarity, expected in (("dot", [("long", 3.0), ("unit", 1.0)]), ("cosine", [("unit", 1.0), ("long", 0.6)])):
        index = build_index(documents, "exact", similarity=similarity)
        run = search_among(index, query, ["long", "unit"], 2)
        assert [(document, round(score, 6)) for document, score in run.answer("q")] == expected
