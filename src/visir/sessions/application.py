"""What the application "sessions" adds to visir: its verbs and its parts of the studies."""

from __future__ import annotations

from visir.plugins import Application, Verb

_HERE = "visir.sessions.experiments"

APPLICATION = Application(
    "sessions",
    verbs=(Verb("sessions", "visir.sessions.cli:app"),),
    experiments={
        "describe": f"{_HERE}.describe:DescribeExperiment",
        "features": f"{_HERE}.features:FeaturesExperiment",
        "predict": f"{_HERE}.predict:PredictExperiment",
    },
    trend_checks={
        "figure-6-2": f"{_HERE}.session_trend_checks:figure_6_2",
        "figure-6-3": f"{_HERE}.session_trend_checks:figure_6_3",
        "figure-6-4": f"{_HERE}.session_trend_checks:figure_6_4",
        "figure-6-5": f"{_HERE}.session_trend_checks:figure_6_5",
        "figure-6-6": f"{_HERE}.prediction_trend_checks:figure_6_6",
        "figure-6-7": f"{_HERE}.prediction_trend_checks:figure_6_7",
    },
    drawings={
        "figure-6-2": f"{_HERE}.drawings:lengths",
        "figure-6-3": f"{_HERE}.drawings:weekdays",
        "figure-6-4": f"{_HERE}.drawings:hours",
        "figure-6-5": f"{_HERE}.drawings:switches",
        "figure-6-6": f"{_HERE}.drawings:importance",
        "figure-6-7": f"{_HERE}.drawings:predictions",
    },
)
