"""GradCache gives the gradient of the plain batch: of the towers, the temperature, the decoder."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from planted import IMAGE, TARGET, TEXT, objective, recipe, towers
from torch import Tensor, nn
from torch.nn.functional import normalize

from visir.training.learner import DualEncoder
from visir.training.loop import Vectors, backward, fit, seed_step
from visir.training.losses import Losses
from visir.training.similarities import VectorPairs

ROWS = 23
SETTINGS = recipe(
    objective={"name": "infonce", "learn_temperature": True},
    auxiliary={"ltd": {"join": "constraint", "hidden": 12}},
)


def gradients(chunk: int, *, dtype: torch.dtype, dropout: float = 0.0) -> tuple[Losses, dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(ROWS, IMAGE, generator=generator, dtype=dtype)
    texts = torch.randn(ROWS, TEXT, generator=generator, dtype=dtype)
    targets = normalize(torch.randn(ROWS, TARGET, generator=generator, dtype=dtype), dim=-1)
    owners = torch.arange(ROWS) // 2
    sides = towers(hidden=(32,), dropout=dropout)
    modules = nn.ModuleDict({**sides, "objective": objective(SETTINGS)}).to(dtype).train()

    def vectors_of(number: int) -> Vectors:
        seed_step(0, 0, 0, chunk=number)
        rows = slice(number * chunk, (number + 1) * chunk)
        return normalize(sides["image"](images[rows]), dim=-1), normalize(sides["text"](texts[rows]), dim=-1)

    losses = backward(
        vectors_of,
        -(-ROWS // chunk),
        lambda image, text: modules["objective"](VectorPairs(image, text, owners, targets)),
        lambda total: total * 2.0,
    )
    return losses, {name: one.grad for name, one in modules.named_parameters() if one.grad is not None}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("chunk", [1, 7, 22])
def test_chunks_equal_the_plain_batch(chunk: int, dtype: torch.dtype, tolerance: float) -> None:
    plain, expected = gradients(ROWS, dtype=dtype)
    cached, found = gradients(chunk, dtype=dtype)
    assert abs(float(plain.total - cached.total)) <= tolerance * abs(float(plain.total))
    assert set(plain.parts) == set(cached.parts) == {"contrastive", "ltd"}
    assert set(found) == set(expected)
    assert any("log_scale" in name for name in found) and any("auxiliary.ltd" in name for name in found)
    for name, gradient in expected.items():
        assert float(gradient.abs().max()) > 0
        torch.testing.assert_close(found[name], gradient, rtol=tolerance, atol=tolerance * float(gradient.abs().max()))


def test_both_passes_of_a_chunk_drop_the_same_units() -> None:
    # If the second pass drew other masks, the gradients would be of other vectors than the loss. Finite differences of
    # the loss under the first pass's masks are the referee.
    sides = towers(hidden=(32,), dropout=0.4)
    modules = nn.ModuleDict(sides).double().train()
    inputs = torch.randn(8, IMAGE, dtype=torch.float64), torch.randn(8, TEXT, dtype=torch.float64)
    seen: list[Tensor] = []

    def vectors_of(number: int) -> Vectors:
        seed_step(1, 2, 3, chunk=number)
        rows = slice(4 * number, 4 * number + 4)
        vectors = normalize(sides["image"](inputs[0][rows]), dim=-1), normalize(sides["text"](inputs[1][rows]), dim=-1)
        seen.append(vectors[0].detach())
        return vectors

    def loss(images: Tensor, texts: Tensor) -> Losses:
        return Losses((images @ texts.T).exp().sum(), {})

    backward(vectors_of, 2, loss, lambda total: total)
    assert torch.equal(seen[0], seen[2]) and torch.equal(seen[1], seen[3])
    assert not torch.equal(seen[0], seen[1])
    weight = sides["image"].head.layers[0].weight
    analytic = float(weight.grad[2, 5])
    assert analytic == pytest.approx(_slope(weight, vectors_of, loss), rel=1e-6)
    modules.zero_grad()


def _slope(weight: Tensor, vectors_of: Callable[[int], Vectors], loss: Callable[[Tensor, Tensor], Losses]) -> float:
    values = []
    with torch.no_grad():
        for shift in (1e-6, -2e-6):
            weight[2, 5] += shift
            images, texts = (torch.cat(side) for side in zip(*map(vectors_of, range(2)), strict=True))
            values.append(float(loss(images, texts).total))
    return (values[0] - values[1]) / 2e-6


def test_a_side_without_anything_to_train_is_passed_over() -> None:
    weight = torch.ones(3, requires_grad=True)

    def vectors_of(number: int) -> Vectors:
        return weight * (number + 1.0), torch.ones(3)

    # L = Σ over both chunks of (k + 1) w · 1, so dL/dw = 1 + 2 in every place.
    backward(vectors_of, 2, lambda images, texts: Losses((images * texts).sum(), {}), lambda total: total)
    assert weight.grad is not None and weight.grad.tolist() == [3.0, 3.0, 3.0]


def test_a_whole_training_in_chunks_is_the_plain_one() -> None:
    from planted import planted

    train, validation = planted(90, seed=1, targets=True), planted(30, seed=2)
    curves = []
    for chunk in (None, 13):
        settings = SETTINGS.model_copy(update={"optimiser": recipe(
            optimiser={"epochs": 3, "chunk": chunk}).optimiser})  # fmt: skip
        fitted = fit(settings, DualEncoder(towers(hidden=(32,)), objective(settings)), train, validation)
        curves.append([list(epoch.losses.values()) for epoch in fitted.curve])
    assert torch.tensor(curves[0]) == pytest.approx(torch.tensor(curves[1]), rel=1e-5)
