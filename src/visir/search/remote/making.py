"""What a build on a server leaves when it is killed: a collection that nobody knows of, unless it was written down."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from visir.files import read_json, write_json
from visir.locks import locked_or
from visir.search.remote.engine import EngineError
from visir.search.remote.server import ServerEngine
from visir.search.remote.settings import Place


@contextlib.contextmanager
def noted(folder: Path, settings: Any, index: str) -> Iterator[None]:
    """Write down, beside the folder to be, which collection is being made for it.

    What a killed build of the same folder has left on its server is removed first. Raises `EngineError` while another
    process builds this very folder.
    """
    note, lock = (folder.with_name(f".{folder.name}.{what}") for what in ("making", "making-lock"))
    busy = EngineError(f"{folder}: another process is building this index.", hint="wait until it is done")
    with locked_or(lock, busy):
        if note.is_file():
            left = read_json(note)
            with contextlib.suppress(EngineError):  # its server is gone, or it never came to be
                forget(left["url"], left["collection"], left["index"])
        write_json(note, {"url": settings.url, "collection": settings.collection, "index": index})
        try:
            yield
        finally:
            note.unlink(missing_ok=True)
            lock.unlink(missing_ok=True)


def forget(url: str, collection: str, index: str) -> bool:
    """Delete this index's collection; False when there is none, or one of another index under its name."""
    server = ServerEngine(collection, Place(url=url, collection=collection))
    try:
        mine = server.belongs_to(index)
        if mine:
            server.destroy()
        return mine
    finally:
        server.close()
