"""The front of a service: every request passes it once, before the application.

It checks host, origin, token, rate, sizes and time, gives every answer its headers, and writes the log. What guards one
service guards all: an application says what it is (`Guarded`) and calls `guard`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from visir.errors import VisirError
from visir.serving.logs import ServiceLog
from visir.serving.refusals import HttpError, busy, from_validation, too_large
from visir.serving.settings import FrontMetrics, FrontSettings, token_verb
from visir.serving.tokens import SCOPES, TokenFolder

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

REMEMBERED_CALLERS = 10_000

_HARMLESS = ("GET", "HEAD", "OPTIONS")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_CSP = (
    "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_DOCS_CSP = (
    "default-src 'self'; img-src 'self' data: https://fastapi.tiangolo.com; style-src 'self' https://cdn.jsdelivr.net; "
    "script-src 'self' 'unsafe-inline' https://cdn.jsdelivr.net; frame-ancestors 'none'"
)
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
]


@dataclass(frozen=True)
class Guarded:
    """What the front needs to know of the application behind it."""

    scope: str  # a token needs this scope, but on public paths and where `other_scope`
    # Paths that need no token and count nothing: none of them reveals anything of what is served.
    public: frozenset[str]
    public_prefix: str | None = None  # what they may begin with, besides
    cost: Callable[[Scope], float] = lambda scope: 1.0  # what a request counts before its work is known
    other_scope: Callable[[Scope], bool] = lambda scope: False  # whether the route itself asks for another scope
    # What an error of visir is to a client; None where that is nothing to tell: it goes into the log.
    refusal_of: Callable[[VisirError], HttpError | None] = lambda fault: None
    serves: str = "data"  # what it cannot read when it fails: "library"
    too_large: str = ""  # what to do when a body is too large
    # Called at the end of each request with its state.
    release: Callable[[MutableMapping[str, Any]], object] = lambda state: None

    def is_public(self, path: str) -> bool:
        """Whether a path needs no token."""
        return path in self.public or (self.public_prefix is not None and path.startswith(self.public_prefix))


def guard(app: FastAPI, settings: FrontSettings, guarded: Guarded, metrics: FrontMetrics, log: ServiceLog) -> None:
    """Put the front before an application; `app.state.charge(caller, cost)` then counts more work."""
    # Everything that is raised becomes the one shape of errors.
    tokens = None if settings.tokens is None else TokenFolder(settings.tokens)
    metrics.lost(lambda: log.dropped)
    rate = RateLimiter(settings.rate, settings.burst)
    app.state.charge = lambda caller, cost: charge(caller, cost, rate, metrics)
    app.state.metrics, app.state.log, app.state.limits = metrics, log, settings
    _refusals(app, guarded, log)
    app.add_middleware(
        ServiceMiddleware, settings=settings, guarded=guarded, tokens=tokens, rate=rate, metrics=metrics, log=log
    )
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=[origin.rstrip("/") for origin in settings.origins],
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
            expose_headers=["X-Request-Id", "Retry-After"],
        )


def check_kind(request: Request, kind: str, called: str) -> None:
    """Refuse a body that is declared as another type than `kind`: no page of a stranger can send one of this type."""
    # Raises `HttpError` (415).
    declared = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if declared != kind:
        declared = declared[:100] or "of no declared type"
        raise HttpError(415, f"the body is {declared}, not {called}.", hint=f"Content-Type: {kind}")


@dataclass(frozen=True)
class Caller:
    """The caller: the token's name, or "" without tokens; the key by which requests are counted; the allowed scopes."""

    name: str
    key: str
    scopes: frozenset[str]


def charge(caller: Caller, cost: float, rate: RateLimiter, metrics: FrontMetrics) -> None:
    """Count a request of this caller. Raises `HttpError` (429) when there were too many."""
    after = rate.take(caller.key, cost, time.monotonic())
    if after:
        metrics.refused("rate")
        seconds = int(after) + 1
        raise HttpError(
            429,
            f"too many requests: {rate.rate:g} a second are allowed, {rate.burst} at once.",
            hint=f"try again in {seconds} s",
            headers={"Retry-After": str(seconds)},
        )


