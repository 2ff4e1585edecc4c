"""Tables of a study: measured values beside published ones, orders, trend checks, words, the tree, the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from visir.papers.comparison import StudyComparison
from visir.papers.published_values import published_words
from visir.papers.reports.grid import grids
from visir.papers.status import STATES, StudyStatus
from visir.papers.verdicts import tree
from visir.reports.table import Cell, Column, Table

DATA = {
    "same": "On the data of the table; reproduced: within 5 % of the printed value (thesis 2.5.3)",
    "other": "On real data of another collection: values are not judged, the order of systems is",
    "quoted": "The authors' own numbers: nothing is measured, what the paper says of them is checked",
    "generated": "On generated data: values are not judged, and orders only show that the study runs",
}
"""What the data of a scale allows, as a note below its table."""


def values_table(comparison: StudyComparison) -> Table:
    """Every value that was run: measured, published, difference, state. Values that were not run are counted below."""
    values = [value for value in comparison.values if value.state != "not run"]
    rows: list[list[Cell]] = [
        [
            value.system,
            value.collection or None,
            value.label,
            value.ours,
            value.spread,
            value.published,
            None if value.relative is None else 100 * value.relative,
            value.state + (" ?" if value.doubt else ""),
        ]
        for value in values
    ]
    published = [abs(value.published) for value in values if value.published is not None]
    digits = 4 if published and max(published) < 2 else 2  # similarities and shares need more of them than percentages
    columns = [
        Column("system"),
        Column("collection"),
        Column("value"),
        Column("quoted" if comparison.data == "quoted" else "measured", digits),
        Column("± sd", digits),
        Column("published", digits),
        Column("difference %", 1, signed=True),
        Column("verdict"),
    ]
    for name in ("± sd", "collection"):  # one seed has no deviation; Table 1 has no collection
        position = [column.name for column in columns].index(name)
        if all(row[position] is None for row in rows):
            columns.pop(position)
            rows = [[*row[:position], *row[position + 1 :]] for row in rows]
    return Table.of(columns, rows, caption=_caption(comparison), notes=notes_of(comparison))


def notes_of(comparison: StudyComparison) -> list[str]:
    """The notes below the values: what was run, on what data, and what was not run."""
    values = [value for value in comparison.values if value.state != "not run"]
    notes = [comparison.study.scale(comparison.scale).description, DATA[comparison.data]]
    seeds = sorted({cell.seed for cell in comparison.cells if cell.state == "done"})
    notes.append(f"seeds {', '.join(map(str, seeds))}" if seeds else "nothing was run")
    left_out = comparison.not_measured
    notes += [f"{sum(left_out.values())} printed values were not run at this scale"] if left_out else []
    notes += [f"{count}: {reason}" for reason, count in left_out.items() if reason != "not run"]
    notes += ["?: the printed value is doubtful (visir papers show)"] if any(value.doubt for value in values) else []
    notes += sorted({f"failed: {value.reason}" for value in values if value.state == "failed"})
    notes += insufficient_data(comparison)
    reasons = {value.reason for value in values if value.state == "not judged"}
    notes += sorted(
        reason for reason in reasons if "only orders compare" not in reason and reason != "no printed value"
    )
    return notes


def insufficient_data(comparison: StudyComparison) -> list[str]:
    """Cells that were tried and whose data does not hold what they need: "ga-sessions: the log names no customer"."""
    tried = [cell for cell in comparison.cells if cell.state == "not run" and cell.versions]
    return list(dict.fromkeys(": ".join(filter(None, (cell.collection, cell.reason))) for cell in tried))


def orders_table(comparison: StudyComparison) -> Table | None:
    """The pairs that stand in the other order for certain; None when no pair was measured."""
    pairs, counted = comparison.measured_pairs, comparison.counted_pairs
    if not pairs:
        return None
    rows: list[list[Cell]] = [
        [pair.collection or None, pair.label, f"{pair.higher} > {pair.lower}", pair.difference, *(pair.interval or ())]
        for pair in counted
        if not pair.agrees
    ]
    left = len(pairs) - len(counted)
    notes = [
        f"{comparison.pairs_in_order} of {len(counted)} pairs that count stand in the printed order; the rest is here",
        f"{left} of {len(pairs)} do not count: the 95 % interval of their difference includes 0, or there is none",
    ]
    names = ("difference here", "95 % from", "to")
    columns = [Column("collection"), Column("of"), Column("printed"), *(Column(name, 2, signed=True) for name in names)]
    return Table.of(columns, rows, caption=_caption_of(comparison, "orders"), notes=notes)


def trend_checks_table(comparison: StudyComparison) -> Table | None:
    """Every statement about a figure, whether it holds and how sure that is; None for a table."""
    if not comparison.trend_checks:
        return None
    words = {True: "yes", False: "no", None: "undecided"}
    rows: list[list[Cell]] = [
        [
            check.statement,
            words[check.agrees] if check.holds is not None else None,
            check.holds,
            None if check.sure is None else 100 * check.sure,
            100 * check.chance,
            check.numbers,
        ]
        for check in comparison.trend_checks
    ]
    columns = [Column("what the paper says"), Column("holds"), Column("in the values")]
    columns += [Column("in % of draws", 0), Column("by chance %", 0), Column("numbers")]
    notes = [
        "holds: in nearly all draws of the values (97.5 %), or in nearly none; undecided does not count",
        "draws: other queries, visitors, folds, seeds; by chance: if what is compared stood in random order",
    ]
    return Table.of(columns, rows, caption=_caption_of(comparison, "trend checks"), notes=notes)


def words_table(comparison: StudyComparison) -> Table | None:
    """Results that are words, and the printed ones (Table 3.4); None where no result is words."""
    published = published_words(comparison.study.table(), comparison.study.systems_in)
    done = [cell for cell in comparison.cells if cell.state == "done" and cell.measured.words]
    if not done:
        return None
    several = len({cell.collection for cell in done}) > 1
    ours = {
        (f"{cell.system}, {cell.collection}" if several else cell.system, label): text
        for cell in done
        for label, text in cell.measured.words.items()
    }
    rows: list[list[Cell]] = []
    for label in dict.fromkeys(label for _, label in (*ours, *published)):
        for system in dict.fromkeys(system for system, _ in (*ours, *published)):
            for source, texts in (("here", ours), ("printed", published)):
                if (system, label) in texts:
                    rows.append([label, system, source, texts[system, label]])
    columns = [Column(name) for name in ("of", "system", "where", "in words, the heaviest or commonest first")]
    return Table.of(columns, rows, caption=_caption_of(comparison, "in words"))


def tree_table(comparison: StudyComparison) -> Table | None:
    """Thesis Figure 2.2: task, kind of collection, collection, with the results of values and orders."""
    leaves = tree(comparison)
    if not leaves:
        return None
    rows: list[list[Cell]] = []
    for leaf in leaves:
        values = f"{leaf.reproduced} of {leaf.judged}" if leaf.judged else None
        order = f"{leaf.in_order} of {leaf.counted} that count ({leaf.pairs})"
        rows.append([leaf.task, leaf.kind, leaf.collection or None, values, order])
    names = ("task", "kind", "collection", "values within 5 %", "pairs in the printed order")
    return Table.of([Column(name) for name in names], rows, caption=_caption_of(comparison, "the tree"))


def summary_table(statuses: Sequence[StudyStatus]) -> Table:
    """One row per table and figure, with counts below."""
    rows: list[list[Cell]] = []
    for status in statuses:
        reproduced, judged, published = status.value_counts
        largest = status.comparisons[-1] if status.comparisons else None
        order = None
        if largest is not None and largest.measured_pairs:
            order = f"{largest.pairs_in_order}/{len(largest.counted_pairs)} of {len(largest.measured_pairs)}"
        elif largest is not None:
            checks = [check for check in largest.trend_checks if check.holds is not None]
            agreements = [check.agrees for check in checks if check.agrees is not None]
            order = f"{sum(agreements)}/{len(agreements)} of {len(checks)} trend checks" if checks else None
        reasons = [
            f"{verdict.question}: {verdict.answer}: {verdict.reason}"
            for verdict in status.verdicts
            if verdict.answer != "not looked at"
        ]
        rows.append(
            [
                status.study.paper,
                status.study.title,
                status.state,
                ", ".join(comparison.scale for comparison in status.comparisons) or None,
                f"{reproduced}/{judged} of {published}" if judged else None,
                order,
                status.study.not_built or "; ".join(reasons),
            ]
        )
    counted = Counter(status.state for status in statuses)
    notes = [", ".join(f"{counted[state]} {state}" for state in STATES)]
    notes.append("values: within 5 % / judged, of printed")
    notes.append("order: pairs in the printed order / pairs that count, of measured; at the largest scale run")
    names = ("table", "title", "state", "scales", "values", "order", "verdicts")
    return Table.of([Column(name) for name in names], rows, caption="Every table and figure", notes=notes)


def provenance_rows(comparison: StudyComparison) -> list[tuple[str, str]]:
    """Protocol, hardware, versions and seeds of a scale, (label, value); of many different values four are shown."""
    done = [cell for cell in comparison.cells if cell.state == "done"]
    values_by_label: dict[str, dict[str, None]] = {}
    for cell in done:
        entries = {**cell.measured.provenance, **cell.measured.protocol, "hardware": cell.machine}
        entries |= {f"version of {name}": version for name, version in cell.versions.items()}
        for label, value in entries.items():
            values_by_label.setdefault(label, {})[value] = None
    rows = []
    for label, values in values_by_label.items():
        text = " · ".join(list(values)[:4])
        rows.append((label, text + (f" · and {len(values) - 4} more" if len(values) > 4 else "")))
    seeds = ", ".join(map(str, sorted({cell.seed for cell in done})))
    return [*rows, ("seeds", seeds)] if done else []


def tables_of(comparison: StudyComparison) -> list[Table]:
    """All tables of a study at one scale."""
    tables = (
        *(grids(comparison, notes_of(comparison)) or [values_table(comparison)]),
        words_table(comparison),
        orders_table(comparison),
        trend_checks_table(comparison),
        tree_table(comparison),
    )
    return [table for table in tables if table is not None]


def _caption(comparison: StudyComparison) -> str:
    return f"{comparison.study.paper}: {comparison.study.title} ({comparison.scale})"


def _caption_of(comparison: StudyComparison, part: str) -> str:
    return f"{comparison.study.paper}: {part} ({comparison.scale})"
