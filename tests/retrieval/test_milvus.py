"""What only Milvus has: its names, its rows and the mark among a collection's properties, its limits, its addresses."""

from __future__ import annotations

import gc
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cut_off import cut_off_at_every_request
from index_data import PARTS, TERMS, dense, random_dense, same_run, sparse

from refusals import refused

pytest.importorskip("pymilvus", reason="Milvus's client (extra milvus) is not installed")

from milvus_behind import Lite
from milvus_server import TOKEN, MilvusServer
from milvus_server import refused as answer

from visir.errors import ConfigurationError, EmbeddingError, RunError
from visir.retrieval.index import read_index
from visir.retrieval.kinds import build_index, open_index
from visir.retrieval.remote import engine as addresses
from visir.retrieval.remote.engine import EngineError, Space, first_number, key_of, last_number
from visir.retrieval.remote.index import HybridCollection
from visir.retrieval.remote.milvus import MilvusEngine
from visir.retrieval.remote.settings import MILVUS, MilvusPlace, MilvusSettings

KIND = {"dense": "milvus", "sparse": "milvus-sparse"}


@pytest.fixture(scope="module")
def running() -> Iterator[MilvusServer]:
    with MilvusServer() as server:
        yield server


@pytest.fixture
def server(running: MilvusServer, request: pytest.FixtureRequest) -> Iterator[MilvusServer]:
    if "sparse" in request.node.name:  # as a parameter
        running.needs_sparse()
    running.door.requests.clear()
    yield running
    running.door.fail_after = None
    for name in running.names():
        running.behind.drop(name)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr(addresses, "_PAUSE", 0.001)
    monkeypatch.setattr(addresses, "_named", set())
    monkeypatch.setenv(MILVUS.key, TOKEN)


def test_what_lies_on_the_server_is_what_the_documents_say(server: MilvusServer, tmp_path: Path) -> None:
    documents = random_dense("image", 30, 1)
    index = build_index(documents, "milvus", tmp_path / "my photos", url=server.url, m=8, ef_construction=50)
    name = index.settings.collection
    assert name.startswith("visir_my_photos_") and server.names() == [name]
    rows = {row["id"]: row for row in server.rows(name)}
    assert sorted(rows) == documents.ids.to_pylist()
    sent = documents.select(["i0003"]).vectors[0]
    assert rows["i0003"]["key"] == key_of("i0003").hex
    assert np.allclose(rows["i0003"]["dense"], sent / np.linalg.norm(sent), atol=1e-6)
    mark = {"index": read_index(tmp_path / "my photos").content["index"], "generation": 1, "complete": True}
    mark |= {"change": "", "documents": 30}
    assert (rows["i0003"]["added"], rows["i0003"]["deleted"]) == (first_number(1), 2**62)
    assert json.loads(server.behind.properties(name)["visir"]) == mark
    graph = server.behind.graph(name, "dense")
    assert (graph["kind"], graph["metric"]) == ("HNSW", "IP")
    assert (int(graph["M"]), int(graph["efConstruction"])) == (8, 50)
    assert index.info().details["rows"] == 30 and index.info().details["server"].startswith("Milvus ")
    index.delete(documents.ids[:4])
    assert json.loads(server.behind.properties(name)["visir"])["generation"] == 2 and len(server.rows(name)) == 26


