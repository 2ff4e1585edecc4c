"""Serving a purchase model: the service behind an HTTP server, until it is stopped."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from visir.errors import ConfigurationError, require
from visir.sessions.making import mapping_of
from visir.sessions.mapping import LogMapping
from visir.sessions.prediction.live import LiveScorer
from visir.sessions.prediction.purchase_model import PurchaseModel, load_model
from visir.sessions.prediction.stream_state import restore_state
from visir.storage import check_new_file

if TYPE_CHECKING:
    import uvicorn

    from visir.sessions.prediction.service import ScoreService

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class RunningScorer:
    """A service in a thread of this process. As a context manager it stops at the end of the block.

    Attributes:
        url: Its address, "http://127.0.0.1:8766".
    """

    def __init__(self, server: uvicorn.Server, service: ScoreService, waiting: socket.socket, url: str) -> None:
        self.url, self._server, self._service = url, server, service
        self._thread = threading.Thread(target=self._run, args=(waiting,), name="visir-sessions-serve", daemon=True)
        self._thread.start()
        while not server.started:
            self._thread.join(0.02)
            if not self._thread.is_alive():
                raise ConfigurationError(f"{url}: the service did not start.", hint="see its log above")

    @property
    def is_alive(self) -> bool:
        """Whether it answers requests."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Take no more requests; return when those that run are answered and the state is saved.

        Raises:
            VisirError: The state was not saved.
        """
        self._server.should_exit = True
        self._thread.join()
        _require_saved(self._service)

    def __enter__(self) -> RunningScorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"RunningScorer({self.url}, {'.stop() ends it' if self.is_alive else 'stopped'})"

    def _run(self, waiting: socket.socket) -> None:
        with waiting:
            self._server.run([waiting])


def serve(
    model: PurchaseModel | str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8766,
    open_to_all: bool = False,
    mapping: str | Path | LogMapping | None = None,
    history: str | Path | None = None,
    state: str | Path | None = None,
    background: bool = False,
) -> RunningScorer | None:
    """Score events over HTTP: `POST /v1/events`, `GET /health`.

    Events are answered in the order in which they come. There are no tokens: let the shop's own servers call it, on
    this machine or behind a proxy that checks who asks.

    Args:
        model: A trained model, or the folder of one.
        host: The address to listen on.
        port: 0 takes one that is free.
        open_to_all: Let everybody in: listen on other addresses than this machine's own.
        mapping: How posted rows become events: a preset, a TOML file, or a `LogMapping`. None: they are events.
        history: A folder of sessions: what visitors and customers did before. Not read where there is a state.
        state: A file: the service goes on from it, and saves its state there every minute and at the end.
        background: Return at once with a handle that has `url` and `stop()`; otherwise serve until Ctrl-C.

    Raises:
        ConfigurationError: The address is in use, or open to others.
        VisirError: The model, the mapping, the history or the state cannot be used, or the state was not saved at the
            end.
        MissingPackageError: The packages of the extra `serve` are not installed.

    Example:
        >>> import json, urllib.request
        >>> from visir.sessions import generate, make, serve, train
        >>> _ = generate("served", 2000)
        >>> model = train(make("served/events", "served-sessions", mapping="served/mapping.toml"), "lr")
        >>> events = json.dumps([{"visitor": "ann", "time": 0, "action": "page"}]).encode()
        >>> with serve(model, port=0, background=True) as service:
        ...     with urllib.request.urlopen(f"{service.url}/v1/events", events) as answer:
        ...         [score["step"] for score in json.load(answer)["scores"]]
        [0, 1]
    """
    if host not in LOOPBACK and not open_to_all:
        raise ConfigurationError(
            f"host {host}: anybody who reaches it could ask.",
            hint="listen on 127.0.0.1 behind a proxy, or let everybody in: --open-to-all (open_to_all=True)",
        )
    require("fastapi", "uvicorn", extra="serve", purpose="Serving purchase scores")
    import uvicorn

    from visir.sessions.prediction.service import ScoreService, create_app

    declared = None if mapping is None else mapping_of(mapping)
    scorer, lines = LiveScorer(model if isinstance(model, PurchaseModel) else load_model(model)), 0
    file = None if state is None else Path(state)
    if file is not None:
        check_new_file(file, replace=True)
    if file is not None and file.exists():
        lines = restore_state(scorer, file)
    elif history is not None:
        scorer.remember_sessions(history)
    waiting = _listening(host, port)
    service = ScoreService(scorer, mapping=declared, state=file, lines=lines)
    level = "warning" if background else "info"
    server = uvicorn.Server(uvicorn.Config(create_app(service), log_level=level, server_header=False))
    taken = waiting.getsockname()[1]
    url = f"http://{f'[{host}]' if ':' in host else host}:{taken}"
    if background:
        return RunningScorer(server, service, waiting, url)
    with waiting:
        server.run([waiting])
    _require_saved(service)
    return None


def _require_saved(service: ScoreService) -> None:
    if service.unsaved is not None:
        raise service.unsaved


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens; refused before anything is served."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as fault:
        raise ConfigurationError(
            f"{host}:{port}: {fault.strerror}.", hint="another port (--port), or 0 for any that is free"
        ) from fault
