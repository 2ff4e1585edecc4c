"""Checks that a library is as it was written: at opening, and completely by `visir library check`.

The library's manifest has size and hash of the database, each index's manifest those of its files. None of these files
ever changes, so what differs is damaged. Whether database and indexes belong together is seen by their ids: every
picture of the database is in every index.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visir.collections.cells import price_in_words
from visir.errors import MissingPackageError, VisirError, raise_faults
from visir.library.database import Database
from visir.library.layout import CAPTIONS, COPY_AGAIN, LIBRARY, LibraryCard, LibraryError, thumbnail_name
from visir.library.pictures import thumbnail_digest
from visir.library.product_words import ProductWords, open_words, texts_of
from visir.retrieval.index import INDEX, Index, late_files
from visir.storage import Manifest, digest_once

# One picture of a library.

PICTURE = "picture:"
"""How the mark of a picture of a product begins in the table of files: the id of its bytes follows."""


@dataclass(frozen=True)
class ItemFile:
    """One place where a picture lies.

    Attributes:
        path: Its id in the source; for a folder of photos the path relative to it.
        name: The file's name.
        place: As `path` in `Collection.images`; None where the source has no pictures.
        archive: As in `Collection.images`.
        category: The folder it lies in, or the category that the source names.
        content: The id of its bytes, where that is not the item's: of a picture of a product.
    """

    path: str
    name: str
    place: str | None
    archive: str | None
    category: str
    content: str = ""


@dataclass(frozen=True)
class Item:
    """A picture by content: equal files are one item.

    Attributes:
        id: The first 32 hexadecimal digits of the SHA-256 of its bytes; where there are none, of the generated scene's
            description, or of the image's id in the source.
        files: Where it lies, at least one, by path.
        captions: (caption id, text).
        fields: (name, value): what the source says of it.
        width: Upright, in pixels; None without bytes, as for the next three.
        height: Upright, in pixels.
        format: As Pillow calls it ("JPEG").
        bytes: Of the file.
        taken: ISO 8601; in UTC where the camera knew its time zone, and then it ends in "Z".
        camera: Maker and model.
        category: Of the first file.
        added: When the library first saw it, for people to read.
        phash: 64 hexadecimal digits that near duplicates nearly share (`visir.library.duplicates`).
        is_product: Whether it is a product of a shop: its first file is the product, the others are its pictures.
    """

    id: str
    files: tuple[ItemFile, ...]
    captions: tuple[tuple[str, str], ...]
    fields: tuple[tuple[str, str | int | float], ...]
    width: int | None
    height: int | None
    format: str | None
    bytes: int | None
    taken: str | None
    camera: str | None
    category: str
    added: str
    phash: str | None
    is_product: bool = False

    @property
    def name(self) -> str:
        """What to call it: the name of its first file."""
        return self.files[0].name

    @property
    def product(self) -> str | None:
        """The id of the product; None for a photo."""
        return self.files[0].path if self.is_product else None

    @property
    def price(self) -> str:
        """The price of a product as text, with its currency: "49.9 EUR", "10.99–20.99 USD"; "" without one."""
        prices = [value for name, value in self.fields if name == "price" and not isinstance(value, str)]
        currency = next((str(value) for name, value in self.fields if name == "currency"), "")
        return price_in_words(prices, currency)

    @property
    def media_type(self) -> str:
        """As HTTP calls the format ("image/jpeg")."""
        return MEDIA_TYPES.get(self.format or "", "application/octet-stream")


def media_type_of(data: bytes) -> str:
    """The media type of the bytes of a picture, by how they begin."""
    for begin, kind in {b"\x89PNG": "PNG", b"\xff\xd8": "JPEG", b"GIF8": "GIF", b"BM": "BMP"}.items():
        if data.startswith(begin):
            return MEDIA_TYPES[kind]
    return MEDIA_TYPES["WEBP"] if data[8:12] == b"WEBP" else "application/octet-stream"


MEDIA_TYPES = {
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",
    "PNG": "image/png",
    "GIF": "image/gif",
    "WEBP": "image/webp",
    "BMP": "image/bmp",
    "TIFF": "image/tiff",
    "AVIF": "image/avif",
    "HEIF": "image/heif",
    "JPEG2000": "image/jp2",
    "PPM": "image/x-portable-anymap",
}
"""Of the formats that a library takes, by Pillow's names."""


