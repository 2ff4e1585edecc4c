"""The page of a training: what it came to, its curves, its recipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from visir.encoders.checkpoints import ENCODER, read_description
from visir.files import read_bytes
from visir.reports import training_curves as curves
from visir.reports.page import (
    Block,
    Card,
    Cards,
    Code,
    Figure,
    Figures,
    Fold,
    Page,
    Paragraph,
    Section,
    inline,
    production,
    write_page,
)
from visir.reports.plots import themed
from visir.reports.table import Cell, Column, Table
from visir.reports.training_runs import TrainingRun, read_training_run
from visir.reports.words import task_words

if TYPE_CHECKING:
    from visir.reports.plot import Plot

FILES = {
    "recipe.toml": "the resolved recipe; visir train runs it again",
    "curve.json": "every epoch",
    "steps.jsonl": "every step, one line each",
    "visir.json": "shapes, encoders, recipe, figures",
}
"""What lies beside the page in a checkpoint's folder."""


def write_training_report(path: str | Path, folder: str | Path) -> Path:
    """Write the page of the training that made a checkpoint, and return its path."""
    folder = Path(folder)
    run = read_training_run(folder)
    facts = read_description(folder)["facts"]
    with ENCODER.reading(folder):
        recipe = facts["recipe"]
        page = Page(
            "training report",
            f"{recipe['name']}, seed {recipe['seed']}",
            [
                Section("numbers", "Validation", _validation(facts), short="Numbers"),
                Section("curves", "Curves", [Figures(training_figures(run))]),
                Section(
                    "recipe",
                    "Recipe",
                    [
                        Paragraph("Everything the result depends on, defaults and all.", "lead"),
                        Code(read_bytes(folder / "recipe.toml").decode("utf-8")),
                    ],
                ),
                Section("made", "How it was made", _production(facts, folder)),
            ],
            [
                inline("collection <b>{}</b>", recipe["data"]["collection"]),
                inline("images <b>{}</b>", recipe["image"]["tower"]),
                inline("texts <b>{}</b>", recipe["text"]["tower"]),
                inline("objective <b>{}</b>", _objective(recipe)),
            ],
        )
    return write_page(path, page)


def _objective(recipe: dict[str, Any]) -> str:
    """The losses of a recipe: "infonce + ltd (constraint)"."""
    auxiliaries = [f"{name} ({options['join']})" for name, options in recipe["auxiliary"].items() if options]
    return " + ".join([recipe["objective"]["name"], *auxiliaries])


def _validation(facts: dict[str, Any]) -> list[Block]:
    """What the validation split says."""
    chose = ", and they chose the epoch" if facts["recipe"]["selection"]["keep"] == "rsum" else ""
    tasks = [name.removesuffix(" hit@1") for name in facts["validation"] if name.endswith(" hit@1")]
    total = inline(
        "rsum{} <b>{}</b> of {}, epoch {} of {}",
        " over both tasks" if len(tasks) == 2 else "",
        f"{facts['validation']['rsum']:.1f}",
        300 * len(tasks),
        facts["chosen_epoch"],
        len(facts["curve"]),
    )
    lead = inline(
        "These figures are of the validation split{}. What a test split says comes from <code>visir evaluate</code>, "
        "under a protocol.",
        chose,
    )
    return [
        Cards([_headline(facts["validation"], task) for task in tasks]),
        Paragraph(total, "total"),
        Paragraph(lead, "lead"),
        _final_table(facts),
        Fold("All epochs", [_epochs_table(facts["curve"])]),
    ]


def _production(facts: dict[str, Any], folder: Path) -> list[Block]:
    """The files, and what they took: time, memory, versions."""
    files = [(name, words) for name, words in FILES.items() if (folder / name).is_file()]
    rows: list[list[Cell]] = [[name, f"{seconds:,.1f} s"] for name, seconds in facts["seconds"].items()]
    rows += [[f"peak memory, {name}", f"{size / 2**20:,.0f} MiB"] for name, size in facts["peak_memory"].items()]
    rows.append(["processes × threads", f"{facts['processes']} × {facts['threads']}"])
    costs = Table.of([Column("of"), Column("value", 0)], rows)
    versions = Table.of([Column("package"), Column("version")], list(facts["versions"].items()))
    cards = Cards([Card("Time and memory", blocks=[costs]), Card("Versions", blocks=[versions])])
    return [*production("", files), cards]


