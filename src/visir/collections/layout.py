"""A layout as data: which files a source has, which of their columns hold what, and what their rows become.

Published benchmarks are in `layouts.toml`; a layout of one's own is a TOML file of the same form (`own`).
"""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, count, repeat
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

import pyarrow.parquet as pq

from visir.collections.archives import pictures_in_cells
from visir.collections.batches import (
    BATCH,
    FIELD,
    Batch,
    ListColumn,
    are,
    as_lists,
    as_text,
    fields_of,
    lines_of,
    rows_of,
)
from visir.collections.cells import id_of
from visir.collections.draft import ChoiceDraft, Draft, TaskDraft
from visir.collections.readers.choice_table import MISSING, ChoiceColumns, add_choice, has_columns
from visir.collections.readers.names import (
    SPLITS,
    compare_counts,
    head,
    image_id,
    plain_name,
    plain_stem,
    split_in,
    whole,
)
from visir.collections.readers.table import facts_table
from visir.collections.readers.task_reader import TaskPart, TaskReader, TaskTable
from visir.collections.sources import AnyFormat, Format, Option, one_of
from visir.collections.tables import OnFault, Row, json_lines, read_rows, sniffed_columns
from visir.errors import CollectionError, VisirError, nearest, raise_faults
from visir.files import parse_toml, read_json, read_text, user_path

Make = Literal["captions", "choices", "task"]
_NUMBER, _KEY = "number", "key"
"""Columns of every row, beside "file", the name of its file without endings: its number from 0; and its `id`, or its
name in a dictionary of JSON, or else its number."""


@dataclass(frozen=True, kw_only=True)
class LayoutTable:
    """Files of one form, and which of their columns hold what."""

    # Names inside the source: "captions.json", "*/captions_*.json", "texts/{language}.txt". The first that fits any
    # file counts; {language} is a column of all rows of its file. A `.gz` or `.xz` behind the name need not be said.
    files: tuple[str, ...]
    # What a row says ("image", "caption", …) → the column that says it: its name, "a.b" and "a[].b" within JSON,
    # "{a}/{b}" of several; "a | b" is the first that a row has; of choices "a, b" are several.
    columns: Mapping[str, str]
    # Where the rows are. "": those of a table, or of the list or dictionary in a JSON file; "NAME": those in the list
    # of JSON that is called so; "file": each file is one, of a text with the column "text".
    rows: str = ""
    # Lines of text are rows: "{image}#{number}\t{caption}". The last field is the rest of the line.
    line: str = ""
    further: tuple[str, ...] = ()  # columns that are kept by their names: facts of images, labels of choices
    has: tuple[str, ...] = ()  # what such a file is told by; () takes the columns that a row needs
    optional: bool = False  # whether a source may be without such files, if it has others
    once: bool = False  # whether an image has one row: a second one is a fault; otherwise its rows are joined
    part: TaskPart = "queries"  # of a task: which part of it these are

    def find(self, folder: Path, fits: Callable[[Path], bool] | None = None) -> list[tuple[Path, Row]]:
        """The files in a folder, each with what its name says."""
        for pattern in self.files:
            files = _matching(folder, pattern.split("/"), {})
            if fitting := [file for file in files if (fits or self.fits)(file[0])]:
                return fitting
        return []

    def fits(self, file: Path) -> bool:
        """Whether the beginning of a file has these columns, as far as it tells."""
        if self.line:
            first = head(file).split(b"\n", 1)[0].decode("utf-8-sig", "replace")
            return fields_of(self.line, ends=True).match(first) is not None
        names = self.has or self.needed
        if plain_name(file).lower().endswith((".csv", ".tsv")):
            return {*names} <= {*sniffed_columns(file)}
        if not plain_name(file).lower().endswith((".parquet", *_JSON)):
            return {*names} <= {"text"}
        return has_columns(file, *names) if names else bool(head(file))

    def lack(self, folder: Path) -> str:
        """What is missing where no file in a folder fits: the file, or columns of it."""
        named = next((file for pattern in self.files for file, _ in _matching(folder, pattern.split("/"), {})), None)
        if named is None:
            return f"no {self.files[0]} in it"
        if self.line:
            return f"{named.name} does not begin with a line {self.line!r}"
        shown = sniffed_columns(named)
        lacking = [name for name in self.has or self.needed if name not in shown]
        there = f" (there are: {', '.join(shown)})" if shown else ""
        return f"{named.name} has no {', '.join(map(repr, lacking)) or 'rows'}{there}"

    @property
    def needed(self) -> list[str]:
        """The columns of what a row needs that are told by their names alone."""
        of_file = {name for pattern in self.files for name in FIELD.findall(pattern)}
        columns = [column for says, column in self.columns.items() if says in _NEEDED and "|" not in column]
        names = [name.strip() for column in columns for name in column.split(",") if "{" not in name]
        plain = [part for name in names for part in name.replace("[]", "").split(".")]
        return [name for name in plain if name not in {*of_file, *_MADE} and not name.isdecimal()]


