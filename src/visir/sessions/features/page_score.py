"""Page sequence score: whether the page types so far look like those of sessions that buy (see `chains`)."""

from __future__ import annotations

import numpy as np

from visir.sessions.features.chains import learn_chains, log_ratios, start_state, states_of
from visir.sessions.features.feature import FeatureState, SessionFeature
from visir.sessions.records import Bools, CodedTexts, Floats, SessionExamples


def _learn(examples: SessionExamples, rows: Bools) -> FeatureState:
    codes = examples.pages.codes[rows]
    names = examples.pages.used_names(rows)
    opened = examples.opened[rows, : codes.shape[1]] >= 0
    after = states_of(names, CodedTexts(examples.pages.names, codes))
    before = np.column_stack([np.full(len(after), start_state(names)), after[:, :-1]])
    buys = np.broadcast_to(examples.purchase[rows][:, None], after.shape)
    return learn_chains(names, before[opened], after[opened], buys[opened])


def _score(examples: SessionExamples, step: int, state: FeatureState) -> Floats:
    names, table = state["names"], log_ratios(state)
    total = np.zeros(len(examples))
    before = np.full(len(examples), start_state(names))
    for k in range(step):
        after = states_of(names, CodedTexts(examples.pages.names, examples.pages.codes[:, k]))
        total += table[before, after]
        before = after
    return total / max(step, 1)


SCORE = SessionFeature("page sequence score", "session", True, True, "number", _score, _learn)
