"""The training loop."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from visir.display import Displayed
from visir.encoders.towers.base import Inputs, to_device
from visir.errors import ConfigurationError, VisirError
from visir.progress import Progress
from visir.training.inputs import EpochRandom, HardNegatives, Side, TrainingBatch, TrainingData, made_ahead
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
from visir.training.state import add_prefix, check_same_training, load_state, save_state, strip_prefix
from visir.training.trained import Epoch, Running, Step, StepLog, TrainingFolder, writing_into

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


_NAMED = 8


_SMALLEST_SCALE = 1.0


class TrainingError(VisirError):
    """Training cannot go on."""

    def __init__(self, message: str, *, hint: str = "", ids: Sequence[str] = (), code: str = "") -> None:
        super().__init__(message, hint=hint, code=code)
        self.ids = tuple(ids)


@dataclass(frozen=True)
class StepPosition:
    """Where in a training an update stands."""

    epoch: int  # from 0
    step: int  # within the epoch, from 0
    factor: float  # of the peak learning rate


@dataclass(frozen=True)
class StepResult:
    """What an update computed."""

    losses: dict[str, float]  # means over its pairs of "loss" and its parts
    facts: dict[str, float]  # of the learner, before the update
    pairs: int  # how many there were


@dataclass(frozen=True, eq=False)
class Loop:
    """The steps of a training."""

    learner: Learner[Any]  # what is trained
    optimiser: torch.optim.Optimizer  # over the learner's parts
    processes: Processes  # this one and the others
    precision: Precision  # of the forward pass
    train: TrainingData  # what the weights learn from
    seed: int  # of the training
    clip: float | None  # gradients are scaled down to this norm when they are longer; None never

    @cached_property
    def mean(self) -> GradientMean:
        """Of the gradients over the processes."""
        moved = {id(weight) for weight in parameters_of(self.optimiser)}
        weights = [weight for weight in self.learner.parameters() if id(weight) in moved]
        return GradientMean(weights, self.processes.count)

    def update(self, shares: Sequence[Share], batches: Iterator[TrainingBatch], position: StepPosition) -> StepResult:
        """Move the weights once, by the gradient of the mean loss over the pairs of several batches."""
        self.learner.at_step(position.epoch, position.step)
        set_rates(self.optimiser, position.factor)
        self.optimiser.zero_grad()
        pairs = sum(len(share.rows) for share in shares)
        on_device = []
        for number, share in enumerate(shares):
            # Of several batches each adds to the gradients, and the last one sends them; chunks send them when all are
            # through. Every process does the same, so that their messages have one order.
            sends = number == len(shares) - 1 and not share.is_cut
            with self.mean.sending() if sends else nullcontext():
                on_device.append(self._backward(share, batches, position, number, pairs))
        gradients = [weight.grad for weight in parameters_of(self.optimiser) if weight.grad is not None]
        self.mean.finish()
        self.precision.scaler.unscale_(self.optimiser)
        norm = get_total_norm(gradients)
        facts, ahead = self.learner.facts(), self._moves_ahead
        if ahead:
            self._move_unread(on_device, norm)
        # The one point at which the CPU waits for the device: everything that is logged or decided on, in one piece.
        losses, length, read = self._read(on_device, norm, facts)
        for share, values in zip(shares, losses, strict=True):
            if not math.isfinite(values["loss"]):
                raise self._stopped(f"the loss is {values['loss']}", [share], position)
        weights = [len(share.rows) / pairs for share in shares]
        mean = {
            name: sum(weight * values[name] for weight, values in zip(weights, losses, strict=True))
            for name in losses[0]
        }
        self._check_length(length, shares, position)
        if not ahead:
            if self.clip is not None and math.isfinite(length) and length > self.clip:
                clip_grads_with_norm_(parameters_of(self.optimiser), self.clip, norm)
            self._step(self.optimiser)
        if math.isfinite(length):  # otherwise the scaled gradient overflowed, and nothing moves
            self.learner.after_step({name: value for name, value in mean.items() if name != "loss"})
        return StepResult(mean, read, pairs)

    def _backward(
        self, share: Share, batches: Iterator[TrainingBatch], position: StepPosition, number: int, pairs: int
    ) -> Losses:
        # The inputs stay on the CPU for the second pass; chunks bound the device's memory.
        chunks = [next(batches) for _ in share.chunks]
        device, processes = self.processes.device, self.processes

        def vectors_of(chunk: int) -> Vectors:
            seed_step(self.seed, position.epoch, position.step, number, processes.rank, chunk, device=device)
            batch = chunks[chunk]
            return (
                self._with_hard("anchor", [batch.anchors, *batch.anchor_negatives]),
                self._with_hard("positive", [batch.positives, *batch.negatives]),
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
                return self.learner.losses(own.split())
            local, labels = self.learner.local_loss, self.train.labels(share.rows)
            everyone = pairs_of_all(own, processes, share.sizes, local=local, labels=labels)
            return self.learner.losses(own.split(), everyone.split(), share.own * processes.count / len(share.rows))

        weight = len(share.rows) / pairs
        return backward(vectors_of, len(chunks), losses_of, lambda total: self.precision.scaler.scale(weight * total))

    def _with_hard(self, side: Side, inputs: Sequence[Inputs]) -> Tensor:
        """(n, (1 + h) · d) vectors of a side, its hard negatives behind each: so they are cut and gathered with it."""
        device = self.processes.device
        return torch.cat([self.learner.vectors(side, to_device(batch, device)) for batch in inputs], dim=1)

    def _read(
        self, losses: Sequence[Losses], norm: Tensor, facts: Mapping[str, float | Tensor]
    ) -> tuple[list[dict[str, float]], float, dict[str, float]]:
        """The losses of each batch over all processes, the norm, and the facts."""
        names = list(losses[0].parts)
        values = torch.stack(
            [value.double() for loss in losses for value in (loss.total, *(loss.parts[name] for name in names))]
        )
        values = self.processes.sum(values) / self.processes.count
        unread = {name: fact for name, fact in facts.items() if isinstance(fact, Tensor)}
        alone = [part.reshape(1).to(values) for part in (norm, *unread.values())]
        flat = torch.cat([values, *alone]).tolist()
        length, *stood = flat[len(values) :]
        width = 1 + len(names)
        rows = [flat[start : start + width] for start in range(0, len(values), width)]
        read = {**facts, **dict(zip(unread, stood, strict=True))}
        return [dict(zip(["loss", *names], row, strict=True)) for row in rows], length, read

    @property
    def _moves_ahead(self) -> bool:
        """Whether the weights are moved before the CPU has read the losses, so that a GPU goes on computing."""
        # A fused optimiser asks the device itself whether the gradient is finite. A scaled one, and AdamP, ask the CPU.
        fused = all(group.get("fused") for group in self.optimiser.param_groups)
        return self.processes.device.type == "cuda" and fused and not self.precision.is_scaled

    def _move_unread(self, losses: Sequence[Losses], norm: Tensor) -> None:
        """Clip and move; nothing moves where a loss or the norm is not finite."""
        finite = torch.stack([norm.double(), *(loss.total.double() for loss in losses)]).isfinite().all()
        if self.clip is not None:
            clip_grads_with_norm_(parameters_of(self.optimiser), self.clip, norm)
        optimiser: Any = self.optimiser
        optimiser.found_inf = (~finite).float()
        try:
            self._step(optimiser)
        finally:
            del optimiser.found_inf

    def _check_length(self, length: float, shares: Sequence[Share], position: StepPosition) -> None:
        """Raise `TrainingError` where the gradient is not finite, unless it was only scaled too far."""
        if math.isfinite(length):
            return
        if not self.precision.is_scaled:
            raise self._stopped(f"the loss is finite, but the length of its gradient is {length}", shares, position)
        if self.precision.scaler.get_scale() < _SMALLEST_SCALE:
            raise self._stopped("the gradient overflows float16 at every scale", shares, position)

    def _step(self, optimiser: torch.optim.Optimizer) -> None:
        """Move the weights, unless a scaled gradient overflowed; adapt the scale."""
        self.precision.scaler.step(optimiser)
        self.precision.scaler.update()

    def _stopped(self, message: str, shares: Sequence[Share], position: StepPosition) -> TrainingError:
        ids = [str(self.train.ids[row]) for share in shares for row in share.rows]
        more = f", … ({len(ids)} in all)" if len(ids) > _NAMED else ""
        rate = max(group["lr"] for group in self.optimiser.param_groups)
        unit = self.train.unit
        return TrainingError(
            f"{message} in epoch {position.epoch + 1}, step {position.step + 1} (learning rate {rate:.2g}); {unit} of "
            f"the batch: {', '.join(map(repr, ids[:_NAMED]))}{more}.",
            hint=f"look at these {unit} and what they are paired with; if they are sound, {self.learner.advice}"
            + self.precision.advice,
            ids=ids,
            code="epoch-step-learning-rate",
        )


def _stack_padded(parts: Sequence[Tensor | None], device: torch.device) -> Tensor | None:
    """The chunks' rows under each other, the narrower ones filled up with 0 on the right (padding)."""
    present = [part.to(device, non_blocking=True) for part in parts if part is not None]
    if not present:
        return None
    width = max(part.shape[1] for part in present)
    return torch.cat([functional.pad(part, (0, width - part.shape[1])) for part in present])


