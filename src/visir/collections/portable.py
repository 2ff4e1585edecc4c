"""One folder that holds a whole collection in open formats, and is read back identical.

collection.json        name, source, layout version, fingerprint, digest and rows of every table, image shards
images.parquet         id, path, archive, split
captions.parquet       id, text, image_id
judgements.parquet     relevance, task, caption_id, image_id, grade
facts.parquet          only where there are any; likewise caption_facts.parquet
images-00000.zip …     the pictures, with images="copy"
"""

from __future__ import annotations

import dataclasses
import hashlib
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from visir.collections.images import SCENE, ImageReader
from visir.collections.sources import Format
from visir.errors import CollectionError, ImageError, VisirError, raise_faults
from visir.files import read_json
from visir.parquet import read_table
from visir.progress import Progress
from visir.records import Collection
from visir.storage import FolderChange, FolderKind, check_version, check_written, is_made_by_visir, new_folder

# Copying the pictures of a collection into zip shards, and pointing at them where they lie.

SHARD_BYTES = 1 << 30
"""A shard is closed when it has grown past this: small enough to move about, large enough to be few."""


def copy_images(collection: Collection, change: FolderChange, *, shard_bytes: int = SHARD_BYTES) -> Collection:
    """Copy every picture's bytes, unchanged, into images-00000.zip, …; the collection then points there."""
    # Stored, not compressed: pictures are compressed already, and a stored member is read with one seek. Generated
    # scenes are rendered to PNG. Pictures that are metadata only stay so. All that cannot be read are named in one
    # `ImageError`.
    reader = ImageReader(collection)
    names = _names(collection)
    paths: list[str | None] = []
    archives: list[str | None] = []
    faults: list[str] = []
    with _Shards(change, shard_bytes) as shards, Progress("copying", len(names), "images") as advance:
        for row, name in enumerate(names):
            advance(1)
            paths.append(name)
            archives.append(None)
            if name is None:
                continue
            try:
                data = reader.read(row)
            except ImageError as fault:
                faults.append(fault.message)
                continue
            archives[-1] = shards.add(name, data)
    raise_faults(
        ImageError,
        f"{collection.name}: images that cannot be copied",
        faults,
        hint="mend or drop them (visir data check lists them), or keep them in place: images='link'",
    )
    return _moved(collection, change, paths, archives)


def link_images(collection: Collection, change: FolderChange) -> Collection:
    """Leave the pictures where they are and point there by absolute paths."""
    root = Path(collection.root).resolve()

    def absolute(value: str | None) -> str | None:
        return None if value is None else (root / value).as_posix()

    archives = [absolute(archive) for archive in collection.images["archive"].to_pylist()]
    paths = [
        path if archive is not None or path is None or path.startswith(SCENE) else absolute(path)
        for path, archive in zip(collection.images["path"].to_pylist(), archives, strict=True)
    ]
    return _moved(collection, change, paths, archives)


def drop_images(collection: Collection, change: FolderChange) -> Collection:
    """Metadata only."""
    nothing: list[str | None] = [None] * collection.images.num_rows
    return _moved(collection, change, nothing, nothing)


def _moved(
    collection: Collection, change: FolderChange, paths: list[str | None], archives: list[str | None]
) -> Collection:
    images = collection.images.set_column(1, "path", pa.array(paths, pa.string()))
    images = images.set_column(2, "archive", pa.array(archives, pa.string()))
    return replace(collection, images=images, root=change.folder)


def _names(collection: Collection) -> list[str | None]:
    """Member names: the pictures' own file names where these are unique, numbers in row order otherwise."""
    paths = collection.images["path"].to_pylist()
    bases = [None if path is None or path.startswith(SCENE) else PurePosixPath(path).name for path in paths]
    column = pa.array([base for base in bases if base is not None], pa.string())
    if None not in bases and "" not in bases and pc.count_distinct(column).as_py() == len(column):
        return bases
    return [None if path is None else f"{row:08d}{_suffix(path)}" for row, path in enumerate(paths)]


