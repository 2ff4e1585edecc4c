"""Folders that visir made of a collection, given where a collection is wanted: what they are, and what to do."""

from __future__ import annotations

import shlex
from pathlib import Path

from visir.errors import CollectionError
from visir.storage.manifest import is_made_by_visir

_KINDS = {
    "parts": (
        "a folder of parts: the vectors of pictures (visir encode --parts), without the pictures",
        "for an index of them: visir index build {path} --out NEW (in Python: visir.retrieval.build_index("
        "visir.encoders.Parts({name!r}), out=…)); for a library, and all else, name the files that they were "
        "encoded from",
    ),
    "index": (
        "an index: vectors, without pictures or captions",
        "to search it: visir index search {path} QUERY; for all else name the collection that it was built from",
    ),
}
"""Kind of folder → what it is, and the next action."""


def check_no_own_folder(path: str | Path, wanted: str = "a collection") -> None:
    """Raise `CollectionError` for a folder of a kind that holds no source.

    Args:
        path: A file or folder, or nothing.
        wanted: What is wanted instead.
    """
    for kind, (title, hint) in _KINDS.items():
        if is_made_by_visir(path, kind):
            raise CollectionError(
                f"{path}: {title}; not {wanted}.", hint=hint.format(path=shlex.quote(str(path)), name=str(path))
            )
