"""Weights as in use: exact, and the same bits whatever the neighbours, the blocks, the threads."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sparse_toys import PIECES, batch, head, packed
from test_sparse_head import slowly

from visir.sparse.encoder import SparseRows, project
from visir.sparse.language_model import SparseHead


def vectors(n: int = 40) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(n, 6)).astype(np.float32)


def row(rows: SparseRows, at: int) -> dict[int, float]:
    part = slice(rows.offsets[at], rows.offsets[at + 1])
    return dict(zip(rows.terms[part].tolist(), rows.values[part].tolist(), strict=True))


def test_weights_are_the_equations_for_every_row() -> None:
    model = head()
    found = project(model, vectors(9))
    for at in range(9):
        expected = slowly(model, vectors(9)[at].tolist())
        assert row(found, at) == pytest.approx({k: w for k, w in enumerate(expected) if w > 0}, rel=2e-6)


@pytest.mark.parametrize("block", [1, 7, 40])
def test_blocks_and_order_change_no_bit(block: int) -> None:
    model, rows = head(), vectors()
    expected, order = project(model, rows), np.random.default_rng(1).permutation(40)
    found = project(model, rows[order], block=block)
    for at in range(40):
        assert row(found, at) == row(expected, int(order[at]))


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = project(head(), vectors())
    monkeypatch.setattr("visir.threads.cores", lambda: 3)
    found = project(head(), vectors())
    assert np.array_equal(found.values, expected.values) and np.array_equal(found.terms, expected.terms)


def test_own_terms_have_the_weights_that_they_have_among_all() -> None:
    model, rows = head(), vectors(5)
    own = packed([np.array([5, 6, 9]), np.array([], int), np.array([7]), np.arange(5, 19), np.array([3, 18])])
    everything, found = project(model, rows), project(model, rows, own)
    for at in range(5):
        whole = row(everything, at)
        assert row(found, at) == {k: whole[k] for k in own.of(at).tolist() if k in whole}
    assert found.offsets[1] == found.offsets[2] and 3 not in found.terms  # no terms; [SEP] even if named


def test_the_product_only_filters_what_is_exact_at_the_edge() -> None:
    """Logits made to lie within rounding of 0: whether one is active is decided by the exact sum, both ways."""
    model = head()
    hidden = model.hidden(torch.from_numpy(vectors(1)))[0].detach()
    with torch.no_grad():
        model.bias.copy_(-(model.words.double() @ hidden.double()).float())  # logits of about 1e-8, of either sign
    found = row(project(model, vectors(1)), 0)
    kept = project(model, vectors(1), packed([np.arange(len(PIECES))]))
    assert found == row(kept, 0) and 0 < len(found) < 14
    assert all(0 < weight < 1e-5 and math.isfinite(weight) for weight in found.values())


def test_nothing_in_nothing_out() -> None:
    found = project(head(), np.zeros((0, 6), np.float32))
    assert found.offsets.tolist() == [0] and not len(found.terms)
    model = head()
    with torch.no_grad():
        model.bias.fill_(-100)
    assert project(model, vectors(3)).offsets.tolist() == [0, 0, 0, 0]


def test_agrees_with_the_head_in_training() -> None:
    model: SparseHead = head()
    images = batch(12)[0]
    full = np.zeros((12, len(PIECES)), np.float32)
    found = project(model, images.numpy())
    full[np.repeat(np.arange(12), np.diff(found.offsets)), found.terms] = found.values
    torch.testing.assert_close(torch.from_numpy(full), model(images).detach(), rtol=1e-5, atol=1e-6)
