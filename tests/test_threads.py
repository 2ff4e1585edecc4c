"""One BLAS thread, asked for by any thread of the process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COMMON = """
import threading
import numpy
from threadpoolctl import ThreadpoolController
from visir.threads import one_blas_thread, one_blas_thread_from_now

libraries = ThreadpoolController().select(user_api="blas").lib_controllers

def counts():
    return {library.get_num_threads() for library in libraries}

def inside():
    with one_blas_thread():
        return counts()

def in_thread(work):
    results = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join(20)
    return results[0]

def stay(entered, leave):
    with one_blas_thread():
        entered.set()
        leave.wait(20)

for library in libraries:
    library.set_num_threads(2)
if counts() != {2}:
    print("this BLAS has no number of threads")
    raise SystemExit
"""
ANY_THREAD = """
for ask in (inside, lambda: in_thread(inside), inside, lambda: in_thread(inside)):
    assert ask() == {1}
    assert counts() == {2}
"""
STILL_INSIDE = """
entered, leave = threading.Event(), threading.Event()
thread = threading.Thread(target=stay, args=(entered, leave))
thread.start()
assert entered.wait(20)
assert inside() == {1} and counts() == {1}
leave.set()
thread.join(20)
assert counts() == {2}
"""
FROM_NOW = """
entered, leave = threading.Event(), threading.Event()
thread = threading.Thread(target=stay, args=(entered, leave))
thread.start()
assert entered.wait(20)
in_thread(one_blas_thread_from_now)
leave.set()
thread.join(20)
assert counts() == {1} == inside() == counts()
"""


@pytest.mark.parametrize("case", [ANY_THREAD, STILL_INSIDE, FROM_NOW], ids=["any thread", "still inside", "from now"])
def test_one_thread_while_somebody_is_inside(case: str) -> None:
    """In a process of its own: the number is the process's, and other tests leave threads that search."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    ran = subprocess.run([sys.executable, "-c", COMMON + case], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    if ran.stdout:
        pytest.skip(ran.stdout.strip())
