"""The probe report: what an encoder's vectors hold, as tables and as one page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from visir.display import counted
from visir.evaluation.probes import ROLES, SOURCES, ProbedFact, ProbeResult, Role, RoleMean, Source
from visir.reports.page import (
    Block,
    Card,
    Cards,
    Definitions,
    Figure,
    Figures,
    Fold,
    Page,
    Paragraph,
    Section,
    inline,
    production,
    write_page,
)
from visir.reports.plots import DASHES, FAINT, SERIES, drawing, themed
from visir.reports.table import Cell, Column, Table, between, one_line
from visir.reports.views.parts import facts
from visir.storage import FolderKind, new_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from visir.reports.plot import Plot

# Plots of probes: a dot per fact and source, and the means of the roles; each returns a complete SVG document.

ROLE_WORDS: Mapping[Role, str] = {
    "shared": "shared: every caption tells it",
    "specific": "specific: one caption tells it",
    "irrelevant": "irrelevant: no caption tells it",
    "shortcut": "shortcut: digits of a number",
}
SOURCE_WORDS: Mapping[Source, str] = {
    "image": "image",
    "told": "caption telling it",
    "untold": "other caption",
}
# Shape and filling differ as well as colour, so that a black-and-white print still reads.
_MARKS: Mapping[Source, dict[str, Any]] = {
    "image": {"marker": "o", "color": SERIES[0], "markersize": 6},
    "told": {"marker": "s", "color": SERIES[1], "markersize": 5},
    "untold": {"marker": "D", "color": SERIES[2], "markersize": 4.5, "fillstyle": "none"},
}


def fact_dots(result: ProbeResult) -> Plot:
    """A line per fact, grouped by role: accuracy from each source with its 95 % interval, and an upright at chance."""
    places: list[float] = []
    names: list[str] = []
    heads: list[tuple[float, Role]] = []
    position = 0.0
    for role in ROLES:
        facts = [fact for fact in result.facts if fact.role == role]
        if facts:
            heads.append((position, role))
            places += [position + 1 + place for place in range(len(facts))]
            names += [one_line(fact.name.replace("_", " ")) for fact in facts]
            position += len(facts) + 1.4
    with drawing(5.4, 0.9 + 0.25 * position) as (figure, axes):
        ordered = [fact for role in ROLES for fact in result.facts if fact.role == role]
        for place, fact in zip(places, ordered, strict=True):
            for source, reading in fact.readings.items():
                axes.plot(100 * reading.chance, place, "|", color=FAINT, markersize=11, markeredgewidth=1.4, zorder=1)
                # A little apart, so that what is named every time from both does not hide one below the other.
                height = place + {"image": -0.15, "told": 0.15, "untold": 0.0}[source]
                ends = [100 * reading.low, 100 * reading.high]
                axes.plot(ends, [height, height], color=_MARKS[source]["color"], linewidth=1.3)
                axes.plot(100 * reading.accuracy, height, linestyle="none", **_MARKS[source])
        for place, role in heads:
            axes.text(0, place, ROLE_WORDS[role], va="center", weight="bold", fontsize=9.5)
        axes.set_yticks(places, names)
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(position - 0.4, -0.7)
        axes.set_xlim(-1.5, 101.5)
        axes.set_xlabel("held-out examples named rightly, %")
        _legend(figure, axes, result, "chance", "|")
        return figure


def role_means(result: ProbeResult) -> Plot:
    """Mean normalised accuracy of each role from each source, with its 95 % interval; 0 is chance, 100 perfect."""
    roles = [role for role in ROLES if any(mean.role == role for mean in result.roles)]
    with drawing(5.4, 2.9) as (figure, axes):
        axes.axhline(0, color=FAINT, linewidth=1.2, linestyle=DASHES[2], zorder=1)
        for mean in result.roles:
            x = roles.index(mean.role) + 0.2 * (SOURCES.index(mean.source) - 1)
            axes.plot([x, x], [100 * mean.low, 100 * mean.high], color=_MARKS[mean.source]["color"], linewidth=1.6)
            axes.plot(x, 100 * mean.mean, linestyle="none", **_MARKS[mean.source])
        axes.set_xticks(range(len(roles)), [f"{role}\n{_count(result, role)}" for role in roles])
        axes.tick_params(axis="x", length=0)
        axes.grid(visible=False, axis="x")
        axes.set_xlim(-0.5, len(roles) - 0.5)
        axes.set_ylim(min(-8.0, 110 * min(mean.mean if np.isnan(mean.low) else mean.low for mean in result.roles)), 104)
        axes.set_ylabel("from chance (0) to perfect, %")
        _legend(figure, axes, result, "chance", DASHES[2])
        return figure


def _count(result: ProbeResult, role: Role) -> str:
    count = sum(fact.role == role for fact in result.facts)
    return f"{count} fact{'s' if count > 1 else ''}"


def _legend(figure: Any, axes: Axes, result: ProbeResult, chance: str, mark: Any) -> None:
    sources = {source for fact in result.facts for source in fact.readings}
    for source in SOURCES:
        if source in sources:
            axes.plot([], [], linestyle="none", label=SOURCE_WORDS[source], **_MARKS[source])
    if mark == "|":
        axes.plot([], [], "|", color=FAINT, markersize=11, markeredgewidth=1.4, label=chance)
    else:
        axes.plot([], [], color=FAINT, linewidth=1.2, linestyle=mark, label=chance)
    figure.legend(loc="outside upper center", fontsize=8.5, ncols=2)


_HEADS: Mapping[Source, str] = {"image": "image", "told": "told", "untold": "not told"}


def facts_table(result: ProbeResult, *, intervals: bool = False) -> Table:
    """One row per fact: its role, how many values, chance, and the accuracy from each source, in percent."""
    heads = SOURCE_WORDS if intervals else _HEADS
    columns = [
        *(Column("fact"), Column("role"), Column("values", 0), Column("chance", 1)),
        *(Column(heads[source], 1) for source in SOURCES),
    ]
    rows = [
        [fact.name, fact.role, fact.values, 100 * next(iter(fact.readings.values())).chance,
         *(_accuracy(fact, source, intervals) for source in SOURCES)]
        for role in ROLES for fact in result.facts if fact.role == role
    ]  # fmt: skip
    readings = [reading for fact in result.facts for reading in fact.readings.values()]
    widest = max((reading.high - reading.low) / 2 for reading in readings)
    notes = [
        "Held-out examples whose value the probe names, in percent, read from the image's vector, from that of a "
        "caption that tells the fact, and of one that does not.",
        f"{result.images:,} images, one example of each; {result.folds} folds, seed {result.seed}."
        + ("" if intervals else f" 95 % intervals (Wilson): at most ±{100 * widest:.1f}."),
    ]
    return Table.of(columns, rows, caption=f"{_encoders(result)} on {result.collection}", notes=notes)


def roles_table(result: ProbeResult, *, intervals: bool = False) -> Table:
    """One row per role: the mean of its facts' normalised accuracies from each source, in percent."""
    heads = SOURCE_WORDS if intervals else _HEADS
    columns = [Column("role"), Column("facts", 0), *(Column(heads[source], 1) for source in SOURCES)]
    means = {(mean.role, mean.source): mean for mean in result.roles}
    counts = {role: sum(fact.role == role for fact in result.facts) for role in ROLES}
    rows: list[list[Cell]] = [
        [role, counts[role], *(_mean(means.get((role, source)), intervals) for source in SOURCES)]
        for role in ROLES
        if counts[role]
    ]
    note = (
        "Mean over the facts of (accuracy − chance) / (1 − chance), in percent: 0 at chance, 100 when every value is "
        f"named. {'In brackets' if intervals else '±:'} 95 % intervals, Student's t over images."
    )
    return Table.of(columns, rows, caption="By role", notes=[note])


