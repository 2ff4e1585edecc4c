"""How a study is described: sections of tables, charts, galleries and sentences. Its looks follow from that.

A study says what it is in one function, `report_of(study) -> StudyReport`. From it come its view in a notebook, its
tables for documents and other tools, its page, and its folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from markupsafe import Markup

from visir.display import Plotted, Tabular, brief
from visir.errors import VisirError
from visir.reports.formats import to_csv
from visir.reports.page import (
    Block,
    Cards,
    Figure,
    Figures,
    Fold,
    Group,
    Inline,
    Notice,
    Page,
    Paragraph,
    Section,
    inline,
    production,
    write_page,
)
from visir.reports.plots import themed
from visir.reports.table import Table
from visir.storage import FolderChange

if TYPE_CHECKING:
    from visir.reports.plot import Plot


@dataclass(frozen=True)
class Chart:
    """A plot that is drawn when it is looked at.

    Attributes:
        name: Its own on the page, of letters and dashes.
        draw: A function that draws it.
        title: Its heading; none where the section's heading says it.
        caption: How to read it.
        label: What it shows, for those who cannot see it; by default its title.
        in_notebooks: Whether a notebook shows it at once.
    """

    macro: ClassVar[str] = "figure"
    name: str
    draw: Callable[[], Plot]
    title: str = ""
    caption: Inline = ""
    label: str = ""
    in_notebooks: bool = False

    @cached_property
    def _figure(self) -> Figure:
        return Figure(themed(self.draw(), self.name, self.label or self.title), self.title, self.caption)

    @property
    def drawing(self) -> Markup:
        """The plot as HTML."""
        return self._figure.drawing

    @property
    def width(self) -> float:
        """How wide its box is at most, in rem."""
        return self._figure.width


@dataclass(frozen=True, repr=False, eq=False)
class StudyReport(Tabular, Plotted):
    """A study as tables, charts and sentences: printed, shown in notebooks, drawn, written as a page and a folder.

    Attributes:
        kind: What kind of page it is, in a word or two ("evaluation report").
        title: The heading: which system on which data.
        sections: Its parts in the order of the page; those without blocks are left out.
        facts: What stands below the heading, side by side: names with their values.
        headline: The tables that a notebook shows first; by default those of the first section.

    Example:
        >>> from visir.reports import Column, StudyReport, Section, Table
        >>> table = Table.of([Column("system"), Column("R@1", 1, "max")], [["mine", 41.25], ["yours", 40.0]])
        >>> report = StudyReport("note", "Two systems", [Section("numbers", "Numbers", [table])])
        >>> print(report.to_markdown(), end="")
        | system |      R@1 |
        | ------ | -------: |
        | mine   | **41.2** |
        | yours  |     40.0 |
    """

    kind: str
    title: str
    sections: Sequence[Section]
    facts: Mapping[str, Any] | Sequence[Inline] = ()
    headline: Sequence[Table] = ()

    def __repr__(self) -> str:
        rows = (" | ".join(cells[:6]) for cells in self.table.texts())
        return brief(self, f"{self.kind}: {self.title}", *rows)

    @property
    def table(self) -> Table:
        """The table that says most."""
        return self.headline[0] if self.headline else self.tables[0]

    @property
    def tables(self) -> list[Table]:
        """All tables of the page."""
        return [block for section in self.sections for block in inside(section.blocks) if isinstance(block, Table)]

    @property
    def charts(self) -> dict[str, Chart]:
        """All charts of the page by name."""
        every = (block for section in self.sections for block in inside(section.blocks))
        return {block.name: block for block in every if isinstance(block, Chart)}

    def blocks(self) -> list[Block]:
        """Return what a notebook shows: facts, the table that says most, notices; what else there is, folded."""
        first, *others = (section for section in self.sections if section.blocks)
        shown: list[Block] = [Paragraph(Markup(" · ").join([inline("<b>{}</b>", self.title), *self._facts]))]
        shown += self.headline if len(self.headline) > 1 else [replace(table, caption="") for table in self.headline]
        for block in first.blocks:
            is_shown = isinstance(block, (Notice, Fold)) or (isinstance(block, Chart) and block.in_notebooks)
            if is_shown or (isinstance(block, Table) and not self.headline):
                shown.append(block)
        if self.charts and not any(isinstance(block, Chart) for block in shown):
            shown.append(Paragraph("plot() draws it.", "soft"))
        for section in filter(lambda part: part.in_notebooks, (first, *others) if self.headline else others):
            tables = [block for block in inside(section.blocks) if isinstance(block, Table)]
            shown += [Fold(section.title, tables)] if tables else []
        return shown

    def page(self, command: str = "", beside: Mapping[str, str] | None = None) -> Page:
        """Return the page; `command` makes it again, `beside` are the files in its folder with what they hold."""
        sections = [section for section in self.sections if section.blocks]
        if made := production(command, beside):
            last = sections[-1]
            joined = replace(last, blocks=[*last.blocks, *made])
            is_how = last.anchor == "made"
            sections = [*sections[:-1], joined] if is_how else [*sections, Section("made", "How it was made", made)]
        return Page(self.kind, self.title, sections, self._facts)

    def write(
        self, path: str | Path, *, command: str = "", beside: Mapping[str, str] | None = None, replace: bool = False
    ) -> Path:
        """Write the page as one HTML file that needs nothing else, and return its path."""
        return write_page(path, self.page(command, beside), replace=replace)

    def write_files(
        self,
        change: FolderChange,
        page: str,
        files: Mapping[str, tuple[Any, str]],
        *,
        folder: str = "",
        command: str = "",
    ) -> None:
        """Write the page and the files beside it, each (what is in it, what it holds): by suffix JSON, CSV, Parquet."""
        for name, (content, _) in files.items():
            if isinstance(content, Table):
                change.write(f"{folder}{name}", to_csv(content).encode())
            elif isinstance(content, pa.Table):
                pq.write_table(content, change.file(f"{folder}{name}"), compression="zstd")
            else:
                change.write_json(f"{folder}{name}", content)
        beside = {name: says for name, (_, says) in files.items() if says}
        self.write(change.file(f"{folder}{page}"), command=command, beside=beside)

    @property
    def _facts(self) -> list[Inline]:
        if not isinstance(self.facts, Mapping):
            return list(self.facts)
        return [
            inline("{} {}" if isinstance(value, Markup) else "{} <b>{}</b>", name, value)
            for name, value in self.facts.items()
            if value != ""
        ]


def inside(blocks: Sequence[Block]) -> Iterator[Block]:
    """Blocks and those in them."""
    for block in blocks:
        yield block
        if isinstance(block, (Fold, Group)):
            yield from inside(block.blocks)
        elif isinstance(block, Figures):
            yield from block.figures
        elif isinstance(block, Cards):
            for card in block.cards:
                yield from inside(card.blocks)


# How reports are shown (`visir.display`).


def blocks(report: StudyReport) -> list[Block]:
    """What a notebook shows."""
    return report.blocks()


def table(report: StudyReport) -> Table:
    """The table that says most."""
    return report.table


def plot(report: StudyReport, name: str | None = None) -> Plot:
    """A chart of the page; the first one by default."""
    charts = report.charts
    if not charts or (name is not None and name not in charts):
        raise VisirError(
            f"{report.title}: no chart {name or 'to draw'}.", hint=f"there are: {', '.join(charts) or 'none'}"
        )
    return charts[name or next(iter(charts))].draw()
