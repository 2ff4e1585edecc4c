"""Requests whose parameters need no solving go straight to their endpoint."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from functools import partial
from inspect import iscoroutinefunction, signature
from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

from visir.library.service.routers import LONGEST_NAME, current_handle_of
from visir.library.service.wire import ITEM

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
            if request.scope["query_string"] or len(library) > LONGEST_NAME or not all(map(_is_item, path.values())):
                return await solved(request)
            if takes_request:
                path["request"] = request
            answer: Response = await call(handle=await current_handle_of(request, library), **path)
            return answer

        return direct


def _is_item(text: str) -> bool:
    return _IS_ITEM.fullmatch(text) is not None
