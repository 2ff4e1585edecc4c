"""One folder that holds a whole collection in open formats, and is read back identical.

collection.json        name, source, layout version, fingerprint, digest and rows of every table, image shards
images.parquet         id, path, archive, split
captions.parquet       id, text, image_id
judgements.parquet     relevance, task, caption_id, image_id, grade
facts.parquet          only where there are any; likewise caption_facts.parquet
images-00000.zip …     the pictures, with images="copy"
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from visir.collections.images import SCENE, ImageReader
from visir.collections.sources import Format
from visir.errors import CollectionError, ImageError, VisirError, raise_faults
from visir.files import read_json
from visir.parquet import read_table
from visir.progress import Progress
from visir.records import Collection
from visir.storage import FolderChange, FolderKind, check_version, check_written, is_made_by_visir, new_folder

SHARD_BYTES = 1 << 30
"""A shard is closed when it has grown past this: small enough to move about, large enough to be few."""
_Places = tuple[list[str | None], list[str | None]]
"""The columns `path` and `archive` of images."""


def _copied(collection: Collection, change: FolderChange, shard_bytes: int) -> _Places:
    """Copy every picture's bytes, unchanged, into images-00000.zip, …; where they then are."""
    # Stored, not compressed: pictures are compressed already, and a stored member is read with one seek. Generated
    # scenes are rendered to PNG. Pictures that are metadata only stay so. All that cannot be read are named in one
    # `ImageError`.
    reader, names = ImageReader(collection), _names(collection)
    archives: list[str | None] = [None] * len(names)
    faults: list[str] = []
    shard, written, count = None, 0, 0
    with contextlib.ExitStack() as opened, Progress("copying", len(names), "images") as advance:
        for row, name in enumerate(names):
            advance(1)
            if name is None:
                continue
            try:
                data = reader.read(row)
            except ImageError as fault:
                faults.append(fault.message)
                continue
            if shard is None or written >= shard_bytes:
                opened.close()
                shard = opened.enter_context(zipfile.ZipFile(change.file(f"images-{count:05d}.zip"), "x"))
                written, count = 0, count + 1
            # A fixed date, so that the same collection gives the same bytes.
            shard.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
            written += len(data)
            archives[row] = Path(str(shard.filename)).name
    raise_faults(
        ImageError,
        f"{collection.name}: images that cannot be copied",
        faults,
        hint="mend or drop them (visir data check lists them), or keep them in place: images='link'",
    )
    return names, archives


def _names(collection: Collection) -> list[str | None]:
    """Member names: the pictures' own file names where these are unique, numbers in row order otherwise."""
    paths = collection.images["path"].to_pylist()
    bases = [None if path is None or path.startswith(SCENE) else PurePosixPath(path).name for path in paths]
    if None not in bases and "" not in bases and len({*bases}) == len(bases):
        return bases
    endings = (".png" if path is None or path.startswith(SCENE) else PurePosixPath(path).suffix.partition("#")[0]
               for path in paths)  # fmt: skip
    rows = enumerate(zip(paths, endings, strict=True))
    return [None if path is None else f"{row:08d}{ending}" for row, (path, ending) in rows]


def _linked(collection: Collection) -> _Places:
    """Leave the pictures where they are and point there by absolute paths."""
    root = Path(collection.root).resolve()

    def absolute(value: str | None) -> str | None:
        return None if value is None else (root / value).as_posix()

    paths, archives = (collection.images[name].to_pylist() for name in ("path", "archive"))
    inside = [archive is not None or (path or SCENE).startswith(SCENE)
              for path, archive in zip(paths, archives, strict=True)]  # fmt: skip
    paths = [path if stays else absolute(path) for path, stays in zip(paths, inside, strict=True)]
    return paths, list(map(absolute, archives))


VERSION = 1
CARD = "collection.json"
KIND = "visir collection"
_TABLES = ("images", "captions", "judgements", "facts", "caption_facts")
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
    if images not in get_args(Images):
        raise CollectionError(f"images={images!r}: choose one of {', '.join(get_args(Images))}.", code="choose-one")
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
        nothing: list[str | None] = [None] * collection.images.num_rows
        paths, archives = (
            _copied(collection, change, shard_bytes) if images == "copy"
            else _linked(collection) if images == "link" else (nothing, nothing)
        )  # fmt: skip
        placed = collection.images.set_column(1, "path", pa.array(paths, pa.string()))
        placed = placed.set_column(2, "archive", pa.array(archives, pa.string()))
        tables = {"images": placed, **{name: getattr(collection, name) for name in _TABLES[1:]}}
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
    return dataclasses.replace(collection, images=placed, root=folder.absolute())


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
    tables = {name: _table(folder / f"{name}.parquet") for name in _TABLES if name in card["tables"]}
    collection = Collection(card["name"], root=folder.absolute(), source=card["source"], **tables)
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
