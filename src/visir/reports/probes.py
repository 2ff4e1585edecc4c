"""The probe report: what an encoder's vectors hold, as tables and as one page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from visir.evaluation.latent_facts import ROLES, Role
from visir.evaluation.probe_examples import SOURCES, Source
from visir.evaluation.probes import ProbedFact, ProbeResult, RoleMean
from visir.reports.figures import Figure
from visir.reports.formats import to_html
from visir.reports.page import write_page
from visir.reports.probe_plots import ROLE_WORDS, SOURCE_WORDS, fact_dots, role_means
from visir.reports.svg import themed
from visir.reports.table import Cell, Column, Table, between

_HEADS: Mapping[Source, str] = {"image": "image", "told": "told", "untold": "not told"}


def facts_table(result: ProbeResult, *, intervals: bool = False) -> Table:
    """One row per fact: its role, how many values, chance, and the accuracy from each source, in percent.

    With `intervals` each accuracy has its own 95 % interval; without, a note tells the widest of all.
    """
    heads = SOURCE_WORDS if intervals else _HEADS
    columns = [
        *(Column("fact"), Column("role"), Column("values", 0), Column("chance", 1)),
        *(Column(heads[one], 1) for one in SOURCES),
    ]
    rows = [
        [one.name, one.role, one.values, 100 * next(iter(one.readings.values())).chance,
         *(_accuracy(one, source, intervals) for source in SOURCES)]
        for role in ROLES for one in result.facts if one.role == role
    ]  # fmt: skip
    widest = max((one.high - one.low) / 2 for fact in result.facts for one in fact.readings.values())
    notes = [
        "Held-out examples whose value the probe names, in percent, read from the image's vector, from that of a "
        "caption that tells the fact, and of one that does not.",
        f"{result.images:,} images, one example of each; {result.folds} folds, seed {result.seed}."
        + ("" if intervals else f" 95 % intervals (Wilson): at most ±{100 * widest:.1f}."),
    ]
    return Table.of(columns, rows, caption=f"{_encoders(result)} on {result.collection}", notes=notes)


def roles_table(result: ProbeResult, *, intervals: bool = False) -> Table:
    """One row per role: the mean of its facts' normalised accuracies from each source, in percent.

    With `intervals` both ends of each 95 % interval; without, how far the farther end is.
    """
    heads = SOURCE_WORDS if intervals else _HEADS
    columns = [Column("role"), Column("facts", 0), *(Column(heads[one], 1) for one in SOURCES)]
    means = {(one.role, one.source): one for one in result.roles}
    rows: list[list[Cell]] = [
        [
            role,
            sum(one.role == role for one in result.facts),
            *(_mean(means.get((role, one)), intervals) for one in SOURCES),
        ]
        for role in ROLES
        if any(one.role == role for one in result.facts)
    ]
    note = (
        "Mean over the facts of (accuracy − chance) / (1 − chance), in percent: 0 at chance, 100 when every value is "
        f"named. {'In brackets' if intervals else '±:'} 95 % intervals, a bootstrap over images."
    )
    return Table.of(columns, rows, caption="By role", notes=[note])


def write_probe_report(
    path: str | Path, result: ProbeResult, *, command: str = "", beside: Mapping[str, str] | None = None
) -> Path:
    """Write the probe report as a single HTML file; returns its path.

    The file needs no network, no script and no other file, and follows the reader's light or dark theme. The same
    result gives the same bytes. `command` is the command line that makes it again; `beside` {file name: what it holds}
    of the files written into the same folder.
    """
    return write_page(
        path,
        "probes.html.j2",
        title=f"{_encoders(result)} on {result.collection}",
        result=result,
        cards=[(ROLE_WORDS[role], _big(result, role)) for role in ROLES if _big(result, role)],
        roles_table=to_html(roles_table(result, intervals=True)),
        facts_table=to_html(facts_table(result, intervals=True)),
        figures=probe_figures(result),
        command=command,
        beside=sorted((beside or {}).items()),
    )


def probe_figures(result: ProbeResult) -> list[Figure]:
    """The plot of the facts and that of the roles, to be put into a page."""
    said = "; ".join(f"{one.role}, {SOURCE_WORDS[one.source]}: {100 * one.mean:.0f} %" for one in result.roles)
    return [
        Figure(
            themed(role_means(result), "probed-roles", f"Mean normalised accuracy by role. {said}."),
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


def _big(result: ProbeResult, role: Role) -> list[tuple[str, str]]:
    """The numbers of a role's card; the control is left to the table where there is something to control."""
    means = {one.source: f"{100 * one.mean:.0f}" for one in result.roles if one.role == role}
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
