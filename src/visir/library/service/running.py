"""Serving: the application behind uvicorn, until SIGTERM or Ctrl+C."""

from __future__ import annotations

import contextlib
import errno
import gc
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from visir.errors import ConfigurationError
from visir.library.service.logs import ServerLogHandler, ServiceLog
from visir.library.service.settings import ServiceSettings

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

_BACKLOG = 1024
"""Connections that wait until they are taken."""


def serve(
    settings: ServiceSettings,
    host: str,
    port: int,
    ready: Callable[[str], None],
    *,
    log: ServiceLog | None = None,
    callback: Callable[[str], object] = lambda message: None,
) -> None:
    """Serve until a signal stops it; `ready` is called with the address once requests are answered.

    On SIGTERM or SIGINT no connection is taken any more, requests that run get `settings.grace` seconds to finish, and
    this returns.

    Args:
        settings: What is served, and how.
        host: The address to listen on.
        port: 0 takes one that is free.
        ready: Called with the address, "http://127.0.0.1:8765/".
        log: Where requests and events go. Default: JSON lines on standard error.
        callback: Called with what takes long before that: "loading the model … of photos".

    Raises:
        ConfigurationError: The address cannot be had; said before any model is loaded.
    """
    from visir.library.service.app import create_app

    log = log or ServiceLog(queries=settings.log_queries)
    from_server = ServerLogHandler(log)
    with listening(host, port) as waiting:
        app = create_app(settings, log=log, callback=callback)
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


def server_of(app: FastAPI, settings: ServiceSettings, ready: Callable[[], None]) -> uvicorn.Server:
    """The HTTP server of an application; `ready` is called once it answers."""
    import uvicorn

    from visir.library.service.connections import protocol

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
    """What the HTTP server, warnings and threads that end in an error have to say goes into the log alone.

    Whoever writes to standard error waits for its reader; the log does not.
    """
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
    """A socket that listens. Bound sockets may share a port until one of them listens, so both happens here, before a
    model is loaded: of two services that are started on one port, only one goes on.

    Raises `ConfigurationError` for an address that cannot be had; it says who has it, where that can be found out.
    """
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
