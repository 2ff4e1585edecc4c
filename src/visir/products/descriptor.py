"""What a reader of catalogues says about itself, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from visir.collections.descriptor import Described
from visir.products.draft import ProductDraft
from visir.records import Catalogue


@dataclass(frozen=True)
class CatalogueFormat(Described):
    """A layout of catalogues: `read(path, **options)` returns a `ProductDraft`, or a catalogue as it is.

    `folder`: whether it is a folder, rather than one file.
    """

    read: Callable[..., ProductDraft | Catalogue] = None  # type: ignore[assignment]
    folder: bool = False
