"""Sparse embeddings: what is refused, by name, and what a row says in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from refusals import refused
from visir.errors import EmbeddingError
from visir.records import EncoderCard, SparseEmbeddings, Vocabulary

WORDS = Vocabulary("tiny", pa.array(["[CLS]", "dog", "cat", "car"]), np.array([False, True, True, True]))
CARD = EncoderCard("tiny", "sparse")


def made(**changes: Any) -> SparseEmbeddings:
    """a: dog 2, car 1; b: nothing; c: cat 3."""
    values: dict[str, Any] = {
        "modality": "text",
        "ids": ["a", "b", "c"],
        "offsets": np.array([0, 2, 2, 3]),
        "terms": np.array([1, 3, 2], np.int32),
        "values": np.array([2, 1, 3], np.float32),
        "vocabulary": WORDS,
        "encoder": CARD,
    }
    return SparseEmbeddings(**{**values, **changes})


def test_a_row_in_words_heaviest_first() -> None:
    one = made()
    assert one.words("a") == [("dog", 2.0), ("car", 1.0)]
    assert one.words("a", 1) == [("dog", 2.0)] and one.words("b") == []
    tie = made(values=np.ones(3, np.float32))
    assert [word for word, _ in tie.words("a")] == ["dog", "car"]  # equal weights: by term number, 1 before 3
    assert len(one) == 3 and one.dimension == 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"values": np.array([2, 0, 3], np.float32)}, "not finite and positive in 'a'"),
        ({"values": np.array([2, 1, np.nan], np.float32)}, "not finite and positive in 'c'"),
        ({"terms": np.array([1, 3, 4], np.int32)}, "outside of the vocabulary's 0 to 3 in 'c'"),
        ({"terms": np.array([3, 1, 2], np.int32)}, "out of order in 'a'"),
        ({"terms": np.array([3, 3, 2], np.int32)}, "out of order in 'a'"),
        ({"ids": ["a", "b", "a"]}, "ids repeat: 'a'"),
        ({"offsets": np.array([0, 2, 3])}, "offsets do not fit"),
        ({"offsets": np.array([0, 3, 2, 3])}, "offsets do not fit"),
        ({"terms": np.array([1, 3, 2])}, "int32 wanted"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(EmbeddingError, match=said):
        made(**changes)


def test_unknown_ids_are_named_and_repeated_terms_refused() -> None:
    with refused(EmbeddingError, "1 id", "x", code="vectors-missing"):
        made().select(["a", "x"])
    with refused(EmbeddingError, "dog", code="terms-repeat", hint=False):
        Vocabulary("tiny", pa.array(["dog", "dog"]), np.ones(2, bool))
    with refused(EmbeddingError, "3", "4", code="matrix-columns-vocabulary-terms", hint=False):
        SparseEmbeddings.from_scipy("text", ["a"], csr_array((1, 3)), WORDS, CARD)


def test_the_order_of_terms_is_part_of_a_vocabulary() -> None:
    other = Vocabulary("other", pa.array(["[CLS]", "cat", "dog", "car"]), WORDS.usable)
    same = Vocabulary("other", WORDS.terms, WORDS.usable.copy())
    assert other.fingerprint != WORDS.fingerprint == same.fingerprint


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 2.0]), min_size=4, max_size=4), min_size=1, max_size=6), st.data())
def test_there_and_back_through_scipy_and_selection(rows: list[list[float]], data: st.DataObject) -> None:
    dense = np.array(rows, np.float32)
    ids = [f"i{one}" for one in range(len(rows))]
    sparse = SparseEmbeddings.from_scipy("image", ids, csr_array(dense), WORDS, CARD)
    np.testing.assert_array_equal(sparse.to_scipy().toarray(), dense)
    some = data.draw(st.lists(st.sampled_from(ids), unique=True, min_size=1))
    np.testing.assert_array_equal(sparse.select(some).to_scipy().toarray(), dense[[ids.index(one) for one in some]])
