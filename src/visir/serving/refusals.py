"""Refusals: one shape for everything that goes wrong, with what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from visir.errors import nearest

if TYPE_CHECKING:
    from starlette.responses import Response

CODES = {
    400: "bad_request",
    401: "unauthorised",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    409: "conflict",
    413: "too_large",
    415: "media_type",
    422: "invalid",
    429: "too_many",
    431: "headers_too_large",
    500: "internal",
    503: "busy",
}


class HttpError(Exception):
    """A request that gets no answer but the reason: `status`, what was wrong, the next action, the field if any."""

    # `more` is what else the error holds.

    def __init__(
        self,
        status: int,
        message: str,
        *,
        hint: str = "",
        field: str = "",
        code: str = "",
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.hint, self.field = status, message, hint, field
        self.code = code or CODES.get(status, "error")
        self.headers, self.more = dict(headers or {}), dict(more or {})

    def body(self) -> bytes:
        """The JSON of the contract: `{"error": {code, message, hint, field?}}`."""
        error = {"code": self.code, "message": self.message, "hint": self.hint}
        return orjson.dumps({"error": error | ({"field": self.field} if self.field else {}) | self.more})

    def response(self) -> Response:
        """As Starlette sends it."""
        from starlette.responses import Response

        return Response(self.body(), self.status, self.headers, media_type="application/json")


def not_found(kind: str, name: str, known: Sequence[str]) -> HttpError:
    """404 for a name that is not there, with the nearest that is."""
    return HttpError(404, f"there is no {kind} {name[:100]!r}.", hint=nearest(name[:100], known))


def busy(message: str, after: int, hint: str = "") -> HttpError:
    """503 with the seconds after which asking again is worth while."""
    return HttpError(503, message, hint=hint or f"try again in {after} s", headers={"Retry-After": str(after)})


def too_large(limit: int, hint: str = "") -> HttpError:
    """413, after which the connection is closed: the rest of the body is not worth reading."""
    message = f"the body is larger than {limit:,} bytes."
    return HttpError(413, message, hint=hint or "send less at once", headers={"Connection": "close"})


def from_validation(errors: Sequence[Mapping[str, Any]], known: Sequence[str] = ()) -> HttpError:
    """422 from pydantic's list: the first fault's field, all faults in the message."""
    faults = [f"{_place(error)}: {_problem(error)}" for error in errors[:8]]
    if len(errors) > 8:
        faults.append(f"… and {len(errors) - 8} more")
    first = errors[0]
    hint = "see /v1/openapi.json"
    if first["type"] == "extra_forbidden" and known:
        hint = nearest(str(first["loc"][-1])[:100], known)
    if first["type"] == "json_invalid":
        return HttpError(400, f"the body is not JSON: {_problem(first)}", hint="send one JSON object", code="not_json")
    return HttpError(422, "; ".join(faults), hint=hint, field=_place(first))


def _place(error: Mapping[str, Any]) -> str:
    return ".".join(str(part)[:100] for part in error["loc"] if part not in ("body", "query", "path")) or "body"


def _problem(error: Mapping[str, Any]) -> str:
    return "unknown field" if error["type"] == "extra_forbidden" else str(error["msg"])[:300]