def _suffix(path: str) -> str:
    return ".png" if path.startswith(SCENE) else PurePosixPath(path).suffix.partition("#")[0]


class _Shards:
    """Zips that follow one another."""

    def __init__(self, change: FolderChange, limit: int) -> None:
        self._change, self._limit = change, limit
        self._open: zipfile.ZipFile | None = None
        self._written = 0
        self._names = self._numbered()

    def add(self, name: str, data: bytes) -> str:
        """Store one member; returns the shard's file name."""
        if self._open is None or self._written >= self._limit:
            self.__exit__()
            self._open, self._written = zipfile.ZipFile(self._change.file(next(self._names)), "x"), 0
        # A fixed date, so that the same collection gives the same bytes.
        self._open.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
        self._written += len(data)
        return Path(str(self._open.filename)).name

    def __enter__(self) -> _Shards:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    @staticmethod
    def _numbered() -> Iterator[str]:
        number = 0
        while True:
            yield f"images-{number:05d}.zip"
            number += 1


VERSION = 1
CARD = "collection.json"
KIND = "visir collection"
Images = Literal["copy", "link", "none"]
PORTABLE = FolderKind(
    "collection", "a collection", remedy="make it again: visir data convert SOURCE FOLDER", error=CollectionError
)


def save(
    collection: Collection,
    folder: str | Path,
    images: Images = "copy",
    *,
    replace: bool = False,
    shard_bytes: int = SHARD_BYTES,
) -> Collection:
    """Write a collection as one portable folder, atomically; the order of rows is kept.

    Args:
        collection: The collection; views with shortcuts or corruptions cannot be saved.
        folder: The folder to make.
        images: "copy" puts the pictures' bytes, unchanged, into zip shards inside the folder, which can then be moved
            anywhere; "link" leaves them where they are and keeps absolute paths; "none" drops them.
        replace: Whether a folder that visir made may be replaced.
        shard_bytes: The size of a shard.

    Returns:
        The collection as it is read back.

    Raises:
        CollectionError: For a view, and for an unknown way of keeping images.

    Example:
        >>> from visir.collections import open_collection
        >>> collection = open_collection("scenes:3?size=64")
        >>> save(collection, "three").fingerprint == open_collection("three").fingerprint == collection.fingerprint
        True
    """
    ways = {"copy": copy_images, "link": link_images, "none": drop_images}
    if images not in ways:
        raise CollectionError(f"images={images!r}: choose one of {', '.join(ways)}.", code="choose-one")
    if collection.injected is not None:
        raise CollectionError(
            f"{collection.name} carries shortcuts ({collection.injected}), which are a view: pictures get theirs only "
            "when a model looks at them.",
            hint="save it without (visir.shortcuts.plain) and inject them again after opening",
            code="shortcuts-are-a-view",
        )
    if collection.corrupted is not None:
        raise CollectionError(
            f"{collection.name} is a view whose pictures are corrupted when a model looks at them "
            f"({collection.corrupted}).",
            hint="write them first (visir.robustness.corruptions.write_pictures) and save what that returns",
            code="view-whose-pictures-corrupted",
        )
    folder = Path(folder)
    with new_folder(folder, PORTABLE, replace=replace) as change:
        if images == "copy":
            placed = copy_images(collection, change, shard_bytes=shard_bytes)
        else:
            placed = ways[images](collection, change)
        tables = {
            "images": placed.images,
            "captions": placed.captions,
            "judgements": placed.judgements,
            "facts": placed.facts,
            "caption_facts": placed.caption_facts,
        }
        listed: dict[str, Any] = {}
        for name, table in tables.items():
            if table is not None:
                file = change.file(f"{name}.parquet")
                pq.write_table(table, file, compression="zstd")
                listed[name] = {"rows": table.num_rows, "digest": _digest(file)}
        shards = {path.name: path.stat().st_size for path in sorted(change.folder.glob("images-*.zip"))}
        card = {
            "kind": KIND,
            "version": VERSION,
            "name": collection.name,
            "source": collection.source,
            "fingerprint": collection.fingerprint,
            "images": images,
            "tables": listed,
            "shards": shards,
        }
        change.write_json(CARD, card)
    return dataclasses.replace(placed, root=folder.absolute())