Progress = Callable[[str, int, int], None]


def manifests_of(folder: Path, card: LibraryCard, manifest: Manifest) -> dict[str, Manifest]:
    """The manifests of the library and of its indexes, by the name of the folder ("" for the library itself)."""
    # Raises `LibraryError` when one is missing or damaged.
    manifests = {"": manifest}
    for name in card.indexes:
        try:
            manifests[card.place(name)] = Manifest.read(folder / card.place(name), INDEX)
        except VisirError as fault:
            raise LibraryError(fault.message, hint=COPY_AGAIN) from fault
    return manifests


def check_at_open(folder: Path, manifests: Mapping[str, Manifest]) -> None:
    """Raise `LibraryError` that lists every file that is not as it was written."""
    # Before any of them is read: readers of arrays, Parquet and graphs raise nearly anything over a damaged byte. The
    # large arrays of indexes are hashed while they are in use (`visir.retrieval.index.check_files`).
    faults = []
    for name, manifest in manifests.items():
        at_once = set(manifest.files) - set(late_files(manifest) if name else ())
        faults += [
            f"{name}/{fault}" if name else fault
            for fault in manifest.faults(folder / name, hashed=at_once.__contains__, digest=digest_once)
        ]
    raise_faults(LibraryError, f"{folder}: the library is damaged, or only half copied", faults, hint=_mend(folder))


def check_together(folder: Path, database: Database, ids: Mapping[str, Iterable[str]]) -> None:
    """Raise `LibraryError` unless every picture of the database is in every index of pictures (`ids`)."""
    raise_faults(
        LibraryError,
        f"{folder}: the library is damaged, or only half copied",
        _absent(database, ids),
        hint=_mend(folder),
    )


def _mend(folder: Path, part: str = "the part that is named") -> str:
    """The hint for a damaged library. It tells nobody to delete the part, which may hold files of others."""
    return f"move {part} out of {folder} and run visir library update {shlex.quote(str(folder))}: it is made anew"


def load_index(folder: Path) -> Index[Any]:
    """One index of a library. Raises `LibraryError` when it is missing or damaged."""
    # `EngineError` where it lies on a server that cannot be reached: nothing is wrong with the library then.
    from visir.retrieval.kinds import open_index
    from visir.retrieval.remote.engine import EngineError

    try:
        with mended_by_update(folder.parent, folder.name):
            return open_index(folder)
    except (EngineError, MissingPackageError):
        raise
    except VisirError as fault:
        hint = _mend(folder.parent, folder.name)
        if fault.code in ("index-kind-no-more", "index-embedded-no-more"):
            hint += "; add --kind exact, for weighted words --kind inverted, for several vectors --kind maxsim"
        raise LibraryError(fault.message, hint=hint) from fault
    except Exception as fault:  # damaged arrays, Parquet files and graphs raise nearly anything
        raise LibraryError(
            f"{folder}: the index is damaged: {fault!r}", hint=_mend(folder.parent, folder.name)
        ) from fault


@contextmanager
def mended_by_update(folder: Path, part: str) -> Iterator[None]:
    """Say of an index whose collection is gone, or another's, how a library gets it again."""
    # An index alone is built again, which the hint of the engine says. A library makes its own.
    from visir.retrieval.remote.engine import BUILD_ON_SERVER, EngineError

    try:
        yield
    except EngineError as fault:
        if fault.hint and BUILD_ON_SERVER in fault.hint:
            raise EngineError(fault.message, hint=_mend(folder, part)) from fault
        raise


def load_words(folder: Path, card: LibraryCard, held: ProductWords | None = None) -> ProductWords | None:
    """The words of a library, as `open_words` does. Raises `LibraryError` when they are damaged."""
    try:
        return open_words(folder, card, held)
    except VisirError as fault:
        raise LibraryError(fault.message, hint=_mend(folder, card.words["place"])) from fault