Files = list[tuple[LayoutTable, Path, Row]]
"""Each file with the table that it is, and what its name says."""


@dataclass
class LayoutReading:
    """A source that is being read: what the hooks of a layout look at."""

    layout: SourceLayout
    path: Path
    options: dict[str, Any]
    draft: Any  # a `Draft`, a `ChoiceDraft` or a `TaskDraft`
    files: Files
    memory: Any = None  # what the hooks of this layout remember
    file: Path = Path()  # the file that is being read
    parsed: tuple[Path, Any] | None = None  # the last file of JSON, and what is in it


@dataclass(frozen=True, kw_only=True)
class SourceLayout(Format):
    """A layout of files whose rows become a collection, choices or a task."""

    tables: tuple[LayoutTable, ...]  # its files, in the order in which they are read
    make: Make = "captions"  # what the rows become
    called: str = ""  # the name of what it becomes; "" takes that of the file
    source: str = "{called} {files}"  # where it comes from, in words
    sniff: Callable[[Path], bool] = lambda path: False
    read: Callable[..., Any] = lambda path: None
    lack: str | Callable[[Path], str] = ""  # what is missing where there are no such files
    own_ids: bool = False  # whether images without a column of ids are called by COCO's number or their base name
    split: str = ""  # the split of images of which no column says one
    measures: tuple[str, ...] = ("all_first",)  # of choices
    pictures: str = ""  # where the pictures of choices are to be had
    published: Mapping[str, int] = field(default_factory=dict)  # what the whole distribution has: "images" → how many
    # Hooks, for what columns cannot say.
    fits: Callable[[Path], bool] | None = None  # tells the files of the layout
    choose: Callable[[Path, Files, dict[str, Any]], Files] | None = None  # which of the files are read
    begin: Callable[[LayoutReading], None] | None = None  # before the first row
    opened: Callable[[LayoutReading, Any], None] | None = None  # sees a JSON file as a whole
    row: Callable[[LayoutReading, str, Row], Row | None] | None = None  # changes a row; None leaves it out
    batch: Callable[[LayoutReading, Batch], None] | None = None  # changes columns of many rows; of captions
    finish: Callable[[LayoutReading], None] | None = None  # after the last row

    def __post_init__(self) -> None:
        if self.read is SourceLayout.read:
            object.__setattr__(self, "read", self._read)
        if self.sniff is SourceLayout.sniff:
            object.__setattr__(self, "sniff", self._sniff)

    def _sniff(self, path: Path) -> bool:
        try:
            return any(self._files(rows, path) for rows in self.tables)
        except OSError:
            return False

    def _files(self, rows: LayoutTable, path: Path) -> list[tuple[Path, Row]]:
        """The files of a table: those of a folder, or the one that is named, if it fits."""
        if path.is_dir():
            return rows.find(path, self.fits)
        return [(path, _name_says(path, rows.files))] if path.is_file() and (self.fits or rows.fits)(path) else []

    def find(self, path: Path) -> Files:
        """The files of a source; raises `CollectionError` where a table has none."""
        files: Files = []
        missing = []
        for rows in self.tables:
            fitting = self._files(rows, path)
            if not path.is_dir() and self.make != "choices" and not rows.optional:
                fitting = [(path, _name_says(path, rows.files))]  # what it lacks is then told row by row
            files += [(rows, *file) for file in fitting]
            missing += [] if fitting or rows.optional else [rows.lack(path)]
        if missing or not files:
            lack = self.lack(path) if callable(self.lack) else self.lack
            needed = ", ".join(self.tables[0].has or self.tables[0].needed)
            raise self.lacks(
                path, *([lack] if lack else [f"no file with {needed}"] if self.make == "choices" else missing)
            )
        return sorted(files, key=lambda entry: entry[1]) if len(self.tables) > 1 else files

    def _read(self, path: Path, **options: Any) -> Any:
        files = self.find(path)
        if self.choose:
            files = self.choose(path, files, options)
        names = ", ".join(dict.fromkeys(file.name for _, file, _ in files))
        name = self.called or plain_stem(path)
        source = self.source.format(called=name, files=names, path=path.absolute().name)
        root = path if path.is_dir() else path.parent
        reading = LayoutReading(self, path, options, None, files)
        if self.make == "captions":
            reading.draft = Draft(name, root, source)
        elif self.make == "choices":
            missing = options.get("missing", MISSING.default)
            reading.draft = ChoiceDraft(
                name, root, source, measures=self.measures, missing=missing, obtain=self.pictures
            )
        else:
            reading.draft = TaskDraft(name, root, source)
        if self.begin:
            self.begin(reading)
        {"captions": _captions, "choices": _choices, "task": _task}[self.make](reading)
        if self.finish:
            self.finish(reading)
        draft = reading.draft
        if self.published:
            counts = {"images": len(draft.ids)} if not isinstance(draft, Draft) else {
                "images": len(draft.ids), "languages": len(set(draft.languages)),
                **{f"images of {split}": draft.splits.count(split) for split in ("train", "test")},
            }  # fmt: skip
            compare_counts(draft, self.published, counts)
        return draft


