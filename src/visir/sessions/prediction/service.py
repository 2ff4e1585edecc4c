"""Scores over HTTP: a shop posts its events as they happen, and gets a probability for each page that opened.

One scorer reads all events, one request after the other. A request counts as a whole: where an event cannot be used
(no visitor, an unknown action, another unit of time) the request is refused with all faults, and none of its events is
read. Events that are late, repeated or from the future are set aside and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import orjson
from fastapi import FastAPI, Request, Response

from visir.errors import ConfigurationError, VisirError, nearest, raise_faults
from visir.serving.front import Guarded, check_kind, guard
from visir.serving.logs import ServiceLog
from visir.serving.refusals import HttpError, busy
from visir.serving.server import ServerThread, listening, require_packages, serve_app
from visir.serving.settings import FrontMetrics, FrontSettings, suited_to_host
from visir.sessions.definition import LogMapping
from visir.sessions.making import mapping_of
from visir.sessions.prediction.live import LiveScorer, restore_state, save_state
from visir.sessions.prediction.purchase_model import PurchaseModel, load_model
from visir.sessions.prediction.stream_events import Fault, MappedStream, fault_of
from visir.storage import check_new_file
from visir.version import __version__

if TYPE_CHECKING:
    import socket


# Serving a purchase model: the service behind an HTTP server, until it is stopped.


class RunningScorer(ServerThread):
    """A service in a thread of this process. As a context manager it stops at the end of the block."""

    def __init__(self, service: ScoreService, settings: ScoreSettings, waiting: socket.socket, log: ServiceLog) -> None:
        self._service = service
        super().__init__(create_app(service, settings, log=log), settings, waiting, log)
        self.url = self.url.rstrip("/")

    def stop(self) -> None:
        """Take no more requests; return when those that run are answered and the state is saved."""
        super().stop()
        self._service.require_saved()


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

    known = [field.name for field in fields(ScoreSettings)]
    given = suited_to_host(
        host, settings, hosts=hosts, open_to_all=open_to_all, verb=VERB, everybody_could="post events and ask"
    )
    faults = [f"{name}: {nearest(name, known)}" for name in sorted(given) if name not in known]
    raise_faults(ConfigurationError, "no such settings of a service", faults, hint=f"see {VERB} --help")
    tokens = given.get("tokens")
    chosen = ScoreSettings(**{**given, "tokens": None if tokens is None else Path(tokens)})
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
    service.require_saved()
    return None


T = TypeVar("T")

VERB = "visir sessions serve"
MAX_EVENTS = 10_000
SAVE_SECONDS = 60.0
EVENTS_OF_A_REQUEST = 50
"""Events that count as one request: read together, so many cost about what a request of one event does."""

_MOST_PARTS = 100 * MAX_EVENTS
"""Commas of a body: a hundred columns for each event. JSON of nothing but commas becomes objects of twenty times its
size."""
_MOST_FAULTS = 100


@dataclass(frozen=True)
class ScoreSettings(FrontSettings):
    """What the front of a service of scores lets in. Sizes are bytes, times are seconds."""

    # The shop's own servers ask, one for all visitors, so a caller may ask more often than a person does: 200 pages a
    # second are 17 million a day.

    # Requests a second for one token (or address, without tokens); each further 50 events of a request count as one. 0
    # sets no limit.
    rate: float = 200.0
    burst: int = 2_000  # how many requests may come at once
    queue: int = 512  # requests that wait until earlier ones are read; further ones are refused for the moment

    VERB: ClassVar[str] = VERB
    AT_LEAST: ClassVar[dict[str, float]] = {**FrontSettings.AT_LEAST, "queue": 1}


class RefusedError(HttpError):
    """A request of which no event is read: 422, with all that is wrong (`faults`), up to a hundred."""

    def __init__(self, faults: Sequence[str], hint: str, *, status: int = 422) -> None:
        listed = [fault[:300] for fault in faults[:_MOST_FAULTS]]
        if len(faults) > _MOST_FAULTS:
            listed.append(f"… and {len(faults) - _MOST_FAULTS:,} more")
        super().__init__(status, "; ".join(listed), hint=hint, more={"faults": listed})
        self.faults = listed


class ScoreService:
    """A scorer for several callers, and its state on disk. `close` it at the end."""

    def __init__(
        self,
        scorer: LiveScorer,
        *,
        mapping: LogMapping | None = None,
        state: Path | None = None,
        lines: int = 0,
        log: ServiceLog | None = None,
    ) -> None:
        self.scorer, self._state, self._lines = scorer, state, lines
        self._log = log
        self._mapped = None if mapping is None else MappedStream(mapping, scorer.rejected)
        self._lock = threading.Lock()
        self._saved = time.monotonic()
        self.unsaved: VisirError | None = None

    def observe(self, rows: list[Mapping[str, Any]]) -> dict[str, Any]:
        """Read events, and return their scores and what was set aside."""
        with self._lock:
            before = Counter(self.scorer.rejected)
            scores = self.scorer.observe_all(*self._events(rows))
            self._lines += len(rows)
            if self._state is not None and time.monotonic() - self._saved >= SAVE_SECONDS:
                self._save()
            set_aside = self.scorer.rejected - before
            return {"scores": [asdict(score) for score in scores], "set_aside": dict(set_aside)}

    def _events(self, rows: list[Mapping[str, Any]]) -> tuple[Sequence[Mapping[str, Any]], list[Fault | None]]:
        """The events of a request, and what is wrong with each."""
        if self._mapped is None:
            faults = [fault_of(row) for row in rows]
            unusable = [f"event {number}: {fault[1]}" for number, fault in enumerate(faults) if fault is not None]
            if unusable:
                raise RefusedError(unusable, "mend them and post the whole request again; no event was read")
            return rows, faults
        try:
            if rows:
                self._mapped.check(rows)
            events = self._mapped.events(rows)
        except VisirError as fault:
            raise RefusedError([fault.message], fault.hint or "") from fault
        return events, [fault_of(event) for event in events]

    def health(self) -> dict[str, Any]:
        """What it serves, and how much it holds."""
        card, (visitors, sessions) = self.scorer.model.card, self.scorer.remembered
        return {
            "status": "ok",
            "model": {name: card.get(name) for name in ("model", "protocol", "test_from")},
            "events": self._lines,
            "open_sessions": self.scorer.open_sessions,
            "remembered": {"visitors": visitors, "customers_sessions": sessions},
            "set_aside": dict(self.scorer.rejected),
            "crowded_out": dict(self.scorer.crowded_out),
            "not_saved": None if self.unsaved is None else self.unsaved.message,
        }

    def require_saved(self) -> None:
        """Raise what kept the state from being saved."""
        if self.unsaved is not None:
            raise self.unsaved

    def close(self) -> None:
        """Save the state, where it has a file, and close what is open."""
        with self._lock:
            self._save()
            if self._mapped is not None:
                self._mapped.close()

    def _save(self) -> None:
        """Save the state; where that fails, answers go on, and it is tried again a minute later."""
        if self._state is None:
            return
        self._saved = time.monotonic()
        try:
            save_state(self.scorer, self._state, lines=self._lines)
            self.unsaved = None
        except VisirError as fault:
            self.unsaved = fault
            if self._log is not None:
                self._log.write("error", "fault", task="state", fault=f"the state was not saved: {fault}")


def create_app(
    service: ScoreService, settings: ScoreSettings | None = None, *, log: ServiceLog | None = None
) -> FastAPI:
    """The service as an ASGI application: `POST /v1/events`, `GET /health`, `/v1/health` and `/metrics`."""
    # Its state is saved when the application ends. Without `settings` it has no tokens and takes any host name; without
    # `log`, requests and events go to standard error as JSON lines.
    settings, metrics = settings or ScoreSettings(), FrontMetrics()
    turns = _Turns(settings.queue, metrics)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(turns.close)
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="visir: purchase scores",
        version=__version__,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirection would send people to whatever the Host header says
        lifespan=lifespan,
    )
    public = frozenset({"/v1/health", "/v1/openapi.json"})
    guard(
        app,
        settings,
        Guarded(scope="score", public=public, serves="model", too_large=_FEWER),
        metrics,
        log or ServiceLog(),
    )

    @app.post("/v1/events")
    async def events(request: Request) -> Response:
        """Read {"events": [...]} or a list of events; answer with their scores."""
        check_kind(request, "application/json", "JSON")
        body, caller = await request.body(), request.scope["state"]["caller"]

        def read() -> bytes:
            rows = _rows(body)
            app.state.charge(caller, len(rows) // EVENTS_OF_A_REQUEST)
            return orjson.dumps(service.observe(rows))

        return Response(await turns.take(read), media_type="application/json")

    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Say that it answers, and what it holds."""
        return service.health()

    @app.get("/v1/health")
    async def alive() -> dict[str, str]:
        """Say that it answers, to anybody."""
        return {"status": "ok", "version": __version__}

    @app.get("/metrics", include_in_schema=False)
    async def counts() -> Response:
        """Counts and times, for Prometheus."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return app


class _Turns:
    """One request after the other, on a thread of its own."""

    # A request whose time is over before its turn is not begun.
    # One that has begun is answered, however late: its events are read, and to post them again would find them set
    # aside as repetitions.

    def __init__(self, queue: int, metrics: FrontMetrics) -> None:
        self._queue, self._metrics, self._waiting = queue, metrics, 0
        self._reader = ThreadPoolExecutor(1, "visir-scores")

    async def take(self, work: Callable[[], T]) -> T:
        """The result of this work. Raises `HttpError` (503) where too many wait."""
        if self._waiting >= self._queue:
            self._metrics.refused("queue")
            raise busy("too many requests are waiting to be read.", 1)
        self._waiting += 1
        turn = self._reader.submit(work)
        answer = asyncio.wrap_future(turn)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            if turn.cancel():
                raise
            return await answer
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Let what has begun end; what waits is not begun."""
        self._reader.shutdown(cancel_futures=True)


_FEWER = "post fewer events at once"


def _rows(body: bytes) -> list[Mapping[str, Any]]:
    hint = 'post JSON: {"events": [{"visitor": "v7", "time": 1740787801564468, "action": "page"}]}'
    if body.count(b",") > _MOST_PARTS:
        raise RefusedError([f"the body has more than {_MOST_PARTS:,} parts"], _FEWER, status=413)
    try:
        document = orjson.loads(body)
    except ValueError as fault:
        raise RefusedError([f"no JSON: {fault}"], hint, status=400) from fault
    rows = document.get("events") if isinstance(document, dict) else document
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise RefusedError(["no list of events"], hint)
    if len(rows) > MAX_EVENTS:
        raise RefusedError([f"{len(rows):,} events; at most {MAX_EVENTS:,}"], _FEWER, status=413)
    return rows
