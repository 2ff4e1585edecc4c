"""Few shots: which training pictures a draw takes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def shuffled_by_class(ids: Sequence[str], codes: Rows, classes: int, seed: int, draw: int) -> list[Rows]:
    """The rows of each class in a random order: the first k of them are the k shots of a draw."""
    # So the shots of 2 are among those of 4, and curves over shots compare like with like. The order follows from the
    # ids and the seed alone, and not from the order of the rows.
    # ids: (n,) the pictures.
    # codes: (n,) the class of each.
    keys = np.array([_key(seed, draw, identifier) for identifier in ids], "S16")
    order = np.argsort(keys, kind="stable")
    by_class = order[np.argsort(codes[order], kind="stable")]
    return np.split(by_class, np.cumsum(np.bincount(codes, minlength=classes))[:-1])


def first_of_each(rows: Sequence[Rows], count: int | None, skip: int = 0) -> Rows:
    """The first few rows of each class, class by class; None takes all."""
    end = None if count is None else skip + count
    return np.concatenate([of_class[skip:end] for of_class in rows]) if rows else np.zeros(0, np.int64)


def folds_of_shots(codes: Rows, most: int) -> Rows:
    """(n,) the fold of each shot: the shots of each class in turn, so every fold has about as many of each class."""
    # codes: (n,) the class of each shot, in the order of the draw.
    folds = np.empty(len(codes), np.int64)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        folds[rows] = np.arange(len(rows)) % most
    return folds


def _key(seed: int, draw: int, identifier: str) -> bytes:
    return hashlib.blake2b(f"{seed}\0{draw}\0{identifier}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
