"""One small neutral table, from which every printed form is made (`visir.reports.formats`)."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import isnan
from operator import attrgetter
from typing import Any, ClassVar, Literal

from visir.display import Tabular, brief, counted, listed
from visir.errors import VisirError

Cell = str | float | int | bool | None
"""What a cell may hold: text, a number, yes or no, or nothing (printed as a dash)."""

MISSING = "–"


class Number(float):
    """A number in a cell with what stands behind it: on pages a standard deviation ("41.2 ±0.3"), everywhere marks.

    Attributes:
        deviation: The standard deviation; None where there is none (a single value).
        marks: Letters or signs that stand raised behind the number: "†", or those of the systems that it is better
            than ("ab").
    """

    deviation: float | None
    marks: str

    def __new__(cls, value: float, deviation: float | None = None, marks: str = "") -> Number:
        """Make a cell."""
        number = super().__new__(cls, value)
        number.deviation, number.marks = deviation, marks
        return number

    def spread(self, digits: int) -> str:
        """The deviation as it is printed behind the mean; "" for none."""
        return "" if self.deviation is None else f" ±{self.deviation:.{digits}f}"


class Interval(str):
    """An interval in a cell, as it is printed ("-3.1 … -0.5"); data frames have its two ends as numbers.

    Attributes:
        low: The lower end, in the unit that is printed.
        high: The upper end.
    """

    low: float
    high: float

    def __new__(cls, low: float, high: float, text: str) -> Interval:
        """Make a cell of both ends and of how they are printed."""
        interval = super().__new__(cls, text)
        interval.low, interval.high = float(low), float(high)
        return interval


_RAISED = str.maketrans("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")
"""Raised letters; there is none for q."""


def marks_of(cell: Cell) -> str:
    """What stands raised behind a number; "" for nothing."""
    return cell.marks if isinstance(cell, Number) else ""


def letters(count: int) -> list[str]:
    """A letter for each of so many systems, all of which can be raised; beyond 25 there are none."""
    known = "abcdefghijklmnoprstuvwxyz"
    return list(known[:count]) if count <= len(known) else [""] * count


@dataclass(frozen=True)
class Column:
    """One column: its heading, and how its values are printed.

    Attributes:
        name: The heading.
        digits: Decimals of a number; None makes a text column (left-aligned, printed as it is).
        best: Which value is marked as the best of the column: the highest ("max"), the lowest ("min"), or none.
        signed: Whether positive numbers have a plus sign (differences).
        positive: Whether values are above 0 (p-values): one too small for its digits is printed "< 0.0001", not as a 0.
        of: What of a thing stands in the column (`Table.over`): an attribute, or a function of the thing.
        scale: By what numbers of things are multiplied: 100 makes percent of shares.
        ends: The ends of its interval, as two attributes or a function that gives both; they make a column behind it.
        interval: The heading of that column.
        group: A heading above this column and its neighbours of the same group: a task over its measures.

    Example:
        >>> Column("change", 1, signed=True).text(0.25), Column("p", 4, positive=True).text(1e-9)
        ('+0.2', '< 0.0001')
    """

    name: str
    digits: int | None = None
    best: Literal["max", "min"] | None = None
    signed: bool = False
    positive: bool = False
    of: str | Callable[[Any], Any] = field(default="", repr=False)
    scale: float = field(default=1, repr=False)
    ends: tuple[str, str] | Callable[[Any], Any] | None = field(default=None, repr=False)
    interval: str = field(default="95 % interval", repr=False)
    group: str = ""

    @property
    def full_name(self) -> str:
        """The heading with that of its group, where there is one line for both."""
        return f"{self.group} {self.name}".strip()

    def cells(self, thing: Any) -> list[Cell]:
        """What stands of a thing in the column, and in that of its interval; what is not a number is None."""
        read = self.of if callable(self.of) else attrgetter(self.of or "?")
        try:
            cells = [self._scaled(read(thing))]
        except (AttributeError, TypeError, LookupError) as fault:
            raise VisirError(
                f"column {self.name!r}: of={self.of!r} does not read a {type(thing).__name__}: {fault}",
                hint="the name of an attribute, or a function of the row that gives a text, a number or None",
                code="column-of",
            ) from fault
        if self.ends is not None:
            ends = self.ends(thing) if callable(self.ends) else attrgetter(*self.ends)(thing)
            low, high = (None, None) if ends is None else (self._scaled(end) for end in ends)
            cells.append(None if low is None or high is None else between(float(low), float(high), self))
        return cells

    def _scaled(self, value: Any) -> Cell:
        if isinstance(value, (str, bool)) or value is None:
            return value
        return None if isnan(value) else value if self.scale == 1 else self.scale * value

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers (right-aligned in every form)."""
        return self.digits is not None

    def text(self, value: Cell) -> str:
        """A value as it is printed, e.g. "41.2", "+0.3", "1,000", "< 0.0001", "yes"; "–" for nothing and for NaN."""
        return self.bare(value) + marks_of(value).translate(_RAISED)

    def bare(self, value: Cell) -> str:
        """A value as it is printed, without its marks."""
        if value is None:
            return MISSING
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str):
            return one_line(value)
        if self.digits is None:
            return str(value)
        if isnan(value):
            return MISSING
        if self.positive and value < 10**-self.digits:
            return f"< {10**-self.digits:.{self.digits}f}"
        printed = f"{value:{'+' if self.signed else ''},.{self.digits}f}"
        # A difference that rounds to nothing has no sign: "-0.0" would say something that is not so.
        return printed.lstrip("+-") if float(printed.replace(",", "")) == 0 else printed


