"""The tables that visir prints: a result, its protocol, a comparison, an explanation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from visir.records import Protocol, Result
from visir.reports.table import Cell, Column, Table
from visir.reports.words import DIRECTION_WORDS, display, heading, in_reading_order


def result_table(result: Result, measures: Sequence[str] | None = None) -> Table:
    """Directions × measures: the named recall and `rsum` first; fractions as percent.

    `measures` chooses and orders the columns; by default all, in reading order. A measure that a direction does not
    have is a dash there. When there is a total over both directions (`rsum`), it is a last row.
    """
    names = list(measures) if measures is not None else in_reading_order(_aggregated(result), result.protocol)
    columns = [Column("direction")]
    columns += [Column(heading(name, result.protocol), display(name).digits) for name in names]
    rows: list[list[Cell]] = []
    for direction, values in _rows(result):
        if any(name in values for name in names):
            rows.append([DIRECTION_WORDS.get(direction, direction), *(_shown(values, name) for name in names)])
    return Table.of(columns, rows, caption=result.system, notes=_notes(result))


def measures_table(result: Result) -> Table:
    """The same numbers turned: measures × directions, for a narrow terminal or a long list of measures."""
    directions = [direction for direction, _ in _rows(result)]
    # Each measure has digits of its own, a column here has not: the cells are printed beforehand.
    rows: list[list[Cell]] = []
    for name in in_reading_order(_aggregated(result), result.protocol):
        as_column = Column(name, display(name).digits)
        cells = [as_column.text(_shown(result.aggregates[direction], name)) for direction in directions]
        rows.append([heading(name, result.protocol), *cells])
    columns = [Column("measure"), *(Column(DIRECTION_WORDS.get(one, one), digits=0) for one in directions)]
    return Table.of(columns, rows, caption=result.system, notes=_notes(result))


def card_table(protocol: Protocol) -> Table:
    """The protocol card: what a number must never travel without."""
    return Table.of([Column("field"), Column("value")], protocol.card(), caption="Protocol card")


def systems_table(results: Sequence[Result], measures: Sequence[str], direction: str) -> Table:
    """Systems × measures in one direction, the best of each column marked; all under one protocol.

    The caller has made sure that the protocols agree (`visir.evaluation.compare`): this only prints.
    """
    columns = [Column("system")]
    for name in measures:
        best: Literal["max", "min"] = "max" if display(name).higher_is_better else "min"
        columns.append(Column(heading(name, results[0].protocol), display(name).digits, best))
    rows = [[result.system, *(_shown(result.aggregates[direction], name) for name in measures)] for result in results]
    return Table.of(columns, rows, caption=DIRECTION_WORDS.get(direction, direction))


def comparison_table(rows: Iterable[Mapping[str, Cell]], *, first: str, second: str, correction: str = "") -> Table:
    """A paired comparison of two systems, one row per direction and measure.

    Each row is a mapping with `direction`, `measure`, `first` and `second` (the two aggregates, as they stand in a
    `Result`), and, as far as known, `difference` (second − first), `low` and `high` (its confidence interval), `p` and
    `p_corrected`. Fractions are printed as percent, and so are their differences (percentage points).
    """
    columns = [
        Column("direction"),
        Column("measure"),
        Column(first, 1),
        Column(second, 1),
        Column("difference", 1, signed=True),
        Column("95 % interval"),
        Column("p", 4),
        Column(f"p ({correction})" if correction else "p corrected", 4),
    ]
    made: list[list[Cell]] = []
    for row in rows:
        measure = str(row["measure"])
        scale = display(measure).scale
        low, high = _scaled(row.get("low"), scale), _scaled(row.get("high"), scale)
        made.append(
            [
                DIRECTION_WORDS.get(str(row["direction"]), str(row["direction"])),
                measure,
                _scaled(row["first"], scale),
                _scaled(row["second"], scale),
                _scaled(row.get("difference"), scale),
                None if low is None or high is None else f"{low:+.1f} … {high:+.1f}",
                row.get("p"),
                row.get("p_corrected"),
            ]
        )
    return Table.of(columns, made, caption=f"{second} against {first}")


def published_table(rows: Iterable[Mapping[str, Cell]], *, system: str, tolerance: float) -> Table:
    """Measured against published values: `direction`, `measure`, `measured`, `published`, `within` per row.

    Values are taken as they are to be printed (papers print percent); the relative difference is worked out here.
    """
    columns = [
        Column("direction"),
        Column("measure"),
        Column("measured", 2),
        Column("published", 2),
        Column("relative difference %", 1, signed=True),
        Column(f"within ±{100 * tolerance:g} %"),
    ]
    made: list[list[Cell]] = []
    for row in rows:
        measured, published = _scaled(row["measured"], 1.0), _scaled(row["published"], 1.0)
        relative = 100 * (measured - published) / published if measured is not None and published else None
        direction = str(row["direction"])
        made.append(
            [
                DIRECTION_WORDS.get(direction, direction),
                str(row["measure"]),
                measured,
                published,
                relative,
                row["within"],
            ]
        )
    return Table.of(columns, made, caption=f"{system} against the published values")


def explain_table(rows: Sequence[Mapping[str, Cell]], *, published: Mapping[str, float] | None = None) -> Table:
    """Readings of one run, nearest to the published numbers first.

    Each row has `reading` (in words), `distance` (mean absolute difference, in points), and one number per value name;
    the value names are the further keys of the first row, in order. `published` becomes a first row to read against.
    """
    names = [name for name in rows[0] if name not in ("reading", "distance")] if rows else list(published or {})
    columns = [Column("reading"), *(Column(name, 2) for name in names), Column("distance", 3, best="min")]
    made: list[list[Cell]] = []
    if published:
        made.append(["published", *(published.get(name) for name in names), None])
    ordered = sorted(rows, key=_distance)
    made += [[row["reading"], *(row.get(name) for name in names), row["distance"]] for row in ordered]
    return Table.of(columns, made, caption="Which reading gives the published numbers")


def _distance(row: Mapping[str, Cell]) -> float:
    distance = _scaled(row["distance"], 1.0)
    return float("inf") if distance is None else distance


def _aggregated(result: Result) -> list[str]:
    return list(dict.fromkeys(name for _, values in _rows(result) for name in values))


def _rows(result: Result) -> list[tuple[str, dict[str, float]]]:
    """Directions in the result's order, the total over both last."""
    order = [*result.directions, *(one for one in result.aggregates if one not in result.directions)]
    return [(direction, result.aggregates[direction]) for direction in order if direction in result.aggregates]


def _shown(values: Mapping[str, float], name: str) -> float | None:
    return values[name] * display(name).scale if name in values else None


def _scaled(value: Cell, scale: float) -> float | None:
    return None if value is None or isinstance(value, str) else float(value) * scale


def _notes(result: Result) -> list[str]:
    return [f"Percent, except ranks and rsum (points). Protocol {result.protocol.fingerprint[:12]}.", *result.notes]
