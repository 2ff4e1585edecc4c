"""A table with a product in every row and declared columns: CSV, TSV, JSON lines or Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from visir.collections.readers.names import plain_stem
from visir.collections.readers.products import without_entities
from visir.collections.readers.rows import all_columns, one_column, read_rows, sniffed_columns
from visir.collections.readers.shop_cells import ARROWS, SAME, CategoryStyle
from visir.collections.sources import Format, Option
from visir.errors import CollectionError
from visir.products.draft import ProductDraft

ID_COLUMNS = ("id", "product_id", "uniq_id", "asin", "sku")
TITLE_COLUMNS = ("title", "product_name", "product_title", "name")
IMAGE_COLUMNS = ("image", "image_path", "file_name", "filename", "image_name")
CATEGORY_COLUMNS = ("category_path", "category", "categories")
ATTRIBUTES_COLUMNS = ("attributes", "specifications")


def read(
    path: Path,
    *,
    id_column: str | None = None,
    title_column: str | None = None,
    image_column: str | None = None,
    category_column: str | None = None,
    separator: str | None = None,
    attributes_column: str | None = None,
    attribute_columns: str | None = None,
) -> ProductDraft:
    """Read a table: one row per product. Of columns with usual names only one of a kind may be there."""
    # HTML entities are read as characters (`without_entities`), but for ids.
    draft = ProductDraft(plain_stem(path), path.parent, f"table {path.name}")
    columns = all_columns(path)
    if not columns:
        for _ in read_rows(path, draft.reject_row):  # no product in it; what is wrong with the lines is counted
            pass
        return draft
    identifier = one_column(path, columns, id_column, ID_COLUMNS, "id")
    levels = _named(path, columns, category_column)
    if not levels:
        category = one_column(path, columns, None, CATEGORY_COLUMNS, "category")
        levels = [category] if category else []
    if identifier is None or not levels:
        missing, option = ("product ids", "id_column") if identifier is None else ("categories", "category_column")
        raise CollectionError(
            f"{path}: no column of {missing}.",
            hint=f"{option}= names it; there are {columns}",
            code="collection-no-column-3",
        )
    title = one_column(path, columns, title_column, TITLE_COLUMNS, "title")
    image = one_column(path, columns, image_column, IMAGE_COLUMNS, "image")
    all_attributes = one_column(path, columns, attributes_column, ATTRIBUTES_COLUMNS, "attributes")
    separate_attributes = _named(path, columns, attribute_columns)
    style = _style(path, levels[0], separator) if len(levels) == 1 else CategoryStyle()
    for place, row in read_rows(path, draft.reject_row):
        label = f"{place}: {str(row.get(identifier))!r}"
        row = {name: cell if name == identifier else without_entities(cell) for name, cell in row.items()}
        described = list(pairs(draft, label, row.get(all_attributes))) if all_attributes else []
        # An empty cell says that the product has no such attribute, not that somebody forgot its value.
        described += [(name, row.get(name)) for name in separate_attributes if row.get(name) not in (None, "")]
        draft.add(
            place,
            row.get(identifier),
            _levels(row, levels) if len(levels) > 1 else _first_path(draft, label, row.get(levels[0]), style),
            title=row.get(title) if title else None,
            attributes=described,
            picture=first_of(row.get(image)) if image else None,
        )
    return draft


def _style(path: Path, column: str, separator: str | None) -> CategoryStyle:
    """How the category paths of a column are written; lists are paths."""
    if separator is not None:
        return CategoryStyle("" if separator == SAME else separator)
    rows = read_rows(path, lambda *_: None)  # what is wrong with a row is counted when it is read for its product
    every = (without_entities(row.get(column)) for _, row in rows)
    cells = [cell for cell in every if isinstance(cell, str) and cell.strip()]
    texts = [cell for cell in cells if not cell.lstrip().startswith("[") or any(arrow in cell for arrow in ARROWS)]
    return CategoryStyle.find(f"{path}, column {column!r}", texts)


def _first_path(draft: ProductDraft, place: str, value: object, style: CategoryStyle) -> object:
    """The first path of a cell; further ones are counted, as `path_of` says."""
    is_list = isinstance(value, list) or (isinstance(value, str) and value.lstrip().startswith("["))
    if is_list and not (style.levels and style.levels in str(value)):
        return path_of(draft, place, value, style.levels)
    if isinstance(value, str) and style.levels:
        names = value.split(style.levels)
        if value.strip() and not all(name.strip() for name in names):
            return names  # a level without a name: the draft rejects it
    try:
        paths = style.read(value)
    except ValueError:
        return value
    if len(paths) > 1:
        draft.reject("further category paths of a product that has several", place, len(paths) - 1)
    return list(paths[0]) if paths else None


def path_of(draft: ProductDraft, place: str, value: object, separator: str) -> object:
    """The names of a path: of a list, of a JSON list, or split at the separator; of several paths the first."""
    # The thesis gives every product one path (section 7.4.1); further ones are counted. What is no path is returned as
    # it is, for the draft to reject.
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    if isinstance(value, list) and value and all(isinstance(entry, list) for entry in value):
        if len(value) > 1:
            draft.reject("further category paths of a product that has several", place, len(value) - 1)
        value = value[0]
    if isinstance(value, str) and value.strip():
        return value.split(separator) if separator else [value]
    return value if not isinstance(value, str) else None


def pairs(draft: ProductDraft, place: str, value: object) -> Iterator[tuple[object, object]]:
    """(name, value) of an attributes cell: an object, a list of {name or key, value}, or either as JSON text."""
    if isinstance(value, str) and value.strip():
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError as fault:
            draft.reject("lists of attributes that are not valid JSON (the product is kept)", f"{place}: {fault}")
            return
    if isinstance(value, Mapping) and not _is_entry(value):
        yield from value.items()
        return
    for entry in value if isinstance(value, list) else [value] if isinstance(value, Mapping) else []:
        if isinstance(entry, Mapping):
            yield entry.get("name", entry.get("key")), entry.get("value")
        elif isinstance(entry, (list, tuple)) and len(entry) == 2:  # a map, as Arrow hands it over
            yield entry[0], entry[1]
        else:
            draft.reject("attributes that are no pair of name and value", f"{place}: {str(entry)[:40]!r}")


def first_of(value: object) -> object:
    """The first picture of several: of a list, of a JSON list, or of addresses joined by "|"."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    if isinstance(value, list):
        return value[0] if value else None
    if isinstance(value, str) and "://" in value:
        return value.split("|")[0]
    return value


