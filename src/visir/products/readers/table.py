"""A table with a product in every row and declared columns: CSV, TSV, JSON lines or Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from visir.collections.descriptor import Option
from visir.collections.readers.rows import one_column
from visir.collections.readers.sniffing import plain_stem
from visir.errors import CollectionError
from visir.products.descriptor import CatalogueFormat
from visir.products.draft import ProductDraft
from visir.products.readers.rows import columns, header, read_rows

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
    separator: str = ">",
    attributes_column: str | None = None,
    attribute_columns: str | None = None,
) -> ProductDraft:
    """Read a table: one row per product.

    - The category path is one column (a list, a JSON list, or names joined by `separator`), or several columns, one per
      level ("masterCategory,subCategory,articleType"), where the last ones may be empty.
    - Attributes are one column (`attributes_column`: an object, or a list of {name, value} or {key, value}; as JSON
      text where the file has no such types), and any further columns (`attribute_columns`), an attribute each.
    - Columns of one list are told by usual names when not declared; several with usual names are an error.
    """
    draft = ProductDraft(plain_stem(path), path.parent, f"table {path.name}")
    there = columns(path)
    if not there:
        for _ in read_rows(draft, path):  # nothing to keep, but what is wrong with the lines is to be told
            pass
        return draft
    identifier = one_column(path, there, id_column, ID_COLUMNS, "id")
    levels = _named(path, there, category_column)
    if not levels:
        found = one_column(path, there, None, CATEGORY_COLUMNS, "category")
        levels = [found] if found else []
    if identifier is None or not levels:
        missing, option = ("product ids", "id_column") if identifier is None else ("categories", "category_column")
        raise CollectionError(f"{path}: no column of {missing}.", hint=f"{option}= names it; there are {there}")
    title = one_column(path, there, title_column, TITLE_COLUMNS, "title")
    image = one_column(path, there, image_column, IMAGE_COLUMNS, "image")
    bundle = one_column(path, there, attributes_column, ATTRIBUTES_COLUMNS, "attributes")
    single = _named(path, there, attribute_columns)
    for place, row in read_rows(draft, path):
        label = f"{place}: {str(row.get(identifier))!r}"
        described = list(pairs(draft, label, row.get(bundle))) if bundle else []
        # An empty cell says that the product has no such attribute, not that somebody forgot its value.
        described += [(name, row.get(name)) for name in single if row.get(name) not in (None, "")]
        draft.add(
            place,
            row.get(identifier),
            _levels(row, levels) if len(levels) > 1 else path_of(draft, label, row.get(levels[0]), separator),
            title=row.get(title) if title else None,
            attributes=described,
            picture=first_of(row.get(image)) if image else None,
        )
    return draft


def path_of(draft: ProductDraft, place: str, value: object, separator: str) -> object:
    """The names of a path: of a list, of a JSON list, or split at the separator; of several paths the first.

    The thesis gives every product one path (section 7.4.1); further ones are counted. What is no path is returned as it
    is, for the draft to set aside.
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    if isinstance(value, list) and value and all(isinstance(one, list) for one in value):
        if len(value) > 1:
            draft.aside("further category paths of a product that has several", place, len(value) - 1)
        value = value[0]
    if isinstance(value, str) and value.strip():
        return value.split(separator)
    return value if not isinstance(value, str) else None


def pairs(draft: ProductDraft, place: str, value: object) -> Iterator[tuple[object, object]]:
    """(name, value) of an attributes cell: an object, a list of {name or key, value}, or either as JSON text."""
    if isinstance(value, str) and value.strip():
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError as fault:
            draft.aside("lists of attributes that are not valid JSON (the product is kept)", f"{place}: {fault}")
            return
    if isinstance(value, Mapping) and not _is_entry(value):
        yield from value.items()
        return
    for one in value if isinstance(value, list) else [value] if isinstance(value, Mapping) else []:
        if isinstance(one, Mapping):
            yield one.get("name", one.get("key")), one.get("value")
        elif isinstance(one, (list, tuple)) and len(one) == 2:  # a map, as Arrow hands it over
            yield one[0], one[1]
        else:
            draft.aside("attributes that are no pair of name and value", f"{place}: {str(one)[:40]!r}")


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
    path = [row.get(one) for one in columns]
    while path and path[-1] in (None, ""):
        path.pop()
    return path


def _named(path: Path, there: list[str], asked: str | None) -> list[str]:
    """The columns in a comma-separated option, all of which must be there."""
    names = [one.strip() for one in asked.split(",")] if asked else []
    return [name for name in names if one_column(path, there, name, (), "column")]


def _sniff(path: Path) -> bool:
    there = set(header(path)) if path.is_file() else set()
    return bool(there & set(ID_COLUMNS)) and bool(there & set(CATEGORY_COLUMNS))


FORMAT = CatalogueFormat(
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
        Option("separator", "what stands between the names of a path (default: >)", ">"),
        Option("attributes_column", f"the column of all attributes (default: {', '.join(ATTRIBUTES_COLUMNS)})"),
        Option("attribute_columns", "columns that are an attribute each, comma-separated"),
    ),
    read=read,
)
