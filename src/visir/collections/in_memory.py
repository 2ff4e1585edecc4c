"""Images and captions that are in memory: lists, pairs, dictionaries, data frames, pictures of PIL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visir.collections.draft import Draft
from visir.collections.frames import columns_of, table_rows
from visir.collections.held_pictures import HeldPictures, is_picture
from visir.collections.picture_kinds import is_picture_name
from visir.collections.readers.columns import CAPTION_ALSO, CAPTION_COLUMNS, IMAGE_ALSO, IMAGE_COLUMNS
from visir.collections.readers.table import DraftFiller, TableColumns
from visir.errors import CollectionError
from visir.files import user_path
from visir.remote import local_path

FORMS = (
    'a path or a text ("photos/", "mine.csv", "scenes:50"), a list of image files, a list of (image, caption) or '
    "(image, [caption, …]), a dictionary {image: caption}, a pandas or polars DataFrame, an Arrow table, or a "
    "datasets.Dataset"
)
"""What can be opened, in words."""


@dataclass(frozen=True)
class _Entry:
    """One image in memory, or its file, and its captions."""

    place: str
    image: Any
    captions: Any = None


def read_memory(source: Any, *, name: str = "", **columns: str | None) -> Draft:
    """Read images and captions that are in memory."""
    # Pictures in memory are written into visir's cache once, without loss, under a hash of their content; files stay
    # where they are. An image id is the path as it was written; pictures in memory are numbered from 0.
    # source: A list of image files; a list of `(image, caption)` or `(image, [caption, …])`; `{image: caption(s)}` or
    # `{id: image}`; a DataFrame or an Arrow table; anything with a length whose entries are such pairs, as the data
    # sets of torchvision. An image is a path, a PIL picture, an array (height, width, 3), or encoded bytes.
    table = table_in_memory(source)
    if table is not None:
        return _of_table(table, name or "table", columns)
    given = [key for key, value in columns.items() if value is not None]
    if given:
        raise CollectionError(
            f"{given[0]}= names a column of a table; a {type(source).__name__} has no columns.",
            code="names-column-table",
        )
    draft = Draft(name or "collection", Path.cwd(), f"a {type(source).__name__} in memory")
    _fill(draft, list(_entries(source)))
    return draft


def table_in_memory(source: Any) -> dict[str, list[Any]] | None:
    """The columns of a data frame, or of a dictionary of columns, `{"image": […], "caption": […]}`; None for others."""
    if not isinstance(source, Mapping) or not all(isinstance(values, (list, tuple)) for values in source.values()):
        return columns_of(source)
    names = {str(name).lower() for name in source}
    if not names & {*IMAGE_COLUMNS, *IMAGE_ALSO} or not names & {*CAPTION_COLUMNS, *CAPTION_ALSO}:
        return None
    return {str(name): list(values) for name, values in source.items()}


def _of_table(table: dict[str, list[Any]], name: str, columns: dict[str, str | None]) -> Draft:
    draft = Draft(name, Path.cwd(), f"a table in memory with the columns {', '.join(table)}")
    table_columns = TableColumns.find("the table", list(table), **columns)
    if table_columns.image is None and table_columns.image_id is None:
        raise CollectionError(
            f"the table has no column of images; there are: {', '.join(table) or 'none'}.",
            hint='name it: visir.open(table, image="COLUMN", caption="COLUMN")',
            code="table-no-column-images",
        )
    if not table_columns.captions:
        draft.notes.append("no captions: no column has a usual name for them; caption= names it")
    cells = table.get(table_columns.image or "", [])
    if any(is_picture(cell) for cell in cells):
        held = HeldPictures()
        places = [None if cell is None else held.add(cell, f"row {row}") for row, cell in enumerate(cells, 1)]
        archive = held.write()
        table = {**table, str(table_columns.image): [None if p is None else f"image-{p}" for p in places]}
    DraftFiller(draft, table_columns).add(table_rows(table, "the table"))
    if any(is_picture(cell) for cell in cells):
        draft.paths = [None if n is None else f"image#{n.removeprefix('image-')}" for n in draft.names]
        draft.archives = [None if n is None else str(archive) for n in draft.names]
        draft.names = []
    return draft


def _entries(source: Any) -> Iterator[_Entry]:
    if isinstance(source, Mapping):
        yield from _of_mapping(source)
        return
    if isinstance(source, (str, bytes, int, float)) or not (
        isinstance(source, Iterable) or (hasattr(source, "__getitem__") and hasattr(source, "__len__"))
    ):
        is_model = hasattr(source, "embed_images")  # of any class: models are in a later room
        raise CollectionError(
            f"cannot open a {'model' if is_model else type(source).__name__} as a collection.",
            hint="the source comes first, then the model: visir.evaluate(source, model); only in "
            "visir.encode(model, source) the model comes first"
            if is_model
            else f"visir.open takes {FORMS}",
            code="cannot-open-collection",
        )
    entries = source if isinstance(source, Iterable) else (source[row] for row in range(len(source)))
    for number, entry in enumerate(entries):
        where = f"entry {number}"
        if _is_image(entry):
            yield _Entry(where, entry)
        elif isinstance(entry, (list, tuple)) and len(entry) == 2 and _is_image(entry[0]):
            yield _Entry(where, entry[0], entry[1])
        elif isinstance(entry, Mapping):
            raise CollectionError(
                f"{where} is a dictionary with the keys {', '.join(map(repr, entry))}.",
                hint="an item of a text and a picture has the keys 'text' and 'image'; for other columns make a table: "
                "visir.open(pandas.DataFrame(entries))",
            )
        else:
            raise CollectionError(
                f"{where}: expected an image or (image, caption), not {_shown(entry)}.",
                hint=f'visir.open([("a.jpg", "a dog"), ("b.jpg", "a cat")]) works; it takes {FORMS}',
                code="expected-image-image-caption",
            )


def _of_mapping(source: Mapping[Any, Any]) -> Iterator[_Entry]:
    pictures = {key: value for key, value in source.items() if _names_image(value)}
    if pictures and len(pictures) == len(source) and not all(_names_image(key) for key in source):
        for key, value in source.items():  # {id: image}
            yield _Entry(str(key), value)
        return
    for key, value in source.items():
        if not _is_image(key):
            raise CollectionError(
                f"{_shown(key)} is no image.", hint='visir.open({"a.jpg": "a dog", "b.jpg": ["a cat", "a pet"]}) works'
            )
        yield _Entry(str(key), key, value)


def _fill(draft: Draft, entries: list[_Entry]) -> None:
    held = HeldPictures()
    rows: dict[str, int] = {}
    by_id = any(is_picture(entry.image) for entry in entries)
    counts: Counter[str] = Counter()
    for number, entry in enumerate(entries):
        in_memory = is_picture(entry.image)
        named = not entry.place.startswith("entry ") and entry.captions is None
        identifier = entry.place if named else str(number) if in_memory else Path(entry.image).as_posix()
        if identifier not in rows:
            rows[identifier] = len(rows)
            draft.ids.append(identifier)
            draft.splits.append("")
            if in_memory:
                draft.paths.append(f"image#{held.add(entry.image, entry.place)}")
                draft.archives.append("")
            else:
                draft.paths.append(_existing(draft, entry.image))
                draft.archives.append(None)
        for text in _texts(entry.captions):
            if not isinstance(text, str):
                draft.fault(f"{entry.place}: a caption must be text, not {_shown(text)}")
                continue
            draft.add_caption(f"{identifier}#{counts[identifier]}", text, identifier)
            counts[identifier] += 1
    if by_id:
        archive = str(held.write())
        draft.archives = [archive if place == "" else place for place in draft.archives]


def _existing(draft: Draft, image: Any) -> str | None:
    path = user_path(local_path(str(image)))
    if not path.is_file():
        draft.fault(f"{image}: no such file")
        return None
    return str(path.absolute())


def _is_image(value: Any) -> bool:
    return isinstance(value, (str, Path)) or (is_picture(value) and not isinstance(value, Mapping))


def _names_image(value: Any) -> bool:
    return isinstance(value, Path) or is_picture(value) or (isinstance(value, str) and is_picture_name(value))


def _texts(captions: Any) -> list[Any]:
    if captions is None:
        return []
    return [captions] if isinstance(captions, str) or not isinstance(captions, Iterable) else list(captions)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
