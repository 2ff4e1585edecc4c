"""How objects show themselves: short text everywhere, HTML in notebooks, tables for other tools.

    class Thing(Displayed): ...

A *view* knows how things of one class look. It may have these functions:

    blocks(thing)           what a notebook shows, as a list of blocks (`visir.reports.page`)
    table(thing)            the table that all printed forms are made of (`visir.reports.table.Table`)
    arrow(thing)            columns for computing, where the table is not enough
    plot(thing, **options)  a figure of matplotlib

A record knows nothing of the reports after it: its view is an entry of the table in `visir.reports.views`, or of the
`views` of its application, whose files are imported when something is shown. Classes of other packages that register
no application name a module with these functions: `view="…"`.
"""

from __future__ import annotations

import io
import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import Field, fields, is_dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from visir.errors import require
from visir.plugins import BUILT_IN, applications, load_target, part
from visir.terminal import one_line

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from matplotlib.figure import Figure

LINES, WIDTH = 6, 100
"""No `repr` is longer, or wider."""


class Displayed:
    """An object with a `repr` of at most six lines, which notebooks show as its view says.

    A dataclass says `@dataclass(repr=False)` to get this `repr`, which has all fields in short. Others write their own
    with `brief`.

    Args:
        view: The name of the module that knows how objects of a class of another package look.

    Example:
        >>> from dataclasses import dataclass
        >>> import numpy as np
        >>> @dataclass(frozen=True, repr=False)
        ... class Scores(Displayed):
        ...     name: str
        ...     values: np.ndarray
        >>> Scores("mine", np.zeros((40, 3)))
        Scores(name='mine', values=<40 × 3 float64>)
    """

    __slots__ = ()
    _view: ClassVar[str] = ""

    def __init_subclass__(cls, *, view: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if view:
            cls._view = view

    def __repr__(self) -> str:
        entries: tuple[Field[Any], ...] = fields(self) if is_dataclass(self) else ()
        return listing(self, {entry.name: getattr(self, entry.name) for entry in entries if entry.repr})

    def _repr_html_(self) -> str | None:
        blocks = view_function(self, "blocks")
        shown: str | None = blocks and _views().to_notebook(blocks(self), type(self).__name__)
        return shown


_FORMULA = re.compile(r"^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?%?$")


def cell_for_people(value: Any) -> Any:
    """A cell of a CSV or TSV table that people open: text that a spreadsheet would run is marked as text."""
    # Text that begins with = + - @, a tab or the end of a line gets an apostrophe before it, as OWASP advises. Numbers,
    # also those that are written out, stay numbers. What programs read back (runs, judgements, queries for an engine)
    # is not written through this: it keeps every character.
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.match(value):
        return f"'{value}"
    return value


def csv_of(table: pa.Table, delimiter: str = ",", *, for_people: bool = True) -> bytes:
    """A table of Arrow as CSV; `for_people` marks text that a spreadsheet would run (see `cell_for_people`)."""
    import pyarrow as pa
    from pyarrow import csv

    if for_people:
        columns = []
        for column in table.columns:
            kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
            columns.append(pa.array(map(cell_for_people, column.to_pylist()), pa.string()) if is_text else column)
        table = pa.table(columns, names=[cell_for_people(name) for name in table.column_names])
    stream = io.BytesIO()
    csv.write_csv(table, stream, csv.WriteOptions(quoting_style="needed", delimiter=delimiter))
    return stream.getvalue()


class Columnar(Displayed):
    """An object with columns, for other tools. Subclasses have `to_arrow`, or their view has `arrow` or `table`."""

    __slots__ = ()

    def to_arrow(self) -> pa.Table:
        """Return the columns as an Arrow table."""
        arrow = view_function(self, "arrow")
        table: pa.Table = arrow(self) if arrow else _views().to_arrow(view_function(self, "table")(self))
        return table

    def to_pandas(self) -> pd.DataFrame:
        """Return the columns as a pandas DataFrame."""
        require("pandas", extra="interop", purpose="a DataFrame")
        return self.to_arrow().to_pandas()

    def to_csv(self) -> str:
        """Return the columns as comma-separated values, numbers in full precision; missing values are empty."""
        # For programs: every character is kept. A spreadsheet runs text that begins with "=" or "@".
        return csv_of(self.to_arrow(), for_people=False).decode("utf-8")


class Tabular(Columnar):
    """An object that is printed as a table, in a document or a paper."""

    __slots__ = ()

    def to_csv(self) -> str:
        """Return the columns as comma-separated values, numbers in full precision; missing values are empty."""
        # For people: text that a spreadsheet would run as a formula begins with an apostrophe ("'=2+3"). For programs
        # there is `to_arrow`.
        return csv_of(self.to_arrow()).decode("utf-8")

    def to_latex(self) -> str:
        """Return a LaTeX table with booktabs rules; every cell is escaped."""
        return str(_views().to_latex(view_function(self, "table")(self)))

    def to_markdown(self) -> str:
        """Return a Markdown table."""
        return str(_views().to_markdown(view_function(self, "table")(self)))


class Plotted(Displayed):
    """An object that can be drawn."""

    __slots__ = ()

    def plot(self, *choice: Any, **options: Any) -> Figure:
        """Draw a figure of matplotlib, which shows itself in a notebook; `figure.savefig("plot.pdf")` writes it."""
        figure: Figure = view_function(self, "plot")(self, *choice, **options)
        return figure


def brief(thing: object, head: str, *lines: str) -> str:
    """A `repr`: the name of the class, `head` in brackets, and indented lines below, cut to what is allowed."""
    first = f"{type(thing).__name__}({head})" if head else type(thing).__name__
    rest = [f"  {line}" for line in lines if line]
    if len(rest) >= LINES:
        rest = [*rest[: LINES - 2], f"  … {len(rest) - LINES + 2} more"]
    return "\n".join(cut(line) for line in (first, *rest))


def listing(thing: object, values: Mapping[str, object]) -> str:
    """A `repr` of fields: all on one line, or one on each."""
    parts = [f"{name}={short(value)}" for name, value in values.items()]
    line = f"{type(thing).__name__}({', '.join(parts)})"
    return line if len(line) <= WIDTH else brief(thing, "", *parts)


def cut(text: str, width: int = WIDTH) -> str:
    """A text on one line, at most so wide; what could command a terminal is escaped."""
    line = one_line(text)
    return line if len(line) <= width else f"{line[: width - 1]}…"


def cut_path(path: object, width: int = WIDTH) -> str:
    """A path on one line, at most so wide: the end of it, which has the name of the file."""
    line = one_line(str(path))
    return line if len(line) <= width else f"…{line[len(line) - width + 1 :]}"


def listed(names: Iterable[object], total: int, *, limit: int = 3, width: int = 40) -> str:
    """The first few of many names, texts in quotes: "a, b, c, …"."""
    shown = [cut(str(name), width) for name, _ in zip(names, range(limit), strict=False)]
    return ", ".join(shown) + (", …" if total > len(shown) else "")


def quoted(text: str, width: int = 38) -> str:
    """A text in quotes, cut."""
    return f"'{cut(text, width)}'"


def counted(number: int, plural: str, verb: str = "") -> str:
    """A number with its noun, and with its verb: "1 image", "12 images", "1 image is".

    Example:
        >>> counted(1, "images"), counted(1, "queries"), counted(1200, "images")
        ('1 image', '1 query', '1,200 images')
        >>> counted(1, "images", "have"), counted(2, "images", "have")
        ('1 image has', '2 images have')
    """
    if number != 1:
        return f"{number:,} {plural}" + (f" {verb}" if verb else "")
    noun = f"{plural[:-3]}y" if plural.endswith("ies") else plural.removesuffix("s")
    return f"1 {noun}" + (f" {_SINGULAR[verb]}" if verb else "")


_SINGULAR = {"are": "is", "were": "was", "have": "has"}


def named(name: str, reason: str) -> str:
    """A reason with the name of what it is about, once: many reasons begin with it, or with a path that ends so."""
    head = reason.partition(": ")[0]
    is_named = re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", head)
    return reason if is_named else f"{name}: {reason}"


def short(value: object) -> str:
    """A value in a few words: arrays and tables by their shape, records by their first line, texts and lists cut."""
    if hasattr(value, "column_names") and hasattr(value, "num_rows"):
        return f"<table of {value.num_rows:,} rows: {listed(value.column_names, len(value.column_names), limit=4)}>"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"<{' × '.join(f'{size:,}' for size in value.shape) or 'number'} {value.dtype}>"
    if isinstance(value, Displayed) or is_dataclass(value):
        return f"<{type(value).__name__}>" if is_dataclass(value) else cut(repr(value).partition("\n")[0], 60)
    if type(value).__module__.startswith("pyarrow") and hasattr(value, "__len__"):
        return f"<{len(value):,} {getattr(value, 'type', 'values')}>"
    if isinstance(value, Mapping) and len(value) > 3:
        return f"<{len(value):,}: {listed(value, len(value))}>"
    if isinstance(value, (tuple, list, set, frozenset)) and len(value) > 3:
        return f"<{len(value):,}: {listed(map(short, value), len(value))}>"
    return _VALUES.repr(value)


_VALUES = reprlib.Repr()
_VALUES.maxstring = _VALUES.maxother = 60


def view_function(thing: object, name: str) -> Any:
    """What shows an object: its "blocks", "table", "arrow" or "plot", or what saves it ("save"); None for none."""
    for kind in type(thing).__mro__:
        distribution, _, module = kind.__module__.partition(".")
        room = module.partition(".")[0] if distribution == "visir" else ""
        view = vars(kind).get("_view")
        if room in BUILT_IN:
            view = load_target(BUILT_IN[room]).views.get(kind.__name__)
        elif room and (entry := _views().VIEWS.get(f"{room}.{kind.__name__}")):
            return entry.function(name)
        if distribution not in ("visir", "builtins"):
            views = (application.views.get(kind.__name__, "") for application in applications())
            view = next((target for target in views if target.startswith(f"{distribution}.")), view)
        if view:
            return getattr(import_module(view), name, None)
    return None


def _views() -> ModuleType:
    views: ModuleType = part("views")
    return views
