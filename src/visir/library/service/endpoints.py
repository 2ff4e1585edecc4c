"""The endpoints: about the service, searching, looking, changing."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from hashlib import blake2b, sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from visir.library.filters import satisfying
from visir.library.query import DEEPEST, By, System
from visir.library.query import Query as LibraryQuery
from visir.library.query_help import QUERY_HELP
from visir.library.results import path_of_file
from visir.library.service import wire
from visir.library.service.registry import LibraryHandle
from visir.library.service.requests import (
    CONDITION,
    DirectRoute,
    InLibrary,
    OfItem,
    ToUpdate,
    admin_only,
    body_of,
    conditions_of,
    form_of,
    form_schema,
    has_already,
    known_only,
    log_queries,
    noted,
    queries_of,
    registry_of,
    schema,
    unless_gone,
)
from visir.library.service.responses import batch_json, valid_utf8
from visir.serving.refusals import HttpError, not_found
from visir.version import __version__

if TYPE_CHECKING:
    from visir.library.check import ItemFile
    from visir.library.filters import FieldCondition
    from visir.library.snapshot import LibrarySnapshot

REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": wire.ErrorBody, "description": description}
    for code, description in {
        400: "Not understood.",
        401: "A token is needed, or it is not valid.",
        403: "The token does not allow this.",
        404: "There is no such library, item or category.",
        422: "Understood, and not acceptable.",
        429: "Too many requests; see Retry-After.",
        503: "Busy, or took too long; see Retry-After.",
    }.items()
}
LARGE: dict[int | str, dict[str, Any]] = {
    413: {"model": wire.ErrorBody, "description": "Too many bytes or pixels."},
    415: {"model": wire.ErrorBody, "description": "Of another media type."},
}
_LIBRARY = "/v1/libraries/{library}"

about = APIRouter(tags=["about"])
searching = APIRouter(prefix=_LIBRARY, tags=["search"], responses=REFUSALS, route_class=DirectRoute)
looking = APIRouter(prefix=_LIBRARY, tags=["items"], responses=REFUSALS, route_class=DirectRoute)
changing = APIRouter(
    prefix=_LIBRARY,
    tags=["admin"],
    dependencies=[Depends(admin_only)],
    responses={**REFUSALS, 409: {"model": wire.ErrorBody, "description": "An update is under way."}},
)


def _json(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY), status, media_type="application/json")


# Health, metrics, the list of libraries, and the page.

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@about.get("/v1/health", response_model=wire.Health)
async def health(request: Request) -> Response:
    """The process is alive."""
    status = "closing" if request.app.state.closing else "ok"
    return _json({"status": status, "version": __version__})


@about.get(
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


@about.get("/metrics", response_class=Response, include_in_schema=False)
def metrics(request: Request) -> Response:
    """Counts and times, for Prometheus."""
    return Response(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@about.get(
    "/v1/libraries",
    response_model=list[wire.LibraryInfo],
    responses=REFUSALS,
    dependencies=[Depends(known_only)],
)
def libraries(request: Request) -> Response:
    """What is served, and what each library offers."""
    return _json([handle.info() for handle in registry_of(request).handles.values()])


@about.get("/", include_in_schema=False)
async def page(request: Request) -> Response:
    """The search page."""
    return _file(request, "index.html")


@about.get("/static/{file}", include_in_schema=False)
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


# Searching: by words, by a photo, by both, several at once.


@searching.post("/search", response_model=wire.Results, openapi_extra=schema(wire.SearchBody), responses=LARGE)
async def search(request: Request, handle: InLibrary) -> Response:
    """Search by words, by a picture (base64), by a picture of the library, or by words and one of these."""
    body = await body_of(request, wire.SearchBody)
    log_queries(request, [body])
    (answer,) = await _answers(request, handle, await queries_of(request, [body], handle))
    return Response(answer, media_type="application/json")


@searching.post(
    "/search/photo", response_model=wire.Results, openapi_extra=form_schema(wire.SearchForm), responses=LARGE
)
async def search_photo(request: Request, handle: InLibrary) -> Response:
    """Search by a photo sent as a file, as a browser's form sends it; the other fields as in a search."""
    fields, photo = await form_of(request)
    log_queries(request, [fields])
    (answer,) = await _answers(request, handle, await queries_of(request, [fields], handle, photo))
    return Response(answer, media_type="application/json")