def load(folder: str | Path) -> Collection:
    """Read a portable folder back: the same rows in the same order, and the same fingerprint.

    Every table is checked against its digest and the whole against the fingerprint; shards against their sizes. What is
    missing, altered or cut short is named, all of it at once.
    """
    folder = Path(folder)
    card = _card(folder)
    faults = [f"{name}.parquet is missing" for name in card["tables"] if not (folder / f"{name}.parquet").is_file()]
    for name, about in card["tables"].items():
        file = folder / f"{name}.parquet"
        if file.is_file() and _digest(file) != about["digest"]:
            faults.append(f"{name}.parquet is not the file that was written (its digest differs)")
    for name, size in card["shards"].items():
        shard = folder / name
        if not shard.is_file():
            faults.append(f"{name} is missing: the pictures in it are lost")
        elif shard.stat().st_size != size:
            faults.append(f"{name} has {shard.stat().st_size:,} bytes, not {size}")
    raise_faults(CollectionError, f"{folder}", faults, hint="copy the folder again, or convert the source again")
    tables = {name: _table(folder / f"{name}.parquet") for name in card["tables"]}
    collection = Collection(
        card["name"],
        tables["images"],
        tables["captions"],
        tables["judgements"],
        folder.absolute(),
        card["source"],
        tables.get("facts"),
        tables.get("caption_facts"),
    )
    if collection.fingerprint != card["fingerprint"]:
        raise CollectionError(
            f"{folder}: the fingerprint is {collection.fingerprint}, but {CARD} says {card['fingerprint']}.",
            hint="collection.json belongs to another collection; copy the folder again",
        )
    return collection


def _card(folder: Path) -> dict[str, Any]:
    file = folder / CARD
    if not file.is_file():
        raise CollectionError(
            f"{folder}: no {CARD}, so not a portable collection.",
            hint="visir data convert makes one",
            code="no-collection-json-not",
        )
    card = read_json(file)
    if not isinstance(card, dict) or card.get("kind") != KIND:
        raise CollectionError(f"{file}: not the card of a {KIND}.")
    check_version(
        card.get("version"), VERSION, file, what=KIND, remedy="convert the source again", error=CollectionError
    )
    kinds = {"name": str, "source": str, "fingerprint": str, "tables": dict, "shards": dict}
    wrong = {key for key, kind in kinds.items() if not isinstance(card.get(key), kind)}
    if "tables" not in wrong:
        digested = {key for key, about in card["tables"].items() if isinstance(about, dict) and "digest" in about}
        wrong |= set(card["tables"]) - digested | {"images", "captions", "judgements"} - digested
    if wrong:
        raise CollectionError(f"{file}: {', '.join(sorted(wrong))} missing or wrong.", hint="convert the source again")
    check_written(file)
    return card


def _table(file: Path) -> pa.Table:
    try:
        return read_table(file)
    except (pa.ArrowInvalid, OSError) as fault:
        raise CollectionError(f"{file}: not readable as Parquet ({fault}).", hint="copy the folder again") from fault


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _sniff(path: Path) -> bool:
    # A card that is damaged or gone, beside the tables it tells of, is named by `load`: no other format reads these.
    has_tables = all((path / table).is_file() for table in ("images.parquet", "captions.parquet"))
    if has_tables and ((path / CARD).is_file() or is_made_by_visir(path)):
        return True
    try:
        return (path / CARD).is_file() and read_json(path / CARD).get("kind") == KIND
    except (VisirError, AttributeError):
        return False


FORMAT = Format(
    name="portable",
    title="visir's portable folder",
    layout="FOLDER/collection.json, images.parquet, captions.parquet, judgements.parquet, images-*.zip",
    reference="visir data convert",
    sniff=_sniff,
    read=load,
)
