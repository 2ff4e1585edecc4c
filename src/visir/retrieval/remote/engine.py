"""What visir asks of an engine: points in, near points out. There are two: embedded, and behind an address."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from visir.errors import VisirError
from visir.retrieval.remote.points import Point, Vector


class EngineError(VisirError):
    """The engine cannot be reached, refuses, or holds something else than the index's folder says."""


@dataclass(frozen=True)
class Space:
    """One named vector of a collection: "dense" of so many values, "sparse" (whose `dimension` is 0), or `several` of
    so many values, which are compared with MaxSim.
    """

    name: str
    dimension: int
    several: bool = False


@dataclass(frozen=True)
class EngineHit:
    """A point that was found, and the vector that it was found by (None where none was asked for)."""

    key: UUID
    score: float
    vector: Vector | None = None


@dataclass(frozen=True)
class Nearest:
    """Search by one vector: in which space, how many, and how thoroughly (`ef`; `exact`: every point is looked at)."""

    space: str
    vector: Vector
    limit: int
    ef: int | None = None
    exact: bool = False


class Engine(ABC):
    """One collection of an engine."""

    @abstractmethod
    def put(self, points: Sequence[Point]) -> None:
        """Put points in, in the place of those that are there under the same key."""

    @abstractmethod
    def drop(self, keys: Sequence[UUID]) -> None:
        """Take points out; those that are not there are passed over."""

    @abstractmethod
    def settle(self) -> None:
        """Build what searches need, as far as this engine does so on demand, and put everything on disk."""

    @abstractmethod
    def ask(self, questions: Sequence[Nearest], *, vectors: bool) -> list[list[EngineHit]]:
        """The nearest points by inner product for each of several searches, in one request; with their `vectors`, or
        without.
        """

    @abstractmethod
    def fuse(self, questions: Sequence[Sequence[Nearest]], limit: int, constant: int) -> list[list[EngineHit]]:
        """For each of several lists of searches: the `limit` points with the highest sum of 1 / (constant + rank), rank
        counted from 1, over the searches that find them. One request; no vectors come back.
        """

    @abstractmethod
    def get(self, keys: Sequence[UUID], space: str) -> Mapping[UUID, Vector | None]:
        """The vectors of these points in this space (None: it has none there); unknown points are left out."""

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """What the engine says of the collection: points, segments, indexed vectors."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""
