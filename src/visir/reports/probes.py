"""The probe report: what an encoder's vectors hold, as tables and as one page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from visir.display import counted
from visir.evaluation.probes import ROLES, SOURCES, ProbeResult, Role, Source
from visir.reports.page import Block, Card, Cards, Definitions, Figures, Paragraph, Section, inline
from visir.reports.plots import DASHES, FAINT, SERIES, PlotMark, dots
from visir.reports.report import Chart, StudyReport
from visir.reports.table import Column, Table, one_line
from visir.storage import FolderKind

if TYPE_CHECKING:
    from visir.reports.plot import Plot

# Plots of probes: a dot per fact and source, and the means of the roles.

ROLE_WORDS: Mapping[str, str] = {
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
_MARKS: Mapping[str, dict[str, Any]] = {
    SOURCE_WORDS["image"]: {"marker": "o", "color": SERIES[0], "markersize": 6},
    SOURCE_WORDS["untold"]: {"marker": "D", "color": SERIES[2], "markersize": 4.5, "fillstyle": "none"},
    SOURCE_WORDS["told"]: {"marker": "s", "color": SERIES[1], "markersize": 5},
    "chance": {"marker": "|", "color": FAINT, "markersize": 11, "at": 0},
}


def fact_dots(result: ProbeResult) -> Plot:
    """A line per fact, grouped by role: accuracy from each source with its 95 % interval, and an upright at chance."""
    marks = []
    for role in ROLES:
        for fact in (fact for fact in result.facts if fact.role == role):
            name = one_line(fact.name.replace("_", " "))
            for source, reading in fact.readings.items():
                values = [100 * value for value in (reading.accuracy, reading.low, reading.high)]
                marks.append(PlotMark(name, values, SOURCE_WORDS[source], role))
                marks.append(PlotMark(name, [100 * reading.chance], "chance", role))
    axis = "held-out examples named rightly, %"
    # A little apart, so that what is named every time from both does not hide one below the other.
    return dots(
        marks, axis, size=(5.4, 0.25), apart=0.15, styles=_MARKS, heads=ROLE_WORDS, limits=(-1.5, 101.5), legend=2
    )


def role_means(result: ProbeResult) -> Plot:
    """Mean normalised accuracy of each role from each source, with its 95 % interval; 0 is chance, 100 perfect."""
    marks = []
    for role in ROLES:
        row = f"{role}\n{counted(sum(fact.role == role for fact in result.facts), 'facts')}"
        for mean in (mean for mean in result.roles if mean.role == role):
            values = [100 * value for value in (mean.mean, mean.low, mean.high)]
            marks.append(PlotMark(row, values, SOURCE_WORDS[mean.source]))
    least = min(-8.0, *(1.1 * (mark.values[0] if mark.low != mark.low else mark.low) for mark in marks))
    axis = "from chance (0) to perfect, %"
    return dots(marks, axis, size=(5.4, 0.5), styles=_MARKS, lines={0: DASHES[2]}, limits=(least, 104), legend=3)


def facts_table(result: ProbeResult, *, intervals: bool = False) -> Table:
    """One row per fact: its role, how many values, chance, and the accuracy from each source, in percent."""

    def accuracy(fact: Any, source: Source) -> Any:
        reading = fact.readings.get(source)
        if reading is None or not intervals:
            return None if reading is None else 100 * reading.accuracy
        return _bounded(reading.accuracy, reading.low, reading.high)

    columns = [
        *(Column("fact", of="name"), Column("role", of="role"), Column("values", 0, of="values")),
        Column("chance", 1, of=lambda fact: next(iter(fact.readings.values())).chance, scale=100),
        *_by_source(accuracy, intervals),
    ]
    readings = [reading for fact in result.facts for reading in fact.readings.values()]
    widest = max((reading.high - reading.low) / 2 for reading in readings)
    notes = [
        "Held-out examples whose value the probe names, in percent, read from the image's vector, from that of a "
        "caption that tells the fact, and of one that does not.",
        f"{result.images:,} images, one example of each; {result.folds} folds, seed {result.seed}."
        + ("" if intervals else f" 95 % intervals (Wilson): at most ±{100 * widest:.1f}."),
    ]
    facts = [fact for role in ROLES for fact in result.facts if fact.role == role]
    return Table.over(facts, columns, caption=f"{_encoders(result)} on {result.collection}", notes=notes)


def roles_table(result: ProbeResult, *, intervals: bool = False) -> Table:
    """One row per role: the mean of its facts' normalised accuracies from each source, in percent."""
    means = {(mean.role, mean.source): mean for mean in result.roles}
    counts = {role: sum(fact.role == role for fact in result.facts) for role in ROLES}

    def mean_of(role: Role, source: Source) -> Any:
        mean = means.get((role, source))
        if mean is None:
            return None
        if intervals:
            return _bounded(mean.mean, mean.low, mean.high)
        apart = "" if mean.low != mean.low else f" ±{100 * max(mean.mean - mean.low, mean.high - mean.mean):.1f}"
        return f"{Column('', 1).text(100 * mean.mean)}{apart}"

    columns = [Column("role", of=str), Column("facts", 0, of=counts.__getitem__), *_by_source(mean_of, intervals)]
    note = (
        "Mean over the facts of (accuracy − chance) / (1 − chance), in percent: 0 at chance, 100 when every value is "
        f"named. {'In brackets' if intervals else '±:'} 95 % intervals, Student's t over images."
    )
    return Table.over(filter(counts.__getitem__, ROLES), columns, caption="By role", notes=[note])


