"""Claims: who works on what, among processes on any machines that see one place; alive while a claim is renewed.

A claim is a file, `leases/NAME.000001`, that one process alone can create, and touches while it works; at its end it
becomes `….made`, `….failed` or `….released`, or goes. Without a sign of life for some time it counts as left, and
another process takes the next number. Parts of a collection (`parts.py`) and shards (`shards.py`) are claimed so.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import ParamSpec, TypeAlias, TypeVar

import orjson

from visir.errors import VisirError
from visir.remote import RemoteFolder, UnreachableError, is_url
from visir.storage import SharedFolder

P = ParamSpec("P")
T = TypeVar("T")
SharedPlace: TypeAlias = SharedFolder | RemoteFolder
"""What processes on many machines write into, on a disk or in an object store: files that appear whole, and once."""
LEASES = "leases"
LEASE_SECONDS = 120.0
CLAIM = re.compile(r"(.+)\.(\d{6})(\.failed|\.released|\.made)?")
RETRY_SECONDS = (1.0, 5.0, 20.0)
"""How long to wait before a place elsewhere that did not answer is tried again."""
_QUIET_SECONDS, _POLL_SECONDS = 1.0, 0.1


def open_place(place: str | Path) -> SharedPlace:
    """The place of a path or an address."""
    return RemoteFolder(str(place)) if is_url(place) else SharedFolder(place)


def patiently(call: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """What a call returns; tried again a few times while a place elsewhere does not answer."""
    for seconds in RETRY_SECONDS:
        try:
            return call(*arguments, **options)
        except UnreachableError:
            time.sleep(seconds)
    return call(*arguments, **options)


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
        return f"{LEASES}/{self.part}.{self.generation:06}"

    def is_held(self, seconds: float) -> bool:
        """Whether its holder has given a sign of life within so many seconds."""
        return not self.ending and time.time() - self.renewed < seconds


def lease_states(place: SharedPlace) -> dict[str, LeaseState]:
    """The last claim on each part that was ever claimed, by one listing."""
    states: dict[str, LeaseState] = {}
    for name, changed in sorted(place.listing(LEASES).items()):  # a claim comes before its ending
        match = CLAIM.fullmatch(name)
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


def is_at_work(place: SharedPlace, state: LeaseState, seconds: float) -> bool:
    """Whether the holder of a claim lives: by its last sign of life, and on this machine by its process."""
    return state.is_held(seconds) and not is_gone(_holder(place, state.name))


@lru_cache(1 << 16)
def _holder(place: SharedPlace, claim: str) -> str:
    """The process that made a claim, which is read once."""
    return facts_of(place, claim).get("process", "")


def about_process(**facts: str) -> bytes:
    """What a claim says: who makes it, when, and further facts."""
    return orjson.dumps({"owner": f"{socket.gethostname()}:{os.getpid()}", "since": this_moment()} | facts)


def this_moment() -> str:
    """The time, to a thousandth of a second: small files are encoded in less than one."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _started(process: int | str) -> list[str]:
    """What the system says of a process from its state on; the twentieth value is when it was started (proc(5))."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def _this_process() -> str:
    """A name that no other process has, now or later: machine and container, number, start; "" where unknown."""
    with suppress(OSError):  # in this run of this machine, and this one of its containers, a number is one process
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        container = Path("/proc/self/ns/pid").stat().st_ino
        return f"{boot}:{container}/{os.getpid()}/{_started(os.getpid())[19]}"
    return ""


def is_gone(process: str) -> bool:
    """Whether a process of this machine, by the name that it gave itself, has ended; False where nobody can know."""
    machine, *rest = process.split("/")
    if not machine or machine != _this_process().partition("/")[0]:
        return False
    number, started = rest
    try:
        facts = _started(number)
        return facts[0] in "ZX" or facts[19] != started
    except OSError:  # it is not there; or somebody else's, and hidden
        try:
            os.kill(int(number), 0)
        except OSError as fault:
            return isinstance(fault, ProcessLookupError)
        return False


class PartLease:
    """A claim that this process holds. As a context it is renewed until the end of the block."""

    def __init__(self, place: SharedPlace, state: LeaseState, seconds: float) -> None:
        self.place, self.state, self.seconds = place, state, seconds
        self.lost = False  # whether somebody has claimed the part since, as far as was seen with the last renewal
        self._next = LeaseState(state.part, state.generation + 1, 0.0).name
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)

    @classmethod
    def take(
        cls, place: SharedPlace, part: str, last: LeaseState | None, seconds: float, writer: str = ""
    ) -> PartLease | None:
        """Claim a part that nobody holds; `writer` as of `SharedFolder.create`."""
        state = LeaseState(part, 1 if last is None else last.generation + 1, time.time())
        is_taken = place.create(state.name, about_process(process=_this_process()), writer)
        return cls(place, state, seconds) if is_taken else None

    @property
    def writer(self) -> str:
        """A name that no other process has."""
        return f"{self.state.part}.{self.state.generation:06}"

    def is_held(self) -> bool:
        """Whether nobody has claimed the part since, looked at now."""
        self.lost = self.lost or self.place.exists(self._next)
        return not self.lost

    def end(self, ending: str, reason: str = "", **facts: str) -> None:
        """Say that nobody works on the part any more: "made", "failed" for a `reason`, or "released"."""
        self.place.create(f"{self.state.name}.{ending}", about_process(reason=reason, **facts))

    def __enter__(self) -> PartLease:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
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


@contextmanager
def alone(place: SharedPlace, name: str, waiting: str, seconds: float = LEASE_SECONDS) -> Iterator[None]:
    """Be the only process at something; another one waits, and says so. No claim is left of one that ends."""
    started, lease = time.monotonic(), None
    while lease is None:
        state = patiently(lease_states, place).get(name)
        if state is None or not is_at_work(place, state, seconds):
            lease = patiently(PartLease.take, place, name, state, seconds, f"{name}.{secrets.token_hex(4)}")
        elif time.monotonic() - started > _QUIET_SECONDS and started:
            print(f"visir: {waiting}", file=sys.stderr)  # noqa: T201
            started = 0.0
        if lease is None:
            time.sleep(_POLL_SECONDS * (1 if isinstance(place, SharedFolder) else 20))
    try:
        with lease:
            yield
    finally:
        with suppress(UnreachableError):
            # Claims that killed processes had begun to write; one that lives and waits begins again.
            for path in (place.folder / LEASES).glob(".new-*") if isinstance(place, SharedFolder) else ():
                if path.name.startswith(f".new-{name}."):
                    place.clear(LEASES, path.name.removeprefix(".new-"))
            for claim in place.listing(LEASES):
                if claim.startswith(f"{name}."):
                    place.remove(f"{LEASES}/{claim}")
