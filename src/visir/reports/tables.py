"""The tables that visir prints: a result, its protocol, a comparison, an explanation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from visir.evaluation.compare import Comparison, Difference
from visir.evaluation.explaining import Explanation
from visir.evaluation.measures import recalls_of
from visir.evaluation.published.denominators import TELLING, Denominators
from visir.evaluation.published.judge import TOLERANCE, Judgement, decimals_of
from visir.records import Protocol, Result
from visir.reports.table import Cell, Column, Number, Table, between, letters
from visir.reports.words import display, heading, in_reading_order, paper_name, task_words

MEAN = "mean of the tasks"


def result_table(result: Result, measures: Sequence[str] | None = None) -> Table:
    """Tasks × measures: the named recall and `rsum` first; fractions as percent.

    `measures` chooses and orders the columns; by default all, in reading order. A measure that a task does not
    have is a dash there. When there is a total over both tasks (`rsum`), it is a last row.
    """
    names = list(measures) if measures is not None else in_reading_order(_aggregated(result), result.protocol)
    columns = [Column("task")]
    columns += [Column(heading(name, result.protocol), display(name).digits) for name in names]
    rows: list[list[Cell]] = []
    for task, values in _rows(result):
        if any(name in values for name in names):
            rows.append([task_words(task), *(_cell(result, task, name, values) for name in names)])
        if expected := _chance(result, task):
            rows.append([f"{task_words(task)}, chance", *(_shown(expected, name) for name in names)])
    return Table.of(columns, rows, caption=result.system, notes=_notes(result))


def headline_table(result: Result) -> Table:
    """The recall that the protocol names and `rsum`, by task; a result without R@1, R@5 and R@10 shows all it has."""
    table = result_table(result, in_reading_order(_headline_names(result), result.protocol))
    return replace(table, notes=_notes(result, origins=False))  # a paper's table is the same whenever it is made


def _headline_names(result: Result) -> list[str]:
    names = _aggregated(result)
    usual = set(recalls_of(result.protocol.recall)) <= set(names)
    named = usual and [name for name in names if name.partition("@")[0] == result.protocol.recall or name == "rsum"]
    return named or names


def measures_table(result: Result) -> Table:
    """The same numbers turned: measures × tasks, for a narrow terminal or a long list of measures."""
    by_task = dict(_rows(result))
    tasks = list(by_task)
    # Each measure has digits of its own, a column here has not: the cells are printed beforehand.
    rows: list[list[Cell]] = []
    for name in in_reading_order(_aggregated(result), result.protocol):
        as_column = Column(name, display(name).digits)
        cells = [as_column.text(_cell(result, task, name, values)) for task, values in by_task.items()]
        cells = [cell + _beyond(result, task, name) for cell, task in zip(cells, by_task, strict=True)]
        cells += [as_column.text(_shown(_chance(result, task), name)) for task in result.chance]
        rows.append([heading(name, result.protocol), *cells])
    columns = [Column("measure"), *(Column(task_words(task), digits=0) for task in tasks)]
    columns += [Column(f"chance{f', {task_words(task)}' if len(tasks) > 1 else ''}", 0) for task in result.chance]
    return Table.of(columns, rows, caption=result.system, notes=_notes(result))


def _chance(result: Result, task: str) -> dict[str, float]:
    """What chance reaches in a task: the mean over queries of each measure of which it is known."""
    table = result.chance.get(task)
    if table is None:
        return {}
    return {name: float(table[name].to_numpy().mean()) for name in table.column_names if name != "query_id"}


def card_table(protocol: Protocol) -> Table:
    """The protocol card: what a number must never travel without."""
    rows = [(" ".join(map(task_words, label.split())), value) for label, value in protocol.card()]
    return Table.pairs(rows, caption="Protocol card")


def systems_table(results: Sequence[Result], measures: Sequence[str], task: str) -> Table:
    """Systems × measures in one task, the best of each column marked; all under one protocol.

    The caller has made sure that the protocols agree (`visir.evaluation.compare`): this only prints.
    """
    columns = [Column("system")]
    for name in measures:
        best: Literal["max", "min"] = "max" if display(name).higher_is_better else "min"
        columns.append(Column(heading(name, results[0].protocol), display(name).digits, best))
    rows = [[result.system, *(_shown(result.aggregates[task], name) for name in measures)] for result in results]
    return Table.of(columns, rows, caption=task_words(task))


def compared_systems_table(comparison: Comparison, *, level: float = 0.05) -> Table:
    """Systems × measures, as a paper prints them: the best of each column in bold, significance as raised marks.

    Of a comparison of all pairs each system has a letter, and stands with the letters of those that it is better than;
    against the first alone "†" is better than it, and "‡" worse.

    Args:
        comparison: The comparison.
        level: The level of significance, of the corrected p-values.
    """
    first, *_ = comparison.systems
    values = {(entry.task, entry.measure, entry.system): entry.value for entry in comparison.differences}
    values |= {(entry.task, entry.measure, entry.baseline): entry.baseline_value for entry in comparison.differences}
    letter = dict(zip(comparison.systems, letters(len(comparison.systems)), strict=True))
    is_of_pairs = any(entry.baseline != first for entry in comparison.differences)
    marks: dict[tuple[str, str, str], str] = {}
    for entry in comparison.differences:
        if entry.untested or not entry.p_corrected < level:
            continue
        better, worse = (entry.system, entry.baseline) if entry.better else (entry.baseline, entry.system)
        who, mark = (better, letter[worse]) if is_of_pairs else (entry.system, "†" if entry.better else "‡")
        at = (entry.task, entry.measure, who)
        marks[at] = "".join(sorted(marks.get(at, "") + mark))
    tasks = list(dict.fromkeys(task for task, _, _ in values))
    names = {measure: paper_name(measure, comparison.recall) for _, measure, _ in values}

    def cell(task: str, measure: str) -> Callable[[str], Cell]:
        at = (task, measure)
        return lambda name: Number(display(measure).scale * values[*at, name], None, marks.get((*at, name), ""))

    columns = [*([Column("", of=letter.get)] if is_of_pairs else []), Column("system", of=str)]
    for task in tasks:
        for measure, head in names.items():
            if (task, measure, first) in values:
                says = display(measure)
                best: Literal["max", "min"] = "max" if says.higher_is_better else "min"
                group = task_words(task) if len(tasks) > 1 or task_words(task) != task else ""
                columns.append(Column(head, says.digits, best, of=cell(task, measure), group=group))
    if is_of_pairs:
        meaning = "A letter behind a number: better than the system of this letter"
    else:
        meaning = f"† better, ‡ worse than {first}"
    test = comparison.how.partition(";")[0]
    how = f"{test}, p < {level:g} after {_CORRECTIONS[comparison.correction]} over {comparison.family} comparisons"
    as_they_are = "Fractions in percent; ranks, gains and rsum as they are."
    recalls = [f"{head} is {name}" for name, head in names.items() if head.startswith("R@") and "@" in name][:1]
    return Table.over(
        comparison.systems,
        columns,
        caption="" if len(comparison.systems) > 4 else " · ".join(comparison.systems),
        notes=[" ".join([as_they_are, *(f"{line}." for line in recalls)]), f"{meaning} ({how})."],
    )


_CORRECTIONS = {
    "holm": "Holm's correction",
    "bonferroni": "Bonferroni's correction",
    "bh": "the correction of Benjamini and Hochberg",
    "none": "no correction",
}


def untested_systems_table(results: Mapping[str, Result]) -> Table:
    """Systems × measures of results that may not be compared: nothing is tested, and none is the best."""
    usual = {name: in_reading_order(_headline_names(result), result.protocol) for name, result in results.items()}
    tasks = list(dict.fromkeys(task for result in results.values() for task in result.tasks))
    recalls = {result.protocol.recall for result in results.values()}
    recall = recalls.pop() if len(recalls) == 1 else ""  # of two readings of R@k each keeps its own name
    names = {name: paper_name(name, recall) for of in usual.values() for name in of}

    def cell(task: str, measure: str) -> Callable[[str], Cell]:
        return lambda name: _shown(results[name].aggregates.get(task, {}), measure)

    columns = [Column("system", of=str), Column("protocol", of=lambda name: results[name].protocol.fingerprint[:12])]
    columns += [
        Column(head, display(measure).digits, of=cell(task, measure), group=task_words(task))
        for task in tasks
        for measure, head in names.items()
        if any(measure in result.aggregates.get(task, {}) for result in results.values())
    ]
    return Table.over(results, columns, notes=["Fractions in percent; ranks, gains and rsum as they are."])


def comparison_table(comparison: Comparison) -> Table:
    """The differences of a comparison (`visir.evaluation.compare`), one row per system, task and measure.

    Narrow enough for 80 columns; "↓" marks measures of which less is better.

    Fractions are printed as percent, and so are their differences (percentage points). The notes say which test it was,
    over how large a family it was corrected, and which protocol fields differ by permission.
    """

    def scaled(name: str) -> Callable[[Difference], float]:
        return lambda entry: display(entry.measure).scale * float(getattr(entry, name))

    def measure(entry: Difference) -> str:
        name = heading(entry.measure, comparison)
        return f"{task_words(entry.task)} {name}{'' if display(entry.measure).higher_is_better else ' ↓'}"

    def ends(entry: Difference) -> str | None:
        return between(scaled("low")(entry), scaled("high")(entry), Column("", 1, signed=True))

    is_of_pairs = any(entry.baseline != comparison.systems[0] for entry in comparison.differences)
    columns = [
        *([Column("system", of="system")] if len(comparison.systems) > 2 else []),
        *([Column("against", of="baseline")] if is_of_pairs else []),
        Column("measure", of=measure),
        Column("baseline", 1, of=scaled("baseline_value")),
        Column("value", 1, of=scaled("value")),
        Column("change", 1, signed=True, of=scaled("difference")),
        Column("95 % interval", of=ends),
        Column("p", 4, positive=True, of="p"),
        Column(f"p ({comparison.correction})", 4, positive=True, of="p_corrected"),
    ]
    allowed = [
        f"allowed to differ, {name.replace('_', ' ')}: {' | '.join(map(str, values))}"
        for name, values in comparison.allowed.items()
    ]
    how = f"{comparison.how}; correction over {comparison.family} comparisons: {comparison.correction}"
    return Table.over(
        comparison.differences,
        columns,
        caption="Every pair"
        if is_of_pairs
        else f"{' and '.join(comparison.systems[1:])} against {comparison.systems[0]}",
        notes=[how, *allowed, *comparison.notes],
    )


def published_table(
    judgements: Sequence[Judgement], *, system: str, decimals: int = 2, tolerance: float = TOLERANCE
) -> Table:
    """A result beside published values (`visir.evaluation.published`), in the units of the paper.

    `tolerance` is the one that the judgements were made with: it stands in a heading.
    """
    decimals = max((decimals_of(judgement.label, decimals) for judgement in judgements), default=decimals)
    columns = [
        Column("task", of=lambda judgement: task_words(judgement.task)),
        Column("published as", of="label"),
        Column("measure", of="measure"),
        Column("published", decimals, of="published"),
        Column("here", decimals, of="ours"),
        Column("relative difference %", 1, signed=True, of="relative", scale=100),
        Column(f"within ±{100 * tolerance:g} %", of="within"),
        Column("printed digits", of="digits"),
    ]
    return Table.over(judgements, columns, caption=f"{system} beside the published values")


def explain_table(explanation: Explanation, *, limit: int = 8, decimals: int = 2) -> Table:
    """The readings of a run (`visir.evaluation.explaining`), those that fit first, at most `limit`.

    Distance is the mean relative difference in percent. The notes give the answer in a sentence.
    """
    shown = explanation.fits[:limit]
    names = list(dict.fromkeys((value.task, value.label) for fit in shown for value in fit.values))
    columns = [
        Column("reading"),
        *(Column(f"{task} {label}", decimals) for task, label in names),
        Column("distance %", 2, best="min"),
        Column("digits equal"),
    ]
    published = {(value.task, value.label): value.published for fit in shown for value in fit.values}
    rows: list[list[Cell]] = [["published", *(published.get(name) for name in names), None, None]]
    for fit in shown:
        ours = {(value.task, value.label): value.ours for value in fit.values}
        equal = f"{fit.reproduced} of {len(fit.values)}"
        rows.append([str(fit.reading), *(ours.get(name) for name in names), 100 * fit.distance, equal])
    more = len(explanation.fits) - len(shown)
    notes = [
        explanation.sentence,
        f"ranks: {explanation.scored}",
        *explanation.remarks,
        *([f"further off, not shown: {more}"] if more else []),
    ]
    return Table.of(columns, rows, caption="Which reading gives the published numbers", notes=notes)


def fits_table(explanation: Explanation, *, limit: int = 5) -> Table:
    """The published values above those of the first readings, [1] and on: the table of the paper, a line for each."""
    fits = explanation.fits[:limit]
    names = {(value.task, value.label): value.published for fit in fits for value in fit.values}
    decimals = {name: decimals_of(name[1], explanation.decimals) for name in names}
    rows: list[list[Cell]] = [["published", *(f"{value:.{decimals[name]}f}" for name, value in names.items())]]
    for number, fit in enumerate(fits, 1):
        ours = {(value.task, value.label): value for value in fit.values}
        marks = {name: "" if value.digits == "off" else "*" for name, value in ours.items()}
        cells = [f"{ours[name].ours:.{decimals[name]}f}{marks[name]}" if name in ours else None for name in names]
        rows.append([f"[{number}]", *cells])
    columns = [Column(""), *(Column(f"{task} {label}", 0) for task, label in names)]
    has_equal = any(fit.reproduced for fit in fits)
    return Table.of(columns, rows, notes=["* equal to the printed digits"] if has_equal else [])


def denominators_table(digits: Denominators) -> Table:
    """Which sizes can give the values of each row, how likely each fits by accident, and which cannot."""
    columns = [Column(name) for name in ("system", "collection", "task", "printed", "can come from", "cannot")]
    rows: list[list[Cell]] = []
    for row in digits.rows:
        likely = [
            f"{size:,}{' (cut)' if row.possible[size] == 'cut' else ''} (by accident {100 * row.chance[size]:.2g} %)"
            for size in row.likely[:3]
        ]
        if any_digits := [size for size in row.possible if size not in row.likely]:
            likely.append(f"{min(any_digits):,} or more, as most digits")
        cannot = [f"{size:,}" for size in list(row.impossible)[:6]]
        if len(row.impossible) > len(cannot):
            cannot.append(f"{len(row.impossible) - len(cannot)} more")
        cells = (row.system, row.collection, task_words(row.task), row.printed, "; ".join(likely), ", ".join(cannot))
        rows.append([cell or None for cell in cells])
    notes = []
    for key, chances in digits.together.items():
        telling = [f"{n:,} (by accident {100 * chance:.2g} %)" for n, chance in chances.items() if chance < TELLING]
        if telling:
            row_words = " ".join(task_words(part) for part in key if part)
            notes.append(f"every row of {row_words} can come from {' or '.join(telling[:3])}")
    if digits.left_out:
        notes.append(f"no shares of queries, and not looked at: {', '.join(digits.left_out)}")
    return Table.of(columns, rows, caption="Which usual numbers of queries can give the printed digits", notes=notes)


def _aggregated(result: Result) -> list[str]:
    return list(dict.fromkeys(name for _, values in _rows(result) for name in values))


def _rows(result: Result) -> list[tuple[str, dict[str, float]]]:
    """Tasks in the result's order, the total over both last; of three tasks or more (FashionIQ's) also their mean."""
    order = [*result.tasks, *(task for task in result.aggregates if task not in result.tasks)]
    rows = [(task, result.aggregates[task]) for task in order if task in result.aggregates]
    if len(rows) == len(result.tasks) > 2:
        every = [values for _, values in rows]
        shared = [name for name in every[0] if all(name in values for values in every)]
        rows.append((MEAN, {name: sum(values[name] for values in every) / len(every) for name in shared}))
    return rows


def _shown(values: Mapping[str, float], name: str) -> float | None:
    return values[name] * display(name).scale if name in values else None


def _cell(result: Result, task: str, name: str, values: Mapping[str, float]) -> Cell:
    """A value as it is shown; a rank that nobody looked at is beyond the last."""
    last = result.last_rank(task, name)
    return f"> {last:,}" if last is not None and values.get(name, 0) > last else _shown(values, name)


def _beyond(result: Result, task: str, name: str) -> str:
    """How many of the ranks are not known, behind the value that counts them as one below the last."""
    last = result.last_rank(task, name)
    return (
        "" if last is None else f" ({result.beyond[task][name]:,} of {len(result.per_query[task]):,} beyond {last:,})"
    )


def _notes(result: Result, *, origins: bool = True) -> tuple[str, ...]:
    return (
        f"R@k is {result.protocol.recall}@k. Fractions in percent; ranks, gains and rsum as they are. Protocol "
        f"{result.protocol.fingerprint[:12]}.",
        *(f"{items}: {where}" for items, where in (result.origins.items() if origins else ())),
        *result.notes,
    )
