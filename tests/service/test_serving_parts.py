"""Parts of the service by themselves: batches, buckets, bodies."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import pytest

from refusals import refused

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from hypothesis import given
from hypothesis import strategies as st

from visir.errors import ConfigurationError
from visir.library.service.registry import Batcher, PeriodicTask
from visir.library.service.settings import settings_of_host
from visir.serving.front import BodyBudget, LimitedBody, RateLimiter
from visir.serving.logs import ServiceLog, log_of
from visir.serving.refusals import HttpError


class Slow:
    """Work that waits until it is let go, and remembers what it was given."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.seen.append(list(numbers))
        self.begun.set()
        assert self.go.wait(10)
        if 13 in numbers and len(numbers) > 1:
            raise RuntimeError("one of them is bad")
        return [ValueError("bad") if one == 13 else one * one for one in numbers]


def test_what_waits_is_answered_together() -> None:
    """The first is taken at once; the five that come meanwhile are one batch and a rest of one."""
    work = Slow()
    batcher = Batcher[int, int](work, name="t", size=4, queue=10, wait=0)

    async def ask() -> list[list[int]]:
        first = asyncio.ensure_future(batcher.ask([1]))
        await asyncio.to_thread(work.begun.wait, 10)
        others = [asyncio.ensure_future(batcher.ask([one])) for one in range(2, 7)]
        await asyncio.sleep(0)
        work.go.set()
        return await asyncio.gather(first, *others)

    assert asyncio.run(ask()) == [[1], [4], [9], [16], [25], [36]]
    assert work.seen == [[1], [2, 3, 4, 5], [6]]
    batcher.close()


def test_only_the_one_at_fault_is_told() -> None:
    work = Slow()
    work.go.set()
    batcher = Batcher[int, int](work, name="t", size=4, queue=10, wait=0)

    async def ask() -> list[list[int] | BaseException]:
        return await asyncio.gather(*(batcher.ask([one]) for one in (2, 13, 3)), return_exceptions=True)

    first, second, third = asyncio.run(ask())
    assert first == [4] and isinstance(second, ValueError) and third == [9]
    batcher.close()


def test_a_full_queue_and_a_place_that_becomes_free() -> None:
    """Two wait, a third is refused; when one of the two goes away there is a place, and it is never worked on."""
    work = Slow()
    batcher = Batcher[int, int](work, name="t", size=1, queue=2, wait=0)

    async def ask() -> None:
        first = asyncio.ensure_future(batcher.ask([1]))
        await asyncio.to_thread(work.begun.wait, 10)
        second, third = (asyncio.ensure_future(batcher.ask([one])) for one in (2, 3))
        await asyncio.sleep(0)
        with pytest.raises(HttpError, match="2 searches are waiting already") as said:
            await batcher.ask([4])
        assert said.value.status == 503 and int(said.value.headers["Retry-After"]) >= 1
        second.cancel()
        await asyncio.sleep(0)
        fifth = asyncio.ensure_future(batcher.ask([5]))
        await asyncio.sleep(0)
        work.go.set()
        assert await asyncio.gather(first, third, fifth) == [[1], [9], [25]]

    asyncio.run(ask())
    assert work.seen == [[1], [3], [5]]
    batcher.close()


def test_everyone_goes_away_while_more_are_waited_for() -> None:
    """Behind a batch of two the thread waits for a second; the only one that waits goes away; the next is answered.

    The thread once took the empty queue for the end: every later search waited until its time was over.
    """
    work = Slow()
    batcher = Batcher[int, int](work, name="t", size=2, queue=10, wait=0.2)

    async def ask() -> None:
        first = asyncio.ensure_future(batcher.ask([1]))
        await asyncio.to_thread(work.begun.wait, 10)
        second, third, gone = (asyncio.ensure_future(batcher.ask([one])) for one in (2, 3, 4))
        await asyncio.sleep(0)
        work.go.set()
        await asyncio.gather(first, second, third)
        gone.cancel()
        await asyncio.sleep(0.4)
        assert await asyncio.wait_for(batcher.ask([5]), 10) == [25]

    asyncio.run(ask())
    assert work.seen == [[1], [2, 3], [5]]
    batcher.close()


def test_a_closed_batcher_answers_what_waits_and_takes_nothing_new() -> None:
    work = Slow()
    batcher = Batcher[int, int](work, name="t", size=4, queue=10, wait=0)

    async def ask() -> None:
        waiting = asyncio.ensure_future(batcher.ask([1, 2]))
        await asyncio.to_thread(work.begun.wait, 10)
        closing = asyncio.ensure_future(asyncio.to_thread(batcher.close))
        work.go.set()
        assert await waiting == [1, 4]
        await closing
        with pytest.raises(HttpError, match="closing"):
            await batcher.ask([3])

    asyncio.run(ask())


