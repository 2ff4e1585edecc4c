"""`visir data`: look at collections, check them, convert them, list the formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from visir.cli import output
from visir.cli.options import argument, options_of, single_or_all
from visir.cli.verbs import group
from visir.display import counted

if TYPE_CHECKING:
    from visir.collections.check import Inspection, Report
    from visir.records import TaskFile, TaskSet


def inspect_command(
    collection: str,
    format: str | None = None,
    images: list[str] | None = None,
    judgements: list[str] | None = None,
    option: list[str] | None = None,
    split: str | None = None,
    count: int = 3,
    seed: int = 0,
) -> None:
    """Say what a collection or a task holds: counts, splits, caption lengths, relevances, examples."""
    from visir.collections import open_source
    from visir.collections.check import inspect
    from visir.records import Collection

    opened = open_source(
        collection,
        format=format,
        images=single_or_all(images),
        split=split,
        judgements=judgements,
        **options_of(option),
    )
    if isinstance(opened, Collection):
        inspection = inspect(opened, examples=count, seed=seed)
        output.answer(inspection)
        _print_inspection(inspection)
    else:
        output.answer(opened.describe())
        _print_task(opened)


def check_command(
    collection: str,
    format: str | None = None,
    images: list[str] | None = None,
    option: list[str] | None = None,
    decode: bool = True,
    workers: int | None = None,
) -> None:
    """List everything that is wrong with a collection or a task, all at once. Exit status 1 if there is an error.

    Of another folder that visir made (results, an index, sessions, a model) every file is held against what was
    written.

    Args:
        decode: Read and decode every picture.
    """
    from visir.collections.check import check

    report = check(
        collection, format=format, images=single_or_all(images), decode=decode, workers=workers, **options_of(option)
    )
    output.answer(report)
    _print_report(report)
    if not report.ok:
        raise typer.Exit(1)


def convert_command(
    collection: str,
    folder: Annotated[Path, argument("FOLDER")],
    format: str | None = None,
    images: list[str] | None = None,
    judgements: list[str] | None = None,
    option: list[str] | None = None,
    split: str | None = None,
    pictures: Literal["link", "copy", "none"] = "copy",
    replace: bool = False,
) -> None:
    """Write a collection as one portable folder (Parquet and zip shards) that is read back identical.

    Args:
        folder: The portable folder to make.
    """
    from visir.collections import open_collection, portable

    opened = open_collection(
        collection,
        format=format,
        images=single_or_all(images),
        split=split,
        judgements=judgements,
        **options_of(option),
    )
    if pictures == "copy" and opened.images["path"].null_count == opened.images.num_rows:
        pictures = "none"
    saved = portable.save(opened, folder, pictures, replace=replace)
    size = sum(file.stat().st_size for file in folder.iterdir())
    output.facts(
        out=folder,
        images=saved.images.num_rows,
        captions=saved.captions.num_rows,
        bytes=size,
        fingerprint=saved.fingerprint,
    )
    output.line(
        f"{folder}: {counted(saved.images.num_rows, 'images')}, {counted(saved.captions.num_rows, 'captions')}, "
        f"{size / 1e6:,.1f} MB, fingerprint {saved.fingerprint}"
    )


def formats_command() -> None:
    """List the formats of collections, judgements and catalogues, with their layouts and options."""
    from rich.table import Table

    from visir.collections.formats import FORMATS, JUDGEMENTS
    from visir.plugins import applications, load_target

    registries: dict[str, Any] = {"Collections and tasks": FORMATS, "Judgements (--judgements)": JUDGEMENTS}
    for application in applications():
        registries |= {title: load_target(target) for title, target in application.formats.items()}
    output.answer(
        {
            title: {
                name: {
                    "title": item.title,
                    "layout": item.layout,
                    "options": {each.name: each.about for each in item.options},
                }
                for name, item in registry.items()
            }
            for title, registry in registries.items()
        }
    )
    for title, registry in registries.items():
        table = Table(title=title, title_justify="left", show_lines=True)
        for column in ("name", "what it is, how it lies on disk", "options"):
            table.add_column(column, no_wrap=column == "name", overflow="fold")
        for name, format in registry.items():
            about = f"[bold]{_plain(format.title)}[/]\n{_plain(format.layout)}" + (
                f"\n[dim]{_plain(format.reference)}[/]" if format.reference else ""
            )
            options = "\n".join(f"[bold]{option.name}[/]: {_plain(option.about)}" for option in format.options)
            table.add_row(name, about, options)
        output.rich_table(table, markup=True)


def _print_task(source: TaskFile | TaskSet) -> None:
    from visir.records import TaskSet

    if isinstance(source, TaskSet):
        for part in source.parts.values():
            _print_task(part)
        return
    console = output.console_of_verb()
    about = source.describe()
    console.print(f"[bold]{_plain(source.name)}[/]  fingerprint {source.fingerprint}")
    for line in source.source.split("; "):
        console.print(f"  {_plain(line)}")
    console.print(
        f"task {about['task']}: {counted(len(source.queries), 'queries')} ({source.queries.holding}), "
        f"{counted(len(source.documents), 'documents')} ({source.documents.holding}), "
        f"{counted(source.judgements.num_rows, 'judgements')}"
    )
    galleries = "the documents of the split" if source.galleries is not None else "all documents"
    excluded = "" if source.excluded is None else ", without the picture of the query"
    console.print(f"candidates: {about['pools'] or galleries}{excluded}")
    if source.labels is not None:
        console.print(f"labels: {_plain(', '.join(source.labels.column_names[1:]))}")
    for split in source.splits:
        part = source.split(split)
        positives = int(part.qrels(part.tasks[0]).positives.sum())
        judged = f"{positives:,} positives" if part.judgements.num_rows else "not judged: its answers are not published"
        images = "" if source.galleries is None else f"{counted(len(part.documents), 'documents')}, "
        console.print(f"split {_plain(split or '(none)')}: {counted(len(part.queries), 'queries')}, {images}{judged}")


def _print_inspection(inspection: Inspection) -> None:
    from rich.table import Table

    console = output.console_of_verb()
    about = inspection.about
    console.print(f"[bold]{_plain(about['name'])}[/]  fingerprint {about['fingerprint']}")
    for line in str(about["source"]).split("; "):
        console.print(f"  {_plain(line)}")
    table = Table("split", "images", "pictures", "captions", "captions/image", "words/caption")
    for column in table.columns[1:]:
        column.justify = "right"
    for split in inspection.splits:
        numbers = (f"{split.images:,}", f"{split.pictures:,}", f"{split.captions:,}")
        table.add_row(split.name or "(none)", *numbers, _range(split.captions_per_image), _range(split.words))
    console.print(table)
    if inspection.relevances:
        table = Table("relevance", "task", "queries", "positives")
        for relevance in inspection.relevances:
            table.add_row(relevance.name, relevance.task, f"{relevance.queries:,}", f"{relevance.positives:,}")
        console.print(table)
    if inspection.facts:
        console.print(f"facts: {_plain(', '.join(inspection.facts))}")
    for image, texts in inspection.examples:
        console.print(f"[bold]{_plain(image)}[/]")
        for text in texts:
            console.print(f"  {_plain(text)}")


def _print_report(report: Report) -> None:

    console = output.console_of_verb()
    counts = ", ".join(f"{count:,} {name}" for name, count in report.counts.items())
    console.print(f"[bold]{_plain(report.name)}[/]: {counts or 'nothing read'}")
    for line in report.source.split("; "):
        console.print(f"  {_plain(line)}")
    if report.captions_per_image:
        spread = ", ".join(f"{images:,} × {count}" for count, images in report.captions_per_image.items())
        console.print(f"  captions per image: {spread}")
    if report.decoded:
        formats = ", ".join(f"{count:,} {name}" for name, count in report.formats.items())
        console.print(f"  decoded {counted(report.decoded, 'pictures')}: {formats}; {report.sizes}")
    colours = {"error": "red", "warning": "yellow", "note": "cyan"}
    for level, colour in colours.items():
        for finding in report.findings:
            if finding.level != level:
                continue
            console.print(f"[{colour}]{level}[/]: {_plain(finding.kind)}: {finding.count:,}")
            for example in finding.examples:
                console.print(f"    {_plain(example)}")
            if finding.count > len(finding.examples) > 0:
                console.print(f"    … and {finding.count - len(finding.examples):,} more")
    by_level = {level: sum(finding.level == level for finding in report.findings) for level in colours}
    console.print(report.verdict if report.ok else f"[red]{report.verdict}[/]")
    console.print(f"({by_level['error']} kinds of error, {by_level['warning']} of warning, {by_level['note']} notes)")


def _range(values: tuple[int, float, int]) -> str:
    least, median, most = values
    return f"{least}" if least == most else f"{least}–{most} (median {median:g})"


def _plain(text: object) -> str:
    """Text as it is, not as rich's markup."""
    from rich.markup import escape

    return escape(str(text))


app = group(
    "data",
    "Look at collections, check them, convert them, list the formats.",
    {
        "inspect": inspect_command,
        "check": check_command,
        "convert": convert_command,
        "formats": formats_command,
    },
)
