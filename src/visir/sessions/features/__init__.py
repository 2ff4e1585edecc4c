"""The features of Table 6.7, one file per kind; `features_of` gives the sets of a setting."""

from __future__ import annotations

from typing import Literal

from visir.sessions.examples import Setting
from visir.sessions.features import context, conversion, device_score, dwell, history, moment, page_score, switching
from visir.sessions.features.feature import FeatureState, SessionFeature
from visir.sessions.features.learnt_features import LearntFeatures

FeatureSet = Literal["baseline", "extended"]
FEATURE_SETS: tuple[FeatureSet, ...] = ("baseline", "extended")

FEATURES: tuple[SessionFeature, ...] = (
    dwell.MEAN,
    dwell.DEVIATION,
    page_score.SCORE,
    context.PAGES,
    context.CHANNEL,
    context.HOUR,
    context.WEEKDAY,
    context.DEVICE,
    conversion.RATE,
    history.ORDERS,
    history.DAYS,
    history.SESSIONS,
    history.DEVICES,
    device_score.SCORE,
    switching.SWITCH,
)
"""In the order of the table."""

LIVE_FEATURES: tuple[SessionFeature, ...] = (*FEATURES, moment.PAGE, moment.ADDED, moment.QUERIED, moment.VISITS)
"""Those of a live model: the table, and what else is known when a page opens."""


def features_of(setting: Setting, feature_set: FeatureSet = "extended") -> tuple[SessionFeature, ...]:
    """The features of a setting, in the order of Table 6.7.

    Args:
        setting: Anonymous sessions have no features of history.
        feature_set: The baseline set holds the features that the table ticks.
    """
    return tuple(
        feature
        for feature in FEATURES
        if (feature.scope == "session" or setting == "identified") and (feature.baseline or feature_set == "extended")
    )


__all__ = [
    "FEATURES",
    "FEATURE_SETS",
    "LIVE_FEATURES",
    "FeatureSet",
    "FeatureState",
    "LearntFeatures",
    "SessionFeature",
    "features_of",
]
