"""The HTTP server of a service: who may connect, how slowly, and until when it runs (SIGTERM, Ctrl+C, `stop`)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import html
import logging
import os
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from visir.errors import ConfigurationError, require
from visir.serving.logs import ServerLogHandler, ServiceLog
from visir.serving.refusals import HttpError, busy
from visir.serving.settings import FrontSettings
from visir.threads import BackgroundThread

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

_BACKLOG = 1024
"""Connections that wait until they are taken."""
_HEADER_BYTES = 64 * 1024
_HEADERS = 100
_WAITING = 32
"""Requests that may wait behind one that is answered. Browsers send none ahead of its answer. uvicorn would take any
number: a client that sends requests without end and never reads an answer had half a GiB of them waiting after 20 s,
and never looked stalled, for the kernel takes the first MiB of answers as if they had arrived."""


def require_packages(purpose: str) -> None:
    """Check that what a service needs is installed."""
    require("fastapi", "uvicorn", "httptools", "prometheus_client", extra="serve", purpose=purpose)


def serve_app(
    make: Callable[[ServiceLog], FastAPI],
    settings: FrontSettings,
    waiting: socket.socket,
    ready: Callable[[str], None],
    log: ServiceLog,
) -> None:
    """Serve until a signal stops it; `ready` is called with the address once requests are answered."""
    # On SIGTERM or SIGINT no connection is taken any more, requests that run get `settings.grace` seconds to finish,
    # and this returns.
    from_server = ServerLogHandler(log)
    with waiting:
        app = make(log)
        # uvicorn raises the signal again once it has closed; a service that stopped as requested exits with 0.
        before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            server = server_of(app, settings, lambda: ready(address_of(waiting)))
            gc.collect()
            gc.freeze()  # models and modules stay to the end; collections look at what came later, and are fast
            with _into(from_server):
                server.run([waiting])
        finally:
            log.close()
            for number, handler in before.items():
                signal.signal(number, handler)


class ServerThread(BackgroundThread):
    """A service in a thread of this process. As a context manager it stops at the end of the block."""

    def __init__(self, app: FastAPI, settings: FrontSettings, waiting: socket.socket, log: ServiceLog) -> None:
        self.url = address_of(waiting)
        self._log, self._waiting = log, waiting
        answers = threading.Event()
        self._server = server_of(app, settings, answers.set)
        self._thread = threading.Thread(target=self._run, name="visir-serve", daemon=True)
        self._fault: BaseException | None = None
        self._thread.start()
        while not answers.wait(0.05):
            if not self._thread.is_alive():
                raise ConfigurationError(f"{self.url}: the service did not start: {self._fault}") from self._fault

    @property
    def is_alive(self) -> bool:
        """Whether it answers requests."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Take no more requests; return when those that run are answered."""
        self._server.should_exit = True
        self._thread.join()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url}, {'.stop() ends it' if self.is_alive else 'stopped'})"

    def _repr_html_(self) -> str:
        if not self.is_alive:
            return f"<p>{html.escape(self.url)} (stopped)</p>"
        address = html.escape(self.url)
        return f'<p>Serving at <a href="{address}" target="_blank">{address}</a>; <code>.stop()</code> ends it</p>'

    def _run(self) -> None:
        try:
            self._server.run([self._waiting])
        except BaseException as fault:  # it is said by whoever waits for the start
            self._fault = fault
            self._log.write("error", "fault", task="serve", fault=repr(fault))
        finally:
            self._waiting.close()
            self._log.close()


def server_of(app: FastAPI, settings: FrontSettings, ready: Callable[[], None]) -> uvicorn.Server:
    """The HTTP server of an application; `ready` is called once it answers."""
    import uvicorn

    config = uvicorn.Config(
        app,
        http=protocol(settings),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=int(max(1, settings.header_timeout)),
        timeout_graceful_shutdown=int(settings.grace),
        backlog=_BACKLOG,
    )
    server = uvicorn.Server(config)
    original = server.startup

    async def startup(sockets: list[socket.socket] | None = None) -> None:
        await original(sockets)
        if server.started:
            with contextlib.suppress(OSError):  # nobody reads it
                ready()

    server.startup = startup  # type: ignore[method-assign]
    return server


@contextlib.contextmanager
def _into(log: ServerLogHandler) -> Iterator[None]:
    """What the HTTP server, warnings and threads that end in an error have to say goes into the log alone."""
    # Whoever writes to standard error waits for its reader; the log does not.
    sources = [logging.getLogger(name) for name in ("uvicorn.error", "py.warnings")]
    for source in sources:
        source.addHandler(log)
        source.propagate = False
    before, threading.excepthook = threading.excepthook, log.of_thread
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        threading.excepthook = before
        for source in sources:
            source.removeHandler(log)
            source.propagate = True


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens."""
    # Bound sockets may share a port until one of them listens, so both happens here, before a model is loaded: of two
    # services that are started on one port, only one goes on.
    # Raises `ConfigurationError` for an address that cannot be had; it says who has it, where that can be found out.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    waiting = socket.socket(family, socket.SOCK_STREAM)
    try:
        waiting.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        waiting.bind((host, port))
        waiting.listen(_BACKLOG)
    except (OSError, OverflowError) as fault:
        waiting.close()
        if getattr(fault, "errno", None) == errno.EADDRINUSE:
            raise ConfigurationError(
                f"{host}: port {port} is in use by {user_of_port(host, port)}.",
                hint=f"stop that one, or take another port: --port {port + 1}; --port 0 takes any that is free",
                code="port-in-use",
            ) from fault
        raise ConfigurationError(
            f"{host}: port {port} cannot be served on: {fault}", hint="another address or port: --host, --port"
        ) from fault
    return waiting


def user_of_port(host: str, port: int, seconds: float = 1.0) -> str:
    """Who answers there: "another visir that serves photos", or "another program"."""
    import http.client

    import orjson

    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    try:
        connection.request("GET", "/v1/libraries", headers={"Host": f"localhost:{port}"})
        answer = orjson.loads(connection.getresponse().read(1_000_000))
        if isinstance(answer, list):
            return f"another visir that serves {', '.join(str(library['name']) for library in answer)[:200]}"
        if set(answer) == {"error"} and "hint" in answer["error"]:
            return "another visir"
    except TimeoutError:
        return "a program that does not answer: perhaps another visir that still loads its model"
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        pass
    finally:
        connection.close()
    return "another program"


def address_of(waiting: socket.socket) -> str:
    """The address of a socket that listens, as a browser takes it."""
    host, port = waiting.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def protocol(settings: FrontSettings) -> type[asyncio.Protocol]:
    """A protocol for uvicorn (its `http`) that keeps these settings' limits."""
    # uvicorn closes idle connections by itself, but waits for ever for a client that has begun to send.
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

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
            if self._body_since is None and self._headers_since is None:
                self._headers_since = self.loop.time()
            self._header_bytes += len(data)
            super().data_received(data)
            if self._header_bytes > _HEADER_BYTES:
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
            self._body_since, self._header_bytes = None, 0
            if self.cycle is not None:
                super().on_message_complete()

        def on_body(self, body: bytes) -> None:
            self._header_bytes = 0  # what comes between pieces of a body, or after it, is headers too (trailers)
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
