"""A training: its numbers over steps and epochs, its curves, its page, and how it looks in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import visir.reports.page as page
from visir.display import Displayed
from visir.encoders.checkpoints import ENCODER, read_description
from visir.errors import VisirError
from visir.files import read_bytes
from visir.reports.page import Block, Paragraph, Section, inline
from visir.reports.plots import DASHES, FAINT, INK, MARKERS, SERIES, drawing, line, plot_blocks, training_curves
from visir.reports.report import Chart, StudyReport
from visir.reports.table import Cell, Column, Table, one_line
from visir.reports.views.parts import facts
from visir.reports.words import task_words
from visir.storage import read_written_json
from visir.training.trained import STEPS_FILE, TrainedModel, TrainingCurve, read_steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from visir.reports.plot import Plot

_FIRST = " hit@1"
Columns = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, eq=False, repr=False)
class TrainingRun(Displayed):
    """The numbers of one training; those of another program fit in as well, whatever part of them there is."""

    label: str  # what it is called in a legend
    # Columns over steps: "step" (from 1), "loss", its parts ("contrastive", "ltd", "itd"), what the objective stood at
    # ("temperature", "ltd multiplier", …), "learning rate"; NaN where there is none.
    steps: Columns
    # Columns over epochs: "step" (the epoch's last), "epoch", "rsum", "i2t hit@1", …
    epochs: Columns = field(default_factory=dict)
    # The bound η of each loss that is a constraint: {"ltd": 0.2}.
    bounds: Mapping[str, float] = field(default_factory=dict)
    chosen: int | None = None  # the epoch (from 1) whose weights were kept, when that is known

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that validation measures: "i2t" and "t2i", or "it2i" alone."""
        return tuple(name.removesuffix(_FIRST) for name in self.epochs if name.endswith(_FIRST))

    @property
    def auxiliaries(self) -> tuple[str, ...]:
        """The names of its reconstruction losses."""
        return tuple(name for name in ("ltd", "itd") if name in self.steps)


def read_training_run(folder: str | Path, label: str = "") -> TrainingRun:
    """The training that made a checkpoint folder: from its `steps.jsonl`, `curve.json` and `visir.json`."""
    # `label` is the folder's name when it is left out. Raises `VisirError` naming the file that is missing.
    folder = Path(folder)
    with ENCODER.reading(folder):
        facts = read_description(folder)["facts"]
    curve = read_written_json(folder / "curve.json")
    steps = _columns(
        [
            {"step": step.step, "epoch": step.epoch, "learning rate": step.learning_rate, **step.losses, **step.facts}
            for step in read_steps(folder / STEPS_FILE)
        ]
    )
    last = {int(epoch): step for epoch, step in zip(steps["epoch"], steps["step"], strict=True)}
    epochs = _columns(
        [{"step": last[epoch["epoch"]], "epoch": epoch["epoch"], **epoch["validation"]} for epoch in curve]
    )
    with ENCODER.reading(folder):
        constraints = {
            name: options
            for name, options in facts["recipe"]["auxiliary"].items()
            if options and options["join"] == "constraint"
        }
        bounds = {name: float(options["bound"]) for name, options in constraints.items()}
        return TrainingRun(label or folder.name, steps, epochs, bounds, facts["chosen_epoch"])


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, NDArray[np.float64]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, np.nan) for row in rows], np.float64) for name in names}


# Curves of trainings, of one or of several beside each other; each function returns a complete SVG document.


SMOOTHING = 0.02
"""The share of a training's steps over which a curve of steps is averaged."""

_POINTS = 400
_SMALLEST_MULTIPLIER, _LARGEST_MULTIPLIER = 1e-2, 100.0
_SIZE = (5.4, 2.7)

Floats = NDArray[np.float64]


def loss_curves(runs: Sequence[TrainingRun]) -> Plot:
    """What is made small over the steps and, of a single training, its contrastive part; averaged."""
    # Behind the line of a single training stand the raw values. Reconstruction losses have scales, and plots, of their
    # own.
    names = ["loss", "contrastive"] if len(runs) == 1 and runs[0].auxiliaries else ["loss"]
    return _over_steps(runs, names, "loss")


def reconstruction_curves(runs: Sequence[TrainingRun], name: str = "ltd") -> Plot:
    """A reconstruction loss over the steps, and dotted the bound η under which a constraint is to bring it."""
    # Where trainings have different bounds, each is dotted in the colour of its training.
    return _over_steps(runs, [name], f"{name.upper()}, reconstruction", bounds=name)


