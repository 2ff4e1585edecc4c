"""Batch norm, whose statistics are of the rows that go through together."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from visir.encoders.towers.base import Tower
from visir.errors import ConfigurationError
from visir.training.processes import Processes
from visir.training.regime import Regime


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
    backbones = [tower.backbone for tower in model.modules() if isinstance(tower, Tower) and tower.backbone is not None]
    return {
        id(module)
        for backbone in backbones
        for pretrained in backbone.pretrained_modules()
        for module in pretrained.modules()
    }
