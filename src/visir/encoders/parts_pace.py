"""How fast parts are made: pictures in the time in which somebody worked on them, idle hours left out."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime


def images_per_second(work: Iterable[tuple[str, float, int]]) -> float | None:
    """The pictures of parts, divided by the time in which any process worked on one of them."""
    # work: Of each part when its process began (as ISO 8601; "" where that is not known), when the part was finished,
    # in seconds since 1970, and how many pictures it has.
    spans, images = list[tuple[float, float]](), 0
    for since, finished, count in work:
        began = seconds_of(since)
        if began is not None:
            spans.append((began, max(began, finished)))
            images += count
    seconds = covered(spans)
    return images / seconds if seconds > 0 else None


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """How long the spans are together, where they overlap counted once."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def seconds_of(time: str) -> float | None:
    """A time in ISO 8601, in seconds since 1970; None where it is none."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return None
