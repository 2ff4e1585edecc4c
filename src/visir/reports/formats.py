"""The printed forms of a `Table`: terminal, Markdown, LaTeX, CSV and HTML."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from visir.display import cell_for_people
from visir.reports.table import Spread, Table, one_line

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
    "–": "--",
    "…": r"\ldots{}",
    "−": "$-$",
    "½": r"$\frac{1}{2}$",
    "²": "$^2$",
    "₁": "$_1$",
    "₂": "$_2$",
}
_IN_MATH = (
    "rightarrow downarrow uparrow times pm leq geq neq approx cdot in ell "
    "alpha beta gamma delta epsilon eta theta lambda mu pi rho sigma tau omega Delta Sigma"
)
_LATEX |= {mark: f"$\\{name}$" for mark, name in zip("→↓↑×±≤≥≠≈·∈ℓαβγδεηθλµπρστωΔΣ", _IN_MATH.split(), strict=True)}


def to_terminal(table: Table) -> rich.table.Table:
    """The table for `rich.print`; the best of a column is bold. No cell is read as rich markup."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

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
    best = table.best()
    for number, row in enumerate(texts):
        rich_table.add_row(
            *(Text(cell, style="bold" if (number, position) in best else "") for position, cell in enumerate(row))
        )
    return rich_table


def to_markdown(table: Table) -> str:
    """A GitHub-flavoured Markdown table, numbers right-aligned, the best of a column in bold."""
    best = table.best()
    cells = [[_markdown(column.name) for column in table.columns]]
    for number, row in enumerate(table.texts()):
        cells.append(
            [
                f"**{_markdown(cell)}**" if (number, position) in best else _markdown(cell)
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
    above = [f"**{_markdown(table.caption)}**", ""] if table.caption else []
    below = ["", *(f"{_markdown(note)}  " for note in table.notes)] if table.notes else []
    return "\n".join([*above, *lines, *below]) + "\n"


def to_latex(table: Table) -> str:
    """A LaTeX `table` with booktabs rules (needs the package booktabs), the best of a column in bold.

    Every cell is escaped; arrows, dashes and a few signs become their LaTeX commands, other Unicode is left to the
    engine.
    """
    best = table.best()
    lines = [r"\begin{table}", r"\centering"]
    if table.caption:
        lines.append(rf"\caption{{{_latex(table.caption)}}}")
    lines += [
        rf"\begin{{tabular}}{{{''.join('r' if column.is_number else 'l' for column in table.columns)}}}",
        r"\toprule",
        " & ".join(_latex(column.name) for column in table.columns) + r" \\",
        r"\midrule",
    ]
    for number, row in enumerate(table.texts()):
        cells = [
            rf"\textbf{{{_latex(cell)}}}" if (number, position) in best else _latex(cell)
            for position, cell in enumerate(row)
        ]
        lines.append(" & ".join(cells) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\smallskip {_latex(note)}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def to_csv(table: Table) -> str:
    """Comma-separated values: numbers in full precision, missing values empty, no marks; nothing is a formula."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([cell_for_people(column.name) for column in table.columns])
    writer.writerows([["" if cell is None else cell_for_people(cell) for cell in row] for row in table.rows])
    return stream.getvalue()


def to_arrow(table: Table) -> pa.Table:
    """The cells as columns of Arrow: numbers as float64 in full precision, yes and no as Booleans, the rest as text."""
    import pyarrow as pa

    columns: dict[str, pa.Array] = {}
    for position, column in enumerate(table.columns):
        cells = [row[position] for row in table.rows]
        values = [cell for cell in cells if cell is not None]
        if all(isinstance(cell, bool) for cell in values) and values:
            array = pa.array(cells, pa.bool_())
        elif all(isinstance(cell, (int, float)) for cell in values) and (values or column.is_number):
            array = pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
        else:
            array = pa.array([None if cell is None else column.text(cell) for cell in cells], pa.string())
        columns[column.name] = array
    return pa.table(columns)


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
    parts.append(f"<thead><tr>{''.join(heads)}</tr></thead><tbody>")
    for number, row in enumerate(table.texts()):
        cells = []
        for position, cell in enumerate(row):
            escaped = html.escape(cell.replace(" … ", "\N{NO-BREAK SPACE}…\N{NO-BREAK SPACE}"))
            text = f"<strong>{escaped}</strong>" if (number, position) in best else escaped
            value = table.rows[number][position]
            if isinstance(value, Spread):
                text += f'<span class="sd">{value.text(table.columns[position].digits or 0)}</span>'
            if position == 0 and row_headers:
                cells.append(f'<th scope="row" class="{kinds[position]}">{text}</th>')
            else:
                cells.append(f'<td class="{kinds[position]}">{text}</td>')
        parts.append(f"<tr>{''.join(cells)}</tr>")
    parts.append("</tbody></table>")
    parts += [f'<p class="note">{html.escape(note)}</p>' for note in table.notes]
    return "\n".join(parts)


TEXT_FORMATS: dict[str, Callable[[Table], str]] = {"markdown": to_markdown, "latex": to_latex, "csv": to_csv}
"""The forms that are plain text, by the name that a command line takes."""


def _markdown(text: str) -> str:
    for mark in "\\`*_[]<>|":
        text = text.replace(mark, f"\\{mark}")
    return one_line(text)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in one_line(text))
