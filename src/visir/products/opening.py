"""A path or a short text becomes a catalogue."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

import visir.collections.readers.products as table
import visir.products.generated as generated
from visir.collections.readers import shop_exports
from visir.collections.readers.locate import place_images
from visir.collections.readers.products import UNCATEGORISED, CatalogueDraft
from visir.collections.shop_layouts import ABO_PRODUCTS
from visir.collections.sources import Format, SourceKind, find_source
from visir.collections.tables import read_table
from visir.display import csv_of
from visir.errors import CollectionError, ConfigurationError
from visir.records.catalogue import Catalogue
from visir.records.category_tree import CategoryTree
from visir.registry import Registry
from visir.storage import check_new_file, new_file

# How far a wrong category lies from the right one.


@dataclass(frozen=True)
class TreeErrors:
    """Where wrong predictions lie (thesis Table 7.2 and Figure 7.2)."""

    right: int  # how many predictions are equal to their target
    same_tree: int  # how many wrong ones are in the tree of their target
    different_tree: int  # how many wrong ones are in another tree
    depth_differences: dict[int, int]  # of those in the same tree: depth(c_p) − depth(c) to how many have it, ascending
    distances: dict[int, int]  # of all wrong ones: plain tree distance to how many have it, ascending


def tree_errors(tree: CategoryTree, target: np.ndarray, predicted: np.ndarray) -> TreeErrors:
    """Compare target categories c with the categories c_p that were predicted; pairs with c ≠ c_p are errors.

    Args:
        tree: The categories.
        target: (k,) rows of c.
        predicted: (k,) rows of c_p, the category of the product on rank 1.

    Raises:
        CollectionError: The lists differ in length.
    """
    target, predicted = np.asarray(target, dtype=np.int64), np.asarray(predicted, dtype=np.int64)
    if target.shape != predicted.shape or target.ndim != 1:
        raise CollectionError(
            f"targets {target.shape} and predictions {predicted.shape} must be two equal lists.",
            code="targets-predictions-two-equal",
        )
    wrong = target != predicted
    target, predicted = target[wrong], predicted[wrong]
    same = tree.same_tree(target, predicted)
    return TreeErrors(
        right=int((~wrong).sum()),
        same_tree=int(same.sum()),
        different_tree=int((~same).sum()),
        depth_differences=_counts(tree.depth_differences(target[same], predicted[same])),
        distances=_counts(tree.distances(target, predicted)),
    )


def _counts(values: np.ndarray) -> dict[int, int]:
    distinct, counts = np.unique(values, return_counts=True)
    return {int(value): int(count) for value, count in zip(distinct, counts, strict=True)}


# A new table in a place of the user's: CSV, TSV, JSON lines or Parquet, by the ending of its name.

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")


def write_new_table(path: str | Path, table: pa.Table, *, for_people: bool) -> Path:
    """Write a table as a new file, in one step. Nothing is replaced."""
    target = Path(path)
    check_new_table(target)
    ending = target.suffix.lower()
    buffer = io.BytesIO()
    if ending == ".parquet":
        parquet.write_table(table, buffer)
    elif ending == ".jsonl":
        buffer.writelines(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in table.to_pylist())
    else:
        buffer.write(csv_of(table, "\t" if ending == ".tsv" else ",", for_people=for_people))
    with new_file(target) as new:
        new.write_bytes(buffer.getvalue())
    return target


def check_new_table(path: str | Path) -> None:
    """Raise where `write_new_table` could not write: before the work rather than after it."""
    if Path(path).suffix.lower() not in ENDINGS:
        raise ConfigurationError(
            f"{path}: not the name of a table.", hint=f"it ends in {', '.join(ENDINGS)}", code="not-name-table"
        )
    check_new_file(path)


# The layouts of catalogues, in the order in which they are tried: a new one is a reader, and its format here.

FORMATS: Registry[Format] = Registry("catalogue format")
for _format in (shop_exports.FLIPKART, shop_exports.FASHION, shop_exports.AMAZON, ABO_PRODUCTS, table.OF_CATEGORIES,
                generated.FORMAT):  # fmt: skip
    FORMATS.add(_format.name, _format)
CATALOGUES = SourceKind("catalogue", "catalogues", FORMATS, without_path="generated products need none: generated:2000")


def open_catalogue(path_or_spec: Any, *, format: str | None = None, images: object = None, **options: Any) -> Catalogue:
    """Open a catalogue of any known layout.

    What cannot be used is left out and counted in the catalogue's `notes`.

    Args:
        path_or_spec: A file (plain, `.gz` or `.xz`), a folder with one such file in it (or laid out as ABO's), or a
            `Catalogue`, or a table in memory (a data frame, an Arrow table, a list of dictionaries); the format follows
            from the content. `"format:path"` names the format; `"generated:2000"` makes 2,000 products. Options may
            follow as in a web address: `"products:shop.csv?separator=/&images=photos.zip"`. A file or folder elsewhere
            (`"s3://bucket/shop.jsonl"`; needs `visir[remote]`) is copied into the cache.
        format: The name of the format, when it cannot be told.
        images: Where the pictures are: a folder, zip or tar, or a list of them. By default they are looked for beside
            the source; the catalogue's `source` says where they were found. "none" goes without.
        **options: Those of the format; `visir data formats` lists them.

    Raises:
        CollectionError: Where no product can be used.

    Example:
        >>> catalogue = open_catalogue("generated:20")
        >>> catalogue.products.num_rows, catalogue.categories.num_rows
        (20, 113)
        >>> catalogue.products["title"][2].as_py(), catalogue.products["category_id"][0].as_py()
        ('Hollis 102 teapot', 'Vehicles > Rockets > Tin rockets')
    """
    if isinstance(path_or_spec, Catalogue):
        return path_or_spec
    contents = _read(path_or_spec, format, images, options)
    return contents.catalogue() if isinstance(contents, CatalogueDraft) else contents


def _read(path_or_spec: Any, format: str | None, images: object, options: dict[str, Any]) -> CatalogueDraft | Catalogue:
    """What a reader hands over."""
    contents: CatalogueDraft | Catalogue
    if isinstance(path_or_spec, str | Path):
        source = find_source(str(path_or_spec), CATALOGUES, format)
        contents = source.read(images=source.take("images", images), **options)
        return contents
    contents = table.read(read_table(path_or_spec), **table.OF_CATEGORIES.resolve(options))
    place_images(contents, images)
    return contents


def open_uncategorised(
    path_or_spec: str | Path, *, format: str | None = None, images: object = None, **options: Any
) -> tuple[Catalogue, list[str]]:
    """Open a catalogue with its products that have no category, which `open_catalogue` sets aside.

    Args:
        path_or_spec: As `open_catalogue` takes it.
        format: As there.
        images: As there.
        **options: As there.

    Returns:
        The catalogue, and the ids of the products without a category; they stand under a category of their own,
        `visir.collections.readers.products.UNCATEGORISED`.

    Raises:
        CollectionError: Where no product can be used.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table = Path(folder, "shop.csv")
        ...     _ = table.write_text("id,title,category\\na,red dress,Clothes > Dresses\\nb,blue dress,\\n")
        ...     open_uncategorised(table)[1]
        ['b']
    """
    contents = _read(path_or_spec, format, images, options)
    catalogue = contents.catalogue(uncategorised=True) if isinstance(contents, CatalogueDraft) else contents
    products = catalogue.products
    return catalogue, products["id"].filter(pc.equal(products["category_id"], UNCATEGORISED)).to_pylist()
