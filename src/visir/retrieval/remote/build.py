"""What a build on a server leaves when it is killed: a collection that nobody knows of, unless it was written down.

The build writes it into the log of its scratch folder. Whoever makes something in the same place next, with this module
loaded, deletes the collection.
"""

from __future__ import annotations

from typing import Any

from visir.retrieval.remote.engine import EngineError
from visir.retrieval.remote.families import family_of
from visir.retrieval.remote.settings import Server
from visir.storage import scratch

COLLECTION = "qdrant collection"
"""The name of the fact in the log, of every engine: {url, collection, index}, and the schema in PostgreSQL."""


def fact_of(settings: Server, index: str) -> dict[str, Any]:
    """What is written down of a collection that is about to be made."""
    where = {name: getattr(settings, name) for name in ("url", "collection", "schema") if hasattr(settings, name)}
    return {**where, "index": index}


def forget(fact: dict[str, Any], *, timeout: int = 60, retries: int = 3) -> bool:
    """Delete the collection that was written down; False when there is none, or one of another index under its name."""
    # Raises `EngineError` when the server cannot be reached.
    family = family_of(fact["url"])
    where = {name: value for name, value in fact.items() if name != "index"}
    server = family.engine()(fact["collection"], family.place()(**where, timeout=timeout, retries=retries))
    try:
        mine: bool = server.exists() and server.read_mark().index == fact["index"]
        if mine:
            server.destroy()
        return mine
    finally:
        server.close()


def _undo(fact: dict[str, Any]) -> bool:
    try:
        forget(fact, timeout=5, retries=0)
    except EngineError:  # the server is not there now; the note stays, and the next one tries again
        return False
    return True


scratch.undo[COLLECTION] = _undo