def multiplier_curves(runs: Sequence[TrainingRun], name: str = "ltd") -> Plot:
    """The multiplier λ of a constraint over the steps, on a logarithmic axis; below 0.01 it is drawn at 0.01."""
    # Where it came near its upper bound, 100, that is drawn too.
    with drawing(*_SIZE) as (figure, axes):
        low, high = 0.5, 2.0  # at least this much of the axis, so that there are numbers on it
        for number, run in enumerate(runs):
            if f"{name} multiplier" in run.steps:
                x, y = _thinned(run.steps["step"], np.maximum(run.steps[f"{name} multiplier"], _SMALLEST_MULTIPLIER))
                axes.plot(x, y, **line(number, linewidth=1.7), label=one_line(run.label))
                low, high = min(low, 0.9 * float(np.nanmin(y))), max(high, 1.1 * float(np.nanmax(y)))
        if high > _LARGEST_MULTIPLIER / 2:
            axes.axhline(_LARGEST_MULTIPLIER, color=FAINT, linewidth=1.2, linestyle=DASHES[2])
            high = 1.3 * _LARGEST_MULTIPLIER
        axes.set(yscale="log", ylim=(low, high))
        _decimal(axes)
        _dress(axes, f"λ of {name.upper()}", runs)
        return figure


def temperature_curves(runs: Sequence[TrainingRun]) -> Plot:
    """The temperature τ over the steps."""
    return _over_steps(runs, ["temperature"], "temperature τ", smooth=False)


def learning_rate_curves(runs: Sequence[TrainingRun]) -> Plot:
    """The learning rate over the steps."""
    return _over_steps(runs, ["learning rate"], "learning rate", smooth=False)


def rsum_curves(runs: Sequence[TrainingRun]) -> Plot:
    """The validation rsum (0–600) at the end of each epoch, over the steps; a ring around the epoch that was kept."""
    with drawing(*_SIZE) as (figure, axes):
        for number, run in enumerate(runs):
            x, y = run.epochs["step"], run.epochs["rsum"]
            style = line(number, linewidth=1.7, marker=_marker(number, y), markersize=3.5)
            axes.plot(x, y, **style, label=one_line(run.label))
            if run.chosen is not None:
                axes.plot(x[run.chosen - 1], y[run.chosen - 1], "o", markersize=9, fillstyle="none", color=INK)
        _dress(axes, "validation rsum", runs)
        return figure


def hit_curves(run: TrainingRun) -> Plot:
    """hit@1, @5 and @10 of each task on the validation split, in percent, at the end of each epoch."""
    with drawing(*_SIZE) as (figure, axes):
        # The legend is filled column by column: one for each cut-off.
        for number, cutoff in enumerate((1, 5, 10)):
            for task, name in enumerate(run.tasks):
                y = run.epochs[f"{name} hit@{cutoff}"]
                axes.plot(
                    run.epochs["step"],
                    y,
                    color=SERIES[number],
                    linestyle=DASHES[task],
                    marker=_marker(task, y),
                    markersize=3.5,
                    label=f"{name} hit@{cutoff}",
                )
        axes.set(ylabel="queries with a hit, %", xlabel="step")
        _whole(axes)
        figure.legend(loc="outside upper center", fontsize=8.5, ncols=3)
        return figure


def _over_steps(
    runs: Sequence[TrainingRun], names: Sequence[str], label: str, *, smooth: bool = True, bounds: str = ""
) -> Plot:
    drawn = [(run, name) for run in runs for name in names if name in run.steps]
    if not drawn:
        raise VisirError(
            f"no training has steps with {' or '.join(map(repr, names))}.",
            hint="look at its steps.jsonl",
            code="no-training-steps",
        )
    with drawing(*_SIZE) as (figure, axes):
        for number, (run, name) in enumerate(drawn):
            x, y = run.steps["step"], run.steps[name]
            if smooth and len(runs) == 1:
                _behind(axes, x, y, SERIES[number])
            shown = _thinned(x, _averaged(y) if smooth else y)
            axes.plot(*shown, **line(number, linewidth=1.7), label=one_line(run.label if len(runs) > 1 else name))
        levels = {number: run.bounds[bounds] for number, (run, _) in enumerate(drawn) if bounds in run.bounds}
        alone = len(set(levels.values())) == 1
        for number, bound in levels.items():
            axes.axhline(
                bound, color=FAINT if alone else SERIES[number % len(SERIES)], linewidth=1.2, linestyle=DASHES[2]
            )
        if alone:
            bound = next(iter(levels.values()))
            # On the left, where a training begins far above its bound; later the curve runs along the line.
            axes.annotate(f"η {bound:g}", (0.01, bound), xycoords=("axes fraction", "data"), va="bottom")
        _dress(axes, label, drawn)
        return figure


