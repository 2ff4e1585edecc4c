"""Servers without transactions: documents change one request after another, and yet a change counts as a whole.

A document carries the generation that added it, and, once it is deleted, the generation that did so. A search of the
generation `seen` sees the documents that were added up to it and not deleted up to it. So what a change puts in and
marks as deleted is not seen until the collection's mark names its generation. Then what it has deleted is removed.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Sequence

from visir.retrieval.remote.engine import EngineError, Mark, RemoteEngine

_AT_ONCE = 1000
"""Ids in one request that takes documents back."""


class StepwiseEngine(RemoteEngine):
    """A collection whose documents have the two numbers above. What its server has to do for a change is below.

    The documents of a change are counted before it is marked. So a write that was lost is noticed, and one of a killed
    change that arrives late. Two copies of the folder that are changed at the same time notice it at the mark.
    """

    _before = Mark()
    """The mark that the change under way began with, or the last one that was written."""
    _under_way = False

    @abstractmethod
    def clear(self, generation: int, ids: Sequence[str] | None = None) -> None:
        """Bring the documents (or these of them) into the state that this generation has left: remove those that were
        added after it or deleted up to it, and take back deletions after it.
        """

    @abstractmethod
    def count_changed(self, generation: int) -> tuple[int, int]:
        """How many documents this generation has added, and how many it has marked as deleted."""

    @abstractmethod
    def write_mark(self, mark: Mark) -> None:
        """Write the mark, in one step."""

    def begin(self, mark: Mark) -> None:
        """Remove what a change that was cut off has left.

        Raises:
            EngineError: Somebody else has changed the collection since this mark was read.
        """
        self._before = mark
        self._check_unchanged()
        self.clear(mark.generation)
        self._under_way = True

    def mark(self, mark: Mark) -> None:
        """Make the change visible if all of it is there; then remove what it has deleted.

        If another copy's change begins meanwhile, it takes these documents away. So they are counted once more after
        the mark.

        Raises:
            EngineError: The server holds another number of documents of this change than were sent, or somebody else
                has changed the collection meanwhile.
        """
        before, added = self._before, mark.documents - self._before.documents
        sent = max(added, 0), max(-added, 0)
        held = self.count_changed(mark.generation)
        self._check_unchanged()
        if held != sent:
            raise self._miscounted(sent, held)
        self._under_way = False  # whether a mark without an answer was written is known when it is read again
        self.write_mark(mark)
        held, now = sent, mark
        with contextlib.suppress(EngineError):
            held, now = self.count_changed(mark.generation), self.read_mark()
        if now != mark:
            self._under_way = True
            raise self._changed()
        if held != sent:
            self.write_mark(before)
            self._under_way = True
            raise self._miscounted(sent, held)
        self._before, self.seen = mark, mark.generation
        if added < 0:
            with contextlib.suppress(EngineError):  # the next change removes them too
                self.clear(mark.generation)

    def _check_unchanged(self) -> None:
        if self.read_mark() != self._before:
            raise self._changed()

    def _changed(self) -> EngineError:
        return EngineError(
            f"{self.where()} was changed through another copy of this index's folder meanwhile; what was sent from "
            "here is taken back.",
            hint="only one copy may be changed: copy that folder here",
        )

    def _miscounted(self, sent: tuple[int, int], held: tuple[int, int]) -> EngineError:
        return EngineError(
            f"{self.where()}: this change added {sent[0]:,} documents and deleted {sent[1]:,}; the server counts "
            f"{held[0]:,} and {held[1]:,}. The change is taken back.",
            hint="try again; if that does not help, the server's own log says more",
        )

    def undo(self, ids: Sequence[str]) -> None:
        """Take back what was put in and marked as deleted, if the server still answers; else the next change does.

        Nothing else is touched: a change of another copy may be under way. Where one has been marked meanwhile,
        documents that it may have added too stay.
        """
        if not self._under_way:
            return
        self._under_way = False
        with contextlib.suppress(EngineError):
            now = self.read_mark()
            if now == self._before or self._is_apart(now, len(ids)):
                for start in range(0, len(ids), _AT_ONCE):
                    self.clear(self._before.generation, ids[start : start + _AT_ONCE])

    def _is_apart(self, now: Mark, sent: int) -> bool:
        """Whether none of the documents that were sent from here is one that the change of another copy has added.

        Both carry the same generation. So they are counted: those of the mark, and beside them as many as were sent.
        """
        generation = self._before.generation + 1
        added, deleted = self.count_changed(generation)
        theirs = max(now.documents - self._before.documents, 0)
        return deleted > 0 or (now.generation == generation and added == theirs + sent)
