"""A profile as tables and as a page: "what this model can do"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

from visir.display import counted, listed
from visir.reports.page import Block, Bullets, Definitions, Fold, Paragraph, Section, inline
from visir.reports.plots import DASHES, SERIES, PlotMark, dots
from visir.reports.report import Chart, StudyReport
from visir.reports.table import Column, Table, one_line, shortened
from visir.studies.profile.result import ABILITIES, ModelProfile, SkillScore

if TYPE_CHECKING:
    from visir.reports.plot import Plot

_LONGEST_LABEL = 40
"""Letters of a name that are shown."""
_FLOOR = -20.0
"""Strengths below this are drawn at it."""


def strength_dots(profile: ModelProfile) -> Plot:
    """A line for each task: the strength of the model with its interval, and that of the reference."""
    several = _has_several_sources(profile)
    model, reference = (one_line(name)[:40] for name in (profile.model, profile.reference))
    marks: list[PlotMark] = []
    for row in profile.scores:
        label = shortened(one_line(row.name if several else row.skill), _LONGEST_LABEL)
        label += " " * sum(mark.row.rstrip() == label and mark.series == model for mark in marks)  # one of its own
        values = [_drawn(row, value) for value in (row.score, row.low, row.high) if not isnan(value)]
        if row.reference is not None:
            marks.append(PlotMark(label, [_drawn(row, row.reference)], f"{reference} ", row.ability))
        marks.append(PlotMark(label, values, model, row.ability))
    lowest = min([0.0, *(_percent(row, value) for row in profile.scores for value in (row.score, row.low))])
    return dots(
        marks,
        "strength, %: 0 is chance, 100 no mistake",
        size=(5.8, 0.235),
        apart=0,
        styles={
            model: {"color": SERIES[0], "marker": "o"},
            f"{reference} ": {"color": SERIES[1], "marker": "s", "markersize": 5, "fillstyle": "none"},
        },
        heads={ability: ability for ability in profile.abilities},
        lines={0: DASHES[2]},
        limits=(max(_FLOOR, lowest) - 1.5, 101.5),
        legend=2,
    )


def _percent(row: SkillScore, value: float) -> float:
    strength = row.between(value)
    return 0.0 if isnan(strength) else 100 * strength


def _drawn(row: SkillScore, value: float) -> float:
    return max(_FLOOR, _percent(row, value))


MEASURES = {
    "hit@1": "R@1",
    "all_first": "choice",
    "item_score": "item",
    "group_score": "group",
    "top-1": "top-1",
}
"""What measures are called in tables, before the number of candidates: "R@1 of 200", "choice of 2"."""
_NAMES, _LONGEST = 8, 60
"""How many names of tasks a line lists, and how many letters of each."""


def profile_table(profile: ModelProfile) -> Table:
    """All tasks in one table, ability by ability, the strongest first."""
    notes = [f"In percent. {_explained(profile)}", f"{profile.summary}.", *profile.notes]
    notes += _remarks(profile.scores, profile)
    measured = [Column("measure", of=_measure), Column("queries", 0, of="queries")]
    columns = [Column("ability", of="ability"), *_columns(profile, profile.scores, "name"), *measured]
    return Table.over(profile.scores, columns, caption=f"What {profile.model} can do", notes=notes)


def ability_table(profile: ModelProfile, ability: str) -> Table:
    """The tasks of one ability."""
    scores = profile.of(ability)
    columns = _columns(profile, scores, "name" if _has_several_sources(profile) else "skill")
    columns.append(
        Column(
            "what it is, and what is counted",
            of=lambda row: f"{row.title}: {_measure(row)}, {counted(row.queries, 'queries')}",
        )
    )
    return Table.over(scores, columns, notes=_remarks(scores, profile))


def _columns(profile: ModelProfile, scores: Sequence[SkillScore], name: str) -> list[Column]:
    """What matters most stands first: a narrow screen shows no more."""
    has_blind = any(row.blind is not None or row.blind_missing for row in scores)
    compared = [
        Column(profile.reference, 1, of="reference", scale=100),
        Column("difference", 1, signed=True, of=lambda row: row.difference and row.difference.mean, scale=100),
    ]
    return [
        Column("task", of=name),
        Column("strength", 0, of="strength", scale=100),
        Column("score", 1, of="score", scale=100, ends=("low", "high")),
        Column("chance", 1, of="chance", scale=100),
        *([Column("blind", 1, of="blind", scale=100)] if has_blind else []),
        *(compared if profile.reference else []),
    ]


def _measure(row: SkillScore) -> str:
    return f"{MEASURES.get(row.measure, row.measure)} of {row.candidates}"


def left_out_table(profile: ModelProfile) -> Table:
    """What was not measured, and why; tasks with one reason are one row."""
    by_reason: dict[str, list[str]] = {}
    for row in profile.left_out:
        by_reason.setdefault(row.reason, []).append(row.name)
    rows = [[", ".join(names), reason] for reason, names in by_reason.items()]
    return Table.of([Column("task"), Column("reason")], rows)


def tidy_profile(profile: ModelProfile) -> Table:
    """All values as shares, one row per task: for CSV and data frames."""

    def apart(name: str) -> Callable[[Any], Any]:
        return lambda row: row.difference and getattr(row.difference, name)

    fields = ("queries", "candidates", "score", "low", "high", "chance", "blind", "strength")
    columns = [
        Column("model", of=lambda row: profile.model),
        *(Column(name, of=name) for name in ("ability", "source")),
        Column("task", of="skill"),
        *(Column(name, of=name) for name in ("title", "measure", *fields)),
        Column("reference", of=lambda row: profile.reference or None),
        Column("reference_score", of="reference"),
        *(Column(f"difference{end}", of=apart(end[1:] or "mean")) for end in ("", "_low", "_high")),
        Column("protocol", of="protocol"),
        *(Column(name, of=_text(name)) for name in ("blind_by", "blind_missing", "reference_missing")),
    ]
    return Table.over(profile.scores, columns)


def _text(name: str) -> Callable[[Any], Any]:
    return lambda row: getattr(row, name) or None


def profile_report(profile: ModelProfile) -> StudyReport:
    """What a model can do: at a glance, ability by ability, what was not measured, and how it was."""
    best = profile.by_strength
    lead = f"Every task that data is at hand for, the strongest first, in percent. {_explained(profile)}"
    several = _has_several_sources(profile)
    extremes = inline(
        "Strongest: <b>{}</b> ({}). Weakest: <b>{}</b> ({}).",
        *_in_words(best[0], several),
        *_in_words(best[-1], several),
    )
    strengths = ", ".join(f"{row.name} {100 * row.strength:.0f} %" for row in profile.scores if not isnan(row.strength))
    chart = Chart(
        "strength",
        lambda: strength_dots(profile),
        caption="A dot is the model, with its 95 % interval; a square is the reference. 0 is what chance reaches, 100 "
        "is no mistake. Strengths below −20 % are drawn at −20 %.",
        label=f"Strength of each task: {strengths}",
        in_notebooks=True,
    )
    about = "These tasks are no zeros: the model cannot take them, or their data could not be read."
    left_out: list[Block] = [Paragraph(about, "lead"), left_out_table(profile)]
    sections = [
        Section("overview", "At a glance", [Paragraph(lead, "lead"), Paragraph(extremes), chart]),
        *(
            Section(
                *(ability, ability.capitalize()),
                [Paragraph(ABILITIES[ability], "lead"), ability_table(profile, ability)],
            )
            for ability in profile.abilities
        ),
        Section("left-out", "Not measured", left_out if profile.left_out else []),
        Section("made", "How it was measured", _how(profile), "How", in_notebooks=False),
    ]
    facts = [
        inline("tasks <b>{}</b>", f"{len(profile.scores):,}"),
        inline("reference <b>{}</b>", profile.reference or "none"),
        *(inline("{}", part.strip()) for part in profile.summary.split(";")),
    ]
    printed = [profile_table(profile), *([left_out_table(profile)] if profile.left_out else [])]
    return StudyReport("model profile", f"What {profile.model} can do", sections, facts, printed=printed)


def _how(profile: ModelProfile) -> list[Block]:
    """What the columns are, and the protocol of every number."""
    words: list[tuple[str, str]] = [
        ("strength", "(score − chance) / (1 − chance): 0 is what chance reaches, 100 % is no mistake. Below 0, the "
         "model is worse than chance: equal scores count against it."),
        ("chance", "the exact expected value when the score of every pair is random"),
        ("blind", "what is reached without a look at the query: by a language model that takes the likelier text, or "
         "by naming the most frequent class. Read a score as understanding as far as it is above this"),
        ("measure", "what is counted, and of how many candidates: R@1, the right one is first; choice, every right one "
         "is above every wrong one; item, all choices of an item in one direction are right; group, in both; top-1, "
         "the right class is first"),
        ("95 % interval", "queries of one picture, or of one item, are one unit"),
    ]  # fmt: skip
    if profile.reference:
        words.append(("difference", f"the model minus {profile.reference}, over the same queries"))
    by_model = _grouped(profile.scores, lambda row: [row.blind_by])
    words += [(f"blind, by {model}", ", ".join(names)) for model, names in by_model.items()]
    blocks: list[Block] = [Definitions(words)]
    for key, rows in profile.protocols.items():
        scores = [row for row in profile.scores if row.protocol == key]
        notes = list(dict.fromkeys(note for row in scores for note in row.notes))
        table = Table.pairs(rows)
        names = ", ".join(row.name for row in scores)
        blocks.append(Fold(f"Protocol of {names}", [table, *([Bullets(notes)] if notes else [])]))
    return [*blocks, *([Bullets(profile.notes)] if profile.notes else [])]


def _explained(profile: ModelProfile) -> str:
    text = "Strength is where the score stands between chance (0) and perfect (100 %)."
    if profile.reference == "colours":
        return f"{text} The reference “colours” knows colours and their names, and nothing else."
    return f"{text} The reference is {profile.reference}." if profile.reference else text


def _remarks(scores: Sequence[SkillScore], profile: ModelProfile) -> list[str]:
    """Why cells are empty, and what a reader must know of some tasks: a line for each."""
    lines = []
    for title, reasons in (
        (profile.reference, _grouped(scores, lambda row: [row.reference_missing])),
        ("blind", _grouped(scores, lambda row: [row.blind_missing])),
    ):
        for reason, names in reasons.items():
            lines.append(f"{title}: no value in {counted(len(names), 'tasks')} ({_listed(names)}): {reason}.")
    return lines + [f"{_listed(names)}: {note}." for note, names in _grouped(scores, lambda row: row.notes).items()]


def _listed(names: Sequence[str]) -> str:
    return listed(names, len(names), limit=_NAMES, width=_LONGEST)


def _grouped(scores: Sequence[SkillScore], texts: Callable[[SkillScore], Iterable[str]]) -> dict[str, list[str]]:
    """The names of tasks by texts that are known of them."""
    names: dict[str, list[str]] = {}
    for row in scores:
        for text in filter(None, texts(row)):
            names.setdefault(text, []).append(row.name)
    return names


def _has_several_sources(profile: ModelProfile) -> bool:
    return len({row.source for row in profile.scores}) > 1


def _in_words(row: SkillScore, several: bool) -> tuple[str, str]:
    return (
        row.name if several else row.skill,
        f"{row.title}: {100 * row.score:.1f} % of {counted(row.queries, 'queries')}, chance {100 * row.chance:.1f} %",
    )