def at(place: int, name: str = "") -> Callable[[Any], Any]:
    """Of rows that are tuples, what stands at a place, or an attribute of it: for `Column.of`."""
    return lambda row: getattr(row[place], name) if name else row[place]


def between(low: float, high: float, column: Column) -> Interval | None:
    """An interval as a column prints its numbers; None where there is none (NaN)."""
    return None if isnan(low) or isnan(high) else Interval(low, high, f"{column.text(low)} … {column.text(high)}")


@dataclass(frozen=True)
class Table(Tabular):
    """Columns and rows, a caption above, notes below. It can stand in a page as it is.

    Attributes:
        columns: The columns.
        rows: The rows, with one cell for each column.
        caption: What stands above it.
        notes: What stands below it.

    Raises:
        VisirError: A row has not exactly one cell per column.

    Example:
        >>> from visir.reports import to_markdown
        >>> table = Table.of([Column("system"), Column("R@1", 1, "max")], [["mine", 41.25], ["yours", 40.0]])
        >>> print(to_markdown(table), end="")
        | system |      R@1 |
        | ------ | -------: |
        | mine   | **41.2** |
        | yours  |     40.0 |
    """

    macro: ClassVar[str] = "table"
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        names = listed((column.full_name for column in self.columns), len(self.columns), limit=6)
        rows = [" | ".join(cells[:6]) for cells in Table(self.columns, self.rows[:3]).texts()]
        more = f"… {len(self.rows) - 3:,} more" if len(self.rows) > 3 else ""
        return brief(self, f"{self.caption or names}: {counted(len(self.rows), 'rows')}", names, *rows, more)

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.columns):
                raise VisirError(
                    f"table {self.caption or 'without caption'!r}, row {number}: {len(row)} cells for "
                    f"{len(self.columns)} columns.",
                    code="cells-columns",
                )

    @classmethod
    def of(
        cls, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, caption: str = "", notes: Sequence[str] = ()
    ) -> Table:
        """The table of any sequences."""
        return cls(tuple(columns), tuple(tuple(row) for row in rows), caption, tuple(notes))

    @classmethod
    def over(
        cls, things: Iterable[Any], columns: Sequence[Column], *, caption: str = "", notes: Sequence[str] = ()
    ) -> Table:
        """A row for each thing, of what each column says that it shows of it (`Column.of`)."""
        shown: list[Column] = []
        for column in columns:
            shown += [column, *([Column(column.interval, column.digits)] if column.ends is not None else [])]
        rows = [[cell for column in columns for cell in column.cells(thing)] for thing in things]
        return cls.of(shown, rows, caption=caption, notes=notes)

    @classmethod
    def pairs(
        cls, rows: Iterable[Sequence[Cell]], heads: tuple[str, str] = ("field", "value"), *, caption: str = ""
    ) -> Table:
        """Two columns of texts: names, and what is said of each."""
        return cls.of([Column(head) for head in heads], list(rows), caption=caption)

    @property
    def names(self) -> list[str]:
        """The columns by names that are all different, for data frames and JSON: "95 %" is that of the column before.

        A column whose heading stands twice is named by the nearest column before it too: "change % 95 %".
        """
        headings = [column.full_name for column in self.columns]
        named: list[str] = []
        before = ""
        for heading in headings:
            is_twice = headings.count(heading) > 1
            name = f"{before} {heading}".strip() if is_twice else heading
            named.append(
                next(f"{name}{end}" for end in ("", *(f" {n}" for n in range(2, 999))) if f"{name}{end}" not in named)
            )
            before = before if is_twice else heading
        return named

    def texts(self) -> list[list[str]]:
        """Every cell as it is printed."""
        return [[column.text(cell) for column, cell in zip(self.columns, row, strict=True)] for row in self.rows]

    def groups(self) -> list[tuple[str, int]]:
        """The groups of neighbouring columns with how many each has, "" for columns of none; [] where none has one."""
        runs = [(name, len(list(members))) for name, members in groupby(self.columns, key=lambda column: column.group)]
        return runs if any(name for name, _ in runs) else []

    def best(self) -> frozenset[tuple[int, int]]:
        """The (row, column) positions to be marked as best in their column.

        Values are compared as printed: two systems that both print 41.2 are both marked, for nobody can see which was
        ahead. A column with fewer than two numbers, or with one value all the way down, has no best.
        """
        marked: set[tuple[int, int]] = set()
        for position, column in enumerate(self.columns):
            if column.best is None:
                continue
            printed = {
                number: float(column.bare(row[position]).replace(",", ""))
                for number, row in enumerate(self.rows)
                if isinstance(row[position], (int, float))
                and not isinstance(row[position], bool)
                and row[position] == row[position]
            }
            if len(set(printed.values())) > 1:
                winner = max(printed.values()) if column.best == "max" else min(printed.values())
                marked |= {(number, position) for number, value in printed.items() if value == winner}
        return frozenset(marked)


def one_line(text: str) -> str:
    """A text made safe to print on one line: white space collapsed, control and direction marks made visible."""
    # Captions come from strangers: an escape sequence could recolour a terminal, and a right-to-left override could
    # turn the rest of the line around. Right-to-left *letters* are left alone.
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(letter) == "Cc" or letter in _DIRECTION_MARKS else letter
        for letter in " ".join(text.split())
    )


def shortened(text: str, width: int) -> str:
    """A text of at most so many characters, with an ellipsis where it was cut."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


_DIRECTION_MARKS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
