"""Searching: by words, by a photo, by both, several at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from visir.library.query import DEEPEST, System
from visir.library.query import Query as LibraryQuery
from visir.library.service import responses, wire
from visir.library.service.registry import LibraryHandle
from visir.library.service.request_parsing import (
    body_of,
    form_of,
    form_schema,
    log_queries,
    noted,
    queries_of,
    schema,
    unless_gone,
)
from visir.library.service.routers import LARGE, REFUSALS, InLibrary, OfItem
from visir.library.service.routers.direct import DirectRoute

router = APIRouter(prefix="/v1/libraries/{library}", tags=["search"], responses=REFUSALS, route_class=DirectRoute)


@router.post("/search", response_model=wire.Results, openapi_extra=schema(wire.SearchBody), responses=LARGE)
async def search(request: Request, handle: InLibrary) -> Response:
    """Search by words, by a picture (base64), by a picture of the library, or by words and one of these."""
    body = await body_of(request, wire.SearchBody)
    log_queries(request, [body])
    (answer,) = await _answers(request, handle, await queries_of(request, [body], handle))
    return Response(answer, media_type="application/json")


@router.post("/search/photo", response_model=wire.Results, openapi_extra=form_schema(wire.SearchForm), responses=LARGE)
async def search_photo(request: Request, handle: InLibrary) -> Response:
    """Search by a photo sent as a file, as a browser's form sends it; the other fields as in a search."""
    fields, photo = await form_of(request)
    log_queries(request, [fields])
    (answer,) = await _answers(request, handle, await queries_of(request, [fields], handle, photo))
    return Response(answer, media_type="application/json")


@router.post("/search/batch", response_model=wire.BatchResults, openapi_extra=schema(wire.BatchBody), responses=LARGE)
async def search_batch(request: Request, handle: InLibrary) -> Response:
    """Several searches at once, answered in order; each counts as a request at least. One at fault refuses them all."""
    bodies = (await body_of(request, wire.BatchBody)).queries
    log_queries(request, bodies)
    queries = await queries_of(request, bodies, handle)
    return Response(responses.batch_json(await _answers(request, handle, queries)), media_type="application/json")


@router.get("/items/{item}/similar", response_model=wire.Results)
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
