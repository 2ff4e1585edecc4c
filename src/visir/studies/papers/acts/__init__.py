"""Acts: the kinds of cells there are, each one file, by the word that a study's file uses (`run = "train"`)."""

from __future__ import annotations

from visir.studies.papers.act import Act
from visir.studies.papers.acts.categories import Categories
from visir.studies.papers.acts.count import Count
from visir.studies.papers.acts.describe import Describe
from visir.studies.papers.acts.evaluate import Evaluate
from visir.studies.papers.acts.features import Features
from visir.studies.papers.acts.latency import Latency
from visir.studies.papers.acts.logs import Logs
from visir.studies.papers.acts.losses import Losses
from visir.studies.papers.acts.plotted import Plotted
from visir.studies.papers.acts.predict import Predict
from visir.studies.papers.acts.sparsify import Sparsify
from visir.studies.papers.acts.stress import Stress
from visir.studies.papers.acts.terms import Terms
from visir.studies.papers.acts.train import Train

ACTS: dict[str, type[Act]] = {
    "categories": Categories,
    "count": Count,
    "describe": Describe,
    "evaluate": Evaluate,
    "features": Features,
    "latency": Latency,
    "logs": Logs,
    "losses": Losses,
    "plotted": Plotted,
    "predict": Predict,
    "sparsify": Sparsify,
    "stress": Stress,
    "terms": Terms,
    "train": Train,
}
