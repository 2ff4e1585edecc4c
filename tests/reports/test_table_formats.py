from __future__ import annotations

import io
from types import SimpleNamespace

from rich.console import Console

from refusals import refused
from visir.errors import VisirError
from visir.reports import Column, Table, to_csv, to_html, to_latex, to_markdown, to_terminal
from visir.reports.formats import to_arrow
from visir.reports.table import Number, one_line

TABLE = Table.of(
    [Column("system"), Column("R@1", 1, best="max"), Column("Med r", 0, best="min"), Column("Δ", 1, signed=True)],
    [["a_b & c", 41.26, 1200.0, 0.04], ["plain|pipe", 41.3, 3, -1.25], ["→ new", None, 3.2, 2.0]],
    caption="50 % of it",
    notes=["a note"],
)


def test_markdown_is_this_text():
    # 41.26 and 41.3 both print as 41.3, so neither is better than the other; 3 and 3.2 print as 3, the lowest: both.
    assert to_markdown(TABLE) == (
        "**50 % of it**\n"
        "\n"
        "| system      |  R@1 | Med r |    Δ |\n"
        "| ----------- | ---: | ----: | ---: |\n"
        "| a\\_b & c    | 41.3 | 1,200 |  0.0 |\n"
        "| plain\\|pipe | 41.3 | **3** | -1.2 |\n"
        "| → new       |    – | **3** | +2.0 |\n"
        "\n"
        "a note  \n"
    )


def test_latex_is_this_text():
    assert to_latex(TABLE) == (
        "\\begin{table}\n"
        "\\centering\n"
        "\\small\n"
        "\\caption{50 \\% of it}\n"
        "\\begin{tabular}{lrrr}\n"
        "\\toprule\n"
        "system & R@1 & Med r & $\\Delta$ \\\\\n"
        "\\midrule\n"
        "a\\_b \\& c & 41.3 & 1,200 & 0.0 \\\\\n"
        "plain\\textbar{}pipe & 41.3 & \\textbf{3} & $-$1.2 \\\\\n"
        "$\\rightarrow$ new & -- & \\textbf{3} & +2.0 \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\\par\\smallskip{\\footnotesize a note\\par}\n"
        "\\end{table}\n"
    )


def test_csv_keeps_full_precision_and_leaves_missing_empty():
    assert to_csv(TABLE) == ("system,R@1,Med r,Δ\na_b & c,41.26,1200.0,0.04\nplain|pipe,41.3,3,-1.25\n→ new,,3.2,2.0\n")


def test_html_is_this_text():
    small = Table.of([Column("x"), Column("n", 1, best="max")], [["<b>", 1.0], ["y", 2.0]], caption="a < b")
    assert to_html(small) == (
        "<table>\n<caption>a &lt; b</caption>\n"
        '<thead><tr><th scope="col" class="text">x</th><th scope="col" class="number">n</th></tr></thead><tbody>\n'
        '<tr><th scope="row" class="text">&lt;b&gt;</th><td class="number">1.0</td></tr>\n'
        '<tr><th scope="row" class="text">y</th><td class="number"><strong>2.0</strong></td></tr>\n'
        "</tbody></table>"
    )


def test_terminal_prints_cells_literally_and_without_escapes():
    stream = io.StringIO()
    table = Table.of([Column("q"), Column("n", 1)], [["[bold red]markup\x1b[31m", 0.5]], caption="[i]title")
    Console(file=stream, width=60, color_system=None).print(to_terminal(table))
    printed = stream.getvalue()
    assert "[i]title" in printed
    assert "[bold red]markup\N{REPLACEMENT CHARACTER}[31m" in printed
    assert "\x1b" not in printed
    assert printed.split("\n")[2].split() == ["q", "n"]


def test_eighty_columns_hold_two_names_and_eleven_numbers():
    # 6 + 8 + 11 × 4 and 12 spaces between, one at each edge: 72
    stream = io.StringIO()
    columns = [Column("model"), Column("features"), *(Column(str(step), 1) for step in range(11))]
    table = Table.of(columns, [["neural", "extended", *(40.0 + step for step in range(11))]])
    Console(file=stream, width=80, color_system=None).print(to_terminal(table))
    rows = [line.split() for line in stream.getvalue().splitlines()]
    assert ["neural", "extended", *(f"{40.0 + step:.1f}" for step in range(11))] in rows


def test_a_difference_that_rounds_to_nothing_has_no_sign():
    assert Column("d", 1, signed=True).text(-0.04) == "0.0"
    assert Column("d", 1, signed=True).text(0.06) == "+0.1"


def test_a_p_value_is_never_printed_as_zero() -> None:
    p = Column("p", 4, positive=True)
    assert [p.text(one) for one in (3e-47, 0.00009, 0.0001, 0.25)] == ["< 0.0001", "< 0.0001", "0.0001", "0.2500"]
    assert Column("d", 1).text(True) == "yes"


def test_no_best_where_all_print_the_same_or_only_one_is_known():
    column = [Column("n", 1, best="max")]
    assert Table.of(column, [[1.01], [1.02]]).best() == frozenset()
    assert Table.of(column, [[1.0], [None]]).best() == frozenset()
    assert Table.of(column, [[1.0], [float("nan")], [2.0]]).best() == {(2, 0)}


def test_a_row_with_a_cell_too_few_is_refused():
    with refused(VisirError, "T", "2", "1", "2", code="cells-columns", hint=False):
        Table.of([Column("a"), Column("b")], [["1", "2"], ["3"]], caption="T")


