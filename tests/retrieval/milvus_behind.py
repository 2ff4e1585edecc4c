"""What stands behind the door of a test's Milvus server: milvus-lite, or a full server that the environment names.

`VISIR_TEST_MILVUS=http://127.0.0.1:19530` names a full server without accounts, which the tests have to themselves: it
must be empty, and what they make there they delete. Requests then go through the door to it, byte by byte.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import grpc
import pytest

FULL = "VISIR_TEST_MILVUS"
WHOLE = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


class Lite:
    """milvus-lite: what a test wants to know is asked past gRPC."""

    has_sparse = True

    def __init__(self) -> None:
        self._adapter = pytest.importorskip(
            "milvus_lite.adapter.grpc.servicer", reason="no Milvus server: pip install milvus-lite"
        )
        self.folder = Path(tempfile.mkdtemp(prefix="visir-milvus-"))

    def answer_through(self, server: grpc.Server) -> None:
        from milvus_lite.db import MilvusLite
        from pymilvus.grpc_gen.milvus_pb2_grpc import add_MilvusServiceServicer_to_server as add

        self._held = MilvusLite(str(self.folder / "data"))
        add(self._adapter.MilvusServicer(self._held), server)

    def stop(self) -> None:
        self._held.close()

    def remove(self) -> None:
        shutil.rmtree(self.folder)

    def names(self, database: str = "default") -> list[str]:
        return sorted(self._held.list_collections(database_name=database))

    def rows(self, name: str) -> list[dict[str, Any]]:
        collection = self._held.get_collection(name)
        collection.load()
        found: list[dict[str, Any]] = collection.query("", output_fields=["*"], limit=10_000)
        return found

    def properties(self, name: str) -> dict[str, str]:
        return dict(self._held.get_collection(name).schema.properties)

    def graph(self, name: str, field: str) -> dict[str, str]:
        """The kind of a field's index, how it compares, and how it was built."""
        about = self._held.get_collection(name).get_index_info(field)
        return {"kind": about["index_type"], "metric": about["metric_type"], **about["build_params"]}

    def make_strange(self, name: str) -> None:
        """A collection that visir did not make, with one row."""
        from milvus_lite import CollectionSchema, DataType, FieldSchema

        fields = [
            FieldSchema("key", DataType.VARCHAR, max_length=9, is_primary=True),
            FieldSchema("theirs", DataType.FLOAT_VECTOR, dim=2),
        ]
        self._held.create_collection(name, CollectionSchema(fields), properties={"visir": "theirs"})
        self._held.get_collection(name).insert([{"key": "x", "theirs": [0.5, 1.0]}])

    def insert(self, name: str, row: dict[str, Any]) -> None:
        self._held.get_collection(name).insert([row])

    def delete(self, name: str, key: str) -> None:
        self._held.get_collection(name).delete([key])

    def drop(self, name: str) -> None:
        self._held.drop_collection(name)

    def release(self, name: str) -> None:
        self._held.get_collection(name).release()

    def make_database(self, name: str) -> None:
        self._held.create_database(name)

    def drop_database(self, name: str) -> None:
        """It goes with the folder."""


class Full:
    """A full server: what a test wants to know is asked of it directly."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._client = self._connected()
        self.has_sparse = not str(self._client.get_server_version()).lstrip("v").startswith(("2.2.", "2.3."))
        if self.names():
            pytest.fail(f"{FULL}={address}: it holds {', '.join(self.names())}; give these tests an empty server")

    def answer_through(self, server: grpc.Server) -> None:
        self._channel = grpc.insecure_channel(self._address.rpartition("/")[2], options=WHOLE)
        server.add_generic_rpc_handlers([Forwarding(self._channel)])

    def stop(self) -> None:
        """It goes on; nobody is let through."""
        self._channel.close()

    def remove(self) -> None:
        for name in self.names():
            self.drop(name)
        self._client.close()

    def names(self, database: str = "default") -> list[str]:
        client = self._connected(database)
        return sorted(client.list_collections())

    def rows(self, name: str) -> list[dict[str, Any]]:
        self._client.load_collection(name)
        return [dict(row) for row in self._client.query(name, "", output_fields=["*"], limit=10_000)]

    def properties(self, name: str) -> dict[str, str]:
        return dict(self._client.describe_collection(name)["properties"])

    def graph(self, name: str, field: str) -> dict[str, str]:
        about = self._client.describe_index(name, field)
        return {"kind": about["index_type"], "metric": about["metric_type"], **about["params"]}

    def make_strange(self, name: str) -> None:
        from pymilvus import DataType, MilvusClient

        schema, graphs = MilvusClient.create_schema(), MilvusClient.prepare_index_params()
        schema.add_field("key", DataType.VARCHAR, max_length=9, is_primary=True)
        schema.add_field("theirs", DataType.FLOAT_VECTOR, dim=2)
        graphs.add_index("theirs", index_type="FLAT", metric_type="IP")
        self._client.create_collection(
            name, schema=schema, index_params=graphs, consistency_level="Strong", properties={"visir": "theirs"}
        )
        self._client.insert(name, [{"key": "x", "theirs": [0.5, 1.0]}])

    def insert(self, name: str, row: dict[str, Any]) -> None:
        self._client.insert(name, [row])

    def delete(self, name: str, key: str) -> None:
        self._client.delete(name, ids=[key])

    def drop(self, name: str) -> None:
        self._client.drop_collection(name)

    def release(self, name: str) -> None:
        self._client.release_collection(name)

    def make_database(self, name: str) -> None:
        self._client.create_database(name)

    def drop_database(self, name: str) -> None:
        client = self._connected(name)
        for collection in client.list_collections():
            client.drop_collection(collection)
        self._client.drop_database(name)

    def _connected(self, database: str = "default") -> Any:
        from visir.retrieval.remote.milvus import package

        return package().MilvusClient(uri=self._address, db_name=database, timeout=60)


class Forwarding(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Hands requests on as they are, without the token."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def service(self, call: Any) -> Any:
        send = self._channel.unary_unary(call.method)

        def hand_on(request: bytes, context: grpc.ServicerContext) -> Any:
            kept = [(name, value) for name, value in context.invocation_metadata() if name != "authorization"]
            try:
                return send(request, metadata=[(name, value) for name, value in kept if name != "user-agent"])
            except grpc.RpcError as fault:
                return context.abort(fault.code(), fault.details())

        return grpc.unary_unary_rpc_method_handler(hand_on)


def behind() -> Lite | Full:
    address = os.environ.get(FULL)
    return Full(address) if address else Lite()
