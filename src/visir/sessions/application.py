"""What the application "sessions" adds to visir: its verbs, and how its records look."""

from __future__ import annotations

from visir.plugins import Application, Verb

APPLICATION = Application(
    "sessions",
    verbs=(Verb("sessions", "visir.sessions.cli:app", group="shop"),),
    views={
        "AbTest": "visir.sessions.reports.ab_test",
        "Characterisation": "visir.sessions.reports.sessions",
        "PurchaseModel": "visir.sessions.reports.model_view",
        "Sessions": "visir.sessions.reports.made_sessions",
        "Statistic": "visir.sessions.reports.statistic",
        "Summary": "visir.sessions.reports.intent",
    },
)
