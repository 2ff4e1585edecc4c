"""What a collection (in PostgreSQL: a table) on a server is called, and how messages say where it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from visir.retrieval.remote.families import family_of

_LONGEST = 40
"""Letters of a name that are kept: PostgreSQL takes names of up to 63 bytes."""


def name_collection(name: str, number: str, part: str = "") -> str:
    """A name for a new collection: what it is of, and a piece of a random number, so that no two meet by chance."""
    plain = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in name)
    stem = plain[: _LONGEST - len(part)].strip("-")
    return "-".join(filter(None, ["visir", stem, part, number[:12]]))


def place_on_server(settings: Mapping[str, Any]) -> str:
    """Where an index of these settings lies on its server, for people."""
    url, collection = settings["url"], settings["collection"]
    name = f"{settings['schema']}.{collection}" if settings.get("schema") else repr(collection)
    return f"the {family_of(url).holder} {name} at {url}"
