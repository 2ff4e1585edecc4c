"""The model of live sessions: at every step it learns from all sessions that reach the step, long or short.

Three classifiers, all without class weights, so that their chances need no correction:

- "lr": a logistic regression for each step (`logistic`).
- "gbdt": boosted trees over the sessions of all steps, with the step as a feature (`trees`).
- "blend": the mean of the two log-odds; the default.

A step where the training sessions have one outcome gets their share. docs/background/purchase-intent.md has what was
measured: regressions are better one by one, trees together; sigmoids fitted on later sessions (Platt) made it worse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from visir.sessions.features import LIVE_FEATURES, LearntFeatures
from visir.sessions.prediction.encoding import for_trees
from visir.sessions.prediction.folds import assign_folds, group_names, people_of
from visir.sessions.prediction.logistic import FOLDS, StepLogistic
from visir.sessions.prediction.trees import LEAF_ROWS, BoostedTrees
from visir.sessions.records import STEPS, Bools, Floats, SessionExamples


@dataclass(frozen=True)
class LiveModel:
    """A model of all sessions."""

    learnt: LearntFeatures  # features with what they learnt
    rates: tuple[float, ...]  # share of the training sessions that buy, for each step from 0
    regressions: tuple[StepLogistic | None, ...]  # for each step; None where there is none
    trees: BoostedTrees | None  # of all steps; None where there are none

    @property
    def steps(self) -> range:
        """The steps that can be asked for."""
        return range(len(self.rates))

    @classmethod
    def fit(cls, classifier: str, examples: SessionExamples, rows: Bools, *, seed: int = 0) -> LiveModel:
        """Learn from sessions."""
        # rows: (n,) the training sessions.
        learnt = LearntFeatures.of(LIVE_FEATURES, examples, rows)
        fold = _folds(examples, rows, seed)
        rates: list[float] = []
        regressions: list[StepLogistic | None] = []
        matrices: list[Floats] = []
        outcomes: list[Bools] = []
        for step in range(STEPS + 1):
            reached = rows & (examples.reached >= step)
            purchase = examples.purchase[reached]
            if not len(purchase):
                break
            rates.append((float(purchase.sum()) + 0.5) / (len(purchase) + 1))
            matrix = learnt.matrix(examples, step)[reached]
            has_both = bool(purchase.any()) and not bool(purchase.all())
            fits = has_both and classifier != "gbdt"
            regressions.append(
                StepLogistic.fit(learnt.features, learnt.states, matrix, purchase, fold[reached]) if fits else None
            )
            matrices.append(matrix)
            outcomes.append(purchase)
        trees = None
        if classifier != "lr" and sum(map(len, outcomes)) >= 2 * LEAF_ROWS:
            trees = BoostedTrees.fit(for_trees(np.concatenate(matrices)), np.concatenate(outcomes), seed=seed)
        return cls(learnt, tuple(rates), tuple(regressions), trees)

    def probability(self, examples: SessionExamples, step: int) -> Floats:
        """(n,) chance that each session ends with a purchase, from nothing that is known after the step."""
        matrix = self.learnt.matrix(examples, step)
        regression, parts = self.regressions[step], []
        if regression is not None:
            parts.append(regression.log_odds(self.learnt.features, self.learnt.states, matrix))
        if self.trees is not None:
            parts.append(self.trees.log_odds(for_trees(matrix)))
        if not parts:
            return np.full(len(examples), self.rates[step])
        chance: Floats = 1 / (1 + np.exp(-sum(parts) / len(parts)))
        return chance

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a saved model."""
        return {
            "learnt": self.learnt.to_json(),
            "rates": list(self.rates),
            "regressions": [None if step is None else step.to_json() for step in self.regressions],
            "trees": None if self.trees is None else self.trees.to_json(),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> LiveModel:
        """Back from `to_json`."""
        return cls(
            LearntFeatures.from_json(values["learnt"], LIVE_FEATURES),
            tuple(values["rates"]),
            tuple(None if step is None else StepLogistic.from_json(step) for step in values["regressions"]),
            None if values["trees"] is None else BoostedTrees.from_json(values["trees"]),
        )


def _folds(examples: SessionExamples, rows: Bools, seed: int) -> Any:
    """(n,) the fold of each session; a person is in one. -1 for what is not trained on."""
    people = people_of(examples)
    names, group = np.unique(people[rows], return_inverse=True)
    fold = np.full(len(examples), -1)
    texts = group_names(people, examples)
    fold[rows] = assign_folds(group, [texts[name] for name in names], examples.purchase[rows], FOLDS, seed)
    return fold
