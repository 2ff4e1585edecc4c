"""The granularity of captions: means of the features, and changes against another collection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.errors import VisirError
from visir.evaluation.granularity import GranularityStudy
from visir.reports.granularity import (
    changes_plot,
    changes_table,
    definitions_table,
    means_table,
    protocol_table,
    tidy_means,
)
from visir.reports.page import Block, Fold
from visir.reports.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from visir.reports.plot import Plot


def blocks(study: GranularityStudy) -> list[Block]:
    """The means, or the changes where there are two collections; definitions folded."""
    main: list[Block] = [changes_table(study, profile) for profile in study.comparisons] or [means_table(study)]
    return [
        *main,
        Fold("What the features count", [definitions_table(study)]),
        Fold("Protocol", [protocol_table(study)]),
    ]


def table(study: GranularityStudy) -> Table:
    """The means of the features by profile; the changes of the first profile where there are two collections."""
    return changes_table(study, next(iter(study.comparisons))) if study.comparisons else means_table(study)


def arrow(study: GranularityStudy) -> pa.Table:
    """One row per collection, profile and feature."""
    from visir.reports.formats import to_arrow

    return to_arrow(tidy_means(study))


def plot(study: GranularityStudy) -> Plot:
    """The change of each feature in percent, with its 95 % interval."""
    if not study.comparisons:
        raise VisirError(
            "there is nothing to draw of one collection.",
            hint="visir.granularity(refined, against=original).plot() draws what changed between two",
        )
    return changes_plot(study)
