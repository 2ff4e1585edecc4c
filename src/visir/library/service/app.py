"""`create_app`: the service as an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from visir.collections.budget import DECODING
from visir.errors import VisirError
from visir.library.service import wire
from visir.library.service.errors import HttpError, from_validation, from_visir, unreadable
from visir.library.service.limits import RateLimiter
from visir.library.service.logs import ServiceLog
from visir.library.service.metrics import Metrics
from visir.library.service.middleware import PUBLIC_PATHS, ServiceMiddleware, charge
from visir.library.service.registry import LibraryRegistry
from visir.library.service.routers import about, admin, items, search
from visir.library.service.settings import ServiceSettings
from visir.library.service.tokens import TokenFolder
from visir.version import __version__

if TYPE_CHECKING:
    from starlette.types import Lifespan

    from visir.encoders.base import Encoder

_ABOUT = """Search photos by words, by a photo, or by both.

Every refusal has one shape, `{"error": {code, message, hint}}`; the hint is the next thing to do."""


def create_app(
    settings: ServiceSettings,
    *,
    log: ServiceLog | None = None,
    loaded: dict[str, Encoder] | None = None,
    callback: Callable[[str], object] = lambda message: None,
) -> FastAPI:
    """The service over these libraries, which are opened, and whose models are loaded, here.

    Only `settings` configure it: nothing is read from the environment, no port is opened, and two applications in one
    process are independent.

    Args:
        settings: What is served, and how.
        log: Where requests and events go. Default: JSON lines on standard error.
        loaded: Encoders in memory, by name; those that are loaded are added.
        callback: Called with what is done before it answers: "loading the model … of photos".

    Raises:
        LibraryError: A folder is no library.
        TokenError: The folder of tokens cannot be read.
        ConfigurationError: Libraries have the same name.
    """
    log = log or ServiceLog(queries=settings.log_queries)
    metrics = Metrics()
    metrics.lost(lambda: log.dropped)
    tokens = None if settings.tokens is None else TokenFolder(settings.tokens)
    registry = LibraryRegistry(settings, metrics, log, loaded=loaded, callback=callback)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        registry.watch(settings.reload, log)
        try:
            yield
        finally:
            app.state.closing = True
            await asyncio.to_thread(registry.close)

    app = described_app(lifespan, docs=settings.docs)
    app.state.registry, app.state.metrics, app.state.log, app.state.closing = registry, metrics, log, False
    app.state.limits = settings
    DECODING.limit = settings.decoded
    _refusals(app, log)
    app.openapi = lambda: describe(app, with_tokens=tokens is not None)  # type: ignore[method-assign]
    rate = RateLimiter(settings.rate, settings.burst)
    app.state.charge = lambda caller, cost: charge(caller, cost, rate, metrics)
    app.add_middleware(ServiceMiddleware, settings=settings, tokens=tokens, rate=rate, metrics=metrics, log=log)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=[origin.rstrip("/") for origin in settings.origins],
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
            expose_headers=["X-Request-Id", "Retry-After"],
        )
    return app


def described_app(lifespan: Lifespan[FastAPI] | None = None, *, docs: bool = False) -> FastAPI:
    """The application's paths, without libraries: enough to describe them."""
    app = FastAPI(
        title="visir",
        version=__version__,
        description=_ABOUT,
        openapi_url="/v1/openapi.json",
        docs_url="/docs" if docs else None,
        redoc_url=None,
        redirect_slashes=False,  # a redirection would send people to whatever the Host header says
        swagger_ui_oauth2_redirect_url=None,
        lifespan=lifespan,
    )
    for router in (about.router, search.router, items.router, admin.router):
        app.router.routes += router.routes  # `include_router` would have each request matched twice
    return app


def _refusals(app: FastAPI, log: ServiceLog) -> None:
    """Everything that is raised becomes the one shape of errors."""

    async def refused(_: Request, fault: Exception) -> Response:
        assert isinstance(fault, HttpError)
        return fault.response()

    async def mended(_: Request, fault: Exception) -> Response:
        assert isinstance(fault, VisirError)
        refusal = from_visir(fault)
        if not isinstance(refusal, HttpError):
            log.write("error", "fault", fault=str(fault), traceback=traceback.format_exception(fault))
            refusal = unreadable()
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


def describe(app: FastAPI, *, with_tokens: bool) -> dict[str, Any]:
    """OpenAPI, with the bodies that are read from their bytes, and tokens where they are needed."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        _, bodies = models_json_schema(
            [(body, "validation") for body in (wire.SearchBody, wire.SearchForm, wire.BatchBody)],
            ref_template="#/components/schemas/{model}",
        )
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        schemas.update(bodies["$defs"])
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        if with_tokens:
            schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            for path, methods in schema["paths"].items():
                for operation in methods.values():
                    operation["security"] = [] if path in PUBLIC_PATHS else [{"token": []}]
        app.openapi_schema = schema
    return app.openapi_schema
