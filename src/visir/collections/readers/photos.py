"""A plain folder of photos, or an archive of them, without captions: something to search in."""

from __future__ import annotations

from pathlib import Path

from visir.collections.archives import open_archive
from visir.collections.descriptor import Format
from visir.collections.draft import Draft
from visir.collections.readers.locate import PICTURES, note_unread, walk
from visir.collections.readers.names import SPLITS, escaped
from visir.errors import CollectionError


def read(path: Path) -> Draft:
    """Read all pictures under a folder (or in a zip or tar), whatever lies between them.

    Image ids are paths relative to the folder. A first folder called train, val or test (or the like) is the split.
    Hidden files and folders are left out, as are files whose names do not end like a picture's. A name that is not
    Unicode (a byte of Latin-1 from an old disk) appears with that byte escaped, `caf\\udce9.jpg`; reading that picture
    raises an error until it is renamed.
    """
    archive = None if path.is_dir() else path.name
    unread: dict[str, str] = {}
    files = list(walk(path, unread=unread)) if path.is_dir() else sorted(open_archive(path).names())
    pictures = [name for name in files if _is_picture(name)]
    if not pictures:
        endings = ", ".join(sorted(PICTURES))
        raise CollectionError(f"{path}: no pictures in it.", hint=f"it looks for names that end in {endings}")
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
    return draft


def _is_picture(name: str) -> bool:
    hidden = any(part.startswith((".", "__MACOSX")) for part in name.split("/"))
    return not hidden and Path(name).suffix.lower() in PICTURES


def _sniff(path: Path) -> bool:
    if path.is_dir():
        return any(_is_picture(name) for name in walk(path, depth=2))
    return path.suffix.lower() == ".zip"


FORMAT = Format(
    name="photos",
    title="photos without captions",
    layout="any folder of pictures, or a zip or tar of them; subfolders train/, val/, test/ are splits",
    reference="",
    sniff=_sniff,
    read=read,
    last=True,
)
