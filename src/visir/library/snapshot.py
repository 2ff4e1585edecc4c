"""`LibrarySnapshot`: a searchable folder, opened for reading."""

from __future__ import annotations

import stat
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.collections.images import SCENE, ImageReader, content_id
from visir.errors import ImageError
from visir.library.check import (
    PICTURE,
    Item,
    ItemFile,
    check_at_open,
    check_together,
    load_index,
    load_words,
    manifests_of,
    media_type_of,
)
from visir.library.database import OWN_FILES, Database, FieldColumns
from visir.library.duplicates import Hashes
from visir.library.filters import Field, FieldCondition, fields_of, select
from visir.library.layout import (
    CAPTIONS,
    LIBRARY,
    SYSTEMS,
    LibraryCard,
    LibraryError,
    UnknownItemError,
    thumbnail_path,
)
from visir.library.pictures import thumbnail_digest
from visir.library.product_words import ProductWords
from visir.records import Collection
from visir.retrieval.index import Index
from visir.storage import Manifest
from visir.storage.claims import is_held
from visir.storage.manifest import LOG

# The pictures themselves, where the source has them.


def read_original(root: Path, item: Item, picture: int | None = None) -> bytes:
    """The bytes of an item (a generated scene: PNG). Raises `LibraryError` when no file has them any more."""
    reasons = []
    pictures = [file for file in item.files if file.content]
    for file in pictures[picture - 1 : picture] if picture is not None else pictures or item.files:
        if file.place is None:
            reasons.append(f"{file.path}: the source has no picture of it")
            continue
        scene = file.place.startswith(SCENE)
        content = file.content or item.id
        same = content_id(file.place.encode()) == content if scene else _may_be(root, file, item)
        if not same:
            reasons.append(f"{file.path}: it has changed since")
            continue
        reader = ImageReader(Collection.build("original", images={"id": [file.path], "path": [file.place],
                                              "archive": [file.archive]}, root=root))  # fmt: skip
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


_PATIENCE = 5.0
"""Seconds for which a library that is being changed at this moment is looked at again."""
_SHORTEST_ID = 4
"""Digits of an id that may stand for all of it."""
_ITEM = "id, width, height, format, bytes, taken, camera, category, added, phash"


