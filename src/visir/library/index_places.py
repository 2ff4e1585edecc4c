"""Where the indexes of a library lie: in its folder, or on a server; and what a new one is called there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from visir.library.layout import INDEXES, LIBRARY, LibraryCard, is_library
from visir.retrieval.folder import INDEX, read_index
from visir.retrieval.kinds import KINDS, USUAL_KINDS
from visir.retrieval.remote.collection_names import name_collection, place_on_server
from visir.retrieval.remote.families import family_of
from visir.retrieval.remote.settings import Server
from visir.storage import Manifest, is_made_by_visir


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
        url, _, collection = self.collection
        return str(family_of(url).engine().removal(url, collection, self.settings))

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
    on_server = issubclass(getattr(KINDS.get(kind).index(), "settings_type", object), Server) and settings.get("url")
    if not on_server or settings.get("collection"):
        return {**settings}
    name = library.absolute().name.removesuffix(".visir")
    return {**settings, "collection": name_collection(name, uuid4().hex, system)}