class RateLimiter:
    """Limits requests: a bucket for each caller holds `burst` requests and is filled by `rate` of them a second."""

    # The 10,000 callers last seen are remembered. A caller who is forgotten starts with a full bucket: with a rate of
    # 20 and a burst of 200, a bucket is full after ten seconds anyway.

    def __init__(self, rate: float, burst: int) -> None:
        self.rate, self.burst = rate, burst
        self._buckets: LRUCache[str, tuple[float, float]] = LRUCache(REMEMBERED_CALLERS)
        self._taking = threading.Lock()  # what a request counts may be known in the thread that works on it

    def take(self, caller: str, cost: float, now: float) -> float:
        """Take `cost` out of the caller's bucket: 0, or the seconds after which there will be enough."""
        # A cost above `burst` needs a bucket that is full but for the request itself, and leaves it with a debt: it is
        # not refused for ever, and nothing else is answered until it is paid. `now` is a monotonic clock's.
        if not self.rate:
            return 0.0
        with self._taking:
            level, before = self._buckets.get(caller, (float(self.burst), now))
            level = min(float(self.burst), level + (now - before) * self.rate)
            short = max(0.0, min(cost, self.burst - (cost > 1)) - level)
            self._buckets[caller] = (level if short else level - cost, now)
        return short / self.rate


class BodyBudget:
    """How much all bodies together may take while they come in and are worked on."""

    def __init__(self, limit: int) -> None:
        self.limit, self.size = limit, 0


class LimitedBody:
    """Counts a request's body while it comes in, with or without Content-Length: no header needs to be believed."""

    def __init__(
        self,
        receive: Callable[[], Awaitable[Any]],
        limit: int,
        bodies: BodyBudget,
        received: Callable[[], None],
        hint: str = "",
    ) -> None:
        self._receive, self._limit, self._bodies, self._received = receive, limit, bodies, received
        self._hint = hint
        self._count, self._all = 0, False

    async def __call__(self) -> Any:
        """The next message; `HttpError` when the body has grown too large (413), or all bodies together have (503)."""
        message = await self._receive()
        if message["type"] == "http.request" and not self._all:
            size = len(message.get("body", b""))
            self._count += size
            self._bodies.size += size
            self._all = not message.get("more_body", False)
            if self._count > self._limit:
                raise too_large(self._limit, self._hint)
            if self._bodies.size > self._bodies.limit:
                raise busy("too many large bodies are coming in at once.", 2)
            if self._all:
                self._received()
        return message

    async def rest(self) -> Any:
        """The next message of a body that is not taken any more."""
        return {"type": "http.disconnect"} if self._all else await self._receive()

    def release(self) -> None:
        """The body is no longer held."""
        self._bodies.size -= self._count
        self._count = 0


