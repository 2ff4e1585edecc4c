"""Anything that visir measured or made, described again: one of them, or several side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import visir.collections as collections
from visir.display import Displayed, counted, view_function
from visir.errors import ConfigurationError, ProtocolError, VisirError, raise_faults
from visir.evaluation.classification.result import Classification
from visir.evaluation.compare import compare
from visir.evaluation.results import Evaluation
from visir.records import Result
from visir.reports.evaluation import evaluation_report
from visir.reports.page import Block, Cards, Figures, Fold, Group, Notice, Paragraph, Section, check_page, inline
from visir.reports.report import REPORT, Chart, StudyReport
from visir.reports.table import Cell, Column, Table
from visir.reports.tables import compared_systems_table, comparison_table, untested_systems_table
from visir.storage import check_new_folder
from visir.storage.manifest import reading_folder

_FILES = (".pdf", ".png", ".svg", ".md", ".tex", ".csv", ".json", ".xlsx", ".docx", ".txt")
"""Names of files that are no folders of a report."""
_MEASURED = (Evaluation, Result, Classification)


def report(
    *sources: Any,
    data: Any = None,
    images: Any = None,
    title: str = "",
    out: str | Path | None = None,
    replace: bool = False,
) -> StudyReport:
    """Describe anything that visir measured or made: its tables, charts, page and LaTeX. Several come side by side.

        visir.report("results/clip")                                     the folder of any verb
        visir.report("results/clip", "results/siglip", out="both.html")  the same as a page

    Args:
        *sources: What `visir.evaluate` and the other calls return, or folders that any verb wrote, one by one, in a
            list, or as {name: source}. Results of one protocol are also tested against one another
            (`visir.compare`, every pair); of results of different protocols it is said what differs.
        data: What was searched (`visir.open` takes it): with it the page of a result shows its best and worst queries.
        images: Where the pictures of `data` are, if not beside it.
        title: The heading; by default what was measured.
        out: Where to write: a page, FILE.html, or a new folder with the page and its tables. None writes nothing.
        replace: Replace a report that visir wrote there.

    Returns:
        The report: it shows itself, `report.tables`, `.charts`, `.to_latex()`, `.write("page.html")`, `.save(folder)`.

    Raises:
        ConfigurationError: There is nothing to describe, or something that has no report; all are named at once.
        VisirError: A folder cannot be opened.

    Example:
        >>> import visir
        >>> judged = {"q1": {"a": 1}, "q2": {"b": 1}}
        >>> first = visir.evaluate(judged, {"q1": {"a": 0.9, "b": 0.1}, "q2": {"a": 0.8, "b": 0.5}}, name="first")
        >>> other = visir.evaluate(judged, {"q1": {"a": 0.9, "b": 0.1}, "q2": {"a": 0.3, "b": 0.5}}, name="other")
        >>> visir.report(first, other).table.texts()[1][:2]
        ['other', '100.0']
    """
    is_page = check_place(out, replace=replace)
    given: dict[str, Any] = {}
    for source in sources:
        several = source if isinstance(source, (list, tuple)) else [source]
        for name, thing in (
            source.items() if isinstance(source, Mapping) else zip(map(_name, several), several, strict=True)
        ):
            unused = next(key for key in (str(name), *(f"{name} ({n})" for n in range(2, 10_000))) if key not in given)
            given[unused] = thing
    if not given:
        raise ConfigurationError(
            "there is nothing to report.", hint='visir.report("results/mine"), or what a call returned'
        )
    things = {name: _opened(thing) for name, thing in given.items()}
    faults = [f"{name}: {type(thing).__name__} has no report" for name, thing in things.items() if not _is_shown(thing)]
    raise_faults(ConfigurationError, "report", faults, hint="what visir.evaluate and the other calls return")
    source = None if data is None else collections.open(data, **({} if images is None else {"images": images}))
    if len(things) == 1:
        shown = _of_given(next(iter(given.values())), next(iter(things.values())), source)
        shown = changed(shown, title=title) if title else shown
    else:
        reports = {name: _of_given(given[name], thing, source) for name, thing in things.items()}
        shown = _side_by_side(things, reports, title)
    if out is not None:
        (shown.write if is_page else shown.save)(out, replace=replace)
    return shown


def check_place(out: str | Path | None, *, replace: bool) -> bool:
    """Refuse a place that no report can be written to, before anything is read; whether it is a page."""
    is_page = out is not None and Path(out).suffix.lower() in (".html", ".htm")
    if out is not None and is_page:
        check_page(Path(out), "a report is one page", ".htm", replace=replace)
    elif out is not None and Path(out).suffix.lower() in _FILES:
        raise ConfigurationError(
            f"{out}: a report is written as one page, or as a folder with its tables.",
            hint=f"out={str(Path(out).with_suffix('.html'))!r}, or a name without {Path(out).suffix}",
            code="report-no-such-form",
        )
    elif out is not None:
        check_new_folder(Path(out), REPORT, replace=replace)
    return is_page


def _name(thing: Any) -> str:
    """What something is called beside others."""
    if isinstance(thing, (str, Path)):
        path = Path(thing)
        return path.parent.name if path.name in ("result.json", "report.json") else path.name
    names = (getattr(thing, attribute, "") for attribute in ("system", "title", "name"))
    return next(filter(None, map(str, names)), type(thing).__name__)


def _opened(thing: Any) -> Any:
    """What a folder holds; a record as it is."""
    if not isinstance(thing, (str, Path)):
        return thing
    path = Path(thing)
    return collections.open(path.parent if path.name in ("result.json", "report.json") else thing)


def _is_shown(thing: Any) -> bool:
    return isinstance(thing, Displayed) and any(view_function(thing, name) for name in ("report", "blocks"))


def _of_given(given: Any, thing: Any, source: Any) -> StudyReport:
    """The report of a record; wrong values of a folder are damage of that folder."""
    with reading_folder(given) if isinstance(given, (str, Path)) else nullcontext():
        return _described(thing, source)


def _described(thing: Any, source: Any = None) -> StudyReport:
    """The report of a record; one that has none of its own is what a notebook shows of it."""
    if source is not None and isinstance(thing, Evaluation):
        return evaluation_report(thing, source=source)
    if describe := view_function(thing, "report"):
        described: StudyReport = describe(thing)
        return described
    kind = " ".join(re.findall("[A-Z][a-z]*", type(thing).__name__)).lower()
    shown = [block for block in view_function(thing, "blocks")(thing) if block is not None]
    return StudyReport(kind, _name(thing), [Section("shown", kind.capitalize(), shown)])


def _side_by_side(things: Mapping[str, Any], reports: Mapping[str, StudyReport], title: str) -> StudyReport:
    """What can be said of several together, and each of them below."""
    together: list[Block] = []
    joined: list[Table] = []
    if all(isinstance(thing, _MEASURED) for thing in things.values()):
        joined, together = _measured(things)
    joined = joined or _joined(reports)
    blocks = [*together[:1], *joined, *together[1:]]
    parts = [Section("together", "Side by side", blocks, in_notebooks=False)] if joined else []
    for number, (name, described) in enumerate(reports.items(), 1):
        blocks = [_renamed(block, f"r{number}") for section in described.sections for block in section.blocks]
        facts = inline("{}: <b>{}</b>", described.kind, described.title)
        folded = Fold("All of it", blocks, described.kind) if joined else Group(described.title, blocks)
        parts.append(Section(f"report-{number}", name, [Paragraph(facts, "soft"), folded], in_notebooks=not joined))
    printed: list[Table | str] = [*joined]
    for block in together[:1]:
        printed += [str(line) for line in block.items] if isinstance(block, Notice) else []
    if not joined:
        printed += [table for described in reports.values() for table in described.headline or [described.table]]
    kind = f"{counted(len(things), 'reports')} side by side"
    return StudyReport(kind, title or " · ".join(things), parts, headline=joined, printed=printed)


def _measured(things: Mapping[str, Any]) -> tuple[list[Table], list[Block]]:
    """The table of several results, tested where one protocol allows it, or with what differs between them."""
    try:
        compared = compare(dict(things), pairs=True)
    except ProtocolError as fault:
        results = {name: thing.result if isinstance(thing, Evaluation) else thing for name, thing in things.items()}
        if not all(isinstance(result, Result) for result in results.values()):
            return [], []
        lines = [fault.message, "No test is made, and no value is marked as the best."]
        return [untested_systems_table(results)], [Notice(lines, "Not comparable")]
    except VisirError:  # no measure in common
        return [], []
    differences = Fold("Every difference, with its interval", [comparison_table(compared)])
    return [compared_systems_table(compared)], [*([Notice(compared.notes)] if compared.notes else []), differences]


def _joined(reports: Mapping[str, StudyReport]) -> list[Table]:
    """The tables that several reports lead with, joined where they have the same columns: a row says whose it is."""
    alike: dict[tuple[str, ...], dict[str, Table]] = {}
    for name, described in reports.items():
        for table in described.headline or [described.table]:
            alike.setdefault(tuple(column.full_name for column in table.columns), {}).setdefault(name, table)
    joined = []
    for tables in alike.values():
        if len(tables) > 1:
            first, *columns = next(iter(tables.values())).columns
            # What a row is about comes first, and under it one row for each report.
            rows: dict[Cell, list[list[Cell]]] = {}
            for name, table in tables.items():
                for about, *cells in table.rows:
                    rows.setdefault(about, []).append([about, name, *cells])
            captions = {table.caption for table in tables.values()}
            notes = dict.fromkeys(note for table in tables.values() for note in table.notes)
            listed = [row for same in rows.values() for row in same]
            caption = captions.pop() if len(captions) == 1 else ""
            joined.append(Table.of([first, Column("report"), *columns], listed, caption=caption, notes=[*notes]))
    return joined


def _renamed(block: Any, prefix: str) -> Any:
    """A block whose charts, and what they hold, have names of their own on a page with other reports."""
    if isinstance(block, Chart):
        svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", block.svg)
        return changed(block, name=f"{prefix}-{block.name}", svg=svg)
    if isinstance(block, Group):
        anchor = f"{prefix}-{block.anchor}" if block.anchor else ""
        return changed(block, blocks=[_renamed(inner, prefix) for inner in block.blocks], anchor=anchor)
    if isinstance(block, Fold):
        return changed(block, blocks=[_renamed(inner, prefix) for inner in block.blocks])
    if isinstance(block, Figures):
        return changed(block, figures=[_renamed(figure, prefix) for figure in block.figures])
    if isinstance(block, Cards):
        cards = [changed(card, blocks=[_renamed(inner, prefix) for inner in card.blocks]) for card in block.cards]
        return changed(block, cards=cards)
    return block
