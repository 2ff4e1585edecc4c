"""Reading requests: the library and the item that a path names, bodies, photos, and clients that disconnect."""

from __future__ import annotations

import asyncio
import binascii
import contextlib
import re
from base64 import b64decode
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from inspect import iscoroutinefunction, signature
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import orjson
from fastapi import Depends, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from visir.collections.budget import DECODING
from visir.collections.images import TooLargeError, header, opened
from visir.errors import ImageError, nearest
from visir.library.filters import FieldCondition
from visir.library.query import Query
from visir.library.service.registry import LibraryHandle, LibraryRegistry
from visir.library.service.wire import ITEM, ConditionList, SearchBody
from visir.serving.front import check_kind
from visir.serving.refusals import HttpError, busy, from_validation

if TYPE_CHECKING:
    from visir.library.pictures import PreparedImage
    from visir.library.service.settings import ServiceSettings

# What endpoints depend on is `async`, though nothing waits in it: FastAPI calls a plain function on another thread,
# which costs more than all that these do. And there is little of it, because each costs as much as a part of a search.


def registry_of(request: Request) -> LibraryRegistry:
    """All libraries."""
    registry: LibraryRegistry = request.app.state.registry
    return registry


LONGEST_NAME = 200
LibraryName = Annotated[str, Path(max_length=LONGEST_NAME, description="A name from `/v1/libraries`.")]


async def handle_of(request: Request, library: LibraryName) -> LibraryHandle:
    """The library that the path names, for a request without unknown parameters."""
    await known_only(request)
    return registry_of(request).handle(library)


async def current_handle_of(request: Request, library: LibraryName) -> LibraryHandle:
    """The same, if the library may be served."""
    handle = await handle_of(request, library)
    if (refusal := handle.lease.refusal()) is not None:
        raise refusal
    return handle


