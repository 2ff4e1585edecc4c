"""What a training leaves: a folder that is a model, and how it came about."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import orjson

from visir.display import Plotted, Tabular
from visir.encoders.checkpoints import ENCODER, read_description
from visir.errors import EncoderError, VisirError
from visir.files import open_binary
from visir.storage.claims import hold, make_folder, release
from visir.storage.manifest import LOG

if TYPE_CHECKING:
    from visir.encoders.base import Encoder

RECIPE_FILE = "recipe.toml"
CURVE_FILE = "curve.json"
STATE_FILE = "state.safetensors"
STEPS_FILE = "steps.jsonl"

# The training curve: what each epoch came to.


@dataclass(frozen=True)
class Epoch:
    """One point of the training curve."""

    epoch: int  # from 1
    losses: dict[str, float]  # means over its pairs of "loss", what is made small, and its parts
    facts: dict[str, float]  # what the learner stands at after it (temperature, multipliers)
    # The figures of validation; of dual encoders, hits in percent and "rsum" (`visir.training.learner.validate`).
    validation: dict[str, float]
    seconds: float  # how long it took, validation included
    rate: float  # pairs trained per second


@dataclass(frozen=True, repr=False)
class TrainingCurve(Tabular, Plotted, Sequence[Epoch]):
    """All epochs of a training, in order; as many as were run."""

    name: str  # of the recipe
    epochs: tuple[Epoch, ...]  # the epochs
    chosen: int  # the epoch (from 1) whose weights were kept

    def __len__(self) -> int:
        return len(self.epochs)

    @overload
    def __getitem__(self, index: int) -> Epoch: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Epoch]: ...
    def __getitem__(self, index: int | slice) -> Epoch | Sequence[Epoch]:
        return self.epochs[index]

    def rows(self) -> list[dict[str, float]]:
        """One row for each epoch: "epoch", losses, facts, the figures of validation, "seconds", "rate"."""
        return [
            {
                "epoch": epoch.epoch,
                **epoch.losses,
                **epoch.facts,
                **epoch.validation,
                "seconds": epoch.seconds,
                "rate": epoch.rate,
            }
            for epoch in self.epochs
        ]

    def __repr__(self) -> str:
        losses = [epoch.losses["loss"] for epoch in self.epochs]
        course = f", loss {losses[0]:.3f} → {losses[-1]:.3f}" if losses else ""
        return f"TrainingCurve({self.name}: {len(self)} epochs{course}, epoch {self.chosen} kept)"


# What every step of a training lost, one JSON object per line.

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
                length = 0  # of the lines of the first `done` steps, up to one that was cut off
                for number, line in enumerate(stream, 1):
                    try:
                        if not line.endswith(b"\n") or orjson.loads(line)["step"] > done:
                            break
                    except (ValueError, KeyError, TypeError) as fault:
                        raise VisirError(
                            f"{path}, line {number}: no step of a training; the file was changed since.",
                            hint="bring back a copy of it, or move it away",
                            code="log-of-steps-changed",
                        ) from fault
                    length += len(line)
                stream.truncate(length)

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


@dataclass(frozen=True, repr=False)
class TrainedModel(Tabular, Plotted, os.PathLike[str]):
    """The folder of a finished training. It stands wherever the name of a model does: `visir.evaluate(photos, run)`.

    Attributes:
        path: Of the folder.

    Example:
        >>> import visir
        >>> changes = {"epochs": 1, "batch": 16}
        >>> run = visir.train("scenes-heads", data="scenes:50?size=64", out="heads", **changes)
        >>> run.name, run.chosen_epoch, visir.load(run).dimension
        ('scenes-heads', 1, 128)
    """

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # a person writes the folder as text

    @property
    def name(self) -> str:
        """Of the recipe."""
        return str(self.recipe["name"])

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Everything that the result depends on, defaults and all; `recipe.toml` in the folder says the same."""
        recipe: Mapping[str, Any] = self.facts["recipe"]
        return recipe

    @cached_property
    def curve(self) -> TrainingCurve:
        """Every epoch: losses, figures of validation, time."""
        with ENCODER.reading(self.path):
            epochs = tuple(Epoch(**epoch) for epoch in self.facts["curve"])
            return TrainingCurve(self.name, epochs, self.chosen_epoch)

    @property
    def chosen_epoch(self) -> int:
        """The epoch (from 1) whose weights the model has."""
        return int(self.facts["chosen_epoch"])

    @property
    def validation(self) -> dict[str, float]:
        """The figures of the validation split at the chosen epoch. They chose it: test figures are another matter."""
        return dict(self.facts["validation"])

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """How it came about: recipe, curve, data, seconds, peak memory, versions."""
        description = read_description(self.path)
        facts = description.get("facts")
        if not isinstance(facts, Mapping) or "curve" not in facts:
            raise EncoderError(f"{self.path}: a model, but of no training.", hint=f'visir.load("{self.path}")')
        return facts

    def load(self, *, device: str | None = None) -> Encoder:
        """The trained encoder: `visir.load` of the folder.

        Args:
            device: Where it computes; the fastest there is when it is left out.
        """
        from visir.encoders import load

        return load(self.path, device=device)

    def merge(self, out: str | os.PathLike[str]) -> TrainedModel:
        """Write a model of its own, with the adapters of this one added to the weights of its base.

        It gives the same vectors, and needs neither the base nor `peft`.

        Args:
            out: A new folder.

        Raises:
            EncoderError: This model has no adapters.
        """
        from visir.encoders.models.towers import merge_checkpoint

        return TrainedModel(merge_checkpoint(self.path, os.fspath(out)))

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        """The path, so that it is a name of a model too."""
        return str(self.path)

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {value:.1f}" for name, value in self.validation.items())
        return (
            f"TrainedModel({str(self.path)!r}): {self.name}, epoch {self.chosen_epoch} of {len(self.curve)}\n"
            f"  validation: {figures}"
        )


def open_checkpoint(folder: str | os.PathLike[str]) -> TrainedModel | Encoder:
    """The training that a checkpoint comes from; of one that comes from none the model."""
    facts = read_description(Path(folder)).get("facts")
    trained = TrainedModel(Path(folder))
    return trained if isinstance(facts, Mapping) and "curve" in facts else trained.load()


def wait_until_free(out: Path, waiting: str) -> None:
    """Wait for another process that trains into this folder; `waiting` is the message meanwhile."""
    if (out / LOG).is_file():
        release(hold(out / LOG, waiting))