# Which files there are, and what is in their rows.

_JSON = (".json", ".jsonl", ".jsonlines", ".ndjson")
_NEEDED = ("id", "image", "caption", "wrong", "query", "document")
_MADE = (_NUMBER, _KEY, "file", "value")
_RECORDS = tuple(f"{folder}*{ending}" for folder in ("", "data/") for ending in (".json*", ".ndjson", ".parquet"))
"""Where choices are, if nobody says."""


def _matching(folder: Path, parts: list[str], known: Row) -> Iterator[tuple[Path, Row]]:
    """The files below a folder whose names fit the parts of a pattern, one after the other."""
    # Of a folder of many pictures nothing but names is looked at.
    pattern, rest = fields_of(parts[0]), parts[1:]
    fitting: list[tuple[str, Row]] = []
    with os.scandir(folder) if folder.is_dir() else nullcontext(()) as entries:
        for entry in entries:
            name = entry.name
            match = pattern.match(name if rest or not name.endswith((".gz", ".xz")) else name[:-3])
            if match is not None and name[0] != "." and (entry.is_dir() if rest else entry.is_file()):
                fitting.append((name, {**known, **match.groupdict()}))
    for name, says in sorted(fitting, key=itemgetter(0)):
        if rest:
            yield from _matching(folder / name, rest, says)
        else:
            yield folder / name, says


def _name_says(file: Path, patterns: Iterable[str]) -> Row:
    """What the name of a file says by the first pattern that it fits."""
    matches = (fields_of(pattern.rpartition("/")[2]).match(plain_name(file)) for pattern in patterns)
    return next((match.groupdict() for match in matches if match), {})


def _batches(reading: LayoutReading, table: LayoutTable, file: Path, says: Row) -> Iterator[Batch]:
    """The rows of a file, with those columns of every row that somebody looks at, after the hooks of the layout."""
    layout, reading.file = reading.layout, file
    used = " ".join(table.columns.values())
    is_whole = layout.make != "captions" or layout.row is not None
    in_line = FIELD.findall(table.line)
    names = {"file": plain_stem(file), **says}
    wanted = {name for name in (*names, _NUMBER, _KEY) if is_whole or (name in used and name not in in_line)}
    known = [(column, value) for column, value in names.items() if column in wanted]
    is_counted = not wanted.isdisjoint({_NUMBER, _KEY})  # not for each of a million lines
    before = 0
    for batch in _read_batches(reading, table, file, is_whole or bool(wanted)):
        for column, value in known:
            for row in batch.rows:
                row.setdefault(column, value)
        for number, row in enumerate(batch.rows if is_counted else (), before):
            row.setdefault(_NUMBER, number)
            if _KEY not in row:
                row[_KEY] = number if row.get("id") is None else row["id"]
        before += len(batch.rows)
        if layout.row:
            changed = [layout.row(reading, batch.place(number), row) for number, row in enumerate(batch.rows)]
            batch.rows = [row if left is None else left for row, left in zip(batch.rows, changed, strict=True)]
            batch.keep([row is not None for row in changed])
        if layout.batch:
            layout.batch(reading, batch)
        yield batch


