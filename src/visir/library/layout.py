"""How a library lies on disk, and what its `visir.json` says.

visir.json           what it is: source, models, kinds of index, generation; and that the database is as it was written
items-7.sqlite       what is known of every picture, as of an update (`visir.library.database`); never changed
decisions-7.json     what the user decided: the pictures that were taken out; only where there are some
dense/ sparse/       indexes of `visir.retrieval.kinds`; a document's id is the item's
captions/            an index of the source's captions, where it has some
words-7/             of products: an index of their words, in the same commit as the database
thumbnails/          ab/<item>.webp; the database has their digests
work/                what an unfinished update has done so far; gone when it is finished
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any
from uuid import uuid4

from visir.errors import VisirError
from visir.retrieval.index import INDEX, read_index
from visir.retrieval.kinds import KINDS, USUAL_KINDS
from visir.retrieval.remote.settings import Server, family_of, name_collection, place_on_server
from visir.storage import MANIFEST, FolderKind, Manifest, is_made_by_visir
from visir.storage.claims import has_log

SYSTEMS = ("dense", "sparse")
CAPTIONS = "captions"
INDEXES = (*SYSTEMS, CAPTIONS)
THUMBNAILS = "thumbnails"
WORK = "work"
COPY_AGAIN = "copy the library again, or make it anew: visir library make PLACE --model MODEL --out FOLDER"


class LibraryError(VisirError):
    """A library is missing, damaged, half copied, or does not have what is requested."""


class UnknownItemError(LibraryError, KeyError):
    """A library does not have this picture (any more)."""

    __str__ = LibraryError.__str__


def being_updated(folder: Path) -> LibraryError:
    """The error of a change of a library that another process is changing."""
    return LibraryError(
        f"{folder}: another process is updating this library.",
        hint="when it is done, run the same again",
        code="being-updated",
    )


LIBRARY = FolderKind(
    "library", "a library", remedy=COPY_AGAIN, error=LibraryError, progress="everything done so far is kept"
)


OF_PRODUCTS = frozenset(("products", "flipkart", "fashion", "amazon", "abo-products"))
"""The formats of `visir.collections.formats` whose collections are of products."""


@dataclass(frozen=True)
class LibraryCard:
    """What `visir.json` says of a library."""

    name: str  # what people call it
    source: str  # what `visir.collections.open_collection` takes, with absolute paths; `images` and `split` too
    images: tuple[str, ...] = ()
    split: str | None = None
    root: str = ""  # the folder that the pictures' paths are relative to
    model: str = ""  # a name as `visir.encoders.load` takes it; empty in a library that is searched by words alone
    head: str | None = None  # likewise, of the sparse head; None without a sparse index
    # From "dense", "sparse" and "captions" to the kind of index, for those that there are to be.
    kinds: Mapping[str, str] = field(default_factory=dict)
    # From the same to those settings of the index that were named; never a key or a password.
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # From "dense" and "sparse" to the card of the encoder, so that another model under the same name is found.
    cards: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    indexes: tuple[str, ...] = ()  # those that there are: captions only where the source has some
    generation: int = 0  # grows with every update that changed something
    database: str = ""  # the name of the database's file; empty before the first update is done
    decisions: str = ""  # the name of the file of what the user decided; empty where nothing was
    texts: bool | None = None  # whether its models take texts to search with
    # Of products: language and synonyms of the search by words, its version, and what `TextIndex.read_part` takes.
    words: Mapping[str, Any] = field(default_factory=dict)
    # From "dense", "sparse" and "captions" to the folder of the index, where it is another than that name.
    places: Mapping[str, str] = field(default_factory=dict)
    # The models that the library is going over to, and where their indexes are made (`model_change`).
    next: Mapping[str, Any] = field(default_factory=dict)
    left: tuple[str, ...] = ()  # folders of indexes that are no longer used, and go with the next update

    def place(self, system: str) -> str:
        """The name of the folder of an index, below the library's."""
        return self.places.get(system, system)

    @property
    def unit(self) -> str:
        """What people call its items: "pictures", or "products" of a shop."""
        return "products" if self.source.partition(":")[0] in OF_PRODUCTS else "pictures"

    def to_content(self) -> dict[str, Any]:
        """As the manifest holds it."""
        content = asdict(self)
        return {name: value for name, value in content.items() if value or name not in ("places", "next", "left")}

    @classmethod
    def of(cls, manifest: Manifest) -> LibraryCard:
        """From the manifest of a library. Raises `LibraryError` when something is missing in it."""
        content = manifest.content
        known = {field_of_card.name for field_of_card in fields(cls)}
        try:
            values = {name: value for name, value in content.items() if name in known}
            card = cls(**{**values, "images": tuple(content["images"]), "indexes": tuple(content["indexes"]),
                          "left": tuple(content.get("left", ()))})  # fmt: skip
        except (KeyError, TypeError) as fault:
            raise LibraryError(f"visir.json does not describe a library: {fault!r}", hint=COPY_AGAIN) from fault
        wrong = card._wrong()
        if wrong:
            raise LibraryError(
                f"visir.json does not describe a library: wrong {', '.join(wrong)}",
                hint=COPY_AGAIN,
                code="visir-json-not-describe",
            )
        return card

    def _wrong(self) -> list[str]:
        """The fields that hold what visir would not write: a library may come from anybody."""
        texts = {name: getattr(self, name) for name in ("name", "source", "root", "model", "database", "decisions")}
        texts |= {name: getattr(self, name) for name in ("split", "head") if getattr(self, name) is not None}
        wrong = [name for name, value in texts.items() if not isinstance(value, str)]
        wrong += ["model"] if "dense" in self.indexes and not self.model else []
        wrong += ["images"] if not all(isinstance(place, str) for place in self.images) else []
        wrong += ["indexes"] if not all(name in INDEXES for name in self.indexes) else []
        wrong += ["generation"] if not isinstance(self.generation, int) else []
        for name, kind in {"kinds": str, "settings": Mapping, "cards": Mapping}.items():
            value = getattr(self, name)
            if not isinstance(value, Mapping) or not all(
                system in INDEXES and isinstance(setting, kind) for system, setting in value.items()
            ):
                wrong.append(name)
        wrong += ["texts"] if self.texts not in (True, False, None) else []
        wrong += ["words"] if not _are_words(self.words) else []
        wrong += ["places"] if not _are_places(self.places) else []
        wrong += ["next"] if not _is_next(self.next) else []
        wrong += ["left"] if not all(isinstance(name, str) and _PLACE.fullmatch(name) for name in self.left) else []
        if not wrong:
            files = ("database", "decisions")
            wrong += [name for name in files if (file := getattr(self, name)) and Path(file).name != file]
        return wrong

    @classmethod
    def read(cls, folder: Path) -> LibraryCard:
        """The card of the library in `folder`. Raises `LibraryError` when it is missing or damaged."""
        check_first_update_done(folder)
        return cls.of(Manifest.read(folder, LIBRARY))


