"""What visir asks of an engine: documents in, near documents out. One is embedded, the others are behind an address."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from visir.errors import VisirError
from visir.records import VectorForm
from visir.retrieval.remote.collection_names import place_on_server
from visir.retrieval.remote.points import Point, Vector

BUILD_ON_SERVER = "build the index again (visir index build), into a new folder"
"""The hint of an `EngineError` that a new build mends."""


class EngineError(VisirError):
    """The engine cannot be reached, refuses, or holds something else than the index's folder says."""


@dataclass(frozen=True)
class Space:
    """One named vector of a collection: what it is called, of how many values (or terms of a vocabulary), and its
    form."""

    # Several vectors of a document are compared with MaxSim, all others by inner product.

    name: str
    dimension: int
    form: VectorForm = "dense"


@dataclass(frozen=True)
class EngineHit:
    """A document that was found, and the vector that it was found by (None where none was asked for)."""

    # Its id is None if another program has put it there.

    id: str | None
    score: float
    vector: Vector | None = None


@dataclass(frozen=True)
class Nearest:
    """Search by one vector: in which space, how many, and how thoroughly."""

    space: str  # the name of the space
    vector: Vector  # the vector of the query
    limit: int  # the number of documents, from 1
    ef: int | None = None  # candidates kept while a graph is searched; None where there is no graph
    exact: bool = False  # whether every document is looked at


def alike(questions: Sequence[Nearest]) -> list[tuple[Nearest, list[int]]]:
    """Searches that differ in their vectors alone, to be asked together: the first of them, and the places of all."""
    groups: dict[tuple[str, int, int | None, bool], list[int]] = {}
    for at, question in enumerate(questions):
        groups.setdefault((question.space, question.limit, question.ef, question.exact), []).append(at)
    return [(questions[places[0]], places) for places in groups.values()]


