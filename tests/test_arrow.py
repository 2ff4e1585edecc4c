"""Arrow arrays from their buffers: equal to PyArrow's own, and pandas is not imported for them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from visir.parquet import integer_array, numpy_integers, text_array


@pytest.mark.parametrize("values", [["a", "", "中文 ü", "b\0c"], [""], []])
def test_texts_are_those_of_pyarrow(values: list[str]) -> None:
    array = text_array(values)
    array.validate(full=True)
    assert array.equals(pa.array(values, pa.string()))


def test_half_of_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(UnicodeEncodeError):
        text_array(["a", "\ud800"])


def test_integers_of_the_other_byte_order() -> None:
    assert integer_array(np.array([1, 256, -2], np.dtype(np.int32).newbyteorder())).to_pylist() == [1, 256, -2]


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint64])
def test_integers_are_those_of_pyarrow(dtype: type[np.integer]) -> None:
    values = np.arange(9, dtype=dtype)[::2]  # not contiguous: 0 2 4 6 8
    array = integer_array(values)
    array.validate(full=True)
    assert array.equals(pa.array([0, 2, 4, 6, 8], pa.from_numpy_dtype(np.dtype(dtype))))
    assert numpy_integers(array[1:4]).tolist() == [2, 4, 6]
    assert numpy_integers(array).dtype == dtype
    assert numpy_integers(integer_array(values[:0])).tolist() == []


def test_pandas_is_not_imported() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    script = """
import sys
import numpy as np
from visir.parquet import integer_array, numpy_integers, text_array
assert text_array(["b", "a"]).take(integer_array(np.array([1]))).to_pylist() == ["a"]
assert numpy_integers(integer_array(np.array([1]))).tolist() == [1]
assert "pandas" not in sys.modules
import pyarrow
pyarrow.array([1])
assert "pandas" in sys.modules  # otherwise visir.parquet has no use any more
"""
    subprocess.run([sys.executable, "-c", script], check=True)
