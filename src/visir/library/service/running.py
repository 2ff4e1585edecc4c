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

from visir.errors import ConfigurationError
from visir.library.service.logs import ServerLogHandler, ServiceLog
from visir.library.service.settings import ServiceSettings

_BACKLOG = 1024
"""Connections that wait until they are taken."""


def serve(
    settings: ServiceSettings, host: str, port: int, ready: Callable[[str], None], *, log: ServiceLog | None = None
) -> None:
    """Serve until a signal stops it; `ready` is called with the address once requests are answered.

    On SIGTERM or SIGINT no connection is taken any more, requests that run get `settings.grace` seconds to finish, and
    this returns. Raises `ConfigurationError` for an address that cannot be had, before any model is loaded.
    """
    import uvicorn

    from visir.library.service.app import create_app
    from visir.library.service.connections import protocol

    log = log or ServiceLog(queries=settings.log_queries)
    from_server = ServerLogHandler(log)
    with _listening(host, port) as listening:
        app = create_app(settings, log=log)
        address = _address(listening)
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
        # uvicorn raises the signal again once it has closed; a service that stopped as requested exits with 0.
        before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            server = uvicorn.Server(config)
            original = server.startup

            async def startup(sockets: list[socket.socket] | None = None) -> None:
                await original(sockets)
                if server.started:
                    with contextlib.suppress(OSError):  # nobody reads it
                        ready(address)

            server.startup = startup  # type: ignore[method-assign]
            gc.collect()
            gc.freeze()  # models and modules stay to the end; collections look at what came later, and are fast
            with _into(from_server):
                server.run([listening])
        finally:
            log.close()
            for number, handler in before.items():
                signal.signal(number, handler)


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


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens. Bound sockets may share a port until one of them listens, so both happens here, before a
    model is loaded: of two services that are started on one port, only one goes on.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except (OSError, OverflowError) as fault:
        listening.close()
        if getattr(fault, "errno", None) == errno.EADDRINUSE:
            raise ConfigurationError(
                f"{host}: port {port} is in use already; is another service running there?",
                hint="stop it, or take another port: --port 8080",
            ) from fault
        raise ConfigurationError(
            f"{host}: port {port} cannot be served on: {fault}", hint="another address or port: --host, --port"
        ) from fault
    return listening


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
