"""Galleries and qrels."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from refusals import refused
from visir.errors import CollectionError, RunError
from visir.records import Gallery, Qrels


def test_a_gallery_is_sorted_so_its_order_is_the_tie_rule() -> None:
    gallery = Gallery.of("image", ["b", "a", "c"], "three")
    assert gallery.ids is not None
    assert gallery.ids.to_pylist() == ["a", "b", "c"]
    assert gallery.fingerprint == Gallery.of("image", ["c", "b", "a"]).fingerprint
    assert gallery.fingerprint != Gallery.of("text", ["a", "b", "c"]).fingerprint


def test_bad_galleries_are_refused() -> None:
    with refused(RunError, "x", code="gallery-empty"):
        Gallery.of("image", [], "x")
    with refused(RunError, "a", code="gallery-holds-twice", hint=False):
        Gallery.of("image", ["a", "b", "a"])


def test_a_stated_gallery_says_so_and_cannot_be_restricted() -> None:
    stated = Gallery.stated("image", 31783, "all of Flickr30k")
    assert not stated.is_listed
    assert stated.fingerprint == "stated:31783"
    with refused(RunError, code="gallery-stated", hint=False):
        stated.restrict(pa.array(["a"]), "x")


def test_restrict() -> None:
    assert Gallery.of("text", ["a", "b", "c"]).restrict(pa.array(["c", "a", "z"]), "two").size == 2


def test_qrels_count_positives_and_keep_judged_negatives() -> None:
    qrels = Qrels.of(["q2", "q1", "q1", "q3"], ["d1", "d2", "d1", "d9"], [1, 0, 2, 0])
    assert qrels.queries.to_pylist() == ["q1", "q2", "q3"]
    assert qrels.positives.tolist() == [1, 1, 0]
    assert qrels.to_dict() == {"q1": {"d1": 2.0, "d2": 0.0}, "q2": {"d1": 1.0}, "q3": {"d9": 0.0}}
    assert qrels.select(["q3", "q1", "nobody"]).to_dict() == {"q1": {"d1": 2.0, "d2": 0.0}, "q3": {"d9": 0.0}}
    assert qrels.rows(np.array([1])).to_dict() == {"q2": {"d1": 1.0}}


def test_bad_qrels_are_refused() -> None:
    with refused(CollectionError, "q", "d", code="query-document-judged-twice", hint=False):
        Qrels.of(["q", "q"], ["d", "d"])
    with refused(CollectionError, code="grades-finite", hint=False):
        Qrels.of(["q"], ["d"], [float("nan")])


def test_a_negative_grade_is_judged_and_not_relevant() -> None:
    """trec_eval's rule, wherever judgements come from."""
    qrels = Qrels.of(["q", "q", "q"], ["a", "b", "c"], [-1, 2, 0])
    assert qrels.to_dict() == {"q": {"a": 0.0, "b": 2.0, "c": 0.0}}
    assert qrels.positives.tolist() == [1]
    assert np.signbit(qrels.grades).sum() == 0
