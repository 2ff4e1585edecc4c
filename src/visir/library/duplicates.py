"""Duplicates: pictures of equal content, and near ones, which a person would call the same.

The hash is a pHash of 256 bits: the picture in grey at 64 × 64 pixels, its discrete cosine transform, and of the
16 × 16 lowest frequencies whether each is above their median. Resizing, recompression and small changes of colour turn
few of these bits (median 0 to 12, at most 42 on photos of Flickr8k); another picture turns half of them (of 8 million
pairs of photos none fewer than 68). A crop of 5 per cent is another picture to it, and so is a mirrored one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visir.jit import njit, pays, plain
from visir.library.database import Database

SIDE, KEPT = 64, 16
NEAR = 48
"""How many of the 256 bits may differ between near duplicates."""


def perceptual_hash(picture: Image.Image) -> str:
    """The hash of a picture."""
    grey = picture.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX, reducing_gap=None)
    cosines = _cosines()
    low = cosines @ np.asarray(grey, np.float64) @ cosines.T
    # The mean of the picture says how bright it is, not what it shows.
    flat = np.rint(low.ravel() * 1024)
    above = flat > np.median(flat[1:])
    above[0] = False
    return np.packbits(above).tobytes().hex()


def words_of(hashes: list[str]) -> NDArray[np.uint64]:
    """(n, 4) machine words of n hashes."""
    return np.frombuffer(bytes.fromhex("".join(hashes)), np.uint64).reshape(len(hashes), KEPT * KEPT // 64)


def distances(first: NDArray[np.uint64], many: NDArray[np.uint64]) -> NDArray[np.int64]:
    """(n,) in how many bits each of `many` (n, 4) differs from `one` (4,)."""
    different = np.unpackbits((many ^ first).view(np.uint8), axis=1).sum(axis=1, dtype=np.int64)
    result: NDArray[np.int64] = different
    return result


_COST = 4 * KEPT * KEPT
"""What it costs in NumPy to compare two hashes, in multiplications (`visir.jit.pays`)."""
_AT_ONCE = 512
"""Rows that are compared with all others before it is asked again whether the loops are compiled."""


@cache
def _cosines() -> NDArray[np.float64]:
    """(KEPT, SIDE) the first rows of the orthonormal DCT-II."""
    k, x = np.arange(KEPT)[:, None], np.arange(SIDE)[None, :]
    basis = np.sqrt(2 / SIDE) * np.cos(np.pi * (2 * x + 1) * k / (2 * SIDE))
    basis[0] /= np.sqrt(2)
    rows: NDArray[np.float64] = basis
    return rows


_PLAIN = 16
"""A hash with fewer bits set (or unset) is of a picture that shows nearly nothing, and like any other such."""


@dataclass(frozen=True)
class Duplicates:
    """Pictures that a library has more than once."""

    exact: list[list[str]]  # paths of files with the same content, group by group
    # Items that look alike, group by group. Pairs hold a group together: its ends may differ more.
    near: list[list[str]]


class Hashes:
    """The perceptual hashes of a library, read once for one generation: ids, and (n, 4) machine words."""

    # Pictures are compared one by one, in machine words: 2 ms for 100,000. An index over parts of the hash would not
    # help: two hashes that differ in 48 of 256 bits need not agree in more than 5 neighbouring ones.

    def __init__(self, ids: Sequence[str], hashes: Sequence[str]) -> None:
        words = words_of(list(hashes))
        plain = distances(np.zeros(words.shape[1], np.uint64), words)
        telling = (plain >= _PLAIN) & (plain <= 256 - _PLAIN)
        self.words = np.ascontiguousarray(words[telling])
        self.ids = [item for item, is_distinctive in zip(ids, telling.tolist(), strict=True) if is_distinctive]
        self._places = {item: row for row, item in enumerate(self.ids)}

    @classmethod
    def of(cls, database: Database) -> Hashes:
        """The hashes of all pictures that have a distinctive one."""
        rows = database.rows("SELECT id, phash FROM items WHERE phash IS NOT NULL ORDER BY id")
        return cls([item for item, _ in rows], [phash for _, phash in rows])

    def near(self, item: str, near: int = NEAR) -> list[tuple[str, int]]:
        """(item, bits that differ) of the near duplicates of one picture, nearest first."""
        place = self._places.get(item)
        if place is None:
            return []
        compiled = pays(_COST * len(self.words), _apart)
        bits = _apart(plain(self.words), place, near) if compiled else distances(self.words[place], self.words)
        near_items = [(int(bits[row]), self.ids[row]) for row in np.flatnonzero(bits <= near) if row != place]
        return [(item, apart) for apart, item in sorted(near_items)]


def duplicates(database: Database, *, near: int = NEAR) -> Duplicates:
    """All of them in a library. Compares every picture with every other: 5 s for 100,000 on one core."""
    exact: dict[str, list[str]] = {}
    for item, path in database.rows(
        "SELECT item, path FROM files WHERE item IN (SELECT item FROM files GROUP BY item HAVING count(*) > 1) "
        "ORDER BY path"
    ):
        exact.setdefault(item, []).append(path)
    hashes = Hashes.of(database)
    groups: dict[int, list[str]] = {}
    for item, root in zip(hashes.ids, roots(hashes.words, near), strict=True):
        groups.setdefault(root, []).append(item)
    return Duplicates(list(exact.values()), [group for group in groups.values() if len(group) > 1])


def roots(words: NDArray[np.uint64], near: int) -> list[int]:
    """The smallest row of the group of each hash; hashes that differ in at most `near` bits are of one group."""
    root = np.arange(len(words))
    for first in range(0, len(root), _AT_ONCE):
        last = min(first + _AT_ONCE, len(root))
        compiled = pays(KEPT * KEPT * (last - first) * (len(root) - first), _join)
        (_join if compiled else _join_in_numpy)(plain(words), near, root, first, last)
    return [_top_of(root, row) for row in range(len(root))]


@njit()
def _bits(first: NDArray[np.uint64], second: NDArray[np.uint64], near: int) -> int:
    """In how many bits two hashes differ; no more is counted once these are more than `near`."""
    bits = np.int64(0)
    for word in range(len(first)):
        # The usual count of set bits in a machine word, in parallel halves.
        x = first[word] ^ second[word]
        x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
        x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
        x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        bits += np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))
        if bits > near:
            break
    return int(bits)


@njit()
def _apart(words: NDArray[np.uint64], place: int, near: int) -> NDArray[np.int64]:
    """(n,) in how many bits each hash differs from that at `place`; where it is more than `near`, any such number."""
    bits = np.empty(len(words), np.int64)
    for other in range(len(words)):
        bits[other] = _bits(words[place], words[other], near)
    return bits


@njit()
def _join(words: NDArray[np.uint64], near: int, root: NDArray[np.int64], start: int, stop: int) -> None:
    """Give the rows `start:stop`, and all after each that differ from it in at most `near` bits, the same root, the
    smallest row of their group."""
    for row in range(start, stop):
        for other in range(row + 1, len(words)):
            if _bits(words[row], words[other], near) <= near:
                a, b = _top(root, row), _top(root, other)
                root[max(a, b)] = min(a, b)


@njit()
def _top(root: NDArray[np.int64], row: int) -> int:
    while root[row] != row:
        root[row] = root[root[row]]
        row = root[row]
    return row


def _top_of(root: NDArray[np.int64], row: int) -> int:
    """As `_top`."""
    while root[row] != row:
        root[row] = root[root[row]]
        row = int(root[row])
    return row


def _join_in_numpy(words: NDArray[np.uint64], near: int, root: NDArray[np.int64], start: int, stop: int) -> None:
    """As `_join`: hashes as 1 and -1, whose products say how many bits are the same."""
    rows = _signs(words[start:stop])
    for begin in range(start, len(words), 8 * _AT_ONCE):
        others = words[begin : begin + 8 * _AT_ONCE]
        apart = (rows.shape[1] - rows @ _signs(others).T) / 2
        for row, other in np.argwhere(apart <= near) + np.array([start, begin]):
            if row < other:
                a, b = _top_of(root, int(row)), _top_of(root, int(other))
                root[max(a, b)] = min(a, b)


def _signs(words: NDArray[np.uint64]) -> NDArray[np.float32]:
    return np.where(np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=1), np.float32(1), np.float32(-1))


def rehearse() -> None:
    """Call the loops with few hashes, of the types that all have: that compiles them, or loads them."""
    words = plain(np.zeros((2, KEPT * KEPT // 64), np.uint64))
    _apart(words, 0, NEAR)
    _join(words, NEAR, np.arange(2), 0, 2)
