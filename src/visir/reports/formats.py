"""The printed forms of a `Table`: terminal, Markdown, LaTeX, CSV and HTML."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from visir.display import cell_for_people
from visir.reports.table import Cell, Column, Interval, Number, Table, marks_of, one_line

if TYPE_CHECKING:
    import pyarrow as pa
    import rich.table

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "–": "--",
    "…": r"\ldots{}",
    "−": "$-$",
    "½": r"$\frac{1}{2}$",
    "²": "$^2$",
    "₁": "$_1$",
    "₂": "$_2$",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
}
_IN_MATH = (
    "rightarrow downarrow uparrow times pm leq geq neq approx cdot in ell "
    "alpha beta gamma delta epsilon eta theta lambda mu pi rho sigma tau omega Delta Sigma"
)
_LATEX |= {mark: f"$\\{name}$" for mark, name in zip("→↓↑×±≤≥≠≈·∈ℓαβγδεηθλµπρστωΔΣ", _IN_MATH.split(), strict=True)}


def _stacked(table: Table) -> tuple[Table, frozenset[tuple[int, int]]]:
    """A table with groups of columns as one without, and what is the best in it: each group has rows of its own."""
    best = table.best()
    groups = list(dict.fromkeys(column.group for column in table.columns if column.group))
    if not groups:
        return table, best
    at = {(column.group, column.name): place for place, column in enumerate(table.columns)}
    alone = [column for column in table.columns if not column.group]
    measured = list({column.name: replace(column, group="") for column in table.columns if column.group}.values())
    rows: list[list[Cell]] = []
    marked: set[tuple[int, int]] = set()
    for group in groups:
        places = [at["", column.name] for column in alone] + [at.get((group, column.name)) for column in measured]
        for number, row in enumerate(table.rows):
            marked |= {(len(rows), to + 1) for to, place in enumerate(places) if (number, place) in best}
            rows.append([group, *(None if place is None else row[place] for place in places)])
    columns = [Column("task"), *alone, *measured]
    return Table.of(columns, rows, caption=table.caption, notes=table.notes), frozenset(marked)


def to_terminal(table: Table) -> rich.table.Table:
    """The table for `rich.print`; the best of a column is bold. No cell is read as rich markup."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    table, best = _stacked(table)
    rich_table = RichTable(
        title=Text(table.caption, style="bold") if table.caption else None,
        title_justify="left",
        caption=Text("\n".join(table.notes)) if table.notes else None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 0 if len(table.columns) > 8 else 1),  # many columns: one space between them, so that 80 hold twelve
    )
    texts = table.texts()
    for position, column in enumerate(table.columns):
        # Many numbers on a narrow terminal would take all the room of the names in front of them: those keep a word.
        words = [word for row in texts for word in row[position].split()]
        rich_table.add_column(
            Text(one_line(column.name)),
            justify="right" if column.is_number else "left",
            no_wrap=column.is_number,
            overflow="fold",
            min_width=None if column.is_number else min(12, max(map(len, words), default=0)),
        )
    for number, row in enumerate(texts):
        rich_table.add_row(
            *(Text(cell, style="bold" if (number, position) in best else "") for position, cell in enumerate(row))
        )
    return rich_table


def to_markdown(table: Table) -> str:
    """A GitHub-flavoured Markdown table, numbers right-aligned, the best of a column in bold."""
    table, best = _stacked(table)
    cells = [[markdown_text(column.name) for column in table.columns]]
    for number, row in enumerate(table.texts()):
        cells.append(
            [
                f"**{markdown_text(cell)}**" if (number, position) in best else markdown_text(cell)
                for position, cell in enumerate(row)
            ]
        )
    widths = [max(3, *(len(row[position]) for row in cells)) for position in range(len(table.columns))]
    rule = [
        "-" * (width - 1) + ":" if column.is_number else "-" * width
        for column, width in zip(table.columns, widths, strict=True)
    ]
    lines = []
    for row in [cells[0], rule, *cells[1:]]:
        padded = [
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for column, cell, width in zip(table.columns, row, widths, strict=True)
        ]
        lines.append(f"| {' | '.join(padded)} |")
    above = [f"**{markdown_text(table.caption)}**", ""] if table.caption else []
    below = ["", *(f"{markdown_text(note)}  " for note in table.notes)] if table.notes else []
    return "\n".join([*above, *lines, *below]) + "\n"


