"""The connection to a Milvus server that the user has named, and what goes wrong with it."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from visir.errors import require
from visir.remote import is_loopback
from visir.retrieval.remote.addresses import check_named, key_for, trust, why_no_key
from visir.retrieval.remote.closed_channel import guard_channels
from visir.retrieval.remote.engine import EngineError
from visir.retrieval.remote.families import MILVUS
from visir.retrieval.remote.milvus_ipv6 import take_ipv6
from visir.retrieval.remote.settings import MilvusPlace

T = TypeVar("T")
_PAUSE = 0.5
"""Seconds before the first repetition; each further one waits twice as long."""
_NO_CONNECTION, _NO_COLLECTION, _NOT_LOADED = 2, 100, 101
"""Codes of pymilvus ("connect failed") and of the server."""
_RECENT = (2, 4)
"""The version of Milvus that began to store sparse vectors and to index numbers by inverted lists."""
_NO_CLIENT = "should create connection first"
_CLOSED = "Cannot invoke RPC"
"""What gRPC says where pymilvus, or another thread of ours, has closed the channel of a server that was away."""


class MilvusConnection:
    """One gRPC channel to a server, made when it is first needed; several threads may use it at once."""

    # pymilvus itself asks again where the server says that it is too busy (rate limits), up to the setting `timeout`.

    def __init__(self, place: MilvusPlace) -> None:
        require("pymilvus", extra="milvus", purpose="an index in Milvus")
        check_named(place.url)
        self.place = place
        self._client: Any = None
        self._closing: Any = None
        self._lock = threading.Lock()

    def send(self, what: str, method: str, *given: Any, timeout: int | None = None, **named: Any) -> Any:
        """What a method of pymilvus's client returns, asked again where the server was away."""
        from grpc import RpcError

        pymilvus = package()
        for attempt in range(self.place.retries + 1):
            try:
                return getattr(self._connected(), method)(*given, timeout=timeout or self.place.timeout, **named)
            except (pymilvus.MilvusException, RpcError) as fault:
                last: Exception = fault
                if not _is_away(fault):
                    break
                self.close()  # gRPC waits longer and longer before it connects again: begin anew
            if attempt < self.place.retries:
                time.sleep(_PAUSE * 2**attempt)
        raise self._explained(what, last) from last

    def is_old(self) -> bool:
        """Whether the server is older than 2.4: it stores no sparse vectors, and has other indexes of numbers."""
        numbers = re.search(r"(\d+)\.(\d+)", str(self.send("look at the server", "get_server_version")))
        return numbers is not None and tuple(map(int, numbers.groups())) < _RECENT

    def check_sparse(self) -> None:
        """Check, before anything is made, that the server stores sparse vectors."""
        if self.is_old():
            version = self.send("look at the server", "get_server_version")
            raise EngineError(
                f"{self.place.url}: Milvus {version} stores no sparse vectors; Milvus 2.4 and later do.",
                hint="a newer server, or dense vectors alone (kind milvus)",
            )

    def explain(self, what: str, request: Callable[[], T]) -> T:
        """What a request returns that pymilvus sends by itself, such as the next page of a list; sent once."""
        from grpc import RpcError

        try:
            return request()
        except (package().MilvusException, RpcError) as fault:
            raise self._explained(what, fault) from fault

    def close(self) -> None:
        """Close the channel; the next request makes another."""
        with self._lock:
            closing, self._closing, self._client = self._closing, None, None
        if closing is not None and (finalizer := closing.detach()):
            _, _, (close,), _ = finalizer
            close()

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = package().MilvusClient(**self._arguments())
                guard_channels(self._client._handler)
                # pymilvus keeps every channel: one of an index that is let go of is closed as it goes.
                self._closing = weakref.finalize(self, _close_aside, self._client.close)
            return self._client

    def _arguments(self) -> dict[str, Any]:
        url = self.place.url
        parts, encrypted = urlsplit(url), trust(url)
        options = {"grpc.use_local_subchannel_pool": 1}  # a channel of its own, that waits for no other one's failures
        if is_loopback(parts.hostname or ""):
            options["grpc.enable_http_proxy"] = 0  # no proxy on the way to this very machine
        arguments = {
            "uri": f"{'https' if encrypted else 'http'}://{_host(url)}:{parts.port or MILVUS.port}",
            "db_name": unquote(parts.path.strip("/")),
            "token": key_for(url) or "",
            "timeout": self.place.timeout,
            "dedicated": True,
            "grpc_options": options,
        }
        certificate = os.environ.get(MILVUS.certificate)
        return arguments | ({"server_pem_path": certificate} if encrypted and certificate else {})

    def _explained(self, what: str, fault: Exception) -> EngineError:
        """The error that says what was asked, and what to do next."""
        url, text, status = self.place.url, _text(fault), _status(fault)
        if _is_away(fault):
            return EngineError(
                f"{url}: no answer, asked {self.place.retries + 1} times to {what}: {text}",
                hint=f"is the server running, and is this its address? A full Milvus answers {_check(url)} "
                "(milvus-lite has no such page); for a slow one, a longer wait: "
                f"timeout={2 * self.place.timeout}",
                code="no-answer-asked-times",
            )
        if status == "UNAUTHENTICATED":
            return EngineError(f"{url}: may not {what}: {text}", hint=why_no_key(url))
        if status == "PERMISSION_DENIED":
            return EngineError(
                f"{url}: may not {what}: {text}", hint=f"whose token is in {MILVUS.key}? grant this right to its role"
            )
        return EngineError(f"{url}: cannot {what}: {text}", hint="the server's own log says more")


