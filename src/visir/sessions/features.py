"""The features of Table 6.7, what they learn, and the matrix of a step; `features_of` gives the sets of a setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from visir.errors import VisirError
from visir.sessions.examples import Setting
from visir.sessions.table_labels import Bools, CodedTexts, Floats, Ints, SessionExamples

# A feature: one entry that says what it is, what it learns, and its value at a step.

FeatureSet = Literal["baseline", "extended"]
FEATURE_SETS: tuple[FeatureSet, ...] = ("baseline", "extended")

FeatureState = dict[str, Any]
"""What a feature learnt: JSON, so that a saved model needs no pickle."""
FeatureValues = Callable[[SessionExamples, int, FeatureState], Floats]

Kind = Literal["number", "skewed", "category", "cycle"]
"""How a model that adds or measures distances should read it (`models.expanded`); trees take all as they are."""


@dataclass(frozen=True)
class SessionFeature:
    """One row of Table 6.7."""

    name: str  # as in the table
    scope: Literal["session", "history"]  # "history": of identified customers only
    dynamic: bool  # whether it changes during a session
    baseline: bool  # whether it belongs to the baseline set too
    kind: Kind  # how models read it
    # (examples, step, state) → (n,) floats, NaN where there is none; from nothing that is known after `step`. A history
    # counts where the customer is known by then (`LearntFeatures.matrix`).
    values: FeatureValues
    # (examples, rows) → what the training rows teach; it sees no label of another row.
    learn: Callable[[SessionExamples, Bools], FeatureState] = lambda examples, rows: {}
    period: int = 0  # of a "cycle" (24 hours, 7 weekdays)


# What the first request says: pages opened (none yet), channel, start hour, weekday, device.


def _pages(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    return np.full(len(examples), float(step))


def _column(name: str, first: int = 0) -> FeatureValues:
    """A column of the sessions, counted from its first value."""
    return lambda examples, step, state: getattr(examples, name).astype(np.float64) - first


def _at_step(name: str) -> FeatureValues:
    """A column with a value for each step."""
    return lambda examples, step, state: getattr(examples, name)[:, step].astype(np.float64)


def _names(column: str) -> Callable[[SessionExamples, Bools], FeatureState]:
    return lambda examples, rows: {"names": getattr(examples, column).used_names(rows)}


def _open_page(examples: SessionExamples, step: int) -> CodedTexts:
    """The page that is open; none at step 0."""
    codes = examples.pages.codes[:, step - 1] if step else np.full(len(examples), -1)
    return CodedTexts(examples.pages.names, codes)


def _position(column: Callable[[SessionExamples, int], CodedTexts]) -> FeatureValues:
    """The position among the names seen in training; NaN for no name or a new one."""

    def values(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
        position = column(examples, step).codes_in(state["names"], missing=-1, unseen=-1).astype(np.float64)
        return np.where(position < 0, np.nan, position)

    return values


# Device conversion rate: the share of training sessions on the session's device that bought.


def _learn_rates(examples: SessionExamples, rows: Bools) -> FeatureState:
    buys = examples.purchase[rows]
    overall = float(buys.mean())
    names = examples.device.used_names(rows)
    position = examples.device.codes_in(names, missing=len(names), unseen=len(names))[rows]
    sessions = np.bincount(position, minlength=len(names) + 1)
    bought = np.bincount(position, buys, minlength=len(names) + 1)
    return {"names": names, "rates": ((bought + overall) / (sessions + 1)).tolist()[:-1], "overall": overall}


def _rate(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    return _by_device(examples, step, state, "rates")


def _by_device(examples: SessionExamples, step: int, state: FeatureState, learnt: str) -> Floats:
    """What was learnt of the session's device; "overall" of no device, and of one that was not seen in training."""
    names = state["names"]
    position = examples.known_device(step).codes_in(names, missing=len(names), unseen=len(names))
    return np.asarray([*state[learnt], state["overall"]], np.float64)[position]


# How long pages are looked at: mean and standard deviation of the dwell times so far, in seconds.


def _dwell(examples: SessionExamples, step: int, pages: int) -> Floats:
    """The mean dwell time of the last pages that were left, at most so many; NaN where there is none."""
    known = max(step - (0 if examples.current_page_left else 1), 0)  # how many dwell times are known
    count = min(known, pages)
    if not count:
        return np.full(len(examples), np.nan)
    mean = (examples.opened[:, known] - examples.opened[:, known - count]) / count / 1e6
    return np.where(examples.opened[:, known] < 0, np.nan, mean)  # a session that ends before has none