@searching.post(
    "/search/batch", response_model=wire.BatchResults, openapi_extra=schema(wire.BatchBody), responses=LARGE
)
async def search_batch(request: Request, handle: InLibrary) -> Response:
    """Several searches at once, answered in order; each counts as a request at least. One at fault refuses them all."""
    bodies = (await body_of(request, wire.BatchBody)).queries
    log_queries(request, bodies)
    queries = await queries_of(request, bodies, handle)
    return Response(batch_json(await _answers(request, handle, queries)), media_type="application/json")


@searching.get("/items/{item}/similar", response_model=wire.Results)
async def similar(
    request: Request,
    handle: InLibrary,
    item: OfItem,
    system: System | None = None,
    k: Annotated[int, Query(ge=1, le=wire.MOST_RESULTS)] = 10,
    offset: Annotated[int, Query(ge=0, le=DEEPEST - wire.MOST_RESULTS)] = 0,
) -> Response:
    """Pictures of the library that are like this one."""
    (answer,) = await _answers(request, handle, [LibraryQuery(like=item, system=system, k=k, offset=offset)])
    return Response(answer, media_type="application/json")


async def _answers(request: Request, handle: LibraryHandle, queries: Sequence[LibraryQuery]) -> list[bytes]:
    noted(request, library=handle.name)
    heavy = any(query.image is not None or query.rerank for query in queries)
    return await unless_gone(request, handle.search(queries, heavy=heavy))


# Looking: lists of pictures, everything known of one, the pictures themselves, categories, explanations.

_WORDS, _CAPTIONS = 30, 5
SHOWN = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp", "image/avif", "image/bmp"})
"""Media types of originals that are handed out: pictures that a browser shows, and none that can hold a script."""
_ALONE = {"Content-Security-Policy": "default-src 'none'; sandbox", "Content-Disposition": "inline"}
_UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "The caller has these bytes (`If-None-Match`)."}}
_MOST_SKIPPED = 10_000_000
_LONGEST_WHERE = 16_000
_WHERE = "JSON text of a list of conditions, as `where` of a search; all of them must hold."
_EXAMPLE = '[{"field": "width", "op": ">=", "value": 300}]'


@looking.get("/items", response_model=wire.ItemPage)
def items(
    request: Request,
    handle: InLibrary,
    category: Annotated[str, Query(max_length=500, description="This category and those below it.")] = "",
    offset: Annotated[int, Query(ge=0, le=_MOST_SKIPPED)] = 0,
    k: Annotated[int, Query(ge=1, le=wire.MOST_RESULTS)] = 50,
    where: Annotated[str, Query(max_length=_LONGEST_WHERE, description=_WHERE, examples=[_EXAMPLE])] = "[]",
) -> Response:
    """Pictures, the newest first; by name where they have no date, and by where they lie where names are equal."""
    conditions = conditions_of(where)
    request.app.state.charge(request.scope["state"]["caller"], CONDITION * len(conditions))
    ids, total = listed(handle.library, category, offset, k, conditions)
    cards = handle.cards.of(ids)
    shown = [cards[item][0] for item in ids if item in cards]
    after = offset + k
    order = handle.library.listed[1]
    return _json({"items": shown, "total": total, "next_offset": after if after < total else None, "order": order})


