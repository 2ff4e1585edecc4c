"""A profile as tables and as a page: "what this model can do"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from visir.display import counted, listed
from visir.reports.page import (
    Block,
    Bullets,
    Definitions,
    Figure,
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
from visir.studies.profile.result import ABILITIES, ModelProfile, SkillScore

if TYPE_CHECKING:
    from visir.reports.plot import Plot

# The plot of a profile: every task as a dot between chance and perfect, ability by ability.

_LONGEST_LABEL = 40
"""Letters of a name that are shown."""
_FLOOR = -20.0
"""Strengths below this are drawn at it."""


def strength_dots(profile: ModelProfile) -> Plot:
    """A line for each task: the strength of the model with its interval, and that of the reference."""
    several = len({row.source for row in profile.scores}) > 1
    places: list[float] = []
    heads: list[tuple[float, str]] = []
    position = 0.0
    for ability in profile.abilities:
        heads.append((position, ability))
        count = len(profile.of(ability))
        places += [position + 1 + place for place in range(count)]
        position += count + 1.4
    lowest = min([0.0, *(_percent(row, value) for row in profile.scores for value in (row.score, row.low))])
    left = max(_FLOOR, lowest) - 1.5
    with drawing(5.2, 1.0 + 0.235 * position) as (figure, axes):
        axes.axvline(0, color=FAINT, linewidth=1.2, linestyle=DASHES[2], zorder=1)
        for place, row in zip(places, profile.scores, strict=True):
            if row.reference is not None:
                axes.plot(_drawn(row, row.reference), place, "s", color=SERIES[1], markersize=5, fillstyle="none")
            ends = [_drawn(row, value) for value in (row.low, row.high) if not isnan(value)]
            axes.plot(ends, [place] * len(ends), color=SERIES[0], linewidth=1.6)
            axes.plot(_drawn(row, row.score), place, "o", color=SERIES[0], markersize=5.5)
        labels = [*(ability for _, ability in heads), *(_label(row, several) for row in profile.scores)]
        axes.set_yticks([*(place for place, _ in heads), *places], labels)
        for head in axes.get_yticklabels()[: len(heads)]:
            head.set_weight("bold")
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.set_ylim(position - 0.4, -0.7)
        axes.set_xlim(left, 101.5)
        axes.set_xlabel("strength, %: 0 is chance, 100 no mistake")
        axes.plot([], [], "o", color=SERIES[0], markersize=5.5, label=one_line(profile.model)[:40])
        if profile.reference:
            axes.plot([], [], "s", color=SERIES[1], markersize=5, fillstyle="none",
                      label=one_line(profile.reference)[:40])  # fmt: skip
        figure.legend(loc="outside upper center", fontsize=8.5, ncols=2)
        return figure


def strength_figure(profile: ModelProfile) -> Figure:
    """The plot for a page."""
    label = "Strength of each task: " + ", ".join(
        f"{row.name} {100 * row.strength:.0f} %" for row in profile.scores if not isnan(row.strength)
    )
    caption = (
        "A dot is the model, with its 95 % interval; a square is the reference. 0 is what chance reaches, 100 is no "
        "mistake. Strengths below −20 % are drawn at −20 %."
    )
    return Figure(themed(strength_dots(profile), "strength", label), "", caption)


def _percent(row: SkillScore, value: float) -> float:
    strength = row.between(value)
    return 0.0 if isnan(strength) else 100 * strength


def _drawn(row: SkillScore, value: float) -> float:
    return max(_FLOOR, _percent(row, value))


def _label(row: SkillScore, several: bool) -> str:
    shown = one_line(row.name if several else row.skill)
    return shown if len(shown) <= _LONGEST_LABEL else f"{shown[: _LONGEST_LABEL - 1]}…"


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
_PERCENT = Column("", 1)


def profile_table(profile: ModelProfile) -> Table:
    """All tasks in one table, ability by ability, the strongest first."""
    blind = _has_blind(profile.scores)
    rows: list[list[Cell]] = [[row.ability, *_cells(row, profile, blind, by_name=True)] for row in profile.scores]
    columns = [Column("ability"), *_columns(profile, blind, by_name=True)]
    notes = [f"In percent. {_explained(profile)}", f"{profile.summary}.", *profile.notes]
    notes += _remarks(profile.scores, profile)
    return Table.of(columns, rows, caption=f"What {profile.model} can do", notes=notes)


def ability_table(profile: ModelProfile, ability: str) -> Table:
    """The tasks of one ability."""
    blind = _has_blind(profile.of(ability))
    rows = [_cells(row, profile, blind) for row in profile.of(ability)]
    return Table.of(_columns(profile, blind), rows, notes=_remarks(profile.of(ability), profile))


def left_out_table(profile: ModelProfile) -> Table:
    """What was not measured, and why; tasks with one reason are one row."""
    by_reason: dict[str, list[str]] = {}
    for row in profile.left_out:
        by_reason.setdefault(row.reason, []).append(row.name)
    rows = [[", ".join(names), reason] for reason, names in by_reason.items()]
    return Table.of([Column("task"), Column("reason")], rows)


def tidy_profile(profile: ModelProfile) -> Table:
    """All values as shares, one row per task: for CSV and data frames."""
    names = ("model", "ability", "source", "task", "title", "measure", "queries", "candidates", "score", "low", "high",
             "chance", "blind", "strength", "reference", "reference_score", "difference", "difference_low",
             "difference_high", "protocol", "blind_by", "blind_missing", "reference_missing")  # fmt: skip
    rows: list[list[Cell]] = []
    for row in profile.scores:
        apart = row.difference
        rows.append(
            [
                *(profile.model, row.ability, row.source, row.skill, row.title, row.measure, row.queries),
                *(row.candidates, row.score, row.low, row.high, row.chance, row.blind, row.strength),
                *(profile.reference or None, row.reference),
                *((None, None, None) if apart is None else (apart.mean, apart.low, apart.high)),
                *(row.protocol, row.blind_by or None, row.blind_missing or None, row.reference_missing or None),
            ]
        )
    return Table.of([Column(name) for name in names], rows)


def write_profile(path: str | Path, profile: ModelProfile, *, command: str = "", replace: bool = False) -> Path:
    """Write the page of a profile and return its path."""
    return write_page(path, profile_page(profile, command), replace=replace)


def profile_page(profile: ModelProfile, command: str = "") -> Page:
    """The page of a profile."""
    best = profile.by_strength
    lead = f"Every task that data is at hand for, the strongest first, in percent. {_explained(profile)}"
    several = _has_several_sources(profile)
    extremes = inline(
        "Strongest: <b>{}</b> ({}). Weakest: <b>{}</b> ({}).",
        *_in_words(best[0], several),
        *_in_words(best[-1], several),
    )
    overview: list[Block] = [Paragraph(lead, "lead"), Paragraph(extremes), strength_figure(profile)]
    sections = [Section("overview", "At a glance", overview)]
    for ability in profile.abilities:
        blocks: list[Block] = [Paragraph(ABILITIES[ability], "lead"), ability_table(profile, ability)]
        sections.append(Section(ability, ability.capitalize(), blocks))
    if profile.left_out:
        about = "These tasks are no zeros: the model cannot take them, or their data could not be read."
        sections.append(Section("left-out", "Not measured", [Paragraph(about, "lead"), left_out_table(profile)]))
    sections.append(Section("made", "How it was measured", [*_how(profile), *production(command)], short="How"))
    facts = [
        inline("tasks <b>{}</b>", f"{len(profile.scores):,}"),
        inline("reference <b>{}</b>", profile.reference or "none"),
        *(inline("{}", part.strip()) for part in profile.summary.split(";")),
    ]
    return Page("model profile", f"What {profile.model} can do", sections, facts)


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
        table = Table.of([Column("field"), Column("value")], rows)
        names = ", ".join(row.name for row in scores)
        blocks.append(Fold(f"Protocol of {names}", [table, *([Bullets(notes)] if notes else [])]))
    return [*blocks, *([Bullets(profile.notes)] if profile.notes else [])]


def _explained(profile: ModelProfile) -> str:
    text = "Strength is where the score stands between chance (0) and perfect (100 %)."
    if profile.reference == "colours":
        return f"{text} The reference “colours” knows colours and their names, and nothing else."
    return f"{text} The reference is {profile.reference}." if profile.reference else text


def _columns(profile: ModelProfile, blind: bool, by_name: bool = False) -> list[Column]:
    """What matters most stands first: a narrow screen shows no more."""
    return [
        Column("task"),
        Column("strength", 0),
        *(Column("score", 1), Column("95 % interval", 1), Column("chance", 1)),
        *((Column("blind", 1),) if blind else ()),
        *((Column(profile.reference, 1), Column("difference", 1, signed=True)) if profile.reference else ()),
        *((Column("measure"), Column("queries", 0)) if by_name else (Column("what it is, and what is counted"),)),
    ]


def _cells(row: SkillScore, profile: ModelProfile, blind: bool, by_name: bool = False) -> list[Cell]:
    apart = row.difference
    measure = f"{MEASURES.get(row.measure, row.measure)} of {row.candidates}"
    compared: list[Cell] = []
    if profile.reference:
        compared = [_scaled(row.reference), None if apart is None else 100 * apart.mean]
    return [
        row.name if by_name or _has_several_sources(profile) else row.skill,
        100 * row.strength,
        *(100 * row.score, between(100 * row.low, 100 * row.high, _PERCENT), 100 * row.chance),
        *((_scaled(row.blind),) if blind else ()),
        *compared,
        *((measure, row.queries) if by_name else (f"{row.title}: {measure}, {counted(row.queries, 'queries')}",)),
    ]


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


def _has_blind(scores: Sequence[SkillScore]) -> bool:
    return any(row.blind is not None or row.blind_missing for row in scores)


def _scaled(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _in_words(row: SkillScore, several: bool) -> tuple[str, str]:
    return (
        row.name if several else row.skill,
        f"{row.title}: {100 * row.score:.1f} % of {counted(row.queries, 'queries')}, chance {100 * row.chance:.1f} %",
    )


# How it looks in a notebook.


def profile_blocks(profile: ModelProfile) -> list[Block]:
    """The plot, and a table for each ability, folded."""
    beside = f"beside {profile.reference}" if profile.reference else ""
    shown: list[Block] = [
        facts(profile.model, counted(len(profile.scores), "tasks"), beside, profile.summary),
        strength_figure(profile),
        *(Fold(ability.capitalize(), [ability_table(profile, ability)]) for ability in profile.abilities),
    ]
    return [*shown, Fold("Not measured", [left_out_table(profile)])] if profile.left_out else shown