def test_direction_overrides_become_visible_and_arabic_stays():
    assert one_line("a\u202eb\tc\n مرحبا") == "a\N{REPLACEMENT CHARACTER}b c مرحبا"


def test_signs_that_latex_does_not_know_are_written_in_its_own() -> None:
    """pdflatex stops at a sign without a definition: every one in what visir prints of tables has one."""
    signs = "→↓↑×±≤≥≠≈·∈ℓλστΔ−½²…"
    text = to_latex(Table((Column("what"),), ((signs,),), caption=signs, notes=(signs,)))
    assert text.isascii() and text.count(r"$\downarrow$") == 3 and r"$\lambda$" in text


# Tables as papers print them: groups of columns, marks of significance, intervals.

PAPER = Table.of(
    [
        Column("system"),
        Column("R@1", 1, "max", group="text → image"),
        Column("R@5", 1, "max", group="text → image"),
        Column("R@1", 1, "max", group="image → text"),
    ],
    [["mine", Number(41.26, marks="a"), Number(60.0), 50.0], ["yours", 40.0, Number(61.0, marks="ab"), None]],
)


def test_latex_has_groups_over_rules_and_marks_behind_bold_numbers():
    lines = to_latex(PAPER).splitlines()
    assert (
        lines[5] == r" & \multicolumn{2}{c}{text $\rightarrow$ image} & \multicolumn{1}{c}{image $\rightarrow$ text} \\"
    )
    assert lines[6] == r"\cmidrule(lr){2-3} \cmidrule(lr){4-4}"
    assert lines[9] == r"mine & \textbf{41.3}$^{a}$ & 60.0\hphantom{$^{ab}$} & 50.0 \\"
    assert lines[10] == r"yours & 40.0\hphantom{$^{a}$} & \textbf{61.0}$^{ab}$ & -- \\"


def test_markdown_and_terminal_give_each_group_rows_of_its_own():
    assert to_markdown(PAPER).splitlines()[2:] == [
        "| text → image | mine   | **41.3ᵃ** |       60.0 |",
        "| text → image | yours  |      40.0 | **61.0ᵃᵇ** |",
        "| image → text | mine   |      50.0 |          – |",
        "| image → text | yours  |         – |          – |",
    ]
    stream = io.StringIO()
    Console(file=stream, width=60).print(to_terminal(PAPER))
    assert "image → text   mine      50.0" in stream.getvalue() and "61.0ᵃᵇ" in stream.getvalue()


def test_html_has_groups_as_headings_and_marks_raised():
    html = to_html(PAPER)
    assert '<td colspan="1"></td><th scope="colgroup" colspan="2" class="group">text → image</th>' in html
    assert "<strong>61.0</strong><sup>ab</sup>" in html


def test_data_frames_have_every_column_once_and_intervals_as_numbers():
    change = Column("change", 1, of="change", ends=("low", "high"))
    only = Column("only", 1, of="only", ends=lambda row: None)
    rows = [
        SimpleNamespace(change=1.0, low=-0.25, high=2.25, only=3.0),
        SimpleNamespace(change=2, low=1, high=3, only=4),
    ]
    table = Table.over(rows, [change, only])
    assert [column.name for column in table.columns] == ["change", "95 % interval", "only", "95 % interval"]
    assert to_csv(table) == (
        "change,change low,change high,only,only 95 % interval\n1.0,-0.25,2.25,3.0,\n2,1.0,3.0,4,\n"
    )
    assert to_arrow(table).to_pylist()[0] == {
        "change": 1.0,
        "change low": -0.25,
        "change high": 2.25,
        "only": 3.0,
        "only 95 % interval": None,
    }
    assert to_csv(PAPER).startswith("system,text → image R@1,text → image R@5,image → text R@1\n")
    twice = Table.of([Column("x", 1), Column("x", 1)], [[1, 2]])
    assert twice.names == ["x", "x 2"] and to_arrow(twice).to_pylist() == [{"x": 1.0, "x 2": 2.0}]


def test_wide_tables_fit_a_line_of_latex():
    numbers = Table.of([Column(f"measure number {n}", 1) for n in range(12)], [[1.0] * 12])
    assert r"\resizebox{\linewidth}{!}{%" in to_latex(numbers) and r"\end{tabular}}" in to_latex(numbers)
    words = Table.of([Column("name"), Column("what it is")], [["a", "long " * 40]])
    assert r"p{0." in to_latex(words) and r"\linewidth}}" in to_latex(words) and "resizebox" not in to_latex(words)


def test_two_dashes_stay_two_dashes():
    assert r"-{}-{}-out" in to_latex(Table.of([Column("---out")], [["a"]]))


def test_what_stands_behind_the_end_of_a_line_of_latex_is_no_option_of_it() -> None:
    lines = to_latex(Table.of([Column("[a]")], [["[CLS]"], ["*b"]])).splitlines()
    assert {r"{}[a] \\", r"{}[CLS] \\", r"{}*b \\"} <= set(lines)


def test_marks_are_text_in_latex() -> None:
    marked = Table.of([Column("R@1", 1)], [[Number(1, marks="}$\\input{x}")], [Number(2, marks="†a*")]])
    assert r"\input" not in to_latex(marked) and r"1.0$^{\mbox{\}}\mbox{\$}" in to_latex(marked)
    assert r"2.0$^{\dagger a*}$" in to_latex(marked)
