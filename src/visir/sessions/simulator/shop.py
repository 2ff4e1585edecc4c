"""The causes of a generated log: a made-up shop, whose visitors' numbers are all declared here.

What is printed of the paper's shop (tables 6.1–6.6, sections 6.4.1–6.4.4) is the default, so that the chapter's tables
look like its own: shares of devices, channels and weekdays, sessions per customer, identified sessions. What is not
printed is made up: hours (between "least active 1 am to 3 am" and "most active 6 pm to 8 pm"), pages, dwell times,
and how often anybody buys: 8.7 %, because Table 6.1's 0.33 queries a session lie that far between Table 6.5's 0.06
(others) and 3.16 (purchases). Game consoles and TVs are printed as 0.01 %, which means anything above 0; here they
are 0.3 and 0.1 %, so that a log of ordinary size has some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from visir.errors import ConfigurationError, raise_faults

BODY = ("home", "category", "search", "product", "basket", "account", "information")
"""Types of pages between which a visitor moves; each intent has a Markov chain over them."""
PAGES = (*BODY, "checkout", "confirmation")
"""All types: a purchase ends basket, checkout, (order), confirmation; an abandoned one basket, checkout."""
SEARCH, PRODUCT, BASKET, CHECKOUT, CONFIRMATION = (
    PAGES.index(page) for page in ("search", "product", "basket", "checkout", "confirmation")
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MOST_SESSIONS = 28
"""A person comes back at most so often in the log."""
MOST_PAGES = 500
"""A session's pages before its last steps are at most so many."""
RATE = 0.087


@dataclass(frozen=True)
class Cause:
    """Something a session has from its beginning (a device, an hour), and how that changes the chance of a purchase.

    `share` is the share of each value among all sessions (adds up to 1); `factor` multiplies the chance, and is 1 on
    average over sessions. Both are scaled to that, so only their proportions matter.
    """

    names: tuple[str, ...]
    share: tuple[float, ...]
    factor: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.names) == len(self.share) == len(self.factor) or min(*self.share, *self.factor) < 0:
            raise ConfigurationError(f"cause {self.names}: one share and one factor each, none negative", hint="")
        share = np.array(self.share) / sum(self.share)
        factor = np.array(self.factor) / (share @ np.array(self.factor))
        object.__setattr__(self, "share", tuple(share.tolist()))
        object.__setattr__(self, "factor", tuple(factor.tolist()))

    @classmethod
    def of_outcomes(cls, names: Sequence[str], purchases: Sequence[float], others: Sequence[float]) -> Cause:
        """From the shares among purchase sessions and among the others, as the chapter prints them."""
        bought, left = np.array(purchases) / sum(purchases), np.array(others) / sum(others)
        share = RATE * bought + (1 - RATE) * left
        return cls(tuple(names), tuple(share.tolist()), tuple((bought / share).tolist()))


@dataclass(frozen=True)
class Population:
    """People who come `mean_sessions` times on average (geometric, at most `MOST_SESSIONS`).

    A `regular` share of them buys with `regular_chance` in an average session, the rest with `other_chance`: a trait
    that nobody sees, but that shows in earlier orders.
    """

    mean_sessions: float
    regular: float
    regular_chance: float
    other_chance: float


@dataclass(frozen=True)
class Intent:
    """What drives the pages of a session. Nobody sees it.

    `start` and `chain` are over `BODY`; `pages` is their mean number per device (geometric, at least one). Dwell times
    are log-normal: `dwell` the median in seconds, `spread` σ of the logarithm; between 2 seconds and 25 minutes.
    `add`: chance of an item put into the basket on a product page; `remove`: of emptying it on a basket page; `retype`:
    that a query, not the session's first, repeats an earlier one; `abandon`: that a session without purchase goes to
    the checkout all the same.
    """

    name: str
    start: tuple[float, ...]
    chain: tuple[tuple[float, ...], ...]
    pages: tuple[float, ...]
    dwell: float
    spread: float
    add: float
    remove: float
    retype: float
    abandon: float