def _close_aside(close: Callable[[], None]) -> None:
    """Close in a thread of its own: memory is collected in any thread, and closing waits for a lock of pymilvus."""
    # In a thread of gRPC it would wait for one that waits for that very thread, until the time is up.
    with contextlib.suppress(RuntimeError):  # the process is about to end, and its connections with it
        threading.Thread(target=close, daemon=True).start()


def _text(fault: Exception) -> str:
    """What an error says, without the inner workings of gRPC."""
    details = getattr(fault, "details", None)
    message = details() if callable(details) else getattr(fault, "message", "")
    return str(message or fault)


def _check(url: str) -> str:
    """The command that asks a full server how it is, at the port that it has for that."""
    return f"curl http://{_host(url)}:9091/healthz"


def _host(url: str) -> str:
    host = urlsplit(url).hostname or ""
    return f"[{host}]" if ":" in host else host


def is_missing(fault: BaseException | None) -> bool:
    """Whether the server says that there is no such collection."""
    return getattr(fault, "code", None) == _NO_COLLECTION


def is_not_loaded(fault: BaseException | None) -> bool:
    """Whether the server says that the collection has to be loaded into its memory before it is searched."""
    return getattr(fault, "code", None) == _NOT_LOADED


def package() -> Any:
    """pymilvus, silent, and without reading the file `.env` that lies above it, as it does when it is imported."""
    before = os.environ.get("PYTHON_DOTENV_DISABLED")
    os.environ["PYTHON_DOTENV_DISABLED"] = "1"
    try:
        import pymilvus
    finally:
        if before is None:
            del os.environ["PYTHON_DOTENV_DISABLED"]
        else:
            os.environ["PYTHON_DOTENV_DISABLED"] = before
    take_ipv6()
    for name in ("pymilvus", "pymilvus.milvus_client"):  # what it logs is in the error
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return pymilvus


def _is_away(fault: Exception) -> bool:
    status = _status(fault)
    if status == "CANCELLED":  # as calls are that are under way when another thread closes the channel
        return "Channel closed" in _text(fault)
    if status:
        return status in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
    if isinstance(fault.__cause__, ValueError) and _CLOSED in str(fault.__cause__):
        return True
    if _NO_CLIENT in _text(fault):  # another thread has closed the client between its choice and the call
        return True
    return getattr(fault, "code", None) == _NO_CONNECTION


def _status(fault: BaseException) -> str:
    """The name of gRPC's status code behind an error; "" where the server itself has answered."""
    from grpc import RpcError, StatusCode

    code: Any = getattr(fault, "code", None)
    if isinstance(fault, RpcError):
        code = code() if callable(code) else None
    elif not isinstance(code, StatusCode) and isinstance(fault.__cause__, RpcError):
        return _status(fault.__cause__)
    return code.name if isinstance(code, StatusCode) else ""
