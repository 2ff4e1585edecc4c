"""The door: a path becomes a catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from visir.collections.readers.gc_paused import gc_paused
from visir.errors import CollectionError
from visir.products.descriptor import CatalogueFormat
from visir.products.formats import FORMATS
from visir.records import Catalogue


def open_catalogue(
    path_or_spec: str | Path, *, format: str | None = None, images: object = None, **options: Any
) -> Catalogue:
    """Open a catalogue of any known layout (plain, `.gz` or `.xz`), its format told from its content.

    - `path_or_spec`: a file, a folder with one such file in it (or laid out as ABO's), or "format:path";
      "generated:2000" makes 2,000 products
    - `images`: where the pictures are: a folder, zip or tar, or a list of them. By default they are looked for beside
      the source, and what was found is told in the catalogue's `source`. "none" goes without.
    - `options`: those of the format

    What cannot be used is set aside and counted in the catalogue's `notes`. Raises `CollectionError` when nothing can.
    """
    text = str(path_or_spec)
    name, colon, rest = text.partition(":")
    if colon and not Path(text).exists() and name in FORMATS:
        if format not in (None, name):
            raise CollectionError(f"{text!r} names the format {name!r}, and format={format!r} another.")
        format, text = name, rest
    path = Path(text)
    if format is None and not path.exists():
        raise CollectionError(
            f"{path}: no such file or folder.", hint="check the path; generated products need none: generated:2000"
        )
    found, path = (FORMATS.get(format), path) if format is not None else _sniffed(path)
    if path.is_dir() and not found.folder:
        raise CollectionError(f"{path}: a folder; {found.name} is a file.", hint=f"layout: {found.layout}")
    with gc_paused():
        read = found.read(path, **found.resolve(options))
    if isinstance(read, Catalogue):
        if images is not None:
            raise CollectionError(f"{found.name} has its own pictures; images= does not apply.")
        return read
    return read.build(images)


def _sniffed(path: Path) -> tuple[CatalogueFormat, Path]:
    whole = _first(path) if path.is_dir() else None
    if whole is not None:
        return whole, path
    files = sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else [path]
    inside = [(found, file) for file in files if (found := _first(file)) is not None]
    if len(inside) == 1:
        return inside[0]
    if inside:
        listing = ", ".join(f"{one.name}:{file}" for one, file in inside)
        raise CollectionError(f"{path}: several catalogues in this folder.", hint=f"name one of: {listing}")
    known = "; ".join(f"{name}: {one.layout}" for name, one in FORMATS.items())
    raise CollectionError(f"{path}: no known layout of catalogues.", hint=f"name it with format=; known: {known}")


def _first(path: Path) -> CatalogueFormat | None:
    return next((one for _, one in FORMATS.items() if one.folder == path.is_dir() and one.sniff(path)), None)
