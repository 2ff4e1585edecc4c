"""Training a purchase model: the sessions before a moment teach it, those after it say how good it is.

Two protocols. "live" is for a shop's scores: all sessions, short or long, with a report on later sessions. "thesis" is
the study's: sessions of at least twelve pages, a model for each setting.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo

import numpy as np

from visir.errors import ConfigurationError, VisirError, nearest, raise_faults, require
from visir.sessions.examples import (
    KNOWN_AT,
    SETTINGS,
    CountedPages,
    EverySession,
    NoSessionError,
    Sample,
    Setting,
    SettingFrom,
    draw,
    idle_minutes,
    slices,
)
from visir.sessions.features import FEATURE_SETS, FeatureSet, LearntFeatures, features_of
from visir.sessions.prediction.live_report import live_report
from visir.sessions.prediction.models import CLASSIFIERS, FOLDS, MODELS, fit, people_of, smoothed, temporal_split
from visir.sessions.prediction.purchase_model import PurchaseModel, SettingModel, use_by_live_model, use_by_samples
from visir.sessions.source import duckdb_engine
from visir.sessions.table_labels import STEPS, Bools, SessionExamples
from visir.storage import read_written_json

# Training by the protocol of the thesis: long sessions, six classifiers with class weights, a model for each setting.

# Base rates: how many of all sessions that reach a step buy.

BaseRates = dict[tuple[Setting, int], tuple[int, int]]
"""(setting, step) → (sessions that reach the step without an order before, those of them that buy)."""


def base_rates(folder: str | Path) -> BaseRates:
    """Count the sessions of a folder that reach each step, and those of them that buy."""
    # A session reaches step k when it opens its k-th page before its first order; every session reaches step 0. It is
    # identified at a step when a customer was known by then.
    folder, walk = Path(folder), "PARTITION BY visitor, session ORDER BY place"
    rates: BaseRates = {(setting, step): (0, 0) for setting in SETTINGS for step in range(STEPS + 1)}
    with duckdb_engine(folder, "Counting sessions", enable_external_file_cache=False) as engine:
        for sessions, events in slices(engine, folder):
            query = f"""
WITH walked AS (
  SELECT visitor, session, action, customer, row_number() OVER ({walk}) AS nth,
    sum(CASE WHEN action = 'page' THEN 1 ELSE 0 END) OVER ({walk} ROWS UNBOUNDED PRECEDING) AS step,
    max(CASE WHEN action = 'order' THEN 1 ELSE 0 END) OVER ({walk} ROWS UNBOUNDED PRECEDING) AS ordered
  FROM {events}
),
reached AS (
  SELECT visitor, session, count(*) FILTER (WHERE action = 'page' AND ordered = 0) AS pages,
    min({KNOWN_AT}) FILTER (WHERE customer IS NOT NULL) AS customer_step
  FROM walked GROUP BY visitor, session
)
SELECT CASE WHEN r.customer_step <= k.step THEN 'identified' ELSE 'anonymous' END, k.step, count(*),
  count(*) FILTER (WHERE s.purchase)
