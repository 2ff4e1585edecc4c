"""Answers of several indexes, each of other documents, are those of one index over all documents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from index_data import random_dense, vectors

from refusals import refused
from visir.errors import RunError
from visir.records import Gallery, Items, Run
from visir.retrieval import build_index, merge_shards


def run(documents: list[str], scores: list[float], queries: list[str] | None = None, depth: int = 2) -> Run:
    queries = ["q"] * len(documents) if queries is None else queries
    return Run.ranked("toy", "t2i", queries, documents, scores, Gallery.of("image", documents), depth=depth)


@pytest.mark.parametrize(("form", "kind"), [("dense", "exact"), ("sparse", "inverted")])
@pytest.mark.parametrize("shards", [1, 2, 7])
def test_shards_answer_as_one_index(form: str, kind: str, shards: int) -> None:
    """Ties are common here, and of weighted words some queries have few answers or none."""
    documents, queries = vectors(form, "image", 200, 1), vectors(form, "text", 30, 2)
    whole = build_index(documents, kind).search(queries, 8)
    ids = np.array(documents.ids.to_pylist())
    of = np.random.default_rng(3).integers(0, shards, len(ids))
    runs = [build_index(documents.select(ids[of == shard]), kind).search(queries, 8) for shard in range(shards)]
    merged = merge_shards(runs)
    assert [merged.answer(query) for query in merged] == [whole.answer(query) for query in whole]
    assert merged.gallery.fingerprint == whole.gallery.fingerprint and merged.depth == 8
    shallow = merge_shards(runs, depth=3)
    assert all(shallow.answer(query) == whole.answer(query, 3) for query in whole)


def test_a_query_without_an_answer_stays() -> None:
    empty = Run("s", "t2i", run(["a"], [1.0]).queries, np.array([0, 0]), run(["a"], [1.0]).documents,
                np.array([], np.int32), np.array([], np.float32), Gallery.of("image", ["a"]), 2)  # fmt: skip
    merged = merge_shards([empty, empty_of("b")])
    assert list(merged) == ["q"] and merged.answer("q") == []


def empty_of(id: str) -> Run:
    some = run([id], [1.0])
    return Run("s", "t2i", some.queries, np.array([0, 0]), some.documents, np.array([], np.int32),
               np.array([], np.float32), some.gallery, 2)  # fmt: skip


def test_galleries_of_which_only_the_size_is_known_are_added_up() -> None:
    runs = [replace(run([id], [1.0]), gallery=Gallery.stated("image", 5, "a shard")) for id in "ab"]
    assert merge_shards(runs).gallery.size == 10 and not merge_shards(runs).gallery.is_listed
    runs[0] = replace(runs[0], gallery=Gallery.unknown())
    assert not merge_shards(runs).gallery.is_known


def test_what_cannot_be_merged_is_named() -> None:
    with refused(RunError, code="no-run-merge"):
        merge_shards([])
    with pytest.raises(RunError, match=r"'a' is in several shards(.|\n)*fuse"):
        merge_shards([run(["a"], [1.0]), run(["a"], [2.0])])
    with pytest.raises(RunError, match=r"best 5 cannot be known from runs of 2 answers(.|\n)*k=5"):
        merge_shards([run(["a", "c", "d"], [1.0, 0.5, 0.2]), run(["b"], [2.0])], depth=5)
    match = r"shard 1 did not answer what shard 0 did: 1 query more \('other'\); 1 query fewer \('q'\)(.|\n)*same q"
    with pytest.raises(RunError, match=match):
        merge_shards([run(["a"], [1.0]), run(["b"], [2.0], ["other"])])
    with refused(RunError, "one run", code="list-runs-wanted-not"):
        merge_shards(run(["a"], [1.0]))  # type: ignore[arg-type]
    with refused(RunError, "None", code="list-runs-wanted-not"):
        merge_shards(None)  # type: ignore[arg-type]
    with refused(RunError, "1", "dict", code="shard-no-run"):
        merge_shards([run(["a"], [1.0]), {"q": {"a": 1.0}}])  # type: ignore[list-item]


def test_all_that_is_wrong_is_said_at_once() -> None:
    shards = [run(["a"], [1.0]), run(["a", "b"], [2.0, 1.0], ["q", "p"]), replace(run(["c"], [1.0]), task="i2i")]
    with pytest.raises(RunError) as caught:
        merge_shards(shards, depth=1.5)  # type: ignore[arg-type]
    assert str(caught.value).splitlines()[:5] == [
        "these runs cannot be merged (4 faults):",
        "  - depth must be a whole number, not 1.5",
        "  - shard 1 did not answer what shard 0 did: 1 query more ('p')",
        "  - shard 2 did not answer what shard 0 did: the task 'i2i', not 't2i'",
        "  - the document 'a' is in several shards (runs of several systems over the same documents are joined by "
        "visir.retrieval.fusion.fuse)",
    ]


def test_shards_may_answer_in_any_order_and_come_from_a_generator() -> None:
    first = run(["a", "b"], [0.5, 0.25], ["p", "q"], depth=1)
    second = run(["c", "d"], [0.75, 0.125], ["q", "p"], depth=1).select(["q", "p"])
    assert list(second) == ["q", "p"]
    merged = merge_shards(shard for shard in (first, second))
    assert list(merged) == ["p", "q"] and (merged.top("p"), merged.top("q")) == (["a"], ["c"])


def test_what_the_documents_are_is_kept(tmp_path: Path) -> None:
    """Each shard says it of all that its run names, or of more; pictures lie in folders of their own."""
    shared = Items.of_texts({"a": "a dog", "b": "a boat", "z": "nobody's"})
    texts = [replace(run([id], [1.0]), document_items=shared) for id in "ab"]
    items = merge_shards(texts).document_items
    assert items is not None and items.to_arrow().to_pydict() == {"id": ["a", "b"], "text": ["a dog", "a boat"]}
    assert merge_shards([texts[0], run(["b"], [1.0])]).document_items is None
    places = pa.table({"path": ["c.jpg"], "archive": pa.nulls(1, pa.string())})
    packed = pa.table({"path": ["d.jpg"], "archive": ["d.tar"]})
    pictures = [
        replace(run(["c"], [1.0]), document_items=Items(pa.array(["c"]), None, places, tmp_path / "here")),
        replace(run(["d"], [1.0]), document_items=Items(pa.array(["d"]), None, packed, tmp_path / "there")),
    ]
    items = merge_shards([*pictures, texts[0]]).document_items
    assert items is not None and items.to_arrow().to_pylist() == [
        {"id": "c", "text": None, "path": str(tmp_path / "here" / "c.jpg"), "archive": None},
        {"id": "d", "text": None, "path": "d.jpg", "archive": str(tmp_path / "there" / "d.tar")},
        {"id": "a", "text": "a dog", "path": None, "archive": None},
    ]


def test_shards_of_texts_and_of_pictures_are_a_gallery_of_both() -> None:
    texts = replace(run(["b"], [1.0]), gallery=Gallery.of("text", ["b"]))
    assert merge_shards([run(["a"], [1.0]), texts]).gallery.modality == "text+image"


def test_provenance_says_what_each_shard_did() -> None:
    documents, queries = random_dense("image", 40, 1), random_dense("text", 3, 2)
    ids = documents.ids.to_pylist()
    merged = merge_shards(
        [build_index(documents.select(part), "exact").search(queries, 4) for part in (ids[:9], ids[9:])]
    )
    assert [shard["search"] for shard in merged.provenance["shards"]] == ["exact", "exact"]


def test_a_shard_smaller_than_the_depth_sets_no_limit() -> None:
    """A file does not say how deep a search was: of a small shard its longest answer is all there is."""
    large = run(["a", "b", "c"], [0.9, 0.8, 0.4], depth=3)
    small = run(["x"], [0.5], depth=1)
    merged = merge_shards([large, small])
    assert merged.top("q") == ["a", "b", "x"] and merged.depth == 3
    unknown = replace(small, gallery=Gallery.unknown())
    assert merge_shards([large, unknown]).top("q") == ["a"]
    with pytest.raises(RunError, match="the best 2 cannot be known from runs of 1 answers"):
        merge_shards([large, unknown], depth=2)
    assert merge_shards([small, run(["y"], [0.1], depth=1)], depth=5).top("q") == ["x", "y"]


WHOLE = {
    0: "at least 1, not 0",
    -1: "at least 1, not -1",
    True: "a whole number, not True",
    1.5: "a whole number, not 1.5",
}


@pytest.mark.parametrize(("depth", "why"), WHOLE.items())
def test_a_depth_is_a_whole_number_from_1(depth: int, why: str) -> None:
    with pytest.raises(RunError, match=rf"depth must be {why}"):
        merge_shards([run(["a"], [1.0])], depth=depth)


def test_scores_of_another_similarity_or_encoder_are_refused() -> None:
    documents, queries = random_dense("image", 40, 1), random_dense("text", 5, 2)
    first, last = documents.select(documents.ids[:20]), documents.select(documents.ids[20:])
    by_cosine = build_index(first, "exact").search(queries, 5)
    with pytest.raises(RunError, match=r"shard 1 cannot be compared with those of shard 0: they are by 'dot', not 'co"):
        merge_shards([by_cosine, build_index(last, "exact", similarity="dot").search(queries, 5)])
    by_other = [replace(side, encoder=replace(side.encoder, name="other")) for side in (last, queries)]
    with pytest.raises(RunError, match=r"they are of queries by 'other', not '.*' and of documents by 'other', not '"):
        merge_shards([by_cosine, build_index(by_other[0], "exact").search(by_other[1], 5)])
    unsaid = replace(build_index(last, "exact", similarity="dot").search(queries, 5), provenance={})
    assert len(merge_shards([by_cosine, unsaid])) == 5  # a run of another tool says nothing of it
