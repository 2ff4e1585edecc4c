"""What the tests of objectives share: small batches of unit vectors, and exact derivatives of slow references.

A reference is written from the paper's equation in plain Python over nested lists. Its functions take complex numbers,
so its derivative is the complex step f(x + ih).imag / h, which has no cancellation and is exact to rounding.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from visir.training.similarities import VectorPairs


def unit(rng: np.random.Generator, n: int, d: int) -> NDArray[np.float64]:
    vectors = rng.normal(size=(n, d))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def batch(seed: int, n: int = 9, d: int = 5) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Images, texts and owners, with false_negatives among them."""
    rng = np.random.default_rng(seed)
    return unit(rng, n, d), unit(rng, n, d), rng.integers(0, max(2, n // 2), n)


def pairs(images: object, texts: object, owners: object = None, **more: object) -> VectorPairs:
    images, texts = torch.as_tensor(images), torch.as_tensor(texts)
    owners = torch.arange(len(images)) if owners is None else torch.as_tensor(owners)
    return VectorPairs(images, texts, owners, **{key: torch.as_tensor(value) for key, value in more.items()})


def dot(a: Sequence[complex], b: Sequence[complex]) -> complex:
    return sum(x * y for x, y in zip(a, b, strict=True))


def among(i: int, owners: Sequence[int], false_negatives: str) -> list[int]:
    """The candidates of pair i: itself and its negatives."""
    return [j for j in range(len(owners)) if j == i or false_negatives == "kept" or owners[j] != owners[i]]


def infonce(score: list[list[complex]], owners: Sequence[int], false_negatives: str) -> complex:
    """Thesis, appendix 4.E.1, one exponential at a time; `score` is divided by the temperature already."""
    n, total = len(score), 0.0
    for i in range(n):
        candidates = among(i, owners, false_negatives)
        total -= cmath.log(cmath.exp(score[i][i]) / sum(cmath.exp(score[i][j]) for j in candidates)) / 2
        total -= cmath.log(cmath.exp(score[i][i]) / sum(cmath.exp(score[j][i]) for j in candidates)) / 2
    return total / n


def cosines(images: Sequence[Sequence[complex]], texts: Sequence[Sequence[complex]]) -> list[list[complex]]:
    return [[dot(image, text) for text in texts] for image in images]


def gradient(reference: Callable[..., complex], *arrays: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """The derivative of `reference(*arrays)` by every element of every array."""
    step = 1e-30
    gradients = []
    for which, array in enumerate(arrays):
        slopes = np.zeros(array.shape)
        for place in np.ndindex(*array.shape):
            moved = [one.astype(complex) for one in arrays]
            moved[which][place] += step * 1j
            slopes[place] = reference(*(one.tolist() for one in moved)).imag / step
        gradients.append(slopes)
    return gradients


def assert_is(
    reference: Callable[..., complex], loss: Callable[..., torch.Tensor], *arrays: NDArray[np.float64]
) -> None:
    """`loss` over tensors has the value and the gradients of `reference` over nested lists, to 1e-9."""
    leaves = [torch.tensor(one, requires_grad=True) for one in arrays]
    value = loss(*leaves)
    value.backward()
    assert abs(float(value.detach()) - reference(*(one.tolist() for one in arrays)).real) <= 1e-9
    for leaf, expected in zip(leaves, gradient(reference, *arrays), strict=True):
        np.testing.assert_allclose(leaf.grad.numpy(), expected, rtol=0, atol=1e-9)