def _read_batches(reading: LayoutReading, table: LayoutTable, file: Path, is_whole: bool) -> Iterator[Batch]:
    """The rows of a file as they are; those of lines as columns, unless they shall be whole."""
    name, fault = plain_name(file).lower(), reading.draft.fault
    if table.line:
        yield from lines_of(table.line, file, fault, is_whole)
    elif name.endswith(_JSON[1:]):
        yield from rows_of(file, fault, lambda later: json_lines(file, later))
    elif name.endswith((".csv", ".tsv", ".parquet")):
        held = set(pictures_in_cells(file)) if name.endswith(".parquet") else ()
        columns = [column for column in pq.read_schema(file).names if column not in held] if held else None
        yield from rows_of(file, fault, lambda later: read_rows(file, later, columns=columns))
    elif not name.endswith(".json"):
        yield Batch(lambda number: file.name, [{"text": read_text(file).strip()}])
    else:
        if reading.parsed is None or reading.parsed[0] != file:
            try:
                reading.parsed = file, read_json(file)
            except VisirError as damaged:
                if table.rows != "file":
                    raise
                fault(str(damaged.message))  # the other files may be whole
                return
        content = reading.parsed[1]
        if reading.layout.opened:
            reading.layout.opened(reading, content)
        yield from _json_rows(reading, table.rows, file, content)


def _json_rows(reading: LayoutReading, name: str, file: Path, content: Any) -> Iterator[Batch]:
    """The rows of a JSON file; what is no object and no list is a fault."""
    if name == "file":
        content = [content]
    elif isinstance(content, dict) and not name:
        content = [{_KEY: key, **(value if isinstance(value, dict) else {"value": value})}
                   for key, value in content.items()]  # fmt: skip
        for row in content:
            row[_KEY] = row[_KEY] if row.get("id") is None else str(row["id"])
    elif name:
        content = content.get(name) if isinstance(content, dict) else None
    if not isinstance(content, list):
        raise reading.layout.lacks(file, f"no list called {name!r}" if name else "no list of rows")

    called = file.name

    def place(number: int) -> str:
        if name:
            return called if name == "file" else f"{called}, {name}[{number}]"
        row = content[number]
        own = row.get(_KEY, row.get("id")) if isinstance(row, dict) else None
        return f"{called}, item {number if own is None else own}"

    if {*map(type, content)} == {dict}:
        for start in range(0, len(content), BATCH):
            yield Batch(lambda number, start=start: place(start + number), content[start : start + BATCH])  # type: ignore[misc]
        return
    for number, row in enumerate(content):
        row = {str(position): value for position, value in enumerate(row)} if isinstance(row, list) else row
        if isinstance(row, dict):
            yield Batch([place(number)].__getitem__, [row])
        else:
            reading.draft.fault(f"{place(number)}: expected an object, found {str(row)[:40]!r}")


# What the rows become.

_SAYS: dict[str, tuple[str, ...]] = {
    "captions": ("id", "image", "split", "caption", "caption_id", "language"),
    "choices": ("id", "image", "caption", "wrong"),
    "queries": ("id", "text", "image"),
    "documents": ("id", "text", "image", "title"),
    "judgements": ("query", "document", "grade", "split"),
    "candidates": ("query", "document", "split"),
}
"""What a row of captions, of choices, or of a part of a task can say."""
_IN_TASKS = {"id": "_id", "query": "query-id", "document": "corpus-id", "grade": "score"}


def _captions(reading: LayoutReading) -> None:
    """Images and their captions. Files without a column of images have captions alone, of images that others have."""
    images, layout = _Images(reading.draft, any(not table.once for table in reading.layout.tables)), reading.layout
    for table, file, says in reading.files:
        usual = reading.options.get("split_name")
        usual = usual if usual is not None else split_in(file.name) if layout.split == "name" else layout.split
        for batch in _batches(reading, table, file, says):
            columns = {role: batch.values(column) for role, column in table.columns.items()}
            if not images.add_plain(table, layout.own_ids, usual, batch, **columns):
                images.add_each(table, layout.own_ids, usual, batch, columns)
    images.finish()


_TEXT: tuple[type, ...] = (str,)
_ID: tuple[type, ...] = (str, int)
_MAYBE: tuple[type, ...] = (str, type(None))


