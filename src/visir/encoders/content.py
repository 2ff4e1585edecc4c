"""What an encoder's input *is*: a short mark per image or text, so that stored vectors belong to exactly that input."""

from __future__ import annotations

import contextlib
import os
import re
import time
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pyarrow as pa

from visir.collections.digests import content_id
from visir.collections.images import ImageReader
from visir.collections.segments import file_of
from visir.errors import ImageError, VisirError
from visir.fingerprint import hash_columns
from visir.progress import Progress
from visir.records import HasImages, Items, strings
from visir.storage import ContentStore, FolderKind
from visir.threads import usable_cores

_MISSING, _FILE = "missing", "contents.json"
_MANY, _LARGE = 1000, 1 << 26
"""Fewer and smaller files are hashed in a tenth of a second: that needs no entry in the cache."""
_SETTLED = 2_000_000_000
"""Nanoseconds after its last change from which on a file's times tell the next change: clocks of disks tick slowly."""
CONTENTS = FolderKind("contents", "hashes of pictures", remedy="delete it: they are hashed again")


def content_fingerprint(items: Items, known: Mapping[str, str] | None = None) -> str:
    """A hash over ids and contents of all items, independent of their order."""
    # Texts enter as they are, images by `image_contents` (where `known` is explained).
    injected, columns = items.injected, [items.ids]
    if items.texts is not None:
        columns.append(items.texts)
    if items.places is not None:
        columns.append(image_contents(items, known))
    if injected is not None and any(injected.on(modality) for modality in items.modality.split("+")):
        # Texts too: a caption that ends in a shortcut is cut before it, not at its end, which gives other tokens.
        columns.append(strings([injected.fingerprint] * len(items)))
    if items.corrupted is not None and items.places is not None:
        columns.append(strings([items.corrupted.fingerprint] * len(items)))
    return hash_columns(columns)


def image_marks(source: HasImages) -> pa.StringArray:
    """A mark per image that changes when its bytes do, without reading them; of this place only."""
    # In a zip: checksum and size from its directory. A file: its size, and the times of change of its content and of
    # its entry in the file system; the latter a program cannot set. In another archive: the same of the archive, and
    # the member's name. A generated scene: its location, which determines it.
    # Two places can have the same marks: what must tell pictures of any two apart takes `image_contents`.
    marks: list[str] = []
    archives: dict[str, Callable[[str], str]] = {}
    root = str(source.root)
    for path, archive in zip(source.images["path"].to_pylist(), source.images["archive"].to_pylist(), strict=True):
        if path is None:
            marks.append("none")
        elif archive is not None:
            if archive not in archives:
                archives[archive] = _marker(Path(root, archive))
            marks.append(archives[archive](path))
        elif path.startswith("scene:"):
            marks.append(path)
        else:
            marks.append(_stat(os.path.join(root, path)))  # noqa: PTH118 (a Path per photo takes twice as long)
    return strings(marks)


def image_contents(source: HasImages, known: Mapping[str, str] | None = None) -> pa.StringArray:
    """What each image is: two have the same only where their bytes are the same, wherever they lie."""
    # A hash of its bytes; of a member of a zip, checksum and size, which are checked when it is read. What was hashed
    # is remembered with place, size and times of the files (`image_marks`), so many files are read once and not every
    # time.
    # known: Of some images, by id, the hash of the bytes (`visir.collections.digests.content_id`).
    contents: list[str] = image_marks(source).to_pylist()
    ids, paths, archives = (source.images[name].to_pylist() for name in ("id", "path", "archive"))
    rows = []
    for row, (id, path, archive) in enumerate(zip(ids, paths, archives, strict=True)):
        of_zip = archive is not None and archive.lower().endswith(".zip")
        if path is None or path.startswith("scene:") or of_zip or contents[row] == _MISSING:
            continue  # the mark is of the content, or there is none
        if known is not None and id in known and path == file_of(path):
            contents[row] = known[id]
        else:
            rows.append(row)
    root = str(Path(source.root).absolute())
    places = [f"{root}\0{archives[row] or ''}\0{paths[row]}" for row in rows]
    for row, content in zip(rows, _remembered(source, rows, places, [contents[row] for row in rows]), strict=True):
        contents[row] = content
    return strings(contents)


def _remembered(source: HasImages, rows: list[int], places: list[str], marks: list[str]) -> list[str]:
    """The hashes of images, from the user's cache where the same places with the same marks were hashed before."""
    archives = source.images["archive"]
    sizes = {archives[row].as_py() or row: int(mark.split(":", 1)[0]) for row, mark in zip(rows, marks, strict=True)}
    if len(rows) < _MANY and sum(sizes.values()) < _LARGE:
        return _hashed(source, rows)
    store, key = ContentStore(CONTENTS), hash_columns([strings(places), strings(marks)], sort=False)
    if store.find(key) is not None:
        remembered: list[str] = orjson.loads((store.path(key) / _FILE).read_bytes())
        return remembered
    contents = _hashed(source, rows)
    changed = max(int(mark.split("+", 1)[1].split(":", 1)[0]) for mark in marks)
    if _MISSING not in contents and time.time_ns() - changed > _SETTLED:
        waiting = "another process is reading the same pictures; waiting for it"
        # A cache that can only be read has vectors all the same.
        with contextlib.suppress(VisirError, OSError), store.writing(key, waiting=waiting) as change:
            if change.manifest.generation == 0:
                change.write(_FILE, orjson.dumps(contents))
    return contents


def _hashed(source: HasImages, rows: list[int]) -> list[str]:
    reader, paths = ImageReader(source), source.images["path"]

    def hashed(row: int) -> str:
        path: str = paths[row].as_py()
        try:
            return content_id(reader.stored(row)) + path[len(file_of(path)) :]
        except ImageError:  # reading it again says what is wrong
            return _MISSING

    if len(rows) < _MANY:
        return [hashed(row) for row in rows]
    with (
        ThreadPoolExecutor(usable_cores(), "visir-hash") as pool,
        Progress("comparing", len(rows), "images") as advance,
    ):
        contents = []
        for content in pool.map(hashed, rows):
            contents.append(content)
            advance(1)
    return contents


def _marker(archive: Path) -> Callable[[str], str]:
    """From a member's name to its mark, for one archive."""
    if archive.suffix.lower() == ".zip":
        try:
            with zipfile.ZipFile(archive) as opened:
                marks = {member.filename: f"{member.CRC:08x}:{member.file_size}" for member in opened.infolist()}
        except (OSError, zipfile.BadZipFile):
            marks = {}  # reading the image says what is wrong with the archive, naming image and place
        return lambda name: marks.get(name, _MISSING)
    mark = _stat(str(archive))
    return lambda name: f"{mark}:{name}"


def _stat(path: str) -> str:
    try:
        status = os.stat(path)  # noqa: PTH116 (a Path per photo takes twice as long)
    except OSError:
        return _MISSING
    return f"{status.st_size}:{status.st_mtime_ns}+{status.st_ctime_ns}"


def without_change(mark: str) -> str:
    """A mark as earlier versions wrote it: without the time of change of the entry in the file system."""
    return _CHANGE.sub(r"\1", mark)


def is_same(recorded: str, now: str) -> bool:
    """Whether a recorded mark, perhaps of an earlier version, is that of the same bytes."""
    return recorded == now or (bool(recorded) and recorded == without_change(now))


_CHANGE = re.compile(r"^(\d+:-?\d+)\+-?\d+")
