"""The training loop, from top to bottom: batches, forward, loss, backward, step; then validate, and save.

`fit` goes through the epochs. `updates` makes the batches of one and moves the weights by each (`update`: the gradients
of its batches by `backward_of`, their mean over the processes, checks, the optimiser's step). `close_epoch` validates.
What moves is a `Training`; what is trained, and what its loss is, a `Learner`.
"""

from __future__ import annotations

import hashlib
import math
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np
import orjson
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from visir.display import Displayed
from visir.encoders.towers.base import Inputs, to_device
from visir.errors import NO_ROOM, ConfigurationError, VisirError, raise_faults
from visir.progress import Progress
from visir.storage import FolderChange, FolderKind, changing
from visir.storage.disk import system_error
from visir.training.inputs import EpochRandom, HardNegatives, Side, TrainingBatch, TrainingData, prefetch
from visir.training.learner import E, Learner
from visir.training.losses import Losses
from visir.training.optimiser import (
    BatchStatistics,
    Freezing,
    Moved,
    Moving,
    Precision,
    RunningMean,
    Timetable,
    build_optimiser,
    moments,
    parameters_of,
    restore_moments,
    set_rates,
    snapshot_steps,
)
from visir.training.processes import GradientMean, Processes, Share, pairs_of_all, steps_of_epoch, steps_per_epoch
from visir.training.recipe import Regime
from visir.training.settings import with_new_keys
from visir.training.similarities import VectorPairs
from visir.training.trained import STATE_FILE, STEPS_FILE, Epoch, Step, StepLog

SAVE_SECONDS = 600.0
"""How often the state is written within a long epoch: what a kill can cost at most."""


Report = Callable[[Epoch], None]
L = TypeVar("L", bound=Learner[Any])


@dataclass(frozen=True, repr=False)
class FitResult(Displayed, Generic[L]):
    """A trained model and how it came about.

    Attributes:
        learner: Its `model` has the chosen weights, on the CPU, in evaluation mode.
        curve: Every epoch.
        chosen: The epoch (from 1) whose weights the model has.
        facts: What moved besides the weights, as it was then (temperature, multipliers).
    """

    learner: L
    curve: tuple[Epoch, ...]
    chosen: int
    facts: dict[str, float]


