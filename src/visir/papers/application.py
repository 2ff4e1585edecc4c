"""What the papers add to visir: the verb, and the kinds of cells that belong to no other application."""

from __future__ import annotations

from visir.plugins import Application, Verb

_EXPERIMENTS, _TREND_CHECKS = "visir.papers.experiments", "visir.papers.trend_checks"

APPLICATION = Application(
    "papers",
    verbs=(Verb("papers", "visir.papers.cli:app"),),
    experiments={
        "count": f"{_EXPERIMENTS}.count:CountExperiment",
        "evaluate": f"{_EXPERIMENTS}.evaluate:EvaluateExperiment",
        "latency": f"{_EXPERIMENTS}.latency:LatencyExperiment",
        "logs": f"{_EXPERIMENTS}.logs:LogsExperiment",
        "losses": f"{_EXPERIMENTS}.losses:LossesExperiment",
        "plotted": f"{_EXPERIMENTS}.plotted:PlottedExperiment",
        "sparsify": f"{_EXPERIMENTS}.sparsify:SparsifyExperiment",
        "stress": f"{_EXPERIMENTS}.stress:StressExperiment",
        "terms": f"{_EXPERIMENTS}.terms:TermsExperiment",
        "train": f"{_EXPERIMENTS}.train:TrainExperiment",
    },
    trend_checks={
        "figure-3-2": f"{_TREND_CHECKS}.sparse:figure_3_2",
        "figure-4-5": f"{_TREND_CHECKS}.shortcuts:figure_4_5",
        "ltd-figure-2": f"{_TREND_CHECKS}.ltd:ltd_figure_2",
        "table-3-4": f"{_TREND_CHECKS}.sparse:table_3_4",
    },
)
