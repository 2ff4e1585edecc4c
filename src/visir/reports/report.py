"""How a study is described: sections of tables, charts, galleries and sentences. Its looks follow from that.

A study says what it is in one function, `report_of(study) -> StudyReport`. From it come its view in a notebook, its
tables for documents and other tools, its page, its folder, and what a command prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache, cached_property
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq
from markupsafe import Markup

import visir.reports.page as pages
from visir.display import Plotted, Tabular, brief
from visir.errors import ConfigurationError, VisirError, raise_faults
from visir.files import json_bytes
from visir.reports.formats import to_csv, to_latex, to_markdown
from visir.reports.page import (
    Block,
    Cards,
    Figure,
    Figures,
    Files,
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
from visir.reports.table import Column, Interval, Number, Table
from visir.storage import FolderChange, FolderKind, Manifest, check_version, new_folder, read_written_json
from visir.storage.disk import check_name

if TYPE_CHECKING:
    from visir.reports.plot import Plot


REPORT = FolderKind("report", "a report", remedy="make it again, by the command on its page")
STORED, VERSION = "report.json", 1
"""What a report is read from in its folder, and the version of that file."""


@dataclass(frozen=True)
class Chart:
    """A plot that is drawn when it is looked at.

    Attributes:
        name: Its own on the page, of letters and dashes.
        draw: A function that draws it; None for one that was read from a folder, which is a picture.
        title: Its heading; none where the section's heading says it.
        caption: How to read it.
        label: What it shows, for those who cannot see it; by default its title.
        in_notebooks: Whether a notebook shows it at once.
    """

    macro: ClassVar[str] = "figure"
    name: str
    draw: Callable[[], Plot] | None
    title: str = ""
    caption: Inline = ""
    label: str = ""
    in_notebooks: bool = False
    svg: str = ""

    @cached_property
    def _figure(self) -> Figure:
        svg = themed(self.draw(), self.name, self.label or self.title) if self.draw else self.svg
        return Figure(svg, self.title, self.caption)

    def plot(self) -> Plot:
        """Return the plot, drawn anew."""
        if self.draw is None:
            raise VisirError(
                f"{self.title or self.name}: a picture.",
                hint="it is on the page beside it; what the call itself returned draws: .plot()",
            )
        return self.draw()

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
        printed: What a command prints of it, tables and sentences; by default the headline.
        name: What its page is called in its folder, without ".html".
        files: What lies beside the page: names with the content (or a function that makes it), and what it holds.
        folder: What kind of folder it is saved as.

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
    printed: Sequence[Table | str] = ()
    name: str = "report"
    files: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    folder: FolderKind = REPORT

    def __post_init__(self) -> None:
        faults = [
            f"section {section.title!r}: {type(block).__name__} is no block of a page"
            for section in self.sections
            for block in section.blocks
            if not hasattr(block, "macro")
        ]
        if not any(section.blocks for section in self.sections):
            faults.append("there is no section with anything in it")
        hint = "tables, charts, and the blocks of visir.reports.page, such as Paragraph"
        raise_faults(ConfigurationError, f"report {self.title!r}", faults, hint=hint)

    def __repr__(self) -> str:
        rows = (" | ".join(cells[:6]) for cells in self.tables[0].texts()) if self.tables else ()
        return brief(self, f"{self.kind}: {self.title}", *rows)

    @classmethod
    def of_parts(cls, kind: str, title: str, parts: Sequence[Table | str]) -> StudyReport:
        """Return the report of tables and sentences that a command prints one after the other."""
        blocks: list[Block] = [Paragraph(part) if isinstance(part, str) else part for part in parts]
        tables = [part for part in parts if isinstance(part, Table)]
        return cls(kind, title, [Section("result", "Result", blocks)], headline=tables, printed=parts)

    @property
    def table(self) -> Table:
        """The table that says most."""
        if not (self.headline or self.tables):
            raise VisirError(f"{self.title}: a report without a table.", hint=".write(page) has all of it")
        return self.headline[0] if self.headline else self.tables[0]

    def to_latex(self) -> str:
        """Return the tables that say most in LaTeX, as `--latex` writes them; `.tables` has all of them."""
        return "\n".join(to_latex(table) for table in self.headline or [self.table])

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
            is_sentence = isinstance(block, Paragraph) and not block.style
            if is_shown or is_sentence or (isinstance(block, Table) and not self.headline):
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
            joined = replace(last, blocks=[*made, *last.blocks])
            is_how = last.anchor == "made"
            sections = [*sections[:-1], joined] if is_how else [*sections, Section("made", "How it was made", made)]
        return Page(self.kind, self.title, sections, self._facts)

    def write(
        self, path: str | Path, *, command: str = "", beside: Mapping[str, str] | None = None, replace: bool = False
    ) -> Path:
        """Write the page as one HTML file that needs nothing else, and return its path."""
        return write_page(path, self.page(command, beside), replace=replace)

    def save(self, folder: str | Path, *, command: str = "", replace: bool = False) -> Path:
        """Write it into a folder, complete or not at all: the page, the files beside it, and what `load` reads."""
        with new_folder(folder, self.folder, replace=replace) as change:
            self.write_files(change, f"{self.name}.html", self.files, command=command)
        return Path(folder)

    def write_files(
        self,
        change: FolderChange,
        page: str,
        files: Mapping[str, tuple[Any, str]],
        *,
        folder: str = "",
        command: str = "",
    ) -> None:
        """Write the page, the files beside it, each (what is in it, what it holds), and what `load` reads.

        A table is written by its suffix as CSV, Markdown or LaTeX, one of Arrow as Parquet, all else as JSON.
        """
        for name, (content, _) in files.items():
            content = content() if callable(content) else content
            if isinstance(content, Table):
                change.write(f"{folder}{name}", _FORMS[Path(name).suffix](content).encode())
            elif isinstance(content, pa.Table):
                pq.write_table(content, change.file(f"{folder}{name}"), compression="zstd")
            else:
                change.write_json(f"{folder}{name}", content)
        beside = {name: says for name, (_, says) in files.items() if says}
        self.write(change.file(f"{folder}{page}"), command=command, beside=beside)
        change.write(f"{folder}{STORED}", self.to_bytes(command, beside))

    def to_bytes(self, command: str = "", beside: Mapping[str, str] | None = None) -> bytes:
        """Return what `load` reads, as JSON: the page with its pictures, and what is shown first."""
        made = self.page(command, beside)
        parts = {"sections": made.sections, "facts": made.facts, "headline": self.headline, "printed": self.printed}
        stored = {name: _stored(part) for name, part in parts.items()}
        return json_bytes({"version": VERSION, "kind": self.kind, "title": self.title, "name": self.name, **stored})

    @classmethod
    def load(cls, folder: str | Path) -> StudyReport:
        """Read the report in a folder that a verb or `save` wrote; `visir.open` calls this.

        Its charts are pictures: they are on its page and in notebooks, and `plot` cannot draw them anew.

        Raises:
            FolderError: There is no report, one of an earlier visir without this file, or a damaged one.
        """
        folder = Path(folder)
        manifest = Manifest.read(folder)
        kind = replace(REPORT, name=manifest.kind)
        if STORED not in manifest.files:
            raise kind.error(f"{folder}: no report that can be opened.", hint=REPORT.remedy, code="no-report-here")
        content = read_written_json(folder / STORED)
        with kind.reading(folder, STORED):
            version = content.pop("version")
            check_version(version, VERSION, folder / STORED, what="report", remedy=REPORT.remedy, error=kind.error)
            made = {name: _loaded(part) for name, part in content.items() if name in _STORED_PARTS}
            _check_types(cls, made)
            if Path(made["name"]).name != made["name"]:
                raise ValueError("a page in another folder")
            return cls(**made, folder=kind)

    def to_dict(self) -> dict[str, Any]:
        """Return the tables as plain values, numbers in full precision, each with its caption and notes."""
        return {
            "kind": self.kind,
            "title": self.title,
            "tables": [
                {
                    "title": table.caption,
                    "rows": [
                        dict(zip((column.full_name for column in table.columns), row, strict=True))
                        for row in table.rows
                    ],
                    "notes": list(table.notes),
                }
                for table in self.tables
            ],
        }

    @property
    def _facts(self) -> list[Inline]:
        if not isinstance(self.facts, Mapping):
            return list(self.facts)
        return [
            inline("{} {}" if isinstance(value, Markup) else "{} <b>{}</b>", name, value)
            for name, value in self.facts.items()
            if value != ""
        ]


_FORMS: dict[str, Callable[[Table], str]] = {".csv": to_csv, ".md": to_markdown, ".tex": to_latex}


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


# A report as JSON: its blocks by the names of their classes. Folders come from strangers, so what is read back can
# neither run nor fetch anything: only these classes are made, numbers are numbers, pictures lie in the file itself,
# and of HTML only what visir writes remains.

_CLASSES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (Table, Column, Chart, *vars(pages).values())
    if isinstance(kind, type) and is_dataclass(kind)
}
_TAGS = re.compile("b|strong|em|code|i|mark|small|sub|sup|br|span|a|svg|g|path|defs|clippath|rect|use|text|tspan")
_ATTRIBUTES = re.compile(
    "class|title|dir|role|id|d|style|transform|x|y|width|height|viewbox|clip-path|fill|stroke|aria-hidden|aria-label"
    "|href|xlink:href"
)
"""Tags and attributes that visir writes into sentences and drawings."""
_FETCHING = re.compile(
    r"(?<![\w-])(?!(?:rgba?|hsla?|var|calc|translate|rotate|scale|matrix)\(|url\(#)[\w-]+\s*\(|\\|@", re.IGNORECASE
)
"""In an attribute: what may fetch, such as "url(https:" or "image-set("."""
_STORED_PARTS = ("kind", "title", "name", "sections", "facts", "headline", "printed")
_DEEPEST, _MOST_DIGITS = 64, 20


def _stored(value: Any) -> Any:
    if isinstance(value, Markup):
        return {"is": "html", "text": str(value)}
    if isinstance(value, Number):
        marks = {"marks": value.marks} if value.marks else {}
        return {"is": "spread", "mean": float(value), "deviation": value.deviation, **marks}
    if isinstance(value, Interval):
        return {"is": "interval", "low": value.low, "high": value.high, "text": str(value)}
    if isinstance(value, Chart):
        value = replace(value, draw=None, svg=str(value.drawing))
    if is_dataclass(value):
        given = {item.name: getattr(value, item.name) for item in fields(value)}
        defaults = {item.name: item.default for item in fields(value)}
        read = {name: given.get(name) for name in ("of", "ends")}  # what a column reads was read
        parts = {name: _stored(part) for name, part in given.items() if part is not (defaults | read)[name]}
        return {"is": type(value).__name__, **parts}
    return [_stored(item) for item in value] if isinstance(value, (list, tuple)) else value


def _loaded(value: Any, depth: int = 0) -> Any:
    if depth > _DEEPEST:
        raise ValueError("blocks in blocks, too many")
    if isinstance(value, list):
        return tuple(_loaded(item, depth + 1) for item in value)
    if not isinstance(value, dict):
        return value
    given = dict(value)
    name = given.pop("is")
    if name == "html":
        return harmless(given["text"])
    if name == "spread":
        deviation = given["deviation"]
        return Number(given["mean"], None if deviation is None else float(deviation), str(given.get("marks", "")))
    if name == "interval":
        return Interval(given["low"], given["high"], str(given["text"]))
    kind = _CLASSES[name]
    made = {item.name: _loaded(given[item.name], depth + 1) for item in fields(kind) if item.name in given}
    for item in fields(kind):
        number = {"float": float, "int": int}.get(str(item.type).partition(" ")[0])
        if number is not None and made.get(item.name) is not None:
            made[item.name] = number(made[item.name])
    if "svg" in made:
        made["svg"] = str(harmless(made["svg"]))
    if made.get("uri") and not made["uri"].startswith("data:image/"):
        raise ValueError("a picture that lies elsewhere")
    if not 0 <= (made.get("digits") or 0) <= _MOST_DIGITS:
        raise ValueError("digits of no number")
    _check_types(kind, made)
    if kind is Files:
        for file, _ in made["entries"]:
            check_name(file)  # a link that leads out of the folder, or to another machine ("//host/x")
    return kind(**made | ({"draw": None} if kind is Chart else {}))


def _check_types(kind: Any, made: Mapping[str, Any]) -> None:
    """Refuse parts that are not what the class says that they are: they would be found out only when it is shown."""
    hints = _hints(kind)
    for name, value in made.items():
        if not _is_of(value, hints[name]):
            raise TypeError(f"{kind.__name__}.{name} is a {type(value).__name__}")


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, localns={"Plot": object})


def _is_of(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, as the fields of blocks have them."""
    origin, of = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_is_of(value, kind) for kind in of)
    if origin is Literal:
        return value in of
    if origin in (tuple, Sequence):
        if not isinstance(value, (tuple, list)):
            return False
        kinds = of if origin is tuple and ... not in of else of[:1] * len(value)
        return len(kinds) == len(value) and all(map(_is_of, value, kinds))
    if hint is Block:
        return is_dataclass(value) and hasattr(value, "macro")
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool) and (hint is float or abs(value) < 2**53)
    return hint is Any or isinstance(value, origin or hint)


