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
"""The last step: a step is the number of pages opened so far (thesis section 6.5.1)."""

NEVER = np.iinfo(np.int64).max
"""The step at which something is known that never is."""


@dataclass(frozen=True, eq=False)
class CodedTexts:
    """Texts as numbers: `codes` (any shape) into `names`, -1 where there is none."""

    names: tuple[str, ...]
    codes: Ints

    @classmethod
    def of(cls, texts: Sequence[str | None] | Texts) -> CodedTexts:
        """The names sorted, so that the same texts give the same codes in whatever order they come."""
        told = np.asarray(texts, dtype=object)
        names = sorted({one for one in told.flat if one is not None})
        place: dict[str | None, int] = {name: code for code, name in enumerate(names)}
        place[None] = -1
        codes = np.fromiter((place[one] for one in told.flat), np.int64, told.size)
        return cls(tuple(names), codes.reshape(told.shape))

    def into(self, names: Sequence[str], missing: int, unseen: int) -> Ints:
        """The codes as places in another list of names; `missing` for no text, `unseen` for one that is not listed."""
        place = {name: code for code, name in enumerate(names)}
        table = np.array([*(place.get(name, unseen) for name in self.names), missing], np.int64)
        return table[self.codes]  # -1 is the last entry


@dataclass(frozen=True, eq=False)
class EarlierSessions:
    """EarlierSessions sessions: example i has rows `offsets[i]:offsets[i + 1]`, in the order in which they ended.

    - `device`: of each session; `orders`: how many it holds; `ended`: µs since 1970
    """

    offsets: Ints
    device: CodedTexts
    orders: Ints
    ended: Ints

    @cached_property
    def counts(self) -> Ints:
        """(n,) how many each example has."""
        return np.diff(self.offsets)

    @cached_property
    def owner(self) -> Ints:
        """The example of each row."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


@dataclass(frozen=True, eq=False)
class SessionExamples:
    """n sessions of which something is to be predicted, whatever of them is known when.

    - `visitor`, `session`: who, and which of that visitor's; `customer`: null where nobody logs in
    - `began`, `ended`: first and last request, µs since 1970 (UTC); `hour` 0–23 and `weekday` 1–7 of the first, in the
      log's time zone
    - `purchase`: whether the session holds an order: what is to be predicted
    - `pages` (n, STEPS): types of the first pages; `opened` (n, STEPS): when, -1 where there was none (any more)
    - `device`, `channel`: the first that the session's events name; `device_step`, `channel_step`, `customer_step`: the
      step at which they are known, 0 where the first request tells, `NEVER` where nothing does
    - `earlier`: sessions of the same customer that were over (idle time included) before this one began
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
    earlier: EarlierSessions

    def __len__(self) -> int:
        return len(self.began)

    def known_device(self, step: int) -> CodedTexts:
        """The device of each session, as far as it is known at a step."""
        return _known(self.device, self.device_step, step)

    def known_channel(self, step: int) -> CodedTexts:
        """The channel of each session, as far as it is known at a step."""
        return _known(self.channel, self.channel_step, step)

    def is_known(self, step: int) -> Bools:
        """Whose customer is known at a step; the others have no history then."""
        return self.customer_step <= step


def _known(words: CodedTexts, since: Ints, step: int) -> CodedTexts:
    return CodedTexts(words.names, np.where(since <= step, words.codes, -1))