def listed(
    library: LibrarySnapshot, category: str, offset: int, k: int, conditions: Sequence[FieldCondition] = ()
) -> tuple[list[str], int]:
    """Ids of a page of items, and how many there are in all. Raises `FilterError` for conditions that fit no field."""
    columns = library.columns
    order = library.listed[0]
    if category or conditions:
        order = order[satisfying(columns, conditions, library.fields, category=category or None)[order]]
    return columns.ids.take(order[offset : offset + k]).to_pylist(), len(order)


@looking.get("/items/{item}", response_model=wire.ItemInfo)
def item(request: Request, handle: InLibrary, item: OfItem) -> Response:
    """Everything known of one picture, and its heaviest words where the library has a sparse head."""
    picture = handle.item(item)
    return _json(
        {
            "id": picture.id,
            "files": [
                {
                    "path": valid_utf8(file.path),
                    "name": valid_utf8(file.name),
                    "category": valid_utf8(file.category),
                    "place": _place(handle, file) if request.app.state.limits.paths else None,
                }
                for file in picture.files
            ],
            "captions": [valid_utf8(text) for _, text in picture.captions],
            "fields": _fields(picture.fields),
            "width": picture.width,
            "height": picture.height,
            "format": picture.format,
            "bytes": picture.bytes,
            "taken": picture.taken,
            "camera": None if picture.camera is None else valid_utf8(picture.camera),
            "category": valid_utf8(picture.category),
            "duplicates": [duplicate for duplicate, _ in handle.library.near_duplicates(item)],
            "words": _weighted(handle.searcher.words(item, _WORDS)),
        }
    )


@looking.get(
    "/items/{item}/thumbnail",
    response_class=Response,
    responses={200: {"content": {"image/webp": {}}, "description": "WebP, at most 320 × 320 pixels."}, **_UNCHANGED},
)
def thumbnail(request: Request, handle: InLibrary, item: OfItem) -> Response:
    """A small picture."""
    data = handle.library.thumbnail(item)
    if data is None:
        handle.item(item)
        raise HttpError(404, "there is no thumbnail of this item.", hint="its source has no picture of it")
    return _picture(request, data, "image/webp")


@looking.get(
    "/items/{item}/image",
    response_class=Response,
    responses={
        200: {"content": {media_type: {} for media_type in sorted(SHOWN)}, "description": "The original's bytes."},
        **_UNCHANGED,
    },
)
def image(
    request: Request,
    handle: InLibrary,
    item: OfItem,
    n: Annotated[int | None, Query(ge=1, le=1000, description="Of a product this one of its pictures.")] = None,
) -> Response:
    """The original, as it lies on disk; only of types that browsers show."""
    picture = handle.item(item)
    if picture.media_type not in SHOWN:
        message = f"the original is of a type that is not handed out: {picture.format}."
        raise HttpError(404, message, hint="take its thumbnail")
    data, media_type = handle.original(item, n)
    if media_type not in SHOWN:
        raise HttpError(404, "the original is of a type that is not handed out.", hint="take its thumbnail")
    return _picture(request, data, media_type, headers=_ALONE)


@looking.post(
    "/items/{item}/explain", response_model=wire.ExplainedHit, openapi_extra=schema(wire.SearchBody), responses=LARGE
)
async def explain(request: Request, handle: InLibrary, item: OfItem) -> Response:
    """Why this picture is an answer to a search: words of both sides, captions near the query, parts of the score."""
    body = await body_of(request, wire.SearchBody)
    log_queries(request, [body])
    noted(request, library=handle.name)
    (query,) = await queries_of(request, [body], handle)

    def explained() -> dict[str, Any]:
        handle.item(item)
        explanation = handle.searcher.explain(query, item, captions=_CAPTIONS, words=_WORDS)
        return {
            "terms": [
                {"word": term.term, "query": term.query, "document": term.document, "share": term.share}
                for term in explanation.terms
            ],
            "captions": [{"text": text, "score": score} for text, score in explanation.captions],
            "parts": {name: asdict(part) for name, part in explanation.parts.items()},
            "words": _weighted(explanation.words),
            "found_words": [asdict(match) for match in explanation.found_words],
            "regions": None if explanation.regions is None else asdict(explanation.regions),
        }

    return _json(await run_in_threadpool(explained))