def _by_source(read: Any, intervals: bool) -> list[Column]:
    heads = SOURCE_WORDS if intervals else {"image": "image", "told": "told", "untold": "not told"}

    def of(source: Source) -> Callable[[Any], Any]:
        return lambda thing: read(thing, source)

    return [Column(heads[source], 1, of=of(source)) for source in SOURCES]


def _bounded(value: float, low: float, high: float) -> str:
    value, low, high = (100 * number for number in (value, low, high))
    column = Column("", 1)
    ends = "–" if low != low or high != high else f"{column.text(low)} to {column.text(high)}"
    return f"{column.text(value)} ({ends})"


def probe_report(result: ProbeResult) -> StudyReport:
    """What an encoder's vectors hold: by role, fact by fact, and how it was measured."""
    lead = (
        "A linear probe guesses each fact of a scene from a vector alone. 0 is what guessing the most frequent value "
        "reaches, 100 is every value named; the mean over the facts of each role."
    )
    cards = [Card(ROLE_WORDS[role], values) for role in ROLES if (values := _card_values(result, role))]
    means = "; ".join(f"{mean.role}, {SOURCE_WORDS[mean.source]}: {100 * mean.mean:.0f} %" for mean in result.roles)
    charts = [
        Chart(
            "probed-roles",
            lambda: role_means(result),
            "By role",
            "Mean over the facts of each role, with 95 % intervals.",
            f"Mean normalised accuracy by role. {means}.",
        ),
        Chart(
            "probed-facts",
            lambda: fact_dots(result),
            "Fact by fact",
            "Accuracy on held-out images, with 95 % intervals. The upright is chance: the share of the most frequent "
            "value.",
            "Accuracy of every fact; the numbers are in the table of facts.",
        ),
    ]
    numbers: list[Block] = [Paragraph(lead, "lead"), Cards(cards), roles_table(result, intervals=True)]
    sections = [
        Section("numbers", "How much of it can be read", numbers, short="Numbers"),
        Section("plots", "Plots", [Figures(charts)]),
        Section("facts", "Facts", [facts_table(result, intervals=True)]),
        Section("made", "How it was measured", [_method(result)]),
    ]
    facts = {
        "collection": result.source or result.collection,
        "images": f"{result.images:,}",
        "captions": f"{result.captions:,}",
        "shortcuts": result.shortcuts or "none",
    }
    title = f"{_encoders(result)} on {result.collection}"
    return StudyReport(
        *("probe report", title, sections, facts, [roles_table(result)], [facts_table(result), roles_table(result)]),
        name="probes",
        files={"probes.json": (result.to_dict, "every number of this page")},
        folder=PROBES,
    )


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


def _encoders(result: ProbeResult) -> str:
    names = dict.fromkeys((result.image_encoder, result.text_encoder))
    return " + ".join(names)


def _card_values(result: ProbeResult, role: Role) -> list[tuple[str, str]]:
    """The numbers of a role's card; the control is left to the table where there is something to control."""
    means = {mean.source: f"{100 * mean.mean:.0f}" for mean in result.roles if mean.role == role}
    if "told" in means:
        means.pop("untold", None)
    return [(SOURCE_WORDS[source], value) for source, value in means.items()]


PROBES = FolderKind("probes", "a probe report")


def probes_plot(result: ProbeResult, *, by: Literal["role", "fact"] = "role") -> Plot:
    """The mean of the facts of each role, or the accuracy of every fact, with intervals."""
    return role_means(result) if by == "role" else fact_dots(result)