class ServiceMiddleware:
    """The outermost layer of a service but CORS."""

    # Plain ASGI, because Starlette's convenient kind of middleware costs more than a search among a thousand pictures.

    def __init__(
        self,
        app: ASGIApp,
        settings: FrontSettings,
        guarded: Guarded,
        tokens: TokenFolder | None,
        rate: RateLimiter,
        metrics: FrontMetrics,
        log: ServiceLog,
    ) -> None:
        self._app, self._settings, self._guarded, self._tokens = app, settings, guarded, tokens
        self._token_fault = ""  # written into the log already
        self._rate, self._metrics, self._log = rate, metrics, log
        self._bodies = BodyBudget(settings.bodies)
        self._origins = frozenset(origin.rstrip("/") for origin in settings.origins)
        self._hosts = frozenset(host.lower() for host in settings.hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; pass on what is not a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        request = _Request(scope, send)
        body: LimitedBody | None = None
        try:
            self._admit(scope, request.headers)
            loop = asyncio.get_running_loop()
            length = request.headers.get(b"content-length", [b"0"])[0]
            has_body = b"transfer-encoding" in request.headers or length != b"0"
            time_for_body = self._settings.body_timeout if has_body else 0.0
            async with asyncio.timeout(self._settings.timeout + time_for_body) as limit:
                body = LimitedBody(
                    receive,
                    self._settings.body,
                    self._bodies,
                    lambda: limit.reschedule(loop.time() + self._settings.timeout),
                    self._guarded.too_large,
                )
                await self._app(scope, body, request.send)
        except HttpError as refused:
            if refused.status == 413 and _is_soon_over(request.headers, 2 * self._settings.body):
                await _pass_over(receive if body is None else body.rest, self._settings.body)
            await self._refuse(request, refused)
        except TimeoutError:
            self._metrics.refused("timeout")
            await self._refuse(request, busy(f"took longer than {self._settings.timeout:g} s.", 5, "ask for less"))
        except Exception as fault:
            self._log.write(
                "error", "fault", id=request.id, fault=repr(fault), traceback=traceback.format_exception(fault)
            )
            hint = f"the service's log says more about request {request.id}"
            await self._refuse(request, HttpError(500, "the service met a fault of its own.", hint=hint))
        finally:
            if body is not None:
                body.release()
            self._guarded.release(scope.get("state", {}))
            self._note(scope, request)

    def _admit(self, scope: Scope, headers: dict[bytes, list[bytes]]) -> None:
        """Raise `HttpError`, or put the caller into the scope's state."""
        named, verb = headers.get(b"host", []), self._settings.VERB
        if len(named) > 1 or (self._hosts and (not named or _host(named[0]) not in self._hosts)):
            raise HttpError(400, "this service is not known under that host name.", hint=f"{verb} --allow-host NAME")
        if self._tokens is None and scope["method"] not in _HARMLESS and self._foreign(headers):
            raise HttpError(403, "a page of another origin may not ask this.", hint=f"{verb} --allow-origin ORIGIN")
        path, now = scope["path"], time.monotonic()
        is_open = self._guarded.is_public(path)
        state: MutableMapping[str, Any] = scope.setdefault("state", {})
        address = scope["client"][0] if scope.get("client") else "unknown"
        caller = self._caller(headers, address, now, is_open)
        state["caller"] = caller
        if not is_open:
            charge(caller, self._guarded.cost(scope), self._rate, self._metrics)
            wanted = self._guarded.scope
            if wanted not in caller.scopes and not self._guarded.other_scope(scope):
                raise HttpError(403, f"the token {caller.name!r} may not {wanted}.", hint=f"it has no scope {wanted!r}")
        for value in headers.get(b"content-length", []):
            if value.isdigit() and (len(value) > 18 or int(value) > self._settings.body):
                self._metrics.refused("body")
                raise too_large(self._settings.body, self._guarded.too_large)

    def _foreign(self, headers: dict[bytes, list[bytes]]) -> bool:
        """Whether a browser sends this request for a page of another origin."""
        # Without tokens nothing else keeps a visited page from having the browser start an update on 127.0.0.1: the
        # page could not read the answer, but the update would run. Programs send neither header.
        origins, sites = headers.get(b"origin", [b""]), headers.get(b"sec-fetch-site", [b""])
        if len(origins) > 1 or len(sites) > 1:
            return True  # no browser sends two
        (origin,), (site,) = origins, sites
        if origin.decode("latin-1").rstrip("/") in self._origins or site in (b"same-origin", b"none"):
            return False
        return bool(site) or (bool(origin) and origin.partition(b"://")[2] != headers.get(b"host", [b""])[0])

    def _caller(self, headers: dict[bytes, list[bytes]], address: str, now: float, is_open: bool) -> Caller:
        if self._tokens is None:
            return Caller("", address, frozenset(SCOPES))
        if is_open:
            return Caller("", address, frozenset())
        values = headers.get(b"authorization", [])
        scheme, _, secret = values[0].partition(b" ") if len(values) == 1 else (b"", b"", b"")
        fault, holder = "a token is needed.", None
        if scheme.lower() == b"bearer" and secret.strip():
            holder = self._tokens.holder(secret.strip().decode("latin-1"), now)
            if self._tokens.fault != self._token_fault:
                self._token_fault = self._tokens.fault
                self._log.write("error" if self._token_fault else "info", "tokens", fault=self._token_fault)
            fault = "the token is not known." if holder is None else "the token has expired."
        if holder is None or holder.expired():
            self._metrics.refused("token")
            nobody = Caller("", address, frozenset())
            charge(nobody, 1.0, self._rate, self._metrics)  # guessing is slowed down like everything else
            raise HttpError(
                401,
                fault,
                hint="send Authorization: Bearer TOKEN; whoever runs the service makes one: "
                f"{token_verb(self._settings.VERB)} new",
                headers={"WWW-Authenticate": 'Bearer realm="visir"'},
            )
        return Caller(holder.name, f"token {holder.name}", holder.scopes)

    async def _refuse(self, request: _Request, refused: HttpError) -> None:
        if request.status:
            return  # the answer is on its way already; it can only be cut short
        data = refused.body()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
        headers += [(name.lower().encode(), value.encode("latin-1")) for name, value in refused.headers.items()]
        await request.send({"type": "http.response.start", "status": refused.status, "headers": headers})
        await request.send({"type": "http.response.body", "body": data})

    def _note(self, scope: Scope, request: _Request) -> None:
        seconds = time.perf_counter() - request.began
        endpoint = getattr(scope.get("route"), "path", "other")
        self._metrics.answered(endpoint, scope["method"] if endpoint != "other" else "", request.status, seconds)
        state = scope.get("state", {})
        caller = state.get("caller")
        self._log.write(
            "info",
            "request",
            id=request.id,
            method=scope["method"],
            path=scope["path"],
            status=request.status,
            ms=round(seconds * 1000, 2),
            bytes=request.bytes,
            caller=caller.name if caller else "",
            address=scope["client"][0] if scope.get("client") else "",
            **state.get("noted", {}),
        )


class _Request:
    """One request as the middleware sees it: its headers, its id, and what was sent of the answer."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.began = time.perf_counter()
        self.headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            self.headers.setdefault(name, []).append(value)
        request_id = self.headers.get(b"x-request-id", [b""])[0]
        self.id = request_id.decode() if _REQUEST_ID.fullmatch(request_id) else os.urandom(8).hex()
        self.status = self.bytes = 0
        self._send, self._docs = send, scope["path"] == "/docs"

    async def send(self, message: Message) -> None:
        """Send one message of the answer, with the headers that every answer has."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", []), *_HEADERS, (b"x-request-id", self.id.encode())]
            names = {name for name, _ in headers}
            if b"content-security-policy" not in names:
                headers.append((b"content-security-policy", (_DOCS_CSP if self._docs else _CSP).encode()))
            if b"cache-control" not in names:
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": headers}
        else:
            self.bytes += len(message.get("body", b""))
        await self._send(message)