# A training in progress: what changes while it runs, and how it is kept.

# Batches made ahead of the model: threads, in order, with bounded memory.


def pin_batch(batch: TrainingBatch) -> TrainingBatch:
    """Copy a batch into page-locked memory, from which CUDA copies while the program goes on."""
    # torch keeps such memory and gives it out again when the copies out of it are done.
    return replace(batch, **{each.name: _pinned(getattr(batch, each.name)) for each in fields(batch)})


def _pinned(value: Any) -> Any:
    """What is on a device already, or is not there, stays as it is."""
    if isinstance(value, Tensor):
        return value.pin_memory() if value.device.type == "cpu" else value
    if isinstance(value, Mapping):
        kind: Any = type(value)
        return kind({name: _pinned(part) for name, part in value.items()})
    return [_pinned(part) for part in value] if isinstance(value, list | tuple) else value


def prefetch(
    examples: TrainingData,
    batches: Iterable[NDArray[np.int64]],
    draw: EpochRandom | None = None,
    workers: int | None = None,
    *,
    pin: bool = False,
) -> Generator[TrainingBatch, None, None]:
    """Make the batches of a training ahead of the model, in their order."""
    # At most `workers` + 1 batches wait at a time; `batches` is read no further ahead than that (`made_ahead`).
    # workers: How many threads make batches; 0 makes each when it is needed. Left out, there are two when the examples
    # are slow (pixels, each batch of which is spread over all cores besides), and none otherwise: looking up 128
    # vectors and captions takes 0.3 ms, handing them from one thread to another adds 0.1.

    def make(rows: NDArray[np.int64]) -> TrainingBatch:
        batch = examples.batch(rows, draw)
        return pin_batch(batch) if pin else batch

    workers = (2 if examples.is_slow else 0) if workers is None else workers
    yield from map(make, batches) if workers == 0 else made_ahead(make, batches, workers, workers + 1)


