"""Which of several processes this one is, and what follows: its GPU, its silence."""

from __future__ import annotations

import io
import sys

import pytest

import visir.progress
from refusals import refused
from visir.encoders.devices import own_gpu
from visir.errors import ConfigurationError, EncoderError
from visir.progress import Progress
from visir.threads import launched, launched_here


def tell(monkeypatch: pytest.MonkeyPatch, **environment: object) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value))


def test_what_the_environment_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    tell(monkeypatch)
    assert launched() == launched_here() == (0, 1)
    tell(monkeypatch, RANK=5, WORLD_SIZE=8, LOCAL_RANK=1, LOCAL_WORLD_SIZE=4)
    assert launched() == (5, 8) and launched_here() == (1, 4)
    tell(monkeypatch, RANK="", WORLD_SIZE="")  # what some job scripts export
    assert launched() == (0, 1)
    tell(monkeypatch, RANK=2, WORLD_SIZE=2)
    with refused(ConfigurationError, "2", "2", code="no-such-process"):
        launched()
    tell(monkeypatch, RANK=0, WORLD_SIZE="two")
    with refused(ConfigurationError, "WORLD_SIZE", "two", code="not-number"):
        launched()


def test_each_process_of_a_machine_has_a_gpu_of_its_own() -> None:
    assert [own_gpu(number, 4, 4) for number in range(4)] == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    assert own_gpu(0, 1, 8) == "cuda"
    with refused(EncoderError, "3", "3", code="there-are", hint="2"):
        own_gpu(2, 3, 2)


@pytest.mark.parametrize(("rank", "says"), [(0, True), (1, False)])
def test_progress_is_that_of_the_first_process_of_a_machine(
    monkeypatch: pytest.MonkeyPatch, rank: int, says: bool
) -> None:
    tell(monkeypatch, RANK=2 + rank, WORLD_SIZE=4, LOCAL_RANK=rank, LOCAL_WORLD_SIZE=2)
    clock = iter([0.0, 40.0])
    monkeypatch.setattr(visir.progress.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(sys, "stderr", said := io.StringIO())
    with Progress("encoding", 400, "images") as advance:
        advance(100)
    assert bool(said.getvalue()) is says