def _is_entry(value: Mapping[Any, Any]) -> bool:
    """One {name, value} that stands where a list of them would."""
    return "value" in value and set(value) <= {"name", "key", "value"}


def _levels(row: Mapping[str, Any], columns: Iterable[str]) -> list[object]:
    """The levels of a path from one column each, without the empty ones at its end."""
    path = [row.get(column) for column in columns]
    while path and path[-1] in (None, ""):
        path.pop()
    return path


def _named(path: Path, columns: list[str], declared: str | None) -> list[str]:
    """The columns in a comma-separated option, all of which must be there."""
    names = [name.strip() for name in declared.split(",")] if declared else []
    return [name for name in names if one_column(path, columns, name, (), "column")]


def _sniff(path: Path) -> bool:
    columns = set(sniffed_columns(path)) if path.is_file() else set()
    return bool(columns & set(ID_COLUMNS)) and bool(columns & set(CATEGORY_COLUMNS))


FORMAT = Format(
    name="products",
    title="table of products",
    layout="file.csv, .tsv, .jsonl or .parquet (.gz, .xz) with columns of ids, category paths, titles, …",
    reference="",
    sniff=_sniff,
    options=(
        Option("id_column", f"the column of the product's id (default: {', '.join(ID_COLUMNS)})"),
        Option("title_column", f"the column of the title (default: {', '.join(TITLE_COLUMNS)})"),
        Option("image_column", f"the column of the picture's file name (default: {', '.join(IMAGE_COLUMNS)})"),
        Option("category_column", f"the column of the path, or one per level (default: {', '.join(CATEGORY_COLUMNS)})"),
        Option("separator", "what stands between the names of a path (default: it is found)"),
        Option("attributes_column", f"the column of all attributes (default: {', '.join(ATTRIBUTES_COLUMNS)})"),
        Option("attribute_columns", "columns that are an attribute each, comma-separated"),
    ),
    read=read,
    one_file=True,
)
