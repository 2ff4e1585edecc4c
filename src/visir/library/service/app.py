"""`create_app`: the service as an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from visir.collections.budget import DECODING
from visir.library.service import wire
from visir.library.service.endpoints import about, changing, looking, searching
from visir.library.service.registry import LibraryRegistry
from visir.library.service.responses import refusal_of
from visir.library.service.settings import Metrics, ServiceSettings
from visir.serving.front import Guarded, guard
from visir.serving.logs import ServiceLog
from visir.version import __version__

if TYPE_CHECKING:
    from starlette.types import Lifespan

    from visir.encoders.base import Encoder

_ABOUT = """Search photos by words, by a photo, or by both.

Every refusal has one shape, `{"error": {code, message, hint}}`; the hint is the next thing to do."""

GUARDED = Guarded(
    scope="search",
    public=frozenset({"/", "/v1/health", "/v1/ready", "/v1/openapi.json", "/docs"}),
    public_prefix="/static/",
    cost=lambda scope: 0.1 if scope["path"].endswith("/thumbnail") else 1.0,
    # For the scope "admin" alone; the route itself asks for that scope.
    other_scope=lambda scope: bool(scope["method"] == "DELETE" or scope["path"].endswith("/update")),
    refusal_of=refusal_of,
    serves="library",
    too_large="send a smaller photo: models look at a few hundred pixels",
    release=lambda state: DECODING.release(state.pop("prepared", 0)),
)


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

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        registry.watch(settings.reload, log)
        try:
            yield
        finally:
            app.state.closing = True
            await asyncio.to_thread(registry.close)

    app = described_app(lifespan, docs=settings.docs)
    guard(app, settings, GUARDED, metrics, log)
    registry = LibraryRegistry(settings, metrics, log, loaded=loaded, callback=callback)
    app.state.registry, app.state.closing = registry, False
    DECODING.limit = settings.decoded
    app.openapi = lambda: describe(app, with_tokens=settings.tokens is not None)  # type: ignore[method-assign]
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
    for router in (about, searching, looking, changing):
        app.router.routes += router.routes  # `include_router` would have each request matched twice
    return app


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
                    operation["security"] = [] if path in GUARDED.public else [{"token": []}]
        app.openapi_schema = schema
    return app.openapi_schema
