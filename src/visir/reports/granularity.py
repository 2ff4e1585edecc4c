"""The granularity of captions as tables, a plot and a page."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from visir.errors import VisirError
from visir.evaluation.granularity import GranularityStudy, Mean, says
from visir.reports.formats import to_csv
from visir.reports.page import Block, Code, Figure, Fold, Page, Paragraph, Section, write_page
from visir.reports.plots import INK, MARKERS, SERIES, drawing, themed
from visir.reports.table import Cell, Column, Table, between
from visir.robustness.granularity import FEATURES, Profile
from visir.storage import FolderKind, new_folder

if TYPE_CHECKING:
    import pyarrow as pa

    from visir.reports.plot import Plot


def means_table(study: GranularityStudy, which: int = 0) -> Table:
    """One row per feature, the profiles side by side: the mean over captions, and its 95 % interval."""
    # `which`: 0 for the collection, 1 for the one that it is compared with.
    means = study.means[which]
    columns = [Column("per caption")]
    for profile in study.profiles:
        columns += [Column(profile, 3), Column("95 % interval", 3)]
    rows: list[list[Cell]] = []
    for position, name in enumerate(FEATURES):
        row: list[Cell] = [_title(name)]
        for profile in study.profiles:
            row += _mean(means[profile][position])
        rows.append(row)
    first = study.counted[which][study.profiles[0]]
    return Table.of(columns, rows, caption=f"Granularity of {first.name}", notes=_undefined(study, which))


def changes_table(study: GranularityStudy, profile: Profile) -> Table:
    """One row per feature: the mean before (images in common), the change, its interval, in percent of it, and p."""
    compared = study.comparisons[profile]
    columns = [
        Column("per caption"),
        Column("before", 3),
        Column("change", 3, signed=True),
        Column("95 % interval", 3),
        Column("%", 1, signed=True),
        Column(f"p ({compared.correction})", 4, positive=True),
    ]
    rows: list[list[Cell]] = [
        [
            _title(change.feature),
            change.original,
            change.difference,
            between(change.low, change.high, Column("", 3, signed=True)),
            100 * change.difference / change.original if change.original else None,
            change.p_corrected,
        ]
        for change in compared.changes
    ]
    caption = f"{compared.refined.name} against {compared.original.name} (before), {profile} profile"
    return Table.of(columns, rows, caption=caption)


def definitions_table(study: GranularityStudy) -> Table:
    """What each feature counts, profile by profile."""
    rows = [[_title(name), *(says(name, profile) for profile in study.profiles)] for name in FEATURES]
    return Table.of([Column("feature"), *(Column(profile) for profile in study.profiles)], rows)


def protocol_table(study: GranularityStudy) -> Table:
    """What the numbers must not travel without."""
    return Table.of([Column("field"), Column("value")], study.protocol)


def tidy_means(study: GranularityStudy) -> Table:
    """All means of both collections, one per row: for CSV."""
    columns = [Column(name) for name in ("collection", "profile", "feature", "mean", "low", "high", "captions")]
    rows = [
        [
            study.counted[number][profile].name,
            profile,
            mean.feature,
            *map(_known, (mean.mean, mean.low, mean.high)),
            mean.defined,
        ]
        for number, by_profile in enumerate(study.means)
        for profile, means in by_profile.items()
        for mean in means
    ]
    return Table.of(columns, rows)


def tidy_changes(study: GranularityStudy) -> Table:
    """All changes, one per row: for CSV."""
    names = ("original", "refined", "difference", "low", "high", "p", "p_corrected", "images")
    rows: list[list[Cell]] = [
        [profile, change.feature, *(getattr(change, name) for name in names)]
        for profile, compared in study.comparisons.items()
        for change in compared.changes
    ]
    return Table.of([Column("profile"), Column("feature"), *(Column(name) for name in names)], rows)


def changes_plot(study: GranularityStudy) -> Plot:
    """The changes in percent of what was there before, with intervals, the profiles side by side. An SVG document."""
    with drawing(6.2, 3.8) as (figure, axes):
        count = len(study.profiles)
        for number, (profile, compared) in enumerate(study.comparisons.items()):
            shown = [change for change in compared.changes if change.original > 0]
            low, middle, high = (
                np.array([100 * getattr(change, name) / change.original for change in shown])
                for name in ("low", "difference", "high")
            )
            place = np.array([list(FEATURES).index(change.feature) for change in shown]) + 0.26 * (
                number - (count - 1) / 2
            )
            axes.errorbar(
                middle,
                place,
                xerr=np.maximum(0, [middle - low, high - middle]),
                fmt=MARKERS[number],
                color=SERIES[number],
                markersize=4.5,
                linewidth=1.6,
                label=f"{profile} profile",
            )
        axes.axvline(0, color=INK, linewidth=1)
        axes.set_yticks(range(len(list(FEATURES))), [_title(name) for name in FEATURES])
        axes.invert_yaxis()
        axes.set_xlabel("change, % (95 % interval)")
        figure.legend(loc="outside upper center", ncols=count, fontsize=8.5)
        return figure


def write_granularity_report(path: str | Path, study: GranularityStudy, command: Sequence[str] = ()) -> Path:
    """Write the page of a granularity study and return its path."""
    lead = Paragraph("Means over captions. Images are drawn, with all their captions, for the intervals.", "lead")
    means = [means_table(study, number) for number in range(len(study.counted))]
    sections = [Section("means", "How detailed the captions are", [lead, *means])]
    if study.comparisons:
        changes = [changes_table(study, profile) for profile in study.comparisons]
        figure = Figure(
            themed(changes_plot(study), "changes", "Change of each feature in percent"),
            "",
            "Differences are paired by image. One whose interval is clear of zero is more than chance; whether it is "
            "large enough to matter, the axis says.",
        )
        sections += [
            Section("changes", "What differs", changes),
            Section("plot", "What changed, in percent", [figure]),
        ]
    sections += [
        Section("definitions", "What was counted", [definitions_table(study)]),
        Section("protocol", "Protocol", [protocol_table(study)]),
    ]
    if command:
        sections.append(Section("made", "How it was made", [Code(shlex.join(command))]))
    title = " and ".join(counted[study.profiles[0]].name for counted in study.counted)
    return write_page(path, Page("granularity", title, sections))


def _title(name: str) -> str:
    return name.replace("_", " ")


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _mean(mean: Mean) -> list[Cell]:
    return [mean.mean, between(mean.low, mean.high, Column("", 3))] if mean.defined else [None, None]


def _undefined(study: GranularityStudy, which: int) -> list[str]:
    """Which features leave captions out, and how many."""
    notes = []
    for profile, means in study.means[which].items():
        total = len(study.counted[which][profile])
        notes += [
            f"{_title(mean.feature)} ({profile}) is not defined for {total - mean.defined:,} of {total:,} captions"
            for mean in means
            if mean.defined < total
        ]
    return notes


GRANULARITY = FolderKind("granularity", "a report of granularity")


def save_granularity(study: GranularityStudy, folder: Path, *, command: str = "") -> None:
    """Write a study of granularity into a folder: JSON, CSV, the values of every caption, a page."""
    parts = []
    for by_profile in study.counted:
        for profile, counted in by_profile.items():
            table = counted.to_arrow()
            for position, (name, value) in enumerate((("collection", counted.name), ("profile", profile))):
                table = table.add_column(position, name, pa.array([value] * len(counted), pa.string()))
            parts.append(table)
    with new_folder(folder, GRANULARITY, replace=True) as change:
        change.write_json("granularity.json", study.to_dict())
        change.write("granularity.csv", to_csv(tidy_means(study)).encode())
        if study.comparisons:
            change.write("changes.csv", to_csv(tidy_changes(study)).encode())
        pq.write_table(pa.concat_tables(parts), change.file("captions.parquet"))
        write_granularity_report(change.file("granularity.html"), study, shlex.split(command))


# How it looks in a notebook.


def granularity_blocks(study: GranularityStudy) -> list[Block]:
    """The means, or the changes where there are two collections; definitions folded."""
    main: list[Block] = [changes_table(study, profile) for profile in study.comparisons] or [means_table(study)]
    return [
        *main,
        Fold("What the features count", [definitions_table(study)]),
        Fold("Protocol", [protocol_table(study)]),
    ]


def granularity_table(study: GranularityStudy) -> Table:
    """The means of the features by profile; the changes of the first profile where there are two collections."""
    return changes_table(study, next(iter(study.comparisons))) if study.comparisons else means_table(study)


def granularity_plot(study: GranularityStudy) -> Plot:
    """The change of each feature in percent, with its 95 % interval."""
    if not study.comparisons:
        raise VisirError(
            "there is nothing to draw of one collection.",
            hint="visir.granularity(refined, against=original).plot() draws what changed between two",
        )
    return changes_plot(study)
