"""Training a purchase model: the sessions before a moment teach it, those after it say how good it is.

Two protocols. "live" is for a shop's scores: all sessions, short or long (`live_model`), with a report on later
sessions. "thesis" is the study's: sessions of at least twelve pages (`thesis_training`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo

import numpy as np

from visir.errors import ConfigurationError, VisirError, nearest, raise_faults, require
from visir.sessions.examples import CountedPages, EverySession, Setting, SettingFrom, draw, idle_minutes
from visir.sessions.features import FeatureSet
from visir.sessions.prediction.folds import people_of, temporal_split
from visir.sessions.prediction.live_classifier import CLASSIFIERS
from visir.sessions.prediction.live_report import live_report
from visir.sessions.prediction.logistic import FOLDS
from visir.sessions.prediction.models import MODELS
from visir.sessions.prediction.purchase_model import PurchaseModel
from visir.sessions.prediction.purchase_use import use_by_live_model
from visir.sessions.prediction.thesis_training import ThesisProtocol, train_thesis
from visir.sessions.records import Bools, SessionExamples
from visir.storage import read_written_json

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
        sessions: A folder that `visir.sessions.make` wrote.
        model: The classifier. Live: "blend" (the default), "lr", "gbdt" or "gru" (needs PyTorch). Thesis: "rf", "lr",
            "knn", "svm", "mlp" or "gbdt" (the default).
        protocol: "live": all sessions at every step, for scores of a shop. "thesis": the study's, sessions of at least
            twelve pages.
        test_from: Live: sessions that begin at this moment or later are the test: a date or a time, ISO 8601; in the
            log's zone where it names none.
        test_share: Live: without `test_from`, this share of the sessions, the latest, is the test. Default: 0.3.
        refit: Live: after the test, train again on all sessions. The report is that of the model before.
        n: At most so many sessions (thesis: for each setting); all by default.
        seed: Of the sample and the model.
        settings: Thesis: "anonymous", "identified", or both (the default).
        min_pages: Thesis: pages that a session must have. Default: 12.
        counted_pages: Thesis: which pages count. Default: "before order".
        setting_from: Thesis: what the setting follows from. Default: "start".
        features: Thesis: "baseline" or "extended" (the default).

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
    declared = read_written_json(Path(sessions) / "counts.json")["declared"]
    common = {"protocol": protocol, "seed": seed, "zone": declared["zone"], "idle_minutes": idle}
    if protocol == "thesis":
        own = ThesisProtocol(**{name: value for name, value in thesis.items() if value is not None})
        parts, card = train_thesis(sessions, model or "gbdt", own, n=n, seed=seed)
        return PurchaseModel(dict(parts), {"model": model or "gbdt", **common, **card})
    return _train_live(
        sessions, model or "blend", common, _cut(test_from, declared["zone"]), test_share, refit, n, seed
    )


def _train_live(
    sessions: str | Path,
    model: str,
    common: dict[str, Any],
    cut: int | None,
    test_share: float | None,
    refit: bool,
    n: int | None,
    seed: int,
) -> PurchaseModel:
    sample = EverySession(n, seed)
    examples = draw(sessions, sample)
    if cut is None:
        share = TEST_SHARE if test_share is None else test_share
        cut = int(np.quantile(examples.began, 1 - share, method="lower"))
    split = temporal_split(examples, cut=cut, idle_minutes=common["idle_minutes"])
    moment = datetime.fromtimestamp(cut // 1_000_000, UTC).isoformat()
    if not (split.test & (examples.reached >= 1)).any() or not split.train.any():
        began, ended = (datetime.fromtimestamp(at // 1_000_000, UTC).isoformat() for at in examples.began[[0, -1]])
        raise VisirError(
            f"{sessions}: {int(split.train.sum()):,} sessions to learn from before {moment}, "
            f"{int(split.test.sum()):,} to test on after it; they begin from {began} to {ended}.",
            hint=_OTHER_PART,
            code="sessions-learn-before-test",
        )
    _check_training(sessions, examples, split.train, moment)
    fitted = CLASSIFIERS[model].fit(examples, split.train, seed)
    report = live_report(fitted, examples, split.train, split.test, test_from=cut)
    drawn = {"train": split.train, "test": split.test}
    if refit:
        everything = np.ones(len(examples), bool)
        fitted = CLASSIFIERS[model].fit(examples, everything, seed)
        drawn = {"train": everything, "test": split.test}
    counts = {
        name: {"sessions": int(rows.sum()), "purchases": int(examples.purchase[rows].sum())}
        for name, rows in drawn.items()
    }
    use = use_by_live_model(sessions, examples, drawn["train"], split.test, drawn_all=n is None)
    own = {
        "sample": sample.to_dict(),
        "drawn": counts,
        "purchases": use.to_dict(),
        "test_from": moment,
        "refit": refit,
        "base_rates": {"all": list(fitted.rates)},
        "report": report.to_json(),
    }
    return PurchaseModel({"all": fitted}, {"model": model, **common, **own})


def _check_training(sessions: str | Path, examples: SessionExamples, rows: Bools, moment: str) -> None:
    """Refuse sessions of too few people, or of one outcome."""
    people, buys = len(np.unique(people_of(examples)[rows])), int(examples.purchase[rows].sum())
    faults = [f"they are of {people:,} people; at least {FOLDS} are needed"] * (people < FOLDS)
    if buys in (0, rows.sum()):
        faults.append(f"{'none' if not buys else 'every one'} has a purchase: nothing to tell apart")
    raise_faults(
        VisirError, f"{sessions}: {int(rows.sum()):,} sessions to learn from before {moment}", faults, hint=_OTHER_PART
    )


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
    if isinstance(moment, str):
        try:
            at = datetime.fromisoformat(moment)
        except ValueError as fault:
            raise ConfigurationError(
                f"test_from {moment!r}: not a date or a time.",
                hint="ISO 8601: 2025-03-04, or 2025-03-04T12:00",
                code="not-date-time",
            ) from fault
    else:
        at = moment if isinstance(moment, datetime) else datetime.combine(moment, time())
    at = at if at.tzinfo is not None else at.replace(tzinfo=ZoneInfo(zone))
    return round(at.timestamp() * 1_000_000)