FROM {sessions} s JOIN reached r ON s.visitor = r.visitor AND s.session = r.session
CROSS JOIN (SELECT unnest(range({STEPS + 1})) AS step) k
WHERE r.pages >= k.step
GROUP BY ALL"""
            for setting, step, count, bought in engine.execute(query).fetchall():
                before = rates[setting, step]
                rates[setting, step] = (before[0] + count, before[1] + bought)
    return rates


def rate_at(rates: BaseRates, settings: tuple[Setting, ...], step: int) -> float | None:
    """The share of sessions in these settings that buy, of those that reach a step; None when none reaches it."""
    sessions, purchases = (sum(rates[setting, step][place] for setting in settings) for place in (0, 1))
    return smoothed(purchases, sessions) if sessions else None


def _train_thesis(
    sessions: str | Path,
    model: str,
    n: int | None,
    seed: int,
    *,
    settings: Sequence[Setting] = SETTINGS,
    features: FeatureSet = "extended",
    **reading: Any,
) -> tuple[dict[str, SettingModel], dict[str, Any]]:
    """A classifier for each setting and step, and what the card says of them."""
    # A setting of which no session is long enough is left out with a warning, as long as another one can be trained.
    import sklearn.ensemble  # loads OpenMP, which must be there to be limited
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    samples = [Sample(setting, n, seed, **reading) for setting in settings]
    drawn = _drawn(sessions, samples)
    rates = base_rates(sessions)
    parts: dict[str, SettingModel] = {}
    alone = [sample.setting for sample in drawn] == ["anonymous"]  # an anonymous model alone scores every session
    for sample, examples in drawn.items():
        learnt = LearntFeatures.of(features_of(sample.setting, features), examples)
        scored: tuple[Setting, ...] = SETTINGS if alone else (sample.setting,)
        steps = []
        with threadpool_limits(1):  # on so few rows threads wait for each other: five times the processor time
            for step in sample.steps:
                fitted = fit(model, learnt, learnt.matrix(examples, step), examples.purchase, seed=seed)
                steps.append(replace(fitted, base_rate=rate_at(rates, scored, step)))
        parts[sample.setting] = SettingModel(learnt, tuple(steps))
    by_setting = {sample.setting: examples for sample, examples in drawn.items()}
    most = max(len(part.learnt.features) for part in parts.values())
    return parts, {
        "features": features,
        "samples": [sample.to_dict() for sample in drawn],
        "drawn": {name: _counts(each.purchase) for name, each in by_setting.items()},
        "purchases": use_by_samples(sessions, by_setting, samples[0], most).to_dict(),
        "base_rates": {setting: [fitted.base_rate for fitted in part.steps] for setting, part in parts.items()},
        "versions": {"scikit-learn": sklearn.__version__},
    }


def _counts(purchase: Bools) -> dict[str, int]:
    return {"sessions": len(purchase), "purchases": int(purchase.sum())}


def _drawn(sessions: str | Path, samples: Sequence[Sample]) -> dict[Sample, SessionExamples]:
    """The examples of each sample; one without any is left out with a warning, unless there is no other."""
    examples: dict[Sample, SessionExamples] = {}
    missing: list[VisirError] = []
    for sample in samples:
        try:
            drawn = draw(sessions, sample)
            buyers = int(drawn.purchase.sum())
            if buyers in (0, len(drawn)):
                raise NoSessionError(
                    f"{sessions}: of {len(drawn):,} {sample.setting} sessions of {sample.min_pages} pages {buyers:,} "
                    "buy: nothing to tell apart.",
                    hint="learn from shorter sessions too (--min-pages), or from a longer log",
                )
            examples[sample] = drawn
        except NoSessionError as fault:
            missing.append(fault)
    if not examples:
        raise missing[0]
    for lacking in missing:
        warnings.warn(f"{lacking.message} No model for it. {lacking.hint}", stacklevel=4)
    return examples


Protocol = Literal["live", "thesis"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)

TEST_SHARE = 0.3
"""The share of sessions, the latest, that say how good a live model is."""

_OTHER_PART = "another moment (--test-from), or a longer log"


def train(
    sessions: str | Path,
    model: str | None = None,
    *,
    protocol: Protocol = "live",
    test_from: str | date | None = None,
    test_share: float | None = None,
    refit: bool = False,
    n: int | None = None,
    seed: int = 0,
    settings: Sequence[Setting] | None = None,
    min_pages: int | None = None,
    counted_pages: CountedPages | None = None,
    setting_from: SettingFrom | None = None,
    features: FeatureSet | None = None,
) -> PurchaseModel:
    """Train a model that says, page by page, how likely a session ends with a purchase.

    A live model learns from the sessions that were over at a moment. The later ones say how good it is, beside the base
    rate and a plain logistic regression: `model.card["report"]`, and `model` shows it.

    Args:
        sessions: A folder of sessions. `visir.sessions.make` wrote it.
        model: The classifier. Live: "blend" (the default), "lr", "gbdt" or "gru" (needs PyTorch). Thesis: "rf", "lr",
            "knn", "svm", "mlp" or "gbdt" (the default).
        protocol: "live": all sessions at every step, for scores of a shop. "thesis": the study's, sessions of at least
            twelve pages.
        test_from: Test on sessions from this date or time on (ISO 8601). Live; in the log's zone where it names none.
        test_share: Test on this share of sessions, the latest. Default: 0.3. Live, without `test_from`.
        refit: After the test, train again on all sessions. Live. The report is that of the model before.
        n: At most so many sessions. Default: all. Thesis: for each setting.
        seed: Of the sample and the model.
        settings: Thesis: "anonymous", "identified", or both (the default).
        min_pages: Pages a session must have. Default: 12. Thesis.
        counted_pages: Which pages count: "before order" (default) or "all". Thesis.
        setting_from: What the setting follows from: "start" (default) or "session". Thesis.
        features: The feature set: "baseline" or "extended" (default). Thesis.

    Raises:
        ConfigurationError: An option is unknown, or of the other protocol; all faults are listed.
        VisirError: The training sessions do not hold both outcomes, or no session is left to test on.

    Example:
        >>> from visir.sessions import generate, make, train
        >>> log = generate("shop", 2000)
        >>> _ = make("shop/events", "sessions", mapping="shop/mapping.toml")
        >>> trained = train("sessions", "lr", test_share=0.25)
        >>> trained.card["drawn"]["train"]["sessions"] > 1000, trained.loses_to
        (True, [])
    """
    require("sklearn", extra="sessions", purpose="Training a purchase model")
    live = {"test_from": test_from, "test_share": test_share, "refit": refit or None}
    thesis: dict[str, Any] = {
        "settings": settings,
        "min_pages": min_pages,
        "counted_pages": counted_pages,
        "setting_from": setting_from,
        "features": features,
    }
    _check(protocol, model, live, thesis, n=n, seed=seed)
    idle = idle_minutes(Path(sessions))
    zone = read_written_json(Path(sessions) / "counts.json")["declared"]["zone"]
    common = {"protocol": protocol, "seed": seed, "zone": zone, "idle_minutes": idle}
    if protocol == "thesis":
        model = model or "gbdt"
        given = {name: value for name, value in thesis.items() if value is not None}
        parts, own = _train_thesis(sessions, model, n, seed, **given)
        return PurchaseModel(dict(parts), {"model": model, **common, **own})
    model, cut = model or "blend", _cut(test_from, zone)
    examples = draw(sessions, sample := EverySession(n, seed))
    if cut is None:
        cut = int(np.quantile(examples.began, 1 - (test_share or TEST_SHARE), method="lower"))
    split = temporal_split(examples, cut=cut, idle_minutes=idle)
    moment, began, ended = (
        datetime.fromtimestamp(at // 1_000_000, UTC).isoformat() for at in (cut, *examples.began[[0, -1]])
    )
    if not (split.test & (examples.reached >= 1)).any() or not split.train.any():
        raise VisirError(
            f"{sessions}: {int(split.train.sum()):,} sessions to learn from before {moment}, "
            f"{int(split.test.sum()):,} to test on after it; they begin from {began} to {ended}.",
            hint=_OTHER_PART,
            code="sessions-learn-before-test",
        )
    people, buys = len(np.unique(people_of(examples)[split.train])), int(examples.purchase[split.train].sum())
    faults = [f"they are of {people:,} people; at least {FOLDS} are needed"] * (people < FOLDS)
    if buys in (0, split.train.sum()):
        faults.append(f"{'none' if not buys else 'every one'} has a purchase: nothing to tell apart")
    learns = f"{sessions}: {int(split.train.sum()):,} sessions to learn from before {moment}"
    raise_faults(VisirError, learns, faults, hint=_OTHER_PART)
    fitted = CLASSIFIERS[model].fit(model, examples, split.train, seed=seed)
    report, taught = live_report(fitted, examples, split.train, split.test, test_from=cut), split.train
    if refit:
        taught = np.ones(len(examples), bool)
        fitted = CLASSIFIERS[model].fit(model, examples, taught, seed=seed)
    use = use_by_live_model(sessions, examples, taught, split.test, drawn_all=n is None)
    own = {
        "sample": sample.to_dict(),
        "drawn": {name: _counts(examples.purchase[rows]) for name, rows in (("train", taught), ("test", split.test))},
        "purchases": use.to_dict(),
        "test_from": moment,
        "refit": refit,
        "base_rates": {"all": list(fitted.rates)},
        "report": report,
    }
    return PurchaseModel({"all": fitted}, {"model": model, **common, **own})


def _check(
    protocol: str, model: str | None, live: dict[str, Any], thesis: dict[str, Any], *, n: int | None, seed: int
) -> None:
    choices = {"live": CLASSIFIERS, "thesis": MODELS}
    if protocol not in choices:
        raise ConfigurationError(
            f"unknown protocol {protocol!r}", hint=nearest(protocol, PROTOCOLS), code="unknown-protocol"
        )
    faults = [
        f"{name} belongs to the {other} protocol"
        for other, options in (("live", live), ("thesis", thesis))
        for name, value in options.items()
        if value is not None and other != protocol
    ]
    if model is not None and model not in choices[protocol]:
        other = "thesis" if protocol == "live" else "live"
        where = f"of the {other} protocol" if model in choices[other] else nearest(model, choices[protocol])
        faults.append(f"unknown model {model!r} of the {protocol} protocol ({where})")
    features = thesis["features"]
    if features is not None and features not in FEATURE_SETS:
        faults.append(f"unknown features {features!r} ({nearest(features, FEATURE_SETS)})")
    share = live["test_share"]
    if share is not None and not 0 < share < 1:
        faults.append(f"test_share {share}: a share between 0 and 1")
    if share is not None and live["test_from"] is not None:
        faults.append("test_from and test_share: one of them")
    if n is not None and n < 1:
        faults.append(f"n {n}: at least one session")
    if not 0 <= seed < 2**32:
        faults.append(f"seed {seed}: a whole number from 0 to {2**32 - 1}")
    raise_faults(
        ConfigurationError,
        "train a purchase model",
        faults,
        hint='protocol="thesis" (--protocol thesis) has the options of the study; "live" is for all sessions',
    )


def _cut(moment: str | date | None, zone: str) -> int | None:
    """A moment as µs since 1970 (UTC); in the log's zone where it names none."""
    if moment is None:
        return None
    try:
        at = datetime.fromisoformat(str(moment))
    except ValueError as fault:
        raise ConfigurationError(
            f"test_from {moment!r}: not a date or a time.",
            hint="ISO 8601: 2025-03-04, or 2025-03-04T12:00",
            code="not-date-time",
        ) from fault
    at = at if at.tzinfo is not None else at.replace(tzinfo=ZoneInfo(zone))
    return round(at.timestamp() * 1_000_000)