def write_probe_report(
    path: str | Path, result: ProbeResult, *, command: str = "", beside: Mapping[str, str] | None = None
) -> Path:
    """Write the page of a probed encoder and return its path."""
    lead = (
        "A linear probe guesses each fact of a scene from a vector alone. 0 is what guessing the most frequent value "
        "reaches, 100 is every value named; the mean over the facts of each role."
    )
    cards = [Card(ROLE_WORDS[role], values) for role in ROLES if (values := _card_values(result, role))]
    numbers: list[Block] = [Paragraph(lead, "lead"), Cards(cards), roles_table(result, intervals=True)]
    sections = [
        Section("numbers", "How much of it can be read", numbers, short="Numbers"),
        Section("plots", "Plots", [Figures(probe_figures(result))]),
        Section("facts", "Facts", [facts_table(result, intervals=True)]),
        Section("made", "How it was measured", [_method(result), *production(command, beside)]),
    ]
    facts = [
        inline("collection <b>{}</b>", result.source or result.collection),
        inline("images <b>{}</b>", f"{result.images:,}"),
        inline("captions <b>{}</b>", f"{result.captions:,}"),
        inline("shortcuts <b>{}</b>", result.shortcuts or "none"),
    ]
    return write_page(path, Page("probe report", f"{_encoders(result)} on {result.collection}", sections, facts))


