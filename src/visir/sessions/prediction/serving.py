"""Serving a purchase model: the service behind an HTTP server, until it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.errors import ConfigurationError, nearest, raise_faults
from visir.serving.logs import ServiceLog
from visir.serving.server import ServerThread, listening, require_packages, serve_app
from visir.serving.settings import suited_to_host
from visir.sessions.making import mapping_of
from visir.sessions.mapping import LogMapping
from visir.sessions.prediction.live import LiveScorer
from visir.sessions.prediction.purchase_model import PurchaseModel, load_model
from visir.sessions.prediction.stream_state import restore_state
from visir.storage import check_new_file

if TYPE_CHECKING:
    import socket

    from visir.sessions.prediction.service import ScoreService, ScoreSettings


class RunningScorer(ServerThread):
    """A service in a thread of this process. As a context manager it stops at the end of the block."""

    def __init__(self, service: ScoreService, settings: ScoreSettings, waiting: socket.socket, log: ServiceLog) -> None:
        from visir.sessions.prediction.service import create_app

        self._service = service
        super().__init__(create_app(service, settings, log=log), settings, waiting, log)
        self.url = self.url.rstrip("/")

    def stop(self) -> None:
        """Take no more requests; return when those that run are answered and the state is saved."""
        super().stop()
        _require_saved(self._service)


def serve(
    model: PurchaseModel | str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8766,
    hosts: Sequence[str] = (),
    open_to_all: bool = False,
    mapping: str | Path | LogMapping | None = None,
    history: str | Path | None = None,
    state: str | Path | None = None,
    background: bool = False,
    log: ServiceLog | None = None,
    ready: Callable[[str], None] | None = None,
    **settings: Any,
) -> RunningScorer | None:
    """Score events over HTTP: `POST /v1/events`, `GET /health`.

    Events are answered in the order in which they come. On this machine alone it needs no tokens; on any other address
    it wants `tokens`, or `open_to_all`.

    Args:
        model: A trained model, or the folder of one.
        host: The address to listen on.
        port: 0 takes one that is free.
        hosts: Further names under which the service is called, beside this machine's own.
        open_to_all: Let everybody in: listen on other addresses than this machine's own without tokens.
        mapping: How posted rows become events: a preset, a TOML file, or a `LogMapping`. None: they are events.
        history: A folder of sessions: what visitors and customers did before. Not read where there is a state.
        state: A file: the service goes on from it, and saves its state there every minute and at the end.
        background: Return at once with a handle that has `url` and `stop()`; otherwise serve until Ctrl-C.
        log: Where requests and faults go. Default: lines on standard error; in the background warnings alone.
        ready: Called with the address once it answers. Default: it is written into the log.
        settings: `tokens` (a folder of `visir sessions token`), and further fields of
            `visir.sessions.prediction.service.ScoreSettings`: rates, sizes, times.

    Raises:
        ConfigurationError: The address is in use, or open to others; settings that are none.
        VisirError: The model, the mapping, the history or the state cannot be used, or the state was not saved at the
            end.
        MissingPackageError: The packages of the extra `serve` are not installed.

    Example:
        >>> import json
        >>> from urllib.request import Request, urlopen
        >>> from visir.sessions import generate, make, serve, train
        >>> _ = generate("served", 2000)
        >>> model = train(make("served/events", "served-sessions", mapping="served/mapping.toml"), "lr")
        >>> events = json.dumps([{"visitor": "ann", "time": 0, "action": "page"}]).encode()
        >>> with serve(model, port=0, background=True) as service:
        ...     request = Request(f"{service.url}/v1/events", events, {"Content-Type": "application/json"})
        ...     with urlopen(request) as answer:
        ...         [score["step"] for score in json.load(answer)["scores"]]
        [0, 1]
    """
    require_packages("Serving purchase scores")
    from visir.sessions.prediction.service import VERB, ScoreService, ScoreSettings, create_app

    chosen = _chosen(
        ScoreSettings,
        suited_to_host(
            host, settings, hosts=hosts, open_to_all=open_to_all, verb=VERB, everybody_could="post events and ask"
        ),
    )
    declared = None if mapping is None else mapping_of(mapping)
    scorer, lines = LiveScorer(model if isinstance(model, PurchaseModel) else load_model(model)), 0
    file = None if state is None else Path(state)
    if file is not None:
        check_new_file(file, replace=True)
    if file is not None and file.exists():
        lines = restore_state(scorer, file)
    elif history is not None:
        scorer.remember_sessions(history)
    log = log or (ServiceLog(form="text", least="warning") if background else ServiceLog(form="auto"))
    waiting = listening(host, port)
    try:
        service = ScoreService(scorer, mapping=declared, state=file, lines=lines, log=log)
        if background:
            return RunningScorer(service, chosen, waiting, log)
        serve_app(
            lambda log: create_app(service, chosen, log=log),
            chosen,
            waiting,
            ready or (lambda address: log.write("info", "start", message=f"scores events at {address}v1/events")),
            log,
        )
    except BaseException:
        waiting.close()
        raise
    _require_saved(service)
    return None


def _chosen(kind: type[ScoreSettings], settings: dict[str, Any]) -> ScoreSettings:
    known = [field.name for field in fields(kind)]
    faults = [f"{name}: {nearest(name, known)}" for name in sorted(settings) if name not in known]
    raise_faults(ConfigurationError, "no such settings of a service", faults, hint=f"see {kind.VERB} --help")
    tokens = settings.get("tokens")
    return kind(**{**settings, "tokens": None if tokens is None else Path(tokens)})


def _require_saved(service: ScoreService) -> None:
    if service.unsaved is not None:
        raise service.unsaved
