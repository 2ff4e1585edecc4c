"""Health, metrics, the list of libraries, and the page."""

from __future__ import annotations

import gzip
from functools import cache
from hashlib import sha256
from importlib.resources import files

import orjson
from fastapi import APIRouter, Depends, Request, Response

from visir.library.service import wire
from visir.library.service.routers import REFUSALS, has_already, known_only, registry_of
from visir.serving.refusals import HttpError, not_found
from visir.version import __version__

router = APIRouter(tags=["about"])

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@router.get("/v1/health", response_model=wire.Health)
async def health(request: Request) -> Response:
    """The process is alive."""
    status = "closing" if request.app.state.closing else "ok"
    return _json({"status": status, "version": __version__})


@router.get(
    "/v1/ready",
    response_model=wire.Ready,
    responses={503: {"model": wire.NotReady, "description": "Closing, or a library is stale."}},
)
async def ready(request: Request) -> Response:
    """Requests may be sent here: every library is loaded, with its models, and is served as it lies on disk."""
    if request.app.state.closing:
        raise HttpError(
            503, "the service is closing.", hint="another instance may answer", headers={"Retry-After": "5"}
        )
    registry = registry_of(request)
    may_know = "search" in request.scope["state"]["caller"].scopes
    statuses = (
        [{"name": name, **handle.lease.status_record()} for name, handle in registry.handles.items()]
        if may_know
        else []
    )
    if registry.stale:
        count = f"{len(registry.stale)} of {len(registry.handles)} libraries"
        refused = HttpError(
            503, f"{count} cannot be served as on disk.", hint="the service's log says why", code="stale"
        )
        answer = {**orjson.loads(refused.body()), "libraries": statuses}
        return Response(orjson.dumps(answer), 503, {"Retry-After": "5"}, media_type="application/json")
    return _json({"status": "ok", "version": __version__, "libraries": statuses})


@router.get("/metrics", response_class=Response, include_in_schema=False)
def metrics(request: Request) -> Response:
    """Counts and times, for Prometheus."""
    return Response(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get(
    "/v1/libraries",
    response_model=list[wire.LibraryInfo],
    responses=REFUSALS,
    dependencies=[Depends(known_only)],
)
def libraries(request: Request) -> Response:
    """What is served, and what each library offers."""
    return _json([handle.info() for handle in registry_of(request).handles.values()])


@router.get("/", include_in_schema=False)
async def page(request: Request) -> Response:
    """The search page."""
    return _file(request, "index.html")


@router.get("/static/{file}", include_in_schema=False)
async def static(request: Request, file: str) -> Response:
    """A part of the page."""
    return _file(request, file)


@cache
def _page() -> dict[str, tuple[bytes, bytes, str, str]]:
    """Every file of the page by its name: bytes, the same packed, type, tag. No other file is served."""
    page_files = {}
    for path in files("visir.library.service").joinpath("page").iterdir():
        kind = _TYPES.get(path.name[path.name.rfind(".") :])
        if kind is not None and path.is_file():
            data = path.read_bytes()
            page_files[path.name] = data, gzip.compress(data, 9, mtime=0), kind, f'"{sha256(data).hexdigest()[:20]}"'
    return page_files


def _file(request: Request, name: str) -> Response:
    page_files = _page()
    if name not in page_files:
        raise not_found("file", name, list(page_files))
    data, packed, kind, tag = page_files[name]
    # A browser revalidates each time (304 when nothing changed), so a new version of visir shows at once.
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if has_already(request, tag):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(packed, headers={**headers, "Content-Encoding": "gzip"}, media_type=kind)
    return Response(data, headers=headers, media_type=kind)


def _json(value: object) -> Response:
    return Response(orjson.dumps(value), media_type="application/json")
