"""The tables of category-to-image search: systems × measures, seen and unseen, comparisons, wrong first answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from visir.products.errors import FirstAnswers
from visir.products.evaluate import TABLE, CategoryEvaluation
from visir.products.relevance import Setting
from visir.reports.table import Cell, Column, Table, between

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


def setting_head(evaluation: CategoryEvaluation, setting: Setting) -> str:
    """The setting in words, with how many categories ask in a split."""
    counts = sorted({len(one.task.judgements()) for one in evaluation.trials[_first(evaluation, setting), setting]})
    counted = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    splits = len(evaluation.trials[_first(evaluation, setting), setting])
    return f"{SETTING_WORDS[setting]} ({counted}{' in each split' if splits > 1 else ''})"


def systems_in_setting(evaluation: CategoryEvaluation, setting: Setting) -> list[str]:
    """The systems that answered a setting."""
    return [one for one in evaluation.systems if (one, setting) in evaluation.trials]


def settings_table(evaluation: CategoryEvaluation, setting: Setting) -> Table:
    """Systems × the measures of Table 7.1: means over the splits, and how far R-precision differs between them (sd)."""
    systems = systems_in_setting(evaluation, setting)
    splits = max(len(evaluation.trials[one, setting]) for one in systems)
    columns = [Column("system"), *(Column(HEADS[name], 1, "max") for name in TABLE)]
    rows: list[list[Cell]] = [
        [one, *(100 * evaluation.spread(one, setting, name).mean for name in TABLE)] for one in systems
    ]
    if splits > 1:
        columns.append(Column("± R-prec", 1))
        for row, one in zip(rows, systems, strict=True):
            row.append(100 * evaluation.spread(one, setting, "rprecision").sd)
    notes = [f"In percent; means over {splits} splits." if splits > 1 else "In percent."]
    return Table.of(columns, rows, caption=setting_head(evaluation, setting), notes=notes)


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
            one.task,
            f"{one.system} − {one.baseline}",
            100 * one.difference,
            between(100 * one.low, 100 * one.high, Column("", 1, signed=True)),
            one.p_corrected,
            "not testable" if one.untested else one.p_corrected < 0.05,
        ]
        for one in compared.differences
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


def errors_table(found: Mapping[tuple[str, Setting], FirstAnswers]) -> Table:
    """Table 7.2 for every system: where the wrong first answers lie."""
    columns = [Column("setting"), Column("system"), Column("queries", 0), Column("right", 0), Column("same tree", 0)]
    columns += [Column("other tree", 0), Column("no answer", 0), Column("mean distance", 2)]
    ordered = sorted(found, key=lambda key: list(SETTING_WORDS).index(key[1]))
    rows: list[list[Cell]] = []
    for system, setting in ordered:
        one = found[system, setting]
        wrong = sum(one.errors.distances.values())
        mean = sum(edges * count for edges, count in one.errors.distances.items()) / wrong if wrong else None
        counts = [one.queries, one.right, one.errors.same_tree, one.errors.different_tree, one.unanswered]
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