def fit(
    recipe: Regime,
    learner: L,
    train: TrainingData,
    validation: TrainingData,
    *,
    folder: Path | None = None,
    change: FolderChange | None = None,
    resume: bool = False,
    report: Report | None = None,
    save_seconds: float = SAVE_SECONDS,
    save_every_epoch: bool = True,
) -> FitResult[L]:
    """Train a model on `train` and choose the epoch on `validation`.

    Under `torchrun` or `accelerate launch` all processes call this alike; each trains on its share of every batch, with
    everybody's vectors as negatives, and gets the same result. The first one alone writes, validates and reports;
    `folder` must be one that all can read.

    Args:
        recipe: Of which it reads what a `Regime` has.
        learner: What is trained; its model is changed in place.
        train: What the weights learn from.
        validation: What the epoch is chosen by.
        folder: Where the state (one file, replaced in one step) and the log of steps are written; None keeps neither.
        change: The change of the folder, where the first process has begun one.
        resume: Go on from that state when there is one. On the CPU the result is the same, bit for bit, as without the
            interruption: what is random in a step depends on the seed and the step's place alone.
        report: Called after each epoch.
        save_seconds: How often the state is written within an epoch: what a kill can cost at most.
        save_every_epoch: Write it after each epoch too; otherwise after the last one.

    Returns:
        The learner, whose model has the weights of the chosen epoch, with the curve.

    Raises:
        TrainingError: A loss or a gradient is NaN or infinite; it names the ids of the batch.
        ConfigurationError: Something cannot be computed as asked, or the state is of another training.
        KeyboardInterrupt: Ctrl-C; it is raised at the end of the step, when the state is saved.
    """
    processes = Processes.join(recipe.device)
    training = Training(recipe, learner, train, validation, processes)
    with ExitStack() as stack:
        if folder is not None and processes.is_first:
            change = change or stack.enter_context(writing_into(folder))
            change.clear(SAVING)  # what a kill in the middle of a save leaves
        if resume and folder is not None and (folder / STATE_FILE).is_file():
            training.restore(folder / STATE_FILE)
        training.begin()
        # Where the training is run, torch's generators are as they were before.
        stack.enter_context(torch.random.fork_rng([processes.device] if processes.device.type == "cuda" else []))
        log = StepLog(None if change is None else change.file(STEPS_FILE), training.steps_done)
        stack.callback(log.close)
        progress: AbstractContextManager[Callable[[int], None]] = nullcontext(lambda pairs: None)
        if processes.is_first:
            progress = Progress(recipe.name, training.pairs_left, train.unit)
        advance = stack.enter_context(progress)
        held: AbstractContextManager[Callable[[], bool]] = nullcontext(lambda: False)
        interrupted = stack.enter_context(interrupts_held() if processes.count == 1 else held)
        unsaved_since = time.monotonic()

        def save() -> None:
            nonlocal unsaved_since
            unsaved_since = time.monotonic()
            log.flush()
            if change is not None:
                training.save(change)

        def stop() -> NoReturn:
            save()
            state = f"; its state is in {folder}: the same with resume=True (--resume) goes on" if folder else ""
            raise KeyboardInterrupt(f"{recipe.name}: stopped after step {training.steps_done:,}{state}")

        while not training.is_done:
            with closing(updates(training)) as steps:
                for step, pairs in steps:
                    log.write(step)
                    advance(pairs)
                    if processes.is_first and time.monotonic() - unsaved_since >= save_seconds:
                        save()
                    if interrupted() and training.running.step < training.steps:
                        stop()
            epoch = close_epoch(training)
            if save_every_epoch or training.is_done:
                processes.run_on_first(save)
            if report is not None and processes.is_first:
                report(epoch)
            if interrupted() and not training.is_done:
                stop()
    training.choose()
    return FitResult(learner, tuple(training.curve), training.chosen, training.facts)


def updates(training: Training[Any]) -> Generator[tuple[Step, int], None, None]:
    """The updates of the epoch under way that are still to be done, one by one, each with its number of pairs."""
    recipe, processes, running = training.recipe, training.processes, training.running
    settings, number = recipe.optimiser, len(training.curve)
    began, before = time.perf_counter(), running.seconds

    # Batches: rows shuffled by the seed and the epoch alone, several for an update where it accumulates; of each this
    # process's share, in the chunks that go through the model at once. Threads read ahead.
    steps = steps_of_epoch(
        len(training.train),
        settings.batch,
        settings.accumulate,
        seed=recipe.seed,
        epoch=number,
        anchors=training.anchors if settings.per_image > 1 else None,
        per_image=settings.per_image,
    )
    shares = [
        [Share.of(rows, process=processes.rank, processes=processes.count, chunk=settings.chunk) for rows in batches]
        for batches in steps
    ]
    todo = range(running.step, training.steps)
    chunks = (chunk for step in todo for share in shares[step] for chunk in share.chunks)
    draw, pin = EpochRandom(recipe.seed, number), processes.device.type == "cuda"
    snapshots = snapshot_steps(recipe.averaging, training.steps)
    training.mine(draw)
    training.learner.train()
    training.freezing.train(training.model, frozen=training.timetable.is_frozen(number))
    with closing(prefetch(training.train, chunks, draw, pin=pin)) as inputs:
        for step in todo:
            losses, facts = update(training, shares[step], inputs, step)
            if step in snapshots:
                training.average.add(training.averaged)
            pairs = sum(len(share.rows) for share in shares[step])
            running.add(losses, pairs)
            running.seconds = before + time.perf_counter() - began
            rate = training.timetable.factor(number, step) * settings.rate
            yield Step(training.steps_done, number + 1, losses, facts, rate), pairs