_PLACE = re.compile(rf"({'|'.join(INDEXES)})(-\d+)?")


def _are_places(places: object) -> bool:
    """Whether these can be places of indexes: folders of this library, named by what they hold."""
    return isinstance(places, Mapping) and all(
        system in INDEXES and isinstance(place, str) and (match := _PLACE.fullmatch(place)) and match[1] == system
        for system, place in places.items()
    )


def _is_next(content: object) -> bool:
    """Whether this can be what a library goes over to."""
    if not isinstance(content, Mapping) or not content:
        return content == {}
    texts = isinstance(content.get("model"), str) and isinstance(content.get("head") or "", str)
    kinds, settings = content.get("kinds"), content.get("settings")
    both = isinstance(kinds, Mapping) and isinstance(settings, Mapping)
    return texts and both and _are_places(content.get("places"))


def _are_words(words: object) -> bool:
    """Whether this can be what a card says of the words: their place lies in the library."""
    if not isinstance(words, Mapping) or (words and not isinstance(words.get("language"), str)):
        return False
    if not all(isinstance(rule, str) for rule in words.get("synonyms", [])):
        return False
    place = words.get("place", "words")
    return isinstance(place, str) and re.fullmatch(r"words(-\d+)?", place) is not None


LONGEST_NAME = 200


def check_library_name(name: str) -> None:
    """Raise `LibraryError` for a name that cannot be a part of the service's paths."""
    if 0 < len(name) <= LONGEST_NAME and name.strip(".") and name.isprintable() and not set(name) & {"/", "\\"}:
        return
    shown = name if len(name) <= 60 else f"{name[:59]}…"
    raise LibraryError(
        f"{shown!r} cannot be the name of a library: 1 to {LONGEST_NAME} characters that can be printed, without / and "
        "\\, and not dots alone.",
        hint="give it another one: --name NAME",
        code="characters-printed-without-not",
    )