def harmless(html: str) -> Markup:
    """Of HTML the tags and attributes that visir writes; everything else is left out."""
    reader = _Harmless()
    reader.feed(html)
    reader.close()
    return Markup("".join(reader.kept))


class _Harmless(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a tag that is known, with its attributes that are."""
        if _TAGS.fullmatch(tag):
            shown = "".join(f' {name}="{escape(value or "")}"' for name, value in attrs if _is_safe(name, value or ""))
            self.kept.append(f"<{tag}{shown}>")

    def handle_endtag(self, tag: str) -> None:
        """Keep the end of a tag that is known."""
        if _TAGS.fullmatch(tag) and tag != "br":
            self.kept.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        self.kept.append(escape(data, quote=False))


def _is_safe(name: str, value: str) -> bool:
    if not _ATTRIBUTES.fullmatch(name) or (name.endswith("href") and not value.startswith("#")):
        return False
    return name in ("title", "aria-label") or not _FETCHING.search(value)


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
    chosen = charts.get(name or next(iter(charts), ""))
    if chosen is None:
        raise VisirError(
            f"{report.title}: no chart {name or 'to draw'}.", hint=f"there are: {', '.join(charts) or 'none'}"
        )
    return chosen.plot()


def itself(report: StudyReport) -> StudyReport:
    """A report describes itself."""
    return report
