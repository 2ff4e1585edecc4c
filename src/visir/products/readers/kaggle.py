"""Catalogues of Kaggle: the fashion product images of Myntra, and the Flipkart sample of PromptCloud."""

from __future__ import annotations

from pathlib import Path

from visir.collections.readers.names import plain_name
from visir.collections.readers.products import ShopProduct
from visir.collections.sources import Format, Option, one_of
from visir.collections.tables import sniffed_columns
from visir.errors import CollectionError
from visir.products.readers.table import ProductDraft, catalogue_of


def _check_csv(path: Path) -> None:
    if not plain_name(path).lower().endswith((".csv", ".tsv")):
        raise CollectionError(
            f"{path}: not a CSV file, as this layout is.",
            hint="a table of declared columns may be another format",
            code="not-csv-file-layout",
        )


# `styles.csv` of Myntra: three levels of categories, pictures by id.

LEVELS = ("masterCategory", "subCategory", "articleType")
ATTRIBUTES = ("gender", "baseColour", "season", "year", "usage")


def read_fashion(path: Path) -> ProductDraft:
    """Read `styles.csv`; the picture of product 15970 is 15970.jpg."""
    # A few titles of the published file hold unquoted commas, so their rows have too many values and are rejected.
    _check_csv(path)

    def amend(draft: ProductDraft, label: str, product: str, about: ShopProduct) -> bool:
        about.pictures = [f"{product}.jpg"]
        return True

    there = [name for name in ATTRIBUTES if name in sniffed_columns(path)]
    return catalogue_of(
        path, f"fashion product images {path.name}", attribute_columns=there, amend=amend, id_column="id",
        category_column=",".join(LEVELS), bad_rows="skip",
    )  # fmt: skip


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

COLUMNS = {"id_column": "uniq_id", "title_column": "product_name", "category_column": "product_category_tree",
           "attributes_column": "product_specifications"}  # fmt: skip
_CUT = "..."


def read_flipkart(path: Path, *, product_names: str = "drop") -> ProductDraft:
    """Read the CSV file (20,000 products as published, or a part of it)."""
    _check_csv(path)

    def amend(draft: ProductDraft, label: str, product: str, about: ShopProduct) -> bool:
        if product_names == "keep" or not about.paths or not _is_name(about.paths[0][-1], about.title):
            return True
        if len(about.paths[0]) == 1:
            draft.reject("products whose only category is their own name", label)
            return False
        draft.reject("last levels of paths that are the product's own name (the product is kept)", label)
        about.paths[0] = about.paths[0][:-1]
        return True

    return catalogue_of(path, f"Flipkart sample {path.name}", amend=amend, separator=">>", bad_rows="skip", **COLUMNS)


def _is_name(level: str, title: str) -> bool:
    """Whether a level is the product's name: its beginning, cut; or the whole of it, alone or with words behind."""
    stem, name = level.removesuffix(_CUT).strip().casefold(), title.casefold()
    return bool(name) and (
        stem == name or stem.startswith(f"{name} ") or (level.endswith(_CUT) and name.startswith(stem))
    )


FLIPKART = Format(
    name="flipkart",
    title="Flipkart sample (PromptCloud)",
    layout="flipkart_com-ecommerce_sample.csv (.gz, .xz), pictures beside it",
    reference="https://www.kaggle.com/datasets/PromptCloudHQ/flipkart-products",
    sniff=lambda path: path.is_file() and {*COLUMNS.values()} <= set(sniffed_columns(path)),
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
