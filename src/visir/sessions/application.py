"""What the application "sessions" adds to visir: its verbs and its parts of the studies."""

from __future__ import annotations

from visir.plugins import Application, Verb

APPLICATION = Application(
    "sessions",
    verbs=(Verb("sessions", "visir.sessions.cli:app", group="shop"),),
    experiments={
        "describe": "visir.sessions.experiments.log_experiment:DescribeExperiment",
        "features": "visir.sessions.experiments.predict:FeaturesExperiment",
        "predict": "visir.sessions.experiments.predict:PredictExperiment",
    },
    trend_checks={
        "figure-6-2": "visir.sessions.experiments.log_experiment:figure_6_2",
        "figure-6-3": "visir.sessions.experiments.log_experiment:figure_6_3",
        "figure-6-4": "visir.sessions.experiments.log_experiment:figure_6_4",
        "figure-6-5": "visir.sessions.experiments.log_experiment:figure_6_5",
        "figure-6-6": "visir.sessions.experiments.predict:figure_6_6",
        "figure-6-7": "visir.sessions.experiments.predict:figure_6_7",
    },
    drawings={
        "figure-6-2": "visir.sessions.experiments.log_experiment:lengths",
        "figure-6-3": "visir.sessions.experiments.log_experiment:weekdays",
        "figure-6-4": "visir.sessions.experiments.log_experiment:hours",
        "figure-6-5": "visir.sessions.experiments.log_experiment:switches",
        "figure-6-6": "visir.sessions.experiments.predict:importance",
        "figure-6-7": "visir.sessions.experiments.predict:predictions",
    },
    views={
        "AbTest": "visir.sessions.reports.ab_test",
        "Characterisation": "visir.sessions.reports.sessions",
        "PurchaseModel": "visir.sessions.reports.model_view",
        "Sessions": "visir.sessions.reports.made_sessions",
        "Statistic": "visir.sessions.reports.statistic",
        "Summary": "visir.sessions.reports.intent",
    },
)