def test_how_thorough_a_search_is_reaches_the_graph(
    server: MilvusServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from milvus_lite.index.faiss_hnsw import FaissHnswIndex

    if not isinstance(server.behind, Lite):
        pytest.skip("looks into milvus-lite")
    documents, query = random_dense("image", 60, 1), random_dense("text", 1, 2)
    index = build_index(documents, "milvus", tmp_path / "index", url=server.url)
    asked: list[int] = []
    plain = FaissHnswIndex.search

    def search(self: Any, *given: Any, **named: Any) -> Any:
        asked.append(int(named["params"]["ef"]))
        return plain(self, *given, **named)

    monkeypatch.setattr(FaissHnswIndex, "search", search)
    index.search(query, 3)
    index.search(query, 3, ef_search=77)
    assert asked[0] == 48 and 77 in asked and max(asked) <= 32_768


def test_without_a_graph_every_vector_is_compared(server: MilvusServer, tmp_path: Path) -> None:
    documents, queries = random_dense("image", 60, 1), random_dense("text", 5, 2)
    index = build_index(documents, "milvus", tmp_path / "index", url=server.url, m=0, ef_search=1)
    assert server.behind.graph(index.settings.collection, "dense")["kind"] == "FLAT"
    assert same_run(index.search(queries, 20), build_index(documents, "exact").search(queries, 20))


def test_documents_without_a_word_are_kept_and_never_found(server: MilvusServer, tmp_path: Path) -> None:
    """Milvus refuses vectors without a value."""
    server.needs_sparse()
    weights = np.zeros((4, TERMS))
    weights[0, [1, 8]], weights[2, 8] = (0.5, 2.0), 1.5
    documents = sparse("image", weights)
    index = build_index(documents, "milvus-sparse", tmp_path / "index", url=server.url)
    back = index.documents()
    assert all(np.array_equal(getattr(back, part), getattr(documents, part)) for part in PARTS["sparse"])
    run = index.search(sparse("text", np.ones((1, TERMS))), 4)
    assert [id for id, _ in run.answer("t0000")] == ["i0000", "i0002"]


@pytest.mark.parametrize("form", list(KIND))
@pytest.mark.parametrize("change", ["add", "delete"])
def test_a_kill_between_two_requests_leaves_the_index_as_it_was_or_as_it_is_to_be(
    form: str, change: str, server: MilvusServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visir.retrieval.remote.index.VALUES", 60)  # a few rows in each request
    monkeypatch.setattr("visir.retrieval.remote.index._AT_ONCE", 4)
    neighbour = random_dense("image", 9, 1)
    build_index(neighbour, "milvus", tmp_path / "neighbour", url=server.url, collection="theirs")

    def fail_after(requests: int | None) -> None:
        server.door.fail_after = requests

    cut_off_at_every_request(
        KIND[form], form, change, server.url, fail_after, lambda name: len(server.rows(name)), tmp_path
    )
    assert len(server.rows("theirs")) == 9


def test_a_build_that_fails_at_any_request_leaves_nothing(server: MilvusServer, tmp_path: Path) -> None:
    documents = random_dense("image", 20, 1)
    for failing in range(6):  # create, index, load, put, flush, mark
        plain = server.door.fail_after = failing
        with refused(EngineError, "1", code="no-answer-asked-times"):
            build_index(documents, "milvus", tmp_path / "index", url=server.url, collection="mine", retries=0)
        server.door.fail_after = None
        assert not (tmp_path / "index").exists()
        if plain and server.names() == ["mine"]:  # it could not be dropped either
            with refused(EngineError, "mine", "at", code="build-killed-still-running"):
                build_index(documents, "milvus", tmp_path / "index", url=server.url, collection="mine")
            server.behind.drop("mine")
    assert len(build_index(documents, "milvus", tmp_path / "index", url=server.url, collection="mine").ids) == 20


def test_the_command_that_is_printed_drops_a_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MILVUS.key)
    with MilvusServer(token="") as open_server:
        settings = MilvusSettings(url=open_server.url, collection="mine")
        addresses.name_address(open_server.url)
        MilvusEngine.create("mine", [Space("dense", 4)], settings, "someone").close()
        with refused(EngineError, code="build-killed-still-running") as caught:
            build_index(
                random_dense("image", 5, 1), "milvus", tmp_path / "index", url=open_server.url, collection="mine"
            )
        command = MilvusEngine.removal(open_server.url, "mine", {})
        assert command in str(caught.value)
        _, *arguments = shlex.split(command)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        assert open_server.names() == []
    assert 'MilvusClient("https://here:1/db")' in MilvusEngine.removal("milvus+tls://here:1/db", "mine", {})


def test_a_copy_of_an_index_has_a_collection_of_its_own(server: MilvusServer, tmp_path: Path) -> None:
    documents, queries = random_dense("image", 40, 1), random_dense("text", 5, 2)
    index = build_index(documents, "milvus", tmp_path / "one", url=server.url, collection="our-photos", ef_search=100)
    index.save(tmp_path / "two")
    copy = open_index(tmp_path / "two")
    copy.delete(["i0000"])
    assert index.settings.collection == "our_photos" and copy.settings.collection.startswith("visir_two_")
    assert index.info().documents == 40 and copy.info().documents == 39
    assert same_run(index.search(queries, 40), build_index(documents, "exact").search(queries, 40))


def test_what_the_server_refuses_with_is_said_and_nothing_of_grpc(
    server: MilvusServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grpc import StatusCode

    index = build_index(random_dense("image", 9, 1), "milvus", tmp_path / "index", url=server.url, retries=0)
    let_in = server.door.intercept_service

    def refusing(on: Any, call: Any) -> Any:
        if call.method.endswith("/Search"):
            return answer(StatusCode.UNIMPLEMENTED, "no such search here")
        return let_in(on, call)

    monkeypatch.setattr(server.door, "intercept_service", refusing)
    with pytest.raises(EngineError, match=f"{server.url}: cannot search: no such search here\n"):
        index.search(random_dense("text", 2, 2), 3)


def test_a_collection_that_somebody_released_is_loaded_again(server: MilvusServer, tmp_path: Path) -> None:
    documents, queries = random_dense("image", 20, 1), random_dense("text", 2, 2)
    index = build_index(documents, "milvus", tmp_path / "index", url=server.url)
    wanted = index.search(queries, 5)
    server.behind.release(index.settings.collection)
    assert same_run(index.search(queries, 5), wanted)
    assert [name for name, _ in server.door.requests].count("LoadCollection") == 2


def test_a_channel_that_was_closed_meanwhile_is_made_anew(server: MilvusServer, tmp_path: Path) -> None:
    """pymilvus closes it where it cannot connect again; another thread may have closed it."""
    documents, queries = random_dense("image", 20, 1), random_dense("text", 3, 2)
    index = build_index(documents, "milvus", tmp_path / "index", url=server.url, retries=1)
    index._storage.state.engine._client._handler._channel.close()
    assert same_run(index.search(queries, 5), build_index(documents, "exact").search(queries, 5))


def test_threads_go_on_where_one_of_them_closes_the_channel(server: MilvusServer, tmp_path: Path) -> None:
    documents, queries = random_dense("image", 20, 1), random_dense("text", 3, 2)
    index = build_index(documents, "milvus", tmp_path / "index", url=server.url, retries=20)
    wanted = index.search(queries, 5)

    def work(number: int) -> bool:
        if number % 4 == 0:
            index._storage.state.engine.close()  # type: ignore[attr-defined]
        return same_run(index.search(queries, 5), wanted)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(60)))