def _method(result: ProbeResult) -> Block:
    """How it was measured, term by term."""
    vectors = (
        f"images {result.image_encoder}, {result.image_dimension} dimensions; texts {result.text_encoder}, "
        f"{result.text_dimension} dimensions"
    )
    cut = (
        f"{result.folds} folds of images (seed {result.seed}), each held out once; a caption lies in the fold of its "
        "image, and every value of a fact is spread evenly over the folds."
    )
    return Definitions(
        [
            (
                "probe",
                "Multinomial logistic regression on unit vectors, standardised; the penalty chosen on images that are "
                "neither fitted nor counted. It finds what is there linearly, not what would take more to find.",
            ),
            ("cut", cut),
            (
                "examples",
                "One per image and source: its vector, that of one caption which tells the fact, that of one which "
                "does not. So every probe has as many examples as the others.",
            ),
            (
                "chance",
                "The share of the most frequent value among the held-out examples. It is chosen in hindsight, so a "
                "probe that knows nothing may end a little below 0.",
            ),
            ("vectors", vectors),
            ("fingerprint", inline("<code>{}</code>", result.fingerprint)),
        ]
    )


def probe_figures(result: ProbeResult) -> list[Figure]:
    """The plot of the roles and that of the facts."""
    means = "; ".join(f"{mean.role}, {SOURCE_WORDS[mean.source]}: {100 * mean.mean:.0f} %" for mean in result.roles)
    return [
        Figure(
            themed(role_means(result), "probed-roles", f"Mean normalised accuracy by role. {means}."),
            "By role",
            "Mean over the facts of each role, with 95 % intervals.",
        ),
        Figure(
            themed(fact_dots(result), "probed-facts", "Accuracy of every fact; the numbers are in the table of facts."),
            "Fact by fact",
            "Accuracy on held-out images, with 95 % intervals. The upright is chance: the share of the most frequent "
            "value.",
        ),
    ]


def _encoders(result: ProbeResult) -> str:
    names = dict.fromkeys((result.image_encoder, result.text_encoder))
    return " + ".join(names)


def _card_values(result: ProbeResult, role: Role) -> list[tuple[str, str]]:
    """The numbers of a role's card; the control is left to the table where there is something to control."""
    means = {mean.source: f"{100 * mean.mean:.0f}" for mean in result.roles if mean.role == role}
    if "told" in means:
        means.pop("untold", None)
    return [(SOURCE_WORDS[source], value) for source, value in means.items()]


def _accuracy(fact: ProbedFact, source: Source, interval: bool) -> Cell:
    reading = fact.readings.get(source)
    if reading is None:
        return None
    return _bounded(reading.accuracy, reading.low, reading.high) if interval else 100 * reading.accuracy


def _mean(mean: RoleMean | None, interval: bool) -> Cell:
    if mean is None:
        return None
    if interval:
        return _bounded(mean.mean, mean.low, mean.high)
    if np.isnan(mean.low):
        return Column("", 1).text(100 * mean.mean)
    return f"{Column('', 1).text(100 * mean.mean)} ±{100 * max(mean.mean - mean.low, mean.high - mean.mean):.1f}"


def _bounded(value: float, low: float, high: float) -> str:
    column = Column("", 1)
    return f"{column.text(100 * value)} ({between(100 * low, 100 * high, column).replace('…', 'to')})"


PROBES = FolderKind("probes", "a probe report")


def save_probes(result: ProbeResult, folder: Path, *, command: str = "") -> None:
    """Write probes into a folder: probes.json and probes.html; `result.save` calls this."""
    with new_folder(folder, PROBES, replace=True) as change:
        change.write_json("probes.json", result.to_dict())
        beside = {"probes.json": "every number of this page"}
        write_probe_report(change.file("probes.html"), result, command=command, beside=beside)


# How it looks in a notebook.


def probes_blocks(result: ProbeResult) -> list[Block]:
    """The means by role; every fact, folded."""
    encoders = dict.fromkeys((result.image_encoder, result.text_encoder))
    return [
        facts(" and ".join(encoders), f"on {result.collection}", counted(len(result.facts), "facts")),
        replace(roles_table(result), caption=""),
        Fold("Every fact", [replace(facts_table(result), caption="")]),
    ]


def probes_plot(result: ProbeResult, *, by: Literal["role", "fact"] = "role") -> Plot:
    """The mean of the facts of each role, or the accuracy of every fact, with intervals."""
    return role_means(result) if by == "role" else fact_dots(result)
