"""Limits that are counted: requests per caller, bytes per body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from cachetools import LRUCache

from visir.library.service.errors import HttpError, busy

REMEMBERED_CALLERS = 10_000


class RateLimiter:
    """Limits requests: a bucket for each caller holds `burst` requests and is filled by `rate` of them a second.

    The 10,000 callers last seen are remembered. A caller who is forgotten starts with a full bucket: with a rate of 20
    and a burst of 200, a bucket is full after ten seconds anyway.

    Example:
        >>> limiter = RateLimiter(rate=1, burst=2)
        >>> [limiter.take("anna", 1, now) for now in (0.0, 0.0, 0.0, 1.0)]
        [0.0, 0.0, 1.0, 0.0]
    """

    def __init__(self, rate: float, burst: int) -> None:
        self.rate, self.burst = rate, burst
        self._buckets: LRUCache[str, tuple[float, float]] = LRUCache(REMEMBERED_CALLERS)

    def take(self, caller: str, cost: float, now: float) -> float:
        """Take `cost` out of the caller's bucket: 0, or the seconds after which there will be enough.

        A cost above `burst` needs a bucket that is full but for the request itself, and leaves it with a debt: it is
        not refused for ever, and nothing else is answered until it is paid. `now` is a monotonic clock's.
        """
        if not self.rate:
            return 0.0
        level, before = self._buckets.get(caller, (float(self.burst), now))
        level = min(float(self.burst), level + (now - before) * self.rate)
        short = max(0.0, min(cost, self.burst - (cost > 1)) - level)
        self._buckets[caller] = (level if short else level - cost, now)
        return short / self.rate


class BodyBudget:
    """How much all bodies together may take while they come in and are worked on."""

    def __init__(self, limit: int) -> None:
        self.limit, self.size = limit, 0


class LimitedBody:
    """Counts a request's body while it comes in, with or without Content-Length: no header needs to be believed.

    Args:
        receive: Gives the next message.
        limit: Bytes of this body.
        bodies: The budget of all bodies; `release` gives back what was counted.
        received: Called when the last byte is there.
    """

    def __init__(
        self, receive: Callable[[], Awaitable[Any]], limit: int, bodies: BodyBudget, received: Callable[[], None]
    ) -> None:
        self._receive, self._limit, self._bodies, self._received = receive, limit, bodies, received
        self._count, self._all = 0, False

    async def __call__(self) -> Any:
        """The next message; `HttpError` when the body has grown too large (413), or all bodies together have (503)."""
        message = await self._receive()
        if message["type"] == "http.request" and not self._all:
            size = len(message.get("body", b""))
            self._count += size
            self._bodies.size += size
            if self._count > self._limit:
                raise too_large(self._limit)
            if self._bodies.size > self._bodies.limit:
                raise busy("too many large bodies are coming in at once.", 2)
            if not message.get("more_body", False):
                self._all = True
                self._received()
        return message

    def release(self) -> None:
        """The body is no longer held."""
        self._bodies.size -= self._count
        self._count = 0


def too_large(limit: int) -> HttpError:
    """413, after which the connection is closed: the rest of the body is not worth reading."""
    return HttpError(
        413,
        f"the body is larger than {limit:,} bytes.",
        hint="send a smaller photo: models look at a few hundred pixels",
        headers={"Connection": "close"},
    )
