"""How a library lies on disk, and `library.json`, which says what it is.

library.json    this file: source, models, kinds of index, generation; a checksum over itself
items.sqlite    what is known of every picture (`visir.library.database`)
dense/ sparse/  indexes of `visir.search.kinds`; a document's id is the item's
captions/       an index of the source's captions, where it has some
thumbnails/     ab/<item>.webp
work/           what an unfinished update has done so far; gone when it is finished
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from visir.errors import VisirError
from visir.files import read_json, write_json
from visir.fingerprint import hash_json

MANIFEST = "library.json"
DATABASE = "items.sqlite"
SYSTEMS = ("dense", "sparse")
CAPTIONS = "captions"
THUMBNAILS = "thumbnails"
WORK = "work"
LOCK = ".lock"
LAYOUT = 1
"""The version of the layout, raised when an older visir could not read a newer library."""


class LibraryError(VisirError):
    """A library is missing, damaged, half copied, or asked for what it does not hold."""


class UnknownItemError(LibraryError):
    """A library is asked for a picture that it does not have (any more)."""


@dataclass(frozen=True)
class Manifest:
    """What `library.json` says.

    - `name`: what people call the library
    - `source`, `images`, `split`: what `visir.collections.open_collection` takes, with absolute paths
    - `root`: the folder that the pictures' paths are relative to
    - `model`, `head`: names as `visir.encoders.load` takes them; `head` is None without a sparse index
    - `kinds`: from "dense", "sparse" and "captions" to the kind of index, for those that there are
    - `settings`: from the same to those settings of the index that were named; never a key or a password
    - `cards`: from "dense" and "sparse" to the card of the encoder, so that another model under the same name is found
    - `generation`: grows with every update that changed something
    - `files`: size and hash of every file of the indexes and of the database (`visir.library.check`)
    """

    name: str
    source: str
    images: tuple[str, ...] = ()
    split: str | None = None
    root: str = ""
    model: str = ""
    head: str | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    cards: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    generation: int = 0
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def present(self, folder: Path) -> list[str]:
        """The indexes that there are, or must be: captions only where the source has some."""
        listed = {name.partition("/")[0] for name in self.files}
        return [one for one in self.kinds if one in SYSTEMS or one in listed or (folder / one).is_dir()]

    def write(self, folder: Path) -> None:
        """Put it into `folder`, in one step."""
        content = {"layout": LAYOUT, **asdict(self)}
        write_json(folder / MANIFEST, {**content, "checksum": hash_json(content)})

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """What lies in `folder`. Raises `LibraryError` when there is none, or when it is not as it was written."""
        path = folder / MANIFEST
        if not path.is_file():
            raise LibraryError(
                f"{folder}: {'holds no library (no ' + MANIFEST + ')' if folder.is_dir() else 'no such folder'}.",
                hint="make one: visir index PLACE --model MODEL --out FOLDER; a half-copied one: copy it again",
            )
        try:
            said = read_json(path)
        except VisirError as fault:
            raise LibraryError(f"{path}: damaged: {fault.message}", hint=COPY_AGAIN) from fault
        if not isinstance(said, dict) or not isinstance(said.get("layout"), int):
            raise LibraryError(f"{path}: damaged: it does not describe a library.", hint=COPY_AGAIN)
        if said["layout"] > LAYOUT:
            raise LibraryError(f"{folder}: written by a newer visir (layout {said['layout']}).", hint="update visir")
        if said.pop("checksum", None) != hash_json(said):
            raise LibraryError(f"{path}: damaged: it is not as it was written.", hint=COPY_AGAIN)
        known = {one.name for one in fields(cls)}
        return cls(**{**{name: said[name] for name in known if name in said}, "images": tuple(said["images"])})


COPY_AGAIN = "copy the library again, or make it anew: visir index PLACE --model MODEL --out FOLDER"


def is_library(folder: str | Path) -> bool:
    """Whether this folder is a library (or was meant to be one)."""
    return (Path(folder) / MANIFEST).is_file()


def thumbnail_path(folder: Path, item: str) -> Path:
    """Where the thumbnail of an item lies."""
    return folder / THUMBNAILS / item[:2] / f"{item}.webp"
