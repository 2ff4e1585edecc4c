"""Fitting two heads to frozen features, epoch by epoch, such that an interruption changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from visir.encoders.models.heads import Head, HeadSpec
from visir.progress import Progress
from visir.records import Modality
from visir.training.batches import batches_of_epoch, steps_per_epoch, views_of_epoch
from visir.training.features import Features
from visir.training.loop import optimiser_over, run_epoch
from visir.training.objectives.infonce import InfoNCE
from visir.training.recipe import HeadShape, Recipe
from visir.training.schedule import warmup_cosine
from visir.training.state import (
    STATE_FILE,
    load_state,
    named,
    optimiser_tensors,
    refuse_another_run,
    restore_optimiser,
    save_state,
    under,
)
from visir.training.validation import validate

SIDES: tuple[Modality, Modality] = ("image", "text")


@dataclass(frozen=True)
class Epoch:
    """One point of the training curve.

    - `epoch`: from 1; `loss`: mean over its captions; `temperature`: at its end
    - `validation`: hits in percent and "rsum", as `visir.training.validation.validate` counts them
    - `seconds`: what it took, validation included; `rate`: captions trained per second
    """

    epoch: int
    loss: float
    temperature: float
    validation: dict[str, float]
    seconds: float
    rate: float


@dataclass(frozen=True)
class Fitted:
    """Trained heads, the curve of their training, and which epoch (from 1) they are of."""

    heads: dict[Modality, Head]
    curve: tuple[Epoch, ...]
    chosen: int
    temperature: float


Report = Callable[[Epoch], None]


def fit_heads(
    recipe: Recipe,
    train: Features,
    validation: Features,
    *,
    folder: Path | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> Fitted:
    """Train both heads on `train`, choose the epoch on `validation`.

    - `folder`: where the state is written after each epoch (one file, replaced in one step); None keeps none
    - `resume`: go on from that state when there is one. The result is the same, bit for bit, as without the
      interruption: the order of captions, their views and the dropout of an epoch depend on the seed and its number
      alone.
    - `report`: called after each epoch

    Raises `TrainingError`, naming the captions of the batch, when the loss is NaN or infinite.
    """
    training = _Training(recipe, train, validation)
    state = folder / STATE_FILE if folder else None
    if resume and state is not None and state.is_file():
        training.restore(state)
    with torch.random.fork_rng(), Progress(recipe.name, training.remaining_captions, "captions") as advance:
        while not training.is_done:
            epoch = training.run_epoch(advance)
            if state is not None:
                training.save(state)
            if report is not None:
                report(epoch)
    return training.fitted()


class _Training:
    """What changes while training, and how it is kept."""

    def __init__(self, recipe: Recipe, train: Features, validation: Features) -> None:
        self.recipe, self.train, self.validation = recipe, train, validation
        self.device = recipe.device
        self.curve: list[Epoch] = []
        self.best: dict[str, Tensor] = {}
        with torch.random.fork_rng():
            torch.manual_seed(recipe.seed)
            image = new_head(recipe.model.image, train.images.shape[2], recipe.model.dimension)
            text = new_head(recipe.model.text, train.texts.shape[1], recipe.model.dimension)
        image.fit_scaling(train.images.reshape(-1, train.images.shape[2]))
        text.fit_scaling(train.texts)
        objective = InfoNCE(
            recipe.objective.temperature,
            learnt=recipe.objective.learn_temperature,
            siblings=recipe.objective.siblings,
        )
        self.modules = nn.ModuleDict({"image": image, "text": text, "objective": objective}).to(self.device)
        self.optimiser = optimiser_over([self.modules], recipe.optimiser.rate, recipe.optimiser.decay)
        self.steps = steps_per_epoch(len(train.texts), recipe.optimiser.batch)
        self.views = np.zeros(len(train.texts), np.int64)
        self.images = torch.from_numpy(train.images)
        self.texts = torch.from_numpy(train.texts)
        self.owners = torch.from_numpy(train.owners)

    @property
    def remaining_captions(self) -> int:
        return (self.recipe.optimiser.epochs - len(self.curve)) * len(self.train.texts)

    @property
    def is_done(self) -> bool:
        """Whether all epochs were run, or patience ran out. A function of the curve, so that it survives a restart."""
        if len(self.curve) == self.recipe.optimiser.epochs:
            return True
        patience = self.recipe.selection.patience
        return patience is not None and bool(self.curve) and len(self.curve) - self.best_epoch >= patience

    @property
    def best_epoch(self) -> int:
        """The epoch (from 1) with the best validation rsum, the earliest of equals."""
        return 1 + int(np.argmax([epoch.validation["rsum"] for epoch in self.curve]))

    def run_epoch(self, advance: Callable[[int], None]) -> Epoch:
        number, started, settings = len(self.curve), time.perf_counter(), self.recipe.optimiser
        torch.manual_seed(_mixed(self.recipe.seed, number))  # dropout: by seed and epoch, as is the order of captions
        self.views = views_of_epoch(len(self.texts), len(self.images), seed=self.recipe.seed, epoch=number)
        self.modules.train()
        loss = run_epoch(
            self._loss,
            batches_of_epoch(len(self.texts), settings.batch, seed=self.recipe.seed, epoch=number),
            self.optimiser,
            lambda step: (
                settings.rate * warmup_cosine(number * self.steps + step, settings.epochs * self.steps, settings.warmup)
            ),
            clip=settings.clip,
            ids=self.train.captions,
            epoch=number,
            advance=advance,
        )
        trained = time.perf_counter() - started
        self.modules.eval()
        counted = validate(
            self._project("image", self.validation.images.mean(axis=0)),
            self._project("text", self.validation.texts),
            self.validation.owners,
        )
        took = time.perf_counter() - started
        epoch = Epoch(number + 1, loss, self._objective.temperature, counted, took, len(self.texts) / trained)
        self.curve.append(epoch)
        if self.recipe.selection.keep == "last" or self.best_epoch == epoch.epoch:
            self.best = {name: tensor.clone() for name, tensor in self.modules.state_dict().items()}
        return epoch

    def save(self, path: Path) -> None:
        tensors = {
            **named("now", self.modules.state_dict()),
            **named("best", self.best),
            **named("optimiser", optimiser_tensors(self.optimiser)),
        }
        save_state(path, tensors, {"curve": [asdict(epoch) for epoch in self.curve], **self._identity()})

    def restore(self, path: Path) -> None:
        tensors, notes = load_state(path)
        refuse_another_run(path, notes, self._identity())
        self.modules.load_state_dict(under("now", tensors))
        self.best = under("best", tensors)
        restore_optimiser(self.optimiser, under("optimiser", tensors))
        self.curve = [Epoch(**epoch) for epoch in notes["curve"]]

    def fitted(self) -> Fitted:
        """The chosen weights in the modules, on the CPU."""
        self.modules.load_state_dict(self.best)
        self.modules.cpu().eval()
        chosen = self.best_epoch if self.recipe.selection.keep == "rsum" else len(self.curve)
        heads = {side: self._head(side) for side in SIDES}
        return Fitted(heads, tuple(self.curve), chosen, self._objective.temperature)

    def _loss(self, rows: NDArray[np.int64]) -> Tensor:
        captions = torch.from_numpy(rows)
        owners = self.owners[captions]
        views = torch.from_numpy(self.views[rows])
        images = self._head("image")(self.images[views, owners].to(self.device))
        texts = self._head("text")(self.texts[captions].to(self.device))
        normalise = nn.functional.normalize
        loss: Tensor = self._objective(normalise(images, dim=-1), normalise(texts, dim=-1), owners.to(self.device))
        return loss

    def _project(self, side: Modality, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.inference_mode():
            projected = self._head(side)(torch.from_numpy(vectors).to(self.device))
            return nn.functional.normalize(projected, dim=-1).float().cpu().numpy()

    def _head(self, side: Modality) -> Head:
        head = self.modules[side]
        assert isinstance(head, Head)
        return head

    @property
    def _objective(self) -> InfoNCE:
        objective = self.modules["objective"]
        assert isinstance(objective, InfoNCE)
        return objective

    def _identity(self) -> dict[str, Any]:
        """What must be equal for a run to go on from a state."""
        return {
            "recipe": self.recipe.model_dump(mode="json"),
            "features": {"train": self.train.origin, "validation": self.validation.origin},
            "threads": torch.get_num_threads(),
        }


def new_head(shape: HeadShape, inputs: int, outputs: int) -> Head:
    """A head with fresh weights, drawn from torch's generator."""
    return Head(HeadSpec(inputs=inputs, outputs=outputs, **shape.model_dump()))


def _mixed(seed: int, epoch: int) -> int:
    """One number from two, such that neighbouring seeds and epochs do not share streams."""
    return int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> 1)
