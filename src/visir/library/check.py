"""What can be verified of a library without its source."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from visir.library.layout import DATABASE


def database_digest(folder: Path) -> dict[str, Any]:
    """Size and hash of the database's file."""
    path = folder / DATABASE
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    return {"bytes": path.stat().st_size, "hash": digest}
