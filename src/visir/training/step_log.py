"""What every step of a training lost, one JSON object per line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from visir.files import open_binary

STEPS_FILE = "steps.jsonl"


@dataclass(frozen=True)
class Step:
    """One update of the weights.

    - `step`: from 1 over the whole training; `epoch`: from 1
    - `losses`: "loss", what is made small, and its parts, means over the step's captions
    - `facts`: what the objective stood at when they were computed (temperature, multipliers)
    - `learning_rate`: the optimiser's, before what a side's own rate makes of it
    """

    step: int
    epoch: int
    losses: dict[str, float]
    facts: dict[str, float]
    learning_rate: float


def read_steps(path: str | Path) -> Iterator[Step]:
    """The steps in a log, in order. A last line that was cut off by a kill is left out."""
    with open_binary(path) as stream:
        for line in stream:
            if line.endswith(b"\n"):
                yield Step(**orjson.loads(line))


class StepLog:
    """The log of a training in progress; `path` None keeps none.

    `done` steps are behind it: what the file holds beyond them is cut off (an interrupted training ran further than the
    state it goes on from), so that the log of a resumed training is that of an unbroken one.
    """

    def __init__(self, path: Path | None, done: int) -> None:
        self._stream = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = path.open("a+b")
            self._stream.seek(0)
            kept = 0
            for line in self._stream:
                if not line.endswith(b"\n") or orjson.loads(line)["step"] > done:
                    break
                kept += len(line)
            self._stream.truncate(kept)
            self._stream.seek(0, os.SEEK_END)

    def write(self, step: Step) -> None:
        """Add a step; it is on disk after `flush`."""
        if self._stream is not None:
            self._stream.write(orjson.dumps(asdict(step), option=orjson.OPT_APPEND_NEWLINE))

    def flush(self) -> None:
        """Wait until all steps are on disk."""
        if self._stream is not None:
            self._stream.flush()
            os.fsync(self._stream.fileno())

    def close(self) -> None:
        """Write what is left and close the file."""
        if self._stream is not None:
            self._stream.close()
