"""Heads: shapes by hand, scaling, and what is refused."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from visir.encoders.towers.base import Head, HeadSpec, _spread
from visir.errors import EncoderError


def names(head: Head) -> list[str]:
    return [type(layer).__name__ for layer in head.layers]


def test_vse_is_one_linear_layer_and_ltd_two_with_a_relu_between() -> None:
    assert names(Head(HeadSpec(4, 3))) == ["Linear"]
    ltd = Head(HeadSpec(4, 3, hidden=(3,), activation="relu", layer_norm=False, batch_norm=True))
    assert names(ltd) == ["Linear", "ReLU", "Dropout", "Linear"] and isinstance(ltd.norm, torch.nn.BatchNorm1d)
    assert names(Head(HeadSpec(4, 3, hidden=(5,)))) == ["Linear", "LayerNorm", "GELU", "Dropout", "Linear"]


def test_a_relu_head_by_hand() -> None:
    head = Head(HeadSpec(2, 1, hidden=(2,), activation="relu", layer_norm=False, shortcut=True))
    with torch.no_grad():
        head.layers[0].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, -1.0]]))
        head.layers[0].bias.zero_()
        head.layers[3].weight.copy_(torch.tensor([[2.0, 5.0]]))
        head.layers[3].bias.fill_(1.0)
        assert head.shortcut is not None
        head.shortcut.weight.copy_(torch.tensor([[10.0, 100.0]]))
        head.shortcut.bias.zero_()
    # Hidden: relu(3) = 3, relu(-4) = 0; 2·3 + 5·0 + 1 = 7; straight through: 10·3 + 100·4 = 430.
    assert head(torch.tensor([[3.0, 4.0]])).item() == 437.0


def test_batch_norm_follows_the_output() -> None:
    head = Head(HeadSpec(3, 2, batch_norm=True)).train()
    out = head(torch.randn(50, 3) * 7 + 2)
    torch.testing.assert_close(out.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(out.var(0, correction=0), torch.ones(2), atol=1e-3, rtol=0)


def test_the_identity_changes_nothing_and_has_nothing_to_learn() -> None:
    head = Head(HeadSpec(3, 3, identity=True))
    vectors = torch.randn(4, 3)
    assert torch.equal(head(vectors), vectors) and not head.state_dict()


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"outputs": 2, "identity": True}, "an identity head gives what it takes: 3 dimensions, not 2"),
        ({"identity": True, "hidden": (3,)}, "no other settings"),
        ({"identity": True, "batch_norm": True}, "no other settings"),
        ({"shortcut": True}, "no use for a shortcut"),
    ],
)
def test_contradictions_are_refused(values: dict[str, object], complaint: str) -> None:
    with pytest.raises(EncoderError, match=complaint):
        HeadSpec(**{"inputs": 3, "outputs": 3, **values})  # type: ignore[arg-type]


def test_standard_scaling_by_hand_and_rare_dimensions_are_not_blown_up() -> None:
    head = Head(HeadSpec(2, 2, scaling="standard"))
    # Deviations 3 and 0; the root mean square of both is √(9/2) ≈ 2.12: 3 stays, 0 becomes 2.12.
    head.fit_scaling(np.array([[1.0, 5.0], [7.0, 5.0]]))
    torch.testing.assert_close(head.mean, torch.tensor([4.0, 5.0]))
    torch.testing.assert_close(head.deviation, torch.tensor([3.0, 4.5**0.5]))
    with torch.no_grad():
        head.layers[0].weight.copy_(torch.eye(2))
        head.layers[0].bias.zero_()
    torch.testing.assert_close(head(torch.tensor([[7.0, 5.0]])), torch.tensor([[1.0, 0.0]]))


def test_unit_scaling_keeps_an_empty_text_at_zero() -> None:
    head = Head(HeadSpec(2, 2, scaling="unit"))
    bias = head.layers[0].bias
    torch.testing.assert_close(head(torch.zeros(1, 2))[0], bias)
    torch.testing.assert_close(head(torch.tensor([[3.0, 4.0]])), head(torch.tensor([[0.6, 0.8]])))


def test_a_spec_survives_json() -> None:
    spec = HeadSpec(3, 2, hidden=(4, 5), activation="relu", dropout=0.1)
    assert HeadSpec.from_dict({**spec.to_dict(), "hidden": [4, 5]}) == spec


def test_scaling_is_fitted_in_blocks_over_several_views(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    # Far from zero, where a sum of squares would lose the deviation; more than one block, and one that is not full.
    views = [(rng.normal(size=(5000, 6)) * [1, 1e-3, 5, 1, 2, 3] + [0, 1e3, -40, 7, 0, 1]).astype(np.float32)
             for _ in range(3)]  # fmt: skip
    mean, deviation = _spread(views)
    together = np.concatenate(views)
    np.testing.assert_allclose(mean, together.mean(axis=0, dtype=np.float64), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(deviation, together.std(axis=0, dtype=np.float64), rtol=1e-12)
    np.save(tmp_path / "view.npy", together)
    one, other = (Head(HeadSpec(6, 2, scaling="standard")) for _ in range(2))
    one.fit_scaling(*views)
    other.fit_scaling(np.load(tmp_path / "view.npy", mmap_mode="r"))
    assert torch.equal(one.mean, other.mean) and torch.equal(one.deviation, other.deviation)


def test_fitting_the_scaling_takes_bounded_memory(tmp_path: Path) -> None:
    vectors = np.lib.format.open_memmap(tmp_path / "big.npy", "w+", np.float32, (100_000, 64))  # 51 MB in float64
    vectors[:] = np.arange(64)
    tracemalloc.start()
    Head(HeadSpec(64, 2, scaling="standard")).fit_scaling(vectors)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12e6  # a few blocks of 4,096 · 64 · 8 = 2.1 MB
