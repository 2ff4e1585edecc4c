"""Probes: which facts are in the vectors, by role and one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from visir.display import counted
from visir.evaluation.probes import ProbeResult
from visir.reports.page import Block, Fold
from visir.reports.probes import fact_dots, facts_table, role_means, roles_table
from visir.reports.table import Table
from visir.reports.views.parts import facts

if TYPE_CHECKING:
    from visir.reports.plot import Plot


def blocks(result: ProbeResult) -> list[Block]:
    """The means by role; every fact, folded."""
    encoders = dict.fromkeys((result.image_encoder, result.text_encoder))
    return [
        facts(" and ".join(encoders), f"on {result.collection}", counted(len(result.facts), "facts")),
        replace(roles_table(result), caption=""),
        Fold("Every fact", [replace(facts_table(result), caption="")]),
    ]


def table(result: ProbeResult) -> Table:
    """One row per fact."""
    return facts_table(result)


def plot(result: ProbeResult, *, by: Literal["role", "fact"] = "role") -> Plot:
    """The mean of the facts of each role, or the accuracy of every fact, with intervals."""
    return role_means(result) if by == "role" else fact_dots(result)