def _is_soon_over(headers: dict[bytes, list[bytes]], most: int) -> bool:
    """Whether so many bytes, of those that a body says it has, are not worth cutting it off for."""
    return all(not value.isdigit() or int(value[:18]) <= most for value in headers.get(b"content-length", []))


async def _pass_over(receive: Callable[[], Awaitable[Any]], most: int) -> None:
    """Take what a client still sends, for a second: closed at once, it would meet a reset and never see the answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            while most > 0:
                message = await receive()
                most -= len(message.get("body", b""))
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return


def _host(value: bytes) -> str:
    """The name of a Host header, without its port."""
    name = value.decode("latin-1").lower()
    return name if name.endswith("]") else re.sub(r":\d*$", "", name)


def _refusals(app: FastAPI, guarded: Guarded, log: ServiceLog) -> None:
    """Everything that is raised becomes the one shape of errors."""

    async def refused(_: Request, fault: Exception) -> Response:
        assert isinstance(fault, HttpError)
        return fault.response()

    async def mended(_: Request, fault: Exception) -> Response:
        assert isinstance(fault, VisirError)
        refusal = guarded.refusal_of(fault)
        if refusal is None:  # its text may name places on this machine
            log.write("error", "fault", fault=str(fault), traceback=traceback.format_exception(fault))
            refusal = busy(f"the {guarded.serves} cannot be read just now.", 5, hint="the service's log says more")
        return refusal.response()

    async def invalid(_: Request, fault: Exception) -> Response:
        assert isinstance(fault, RequestValidationError)
        return from_validation(fault.errors()).response()

    async def http(_: Request, fault: Exception) -> Response:
        assert isinstance(fault, HTTPException)
        hint = "see /v1/openapi.json" if fault.status_code in (404, 405) else ""
        messages = {404: "there is nothing under this path.", 405: "this path does not take this method."}
        message = messages.get(fault.status_code, str(fault.detail))
        return HttpError(fault.status_code, message, hint=hint, headers=fault.headers).response()

    async def disconnected(_: Request, __: Exception) -> Response:
        return Response(status_code=499)  # no one reads it; the log has the status

    app.add_exception_handler(HttpError, refused)
    app.add_exception_handler(VisirError, mended)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(ClientDisconnect, disconnected)