def _averaged(values: Floats) -> Floats:
    """The mean over the steps up to each one, as far back as `SMOOTHING` of them all; NaN values do not enter."""
    width = max(1, int(SMOOTHING * len(values)))
    is_finite = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(is_finite, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(is_finite)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - width, 0)
    count = counts[ends] - counts[starts]
    return np.asarray(np.where(count > 0, (sums[ends] - sums[starts]) / np.maximum(count, 1), np.nan), np.float64)


def _thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """At most `_POINTS` of the points, the first and the last among them."""
    rows = np.unique(np.linspace(0, len(x) - 1, min(len(x), _POINTS)).astype(int))
    return x[rows], y[rows]


def _behind(axes: Axes, x: Floats, y: Floats, colour: str) -> None:
    """The raw values: a thin line; of many steps the band between the smallest and the largest of each stretch."""
    if len(x) <= _POINTS:
        axes.plot(x, y, color=colour, alpha=0.35, linewidth=0.8)
        return
    cuts = np.unique(np.linspace(0, len(x), _POINTS + 1).astype(int))[:-1]
    low, high = np.fmin.reduceat(y, cuts), np.fmax.reduceat(y, cuts)
    axes.fill_between(x[cuts], low, high, color=colour, alpha=0.25, linewidth=0)


def _marker(number: int, values: Floats) -> str:
    """Markers where they do not run into each other."""
    return MARKERS[number % len(MARKERS)] if len(values) <= 40 else ""


def _dress(axes: Axes, label: str, drawn: Sequence[object]) -> None:
    axes.set(ylabel=label, xlabel="step")
    _whole(axes)
    if len(drawn) > 1:
        axes.legend(loc="best", fontsize=8.5)


def _whole(axes: Axes) -> None:
    """Steps are whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")


def _decimal(axes: Axes) -> None:
    """Plain numbers on a logarithmic axis, 1, 2 and 5 of each power of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


# The page: what it came to, its curves, its recipe.


FILES = {
    "recipe.toml": "the resolved recipe; visir train runs it again",
    "curve.json": "every epoch",
    "steps.jsonl": "every step, one line each",
    "visir.json": "shapes, encoders, recipe, figures",
}
"""What lies beside the page in a checkpoint's folder."""


def training_report(trained: TrainedModel | str | Path) -> StudyReport:
    """Describe the training that made a checkpoint."""
    folder = trained.path if isinstance(trained, TrainedModel) else Path(trained)
    run = read_training_run(folder)
    facts = read_description(folder)["facts"]
    with ENCODER.reading(folder):
        recipe = facts["recipe"]
        lead = Paragraph("Everything the result depends on, defaults and all.", "lead")
        code = page.Code(read_bytes(folder / "recipe.toml").decode("utf-8"))
        sections = [
            Section("numbers", "Validation", _validation(facts), short="Numbers"),
            Section("curves", "Curves", [page.Figures(training_charts(run))]),
            Section("recipe", "Recipe", [lead, code]),
            Section("made", "How it was made", _production(facts, folder)),
        ]
        shown = {
            "collection": recipe["data"]["collection"],
            "images": recipe["image"]["tower"],
            "texts": recipe["text"]["tower"],
            "objective": _objective(recipe),
        }
        title = f"{recipe['name']}, seed {recipe['seed']}"
        return StudyReport("training report", title, sections, shown, [_final_table(facts)])


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
        page.Cards(
            [
                page.Card(
                    task_words(task),
                    [(f"hit@{k}", f"{facts['validation'][f'{task} hit@{k}']:.1f}") for k in (1, 5, 10)],
                )
                for task in tasks
            ]
        ),
        Paragraph(total, "total"),
        Paragraph(lead, "lead"),
        _final_table(facts),
        page.Fold("All epochs", [_epochs_table(facts["curve"])]),
    ]


def _production(facts: dict[str, Any], folder: Path) -> list[Block]:
    """The files, and what they took: time, memory, versions."""
    files = [(name, words) for name, words in FILES.items() if (folder / name).is_file()]
    rows: list[list[Cell]] = [[name, f"{seconds:,.1f} s"] for name, seconds in facts["seconds"].items()]
    rows += [[f"peak memory, {name}", f"{size / 2**20:,.0f} MiB"] for name, size in facts["peak_memory"].items()]
    rows.append(["processes × threads", f"{facts['processes']} × {facts['threads']}"])
    costs = Table.of([Column("of"), Column("value", 0)], rows)
    versions = Table.pairs(facts["versions"].items(), ("package", "version"))
    cards = page.Cards([page.Card("Time and memory", blocks=[costs]), page.Card("Versions", blocks=[versions])])
    return [*page.production("", files), cards]


