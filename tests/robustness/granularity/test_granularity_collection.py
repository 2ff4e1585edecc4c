"""The granularity of collections: profiles, what is not defined, any text, and who is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tagged import tagged

from refusals import refused
from visir.errors import CollectionError, ConfigurationError
from visir.records import Collection
from visir.robustness.granularity import FEATURES, granularity

THREE = ("A/AT0 big/AJ0 dog/NN1 and/CJC a/AT0 cat/NN1", "two/CRD dogs/NN2 of/PRF mine/PNP", "running/VVG")


def collection(texts: list[str], images: list[str] | None = None) -> Collection:
    owners = images or [f"i{at}" for at in range(len(texts))]
    return Collection.build(
        "toy",
        images={"id": list(dict.fromkeys(owners))},
        captions={"id": [f"c{at}" for at in range(len(texts))], "text": texts, "image_id": owners},
    )


def test_profiles() -> None:
    words = tagged(*THREE)
    toy = collection(words.texts.to_pylist())
    strict = granularity(toy, words=words)
    assert strict.profile == "strict"
    assert strict.values["adjectives"].tolist() == [1, 0, 0]
    assert strict.values["articles"].tolist() == [2, 0, 0]
    assert strict.values["quantifiers"].tolist() == [0, 1, 0]
    per_noun = granularity(toy, "per-noun", words=words)
    # 1 adjective for 2 nouns, 0 for 1; "running" has no noun that could have one.
    np.testing.assert_array_equal(per_noun.values["adjectives"], [0.5, 0, np.nan])
    assert per_noun.mean("adjectives") == 0.25
    np.testing.assert_array_equal(per_noun.values["articles"], [1, 0, np.nan])
    np.testing.assert_array_equal(per_noun.values["words"], strict.values["words"])
    assert list(strict.values) == list(FEATURES)


def test_as_a_table_what_is_not_defined_is_null() -> None:
    words = tagged(*THREE)
    table = granularity(collection(words.texts.to_pylist(), ["x", "x", "y"]), "per-noun", words=words).to_arrow()
    assert table["caption_id"].to_pylist() == ["c0", "c1", "c2"]
    assert table["image_id"].to_pylist() == ["x", "x", "y"]
    assert table["adjectives"].to_pylist() == [0.5, 0.0, None]


def test_refused() -> None:
    with refused(ConfigurationError, "strickt", code="unknown-profile", meant="strict"):
        granularity(collection(["a dog"]), "strickt")  # type: ignore[arg-type]
    with refused(CollectionError, "toy", code="no-captions-look"):
        granularity(collection([]))


def test_real_words() -> None:
    pytest.importorskip("HanTa")
    # a, a: articles; red, small: adjectives; "with a …" after man, "on a …" after helmet.
    found = granularity(collection(["A man with a red helmet on a small horse."]))
    assert {name: found.mean(name) for name in ("adjectives", "articles", "complement_phrases", "words")} == {
        "adjectives": 2,
        "articles": 3,
        "complement_phrases": 2,
        "words": 10,
    }


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.text(max_size=40), min_size=1, max_size=3))
def test_any_text(texts: list[str]) -> None:
    pytest.importorskip("HanTa")
    for profile in ("paper", "strict", "per-noun"):
        found = granularity(collection(texts), profile)  # type: ignore[arg-type]
        for name, values in found.values.items():
            assert len(values) == len(texts), name
            assert (np.isnan(values) | (values >= 0)).all(), name
        # "bus/car" is one word to `words` and names two concepts.
        plain = [profile != "paper" and all(piece.isalpha() for piece in text.split()) for text in texts]
        assert not (found.values["diversity"][plain] > 1).any()