def _mean(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    return _dwell(examples, step, step)


def _deviation(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    mean, total = _dwell(examples, step, step), np.zeros(len(examples))
    known = max(step - (0 if examples.current_page_left else 1), 0)
    for k in range(1, known + 1):  # column by column: the sum of a row does not depend on how many rows there are
        total += ((examples.opened[:, k] - examples.opened[:, k - 1]) / 1e6 - mean) ** 2
    deviation: Floats = np.sqrt(total / max(known, 1))
    return np.where(np.isnan(mean), np.nan, deviation)


def _last(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    return _dwell(examples, step, 1)


# What the customer did before: orders, days since the last one, sessions and devices so far.

_DAY = 86_400e6


def _orders(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    return np.bincount(examples.earlier.owner, examples.earlier.orders, minlength=len(examples)).astype(np.float64)


def _days(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    earlier = examples.earlier
    bought = earlier.orders > 0
    last = np.full(len(examples), -1, np.int64)
    np.maximum.at(last, earlier.owner[bought], earlier.ended[bought])
    return np.where(last >= 0, (examples.began - last) / _DAY, np.nan)


def _devices(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    earlier = examples.earlier
    with_device = earlier.device.codes >= 0
    names = max(len(earlier.device.names), 1)
    pairs = np.unique(earlier.owner[with_device] * names + earlier.device.codes[with_device])
    return np.bincount(pairs // names, minlength=len(examples)).astype(np.float64)


def _sessions(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    return examples.earlier.counts.astype(np.float64)


# Two first-order Markov chains, one of sessions that buy and one of those that do not, as one matrix of log ratios. A
# state is a name's position; then come no text, a text not seen in training, and the start, to which nothing goes back.

SMOOTHING = 1.0


def _learnt_chains(names: list[str], before: Ints, after: Ints, buys: Bools) -> FeatureState:
    """Learn from (n,) transitions: the states that each leaves and goes to, and whether its session buys."""
    states = len(names) + 3
    counts = np.full((2, states, states - 1), SMOOTHING)
    np.add.at(counts, (buys.astype(np.int64), before, after), 1.0)
    probability = counts / counts.sum(axis=2, keepdims=True)
    return {"names": names, "log_ratios": np.log(probability[1] / probability[0]).tolist()}


def _states_of(names: Sequence[str], words: CodedTexts) -> Ints:
    return words.codes_in(names, missing=len(names), unseen=len(names) + 1)


# Page sequence score: whether the page types so far look like those of sessions that buy.


def _learn_page_scores(examples: SessionExamples, rows: Bools) -> FeatureState:
    codes, names = examples.pages.codes[rows], examples.pages.used_names(rows)
    opened = examples.opened[rows, : codes.shape[1]] >= 0
    after = _states_of(names, CodedTexts(examples.pages.names, codes))
    before = np.column_stack([np.full(len(after), len(names) + 2), after[:, :-1]])
    buys = np.broadcast_to(examples.purchase[rows][:, None], after.shape)
    return _learnt_chains(names, before[opened], after[opened], buys[opened])


def _page_score(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    names, log_ratios = state["names"], np.asarray(state["log_ratios"], np.float64)
    total, before = np.zeros(len(examples)), np.full(len(examples), len(names) + 2)
    for k in range(step):
        after = _states_of(names, CodedTexts(examples.pages.names, examples.pages.codes[:, k]))
        total += log_ratios[before, after]
        before = after
    return total / max(step, 1)


# Device sequence score: whether the devices of the customer's earlier sessions look like those before a purchase: one
# chain of the sequences before sessions that buy, one before those that do not. The present session's device is no part
# of it. 0 without earlier sessions.


def _device_transitions(examples: SessionExamples, names: list[str]) -> tuple[Ints, Ints]:
    after = _states_of(names, examples.earlier.device)
    before = np.concatenate([after[:1], after[:-1]])
    before[examples.earlier.offsets[:-1][examples.earlier.counts > 0]] = len(names) + 2
    return before, after


def _learn_device_score(examples: SessionExamples, rows: Bools) -> FeatureState:
    owner, used = examples.earlier.owner, rows[examples.earlier.owner]
    names = examples.earlier.device.used_names(used)
    before, after = _device_transitions(examples, names)
    return _learnt_chains(names, before[used], after[used], examples.purchase[owner[used]])


def _device_score(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    before, after = _device_transitions(examples, state["names"])
    ratios = np.asarray(state["log_ratios"], np.float64)[before, after]
    # bincount adds one after the other: the sum of an example does not depend on the others.
    total = np.bincount(examples.earlier.owner, ratios, minlength=len(examples))
    return total / np.maximum(examples.earlier.counts, 1)


# Switch probability: how likely customers leave the present device before they buy.


def _learn_leaves(examples: SessionExamples, rows: Bools) -> FeatureState:
    earlier = examples.earlier
    used = np.flatnonzero(rows & examples.purchase & (earlier.counts > 0))
    last = CodedTexts(earlier.device.names, earlier.device.codes[earlier.offsets[used + 1] - 1])
    now = CodedTexts(examples.device.names, examples.device.codes[used])
    names = sorted({*last.used_names(), *now.used_names()})
    counts = np.full((len(names), len(names)), SMOOTHING)
    before, after = last.codes_in(names, -1, -1), now.codes_in(names, -1, -1)
    both_known = (before >= 0) & (after >= 0)
    np.add.at(counts, (before[both_known], after[both_known]), 1.0)
    stays = counts.diagonal() / counts.sum(axis=1) if names else np.zeros(0)
    overall = (counts.trace() / counts.sum()) if names else 0.5
    return {"names": names, "leaves": (1 - stays).tolist(), "overall": float(1 - overall)}


def _leaves(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    return _by_device(examples, step, state, "leaves")


# Table 6.7.

FEATURES: tuple[SessionFeature, ...] = (
    SessionFeature("current page dwell time, mean", "session", True, True, "skewed", _mean),
    SessionFeature("current page dwell time, σ", "session", True, True, "skewed", _deviation),
    SessionFeature("page sequence score", "session", True, True, "number", _page_score, _learn_page_scores),
    SessionFeature("number of pages", "session", True, True, "skewed", _pages),
    SessionFeature(
        "channel type", "session", False, False, "category", _position(SessionExamples.known_channel), _names("channel")
    ),
    SessionFeature("start hour", "session", False, False, "cycle", _column("hour"), period=24),
    SessionFeature("week day", "session", False, False, "cycle", _column("weekday", 1), period=7),
    SessionFeature(
        "device type", "session", False, False, "category", _position(SessionExamples.known_device), _names("device")
    ),
    SessionFeature("device conversion rate", "session", False, False, "number", _rate, _learn_rates),
    SessionFeature("number of orders", "history", False, True, "skewed", _orders),
    SessionFeature("days since last purchase", "history", False, True, "skewed", _days),
    SessionFeature("number of sessions", "history", False, False, "skewed", _sessions),
    SessionFeature("number of devices", "history", False, False, "skewed", _devices),
    SessionFeature("device sequence score", "history", False, False, "number", _device_score, _learn_device_score),
    SessionFeature("switch probability", "history", False, False, "number", _leaves, _learn_leaves),
)
"""In the order of the table."""

LIVE_FEATURES: tuple[SessionFeature, ...] = (
    *FEATURES,
    SessionFeature("current page", "session", True, False, "category", _position(_open_page), _names("pages")),
    SessionFeature("items added", "session", True, False, "skewed", _at_step("added")),
    SessionFeature("searches", "session", True, False, "skewed", _at_step("queried")),
    SessionFeature("visitor's earlier sessions", "session", False, False, "skewed", _column("visits")),
)
"""Those of a live model: the table, and what else is known when a page opens."""


def features_of(setting: Setting, feature_set: FeatureSet = "extended") -> tuple[SessionFeature, ...]:
    """The features of a setting, in the order of Table 6.7; anonymous sessions have none of history."""
    return tuple(
        feature
        for feature in FEATURES
        if (feature.scope == "session" or setting == "identified") and (feature.baseline or feature_set == "extended")
    )


LAST = SessionFeature("dwell time of the page before", "session", True, False, "skewed", _last)
"""What a model of sequences reads instead of the mean and the deviation."""


@dataclass(frozen=True)
class LearntFeatures:
    """Features in the order of Table 6.7, and the state of each."""

    features: tuple[SessionFeature, ...]
    states: tuple[FeatureState, ...]

    @classmethod
    def of(
        cls, features: Sequence[SessionFeature], examples: SessionExamples, rows: Bools | None = None
    ) -> LearntFeatures:
        """Learn from examples; `rows` (n,) are the training sessions, all by default."""
        used = np.ones(len(examples), bool) if rows is None else rows
        buys = examples.purchase[used]
        if not buys.any() or buys.all():
            raise VisirError(
                f"{len(buys):,} training sessions, {int(buys.sum()):,} of them with a purchase: nothing to tell apart.",
                hint="draw more sessions, or fewer folds",
                code="nothing-tell-apart",
            )
        return cls(tuple(features), tuple(feature.learn(examples, used) for feature in features))

    def only(self, features: Sequence[SessionFeature]) -> LearntFeatures:
        """Some of the features, with what they learnt."""
        return LearntFeatures(tuple(features), tuple(self.states[self.features.index(each)] for each in features))

    def matrix(self, examples: SessionExamples, step: int) -> Floats:
        """(n, features) at a step, NaN where there is no value; from nothing that is known after the step."""
        known, columns = examples.is_known(step), []
        for feature, state in zip(self.features, self.states, strict=True):
            values = feature.values(examples, step, state)
            columns.append(values if feature.scope == "session" else np.where(known, values, np.nan))
        return np.ascontiguousarray(np.array(columns).T)

    def to_json(self) -> dict[str, Any]:
        """Name → state."""
        return {feature.name: state for feature, state in zip(self.features, self.states, strict=True)}

    @classmethod
    def from_json(cls, states: dict[str, Any], features: Sequence[SessionFeature]) -> LearntFeatures:
        """Back from `to_json`: name → state; `features` are those of this version."""
        by_name = {feature.name: feature for feature in features}
        unknown = [name for name in states if name not in by_name]
        if unknown:
            raise VisirError(
                f"unknown features: {', '.join(unknown)}.",
                hint="was the model saved by a newer visir?",
                code="unknown-features",
            )
        return cls(tuple(by_name[name] for name in states), tuple(states.values()))


__all__ = [
    "FEATURES",
    "FEATURE_SETS",
    "LIVE_FEATURES",
    "FeatureSet",
    "FeatureState",
    "LearntFeatures",
    "SessionFeature",
    "features_of",
]