def training_charts(run: TrainingRun) -> list[Chart]:
    """What can be drawn of one training."""

    def chart(draw: Callable[[], Plot], name: str, title: str, caption: str) -> Chart:
        return Chart(name, draw, title, caption, f"{title} over the steps of the training.")

    averaged = f"Lines: the mean over the last {100 * SMOOTHING:.0f} % of the steps; behind them the raw values."
    ring = "At the end of each epoch; the ring is the epoch whose weights were kept."
    hits = "Share of queries with a right answer among the first 1, 5 and 10, at the end of each epoch."
    rises = "Rises while the reconstruction loss is above its bound, falls below it. Logarithmic; at most 100."
    charts = [
        chart(partial(loss_curves, [run]), "loss", "Loss", averaged),
        chart(partial(rsum_curves, [run]), "rsum", "Validation rsum", ring),
        chart(partial(hit_curves, run), "hits", "Validation hits", hits),
    ]
    for name in run.auxiliaries:
        words, loss = f"{averaged} Dotted: the bound η." if name in run.bounds else averaged, name.upper()
        charts.append(
            chart(partial(reconstruction_curves, [run], name), f"{name}-loss", f"{loss}: reconstruction loss", words)
        )
        if f"{name} multiplier" in run.steps:
            draw = partial(multiplier_curves, [run], name)
            charts.append(chart(draw, f"{name}-multiplier", f"{loss}: multiplier λ", rises))
    if "temperature" in run.steps and np.ptp(run.steps["temperature"]) > 0:  # a fixed one is in the table
        draw = partial(temperature_curves, [run])
        charts.append(chart(draw, "temperature", "Temperature", "Cosines are divided by it."))
    rate = partial(learning_rate_curves, [run])
    return [*charts, chart(rate, "rate", "Learning rate", "The optimiser's, at each step.")]


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

    def inside(group: str, name: str) -> Callable[[Any], Any]:
        return lambda epoch: epoch[group][name]

    columns = [
        Column("epoch", of=itemgetter("epoch")),
        *(Column(name, 4, of=inside("losses", name)) for name in losses),
        *(Column(name, 4, of=inside("facts", name)) for name in curve[0]["facts"]),
        *(Column(name, 1, "max", of=inside("validation", name)) for name in curve[0]["validation"]),
        Column("seconds", 1, of=itemgetter("seconds")),
        Column("captions/s", 0, of=itemgetter("rate")),
    ]
    return Table.over(curve, columns)


# A training: what it led to, and its curve.


def training_blocks(training: TrainedModel | TrainingCurve) -> list[Block]:
    """The figures of the chosen epoch, the curve, and every epoch folded."""
    curve = _curve(training)
    chosen = f"epoch {curve.chosen} of {len(curve)} was chosen by validation"
    figures = next((epoch.validation for epoch in curve if epoch.epoch == curve.chosen), {})
    shown: list[Block] = [
        facts(curve.name, chosen, ", ".join(f"{name} {value:.1f}" for name, value in figures.items()))
    ]
    if len(curve) > 1:
        shown += plot_blocks(training_plot(curve))
    shown.append(page.Fold("Every epoch", [training_table(curve)]))
    if isinstance(training, TrainedModel):
        shown.append(Paragraph(inline("<code>visir.load({})</code>", repr(str(training.path))), "soft"))
    return shown


def training_table(training: TrainedModel | TrainingCurve) -> Table:
    """One row per epoch."""
    rows = _curve(training).rows()
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [Column(name, _DIGITS.get(name, 1 if "@" in name or "rsum" in name else 3)) for name in names]
    return Table.of(columns, [[row.get(name) for name in names] for row in rows])


def training_arrow(training: TrainedModel | TrainingCurve) -> pa.Table:
    """One row per epoch: losses, what the learner stood at, figures of validation, seconds, and rate."""
    return pa.Table.from_pylist(_curve(training).rows())


def training_plot(training: TrainedModel | TrainingCurve) -> Plot:
    """Losses and validation over the epochs."""
    return training_curves([asdict(epoch) for epoch in _curve(training)])


def _curve(training: TrainedModel | TrainingCurve) -> TrainingCurve:
    return training.curve if isinstance(training, TrainedModel) else training


_DIGITS = {"epoch": 0, "seconds": 1, "rate": 0}
