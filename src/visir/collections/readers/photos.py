"""A plain folder of photos, or an archive of them, without captions: something to search in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from visir.collections.archives import TarArchive, open_archive
from visir.collections.draft import Draft
from visir.collections.picture_kinds import (
    HEIF,
    RAW,
    begins_like_picture,
    has_no_ending,
    is_picture_name,
    left_out,
    picture_endings,
)
from visir.collections.readers.locate import note_unread, walk
from visir.collections.readers.names import SPLITS, escaped
from visir.collections.sources import Format
from visir.collections.tars import tar_notes
from visir.errors import CollectionError
from visir.storage import MANIFEST

_DEPTH, _LOOKED_AT = 8, 20_000
"""How deep, and at how many files, a folder is looked at to tell whether there are pictures in it."""


def read(path: Path) -> Draft:
    """Read all pictures under a folder (or in a zip or tar), whatever lies between them.

    Image ids are paths relative to the folder. A first folder called train, val or test (or the like) is the split.
    Hidden files and folders are left out, as are files whose names do not end like a picture's; the source counts them
    by kind, and the links of a tar. In a folder, a file whose name has no ending is a picture when it begins like one.
    A name that is not Unicode (a byte of Latin-1 from an old disk) appears with that byte escaped, `caf\\udce9.jpg`;
    reading that picture raises an error until it is renamed.
    """
    archive = None if path.is_dir() else path.name
    unread: dict[str, str] = {}
    opened = None if path.is_dir() else open_archive(path)
    files = list(walk(path, unread=unread)) if opened is None else sorted(opened.names())
    visible = [name for name in files if not _is_hidden(name)]
    pictures = [name for name in visible if is_picture_name(name) or _is_unnamed_picture(path, name)]
    others = left_out(sorted(set(visible) - set(pictures) - _of_visir(files)))
    if not pictures:
        endings = f"it looks for names that end in {', '.join(sorted(picture_endings()))}"
        raise CollectionError(
            f"{path}: no pictures in it that can be read.", hint=others or endings, code="no-pictures-read"
        )
    root = path if path.is_dir() else path.parent
    draft = Draft(path.absolute().name, root, f"photos in {path.absolute().name}")
    used_names = set(pictures)
    for real in pictures:
        name = escaped(real)
        while name != real and name in used_names:  # another file has just that name
            name += "?"
        used_names.add(name)
        first = name.split("/", 1)[0].lower() if "/" in name else ""
        draft.add_image(name, name, SPLITS.get(first, ""))
        draft.paths.append(name)
        draft.archives.append(archive)
    draft.names = []
    note_unread(draft, unread)
    if others:
        draft.notes.append(others)
    if isinstance(opened, TarArchive):
        draft.notes += tar_notes(
            [f"{path.name}: {name}" for name in opened.links], [path.name] if opened.goes_on else []
        )
    return draft


def _of_visir(files: Sequence[str]) -> set[str]:
    """The files in folders that visir made, such as a library among its photos: nobody need be told of these."""
    made = tuple(name.removesuffix(MANIFEST) for name in files if name.endswith(f"/{MANIFEST}"))
    return {name for name in files if name.startswith(made)} if made else set()


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))


def _is_unnamed_picture(path: Path, name: str) -> bool:
    return has_no_ending(name) and path.is_dir() and begins_like_picture(path / name)


def _sniff(path: Path) -> bool:
    if not path.is_dir():
        return path.suffix.lower() == ".zip"
    names = islice(walk(path, depth=_DEPTH), _LOOKED_AT)
    return any(
        Path(name).suffix.lower() in picture_endings() | HEIF | RAW or _is_unnamed_picture(path, name) for name in names
    )


FORMAT = Format(
    name="photos",
    title="photos without captions",
    layout="any folder of pictures, or a zip or tar of them; subfolders train/, val/, test/ are splits",
    reference="",
    sniff=_sniff,
    read=read,
    last=True,
)
