"""Uploads: how many batches are under way at once, and what a fault leaves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from visir.retrieval.remote.engine import EngineError, Point
from visir.retrieval.remote.index import upload


class Counting:
    """An engine that holds what it is given, and notes how many batches it got at once."""

    def __init__(self, uploads: int, fails_at: str = "") -> None:
        self.uploads, self.fails_at = uploads, fails_at
        self.ids: list[str] = []
        self.now = self.most = 0
        self.settled = False
        self.lock = threading.Lock()

    def upsert(self, points: Sequence[Point]) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.02)
        with self.lock:
            self.now -= 1
            if points[0].id == self.fails_at:
                raise EngineError("refused", hint="none")
            self.ids += [point.id for point in points]

    def settle(self) -> None:
        self.settled = True


def batches(engine: Counting, made: list[int], count: int = 20) -> Iterator[list[Point]]:
    """Batches of two documents; `made` gets how many had been made but not taken when each was asked for."""
    for number in range(count):
        made.append(2 * number - len(engine.ids))
        yield [Point(f"{number:02}{letter}", {}) for letter in "ab"]


@pytest.mark.parametrize("uploads", [1, 2, 4])
def test_a_few_batches_are_under_way_and_no_more_are_made(uploads: int) -> None:
    engine, made = Counting(uploads), []
    upload(engine, batches(engine, made), 40)
    assert sorted(engine.ids) == [f"{number:02}{letter}" for number in range(20) for letter in "ab"]
    assert engine.most == uploads and engine.settled
    assert max(made) <= 2 * uploads


@pytest.mark.parametrize("uploads", [1, 4])
def test_after_a_fault_nothing_more_is_sent_and_nothing_is_under_way(uploads: int) -> None:
    engine, made = Counting(uploads, fails_at="05a"), []
    with pytest.raises(EngineError, match="refused"):
        upload(engine, batches(engine, made), 40)
    assert engine.now == 0 and not engine.settled
    assert "04a" in engine.ids and "05a" not in engine.ids and len(made) <= 6 + uploads
