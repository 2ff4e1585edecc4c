"""Changing a library: bring it up to date, take a picture out."""

from __future__ import annotations

import orjson
from fastapi import APIRouter, Depends, Request, Response

from visir.library.service import wire
from visir.library.service.request_parsing import noted
from visir.library.service.routers import REFUSALS, InLibrary, OfItem, ToUpdate, admin_only

router = APIRouter(
    prefix="/v1/libraries/{library}",
    tags=["admin"],
    dependencies=[Depends(admin_only)],
    responses={**REFUSALS, 409: {"model": wire.ErrorBody, "description": "An update is under way."}},
)


@router.post("/update", response_model=wire.UpdateProgress, status_code=202)
async def update(request: Request, handle: ToUpdate) -> Response:
    """Look at the source again, in the background: new, changed, moved and deleted pictures."""
    noted(request, library=handle.name)
    handle.update()
    return _json(handle.progress, 202)


@router.get("/update", response_model=wire.UpdateProgress)
async def progress(handle: ToUpdate) -> Response:
    """How far the update is, and what the last one did."""
    return _json(handle.progress)


@router.delete("/items/{item}", response_model=wire.DeletedItem)
def delete(request: Request, handle: InLibrary, item: OfItem) -> Response:
    """Take a picture out of the library; later updates leave it out. The photo itself stays where it is."""
    noted(request, library=handle.name, item=item)
    return _json({"id": item, "generation": handle.remove(item)})


def _json(value: object, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")
