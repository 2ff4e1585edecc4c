"""Two first-order Markov chains, one of sessions that buy and one of those that do not, as one matrix of log ratios.

A start state comes before the first, so that a sequence of one state has a score too. Each row is smoothed by
`SMOOTHING` more of every transition, also to states never seen. A score is the mean log likelihood ratio per
transition, the first included:

    score(s_1 … s_k) = 1/k Σ_i log P_buys(s_i | s_(i-1)) / P_buys_not(s_i | s_(i-1))

(thesis Table 6.7, "page sequence score"; the sum instead of the mean would mostly say how long the sequence is.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from visir.sessions.features.feature import FeatureState
from visir.sessions.records import Bools, CodedTexts, Floats, Ints

SMOOTHING = 1.0


def learn_chains(names: Sequence[str], before: Ints, after: Ints, buys: Bools) -> FeatureState:
    """Learn the two chains."""
    # before: (n,) the state that each transition leaves, see `states_of`.
    # after: (n,) the state that each transition goes to.
    # buys: (n,) whether it is of a session that buys.
    states = len(names) + 3
    counts = np.full((2, states, states - 1), SMOOTHING)  # nothing goes back to the start, which is the last state
    np.add.at(counts, (buys.astype(np.int64), before, after), 1.0)
    probability = counts / counts.sum(axis=2, keepdims=True)
    return {"names": list(names), "log_ratios": np.log(probability[1] / probability[0]).tolist()}


def states_of(names: Sequence[str], words: CodedTexts) -> Ints:
    """The state of each text: its position in `names`, then one state for no text, then one for a text not seen in
    training."""
    return words.codes_in(names, missing=len(names), unseen=len(names) + 1)


def start_state(names: Sequence[str]) -> int:
    """The state before the first."""
    return len(names) + 2


def log_ratios(state: FeatureState) -> Floats:
    """(states, states - 1) log ratio of the probabilities of each transition."""
    return np.asarray(state["log_ratios"], np.float64)
