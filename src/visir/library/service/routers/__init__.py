"""The endpoints, one file for each group."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Request

from visir.errors import nearest
from visir.library.service import wire
from visir.library.service.registry import LibraryHandle, LibraryRegistry
from visir.serving.refusals import HttpError

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
    handle.check_fresh()
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
OfItem = Annotated[str, Path(pattern=wire.ITEM, description="32 hexadecimal digits.")]
