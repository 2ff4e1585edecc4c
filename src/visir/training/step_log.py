"""What every step of a training lost, one JSON object per line."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from visir.errors import VisirError
from visir.files import open_binary
from visir.storage.locks import make_folder

STEPS_FILE = "steps.jsonl"

_SECONDS = 2.0
"""How long steps wait to be written together."""


@dataclass(frozen=True)
class Step:
    """One update of the weights."""

    step: int  # from 1 over the whole training
    epoch: int  # from 1
    losses: dict[str, float]  # "loss", what is made small, and its parts, means over the step's captions
    facts: dict[str, float]  # what the objective stood at when they were computed (temperature, multipliers)
    learning_rate: float  # the optimiser's, before what a side's own rate makes of it


def read_steps(path: str | Path) -> Iterator[Step]:
    """The steps in a log, in order. A last line that was cut off by a kill is left out."""
    with open_binary(path) as stream:
        for line in stream:
            if line.endswith(b"\n"):
                yield Step(**orjson.loads(line))


class StepLog:
    """The log of a training in progress; `path` None keeps none."""

    # `done` steps are behind it: what the file holds beyond them is cut off (an interrupted training ran further than
    # the state it goes on from), so that the log of a resumed training is that of an unbroken one. A disk that is full
    # raises `VisirError`.

    def __init__(self, path: Path | None, done: int) -> None:
        self._path = path
        self._waiting: list[bytes] = []
        self._written = time.monotonic()
        if path is not None:
            make_folder(path.parent)
            with path.open("a+b") as stream:
                stream.seek(0)
                stream.truncate(sum(map(len, _whole_lines(stream, done))))

    def write(self, step: Step) -> None:
        """Add a step; who follows the file sees it within seconds, and it is on disk for good after `flush`."""
        if self._path is not None:
            self._waiting.append(orjson.dumps(asdict(step), option=orjson.OPT_APPEND_NEWLINE))
            if time.monotonic() - self._written >= _SECONDS:
                self._write(to_disk=False)

    def flush(self) -> None:
        """Wait until all steps are on disk."""
        self._write(to_disk=True)

    def close(self) -> None:
        """Write what is left."""
        self._write(to_disk=False)

    def _write(self, *, to_disk: bool) -> None:
        if self._path is None or not (self._waiting or to_disk):
            return
        lines, self._waiting = self._waiting, []  # lines that do not fit are not tried again: the state is before them
        try:
            with self._path.open("ab") as stream:
                stream.writelines(lines)
                if to_disk:
                    stream.flush()
                    os.fsync(stream.fileno())
        except OSError as fault:
            raise VisirError(
                f"{self._path}: the log of steps could not be written ({fault}).",
                hint="make room, then go on with --resume",
            ) from fault
        self._written = time.monotonic()


def _whole_lines(stream: Iterable[bytes], done: int) -> Iterator[bytes]:
    """The lines of the first `done` steps, up to one that was cut off."""
    for line in stream:
        if not line.endswith(b"\n") or orjson.loads(line)["step"] > done:
            return
        yield line