def test_an_index_that_is_let_go_of_leaves_no_connection(server: MilvusServer, tmp_path: Path) -> None:
    from pymilvus.client.connection_manager import ConnectionManager

    def connections() -> int:
        gc.collect()
        return int(ConnectionManager.get_instance().get_stats()["dedicated_connections"])

    before = connections()
    index: Any = build_index(random_dense("image", 20, 1), "milvus", tmp_path / "index", url=server.url)
    assert connections() == before + 1
    del index
    until = time.monotonic() + 10
    while connections() != before and time.monotonic() < until:
        time.sleep(0.01)
    assert connections() == before


def test_an_index_that_is_let_go_of_waits_for_no_lock(server: MilvusServer, tmp_path: Path) -> None:
    """Memory is collected in any thread, also in one that another, which holds pymilvus's lock, waits for."""
    from pymilvus.client.connection_manager import ConnectionManager

    index: Any = build_index(random_dense("image", 20, 1), "milvus", tmp_path / "index", url=server.url)
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with ConnectionManager.get_instance()._lock:
            locked.set()
            done.wait(10)

    holding = threading.Thread(target=hold)
    holding.start()
    locked.wait()
    begun = time.monotonic()
    del index
    gc.collect()
    took = time.monotonic() - begun
    done.set()
    holding.join()
    assert took < 5


