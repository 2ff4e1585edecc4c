"""Scoring a stream in one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.sessions.definition import LogMapping
from visir.sessions.examples import MIN_PAGES, SETTINGS, CountedPages, DwellTimes, Sample, Setting, SettingFrom
from visir.sessions.prediction.live import Event, LiveScorer, Score
from visir.sessions.prediction.models import MODELS, SCHEMES, Scheme
from visir.sessions.prediction.purchase_model import PurchaseModel, load_model
from visir.sessions.prediction.stream_events import read_stream
from visir.sessions.prediction.study import StudyPlan, load_study, run_study
from visir.sessions.prediction.summary import Summary, summarise

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


# The prediction study in one call.


def predict(
    sessions: str | Path,
    out: str | Path,
    *,
    settings: Sequence[Setting] = SETTINGS,
    n: int | Mapping[Setting, int] | None = None,
    models: Sequence[str] = MODELS,
    folds: int = 10,
    schemes: Sequence[Scheme] = SCHEMES,
    min_pages: int = MIN_PAGES,
    counted_pages: CountedPages = "before order",
    setting_from: SettingFrom = "start",
    dwell_times: DwellTimes = "left pages",
    seed: int = 0,
    jobs: int | None = None,
) -> Summary:
    """Compare models and feature sets at every step of a session (thesis section 6.5).

    Args:
        sessions: A folder that `visir.sessions.make` wrote.
        out: The study's folder; an interrupted study goes on in it.
        settings: "anonymous", "identified", or both.
        n: So many sessions for each setting, or by setting; the thesis has 22,982 anonymous and 6,319 identified.
        models: Among "rf", "lr", "knn", "svm", "mlp", "gbdt".
        folds: Folds of the cross-validation.
        schemes: How sessions are split: "grouped", "temporal", "ungrouped".
        min_pages: Pages that a session must have; steps end two before.
        counted_pages: Which pages count.
        setting_from: What the setting follows from.
        dwell_times: Which dwell times are known at a step; see `visir.sessions.features.learnt_features`.
        seed: Of samples, folds and models.
        jobs: Processes; by default one per core.

    Returns:
        Means over folds, and what more features bring, with intervals.

    Raises:
        ConfigurationError: Values do not fit; all faults are listed.
        VisirError: No session qualifies.

    Example:
        >>> from visir.sessions import generate, make
        >>> _ = generate("shop", 1000)
        >>> sessions = make("shop/events", "sessions", mapping="shop/mapping.toml")
        >>> summary = predict(sessions, "study", settings=["anonymous"], models=["lr"], folds=2, schemes=["grouped"],
        ...                   min_pages=4, jobs=1)
        >>> sorted({row.model for row in summary.rows})
        ['lr']
    """
    sizes = dict(n) if isinstance(n, Mapping) else dict.fromkeys(settings, n)
    samples = tuple(
        Sample(setting, sizes.get(setting), seed, min_pages, counted_pages, setting_from, dwell_times)
        for setting in settings
    )
    plan = StudyPlan(samples, tuple(models), folds, tuple(schemes), seed)
    cells = run_study(sessions, plan, out, jobs=jobs)
    return summarise(load_study(out)[0], cells)


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
        events: Dictionaries with the columns of an event (`visir.sessions.definition`), a DataFrame, or an Arrow table;
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
