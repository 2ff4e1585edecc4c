"""What a build on a server leaves when it is killed: a collection that nobody knows of, unless it was written down.

The build writes it into the log of its scratch folder. Whoever makes something in the same place next, with this module
loaded, deletes the collection.
"""

from __future__ import annotations

from typing import Any

from visir.retrieval.remote.engine import EngineError
from visir.retrieval.remote.server import ServerEngine
from visir.retrieval.remote.settings import Place
from visir.storage import scratch

COLLECTION = "qdrant collection"
"""The name of the fact in the log: {url, collection, index}."""


def forget(url: str, collection: str, index: str, *, timeout: int = 60, retries: int = 3) -> bool:
    """Delete this index's collection; False when there is none, or one of another index under its name.

    Raises `EngineError` when the server cannot be reached.
    """
    server = ServerEngine(collection, Place(url=url, collection=collection, timeout=timeout, retries=retries))
    try:
        mine = server.exists() and server.belongs_to(index)
        if mine:
            server.destroy()
        return mine
    finally:
        server.close()


def _undo(fact: dict[str, Any]) -> bool:
    try:
        forget(fact["url"], fact["collection"], fact["index"], timeout=5, retries=0)
    except EngineError:  # the server is not there now; the note stays, and the next one tries again
        return False
    return True


scratch.undo[COLLECTION] = _undo
