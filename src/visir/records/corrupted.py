"""The corruption of all images in a view of a collection."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property

from visir.fingerprint import hash_json


@dataclass(frozen=True)
class Corrupted:
    """The corruption that is applied to every image of a view before a model encodes it.

    `visir.robustness.corruptions` applies it. The random numbers of an image depend on these fields and on its id, so
    they are the same in every split and order.

    Attributes:
        name: The name of the corruption.
        severity: 1 to 5.
        seed: The seed of all random numbers.
    """

    name: str
    severity: int
    seed: int

    @cached_property
    def fingerprint(self) -> str:
        """A hash over all fields."""
        return hash_json({"corrupted": asdict(self)})

    def __str__(self) -> str:
        """One line for the protocol."""
        return f"pictures: {self.name}, severity {self.severity}, seed {self.seed}"
