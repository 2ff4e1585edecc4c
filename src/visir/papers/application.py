"""What the papers add to visir: the verb, and the kinds of cells that belong to no other application."""

from __future__ import annotations

from visir.applications import Application, Verb

_ACTS, _SHAPES = "visir.papers.acts", "visir.papers.shapes"

APPLICATION = Application(
    "papers",
    verbs=(Verb("study", "visir.papers.cli:app"),),
    acts={
        "count": f"{_ACTS}.count:Count",
        "evaluate": f"{_ACTS}.evaluate:Evaluate",
        "latency": f"{_ACTS}.latency:Latency",
        "logs": f"{_ACTS}.logs:Logs",
        "losses": f"{_ACTS}.losses:Losses",
        "plotted": f"{_ACTS}.plotted:Plotted",
        "sparsify": f"{_ACTS}.sparsify:Sparsify",
        "stress": f"{_ACTS}.stress:Stress",
        "terms": f"{_ACTS}.terms:Terms",
        "train": f"{_ACTS}.train:Train",
    },
    shapes={
        "figure-3-2": f"{_SHAPES}.sparse:figure_3_2",
        "figure-4-5": f"{_SHAPES}.shortcuts:figure_4_5",
        "ltd-figure-2": f"{_SHAPES}.ltd:ltd_figure_2",
        "table-3-4": f"{_SHAPES}.sparse:table_3_4",
    },
)
