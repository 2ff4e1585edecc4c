"""One BLAS thread, asked for by any thread of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy  # noqa: F401  # its BLAS is what is looked at
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from visir.threads import one_blas_thread


def counts() -> list[int]:
    """The threads of each BLAS library, as it tells them itself."""
    return [library.get_num_threads() for library in ThreadpoolController().select(user_api="blas").lib_controllers]


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Products are spread over two threads."""
    with threadpool_limits(2, user_api="blas"):
        if not counts() or set(counts()) != {2}:
            pytest.skip("this BLAS has no number of threads")
        yield


def in_thread(work: Callable[[], Any]) -> Any:
    """What `work` returns on a thread of its own."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join(20)
    return results[0]


def inside() -> list[int]:
    """What is told inside."""
    with one_blas_thread():
        return counts()


@pytest.mark.usefixtures("two_threads")
def test_any_thread_may_ask_after_another_has() -> None:
    for ask in (inside, lambda: in_thread(inside), inside, lambda: in_thread(inside)):
        assert set(ask()) == {1}
        assert set(counts()) == {2}


@pytest.mark.usefixtures("two_threads")
def test_a_thread_that_leaves_takes_nothing_from_one_that_is_inside() -> None:
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with one_blas_thread():
            entered.set()
            leave.wait(20)

    thread = threading.Thread(target=stay)
    thread.start()
    assert entered.wait(20)
    assert set(inside()) == {1} and set(counts()) == {1}
    leave.set()
    thread.join(20)
    assert set(counts()) == {2}
