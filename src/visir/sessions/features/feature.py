"""A feature: one entry that says what it is, what it learns, and its value at a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from visir.sessions.records import Bools, Floats, SessionExamples

FeatureState = dict[str, Any]
"""What a feature learnt: JSON, so that a saved model needs no pickle."""

Kind = Literal["number", "skewed", "category", "cycle"]
"""How a model that adds or measures distances should read it (`predict.encoding`); trees take all as they are."""


def _nothing(examples: SessionExamples, rows: Bools) -> FeatureState:
    return {}


@dataclass(frozen=True)
class SessionFeature:
    """One row of Table 6.7.

    Args:
        name: As in the table.
        scope: "session", or "history" (identified customers only).
        dynamic: Whether it changes during a session.
        baseline: Whether it belongs to the baseline set too.
        kind: How models read it.
        values: (examples, step, state) → (n,) floats, NaN where there is none; from nothing that is known after `step`.
        learn: (examples, rows) → what the training rows teach; it sees no label of another row.
        period: Of a "cycle" (24 hours, 7 weekdays).
    """

    name: str
    scope: Literal["session", "history"]
    dynamic: bool
    baseline: bool
    kind: Kind
    values: Callable[[SessionExamples, int, FeatureState], Floats]
    learn: Callable[[SessionExamples, Bools], FeatureState] = _nothing
    period: int = 0
