"""Uploads to a Qdrant server by its gRPC port: the same points, fewer bytes; by HTTP where it is of no use."""

from __future__ import annotations

import json
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from index_data import TRUTH, dense, random_dense, random_sparse, same_run, vectors

pytest.importorskip("qdrant_client", reason="Qdrant's client (extra qdrant) is not installed")

from qdrant_grpc_server import GrpcPort
from qdrant_wire import WireServer

from refusals import refused
from visir.retrieval.kinds import build_index, open_index
from visir.retrieval.remote import engine as addresses
from visir.retrieval.remote import engine as engine_module
from visir.retrieval.remote.engine import EngineError, first_number
from visir.retrieval.remote.index import HybridCollection
from visir.retrieval.remote.settings import QDRANT

KIND = {"dense": "qdrant", "sparse": "qdrant-sparse", "multi-vector": "qdrant-multi"}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr(engine_module, "_PAUSE", 0.001)
    monkeypatch.setattr(addresses, "_named", set())
    monkeypatch.delenv(QDRANT.key, raising=False)


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as running:
        yield running


@pytest.fixture
def port(server: WireServer) -> Iterator[GrpcPort]:
    with GrpcPort(server) as running:
        yield running


def put_by_http(server: WireServer) -> int:
    return sum(method == "PUT" and path.endswith("/points") for method, path, _, _ in server.requests)


def all_points(server: WireServer) -> list[dict[str, Any]]:
    """All points; of the number of the change that added one, the generation (the rest of it is drawn)."""
    [name] = [collection.name for collection in server.held.get_collections().collections]
    points = [point.model_dump() for point in server.held.scroll(name, limit=1000, with_vectors=True)[0]]
    for point in points:
        point["payload"]["visir_added"] //= first_number(1)
    return points


@pytest.mark.parametrize("form", list(KIND))
def test_the_same_points_arrive_by_grpc_as_by_http(
    form: str, port: GrpcPort, server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visir.retrieval.remote.index.VALUES", 60)  # a few points in each request
    documents, queries = vectors(form, "image", 40, 1), vectors(form, "text", 5, 2)
    some, rest = documents.select(documents.ids[:30]), documents.select(documents.ids[30:])
    index = build_index(some, KIND[form], tmp_path / "index", url=server.url, grpc=port.number)
    index.add(rest)
    assert put_by_http(server) == 0 and sum(points for points, _ in port.uploads) == 40 and len(port.uploads) > 4
    assert same_run(
        open_index(tmp_path / "index").search(queries, 9), build_index(documents, TRUTH[form]).search(queries, 9)
    )
    with WireServer() as other:
        build_index(some, KIND[form], tmp_path / "other", url=other.url).add(rest)
        assert all_points(other) == all_points(server)


def test_both_forms_of_one_collection_arrive_by_grpc(port: GrpcPort, server: WireServer, tmp_path: Path) -> None:
    both = random_dense("image", 20, 1), random_sparse("image", 20, 1)
    made = HybridCollection.build(*both, tmp_path / "both", url=server.url, grpc=port.number)
    assert len(made) == 20 and put_by_http(server) == 0 and sum(points for points, _ in port.uploads) == 20


def test_vectors_of_512_values_take_a_fifth_of_the_bytes(port: GrpcPort, server: WireServer, tmp_path: Path) -> None:
    documents = dense("image", np.random.default_rng(1).standard_normal((200, 512)))
    build_index(documents, "qdrant", tmp_path / "binary", url=server.url, grpc=port.number)
    build_index(documents, "qdrant", tmp_path / "json", url=server.url)
    [sent] = [body for method, path, body, _ in server.requests if method == "PUT" and path.endswith("/points")]
    [(points, size)] = port.uploads
    text = len(json.dumps(sent, separators=(",", ":")))
    assert points == 200 and 2_048 < size / points < 2_200 and text > 4.5 * size


def test_where_the_port_does_not_answer_vectors_go_by_http(port: GrpcPort, server: WireServer, tmp_path: Path) -> None:
    documents, queries = random_dense("image", 40, 1), random_dense("text", 5, 2)
    wanted = build_index(documents, "exact").search(queries, 5)
    index = build_index(
        documents.select(documents.ids[:20]), "qdrant", tmp_path / "index", url=server.url, grpc=port.number
    )
    port.fail_after = 0
    with pytest.warns(UserWarning, match=rf"127.0.0.1:{port.number}: vectors go by HTTP, not by gRPC: gone"):
        index.add(documents.select(documents.ids[20:]))
    assert put_by_http(server) == 1 and same_run(index.search(queries, 5), wanted)
    port.stop()
    again = open_index(tmp_path / "index")
    again.delete(documents.ids[:5])
    with pytest.warns(UserWarning, match="vectors go by HTTP, not by gRPC: .*refused"):
        again.add(documents.select(documents.ids[:5]))
    assert same_run(again.search(queries, 5), wanted)
    server.away = True
    with refused(EngineError, "1", code="no-answer-asked-times"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        build_index(documents, "qdrant", tmp_path / "none", url=server.url, grpc=port.number, retries=0)


def test_the_key_goes_to_a_port_that_the_user_has_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = random_dense("image", 20, 1)
    monkeypatch.setenv(QDRANT.key, "secret")
    with WireServer(key="secret") as server, GrpcPort(server) as port:
        build_index(documents, "qdrant", tmp_path / "index", url=server.url, grpc=port.number)
        assert port.keys == ["secret"] and put_by_http(server) == 0
        binary = f"http://127.0.0.1:{port.number}"
        monkeypatch.setattr(addresses, "_named", set())
        monkeypatch.setenv(QDRANT.addresses, server.url)  # whoever made the folder wrote the port into it
        index = open_index(tmp_path / "index")
        index.delete(documents.ids[:5])
        with pytest.warns(UserWarning, match="nobody has named it here") as said:
            index.add(documents.select(documents.ids[:5]))
        assert f"export {QDRANT.addresses}='{server.url} {binary}'" in str(said[0].message)
        assert port.keys == ["secret"] and put_by_http(server) == 1
        monkeypatch.setenv(QDRANT.addresses, f"{server.url} {binary}")
        index = open_index(tmp_path / "index")
        index.delete(documents.ids[:5])
        index.add(documents.select(documents.ids[:5]))
        assert port.keys == ["secret", "secret"] and put_by_http(server) == 1
        monkeypatch.delenv(QDRANT.addresses)
        with refused(EngineError, code="key-sent-clear-without"):
            build_index(documents, "qdrant", tmp_path / "x", url="http://0.0.0.0:1", grpc=port.number)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_certificate_of_its_own_is_trusted_on_both_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=qdrant -addext subjectAltName=IP:127.0.0.1"
    files = {name: tmp_path / f"{name}.pem" for name in ("key", "server", "both")}
    paths = ["-keyout", str(files["key"]), "-out", str(files["server"])]
    subprocess.run(["openssl", *made.split(), *paths], check=True, capture_output=True)
    files["both"].write_bytes(files["key"].read_bytes() + files["server"].read_bytes())
    monkeypatch.setenv(QDRANT.certificate, str(files["server"]))
    monkeypatch.setenv(QDRANT.key, "secret")
    with WireServer(key="secret", certificate=files["both"]) as server, GrpcPort(server, files["both"]) as port:
        build_index(random_dense("image", 20, 1), "qdrant", tmp_path / "index", url=server.url, grpc=port.number)
        assert port.keys == ["secret"] and put_by_http(server) == 0
