"""A purchase model: what it learnt from, and how often sessions buy that reach a step."""

from __future__ import annotations

from visir.reports.blocks import Block, Paragraph
from visir.reports.table import Column, Table
from visir.reports.views.parts import facts
from visir.sessions.prediction.models import TITLES
from visir.sessions.prediction.purchase_model import PurchaseModel


def blocks(model: PurchaseModel) -> list[Block]:
    """What it is, and the base rates."""
    card = model.card
    drawn = [
        f"{setting}: {n['sessions']:,} sessions, {n['purchases']:,} with a purchase"
        for setting, n in card["drawn"].items()
    ]
    return [
        facts(TITLES[card["model"]], f"{card['features']} features", *drawn),
        Paragraph("Of all sessions that reach a step, so many buy. Probabilities are brought to these rates."),
        table(model),
    ]


def table(model: PurchaseModel) -> Table:
    """The base rate of each setting by step, in percent."""
    rates = model.card["base_rates"]
    steps = max(map(len, rates.values()))
    rows = [[setting, *(100 * rate for rate in by_step)] for setting, by_step in rates.items()]
    rows = [[*row, *[None] * (steps + 1 - len(row))] for row in rows]
    columns = [Column("pages opened"), *(Column(str(step), 1) for step in range(steps))]
    return Table.of(columns, rows, notes=["Base rates, in percent of sessions."])