def check_first_update_done(folder: Path) -> None:
    """Raise `LibraryError` for a library whose first update has not come to its end: there is nothing to read yet."""
    if has_log(folder) and not (folder / MANIFEST).is_file():
        raise LibraryError(
            f"{folder}: the first update of this library was interrupted, or still runs.",
            hint="give the same visir library make PLACE again: it goes on from there",
        )


def default_folder(place: str) -> Path:
    """The default folder of a library of this place: `Photos.visir` in the current folder."""
    path = Path(place)
    if path.exists():
        stem = path.absolute().name.split(".")[0] or path.absolute().name
    else:
        stem = re.sub(r"[^\w-]+", "-", Path(place.partition("?")[0]).name.split(".")[0]).strip("-")
    return Path(f"{stem or 'library'}.visir")


def is_library(folder: str | Path) -> bool:
    """Whether this folder is a library (sound or not)."""
    return is_made_by_visir(folder, LIBRARY.name)


def thumbnail_path(folder: Path, item: str) -> Path:
    """Where the thumbnail of an item lies."""
    return folder / thumbnail_name(item)


def thumbnail_name(item: str) -> str:
    """The name of the thumbnail of an item, below the library's folder."""
    return f"{THUMBNAILS}/{item[:2]}/{item}.webp"


# Where the indexes of a library lie: in its folder, or on a server; and what a new one is called there.


@dataclass(frozen=True)
class IndexPlace:
    """Where one index lies."""

    kind: str  # the kind of index
    settings: Mapping[str, Any]  # as its `visir.json` holds them

    @property
    def on_server(self) -> bool:
        """Whether its vectors lie on a server."""
        return bool(self.settings.get("url"))

    @property
    def collection(self) -> tuple[str, str, str]:
        """Address, schema ("" where there are none) and name of its collection; three times "" in the folder."""
        here = (self.settings.get(name) or "" for name in ("url", "schema", "collection"))
        url, schema, name = here if self.on_server else ("", "", "")
        return url, schema, name

    @property
    def removal(self) -> str:
        """The command by which a person deletes what lies on the server."""
        from visir.retrieval.remote.index import engine_of

        url, _, collection = self.collection
        return str(engine_of(family_of(url)).removal(url, collection, self.settings))

    def __str__(self) -> str:
        place = place_on_server(self.settings) if self.on_server else "the library's folder"
        return f"{self.kind}, in {place}"


def places_of(folder: Path) -> dict[str, IndexPlace]:
    """Where each index of a library lies, by its name: "dense", "sparse", "captions"."""
    card = LibraryCard.of(Manifest.read(folder, LIBRARY)) if is_library(folder) else None
    places = {system: folder / (system if card is None else card.place(system)) for system in INDEXES}
    contents = {
        system: read_index(place).content for system, place in places.items() if is_made_by_visir(place, INDEX.name)
    }
    return {system: IndexPlace(content["kind"], content.get("settings", {})) for system, content in contents.items()}


def removals(before: Mapping[str, IndexPlace], after: Mapping[str, IndexPlace]) -> list[str]:
    """The commands that delete what an update has left on servers, where nothing uses it any more."""
    used = {place.collection for place in after.values()}
    return [place.removal for place in before.values() if place.on_server and place.collection not in used]


def kinds_here(before: Mapping[str, IndexPlace], after: Mapping[str, IndexPlace]) -> list[str]:
    """The kinds of index that bring the rest of a library into its folder, where an update has brought a part of it."""
    # An update with one `--kind` moves the indexes that are of it; others, as that of weighted words, stay on the
    # server.
    brought = any(place.on_server and not after[system].on_server for system, place in before.items())
    left = [place.kind for place in after.values() if place.on_server]
    return list(dict.fromkeys(USUAL_KINDS[KINDS.get(kind).vectors] for kind in left)) if brought else []


def named_settings(library: Path, system: str, kind: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings by which an index is built: on a server with a name that tells whose it is, where none was given."""
    # Only the index's own `visir.json` holds that name: the library's settings are those that the user has stated.
    on_server = issubclass(KINDS.get(kind).settings_type, Server) and settings.get("url")
    if not on_server or settings.get("collection"):
        return {**settings}
    name = library.absolute().name.removesuffix(".visir")
    return {**settings, "collection": name_collection(name, uuid4().hex, system)}
