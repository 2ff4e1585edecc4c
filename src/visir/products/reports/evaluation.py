"""The tables of category-to-image search: systems × measures, seen and unseen, comparisons, wrong first answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from visir.products.evaluation import TABLE, CategoryEvaluation, FirstAnswers
from visir.products.task import Setting
from visir.reports.page import Block, Paragraph
from visir.reports.plots import FAINT, INK, SERIES, drawing
from visir.reports.table import Cell, Column, Table, between, one_line

if TYPE_CHECKING:
    from visir.reports.plot import Plot


SETTING_WORDS: Mapping[Setting, str] = {
    "all": "All categories",
    "general": "Most general categories",
    "specific": "Most specific categories",
}
"""How the settings are called, as in Table 7.1."""
HEADS: Mapping[str, str] = {
    "precision@1": "P@1",
    "precision@5": "P@5",
    "precision@10": "P@10",
    "capped_map@5": "mAP@5",
    "capped_map@10": "mAP@10",
    "rprecision": "R-prec",
}
"""How the columns of Table 7.1 are called."""
WORDS: Mapping[object, str] = {
    "s": "without plural endings: “Skirts” finds “a red skirt”",
    "none": "words as they are, the thesis names no stemmer: “Skirts” does not find “a red skirt”",
}
"""What BM25 compares, by the stemming on its card."""


def setting_head(evaluation: CategoryEvaluation, setting: Setting) -> str:
    """The setting in words, with how many categories ask in a split."""
    counts = sorted({len(trial.task.judgements()) for trial in evaluation.trials[_first(evaluation, setting), setting]})
    counted = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    splits = len(evaluation.trials[_first(evaluation, setting), setting])
    return f"{SETTING_WORDS[setting]} ({counted}{' in each split' if splits > 1 else ''})"


def systems_in_setting(evaluation: CategoryEvaluation, setting: Setting) -> list[str]:
    """The systems that answered a setting."""
    return [system for system in evaluation.systems if (system, setting) in evaluation.trials]


def words_notes(evaluation: CategoryEvaluation) -> list[str]:
    """What every BM25 row compares, and why there may be two: categories have plural names, titles have singulars."""
    read = {
        system: WORDS[stemming]
        for system in evaluation.systems
        if (stemming := evaluation.cards.get(system, {}).get("stemming")) in WORDS
    }
    return [f"{system}: {words}." for system, words in read.items()]


def settings_table(evaluation: CategoryEvaluation, setting: Setting) -> Table:
    """Systems × the measures of Table 7.1: means over the splits, and how far R-precision differs between them (sd)."""
    systems = systems_in_setting(evaluation, setting)
    splits = max(len(evaluation.trials[system, setting]) for system in systems)
    columns = [Column("system"), *(Column(HEADS[name], 1, "max") for name in TABLE)]
    rows: list[list[Cell]] = [
        [system, *(100 * evaluation.spread(system, setting, name).mean for name in TABLE)] for system in systems
    ]
    if splits > 1:
        columns.append(Column("± R-prec", 1))
        for row, system in zip(rows, systems, strict=True):
            row.append(100 * evaluation.spread(system, setting, "rprecision").sd)
    notes = [f"In percent; means over {splits} splits." if splits > 1 else "In percent."]
    return Table.of(columns, rows, caption=setting_head(evaluation, setting), notes=[*notes, *words_notes(evaluation)])


def seen_table(evaluation: CategoryEvaluation, measures: Sequence[str] = TABLE) -> Table:
    """Table 7.3 for every system: unseen and seen categories of each setting, over the queries of all splits."""
    rows: list[list[Cell]] = []
    for setting in evaluation.settings:
        for system in systems_in_setting(evaluation, setting):
            parts = {name: evaluation.by_seen(system, setting, name) for name in measures}
            for part in ("unseen", "seen"):
                if part in parts[measures[0]]:
                    values = [100 * parts[name][part][0] for name in measures]
                    rows.append([setting, system, part, parts[measures[0]][part][1], *values])
    columns = [Column("setting"), Column("system"), Column("categories"), Column("queries", 0)]
    return Table.of(
        [*columns, *(Column(HEADS[name], 1) for name in measures)],
        rows,
        caption="Seen and unseen categories",
        notes=["Seen: the category was the query of a training pair of the split. Queries of all splits together."],
    )


def differences_table(evaluation: CategoryEvaluation) -> Table:
    """R-precision of every pair of systems in every setting, paired by category, Holm-corrected."""
    compared = evaluation.compare()
    rows: list[list[Cell]] = [
        [
            difference.task,
            f"{difference.system} − {difference.baseline}",
            100 * difference.difference,
            between(100 * difference.low, 100 * difference.high, Column("", 1, signed=True)),
            difference.p_corrected,
            "not testable" if difference.untested else difference.p_corrected < 0.05,
        ]
        for difference in compared.differences
    ]
    columns = [
        Column("setting"),
        Column("difference in R-precision"),
        Column("points", 1, signed=True),
        Column("95 % interval"),
        Column(f"p ({compared.correction})", 4, positive=True),
        Column("beyond chance"),
    ]
    notes = [f"{compared.how}; {compared.correction.capitalize()} over {compared.family} comparisons.", *compared.notes]
    return Table.of(columns, rows, caption="Differences between systems", notes=notes)


def errors_table(first_answers: Mapping[tuple[str, Setting], FirstAnswers]) -> Table:
    """Table 7.2 for every system: where the wrong first answers lie."""
    columns = [Column("setting"), Column("system"), Column("queries", 0), Column("right", 0), Column("same tree", 0)]
    columns += [Column("other tree", 0), Column("no answer", 0), Column("mean distance", 2)]
    ordered = sorted(first_answers, key=lambda key: list(SETTING_WORDS).index(key[1]))
    rows: list[list[Cell]] = []
    for system, setting in ordered:
        answers = first_answers[system, setting]
        wrong = sum(answers.errors.distances.values())
        mean = sum(edges * count for edges, count in answers.errors.distances.items()) / wrong if wrong else None
        counts = [
            answers.queries,
            answers.right,
            answers.errors.same_tree,
            answers.errors.different_tree,
            answers.unanswered,
        ]
        rows.append([setting, system, *counts, mean])
    return Table.of(
        columns,
        rows,
        caption="Wrong first answers",
        notes=[
            "Queries of all splits. Same tree: the category of the first product and the one that asked have the same "
            "most general category. Distance: edges on the way from one to the other, over a common root between "
            "trees."
        ],
    )


def _first(evaluation: CategoryEvaluation, setting: Setting) -> str:
    return systems_in_setting(evaluation, setting)[0]


# Plots of category-to-image search: systems by setting, seen and unseen, and where wrong answers lie in the tree.

# Shape differs as well as colour, so that a black-and-white print still reads.
_MARKS: Mapping[Setting, dict[str, Any]] = {
    "all": {"color": SERIES[0], "marker": "o"},
    "general": {"color": SERIES[1], "marker": "s"},
    "specific": {"color": SERIES[2], "marker": "^"},
}
_HATCHES: Mapping[Setting, str] = {"all": "", "general": "//", "specific": "xx"}
_WIDEST = 34


def setting_dots(evaluation: CategoryEvaluation, name: str = "rprecision") -> Plot:
    """A line per system: its mean in each setting, with one standard deviation of the splits to either side."""
    systems = evaluation.systems
    with drawing(6.4, 1.35 + 0.46 * len(systems)) as (figure, axes):
        for number, setting in enumerate(evaluation.settings):
            label: str | None = SETTING_WORDS[setting].lower()
            for system in systems_in_setting(evaluation, setting):
                spread = evaluation.spread(system, setting, name)
                height = systems.index(system) + 0.17 * (number - (len(evaluation.settings) - 1) / 2)
                if spread.sd == spread.sd:  # NaN for a single split
                    ends = [100 * (spread.mean - spread.sd), 100 * (spread.mean + spread.sd)]
                    axes.plot(ends, [height, height], color=_MARKS[setting]["color"], linewidth=1.4)
                axes.plot(100 * spread.mean, height, linestyle="none", markersize=6.5, label=label, **_MARKS[setting])
                label = None
        axes.set_yticks(range(len(systems)), [_short(system) for system in systems])
        axes.set_ylim(len(systems) - 0.5, -0.5)
        axes.set_xlim(0, 101)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("R-precision, %")
        figure.legend(loc="outside upper center", ncols=3, fontsize=9)
        return figure


def seen_lines(evaluation: CategoryEvaluation, name: str = "rprecision") -> Plot:
    """A line per system and setting from its value on unseen (hollow) to that on seen categories (filled)."""
    rows = [(setting, system) for setting in evaluation.settings for system in systems_in_setting(evaluation, setting)]
    with drawing(6.4, 1.3 + 0.34 * len(rows)) as (figure, axes):
        for place, (setting, system) in enumerate(rows):
            parts = {part: 100 * value for part, (value, _) in evaluation.by_seen(system, setting, name).items()}
            mark = _MARKS[setting]
            if len(parts) == 2:
                axes.plot(list(parts.values()), [place, place], color=mark["color"], linewidth=2, alpha=0.5)
            for part, value in parts.items():
                axes.plot(
                    value,
                    place,
                    linestyle="none",
                    markersize=7,
                    fillstyle="full" if part == "seen" else "none",
                    markeredgewidth=1.6,
                    **mark,
                )
        for fill, label in (("full", "seen"), ("none", "unseen")):
            axes.plot([], [], "o", color=INK, fillstyle=fill, markeredgewidth=1.6, label=label)
        axes.set_yticks(range(len(rows)), [f"{setting}: {_short(system)}" for setting, system in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(-1, 101)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("R-precision, %")
        figure.legend(loc="outside upper center", ncols=2, fontsize=9)
        return figure


def depth_bars(answers: Mapping[Setting, FirstAnswers]) -> Plot:
    """Figure 7.2: wrong first answers in the same tree by depth(c_p) − depth(c), in percent of each setting's."""
    shown = {setting: first for setting, first in answers.items() if first.errors.same_tree}
    return _bars(
        {setting: first.errors.depth_differences for setting, first in shown.items()},
        "levels that the answer lies deeper (+) or higher (−)",
        signed=True,
    )


