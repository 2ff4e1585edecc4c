"""Every request passes this layer once: it checks host, token, rate, sizes and time; then come headers and the log.

Plain ASGI, because Starlette's convenient kind of middleware costs more than a search among a thousand pictures.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
import traceback
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from visir.collections.budget import DECODING
from visir.library.service.errors import HttpError, busy
from visir.library.service.limits import BodyBudget, LimitedBody, RateLimiter, too_large
from visir.library.service.logs import ServiceLog
from visir.library.service.metrics import Metrics
from visir.library.service.settings import ServiceSettings
from visir.library.service.tokens import SCOPES, TokenFolder

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PUBLIC_PATHS = frozenset({"/", "/v1/health", "/v1/ready", "/v1/openapi.json", "/docs"})
"""Paths that need no token: none of them reveals anything of a library."""
PUBLIC_PREFIX = "/static/"

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
class Caller:
    """The caller: the token's name, or "" without tokens; the key by which requests are counted; the allowed scopes."""

    name: str
    key: str
    scopes: frozenset[str]


def charge(caller: Caller, cost: float, rate: RateLimiter, metrics: Metrics) -> None:
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


class ServiceMiddleware:
    """The outermost layer of the service but CORS."""

    def __init__(
        self,
        app: ASGIApp,
        settings: ServiceSettings,
        tokens: TokenFolder | None,
        rate: RateLimiter,
        metrics: Metrics,
        log: ServiceLog,
    ) -> None:
        self._app, self._settings, self._tokens = app, settings, tokens
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
            time_for_body = self._settings.body_timeout if _has_body(request.headers) else 0.0
            async with asyncio.timeout(self._settings.timeout + time_for_body) as limit:
                body = LimitedBody(
                    receive,
                    self._settings.body,
                    self._bodies,
                    lambda: limit.reschedule(loop.time() + self._settings.timeout),
                )
                await self._app(scope, body, request.send)
        except HttpError as refused:
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
            DECODING.release(scope.get("state", {}).pop("prepared", 0))
            self._note(scope, request)

    def _admit(self, scope: Scope, headers: dict[bytes, list[bytes]]) -> None:
        """Raise `HttpError`, or put the caller into the scope's state."""
        if self._hosts:
            named = headers.get(b"host", [])
            if len(named) != 1 or _host(named[0]) not in self._hosts:
                raise HttpError(
                    400, "this service is not known under that host name.", hint="visir library serve --allow-host NAME"
                )
        if self._tokens is None and scope["method"] not in _HARMLESS and self._foreign(headers):
            raise HttpError(
                403, "a page of another origin may not ask this.", hint="visir library serve --allow-origin ORIGIN"
            )
        path, now = scope["path"], time.monotonic()
        is_open = path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIX)
        state: MutableMapping[str, Any] = scope.setdefault("state", {})
        address = scope["client"][0] if scope.get("client") else "unknown"
        caller = self._caller(headers, address, now, is_open)
        state["caller"] = caller
        if not is_open:
            charge(caller, 0.1 if path.endswith("/thumbnail") else 1.0, self._rate, self._metrics)
            if "search" not in caller.scopes and not _is_admin(scope):
                raise HttpError(403, f"the token {caller.name!r} may not search.", hint="it has no scope 'search'")
        for value in headers.get(b"content-length", []):
            if value.isdigit() and (len(value) > 18 or int(value) > self._settings.body):
                self._metrics.refused("body")
                raise too_large(self._settings.body)

    def _foreign(self, headers: dict[bytes, list[bytes]]) -> bool:
        """Whether a browser sends this request for a page of another origin.

        Without tokens nothing else keeps a visited page from having the browser start an update on 127.0.0.1: the page
        could not read the answer, but the update would run. Programs send neither header.
        """
        (origin,), (site,) = headers.get(b"origin", [b""])[:1], headers.get(b"sec-fetch-site", [b""])[:1]
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
                hint="send Authorization: Bearer TOKEN; whoever runs the service makes one: visir library token new",
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


def _has_body(headers: dict[bytes, list[bytes]]) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", [b"0"])[0] != b"0"


def _host(value: bytes) -> str:
    """The name of a Host header, without its port."""
    name = value.decode("latin-1").lower()
    return name if name.endswith("]") else re.sub(r":\d*$", "", name)


def _is_admin(scope: Scope) -> bool:
    """Whether this is for the scope "admin" alone; the route itself asks for that scope."""
    return bool(scope["method"] == "DELETE" or scope["path"].endswith("/update"))