def check_before_change(folder: Path) -> None:
    """Raise `LibraryError` unless every file is as it was written: before an update copies from it, whatever its
    size."""
    # Without this an update would give a damaged vector a new, correct checksum.
    manifest = Manifest.read(folder, LIBRARY)
    card = LibraryCard.of(manifest)
    names = [place for place in map(card.place, card.indexes) if (folder / place).is_dir()]
    for name, manifest_of_folder in {
        "": manifest,
        **{name: Manifest.read(folder / name, INDEX) for name in names},
    }.items():
        # A deleted database is made anew.
        faults = [fault for fault in manifest_of_folder.faults(folder / name) if name or "is missing" not in fault]
        raise_faults(
            LibraryError,
            f"{folder}: the library is damaged",
            [f"{name}/{fault}" if name else fault for fault in faults],
            hint=_mend(folder, name) if name else _mend(folder),
            code="library-damaged",
        )


def check(folder: str | Path, callback: Progress = lambda stage, done, total: None) -> list[str]:
    """Everything that is wrong with a library, as sentences; reads every byte of it. Empty for a sound one."""
    folder = Path(folder)
    manifest = Manifest.read(folder, LIBRARY)
    card = LibraryCard.of(manifest)
    try:
        manifests = manifests_of(folder, card, manifest)
        database = Database.open(folder / card.database)
    except LibraryError as fault:
        return [fault.message]
    try:
        faults = [f"{card.database}: {fault}" for fault in database.faults()]
        if faults:
            return faults
        for name, manifest_of_folder in manifests.items():
            differing = manifest_of_folder.faults(
                folder / name, callback=lambda done, total: callback("checking", done, total)
            )
            faults += [f"{name}/{fault}" if name else fault for fault in differing]

        def is_damaged(place: str) -> bool:
            """Whether a fault of its files is known: opening it would say the same again."""
            return any(fault.startswith(f"{place}/") for fault in faults)

        ids: dict[str, list[str]] = {}
        for name in card.indexes:
            if is_damaged(card.place(name)):
                continue
            try:
                indexed = load_index(folder / card.place(name)).ids.to_pylist()
                ids |= {} if name == CAPTIONS else {name: indexed}
            except VisirError as fault:
                faults.append(fault.message)
        faults += _absent(database, ids)
        words = None if card.words and is_damaged(card.words["place"]) else load_words(folder, card)
        if words is not None and words.index.updated(*texts_of(database, card)) is not words.index:
            faults.append(f"{words.place}/ has other texts than {card.database}")
        orphans = database.value("SELECT count(*) FROM items WHERE id NOT IN (SELECT item FROM files)")
        if orphans:
            faults.append(f"{card.database}: {orphans:,} items without a file")
        faults += _thumbnails(folder, database)
    except LibraryError as fault:
        faults.append(fault.message)
    finally:
        database.close()
    return faults


def check_beside_manifest(folder: Path) -> tuple[set[str], list[str], list[str]]:
    """(files that the database names, faults, nothing) of a library: pictures for the page are in no manifest."""
    faults = check(folder)
    try:
        card = LibraryCard.of(Manifest.read(folder, LIBRARY))
        with closing(Database.open(folder / card.database)) as database:
            rows = database.rows("SELECT id FROM items WHERE thumbnail IS NOT NULL")
            return {thumbnail_name(item) for (item,) in rows}, faults, []
    except LibraryError:
        return set(), faults, []


def _absent(database: Database, ids: Mapping[str, Iterable[str]]) -> list[str]:
    """Items of the database that an index lacks."""
    faults = []
    for system, indexed in ids.items():
        indexed_ids = set(indexed)
        rows = database.rows("SELECT id FROM items")
        lacking = sum(id not in indexed_ids for (id,) in rows)
        if lacking:
            faults.append(f"{system}/ lacks {lacking:,} of {len(rows):,} items")
    return faults


def _thumbnails(folder: Path, database: Database) -> list[str]:
    faults = []
    for item, digest in database.rows("SELECT id, thumbnail FROM items WHERE thumbnail IS NOT NULL"):
        name = thumbnail_name(item)
        if not (folder / name).is_file():
            faults.append(f"{name} is missing (visir library make PLACE --out LIBRARY makes it again)")
        elif thumbnail_digest((folder / name).read_bytes()) != digest:
            faults.append(f"{name} is not as it was written (visir library make PLACE --out LIBRARY makes it again)")
    return faults
