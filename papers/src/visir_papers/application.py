"""What this package adds to visir: its verb, the recipes of the papers, and the numbers that they print."""

from __future__ import annotations

from pathlib import Path

from visir.plugins import Application, Verb

_HERE = Path(__file__).parent
RECIPES = _HERE / "recipes"
PUBLISHED = _HERE / "published"

APPLICATION = Application(
    "papers",
    verbs=(Verb("papers", "visir_papers.cli:app"),),
    views={
        "StudyComparison": "visir_papers.reports.pages",
        "StudyList": "visir_papers.reports.pages",
        "StudyStatus": "visir_papers.reports.pages",
    },
)