class Engine(ABC):
    """One collection of an engine."""

    uploads = 1

    @abstractmethod
    def put(self, points: Sequence[Point]) -> None:
        """Put documents in, in the place of those that are there under the same id."""

    @abstractmethod
    def drop(self, ids: Sequence[str]) -> None:
        """Take documents out; those that are not there are passed over."""

    @abstractmethod
    def settle(self) -> None:
        """Build what searches need, as far as this engine does so on demand, and put everything on disk."""

    @abstractmethod
    def ask(
        self, questions: Sequence[Nearest], *, vectors: bool, allowed: Sequence[str] | None = None
    ) -> list[list[EngineHit]]:
        """The nearest documents by inner product for each of several searches, in one request; with their `vectors`, or
        without; among all documents, or among those `allowed`."""

    @abstractmethod
    def fuse(
        self, questions: Sequence[Sequence[Nearest]], weights: Sequence[Sequence[float]], limit: int, constant: int
    ) -> list[list[EngineHit]]:
        """For each of several lists of searches: the `limit` documents with the highest sum of weight / (constant +
        rank), rank counted from 1, over the searches that find them. No vectors come back."""

    @abstractmethod
    def get(self, ids: Sequence[str], space: str) -> Mapping[str, Vector | None]:
        """The vectors of these documents in this space (None: it has none there); unknown ones are left out."""

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """What the engine says of the collection: points, segments, indexed vectors."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""


@dataclass(frozen=True)
class Mark:
    """What a collection says of itself, so that a folder never works with one that is not its own."""

    index: str = ""  # the number of the index, drawn once
    generation: int = 0  # how many changes it has seen
    complete: bool = False  # whether its build came to an end
    change: str = ""  # the number of the last change, drawn for it; "" for the build
    documents: int = 0  # how many documents there are


class RemoteEngine(Engine):
    """One collection behind an address."""

    # A change of many documents becomes visible in one step: `begin`, then `put` or `drop`, then `mark`; or `undo`.
    # Documents carry the generation that added them: who searches sees those up to the generation `seen`.

    seen = 0
    index = ""
    before = 0

    @classmethod
    @abstractmethod
    def create(cls, collection: str, spaces: Sequence[Space], settings: Any, index: str) -> Self:
        """A new collection, not complete until it is marked."""

    @abstractmethod
    def __init__(self, collection: str, place: Any) -> None:
        """Open a connection; nothing is asked yet."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether there is a collection of this name."""

    @abstractmethod
    def read_mark(self) -> Mark:
        """What the collection says of itself; an empty mark for one that visir has not made."""

    @abstractmethod
    def begin(self, mark: Mark, change: str) -> None:
        """Begin a change of the collection, which has this mark; for the change this number was drawn."""
        # From here to its end, `before` is how many documents there are without it.

    @abstractmethod
    def mark(self, mark: Mark) -> None:
        """Say on the server that the collection is complete as of this change, and make the change visible."""

    @abstractmethod
    def undo(self) -> None:
        """Take back the change that is under way."""

    @abstractmethod
    def ids(self) -> pa.StringArray:
        """The ids of all documents that are seen, sorted."""

    @abstractmethod
    def held(self, ids: pa.StringArray) -> pa.StringArray:
        """Those of these ids that are there as of the last change."""

    @abstractmethod
    def count(self, generation: int) -> int:
        """How many documents this generation has, counted by the server."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether none of the documents that are seen is there any more."""

    @abstractmethod
    def destroy(self) -> None:
        """Delete the collection: only one whose mark names this index is given to it."""

    def where(self) -> str:
        """What the collection is called, and at which address, for messages."""
        return place_on_server({**vars(self.place), "collection": self.collection})

    @classmethod
    @abstractmethod
    def removal(cls, url: str, collection: str, settings: Mapping[str, Any]) -> str:
        """The command by which a person deletes a collection."""

    def check(self, index: str, generation: int, change: str = "") -> Mark:
        """The mark of the collection, which must be that of this index, and know of the changes that its folder
        does."""
        mark = self.read_mark()
        if mark.index != index or not mark.complete:
            raise self._another()
        done = bool(change) and (mark.generation, mark.change) == (generation + 1, change)
        if mark.generation > generation and not done:
            raise EngineError(
                f"{self.where()} was changed through another copy of this index's folder: it knows of "
                f"{mark.generation} changes, this folder of {generation}.",
                hint="copy that folder here; only one copy may be changed",
                code="knows-changes-folder",
            )
        if mark.generation < generation:
            raise self._older(mark, generation)
        return mark

    def check_own(self, *, any_found: bool = True) -> None:
        """Check that what was read is of the index that was opened; one small request, sent after that of the
        reading."""
        seen = self.seen  # before the mark is read: another thread may change the index meanwhile
        mark = self.read_mark()
        if mark.index != self.index:
            raise self._another()
        if mark.generation < seen:
            raise self._older(mark, seen)
        if not any_found and mark.generation > seen and self.is_empty():
            raise EngineError(
                f"{self.where()}: every document that this index had when it was opened was deleted by another "
                "process meanwhile.",
                hint="open the index again, and see what it holds now",
            )

    def counted(self) -> int:
        """How many documents that are seen the server holds; a warning where its mark names another number."""
        held, mark = self.count(self.seen), self.read_mark()
        if (mark.index, mark.generation) == (self.index, self.seen):  # else a later change has deleted some
            self.warn_of_difference(mark.documents, held)
        return held

    def warn_of_difference(self, documents: int, held: int) -> None:
        """Warn if the server holds another number of documents than visir has put there."""
        if held == documents:
            return
        fewer = (
            "were documents deleted there past visir? An update of a library adds them again; to a single index, add "
            "those that are missing"
        )
        more = "did another program put some there?"
        warnings.warn(
            f"{self.where()} holds {held:,} documents; by this index's own changes it should hold {documents:,}. "
            f"The number on the server counts from here on. {fewer if held < documents else more}",
            stacklevel=1,
        )

    def _older(self, mark: Mark, generation: int) -> EngineError:
        return EngineError(
            f"{self.where()} is older than this index's folder: it knows of {mark.generation} changes, the folder "
            f"of {generation}.",
            hint=f"was the server restored from a backup? restore the folder of that time too; or {BUILD_ON_SERVER}",
        )

    def _another(self) -> EngineError:
        return EngineError(
            f"{self.where()} is not the one that this index's folder was made with.",
            hint=f"was it deleted and made anew? {BUILD_ON_SERVER}",
            code="not-one-index-folder",
        )

    def check_no_collection(self) -> None:
        """Check that there is no collection of this name."""
        if not self.exists():
            return
        mark = self.read_mark()
        delete = f"delete it ({self.removal(self.place.url, self.collection, vars(self.place))})"
        if mark.index and not mark.complete:
            raise EngineError(
                f"{self.where()} is half-made: a build was killed, or is still running.",
                hint=f"if none is running, {delete}; or name another: collection=NAME",
                code="build-killed-still-running",
            )
        if not mark.index:
            raise EngineError(
                f"{self.where()} exists already, and visir has not made it.",
                hint="name another: collection=NAME",
                code="exists-already-visir-not",
            )
        raise EngineError(
            f"{self.where()} exists already.",
            hint=f"name another (collection=NAME), or {delete} if nobody needs it",
            code="exists-already",
        )

    collection: str
    place: Any
