"""What a checkpoint says of how it came to be."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from visir.training.fit import FitResult
from visir.training.inputs.base import TrainingData
from visir.training.memory import peak_memory
from visir.training.regime import Regime
from visir.version import __version__


def facts_of(
    recipe: Regime, train: TrainingData, validation: TrainingData, fitted: FitResult[Any], *, prepared: float
) -> dict[str, Any]:
    """Plain values for JSON: the recipe, the data by their origin, the course, the cost; `prepared` in seconds."""
    return {
        "recipe": recipe.model_dump(mode="json"),
        "trained_on": train.origin,
        "validated_on": validation.origin,
        "chosen_epoch": fitted.chosen,
        "validation": fitted.curve[fitted.chosen - 1].validation,
        "objective": fitted.facts,
        "curve": [asdict(epoch) for epoch in fitted.curve],
        "seconds": {"preparation": prepared, "training": sum(epoch.seconds for epoch in fitted.curve)},
        "peak_memory": peak_memory(),
        "versions": {"visir": __version__, "torch": torch.__version__},
        "threads": torch.get_num_threads(),
    }
