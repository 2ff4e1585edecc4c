"""The source of a library: an opened place or collection, with a mark for everything in it that can change."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from visir.collections.images import SCENE
from visir.collections.readers.locate import unread_notes_in
from visir.collections.readers.names import escaped
from visir.collections.tars import tar_notes_in
from visir.encoders.store import image_marks
from visir.errors import CollectionError
from visir.fingerprint import hash_columns
from visir.library.database import LONGEST
from visir.library.layout import THUMBNAILS, LibraryError, is_library
from visir.records import Collection
from visir.storage.claims import has_log

# A column of the source as a library keeps it: text, whole numbers and numbers, in what SQLite can hold.

Plain: TypeAlias = "str | int | float"


def plain_values(name: str, column: pa.ChunkedArray) -> Iterator[tuple[int, Plain]]:
    """(row, value) of a column, every value of a row; rows without one do not occur."""
    if _holds_bytes(column.type):
        warnings.warn(f"the column {name!r} holds bytes, which a library does not keep: it is left out", stacklevel=2)
        return
    read = column.to_pylist()
    records = [value and dict(value) for value in read] if pa.types.is_map(column.type) else read
    values = [
        (row, element)
        for row, value in enumerate(records)
        for element in (value if isinstance(value, list) else [value])
        # NaN, of any kind of number, is no value either.
        if element is not None and (isinstance(element, list | dict) or not bool(element != element))
    ]
    as_text = not all(_fits(element) for _, element in values)
    for row, element in values:
        plain = _as_text(element) if as_text and isinstance(element, int | Decimal) else _plain(element)
        if isinstance(plain, str):
            check_length(plain, f"the column {name!r}, row {row + 1}")
        yield row, plain


def check_length(text: str, where: str) -> None:
    """Raise `LibraryError` for a text that is longer than a library keeps."""
    if 4 * len(text) > LONGEST and len(text.encode()) > LONGEST:
        raise LibraryError(
            f"{where}: a text of {len(text):,} characters.",
            hint=f"a library keeps texts of at most {LONGEST:,} bytes: leave it out of the source",
            code="text-characters",
        )


def _holds_bytes(kind: pa.DataType) -> bool:
    while pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        test(kind)
        for test in (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_binary_view,
        )
    )


def _fits(value: Any) -> bool:
    """Whether SQLite can hold a number as it is."""
    if isinstance(value, Decimal):
        return Decimal(repr(float(value))) == value
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _as_text(value: int | Decimal) -> str:
    return str(int(value)) if isinstance(value, bool) else f"{value:f}" if isinstance(value, Decimal) else str(value)


def _plain(value: Any) -> Plain:
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):
        return (
            value.isoformat() if value.tzinfo is None else f"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"
        )
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if hasattr(value, "item"):  # a NumPy number
        return value.item()  # type: ignore[no-any-return]
    return orjson.dumps(value, default=str, option=orjson.OPT_SERIALIZE_NUMPY).decode()


@dataclass(frozen=True)
class SourceEntry:
    """One picture of a source, before its bytes are read."""

    row: int  # of `PhotoSource.collection.images`
    path: str  # its id there
    mark: str  # changes when its bytes do (`visir.encoders.store.image_marks`)
    name: str  # see `visir.library.check.ItemFile`, as for those below
    place: str | None  # where it lies in the source
    archive: str | None  # the archive that holds it
    category: str  # the folder it lies in, or the category that the source names


class PhotoSource:
    """An opened collection, as a library reads it."""

    not_fields: ClassVar[frozenset[str]] = frozenset({"image_id"})  # the facts that are no fields of the library

    def __init__(self, collection: Collection) -> None:
        self.collection = collection

    @classmethod
    def open(cls, source: str, *, images: Sequence[str] = (), split: str | None = None) -> PhotoSource:
        """Open a place or a collection spec; libraries that lie inside it are left out."""
        # Raises `CollectionError` for what cannot be opened, `LibraryError` where there is no picture.
        from visir.collections.opening import open_collection  # every reader, of which a search needs none

        places = list(images)
        opened = open_collection(source, images=(places[0] if len(places) == 1 else places) or None, split=split)
        photos = _without_libraries(opened)
        if photos.images.num_rows == 0:
            raise LibraryError(f"{source}: no picture in it.", hint="is the path, or the split, right?")
        return cls(photos)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What else people should know of it."""
        return (*tar_notes_in(self.collection.source), *unread_notes_in(self.collection.source))

    def marks_now(self, entries: Sequence[SourceEntry]) -> list[str]:
        """The marks of entries as they are at this moment."""
        ordered = sorted({entry.row: entry for entry in entries}.items())
        marks = image_marks(self.part([row for row, _ in ordered])).to_pylist()
        now = {row: mark for (row, _), mark in zip(ordered, marks, strict=True)}
        return [now[entry.row] for entry in entries]

    @property
    def left_out(self) -> str:
        """How many files of which kind are no pictures that can be read, and how they could be; "" without any."""
        notes = [note for note in self.collection.source.split("; ") if note.startswith("left out: ")]
        note = _SIDECARS.sub(", ", notes[0]).rstrip(", ") if notes else ""  # these are read beside their pictures
        return note.replace("left out: , ", "left out: ") if note != "left out:" else ""

    @cached_property
    def entries(self) -> list[SourceEntry]:
        """Everything in it, by row."""
        images = self.collection.images
        ids, paths, archives = (images[name].to_pylist() for name in ("id", "path", "archive"))
        marks = image_marks(self.collection).to_pylist()
        categories = self._categories
        entries = []
        for row, (image_id, path, archive, mark) in enumerate(zip(ids, paths, archives, marks, strict=True)):
            drawn = path is None or path.startswith(SCENE)
            name = image_id if drawn else PurePosixPath(path).name
            category = categories.get(image_id, "") if drawn or categories else _folder(path)
            entries.append(SourceEntry(row, image_id, mark, name, path, archive, category))
        return entries

    @property
    def _categories(self) -> dict[str, str]:
        """From image id to the category that the source tells, where it tells any."""
        facts = self.collection.facts
        if facts is None or "category" not in facts.column_names or not pa.types.is_string(facts["category"].type):
            return {}
        pairs = zip(facts["image_id"].to_pylist(), facts["category"].to_pylist(), strict=True)
        return {image_id: category or "" for image_id, category in pairs}

    @cached_property
    def captions(self) -> list[tuple[str, str, str]]:
        """(caption id, text, path) of every caption."""
        captions = self.collection.captions
        listed = list(zip(*(captions[name].to_pylist() for name in ("id", "text", "image_id")), strict=True))
        for caption_id, text, _ in listed:
            check_length(text, f"the caption {caption_id!r}")
        return listed

    @cached_property
    def fields(self) -> list[tuple[str, str, str | int | float]]:
        """(path, name, value) of whatever else the source tells (`visir.library.source`)."""
        facts = self.collection.facts
        if facts is None:
            return []
        paths = facts["image_id"].to_pylist()
        columns = [name for name in facts.column_names if name not in self.not_fields]
        return [(paths[row], name, value) for name in columns for row, value in plain_values(name, facts[name])]

    @cached_property
    def text_fingerprint(self) -> str:
        """A fingerprint of captions and fields: it tells whether any of them changed."""
        captions = self.collection.captions
        fingerprints = [hash_columns([captions[name] for name in captions.column_names])]
        if self.collection.facts is not None:
            fingerprints.append(
                hash_columns([pa.array([orjson.dumps(field_value).decode() for field_value in self.fields])])
            )
        return hash_columns([pa.array(fingerprints)], sort=False)

    def part(self, rows: Sequence[int] | NDArray[np.int64]) -> Collection:
        """The part of the collection in these rows, without captions."""
        keep = np.zeros(self.collection.images.num_rows, np.bool_)
        keep[np.asarray(rows, np.int64)] = True
        return Collection(
            self.collection.name,
            self.collection.images.filter(pa.array(keep)),
            self.collection.captions.slice(0, 0),
            root=self.collection.root,
            source=self.collection.source,
        )