LOOK_UP = Intent(
    "look up",
    start=(0.27, 0.12, 0.16, 0.27, 0.01, 0.10, 0.07),
    chain=(
        (0.10, 0.28, 0.20, 0.15, 0.02, 0.15, 0.10),
        (0.08, 0.27, 0.10, 0.42, 0.01, 0.04, 0.08),
        (0.07, 0.10, 0.30, 0.45, 0.01, 0.02, 0.05),
        (0.10, 0.20, 0.15, 0.42, 0.03, 0.04, 0.06),
        (0.20, 0.12, 0.08, 0.30, 0.10, 0.12, 0.08),
        (0.15, 0.06, 0.05, 0.08, 0.03, 0.45, 0.18),
        (0.20, 0.12, 0.08, 0.12, 0.01, 0.17, 0.30),
    ),
    pages=(2.0, 2.4, 2.2, 2.3, 2.3), dwell=14, spread=1.0, add=0.01, remove=0.3, retype=0.10, abandon=0.0,
)  # fmt: skip
EXPLORE = Intent(
    "explore",
    start=(0.42, 0.22, 0.10, 0.22, 0.00, 0.02, 0.02),
    chain=(
        (0.06, 0.50, 0.12, 0.25, 0.01, 0.02, 0.04),
        (0.05, 0.40, 0.06, 0.45, 0.01, 0.01, 0.02),
        (0.04, 0.16, 0.26, 0.50, 0.01, 0.01, 0.02),
        (0.05, 0.33, 0.10, 0.45, 0.04, 0.01, 0.02),
        (0.12, 0.25, 0.10, 0.38, 0.10, 0.02, 0.03),
        (0.20, 0.22, 0.08, 0.25, 0.05, 0.15, 0.05),
        (0.15, 0.28, 0.10, 0.30, 0.02, 0.03, 0.12),
    ),
    pages=(9.0, 12.5, 10.5, 12.0, 12.0), dwell=20, spread=1.15, add=0.06, remove=0.35, retype=0.12, abandon=0.02,
)  # fmt: skip
BUY = Intent(
    "buy",
    start=(0.30, 0.14, 0.26, 0.24, 0.03, 0.02, 0.01),
    chain=(
        (0.05, 0.32, 0.31, 0.24, 0.04, 0.02, 0.02),
        (0.03, 0.28, 0.14, 0.51, 0.02, 0.01, 0.01),
        (0.02, 0.08, 0.35, 0.52, 0.01, 0.01, 0.01),
        (0.02, 0.17, 0.19, 0.48, 0.10, 0.01, 0.03),
        (0.06, 0.14, 0.16, 0.38, 0.18, 0.03, 0.05),
        (0.12, 0.14, 0.16, 0.28, 0.15, 0.12, 0.03),
        (0.06, 0.16, 0.16, 0.44, 0.08, 0.03, 0.07),
    ),
    pages=(11.0, 13.0, 12.0, 12.5, 12.5), dwell=29, spread=0.9, add=0.15, remove=0.2, retype=0.35, abandon=0.35,
)  # fmt: skip

_NIGHTS = ((1.6, 0.7, 0.4, 0.3, 0.4, 0.8), (2.0, 1.0, 0.6, 0.5, 0.6, 1.2))
_MORNINGS = ((1.8, 3.0, 4.0, 4.8, 5.4, 5.5), (2.4, 3.8, 4.6, 5.1, 5.5, 5.6))
_AFTERNOONS = ((5.5, 5.5, 5.5, 5.5, 5.6, 5.8), (5.7, 5.6, 5.5, 5.5, 5.5, 5.6))
_EVENINGS = ((7.0, 8.0, 8.4, 7.4, 4.6, 2.5), (6.2, 6.6, 6.6, 5.8, 4.5, 3.5))
DEVICES = Cause.of_outcomes(
    ("smartphone", "pc", "tablet", "game console", "tv"),
    (47.00, 44.97, 8.03, 0.27, 0.07),
    (58.09, 34.40, 7.50, 0.32, 0.106),
)
CHANNELS = Cause.of_outcomes(
    ("direct", "paid", "organic", "other"), (71.07, 16.74, 11.78, 0.31), (77.30, 12.92, 7.83, 1.05)
)
WEEK = Cause.of_outcomes(
    WEEKDAYS, (13.2, 16.2, 15.75, 16.6, 13.55, 12.5, 12.2), (19.5, 9.6, 20.5, 18.55, 11.15, 10.5, 10.2)
)
DAY = Cause.of_outcomes(
    [str(hour) for hour in range(24)],
    *(
        (*night, *morning, *afternoon, *evening)
        for night, morning, afternoon, evening in zip(_NIGHTS, _MORNINGS, _AFTERNOONS, _EVENINGS, strict=True)
    ),
)


