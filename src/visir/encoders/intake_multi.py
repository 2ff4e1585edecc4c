"""What an encoder of form "multi-vector" returns becomes `TokenVectors`, or an error that says what was expected."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import EncoderError
from visir.records import TokenVectors
from visir.records.arrays import as_array


def take_in_sets(returned: Any, count: int, title: str, label: str) -> TokenVectors:
    """What an encoder returned, as several vectors for each of n inputs."""
    # returned: `TokenVectors`; n arrays (t, d), where t may differ; an array (n, t, d); or a pair of an array (n, t, d)
    # and a mask (n, t) of those vectors that count. Arrays of NumPy or torch, or lists.
    # count: How many inputs it was given (n).
    given = f"{label}: for {count} {title} it returned"
    if isinstance(returned, TokenVectors):
        sets = TokenVectors(np.asarray(returned.vectors, np.float32), returned.offsets)
    else:
        arrays = _arrays(returned, count, title, given)
        if len(arrays) != count:
            raise EncoderError(
                f"{given} {len(arrays)} arrays; expected are {count}, one of the shape (t, d) for each.",
                hint="return a list with an array of vectors for each input, in the order of the inputs",
            )
        sets = _joined(arrays, given)
    if len(sets) != count:
        raise EncoderError(f"{given} the vectors of {len(sets)}.", hint="return the vectors of each input, in order")
    return sets


def _joined(arrays: list[NDArray[np.float32]], given: str) -> TokenVectors:
    empty = [number for number, array in enumerate(arrays, start=1) if len(array) == 0]
    if empty:
        raise EncoderError(
            f"{given} no vector for number {empty[0]} of them.",
            hint="return at least one vector for each input, e.g. the mean of its vectors",
        )
    widths = sorted({array.shape[1] for array in arrays})
    if len(widths) > 1 or widths == [0]:
        raise EncoderError(
            f"{given} vectors of {' and '.join(map(str, widths))} values.", hint="let all vectors have the same length"
        )
    if not arrays:
        return TokenVectors(np.zeros((0, 0), np.float32), np.zeros(1, np.int64))
    offsets = np.concatenate([[0], np.cumsum([len(array) for array in arrays])]).astype(np.int64)
    return TokenVectors(np.concatenate(arrays), offsets)


def _arrays(returned: Any, count: int, title: str, given: str) -> list[NDArray[np.float32]]:
    """An array (t, d) for each input."""
    if isinstance(returned, tuple) and len(returned) == 2 and _axes(returned[0]) == 3 and _axes(returned[1]) == 2:
        padded, mask = _numbers(returned[0], title, given), as_array(returned[1]).astype(bool)
        if padded.shape[:2] != mask.shape:
            raise EncoderError(
                f"{given} vectors of the shape {padded.shape} with a mask of the shape {mask.shape}.",
                hint="return vectors (n, t, d) and their mask (n, t)",
            )
        return [vectors[counts] for vectors, counts in zip(padded, mask, strict=True)]
    axes = _axes(returned)
    if axes == 3:
        return list(_numbers(returned, title, given))
    if axes == 2 and count == 1:
        return [_numbers(returned, title, given)]  # the vectors of a single input
    if axes is not None and axes != 1:
        shape = tuple(returned.shape)
        raise EncoderError(
            f"{given} numbers of the shape {shape}; expected is a list of {count} arrays (t, d): several vectors for "
            "each.",
            hint='it is one vector for each: say form = "dense"'
            if len(shape) == 2 and shape[0] == count
            else f"return an array of the shape ({count}, t, d), or a list of {count} arrays",
        )
    try:
        rows = list(returned.unbind() if getattr(returned, "is_nested", False) else returned)
    except TypeError as fault:
        raise _no_vectors(returned, title, given) from fault
    arrays = [_numbers(row, title, given) for row in rows]
    for number, array in enumerate(arrays, start=1):
        if array.ndim != 2:
            raise EncoderError(
                f"{given} for number {number} of them numbers of the shape {array.shape}; expected is (t, d): several "
                "vectors of d numbers.",
                hint='it is one vector for each: say form = "dense"'
                if array.ndim == 1
                else "return an array with two axes for each input",
            )
    return arrays


def _axes(values: Any) -> int | None:
    """How many axes an array or a tensor has; None for lists, for arrays of objects and for nested tensors."""
    if str(getattr(values, "dtype", "")) == "object" or getattr(values, "is_nested", False):
        return None
    shape = getattr(values, "shape", None)
    return None if shape is None else len(shape)


def _numbers(values: Any, title: str, given: str) -> NDArray[np.float32]:
    try:
        array = as_array(values)
        if array.dtype.kind not in "fiub":
            raise ValueError(f"values of the type {array.dtype}")
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused with its id
            return np.ascontiguousarray(array, np.float32)
    except (TypeError, ValueError, RuntimeError) as fault:
        raise _no_vectors(values, title, given, str(fault)) from fault


def _no_vectors(values: object, title: str, given: str, reason: str = "") -> EncoderError:
    return EncoderError(
        f"{given} {type(values).__name__}, which is no set of vectors{f' ({reason})' if reason else ''}.",
        hint=f"return a list with an array of the shape (t, d) for each of the {title}",
    )