_SIDECARS = re.compile(r"(?:, |(?<=left out: ))[\d,]+ \.xmp(?:, |$)")


def absolute(source: str | Path, images: Sequence[str | Path], split: str | None) -> tuple[str, tuple[str, ...]]:
    """A source as it can be opened from any folder, its format named so that a stray file changes no reading."""
    from visir.collections.opening import COLLECTIONS
    from visir.collections.sources import find_source

    text = str(source)
    if is_empty(Path(text)):
        raise LibraryError(
            f"{text}: is an empty folder.",
            hint="is the path right? if a disk belongs there, mount it first",
            code="empty-folder",
        )
    try:
        located = find_source(text, COLLECTIONS)
    except CollectionError as fault:
        raise LibraryError(fault.message, hint=fault.hint, code=fault.code) from fault
    if located.path.exists():
        tail = f"?{text.rpartition('?')[2]}" if located.options else ""
        text = f"{located.format.name}:{located.path.absolute()}{tail}"
    places = tuple(str(Path(place).absolute()) if str(place) != "none" else "none" for place in images)
    for text_or_place in (text, *places):
        if escaped(text_or_place) != text_or_place:
            message = (
                f"{escaped(text_or_place)}: its name is not valid Unicode (the part that is not is shown escaped)."
            )
            raise LibraryError(
                message,
                hint="rename the folder, or give a link to it: ln -s FOLDER photos",
                code="name-not-valid-unicode",
            )
    return text, places