def test_more_answers_than_milvus_gives_are_refused(
    server: MilvusServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, queries = random_dense("image", 20, 1), random_dense("text", 2, 2)
    index = build_index(documents, "milvus", tmp_path / "index", url=server.url)
    monkeypatch.setattr(MilvusPlace, "family", replace(MILVUS, most_answers=10))
    assert len(index.search(queries, 9).answer("t0000")) == 9
    with refused(RunError, "10", "Milvus", "9", code="gives-up-answers-query") as caught:
        index.search(queries, 10)
    assert "'exact'" in str(caught.value)
    server.needs_sparse()
    words = sparse("image", np.ones((20, TERMS)), documents.ids.to_pylist())
    both = HybridCollection.build(documents, words, tmp_path / "both", engine="milvus", url=server.url)
    queries = queries, sparse("text", np.ones((2, TERMS)), queries.ids.to_pylist())
    assert len(both.search(*queries, 5, depth=9).answer("t0000")) == 5
    with refused(RunError, "10", "Milvus", "9", code="gives-up-answers-query"):
        both.search(*queries, 5, depth=10)


def test_a_query_without_a_word_is_answered_by_its_dense_vector(server: MilvusServer, tmp_path: Path) -> None:
    server.needs_sparse()
    documents = random_dense("image", 12, 1)
    words = sparse("image", np.eye(12, TERMS), documents.ids.to_pylist())
    both = HybridCollection.build(documents, words, tmp_path / "both", engine="milvus", url=server.url)
    queries = random_dense("text", 1, 2)
    run = both.search(queries, sparse("text", np.zeros((1, TERMS)), queries.ids.to_pylist()), 3, constant=10)
    best = build_index(documents, "exact").search(queries, 3).answer("t0000")
    assert [id for id, _ in run.answer("t0000")] == [id for id, _ in best]
    assert np.allclose([score for _, score in run.answer("t0000")], [1 / 11, 1 / 12, 1 / 13])


@pytest.mark.parametrize("change", ["add", "delete"])
def test_fused_ranks_pass_over_what_a_change_that_was_cut_off_left(
    change: str, server: MilvusServer, tmp_path: Path
) -> None:
    server.needs_sparse()
    rng = np.random.default_rng(3)
    weights = rng.random((60, TERMS)) * (rng.random((60, TERMS)) < 0.4)
    both = dense("image", rng.standard_normal((60, 8))), sparse("image", weights)
    queries = dense("text", both[0].vectors[:4] + 0.1), sparse("text", weights[:4])
    ids = both[0].ids.to_pylist()
    some = both[0].select(ids[:20]), both[1].select(ids[:20])
    settings = {"engine": "milvus", "url": server.url, "retries": 0, "m": 0}
    start = some if change == "add" else both
    wanted = HybridCollection.build(*start, tmp_path / "same", **settings).search(*queries, 10, depth=20)
    mixed = HybridCollection.build(*start, tmp_path / "mixed", collection="mixed", **settings)
    server.door.fail_after = 3  # what was left is removed, rows are written, and the mark is not
    with refused(EngineError, "1", code="no-answer-asked-times"):
        mixed.add(both[0].select(ids[20:]), both[1].select(ids[20:])) if change == "add" else mixed.delete(ids[20:])
    server.door.fail_after = None
    second = range(first_number(2), last_number(2) + 1)
    left = [row["id"] for row in server.rows("mixed") if row["added"] in second or row["deleted"] in second]
    assert sorted(left) == ids[20:]
    for collection in (mixed, HybridCollection.load(tmp_path / "mixed")):
        found = collection.search(*queries, 10, depth=20)
        for query in queries[0].ids.to_pylist():
            scores = dict(wanted.answer(query))
            assert [id for id, _ in found.answer(query)] == list(scores)
            assert np.allclose([score for _, score in found.answer(query)], list(scores.values()), rtol=1e-5)
    mixed = HybridCollection.load(tmp_path / "mixed")
    mixed.delete(ids[:1])  # the next change removes what was left
    assert len(server.rows("mixed")) == len(start[0]) - 1


def test_an_address_may_name_a_database(server: MilvusServer, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    documents, queries = random_dense("image", 20, 1), random_dense("text", 2, 2)
    with pytest.raises(EngineError, match=r"cannot (look for|create) the collection: .*photos"):
        build_index(documents, "milvus", tmp_path / "index", url=f"{server.url}/photos")
    server.behind.make_database("photos")
    request.addfinalizer(lambda: server.behind.drop_database("photos"))
    index = build_index(documents, "milvus", tmp_path / "index", url=f"{server.url}/photos")
    assert server.names() == [] and server.behind.names("photos") == [index.settings.collection]
    assert same_run(open_index(tmp_path / "index").search(queries, 5), index.search(queries, 5))
    assert build_index(documents, "milvus", tmp_path / "other", url=server.url).settings.url == server.url


def test_the_token_goes_to_named_servers_only_and_never_in_clear(
    server: MilvusServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = random_dense("image", 5, 1)
    build_index(documents, "milvus", tmp_path / "index", url=server.url)
    assert {token for _, token in server.door.requests} == {TOKEN}
    monkeypatch.setattr(addresses, "_named", set())
    server.door.requests.clear()
    with refused(EngineError, code="vectors-lie-server-nobody") as caught:
        open_index(tmp_path / "index")
    assert f"export {MILVUS.addresses}={server.url}" in str(caught.value)
    with refused(EngineError, code="key-sent-clear-without") as caught:
        build_index(documents, "milvus", tmp_path / "other", url=server.url.replace("127.0.0.1", "0.0.0.0"))
    assert "milvus+tls://" in str(caught.value)
    assert server.door.requests == []
    monkeypatch.setenv(MILVUS.addresses, server.url)
    assert len(open_index(tmp_path / "index").ids) == 5
    monkeypatch.setenv(MILVUS.addresses, server.url.replace("milvus", "milvus+tls"))  # another way there
    with refused(EngineError, code="vectors-lie-server-nobody"):
        open_index(tmp_path / "index")


def test_no_proxy_is_asked_on_the_way_to_this_machine(
    server: MilvusServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens there
    for name in ("no_grpc_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    index = build_index(random_dense("image", 5, 1), "milvus", tmp_path / "index", url=server.url, retries=0)
    assert len(index.ids) == 5


def test_a_server_may_have_an_ipv6_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        with socket.socket(socket.AF_INET6) as free:
            free.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    documents, queries = random_dense("image", 20, 1), random_dense("text", 2, 2)
    with MilvusServer(host="[::1]") as server:
        assert server.url.startswith("milvus://[::1]:")
        build_index(documents, "milvus", tmp_path / "index", url=server.url, collection="mine", ef_search=100)
        found = open_index(tmp_path / "index").search(queries, 5)
        assert same_run(found, build_index(documents, "exact").search(queries, 5))
        with refused(EngineError, "mine", "at milvus://", "1", code="exists-already"):
            build_index(documents, "milvus", tmp_path / "other", url=server.url, collection="mine")
    with refused(EngineError, hint=("curl http://", "1", "9091/healthz")):
        build_index(documents, "milvus", tmp_path / "other", url=server.url, retries=0, timeout=1)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_server_with_a_certificate_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = random_dense("image", 20, 1)
    certificate = tmp_path / "server.pem"
    made = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=milvus -addext subjectAltName=IP:127.0.0.1"
    paths = ["-keyout", str(tmp_path / "key.pem"), "-out", str(certificate)]
    subprocess.run(["openssl", *made.split(), *paths], check=True, capture_output=True)
    both = tmp_path / "both.pem"
    both.write_bytes((tmp_path / "key.pem").read_bytes() + certificate.read_bytes())
    with MilvusServer(certificate=both) as server:
        with refused(EngineError, "1", code="no-answer-asked-times"):
            build_index(documents, "milvus", tmp_path / "index", url=server.url, retries=0)
        assert server.door.requests == []
        monkeypatch.setenv(MILVUS.certificate, str(tmp_path / "none.pem"))
        with refused(ConfigurationError, MILVUS.certificate, code="no-certificates-read"):
            build_index(documents, "milvus", tmp_path / "index", url=server.url)
        monkeypatch.setenv(MILVUS.certificate, str(certificate))
        index = build_index(documents, "milvus", tmp_path / "index", url=server.url)
        assert len(index.search(random_dense("text", 1, 2), 3)) == 1
        assert {token for _, token in server.door.requests} == {TOKEN}


def test_a_file_env_above_the_package_is_not_read(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"{MILVUS.addresses}=milvus://stranger.example\n")
    code = f"""
import os, dotenv.main
dotenv.main.find_dotenv = lambda *_, **__: {str(tmp_path / ".env")!r}
from visir.retrieval.remote.milvus import package
package()
print(sorted(name for name in os.environ if name in ({MILVUS.addresses!r}, "PYTHON_DOTENV_DISABLED")))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "[]"
    done = subprocess.run(
        [sys.executable, "-c", code.replace("package()\n", "import pymilvus\n")],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stdout.strip() == f"[{MILVUS.addresses!r}]"  # what importing it does without care


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"url": ""}, "needs the address of its server"),
        ({"url": "postgresql://here/db"}, "is no address of a server of Milvus"),
        ({"url": "milvus://"}, "is no address of a server of Milvus"),
        ({"url": "milvus://root:pass@here"}, "holds a user, a password, a query or a fragment"),
        ({"url": "milvus://here?token=pass"}, "holds a user, a password, a query or a fragment"),
        ({"url": "milvus://here#token=pass"}, "holds a user, a password, a query or a fragment"),
        ({"collection": "2024_photos"}, "letters, digits and underscores, the first no digit"),
        ({"collection": "fotos_é"}, "letters, digits and underscores"),
        ({"collection": "a" * 256}, "up to 255 letters"),
        ({"m": 1}, "m=1: a graph of Milvus has 2 neighbours or more"),
        ({"m": 4096}, "m"),
    ],
)
def test_settings_that_the_server_would_refuse(options: dict[str, Any], fault: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=fault) as caught:
        build_index(random_dense("image", 5, 1), "milvus", tmp_path / "index", **{"url": "milvus://here", **options})
    assert "pass@" not in str(caught.value) and not (tmp_path / "index").exists()


def test_vectors_that_milvus_does_not_store(tmp_path: Path) -> None:
    for width in (1, 32_769):
        with pytest.raises(EmbeddingError, match=f"of 2 to 32,768 values; these have {width:,}"):
            build_index(dense("image", np.ones((2, width))), "milvus", tmp_path / "index", url="milvus://here")
