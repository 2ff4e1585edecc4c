"""Looking: lists of pictures, everything known of one, the pictures themselves, categories, explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field

from visir.library.facets import CountedOf
from visir.library.filters import satisfying
from visir.library.query import By, System
from visir.library.query_help import QUERY_HELP
from visir.library.results import path_of_file
from visir.library.service import wire
from visir.library.service.request_parsing import (
    CONDITION,
    body_of,
    conditions_of,
    log_queries,
    noted,
    queries_of,
    schema,
)
from visir.library.service.responses import valid_utf8
from visir.library.service.routers import LARGE, REFUSALS, InLibrary, OfItem, has_already
from visir.library.service.routers.direct import DirectRoute
from visir.library.service.wire import ConditionBody
from visir.serving.refusals import HttpError

if TYPE_CHECKING:
    from visir.library.check import ItemFile
    from visir.library.filters import FieldCondition
    from visir.library.service.registry import LibraryHandle
    from visir.library.snapshot import LibrarySnapshot


# The bodies of facets over HTTP.


class FacetValueBody(BaseModel):
    """A value, a range or a category, how many items have it, and the conditions that ask for it."""

    label: str = Field(examples=["20 – 50"])
    count: int
    where: list[ConditionBody]
    category: str | None = Field(description="The path of a category; null for other fields.")


class FacetBody(BaseModel):
    """The values of a field."""

    field: str = Field(examples=["brand"])
    type: Literal["category", "text", "number"]
    more: int = Field(description="How many further values there are.")
    left_out: list[ConditionBody] = Field([], description="Conditions on this very field, which its counts leave out.")
    values: list[FacetValueBody]


class FacetList(BaseModel):
    """How many items satisfy the conditions, and what they have. A field is counted without conditions on itself."""

    total: int
    of: CountedOf = Field("all", description="What is counted: all, what words found, or all that vectors ranked.")
    facets: list[FacetBody]


router = APIRouter(prefix="/v1/libraries/{library}", tags=["items"], responses=REFUSALS, route_class=DirectRoute)

SHOWN = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp", "image/avif", "image/bmp"})
"""Media types of originals that are handed out: pictures that a browser shows, and none that can hold a script."""
_ALONE = {"Content-Security-Policy": "default-src 'none'; sandbox", "Content-Disposition": "inline"}
_UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "The caller has these bytes (`If-None-Match`)."}}
_MOST_SKIPPED = 10_000_000
_LONGEST_WHERE = 16_000
_WHERE = "JSON text of a list of conditions, as `where` of a search; all of them must hold."
_EXAMPLE = '[{"field": "width", "op": ">=", "value": 300}]'


@router.get("/items", response_model=wire.ItemPage)
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


@router.get("/items/{item}", response_model=wire.ItemInfo)
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
            "duplicates": handle.duplicates(item),
            "words": handle.words(item),
        }
    )


@router.get(
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


@router.get(
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


@router.post(
    "/items/{item}/explain", response_model=wire.ExplainedHit, openapi_extra=schema(wire.SearchBody), responses=LARGE
)
async def explain(request: Request, handle: InLibrary, item: OfItem) -> Response:
    """Why this picture is an answer to a search: words of both sides, captions near the query, parts of the score."""
    body = await body_of(request, wire.SearchBody)
    log_queries(request, [body])
    noted(request, library=handle.name)
    (query,) = await queries_of(request, [body], handle)
    return _json(await run_in_threadpool(handle.explain, query, item))


@router.get("/facets", response_model=FacetList)
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


@router.get("/categories", response_model=list[wire.CategoryNode])
def categories(handle: InLibrary) -> Response:
    """The tree of categories: the folders below a folder of photos, or what the source calls categories."""
    return _json(handle.categories())


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


def _json(value: Any) -> Response:
    return Response(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")
