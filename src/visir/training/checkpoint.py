"""A training into a checkpoint folder: what the trainings of towers, sparse heads and category models share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import orjson
import torch
from safetensors import SafetensorError, safe_open

from visir.encoders.checkpoints import Layout
from visir.errors import VisirError, require
from visir.records import Collection, TaskFile, TaskSet
from visir.storage import MANIFEST, FolderChange, changing, is_made_by_visir, recover
from visir.storage.claims import Claims, is_begun
from visir.storage.disk import files_below, system_error
from visir.training.inputs import TrainingData
from visir.training.loop import SAVE_SECONDS, FitResult, L, Report, TrainingError, fit, load_state
from visir.training.processes import Processes, peak_memory
from visir.training.recipe import Regime
from visir.training.settings import to_toml, with_new_keys
from visir.training.trained import CURVE_FILE, RECIPE_FILE, STATE_FILE, STEPS_FILE, Epoch, Step, TrainedModel
from visir.version import __version__

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

STOPPED_FILE = "stopped-batch.json"
_ANOTHER = '--out DIR (out="DIR" in Python)'

Write = Callable[[Path, FitResult[L], dict[str, Any]], Mapping[str, Any]]
"""Writes a checkpoint's files into a folder, given the result and the facts of the training; returns `visir.json`."""


def default_folder(recipe: Regime) -> Path:
    """Where a training is written when no folder is named: `runs/NAME-seedSEED`."""
    return Path("runs") / f"{recipe.name}-seed{recipe.seed}"


def recipe_text(recipe: Regime, verb: str) -> str:
    """The resolved recipe as TOML, opening with the command that runs it."""
    return to_toml(recipe, f"visir {verb} {RECIPE_FILE}")


@dataclass(frozen=True)
class Checkpoint:
    """The folder that a training makes."""

    path: Path
    layout: Layout  # which files a checkpoint of this kind has
    recipe: str  # the resolved recipe as TOML
    resume: bool = False  # whether to go on from the state that an interrupted training left there, if there is one
    events: Mapping[str, str] | None = None  # subfolder → the pattern of what others (TensorBoard) write there
    began: float = field(default_factory=time.perf_counter)  # when preparing began

    @classmethod
    def begin(
        cls,
        recipe: Regime,
        verb: str,
        out: str | Path | None,
        layout: Layout,
        *,
        resume: bool = False,
        events: Mapping[str, str] | None = None,
    ) -> Checkpoint:
        """The folder of a training that begins now, by default `runs/NAME-seedSEED`; nothing is written yet."""
        path = default_folder(recipe) if out is None else Path(out)
        if not (resume and is_made_by_visir(path, layout.kind.name)):
            Processes.join(recipe.device).run_on_first(lambda: check_free(path, resume))
        return cls(path, layout, recipe_text(recipe, verb), resume, events)

    def is_finished_with(self, recipe: Regime, **splits: Collection | TaskFile | TaskSet) -> bool:
        """Whether the folder holds this very training, finished; one of another recipe or of other data is refused."""
        if not (self.resume and is_made_by_visir(self.path, self.layout.kind.name)):
            return False
        facts = TrainedModel(self.path).facts
        was, now = (
            {**values, "data": {**values["data"], "obtain": ""}, "title": "", "group": ""}
            for values in (with_new_keys(recipe, facts["recipe"]), recipe.model_dump(mode="json"))
        )
        differing = sorted(key for key in {*was, *now} if was.get(key) != now.get(key))
        differing += [name for name, split in splits.items() if facts[name]["split"] != split.fingerprint]
        if differing:
            raise VisirError(
                f"{self.path} holds a finished checkpoint of another training: {', '.join(differing)} differ.",
                hint='train into another folder: --out DIR (out="DIR" in Python)',
                code="finished-by-another",
            )
        # Killed at its very end, a training leaves its state.
        recover(self.path, self.layout.kind, busy=f"{self.path}: another process is writing there; waiting for it")
        return True

    def train(
        self,
        recipe: Regime,
        learner: L,
        train: TrainingData,
        validation: TrainingData,
        write: Write[L],
        *,
        report: Report | None = None,
        save_seconds: float = SAVE_SECONDS,
        save_every_epoch: bool = True,
    ) -> None:
        """Train, and make the folder a checkpoint; see `visir.training.loop.fit`. `write` writes the model's files."""
        # Of a `TrainingError` the ids of the batch are then also in `stopped-batch.json`.
        processes = Processes.join(recipe.device)
        prepared = time.perf_counter() - self.began
        with ExitStack() as stack:
            opened: list[FolderChange] = []
            processes.run_on_first(lambda: opened.append(stack.enter_context(self._opened())))
            try:
                result = fit(
                    recipe,
                    learner,
                    train,
                    validation,
                    folder=self.path,
                    change=opened[0] if opened else None,
                    resume=self.resume,
                    report=report,
                    save_seconds=save_seconds,
                    save_every_epoch=save_every_epoch,
                )
            except TrainingError as fault:
                for change in opened:
                    stopped = {"message": fault.message, train.unit: fault.ids}
                    change.write_json(STOPPED_FILE, stopped, counts=False)
                raise
            facts = {
                "recipe": recipe.model_dump(mode="json"),
                "trained_on": train.origin,
                "validated_on": validation.origin,
                "chosen_epoch": result.chosen,
                "validation": result.curve[result.chosen - 1].validation,
                "objective": result.facts,
                "curve": [asdict(epoch) for epoch in result.curve],
                "seconds": {"preparation": prepared, "training": sum(epoch.seconds for epoch in result.curve)},
                "peak_memory": peak_memory(),
                "versions": {"visir": __version__, "torch": torch.__version__},
                "threads": torch.get_num_threads(),
                "processes": processes.count,
            }
            processes.run_on_first(lambda: self._finish(opened[0], lambda path: write(path, result, facts), facts))

    @contextmanager
    def _opened(self) -> Iterator[FolderChange]:
        """Take the folder; nobody else trains into it meanwhile. What was written stays, whatever ends the block."""
        out = self.path
        another = VisirError(
            f"{out}: another process is training into this folder.",
            hint="wait for it, or stop it, or --out DIR",
            code="another-process-training-folder",
        )
        check_free(out, self.resume)
        if self.resume and not is_begun(out, trusted=True) and _is_state(out):
            with Claims.take(out, busy=another) as claims:  # a cleaner, or a copy without hidden files, took the log
                claims.add(*(name for name in (STATE_FILE, RECIPE_FILE, STEPS_FILE) if (out / name).is_file()))
        with changing(out, self.layout.kind, busy=another, resume=True, trusted=self.resume) as change:
            check_free(out, self.resume)  # preparation takes time, and another process may have come and gone
            if not (out / STATE_FILE).is_file():  # a state goes with the recipe that it was begun with
                change.write(RECIPE_FILE, self.recipe.encode(), counts=False)
            for name, pattern in (self.events or {}).items():
                change.expect(name, pattern)
            yield change
            if not change.manifest.generation:
                change.abandon()

    def _finish(
        self, change: FolderChange, write: Callable[[Path], Mapping[str, Any]], facts: Mapping[str, Any]
    ) -> None:
        """Make the folder a checkpoint."""
        try:
            self.layout.claim(change)
            content = write(change.folder)
            self.layout.count(change)
            change.write(RECIPE_FILE, self.recipe.encode())
            change.write_json(CURVE_FILE, facts["curve"])
            for name, pattern in (self.events or {}).items():
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
    try:
        with safe_open(str(out / STATE_FILE), framework="np") as stored:
            return "notes" in (stored.metadata() or {})
    except (OSError, SafetensorError):
        return False