@looking.get("/facets", response_model=wire.FacetList)
def facets(
    request: Request,
    handle: InLibrary,
    category: Annotated[str, Query(max_length=500, description="This category and those below it.")] = "",
    where: Annotated[str, Query(max_length=_LONGEST_WHERE, description=_WHERE, examples=[_EXAMPLE])] = "[]",
    field: Annotated[list[str] | None, Query(max_length=16, description="These fields only.")] = None,
    text: Annotated[str, Query(max_length=wire.MOST_TEXT, description=QUERY_HELP["text"])] = "",
    like: Annotated[str, Query(max_length=wire.MOST_TEXT, description=QUERY_HELP["like"])] = "",
    by: By | None = None,
    system: System | None = None,
    read_prices: bool = True,
) -> Response:
    """How many of the items that a search finds have each brand, lie in each category, cost how much."""
    conditions = conditions_of(where)
    request.app.state.charge(request.scope["state"]["caller"], CONDITION * (1 + len(conditions)))
    query: dict[str, Any] = {"where": conditions, "category": category or None, "read_prices": read_prices}
    named = {"text": text or None, "like": like or None, "by": by, "system": system}
    query |= {name: value for name, value in named.items() if value is not None}
    if text:
        noted(request, library=handle.name, **({"queries": [text]} if request.app.state.log.queries else {}))
    return _json(handle.searcher.facets(query, field).to_dict())


@looking.get("/categories", response_model=list[wire.CategoryNode])
def categories(handle: InLibrary) -> Response:
    """The tree of categories: the folders below a folder of photos, or what the source calls categories."""
    return _json([asdict(category) for category in handle.searcher.categories()])


def _picture(request: Request, data: bytes, media_type: str, headers: Mapping[str, str] | None = None) -> Response:
    """A picture that was found, checked and read for this caller now."""
    # A browser keeps it, and asks each time before it shows it: a picture that was taken out, or that is not this
    # caller's to see any more, is gone from the browser too.
    tag = f'"{blake2b(data, digest_size=16).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", **(headers or {})}
    if has_already(request, tag):
        return Response(status_code=304, headers=headers)  # with all headers: a browser takes over the newer ones
    return Response(data, media_type=media_type, headers=headers)


def _place(handle: LibraryHandle, file: ItemFile) -> str | None:
    path = path_of_file(handle.library, file)
    return None if path is None else valid_utf8(str(path))


def _fields(fields: Any) -> dict[str, Any]:
    """Name → value; a list where the source tells several."""
    values: dict[str, Any] = {}
    for name, value in fields:
        shown = valid_utf8(value) if isinstance(value, str) else value
        if name in values:
            values[name] = [*(values[name] if isinstance(values[name], list) else [values[name]]), shown]
        else:
            values[name] = shown
    return values


def _weighted(words: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"word": word, "weight": weight} for word, weight in words]


# Changing a library: bring it up to date, take a picture out.


@changing.post("/update", response_model=wire.UpdateProgress, status_code=202)
async def update(request: Request, handle: ToUpdate) -> Response:
    """Look at the source again, in the background: new, changed, moved and deleted pictures."""
    noted(request, library=handle.name)
    handle.update()
    return _json(handle.progress, 202)


@changing.get("/update", response_model=wire.UpdateProgress)
async def progress(handle: ToUpdate) -> Response:
    """How far the update is, and what the last one did."""
    return _json(handle.progress)


@changing.delete("/items/{item}", response_model=wire.DeletedItem)
def delete(request: Request, handle: InLibrary, item: OfItem) -> Response:
    """Take a picture out of the library; later updates leave it out. The photo itself stays where it is."""
    noted(request, library=handle.name, item=item)
    return _json({"id": item, "generation": handle.remove(item)})
