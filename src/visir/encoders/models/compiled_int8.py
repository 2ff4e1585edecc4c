"""Products of a compiled network in 8-bit integers.

Weights are rounded once: 255 steps for each output, from the negative to the positive of its largest weight. Inputs are
rounded while the network runs, 64 neighbouring values of a picture's or text's row at a time, by the largest of them.
So nothing is estimated from examples: there is no calibration set, and vectors do not depend on what else is encoded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

GROUP = 64
"""Values of an input that have one step. With 32, the vectors of MiniLM are a fifth nearer to those of float32, and
take a sixth more time; with 128 they are half as far again, in the same time."""
LARGEST_INT8_DIFFERENCE = 0.05
"""1 less the cosine of a vector and that in float32, up to which a network is used."""
_LEVELS = 127
_LEAST_SHARE = 0.5


def steps_of(weights: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """(outputs, inputs) codes, and (outputs, 1) steps: codes · steps are the weights, to half a step."""
    largest = np.abs(weights).max(axis=1, keepdims=True)
    steps = np.where(largest > 0, largest / _LEVELS, 1).astype(np.float32)
    return np.rint(weights / steps).astype(np.int8), steps


def quantise(model: Any) -> bool:
    """Round the weights of all products of an OpenVINO model in place."""
    # Returns: Whether these are most of its weights, but for tables of words: convolutions stay in float32.
    from openvino import opset13 as operations
    from openvino.passes import ConstantFolding, Manager

    passes = Manager()
    passes.register_pass(ConstantFolding())  # weights that are cut out of larger ones
    passes.run_passes(model)
    rounded = 0
    for product in model.get_ops():
        weights = _weights(product)
        if weights is None:
            continue
        codes, steps = steps_of(weights)
        values = operations.multiply(
            operations.convert(operations.constant(codes), np.float32), operations.constant(steps)
        )
        exact = product.output(0)
        whole = operations.matmul(product.input_value(0), values, transpose_a=False, transpose_b=True)
        whole.set_friendly_name(product.get_friendly_name())
        for target in exact.get_target_inputs():
            target.replace_source_output(whole.output(0))
        rounded += codes.size
    return rounded >= _LEAST_SHARE * (rounded + sum(map(_unrounded, model.get_ops())))


def _weights(operation: Any) -> NDArray[np.float32] | None:
    """(outputs, inputs) weights of a product with a matrix of constants; None for anything else."""
    if operation.get_type_name() != "MatMul" or operation.get_attributes()["transpose_a"]:
        return None
    constant = operation.input_value(1).get_node()
    if constant.get_type_name() != "Constant" or len(constant.get_output_shape(0)) != 2:
        return None
    weights: NDArray[Any] = constant.data
    if weights.dtype != np.float32:
        return None
    return weights if operation.get_attributes()["transpose_b"] else np.ascontiguousarray(weights.T)


def _unrounded(operation: Any) -> int:
    """How many weights a convolution or product has that stay as they are."""
    if operation.get_type_name() not in ("Convolution", "GroupConvolution", "MatMul"):
        return 0
    constant = operation.input_value(1).get_node()
    return int(np.prod(constant.get_output_shape(0))) if constant.get_type_name() == "Constant" else 0
