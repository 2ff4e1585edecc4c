"""The page of a training: what it came to, its curves, its recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from visir.encoders.checkpoints import ENCODER, read_description
from visir.files import read_bytes
from visir.reports import training_curves as curves
from visir.reports.figures import Figure
from visir.reports.formats import to_html
from visir.reports.page import write_page
from visir.reports.svg import themed
from visir.reports.table import Column, Table
from visir.reports.training_runs import TrainingRun, read_training_run
from visir.reports.words import TASK_WORDS

FILES = {
    "recipe.toml": "the resolved recipe; visir train runs it again",
    "curve.json": "every epoch",
    "steps.jsonl": "every step, one line each",
    "visir.json": "shapes, encoders, recipe, figures",
}
"""What lies beside the page in a checkpoint's folder."""


def write_training_report(path: str | Path, folder: str | Path) -> Path:
    """Write the page of the training that made the checkpoint `folder` as a single HTML file; returns its path.

    The file needs no network, no script and no other file, and follows the reader's light or dark theme. The same
    folder gives the same bytes.
    """
    folder = Path(folder)
    run = read_training_run(folder)
    facts = read_description(folder)["facts"]
    with ENCODER.reading(folder):
        of_facts = {
            "title": f"{facts['recipe']['name']}, seed {facts['recipe']['seed']}",
            "recipe": facts["recipe"],
            "facts": facts,
            "epochs": len(facts["curve"]),
            "headlines": [_headline(facts["validation"], task) for task in ("i2t", "t2i")],
            "rsum": f"{facts['validation']['rsum']:.1f}",
            "final_table": to_html(_final_table(facts)),
            "epochs_table": to_html(_epochs_table(facts["curve"])),
            "memory": {name: f"{size / 2**20:,.0f} MiB" for name, size in facts["peak_memory"].items()},
        }
    return write_page(
        path,
        "training.html.j2",
        **of_facts,
        figures=training_figures(run),
        recipe_text=read_bytes(folder / "recipe.toml").decode("utf-8"),
        beside=[(name, words) for name, words in FILES.items() if (folder / name).is_file()],
    )


def training_figures(run: TrainingRun) -> list[Figure]:
    """What can be drawn of one training."""
    averaged = f"Lines: the mean over the last {100 * curves.SMOOTHING:.0f} % of the steps; behind them the raw values."
    ring = "At the end of each epoch; the ring is the epoch whose weights were kept."
    hits = "Share of queries with a right answer among the first 1, 5 and 10, at the end of each epoch."
    made = [
        _figure(curves.loss_curves([run]), "loss", "Loss", averaged),
        _figure(curves.rsum_curves([run]), "rsum", "Validation rsum", ring),
        _figure(curves.hit_curves(run), "hits", "Validation hits", hits),
    ]
    for name in run.auxiliaries:
        words = f"{averaged} Dotted: the bound η." if name in run.bounds else averaged
        drawn = curves.reconstruction_curves([run], name)
        made.append(_figure(drawn, f"{name}-loss", f"{name.upper()}: reconstruction loss", words))
        if f"{name} multiplier" in run.steps:
            drawn = curves.multiplier_curves([run], name)
            words = "Rises while the reconstruction loss is above its bound, falls below it. Logarithmic; at most 100."
            made.append(_figure(drawn, f"{name}-multiplier", f"{name.upper()}: multiplier λ", words))
    if "temperature" in run.steps and np.ptp(run.steps["temperature"]) > 0:  # a fixed one is in the table
        drawn = curves.temperature_curves([run])
        made.append(_figure(drawn, "temperature", "Temperature", "Cosines are divided by it."))
    made.append(_figure(curves.learning_rate_curves([run]), "rate", "Learning rate", "The optimiser's, at each step."))
    return made


def _figure(svg: str, name: str, title: str, caption: str) -> Figure:
    return Figure(themed(svg, name, f"{title} over the steps of the training."), title, caption)


def _headline(validation: dict[str, float], task: str) -> dict[str, Any]:
    values = [(f"hit@{k}", f"{validation[f'{task} hit@{k}']:.1f}") for k in (1, 5, 10)]
    return {"title": TASK_WORDS[task], "values": values}


def _final_table(facts: dict[str, Any]) -> Table:
    """The epoch that was kept beside the last one."""
    kept, last = facts["curve"][facts["chosen_epoch"] - 1], facts["curve"][-1]
    shown = {"kept": kept} if kept["epoch"] == last["epoch"] else {"kept": kept, "last": last}
    columns = [Column("figure"), *(Column(f"{name}, epoch {one['epoch']}", 0) for name, one in shown.items())]
    # A row has digits of its own, which a column has not: the cells are printed beforehand.
    rows = [
        [f"{words}: {name}", *(Column(name, digits).text(one[group][name]) for one in shown.values())]
        for group, words, digits in (
            ("losses", "training", 4),
            ("facts", "objective", 4),
            ("validation", "validation", 1),
        )
        for name in kept[group]
    ]
    return Table.of(columns, rows)


def _epochs_table(curve: list[dict[str, Any]]) -> Table:
    parts = [name for name in curve[0]["losses"] if len(curve[0]["losses"]) > 2 or name == "loss"]
    facts, measures = list(curve[0]["facts"]), list(curve[0]["validation"])
    columns = [
        Column("epoch"),
        *(Column(name, 4) for name in (*parts, *facts)),
        *(Column(name, 1, best="max") for name in measures),
        Column("seconds", 1),
        Column("captions/s", 0),
    ]
    rows = [
        [
            one["epoch"],
            *(one["losses"][name] for name in parts),
            *(one["facts"][name] for name in facts),
            *(one["validation"][name] for name in measures),
            one["seconds"],
            one["rate"],
        ]
        for one in curve
    ]
    return Table.of(columns, rows)
