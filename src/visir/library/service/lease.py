"""The lease of a library: it is served only while it is known to be what lies on disk."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from visir.serving.refusals import HttpError, busy


@dataclass(frozen=True)
class _LeaseState:
    """What the last looks found; replaced as a whole."""

    confirmed: float
    looked: str
    served: int
    on_disk: int | None
    fault: str | None = None


class Lease:
    """How long a library is served that could not be compared with the disk."""

    # A look at the disk that finds there what is served renews the lease. If none does (what lies there cannot be read,
    # the disk is away or hangs, the task that looks is dead), it runs out, and the library is not served until somebody
    # does: so a photo that was deleted on disk is never shown for longer than `seconds`, whatever goes wrong.

    def __init__(self, seconds: float | None, generation: int) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._state = _LeaseState(time.monotonic(), _now(), generation, generation)

    def renew(self, began: float, generation: int) -> None:
        """What is served was found on disk by a look that began then (`time.monotonic()`)."""
        with self._lock:
            latest = max(began, self._state.confirmed)
            self._state = _LeaseState(latest, _now(), generation, generation)

    def failed(self, fault: str, on_disk: int | None) -> None:
        """A look found something else on disk (of this generation, if known) that cannot be served."""
        with self._lock:
            self._state = replace(self._state, looked=_now(), on_disk=on_disk, fault=fault)

    @property
    def age(self) -> float:
        """Seconds since what is served was known to be on disk."""
        return time.monotonic() - self._state.confirmed

    @property
    def status(self) -> Literal["current", "behind", "stale"]:
        """Whether what is served is on disk, was so a moment ago, or is not served any more."""
        if self._seconds is not None and self.age > self._seconds:
            return "stale"
        return "current" if self._state.fault is None else "behind"

    def refusal(self) -> HttpError | None:
        """503 when the lease has run out."""
        if self.status != "stale":
            return None
        return busy("this library is not what lies on disk any more, and that cannot be read.", 5,
                    hint="/v1/ready and the service's log say more")  # fmt: skip

    def status_record(self) -> dict[str, Any]:
        """As `wire.LibraryStatus` has it."""
        state = self._state
        fault = state.fault
        if fault is None and self.status == "stale":
            fault = f"nobody has looked for {self.age:.0f} s"
        return {
            "status": self.status,
            "generation": state.served,
            "on_disk": state.on_disk,
            "looked": state.looked,
            "fault": fault,
        }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
