"""Servers without transactions: documents change one request after another, and yet a change counts as a whole.

A change has a number: its generation, and behind it a part of the number that was drawn for it, so that the changes of
two copies of a folder are told apart. A document carries the number of the change that added it, and, once it is
deleted, that of the change that did so. A search of the generation `seen` sees the documents that were added up to it
and not deleted up to it. So what a change puts in and marks as deleted is not seen until the collection's mark names
its generation. Then what it has deleted is removed.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod

from visir.retrieval.remote.engine import EngineError, Mark, RemoteEngine

_DRAWN = 2**24
"""Numbers of one generation; 2²⁹ generations are below 2⁵³, up to which JSON and Qdrant's filters are exact."""
_LAST = 2**53


class StepwiseEngine(RemoteEngine):
    """A collection whose documents have the two numbers above. What its server has to do for a change is below."""

    # The documents of a change are counted before it is marked, and after. So a write that was lost is noticed, and one
    # of a killed change that arrives late. Two copies of the folder that are changed at the same time notice it.

    _before = Mark()
    """The mark that the change under way began with, or the last one that was written."""
    _change = ""
    _under_way = False

    @abstractmethod
    def take_back(self, first: int, last: int) -> None:
        """Remove the documents that the changes of these numbers added, and take back what they marked as deleted."""

    @abstractmethod
    def remove_deleted(self, last: int) -> None:
        """Remove the documents that were marked as deleted by changes up to this number."""

    @abstractmethod
    def count_changed(self, first: int, last: int) -> tuple[int, int]:
        """How many documents the changes of these numbers have added, and how many they have marked as deleted."""

    @abstractmethod
    def write_mark(self, mark: Mark) -> None:
        """Write the mark, in one step."""

    @property
    def number(self) -> int:
        """The number of the change under way."""
        return first_number(self._before.generation + 1) + int(self._change[:6] or "0", 16)

    def begin(self, mark: Mark, change: str) -> None:
        """Remove what a change that was cut off has left."""
        self._before, self._change = mark, change
        self._check_unchanged()
        self.take_back(last_number(mark.generation) + 1, _LAST)
        self.remove_deleted(last_number(mark.generation))
        self.before = self.count(mark.generation)
        self._under_way = True

    def mark(self, mark: Mark) -> None:
        """Make the change visible if all of it is there; then remove what it has deleted."""
        # If another copy's change begins meanwhile, it takes these documents away; it may also have put in as many of
        # its own. So they are counted once more after the mark: those of this change, and those of its generation.
        added = mark.documents - self.before
        sent = max(added, 0), max(-added, 0)
        held = self._count_generation()
        self._check_unchanged()
        if held != sent:
            raise self._miscounted(sent, held)
        self._under_way = False  # whether a mark without an answer was written is known when it is read again
        before = self._before
        self.write_mark(mark)
        counts, now = [sent], mark
        with contextlib.suppress(EngineError):
            counts = [self.count_changed(self.number, self.number), self._count_generation()]
            now = self.read_mark()
        if now != mark:
            self._under_way = True
            raise self._changed()
        for held in counts:
            if held != sent:
                self.write_mark(before)
                self._under_way = True
                raise self._miscounted(sent, held)
        self._before, self.seen = mark, mark.generation
        if added < 0:
            with contextlib.suppress(EngineError):  # the next change removes them too
                self.remove_deleted(last_number(mark.generation))

    def _count_generation(self) -> tuple[int, int]:
        generation = self._before.generation + 1
        return self.count_changed(first_number(generation), last_number(generation))

    def _check_unchanged(self) -> None:
        if self.read_mark() != self._before:
            raise self._changed()

    def _changed(self) -> EngineError:
        return EngineError(
            f"{self.where()} was changed through another copy of this index's folder meanwhile; what was sent from "
            "here is taken back.",
            hint="only one copy may be changed: copy that folder here",
            code="changed-through-another-copy",
        )

    def _miscounted(self, sent: tuple[int, int], held: tuple[int, int]) -> EngineError:
        return EngineError(
            f"{self.where()}: this change added {sent[0]:,} documents and deleted {sent[1]:,}; the server counts "
            f"{held[0]:,} and {held[1]:,}. The change is taken back.",
            hint="try again; if that does not help, the server's own log says more",
            code="change-added-documents-deleted",
        )

    def undo(self) -> None:
        """Take back what was put in and marked as deleted, if the server still answers; else the next change does."""
        # Nothing else is touched: a change of another copy may be under way. Where one has been marked meanwhile, and
        # has added some of the same documents, all of them stay.
        if not self._under_way:
            return
        self._under_way = False
        with contextlib.suppress(EngineError):
            now = self.read_mark()
            if now == self._before or self._is_apart(now):
                self.take_back(self.number, self.number)

    def _is_apart(self, now: Mark) -> bool:
        """Whether all documents are there that the change of another copy has added: none was overwritten from here."""
        if now.generation != self._before.generation + 1:
            return False
        mine, both = self.count_changed(self.number, self.number), self._count_generation()
        return both[0] - mine[0] == max(now.documents - self.before, 0)


def first_number(generation: int) -> int:
    """The lowest number of a generation's changes."""
    return generation * _DRAWN


def last_number(generation: int) -> int:
    """The highest number of a generation's changes."""
    return first_number(generation + 1) - 1
