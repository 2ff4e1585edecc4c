"""Words: columns become sentences, some of them are taken."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from visir.robustness.language.tagged_captions import TaggedCaption, TaggedCaptions


def words() -> TaggedCaptions:
    return TaggedCaptions(
        pa.array(["A dog .", "", "red dog"]),
        np.array([0, 3, 3, 5]),
        np.array([0, 2, 6, 0, 4], np.int32),
        np.array([1, 5, 7, 3, 7], np.int32),
        pa.array(["AT0", "NN1", "PUN", "AJ0", "NN1"]).dictionary_encode(),
        pa.array(["a", "dog", ".", "red", "dog"]).dictionary_encode(),
    )


def test_sentences() -> None:
    first, second, third = words().sentences()
    assert first == TaggedCaption("A dog .", [0, 2, 6], [1, 5, 7], ["AT0", "NN1", "PUN"], ["a", "dog", "."])
    assert first.tokens() == ["A", "dog", "."]
    assert second == TaggedCaption("", [], [], [], [])
    assert third.lemmas == ["red", "dog"]
    assert type(first.starts[0]) is int


def test_equal_strings_are_one_object() -> None:
    first, _, third = words().sentences()
    assert first.tags[1] is third.tags[1]


def test_some_are_taken_in_any_order_and_several_times() -> None:
    taken = words().take(np.array([2, 1, 2, 0]))
    first, second, third = words().sentences()
    assert taken.sentences() == [third, second, third, first]
    assert taken.offsets.tolist() == [0, 2, 2, 4, 7]
    assert taken.starts.dtype == taken.ends.dtype == np.int32
    assert words().take(np.array([], np.int64)).sentences() == []
