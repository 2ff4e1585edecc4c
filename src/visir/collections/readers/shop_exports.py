"""Published exports of shops, read as any table of products: Amazon's metadata, Flipkart's sample, Myntra's fashion."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from visir.collections.cells import Counts
from visir.collections.readers.names import head, plain_name, plain_stem
from visir.collections.readers.products import CatalogueDraft, Paths, ShopProduct, fill, read
from visir.collections.readers.shop_cells import attribute_pairs
from visir.collections.readers.shop_columns import SaleColumns, ShopColumns
from visir.collections.sources import Format, Option, one_of
from visir.collections.tables import BadRows, read_rows, sniffed_columns
from visir.errors import CollectionError

NEUTRAL = ShopColumns(
    id="id", title="title", description="description", images=("images",), category=("paths",), prices=("price",),
    brand="brand", currency=None, attributes="attributes", money=("price",), group=None, sku=None, variant=None,
    variations=None, options=(), listed=(), differing=(), named=(), availability=None, stock=None, sale=SaleColumns(),
    others=(),
)  # fmt: skip
"""The columns that an export has once its reader has taken its rows apart."""


def paths_of(row: Mapping[str, Any]) -> Paths:
    """The category paths of a row whose cell is a list of names, or of such lists."""
    cell = row.get("paths")
    if not isinstance(cell, list):
        return ([(str(cell),)], False) if cell else ([], True)
    lists = cell if cell and all(isinstance(entry, list) for entry in cell) else [cell]
    paths = [tuple(str(name).strip() for name in names if name) for names in lists]
    is_whole = all(isinstance(name, str) and name.strip() for name in lists[0])
    return list(dict.fromkeys(filter(None, paths))), is_whole


# Amazon's product metadata as JSON lines: XMarket, and the review data sets of McAuley's group that it resembles.

IDS = ("asin", "parent_asin")
PATHS = ("categories", "category")
DETAILS = ("productDetails", "overviewFeatures", "details", "tech1", "tech2")
SINGLE = ("brand", "store")
FEATURES = ("features", "feature")
PICTURES = ("imgUrl", "imUrl", "imageURLHighRes", "imageURL", "image", "images")
OF_THE_PAGE = frozenset(
    ("asin", "customer reviews", "average customer review", "best sellers rank", "amazon best sellers rank")
)
"""Entries of the details that are no property of the product, in lower case without a colon. A rank names the category
("#13 in Radio Antennas"), so a model that read it would be told the answer."""


def read_amazon(path: Path, *, pictures: str, page_facts: str) -> CatalogueDraft:
    """Read a file of metadata (`metadata_us_Electronics.json.gz`, `meta_Electronics.jsonl`): one object per line."""
    # - id: `asin`; in 2023 `parent_asin`. Path: `categories`, in 2018 `category`: names from the most general on; in
    #   2014 a list of such lists. Many products of 2023 have none.
    # - attributes: the entries of `productDetails` and `overviewFeatures` (XMarket) or `details` (2018, 2023), `brand`,
    #   `store`, and every bullet of `features` (2018: `feature`) as an attribute called "feature"
    # - A line is JSON, or a list of such objects; in 2014 a dictionary of Python.
    # - What follows markup in a path is cut. 2018's `tech1` and `tech2` are HTML; such text is counted and left out.
    about = f"Amazon metadata {path.name}"
    draft = CatalogueDraft(plain_stem(path), path.parent, about, about=about)
    bad, report = BadRows(path.name, draft.fault, "skip", draft.left_out), draft.report
    rows: list[tuple[str, dict[str, Any]]] = []
    for place, row in read_rows(path, bad.row, _parse):
        identifier = _first(row, IDS)
        label = f"{place}: {identifier!r}"
        paths = _first(row, PATHS)
        rows.append((place, {
            "id": identifier,
            "title": row.get("title"),
            "description": row.get("description") if isinstance(row.get("description"), str) else None,
            "images": [f"{identifier}.jpg"] if pictures == "id" else _first(row, PICTURES),
            "paths": _cut(paths, label, report),
            "price": row.get("price"),
            "brand": _first(row, SINGLE),
            "attributes": _attributes(row, label, report, drop=page_facts == "drop"),
        }))  # fmt: skip
    fill(draft, rows, NEUTRAL, paths_of, bad, joins=False)
    draft.complete()
    return draft


def _parse(line: bytes) -> Any:
    """A line of JSON, or of Python as the files of 2014 have it: a dictionary as `print` shows it, without code."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        if not _PYTHON.match(line):
            raise
    try:
        value = ast.literal_eval(line.decode().strip())
        orjson.dumps(value)  # what JSON could not hold (bytes, half of a surrogate pair) is no metadata
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as fault:
        raise ValueError(f"neither JSON nor a Python dictionary: {fault}") from None
    return value


def _cut(paths: object, place: str, report: Counts) -> object:
    """Paths without what is no name in them: in files of 2018 some go on with "</span>", then phrases of the page."""
    if not isinstance(paths, list):
        return paths
    if paths and all(isinstance(entry, list) for entry in paths):
        return [_cut(entry, place, report) for entry in paths]
    markup = [isinstance(name, str) and "</" in name for name in paths]
    if not any(markup):
        return paths
    end = markup.index(True)
    report.count("levels of paths that are markup, or follow it (the product is kept)", place, len(paths) - end)
    return paths[:end]


