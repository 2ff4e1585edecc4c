"""Opening pictures with classes: whatever `visir.open` takes, and tables without captions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from visir.collections import open_source
from visir.collections.readers.rows import is_table
from visir.encoders.sources import is_picture
from visir.errors import CollectionError, ConfigurationError
from visir.records import Collection


def open_pictures(source: Any, *, images: Any = None, truth: str | None = None) -> Collection:
    """Open pictures."""
    named = source if isinstance(source, (str, Path)) else ""
    path = Path(str(named).partition("?")[0])
    table = "table" if truth is not None and named and is_table(path) and path.is_file() else None
    if is_picture(source):
        source, named = [source], ""
    if are_pairs(source) and all(_is_number(label) for _, label in source):
        source = [(picture, str(label)) for picture, label in source]
    try:
        opened = open_source(source, images=images, format=table) if named else open_source(source, images=images)
    except CollectionError as fault:
        if truth is None and named and is_table(path) and path.is_file():
            hint = f"truth=COLUMN (--truth COLUMN) says which column has the classes; {fault.hint}"
            raise CollectionError(fault.message, hint=hint) from fault
        raise
    if not isinstance(opened, Collection):
        raise ConfigurationError(
            f"classify goes with pictures and their classes; this is a {type(opened).__name__}.",
            hint='visir.classify("photos/", model), with a folder for each class',
        )
    return opened


def are_pairs(source: Any) -> bool:
    """Whether it is a list of (picture, class)."""
    return (
        isinstance(source, (list, tuple))
        and bool(source)
        and all(isinstance(entry, (list, tuple)) and len(entry) == 2 for entry in source)
    )


def _is_number(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)
