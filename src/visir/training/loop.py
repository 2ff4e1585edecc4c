"""One update of the weights: over one batch or several, at once or in chunks, in one process or several."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed
from torch.nn import functional
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from visir.encoders.towers.base import Inputs, to_device
from visir.errors import VisirError
from visir.training.inputs.base import Side, TrainingBatch, TrainingData
from visir.training.learner import Learner, Precision, Processes, parameters_of, set_rates
from visir.training.objectives.base import Losses, OwnQueries, VectorPairs

# Memory: what a process took at most, and what a forward pass keeps for the backward pass.


def peak_memory() -> dict[str, int]:
    """Bytes that this process has held at most so far: "process" (where the system tells), "cuda" (where there is
    one)."""
    # A child's count begins with what its parent held when it was forked.
    peaks: dict[str, int] = {}
    if sys.platform != "win32":
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peaks["process"] = peak if sys.platform == "darwin" else 1024 * peak  # bytes there, kilobytes elsewhere
    if torch.cuda.is_initialized():
        peaks["cuda"] = torch.cuda.max_memory_allocated()
    return peaks


def kept_bytes(forward: Callable[[], object], weights: Iterable[Tensor]) -> int:
    """Bytes of the tensors that `forward` leaves for its backward pass, `weights` (which are there anyway) not
    counted."""
    # Counted through `torch.autograd.graph.saved_tensors_hooks`, so whatever the modules are. A tensor that is kept by
    # several operations counts once.
    weight_storages = {weight.untyped_storage().data_ptr() for weight in weights}
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weight_storages:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        alive = forward()  # held until all is counted: freed memory would be used again under the same address
    del alive
    return sum(sizes.values())


# Batches: every caption once per epoch, with its image; and how a batch is shared and cut.

Rows = NDArray[np.int64]


def batches_of_epoch(
    captions: int, size: int, *, seed: int, epoch: int, anchors: Rows | None = None, per_image: int = 1
) -> list[Rows]:
    """The rows of `captions` captions, shuffled and cut into ceil(captions / size) batches."""
    # The order depends on the seed and the epoch alone, so that an epoch can be run again after an interruption. The
    # sizes differ by at most one: no short last batch, whose few negatives would make an easy step, and none left out.
    # anchors: (captions,) the image of each; needed for `per_image`.
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(captions)
    if per_image > 1 and anchors is not None:
        order = _grouped(order, anchors[order], per_image, generator)
    return np.array_split(order, math.ceil(captions / size))


def _grouped(order: Rows, anchors: Rows, size: int, generator: np.random.Generator) -> Rows:
    """The rows in groups of at most `size` of one anchor; the groups in random order."""
    by_anchor = np.argsort(anchors, kind="stable")
    _, first, counts = np.unique(anchors[by_anchor], return_index=True, return_counts=True)
    place = np.arange(len(order)) - np.repeat(first, counts)  # within the captions of an anchor, in shuffled order
    starts = np.flatnonzero(place % size == 0)
    group = np.cumsum(place % size == 0) - 1
    rank = generator.permutation(len(starts))
    grouped: Rows = order[by_anchor][np.argsort(rank[group], kind="stable")]
    return grouped


def steps_per_epoch(captions: int, size: int, accumulate: int = 1) -> int:
    """How many updates an epoch has, each over at most `accumulate` batches of at most `size` captions."""
    return math.ceil(math.ceil(captions / size) / accumulate)


def steps_of_epoch(
    captions: int,
    size: int,
    accumulate: int,
    *,
    seed: int,
    epoch: int,
    anchors: Rows | None = None,
    per_image: int = 1,
) -> list[list[Rows]]:
    """The batches of each update of an epoch (see `batches_of_epoch`); their numbers differ by at most one."""
    batches = batches_of_epoch(captions, size, seed=seed, epoch=epoch, anchors=anchors, per_image=per_image)
    cuts = np.array_split(np.arange(len(batches)), steps_per_epoch(captions, size, accumulate))
    return [[batches[number] for number in cut] for cut in cuts]


@dataclass(frozen=True, eq=False)
class Share:
    """A batch as one of several processes sees it."""

    rows: Rows  # of the whole batch, in order
    sizes: tuple[int, ...]  # how many of them each process takes, one after the other
    own: int  # how many of this process's rows count
    # The rows that go through this process's towers, cut; never empty. A process for which nothing is left (a batch of
    # fewer captions than processes) takes the batch's first caption, and none of it counts.
    chunks: tuple[Rows, ...]
    is_cut: bool  # whether the rows of some process, this one or another, go through the towers in several chunks

    @classmethod
    def of(cls, rows: Rows, *, process: int = 0, processes: int = 1, chunk: int | None = None) -> Share:
        """The contiguous share of `process` (from 0), in chunks of nearly equal size, at most `chunk`."""
        parts = np.array_split(rows, processes)
        mine = parts[process] if len(parts[process]) else rows[:1]
        chunks = np.array_split(mine, math.ceil(len(mine) / chunk) if chunk else 1)
        is_cut = chunk is not None and len(parts[0]) > chunk  # the first is the longest
        return cls(rows, tuple(map(len, parts)), len(parts[process]), tuple(chunks), is_cut)

    def first(self, process: int) -> int:
        """Where in the batch the rows of a process begin."""
        return sum(self.sizes[:process])


# Gradients averaged over the processes, in messages that travel while the backward pass computes the next ones.

BUCKET = 1 << 23
"""Numbers in a message: one message for each weight would pay its delay hundreds of times."""


class GradientMean:
    """Replaces every gradient by its mean over the processes."""

    # Gradients travel in buckets of about `BUCKET` numbers, from the last weight to the first, which is about the order
    # in which a backward pass finishes them. All processes send the same buckets in the same order; a weight has a
    # gradient in all of them or in none. The sums are those of gradients that are sent after the backward pass: with
    # two processes to the bit, with more up to the order in which the library adds them. The buckets of an update are
    # in memory together, as large as the gradients.

    def __init__(self, weights: Sequence[Tensor], count: int) -> None:
        self._count = count
        self._buckets = list(_buckets(reversed(weights))) if count > 1 else []
        self._bucket_of = {id(weight): number for number, bucket in enumerate(self._buckets) for weight in bucket}
        self._open: list[int] = []
        self._idle: set[int] = set()
        self._late: list[Tensor] = []
        self._on_their_way: list[tuple[Any, Tensor, list[Tensor]]] = []

    @property
    def sent(self) -> int:
        """How many buckets of this update are on their way."""
        return len(self._on_their_way)

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Within it runs the last backward pass of an update; a bucket is sent when it has all its gradients."""
        weights = [weight for bucket in self._buckets for weight in bucket if weight.requires_grad]
        # What had no gradient in the last update (a layer that nothing uses) is not waited for.
        self._open = [0] * len(self._buckets)
        for weight in weights:
            self._open[self._bucket_of[id(weight)]] += id(weight) not in self._idle
        hooks = [weight.register_post_accumulate_grad_hook(self._is_there) for weight in weights]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def finish(self) -> None:
        """Send what was not sent in the backward pass, and wait for the means of all."""
        while self.sent < len(self._buckets):
            self._send(self._buckets[self.sent])
        if self._late:
            self._send(self._late)
        for message, flat, gradients in self._on_their_way:
            message.wait()
            flat /= self._count
            means = flat.split([part.numel() for part in gradients]) if gradients else ()
            for gradient, mean in zip(gradients, means, strict=True):
                gradient.copy_(mean.view_as(gradient))
        weights = [weight for bucket in self._buckets for weight in bucket]
        self._idle = {id(weight) for weight in weights if weight.requires_grad and weight.grad is None}
        self._late.clear()
        self._on_their_way.clear()

    def _is_there(self, weight: Tensor) -> None:
        number = self._bucket_of[id(weight)]
        if id(weight) in self._idle:
            if number < self.sent:
                self._late.append(weight)
            return
        if number < self.sent:
            raise VisirError(
                "a weight got a part of its gradient after the gradient was sent to the other processes.",
                hint="train in one process, or in chunks (optimiser.chunk), whose gradients are sent at the end",
            )
        self._open[number] -= 1
        # In this order in every process: messages are told apart by nothing else.
        while self.sent < len(self._buckets) and self._open[self.sent] <= 0:
            self._send(self._buckets[self.sent])

    def _send(self, weights: Sequence[Tensor]) -> None:
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        # A message of one number where there are none: all processes count the same messages.
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients]) if gradients else weights[0].new_zeros(1)
        self._on_their_way.append((distributed.all_reduce(flat, async_op=True), flat, gradients))


