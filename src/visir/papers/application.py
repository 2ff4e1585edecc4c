"""What the papers add to visir: the verb, and the kinds of cells that belong to no other application."""

from __future__ import annotations

from visir.plugins import Application, Verb

APPLICATION = Application(
    "papers",
    verbs=(Verb("papers", "visir.papers.cli:app"),),
    experiments={
        "count": "visir.papers.experiments.evaluate:CountExperiment",
        "evaluate": "visir.papers.experiments.evaluate:EvaluateExperiment",
        "latency": "visir.papers.experiments.stress:LatencyExperiment",
        "logs": "visir.papers.experiments.stress:LogsExperiment",
        "losses": "visir.papers.experiments.evaluate:LossesExperiment",
        "plotted": "visir.papers.experiments.evaluate:PlottedExperiment",
        "sparsify": "visir.papers.experiments.train:SparsifyExperiment",
        "stress": "visir.papers.experiments.stress:StressExperiment",
        "terms": "visir.papers.experiments.evaluate:TermsExperiment",
        "train": "visir.papers.experiments.train:TrainExperiment",
    },
    trend_checks={
        "figure-3-2": "visir.papers.trend_checks:figure_3_2",
        "figure-4-5": "visir.papers.trend_checks:figure_4_5",
        "ltd-figure-2": "visir.papers.trend_checks:ltd_figure_2",
        "table-3-4": "visir.papers.trend_checks:table_3_4",
    },
    views={
        "StudyComparison": "visir.papers.reports.papers",
        "StudyList": "visir.papers.reports.study_list",
        "StudyStatus": "visir.papers.reports.status_view",
    },
)
