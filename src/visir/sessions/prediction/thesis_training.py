"""Training by the protocol of the thesis: long sessions, six classifiers with class weights, a model for each setting.

It is the study's model, saved. Its probabilities are brought to the share of purchases among all sessions that reach a
step (`base_rates`), which assumes that shorter sessions look like those it learnt from. On real logs they do not: for
scores of a shop's sessions there is the live protocol (`live_model`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from visir.errors import ConfigurationError, VisirError, nearest, raise_faults
from visir.sessions.examples import (
    MIN_PAGES,
    SETTINGS,
    CountedPages,
    NoSessionError,
    Sample,
    Setting,
    SettingFrom,
    draw,
)
from visir.sessions.features import FEATURE_SETS, FeatureSet, LearntFeatures, features_of
from visir.sessions.prediction.base_rates import base_rates, rate_at
from visir.sessions.prediction.models import MODELS, fit
from visir.sessions.prediction.purchase_model import SettingModel
from visir.sessions.prediction.purchase_use import use_by_samples
from visir.sessions.records import SessionExamples


@dataclass(frozen=True)
class ThesisProtocol:
    """What the thesis leaves open, or a study varies."""

    # "anonymous", "identified", or both: a customer who logs in then changes the model.
    settings: Sequence[Setting] = SETTINGS
    min_pages: int = MIN_PAGES  # pages that a session must have (see `examples.Sample`)
    counted_pages: CountedPages = "before order"  # which pages count
    setting_from: SettingFrom = "start"  # what the setting follows from
    features: FeatureSet = "extended"  # "baseline" or "extended", the feature set


def train_thesis(
    sessions: str | Path, model: str, protocol: ThesisProtocol, *, n: int | None = None, seed: int = 0
) -> tuple[dict[str, SettingModel], dict[str, Any]]:
    """Train a classifier for each setting and step."""
    # A setting of which no session is long enough is left out with a warning, as long as another one can be trained.
    import sklearn.ensemble  # loads OpenMP, which must be there to be limited
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    faults = [
        f"unknown {kind} {value!r} ({nearest(value, choices)})"
        for kind, value, choices in (("model", model, MODELS), ("features", protocol.features, FEATURE_SETS))
        if value not in choices
    ]
    raise_faults(ConfigurationError, "train a purchase model", faults)
    samples = [
        Sample(setting, n, seed, protocol.min_pages, protocol.counted_pages, protocol.setting_from)
        for setting in protocol.settings
    ]
    examples_by_sample = _drawn(sessions, samples)
    rates = base_rates(sessions)
    trained: tuple[Setting, ...] = tuple(sample.setting for sample in examples_by_sample)
    parts: dict[str, SettingModel] = {}
    drawn: dict[str, Any] = {}
    for sample, examples in examples_by_sample.items():
        learnt = LearntFeatures.of(features_of(sample.setting, protocol.features), examples)
        scored: tuple[Setting, ...] = SETTINGS if trained == ("anonymous",) else (sample.setting,)
        steps = []
        with threadpool_limits(1):  # on so few rows threads wait for each other: five times the processor time
            for step in sample.steps:
                matrix = learnt.matrix(examples, step)
                fitted = fit(model, learnt.features, learnt.states, matrix, examples.purchase, seed=seed)
                steps.append(replace(fitted, base_rate=rate_at(rates, scored, step)))
        parts[sample.setting] = SettingModel(learnt, tuple(steps))
        drawn[sample.setting] = {"sessions": len(examples), "purchases": int(examples.purchase.sum())}
    card = {
        "features": protocol.features,
        "samples": [sample.to_dict() for sample in examples_by_sample],
        "drawn": drawn,
        "purchases": use_by_samples(
            sessions,
            {sample.setting: examples for sample, examples in examples_by_sample.items()},
            samples[0],
            max(len(part.learnt.features) for part in parts.values()),
        ).to_dict(),
        "base_rates": {setting: [fitted.base_rate for fitted in part.steps] for setting, part in parts.items()},
        "versions": {"scikit-learn": sklearn.__version__},
    }
    return parts, card


def _drawn(sessions: str | Path, samples: Sequence[Sample]) -> dict[Sample, SessionExamples]:
    """The examples of each sample; one without any is left out with a warning, unless there is no other."""
    examples: dict[Sample, SessionExamples] = {}
    missing: list[VisirError] = []
    for sample in samples:
        try:
            drawn = draw(sessions, sample)
        except NoSessionError as fault:
            missing.append(fault)
            continue
        buyers = int(drawn.purchase.sum())
        if 0 < buyers < len(drawn):
            examples[sample] = drawn
        else:
            same_outcome = NoSessionError(
                f"{sessions}: of {len(drawn):,} {sample.setting} sessions of {sample.min_pages} pages {buyers:,} buy: "
                "nothing to tell apart.",
                hint="learn from shorter sessions too (--min-pages), or from a longer log",
            )
            missing.append(same_outcome)
    if not examples:
        raise missing[0]
    for lacking in missing:
        warnings.warn(f"{lacking.message} No model for it. {lacking.hint}", stacklevel=4)
    return examples
