"""Serving: the application behind uvicorn, until SIGTERM or Ctrl+C."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Callable

from visir.errors import ConfigurationError
from visir.service.logs import FromServer, Log
from visir.service.settings import Settings


def serve(settings: Settings, host: str, port: int, ready: Callable[[str], None], *, log: Log | None = None) -> None:
    """Serve until told to stop; `ready` is called with the address once requests are answered.

    On SIGTERM or SIGINT no connection is taken any more, requests that run get `settings.grace` seconds to finish, and
    this returns. Raises `ConfigurationError` for an address that cannot be had, before any model is loaded.
    """
    import uvicorn

    from visir.service.app import create_app
    from visir.service.connections import protocol

    log = log or Log(queries=settings.log_queries)
    server_log, from_server = logging.getLogger("uvicorn.error"), FromServer(log)
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
            backlog=1024,
        )
        # uvicorn raises the signal again once it has closed; a service that did as it was told exits with 0.
        server_log.addHandler(from_server)
        server_log.propagate = False
        before = {one: signal.signal(one, lambda *_: None) for one in (signal.SIGTERM, signal.SIGINT)}
        try:
            server = uvicorn.Server(config)
            original = server.startup

            async def startup(sockets: list[socket.socket] | None = None) -> None:
                await original(sockets)
                ready(address)

            server.startup = startup  # type: ignore[method-assign]
            server.run([listening])
        finally:
            server_log.removeHandler(from_server)
            for one, handler in before.items():
                signal.signal(one, handler)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as fault:
        listening.close()
        raise ConfigurationError(
            f"{host}:{port}: cannot be served on: {fault}", hint="is it in use? another port: --port 8080"
        ) from fault
    return listening


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