def _buckets(weights: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """The weights of each type of number, in order, in lists of about `BUCKET` numbers."""
    open_ones: dict[torch.dtype, list[Tensor]] = {}
    for weight in weights:
        bucket = open_ones.setdefault(weight.dtype, [])
        bucket.append(weight)
        if sum(part.numel() for part in bucket) >= BUCKET:
            yield open_ones.pop(weight.dtype)
    yield from open_ones.values()


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
            hard = [rows_of("anchor_negative_rows"), rows_of("negative_rows")]
            own = VectorPairs(
                anchors,
                positives,
                rows_of("anchor_rows"),
                _stack_padded([batch.targets for batch in chunks], device),
                _stack_padded([batch.tokens for batch in chunks], device),
                rows_of("classes"),
                rows_of("rows"),
                negative_rows=hard[1],
                anchor_negative_rows=hard[0],
            ).split()
            if processes.count == 1:
                return self.learner.losses(own)
            both = torch.cat([anchors, positives], dim=1)[: share.own]
            widths = [anchors.shape[1], positives.shape[1]]
            local = self.learner.local_loss
            anchors, positives = processes.gather(both, share.sizes, both_ways=local).split(widths, dim=1)
            anchor_rows, classes = self.train.labels(share.rows)
            classes = None if classes is None else classes.to(device, non_blocking=True)
            hard = [rows if rows is None else processes.gather(rows[: share.own], share.sizes) for rows in hard]
            everyone = VectorPairs(
                anchors,
                positives,
                anchor_rows.to(device, non_blocking=True),
                classes=classes,
                negative_rows=hard[1],
                anchor_negative_rows=hard[0],
                queries=OwnQueries(share.first(processes.rank), share.own, processes.count) if local else None,
            ).split()
            return self.learner.losses(own, everyone, share.own * processes.count / len(share.rows))

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