def distance_bars(answers: Mapping[Setting, FirstAnswers]) -> Plot:
    """All wrong first answers by the plain distance in the tree, in percent of each setting's."""
    return _bars(
        {setting: first.errors.distances for setting, first in answers.items()}, "edges in the tree", signed=False
    )


def _bars(counts: Mapping[Setting, Mapping[int, int]], label: str, *, signed: bool) -> Plot:
    counts = {setting: count for setting, count in counts.items() if count}
    with drawing(6.4, 3.1) as (figure, axes):
        keys = sorted({key for count in counts.values() for key in count})
        places = range(keys[0], keys[-1] + 1) if keys else range(0)
        width = 0.8 / max(len(counts), 1)
        for number, (setting, count) in enumerate(counts.items()):
            total = sum(count.values())
            positions = [key - 0.4 + width * (number + 0.5) for key in places]
            heights = [100 * count.get(key, 0) / total for key in places]
            words = f"{SETTING_WORDS[setting].lower()} ({total:,} wrong)"
            axes.bar(
                positions,
                heights,
                width * 0.92,
                color=_MARKS[setting]["color"],
                hatch=_HATCHES[setting],
                edgecolor="white",
                linewidth=0,
                label=words,
            )
        if not counts:
            axes.text(0.5, 0.5, "no wrong answer to show", ha="center", transform=axes.transAxes, color=FAINT)
        axes.set_xticks(list(places), [f"{key:+d}".replace("+0", "0") if signed else str(key) for key in places])
        axes.grid(visible=False, axis="x")
        axes.tick_params(axis="x", length=0)
        axes.set_xlabel(label)
        axes.set_ylabel("of the wrong answers, %")
        if counts:
            figure.legend(loc="outside upper center", ncols=1 if len(counts) > 2 else 2, fontsize=9)
        return figure


