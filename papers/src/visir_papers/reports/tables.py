"""Tables of a study: measured values beside published ones, orders, trend checks, words, the tree, the summary."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from visir.display import counted
from visir.reports.table import Cell, Column, Table
from visir_papers.draws import measure_of, point_of
from visir_papers.published_values import published_words
from visir_papers.status import STATES, StudyStatus
from visir_papers.verdicts import StudyComparison, ValueComparison, tree

# Notes below a table of values: what was run on which data, what was not measured and why, what is not judged.

DATA = {
    "same": "The data is that of the table. A value within 5 % of the printed one is reproduced (thesis 2.5.3)",
    "other": "The data is real, of another collection. So values are not judged, only their order",
    "quoted": "The numbers are the authors' own: nothing is measured, only what the paper says of them is checked",
    "generated": "The data is generated. Values are not judged, and their order only shows that the study runs",
}
"""What the data of a scale allows, as a note below its table."""


def notes_of(comparison: StudyComparison) -> list[str]:
    """The notes below the values, a sentence each."""
    study = comparison.study
    notes = [study.scale(comparison.scale).description, DATA[comparison.data]]
    done = [cell for cell in comparison.cells if cell.state == "done"]
    if elsewhere := [row for row, data in comparison.data_of.items() if data == "other"]:
        notes.append(f"Not the data of the table, so values are not judged, only orders ({_by_collection(elsewhere)})")
    shown = dict.fromkeys(study.reading_of(value.system) for value in comparison.values)
    notes += [f"{reading}: {study.readings[reading]}" for reading in shown if reading is not None]
    seeds = sorted({cell.seed for cell in done})
    if not done:
        notes.append("Nothing was run")
    elif comparison.scale != "logs":  # a log was made by its authors, not with a seed of ours
        numbers = ", ".join(map(str, seeds))
        notes.append(f"Means over seeds {numbers}" if len(seeds) > 1 else f"One run of each row, with seed {numbers}")
    notes += missing_lines(comparison)
    reasons: dict[str, list[tuple[str, str]]] = {}
    for cell in done:
        for reason in dict.fromkeys(cell.measured.not_judged.values()):
            reasons.setdefault(f"Not judged: {reason}", []).append((cell.system, cell.collection))
    notes += [f"{reason} ({_by_collection(rows)})" for reason, rows in reasons.items()]
    if any(value.doubt for value in comparison.values if value.state != "not run"):
        notes.append(f"?: the printed value is doubtful; the reason: visir papers show {comparison.name}")
    return notes


def missing_lines(comparison: StudyComparison) -> list[str]:
    """How many printed values were measured and of which rows; then each reason why others were not, with its rows."""
    printed = sum(value.published is not None for value in comparison.values)
    missing = comparison.not_measured
    lines: list[str] = []
    if missing:
        measured = printed - sum(map(len, missing.values()))
        rows = [(value.system, value.collection) for value in comparison.values if value.ours is not None]
        of = f" ({_by_collection(rows)})" if rows else ""
        how = "stand beside quoted ones" if comparison.data == "quoted" else "were measured"
        lines.append(f"{measured} of {counted(printed, 'printed values')} {how}{of}. The others:")
    for reason, values in missing.items():
        rows = [(value.system, value.collection) for value in values]
        lines.append(f"{counted(len(values), 'values')}: {reason} ({_by_collection(rows)})")
    for state in ("not run", "failed"):  # of figures, which print no values, and of values that other seeds measured
        left: dict[str, list[tuple[str, str]]] = {}
        for cell in comparison.cells:
            if cell.state == state and cell.reason and (state == "failed" or cell.reason not in missing):
                left.setdefault(cell.reason, []).append((cell.system, cell.collection))
        lines += [f"{state}: {reason} ({_by_collection(rows)})" for reason, rows in left.items()]
    return lines


def _by_collection(rows: Iterable[tuple[str, str]]) -> str:
    """(system, collection) in words: "MS-COCO, Flickr8k: ALIGN, CLIP; Flickr30k: CLIP"."""
    systems: dict[str, dict[str, None]] = {}
    for system, collection in rows:
        systems.setdefault(collection, {})[system] = None
    collections: dict[str, list[str]] = {}
    for collection, names in systems.items():
        collections.setdefault(", ".join(names), []).append(collection)
    return "; ".join(": ".join(filter(None, (", ".join(of), names))) for names, of in collections.items())


# The values of a figure as grids: nothing is printed beside them, so what is compared shares a row or a column.

WIDE = 8
"""Up to this many curves are columns where they have more points than there are curves; more of them are rows."""


def grids(comparison: StudyComparison, notes: list[str]) -> list[Table]:
    """Every measured value, a row or a column for each system."""
    # Systems that share no label (percentiles of devices, curves over lengths) have grids of their own. In the files
    # beside the page each value has a row of its own, whatever tables the page shows.
    study = comparison.study
    values = [value for value in comparison.values if value.ours is not None]
    if study.published is not None or study.figure is not None or any(value.seeds > 1 for value in values):
        return []
    caption = f"{study.paper}: {study.title} ({comparison.scale})"
    tables: list[Table] = []
    for measure, values_of_measure in _by_measure(values).items():
        for block in _blocks(values_of_measure):
            block_notes = [] if tables else [*notes, *_text_values(comparison.values)]
            tables.append(_grid(block, ", ".join(filter(None, (caption, measure))), block_notes))
    return tables


def _grid(values: Sequence[ValueComparison], caption: str, notes: list[str]) -> Table:
    by_key = {(value.system, value.collection, value.label): value.ours for value in values}
    systems = list(dict.fromkeys((value.system, value.collection) for value in values))
    labels = _in_order(list(dict.fromkeys(value.label for value in values)))
    rows: list[list[Cell]]
    if len(labels) > len(systems) <= WIDE or all(map(_is_count, labels)):
        columns = [Column("value"), *(Column(", ".join(filter(None, system)), 2) for system in systems)]
        rows = [[point_of(label), *(by_key.get((*system, label)) for system in systems)] for label in labels]
    else:
        columns = [Column("system"), Column("collection"), *(Column(point_of(label), 2) for label in labels)]
        rows = [
            [system, collection or None, *(by_key.get((system, collection, label)) for label in labels)]
            for system, collection in systems
        ]
        if not any(collection for _, collection in systems):
            columns.pop(1)
            rows = [[row[0], *row[2:]] for row in rows]
    return Table.of(columns, rows, caption=caption, notes=notes)


def _by_measure(values: Sequence[ValueComparison]) -> dict[str, list[ValueComparison]]:
    groups: dict[str, list[ValueComparison]] = {}
    for value in values:
        groups.setdefault(measure_of(value.label), []).append(value)
    return groups


def _blocks(values: Sequence[ValueComparison]) -> list[list[ValueComparison]]:
    """Values whose systems share labels, directly or over other systems; curves over counts, by collection."""
    # Two logs are never as long, so their curves have other points.
    by_system: dict[tuple[str, str], list[ValueComparison]] = {}
    for value in values:
        by_system.setdefault((value.system, value.collection), []).append(value)
    blocks: list[tuple[set[str], list[ValueComparison]]] = []
    for (_, collection), system_values in by_system.items():
        labels = {value.label for value in system_values}
        if all(map(_is_count, labels)):
            labels = {f"{collection}: {label}" for label in labels}
        joined, apart = (labels, list(system_values)), []
        for block in blocks:
            if block[0] & labels:
                joined = (block[0] | joined[0], block[1] + joined[1])
            else:
                apart.append(block)
        blocks = [*apart, joined]
    return [block_values for _, block_values in blocks]


def _text_values(values: Sequence[ValueComparison]) -> list[str]:
    """What the text beside a figure prints, once for all logs."""
    printed = dict.fromkeys(
        (value.system, value.label, value.published) for value in values if value.published is not None
    )
    words = [f"{system}, {point_of(label)}: {published:g}" for system, label, published in printed]
    return [f"the text prints {'; '.join(words)}"] if words else []


def _in_order(labels: list[str]) -> list[str]:
    return sorted(labels, key=_count) if all(map(_is_count, labels)) else labels


def _is_count(label: str) -> bool:
    """Whether it is a number of something ("1,024"); hours ("07") are names."""
    return re.fullmatch(r"0|[1-9][\d,]*", label) is not None


def _count(label: str) -> int:
    return int(label.replace(",", ""))


def values_table(comparison: StudyComparison) -> Table:
    """Every value that was run: measured, published, difference, state. Values that were not run are counted below."""
    values = [value for value in comparison.values if value.state != "not run"]
    published = [abs(value.published) for value in values if value.published is not None]
    digits = 4 if published and max(published) < 2 else 2  # similarities and shares need more of them than percentages
    columns = [
        Column("system", of="system"),
        Column("collection", of=lambda value: value.collection or None),
        Column("value", of="label"),
        Column("quoted" if comparison.data == "quoted" else "measured", digits, of="ours"),
        Column("± sd", digits, of="spread"),
        Column("published", digits, of="published"),
        Column("difference %", 1, signed=True, of="relative", scale=100),
        Column("verdict", of=lambda value: value.state + (" ?" if value.doubt else "")),
    ]
    for position in (4, 1):  # one seed has no deviation; Table 1 has no collection
        if all(columns[position].cells(value) == [None] for value in values):
            columns.pop(position)
    return Table.over(values, columns, caption=_caption(comparison), notes=notes_of(comparison))


def orders_table(comparison: StudyComparison) -> Table | None:
    """The pairs that stand in the other order for certain; None when no pair was measured."""
    pairs, counted = comparison.measured_pairs, comparison.counted_pairs
    if not pairs:
        return None
    columns = [
        Column("collection", of=lambda pair: pair.collection or None),
        Column("system" if comparison.study.pairs == "labels" else "value", of="label"),
        Column("printed order", of=lambda pair: f"{pair.higher} > {pair.lower}"),
        Column("difference", 2, signed=True, of="difference"),
    ]
    if comparison.data != "quoted":  # what is quoted is what it is
        columns.append(Column("95 % from", 2, signed=True, of=lambda pair: pair.interval[0]))
        columns.append(Column("to", 2, signed=True, of=lambda pair: pair.interval[1]))
    caption = _caption_of(comparison, "pairs in another order than printed")
    others = [pair for pair in counted if not pair.agrees]
    return Table.over(others, columns, caption=caption, notes=_notes_of_orders(comparison))


def _notes_of_orders(comparison: StudyComparison) -> list[str]:
    measured, counted = len(comparison.measured_pairs), len(comparison.counted_pairs)
    in_order = comparison.pairs_in_order
    if not counted:
        head = "No pair counts, so no pair is listed"
    elif in_order == counted:
        head = f"All pairs that count ({counted}) stand in the printed order, so no pair is listed"
    else:
        others = "the other is listed" if counted - in_order == 1 else f"the other {counted - in_order} are listed"
        head = f"{in_order} of {counted} pairs that count stand in the printed order; {others}"
    which = "the 95 % interval of its difference excludes 0" if comparison.data != "quoted" else "its values differ"
    left = measured - counted
    how_many = f"{left} of {measured} do not" if left else f"all {measured} that were measured do"
    notes = [head, f"A pair counts when {which}; {how_many}"]
    return notes if in_order == counted else [*notes, "difference: the first value here minus the second"]


def trend_checks_table(comparison: StudyComparison) -> Table | None:
    """Every statement about a figure, whether it holds and how sure that is; None for a table."""
    if not comparison.trend_checks:
        return None
    words = {True: "yes", False: "no", None: "undecided"}
    columns = [
        Column("what the paper says", of="statement"),
        Column("holds", of=lambda check: None if check.holds is None else words[check.agrees]),
        Column("in the values", of="holds"),
        Column("in % of draws", 0, of="sure", scale=100),
        Column("by chance %", 0, of="chance", scale=100),
        Column("numbers", of="numbers"),
    ]
    notes = [
        "holds: yes, true in at least 97.5 % of the draws; no, in at most 2.5 %; what is undecided does not count",
        "in the values: whether it is true of the values as they were measured",
        "draws: the values with other queries, visitors, folds or seeds, drawn from those that there are",
        "by chance: how often it is true, at most, if what is compared stands in random order",
    ]
    if comparison.data == "quoted":
        notes[2] = "draws: there are none of quoted numbers, so a statement is true in all or in none"
    return Table.over(comparison.trend_checks, columns, caption=_caption_of(comparison, "trend checks"), notes=notes)


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
    readings: Sequence[str | None] = [*comparison.study.readings] or [None]
    leaves = [leaf for reading in readings for leaf in tree(comparison.part(reading=reading), reading)]
    if not leaves:
        return None

    def order(leaf: Any) -> str | None:
        return f"{leaf.in_order} of {leaf.counted} that count, of {leaf.pairs} measured" if leaf.pairs else None

    columns = [
        *([Column("reading", of="reading")] if comparison.study.readings else []),
        *(Column("task", of="task"), Column("kind", of="kind")),
        Column("collection", of=lambda leaf: leaf.collection or None),
        Column("values within 5 %", of=lambda leaf: f"{leaf.reproduced} of {leaf.judged}" if leaf.judged else None),
        Column("pairs in the printed order", of=order),
    ]
    return Table.over(leaves, columns, caption=_caption_of(comparison, "the tree"))


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
    notes.append(
        "values, 19/20 of 144: 19 of the 20 that could be compared are within 5 % of the printed; 144 are printed"
    )
    notes.append("order, 35/36 of 41: 35 of the 36 pairs that count stand in the printed order; 41 were measured")
    notes.append("order is that of the largest scale that was run")
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
