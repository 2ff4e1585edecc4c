"""A shop's products as a library reads them: an item is a product, with all its pictures and its text.

The id of an item is that of what is encoded: the product, its text, and the bytes of its pictures. So a new price
changes fields only, and a new title or picture makes another item, which takes the place of the old one in one step.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from visir.collections.images import ImageReader, content_id
from visir.collections.readers.products import NOTE, PICTURES, PRODUCT
from visir.encoders.store import image_marks
from visir.errors import ImageError
from visir.library.check import PICTURE
from visir.library.layout import OF_PRODUCTS, LibraryError
from visir.library.pictures import Facts, look_at
from visir.library.source import PhotoSource, SourceEntry

_CONTEXT = ("brand", "category", "description")
"""Facts that stand for a title that is missing."""
_LONGEST_TEXT = 300
_SHOWN = 3


@dataclass(frozen=True)
class ProductEntry(SourceEntry):
    """A product of a source."""

    text: str = ""  # what is encoded beside its pictures
    pictures: tuple[SourceEntry, ...] = ()  # those that are at hand, as entries of their own


@dataclass(frozen=True)
class SeenProduct:
    """What reading the pictures of a product gave."""

    entry: ProductEntry  # the product, with the pictures that can be read; the mark of each has the id of its bytes
    item: str  # the id of the item
    facts: Facts | None  # of its first picture; None where the library has the item already
    thumbnail: bytes | None  # of its first picture
    broken: dict[str, ImageError]  # from the name of a picture that cannot be read to its fault


class ShopTable(PhotoSource):
    """A table of products, as a library reads it."""

    not_fields = frozenset({"image_id", PRODUCT, PICTURES})

    @cached_property
    def entries(self) -> list[SourceEntry]:
        """The products, in the order of the table."""
        images, facts = self.collection.images, self.collection.facts
        assert facts is not None, "a table of products has facts"
        columns = zip(*(images[name].to_pylist() for name in ("id", "path", "archive")), strict=True)
        of_product = dict(zip(*(facts[name].to_pylist() for name in ("image_id", PRODUCT)), strict=True))
        marks = image_marks(self.collection).to_pylist()
        pictures: dict[str, list[SourceEntry]] = defaultdict(list)
        first_rows: dict[str, int] = {}
        for row, ((image, path, archive), mark) in enumerate(zip(columns, marks, strict=True)):
            product = of_product[image]
            first_rows.setdefault(product, row)
            if path is not None:
                name = PurePosixPath(path).name
                pictures[product].append(SourceEntry(row, image, mark, name, path, archive, ""))
        titles = {image: text for _, text, image in self.captions}
        entries: list[SourceEntry] = []
        for product, row in first_rows.items():
            title, about = titles.get(product, ""), self._first_facts[product]
            parts = [about.get(name) for name in _CONTEXT]
            texts = [str(text) for part in parts for text in (part if isinstance(part, list) else [part]) if text]
            text = title or ", ".join(texts).replace("/", " ")[:_LONGEST_TEXT] or product
            own = tuple(pictures.get(product, ()))
            category = next(iter(about.get("category") or ()), "")
            entries.append(
                ProductEntry(row, product, _mark(product, text, own), title or product, None, None, category, text, own)
            )
        return entries

    @property
    def remarks(self) -> tuple[str, ...]:
        """How the table was read, and what was counted in it: products without a picture, repeated ids, …."""
        notes = [note.removeprefix(NOTE) for note in self.collection.source.split("; ") if note.startswith(NOTE)]
        at_hand = {entry.path: len(entry.pictures) for entry in self.entries if isinstance(entry, ProductEntry)}
        missing = [
            f"{product}: {names[0]}"
            for product, about in self._first_facts.items()
            if len(names := about.get(PICTURES) or []) > at_hand[product]
        ]
        if missing:
            shown = ", ".join(missing[:_SHOWN]) + (", …" if len(missing) > _SHOWN else "")
            notes.append(f"with pictures that are not there (images= says where they are): {len(missing):,} ({shown})")
        return tuple(notes)

    def marks_now(self, entries: Sequence[SourceEntry]) -> list[str]:
        """The marks of products as their pictures are at this moment."""
        all_pictures = {entry.path: entry.pictures for entry in self.entries if isinstance(entry, ProductEntry)}
        rows = sorted({picture.row for entry in entries for picture in all_pictures[entry.path]})
        marks = image_marks(self.part(rows)).to_pylist() if rows else []
        now = dict(zip(rows, marks, strict=True))
        return [
            _mark(
                entry.path,
                entry.text if isinstance(entry, ProductEntry) else "",
                tuple(replace(picture, mark=now[picture.row]) for picture in all_pictures[entry.path]),
            )
            for entry in entries
        ]

    def check_pictures(self, had_pictures: bool) -> None:
        """Raise `LibraryError` where the table names pictures, none is there, and the library has some."""
        named = any(about.get(PICTURES) for about in self._first_facts.values())
        if had_pictures and named and not any(getattr(entry, "pictures", ()) for entry in self.entries):
            raise LibraryError(
                f"{self.collection.name}: none of the pictures that it names is there: moved, or on a disk that is not "
                "mounted? The library is as it was.",
                hint="mount the disk, or say where they are: visir library make TABLE --images FOLDER --out LIBRARY",
                code="none-pictures-names",
            )

    @cached_property
    def _first_facts(self) -> dict[str, dict[str, Any]]:
        """From product to what the table says of it, which stands beside its first picture."""
        facts = self.collection.facts
        assert facts is not None, "a table of products has facts"
        rows = facts.select([name for name in (PRODUCT, PICTURES, *_CONTEXT) if name in facts.column_names]).to_pylist()
        first: dict[str, dict[str, Any]] = {}
        for row in rows:
            first.setdefault(row[PRODUCT], row)
        return first


def see(reader: ImageReader, entry: ProductEntry, has: frozenset[str] | set[str]) -> SeenProduct:
    """Read the pictures of a product."""
    broken: dict[str, ImageError] = {}
    pictures: list[SourceEntry] = []
    shown: tuple[Facts, bytes | None] | None = None
    hashed = hashlib.sha256(f"product\0{entry.path}\0{entry.text}".encode())
    for picture in entry.pictures:
        try:
            data = reader.read(picture.row)
            shown = shown or look_at(reader, picture, data)
        except ImageError as fault:
            broken[f"{entry.path}: {picture.name}"] = fault
            continue
        content = content_id(data)
        hashed.update(f"\0{content}".encode())
        pictures.append(replace(picture, mark=PICTURE + content))
    item = hashed.hexdigest()[:32]
    facts, thumbnail = shown or (Facts(), None)
    entry = replace(entry, pictures=tuple(pictures))
    return SeenProduct(entry, item, None if item in has else facts, None if item in has else thumbnail, broken)


def _mark(product: str, text: str, pictures: Sequence[SourceEntry]) -> str:
    parts = [product, text, *(f"{picture.place}\0{picture.archive}\0{picture.mark}" for picture in pictures)]
    return hashlib.blake2b("\0\0".join(parts).encode(), digest_size=12).hexdigest()


# What a library can be made of: photos and collections, or a table of products.


def is_table_of_products(source: str) -> bool:
    """Whether a source, as `visir.library.source.absolute` wrote it down, is a table of products."""
    return source.partition(":")[0] in OF_PRODUCTS  # as `LibraryCard.unit`


def open_source(source: str, *, images: Sequence[str] = (), split: str | None = None) -> PhotoSource:
    """Open the source of a library. Raises `CollectionError` where it cannot be, `LibraryError` where it is empty."""
    kind = ShopTable if is_table_of_products(source) else PhotoSource
    return kind.open(source, images=images, split=split)
