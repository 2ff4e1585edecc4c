"""The pictures themselves, where the source has them."""

from __future__ import annotations

import stat
from pathlib import Path

from visir.collections.digests import content_id
from visir.collections.images import SCENE, ImageReader
from visir.errors import ImageError
from visir.library.item import Item, ItemFile
from visir.library.layout import LibraryError
from visir.records import Collection


class Originals:
    """Reads originals under a root; archives are opened once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._readers: dict[str | None, ImageReader] = {}

    def read(self, item: Item, picture: int | None = None) -> bytes:
        """The bytes of an item (a generated scene: PNG). Raises `LibraryError` when no file has them any more."""
        reasons = []
        pictures = [file for file in item.files if file.content]
        for file in pictures[picture - 1 : picture] if picture is not None else pictures or item.files:
            if file.place is None:
                reasons.append(f"{file.path}: the source has no picture of it")
                continue
            scene = file.place.startswith(SCENE)
            content = file.content or item.id
            same = content_id(file.place.encode()) == content if scene else _may_be(self.root, file, item)
            if not same:
                reasons.append(f"{file.path}: it has changed since")
                continue
            reader = ImageReader(Collection.build("original", images={"id": [file.path], "path": [file.place],
                                                  "archive": [file.archive]}, root=self.root))  # fmt: skip
            try:
                data = reader.read(0)
            except ImageError as fault:
                reasons.append(fault.message)
                continue
            if scene or content_id(data) == content:
                return data
            reasons.append(f"{file.path}: it has changed since")
        raise LibraryError(
            "; ".join(reasons) or f"{item.name}: has no picture {picture}.",
            hint="bring the library up to date: visir library make PLACE --out LIBRARY",
        )


def _may_be(root: Path, file: ItemFile, item: Item) -> bool:
    """Whether a file of the item's size lies there: a pipe is never waited for, a device without end never read."""
    try:
        status = (root / (file.archive or file.place or "")).stat()
    except OSError:
        return True  # reading says why
    except ValueError:  # a name that no file can have
        return False
    of_size = bool(file.archive or file.content) or status.st_size == item.bytes
    return stat.S_ISREG(status.st_mode) and of_size
