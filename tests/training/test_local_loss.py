"""The loss of a batch in parts, one for each process: their mean is the whole, and so are its gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from equations import batch, pairs, unit
from planted import recipe

from refusals import refused
from visir.errors import ConfigurationError
from visir.training.losses import OwnScale
from visir.training.processes import Share
from visir.training.recipe import read_recipe
from visir.training.similarities import OwnQueries

KINDS: tuple[dict[str, Any], ...] = (
    {"name": "infonce", "learn_temperature": True},
    {"name": "infonce", "false_negatives": "kept"},
    {"name": "ifm", "epsilon": 0.2},
    {"name": "sigmoid"},
    {"name": "sigmoid", "false_negatives": "positives"},
    {"name": "multi-positive", "learn_temperature": True},
    {"name": "multi-positive", "demand": "any"},
    {"name": "triplet"},
    {"name": "triplet", "negatives": "sum", "reduction": "sum"},
)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("processes", [1, 2, 4, 11])
def test_the_mean_over_the_processes_is_the_loss_of_the_batch(kind: dict[str, Any], hard: bool, processes: int) -> None:
    """Nine pairs, two of some pictures; of eleven processes two have none."""
    optimiser = {"per_image": 2} if kind["name"] == "multi-positive" else {}
    settings: Any = recipe(objective={**kind, "local_loss": True}, optimiser=optimiser).objective
    loss = settings.build(OwnScale()).double()
    images, texts, owners = batch(8)
    given = pairs(images, texts, owners)
    if hard:
        rng = np.random.default_rng(1)
        more = [torch.tensor(unit(rng, 18, 5)).reshape(9, 2, 5).requires_grad_() for _ in range(2)]
        rows = [torch.tensor(rng.integers(-1, 6, (9, 2))) for _ in range(2)]
        given = replace(given, negatives=more[0], anchor_negatives=more[1])
        given = replace(given, negative_rows=rows[0], anchor_negative_rows=rows[1])
    leaves = [given.anchors.requires_grad_(), given.positives.requires_grad_(), *(more if hard else [])]
    leaves += [one for one in loss.parameters() if one.requires_grad]
    whole = loss(given)
    expected = torch.autograd.grad(whole, leaves)
    parts = []
    for process in range(processes):
        share = Share.of(np.arange(9), process=process, processes=processes)
        queries = OwnQueries(share.first(process), share.own, processes)
        parts.append(loss(replace(given, queries=queries)))
    mean = torch.stack(parts).mean()
    torch.testing.assert_close(mean, whole, rtol=0, atol=1e-13)
    for one, other in zip(torch.autograd.grad(mean, leaves), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-13)


def test_objectives_that_compare_in_another_way_have_no_such_setting() -> None:
    written = recipe(objective={"name": "cosine"}).model_dump(mode="json", exclude_none=True)
    written["objective"]["local_loss"] = True
    with refused(ConfigurationError, "objective", "local_loss"):
        read_recipe(written)