def _attributes(row: Mapping[str, Any], place: str, report: Counts, *, drop: bool) -> list[tuple[object, object]]:
    attributes: list[tuple[object, object]] = []
    for field in DETAILS:
        value = row.get(field)
        if isinstance(value, Mapping) or (isinstance(value, str) and value.lstrip().startswith("{")):
            for name, text in _entries(value, place, report):
                if drop and str(name).strip().rstrip(" :").casefold() in OF_THE_PAGE:
                    report.count("attributes of the page, not of the product", f"{place}: {name!r}")
                else:
                    attributes.append((name, text))
        elif value:
            report.count(f"fields {field!r} that are no object (the product is kept)", place)
    attributes += [(field, row[field]) for field in SINGLE if row.get(field)]
    features = _first(row, FEATURES)
    return [*attributes, ("feature", features)] if features else attributes


def _entries(value: object, place: str, report: Counts) -> list[tuple[object, object]]:
    """(name, value) of an object, or of one that is written out."""
    try:
        return list(attribute_pairs(value, lambda entry: report.count(
            "attributes that are no pair of name and value", f"{place}: {str(entry)[:40]!r}")))  # fmt: skip
    except orjson.JSONDecodeError as fault:
        report.count("lists of attributes that are not valid JSON (the product is kept)", f"{place}: {fault}")
        return []


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name)), None)


_PYTHON = re.compile(rb"\s*(?:\[\s*)?\{\s*(?:'|\"[^\"]*\"\s*:)")
_KEYS = {name: re.compile(rb"""["']""" + name.encode() + rb"""["']\s*:""") for name in (*IDS, *PATHS)}


def _sniff(path: Path) -> bool:
    if not plain_name(path).lower().endswith((".json", ".jsonl")):
        return False
    line = head(path).lstrip().partition(b"\n")[0]
    return line.startswith((b"{", b"[")) and all(any(_KEYS[key].search(line) for key in keys) for keys in (IDS, PATHS))


AMAZON = Format(
    name="amazon",
    title="Amazon metadata (XMarket and alike)",
    layout="metadata_us_Electronics.json.gz or meta_Electronics.jsonl.gz: one object per line; downloaded pictures "
    "beside it",
    reference="https://xmrec.github.io (Bonab et al., CIKM 2021)",
    sniff=_sniff,
    options=(
        Option("pictures", "how downloaded pictures are called: id (B000123.jpg) or url", "id", one_of("id", "url")),
        Option("page_facts", "ranks, ratings and ids among the details: drop or keep", "drop", one_of("drop", "keep")),
    ),
    read=read_amazon,
    one_file=True,
)


# Kaggle: the fashion product images of Myntra (three levels of categories, pictures by id), and the Flipkart sample of
# PromptCloud (a CSV file whose categories and specifications are cells of JSON and Ruby).

LEVELS = ("masterCategory", "subCategory", "articleType")
ATTRIBUTES = ("gender", "baseColour", "season", "year", "usage")
COLUMNS = {"id_column": "uniq_id", "title_column": "product_name", "category_column": "product_category_tree",
           "attributes_column": "product_specifications"}  # fmt: skip
_CUT = "..."


def _check_csv(path: Path) -> None:
    if not plain_name(path).lower().endswith((".csv", ".tsv")):
        raise CollectionError(
            f"{path}: not a CSV file, as this layout is.",
            hint="a table of declared columns may be another format",
            code="not-csv-file-layout",
        )


def read_fashion(path: Path) -> CatalogueDraft:
    """Read `styles.csv`; the picture of product 15970 is 15970.jpg."""
    # A few titles of the published file hold unquoted commas, so their rows have too many values and are rejected.
    _check_csv(path)

    def amend(product: str, about: ShopProduct, report: Counts) -> None:
        about.pictures = [f"{product}.jpg"]

    there = [name for name in ATTRIBUTES if name in sniffed_columns(path)]
    return read(path, about=f"fashion product images {path.name}", attribute_columns=there, amend=amend, id_column="id",
                category_column=",".join(LEVELS), bad_rows="skip")  # fmt: skip


FASHION = Format(
    name="fashion",
    title="fashion product images (Myntra, Kaggle)",
    layout="styles.csv (.gz, .xz) beside images/15970.jpg …",
    reference="https://www.kaggle.com/datasets/paramaggarwal/fashion-product-images-dataset",
    sniff=lambda path: path.is_file() and {"id", *LEVELS} <= set(sniffed_columns(path)),
    read=read_fashion,
    one_file=True,
)


def read_flipkart(path: Path, *, product_names: str = "drop") -> CatalogueDraft:
    """Read the CSV file (20,000 products as published, or a part of it)."""
    _check_csv(path)

    def amend(product: str, about: ShopProduct, report: Counts) -> None:
        if not about.paths or not about.is_whole or not _is_name(about.paths[0][-1], about.title):
            return
        label = f"{about.place}: {product!r}"
        if len(about.paths[0]) > 1:
            report.count("last levels of paths that are the product's own name (the product is kept)", label)
            about.paths = (about.paths[0][:-1], *about.paths[1:])
        else:
            report.count("products whose only category is their own name", label)
            about.paths, about.is_whole = (), False

    return read(path, about=f"Flipkart sample {path.name}", amend=amend if product_names == "drop" else None,
                separator=">>", bad_rows="skip", **COLUMNS)  # fmt: skip


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
