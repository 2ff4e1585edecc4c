"""The driver of every training: epoch by epoch, such that an interruption changes nothing."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from visir.display import Displayed
from visir.encoders.towers.base import Inputs, PromptInputs, Tower, to_device
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone
from visir.errors import ConfigurationError
from visir.progress import Progress
from visir.training.folder import TrainingFolder, writing_into
from visir.training.inputs.base import (
    EpochRandom,
    HardNegatives,
    InputSource,
    Mined,
    Side,
    TrainingBatch,
    TrainingData,
    TrainingExamples,
    made_ahead,
)
from visir.training.learner import (
    E,
    Learner,
    Precision,
    Processes,
    build_optimiser,
    moments,
    parameters_of,
    restore_moments,
)
from visir.training.loop import Loop, Share, StepPosition, steps_of_epoch, steps_per_epoch
from visir.training.objectives.base import Losses, VectorPairs
from visir.training.objectives.objective import Objective
from visir.training.recipe import Averaging, Regime, Schedule
from visir.training.settings import with_new_keys
from visir.training.state import add_prefix, check_same_training, load_state, save_state, strip_prefix
from visir.training.trained import Epoch, Running, Step, StepLog
from visir.training.validation import encode_source, search, validate

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


# The weights that a training moves: the state and the best epoch hold no copy of a base model under adapters.


class Moved:
    """The parameters that an optimiser moves, by their number in it; no buffers, such as a batch norm's statistics."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._parameters = list(parameters)

    def state(self) -> dict[str, Tensor]:
        """The tensors by number, not copied."""
        return {str(number): parameter.detach() for number, parameter in enumerate(self._parameters)}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `state` gave."""
        with torch.no_grad():
            for number, parameter in enumerate(self._parameters):
                parameter.copy_(tensors[str(number)])


class Moving:
    """The state of a module without the fixed weights of models that adapters were put over."""

    # Those are read again from the base model, of which a state notes the fingerprint.

    def __init__(self, module: nn.Module) -> None:
        fixed = {
            id(weight)
            for backbone in module.modules()
            if isinstance(backbone, PretrainedBackbone) and backbone.adapter
            for weight in backbone.parameters()
            if not weight.requires_grad
        }
        named = module.named_parameters(remove_duplicate=False)
        self._module, self._fixed = module, {name for name, weight in named if id(weight) in fixed}

    def state(self) -> dict[str, Tensor]:
        """The tensors by name, not copied."""
        return {name: tensor for name, tensor in self._module.state_dict().items() if name not in self._fixed}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `state` gave."""
        own = self._module.state_dict()
        self._module.load_state_dict({**{name: own[name] for name in self._fixed}, **tensors})


# Batch norm, whose statistics are of the rows that go through together.


class BatchStatistics:
    """The batch norms of `model`, made to see the whole batch, as the recipe means it."""

    # Across GPUs they become synchronised ones, until `release`. Where rows that belong together cannot be brought
    # together they are refused with a `ConfigurationError`: in chunks (`optimiser.chunk`), whose second pass would also
    # count every row twice; and in several processes on the CPU, for which torch has no synchronised batch norm.
    # Computing each part's own statistics instead would be another model, in silence. Batch norms that stay frozen
    # throughout depend on no batch, and neither do those of pretrained towers, which keep their running statistics.

    def __init__(self, model: nn.Module, recipe: Regime, processes: Processes, captions: int) -> None:
        self._replaced: list[tuple[nn.Module, str, nn.Module]] = []
        throughout = recipe.schedule.frozen_epochs >= recipe.optimiser.epochs
        model.train()
        norms = [norm for norm in _batch_norms(model) if not (throughout and id(norm[2]) in _given(model))]
        if not norms:
            return
        settings, count = recipe.optimiser, processes.count
        path = ", ".join(name for name, _, _ in norms[:3]) + (", …" if len(norms) > 3 else "")
        if settings.chunk is not None and settings.chunk < math.ceil(settings.batch / count):
            raise ConfigurationError(
                f"optimiser.chunk = {settings.chunk}: the towers have batch norm ({path}); its statistics would be of "
                f"{settings.chunk} captions instead of {settings.batch}.",
                hint="leave optimiser.chunk out, or the batch norm (head.batch_norm), or take several GPUs",
                code="towers-batch-norm-statistics",
            )
        if count > 1 and processes.device.type != "cuda":
            raise ConfigurationError(
                f"batch norm ({path}) in {count} processes on the CPU: each would have its own statistics.",
                hint='train in one process, or with device = "cuda", where they are synchronised',
            )
        if count > 1 and captions // math.ceil(captions / settings.batch) < count:
            raise ConfigurationError(
                f"batch norm ({path}) in {count} processes needs batches of at least {count} captions.",
                hint="launch fewer processes, or raise optimiser.batch",
            )
        if count > 1:
            for _, parent, module in norms:
                name = next(name for name, child in parent.named_children() if child is module)
                setattr(parent, name, nn.SyncBatchNorm.convert_sync_batchnorm(module))
                self._replaced.append((parent, name, module))

    def release(self) -> None:
        """Put plain batch norms back; call it before weights are loaded or moved, since both share their tensors."""
        for parent, name, module in self._replaced:
            setattr(parent, name, module)
        self._replaced.clear()