class Training(Generic[E]):
    """The weights and everything that moves with them. `begin`, then `run_epoch` and `close_epoch` until `is_done`."""

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
        self.loop = Loop(learner, self.optimiser, processes, self.precision, train, recipe.seed, settings.clip)

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

    def run_epoch(self) -> Generator[tuple[Step, int], None, None]:
        """The steps of the epoch under way that are still to be done, one by one, each with its number of pairs."""
        number, began, before = len(self.curve), time.perf_counter(), self.running.seconds
        settings, processes = self.recipe.optimiser, self.processes
        shares = [
            [
                Share.of(rows, process=processes.rank, processes=processes.count, chunk=settings.chunk)
                for rows in batches
            ]
            for batches in steps_of_epoch(
                len(self.train),
                settings.batch,
                settings.accumulate,
                seed=self.recipe.seed,
                epoch=number,
                anchors=self._anchors if settings.per_image > 1 else None,
                per_image=settings.per_image,
            )
        ]
        snapshots = snapshot_steps(self.recipe.averaging, self.steps)
        todo = range(self.running.step, self.steps)
        chunks = (chunk for step in todo for share in shares[step] for chunk in share.chunks)
        draw, pin = EpochRandom(self.recipe.seed, number), processes.device.type == "cuda"
        self._mine(draw)
        self.learner.train()
        self.freezing.train(self.model, frozen=self.timetable.is_frozen(number))
        with closing(prefetch(self.train, chunks, draw, pin=pin)) as coming:
            for step in todo:
                factor = self.timetable.factor(number, step)
                update = self.loop.update(shares[step], coming, StepPosition(number, step, factor))
                if step in snapshots:
                    self.average.add(self.averaged)
                self.running.add(update.losses, update.pairs)
                self.running.seconds = before + time.perf_counter() - began
                rate = factor * settings.rate
                yield Step(self.steps_done, number + 1, update.losses, update.facts, rate), update.pairs

    def close_epoch(self) -> Epoch:
        """Validate, choose, and begin the next epoch; the weights that are judged and kept are the averaged ones."""
        self.model.eval()
        if self.swaps:
            self.average.swap_in(self.averaged)
        with self.average.inside(self.averaged):
            epoch = self.processes.run_on_first(self._judged)
            self.curve.append(epoch)
            if self.chosen == epoch.epoch:
                self.best = {name: tensor.detach().clone() for name, tensor in self.moving.state().items()}
        self.average.clear()
        self.running = Running()
        return epoch

    def save(self, folder: TrainingFolder) -> None:
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
        }
        save_state(folder, tensors, {**notes, **self._identity()})

    def restore(self, path: Path) -> None:
        """Go back to where `save` was called."""
        tensors, notes = load_state(path)
        was = {**notes, "recipe": with_new_keys(self.recipe, notes["recipe"])}
        check_same_training(path, was, self._identity())
        device = self.processes.device
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

    def choose(self) -> None:
        """Give the model the chosen weights, on the CPU and in evaluation mode, all of them trainable again."""
        self.statistics.release()
        self.moving.load(self.best)
        self.freezing.thaw()
        self.model.cpu().eval()

    def _mine(self, draw: EpochRandom) -> None:
        """Search for the hard negatives of an epoch, where it is time to; a resumed epoch has those of its begin."""
        mined = self.mined
        if mined is not None and mined.is_due(draw.epoch):
            rows = self.processes.run_on_first(lambda: self.learner.mine(self.train, mined, draw))
            mined.captions, mined.images = rows
            mined.epoch = draw.epoch

    @property
    def _anchors(self) -> NDArray[np.int64]:
        """(pairs,) the anchor of each pair."""
        anchors: NDArray[np.int64] = self.train.labels(np.arange(len(self.train)))[0].numpy()
        return anchors

    @property
    def _best_epoch(self) -> int:
        """The epoch (from 1) with the best figure of validation, the earliest of equals."""
        figure = self.recipe.selection.figure
        return 1 + int(np.argmax([epoch.validation[figure] for epoch in self.curve]))

    def _judged(self) -> Epoch:
        began = time.perf_counter()
        figures = self.learner.validate(self.validation)
        running = self.running
        self.learner.at_step(len(self.curve), self.steps - 1)  # a resumed training may not have done this step itself
        return Epoch(
            len(self.curve) + 1,
            running.means(),
            {name: float(value) for name, value in self.learner.facts().items()},
            figures,
            running.seconds + time.perf_counter() - began,
            running.pairs / running.seconds,
        )

    def _identity(self) -> dict[str, Any]:
        """What must be equal for a run to go on from a state."""
        return {
            "recipe": self.recipe.model_dump(mode="json"),
            "examples": {"train": self.train.origin, "validation": self.validation.origin},
            "threads": torch.get_num_threads() if self.processes.device.type == "cpu" else None,
            "processes": self.processes.count,
        }


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
    folder: TrainingFolder | Path | None = None,
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
        place = stack.enter_context(writing_into(folder, first=processes.is_first))
        if resume and place is not None and place.state.is_file():
            training.restore(place.state)
        training.begin()
        # Where the training is run, torch's generators are as they were before.
        stack.enter_context(torch.random.fork_rng([processes.device] if processes.device.type == "cuda" else []))
        log = StepLog(place.steps if place and processes.is_first else None, training.steps_done)
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
            if place is not None:
                training.save(place)

        def stop() -> NoReturn:
            save()
            state = f"; its state is in {place.path}: the same with resume=True (--resume) goes on" if place else ""
            raise KeyboardInterrupt(f"{recipe.name}: stopped after step {training.steps_done:,}{state}")

        while not training.is_done:
            with closing(training.run_epoch()) as steps:
                for step, pairs in steps:
                    log.write(step)
                    advance(pairs)
                    if processes.is_first and time.monotonic() - unsaved_since >= save_seconds:
                        save()
                    if interrupted() and training.running.step < training.steps:
                        stop()
            epoch = training.close_epoch()
            if save_every_epoch or training.is_done:
                processes.run_on_first(save)
            if report is not None and processes.is_first:
                report(epoch)
            if interrupted() and not training.is_done:
                stop()
    training.choose()
    return FitResult(learner, tuple(training.curve), training.chosen, training.facts)
