"""Connections: clients that send or take too slowly are left, and there are only so many at once.

uvicorn closes idle connections by itself, but waits for ever for a client that has begun to send.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from visir.library.service.errors import HttpError, busy
from visir.library.service.settings import ServiceSettings

_HEADER_BYTES = 64 * 1024
_HEADERS = 100
_WAITING = 32
"""Requests that may wait behind one that is answered. Browsers send none ahead of its answer. uvicorn would take any
number: a client that sends requests without end and never reads an answer had half a GiB of them waiting after 20 s,
and never looked stalled, for the kernel takes the first MiB of answers as if they had arrived."""


def protocol(settings: ServiceSettings) -> type[asyncio.Protocol]:
    """A protocol for uvicorn (its `http`) that keeps these settings' limits."""

    class Connection(HttpToolsProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._headers_since: float | None = self.loop.time()
            self._body_since: float | None = None
            self._header_bytes = 0
            self._unsent = (0, self.loop.time())
            if len(self.connections) > settings.connections:
                self._leave(busy(f"{settings.connections} connections are open already.", 5))
                return
            most = settings.connections_per_address
            if (
                most
                and sum(_address(connection.transport) == _address(transport) for connection in self.connections) > most
            ):
                self._leave(busy(f"{most} connections are open already from this address.", 5))
                return
            self._watch()

        def data_received(self, data: bytes) -> None:
            if self._body_since is None:
                if self._headers_since is None:
                    self._headers_since = self.loop.time()
                self._header_bytes += len(data)
            super().data_received(data)
            if self._headers_since is not None and self._header_bytes > _HEADER_BYTES:
                self._leave(HttpError(431, f"the headers are larger than {_HEADER_BYTES:,} bytes."))

        def on_header(self, name: bytes, value: bytes) -> None:
            super().on_header(name, value)
            if len(self.headers) > _HEADERS:
                self._leave(HttpError(431, f"there are more than {_HEADERS} headers."))

        def on_headers_complete(self) -> None:
            self._headers_since, self._header_bytes = None, 0
            self._body_since = self.loop.time()
            if not self.transport.is_closing():
                super().on_headers_complete()
            if len(self.pipeline) > _WAITING:
                self._leave(HttpError(429, f"more than {_WAITING} requests wait on this connection."))

        def on_message_complete(self) -> None:
            self._body_since = None
            if self.cycle is not None:
                super().on_message_complete()

        def on_body(self, body: bytes) -> None:
            if self.cycle is not None:
                super().on_body(body)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.pipeline and not self.transport.is_closing():
                self.flow.pause_reading()  # what has come is answered before more is read

        def send_400_response(self, msg: str) -> None:
            self._leave(HttpError(400, "not an HTTP request that can be understood."))

        def _watch(self) -> None:
            """Look at this connection once a second until it is closed."""
            if self.transport.is_closing() and not self.transport.get_write_buffer_size():
                return
            now, size = self.loop.time(), self.transport.get_write_buffer_size()
            progressed = size == 0 or self._unsent[0] == 0 or size < self._unsent[0]
            self._unsent = (size, now if progressed else self._unsent[1])  # more than before: the next answer has begun
            if now - self._unsent[1] > settings.stall:
                self._drop()
                return
            if self._headers_since is not None and now - self._headers_since > settings.header_timeout:
                self._leave(HttpError(408, f"the headers took longer than {settings.header_timeout:g} s."))
            elif self._body_since is not None and now - self._body_since > settings.body_timeout:
                self._leave(HttpError(408, f"the body took longer than {settings.body_timeout:g} s."))
            self.loop.call_later(1.0, self._watch)

        def _drop(self) -> None:
            """Close at once, and have the system forget the MiB that it still holds for this client."""
            opened = self.transport.get_extra_info("socket")
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("hh" if os.name == "nt" else "ii", 1, 0))
            self.transport.abort()

        def _leave(self, refused: HttpError) -> None:
            """Say why, unless an answer has begun or requests wait for theirs, and close."""
            if self.transport.is_closing():
                return
            if self.pipeline:
                pass  # `cycle` is the last of them; an answer to the first may be on its way
            elif self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
                data = refused.body()
                head = f"HTTP/1.1 {refused.status} \r\ncontent-type: application/json\r\nconnection: close\r\n"
                more = "".join(f"{name.lower()}: {value}\r\n" for name, value in refused.headers.items())
                self.transport.write(f"{head}{more}content-length: {len(data)}\r\n\r\n".encode() + data)
            self.transport.close()

    return Connection


def _address(transport: asyncio.Transport) -> object:
    return (transport.get_extra_info("peername") or ("",))[0]