def test_a_bucket() -> None:
    """2 a second, 4 at once: the fifth waits half a second; another caller is not concerned."""
    rate = RateLimiter(2, 4)
    assert [rate.take("a", 1, 0.0) for _ in range(5)] == [0, 0, 0, 0, 0.5]
    assert rate.take("b", 1, 0.0) == 0
    assert rate.take("a", 1, 0.5) == 0 and rate.take("a", 1, 0.5) == 0.5
    assert rate.take("a", 100, 100.0) == 0 and rate.take("a", 1, 100.0) == 48.5  # more than fits: a debt
    assert RateLimiter(0, 1).take("a", 1e9, 0.0) == 0


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 2)), max_size=60))
def test_no_more_than_rate_and_burst(asked: list[tuple[float, float]]) -> None:
    """In any stretch of time at most burst + rate × seconds gets through, whatever the gaps and costs."""
    rate, now, through = RateLimiter(2, 5), 0.0, 0.0
    for gap, cost in asked:
        now += gap
        if rate.take("a", cost, now) == 0:
            through += cost
        assert through <= 5 + 2 * now + 1e-6


def test_callers_are_forgotten() -> None:
    rate = RateLimiter(1, 1)
    for at in range(20_000):
        rate.take(str(at), 1, 0.0)
    assert len(rate._buckets) == 10_000


def test_bodies_are_counted() -> None:
    parts = [{"type": "http.request", "body": b"x" * 60, "more_body": True}] * 3
    ends: list[None] = []

    async def receive() -> object:
        return parts.pop()

    async def read() -> None:
        bodies = BodyBudget(100)
        body = LimitedBody(receive, 100, bodies, lambda: ends.append(None))
        await body()
        with pytest.raises(HttpError, match="larger than 100 bytes") as said:
            await body()
        assert said.value.status == 413 and said.value.headers == {"Connection": "close"}
        with pytest.raises(HttpError, match="at once") as other:
            await LimitedBody(receive, 1000, bodies, lambda: None)()
        assert other.value.status == 503
        body.release()
        assert bodies.size == 60

    asyncio.run(read())
    assert not ends


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_task_whose_thread_has_ended_is_begun_again() -> None:
    stream, calls = BytesIO(), threading.Event()
    log = ServiceLog(stream)
    task = PeriodicTask(calls.set, interval=0.01, name="reload photos", log=log)
    assert calls.wait(10) and task.is_alive
    task._log_once = None  # type: ignore[assignment, method-assign]
    task._work = lambda: 1 / 0  # it fails, and so does the note of it: nothing is left of the thread
    task._thread.join(10)
    assert not task.is_alive
    task._work = calls.set
    calls.clear()
    task.revive()
    assert calls.wait(10) and task.is_alive
    assert log.flush(10) and b"its thread ended; it is begun again" in stream.getvalue()
    task.stop()
    assert task.is_alive, "stopped on purpose is no fault"


def test_a_person_reads_short_lines_of_what_matters() -> None:
    stream = BytesIO()
    log = ServiceLog(stream, form="text")
    request = {"method": "POST", "path": "/v1/libraries/my%20photos/search", "status": 200, "ms": 12.3}
    log.write("info", "request", **request)
    log.write("info", "request", **{**request, "method": "GET", "path": "/static/page.js"})
    log.write("info", "request", **{**request, "method": "GET", "path": "/v1/libraries/photos/items/0/thumbnail"})
    log.write("info", "request", **{**request, "path": "/x\x1b[31m", "status": 404})
    log.write("info", "reload", library="photos", generation=3, items=1200)
    log.write("error", "fault", task="reload photos", fault="the disk is away")
    assert log.flush(10)
    lines = [line.split("  ", 1)[1] for line in stream.getvalue().decode().splitlines()]
    assert lines[0] == "POST  my photos/search  200  12 ms"
    assert "404" in lines[1] and "\x1b" not in lines[1]
    assert lines[2:] == [
        "photos: changed on disk; now 1,200 pictures (generation 3)",
        "error: fault: reload photos the disk is away",
    ]
    with refused(ConfigurationError, "xml", code="json-text"):
        log_of("xml")


def test_paths_are_told_on_this_machine_alone() -> None:
    folders = (Path("photos.visir"),)
    assert settings_of_host("127.0.0.1", folders).paths
    assert not settings_of_host("127.0.0.1", folders, tokens=Path("tokens")).paths
    assert not settings_of_host("127.0.0.1", folders, hosts=["photos.example.org"]).paths
    assert not settings_of_host("0.0.0.0", folders, open_to_all=True).paths
    with refused(ConfigurationError, code="everybody-could"):
        settings_of_host("0.0.0.0", folders)
    with refused(ConfigurationError, meant="rate"):
        settings_of_host("127.0.0.1", folders, rat=3)


def test_products_of_a_service_stay_on_the_thread_that_asks_for_them(tmp_path: Path) -> None:
    """Whatever was set before, by this thread or by another service of the process."""
    from PIL import Image
    from threadpoolctl import threadpool_info, threadpool_limits

    from visir.library.service.running import RunningService
    from visir.library.updating import update

    (tmp_path / "photos").mkdir()
    Image.new("RGB", (64, 48), "red").save(tmp_path / "photos" / "red.png")
    update(tmp_path / "photos", tmp_path / "library", model="colours")
    for _ in range(2):
        with threadpool_limits(2, "blas"):
            RunningService.start([tmp_path / "library"], port=0).stop()
            blas = [library for library in threadpool_info() if library["user_api"] == "blas"]
            assert {library["num_threads"] for library in blas if "numpy" in library["filepath"]} <= {1}
