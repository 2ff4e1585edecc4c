"""One writer at a time: what is said while it is waited for."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from visir.storage.claims import locked


@pytest.mark.parametrize(("seconds", "said"), [(0.3, ""), (1.5, "visir: somebody else writes; waiting\n")])
def test_a_short_wait_is_not_worth_a_line(
    seconds: float, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Threads of one process write one after the other, too: that is no news."""
    path, holds = tmp_path / "lock", threading.Event()

    def hold_it() -> None:
        with locked(path, waiting="not this one"):
            holds.set()
            time.sleep(seconds)

    holder = threading.Thread(target=hold_it)
    holder.start()
    assert holds.wait(10)
    started = time.monotonic()
    with locked(path, waiting="somebody else writes; waiting"):
        assert time.monotonic() - started > seconds / 2
    holder.join()
    assert capfd.readouterr().err == said
