"""Fingerprints: short hashes by which two people can tell whether they have the same thing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

DIGEST_BYTES = 16


def hash_columns(columns: Iterable[pa.Array | pa.ChunkedArray], *, sort: bool = True) -> str:
    """Hash equal-length columns row by row: 32 hexadecimal digits."""
    # With `sort` the rows are first ordered by all columns from left to right, so the hash does not depend on the order
    # in which a file happened to list them. Strings enter as their UTF-8 bytes with their lengths (so "ab","c" differs
    # from "a","bc"); null differs from the empty string. Normalisation forms are *not* unified: a caption in NFC and
    # one in NFD are different texts to a tokenizer.
    arrays = [_plain(column) for column in columns]
    if sort and arrays and len(arrays[0]) > 1:
        table = pa.table({str(i): array for i, array in enumerate(arrays)})
        # The first column is nearly always a unique id; sorting by it alone is several times faster than by all.
        unique = pc.count_distinct(arrays[0]).as_py() == len(arrays[0])
        keys = [(str(i), "ascending") for i in range(1 if unique else len(arrays))]
        order = pc.sort_indices(table, sort_keys=keys)
        arrays = [array.take(order) for array in arrays]
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for array in arrays:
        digest.update(f"{array.type}:{len(array)}:{array.null_count};".encode())
        if array.null_count:
            digest.update(np.packbits(pc.is_null(array).to_numpy(zero_copy_only=False)).tobytes())
            array = pc.fill_null(array, "" if pa.types.is_large_string(array.type) else 0)
        if pa.types.is_large_string(array.type):
            lengths = pc.binary_length(array).to_numpy(zero_copy_only=False)
            digest.update(np.ascontiguousarray(lengths, dtype="<i8").tobytes())
            offsets = np.frombuffer(array.buffers()[1], dtype=np.int64)[array.offset : array.offset + len(array) + 1]
            if len(array) and array.buffers()[2] is not None:
                digest.update(memoryview(array.buffers()[2])[int(offsets[0]) : int(offsets[-1])])
        else:
            digest.update(np.ascontiguousarray(array.to_numpy(zero_copy_only=False)).tobytes())
    return digest.hexdigest()


def hash_json(value: Mapping[str, Any]) -> str:
    """Hash a JSON-able mapping, keys sorted: 32 hexadecimal digits."""
    return hashlib.blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=DIGEST_BYTES).hexdigest()


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One contiguous array of large strings or of numbers, whatever chunking or dictionary it came in."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # older pyarrow returns a chunked array of one chunk
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string(array.type):
        array = array.cast(pa.large_string())
    return array
