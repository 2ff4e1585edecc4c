"""The features of Table 6.7, one file per kind; `features_of` gives the sets of a setting."""

from __future__ import annotations

from typing import Literal

from visir.sessions.examples import Setting
from visir.sessions.features import device_score, learnt_features
from visir.sessions.features.learnt_features import FeatureState, LearntFeatures, SessionFeature

FeatureSet = Literal["baseline", "extended"]
FEATURE_SETS: tuple[FeatureSet, ...] = ("baseline", "extended")

FEATURES: tuple[SessionFeature, ...] = (
    learnt_features.MEAN,
    learnt_features.DEVIATION,
    learnt_features.SCORE,
    learnt_features.PAGES,
    learnt_features.CHANNEL,
    learnt_features.HOUR,
    learnt_features.WEEKDAY,
    learnt_features.DEVICE,
    learnt_features.RATE,
    learnt_features.ORDERS,
    learnt_features.DAYS,
    learnt_features.SESSIONS,
    learnt_features.DEVICES,
    device_score.SCORE,
    learnt_features.SWITCH,
)
"""In the order of the table."""

LIVE_FEATURES: tuple[SessionFeature, ...] = (
    *FEATURES,
    learnt_features.PAGE,
    learnt_features.ADDED,
    learnt_features.QUERIED,
    learnt_features.VISITS,
)
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