# TensorBoard: the log of steps and the curve as event files.

FOLDER = "tensorboard"
EVENTS = "events.out.tfevents.*"
"""What its files are called."""


class TensorBoard:
    """Scalars of every step and of every epoch, both over the number of steps: `with TensorBoard(out) as board`."""

    # `board` is called after each epoch, with its point of the curve. Event files are a copy of `steps.jsonl` and of
    # the curve: a training that goes on writes them anew from its beginning into a new file, and tells readers to pass
    # over what the files before it say. So no point is shown twice and none is missing, wherever it was interrupted.

    def __init__(self, out: Path) -> None:
        require("tensorboard", extra="train", purpose="--tensorboard")
        self._out = out
        self._writer: SummaryWriter | None = None
        self._read = 0
        self._last: dict[int, int] = {}

    def __call__(self, epoch: Epoch) -> None:
        """Write what came since the last call."""
        epochs = [epoch]
        if self._writer is None:
            epochs = [*self._behind(epoch), epoch]
            self._writer = self._begin()
        with (self._out / STEPS_FILE).open("rb") as log:
            log.seek(self._read)
            steps = [Step(**orjson.loads(line)) for line in log]
            self._read = log.tell()
        for step in steps:
            self._last[step.epoch] = step.step
            self._write("step", {**step.losses, **step.facts, "learning rate": step.learning_rate}, step.step)
        for point in epochs:
            at = self._last[point.epoch]
            self._write("epoch", {**point.losses, **point.facts, "captions per second": point.rate}, at)
            self._write("validation", point.validation, at)
        self._writer.flush()

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def _begin(self) -> SummaryWriter:
        from torch.utils.tensorboard import SummaryWriter

        # Readers pass over what an earlier process wrote: every point is written anew.
        return SummaryWriter(str(self._out / FOLDER), purge_step=0)

    def _behind(self, epoch: Epoch) -> list[Epoch]:
        """The epochs before the first one that this process trained: those of the state from which it went on."""
        if epoch.epoch == 1:
            return []
        curve = load_state(self._out / STATE_FILE)[1]["curve"]
        return [Epoch(**values) for values in curve if values["epoch"] < epoch.epoch]

    def _write(self, group: str, values: Mapping[str, float], step: int) -> None:
        assert self._writer is not None
        for name, value in values.items():
            self._writer.add_scalar(f"{group}/{name}", value, step)
