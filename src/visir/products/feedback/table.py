"""Judgements from clicks as a table: the propensity of every position, and what was counted."""

from __future__ import annotations

from visir.products.feedback.judgements import ClickJudgements
from visir.reports.table import Cell, Column, Table


def judgements_table(judged: ClickJudgements) -> Table:
    """Positions with their propensities; what was counted and left out stands below."""
    rows: list[list[Cell]] = []
    if judged.bias is not None:
        rows = [[position, propensity] for position, propensity in judged.bias.propensities.items()]
    notes = [
        f"{len(judged.qrels.documents):,} judgements of {len(judged.qrels):,} queries, from {judged.impressions:,} "
        "impressions.",
        f"Left out: {judged.rare:,} pairs of query and product that were shown too rarely, {judged.silent:,} queries "
        "without enough clicks.",
    ]
    if judged.repeated:
        notes.append(f"Not counted: {judged.repeated:,} rows of visitors who saw the product before for this query.")
    if judged.bias is not None and judged.bias.method == "em":
        notes.append(
            f"Propensities by EM, {judged.bias.iterations:,} iterations; {judged.bias.pairs:,} pairs were shown at "
            "several positions."
        )
    columns = [Column("position", 0), Column("propensity", 3)]
    return Table.of(columns, rows, caption="Judgements from clicks", notes=notes)