def training_figures(run: TrainingRun) -> list[Figure]:
    """What can be drawn of one training."""
    averaged = f"Lines: the mean over the last {100 * curves.SMOOTHING:.0f} % of the steps; behind them the raw values."
    ring = "At the end of each epoch; the ring is the epoch whose weights were kept."
    hits = "Share of queries with a right answer among the first 1, 5 and 10, at the end of each epoch."
    figures = [
        _figure(curves.loss_curves([run]), "loss", "Loss", averaged),
        _figure(curves.rsum_curves([run]), "rsum", "Validation rsum", ring),
        _figure(curves.hit_curves(run), "hits", "Validation hits", hits),
    ]
    for name in run.auxiliaries:
        words = f"{averaged} Dotted: the bound η." if name in run.bounds else averaged
        plot = curves.reconstruction_curves([run], name)
        figures.append(_figure(plot, f"{name}-loss", f"{name.upper()}: reconstruction loss", words))
        if f"{name} multiplier" in run.steps:
            plot = curves.multiplier_curves([run], name)
            words = "Rises while the reconstruction loss is above its bound, falls below it. Logarithmic; at most 100."
            figures.append(_figure(plot, f"{name}-multiplier", f"{name.upper()}: multiplier λ", words))
    if "temperature" in run.steps and np.ptp(run.steps["temperature"]) > 0:  # a fixed one is in the table
        plot = curves.temperature_curves([run])
        figures.append(_figure(plot, "temperature", "Temperature", "Cosines are divided by it."))
    rate = curves.learning_rate_curves([run])
    return [*figures, _figure(rate, "rate", "Learning rate", "The optimiser's, at each step.")]


def _figure(plot: Plot, name: str, title: str, caption: str) -> Figure:
    return Figure(themed(plot, name, f"{title} over the steps of the training."), title, caption)


def _headline(validation: dict[str, float], task: str) -> Card:
    return Card(task_words(task), [(f"hit@{k}", f"{validation[f'{task} hit@{k}']:.1f}") for k in (1, 5, 10)])


def _final_table(facts: dict[str, Any]) -> Table:
    """The epoch whose weights were kept, beside the last one."""
    chosen, last = facts["curve"][facts["chosen_epoch"] - 1], facts["curve"][-1]
    epochs = {"kept": chosen} if chosen["epoch"] == last["epoch"] else {"kept": chosen, "last": last}
    columns = [Column("figure"), *(Column(f"{name}, epoch {epoch['epoch']}", 0) for name, epoch in epochs.items())]
    # A row has digits of its own, which a column has not: the cells are printed beforehand.
    rows = [
        [f"{words}: {name}", *(Column(name, digits).text(epoch[group][name]) for epoch in epochs.values())]
        for group, words, digits in (
            ("losses", "training", 4),
            ("facts", "objective", 4),
            ("validation", "validation", 1),
        )
        for name in chosen[group]
    ]
    return Table.of(columns, rows)


def _epochs_table(curve: list[dict[str, Any]]) -> Table:
    """Every epoch: losses, what the objective stood at, measures, speed."""
    losses = [name for name in curve[0]["losses"] if len(curve[0]["losses"]) > 2 or name == "loss"]
    facts, measures = list(curve[0]["facts"]), list(curve[0]["validation"])
    columns = [
        Column("epoch"),
        *(Column(name, 4) for name in (*losses, *facts)),
        *(Column(name, 1, best="max") for name in measures),
        Column("seconds", 1),
        Column("captions/s", 0),
    ]
    rows = [
        [
            epoch["epoch"],
            *(epoch["losses"][name] for name in losses),
            *(epoch["facts"][name] for name in facts),
            *(epoch["validation"][name] for name in measures),
            epoch["seconds"],
            epoch["rate"],
        ]
        for epoch in curve
    ]
    return Table.of(columns, rows)