@dataclass
class _Images:
    """What is known of the images of a draft while files are read."""

    draft: Draft
    joins: bool  # whether an image may have several rows
    captions: Counter[str] = field(default_factory=Counter)  # how many captions each image has
    counted: int = 0  # of so many captions
    # The row of each image in the draft, and where to look for its place: the rows that were read with it.
    first: dict[str, tuple[int, tuple[Callable[[int], str], list[str]]]] = field(default_factory=dict)
    facts: dict[str, Row] = field(default_factory=dict)  # the further columns of its first row
    differing: dict[str, str] = field(default_factory=dict)  # those that differ between its rows, and where

    def add_plain(
        self,
        table: LayoutTable,
        own_ids: bool,
        usual: str,
        batch: Batch,
        *,
        id: list[Any] | None = None,
        image: list[Any] | None = None,
        split: list[Any] | None = None,
        caption: list[Any] | None = None,
        caption_id: list[Any] | None = None,
        language: list[Any] | None = None,
    ) -> bool:
        """All rows of a batch by their columns; False, and nothing is added, where a row is not as most are."""
        if image is not None and (not are(image, _TEXT) or "" in image):
            return False
        if id is not None and (not are(id, _ID) or "" in id):
            return False
        images = as_text(id) if id is not None else image if not own_ids else list(map(image_id, image or ()))
        if images is None or (caption is None and (caption_id or language)):
            return False
        owners = images
        counts: Any = None
        if isinstance(caption, ListColumn) or (caption is not None and are(caption, {list})):
            lists = [None if values is None else as_lists(values) for values in (caption, caption_id, language)]
            counts = lists[0].counts if lists[0] else []
            if None in counts or any(each is not None and each.counts != counts for each in lists):
                return False
            owners = list(chain.from_iterable(map(repeat, images, counts)))
            caption, caption_id, language = (None if each is None else each.entries for each in lists)
        kinds = ((caption, _TEXT), (caption_id, _ID), (language, _MAYBE), (split, _MAYBE))
        if not all(values is None or are(values, kind) for values, kind in kinds):
            return False
        if image is not None:
            called = {name: SPLITS.get(name.lower(), name) if name else usual for name in {*(split or ())}}
            splits = list(map(called.__getitem__, split)) if split is not None else [usual] * len(image)
            if not self._add_images(table, batch, images, image, splits):
                return False
        if caption is not None:
            if caption_id is not None:
                ids = as_text(caption_id)
            elif table.once and image is not None and not self.counted:  # its captions are all in this row
                several = zip(images, counts or repeat(1), strict=False)
                ids = [f"{own}#{number}" for own, count in several for number in range(count)]
            else:
                ids = self._numbered(owners)
            self.draft.add_captions(ids, caption, owners, language)
        return True

    def _add_images(
        self, table: LayoutTable, batch: Batch, images: list[str], names: list[str], splits: list[str]
    ) -> bool:
        """The images of a batch that are new; False if rows of the same image do not agree, or have facts."""
        draft, read = self.draft, (batch.place, images)
        if not table.once:
            if names is images and len({*splits}) == 1:  # as in a file of lines: fewer rows to compare
                rows = dict.fromkeys((own, own, splits[0]) for own in dict.fromkeys(images))
            else:
                rows = dict.fromkeys(zip(images, names, splits, strict=True))
            if len(rows) != len({*images}):
                return False
            new = [row for row in rows if row[0] not in self.first]
            if table.further and len(new) != len(images):
                return False
            for own, *row in () if len(new) == len(rows) else rows:
                if (known := self.first.get(own)) and [draft.names[known[0]], draft.splits[known[0]]] != row:
                    return False
            if len(new) != len(images):
                images, names, splits = map(list, zip(*new, strict=True)) if new else ([], [], [])
        if self.joins:
            self.first.update(zip(images, zip(count(len(draft.ids)), repeat(read), strict=False), strict=False))
        draft.ids += images
        draft.names += names
        draft.splits += splits
        if table.further:
            facts = zip(*(batch[column] for column in table.further), strict=True)
            rows_of_facts = (dict(zip(table.further, values, strict=True)) for values in facts)
            self.facts.update(zip(images, rows_of_facts, strict=True))
        return True

    def _count(self) -> Counter[str]:
        self.captions.update(self.draft.caption_images[self.counted :])
        self.counted = len(self.draft.caption_images)
        return self.captions

    def _numbered(self, owners: list[str]) -> list[str]:
        """The ids of captions that have none: the number of the caption behind the id of its image."""
        captions, ids = self._count(), []
        self.counted += len(owners)
        for own in owners:
            number = captions.get(own, 0)
            captions[own] = number + 1
            ids.append(f"{own}#{number}")
        return ids

    def add_each(self, table: LayoutTable, own_ids: bool, usual: str, batch: Batch, columns: dict[str, Any]) -> None:
        """The same row by row; one that lacks something is a fault."""
        draft = self.draft
        nothing: list[Any] = [None] * len(batch.rows)
        values = zip(*(columns.get(role, nothing) for role in _SAYS["captions"]), strict=True)
        for number_of_row, (own, name, split, texts, ids, language) in enumerate(values):
            place, lacks = batch.place(number_of_row), ""
            if "image" in table.columns and (name is None or name == ""):
                lacks = "image"
            elif "id" in table.columns and (own is None or own == ""):
                lacks = "id"
            elif "caption" in table.columns and texts is None:
                lacks = "caption"
            if lacks or ("image" in table.columns and type(name) is not str):
                what = f"no {_last(table.columns[lacks])!r}" if lacks else f"no name of a file, but {str(name)[:40]!r}"
                draft.fault(f"{place}: {what}")
                continue
            try:
                own = id_of(own) if "id" in table.columns else image_id(name) if own_ids else name
                if type(ids) is list:
                    ids = [id_of(each) for each in ids]
                elif ids is not None:
                    ids = id_of(ids)
            except TypeError as fault:
                draft.fault(f"{place}: {fault}")
                continue
            if "image" in table.columns:
                self._add_image(table, place, own, name, split, usual, batch, number_of_row)
            number = self._count()[own]
            listed = texts if type(texts) is list else [] if texts is None else [texts]
            ids = [ids] if isinstance(ids, str) else ids
            if ids is not None and len(ids) != len(listed):
                draft.fault(f"{place}: {len(listed)} captions, but {len(ids)} ids of captions")
                continue
            for position, text in enumerate(listed):
                if type(text) is not str:
                    inside, _, entry = _last(table.columns["caption"]).rpartition("[].")
                    what = f"no {entry!r}" if text is None else f"must be text, found {str(text)[:40]!r}"
                    draft.fault(f"{place}, {inside or entry}[{position}]: {what}")
                    continue
                tongue = language[position] if type(language) is list else language
                draft.add_caption(f"{own}#{number}" if ids is None else ids[position], text, own, tongue)
                number += 1

    def _add_image(
        self, table: LayoutTable, place: str, own: str, name: str, split: Any, usual: str, batch: Batch, number: int
    ) -> None:
        """What a row says of an image: a new one, or the one that earlier rows had."""
        draft, known = self.draft, None if table.once else self.first.get(own)
        part = SPLITS.get(str(split).lower(), str(split)) if split else usual
        facts = {column: batch[column][number] for column in table.further}
        if known is None:
            self.first[own] = len(draft.ids), ([place].__getitem__, [own])
            draft.add_image(own, name, part)
            if table.further:
                self.facts[own] = facts
            return
        at, (place_of, images) = known
        before = place_of(images.index(own))
        if draft.names[at] != name:
            draft.fault(f"{place}: {name!r} and {draft.names[at]!r} are both image {own!r}")
        if not draft.splits[at]:
            draft.splits[at] = part
        elif split and part != draft.splits[at]:
            draft.fault(f"{own}: split {draft.splits[at]!r} in {before}, but {part!r} in {place}; an image has one")
        for column, value in facts.items():
            if column not in self.differing and value != self.facts[own][column]:
                self.differing[column] = f"{own}, {before} and {place}"

    def finish(self) -> None:
        """The further columns as facts, but for those that differ between the rows of an image."""
        facts = [{"image_id": own, **{key: value for key, value in row.items() if key not in self.differing}}
                 for own, row in self.facts.items()]  # fmt: skip
        self.draft.facts = facts_table(facts)
        self.draft.notes += [
            f"column {name!r} is left out: it differs between the rows of an image ({where})"
            for name, where in self.differing.items()
        ]


