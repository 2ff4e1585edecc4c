"""Scoring a stream in one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.sessions.mapping import LogMapping
from visir.sessions.prediction.live import Event, LiveScorer, Score
from visir.sessions.prediction.purchase_model import PurchaseModel, load_model
from visir.sessions.prediction.stream_events import read_stream

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def score(
    model: PurchaseModel | str | Path,
    events: Iterable[Event] | pa.Table | pd.DataFrame,
    *,
    history: Any = None,
    mapping: str | Path | LogMapping | None = None,
) -> Iterator[Score]:
    """Score events in the order in which they happened, as a live stream would be scored.

    Args:
        model: A trained model, or the folder of one.
        events: Dictionaries with the columns of an event (`visir.sessions.mapping`), a DataFrame, or an Arrow table;
            times in µs since 1970 (UTC). `Sessions.events()` of another log has them. With a mapping: rows of the log.
        history: A folder of sessions: what visitors and customers did before the events.
        mapping: How rows become events: a preset, a TOML file, or a `LogMapping`; bots are left out as it declares.

    Yields:
        A score when a session begins (step 0), and then whenever a page opens, up to the model's last step or the
        first order.

    Raises:
        ConfigurationError: Events of a table lack the columns `visitor`, `time` or `action`; the first event has an
            unknown action, or a time in seconds or milliseconds; or the mapping does not fit.

    Example:
        >>> from visir.sessions import generate, make, train
        >>> _ = generate("stream", 2000)
        >>> sessions = make("stream/events", "stream-sessions", mapping="stream/mapping.toml")
        >>> scores = list(score(train(sessions, "lr"), sessions.events()))
        >>> scores[0].step, 0 < scores[0].probability < 0.5
        (0, True)
    """
    scorer = LiveScorer(model if isinstance(model, PurchaseModel) else load_model(model))
    if history is not None:
        scorer.remember_sessions(history)
    for chunk in read_stream(events, mapping, scorer.rejected):
        yield from scorer.observe_all(chunk)
