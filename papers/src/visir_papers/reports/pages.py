"""One page for all studies, and every table in Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from visir.reports.formats import to_csv, to_latex, to_markdown
from visir.reports.page import (
    Block,
    Bullets,
    Card,
    Cards,
    Definitions,
    Figure,
    Files,
    Fold,
    Group,
    Inline,
    Page,
    Paragraph,
    Section,
    inline,
    page_bytes,
)
from visir.reports.plots import themed
from visir.reports.table import Cell, Column, Table
from visir.reports.views.parts import facts
from visir.storage import put
from visir_papers.cells import STUDIES
from visir_papers.reports.tables import provenance_rows, summary_table, tables_of, values_table, words_table
from visir_papers.status import STATES, StudyList, StudyStatus
from visir_papers.study import DRAWINGS, Study
from visir_papers.verdicts import StudyComparison

# Figures of a study: one drawing for each collection, with the values that the paper's text prints.


def figures_of(comparison: StudyComparison) -> list[Figure]:
    """The drawings of a study, collection by collection; empty where there is none."""
    draw = DRAWINGS.get(comparison.study.trend_checks or "")
    if draw is None:
        return []
    by_collection: dict[str, dict[str, dict[str, float]]] = {}
    published: dict[tuple[str, str], float] = {}
    for value in comparison.values:
        if value.ours is not None:
            by_collection.setdefault(value.collection, {}).setdefault(value.system, {})[value.label] = value.ours
        if value.published is not None:
            published[value.system, value.label] = value.published
    figures = []
    for collection, means in by_collection.items():
        for number, (plot, caption) in enumerate(draw(means, published)):
            prefix = "-".join(filter(None, (comparison.name, comparison.scale, collection, str(number))))
            title = f"{comparison.study.title}: {collection}" if collection else comparison.study.title
            label = f"{title}; the numbers are in the tables below"
            figures.append(Figure(themed(plot, prefix, label), title, caption))
    return figures


FORMS = {"md": to_markdown, "tex": to_latex, "csv": to_csv}
"""The forms that every table is written in, by their suffix."""

MEANINGS: tuple[tuple[Inline, Inline], ...] = (
    (
        "reproduced",
        "On the data of the table, the mean over seeds is within 5 % of the printed value (thesis 2.5.3). On other "
        "data no value is judged.",
    ),
    (
        "counts",
        "A pair counts when the 95 % interval of its difference excludes 0: over queries, visitors, folds and seeds. A "
        "statement counts when it holds in nearly all draws of the values, or in nearly none. Pairs that tie in print "
        "are none.",
    ),
    (
        "yes, partly, no, undecided",
        "yes: nearly all that counts agrees with the paper, and that is most of what was measured. partly: more agrees "
        "than chance gives. no: no more than chance gives, or the other way round. undecided: nothing counts, or there "
        "are so few systems that a random order could agree in everything.",
    ),
    (
        "chance",
        "How much would agree if the systems stood in random order: the mean, and the central 95 %.",
    ),
    (
        "reproducible, replicable, generalisable",
        "Same data; the order printed for collections of scenes, on collections of single objects; our order on both "
        "kinds (thesis, chapter 2). Other real data of the same kind is a question of its own. Generated data answers "
        "none of them: it shows that the study runs.",
    ),
    (
        "?",
        inline(
            "The printed value cannot be right, or is not what its label says; <code>visir papers show</code> gives "
            "the reason."
        ),
    ),
)
"""What the words of the page mean."""


def write_papers_report(out: Path, statuses: Sequence[StudyStatus]) -> Path:
    """Write `report.html` for all studies, and under `tables/` every table in Markdown, LaTeX and CSV."""
    # The same cells give the same bytes: times are not part of it.
    files: dict[str, str] = {}
    contents: dict[str, bytes] = {}
    for status in statuses:
        for comparison in status.comparisons:
            stem = f"tables/{status.name}-{comparison.scale}"
            for name, table in ((stem, values_table(comparison)), (f"{stem}-words", words_table(comparison))):
                if table is not None:
                    for suffix, form in FORMS.items():
                        contents[f"{name}.{suffix}"] = form(table).encode()
                    files[f"{name}.csv"] = f"{status.study.paper}, {comparison.scale}; beside it .md and .tex"
    summary = summary_table(statuses)
    for suffix, form in FORMS.items():
        contents[f"tables/summary.{suffix}"] = form(summary).encode()
    counted = Counter(status.state for status in statuses)
    states = [(state, str(counted[state])) for state in STATES]
    studies: list[Block] = [_study(status) for status in statuses if status.comparisons]
    nothing = Paragraph(inline("Nothing was run yet: <code>visir papers run NAME --scale smoke</code>"), "lead")
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


def _study(status: StudyStatus) -> Group:
    """One study: its claims, the verdicts on them, and its scales, the largest open."""
    verdicts: list[tuple[Inline, Inline]] = [
        (verdict.question, inline("<b>{}</b>: {}", verdict.answer, verdict.reason)) for verdict in status.verdicts
    ]
    last = len(status.comparisons) - 1
    scales = [scale_fold(comparison, is_open=number == last) for number, comparison in enumerate(status.comparisons)]
    study = status.study
    blocks: list[Block] = [Paragraph(study.claims, "lead"), *_findings(study), Definitions(verdicts), *scales]
    return Group(f"{status.study.paper}: {status.study.title}", blocks, status.name)


def _findings(study: Study) -> list[Block]:
    """How what was published differs from what the text says."""
    return [Group("What was published is not what the text says", [Bullets(study.findings)])] if study.findings else []


def scale_fold(comparison: StudyComparison, *, is_open: bool) -> Fold:
    """What a study came to at one scale, under the scale's name."""
    scale = comparison.study.scale(comparison.scale)
    return Fold(comparison.scale, scale_blocks(comparison), scale.description, is_open=is_open)


