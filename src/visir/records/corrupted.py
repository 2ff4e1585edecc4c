"""The corruption that the pictures of a collection carry, in a view."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property

from visir.fingerprint import hash_json


@dataclass(frozen=True)
class Corrupted:
    """Which corruption every picture of a view gets when a model looks at it (`visir.robustness.corruptions`).

    - `name`: of the corruption; `severity`: 1–5; `seed`: of all that is drawn. What is drawn for a picture depends on
      these and its id, so it is the same in every split and order.
    """

    name: str
    severity: int
    seed: int

    @cached_property
    def fingerprint(self) -> str:
        """A hash over all of it."""
        return hash_json({"corrupted": asdict(self)})

    def __str__(self) -> str:
        """One line for the protocol."""
        return f"pictures: {self.name}, severity {self.severity}, seed {self.seed}"