def _switches(share: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    """Chances of going from one device to another that keep the shares as they are (flows are equal both ways)."""
    # Given are the chances away from the rarer device of each pair: those of a TV as section 6.4.4 prints them.
    chances = {(2, 1): 0.09, (2, 0): 0.08, (3, 0): 0.28, (3, 1): 0.26, (3, 2): 0.01, (1, 0): 0.055}
    chances |= {(4, 1): 0.4375, (4, 0): 0.25, (4, 2): 0.0625, (4, 3): 0.0625}
    matrix = np.zeros((5, 5))
    for (rare, common), chance in chances.items():
        matrix[rare, common] = chance
        matrix[common, rare] = chance * share[rare] / share[common]
    matrix[np.diag_indices(5)] = 1 - matrix.sum(axis=1)
    return tuple(tuple(row) for row in matrix.tolist())


@dataclass(frozen=True)
class Shop:
    """All causes of a generated log; see the fields.

    A person is a customer or stays anonymous. Customers move between devices from session to session (`switches`, rows
    sum to 1, kept in balance with `devices.share`); anonymous people stay on one. In a session of a person of some
    trait, at an hour, on a weekday, by a channel, the chance of a purchase is

        chance of the trait × hour factor × weekday factor × channel factor × device factor (× `switch_factor`
        where the device is not the one of the customer's session before)

    Whether it was a purchase then decides, by chance (`intents_of_purchases`, `intents_of_others`), which intent it
    had, and the intent drives pages, dwell times and basket. A query is typed before a search page with the chance
    `typed` of the device (otherwise a link led there). A customer is recognised at once, or logs in at the second to
    fourth event of a session (`logs_in`), or not before the checkout (`logs_in_at_checkout`): then a session that never
    gets there stays anonymous in the log, and being known says much about the outcome. The log covers `weeks` whole
    weeks from `begin` on, in hours of `zone`.
    """

    begin: date = date(2019, 9, 30)
    weeks: int = 4
    zone: str = "Europe/Amsterdam"
    identified: float = 0.4142
    customers: Population = Population(6.4, 0.35, 0.2, 0.04)
    anonymous: Population = Population(1.7, 0.15, 0.2, 0.066)
    devices: Cause = DEVICES
    switches: tuple[tuple[float, ...], ...] = ()
    switch_factor: float = 1.25
    channels: Cause = CHANNELS
    weekdays: Cause = WEEK
    hours: Cause = DAY
    intents: tuple[Intent, ...] = (LOOK_UP, EXPLORE, BUY)
    intents_of_purchases: tuple[float, ...] = (0.03, 0.17, 0.80)
    intents_of_others: tuple[float, ...] = (0.52, 0.40, 0.08)
    typed: tuple[float, ...] = (0.8, 0.9, 0.8, 0.2, 0.1)
    logs_in: float = 0.3
    logs_in_at_checkout: float = 0.0

    def __post_init__(self) -> None:
        if not self.switches:
            object.__setattr__(self, "switches", _switches(self.devices.share))
        raise_faults(ConfigurationError, "generated shop", self._faults(), hint="see visir.sessions.simulator.Shop")

    def _faults(self) -> list[str]:
        faults = [f"{name}: a chance lies between 0 and 1, found {value}" for name, value in self._chances()]
        sums = {"switches": self.switches, "intents": (self.intents_of_purchases, self.intents_of_others)}
        sums |= {f"chain of {intent.name}": (intent.start, *intent.chain) for intent in self.intents}
        faults += [
            f"{name}: row {number} adds up to {sum(row):g}, not 1"
            for name, rows in sums.items()
            for number, row in enumerate(rows)
            if abs(sum(row) - 1) > 1e-9
        ]
        share = np.array(self.devices.share)
        if not faults and not np.allclose(share @ np.array(self.switches), share):
            faults.append("switches: they change the shares of the devices in the long run")
        factors = (self.hours, self.weekdays, self.channels, self.devices)
        traits = [
            chance
            for population in (self.customers, self.anonymous)
            for chance in (population.regular_chance, population.other_chance)
        ]
        largest = max(traits) * float(np.prod([max(cause.factor) for cause in factors])) * max(1.0, self.switch_factor)
        if largest > 1:
            faults.append(f"the chance of a purchase would reach {largest:.2f}: lower the chances or the factors")
        if self.logs_in + self.logs_in_at_checkout > 1:
            faults.append(
                f"logs_in {self.logs_in} and logs_in_at_checkout {self.logs_in_at_checkout} exceed 1 together"
            )
        if self.weeks < 1:
            faults.append(f"weeks must be at least 1, not {self.weeks}")
        if self.begin.weekday():
            faults.append(f"begin must be a Monday; {self.begin} is a {WEEKDAYS[self.begin.weekday()]}")
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError):
            faults.append(f"unknown time zone {self.zone!r}")
        return faults

    def _chances(self) -> list[tuple[str, float]]:
        chances = [(name, getattr(self, name)) for name in ("identified", "logs_in", "logs_in_at_checkout")]
        chances += [("typed", chance) for chance in self.typed]
        chances += [("switches", chance) for row in self.switches for chance in row]
        chances += [("intents", chance) for chance in (*self.intents_of_purchases, *self.intents_of_others)]
        for intent in self.intents:
            chances += [
                (f"{intent.name}: {name}", getattr(intent, name)) for name in ("add", "remove", "retype", "abandon")
            ]
            chances += [(f"{intent.name}: chain", chance) for row in (intent.start, *intent.chain) for chance in row]
        return [(name, value) for name, value in chances if not 0 <= value <= 1]