def scale_blocks(comparison: StudyComparison) -> list[Block]:
    """What a study came to at one scale: figures, tables, the nearest reading, and where everything comes from."""
    blocks: list[Block] = [*figures_of(comparison), *tables_of(comparison)]
    for title, sentences in (
        ("Which reading gives the published values", comparison.explained),
        ("Where R@10 is R@5", comparison.row_annotations),
    ):
        if sentences:
            blocks.append(Group(title, [Bullets([inline("<b>{}</b>: {}", name, text) for name, text in sentences])]))
    provenance = Table.pairs(provenance_rows(comparison))
    return [*blocks, Fold("Protocol, hardware, versions, seeds", [provenance])]


# How the list of studies, one study, and a study beside its published table are shown in a notebook.


def blocks(shown: StudyComparison | StudyStatus | StudyList) -> list[Block]:
    """A list is its table; a study its claim, scales and verdicts; a comparison what the report of all studies has."""
    if isinstance(shown, StudyList):
        return [table(shown)]
    study = shown.study
    title = f"{study.paper}: {study.title}"
    if isinstance(shown, StudyComparison):
        done = f"{shown.states['done']} of {len(shown.cells)} cells done"
        return [facts(title, f"scale {shown.scale}", done), *_findings(study), *scale_blocks(shown)]
    head: list[Block] = [facts(title, shown.state), Paragraph(study.claims), *_findings(study)]
    if study.not_built:
        return [*head, Paragraph(study.not_built, "missing")]
    rows: list[list[Cell]] = [
        [name, study.scale(name).description, f"{ready} of {total}", study.scale(name).hours]
        for name, (ready, total) in shown.available_cells.items()
    ]
    columns = [Column("scale"), Column("what it does"), Column("cells with data here"), Column("hours", 2)]
    head.append(Table.of(columns, rows))
    if shown.comparisons:
        verdicts = [[verdict.question, verdict.answer, verdict.reason] for verdict in shown.verdicts]
        head.append(Fold("Verdicts", [Table.of([Column("question"), Column("answer"), Column("why")], verdicts)]))
    return [*head, *(scale_fold(comparison, is_open=False) for comparison in shown.comparisons)]


def table(shown: StudyComparison | StudyList) -> Table:
    """Every value that was run: measured, published, difference, verdict; of a list a row for each study."""
    if isinstance(shown, StudyComparison):
        return values_table(shown)
    columns = [Column("name"), Column("paper"), Column("title"), Column("scales")]
    return Table.of(columns, [[entry.name, entry.paper, entry.title, ", ".join(entry.scales)] for entry in shown])
