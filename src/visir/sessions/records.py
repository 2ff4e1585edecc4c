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
    """Texts as numbers.

    Args:
        names: The different texts.
        codes: Positions in `names`, of any shape; -1 for no text.

    Example:
        >>> texts = CodedTexts.of(["tv", None, "pc"])
        >>> texts.names, texts.codes.tolist()
        (('pc', 'tv'), [1, -1, 0])
    """

    names: tuple[str, ...]
    codes: Ints

    @classmethod
    def of(cls, texts: Sequence[str | None] | Texts) -> CodedTexts:
        """Code texts. Names are sorted, so the same texts get the same codes in whatever order they come.

        Args:
            texts: Texts of any shape; None for no text.
        """
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
        """The codes as positions in another list of names.

        Args:
            names: The other list.
            missing: The code for no text.
            unseen: The code for a text that is not in `names`.
        """
        place = {name: code for code, name in enumerate(names)}
        table = np.array([*(place.get(name, unseen) for name in self.names), missing], np.int64)
        return table[self.codes]  # -1 is the last entry


@dataclass(frozen=True, eq=False)
class EarlierSessions:
    """Earlier sessions of n examples.

    Args:
        offsets: (n + 1,) example i has rows `offsets[i]:offsets[i + 1]`, in the order in which the sessions ended.
        device: The device of each session.
        orders: How many orders each session holds.
        ended: When each session ended, µs since 1970 (UTC).
    """

    offsets: Ints
    device: CodedTexts
    orders: Ints
    ended: Ints

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
    """n sessions of which a purchase is to be predicted, with everything about them, known early or late.

    Args:
        visitor: The visitor's id.
        session: The number of the session among those of the visitor, from 1.
        customer: The customer's id; None where nobody logs in.
        began: First request, µs since 1970 (UTC).
        ended: Last request, µs since 1970 (UTC).
        hour: Hour of the first request in the log's time zone, 0–23.
        weekday: Weekday of the first request in the log's time zone, 1 (Monday) – 7.
        purchase: Whether the session holds an order: what is to be predicted.
        pages: (n, STEPS) types of the first pages.
        opened: (n, STEPS + 1) when they and the next one were opened, µs since 1970 (UTC); -1 where there was no such
            page.
        device: The first device that the session's events name.
        device_step: The step at which it is known: 0 where the first request names it, `NEVER` where none does.
        channel: The first channel that the session's events name.
        channel_step: The step at which it is known, as for the device.
        customer_step: The step at which the customer is known, as for the device.
        reached: Pages opened before the first order; -1 where the first request is the order.
        visits: Earlier sessions of the visitor, since the visitor was last away for `examples.VISITOR_DAYS`.
        added: (n, STEPS + 1) items put into the basket before the k-th page opened; at step 0 by the first request.
        queried: (n, STEPS + 1) searches before the k-th page opened, likewise.
        earlier: Sessions of the same customer that were over (idle time included) before this one began.
        current_page_left: Whether step k is when the k-th page has been left, so that its dwell time is known.
    """

    visitor: Texts
    session: Ints
    customer: Texts
    began: Ints
    ended: Ints
    hour: Ints
    weekday: Ints
    purchase: Bools
    pages: CodedTexts
    opened: Ints
    device: CodedTexts
    device_step: Ints
    channel: CodedTexts
    channel_step: Ints
    customer_step: Ints
    reached: Ints
    visits: Ints
    added: Ints
    queried: Ints
    earlier: EarlierSessions
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