def _last(column: str) -> str:
    """The column as errors call it: of several, the last."""
    return column.rpartition("|")[2].strip()


def _choices(reading: LayoutReading) -> None:
    """Items of one picture, with right and wrong captions; or of several pictures, each with its caption."""
    for table, file, says in reading.files:
        several = {role: tuple(name.strip() for name in names.split(",")) for role, names in table.columns.items()}
        columns = ChoiceColumns(several["image"], several["caption"], several.get("wrong", ()), None, table.further)
        for batch in _batches(reading, table, file, says):
            ids = batch.values(table.columns.get("id", _KEY))
            for number, row in enumerate(batch.rows):
                add_choice(reading.draft, columns, str(ids[number]), batch.place(number), row, every=True)


def _task(reading: LayoutReading) -> None:
    """Queries, documents, judgements, and candidates where queries have their own."""
    tables: dict[TaskPart, list[TaskTable]] = {part: [] for part in get_args(TaskPart)}
    for table, file, says in reading.files:

        def lines(
            report: OnFault, table: LayoutTable = table, file: Path = file, says: Row = says
        ) -> Iterator[tuple[str, Row]]:
            names = [*table.further, *(_IN_TASKS.get(role, role) for role in table.columns)]
            for batch in _batches(reading, table, file, says):
                columns = [batch[name] for name in table.further]
                columns += [batch.values(column) for column in table.columns.values()]
                for number, values in enumerate(zip(*columns, strict=True)):
                    yield batch.place(number), dict(zip(names, values, strict=True))

        tables[table.part].append(TaskTable(table.part, lines, str(says.get("split", ""))))
    labels = [name for table in reading.layout.tables if table.part == "queries" for name in table.further]
    TaskReader(reading.draft, labels=",".join(labels) or None).read(tables, join_titles=True, drop=False)


