"""The slow truth of sparse search, against sums that are slower still."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from index_data import TERMS, random_sparse, sparse
from sparse_oracle import OracleIndex

from visir.records import SparseEmbeddings


def row(**weights: float) -> list[float]:
    """A row of w0, w1, …"""
    full = [0.0] * TERMS
    for name, weight in weights.items():
        full[int(name[1:])] = weight
    return full


def by_hand(queries: SparseEmbeddings, documents: SparseEmbeddings, k: int) -> dict[str, list[tuple[str, float]]]:
    """Term by term in Python floats (float64), ascending; rounded to float32 at the end."""
    answers = {}
    for q, query in enumerate(queries.ids.to_pylist()):
        asked = dict(zip(*(part.tolist() for part in queries.row(q)), strict=True))
        scores = {}
        for d, document in enumerate(documents.ids.to_pylist()):
            held = dict(zip(*(part.tolist() for part in documents.row(d)), strict=True))
            if common := sorted(asked.keys() & held.keys()):
                total = 0.0
                for term in common:
                    total += asked[term] * held[term]
                scores[document] = float(np.float32(total))
        answers[query] = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]
    return answers


def test_a_hand_worked_case() -> None:
    # q = 2 w1 + 1 w3. both: 2×1 + 1×4 = 6; one: 2×3 = 6, a tie, so by id; other: 1×0.5; none shares no term.
    documents = sparse(
        "image",
        [row(w1=1, w3=4), row(w0=9, w1=3), row(w2=7), row(w3=0.5)],
        ["one", "both", "none", "other"],
    )
    queries = sparse("text", [row(w1=2, w3=1), row(w5=1), row()], ["q", "unknown", "empty"])
    run = OracleIndex.build(documents).search(queries, 10)
    assert run.answer("q") == [("both", 6.0), ("one", 6.0), ("other", 0.5)]
    assert run.answer("q", 1) == OracleIndex.build(documents).search(queries, 1).answer("q") == [("both", 6.0)]
    assert run.answer("unknown") == run.answer("empty") == []


def test_sums_are_in_float64_in_ascending_order_of_terms() -> None:
    # 2^24 + 1 lies half-way between two float32 and is rounded to the even one, 2^24. Three times 2^-30 more: added to
    # 2^24 + 1 one by one each is lost (float64 there goes in steps of 2^-28), added first together they are not, and
    # the sum lies above half-way: 2^24 + 2.
    tiny = 2.0**-30
    falling, rising = row(w0=2.0**24, w1=1, w2=tiny, w3=tiny, w4=tiny), row(w0=tiny, w1=tiny, w2=tiny, w3=1, w4=2.0**24)
    run = OracleIndex.build(sparse("image", [falling, rising], ["falling", "rising"])).search(
        sparse("text", [[1.0] * 5 + [0.0] * (TERMS - 5)], ["q"])
    )
    assert run.answer("q") == [("rising", 2.0**24 + 2), ("falling", 2.0**24)]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.sampled_from([1, 3, 10, 99]), density=st.sampled_from([0.05, 0.3, 1.0]))
def test_equals_sums_by_hand(seed: int, k: int, density: float) -> None:
    documents, queries = random_sparse("image", 40, seed, density), random_sparse("text", 6, seed + 1, density)
    run = OracleIndex.build(documents).search(queries, k)
    assert {query: run.answer(query) for query in run.queries.to_pylist()} == by_hand(queries, documents, k)


def test_more_queries_than_are_multiplied_at_a_time() -> None:
    documents, queries = random_sparse("image", 30, 1), random_sparse("text", 150, 2)
    run = OracleIndex.build(documents).search(queries, 5)
    assert {query: run.answer(query) for query in run.queries.to_pylist()} == by_hand(queries, documents, 5)


def test_documents_without_any_term() -> None:
    empty = sparse("image", [row(), row()])
    assert len(OracleIndex.build(empty).search(random_sparse("text", 5, 1)).indices) == 0
