"""FILIP against its equations in float64, written out pair by pair."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from refusals import refused
from visir.errors import EmbeddingError
from visir.records import TokenVectors
from visir.training.examples import Sets, SetSource
from visir.training.inputs import EpochRandom
from visir.training.losses import FILIP
from visir.training.similarities import VectorPairs, best_matches


def padded(counts: list[int], width: int, dimension: int, seed: int) -> Tensor:
    """Unit vectors in float64; zeros where a set has ended."""
    generator = torch.Generator().manual_seed(seed)
    sets = functional.normalize(
        torch.randn(len(counts), width, dimension, dtype=torch.float64, generator=generator), dim=-1
    )
    return sets * (torch.arange(width) < torch.tensor(counts)[:, None])[:, :, None]


def similarities(anchors: Tensor, positives: Tensor) -> tuple[Tensor, Tensor]:
    """Equations 3 and 4 of the paper, for every pair by itself, without its padding."""
    of_anchors, of_positives = [], []
    for anchor in anchors:
        products = [anchor[anchor.ne(0).any(1)] @ positive[positive.ne(0).any(1)].T for positive in positives]
        of_anchors.append(torch.stack([each.amax(1).mean() for each in products]))
        of_positives.append(torch.stack([each.amax(0).mean() for each in products]))
    return torch.stack(of_anchors), torch.stack(of_positives).T


def slow_loss(anchors: Tensor, positives: Tensor, temperature: Tensor, rows: list[int], *, masked: bool) -> Tensor:
    loss = torch.zeros((), dtype=torch.float64)
    n = len(rows)
    for scores in similarities(anchors, positives):
        for i in range(n):
            others = [j for j in range(n) if j == i or not masked or rows[j] != rows[i]]
            loss = loss - (scores[i, i] / temperature - torch.logsumexp(scores[i, others] / temperature, 0))
    return loss / (2 * n)


COUNTS = ([4, 2, 5, 1, 3], [3, 7, 1, 2, 7])


@pytest.mark.parametrize("masked", [True, False])
def test_the_loss_and_its_gradients_are_those_of_the_equations(masked: bool) -> None:
    anchors = padded(COUNTS[0], 6, 8, seed=1).requires_grad_()
    positives = padded(COUNTS[1], 9, 8, seed=2).requires_grad_()
    rows = [0, 1, 0, 2, 3]
    objective = FILIP(0.07, false_negatives="masked" if masked else "kept")

    loss = objective(VectorPairs(anchors, positives, torch.tensor(rows)))
    loss.backward()
    gradients = [anchors.grad, positives.grad, objective.temperature.log_scale.grad]

    scale = torch.tensor(-math.log(0.07), dtype=torch.float64, requires_grad=True)
    expected = slow_loss(anchors, positives, torch.exp(-scale), rows, masked=masked)
    assert abs(float(loss.detach() - expected.detach())) < 1e-9
    for computed, wanted in zip(gradients, torch.autograd.grad(expected, [anchors, positives, scale]), strict=True):
        assert computed is not None
        assert float((computed - wanted).abs().max()) < 1e-9
    assert not gradients[0][3, 1:].any(), "padding is not moved"  # type: ignore[index]


def test_best_matches_of_two_sets_by_hand() -> None:
    anchors = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    positives = torch.tensor([[[0.6, 0.8], [0.0, 0.0]]])  # one vector and padding
    matches = best_matches(anchors, positives)
    assert matches.of_anchors.tolist() == [[pytest.approx(0.7)]]  # (0.6 + 0.8) / 2
    assert matches.of_positives.tolist() == [[pytest.approx(0.8)]]


def test_a_set_without_vectors_is_named_by_its_row() -> None:
    full, empty = [[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]
    some, all_there = torch.tensor([full, empty, empty]), torch.tensor([full, full, full])
    with refused(EmbeddingError, "anchors", "rows 1", "2", code="vectors-zeros"):
        best_matches(some, all_there)
    with refused(EmbeddingError, "positives", "rows 1", "2"):
        FILIP()(VectorPairs(all_there, some, torch.arange(3)))
    with refused(EmbeddingError, "anchors", "row 0", "positives", "rows 0", "1", "2", "3", "4", "5", "6", "7"):
        best_matches(torch.zeros(1, 2, 2), torch.zeros(9, 2, 2))
    matches = best_matches(all_there, torch.tensor([full, [[0.6, 0.8], empty[0]], full]))
    assert matches.of_anchors[0].tolist() == pytest.approx([1.0, 0.7, 1.0])  # of the second: (0.6 + 0.8) / 2


def test_more_padding_changes_nothing() -> None:
    anchors, positives = padded(COUNTS[0], 6, 8, seed=1), padded(COUNTS[1], 7, 8, seed=2)
    wider = [functional.pad(sets, (0, 0, 0, 5)) for sets in (anchors, positives)]
    for matches, others in zip(best_matches(anchors, positives), best_matches(*wider), strict=True):
        assert torch.equal(matches, others)


def test_one_vector_each_is_infonce() -> None:
    from visir.training.losses import InfoNCE

    anchors, positives = padded([1] * 4, 1, 8, seed=3), padded([1] * 4, 1, 8, seed=4)
    rows = torch.arange(4)
    filip = FILIP(0.1)(VectorPairs(anchors, positives, rows))
    assert torch.allclose(filip, InfoNCE(0.1)(VectorPairs(anchors[:, 0], positives[:, 0], rows)))


def test_sets_are_drawn_from_one_view_and_padded_to_the_longest_of_the_split() -> None:
    first = TokenVectors.of([np.full((count, 3), count, np.float32) for count in (2, 1, 4)])
    second = TokenVectors.of([np.full((count, 3), -count, np.float32) for count in (2, 1, 4)])
    source = SetSource([Sets(first), Sets(second)])
    rows = np.array([1, 0, 1])
    plain = source.batch(rows)
    assert plain["vectors"][:, 0].tolist() == [1, 2, 2, 1]
    assert plain["present"].sum(1).tolist() == [1, 2, 1]
    assert plain["present"].shape == (3, 4)
    many = np.tile(rows, 20)
    drawn = source.batch(many, EpochRandom(0, 0), np.arange(len(many)))
    values = drawn["vectors"][:, 0]
    assert torch.equal(values.abs(), torch.tensor([1.0, 2, 2, 1]).repeat(20))
    assert 0.2 < float((values < 0).float().mean()) < 0.8
