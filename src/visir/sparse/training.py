"""A sparse head in training: what changes while it runs, and how it is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from visir.errors import ConfigurationError
from visir.sparse.active import score_active
from visir.sparse.examples import SparseExamples
from visir.sparse.expansion import Expansion, ExpansionSample
from visir.sparse.head import SparseHead
from visir.sparse.loss import BatchScores, Loss, eta_at
from visir.sparse.recipe import SparseRecipe
from visir.sparse.scoring import score
from visir.sparse.validation import validate
from visir.training.batches import batches_of_epoch, steps_per_epoch
from visir.training.curve import Epoch, Running
from visir.training.folder import TrainingFolder
from visir.training.loop import TrainingError
from visir.training.optimiser import moments, restore_moments, set_rates
from visir.training.recipe import Schedule
from visir.training.schedule import Timetable
from visir.training.state import add_prefix, check_same_training, load_state, save_state, strip_prefix
from visir.training.step_log import Step

READ_EVERY = 32
"""Steps whose losses are read from the device together: reading each would make the device wait for the processor."""

_NAMES = ("loss", "i2t", "t2i", "l1", "image terms", "text terms")
_SELECTED = "mrr@10"


class SparseTraining:
    """The head and everything that moves with it. `run_epoch`, then `close_epoch`, until `is_done`."""

    def __init__(
        self, recipe: SparseRecipe, head: SparseHead, train: SparseExamples, validation: SparseExamples
    ) -> None:
        self.recipe, self.train, self.validation = recipe, train, validation
        self.device = train.images.device
        self.head = head.to(self.device)
        settings = recipe.optimiser
        self.expansion = Expansion(recipe.expansion.variant, settings.epochs, recipe.expansion.sampled_per, recipe.seed)
        self.loss = Loss(recipe.loss.temperature, recipe.loss.balance, recipe.loss.eta)
        self.steps = steps_per_epoch(len(train), settings.batch)
        schedule = Schedule(shape="linear", warmup=settings.warmup)
        self.timetable = Timetable(schedule, settings.epochs, self.steps)
        self.optimiser = torch.optim.AdamW(
            [
                {"params": list(params), "lr": peak, "peak": peak}
                for params, peak in (
                    (head.project.parameters(), settings.rate),
                    (head.norm.parameters(), settings.norm_rate),
                    ((head.words, head.bias), settings.words_rate),
                )
            ],
            weight_decay=0.0,
            fused=True,
        )
        self.score = self._way()
        self.running = Running()
        self.curve: list[Epoch] = []
        self.best: dict[str, Tensor] = {}

    @property
    def steps_done(self) -> int:
        """Updates of the weights so far."""
        return len(self.curve) * self.steps + self.running.step

    @property
    def captions_left(self) -> int:
        """How many captions are still to be trained on."""
        return (self.recipe.optimiser.epochs - len(self.curve)) * len(self.train) - self.running.captions

    @property
    def is_done(self) -> bool:
        """Whether all epochs were run."""
        return len(self.curve) == self.recipe.optimiser.epochs

    @property
    def chosen(self) -> int:
        """The epoch (from 1) whose weights are kept."""
        if self.recipe.selection.keep == "last":
            return len(self.curve)
        return 1 + int(np.argmax([epoch.validation[_SELECTED] for epoch in self.curve]))

    def run_epoch(self) -> Iterator[list[tuple[Step, int]]]:
        """The steps of the epoch under way that are still to be done, several at a time, each with its captions.

        Whatever was yielded is in the weights, and nothing else: the state may be saved between two yields. Raises
        `TrainingError` when a loss is NaN or infinite.
        """
        number, began, before = len(self.curve), time.perf_counter(), self.running.seconds
        batches = batches_of_epoch(len(self.train), self.recipe.optimiser.batch, seed=self.recipe.seed, epoch=number)
        order = torch.from_numpy(np.concatenate(batches)).to(self.device)  # one copy for the whole epoch
        edges = np.cumsum([0, *map(len, batches)]).tolist()
        waiting: list[tuple[int, float, float, Tensor]] = []
        for step in range(self.running.step, self.steps):
            factor = self.timetable.factor(number, step)
            rows = order[edges[step] : edges[step + 1]]
            eta = eta_at(
                self.recipe.loss.eta,
                number * self.steps + step,
                self.recipe.optimiser.epochs * self.steps,
                self.recipe.loss.warmup,
            )
            waiting.append((step, factor, eta, self.update(number, step, rows, factor, eta)))
            if len(waiting) == READ_EVERY or step + 1 == self.steps:
                read = self._read(number, waiting, edges)
                self.running.seconds = before + time.perf_counter() - began
                waiting = []
                yield read

    def update(self, epoch: int, step: int, rows: Tensor, factor: float, eta: float) -> Tensor:
        """Move the weights once, on the captions `rows`; returns what `_NAMES` lists, still on the device."""
        train = self.train
        images, texts, own = train.images[train.owners[rows]], train.texts[rows], train.own[rows]
        drawn = self.expansion.draw(epoch, step, rows, train.frequencies)
        set_rates(self.optimiser, factor)
        self.optimiser.zero_grad()
        scored = self.score(self.head, images, texts, own, drawn)
        found = self.loss(scored, images, texts, eta)
        found["loss"].backward()
        self.optimiser.step()
        values = (*found.values(), scored.image_terms, scored.text_terms)
        return torch.stack([one.detach().float() for one in values])

    def close_epoch(self) -> Epoch:
        """Validate, choose, and begin the next epoch."""
        began, number, running = time.perf_counter(), len(self.curve), self.running
        counted = validate(self.head, self.validation, self.recipe.expansion.variant)
        epoch = Epoch(
            number + 1,
            running.means(),
            {"p_c": self.expansion.caption_probability(number)},
            counted,
            running.seconds + time.perf_counter() - began,
            running.captions / running.seconds,
        )
        self.curve.append(epoch)
        if self.chosen == epoch.epoch:
            self.best = {name: one.detach().clone() for name, one in self.head.state_dict().items()}
        self.running = Running()
        return epoch

    def save(self, folder: TrainingFolder) -> None:
        """Write everything that a later process needs to go on as if nothing had been."""
        tensors = {
            **add_prefix("now", self.head.state_dict()),
            **add_prefix("best", self.best),
            **add_prefix("optimiser", moments(self.optimiser)),
        }
        notes = {"curve": [asdict(epoch) for epoch in self.curve], "running": asdict(self.running)}
        save_state(folder, tensors, {**notes, **self._identity()})

    def restore(self, path: Path) -> None:
        """Go back to where `save` was called."""
        tensors, notes = load_state(path)
        check_same_training(path, notes, self._identity())
        self.head.load_state_dict(strip_prefix("now", tensors))
        self.best = {name: one.to(self.device) for name, one in strip_prefix("best", tensors).items()}
        restore_moments(self.optimiser, strip_prefix("optimiser", tensors))
        self.curve = [Epoch(**epoch) for epoch in notes["curve"]]
        self.running = Running(**notes["running"])

    def chosen_head(self) -> SparseHead:
        """The head with the chosen weights, on the CPU."""
        self.head.load_state_dict(self.best)
        return self.head.cpu()

    def _read(
        self, epoch: int, waiting: list[tuple[int, float, float, Tensor]], edges: list[int]
    ) -> list[tuple[Step, int]]:
        rows = torch.stack([values for *_, values in waiting]).tolist()
        done = []
        for (step, factor, eta, _), values in zip(waiting, rows, strict=True):
            losses, captions = dict(zip(_NAMES, values, strict=True)), edges[step + 1] - edges[step]
            if not np.isfinite(values).all():
                raise TrainingError(
                    f"the loss is {losses['loss']} in epoch {epoch + 1}, step {step + 1}.",
                    hint="look at the vectors (visir data check), or lower optimiser.rate and optimiser.words_rate",
                )
            self.running.add(losses, captions)
            facts, rate = {"eta": eta}, factor * self.recipe.optimiser.rate
            done.append((Step(self.steps_done, epoch + 1, losses, facts, rate), captions))
        return done

    def _way(self) -> Callable[[SparseHead, Tensor, Tensor, Tensor, ExpansionSample], BatchScores]:
        """How a batch goes through the head on this device."""
        if self.device.type == "cpu":
            faults = [f"compile = {self.recipe.compile}"] if self.recipe.compile else []
            faults += [f'precision = "{self.recipe.precision}"'] if self.recipe.precision != "float32" else []
            if faults:
                raise ConfigurationError(
                    f"{' and '.join(faults)}: not on a CPU, where only active terms are computed.",
                    hint='leave it out, or device = "cuda"',
                )
            return score_active
        way = torch.compile(score) if self.recipe.compile else score

        def scored(head: SparseHead, images: Tensor, texts: Tensor, own: Tensor, drawn: ExpansionSample) -> BatchScores:
            with self._autocast():
                return way(head, images, texts, own, drawn)

        return scored

    def _autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.recipe.precision == "bfloat16")

    def _identity(self) -> dict[str, Any]:
        """What must be equal for a run to go on from a state."""
        return {
            "recipe": self.recipe.model_dump(mode="json"),
            "examples": {"train": self.train.origin, "validation": self.validation.origin},
            "threads": torch.get_num_threads(),
        }
