"""What a training leaves: a folder that is a model, and how it came about."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import orjson

from visir.display import Plotted, Tabular
from visir.encoders.checkpoints import ENCODER, Layout, read_description
from visir.errors import EncoderError, VisirError
from visir.files import open_binary
from visir.storage import MANIFEST, FolderChange, FolderKind, changing
from visir.storage.claims import Claims, hold, is_begun, make_folder, release
from visir.storage.disk import files_below, system_error
from visir.storage.manifest import LOG

if TYPE_CHECKING:
    from visir.encoders.base import Encoder


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


@dataclass
class Running:
    """The epoch that is under way."""

    step: int = 0  # steps so far
    pairs: int = 0  # pairs so far
    sums: dict[str, float] = field(default_factory=dict)  # of the losses over pairs
    seconds: float = 0.0  # so far

    def add(self, losses: Mapping[str, float], pairs: int) -> None:
        """Count a step, whose losses are means over its pairs."""
        self.step += 1
        self.pairs += pairs
        for name, value in losses.items():
            self.sums[name] = self.sums.get(name, 0.0) + value * pairs

    def means(self) -> dict[str, float]:
        """The losses over all pairs so far."""
        return {name: value / self.pairs for name, value in self.sums.items()}


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
                length = 0  # of the lines of the first `done` steps, up to one that was cut off
                for line in stream:
                    if not line.endswith(b"\n") or orjson.loads(line)["step"] > done:
                        break
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


RECIPE_FILE = "recipe.toml"


CURVE_FILE = "curve.json"


STATE_FILE = "state.safetensors"


_SAVING = "saving"
"""Where safetensors writes the state, under a name of its own first."""


_ANOTHER = '--out DIR (out="DIR" in Python)'


_SAFETENSORS = ".tmp??????"


class TrainingFolder:
    """A folder that this process trains into."""

    def __init__(self, path: Path, change: FolderChange | None) -> None:
        self.path = path
        self._change = change
        if change is not None:
            change.clear(_SAVING)  # what a kill in the middle of a save leaves

    @property
    def state(self) -> Path:
        """Where the state of an interrupted training lies."""
        return self.path / STATE_FILE

    @property
    def steps(self) -> Path:
        """Where the log of steps lies, for the process that writes it."""
        return self._writing.file(STEPS_FILE)

    @contextmanager
    def saving(self) -> Iterator[Path]:
        """A path that becomes the state in one step."""
        self._writing.subfolder(_SAVING, _SAFETENSORS)
        with self._writing.replacing(STATE_FILE, counts=False, through=_SAVING) as path:
            yield path

    def write(self, name: str, data: bytes) -> None:
        """Write a file that is gone when the training is done."""
        self._writing.write(name, data, counts=False)

    def begin(self, recipe: str) -> None:
        """Keep the recipe's text; a state goes with the recipe that it was begun with."""
        if not self.state.is_file():
            self._writing.write(RECIPE_FILE, recipe.encode(), counts=False)

    def expect(self, name: str, pattern: str) -> None:
        """Somebody else (TensorBoard) writes files of this pattern into a subfolder; they belong to the checkpoint."""
        self._writing.expect(name, pattern)

    def finish(
        self,
        layout: Layout,
        write: Callable[[Path], Mapping[str, Any]],
        recipe: str,
        curve: Sequence[Epoch],
        *,
        subfolders: Mapping[str, str] | None = None,
    ) -> None:
        """Make the folder a checkpoint."""
        change = self._writing
        try:
            layout.claim(change)
            content = write(change.folder)
            layout.count(change)
            change.write(RECIPE_FILE, recipe.encode())
            change.write_json(CURVE_FILE, [asdict(epoch) for epoch in curve])
            for name, pattern in (subfolders or {}).items():
                change.written(name, pattern)
            change.commit(content)
        except Exception as fault:
            if system_error(fault) is None:
                raise
            raise VisirError(
                f"{self.path}: training is done, but the checkpoint could not be written ({fault}); its last state is "
                "whole.",
                hint="make room; the same command with --resume then writes it and trains nothing again",
                code="training-done-checkpoint-could",
            ) from fault

    @property
    def _writing(self) -> FolderChange:
        assert self._change is not None, "only the first process writes"
        return self._change


def check_free(out: Path, resume: bool) -> None:
    """Raise `VisirError` when `out` holds something that a training must not write over."""
    if out.exists() and not out.is_dir():
        raise VisirError(
            f"{out} is a file, not a folder.", hint=f"train into a folder: {_ANOTHER}", code="file-not-folder"
        )
    if (out / MANIFEST).is_file():
        raise VisirError(
            f"{out} holds a finished checkpoint.",
            hint=f'use it: visir.load("{out}"); or train into another folder: {_ANOTHER}',
            code="holds-finished-checkpoint",
        )
    if out.exists() and any(out.iterdir()) and not is_begun(out, trusted=resume) and not _is_state(out):
        names = ", ".join(files_below(out)[:3])
        raise VisirError(
            f"{out} exists and is not a training's folder: it holds {names}.",
            hint=f"train into another: {_ANOTHER}",
            code="not-a-trainings-folder",
        )
    if (out / STATE_FILE).is_file() and not resume:
        raise VisirError(
            f"{out} holds an interrupted training.",
            hint=f"go on with --resume (resume=True in Python), or train into another folder: {_ANOTHER}",
            code="holds-interrupted-training",
        )


def _is_state(out: Path) -> bool:
    """Whether the folder has a state that a training of visir wrote."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(out / STATE_FILE), framework="np") as stored:
            return "notes" in (stored.metadata() or {})
    except (OSError, SafetensorError):
        return False


@contextmanager
def open_training_folder(out: Path, layout: Layout, resume: bool) -> Iterator[TrainingFolder]:
    """Take the folder; nobody else trains into it meanwhile. What was written stays, whatever ends the block."""
    another = VisirError(
        f"{out}: another process is training into this folder.",
        hint="wait for it, or stop it, or --out DIR",
        code="another-process-training-folder",
    )
    check_free(out, resume)
    if resume and not is_begun(out, trusted=True) and _is_state(out):
        with Claims.take(out, busy=another) as claims:  # a cleaner, or a copy without hidden files, took the log
            claims.add(*(name for name in (STATE_FILE, RECIPE_FILE, STEPS_FILE) if (out / name).is_file()))
    with changing(out, layout.kind, busy=another, resume=True, trusted=resume) as change:
        if change.manifest.generation:  # preparation takes time, and another process may have come and gone
            check_free(out, resume)
        if (out / STATE_FILE).is_file() and not resume:
            check_free(out, resume)
        yield TrainingFolder(out, change)
        if not change.manifest.generation:
            change.abandon()


def wait_until_free(out: Path, waiting: str) -> None:
    """Wait for another process that trains into this folder; `waiting` is the message meanwhile."""
    if (out / LOG).is_file():
        release(hold(out / LOG, waiting))


@contextmanager
def writing_into(folder: TrainingFolder | Path | None, *, first: bool = True) -> Iterator[TrainingFolder | None]:
    """The folder as `fit` takes it: one that is taken already, one to be taken, or none."""
    if folder is None or isinstance(folder, TrainingFolder):
        yield folder
    elif not first:
        yield TrainingFolder(folder, None)
    else:
        busy = VisirError(
            f"{folder}: another process is training into this folder.", code="another-process-training-folder"
        )
        with changing(folder, FolderKind("training", "a training"), busy=busy, resume=True) as change:
            yield TrainingFolder(folder, change)
            change.abandon()
