"""What a live classifier is, and which there are: a new one is a file, and a line in `CLASSIFIERS`.

A classifier answers from the features of a step. One that reads a session as a sequence (`SequenceClassifier`) also
goes on from the state that it had a step before: in a stream a page costs one step, however long the session is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from visir.sessions.prediction.gru import GruModel
from visir.sessions.prediction.live_model import LiveModel
from visir.sessions.records import Bools, Floats, SessionExamples


class LiveClassifier(Protocol):
    """A fitted model of all sessions."""

    @property
    def rates(self) -> tuple[float, ...]:
        """Share of the training sessions that buy, for each step from 0."""

    @property
    def steps(self) -> range:
        """The steps that can be asked for."""

    def probability(self, examples: SessionExamples, step: int) -> Floats:
        """(n,) chance that each session ends with a purchase, from nothing that is known after the step."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a saved model."""


@runtime_checkable
class SequenceClassifier(LiveClassifier, Protocol):
    """A live classifier with a state that goes on from step to step."""

    def start(self, n: int) -> Floats:
        """(n, hidden) the states of n sessions before step 0."""

    def advance(self, states: Floats, examples: SessionExamples, step: int) -> tuple[Floats, Floats]:
        """The states after a step, and the chances there."""
        # states: (n, hidden) those after the step before.
        # Returns: (n, hidden) states, (n,) chances.


class ClassifierKind(NamedTuple):
    """How a classifier is made: `fit(examples, rows, seed)`, and back from its plain values."""

    fit: Callable[[SessionExamples, Bools, int], LiveClassifier]
    from_json: Callable[[dict[str, Any]], LiveClassifier]


def _step_models(name: str) -> ClassifierKind:
    return ClassifierKind(
        lambda examples, rows, seed: LiveModel.fit(name, examples, rows, seed=seed), LiveModel.from_json
    )


CLASSIFIERS: dict[str, ClassifierKind] = {
    "blend": _step_models("blend"),
    "lr": _step_models("lr"),
    "gbdt": _step_models("gbdt"),
    "gru": ClassifierKind(GruModel.fit, GruModel.from_json),
}
"""The first is the default."""
