"""The tables of category-to-image search: systems × measures, seen and unseen, comparisons, wrong first answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from visir.products.evaluation import TABLE, CategoryEvaluation, FirstAnswers
from visir.products.task import Setting
from visir.reports.page import Block, Paragraph
from visir.reports.plots import FAINT, SERIES, PlotMark, dots, drawing
from visir.reports.table import Cell, Column, Number, Table, at, one_line, shortened

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
    columns = [Column("system", of=str), *mean_columns(evaluation, TABLE, setting)]
    if splits > 1:
        deviation = Column("± R-prec", 1, of=lambda row: evaluation.spread(row, setting, "rprecision").sd, scale=100)
        columns.append(deviation)
    notes = [f"In percent; means over {splits} splits." if splits > 1 else "In percent.", *words_notes(evaluation)]
    return Table.over(systems, columns, caption=setting_head(evaluation, setting), notes=notes)


def mean_columns(
    evaluation: CategoryEvaluation, names: Sequence[str], setting: Setting | None = None, *, marked: bool = True
) -> list[Column]:
    """A column for each measure: the mean over the splits. Rows are systems of a setting, or (setting, system)."""

    def of(name: str) -> Callable[[Any], Any]:
        def mean(row: Any) -> Cell:
            where, system = row if setting is None else (setting, row)
            spread = evaluation.spread(system, where, name)
            return Number(100 * spread.mean, None if spread.splits < 2 else 100 * spread.sd)

        return mean

    return [Column(HEADS.get(name, name), 1, "max" if marked else None, of=of(name)) for name in names]


def seen_table(evaluation: CategoryEvaluation, measures: Sequence[str] = TABLE) -> Table:
    """Table 7.3 for every system: unseen and seen categories of each setting, over the queries of all splits."""
    rows: list[list[Cell]] = []
    for setting in evaluation.settings:
        for system in systems_in_setting(evaluation, setting):
            parts = [evaluation.by_seen(system, setting, name) for name in measures]
            rows += [
                [setting, system, part, parts[0][part][1], *(100 * values[part][0] for values in parts)]
                for part in ("unseen", "seen")
                if part in parts[0]
            ]
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
    columns = [
        Column("setting", of="task"),
        Column("difference in R-precision", of=lambda row: f"{row.system} − {row.baseline}"),
        Column("points", 1, signed=True, of="difference", scale=100, ends=("low", "high")),
        Column(f"p ({compared.correction})", 4, positive=True, of="p_corrected"),
        Column("beyond chance", of=lambda row: "not testable" if row.untested else row.p_corrected < 0.05),
    ]
    notes = [f"{compared.how}; {compared.correction.capitalize()} over {compared.family} comparisons.", *compared.notes]
    return Table.over(compared.differences, columns, caption="Differences between systems", notes=notes)


def errors_table(first_answers: Mapping[tuple[str, Setting], FirstAnswers]) -> Table:
    """Table 7.2 for every system: where the wrong first answers lie."""

    def mean_distance(row: Any) -> Cell:
        distances = row[2].errors.distances
        wrong = sum(distances.values())
        return sum(edges * count for edges, count in distances.items()) / wrong if wrong else None

    columns = [
        *(Column("setting", of=at(1)), Column("system", of=at(0))),
        *(Column("queries", 0, of=at(2, "queries")), Column("right", 0, of=at(2, "right"))),
        Column("same tree", 0, of=lambda row: row[2].errors.same_tree),
        Column("other tree", 0, of=lambda row: row[2].errors.different_tree),
        Column("no answer", 0, of=at(2, "unanswered")),
        Column("mean distance", 2, of=mean_distance),
    ]
    ordered = sorted(first_answers, key=lambda key: list(SETTING_WORDS).index(key[1]))
    note = (
        "Queries of all splits. Same tree: the category of the first product and the one that asked have the same "
        "most general category. Distance: edges on the way from one to the other, over a common root between trees."
    )
    rows = [(*key, first_answers[key]) for key in ordered]
    return Table.over(rows, columns, caption="Wrong first answers", notes=[note])


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
    marks = []
    for system in evaluation.systems:
        for setting in evaluation.settings:
            if (system, setting) in evaluation.trials:
                spread = evaluation.spread(system, setting, name)
                values = [100 * value for value in (spread.mean, spread.mean - spread.sd, spread.mean + spread.sd)]
                marks.append(PlotMark(shortened(one_line(system), _WIDEST), values, SETTING_WORDS[setting].lower()))
    styles = {SETTING_WORDS[setting].lower(): mark for setting, mark in _MARKS.items()}
    return dots(marks, "R-precision, %", size=(6.4, 0.6), apart=0.17, styles=styles, limits=(0, 101), legend=3)


def seen_lines(evaluation: CategoryEvaluation, name: str = "rprecision") -> Plot:
    """A line per system and setting from its value on unseen (hollow) to that on seen categories (filled)."""
    marks = []
    for setting in evaluation.settings:
        for system in systems_in_setting(evaluation, setting):
            parts = {part: 100 * value for part, (value, _) in evaluation.by_seen(system, setting, name).items()}
            row = f"{setting}: {shortened(one_line(system), _WIDEST)}"
            if len(parts) == 2:
                marks.append(PlotMark(row, [parts["seen"], *parts.values()], "seen"))
            marks += [PlotMark(row, [value], part) for part, value in parts.items()]
    mark = {"marker": "o", "markersize": 7, "color": SERIES[0]}
    styles = {"seen": mark, "unseen": {**mark, "fillstyle": "none"}}
    return dots(marks, "R-precision, %", size=(6.4, 0.34), apart=0, styles=styles, limits=(-1, 101), legend=2)


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
        axes.set(xlabel=label, ylabel="of the wrong answers, %")
        if counts:
            figure.legend(loc="outside upper center", ncols=1 if len(counts) > 2 else 2, fontsize=9)
        return figure


# An evaluation of category search in a notebook: a table for each setting, and the plot.


def blocks(evaluation: CategoryEvaluation) -> list[Block]:
    """A table for each setting."""
    tables: list[Block] = []
    for setting in evaluation.settings:
        columns = [Column("system", of=str), *mean_columns(evaluation, _names(evaluation), setting)]
        systems = systems_in_setting(evaluation, setting)
        tables.append(Table.over(systems, columns, caption=setting_head(evaluation, setting)))
    return [*tables, Paragraph(" ".join(["In percent; means over the folds.", *words_notes(evaluation)]), "soft")]


def table(evaluation: CategoryEvaluation) -> Table:
    """All settings and systems in one table: means over the folds, in percent."""
    rows = [(setting, name) for setting in evaluation.settings for name in systems_in_setting(evaluation, setting)]
    columns = [
        *(Column("categories", of=lambda row: SETTING_WORDS[row[0]]), Column("system", of=at(1))),
        *mean_columns(evaluation, _names(evaluation), marked=False),
    ]
    return Table.over(rows, columns, notes=["In percent; means over the folds.", *words_notes(evaluation)])


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