def to_latex(table: Table) -> str:
    """A LaTeX `table` with booktabs rules, the best of a column in bold.

    It needs the package booktabs, and one that is wider than a line graphicx, which scales it.

    Groups of columns have a heading over a rule of their own; marks of significance are raised, and digits stay below
    one another. Every cell is escaped; arrows, dashes and a few signs become their LaTeX commands, other Unicode is
    left to the engine.
    """
    best = table.best()
    every = [sorted({letter for row in table.rows for letter in marks_of(row[at])}) for at in range(len(table.columns))]
    columns, is_wide = _latex_columns(table, table.texts())
    lines = [r"\begin{table}", r"\centering", r"\small"]
    if table.caption:
        lines.append(rf"\caption{{{_latex(table.caption)}}}")
    lines += [
        *([r"\resizebox{\linewidth}{!}{%"] if is_wide else []),
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *_latex_groups(table),
        " & ".join(_latex(column.name) for column in table.columns) + r" \\",
        r"\midrule",
    ]
    for number, row in enumerate(table.rows):
        cells = []
        for position, (column, cell) in enumerate(zip(table.columns, row, strict=True)):
            text = _latex(column.bare(cell), is_number=column.is_number or isinstance(cell, Interval))
            marks, missing = marks_of(cell), [letter for letter in every[position] if letter not in marks_of(cell)]
            text = rf"\textbf{{{text}}}" if (number, position) in best else text
            text += f"$^{{{_latex_marks(marks)}}}$" if marks else ""
            cells.append(
                text + (rf"\hphantom{{$^{{{_latex_marks(missing)}}}$}}" if missing and column.is_number else "")
            )
        lines.append(" & ".join(cells) + r" \\")
    lines += [r"\bottomrule", rf"\end{{tabular}}{'}' if is_wide else ''}"]
    lines += [rf"\par\smallskip{{\footnotesize {_latex(note)}\par}}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _latex_groups(table: Table) -> list[str]:
    """The line of headings over groups of columns, with a rule below each."""
    heads, rules, start = [], [], 1
    for name, count in table.groups():
        heads.append(rf"\multicolumn{{{count}}}{{c}}{{{_latex(name)}}}" if name else " & " * (count - 1))
        rules += [rf"\cmidrule(lr){{{start}-{start + count - 1}}}"] if name else []
        start += count
    return [" & ".join(heads) + r" \\", " ".join(rules)] if heads else []


def _latex_marks(marks: Iterable[str]) -> str:
    """Raised marks in math: letters, digits and stars stand as they are, all else as text."""
    signs = [
        _DAGGERS.get(mark) or (mark if _IS_MATH.fullmatch(mark) else rf"\mbox{{{_latex(mark)}}}") for mark in marks
    ]
    return re.sub("(dagger)(?=[a-zA-Z])", r"\1 ", "".join(signs))


_IS_MATH = re.compile("[a-zA-Z0-9*+]")
_DAGGERS = {"†": r"\dagger", "‡": r"\ddagger"}


def to_csv(table: Table) -> str:
    """Comma-separated values: numbers in full precision, missing values empty, no marks; nothing is a formula.

    The interval of a column is two columns of numbers, "R@1 low" and "R@1 high".
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    columns = _flat(table)
    writer.writerow([cell_for_people(name) for name in columns])
    for row in zip(*columns.values(), strict=True) if columns else ():
        writer.writerow(["" if cell is None else cell_for_people(cell) for cell in row])
    return stream.getvalue()


def to_arrow(table: Table) -> pa.Table:
    """The cells as columns of Arrow: numbers as float64 in full precision, yes and no as Booleans, the rest as text.

    The interval of a column is two columns of numbers, "R@1 low" and "R@1 high".
    """
    import pyarrow as pa

    by_name = dict(zip(table.names, table.columns, strict=True))
    columns: dict[str, pa.Array] = {}
    for name, cells in _flat(table).items():
        column = by_name.get(name, Column(name, 0))
        values = [cell for cell in cells if cell is not None]
        if all(isinstance(cell, bool) for cell in values) and values:
            columns[name] = pa.array(cells, pa.bool_())
        elif all(isinstance(cell, (int, float)) for cell in values) and (values or column.is_number):
            columns[name] = pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
        else:
            columns[name] = pa.array([None if cell is None else column.text(cell) for cell in cells], pa.string())
    return pa.table(columns)


def _flat(table: Table) -> dict[str, list[Cell]]:
    """Every column by a name of its own; in place of intervals their ends, and why there is none where it says so."""
    columns: dict[str, list[Cell]] = {}
    of = ""
    for position, name in enumerate(table.names):
        cells = [row[position] for row in table.rows]
        if not any(isinstance(cell, Interval) for cell in cells):
            columns[name], of = cells, name
            continue
        for end in ("low", "high"):
            columns[f"{of} {end}".strip()] = [
                getattr(cell, end) if isinstance(cell, Interval) else None for cell in cells
            ]
        reasons = [None if isinstance(cell, Interval) else cell for cell in cells]
        columns |= {name: reasons} if any(reasons) else {}
    return columns


def to_html(table: Table, *, row_headers: bool = True) -> str:
    """An HTML `<table>` with scoped headings, so that a screen reader can say which row and column a number is in.

    Everything is escaped. With `row_headers` the first cell of each row is a heading.
    """
    best = table.best()
    kinds = ["number" if column.is_number else "text" for column in table.columns]
    parts = ["<table>"]
    if table.caption:
        parts.append(f"<caption>{html.escape(table.caption)}</caption>")
    heads = [
        f'<th scope="col" class="{kind}">{html.escape(one_line(column.name))}</th>'
        for column, kind in zip(table.columns, kinds, strict=True)
    ]
    groups = "".join(
        f'<th scope="colgroup" colspan="{count}" class="group">{html.escape(one_line(name))}</th>'
        if name
        else f'<td colspan="{count}"></td>'
        for name, count in table.groups()
    )
    parts.append(f"<thead>{f'<tr>{groups}</tr>' if groups else ''}<tr>{''.join(heads)}</tr></thead><tbody>")
    for number, row in enumerate(table.rows):
        cells = []
        for position, column in enumerate(table.columns):
            value = row[position]
            escaped = html.escape(column.bare(value).replace(" … ", "\N{NO-BREAK SPACE}…\N{NO-BREAK SPACE}"))
            text = f"<strong>{escaped}</strong>" if (number, position) in best else escaped
            if isinstance(value, Number):
                text += (
                    f'<span class="sd">{value.spread(column.digits or 0)}</span>' if value.deviation is not None else ""
                )
                text += f"<sup>{html.escape(value.marks)}</sup>" if value.marks else ""
            if position == 0 and row_headers:
                kind = kinds[position] if column.name else "text key"
                cells.append(f'<th scope="row" class="{kind}">{text}</th>')
            else:
                cells.append(f'<td class="{kinds[position]}">{text}</td>')
        parts.append(f"<tr>{''.join(cells)}</tr>")
    parts.append("</tbody></table>")
    parts += [f'<p class="note">{html.escape(note)}</p>' for note in table.notes]
    return "\n".join(parts)


TEXT_FORMATS: dict[str, Callable[[Table], str]] = {"markdown": to_markdown, "latex": to_latex, "csv": to_csv}
"""The forms that are plain text, by the name that a command line takes."""


def markdown_text(text: str) -> str:
    """A text in Markdown, in one line, none of its letters a mark."""
    for mark in "\\`*_[]<>|":
        text = text.replace(mark, f"\\{mark}")
    return one_line(text)


def _latex(text: str, *, is_number: bool = False) -> str:
    """A text of LaTeX; of numbers "-" is a minus, and elsewhere two of them do not become a dash."""
    line = one_line(text).replace("-", "−") if is_number else one_line(text)
    before = ["", *line]
    guard = "{}" if line.startswith(("[", "*")) else ""  # behind a line's end these are an option of it
    return guard + "".join(
        "{}-" if letter == last == "-" else _LATEX.get(letter, letter)
        for letter, last in zip(line, before, strict=False)
    )


_LINE = 95
"""About so many characters fit on a line of a LaTeX article in small print."""


def _latex_columns(table: Table, texts: list[list[str]]) -> tuple[str, bool]:
    """The columns of a tabular, long texts as paragraphs; and whether it is too wide even so."""
    widths = [max([len(column.name), *(len(row[at]) for row in texts)]) + 2 for at, column in enumerate(table.columns)]
    kinds = ["r" if column.is_number else "l" for column in table.columns]
    long = [at for at, width in enumerate(widths) if kinds[at] == "l" and width > 32]
    short = sum(width for at, width in enumerate(widths) if at not in long)
    if sum(widths) > _LINE and long and short < 0.8 * _LINE:
        room = (_LINE - short) / _LINE
        for at in long:
            kinds[at] = rf"p{{{0.95 * room * widths[at] / sum(widths[at] for at in long):.2f}\linewidth}}"
        return "".join(kinds), False
    return "".join(kinds), sum(widths) > _LINE
