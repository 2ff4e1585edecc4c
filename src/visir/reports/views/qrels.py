"""Judgements: the counts, and those of the first queries."""

from __future__ import annotations

import numpy as np

from visir.display import counted
from visir.records import Qrels
from visir.reports.page import Block
from visir.reports.table import Column, Table
from visir.reports.views.parts import facts

QUERIES = 5
"""Of how many queries the judgements are shown."""


def blocks(qrels: Qrels) -> list[Block]:
    """The counts, and the first queries."""
    positives = int((qrels.grades > 0).sum())
    heading = facts(
        f"Judgements “{qrels.name}”",
        (len(qrels), "queries"),
        (len(qrels.documents), "pairs"),
        counted(positives, "positives"),
    )
    part = qrels.rows(np.arange(min(QUERIES, len(qrels)))).to_dict()
    rows = [
        [query, ", ".join(f"{name} ({grade:g})" for name, grade in list(of_query.items())[:6])]
        for query, of_query in part.items()
    ]
    note = f"the first {len(rows)} of {len(qrels):,} queries" if len(qrels) > len(rows) else ""
    table = Table.of([Column("query"), Column("documents (grade)")], rows, notes=[note] if note else [])
    return [heading, *([table] if rows else [])]
