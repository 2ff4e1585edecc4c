"""A purchase model: what it learnt from, and how good it is on later sessions."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from visir.errors import VisirError
from visir.reports.page import Block, Paragraph
from visir.reports.plots import INK, SERIES, drawing
from visir.reports.report import Chart
from visir.reports.table import Column, Table
from visir.reports.views.parts import facts
from visir.sessions.prediction.live_report import FEWEST_BUYERS
from visir.sessions.prediction.models import TITLES
from visir.sessions.prediction.purchase_model import PurchaseModel

if TYPE_CHECKING:
    from visir.reports.plot import Plot


# A plot of a live model's reliability: mean probability beside the share that buys, on later sessions.

CAPTION = (
    "Filled: the share of later sessions that buys; hollow: the mean probability. The line is the 95 % interval of "
    "their difference, laid from the mean probability: where it reaches the hollow mark, no difference is shown. "
    "Right: all are scored at the first page, when nobody knows how long the session will be, so short sessions are "
    "given too much there and long ones too little. The axis is linear up to 1 %, logarithmic from there."
)
_TICKS = (0, 0.5, 1, 2, 5, 10, 20, 50, 100)


def reliability(report: dict[str, Any]) -> Plot:
    """Two panels: by pages opened, and by the length that sessions came to have."""
    rows = report["reliability"]
    by_page = [row for row in rows if row["group"] == f"page {row['step']}"]
    by_length = [row for row in rows if row not in by_page]
    with drawing(8.6, 1.5 + 0.36 * max(len(by_page), len(by_length)), columns=2) as (figure, panels):
        largest = max((100 * max(row["mean_p"], row["rate"]) for row in rows), default=1.0)
        for axes, title, own in zip(panels, ("pages opened", "pages in all"), (by_page, by_length), strict=True):
            _panel(axes, own)
            axes.set_title(title, loc="left")
            axes.set_xscale("symlog", linthresh=1.0, linscale=0.6)
            limit = min((tick for tick in _TICKS[3:] if tick > 1.2 * largest), default=100)
            axes.set_xlim(-0.04, 1.08 * limit)
            axes.set_xticks([tick for tick in _TICKS if tick <= limit], minor=False)
            axes.set_xticks([], minor=True)
            axes.xaxis.set_major_formatter("{x:g}")
            axes.set_xlabel("% of sessions")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=9)
        return figure


def _panel(axes: Any, rows: Sequence[dict[str, Any]]) -> None:
    places = list(range(len(rows)))
    shares, means = ([100 * row[name] for row in rows] for name in ("rate", "mean_p"))
    for place, row in zip(places, rows, strict=True):
        _, low, high = row["difference"]
        if low is not None:
            ends = [max(0.0, 100 * (row["mean_p"] - end)) for end in (high, low)]
            axes.plot(ends, [place, place], color=SERIES[0], linewidth=2.2, alpha=0.55, solid_capstyle="butt")
    axes.plot(shares, places, "o", color=SERIES[0], markersize=6, label="share that buys, 95 %")
    axes.plot(means, places, "D", color=SERIES[1], markersize=7, fillstyle="none", label="mean probability")
    names = [row["group"].removeprefix("page ").removesuffix(" in all") for row in rows]
    axes.set_yticks(places, [f"{name}  ({row['sessions']:,})" for name, row in zip(names, rows, strict=True)])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.grid(axis="y", visible=False)


_TITLES = {**TITLES, "blend": "LR and GBDT", "gru": "GRU"}
_MEASURES = {"mean_p": "mean p", "log_loss": "log loss", "roc_auc": "ROC-AUC", "pr_auc": "PR-AUC", "lift": "lift"}


def blocks(model: PurchaseModel) -> list[Block]:
    """What it is, and its report, or the base rates of a model of the thesis's protocol."""
    card = model.card
    drawn = [
        f"{name}: {n['sessions']:,} sessions, {n['purchases']:,} with a purchase" for name, n in card["drawn"].items()
    ]
    use = model.purchases
    counts = [] if use is None else [use.sentence, *([use.warning] if use.warning else [])]
    first = facts(_TITLES[card["model"]], f"protocol {card['protocol']}", *drawn, *counts)
    if "report" not in card:
        about = "Of all sessions that reach a step, so many buy. Probabilities are brought to these rates."
        return [first, Paragraph(about), rates_table(model)]
    label = "Mean probability beside the share that buys, by pages opened and by pages in all"
    chart = Chart("reliability", lambda: plot(model), "Reliability", CAPTION, label)
    return [first, page_table(model), chart, reliability_table(model)]


def table(model: PurchaseModel) -> Table:
    """The report by page, or the base rates."""
    return page_table(model) if "report" in model.card else rates_table(model)


def plot(model: PurchaseModel) -> Plot:
    """Reliability on later sessions, by page and by the length that sessions came to have."""
    if "report" not in model.card:
        raise VisirError(
            f"a model of protocol {model.card['protocol']} has no report on later sessions.",
            hint='train(sessions, protocol="live")',
            code="no-report",
        )
    return reliability(model.card["report"])


def page_table(model: PurchaseModel) -> Table:
    """Measures of the model, the base rate and a plain logistic regression on later sessions, by page."""
    report = model.card["report"]
    rows = [
        [
            str(page["step"]),
            f"{page['sessions']:,}, {page['purchases']:,}",
            name,
            *(_interval(page["measures"][measure][name], 1 if measure == "lift" else 4) for measure in _MEASURES),
        ]
        for page in report["pages"]
        for name in ("model", "base rate", "plain LR")
    ]
    columns = [Column(name) for name in ("pages", "sessions, that buy", "", *_MEASURES.values())]
    when = model.card["test_from"]
    return Table.of(
        columns,
        rows,
        notes=[
            f"Sessions from {when} on; 95 % intervals, visitors drawn with replacement. "
            f"Where fewer than {FEWEST_BUYERS} visitors buy, or do not, there is none."
        ],
    )


def reliability_table(model: PurchaseModel) -> Table:
    """Mean chance beside the share that buys, by page, and at the first page by the length sessions came to have."""
    columns = [
        Column("scored", of=itemgetter("group")),
        Column("sessions", of=lambda row: f"{row['sessions']:,}"),
        Column("mean p", of=lambda row: f"{row['mean_p']:.4f}"),
        Column("share that buys", of=lambda row: f"{row['rate']:.4f}"),
        Column("difference", of=lambda row: _interval(row["difference"], 4, signed=True)),
    ]
    note = '"in all": scored at the first page, where nobody knows how long the session will be.'
    return Table.over(model.card["report"]["reliability"], columns, notes=[note])


def rates_table(model: PurchaseModel) -> Table:
    """The base rate of each setting by step, in percent."""
    rates = model.card["base_rates"]
    steps = max(map(len, rates.values()))
    rows = [[setting, *(100 * rate for rate in by_step)] for setting, by_step in rates.items()]
    rows = [[*row, *[None] * (steps + 1 - len(row))] for row in rows]
    columns = [Column("pages opened"), *(Column(str(step), 1) for step in range(steps))]
    return Table.of(columns, rows, notes=["Base rates, in percent of sessions."])


def _interval(values: Sequence[Any], digits: int, *, signed: bool = False) -> str:
    sign = "+" if signed else ""
    value, low, high = ("–" if value is None else f"{value:{sign}.{digits}f}" for value in values)
    return value if low == "–" else f"{value} [{low}, {high}]"
