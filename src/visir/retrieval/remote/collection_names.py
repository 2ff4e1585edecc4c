"""What a collection (in PostgreSQL: a table) on a server is called, and how messages say where it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from visir.retrieval.remote.families import family_of

_LONGEST = 40
"""Letters of a name that are kept: PostgreSQL takes names of up to 63 bytes."""


def name_collection(name: str, number: str, part: str = "") -> str:
    """A name for a new collection: what it is of, and a piece of a random number, so that no two meet by chance.

    Args:
        name: Of the folder of the index, or of the library.
        number: A random number in hexadecimal digits.
        part: Which index of a library.

    Example:
        >>> name_collection("my photos.visir", "0123456789abcdef", "dense")
        'visir-my-photos-visir-dense-0123456789ab'
    """
    plain = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in name)
    stem = plain[: _LONGEST - len(part)].strip("-")
    return "-".join(filter(None, ["visir", stem, part, number[:12]]))


def place_on_server(settings: Mapping[str, Any]) -> str:
    """Where an index of these settings lies on its server, for people.

    Example:
        >>> place_on_server({"url": "http://here:6333", "collection": "photos"})
        "the collection 'photos' at http://here:6333"
        >>> place_on_server({"url": "postgresql://me@here/db", "collection": "photos", "schema": "visir"})
        'the table visir.photos at postgresql://me@here/db'
    """
    url, collection = settings["url"], settings["collection"]
    name = f"{settings['schema']}.{collection}" if settings.get("schema") else repr(collection)
    return f"the {family_of(url).holder} {name} at {url}"
