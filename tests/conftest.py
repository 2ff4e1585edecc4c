"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
import random
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from visir.files import data_directory

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "scripts"))  # docs_site
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))  # what only benchmarks and tests use
from complete import MissingParts

# A busy machine is slow now and then, and that is no fault of what is tested. Where every part is set up (our CI) the
# examples are always the same ones: a commit fails by its own fault, or not at all. Elsewhere they are new ones each
# time, whatever Hypothesis makes of the variable CI.
settings.register_profile("visir", deadline=None, derandomize=os.environ.get("VISIR_TESTS") == "complete")
settings.load_profile("visir")


gc.disable()  # what modules hold while they are collected stays anyway: looking through it takes seconds


def pytest_collection_finish() -> None:
    """From here on only what tests make is looked through."""
    gc.freeze()
    gc.enable()


SLOW = Path(__file__).parent / "slow.txt"
"""The tests that `make test` leaves to `make test-slow`; `scripts/slow_tests.py` writes the list."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is slow. A line that names no test is an error where all tests are collected.

    With a number in `VISIR_TESTS_ORDER` the modules, and the tests within each, run in a random order of that seed.
    """
    lines = set(SLOW.read_text(encoding="utf-8").splitlines())
    seen = set()
    for item in items:
        names = {item.nodeid, item.nodeid.partition("[")[0]} & lines
        seen |= names
        if names and item.get_closest_marker("nightly") is None:
            item.add_marker("slow")
    if config.args == config.getini("testpaths") and lines - seen:
        fault = f"tests/slow.txt names tests that are not there: {sorted(lines - seen)}"
        print(fault, file=sys.__stderr__)  # of a worker of xdist nothing else is shown
        raise pytest.UsageError(fault)
    if seed := os.environ.get("VISIR_TESTS_ORDER"):
        # Stable between the processes of xdist; a module stays together, for what it sets up once.
        items.sort(key=lambda item: (_drawn(seed, item.nodeid.partition("::")[0]), _drawn(seed, item.nodeid)))


def _drawn(seed: str, name: str) -> float:
    """A number of its own for a name and a seed."""
    return random.Random(f"{seed} {name}").random()


def pytest_configure(config: pytest.Config) -> None:
    """Where every part was set up, a skip is a failure."""
    if os.environ.get("VISIR_TESTS") == "complete":
        config.pluginmanager.register(MissingParts())


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The optional directory of real data; tests that need it skip, saying so, where it is absent."""
    directory = data_directory().resolve()
    if not (directory / "flickr8k").is_dir():
        pytest.skip(f"no real data at {directory} (set VISIR_DATA)")
    return directory


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test has a cache of its own, so that none sees another's vectors."""
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))
