"""Scores over HTTP: a shop posts its events as they happen, and gets a probability for each page that opened.

One scorer reads all events, one request after the other. A request counts as a whole: where an event cannot be used
(no visitor, an unknown action, another unit of time) the request is refused with all faults, and none of its events is
read. Events that are late, repeated or from the future are set aside and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from visir.errors import VisirError
from visir.sessions.mapping import LogMapping
from visir.sessions.prediction.live import LiveScorer
from visir.sessions.prediction.stream_events import Fault, MappedStream, fault_of
from visir.sessions.prediction.stream_state import save_state

_log = logging.getLogger("uvicorn.error")

MAX_EVENTS = 10_000
MAX_BYTES = 16 * 1024 * 1024
SAVE_SECONDS = 60.0


class RefusedError(Exception):
    """A request that is not answered.

    Args:
        status: Of HTTP.
        faults: What is wrong, all of it.
        hint: The next thing to do.
    """

    def __init__(self, status: int, faults: list[str], hint: str) -> None:
        super().__init__("; ".join(faults))
        self.status, self.faults, self.hint = status, faults, hint


class ScoreService:
    """A scorer for several callers, and its state on disk. `close` it at the end.

    Args:
        scorer: The scorer.
        mapping: How posted rows become events; None where they are events.
        state: Where the state is saved; None for nowhere.
        lines: How many events were read before.

    Attributes:
        unsaved: Why the state was not saved the last time; None where it was.
    """

    def __init__(
        self, scorer: LiveScorer, *, mapping: LogMapping | None = None, state: Path | None = None, lines: int = 0
    ) -> None:
        self.scorer, self._state, self._lines = scorer, state, lines
        self._mapped = None if mapping is None else MappedStream(mapping, scorer.rejected)
        self._lock = threading.Lock()
        self._saved = time.monotonic()
        self.unsaved: VisirError | None = None

    def observe(self, rows: list[Mapping[str, Any]]) -> dict[str, Any]:
        """Read events, and return their scores and what was set aside.

        Raises:
            RefusedError: Events cannot be used; none was read.
        """
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
                raise RefusedError(422, unusable, "mend them and post the whole request again; no event was read")
            return rows, faults
        try:
            if rows:
                self._mapped.check(rows)
            events = self._mapped.events(rows)
        except VisirError as fault:
            raise RefusedError(422, [fault.message], fault.hint or "") from fault
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
            "not_saved": None if self.unsaved is None else self.unsaved.message,
        }

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
            _log.error("the state was not saved: %s", fault)


def create_app(service: ScoreService) -> FastAPI:
    """The service as an ASGI application: `POST /v1/events` and `GET /health`.

    Args:
        service: What answers. Its state is saved when the application ends.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(title="visir: purchase scores", lifespan=lifespan, docs_url=None, redoc_url=None)

    @app.post("/v1/events")
    async def events(request: Request) -> JSONResponse:
        """Read {"events": [...]} or a list of events; answer with their scores."""
        try:
            rows = _rows(await _body(request))
            return JSONResponse(await asyncio.to_thread(service.observe, rows))
        except RefusedError as refused:
            error = {"code": "refused", "message": str(refused), "faults": refused.faults, "hint": refused.hint}
            return JSONResponse({"error": error}, refused.status)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Say that it answers, and what it holds."""
        return service.health()

    return app


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BYTES:
            raise RefusedError(413, [f"more than {MAX_BYTES:,} bytes"], "post fewer events at once")
    return bytes(body)


def _rows(body: bytes) -> list[Mapping[str, Any]]:
    hint = 'post JSON: {"events": [{"visitor": "v7", "time": 1740787801564468, "action": "page"}]}'
    try:
        document = orjson.loads(body)
    except ValueError as fault:
        raise RefusedError(400, [f"no JSON: {fault}"], hint) from fault
    rows = document.get("events") if isinstance(document, dict) else document
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise RefusedError(422, ["no list of events"], hint)
    if len(rows) > MAX_EVENTS:
        raise RefusedError(413, [f"{len(rows):,} events; at most {MAX_EVENTS:,}"], "post fewer events at once")
    return rows
