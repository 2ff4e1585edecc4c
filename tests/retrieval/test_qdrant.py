"""Indexes on a Qdrant server: what goes over the wire, and what comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from cut_off import cut_off_at_every_request
from index_data import PARTS, TRUTH, dense, random_dense, random_sparse, same_run, sparse, vectors

pytest.importorskip("qdrant_client", reason="Qdrant's client (extra qdrant) is not installed")

from qdrant_client import models
from qdrant_wire import WireServer

from refusals import refused
from visir.errors import ConfigurationError, EmbeddingError
from visir.retrieval.index import IndexFolderError, changing_index, read_index
from visir.retrieval.kinds import KINDS, build_index, open_index
from visir.retrieval.remote import engine as engine_module
from visir.retrieval.remote.engine import EngineError, Space, first_number, key_of
from visir.retrieval.remote.index import HybridCollection
from visir.retrieval.remote.qdrant import QdrantEngine
from visir.retrieval.settings import described

KIND = {"dense": "qdrant", "sparse": "qdrant-sparse", "multi-vector": "qdrant-multi"}
FORMS = tuple(KIND)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr(engine_module, "_PAUSE", 0.001)
    monkeypatch.delenv("VISIR_QDRANT_API_KEY", raising=False)


@pytest.fixture
def server():  # type: ignore[no-untyped-def]
    with WireServer() as running:
        yield running


def manifest(folder: Path) -> dict[str, Any]:
    return dict(read_index(folder).content)


def test_an_id_is_a_point_by_a_hash_that_anyone_can_compute() -> None:
    # uuid5(NAMESPACE_URL, "visir:i0001"): the SHA-1 of the namespace's 16 bytes and the text, version and variant set.
    import hashlib

    digest = bytearray(hashlib.sha1(UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8").bytes + b"visir:i0001").digest()[:16])
    digest[6], digest[8] = digest[6] & 0x0F | 0x50, digest[8] & 0x3F | 0x80
    assert key_of("i0001") == UUID(bytes=bytes(digest))


@pytest.mark.parametrize("form", FORMS)
def test_what_lies_on_the_server_is_what_the_documents_say(form: str, server: WireServer, tmp_path: Path) -> None:
    documents, queries = vectors(form, "image", 120, 1), vectors(form, "text", 11, 2)
    ids = documents.ids.to_pylist()
    index = build_index(documents.select(ids[:100]), KIND[form], tmp_path / "server", url=server.url)
    index.add(documents.select(ids[100:]))
    index.delete(ids[10:20])
    kept = documents.select([*ids[:10], *ids[20:]])
    wanted = build_index(kept, TRUTH[form]).search(queries, 8)
    assert all(same_run(one.search(queries, 8), wanted) for one in (index, open_index(tmp_path / "server")))
    facts = {"kind", "modality", "encoder", "settings", "space", "space files", "index", "changes"}
    assert set(manifest(tmp_path / "server")) == facts
    name = open_index(tmp_path / "server").settings.collection
    assert server.indexed == [(name, "visir_added", "integer"), (name, "visir_deleted", "integer")]
    assert server.count(open_index(tmp_path / "server").settings.collection) == 110
    assert server.paths()[0] == f"GET /collections/{open_index(tmp_path / 'server').settings.collection}/exists"
    points = next(body for method, path, body, _ in server.requests if method == "PUT" and path.endswith("/points"))
    first = points["points"][0]
    assert (first["id"], first["payload"]) == (str(key_of("i0000")), {"id": "i0000", "visir_added": first_number(1)})
    assert list(first["vector"]) == [form]
    created = next(body for method, _, body, _ in server.requests if method == "PUT")
    if form == "dense":
        assert created["vectors"] == {"dense": {"size": 12, "distance": "Dot"}}
        assert created["hnsw_config"] == {"m": 32, "ef_construct": 200}
    elif form == "multi-vector":
        space = {"size": 12, "distance": "Dot", "multivector_config": {"comparator": "max_sim"}}
        assert created["vectors"] == {"multi-vector": space}
        assert created["hnsw_config"]["m"] == 0  # no graph: each of its comparisons would be a MaxSim
    else:
        assert list(created["sparse_vectors"]) == ["sparse"]


@pytest.mark.parametrize("form", FORMS)
def test_vectors_come_back_from_the_engine(form: str, server: WireServer, tmp_path: Path) -> None:
    documents = vectors(form, "image", 30, 3)
    wanted = documents.ids.to_pylist()[25:5:-3]
    options = {"similarity": "dot"} if form == "dense" else {}
    index = build_index(documents, KIND[form], tmp_path / "index", **options, url=server.url)
    chosen, expected = index.select(wanted), documents.select(wanted)
    assert chosen.ids.equals(expected.ids)
    for part in PARTS[form]:
        assert np.array_equal(getattr(chosen, part), getattr(expected, part))
    assert index.documents().ids.equals(documents.ids)
    with refused(EmbeddingError, "1 id", "nobody", code="not-index"):
        index.select(["nobody"])


def test_under_cosine_vectors_come_back_with_length_one(server: WireServer, tmp_path: Path) -> None:
    documents = dense("image", np.array([[3.0, 4.0], [0.0, 2.0]]))
    index = build_index(documents, "qdrant", tmp_path / "index", url=server.url)
    back = index.documents()
    assert np.array_equal(back.vectors, np.array([[0.6, 0.8], [0, 1]], np.float32)) and back.normalised
    with pytest.raises(EmbeddingError, match="1 image vectors by test are zero; they have no cosine: 'z'"):
        index.add(dense("image", np.zeros((1, 2)), ["z"]))


def test_a_copy_of_an_index_on_a_server_has_a_collection_of_its_own(server: WireServer, tmp_path: Path) -> None:
    documents, queries = random_dense("image", 40, 1), random_dense("text", 5, 2)
    index = build_index(documents, "qdrant", tmp_path / "one", url=server.url, collection="photos")
    index.save(tmp_path / "two")
    copy = open_index(tmp_path / "two")
    copy.delete(["i0000"])
    assert index.info().documents == 40 and copy.info().documents == 39
    assert copy.settings.collection.startswith("visir-two-") and index.settings.collection == "photos"
    assert same_run(
        open_index(tmp_path / "one").search(queries, 40), build_index(documents, "exact").search(queries, 40)
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("change", ["add", "delete"])
def test_a_kill_between_two_requests_leaves_the_index_as_it_was_or_as_it_is_to_be(
    form: str, change: str, server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visir.retrieval.remote.index.VALUES", 60)  # a few points in each request
    monkeypatch.setattr("visir.retrieval.remote.index._AT_ONCE", 4)
    cut_off_at_every_request(
        KIND[form], form, change, server.url, lambda n: setattr(server, "fail_after", n), server.count, tmp_path
    )


def test_a_build_that_was_killed_is_noticed_and_one_that_failed_leaves_nothing(
    server: WireServer, tmp_path: Path
) -> None:
    documents = random_dense("image", 20, 1)
    server.fail_after = 2  # the two indexes of numbers are made
    with refused(EngineError, "1", "add points", code="no-answer-asked-times"):
        build_index(documents, "qdrant", tmp_path / "index", url=server.url, collection="photos", retries=0)
    server.fail_after = None
    assert not (tmp_path / "index").exists() and not server.held.collection_exists("photos")
    # A kill does not get to delete the collection.
    QdrantEngine.create(
        "photos",
        [Space("dense", 12)],
        KINDS.get("qdrant").settings_type(url=server.url),
        "someone",
    )
    with refused(EngineError, "photos", "at", code="build-killed-still-running") as caught:
        build_index(documents, "qdrant", tmp_path / "index", url=server.url, collection="photos")
    assert f"curl -X DELETE {server.url}/collections/photos" in str(caught.value)
    assert not (tmp_path / "index").exists()
    server.held.delete_collection("photos")
    build_index(documents, "qdrant", tmp_path / "index", url=server.url, collection="photos")
    with refused(EngineError, "photos", "at", code="exists-already"):
        build_index(documents, "qdrant", tmp_path / "other", url=server.url, collection="photos")


def test_a_collection_that_is_gone_or_another_or_newer_is_noticed(server: WireServer, tmp_path: Path) -> None:
    import shutil

    documents = random_dense("image", 20, 1)
    ids = documents.ids.to_pylist()
    options = {"url": server.url, "collection": "photos"}
    build_index(documents.select(ids[:10]), "qdrant", tmp_path / "index", **options)
    shutil.copytree(tmp_path / "index", tmp_path / "copy")
    open_index(tmp_path / "copy").add(documents.select(ids[10:]))
    with refused(EngineError, "2", code="knows-changes-folder"):
        open_index(tmp_path / "index")
    server.held.delete_collection("photos")
    with refused(EngineError, "collection", "photos", "at", code="not-exist"):
        open_index(tmp_path / "copy")
    build_index(documents, "qdrant", tmp_path / "new", **options)
    with refused(EngineError, code="not-one-index-folder"):
        open_index(tmp_path / "copy")


def test_points_that_another_program_deleted_are_named(server: WireServer, tmp_path: Path) -> None:
    index = build_index(random_dense("image", 20, 1), "qdrant", tmp_path / "index", url=server.url, collection="photos")
    ids = index.ids
    server.held.delete("photos", [str(key_of("i0003"))])
    for ask in (lambda: index.select(ids), lambda: index.delete(["i0003"])):
        with refused(EmbeddingError, "1 id", "i0003", code="not-index"):
            ask()
    assert len(index.search(random_dense("text", 1, 2), 20).answer("t0000")) == 19


def test_points_that_another_program_put_there_are_passed_over(server: WireServer, tmp_path: Path) -> None:
    documents, queries = random_dense("image", 20, 1), random_dense("text", 3, 2)
    index = build_index(documents, "qdrant", tmp_path / "index", url=server.url, collection="photos")
    truth = build_index(documents, "exact").search(queries, 20)
    for number, payload in enumerate(({}, {"id": "i0003"}, {"id": 7}, {"id": "elsewhere"})):
        near = (queries.vectors[0] / np.linalg.norm(queries.vectors[0])).tolist()
        point = models.PointStruct(id=number, vector={"dense": near}, payload=payload)
        server.held.upsert("photos", [point])
    assert same_run(index.search(queries, 20), truth)


def test_no_server_and_a_busy_one(server: WireServer, tmp_path: Path) -> None:
    documents = random_dense("image", 20, 1)
    with refused(EngineError, "http://127.0.0.1:9", "2", "look", code="no-answer-asked-times") as caught:
        build_index(documents, "qdrant", tmp_path / "index", url="http://127.0.0.1:9", retries=1)
    assert "curl http://127.0.0.1:9/readyz" in str(caught.value) and not (tmp_path / "index").exists()
    server.busy = 2
    index = build_index(documents, "qdrant", tmp_path / "index", url=server.url, retries=2)
    assert len(index.ids) == 20
    server.busy = 3
    with refused(EngineError, "search", "503", "asked 3 times", code="cannot-status"):
        index.search(random_dense("text", 1, 2), 3)
    assert len(index.search(random_dense("text", 1, 2), 3)) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_request_is_sent_again_after_an_answer_that_may_pass(status: int, server: WireServer, tmp_path: Path) -> None:
    server.busy, server.busy_status = 1, status
    build_index(random_dense("image", 5, 1), "qdrant", tmp_path / "index", url=server.url, retries=1)
    assert server.count(manifest(tmp_path / "index")["settings"]["collection"]) == 5


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = random_dense("image", 20, 1)
    with WireServer(key="s3cret") as server:
        with refused(EngineError, "look for the collection", "401", code="not-status") as caught:
            build_index(documents, "qdrant", tmp_path / "index", url=server.url)
        assert "VISIR_QDRANT_API_KEY is not set" in str(caught.value)
        monkeypatch.setenv("VISIR_QDRANT_API_KEY", "wrong")
        with pytest.raises(EngineError, match="VISIR_QDRANT_API_KEY is set, and is not accepted"):
            build_index(documents, "qdrant", tmp_path / "index", url=server.url)
        monkeypatch.setenv("VISIR_QDRANT_API_KEY", "s3cret")
        index = build_index(documents, "qdrant", tmp_path / "index", url=server.url)
        run = index.search(random_dense("text", 2, 2), 3)
    assert "s3cret" not in json.dumps(run.provenance)
    assert all(b"s3cret" not in one.read_bytes() for one in (tmp_path / "index").rglob("*") if one.is_file())


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("localhost:6333", "is no address of a server"),
        ("ftp://here", "is no address of a server"),
        ("http://here:port", "is no address of a server"),
        ("http://me:pass@here:6333", "holds a user, a password, a query or a fragment"),
        ("http://here:6333#api-key=1", "holds a user, a password, a query or a fragment"),
        ("http://here:6333?api-key=1", "holds a user, a password, a query or a fragment"),
    ],
)
def test_addresses_that_are_none_or_hold_a_secret(url: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=fault) as caught:
        build_index(random_dense("image", 5, 1), "qdrant", tmp_path / "index", url=url)
    assert "pass@" not in str(caught.value)


def test_an_index_on_a_server_needs_a_folder(server: WireServer) -> None:
    with refused(ConfigurationError, code="says-collection-counts"):
        build_index(random_dense("image", 5, 1), "qdrant", url=server.url)
    assert server.requests == []


def fused(runs: list[Any], query: str, constant: int) -> dict[str, float]:
    """Reciprocal rank fusion, the slow way: Σ 1 / (constant + rank) over the runs, ranks from 1."""
    scores: dict[str, float] = {}
    for run in runs:
        for rank, (document, _) in enumerate(run.answer(query), 1):
            scores[document] = scores.get(document, 0) + 1 / (constant + rank)
    return scores


def test_both_forms_in_one_collection_are_fused_in_one_request(server: WireServer, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)  # no two scores are equal, so that ranks leave no choice
    documents = dense("image", rng.standard_normal((80, 12))), sparse("image", rng.random((80, 40)) + 0.01)
    queries = (
        dense("text", rng.standard_normal((7, 12))),
        sparse("text", rng.random((7, 40)) * (rng.random((7, 40)) > 0.7)),
    )
    ids = documents[0].ids.to_pylist()
    made = HybridCollection.build(*(one.select(ids[:60]) for one in documents), tmp_path / "both", url=server.url)
    made.add(*(one.select(ids[60:]) for one in documents))
    made.delete(ids[5:9])
    kept = [*ids[:5], *ids[9:]]
    runs = [
        build_index(one.select(kept), TRUTH[form]).search(asked, 20)
        for form, one, asked in zip(("dense", "sparse"), documents, queries, strict=True)
    ]
    server.requests.clear()
    for collection in (made, HybridCollection.load(tmp_path / "both")):
        found = collection.search(*queries, 10, depth=20, constant=60)
        for query in found.queries.to_pylist():
            wanted = fused(runs, query, 60)
            answer = found.answer(query)
            # Documents of equal sums (ranks 3 and 7, and 7 and 3) may stand in either order, or be cut off.
            assert [score for _, score in answer] == pytest.approx(sorted(wanted.values(), reverse=True)[:10], rel=1e-6)
            assert all(wanted[document] == pytest.approx(score, rel=1e-6) for document, score in answer)
    assert len(made) == 76
    assert sum("query/batch" in path for path in server.paths()) == 2  # one for each of the two searches
    with refused(EmbeddingError, "1 id", "i0000", code="one-of-two-vectors"):
        HybridCollection.build(documents[0], documents[1].select(ids[1:]), url=server.url)
    with refused(ConfigurationError, "qdrant", code="holds-index-kind-no"):
        build_index(documents[0], "qdrant", tmp_path / "one", url=server.url)
        HybridCollection.load(tmp_path / "one")


def test_a_collection_is_split_and_copied_as_the_settings_say(server: WireServer, tmp_path: Path) -> None:
    documents = random_dense("image", 5, 1)
    build_index(documents, "qdrant", tmp_path / "index", url=server.url, shards=3, replicas=2, m=8, ef_construction=50)
    [asked] = [body for method, path, body, _ in server.requests if method == "PUT" and path.count("/") == 2]
    assert (asked["shard_number"], asked["replication_factor"]) == (3, 2)
    assert (asked["hnsw_config"]["m"], asked["hnsw_config"]["ef_construct"]) == (8, 50)


def test_settings_say_what_they_do(server: WireServer, tmp_path: Path) -> None:
    names = {name for name, _, about in described(KINDS.get("qdrant").settings_type) if about}
    assert {"url", "collection", "shards", "replicas", "timeout", "retries", "ef_search"} <= names
    with refused(ConfigurationError, "url", "text", "not 7", hint=False):
        build_index(random_dense("image", 5, 1), "qdrant", url=7)
    index = build_index(random_sparse("image", 5, 1), "qdrant-sparse", tmp_path / "index", url=server.url)
    assert index.info().details["engine"] == server.url and index.info().details["points"] == 5


@pytest.mark.parametrize("kind", KIND.values())
def test_the_embedded_engine_is_no_more(kind: str, server: WireServer, tmp_path: Path) -> None:
    """A kind without an address, and an index that an earlier version made in its folder."""
    form = KINDS.get(kind).vectors
    with refused(ConfigurationError, "url", "Qdrant", code="index-needs-address-server", hint=("url", "exact")):
        build_index(vectors(form, "image", 5, 1), kind, tmp_path / "none")
    build_index(vectors(form, "image", 5, 1), kind, tmp_path / "index", url=server.url)
    with changing_index(tmp_path / "index", read_index(tmp_path / "index").generation) as change:
        change.commit({**change.content, "engine": "engine-1"})
    with refused(IndexFolderError, "index", kind, code="index-embedded-no-more", hint=("build", "exact", "url")):
        open_index(tmp_path / "index")


def test_a_setting_that_was_for_the_embedded_engine_is_passed_over(server: WireServer, tmp_path: Path) -> None:
    build_index(random_dense("image", 5, 1), "qdrant", tmp_path / "index", url=server.url)
    with changing_index(tmp_path / "index", read_index(tmp_path / "index").generation) as change:
        change.commit({**change.content, "settings": {**change.content["settings"], "threads": 2}})
    assert len(open_index(tmp_path / "index").ids) == 5


@pytest.mark.parametrize("m", [0, 16])
def test_several_vectors_with_a_graph_or_without(m: int, server: WireServer, tmp_path: Path) -> None:
    documents, queries = vectors("multi-vector", "image", 300, 5), vectors("multi-vector", "text", 9, 6)
    index = build_index(documents, "qdrant-multi", tmp_path / "index", m=m, url=server.url)
    assert same_run(index.search(queries, 5), build_index(documents, "maxsim").search(queries, 5))