def _short(name: str) -> str:
    flat = one_line(name)
    return flat if len(flat) <= _WIDEST else flat[: _WIDEST - 1] + "…"


# An evaluation of category search in a notebook: a table for each setting, and the plot.


def blocks(evaluation: CategoryEvaluation) -> list[Block]:
    """A table for each setting."""
    names = _names(evaluation)
    columns = [Column("system"), *(Column(HEADS.get(name, name), 1, "max") for name in names)]
    tables: list[Block] = []
    for setting in evaluation.settings:
        rows: list[list[Cell]] = [
            [system, *(100 * evaluation.spread(system, setting, name).mean for name in names)]
            for system in systems_in_setting(evaluation, setting)
        ]
        tables.append(Table.of(columns, rows, caption=setting_head(evaluation, setting)))
    return [*tables, Paragraph(" ".join(["In percent; means over the folds.", *words_notes(evaluation)]), "soft")]


def table(evaluation: CategoryEvaluation) -> Table:
    """All settings and systems in one table: means over the folds, in percent."""
    names = _names(evaluation)
    rows: list[list[Cell]] = [
        [SETTING_WORDS[setting], system, *(100 * evaluation.spread(system, setting, name).mean for name in names)]
        for setting in evaluation.settings
        for system in systems_in_setting(evaluation, setting)
    ]
    columns = [Column("categories"), Column("system"), *(Column(HEADS.get(name, name), 1) for name in names)]
    return Table.of(columns, rows, notes=["In percent; means over the folds.", *words_notes(evaluation)])


def arrow(evaluation: CategoryEvaluation) -> pa.Table:
    """One row per setting, system and measure: mean and standard deviation over the folds, as fractions."""
    rows = []
    for system, setting in evaluation.trials:
        for name in evaluation.measures:
            mean = evaluation.spread(system, setting, name)
            rows.append({"setting": setting, "system": system, "measure": name, "mean": mean.mean, "sd": mean.sd})
    return pa.Table.from_pylist(rows)


def plot(evaluation: CategoryEvaluation) -> Plot:
    """A line per system: its mean R-precision in each setting, with the standard deviation of the folds."""
    return setting_dots(evaluation)


def _names(evaluation: CategoryEvaluation) -> list[str]:
    """The measures of Table 7.1, or those that were measured instead."""
    return [name for name in TABLE if name in evaluation.measures] or evaluation.measures
