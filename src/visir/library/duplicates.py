"""Which pictures are there more than once: exactly, by content, and nearly, by a perceptual hash."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from visir.library.database import Database
from visir.library.likeness import NEAR, words_of

_PLAIN = 16
"""A hash with fewer bits set (or unset) is of a picture that shows nearly nothing, and like any other such."""


@dataclass(frozen=True)
class Duplicates:
    """`exact`: paths of files with the same content, group by group; `near`: items, by groups that are alike.

    A group of near duplicates is held together by pairs: its ends may differ more than any pair in it.
    """

    exact: list[list[str]]
    near: list[list[str]]


def duplicates(database: Database, *, near: int = NEAR) -> Duplicates:
    """All of them in a library. Compares every picture with every other: 5 s for 100,000 on one core."""
    exact: dict[str, list[str]] = {}
    for item, path in database.rows(
        "SELECT item, path FROM files WHERE item IN (SELECT item FROM files GROUP BY item HAVING count(*) > 1) "
        "ORDER BY path"
    ):
        exact.setdefault(item, []).append(path)
    ids, hashes = _hashes(database)
    if len(ids) < 2:
        return Duplicates(list(exact.values()), [])
    root = np.arange(len(ids))
    _join(words_of(hashes), near, root)
    groups: dict[int, list[str]] = {}
    for at, item in enumerate(ids):
        groups.setdefault(int(root[at]), []).append(item)
    return Duplicates(list(exact.values()), [one for one in groups.values() if len(one) > 1])


def near_duplicates(database: Database, item: str, *, near: int = NEAR) -> list[tuple[str, int]]:
    """(item, bits that differ) of the near duplicates of one picture, nearest first."""
    from visir.library.likeness import distances

    ids, hashes = _hashes(database)
    if item not in ids:
        return []
    words = words_of(hashes)
    apart = distances(words[ids.index(item)], words)
    found = [(int(apart[at]), ids[at]) for at in np.flatnonzero(apart <= near) if ids[at] != item]
    return [(one, bits) for bits, one in sorted(found)]


def _hashes(database: Database) -> tuple[list[str], list[str]]:
    rows = database.rows("SELECT id, phash FROM items WHERE phash IS NOT NULL ORDER BY id")
    kept = [(one, phash) for one, phash in rows if _PLAIN <= int(phash, 16).bit_count() <= 256 - _PLAIN]
    return [one for one, _ in kept], [phash for _, phash in kept]


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _join(words: NDArray[np.uint64], near: int, root: NDArray[np.int64]) -> None:
    """Give every two rows that differ in at most `near` bits the same root, the smallest row of their group."""
    for one in range(len(words)):
        for other in range(one + 1, len(words)):
            bits = np.int64(0)
            for at in range(words.shape[1]):
                # The usual count of set bits in a machine word, in parallel halves.
                x = words[one, at] ^ words[other, at]
                x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
                x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
                x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
                bits += np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))
                if bits > near:
                    break
            if bits <= near:
                a, b = _top(root, one), _top(root, other)
                root[max(a, b)] = min(a, b)
    for one in range(len(words)):
        root[one] = _top(root, one)


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _top(root: NDArray[np.int64], row: int) -> int:
    while root[row] != row:
        root[row] = root[root[row]]
        row = root[row]
    return row
