"""Who works on what, among processes that share nothing but a place: a log of claims that is only ever added to.

    leases/PART.000001            the first claim; its time of change says when its holder was last alive
    leases/PART.000001.failed     its holder gave up, and why
    leases/PART.000001.made       or its holder has made the part: from when until when, and of how many pictures
    leases/PART.000002            the second claim, made when the first had failed, was given back or had expired

A claim is a file that one process alone can make, so no two hold the same one. Nothing is replaced or removed, so a
holder that slept, and wakes up after its lease has expired, can damage nothing: it sees that there is a later claim.
Where a store cannot make a file exclusively, two may believe that they hold a part: both make it, to the same bytes.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol

import orjson

from visir.errors import VisirError
from visir.remote import RemoteFolder, is_url
from visir.storage import SharedFolder

FOLDER = "leases"
_NAME = re.compile(r"(.+)\.(\d{6})(\.failed|\.released|\.made)?")


class SharedPlace(Protocol):
    """What processes on many machines write into: `SharedFolder` on a disk, `RemoteFolder` in an object store."""

    place: str

    def listing(self, folder: str = "") -> dict[str, float]:
        """The names of files, with the times of their last change."""

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None where there is none."""

    def exists(self, name: str) -> bool:
        """Whether there is a file."""

    def open(self, name: str) -> IO[bytes]:
        """A file, to be read at any place in it."""

    def create(self, name: str, data: bytes) -> bool:
        """Make a small file; False where there is one."""

    def touch(self, name: str) -> None:
        """Give a file the time of this moment."""

    def publish(self, file: Path, name: str, writer: str) -> bool:
        """Make a file of a local one; False where there is one."""

    def clear(self, folder: str, writer: str) -> None:
        """Remove what a dead writer had begun to publish."""


def open_place(place: str | Path) -> SharedPlace:
    """The place of a path or an address."""
    return RemoteFolder(str(place)) if is_url(place) else SharedFolder(place)


@dataclass(frozen=True)
class LeaseState:
    """The last claim on a part."""

    part: str  # the part
    generation: int  # the number of the claim
    renewed: float  # when its holder was last alive, or gave it up; seconds since 1970
    ending: str = ""  # "failed", "released" or "made"; empty while it is held

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{FOLDER}/{self.part}.{self.generation:06}"

    def is_held(self, seconds: float) -> bool:
        """Whether its holder has given a sign of life within so many seconds."""
        return not self.ending and time.time() - self.renewed < seconds


def lease_states(place: SharedPlace) -> dict[str, LeaseState]:
    """The last claim on each part that was ever claimed, by one listing."""
    states: dict[str, LeaseState] = {}
    for name, changed in sorted(place.listing(FOLDER).items()):  # a claim comes before its ending
        match = _NAME.fullmatch(name)
        if match is not None:
            states[match[1]] = LeaseState(match[1], int(match[2]), changed, (match[3] or "").removeprefix("."))
    return states


def about_lease(place: SharedPlace, state: LeaseState) -> Mapping[str, str]:
    """What a claim, or its ending, says: "owner", "since", "reason"; of a part that was made "began" and "images"."""
    return facts_of(place, f"{state.name}.{state.ending}" if state.ending else state.name)


def facts_of(place: SharedPlace, name: str) -> Mapping[str, str]:
    """What `about_process` wrote into a file; nothing of one that is cut, as after a crash of its machine."""
    try:
        values = orjson.loads(place.read(name) or b"{}")
    except orjson.JSONDecodeError:
        return {}
    return values if isinstance(values, dict) else {}


class PartLease:
    """A claim that this process holds. As a context it is renewed until the end of the block."""

    def __init__(self, place: SharedPlace, state: LeaseState, seconds: float) -> None:
        self.place, self.state, self.seconds = place, state, seconds
        self._next = LeaseState(state.part, state.generation + 1, 0.0).name
        self._over = threading.Event()
        self._lost = False
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)

    @classmethod
    def take(cls, place: SharedPlace, part: str, last: LeaseState | None, seconds: float) -> PartLease | None:
        """Claim a part that nobody holds."""
        generation = 1 if last is None else last.generation + 1
        state = LeaseState(part, generation, time.time())
        return cls(place, state, seconds) if place.create(state.name, about_process()) else None

    @property
    def writer(self) -> str:
        """A name that no other process has."""
        return f"{self.state.part}.{self.state.generation:06}"

    @property
    def lost(self) -> bool:
        """Whether somebody has claimed the part since, as far as is known here; looked at with every renewal."""
        return self._lost

    def is_held(self) -> bool:
        """Whether nobody has claimed the part since, looked at now."""
        self._lost = self._lost or self.place.exists(self._next)
        return not self._lost

    def end(self, ending: str, reason: str = "", **facts: str) -> None:
        """Say that nobody works on the part any more: "made", "failed" for a `reason`, or "released"."""
        self.place.create(f"{self.state.name}.{ending}", about_process(reason=reason, **facts))

    def __enter__(self) -> PartLease:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _renew(self) -> None:
        while not self._over.wait(self.seconds / 4):
            try:
                if not self.is_held():
                    return
                self.place.touch(self.state.name)
            except (VisirError, OSError):
                continue  # a later sign of life may get through; if none does, somebody else takes the part


def about_process(**facts: str) -> bytes:
    """What a claim says: who makes it, when, and further facts."""
    return orjson.dumps({"owner": f"{socket.gethostname()}:{os.getpid()}", "since": this_moment()} | facts)


def this_moment() -> str:
    """The time, to a thousandth of a second: small files are encoded in less than one."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