class LibrarySnapshot:
    """A library that is open for reading; safe to use from several threads.

    It stays as it was opened while an update is under way; `reload` gives the newest state. An item that an index finds
    but `existing` does not is being added or has just been deleted: leave it out.

    Attributes:
        folder: Where it lies.
        card: What its `visir.json` says.
        name: What people call it.
        indexes: "dense" and/or "sparse"; a document's id is the item's.
        captions: A dense index of the source's captions (a document's id is the caption's); None where there are none.
        words: Of products, for search by words; None where there are none.
        model: A name as `visir.encoders.load` takes it; empty in a library without vectors.
        head: Likewise, of the sparse head: None without a sparse index, and equal to `model` in a library that has no
            dense one.
        generation: Grows with every update that changes something.
        database: For queries of one's own, by `database.rows`; `visir.library.database` describes its tables.

    Example:
        >>> from PIL import Image
        >>> from visir.library import update
        >>> Path("photos").mkdir()
        >>> Image.new("RGB", (64, 48), "red").save("photos/red.png")
        >>> _ = update("photos", "photos.visir", model="pixels")
        >>> with LibrarySnapshot.open("photos.visir") as library:
        ...     [item] = library.items(library.indexes["dense"].ids.to_pylist())
        ...     len(library), item.name, item.width, sorted(library.fields)[:3]
        (1, 'red.png', 64, ['bytes', 'camera', 'caption'])
    """

    def __init__(
        self,
        folder: Path,
        manifests: Mapping[str, Manifest],
        database: Database,
        indexes: Mapping[str, Index[Any]],
        words: ProductWords | None = None,
    ) -> None:
        self.folder, self.database = folder, database
        self._manifests = manifests
        self.card = LibraryCard.of(manifests[""])
        self.indexes = {system: indexes[system] for system in SYSTEMS if system in indexes}
        self.captions: Index[Any] | None = indexes.get(CAPTIONS)
        self.words = words
        self.name, self.model, self.head = self.card.name, self.card.model, self.card.head
        self.generation = self.card.generation

    def label(self, system: str) -> str:
        """What people call a system of this library: "late interaction" where the model makes several vectors."""
        from visir.retrieval.kinds import KINDS

        kind = self.card.kinds.get("dense") if system == "dense" else None
        return "late interaction" if kind and KINDS.get(kind).vectors == "multi-vector" else system

    @classmethod
    def open(cls, folder: str | Path) -> LibrarySnapshot:
        """Open a library. Raises `LibraryError` when it is missing, damaged, half copied, or of a newer visir."""
        return cls._open(Path(folder))

    @classmethod
    def _open(cls, folder: Path, held: ProductWords | None = None) -> LibrarySnapshot:
        until = time.monotonic() + _PATIENCE
        while True:
            manifest = Manifest.read(folder, LIBRARY)
            try:
                return cls._of(folder, manifest, held)
            except LibraryError:
                # An update was committed between one look and the next, or is just putting an index into its place:
                # then what was seen belongs to two states.
                changed = Manifest.read(folder, LIBRARY) != manifest
                if not changed and (time.monotonic() > until or not is_held(folder / LOG)):
                    raise
                if not changed:
                    time.sleep(0.02)

    @classmethod
    def _of(cls, folder: Path, manifest: Manifest, held: ProductWords | None) -> LibrarySnapshot:
        card = LibraryCard.of(manifest)
        manifests = manifests_of(folder, card, manifest)
        check_at_open(folder, manifests)
        database = Database.open(folder / card.database)
        try:
            indexes = {name: load_index(folder / card.place(name)) for name in card.indexes}
            # A caption without a single known word has a vector of zeros, and is in no index: captions say nothing.
            ids = {name: index.ids.to_pylist() for name, index in indexes.items() if name != CAPTIONS}
            check_together(folder, database, ids)
            return cls(folder, manifests, database, indexes, load_words(folder, card, held))
        except BaseException:
            database.close()
            raise

    def item(self, id: str) -> Item:
        """Everything known of one picture. Raises `UnknownItemError` for an unknown id."""
        return self.items([id])[0]

    def items(self, ids: Iterable[str]) -> list[Item]:
        """Several items, in this order. Raises `UnknownItemError` that names the unknown ones."""
        item_ids = list(ids)
        rows = {row[0]: row for row in self.database.of(f"SELECT {_ITEM} FROM items WHERE id IN", item_ids)}
        unknown = [item for item in item_ids if item not in rows]
        if unknown:
            named = ", ".join(map(repr, unknown[:3])) + (", …" if len(unknown) > 3 else "")
            raise UnknownItemError(
                f"{self.name}: no picture {named}.", hint="was it deleted meanwhile? search again", code="no-picture"
            )
        files: dict[str, list[ItemFile]] = defaultdict(list)
        for item, *about in self.database.of(
            "SELECT item, path, name, place, archive, category, mark FROM files WHERE item IN", item_ids
        ):
            path, name, place, archive, category, mark = about
            content = mark.removeprefix(PICTURE) if mark.startswith(PICTURE) else ""
            files[item].append(ItemFile(path, name, place, archive, category, content))
        captions: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for item, caption, text in self.database.of("SELECT item, id, text FROM captions WHERE item IN", item_ids):
            captions[item].append((caption, text))
        fields: dict[str, list[tuple[str, Any]]] = defaultdict(list)
        for item, name, value in self.database.of("SELECT item, name, value FROM fields WHERE item IN", item_ids):
            fields[item].append((name, value))
        return [
            Item(
                item,
                tuple(sorted(files[item], key=lambda file: (bool(file.content), file.path))),
                tuple(sorted(captions[item])),
                tuple(fields[item]),
                *(*rows[item][1:], self.card.unit == "products"),
            )
            for item in item_ids
        ]

    def id_of(self, like: str) -> str:
        """The id of a picture, from its id, the beginning of it, the path of a file of it, or the file's name.

        Paths are as the library shows them. Raises `UnknownItemError` unless it names exactly one picture.
        """
        if self.existing([like]):
            return like
        rows = self.database.rows
        files = rows("SELECT item, min(path) FROM files WHERE path = ? GROUP BY item", (like,))
        files = files or rows("SELECT item, min(path) FROM files WHERE name = ? GROUP BY item", (like,))
        if not files and len(like) >= _SHORTEST_ID:
            begin = "SELECT id, id FROM items WHERE substr(id, 1, ?) = ? LIMIT 10"
            files = rows(begin, (len(like), like))
        if len(files) == 1:
            return str(files[0][0])
        if not files:
            raise UnknownItemError(
                f"{self.name}: no picture {like!r}.",
                hint="give its id, its path in the library, or its file's name",
                code="no-picture",
            )
        paths = ", ".join(path for _, path in files[:3]) + (", …" if len(files) > 3 else "")
        raise UnknownItemError(
            f"{self.name}: {len(files)} pictures are called {like!r}.",
            hint=f"give one of: {paths}",
            code="pictures-called",
        )

    def ids(self) -> list[str]:
        """The ids of all pictures, by the path of their first file."""
        rows = self.database.rows("SELECT item FROM files GROUP BY item ORDER BY min(path)")
        return [item for (item,) in rows]

    @property
    def listed(self) -> tuple[NDArray[np.int64], str]:
        """The rows of all items (in `columns.ids`) in the order of lists where nothing is searched, and its name.

        "newest first" by the date that a picture was taken, those without one behind, by name; "by name" (of the first
        file, and where it lies) where no picture has a date.
        """

        def read() -> tuple[NDArray[np.int64], str]:
            names = f"SELECT item FROM files WHERE {OWN_FILES} GROUP BY item ORDER BY min(name), min(path)"
            ids = [item for (item,) in self.database.rows(names)]
            dates = self.database.rows("SELECT taken, id FROM items WHERE taken IS NOT NULL")
            newest = {item: place for place, (_, item) in enumerate(sorted(dates, reverse=True))}
            ids.sort(key=lambda item: newest.get(item, len(newest)))  # stable: those without a date stay by name
            rows: NDArray[np.int64] = self.columns.rows_of(ids)
            return rows, "newest first" if newest else "by name"

        order: tuple[NDArray[np.int64], str] = self.columns.once("listed", read)
        return order

    def existing(self, ids: Iterable[str]) -> set[str]:
        """The ids that the library has."""
        items = list(ids)
        return {item for item, row in zip(items, self.columns.rows_of(items).tolist(), strict=True) if row >= 0}

    def caption(self, id: str) -> tuple[str, str]:
        """(item id, text) of a caption. Raises `LibraryError` for an unknown id."""
        rows = self.database.rows("SELECT item, text FROM captions WHERE id = ?", (id,))
        if not rows:
            raise LibraryError(f"{self.name}: no caption {id!r}.")
        item, text = rows[0]
        return item, text

    def __len__(self) -> int:
        return int(self.database.value("SELECT count(*) FROM items"))

    def where(self, conditions: Sequence[FieldCondition], category: str | None = None) -> set[str]:
        """The ids of the pictures that satisfy all conditions and lie in `category` or below (`visir.library.facets`).

        Raises `FilterError` for unknown fields, and for values that do not fit them.
        """
        return set(select(self.columns, conditions, self.fields, category=category).to_pylist())

    def near_duplicates(self, id: str) -> list[tuple[str, int]]:
        """(id, bits that differ) of the pictures that a person would call the same, nearest first."""
        hashes: Hashes = self.columns.once("hashes", lambda: Hashes.of(self.database))
        return hashes.near(id)

    def thumbnail(self, id: str) -> bytes | None:
        """A WebP picture of at most 320 × 320 pixels; None when it is missing or damaged."""
        digest = self.database.value("SELECT thumbnail FROM items WHERE id = ?", (id,))
        if digest is None:
            return None
        try:
            data = thumbnail_path(self.folder, id).read_bytes()
        except OSError:
            return None
        return data if thumbnail_digest(data) == digest else None

    def open_image(self, id: str, picture: int | None = None) -> tuple[bytes, str]:
        """The original's bytes and its media type ("image/jpeg").

        Args:
            id: The item.
            picture: Of a product one of its pictures, from 1; None for the first.

        Raises `LibraryError` when no file of the item has this content any more: moved, changed, or on a disk that is
        not there.
        """
        item = self.item(id)
        data = read_original(Path(self.card.root), item, picture)
        return data, item.media_type if picture in (None, 1) else media_type_of(data)

    def reload(self) -> LibrarySnapshot:
        """The newest state: this library itself when nothing changed, else another one, newly opened.

        The old one can be used to the end of what it is used for; close it then.
        """
        now = Manifest.read(self.folder, LIBRARY)
        return self if now == self._manifests[""] else LibrarySnapshot._open(self.folder, self.words)

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    def __enter__(self) -> LibrarySnapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def columns(self) -> FieldColumns:
        """The columns that conditions compare, read at first use."""
        return FieldColumns(self.database.rows)

    @property
    def fields(self) -> Mapping[str, Field]:
        """The fields that conditions can name."""
        fields: Mapping[str, Field] = self.columns.once("fields", lambda: fields_of(self.database.rows))
        return fields
