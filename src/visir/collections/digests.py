"""Hashes of pictures' bytes: equal ones are the same picture, whatever it is called."""

from __future__ import annotations

import hashlib

from visir.collections.images import ImageReader
from visir.progress import Progress
from visir.records import HasImages


def content_id(data: bytes) -> str:
    """What the bytes of a picture are called: 32 hexadecimal digits, of their SHA-256."""
    return hashlib.sha256(data).hexdigest()[:32]


def picture_digests(source: HasImages) -> list[str]:
    """(n,) the hash of the bytes of each picture."""
    reader = ImageReader(source)
    digests = []
    with Progress("comparing", len(reader), "images") as advance:
        for row in range(len(reader)):
            digests.append(hashlib.blake2b(reader.read(row), digest_size=16).hexdigest())
            advance(1)
    return digests