# The published layouts, by name; and a layout of one's own, which is a TOML file with the same keys.

_OF_LAYOUT = ("name", "title", "cite", "obtain", "make", "tables", "split", "own_ids")
_OF_ROWS = ("files", "columns", "rows", "line", "further", "once", "part", "has", "optional")


@cache
def _listed() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("layouts.toml").read_text(encoding="utf-8"))


def _about(name: str, parse: Mapping[str, Any]) -> dict[str, Any]:
    """What `layouts.toml` says of a layout; `parse` reads options by their names."""
    about = _with_rows(_listed()[name])
    options = [
        Option(option["name"], option["about"], option.get("default"), parse.get(option["name"]) or _parser(option))
        for option in about.pop("options", ())
    ]
    options += [MISSING] if about.get("make") == "choices" else []
    return {"name": name, "reference": about.pop("cite"), "options": tuple(options), **about}


def published(name: str, /, *, parse: Mapping[str, Any] = MappingProxyType({}), **hooks: Any) -> SourceLayout:
    """The layout of this name in `layouts.toml`, with what columns cannot say."""
    return SourceLayout(**_about(name, parse), **hooks)


def reader(name: str, kind: type[AnyFormat] = Format, /, **hooks: Any) -> Callable[[Callable[..., Any]], AnyFormat]:  # type: ignore[assignment]
    """The same for a layout whose files are read by the function below."""
    return lambda read: kind(**_about(name, {}), read=read, **hooks)


def _parser(option: Mapping[str, Any]) -> Callable[[str], Any]:
    if "one_of" in option:
        return one_of(*option["one_of"])
    return whole(option["least"]) if "least" in option else float if option.get("kind") == "number" else str


def _with_rows(about: Mapping[str, Any]) -> dict[str, Any]:
    """What TOML says of a layout, with its tables as `LayoutTable`."""
    rows = []
    for table in about.get("tables", ()):
        files = table.get("files", _RECORDS)
        lists = {key: tuple(table[key]) for key in ("further", "has") if key in table}
        rows.append(LayoutTable(**{**table, **lists, "files": (files,) if isinstance(files, str) else tuple(files)}))
    further: dict[str, Any] = {
        key: tuple(value) for key, value in about.items() if isinstance(value, list) and key != "tables"
    }
    return {**about, **further, **({"tables": tuple(rows)} if rows else {})}


def read_layout(file: Path) -> SourceLayout:
    """The layout that a TOML file describes; raises `CollectionError` with all that is wrong with it."""
    content = parse_toml(read_text(file), file)
    make, tables = content.get("make", "captions"), content.get("tables", [])
    faults = [f"unknown key {key!r}: {nearest(key, _OF_LAYOUT)}" for key in content.keys() - {*_OF_LAYOUT}]
    faults += _other_kinds(
        content, dict.fromkeys(("name", "title", "cite", "obtain", "split"), str) | {"own_ids": bool}
    )
    if make not in get_args(Make):
        faults.append(f"make must be one of {', '.join(get_args(Make))}, not {str(make)[:40]!r}")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        tables, faults = [], [*faults, "there must be at least one [[tables]]"]
    for number, table in enumerate(tables, 1):
        says = _SAYS.get(str(table.get("part", "queries") if make == "task" else make), ())
        faults += [f"table {number}: {fault}" for fault in _faults_of(table, says)]
    raise_faults(CollectionError, f"{file}: no layout", faults, hint="docs/how-to/describe-a-layout.md explains it")
    name = content.pop("name", plain_stem(file))
    about = {"title": name, "layout": f"as {file.name} says", **_with_rows(content)}
    source = f"{about['title'].replace('{', '{{').replace('}', '}}')} {{files}}"
    return SourceLayout(
        name=name, reference=about.pop("cite", ""), called=name, source=source, pictures=about.get("obtain", ""),
        choose=_inside, **about,
    )  # fmt: skip


