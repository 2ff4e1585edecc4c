"""A profile: the plot of strengths, the tables of the abilities, what was left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.display import counted
from visir.reports.page import Block, Fold
from visir.reports.profile import (
    ability_table,
    left_out_table,
    profile_table,
    strength_dots,
    strength_figure,
    tidy_profile,
)
from visir.reports.table import Table
from visir.reports.views.parts import facts
from visir.studies.profile.result import ModelProfile

if TYPE_CHECKING:
    import pyarrow as pa

    from visir.reports.plot import Plot


def blocks(profile: ModelProfile) -> list[Block]:
    """The plot, and a table for each ability, folded."""
    beside = f"beside {profile.reference}" if profile.reference else ""
    shown: list[Block] = [
        facts(profile.model, counted(len(profile.scores), "tasks"), beside, profile.summary),
        strength_figure(profile),
        *(Fold(ability.capitalize(), [ability_table(profile, ability)]) for ability in profile.abilities),
    ]
    return [*shown, Fold("Not measured", [left_out_table(profile)])] if profile.left_out else shown


def table(profile: ModelProfile) -> Table:
    """One row per task."""
    return profile_table(profile)


def arrow(profile: ModelProfile) -> pa.Table:
    """One row per task, every value as a share."""
    from visir.reports.formats import to_arrow

    return to_arrow(tidy_profile(profile))


def plot(profile: ModelProfile) -> Plot:
    """A dot for each task, between chance and perfect."""
    return strength_dots(profile)
