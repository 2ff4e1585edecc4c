"""A table with a picture and its caption(s) in every row: CSV, TSV, JSON lines or Parquet."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import visir.collections.tables as usual
from visir.collections.archives import pictures_in_cells
from visir.collections.cells import (
    LONGEST_WORD,
    SHOWN,
    Counts,
    entries_of,
    id_of,
    is_missing,
    missing_in,
    says_nothing,
)
from visir.collections.draft import Draft
from visir.collections.picture_kinds import is_picture_name
from visir.collections.readers.names import SPLITS, has_key, json_head, plain_name, plain_stem
from visir.collections.sources import Format, Option, bad_rows_option, one_of
from visir.collections.table_columns import Cells, ColumnTable, as_python, at_once
from visir.collections.tables import (
    BadRows,
    OpenTable,
    TextLayout,
    arrow_table,
    captions_by_picture,
    first_cells,
    is_table,
    is_text_table,
    pick,
    read_table,
)
from visir.errors import CollectionError, VisirError
from visir.files import read_json
from visir.records.collection import LANGUAGE

COLUMN_OPTIONS = (
    Option("image", "the column of the picture's file name (default: file_name, image, file, …)"),
    Option("caption", "the column of the caption(s), or several, comma-separated (default: text, caption, …)"),
    Option("id", "the column of the image's id (default: image_id, else the file name)"),
    Option("caption_id", "the column of the caption's id (default: caption_id; else image#n)"),
    Option("split_column", "the column of the split (default: split)"),
    Option("language_column", "the column of the language of the captions (default: language)"),
)
TEXT_OPTIONS = (
    Option("header", "of a CSV file: whether its first line has names, yes or no (default: no if it names a picture)",
           "", one_of("yes", "no")),
    Option("encoding", "of a CSV file that is not UTF-8: latin-1, cp1252, gbk, … (UTF-16 is recognised)", ""),
    Option("quotes", "of a CSV file in which quotes are letters and enclose nothing: none", "", one_of("", "none")),
    Option("delimiter", "of a CSV file: comma, semicolon, tab, bar, or the character (default: the one that fits)", ""),
)  # fmt: skip


@dataclass(frozen=True)
class TableColumns:
    """Which column holds what; None where there is no such column."""

    image: str | None = None  # the file name of the picture
    captions: tuple[str, ...] = ()  # the captions, in one or several columns
    image_id: str | None = None  # the id of the image
    caption_id: str | None = None  # the ids of the captions
    split: str | None = None  # the split
    language: str | None = None  # the language of the captions

    notes: tuple[str, ...] = ()  # what else could have been taken, in sentences

    @classmethod
    def find(cls, table: OpenTable, given: Mapping[str, str | None]) -> TableColumns:
        """Find them by the names that somebody gave and the usual ones."""
        named = {role: given.get(role) for role in ("image", "caption", "id", "caption_id")}
        named |= {role: given.get(f"{role}_column") for role in ("split", "language")}
        captions = str(named["caption"]).split(",") if named["caption"] else [None]
        picked = [
            pick(
                table,
                named | {"caption": caption},
                image=(usual.IMAGE_COLUMNS, usual.IMAGE_ALSO),
                caption=(usual.CAPTION_COLUMNS, usual.CAPTION_ALSO),
                id=usual.IMAGE_ID_COLUMNS,
                caption_id=usual.CAPTION_ID_COLUMNS,
                split=usual.SPLIT_COLUMNS,
                language=usual.LANGUAGE_COLUMNS,
            )
            for caption in captions
        ]
        columns = picked[0].columns
        chosen = tuple(name for each in picked if (name := each["caption"]) is not None)
        chosen = chosen or tuple(name for name in table.columns if NUMBERED.fullmatch(usual.plain_column(name)))
        image, own = columns["image"], columns["id"]
        if image is None:  # COCO's: the id names the picture
            image, own = own, None
        split, language = columns["split"], columns["language"]
        return cls(image, chosen, own, columns["caption_id"], split, language, tuple(picked[0].notes))

    @property
    def used(self) -> set[str | None]:
        """All of them but the language, which is also a fact of the image where all its rows have the same."""
        return {self.image, *self.captions, self.image_id, self.caption_id, self.split}


NUMBERED = re.compile(r"(?:raw_)?(?:caption|comment|sentence|text|description)_?\d+")
"""Several columns of captions."""


def read(
    path: Path,
    *,
    header: str = "",
    encoding: str = "",
    delimiter: str = "",
    quotes: str = "",
    bad_rows: str = "refuse",
    **columns: str | None,
) -> Draft:
    """Read a table: one row per image, with a caption or a list of captions, or one row per caption."""
    # - Rows with the same image are joined. The image's id is its file name as written, unless a column holds one. Rows
    #   that say different splits or classes of one image are faults; an empty cell says nothing.
    # - Missing captions are none, and are counted.
    # - What separates the cells of a text table (comma, semicolon, tab, bar) is found out.
    # - Columns without names are called by their positions, "1", "2", …; so can those be that have names.
    # - A language is that of all captions of its row, or a list with the language of each.
    # - Further columns are the collection's facts. One that differs between rows of an image is left out, with a note.
    # - Pictures are looked for beside the file, or where `images=` says.
    draft = Draft(plain_stem(path), path.parent, f"table {path.name}")
    table = read_table(path, header=header, encoding=encoding, delimiter=delimiter, quotes=quotes)
    if table.layout and not table.layout.has_header and not any(columns.get(name) for name in ("image", "caption")):
        columns |= _guessed(path, table.layout)
        draft.notes.append(f"no header line: images in column {columns['image']}, captions in {columns['caption']}")
    chosen = TableColumns.find(table, columns)
    if chosen.image is None and chosen.image_id is None:
        raise CollectionError(
            f"{path}: no column of images.", hint=_advice(path) or f"there are: {', '.join(table.columns)}"
        )
    if not chosen.captions:
        names = ", ".join(table.columns)
        draft.notes.append(f"no captions: none of the columns {names} has a usual name; caption= names it")
    filler = DraftFiller(draft, chosen, name=path.name, bad_rows=bad_rows)
    filler.add_table(table)
    return filler.finish()


def _guessed(path: Path, layout: TextLayout) -> dict[str, str | None]:
    """Which of two columns without names has the images."""
    first = next(iter(first_cells(path, layout, rows=1)), [])
    pictures = [place for place, cell in enumerate(first, 1) if is_picture_name(cell)]
    if len(first) == 2 and len(pictures) == 1:
        return {"image": str(pictures[0]), "caption": str(3 - pictures[0])}
    raise CollectionError(
        f"{path}: its first line has no names of columns.", hint=_advice(path), code="first-line-no-names"
    )


def _advice(path: Path) -> str:
    """The columns of a table, and a line that opens it."""
    if not is_table(path):
        return ""
    if key := _first_key(path):
        return (
            f'{key!r} is no name of a picture; it reads {{"a.jpg": "a dog", "b.jpg": ["a cat", "a pet"]}}, and a list, '
            'or lines, of {"image": "a.jpg", "caption": "a dog"}'
        )
    try:
        table = read_table(path)
        names, layout = table.columns, table.layout
        rows = [row for _, row in itertools.islice(table.rows(), 5)]
    except VisirError:
        return ""
    if len(names) < 2 or not rows:
        return ""
    pictures = [name for name in names if any(is_picture_name(str(row.get(name))) for row in rows)]
    image = pictures[0] if pictures else names[0]
    texts = {name: max(len(str(row.get(name) or "").split()) for row in rows) for name in names if name != image}
    texts |= {name: 0 for name in texts if all(str(row.get(name)).isdigit() for row in rows)}
    caption = max(texts, key=lambda name: texts[name])
    sample = next((str(rows[0].get(name)) for name in names), "")
    shown = (
        ", ".join(names) if layout is None or layout.has_header else f"{len(names)} without names, from {sample!r} on"
    )
    return (
        f'it has the columns {shown}; name them: visir.open("{path.name}", image="{image}", caption="{caption}"), '
        f'or "{path.name}?image={image}&caption={caption}" in a command'
    )


def _first_key(path: Path) -> str:
    """The first key of a JSON file of {key: captions}; "" of any other file."""
    try:
        value = read_json(path) if json_head(path)[:1] == b"{" else None
    except VisirError:
        return ""
    return str(next(iter(value))) if isinstance(value, dict) and captions_by_picture(value) else ""


@dataclass(slots=True)
class _Image:
    """What the rows of one image say."""

    row: int  # its row in the draft
    place: str  # the place of its first row
    facts: dict[str, Any]  # the further columns of its first row
    captions: int = 0  # how many captions it has so far


@dataclass
class DraftFiller:
    """Puts rows of tables into a draft: those of one image become one image."""

    draft: Draft  # the draft
    columns: TableColumns = TableColumns()  # which column holds what
    folder: str = ""  # is put before file names
    split: str = ""  # the split of rows without one
    classes: frozenset[str] = frozenset(usual.CLASS_COLUMNS)  # the columns of which an image has one value, lower case
    images: dict[str, _Image] = field(default_factory=dict)  # what is known of each image, by its id
    # The further columns that differ between the rows of an image: where they do first.
    differing: dict[str, str] = field(default_factory=dict)
    # By image and column the first value that is not empty, and its place.
    values: dict[tuple[str, str], tuple[Any, str]] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)  # what says nothing
    name: str = ""  # what errors call the table
    bad_rows: str = "refuse"  # what becomes of rows that cannot be read, or "skip"

    def __post_init__(self) -> None:
        self.bad = BadRows(self.name, self.draft.fault, self.bad_rows)

    def add(self, rows: Iterable[tuple[str, dict[str, Any]]], where: str = "") -> None:
        """All rows of one table."""
        used = self.columns.used
        for place, row in rows:
            self._add_row(f"{where}{place}", row, {name: cell for name, cell in row.items() if name not in used})

    def add_table(self, table: OpenTable, where: str = "") -> None:
        """All rows of the only table: column by column where that has the same meaning."""
        whole = at_once(table)
        try:
            if whole is None:
                raise Odd
            _Columns(self, whole, where).fill()
            pa.default_memory_pool().release_unused()
        except (Odd, pa.ArrowException):
            self.add(table.rows(self.bad.row), where)

    def finish(self) -> Draft:
        """The draft, with the further columns as facts."""
        if self.images:
            self.draft.facts = facts_table(
                [
                    {"image_id": identifier} | {k: v for k, v in image.facts.items() if k not in self.differing}
                    for identifier, image in self.images.items()
                ]
            )
        self.draft.notes += self.columns.notes
        self.draft.notes += [
            f"column {name!r} is left out: it differs between the rows of an image ({differs})"
            for name, differs in self.differing.items()
            if name != self.columns.language
        ]
        self.draft.notes += self.bad.notes()
        self.draft.notes += self.counts.lines("{what}: {count:,} ({shown})", ", ")
        return self.draft

    def _add_row(self, place: str, row: dict[str, Any], further: dict[str, Any]) -> None:
        columns, draft = self.columns, self.draft
        try:
            name = self._id(row, columns.image, place)
            identifier = self._id(row, columns.image_id, place)
        except TypeError as fault:
            self.bad.reject("rows without a usable image", place, str(fault), f"{place}: {fault}")
            return
        name = None if name is None else f"{self.folder}{name}"
        identifier = identifier or name
        if identifier is None:
            empty = f"{columns.image or columns.image_id} is empty"
            self.bad.reject("rows without an image", place, "", f"{place}: no image ({empty})")
            return
        image = self._image(identifier, name, place, further)
        split = self.split
        if columns.split and not self._is_missing(row.get(columns.split), columns.split, place):
            split = SPLITS.get(str(row[columns.split]).lower(), str(row[columns.split]))
        draft.splits[image.row] = self._one(identifier, "split", split, place) or ""
        cells = [row.get(column) for column in columns.captions]
        spoken = _in_languages(cells[0]) if len(cells) == 1 and isinstance(cells[0], dict) else None
        if spoken is not None:
            cells, row = [list(spoken.values())], row | {columns.language or LANGUAGE: list(spoken)}
        texts = [entry for cell in cells for entry in (entries_of(cell, texts=True) if cell is not None else [None])]
        ids = [id_of(own) for own in entries_of(row.get(columns.caption_id))] if columns.caption_id else []
        languages: list[str | None] = [None] * len(texts)
        if (columns.language or spoken) and texts:
            languages = _languages(row.get(columns.language or LANGUAGE), len(texts))
        missing = [is_missing(text) for text in texts]
        if True in missing:
            given = [number for number, nothing in enumerate(missing) if not nothing]
            for text, nothing in zip(texts, missing, strict=True):
                if nothing:
                    self.counts.count("captions that say nothing are left out", f"{place}: {_shown(text)}")
            if len(ids) == len(texts):
                ids = [ids[number] for number in given]
            if len(languages) == len(texts):
                languages = [languages[number] for number in given]
            texts = [texts[number] for number in given]
        image.captions = draft.add_captions_of_row(
            place, identifier, texts, image.captions, ids=ids, languages=languages
        )

    def _id(self, row: dict[str, Any], column: str | None, place: str) -> str | None:
        """The name of a file, or an id; None where there is none."""
        cell = None if column is None else row.get(column)
        if type(cell) is not str or len(cell) <= LONGEST_WORD:
            if column is None or self._is_missing(cell, column, place):
                return None
            try:
                return id_of(cell)
            except TypeError as fault:
                raise TypeError(f"{column}: {fault}") from None
        return cell

    def _is_missing(self, cell: Any, column: str, place: str) -> bool:
        """Whether a cell has no value; a word that says so is counted."""
        if not is_missing(cell):
            return False
        if says_nothing(cell):
            self.counts.count(f"cells of {column} that say that there is nothing", f"{place}: {cell!r}")
        return True

    def _image(self, identifier: str, name: str | None, place: str, facts: dict[str, Any]) -> _Image:
        """An image with what a row says of it."""
        image = self.images.get(identifier)
        if image is None:
            image = self.images[identifier] = _Image(len(self.draft.ids), place, facts)
            self.draft.add_image(identifier, name)
        for column in [column for column in facts if column.lower() in self.classes]:
            value = self._one(identifier, column, facts[column], place, several=bool(self.columns.captions))
            image.facts[column] = facts[column] = value
        if facts is not image.facts:
            for column in facts | image.facts:
                if column not in self.differing and not _same(facts.get(column), image.facts.get(column)):
                    self.differing[column] = f"{identifier}, {image.place} and {place}"
        return image

    def _one(self, image: str, column: str, value: Any, place: str, *, several: bool = False) -> Any:
        """What an image has one of, from all its rows: an empty cell says nothing, two values are a fault."""
        # several: Whether rows may differ, because they are of captions; the column is then left out.
        value = value.strip() if isinstance(value, str) else value
        if value is None or value == "":
            return self.values.get((image, column), (value,))[0]
        first, first_place = self.values.setdefault((image, column), (value, place))
        if first != value and several:
            self.differing.setdefault(column, f"{image}, {first_place} and {place}")
        elif first != value:
            self.draft.fault(
                f"{image}: {column} {first!r} in {first_place}, but {value!r} in {place}; an image has one"
            )
        return first


class Odd(Exception):
    """Something in a table that its rows must say: a fault, or a cell that is no text."""


@dataclass
class _Columns:
    """Puts the columns of a table into an empty draft, as `DraftFiller` puts its rows."""

    filler: DraftFiller
    table: ColumnTable
    where: str
    # What is to be counted, by the row and the step where it is first met: what, the place of each, what is shown.
    counts: dict[tuple[int, int], tuple[str, list[int], list[str]]] = field(default_factory=dict)

    def fill(self) -> None:
        """Do so; raises `Odd` before anything is changed."""
        filler, columns, cells = self.filler, self.filler.columns, self.table.cells
        names, own = self._ids(columns.image, 0), self._ids(columns.image_id, 1)
        if names is not None and filler.folder:
            names = pc.binary_join_element_wise(filler.folder, names, "")
        ids = own if names is None else names if own is None else pc.coalesce(own, names)
        if ids is None or ids.null_count == len(ids) or (ids.null_count and filler.bad_rows != "skip"):
            raise Odd
        left_out = np.flatnonzero(ids.is_null())
        self.rows = np.flatnonzero(ids.is_valid())  # (n,) the rows with an image
        coded = ids.drop_null().dictionary_encode()
        self.ids = coded.dictionary  # (images,)
        self.image_of = coded.indices.to_numpy()  # (n,) the image of each row
        before = np.maximum.accumulate(np.concatenate([[-1], self.image_of[:-1]]))
        self.first = np.flatnonzero(self.image_of > before)  # (images,) the first row of each image, among those
        splits = self._splits()
        differing: dict[tuple[int, bool, int], tuple[str, str]] = {}
        facts: dict[str, Cells] = {"image_id": self.ids}
        for number, name in enumerate(name for name in cells if name not in columns.used):
            of_class = name.lower() in filler.classes
            value, unlike = self._class(name) if of_class else self._fact(name)
            if unlike is None:
                facts[name] = value
            else:
                first, row = unlike
                image = self.ids[self.image_of[row]].as_py()
                differing[row, not of_class, number] = name, f"{image}, {self._place(first)} and {self._place(row)}"
        captions = self._captions()

        draft = filler.draft
        draft.ids, draft.splits, draft.captions = self.ids.to_pylist(), splits, captions
        if names is None:
            draft.names = [None] * len(self.first)
        else:
            draft.names = [*draft.ids] if own is None else names.take(pa.array(self.rows[self.first])).to_pylist()
        if len(facts) > 1:
            python = arrow_table({name: value for name, value in facts.items() if isinstance(value, list)})
            draft.facts = pa.table({name: python[name] if isinstance(value, list) else value
                                    for name, value in facts.items()})  # fmt: skip
        filler.differing |= dict(differing[key] for key in sorted(differing))
        for _, (what, rows, texts) in sorted(self.counts.items()):
            shown = [f"{self._place_of(row)}: {text}" for row, text in zip(rows[:SHOWN], texts, strict=False)]
            _count(filler.counts, what, shown, len(rows))
        places = [self._place_of(row) for row in left_out[:SHOWN].tolist()]
        if places:
            _count(filler.bad.left_out, "rows without an image", places, len(left_out))

    def _place_of(self, row: int) -> str:
        """The place of a row of the table."""
        return f"{self.where}{self.table.place(row)}"

    def _place(self, row: int) -> str:
        """The place of a row among those with an image."""
        return self._place_of(int(self.rows[row]))

    def _noted(self, step: int, what: str, rows: list[int], shown: list[str]) -> None:
        if rows:
            self.counts[rows[0], step] = what, rows, shown

    def _words(self, column: str, step: int, rows: list[int], values: list[Any]) -> None:
        """Count the words for nothing among cells that have no value."""
        words = [(row, repr(value)) for row, value in zip(rows, values, strict=True) if says_nothing(value)]
        self._noted(step, f"cells of {column} that say that there is nothing",
                    [row for row, _ in words], [text for _, text in words])  # fmt: skip

    def _ids(self, column: str | None, step: int) -> pa.StringArray | None:
        """(rows of the table,) the ids in a column, null where there is none."""
        if column is None or column not in self.table.cells:
            return None
        cells = self.table.cells[column]
        if isinstance(cells, pa.ListArray):
            raise Odd
        if isinstance(cells, list):
            # A long text is taken as it is.
            missing = [not (type(cell) is str and len(cell) > LONGEST_WORD) and is_missing(cell) for cell in cells]
            rows = [row for row, nothing in enumerate(missing) if nothing]
            self._words(column, step, rows, [cells[row] for row in rows])
            try:
                ids = [None if nothing else id_of(cell) for cell, nothing in zip(cells, missing, strict=True)]
            except TypeError as fault:
                raise Odd from fault
            return pa.array(ids, pa.string())
        rows = [row for row in missing_in(cells) if len(cells[row].as_py()) <= LONGEST_WORD]
        self._words(column, step, rows, [cells[row].as_py() for row in rows])
        return _without(cells, rows)

    def _kept(self, column: str) -> Cells:
        """The cells of a column in the rows with an image."""
        cells = self.table.cells[column]
        if len(self.rows) == len(cells):
            return cells
        return [cells[row] for row in self.rows] if isinstance(cells, list) else cells.take(pa.array(self.rows))

    def _splits(self) -> list[str]:
        """(images,) the split of each image: what the first of its rows with a split says; another one is a fault."""
        column, usual = self.filler.columns.split, self.filler.split
        if column is None or column not in self.table.cells:
            return [usual.strip()] * len(self.first)
        cells = self._kept(column)
        if isinstance(cells, pa.ListArray):
            raise Odd
        if isinstance(cells, list):
            missing = [row for row, cell in enumerate(cells) if is_missing(cell)]
        else:
            missing = missing_in(cells)
        values = as_python(cells)
        self._words(column, 2, self.rows[missing].tolist() if missing else [], [values[row] for row in missing])
        gone = {*missing}
        meant: dict[Any, str] = {}
        splits: list[str] = []
        for row, value in enumerate(values):
            if row in gone or value is None:
                splits.append(usual.strip())
                continue
            try:
                splits.append(meant[type(value), value])
            except KeyError:
                splits.append(
                    meant.setdefault((type(value), value), SPLITS.get(str(value).lower(), str(value)).strip())
                )
            except TypeError as fault:
                raise Odd from fault
        picked, unlike = self._ones(pa.array(splits), np.array([bool(value) for value in splits]))
        if unlike is not None:
            raise Odd
        return [splits[row] for row in picked]

    def _ones(self, values: pa.Array, given: NDArray[np.bool_]) -> tuple[NDArray[np.int64], tuple[int, int] | None]:
        """What an image has one of: the row that says it (the last where none does), and the first two that differ."""
        codes = values.dictionary_encode(null_encoding="encode").indices.to_numpy()
        rows, image_of = np.flatnonzero(given), self.image_of
        picked = np.empty(len(self.first), np.int64)
        picked[image_of] = np.arange(len(image_of))  # of several values for one place the last counts
        picked[image_of[rows[::-1]]] = rows[::-1]
        unlike = rows[codes[rows] != codes[picked[image_of[rows]]]]
        return picked, (int(picked[image_of[unlike[0]]]), int(unlike[0])) if len(unlike) else None

    def _class(self, column: str) -> tuple[Cells, tuple[int, int] | None]:
        """(images,) the values of a column of which an image has one, or the first two rows that differ."""
        cells = self._kept(column)
        if isinstance(cells, pa.ListArray):
            raise Odd
        if isinstance(cells, list):
            codes: dict[Any, int] = {}
            try:
                if any(cell != cell for cell in cells):  # not a number, which equals nothing
                    raise Odd
                cells = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
                values = pa.array([codes.setdefault(cell, len(codes)) for cell in cells])
            except (TypeError, ValueError) as fault:
                raise Odd from fault
            given = np.array([cell is not None and cell != "" for cell in cells])
        else:
            values = cells = pc.utf8_trim_whitespace(cells)
            given = pc.greater(pc.binary_length(cells), 0).fill_null(False).to_numpy(zero_copy_only=False)
        picked, unlike = self._ones(values, given)
        if unlike is not None and not self.filler.columns.captions:
            raise Odd
        return _at(cells, picked), unlike

    def _fact(self, column: str) -> tuple[Cells, tuple[int, int] | None]:
        """(images,) the values of a further column, or the first two rows of an image that differ."""
        cells = self._kept(column)
        first = self.first[self.image_of]
        others = np.flatnonzero(first != np.arange(len(first)))
        if isinstance(cells, pa.StringArray):
            codes = cells.dictionary_encode(null_encoding="encode").indices.to_numpy() if len(others) else others
            unlike = others[codes[others] != codes[first[others]]] if len(others) else others
            row = int(unlike[0]) if len(unlike) else None
        else:
            cells = as_python(cells)
            row = next((row for row in others.tolist() if not _same(cells[row], cells[first[row]])), None)
        return _at(cells, self.first), None if row is None else (int(first[row]), row)

    # The captions: (entries,) the row of each entry, and what it says.

    def _captions(self) -> pa.Table:
        columns = self.filler.columns
        pieces = [self._entries(column) for column in columns.captions if column in self.table.cells]
        if len(pieces) < len(columns.captions):
            raise Odd
        rows, texts = pieces[0] if len(pieces) == 1 else (
            np.concatenate([rows for rows, _ in pieces] or [np.empty(0, np.int64)]),
            pa.concat_arrays([texts for _, texts in pieces] or [pa.array([], pa.string())]),
        )  # fmt: skip
        if len(pieces) > 1:
            order = np.argsort(rows, kind="stable")
            rows, texts = rows[order], texts.take(pa.array(order))
        own = self._own_ids(rows)
        missing = np.union1d(missing_in(texts), np.flatnonzero(texts.is_null())).astype(np.int64)
        if len(missing):
            shown = [_shown(text) for text in texts.take(pa.array(missing)).to_pylist()]
            self._noted(3, "captions that say nothing are left out", self.rows[rows[missing]].tolist(), shown)
            others = np.delete(np.arange(len(rows)), missing)
            rows, texts = rows[others], texts.take(pa.array(others))
            own = None if own is None else own.take(pa.array(others))
        images = self.image_of[rows]
        number = np.empty(len(rows), np.int64)  # of each caption among those of its image
        order = np.argsort(images, kind="stable")
        sizes = np.bincount(images, minlength=len(self.first))
        number[order] = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        image_ids = self.ids.take(pa.array(images))
        ids = pc.binary_join_element_wise(image_ids, pa.array(number).cast(pa.string()), "#")
        table = {"id": ids if own is None else pc.coalesce(own, ids), "text": texts, "image_id": image_ids}
        languages = self._spoken(rows)
        if languages is not None and languages.null_count < len(languages):
            table[LANGUAGE] = languages
        return pa.table(table)

    def _entries(self, column: str) -> tuple[NDArray[np.int64], pa.StringArray]:
        """The row of each entry in a column of captions, and the entries."""
        cells = self._kept(column)
        if isinstance(cells, pa.StringArray):
            listed = np.flatnonzero(pc.or_(pc.starts_with(cells, "["), pc.starts_with(cells, " [")).fill_null(False))
            read = {row: entries_of(cells[row].as_py(), texts=True) for row in listed.tolist()}
            if all(len(entries) == 1 and entries[0] == cells[row].as_py() for row, entries in read.items()):
                return np.arange(len(cells)), cells
        elif isinstance(cells, pa.ListArray) and not cells.null_count:
            lengths = pc.list_value_length(cells).to_numpy()
            return np.repeat(np.arange(len(cells)), lengths), cells.flatten()
        values = as_python(cells)
        entries: list[list[Any]] = [[None] if cell is None else entries_of(cell, texts=True) for cell in values]
        flat = [*chain.from_iterable(entries)]
        if not {*map(type, flat)} <= {str, type(None)}:
            raise Odd
        return np.repeat(np.arange(len(entries)), [*map(len, entries)]), pa.array(flat, pa.string())

    def _own_ids(self, rows: NDArray[np.int64]) -> pa.StringArray | None:
        """(entries,) the ids that a table gives its captions, null where it gives none."""
        column = self.filler.columns.caption_id
        if column is None or column not in self.table.cells:
            return None
        cells = self._kept(column)
        counts = np.bincount(rows, minlength=len(self.rows))
        if isinstance(cells, pa.StringArray) and not pc.any(pc.match_substring_regex(cells, r"^ ?\[")).as_py():
            if (counts[np.flatnonzero(cells.is_valid())] != 1).any():
                raise Odd
            return cells.take(pa.array(rows))
        try:
            given: list[list[str | None]] = [[id_of(cell) for cell in entries_of(cell)] for cell in as_python(cells)]
        except TypeError as fault:
            raise Odd from fault
        if any(ids and len(ids) != count for ids, count in zip(given, counts.tolist(), strict=True)):
            raise Odd
        flat = chain.from_iterable(ids or [None] * count for ids, count in zip(given, counts.tolist(), strict=True))
        return pa.array([*flat], pa.string())

    def _spoken(self, rows: NDArray[np.int64]) -> pa.StringArray | None:
        """(captions,) the language of each; None where no column has any."""
        column = self.filler.columns.language
        if column is None or column not in self.table.cells:
            return None
        cells = self._kept(column)
        if isinstance(cells, pa.ListArray):
            raise Odd
        values = as_python(cells)
        if any(isinstance(value, list) for value in values):
            raise Odd
        names = [None if is_missing(value) else str(value).strip() for value in values]
        return pa.array(names, pa.string()).take(pa.array(rows))


def _count(counts: Counts, what: str, shown: list[str], number: int) -> None:
    """Count something as often as it was met; the first of what is shown are examples."""
    for example in shown[:SHOWN]:
        counts.count(what, example)
    if number > SHOWN:
        counts.count(what, "", number - SHOWN)


def _without(cells: pa.StringArray, rows: Sequence[int]) -> pa.StringArray:
    """A column with nothing in these rows."""
    if not len(rows):
        return cells
    mask = np.zeros(len(cells), bool)
    mask[rows] = True
    return pc.if_else(pa.array(mask), pa.scalar(None, pa.string()), cells)


def _at(cells: Cells, rows: NDArray[np.int64]) -> Cells:
    """These rows of a column as facts: texts as Arrow has them, all else, also a column of nothing, as Python does."""
    if isinstance(cells, pa.StringArray) and (picked := cells.take(pa.array(rows))).null_count < len(rows):
        return picked
    return [cells[row].as_py() if isinstance(cells, pa.Array) else cells[row] for row in rows.tolist()]


def _languages(value: Any, captions: int) -> list[str | None]:
    """The language of each caption of a row: one for all, or a list."""
    values = value if isinstance(value, list) else [value] * captions
    return [None if is_missing(name) else str(name).strip() for name in values]


_CODE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?")


def _in_languages(cell: dict[str, Any]) -> dict[str, Any] | None:
    """Captions by their languages, {"en": "a dog"}; None for any other object."""
    is_spoken = all(_CODE.fullmatch(str(name)) and isinstance(text, str | None) for name, text in cell.items())
    return {name: text for name, text in cell.items() if text is not None} if cell and is_spoken else None


def _shown(cell: object) -> str:
    return "null" if cell is None else repr(cell)


def _same(cell: Any, other: Any) -> bool:
    """Whether two cells are equal; those of data frames may be arrays."""
    equal = cell == other
    return bool(equal) if isinstance(equal, bool) else np.array_equal(cell, other)


def facts_table(rows: list[dict[str, Any]]) -> pa.Table | None:
    """Further columns as a table, None without any."""
    names = dict.fromkeys(name for row in rows for name in row)
    return arrow_table({name: [row.get(name) for row in rows] for name in names}) if len(names) > 1 else None


def _sniff(path: Path) -> bool:
    if not path.is_file() or not (is_table(path) or is_text_table(path)):
        return False
    beginning = json_head(path)  # empty but for .json
    if beginning[:1] == b"[" or has_key(beginning, "images"):  # annotation lists, Karpathy's
        return False
    try:
        table = read_table(path)
        if table.layout is not None and not table.layout.has_header:
            return plain_name(path).lower().endswith((".csv", ".tsv"))
        columns = {form(name) for name in table.columns for form in (str.lower, usual.plain_column)}
    except VisirError:
        return False
    images = {*usual.IMAGE_COLUMNS, *usual.IMAGE_ALSO, *(usual.IMAGE_ID_COLUMNS if columns & TEXTS else ())}
    texts = any(NUMBERED.fullmatch(name) for name in columns) or bool(columns & {*TEXTS, *usual.CLASS_COLUMNS})
    return bool(columns & images) and texts and not pictures_in_cells(path)


TEXTS = {*usual.CAPTION_COLUMNS, *usual.CAPTION_ALSO}


FORMAT = Format(
    name="table",
    title="table of pictures and captions",
    layout="file.csv, .tsv, .jsonl or .parquet with a column of file names and one or more of captions",
    reference="",
    sniff=_sniff,
    options=(*COLUMN_OPTIONS, *TEXT_OPTIONS, bad_rows_option("refuse")),
    read=read,
    one_file=True,
    advice=_advice,
)