def update(
    training: Training[Any], shares: Sequence[Share], inputs: Iterator[TrainingBatch], step: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Move the weights once, by the gradient of the mean loss over the pairs of several batches."""
    # Returns: means over the pairs of "loss" and its parts, and the learner's facts before the update.
    learner, optimiser, precision, epoch = training.learner, training.optimiser, training.precision, len(training.curve)
    clip = training.recipe.optimiser.clip
    learner.at_step(epoch, step)
    set_rates(optimiser, training.timetable.factor(epoch, step))
    optimiser.zero_grad()
    weights = [len(share.rows) / sum(len(share.rows) for share in shares) for share in shares]

    # Forward, loss, backward: each batch adds to the gradients, and the last one sends them to the other processes;
    # chunks send them when all are through. Every process does the same, so that their messages have one order.
    of_batches = []
    for number, share in enumerate(shares):
        sends = number == len(shares) - 1 and not share.is_cut
        with training.mean.sending() if sends else nullcontext():
            of_batches.append(backward_of(training, share, inputs, step, number, weights[number]))
    gradients = [weight.grad for weight in parameters_of(optimiser) if weight.grad is not None]
    training.mean.finish()
    precision.scaler.unscale_(optimiser)
    norm = get_total_norm(gradients)

    # Step, where nothing is NaN or infinite. The CPU waits for the device once: everything that is logged or decided on
    # is read in one piece; a GPU has moved the weights before that, and goes on.
    facts, ahead = learner.facts(), training.moves_ahead
    if ahead:
        _move_unread(training, of_batches, norm)
    losses, length, read = _read(training.processes, of_batches, norm, facts)
    _check_finite(training, shares, losses, length, step)
    if not ahead:
        if clip is not None and math.isfinite(length) and length > clip:
            clip_grads_with_norm_(parameters_of(optimiser), clip, norm)
        precision.step(optimiser)
    mean = {
        name: sum(weight * values[name] for weight, values in zip(weights, losses, strict=True)) for name in losses[0]
    }
    if math.isfinite(length):  # otherwise the scaled gradient overflowed, and nothing moves
        learner.after_step({name: value for name, value in mean.items() if name != "loss"})
    return mean, read


def backward_of(
    training: Training[Any], share: Share, inputs: Iterator[TrainingBatch], step: int, number: int, weight: float
) -> Losses:
    """Add the gradient of `weight` times a batch's loss to the weights' gradients."""
    learner, processes = training.learner, training.processes
    device, rank = processes.device, processes.rank
    # The inputs stay on the CPU for the second pass; chunks bound the device's memory.
    chunks = [next(inputs) for _ in share.chunks]

    def with_hard(side: Side, batches: Sequence[Inputs]) -> Tensor:
        # (n, (1 + h) · d): the hard negatives behind each vector, so that they are cut and gathered with it.
        return torch.cat([learner.vectors(side, to_device(batch, device)) for batch in batches], dim=1)

    def vectors_of(chunk: int) -> Vectors:
        seed_step(training.recipe.seed, len(training.curve), step, number, rank, chunk, device=device)
        batch = chunks[chunk]
        return (
            with_hard("anchor", [batch.anchors, *batch.anchor_negatives]),
            with_hard("positive", [batch.positives, *batch.negatives]),
        )

    def rows_of(name: str) -> Any:
        parts = [getattr(batch, name) for batch in chunks]
        return None if parts[0] is None else torch.cat([part.to(device, non_blocking=True) for part in parts])

    def losses_of(anchors: Tensor, positives: Tensor) -> Losses:
        own = VectorPairs(
            anchors,
            positives,
            rows_of("anchor_rows"),
            _stack_padded([batch.targets for batch in chunks], device),
            _stack_padded([batch.tokens for batch in chunks], device),
            rows_of("classes"),
            rows_of("rows"),
            negative_rows=rows_of("negative_rows"),
            anchor_negative_rows=rows_of("anchor_negative_rows"),
        )
        if processes.count == 1:
            return learner.losses(own.split())
        labels = training.train.labels(share.rows)
        everyone = pairs_of_all(own, processes, share.sizes, local=learner.local_loss, labels=labels)
        return learner.losses(own.split(), everyone.split(), share.own * processes.count / len(share.rows))

    return backward(vectors_of, len(chunks), losses_of, lambda total: training.precision.scaler.scale(weight * total))


def close_epoch(training: Training[Any]) -> Epoch:
    """Validate, choose, and begin the next epoch; the weights that are judged and kept are the averaged ones."""
    training.model.eval()
    if training.swaps:
        training.average.swap_in(training.averaged)
    with training.average.inside(training.averaged):
        epoch = training.processes.run_on_first(lambda: _judged(training))
        training.curve.append(epoch)
        if training.chosen == epoch.epoch:
            training.best = {name: tensor.detach().clone() for name, tensor in training.moving.state().items()}
    training.average.clear()
    training.running = Running()
    return epoch


def _judged(training: Training[Any]) -> Epoch:
    began = time.perf_counter()
    figures = training.learner.validate(training.validation)
    running, number = training.running, len(training.curve)
    training.learner.at_step(number, training.steps - 1)  # a resumed training may not have done this step itself
    return Epoch(
        number + 1,
        running.means(),
        {name: float(value) for name, value in training.learner.facts().items()},
        figures,
        running.seconds + time.perf_counter() - began,
        running.pairs / running.seconds,
    )


# What moves in a training.


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


class Training(Generic[E]):
    """What moves in a training: the weights, and everything beside them; `visir.training.loop` moves it."""

    def __init__(
        self, recipe: Regime, learner: Learner[E], train: TrainingData, validation: E, processes: Processes
    ) -> None:
        self.recipe, self.train, self.validation, self.processes = recipe, train, validation, processes
        self.precision = Precision(recipe.precision, processes.device)
        self.learner = learner.to(processes.device)
        self.learner.prepare(self.precision)
        self.model = learner.model
        self.freezing = Freezing(learner.pretrained)
        self.freezing.check_trainable(learner, recipe.schedule.frozen_epochs)
        self.moving, self.all_moving = Moving(self.model), Moving(learner)
        self.statistics = BatchStatistics(self.model, recipe, processes, len(train))
        settings = recipe.optimiser
        self.optimiser = build_optimiser(learner.parts(), settings, recipe.rates)
        self.steps = steps_per_epoch(len(train), settings.batch, settings.accumulate)
        self.timetable = Timetable(recipe.schedule, settings.epochs, self.steps)
        self.average = RunningMean()
        self.swaps = recipe.averaging.continue_from == "average"
        self.averaged = Moved(parameters_of(self.optimiser)) if self.swaps else self.moving
        self.running = Running()
        self.curve: list[Epoch] = []
        self.best: dict[str, Tensor] = {}
        negatives = getattr(train, "negatives", None)
        self.mined = negatives.mined if isinstance(negatives, HardNegatives) else None
        moved = {id(weight) for weight in parameters_of(self.optimiser)}
        self.mean = GradientMean([weight for weight in learner.parameters() if id(weight) in moved], processes.count)

    def begin(self) -> None:
        """Make sure that all processes begin with the same weights, at the same step."""
        self.processes.broadcast(self.learner.state_dict().values())
        if self.processes.run_on_first(lambda: self.steps_done) != self.steps_done:
            raise ConfigurationError(
                f"process {self.processes.rank} did not find the state from which the first one goes on.",
                hint="--out must be a folder that all machines share",
            )

    @property
    def steps_done(self) -> int:
        """Updates of the weights so far."""
        return len(self.curve) * self.steps + self.running.step

    @property
    def pairs_left(self) -> int:
        """How many pairs are still to be trained on, when nothing stops it early."""
        return (self.recipe.optimiser.epochs - len(self.curve)) * len(self.train) - self.running.pairs

    @property
    def is_done(self) -> bool:
        """Whether all epochs were run, or patience ran out. A function of the curve, so that it survives a restart."""
        if len(self.curve) == self.recipe.optimiser.epochs:
            return True
        patience = self.recipe.selection.patience
        return patience is not None and bool(self.curve) and len(self.curve) - self._best_epoch >= patience

    @property
    def chosen(self) -> int:
        """The epoch (from 1) whose weights are kept."""
        return len(self.curve) if self.recipe.selection.keep == "last" else self._best_epoch

    @property
    def facts(self) -> dict[str, float]:
        """What the objective stood at after the chosen epoch."""
        return self.curve[self.chosen - 1].facts

    @property
    def moves_ahead(self) -> bool:
        """Whether the weights are moved before the CPU has read the losses, so that a GPU goes on computing."""
        # A fused optimiser asks the device itself whether the gradient is finite. A scaled one, and AdamP, ask the CPU.
        fused = all(group.get("fused") for group in self.optimiser.param_groups)
        return self.processes.device.type == "cuda" and fused and not self.precision.is_scaled

    @property
    def anchors(self) -> NDArray[np.int64]:
        """(pairs,) the anchor of each pair."""
        anchors: NDArray[np.int64] = self.train.labels(np.arange(len(self.train)))[0].numpy()
        return anchors

    def mine(self, draw: EpochRandom) -> None:
        """Search for the hard negatives of an epoch, where it is time to; a resumed epoch has those of its begin."""
        mined = self.mined
        if mined is not None and mined.is_due(draw.epoch):
            rows = self.processes.run_on_first(lambda: self.learner.mine(self.train, mined, draw))
            mined.captions, mined.images = rows
            mined.epoch = draw.epoch

    def save(self, change: FolderChange) -> None:
        """Write everything that a later process needs to go on as if nothing had been."""
        tensors = {
            **add_prefix("now", self.all_moving.state()),
            **add_prefix("best", self.best),
            **add_prefix("average", self.average.mean),
            **add_prefix("optimiser", moments(self.optimiser)),
            **add_prefix("mined", {} if self.mined is None else self.mined.tensors()),
        }
        notes = {
            "curve": [asdict(epoch) for epoch in self.curve],
            "running": asdict(self.running),
            "snapshots": self.average.count,
            "scaler": self.precision.scaler.state_dict(),
            "mined": None if self.mined is None else self.mined.epoch,
            "torch": torch.__version__,
        }
        save_state(change, tensors, {**notes, **self._identity()})

    def restore(self, path: Path) -> None:
        """Go back to where `save` was called."""
        tensors, notes = load_state(path)
        was = {**notes, "recipe": with_new_keys(self.recipe, notes.get("recipe", {}))}
        check_same_training(path, was, self._identity())
        if (torch_was := notes.get("torch", torch.__version__)) != torch.__version__:
            warnings.warn(
                f"{path}: begun with torch {torch_was}, goes on with {torch.__version__}: the last bits may be "
                "other ones than without the interruption",
                stacklevel=2,
            )
        device = self.processes.device
        try:
            self.all_moving.load(strip_prefix("now", tensors))
            self.best = {name: tensor.to(device) for name, tensor in strip_prefix("best", tensors).items()}
            self.average.mean = {name: tensor.to(device) for name, tensor in strip_prefix("average", tensors).items()}
            self.average.count = notes["snapshots"]
            restore_moments(self.optimiser, strip_prefix("optimiser", tensors))
            self.precision.scaler.load_state_dict(notes["scaler"])
            if self.mined is not None and not self.mined.settings.model:
                self.mined.restore(strip_prefix("mined", tensors), notes["mined"])
            self.curve = [Epoch(**epoch) for epoch in notes["curve"]]
            self.running = Running(**notes["running"])
        except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as fault:
            raise VisirError(
                f"{path}: the state of another version of visir ({fault}).",
                hint="go on with the version that began it, or train into another folder (--out)",
                code="state-of-another-version",
            ) from fault

    def choose(self) -> None:
        """Give the model the chosen weights, on the CPU and in evaluation mode, all of them trainable again."""
        self.statistics.release()
        self.moving.load(self.best)
        self.freezing.thaw()
        self.model.cpu().eval()

    @property
    def _best_epoch(self) -> int:
        """The epoch (from 1) with the best figure of validation, the earliest of equals."""
        figure = self.recipe.selection.figure
        return 1 + int(np.argmax([epoch.validation[figure] for epoch in self.curve]))

    def _identity(self) -> dict[str, Any]:
        """What must be equal for a run to go on from a state."""
        return {
            "recipe": self.recipe.model_dump(mode="json"),
            "examples": {"train": self.train.origin, "validation": self.validation.origin},
            "threads": torch.get_num_threads() if self.processes.device.type == "cpu" else None,
            "processes": self.processes.count,
        }


# The state of a training: one file, which is replaced in one step.


SAVING = "saving"
"""Where safetensors writes the state, under a name of its own first."""
_SAFETENSORS = ".tmp??????"


@contextmanager
def writing_into(folder: Path) -> Iterator[FolderChange]:
    """A folder in which nothing counts but the state, to go on from."""
    busy = VisirError(
        f"{folder}: another process is training into this folder.", code="another-process-training-folder"
    )
    with changing(folder, FolderKind("training", "a training"), busy=busy, resume=True) as change:
        yield change
        change.abandon()


def save_state(change: FolderChange, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
    """Write tensors and notes (plain values) as one safetensors file; the notes are its metadata."""
    # One file, so that tensors and notes can never be of different steps. A full disk leaves the last one whole and
    # raises `VisirError`.
    try:
        change.subfolder(SAVING, _SAFETENSORS)
        with change.replacing(STATE_FILE, counts=False, through=SAVING) as path:
            apart, text = _apart(tensors), orjson.dumps(notes).decode()
            save_file(apart, str(path), metadata={"notes": text, "hash": _hash(apart, text)})
    except (OSError, SafetensorError) as fault:
        size = 1 + sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        state = change.folder / STATE_FILE
        remains = "the one written before is whole" if state.is_file() else "there is none yet"
        raise VisirError(
            f"{state}: the state of the training could not be written ({fault}); {remains}.",
            hint=f"it takes {-(-size // 2**20):,} MiB beside the last one: make room, then go on with --resume"
            if is_full(fault)
            else "mend that, then go on with --resume",
        ) from fault


def is_full(fault: Exception) -> bool:
    """Whether room was short."""
    cause = system_error(fault)
    return cause is not None and cause.errno in NO_ROOM


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors on the CPU, none sharing memory with another (tied weights), as the format wants them."""
    storages: set[int] = set()
    result = {}
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        if (memory := plain.untyped_storage().data_ptr()) in storages:
            plain = plain.clone()
        storages.add(memory)
        result[name] = plain
    return result


def _hash(tensors: Mapping[str, Tensor], notes: str) -> str:
    """Over what a state holds: no manifest names the file, which is gone when the training is done."""
    digest = hashlib.blake2b(notes.encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def load_state(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_state` wrote."""
    try:
        with safe_open(str(path), framework="pt") as stored:
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 (not a mapping)
            metadata = stored.metadata()
            if metadata.get("hash", expected := _hash(tensors, metadata["notes"])) != expected:
                raise ValueError("its hash does not fit")
            notes: dict[str, Any] = orjson.loads(metadata["notes"])
    except (SafetensorError, ValueError, TypeError, KeyError) as fault:
        raise VisirError(
            f"{path}: the state of the training is damaged ({fault}).",
            hint="it was altered after it was written: bring back a copy, or remove it and train anew",
            code="state-training-damaged",
        ) from fault
    return tensors, notes


def check_same_training(path: Path, stored: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse the state of another training."""
    faults = [
        f"{name}: interrupted with {was!r}, now {now!r}"
        for name, was, now in _differences({name: stored.get(name) for name in expected}, expected, "")
        if not (was is None and name.endswith(".pictures"))  # earlier versions did not note them
    ]
    raise_faults(
        ConfigurationError,
        f"{path}: this is the state of another training",
        faults,
        hint="put these back to resume, or train into another folder (--out)",
    )


def _differences(first: object, second: object, name: str) -> Iterator[tuple[str, object, object]]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in dict.fromkeys([*first, *second]):
            yield from _differences(first.get(key), second.get(key), f"{name}.{key}" if name else str(key))
    elif first != second:
        yield name, first, second


def strip_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix` and a slash, without it."""
    return {name[len(prefix) + 1 :]: tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}/")}


def add_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with `prefix` and a slash before their names."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


# GradCache: the gradient of a large batch in the memory of a small one.

Vectors = tuple[Tensor, Tensor]


def backward(
    vectors_of: Callable[[int], Vectors],
    chunks: int,
    losses_of: Callable[[Tensor, Tensor], Losses],
    scaled: Callable[[Tensor], Tensor],
) -> Losses:
    """Add the gradient of a batch's loss to the weights' gradients."""
    # With several chunks (Gao et al. 2021, section 3): all vectors without a graph, the loss of the detached vectors
    # and its gradient with respect to them, then each chunk again, with a graph into which that gradient is fed. The
    # loss itself has its graph once, so that the objective's own weights (a temperature, a decoder) get their gradient
    # as in a plain step. Only the order of additions differs. Nothing in the towers may depend on which rows are
    # together, as batch norm does.
    if chunks == 1:
        losses = losses_of(*vectors_of(0))
        scaled(losses.total).backward()
        return Losses(losses.total.detach(), losses.parts)
    with torch.no_grad():
        first = [vectors_of(chunk) for chunk in range(chunks)]
    anchors, positives = (torch.cat(side).requires_grad_() for side in zip(*first, strict=True))
    losses = losses_of(anchors, positives)
    scaled(losses.total).backward()
    sizes = [len(part) for part, _ in first]
    gradients = [
        side.new_zeros(side.shape).split(sizes) if side.grad is None else side.grad.split(sizes)
        for side in (anchors, positives)
    ]
    for chunk in range(chunks):
        again = zip(vectors_of(chunk), (side[chunk] for side in gradients), strict=True)
        # A side of which nothing is trained has no graph.
        pairs = [(vectors, gradient) for vectors, gradient in again if vectors.requires_grad]
        torch.autograd.backward([vectors for vectors, _ in pairs], [gradient for _, gradient in pairs])
    return Losses(losses.total.detach(), losses.parts)


def _stack_padded(parts: Sequence[Tensor | None], device: torch.device) -> Tensor | None:
    """The chunks' rows under each other, the narrower ones filled up with 0 on the right (padding)."""
    present = [part.to(device, non_blocking=True) for part in parts if part is not None]
    if not present:
        return None
    width = max(part.shape[1] for part in present)
    return torch.cat([functional.pad(part, (0, width - part.shape[1])) for part in present])


# Where torch's randomness of a step comes from: its place in the training, never what ran before.

_CPU = torch.device("cpu")


def seed_step(
    seed: int, epoch: int, step: int, batch: int = 0, process: int = 0, chunk: int = 0, *, device: torch.device = _CPU
) -> None:
    """Seed torch's generators (the CPU's and that of `device`) for one forward pass, whose dropout can be drawn
    again."""
    # All counts are from 0: `step` within the epoch, `batch` within the step (accumulation), `chunk` within this
    # process's share of the batch. A training that goes on in the middle of an epoch, and the second pass over a chunk,
    # see the masks that they would have seen.
    entropy = np.random.SeedSequence([seed, epoch, step, batch, process, chunk])
    # All the places at once: neighbouring seeds and steps share no streams. Torch takes 63 bits.
    number = int(entropy.generate_state(1, np.uint64)[0] >> np.uint64(1))
    if device.type == "cpu":
        # torch.manual_seed would also note, with a stack trace, what to tell CUDA should it ever begin: 4 ms a step.
        torch.default_generator.manual_seed(number)
    else:
        torch.manual_seed(number)


# What is read of an update, and what stops it.

_NAMED = 8
_SMALLEST_SCALE = 1.0


def _read(
    processes: Processes, losses: Sequence[Losses], norm: Tensor, facts: Mapping[str, float | Tensor]
) -> tuple[list[dict[str, float]], float, dict[str, float]]:
    """The losses of each batch over all processes, the norm, and the facts."""
    names = list(losses[0].parts)
    values = torch.stack(
        [value.double() for loss in losses for value in (loss.total, *(loss.parts[name] for name in names))]
    )
    values = processes.sum(values) / processes.count
    unread = {name: fact for name, fact in facts.items() if isinstance(fact, Tensor)}
    alone = [part.reshape(1).to(values) for part in (norm, *unread.values())]
    flat = torch.cat([values, *alone]).tolist()
    length, *stood = flat[len(values) :]
    width = 1 + len(names)
    rows = [flat[start : start + width] for start in range(0, len(values), width)]
    read = {**facts, **dict(zip(unread, stood, strict=True))}
    return [dict(zip(["loss", *names], row, strict=True)) for row in rows], length, read


def _move_unread(training: Training[Any], losses: Sequence[Losses], norm: Tensor) -> None:
    """Clip and move; nothing moves where a loss or the norm is not finite."""
    finite = torch.stack([norm.double(), *(loss.total.double() for loss in losses)]).isfinite().all()
    optimiser: Any = training.optimiser
    if training.recipe.optimiser.clip is not None:
        clip_grads_with_norm_(parameters_of(optimiser), training.recipe.optimiser.clip, norm)
    optimiser.found_inf = (~finite).float()
    try:
        training.precision.step(optimiser)
    finally:
        del optimiser.found_inf


def _check_finite(
    training: Training[Any], shares: Sequence[Share], losses: Sequence[Mapping[str, float]], length: float, step: int
) -> None:
    """Raise `TrainingError` where a loss or the gradient is not finite, unless it was only scaled too far."""
    for share, values in zip(shares, losses, strict=True):
        if not math.isfinite(values["loss"]):
            raise _stopped(training, f"the loss is {values['loss']}", [share], step)
    if math.isfinite(length):
        return
    if not training.precision.is_scaled:
        raise _stopped(training, f"the loss is finite, but the length of its gradient is {length}", shares, step)
    if training.precision.scaler.get_scale() < _SMALLEST_SCALE:
        raise _stopped(training, "the gradient overflows float16 at every scale", shares, step)


def _stopped(training: Training[Any], message: str, shares: Sequence[Share], step: int) -> TrainingError:
    train: TrainingData = training.train
    ids = [str(train.ids[row]) for share in shares for row in share.rows]
    more = f", … ({len(ids)} in all)" if len(ids) > _NAMED else ""
    rate = max(group["lr"] for group in training.optimiser.param_groups)
    return TrainingError(
        f"{message} in epoch {len(training.curve) + 1}, step {step + 1} (learning rate {rate:.2g}); {train.unit} of "
        f"the batch: {', '.join(map(repr, ids[:_NAMED]))}{more}.",
        hint=f"look at these {train.unit} and what they are paired with; if they are sound, {training.learner.advice}"
        + training.precision.advice,
        ids=ids,
        code="epoch-step-learning-rate",
    )


class TrainingError(VisirError):
    """Training cannot go on."""

    def __init__(self, message: str, *, hint: str = "", ids: Sequence[str] = (), code: str = "") -> None:
        super().__init__(message, hint=hint, code=code)
        self.ids = tuple(ids)


# Ctrl-C in a training waits for the end of the step, so that the state that is saved is whole.

NOTICE = "stopping after this step; Ctrl-C again stops at once, and loses what came after the last saved state"


@contextmanager
def interrupts_held() -> Iterator[Callable[[], bool]]:
    """Inside, the first Ctrl-C is only noted; the second one raises `KeyboardInterrupt` as always."""
    # Where somebody else handles the signal, or in another thread than the first, nothing is held.
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True
        print(f"\nvisir: {NOTICE}", file=sys.stderr, flush=True)  # noqa: T201

    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if is_ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: pressed
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
