"""Vectors in a few bits for each number: the nearest centroid, and what is left in steps (residual compression).

Santhanam et al. (2022), ColBERTv2, section 3.3 (arXiv:2112.01488). With 4 bits a vector of 128 numbers takes 66 bytes
instead of 256 in half precision, with 2 bits 34.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.arrays import load_array
from visir.errors import EmbeddingError
from visir.jit import njit, pays, plain
from visir.retrieval.clustering import nearest_centroids, train_centroids, usual_count

COMPRESSED_FILES = ("codes.npy", "centroids.npy", "steps.npy")
_CENTROID_BYTES = 2
_BLOCK = 65_536
_ROUNDS = 30
_UNIT = 1e-3
_PURPOSE = "compressed vectors"
_COST = 16
"""What a number of a code costs in NumPy, in multiplications (`visir.jit.pays`)."""


@dataclass(frozen=True, eq=False)
class ResidualCodec:
    """How vectors are compressed."""

    centroids: NDArray[np.float32]  # (k, d) float32, at most 65,536
    # (2 ** bits,) float32, ascending: the values that stand for what is left after the centroid.
    steps: NDArray[np.float32]
    unit: bool  # whether vectors have length 1; then decoded ones get it again

    @classmethod
    def trained(cls, vectors: Any, bits: int) -> ResidualCodec:
        """Return a codec for vectors like these."""
        # vectors: (m, d) at least one vector, in memory or memory-mapped.
        centroids = train_centroids(vectors, usual_count(len(vectors)), _PURPOSE)
        some = np.sort(np.random.default_rng(0).permutation(len(vectors))[:_BLOCK])
        sample = np.asarray(vectors[some], np.float32)
        left = sample - centroids[nearest_centroids(sample, centroids, _PURPOSE)]
        steps = _best_steps(left.ravel(), 2**bits)
        return cls(centroids, steps, unit=not len(other_lengths(vectors)))

    @property
    def bits(self) -> int:
        """The bits for each number."""
        return len(self.steps).bit_length() - 1

    @property
    def width(self) -> int:
        """The bytes of a vector."""
        return _CENTROID_BYTES + -(-int(self.centroids.shape[1]) // (8 // self.bits))

    def same(self, other: ResidualCodec) -> bool:
        """Whether codes mean the same."""
        arrays = ((self.centroids, other.centroids), (self.steps, other.steps))
        return self.unit == other.unit and all(np.array_equal(*pair) for pair in arrays)

    def encode(self, vectors: Any) -> CompressedVectors:
        """Compress (m, d) vectors, block by block."""
        codes = np.empty((len(vectors), self.width), np.uint8)
        edges = (self.steps[1:] + self.steps[:-1]) / 2
        for start in range(0, len(vectors), _BLOCK):
            block = np.ascontiguousarray(vectors[start : start + _BLOCK], np.float32)
            nearest = nearest_centroids(block, self.centroids, _PURPOSE)
            pack: Any = _pack if pays(_COST * block.size, _pack) else _pack_in_numpy
            pack(*map(plain, (block, nearest, self.centroids, edges)), self.bits, codes[start : start + len(block)])
        return CompressedVectors(self, codes)


class CompressedVectors:
    """An (m, d) matrix of float32 that is decoded where it is read. Slices and selections stay compressed."""

    # It stands for `MultiVectorEmbeddings.vectors`; `np.asarray` gives the numbers.

    dtype = np.dtype(np.float32)
    ndim = 2

    def __init__(self, codec: ResidualCodec, codes: NDArray[np.uint8]) -> None:
        if codes.ndim != 2 or codes.dtype != np.uint8 or codes.shape[1] != codec.width:
            raise EmbeddingError(f"codes {codes.dtype} {codes.shape} are not of {codec.width} bytes a vector.")
        self.codec, self.codes = codec, codes

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d)."""
        return len(self.codes), int(self.codec.centroids.shape[1])

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice | NDArray[Any]) -> CompressedVectors:
        return CompressedVectors(self.codec, self.codes[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        decoded = np.empty(self.shape, np.float32)
        for start in range(0, len(decoded), _BLOCK):
            codes, out = np.ascontiguousarray(self.codes[start : start + _BLOCK]), decoded[start : start + _BLOCK]
            unpack: Any = _unpack if pays(_COST * out.size, _unpack) else _unpack_in_numpy
            unpack(*map(plain, (codes, self.codec.centroids, self.codec.steps)), self.codec.bits, self.codec.unit, out)
        return decoded if dtype is None else decoded.astype(dtype, copy=False)

    @property
    def nearest(self) -> NDArray[np.int32]:
        """(m,) the centroid of each vector."""
        return self.codes[:, 0].astype(np.int32) + 256 * self.codes[:, 1].astype(np.int32)

    def write(self, folder: Path) -> None:
        """Write `COMPRESSED_FILES` into a folder."""
        steps = np.append(self.codec.steps, np.float32(self.codec.unit))  # the last number is the flag
        arrays: tuple[NDArray[Any], ...] = (self.codes, self.codec.centroids, steps)
        for name, array in zip(COMPRESSED_FILES, arrays, strict=True):
            np.save(folder / name, array, allow_pickle=False)

    @classmethod
    def read(cls, folder: Path) -> CompressedVectors:
        """Read what `write` wrote; the codes are memory-mapped."""
        codes = load_array(folder / COMPRESSED_FILES[0], mapped=True)
        centroids, steps = (load_array(folder / name) for name in COMPRESSED_FILES[1:])
        sizes_fit = centroids.ndim == 2 and len(steps) in [2**bits + 1 for bits in range(1, 9)]
        if not sizes_fit or centroids.dtype != np.float32 or not np.isfinite(centroids).all():
            raise EmbeddingError(f"{folder}: no centroids and steps of compressed vectors.")
        vectors = cls(ResidualCodec(centroids, steps[:-1], bool(steps[-1])), codes)
        for start in range(0, len(codes), _BLOCK):  # compiled code would read beyond the end
            if (vectors[start : start + _BLOCK].nearest >= len(centroids)).any():
                raise EmbeddingError(f"{folder}: a compressed vector names a centroid that is not there.")
        return vectors


def other_lengths(vectors: Any) -> NDArray[np.int64]:
    """Return the rows of (m, d) vectors, in memory or memory-mapped, whose length is not 1, in ascending order."""
    rows = [np.empty(0, np.int64)]
    for start in range(0, len(vectors), _BLOCK):
        lengths = np.linalg.norm(np.asarray(vectors[start : start + _BLOCK], np.float32), axis=1)
        rows.append(start + np.flatnonzero(np.abs(lengths - 1) >= _UNIT))
    return np.concatenate(rows)


def join_vectors(parts: Sequence[Any]) -> Any:
    """Return (m, d) matrices one after another; those that are compressed alike stay so."""
    first = parts[0]
    if isinstance(first, CompressedVectors) and all(
        isinstance(part, CompressedVectors) and part.codec.same(first.codec) for part in parts
    ):
        return CompressedVectors(first.codec, np.concatenate([part.codes for part in parts]))
    return np.concatenate([np.asarray(part) for part in parts])


def _best_steps(values: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Return the values, ascending, that stand for all with the least squared error (Lloyd, 1982, method I)."""
    ordered = np.sort(values.astype(np.float64))
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    steps = np.quantile(ordered, (np.arange(count) + 0.5) / count)
    for _ in range(_ROUNDS):
        edges = np.searchsorted(ordered, (steps[1:] + steps[:-1]) / 2)
        edges = np.concatenate([[0], edges, [len(ordered)]])
        sizes = np.diff(edges)
        steps = np.where(sizes > 0, np.diff(sums[edges]) / np.maximum(sizes, 1), steps)
    return np.asarray(np.sort(steps), np.float32)


@njit()
def _pack(vectors: Any, nearest: Any, centroids: Any, edges: Any, bits: int, codes: Any) -> None:
    """Write the codes of vectors: two bytes for the centroid, then the number of the step of each number."""
    each = 8 // bits
    for r in range(vectors.shape[0]):
        centroid = centroids[nearest[r]]
        codes[r, :] = 0
        codes[r, 0], codes[r, 1] = nearest[r] & 255, nearest[r] >> 8
        for c in range(vectors.shape[1]):
            step = np.searchsorted(edges, vectors[r, c] - centroid[c])
            codes[r, 2 + c // each] |= np.uint8(step << (bits * (c % each)))


@njit()
def _unpack(codes: Any, centroids: Any, steps: Any, bits: int, unit: bool, vectors: Any) -> None:
    """Write the vectors of codes."""
    each, mask = 8 // bits, (1 << bits) - 1
    for r in range(codes.shape[0]):
        centroid = centroids[np.int64(codes[r, 0]) + 256 * np.int64(codes[r, 1])]
        total = 0.0
        for c in range(vectors.shape[1]):
            step = (np.int64(codes[r, 2 + c // each]) >> (bits * (c % each))) & mask
            value = centroid[c] + steps[step]
            vectors[r, c] = value
            total += np.float64(value) * np.float64(value)
        if unit and total > 0:
            length = np.sqrt(total)
            for c in range(vectors.shape[1]):
                vectors[r, c] = np.float32(vectors[r, c] / length)


def rehearse() -> None:
    """Call both loops with one vector, of the types that all have: that compiles them, or loads them."""
    codes, vectors = np.zeros((1, 3), np.uint8), np.ones((1, 2), np.float32)
    steps = plain(np.zeros(16, np.float32))
    _pack(plain(vectors), plain(np.zeros(1, np.int32)), plain(vectors), plain(steps[1:]), 4, codes)
    _unpack(plain(codes), plain(vectors), steps, 4, True, vectors)


# The same in NumPy, to the bit, where there is little to do and nothing is compiled.


def _pack_in_numpy(vectors: Any, nearest: Any, centroids: Any, edges: Any, bits: int, codes: Any) -> None:
    each = 8 // bits
    steps = np.searchsorted(edges, vectors - centroids[nearest])
    padded = np.pad(steps, ((0, 0), (0, -vectors.shape[1] % each))).reshape(len(vectors), -1, each)
    codes[:, 0], codes[:, 1] = nearest & 255, nearest >> 8
    codes[:, 2:] = np.bitwise_or.reduce(padded << (bits * np.arange(each)), axis=2)


def _unpack_in_numpy(codes: Any, centroids: Any, steps: Any, bits: int, unit: bool, vectors: Any) -> None:
    each = 8 // bits
    step = (codes[:, 2:, None] >> (bits * np.arange(each))) & ((1 << bits) - 1)
    nearest = codes[:, 0].astype(np.int64) + 256 * codes[:, 1].astype(np.int64)
    vectors[:] = centroids[nearest] + steps[step.reshape(len(codes), -1)[:, : vectors.shape[1]]]
    if unit:
        squares = np.square(vectors, dtype=np.float64)
        lengths = np.sqrt(np.add.accumulate(squares, axis=1)[:, -1:])  # each sum in the order of the numbers
        np.divide(vectors, lengths, out=vectors, where=lengths > 0, casting="same_kind")
