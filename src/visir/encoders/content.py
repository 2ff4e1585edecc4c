"""What an encoder's input *is*: a short mark per image or text, so that stored vectors belong to exactly that input."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from visir.fingerprint import hash_columns
from visir.records import HasImages, Items, strings


def content_fingerprint(items: Items) -> str:
    """A hash over ids and contents of all items, independent of their order.

    Texts enter as they are. Images enter by `image_marks`: the fingerprint of items does not look at bytes, and
    the same ids can stand for photos of another size.
    """
    injected, columns = items.injected, [items.ids]
    if items.texts is not None:
        columns.append(items.texts)
    if items.places is not None:
        columns.append(image_marks(items))
    if injected is not None and any(injected.on(modality) for modality in items.modality.split("+")):
        # Texts too: a caption that ends in a shortcut is cut before it, not at its end, which gives other tokens.
        columns.append(strings([injected.fingerprint] * len(items)))
    if items.corrupted is not None and items.places is not None:
        columns.append(strings([items.corrupted.fingerprint] * len(items)))
    return hash_columns(columns)


def image_marks(source: HasImages) -> pa.StringArray:
    """A mark per image that changes when its bytes do, without reading them; of this place only.

    In a zip: checksum and size from its directory. A file: its size, and the times of change of its content and of its
    entry in the file system; the latter a program cannot set. In another archive: the same of the archive, and the
    member's name. A generated scene: its location, which determines it.

    Two places can have the same marks: what must tell pictures of any two apart takes `image_contents`.
    """
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


def _marker(archive: Path) -> Callable[[str], str]:
    """From a member's name to its mark, for one archive."""
    if archive.suffix.lower() == ".zip":
        try:
            with zipfile.ZipFile(archive) as opened:
                marks = {member.filename: f"{member.CRC:08x}:{member.file_size}" for member in opened.infolist()}
        except (OSError, zipfile.BadZipFile):
            marks = {}  # reading the image says what is wrong with the archive, naming image and place
        return lambda name: marks.get(name, "missing")
    mark = _stat(str(archive))
    return lambda name: f"{mark}:{name}"


def _stat(path: str) -> str:
    try:
        status = os.stat(path)  # noqa: PTH116 (a Path per photo takes twice as long)
    except OSError:
        return "missing"
    return f"{status.st_size}:{status.st_mtime_ns}+{status.st_ctime_ns}"


def without_change(mark: str) -> str:
    """A mark as earlier versions wrote it: without the time of change of the entry in the file system."""
    return _CHANGE.sub(r"\1", mark)


def is_same(recorded: str, now: str) -> bool:
    """Whether a recorded mark, perhaps of an earlier version, is that of the same bytes."""
    return recorded == now or (bool(recorded) and recorded == without_change(now))


_CHANGE = re.compile(r"^(\d+:-?\d+)\+-?\d+")
