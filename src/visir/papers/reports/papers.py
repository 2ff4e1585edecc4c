"""The tables of the papers as visir made them: measured beside published, with verdicts; and one page for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from visir.papers.answers import tree
from visir.papers.printed import words_of
from visir.papers.reports.figures import figures_of
from visir.papers.reports.grid import grids
from visir.papers.run import STUDIES
from visir.papers.standing import STATES, Standing
from visir.papers.verdict import Verdict
from visir.reports.blocks import (
    Block,
    Bullets,
    Card,
    Cards,
    Definitions,
    Files,
    Fold,
    Group,
    Inline,
    Paragraph,
    inline,
)
from visir.reports.formats import to_csv, to_latex, to_markdown
from visir.reports.page import Page, Section, page_bytes
from visir.reports.table import Cell, Column, Table
from visir.storage import put

FORMS = {"md": to_markdown, "tex": to_latex, "csv": to_csv}
"""The forms that every table is written in, by their suffix."""
DATA = {
    "same": "On the data of the table; reproduced: within 5 % of the printed value (thesis 2.5.3)",
    "other": "On real data of another collection: values are not judged, the order of systems is",
    "quoted": "The authors' own numbers: nothing is measured, what the paper says of them is looked at",
    "generated": "On generated data: values are not judged, and orders only show that the study runs",
}

MEANINGS: tuple[tuple[Inline, Inline], ...] = (
    (
        "reproduced",
        "On the data of the table, the mean over seeds is within 5 % of the printed value (thesis 2.5.3). On other "
        "data no value is judged.",
    ),
    (
        "order",
        "Two systems (or two rows of values) stand in the printed order, strictly. Pairs that tie in print are none.",
    ),
    (
        "reproducible, replicable, generalisable",
        "Same data; other real data of the kind; from collections of scenes to those of single objects. Generated "
        "data answers none of them: it shows that the study runs.",
    ),
    (
        "?",
        inline(
            "The printed value cannot be right, or is not what its label says; <code>visir study show</code> gives the "
            "reason."
        ),
    ),
)
"""What the words of the page mean."""


def values_table(verdict: Verdict) -> Table:
    """Every value that was looked at: measured, published, difference, verdict. What was not run is counted below."""
    shown = [one for one in verdict.values if one.state != "not run"]
    rows: list[list[Cell]] = [
        [
            one.system,
            one.collection or None,
            one.label,
            one.ours,
            one.spread,
            one.published,
            None if one.relative is None else 100 * one.relative,
            one.state + (" ?" if one.doubt else ""),
        ]
        for one in shown
    ]
    printed = [abs(one.published) for one in shown if one.published is not None]
    digits = 4 if printed and max(printed) < 2 else 2  # similarities and shares need more of them than percentages
    columns = [
        Column("system"),
        Column("collection"),
        Column("value"),
        Column("quoted" if verdict.data == "quoted" else "measured", digits),
        Column("± sd", digits),
        Column("published", digits),
        Column("difference %", 1, signed=True),
        Column("verdict"),
    ]
    for name in ("± sd", "collection"):  # of one seed there is no deviation; of Table 1, no collection
        at = [one.name for one in columns].index(name)
        if all(row[at] is None for row in rows):
            columns.pop(at)
            rows = [[*row[:at], *row[at + 1 :]] for row in rows]
    caption = f"{verdict.study.paper}: {verdict.study.title} ({verdict.scale})"
    return Table.of(columns, rows, caption=caption, notes=notes_of(verdict))


def notes_of(verdict: Verdict) -> list[str]:
    """What stands below the values: what was done, on what, and what was not."""
    shown = [one for one in verdict.values if one.state != "not run"]
    notes = [
        verdict.study.scale(verdict.scale).says,
        DATA[verdict.data],
    ]
    seeds = sorted({one.seed for one in verdict.cells if one.state == "done"})
    notes.append(f"seeds {', '.join(map(str, seeds))}" if seeds else "nothing was run")
    left = verdict.count("not run")
    notes += [f"{left} printed values were not run at this scale"] if left else []
    notes += ["?: the printed value is doubtful (visir study show)"] if any(one.doubt for one in shown) else []
    notes += sorted({f"failed: {one.reason}" for one in shown if one.state == "failed"})
    notes += cannot_tell(verdict)
    partial = {one.reason for one in shown if one.state == "not judged" and "only orders compare" not in one.reason}
    notes += sorted(partial - {"no printed value"})
    return notes


def cannot_tell(verdict: Verdict) -> list[str]:
    """What was tried and cannot be computed from the data there is: "ga-sessions: the log names no customer"."""
    tried = [one for one in verdict.cells if one.state == "not run" and one.versions]
    return list(dict.fromkeys(": ".join(filter(None, (one.collection, one.reason))) for one in tried))


def orders_table(verdict: Verdict) -> Table | None:
    """The pairs whose order is not the printed one; None when no pair was looked at."""
    if not verdict.judged:
        return None
    rows: list[list[Cell]] = [
        [one.collection or None, one.label, f"{one.higher} > {one.lower}"] for one in verdict.judged if not one.same
    ]
    notes = [f"{verdict.kept} of {len(verdict.judged)} pairs stand in the printed order; listed are the others"]
    columns = [Column("collection"), Column("of"), Column("printed, and not so here")]
    return Table.of(columns, rows, caption=f"{verdict.study.paper}: orders ({verdict.scale})", notes=notes)


def shapes_table(verdict: Verdict) -> Table | None:
    """What a figure shows, sentence by sentence; None for a table."""
    if not verdict.shapes:
        return None
    rows: list[list[Cell]] = [[one.says, one.came_out, one.numbers] for one in verdict.shapes]
    columns = [Column("the figure says"), Column("came out"), Column("numbers")]
    return Table.of(columns, rows, caption=f"{verdict.study.paper}: shapes ({verdict.scale})")


def words_table(verdict: Verdict) -> Table | None:
    """What was found in words, and what is printed (Table 3.4); None where nothing was found in words."""
    printed = words_of(verdict.study.table(), verdict.study.systems)
    done = [one for one in verdict.cells if one.state == "done" and one.measured.words]
    if not done:
        return None
    several = len({one.collection for one in done}) > 1
    found = {
        (f"{one.system}, {one.collection}" if several else one.system, label): text
        for one in done
        for label, text in one.measured.words.items()
    }
    rows: list[list[Cell]] = []
    for label in dict.fromkeys(label for _, label in (*found, *printed)):
        for system in dict.fromkeys(system for system, _ in (*found, *printed)):
            for where, texts in (("here", found), ("printed", printed)):
                if (system, label) in texts:
                    rows.append([label, system, where, texts[system, label]])
    columns = [Column(one) for one in ("of", "system", "where", "in words, the heaviest or commonest first")]
    return Table.of(columns, rows, caption=f"{verdict.study.paper}: in words ({verdict.scale})")


def tree_table(verdict: Verdict) -> Table | None:
    """Thesis Figure 2.2: task, kind of collection, collection, and what came of its values and orders."""
    leaves = tree(verdict)
    if not leaves:
        return None
    rows: list[list[Cell]] = []
    for one in leaves:
        values = f"{one.reproduced} of {one.judged}" if one.judged else None
        rows.append([one.task, one.centre, one.collection or None, values, f"{one.kept} of {one.pairs}"])
    names = ("task", "kind", "collection", "values within 5 %", "pairs in the printed order")
    return Table.of([Column(one) for one in names], rows, caption=f"{verdict.study.paper}: the tree ({verdict.scale})")


def summary_table(found: Sequence[Standing]) -> Table:
    """One row per table and figure, with counts below."""
    rows: list[list[Cell]] = []
    for one in found:
        good, judged, printed = one.judged
        best = one.verdicts[-1] if one.verdicts else None
        order = f"{best.kept}/{len(best.judged)}" if best is not None and best.judged else None
        shapes = [shape for part in one.verdicts[-1:] for shape in part.shapes if shape.came_out is not None]
        came = f"{sum(bool(shape.came_out) for shape in shapes)}/{len(shapes)} shapes" if shapes else None
        rows.append(
            [
                one.study.paper,
                one.study.title,
                one.state,
                ", ".join(part.scale for part in one.verdicts) or None,
                f"{good}/{judged} of {printed}" if judged else None,
                order or came,
                one.study.not_built
                or next((said.because for said in one.answers if said.answer != "not looked at"), ""),
            ]
        )
    counted = Counter(one.state for one in found)
    notes = [", ".join(f"{counted[state]} {state}" for state in STATES)]
    notes.append("values: within 5 % / judged, of printed; order: pairs in the printed order, at the largest scale run")
    names = ("table", "what", "state", "scales", "values", "order", "because")
    return Table.of([Column(one) for one in names], rows, caption="Every table and figure", notes=notes)


def _because(found: Standing) -> str:
    """What the first of the three questions that was looked at is answered by."""
    return next((f"{one.question}: {one.answer}" for one in found.answers if one.answer != "not looked at"), "")


def made_rows(verdict: Verdict) -> list[tuple[str, str]]:
    """Protocol, hardware, versions and seeds of a scale, (label, value); what differs from cell to cell is counted."""
    done = [one for one in verdict.cells if one.state == "done"]
    rows: dict[str, dict[str, None]] = {}
    for one in done:
        said = {**one.measured.ran, **one.measured.protocol, "hardware": one.machine}
        said |= {f"version of {name}": value for name, value in one.versions.items()}
        for label, value in said.items():
            rows.setdefault(label, {})[value] = None
    found = []
    for label, values in rows.items():
        shown = " · ".join(list(values)[:4])
        found.append((label, shown + (f" · and {len(values) - 4} more" if len(values) > 4 else "")))
    seeds = ", ".join(map(str, sorted({one.seed for one in done})))
    return [*found, ("seeds", seeds)] if done else []


def tables_of(verdict: Verdict) -> list[Table]:
    """All tables of one verdict."""
    made = (
        *(grids(verdict, notes_of(verdict)) or [values_table(verdict)]),
        words_table(verdict),
        orders_table(verdict),
        shapes_table(verdict),
        tree_table(verdict),
    )
    return [one for one in made if one is not None]


def write_papers_report(out: Path, found: Sequence[Standing]) -> Path:
    """Write the page of all studies, `report.html`, and return its path.

    Beside it, under `tables/`, every table in Markdown, LaTeX and CSV. The same cells give the same bytes: times are
    not part of it.
    """
    files: dict[str, str] = {}
    contents: dict[str, bytes] = {}
    for status in found:
        for verdict in status.verdicts:
            stem = f"tables/{status.name}-{verdict.scale}"
            for name, table in ((stem, values_table(verdict)), (f"{stem}-words", words_table(verdict))):
                if table is not None:
                    for suffix, form in FORMS.items():
                        contents[f"{name}.{suffix}"] = form(table).encode()
                    files[f"{name}.csv"] = f"{status.study.paper}, {verdict.scale}; beside it .md and .tex"
    summary = summary_table(found)
    for suffix, form in FORMS.items():
        contents[f"tables/summary.{suffix}"] = form(summary).encode()
    counted = Counter(status.state for status in found)
    states = [(state, str(counted[state])) for state in STATES]
    studies: list[Block] = [_study(status) for status in found if status.verdicts]
    nothing = Paragraph(inline("Nothing was run yet: <code>visir study run NAME --scale smoke</code>"), "lead")
    sections = [
        Section("summary", "Summary", [Cards([Card("", states)]), summary]),
        Section("studies", "Study by study", studies or [nothing]),
        Section("meaning", "What the words mean", [Definitions(MEANINGS)]),
        Section("files", "Files beside this page", [Files(sorted(files.items()))], short="Files"),
    ]
    subtitle = "measured beside published, with a verdict for every value"
    contents["report.html"] = page_bytes(Page("studies", "The papers' tables", sections, [subtitle]))
    put(out, STUDIES, contents)
    return out / "report.html"


def _study(status: Standing) -> Group:
    """One study: its claims, what is answered of them, and its scales, the largest open."""
    answers: list[tuple[Inline, Inline]] = [
        (answer.question, inline("<b>{}</b>: {}", answer.answer, answer.because)) for answer in status.answers
    ]
    last = len(status.verdicts) - 1
    scales = [_scale(verdict, is_open=number == last) for number, verdict in enumerate(status.verdicts)]
    blocks: list[Block] = [Paragraph(status.study.claims, "lead"), Definitions(answers), *scales]
    return Group(f"{status.study.paper}: {status.study.title}", blocks, status.name)


def _scale(verdict: Verdict, *, is_open: bool) -> Fold:
    """What a study came to at one scale."""
    blocks: list[Block] = [*figures_of(verdict), *tables_of(verdict)]
    for title, sentences in (
        ("Which reading gives the published values", verdict.explained),
        ("Where R@10 is R@5", verdict.marks),
    ):
        if sentences:
            blocks.append(Group(title, [Bullets([inline("<b>{}</b>: {}", name, text) for name, text in sentences])]))
    protocol = Table.of([Column("field"), Column("value")], made_rows(verdict))
    blocks.append(Fold("Protocol, hardware, versions, seeds", [protocol]))
    return Fold(verdict.scale, blocks, verdict.study.scale(verdict.scale).says, is_open=is_open)
