"""Features with what they learnt, and the matrix of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from visir.errors import VisirError
from visir.sessions.features.feature import FeatureState, SessionFeature
from visir.sessions.records import Bools, Floats, SessionExamples


@dataclass(frozen=True)
class LearntFeatures:
    """Features in the order of Table 6.7, and the state of each."""

    features: tuple[SessionFeature, ...]
    states: tuple[FeatureState, ...]

    @classmethod
    def of(
        cls, features: Sequence[SessionFeature], examples: SessionExamples, rows: Bools | None = None
    ) -> LearntFeatures:
        """Learn from examples.

        Args:
            features: What to learn.
            examples: n sessions.
            rows: (n,) the training sessions; all by default.

        Raises:
            VisirError: The training sessions do not hold both outcomes.
        """
        used = np.ones(len(examples), bool) if rows is None else rows
        buys = examples.purchase[used]
        if not buys.any() or buys.all():
            raise VisirError(
                f"{len(buys):,} training sessions, {int(buys.sum()):,} of them with a purchase: nothing to tell apart.",
                hint="draw more sessions, or fewer folds",
                code="nothing-tell-apart",
            )
        return cls(tuple(features), tuple(feature.learn(examples, used) for feature in features))

    def matrix(self, examples: SessionExamples, step: int) -> Floats:
        """(n, features) at a step, NaN where there is no value; from nothing that is known after the step."""
        columns = [
            feature.values(examples, step, state) for feature, state in zip(self.features, self.states, strict=True)
        ]
        return np.ascontiguousarray(np.array(columns).T)

    def to_json(self) -> dict[str, Any]:
        """Name → state."""
        return {feature.name: state for feature, state in zip(self.features, self.states, strict=True)}

    @classmethod
    def from_json(cls, states: dict[str, Any], features: Sequence[SessionFeature]) -> LearntFeatures:
        """Back from `to_json`.

        Args:
            states: Name → state.
            features: The features of this version.

        Raises:
            VisirError: A name is not among `features`.
        """
        by_name = {feature.name: feature for feature in features}
        unknown = [name for name in states if name not in by_name]
        if unknown:
            raise VisirError(
                f"unknown features: {', '.join(unknown)}.",
                hint="was the model saved by a newer visir?",
                code="unknown-features",
            )
        return cls(tuple(by_name[name] for name in states), tuple(states.values()))
