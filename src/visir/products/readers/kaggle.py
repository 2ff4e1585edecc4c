"""Catalogues of Kaggle: the fashion product images of Myntra, and the Flipkart sample of PromptCloud."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson

from visir.collections.readers.names import plain_stem
from visir.collections.readers.shop_cells import text_of
from visir.collections.sources import Format, Option, one_of
from visir.collections.tables import read_csv_rows, sniffed_columns
from visir.errors import CollectionError
from visir.products.readers.table import ProductDraft, first_picture, pairs


def _rows(path: Path, draft: ProductDraft, columns: Iterable[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a file that has these columns, each with its place."""
    for place, row in read_csv_rows(path, draft.reject_row):
        missing = [name for name in columns if name not in row]
        if missing:
            raise CollectionError(
                f"{path}: no column {missing[0]!r}.", hint=f"there are: {', '.join(row)}", code="no-such-column"
            )
        yield place, row


# `styles.csv` of Myntra: three levels of categories, pictures by id.

LEVELS = ("masterCategory", "subCategory", "articleType")
ATTRIBUTES = ("gender", "baseColour", "season", "year", "usage")
TITLE = "productDisplayName"


def read_fashion(path: Path) -> ProductDraft:
    """Read `styles.csv`; the picture of product 15970 is 15970.jpg."""
    # A few titles of the published file hold unquoted commas, so their rows have too many values and are rejected.
    draft = ProductDraft(plain_stem(path), path.parent, f"fashion product images {path.name}")
    for place, row in _rows(path, draft, ("id", *LEVELS)):
        draft.add(
            place,
            row["id"],
            [row[level] for level in LEVELS],
            title=row.get(TITLE),
            attributes=[(name, row[name]) for name in ATTRIBUTES if text_of(row.get(name)) is not None],
            picture=f"{row['id']}.jpg",
        )
    return draft


FASHION = Format(
    name="fashion",
    title="fashion product images (Myntra, Kaggle)",
    layout="styles.csv (.gz, .xz) beside images/15970.jpg …",
    reference="https://www.kaggle.com/datasets/paramaggarwal/fashion-product-images-dataset",
    sniff=lambda path: path.is_file() and {"id", *LEVELS} <= set(sniffed_columns(path)),
    read=read_fashion,
    one_file=True,
)


# The Flipkart sample: a CSV file whose categories and specifications are cells of JSON and Ruby.

COLUMNS = ("uniq_id", "product_name", "product_category_tree", "product_specifications")
_CUT = "..."


def read_flipkart(path: Path, *, product_names: str = "drop") -> ProductDraft:
    """Read the CSV file (20,000 products as published, or a part of it)."""
    draft = ProductDraft(plain_stem(path), path.parent, f"Flipkart sample {path.name}")
    for place, row in _rows(path, draft, COLUMNS):
        label = f"{place}: {row['uniq_id']!r}"
        names = _path(draft, label, row["product_category_tree"])
        if product_names == "drop" and isinstance(names, list) and _is_name(names[-1], row["product_name"]):
            if len(names) == 1:
                draft.reject("products whose only category is their own name", label)
                continue
            draft.reject("last levels of paths that are the product's own name (the product is kept)", label)
            names = names[:-1]
        draft.add(
            place,
            row["uniq_id"],
            names,
            title=row["product_name"],
            attributes=list(pairs(draft, label, row["product_specifications"])),
            picture=first_picture(row.get("image")),
        )
    return draft


def _path(draft: ProductDraft, place: str, cell: str) -> object:
    """The names in a cell such as ["Watches >> Wrist Watches"]; another cell as it is, for the draft to reject."""
    try:
        trees = orjson.loads(cell)
    except orjson.JSONDecodeError:
        return cell
    if not isinstance(trees, list) or not all(isinstance(tree, str) for tree in trees):
        return cell
    if len(trees) > 1:
        draft.reject("further category paths of a product that has several", place, len(trees) - 1)
    return [name.strip() for name in trees[0].split(">>")] if trees and trees[0].strip() else None


def _is_name(level: str, title: str) -> bool:
    """Whether a level is the product's name: its beginning, cut; or the whole of it, alone or with words behind."""
    stem, name = level.removesuffix(_CUT).strip().casefold(), (text_of(title) or "").casefold()
    return bool(name) and (
        stem == name or stem.startswith(f"{name} ") or (level.endswith(_CUT) and name.startswith(stem))
    )


FLIPKART = Format(
    name="flipkart",
    title="Flipkart sample (PromptCloud)",
    layout="flipkart_com-ecommerce_sample.csv (.gz, .xz), pictures beside it",
    reference="https://www.kaggle.com/datasets/PromptCloudHQ/flipkart-products",
    sniff=lambda path: path.is_file() and set(COLUMNS) <= set(sniffed_columns(path)),
    options=(
        Option(
            "product_names",
            "a path's last level that is the product's own name: drop or keep",
            "drop",
            one_of("drop", "keep"),
        ),
    ),
    read=read_flipkart,
    one_file=True,
)
