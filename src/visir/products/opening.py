"""A path or a short text becomes a catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from visir.collections.sources import SourceKind, find_source
from visir.products.draft import ProductDraft
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
