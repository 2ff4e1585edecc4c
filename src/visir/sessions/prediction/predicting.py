"""The prediction study in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from visir.sessions.examples import MIN_PAGES, SETTINGS, CountedPages, DwellTimes, Sample, Setting, SettingFrom
from visir.sessions.prediction.folds import SCHEMES, Scheme
from visir.sessions.prediction.models import MODELS
from visir.sessions.prediction.study import StudyPlan, load_study, run_study
from visir.sessions.prediction.summary import Summary, summarise


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
        dwell_times: Which dwell times are known at a step; see `visir.sessions.features.dwell`.
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
