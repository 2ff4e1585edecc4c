"""Small random numbers by name: what is drawn for a caption depends on the seed, the perturbation and its id alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_MASK = (1 << 64) - 1


class RandomStream:
    """A stream of whole numbers, named by values: the same on every machine, in any order, in any process."""

    # SplitMix64 (Steele, Lea & Flood 2014) in plain integers, from a state that BLAKE2b makes of the name. Python's own
    # `random.Random` takes twenty times as long to seed, which is what a stream of three numbers spends its time on.

    __slots__ = ("_state",)

    def __init__(self, *name: object) -> None:
        key = "\0".join(map(str, name)).encode("utf-8", "surrogatepass")
        self._state = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1, n from 1; all equally likely up to n / 2^64."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((z ^ (z >> 31)) * n) >> 64

    def unit(self) -> float:
        """A number from 0 up to, not including, 1, in steps of 2^-53."""
        return self.below(1 << 53) / (1 << 53)

    def choice(self, values: Sequence[T]) -> T:
        """One of them."""
        return values[self.below(len(values))]

    def sample(self, n: int, k: int) -> list[int]:
        """`min(k, n)` distinct numbers below n, in the order drawn."""
        pool = list(range(n))
        state = self._state
        for i in range(min(k, n)):  # `below`, written out: shuffling a caption would spend half its time on calling it
            state = (state + 0x9E3779B97F4A7C15) & _MASK
            z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
            j = i + (((z ^ (z >> 31)) * (n - i)) >> 64)
            pool[i], pool[j] = pool[j], pool[i]
        self._state = state
        return pool[:k]

    def shuffled(self, values: Sequence[T]) -> list[T]:
        """All of them, in an order that differs from theirs whenever one does (equal things do not tell orders
        apart)."""
        # Drawn anew until it differs, so all other orders are equally likely.
        original = list(values)
        if not original or original.count(original[0]) == len(original):
            return original
        while True:
            order = [original[i] for i in self.sample(len(original), len(original))]
            if order != original:
                return order
