"""The granularity of captions as tables, a plot and a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from visir.errors import VisirError
from visir.evaluation.granularity import GranularityStudy, says
from visir.reports.page import Paragraph, Section
from visir.reports.plots import PlotMark, dots
from visir.reports.report import Chart, StudyReport
from visir.reports.table import Column, Table, at
from visir.robustness.granularity import FEATURES, Profile
from visir.storage import FolderKind

if TYPE_CHECKING:
    from visir.reports.plot import Plot


def means_table(study: GranularityStudy, which: int = 0) -> Table:
    """One row per feature, the profiles side by side: the mean over captions, and its 95 % interval."""
    # `which`: 0 for the collection, 1 for the one that it is compared with.
    means = study.means[which]
    rows = [(_title(name), *(of[place] for of in means.values())) for place, name in enumerate(FEATURES)]
    columns = [Column("per caption", of=at(0))]
    columns += [Column(profile, 3, of=at(place, "mean"), ends=_ends(place)) for place, profile in enumerate(means, 1)]
    counted = study.counted[which]
    undefined = [
        f"{_title(mean.feature)} ({profile}) is not defined for {total - mean.defined:,} of {total:,} captions"
        for profile, of in means.items()
        for mean, total in ((mean, len(counted[profile])) for mean in of)
        if mean.defined < total
    ]
    caption = f"Granularity of {counted[study.profiles[0]].name}"
    return Table.over(rows, columns, caption=caption, notes=undefined)


def _ends(place: int) -> Callable[[Any], Any]:
    return lambda row: (row[place].low, row[place].high)


def changes_table(study: GranularityStudy, profile: Profile) -> Table:
    """One row per feature: the mean before (images in common), the change, its interval, in percent of it, and p."""
    compared = study.comparisons[profile]
    columns = [
        Column("per caption", of=lambda change: _title(change.feature)),
        Column("before", 3, of="original"),
        Column("change", 3, signed=True, of="difference", ends=("low", "high")),
        Column(
            "%",
            1,
            signed=True,
            of=lambda change: change.difference / change.original if change.original else None,
            scale=100,
        ),
        Column(f"p ({compared.correction})", 4, positive=True, of="p_corrected"),
    ]
    caption = f"{compared.refined.name} against {compared.original.name} (before), {profile} profile"
    return Table.over(compared.changes, columns, caption=caption)


def protocol_table(study: GranularityStudy) -> Table:
    """What the numbers must not travel without."""
    return Table.pairs(study.protocol)


def tidy_means(study: GranularityStudy) -> Table:
    """All means of both collections, one per row: for CSV."""
    rows = [
        (study.counted[number][profile].name, profile, mean)
        for number, by_profile in enumerate(study.means)
        for profile, means in by_profile.items()
        for mean in means
    ]
    columns = [Column("collection", of=at(0)), Column("profile", of=at(1)), Column("feature", of=at(2, "feature"))]
    columns += [Column(name, of=at(2, name)) for name in ("mean", "low", "high")]
    return Table.over(rows, [*columns, Column("captions", of=at(2, "defined"))])


def tidy_changes(study: GranularityStudy) -> Table:
    """All changes, one per row: for CSV."""
    names = ("feature", "original", "refined", "difference", "low", "high", "p", "p_corrected", "images")
    rows = [(profile, change) for profile, compared in study.comparisons.items() for change in compared.changes]
    return Table.over(rows, [Column("profile", of=at(0)), *(Column(name, of=at(1, name)) for name in names)])


def granularity_report(study: GranularityStudy) -> StudyReport:
    """How detailed captions are, and where there are two collections, what differs."""
    lead = Paragraph("Means over captions. Images are drawn, with all their captions, for the intervals.", "lead")
    chart = Chart(
        "changes",
        lambda: granularity_plot(study),
        caption="Differences are paired by image. One whose interval is clear of zero is more than chance; whether it "
        "is large enough to matter, the axis says.",
        label="Change of each feature in percent",
    )
    definitions = [[_title(name), *(says(name, profile) for profile in study.profiles)] for name in FEATURES]
    means = [means_table(study, number) for number in range(len(study.counted))]
    changes = [changes_table(study, profile) for profile in study.comparisons]
    what = Table.of([Column("feature"), *map(Column, study.profiles)], definitions)
    sections = [
        Section("means", "How detailed the captions are", [lead, *means]),
        Section("changes", "What differs", changes),
        Section("plot", "What changed, in percent", [chart] if study.comparisons else []),
        Section("definitions", "What was counted", [what]),
        Section("protocol", "Protocol", [protocol_table(study)]),
    ]
    title = " and ".join(counted[study.profiles[0]].name for counted in study.counted)
    files = {
        "granularity.json": (study.to_dict, ""),
        "granularity.csv": (tidy_means(study), ""),
        **({"changes.csv": (tidy_changes(study), "")} if study.comparisons else {}),
        "captions.parquet": (lambda: _captions(study), ""),
    }
    return StudyReport(
        *("granularity", title, sections),
        headline=changes,
        printed=[*means, *changes, protocol_table(study)],
        name="granularity",
        files=files,
        folder=GRANULARITY,
    )


def _title(name: str) -> str:
    return name.replace("_", " ")


GRANULARITY = FolderKind("granularity", "a report of granularity")


def _captions(study: GranularityStudy) -> pa.Table:
    """The values of every caption."""
    parts = []
    for by_profile in study.counted:
        for profile, counted in by_profile.items():
            table = counted.to_arrow()
            for position, (name, value) in enumerate((("collection", counted.name), ("profile", profile))):
                table = table.add_column(position, name, pa.array([value] * len(counted), pa.string()))
            parts.append(table)
    return pa.concat_tables(parts)


def granularity_table(study: GranularityStudy) -> Table:
    """The means of the features by profile; the changes of the first profile where there are two collections."""
    return changes_table(study, next(iter(study.comparisons))) if study.comparisons else means_table(study)


def granularity_plot(study: GranularityStudy) -> Plot:
    """The change of each feature in percent of what was there before, with its 95 % interval, profile by profile."""
    if not study.comparisons:
        raise VisirError(
            "there is nothing to draw of one collection.",
            hint="visir.granularity(refined, against=original).plot() draws what changed between two",
        )
    marks = []
    for profile, compared in study.comparisons.items():
        by_feature = {change.feature: change for change in compared.changes if change.original > 0}
        for name in filter(by_feature.__contains__, FEATURES):
            change = by_feature[name]
            values = [100 * value / change.original for value in (change.difference, change.low, change.high)]
            marks.append(PlotMark(_title(name), values, f"{profile} profile"))
    return dots(marks, "change, % (95 % interval)", size=(6.2, 0.34), lines={0: "-"})