def _inside(path: Path, files: Files, options: Mapping[str, Any]) -> Files:
    """The files, if all are inside the source: whose layout a stranger wrote may have links to anywhere."""
    root = path.resolve() if path.is_dir() else path.resolve().parent
    outside = [file.name for _, file, _ in files if not file.resolve().is_relative_to(root)]
    raise_faults(
        CollectionError,
        f"{path}: files of a layout",
        [f"{name} is a link out of it" for name in outside],
        hint="put the file itself there",
    )
    return files


def _other_kinds(content: Mapping[str, Any], kinds: Mapping[str, type]) -> Iterator[str]:
    """The keys whose values are of another kind."""
    for key, kind in kinds.items():
        if key in content and not isinstance(content[key], kind):
            yield f"{key} must be {_KINDS[kind]}, found {str(content[key])[:40]!r}"


MOST_PLACES = 4
"""So many fields and asterisks may a name of files have: each more multiplies the time that a long name takes."""
_KINDS = {str: "a text", bool: "true or false", list: "a list"}


def _faults_of(table: Mapping[str, Any], says: tuple[str, ...]) -> Iterator[str]:
    """What is wrong with a table of a layout."""
    yield from (f"unknown key {key!r}: {nearest(key, _OF_ROWS)}" for key in table.keys() - {*_OF_ROWS})
    kinds = {"rows": str, "line": str, "part": str, "once": bool, "optional": bool, "further": list, "has": list}
    yield from _other_kinds(table, kinds)
    files = table.get("files", [*_RECORDS] if "wrong" in says else None)
    files = [files] if isinstance(files, str) else files
    if not isinstance(files, list) or not files or not all(isinstance(name, str) and name for name in files):
        yield "files must be the name of a file, or a list of names"
    else:
        yield from (f"files: {name!r} is not inside the source" for name in files if not _is_inside(name))
        yield from (f"files: {fault}" for name in files for fault in _faults_of_fields(name, MOST_PLACES))
    if isinstance(table.get("line"), str):
        yield from (f"line: {fault}" for fault in _faults_of_fields(table["line"]))
    for key in ("further", "has"):
        names = table.get(key, ())
        if isinstance(names, list) and not all(isinstance(name, str) for name in names):
            yield f"{key} must be a list of names"
    columns = table.get("columns")
    if not isinstance(columns, dict) or not columns or not all(isinstance(name, str) for name in columns.values()):
        yield 'columns must say which column has what: { image = "file_name", caption = "text" }'
        return
    yield from (f"columns: unknown {key!r}: {nearest(key, says)}" for key in columns.keys() - {*says})
    yield from (f"columns: {key} = {name!r} is not inside the source"
                for key, name in columns.items() if key == "image" and not _is_inside(name))  # fmt: skip


def _faults_of_fields(text: str, most: int | None = None) -> Iterator[str]:
    """What is wrong with the fields of a name of files, or of a line."""
    names = FIELD.findall(text)
    yield from (f"{{{name}}} stands there twice" for name in dict.fromkeys(names) if names.count(name) > 1)
    yield from (f"{{{name}}} is no name of letters" for name in dict.fromkeys(names) if not name.isidentifier())
    if "}{" in text:
        yield f"two fields of {text[:40]!r} have nothing between them"
    if most is not None and len(names) + text.count("*") > most:
        yield f"{text[:40]!r} has more than {most} fields and asterisks"


def _is_inside(name: str) -> bool:
    """Whether a name of files stays inside the folder that is read."""
    return not name.startswith(("/", "~", "\\")) and ".." not in name.replace("\\", "/").split("/") and ":" not in name


def _read_own(path: Path, *, layout: str | Path = "", missing: str = "drop") -> Any:
    """Read a source whose layout a TOML file says; the file may lie in the source."""
    file = user_path(layout)
    if layout and not file.is_file() and (path / file).is_file():
        file = path / file
    if not layout or not file.is_file():
        raise CollectionError(
            f"{layout or path}: {'no such file' if layout else 'which layout?'}.",
            hint="FOLDER?layout=FILE.toml names the file that says which files and columns there are",
            code="no-layout",
        )
    return read_layout(file).read(path, missing=missing)


own = Format(
    name="layout",
    title="a layout of your own",
    layout="FOLDER?layout=FILE.toml: the file says which files and columns there are",
    reference="as people write it",
    sniff=lambda path: False,
    read=_read_own,
    options=(Option("layout", "the TOML file that describes the layout", ""), MISSING),
)
