"""What every engine must do, whichever it is: one suite, run against real ones.

Qdrant's protocol behind an address (its client, and points held by qdrant-client), PostgreSQL with
pgvector, and Milvus's protocol by the server of milvus-lite. What only one of them has is tested in `test_qdrant.py`,
`test_pgvector.py` and `test_milvus.py`, how a change becomes visible on a server in `test_changes_on_servers.py`.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from engine_places import *  # noqa: F403
from engine_places import PLACES, SERVERS, Place, truth
from index_data import MAKE, PARTS, TRUTH, random_dense, same_run, vectors

from refusals import refused
from visir.errors import ConfigurationError, EmbeddingError, RunError
from visir.retrieval.filtered import FilteredIndex, search_among
from visir.retrieval.index import read_index
from visir.retrieval.kinds import build_index, open_index
from visir.retrieval.remote import index as storage
from visir.retrieval.remote.engine import EngineError
from visir.retrieval.remote.index import HybridCollection

FORMS = ("dense", "sparse")


@SERVERS
@pytest.mark.parametrize("form", FORMS)
def test_a_history_of_changes_is_the_index_of_what_is_left(form: str, at: Place, tmp_path: Path) -> None:
    documents, queries = vectors(form, "image", 90, 1), vectors(form, "text", 7, 2)
    ids = documents.ids.to_pylist()
    index = at.build(documents.select(ids[:70]), form, tmp_path / "index")
    index.add(documents.select(ids[70:]))
    index.delete(ids[10:30])
    index.add(documents.select(ids[12:15]))  # again
    with refused(EmbeddingError, "2 ids", "i0012", "i0013", code="index-already"):
        index.add(documents.select([*ids[20:22], *ids[12:14]]))
    with refused(EmbeddingError, "1 id", "i0011", code="not-index"):
        index.delete([ids[0], ids[11]])
    left = documents.select([*ids[:10], *ids[12:15], *ids[30:]])
    for opened in (index, open_index(tmp_path / "index")):
        assert opened.ids.equals(left.ids) and opened.info().documents == len(left)
        run, wanted = opened.search(queries, 9), truth(left, form, queries, 9)
        assert all(run.answer(query) == wanted.answer(query) for query in queries.ids.to_pylist())
        assert run.gallery.fingerprint == wanted.gallery.fingerprint
        back = opened.select(left.ids[5:9])
        if form == "sparse":
            expected = left.select(left.ids[5:9])
            assert all(np.array_equal(getattr(back, part), getattr(expected, part)) for part in PARTS[form])
        else:
            assert back.ids.equals(left.ids[5:9]) and np.allclose(np.linalg.norm(back.vectors, axis=1), 1)


@SERVERS
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("allowed", [1, 20, 75])
def test_the_best_among_allowed_documents(
    form: str, allowed: int, at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visir.retrieval.remote.index.SCANNED", 30)
    documents, queries = vectors(form, "image", 80, 3), vectors(form, "text", 5, 4)
    chosen = sorted(np.random.default_rng(5).permutation(documents.ids.to_pylist())[:allowed].tolist())
    index = at.build(documents, form, tmp_path / "index")
    run = search_among(index, queries, [*chosen, "unknown"], 6)
    wanted = truth(documents.select(chosen), form, queries, 6)
    assert all(run.answer(query) == wanted.answer(query) for query in queries.ids.to_pylist())
    assert FilteredIndex(index, chosen).index_filters is True


@SERVERS
@pytest.mark.parametrize("form", FORMS)
def test_many_batches_are_one_index(form: str, at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visir.retrieval.remote.index.VALUES", 60)  # a few documents in each
    documents, queries = vectors(form, "image", 200, 8), vectors(form, "text", 6, 9)
    index = at.build(documents.select(documents.ids.to_pylist()[:150]), form, tmp_path / "index")
    index.add(documents.select(documents.ids.to_pylist()[150:]))
    assert same_run(
        open_index(tmp_path / "index").search(queries, 10), build_index(documents, TRUTH[form]).search(queries, 10)
    )


@pytest.mark.parametrize(
    ("place", "stored"),
    [(place, stored) for place in PLACES for stored in ("unit", "any", "float16", "dot", "sparse")]
    + [("pgvector", "half")],
)
def test_a_copy_scores_as_its_original_to_the_last_bit(stored: str, at: Place, tmp_path: Path) -> None:
    """Vectors were divided by their lengths before they were sent; those that come back are not, a second time."""
    rng, form = np.random.default_rng(1), "sparse" if stored == "sparse" else "dense"
    given = rng.standard_normal((200, 40)).astype(np.float32)
    queries = MAKE[form]("text", rng.random((20, 40)))
    if stored == "unit":
        given = (given / np.linalg.norm(given, axis=1, keepdims=True)).astype(np.float32)
    documents = MAKE[form]("image", np.abs(given) if stored == "sparse" else given)
    if stored == "float16":
        documents = replace(documents, vectors=given.astype(np.float16))
    options = {"half": {"precision": "float16"}, "dot": {"similarity": "dot"}}.get(stored, {})
    index = at.build(documents, form, tmp_path / "index", **options)
    index.save(tmp_path / "copy")
    copy = open_index(tmp_path / "copy")
    assert same_run(copy.search(queries, 50), index.search(queries, 50))
    first, second = index.documents(), copy.documents()
    assert all(np.array_equal(getattr(first, part), getattr(second, part)) for part in PARTS[form])


@SERVERS
def test_an_index_that_was_emptied_takes_documents_again(at: Place, tmp_path: Path) -> None:
    documents, queries = random_dense("image", 12, 1), random_dense("text", 3, 2)
    index = at.build(documents, "dense", tmp_path / "index")
    index.delete(documents.ids)
    assert len(index.ids) == 0
    with refused(RunError, code="every-document-deleted"):
        index.search(queries, 3)
    index.save(tmp_path / "copy")
    index.add(documents)
    assert len(open_index(tmp_path / "copy").ids) == 0
    assert same_run(open_index(tmp_path / "index").search(queries, 12), truth(documents, "dense", queries, 12))


@SERVERS
@pytest.mark.parametrize("form", FORMS)
def test_ids_may_be_any_text(form: str, at: Place, tmp_path: Path) -> None:
    ids = ["ø/🙂.jpg", "a'b\"c\\d", "{x,y}", "%s %(a)s", "NULL", "\t\n", "z" * 500, "Ａ"]
    documents = vectors(form, "image", len(ids), 1)
    named = MAKE[form]("image", documents.vectors if form == "dense" else documents.to_scipy(), ids)
    index = at.build(named, form, tmp_path / "index")
    assert index.ids.to_pylist() == sorted(ids, key=lambda id: id.encode())
    queries = vectors(form, "text", 4, 2)
    assert same_run(index.search(queries, 8), truth(named, form, queries, 8))
    among = search_among(index, queries, ids[:5], 5)
    wanted = truth(named.select(ids[:5]), form, queries, 5)
    assert all(among.answer(query) == wanted.answer(query) for query in queries.ids.to_pylist())
    index.delete(ids[:7])
    assert index.select(["Ａ"]).ids.to_pylist() == ["Ａ"]


@pytest.mark.parametrize(
    ("place", "id", "fault"),
    [
        ("pgvector", "a\0b", r"PostgreSQL holds no text with the character NUL, which 1 id has: 'a\\x00b'"),
        ("pgvector", "é" * 1346, "1 id is too long for PostgreSQL, which takes 2,690 bytes: 'é{50}'… has 2,692"),
        ("milvus", "é" * 32_768, "1 id is too long for Milvus, which takes 65,535 bytes: 'é{50}'… has 65,536"),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_ids_that_the_server_does_not_hold_are_named_before_anything_is_sent(
    form: str, id: str, fault: str, at: Place, tmp_path: Path
) -> None:
    documents, before = vectors(form, "image", 3, 1), at.names()
    given = documents.vectors if form == "dense" else documents.to_scipy()
    with pytest.raises(EmbeddingError, match=fault):
        at.build(MAKE[form]("image", given, ["x", id, "z"]), form, tmp_path / "index")
    assert at.names() == before and not (tmp_path / "index").exists()
    index = at.build(documents, form, tmp_path / "index")
    with pytest.raises(EmbeddingError, match=fault):
        index.add(MAKE[form]("image", given, ["x", id, "z"]))
    assert index.ids.equals(documents.ids)
    with refused(EmbeddingError, "1 id", code="not-index"):
        index.delete(["i0001", id])
    queries = vectors(form, "text", 4, 2)
    found, alone = (index.search_among(queries, pa.array(ids), 3) for ids in (sorted(["i0000", id]), ["i0000"]))
    assert [found.answer(query) for query in queries.ids.to_pylist()] == [
        alone.answer(query) for query in queries.ids.to_pylist()
    ]


def test_the_longest_ids_that_postgresql_holds(pgvector: Place, tmp_path: Path) -> None:
    letters = np.random.default_rng(1).integers(97, 123, (3, 2_690)).astype(np.uint8)  # nothing to compress in them
    ids = sorted(row.tobytes().decode() for row in letters)
    documents = vectors("dense", "image", 3, 1)
    index = pgvector.build(MAKE["dense"]("image", documents.vectors, ids), "dense", tmp_path / "index")
    assert index.ids.to_pylist() == ids


@SERVERS
def test_what_strangers_have_there_stays_as_it_is(at: Place, tmp_path: Path) -> None:
    at.make_strange("photos")
    before = at.read_strange("photos")
    documents = random_dense("image", 20, 1)
    with refused(EngineError, "photos", code="exists-already-visir-not") as caught:
        at.build(documents, "dense", tmp_path / "index", collection="photos")
    assert "delete" not in str(caught.value).lower() and "drop" not in str(caught.value).lower()
    assert not (tmp_path / "index").exists()
    index = at.build(documents, "dense", tmp_path / "index", collection="mine")
    index.delete(documents.ids[:3])
    fact = storage.fact_of(index.settings, read_index(tmp_path / "index").content["index"])
    assert before and at.read_strange("photos") == before and at.names() == ["mine", "photos"]
    # What is removed is what the mark names.
    assert not storage.forget({**fact, "collection": "photos"}) and not storage.forget({**fact, "index": "0" * 32})
    assert not storage.forget({**fact, "collection": "none"}) and at.names() == ["mine", "photos"]
    assert storage.forget(fact) and at.names() == ["photos"]
    with refused(EngineError, "mine", code="not-exist"):
        open_index(tmp_path / "index")
    assert at.read_strange("photos") == before


@SERVERS
def test_an_index_that_was_changed_through_another_copy_says_so(at: Place, tmp_path: Path) -> None:
    documents = random_dense("image", 20, 1)
    here = at.build(documents.select(documents.ids[:15]), "dense", tmp_path / "index", collection="mine")
    shutil.copytree(tmp_path / "index", tmp_path / "copy")
    open_index(tmp_path / "copy").add(documents.select(documents.ids[15:]))
    for ask in (lambda: open_index(tmp_path / "index"), lambda: here.delete(documents.ids[:1])):
        with refused(EngineError, "2", "1", code="knows-changes-folder"):
            ask()
    assert len(open_index(tmp_path / "copy").ids) == 20


@SERVERS
def test_a_server_that_is_away_is_named_and_is_used_again_when_it_is_back(at: Place, tmp_path: Path) -> None:
    documents, queries = random_dense("image", 20, 1), random_dense("text", 2, 2)
    index = at.build(documents.select(documents.ids[:15]), "dense", tmp_path / "index")
    wanted = index.search(queries, 5)
    at.away()
    try:
        for ask in (
            lambda: index.search(queries, 5),
            lambda: index.add(documents.select(documents.ids[15:])),
            lambda: index.delete(documents.ids[:1]),
            lambda: open_index(tmp_path / "index"),
            lambda: at.build(documents, "dense", tmp_path / "other"),
        ):
            with pytest.raises(EngineError, match="no answer, asked 1 times to") as caught:
                ask()
            assert at.settings["url"] in str(caught.value) and "is the server running" in str(caught.value)
        assert not (tmp_path / "other").exists()
    finally:
        at.back()
    assert same_run(index.search(queries, 5), wanted)
    index.add(documents.select(documents.ids[15:]))
    assert same_run(open_index(tmp_path / "index").search(queries, 5), truth(documents, "dense", queries, 5))


@SERVERS
def test_a_wrong_secret_is_said_and_none_is_written(at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = random_dense("image", 20, 1)
    at.build(documents, "dense", tmp_path / "index")
    monkeypatch.setenv(at.secret, "wrong horse")
    for ask in (lambda: open_index(tmp_path / "index"), lambda: at.build(documents, "dense", tmp_path / "other")):
        with pytest.raises(EngineError, match=f"{at.secret} is set, and is not accepted"):
            ask()
    monkeypatch.delenv(at.secret)
    with pytest.raises(EngineError, match=f"{at.secret} is not set"):
        open_index(tmp_path / "index")
    written = b"".join(path.read_bytes() for path in (tmp_path / "index").rglob("*") if path.is_file())
    assert b"horse" not in written and b"secret" not in written


@SERVERS
@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.25, 2.0)])
def test_both_forms_in_one_request_are_the_two_searches_fused(
    weights: tuple[float, float], at: Place, tmp_path: Path
) -> None:
    rng = np.random.default_rng(7)
    dense = MAKE["dense"]("image", rng.standard_normal((60, 12)))
    sparse = MAKE["sparse"]("image", rng.random((60, 40)) * (rng.random((60, 40)) < 0.4))  # no two scores are equal
    queries = (
        MAKE["dense"]("text", rng.standard_normal((6, 12))),
        MAKE["sparse"]("text", rng.random((6, 40)) * (rng.random((6, 40)) < 0.4)),
    )
    engine = at.kinds["dense"]
    mixed = HybridCollection.build(
        dense, sparse, tmp_path / "mixed", engine=engine, **{**at.settings, "ef_search": 200}
    )
    gone = dense.ids[:5]
    mixed.delete(gone)
    mixed = HybridCollection.load(tmp_path / "mixed")
    left = dense.ids[5:]
    lists = [
        truth(dense.select(left), "dense", queries[0], 20),
        truth(sparse.select(left), "sparse", queries[1], 20),
    ]
    with refused(ConfigurationError, "constant", "-1"):
        mixed.search(*queries, 10, constant=-1, weights=weights)
    run = mixed.search(*queries, 10, depth=20, constant=60, weights=weights)
    for query in queries[0].ids.to_pylist():
        sums: dict[str, float] = {}
        for share, ranked in zip(weights, lists, strict=True):
            for rank, (document, _) in enumerate(ranked.answer(query), 1):
                sums[document] = sums.get(document, 0) + share / (60 + rank)
        best = sorted(sums.values(), reverse=True)[:10]
        assert np.allclose([score for _, score in run.answer(query)], best, rtol=1e-5)
        assert all(np.isclose(sums[document], score, rtol=1e-5) for document, score in run.answer(query))