def _batch_norms(model: nn.Module) -> Iterator[tuple[str, nn.Module, nn.Module]]:
    """(path, parent, module) of every batch norm that is in training mode."""
    for path, parent in model.named_modules():
        for name, child in parent.named_children():
            if isinstance(child, _BatchNorm) and child.training:
                yield f"{path}.{name}", parent, child


def _given(model: nn.Module) -> set[int]:
    towers = [tower for tower in model.modules() if isinstance(tower, Tower)]
    return {id(part) for tower in towers for module in tower.pretrained_modules() for part in module.modules()}


# Weights averaged within an epoch (stochastic weight averaging).


def snapshot_steps(settings: Averaging, steps: int) -> frozenset[int]:
    """The steps (from 0) of an epoch after which a snapshot enters the average."""
    # `snapshots` even places over the last ⌈share · steps⌉ steps, the last step among them: 5 over the last 10 % of 100
    # steps are 91, 93, 95, 97, 99. An epoch of few steps has fewer snapshots, one after each of its last steps.
    if not settings.snapshots:
        return frozenset()
    window = min(steps, max(settings.snapshots, -int(-settings.share * steps // 1)))
    count = min(settings.snapshots, window)
    return frozenset(steps - window + (window * place) // count - 1 for place in range(1, count + 1))


class RunningMean:
    """The mean of a module's weights over snapshots (Izmailov et al. 2018, algorithm 1), its buffers with them."""

    # Averaged running statistics of batch norm belong to averaged weights only nearly; the snapshots are so close
    # together that another pass over the data to measure them, as the paper makes, is not worth its time. What is no
    # floating point number (a count of batches) is as in the last snapshot.

    def __init__(self) -> None:
        self.count = 0
        self.mean: dict[str, Tensor] = {}

    def add(self, module: Moving | Moved) -> None:
        """Take the present state in."""
        self.count += 1
        with torch.no_grad():
            for name, now in module.state().items():
                if name not in self.mean or not now.is_floating_point():
                    self.mean[name] = now.clone()
                else:
                    self.mean[name].lerp_(now, 1.0 / self.count)

    def swap_in(self, module: Moving | Moved) -> None:
        """Put the mean in the place of the present state for good, where there is one, and begin again."""
        if self.count:
            module.load(self.mean)
        self.clear()

    def clear(self) -> None:
        """Begin again."""
        self.count = 0
        self.mean = {}

    @contextmanager
    def inside(self, module: Moving | Moved) -> Iterator[None]:
        """Within it, `module` has the mean's state (its own, when there is no snapshot), afterwards its own again."""
        if not self.count:
            yield
            return
        own = {name: now.clone() for name, now in module.state().items()}
        module.load(self.mean)
        try:
            yield
        finally:
            module.load(own)


# The learning rate over time, and what is trained when.


@dataclass(frozen=True)
class Timetable:
    """A schedule laid over so many epochs of so many steps."""

    # With `frozen_epochs` there are two phases. In the first, what came trained stays as it is; in the second
    # everything is tuned, the shape begins anew at `tuned_rate` times the rate, without another warm-up: the moments
    # are warm.

    schedule: Schedule
    epochs: int
    steps_per_epoch: int

    def is_frozen(self, epoch: int) -> bool:
        """Whether what came trained is held fixed in this epoch (from 0)."""
        return epoch < self.schedule.frozen_epochs

    def factor(self, epoch: int, step: int) -> float:
        """What the peak learning rate is multiplied by at a step (from 0) of an epoch (from 0)."""
        frozen = min(self.schedule.frozen_epochs, self.epochs)
        if frozen and epoch >= frozen:
            return self.schedule.tuned_rate * self._shape(epoch - frozen, step, self.epochs - frozen, 0)
        epochs = frozen or self.epochs
        return self._shape(epoch, step, epochs, min(self.warmup_steps, epochs * self.steps_per_epoch))

    @property
    def warmup_steps(self) -> int:
        """How many steps the warm-up has: ⌈share · all steps⌉, or the number in the recipe."""
        warmup = self.schedule.warmup
        return math.ceil(warmup * self.epochs * self.steps_per_epoch if warmup < 1 else warmup)

    def _shape(self, epoch: int, step: int, epochs: int, rising: int) -> float:
        """Linear from 1/w to 1 over the first w steps, then the shape, which would reach its end one step too late."""
        # Cosine: half a period (Loshchilov & Hutter 2017, eq. 5, without restarts). Per epoch, all steps of an epoch
        # have the value of its first one: ½ (1 + cos(π e / E)) in epoch e of E, from 0, without a warm-up.
        now = epoch * self.steps_per_epoch + step
        if now < rising:
            return (now + 1) / rising
        if self.schedule.per == "epoch":
            now = max(rising, epoch * self.steps_per_epoch)
        gone = (now - rising) / (epochs * self.steps_per_epoch - rising)
        match self.schedule.shape:
            case "cosine":
                return 0.5 * (1.0 + math.cos(math.pi * gone))
            case "linear":
                return 1.0 - gone
            case "step":
                return float(self.schedule.factor ** (epoch // self.schedule.step_epochs))
            case "constant":
                return 1.0


# What came trained and is held fixed for a while.


class Freezing:
    """The modules that came trained (`Learner.pretrained`), as they are when this is built."""

    # Parameters that require no gradient then never will: they are somebody else's decision.

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self.modules = list(modules)
        self._parameters = [
            parameter for module in self.modules for parameter in module.parameters() if parameter.requires_grad
        ]

    def train(self, module: nn.Module, *, frozen: bool) -> None:
        """Bring `module`, which holds the towers, into training mode."""
        # Frozen modules get no gradient and stay in evaluation mode: their batch norms keep the statistics that they
        # came with, and dropout within them is off.
        module.train()
        for parameter in self._parameters:
            parameter.requires_grad_(not frozen)
        if frozen:
            for pretrained in self.modules:
                pretrained.eval()

    def check_trainable(self, module: nn.Module, frozen_epochs: int) -> None:
        """Raise `ConfigurationError` when there is nothing to train in `module`, or nothing while these are frozen."""
        moving = {id(parameter) for parameter in module.parameters() if parameter.requires_grad}
        if not moving:
            raise ConfigurationError(
                "there is nothing to train: both sides are fixed, and so is the objective.",
                hint="give a side a head (head = { identity = false }), or tune its encoder",
            )
        if frozen_epochs and moving <= {id(parameter) for parameter in self._parameters}:
            raise ConfigurationError(
                f"schedule.frozen_epochs = {frozen_epochs}: nothing is left to train while what came trained is fixed.",
                hint="--set schedule.frozen_epochs=0, or give a side a head (head = { identity = false })",
            )

    def thaw(self) -> None:
        """Let everything be trained again that could be."""
        for parameter in self._parameters:
            parameter.requires_grad_(True)


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


# The learner of dual encoders: two towers under a contrastive objective.

K = TypeVar("K", bound=str)


class DualEncoder(Learner[TrainingExamples]):
    """Two towers whose vectors an objective compares. The towers are the model that is kept; the objective is not.

    Args:
        towers: The tower of the anchors and that of the positives, in this order, by the names under which the recipe
            gives them learning rates: "image" and "text", say. They are changed in place.
        objective: Of the training.
        tasks: What validation calls the two directions, see `visir.training.validation.validate`.
    """

    advice: ClassVar[str] = "lower optimiser.rate or raise schedule.warmup or objective.temperature"

    def __init__(
        self, towers: Mapping[K, Tower], objective: Objective, tasks: tuple[str, str] = ("i2t", "t2i")
    ) -> None:
        super().__init__()
        self.towers: dict[str, Tower] = {str(name): tower for name, tower in towers.items()}
        self._model = nn.ModuleDict(self.towers)
        anchor, positive = self.towers
        self._names: dict[Side, str] = {"anchor": anchor, "positive": positive}
        self.objective, self.tasks = objective, tasks

    @property
    def model(self) -> nn.Module:
        """See `Learner.model`: the towers."""
        return self._model

    def parts(self) -> Mapping[str, nn.Module]:
        """See `Learner.parts`: the towers by their names, and "objective"."""
        return {**self.towers, "objective": self.objective}

    @property
    def local_loss(self) -> bool:
        """See `Learner.local_loss`."""
        return self.objective.local_loss

    @property
    def pretrained(self) -> list[nn.Module]:
        """See `Learner.pretrained`."""
        return [module for tower in self.towers.values() for module in tower.pretrained_modules()]

    def vectors(self, side: Side, inputs: Inputs) -> Tensor:
        """See `Learner.vectors`: unit vectors, the norm taken in float32 (or wider) under every precision. Of texts in
        several prompts, the mean, which is a unit vector again."""
        if isinstance(inputs, PromptInputs):
            mean = torch.stack([self.vectors(side, of_prompt) for of_prompt in inputs.values()]).mean(0)
            return functional.normalize(mean, dim=-1)
        with self.precision.autocast():
            vectors = self._model[self._names[side]](inputs)
        return functional.normalize(self.precision.widen(vectors), dim=-1)

    def losses(self, pairs: VectorPairs, everyone: VectorPairs | None = None, weight: float = 1.0) -> Losses:
        """See `Learner.losses`."""
        losses: Losses = self.objective(pairs, everyone, weight)
        return losses

    def after_step(self, parts: Mapping[str, float]) -> None:
        """See `Learner.after_step`."""
        self.objective.ascend(parts)

    def facts(self) -> Mapping[str, float | Tensor]:
        """See `Learner.facts`."""
        return self.objective.facts()

    def validate(self, examples: TrainingExamples) -> dict[str, float]:
        """See `visir.training.validation.validate`."""
        anchors = encode_source(examples.anchors, partial(self._vectors_of, "anchor"))
        positives = encode_source(examples.positives, partial(self._vectors_of, "positive"))
        return validate(anchors, positives, examples.anchor_rows, self.tasks)

    def mine(self, train: TrainingExamples, mined: Mined, draw: EpochRandom) -> tuple[Any, Any]:
        """The hard negatives that the towers find in the training data as they are; see `mining.search`."""
        state = self._model.training
        self._model.eval()
        sides: dict[Side, Any] = {}
        of_sides: tuple[tuple[Side, InputSource, Any], ...] = (
            ("anchor", train.anchors, mined.first_pairs),
            ("positive", train.positives, np.arange(len(train))),
        )
        for side, source, keys in of_sides:
            of, seen = partial(self._vectors_of, side), keys if mined.as_trained else None
            sides[side] = encode_source(source, of, draw, seen)
        self._model.train(state)
        return search(mined, sides["anchor"], sides["positive"])

    def _vectors_of(self, side: Side, inputs: Inputs) -> Tensor:
        return self.vectors(side, to_device(inputs, self.precision.device))


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
