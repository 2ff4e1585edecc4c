"""The collection record: fingerprints, splits, links, judgements, refusals."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from visir.errors import CollectionError
from visir.records import Collection


def tiny(**changes: object) -> Collection:
    columns: dict[str, object] = {
        "images": {"id": ["i1", "i2", "i3"], "path": ["1.jpg", "2.jpg", "3.jpg"], "split": ["train", "test", "test"]},
        "captions": {
            "id": ["c1", "c2", "c3", "c4"],
            "text": ["a dog", "a hound", "a cat", "two boats"],
            "image_id": ["i1", "i1", "i2", "i3"],
        },
    }
    columns.update(changes)
    return Collection.build("tiny", **columns)  # type: ignore[arg-type]


def test_fingerprint_ignores_row_order_and_where_the_bytes_lie() -> None:
    moved = tiny(
        images={"id": ["i3", "i1", "i2"], "path": ["z/3.png", None, "x"], "split": ["test", "train", "test"]},
        captions={
            "id": ["c4", "c3", "c2", "c1"],
            "text": ["two boats", "a cat", "a hound", "a dog"],
            "image_id": ["i3", "i2", "i1", "i1"],
        },
    )
    assert moved.fingerprint == tiny().fingerprint


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("images", "split", "val"),
        ("captions", "text", "a Dog"),
        ("captions", "image_id", "i2"),
        ("captions", "id", "c9"),
    ],
)
def test_fingerprint_changes_with_every_fact_that_matters(table: str, column: str, value: str) -> None:
    base = tiny()
    columns = {name: getattr(base, name).to_pydict() for name in ("images", "captions")}
    columns[table][column][0] = value
    assert tiny(**columns).fingerprint != base.fingerprint


@given(st.lists(st.text(), min_size=1, max_size=12), st.randoms())
def test_fingerprint_of_any_unicode_text_is_order_free(texts: list[str], rng: random.Random) -> None:
    texts = [t.encode("utf-8", "ignore").decode() for t in texts]  # lone surrogates are not text
    ids = [f"c{i}" for i in range(len(texts))]
    order = list(range(len(texts)))
    rng.shuffle(order)

    def made(rows: list[int]) -> str:
        return Collection.build(
            "u",
            images={"id": ["i"]},
            captions={"id": [ids[r] for r in rows], "text": [texts[r] for r in rows], "image_id": ["i"] * len(rows)},
        ).fingerprint

    assert made(order) == made(sorted(order))


def test_moving_a_character_between_neighbours_changes_the_fingerprint() -> None:
    # "ab","c" and "a","bc" are the same bytes when concatenated: lengths must enter the hash.
    def made(texts: list[str]) -> str:
        return Collection.build(
            "n", images={"id": ["i"]}, captions={"id": ["1", "2"], "text": texts, "image_id": ["i", "i"]}
        ).fingerprint

    assert made(["ab", "c"]) != made(["a", "bc"])


def test_split_keeps_the_captions_of_its_images() -> None:
    test = tiny().split("test")
    assert test.images["id"].to_pylist() == ["i2", "i3"]
    assert test.captions["id"].to_pylist() == ["c3", "c4"]
    assert tiny().split("train+test").fingerprint == tiny().fingerprint


def test_unknown_split_names_the_nearest() -> None:
    with refused(CollectionError, "tset", code="unknown-split", meant="test"):
        tiny().split("tset")


def test_qrels_of_links_go_both_ways() -> None:
    assert tiny().qrels("t2i").to_dict() == {
        "c1": {"i1": 1.0}, "c2": {"i1": 1.0}, "c3": {"i2": 1.0}, "c4": {"i3": 1.0},
    }  # fmt: skip
    assert tiny().qrels("i2t").to_dict() == {"i1": {"c1": 1.0, "c2": 1.0}, "i2": {"c3": 1.0}, "i3": {"c4": 1.0}}


def test_a_judgement_set_replaces_the_links_and_may_hold_for_one_direction() -> None:
    judged = tiny(
        judgements={
            "relevance": ["experts", "experts", "oneway"],
            "task": ["both", "both", "t2i"],
            "caption_id": ["c1", "c1", "c3"],
            "image_id": ["i1", "i2", "i3"],
            "grade": [3.5, 1.0, 1.0],
        }
    )
    assert judged.relevances == ("links", "experts", "oneway")
    assert judged.qrels("t2i", "experts").to_dict() == {"c1": {"i1": 3.5, "i2": 1.0}}
    assert judged.qrels("t2i", "oneway").to_dict() == {"c3": {"i3": 1.0}}
    with refused(CollectionError, "oneway", "i2t", code="relevance-no-judgements", hint=False):
        judged.qrels("i2t", "oneway")
    with refused(CollectionError, meant="experts"):
        judged.qrels("i2t", "expert")


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(CollectionError) as caught:
        tiny(
            images={"id": ["i1", "i1", "i2"]},
            captions={"id": ["c1", "c1"], "text": ["x", None], "image_id": ["i1", "nowhere"]},
        )
    text = str(caught.value)
    assert "duplicate image id 'i1'" in text
    assert "duplicate caption id 'c1'" in text
    assert "caption 'c1' has no text" in text
    assert "caption 'c1' belongs to image 'nowhere', which is not in the collection" in text
    assert "visir data check" in text


def test_unknown_column_is_refused() -> None:
    with refused(CollectionError, "txt", code="unknown-column"):
        tiny(captions={"id": ["c"], "txt": ["x"], "image_id": ["i1"]})


def test_facts_follow_the_images() -> None:
    facts = pa.table({"image_id": ["i1", "i2", "i3"], "colour": ["red", "blue", "red"]})
    assert tiny(facts=facts).split("test").facts.to_pydict() == {"image_id": ["i2", "i3"], "colour": ["blue", "red"]}
