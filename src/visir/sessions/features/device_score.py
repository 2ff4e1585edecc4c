"""Device sequence score: whether the devices of the customer's earlier sessions look like those before a purchase.

The chains of `chains`, over devices: one of the sequences before sessions that buy, one before those that do not. The
present session's device is no part of it. 0 without earlier sessions.
"""

from __future__ import annotations

import numpy as np

from visir.sessions.features.learnt_features import (
    FeatureState,
    SessionFeature,
    learn_chains,
    log_ratios,
    start_state,
    states_of,
)
from visir.sessions.table_labels import Bools, Floats, Ints, SessionExamples


def _learn(examples: SessionExamples, rows: Bools) -> FeatureState:
    earlier = examples.earlier
    used = rows[earlier.owner]
    names = earlier.device.used_names(used)
    before, after = _transitions(examples, names)
    return learn_chains(names, before[used], after[used], examples.purchase[earlier.owner[used]])


def _score(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    before, after = _transitions(examples, state["names"])
    # bincount adds one after the other: the sum of an example does not depend on the others.
    total = np.bincount(examples.earlier.owner, log_ratios(state)[before, after], minlength=len(examples))
    return np.where(examples.is_known(step), total / np.maximum(examples.earlier.counts, 1), np.nan)


def _transitions(examples: SessionExamples, names: list[str]) -> tuple[Ints, Ints]:
    after = states_of(names, examples.earlier.device)
    before = np.concatenate([after[:1], after[:-1]])
    first = examples.earlier.offsets[:-1][examples.earlier.counts > 0]
    before[first] = start_state(names)
    return before, after


SCORE = SessionFeature("device sequence score", "history", False, False, "number", _score, _learn)