async def known_only(request: Request) -> None:
    """Refuse a parameter behind the question mark that the path does not have: `?categroy=dogs` would show
    everything."""
    # The page and health checks may have any: the page reads its own, and others are there to go round caches.
    if not request.scope["query_string"]:
        return
    known = [str(parameter.alias) for parameter in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in known:
            hint = nearest(name[:100], known) if known else "this path takes none"
            raise HttpError(422, f"{name[:100]}: unknown parameter", hint=hint, field=name[:100])


def has_already(request: Request, tag: str) -> bool:
    """Whether the caller has the content of this ETag (with its quotes) already."""
    return tag in request.headers.get("if-none-match", "")


async def admin_only(request: Request) -> None:
    """Refuse a caller without the scope "admin"."""
    caller = request.scope["state"]["caller"]
    if "admin" not in caller.scopes:
        raise HttpError(403, f"the token {caller.name!r} may not change a library.", hint="it has no scope 'admin'")


InLibrary = Annotated[LibraryHandle, Depends(current_handle_of)]
ToUpdate = Annotated[LibraryHandle, Depends(handle_of)]
OfItem = Annotated[str, Path(pattern=ITEM, description="32 hexadecimal digits.")]


# Requests whose parameters need no solving go straight to their endpoint.

_IS_ITEM = re.compile(ITEM)


class DirectRoute(APIRoute):
    """A path below a library (`InLibrary`), and perhaps an item (`OfItem`)."""

    # FastAPI looks up what an endpoint depends on with each request, which takes as long as a search among thousands of
    # pictures. A request without a question mark leaves it nothing to do: the library and the item stand in the path,
    # all else has its default. Every other request, and one that is to be refused, takes FastAPI's way.

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        solved, endpoint = super().get_route_handler(), self.endpoint
        call = endpoint if iscoroutinefunction(endpoint) else partial(run_in_threadpool, endpoint)
        takes_request = "request" in signature(endpoint).parameters

        async def direct(request: Request) -> Response:
            path = dict(request.path_params)
            library = path.pop("library")
            if (
                request.scope["query_string"]
                or len(library) > LONGEST_NAME
                or not all(map(_IS_ITEM.fullmatch, path.values()))
            ):
                return await solved(request)
            if takes_request:
                path["request"] = request
            answer: Response = await call(handle=await current_handle_of(request, library), **path)
            return answer

        return direct


Model = TypeVar("Model", bound=BaseModel)
T = TypeVar("T")

_DECODERS = ThreadPoolExecutor(2, "visir-decode")
"""Two photos are decoded at a time, within the budget of the process."""
CONDITION, RERANKED, PIXELS = 0.25, 0.1, 2_000_000
"""What counts as a request: a quarter for a condition, a tenth for a re-ranked picture, one for so many pixels."""


# Bodies, and what they cost.

_MOST_FAULTS = 1_000
_MOST_PARTS = 150_000
"""Commas of a body. The largest that is no nonsense, 64 searches of 16 conditions on 100 values each, has 105,000; and
16 MiB of nothing but unknown fields take seconds and a GiB before the last of them is refused."""


def schema(model: type[BaseModel]) -> dict[str, Any]:
    """What OpenAPI says of a JSON body that `body_of` reads."""
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
    return {"requestBody": {"required": True, "content": content}}


def form_schema(model: type[BaseModel]) -> dict[str, Any]:
    """What OpenAPI says of a form that `form_of` reads."""
    content = {"multipart/form-data": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
    return {"requestBody": {"required": True, "content": content}}


async def body_of(request: Request, model: type[Model]) -> Model:
    """The body as this model, straight from its bytes: no detour through dictionaries, and JSON as its standard has it
    (no NaN, no half surrogates, no depth that ends in a stack overflow)."""
    check_kind(request, "application/json", "JSON")
    body = await request.body()
    if body.count(b",") > _MOST_PARTS:
        raise HttpError(422, f"the body has more than {_MOST_PARTS:,} parts.", hint="ask in several requests")
    try:
        return model.model_validate_json(body)
    except ValidationError as fault:
        if fault.error_count() > _MOST_FAULTS:  # listing a hundred thousand takes a second
            raise HttpError(422, f"the body has {fault.error_count():,} faults.", hint="see /v1/openapi.json") from None
        raise from_validation(fault.errors(include_url=False), list(model.model_fields)) from None


async def form_of(request: Request) -> tuple[SearchBody, bytes]:
    """A form with a file called `photo` and the fields of `SearchBody` (`where` as JSON): the fields, and the photo."""
    check_kind(request, "multipart/form-data", "a form")
    fields: dict[str, Any] = {}
    photo: bytes | None = None
    try:
        async with request.form(max_files=1, max_fields=20, max_part_size=64 * 1024) as form:
            for name, value in form.multi_items():
                if name in fields or (name == "photo" and photo is not None):
                    raise HttpError(422, f"{name[:100]!r} is given twice.", field=name[:100])
                if name == "photo":
                    if isinstance(value, str):
                        raise HttpError(422, "photo: is text, not a file.", field="photo", hint="curl -F photo=@FILE")
                    photo = await value.read()
                elif isinstance(value, str):
                    fields[name] = value
                else:
                    raise HttpError(422, f"{name[:100]!r} is a file; only photo may be one.", field=name[:100])
    except (HttpError, ClientDisconnect):
        raise
    except Exception as fault:  # its parser raises what it likes: unknown character sets, broken boundaries, …
        reason = getattr(fault, "detail", None) or getattr(fault, "message", None) or type(fault).__name__
        raise HttpError(
            400, f"the form cannot be read: {str(reason)[:200]}", hint="send multipart/form-data"
        ) from fault
    if not photo:
        raise HttpError(422, "photo: missing, or an empty file.", field="photo", hint="curl -F photo=@FILE")
    fields = {name: value for name, value in fields.items() if value != ""}  # a form sends its empty fields too
    if "where" in fields:
        try:
            fields["where"] = orjson.loads(fields["where"])
        except orjson.JSONDecodeError as fault:
            raise HttpError(422, f"where: not JSON: {fault}", field="where") from None
    if "image" in fields:
        raise HttpError(422, "image: send the picture as the file photo.", field="image")
    try:
        return SearchBody.model_validate({**fields, "image": {"data": "-"}}), photo
    except ValidationError as fault:
        raise from_validation(fault.errors(include_url=False), list(SearchBody.model_fields)) from None


def conditions_of(text: str) -> tuple[FieldCondition, ...]:
    """Conditions from the JSON text of a list of them, as an address carries it."""
    try:
        conditions = ConditionList.model_validate({"where": orjson.loads(text)})
    except orjson.JSONDecodeError as fault:
        raise HttpError(422, f"where: not JSON: {fault}", field="where", hint="see /v1/openapi.json") from None
    except ValidationError as fault:
        raise from_validation(fault.errors(include_url=False)) from None
    return tuple(condition.to_condition() for condition in conditions.where)


async def queries_of(
    request: Request, searches: Sequence[SearchBody], handle: LibraryHandle, photo: bytes | None = None
) -> list[Query]:
    """The queries of a request; their work is charged before any of it is done."""
    # Pictures come from the JSON bodies, or one from a form (`photo`). `HttpError` for what is no picture or has too
    # many pixels, for more work than the caller may ask (429), and for more pictures than may wait (503).
    fields = ["photo" if photo is not None else "image.data"] * len(searches)
    files = [photo if photo is not None else _file_of(search) for search in searches]
    pixels = 0
    for data, field in zip(files, fields, strict=True):
        if data is not None:
            pixels += await _decoding(partial(_pixels, data, field, request.app.state.limits), field)
    request.app.state.charge(request.scope["state"]["caller"], cost_of(searches, pixels))
    queries = []
    for search, data, field in zip(searches, files, fields, strict=True):
        picture = None if data is None else await _prepared(request, data, field, handle)
        queries.append(search.to_query(picture))
    return queries


def cost_of(searches: Sequence[SearchBody], pixels: int) -> float:
    """What searches with pictures of so many pixels count beside the request that brings them, in requests."""
    # One for each search but the first, a quarter for each condition, a tenth for each picture that is re-ranked, one
    # for each two megapixels.
    more = sum(CONDITION * len(search.where) + RERANKED * search.rerank for search in searches)
    return len(searches) - 1 + more + pixels // PIXELS


async def _prepared(request: Request, data: bytes, field: str, handle: LibraryHandle) -> PreparedImage:
    """A picture as the library's models take it, a few hundred kilobytes: that is what waits for an answer."""
    # It counts in the budget of the process until the request ends.

    def prepare() -> PreparedImage:
        pixels = request.app.state.limits.pixels
        with opened(data, field, max_pixels=pixels, max_bytes=DECODING.largest) as picture:
            return handle.searcher.prepare(picture)

    prepared = await _decoding(prepare, field)
    if not DECODING.hold(prepared.nbytes):
        raise busy("too many pictures are waiting to be searched with.", 2)
    state: dict[str, Any] = request.scope["state"]
    state["prepared"] = state.get("prepared", 0) + prepared.nbytes
    return prepared


def _file_of(search: SearchBody) -> bytes | None:
    """The bytes of a picture inside a JSON body."""
    if search.image is None:
        return None
    try:
        return b64decode(search.image.data, validate=True)
    except (binascii.Error, ValueError) as fault:
        raise HttpError(422, f"image.data: not base64: {fault}", field="image.data") from None


def _pixels(data: bytes, field: str, limits: ServiceSettings) -> int:
    with header(data, field, max_pixels=limits.pixels, max_bytes=DECODING.largest) as undecoded:
        return undecoded.pixels


async def _decoding(work: Callable[[], T], field: str) -> T:
    try:
        return await asyncio.get_running_loop().run_in_executor(_DECODERS, work)
    except ImageError as fault:
        too_many = isinstance(fault, TooLargeError)
        hint = "send a smaller photo" if too_many else "send a JPEG, PNG, WebP, GIF or AVIF file"
        raise HttpError(413 if too_many else 422, fault.message, field=field, hint=hint) from None
    except MemoryError:
        raise HttpError(413, f"{field}: too large to decode.", field=field, hint="send a smaller photo") from None


async def unless_gone(request: Request, answer: Awaitable[T]) -> T:
    """The answer. Raises `ClientDisconnect` as soon as the client has gone, and cancels what waits."""
    me = asyncio.current_task()
    assert me is not None

    async def cancel_when_gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        me.cancel()

    watch = asyncio.ensure_future(cancel_when_gone())
    try:
        return await answer
    except asyncio.CancelledError:
        if watch.done() and not watch.cancelled():
            me.uncancel()
            raise ClientDisconnect from None
        raise
    finally:
        watch.cancel()
        with contextlib.suppress(Exception):
            watch.done() and watch.result()


def log_queries(request: Request, searches: list[SearchBody]) -> None:
    """Leave the texts for the log, where it is to have them."""
    if request.app.state.log.queries:
        noted: dict[str, Any] = request.scope["state"].setdefault("noted", {})
        noted["queries"] = [search.text for search in searches]


def noted(request: Request, **facts: Any) -> None:
    """Leave facts for the line of the log that this request gets."""
    facts_of_request: dict[str, Any] = request.scope["state"].setdefault("noted", {})
    facts_of_request.update(facts)
