"""What a prediction is made from: sessions with their first pages, and the customer's sessions that were over by then.

Plain NumPy columns, so that any engine that gives the same rows gives the same features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Texts = NDArray[np.object_]

STEPS = 10
"""The last step. A step is the number of pages opened so far (thesis section 6.5.1)."""

NEVER = np.iinfo(np.int64).max
"""The step of what never becomes known."""


@dataclass(frozen=True, eq=False)
class CodedTexts:
    """Texts as numbers."""

    names: tuple[str, ...]  # the different texts
    codes: Ints  # positions in `names`, of any shape; -1 for no text

    @classmethod
    def of(cls, texts: Sequence[str | None] | Texts) -> CodedTexts:
        """Code texts. Names are sorted, so the same texts get the same codes in whatever order they come."""
        array = np.asarray(texts, dtype=object)
        names = sorted({text for text in array.flat if text is not None})
        place: dict[str | None, int] = {name: code for code, name in enumerate(names)}
        place[None] = -1
        codes = np.fromiter((place[text] for text in array.flat), np.int64, array.size)
        return cls(tuple(names), codes.reshape(array.shape))

    def used_names(self, rows: Bools | None = None) -> list[str]:
        """The names that occur, in their order; with `rows` (a mask), those that occur there."""
        codes = self.codes if rows is None else self.codes[rows]
        return [self.names[code] for code in np.unique(codes[codes >= 0])]

    def codes_in(self, names: Sequence[str], missing: int, unseen: int) -> Ints:
        """The codes as positions in another list of names."""
        place = {name: code for code, name in enumerate(names)}
        table = np.array([*(place.get(name, unseen) for name in self.names), missing], np.int64)
        return table[self.codes]  # -1 is the last entry


@dataclass(frozen=True, eq=False)
class EarlierSessions:
    """Earlier sessions of n examples."""

    offsets: Ints  # (n + 1,) example i has rows `offsets[i]:offsets[i + 1]`, in the order in which the sessions ended
    device: CodedTexts  # the device of each session
    orders: Ints  # how many orders each session holds
    ended: Ints  # when each session ended, µs since 1970 (UTC)

    @cached_property
    def counts(self) -> Ints:
        """(n,) how many earlier sessions each example has."""
        return np.diff(self.offsets)

    @cached_property
    def owner(self) -> Ints:
        """The example of each row."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


@dataclass(frozen=True, eq=False)
class SessionExamples:
    """n sessions of which a purchase is to be predicted, with everything about them, known early or late."""

    visitor: Texts  # the visitor's id
    session: Ints  # the number of the session among those of the visitor, from 1
    customer: Texts  # the customer's id; None where nobody logs in
    began: Ints  # first request, µs since 1970 (UTC)
    ended: Ints  # last request, µs since 1970 (UTC)
    hour: Ints  # hour of the first request in the log's time zone, 0–23
    weekday: Ints  # weekday of the first request in the log's time zone, 1 (Monday) – 7
    purchase: Bools  # whether the session holds an order: what is to be predicted
    pages: CodedTexts  # (n, STEPS) types of the first pages
    # (n, STEPS + 1) when they and the next one were opened, µs since 1970 (UTC); -1 where there was no such page.
    opened: Ints
    device: CodedTexts  # the first device that the session's events name
    device_step: Ints  # the step at which it is known: 0 where the first request names it, `NEVER` where none does
    channel: CodedTexts  # the first channel that the session's events name
    channel_step: Ints  # the step at which it is known, as for the device
    customer_step: Ints  # the step at which the customer is known, as for the device
    reached: Ints  # pages opened before the first order; -1 where the first request is the order
    visits: Ints  # earlier sessions of the visitor, since the visitor was last away for `examples.VISITOR_DAYS`
    added: Ints  # (n, STEPS + 1) items put into the basket before the k-th page opened; at step 0 by the first request
    queried: Ints  # (n, STEPS + 1) searches before the k-th page opened, likewise
    earlier: EarlierSessions  # sessions of the same customer that were over (idle time included) before this one began
    # Whether step k is when the k-th page has been left, so that its dwell time is known.
    current_page_left: bool = False

    def __len__(self) -> int:
        return len(self.began)

    def known_device(self, step: int) -> CodedTexts:
        """The device of each session, as far as it is known at a step."""
        return _known(self.device, self.device_step, step)

    def known_channel(self, step: int) -> CodedTexts:
        """The channel of each session, as far as it is known at a step."""
        return _known(self.channel, self.channel_step, step)

    def is_known(self, step: int) -> Bools:
        """Whether the customer of each session is known at a step; the others have no history then."""
        return self.customer_step <= step


def _known(words: CodedTexts, since: Ints, step: int) -> CodedTexts:
    return CodedTexts(words.names, np.where(since <= step, words.codes, -1))
