"""How a model answers queries of a text and an image: the rule that composes them, or the model itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from visir.encoders.accepted import check_accepted
from visir.encoders.base import Encoder
from visir.encoders.composed.encoder import ComposedEncoder
from visir.encoders.composed.rule import CompositionRule
from visir.errors import ConfigurationError
from visir.evaluation.text_weight import choose_weight, composed_tasks
from visir.records import Task, Ties
from visir.retrieval.vectors import Similarity

_CHOSEN_ON = re.compile(r"sum\(\s*(?P<split>[A-Za-z][\w.+-]*)\s*\)")


def composed_system(
    given: Any,
    compose: CompositionRule | str | None,
    tasks: Mapping[str, Task],
    source: Any,
    split: str | None,
    *,
    relevance: str | None = None,
    ties: Ties | None = None,
    similarity: Similarity | None = None,
    **encoding: Any,
) -> tuple[Any, str]:
    """The system of an evaluation, with the rule by which it composes queries."""
    # compose: "sum(0.5)", "text", "image"; "sum(val)" chooses the weight on that split; None leaves it to the model.
    if compose is None:
        return given, ""
    if not isinstance(given, Encoder):
        raise ConfigurationError(
            f"compose = {compose!r} goes with a model; given is a {type(given).__name__}.",
            hint="vectors and runs are composed already: leave compose out",
            code="compose-goes-model",
        )
    if not any_of_both(tasks):
        raise ConfigurationError(
            f"compose = {compose!r}: no query and no document of these tasks has a text and an image.",
            hint="leave compose out",
            code="no-query-no-document",
        )
    match = _CHOSEN_ON.fullmatch(str(compose).strip())
    if match is None:
        return ComposedEncoder(given, CompositionRule.parse(compose)), ""
    if match["split"] in (split or "all").split("+") or split in (None, "all"):
        raise ConfigurationError(
            f"compose = {compose!r}: the weight is chosen on {match['split']!r}, which is measured too "
            f"({'split ' + repr(split) if split else 'all splits'}).",
            hint="measure another split: split=…",
            code="weight-chosen-measured-too",
        )
    chosen = choose_weight(
        source,
        given,
        match["split"],
        tasks=list(composed_tasks(tasks)),
        relevance=relevance,
        ties=ties,
        similarity=similarity,
        **encoding,
    )
    return (
        ComposedEncoder(given, CompositionRule.parse(chosen.compose)),
        f"weight chosen on {chosen.split} by {chosen.measure}",
    )


def any_of_both(tasks: Mapping[str, Task]) -> bool:
    """Whether some query or document has a text and an image."""
    return any("text+image" in side.kinds for task in tasks.values() for side in (task.queries, task.documents))


def check_takes(given: Any, tasks: Mapping[str, Task]) -> None:
    """Raise at once what a model cannot encode of the tasks, before it encodes anything."""
    if isinstance(given, Encoder) and not given.precomputed:
        check_accepted(given, [side for task in tasks.values() for side in (task.queries, task.documents)])
