"""Folders that visir made of a collection, given where a collection is wanted: what they are, and what to do."""

from __future__ import annotations

import shlex
from pathlib import Path

from visir.errors import CollectionError, VisirError
from visir.remote import RemoteFolder, is_url
from visir.storage import MANIFEST, Manifest, is_made_by_visir

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
    """Raise `CollectionError` for a folder of a kind that holds no source; nothing of it is copied.

    Args:
        path: A file or folder, or nothing; or an address.
        wanted: What is wanted instead.
    """
    elsewhere = kind_elsewhere(str(path)) if is_url(path) else None
    for kind, (title, hint) in _KINDS.items():
        if elsewhere == kind or (not is_url(path) and is_made_by_visir(path, kind)):
            action = hint.format(path=shlex.quote(str(path)), name=str(path))
            if elsewhere == "index":
                action = f"copy it to a disk here, and name the copy; {action}"
            raise CollectionError(f"{path}: {title}; not {wanted}.", hint=action)


def kind_elsewhere(url: str) -> str | None:
    """The kind of the folder at an address, by one small file in it, `visir.json`.

    Args:
        url: The address, with or without options behind a question mark.

    Returns:
        None for what visir did not make, and for an address that does not answer: whoever reads it says that.
    """
    try:
        data = RemoteFolder(url.partition("?")[0]).read(MANIFEST)
        return None if data is None else Manifest.from_bytes(data, url).kind
    except VisirError:
        return None
