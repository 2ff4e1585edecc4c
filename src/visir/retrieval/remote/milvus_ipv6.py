"""IPv6 addresses for pymilvus, which takes their brackets away and then hands gRPC "::1:19530"."""

from __future__ import annotations

from typing import Any


def take_ipv6() -> None:
    """Make pymilvus's channels lead to IPv6 addresses too; once for the process. Other addresses stay as they are."""
    from pymilvus.client.grpc_handler import GrpcHandler

    make = GrpcHandler._create_grpc_channel
    if getattr(make, "takes_ipv6", False):
        return

    def made(self: Any, address: str | None = None) -> Any:
        return make(self, in_brackets(address or self._address))

    made.takes_ipv6 = True  # type: ignore[attr-defined]
    GrpcHandler._create_grpc_channel = made


def in_brackets(address: str) -> str:
    """The address as gRPC reads it."""
    host, _, port = address.rpartition(":")
    return f"[{host}]:{port}" if ":" in host and "[" not in host and "/" not in address else address
