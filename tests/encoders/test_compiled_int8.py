"""Products in int8: the codes by hand, a network against the same in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("openvino", reason="the extra openvino is not installed")

import openvino
from openvino import opset13 as operations

from visir.encoders.models.exported import CompiledTower, quantise, steps_of

WEIGHTS = np.array([[2.54, -1.27, 0.02], [0, 0, 0], [-0.127, 0.0635, 0.001]], np.float32)


def test_codes_by_hand() -> None:
    codes, steps = steps_of(WEIGHTS)
    assert codes.tolist() == [[127, -64, 1], [0, 0, 0], [-127, 64, 1]]  # 63.5 steps are 64: the nearest even number
    assert np.allclose(steps[:, 0], [0.02, 1, 0.001])
    assert np.abs(codes * steps - WEIGHTS).max() <= 0.5001 * steps.max()


def _network(weights: np.ndarray, *, across: bool) -> openvino.Model:
    rows = operations.parameter([-1, 128], np.float32)
    constant = operations.constant(weights.T.copy() if across else weights)
    return openvino.Model([operations.matmul(rows, constant, False, not across)], [rows])


@pytest.mark.parametrize("across", [False, True])
def test_a_product_is_that_of_rounded_weights(across: bool) -> None:
    import torch

    rng = np.random.default_rng(0)
    weights, rows = rng.normal(size=(96, 128)).astype(np.float32), rng.normal(size=(40, 128)).astype(np.float32)
    model = _network(weights, across=across)
    assert quantise(model)
    [constant] = [node for node in model.get_ops() if node.get_element_type() == openvino.Type.i8]
    codes, steps = steps_of(weights)
    assert np.array_equal(constant.data, codes)
    products = CompiledTower(model, "int8")(torch.from_numpy(rows))
    by_weights = rows @ (codes * steps).T
    # Of the rows: 64 values at a time, by the largest of them; half a step each, in 128 products of random signs.
    step = np.abs(rows.reshape(40, 2, 64)).max(-1).max() / 127
    assert np.abs(products - by_weights).max() < 8 * step * np.sqrt(128 / 12) * np.abs(weights).std()
    assert np.abs(by_weights - rows @ weights.T).max() > 1e-3


def test_convolutions_are_said_to_be_most_of_a_network() -> None:
    pictures = operations.parameter([-1, 3, 8, 8], np.float32)
    filters = operations.constant(np.ones((64, 3, 3, 3), np.float32))
    maps = operations.convolution(pictures, filters, [1, 1], [0, 0], [0, 0], [1, 1])
    means = operations.reduce_mean(maps, np.array([2, 3]), keep_dims=False)
    head = operations.matmul(means, operations.constant(np.ones((8, 64), np.float32)), False, True)
    assert not quantise(openvino.Model([head], [pictures]))
