"""A path or a short text becomes a catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from visir.collections.sources import SourceKind, find_source
from visir.products.draft import UNCATEGORISED, ProductDraft, with_uncategorised
from visir.products.formats import FORMATS
from visir.records import Catalogue

CATALOGUES = SourceKind("catalogue", "catalogues", FORMATS, without_path="generated products need none: generated:2000")


def open_catalogue(
    path_or_spec: str | Path | Catalogue, *, format: str | None = None, images: object = None, **options: Any
) -> Catalogue:
    """Open a catalogue of any known layout.

    What cannot be used is left out and counted in the catalogue's `notes`.

    Args:
        path_or_spec: A file (plain, `.gz` or `.xz`), a folder with one such file in it (or laid out as ABO's), or a
            `Catalogue`; the format follows from the content. `"format:path"` names the format; `"generated:2000"` makes
            2,000 products. Options may follow as in a web address: `"products:shop.csv?separator=/&images=photos.zip"`.
            A file or folder elsewhere (`"s3://bucket/shop.jsonl"`; needs `visir[remote]`) is copied into the cache.
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
    source = find_source(str(path_or_spec), CATALOGUES, format)
    contents = source.read(images=source.take("images", images), **options)
    return contents.build() if isinstance(contents, ProductDraft) else contents


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
        `visir.products.draft.UNCATEGORISED`.

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
    with with_uncategorised():
        catalogue = open_catalogue(path_or_spec, format=format, images=images, **options)
    products = catalogue.products
    return catalogue, products["id"].filter(pc.equal(products["category_id"], UNCATEGORISED)).to_pylist()