def check_source_available(folder: Path, source: str, images: Sequence[str]) -> None:
    """Raise `LibraryError` where a place that a library was made of is gone or empty: it is the way on that matters."""
    for path in (place_of(source), *map(Path, images)):
        if not path.is_absolute() or "{" in path.name:  # drawn on demand, a pattern of shards, or "none"
            continue
        away = "is not there" if not path.exists() else "is empty" if is_empty(path) else ""
        if away:
            raise LibraryError(
                f"{path}: {away}: moved, or on a disk that is not mounted? The library {folder} is as it was.",
                hint=f"mount the disk and run the same again; if it moved: visir library make NEWPLACE --out {folder}",
            )


def place_of(source: str) -> Path:
    """Where the source of a library lies, as `absolute` wrote it down."""
    if source.startswith("photos:"):
        return Path(source.removeprefix("photos:"))
    from visir.collections.opening import COLLECTIONS
    from visir.collections.sources import find_source

    return find_source(source, COLLECTIONS).path


def is_empty(path: Path) -> bool:
    """Whether a folder has nothing in it: a place for a disk, for example, that is not mounted."""
    try:
        return path.is_dir() and not any(path.iterdir())
    except OSError:  # it cannot be listed: reading it gives the reason
        return False


def _without_libraries(collection: Collection) -> Collection:
    """Thumbnails of libraries that were made inside the place are no photos of it."""
    root = Path(collection.root)
    mark = f"/{THUMBNAILS}/"
    inside: dict[str, bool] = {}
    keep = []
    for path, archive in zip(
        collection.images["path"].to_pylist(), collection.images["archive"].to_pylist(), strict=True
    ):
        before, inside_library, _ = f"/{path}".rpartition(mark)
        if archive is not None or path is None or not inside_library:
            keep.append(True)
            continue
        if before not in inside:
            place = root / before.lstrip("/")
            inside[before] = is_library(place) or has_log(place)  # or one that is being made
        keep.append(not inside[before])
    return collection if all(keep) else collection.keep_images(pa.array(keep))


def _folder(path: str | None) -> str:
    parent = str(PurePosixPath(path or "").parent)
    return "" if parent == "." else parent
