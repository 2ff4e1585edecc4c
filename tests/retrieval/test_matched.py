"""Which terms matched: the score, taken apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_data import TERMS, random_sparse, sparse
from sparse_oracle import OracleIndex

from visir.errors import EmbeddingError
from visir.sparse.top_terms import in_words, matched


def test_a_hand_worked_case() -> None:
    # 2 × 3 = 6 (w1) and 1 × 2 = 2 (w4), in all 8: shares of 3/4 and 1/4. w0 and w7 are of one side only.
    query, document = np.zeros((1, TERMS)), np.zeros((1, TERMS))
    query[0, [0, 1, 4]], document[0, [1, 4, 7]] = [5, 2, 1], [3, 2, 9]
    found = matched(sparse("text", query), "t0000", sparse("image", document), "i0000")
    assert [(one.term, one.query, one.document, one.product, one.share) for one in found] == [
        ("w1", 2, 3, 6, 0.75),
        ("w4", 1, 2, 2, 0.25),
    ]
    assert in_words(found) == "w1 6.00 (75 %), w4 2.00 (25 %)"
    assert in_words(found, 1) == "w1 6.00 (75 %), 1 more (25 %)"
    assert in_words([]) == ""


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000))
def test_the_products_sum_to_the_score_and_a_document_without_a_match_is_no_answer(seed: int) -> None:
    documents, queries = random_sparse("image", 20, seed), random_sparse("text", 4, seed + 1)
    run = OracleIndex.build(documents).search(queries, 20)
    for query in queries.ids.to_pylist():
        scores = dict(run.answer(query))
        for document in documents.ids.to_pylist():
            found = matched(queries, query, documents, document)
            assert bool(found) == (document in scores)
            if found:
                assert np.isclose(sum(one.product for one in found), scores[document], rtol=1e-6)
                assert np.isclose(sum(one.share for one in found), 1)
                assert [one.product for one in found] == sorted((one.product for one in found), reverse=True)


def test_an_id_without_a_vector_is_named() -> None:
    with pytest.raises(EmbeddingError, match="no sparse text vector by test for 1 id: 'nobody'"):
        matched(random_sparse("text", 2, 1), "nobody", random_sparse("image", 2, 2), "i0000")
