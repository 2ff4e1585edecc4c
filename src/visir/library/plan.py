"""The plan of an update: models, kinds of index and source, settled before anything is read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.errors import ConfigurationError, nearest, raise_faults
from visir.library.check import load_index
from visir.library.layout import CAPTIONS, INDEXES, LibraryCard, LibraryError, check_library_name, is_library
from visir.library.models import NO_MODEL, LibraryModels, names_of, with_moved_models
from visir.library.product_words import planned_words
from visir.library.source import absolute, is_empty, place_of
from visir.library.sources import is_table_of_products
from visir.retrieval.folder import INDEX, read_index
from visir.storage import FolderChange, is_made_by_visir, remove_own_folders

if TYPE_CHECKING:
    from visir.records import VectorForm
    from visir.retrieval.kinds import Kind


def plan_library(
    folder: Path,
    source: str | Path | None,
    model: str | Path | None,
    head: str | Path | None,
    kind: str | Sequence[str] | None,
    name: str | None,
    split: str | None,
    images: Sequence[str | Path],
    settings: Mapping[str, Any] | None = None,
    language: str | None = None,
    synonyms: str | Path | None = None,
) -> LibraryCard:
    """The card of the library in `folder` after the update: what it is now, with what the caller requests."""
    # Raises `LibraryError` when that does not fit, `ConfigurationError` for settings that are wrong or of no index.
    if not is_library(folder):
        if source is None or model is None:
            raise LibraryError(
                f"{folder}: there is no library yet.",
                hint="make one: visir library make PLACE --model MODEL",
                code="no-library-yet",
            )
        spec, places = absolute(source, [str(place) for place in images], split)
        first, second = names_of(model, head)
        title = name if name is not None else folder.absolute().name.removesuffix(".visir")
        check_library_name(title)
        new = LibraryCard(title, spec, places, split, "", first, second)
        if not first and not is_table_of_products(spec):
            raise LibraryError(
                f"--model {NO_MODEL}: {source} is no table of products, which can be searched by words alone.",
                hint="--model MODEL; visir models lists them",
                code="no-table-products-searched",
            )
        return _with_words(_with_kinds(new, kind, settings), language, synonyms)
    current = LibraryCard.read(folder)
    if current.next and model is None and head is None:  # a killed change of models: any update goes on with it
        model, head = current.next["model"], current.next["head"]
        current = replace(current, kinds=current.next["kinds"], settings=current.next["settings"])
    names = names_of(model if model is not None else current.model, head)
    had_model, had_head = bool(current.model), current.head
    current = with_moved_models(current, names[0] if model is not None else None, names[1] if head else None, folder)
    if current.model and not had_model:
        current = _with_kinds(current, kind, settings)
    elif current.head and not had_head:
        kinds = _kinds(kind, current.model, current.head, current.kinds)
        current = replace(current, kinds=kinds, settings=_settings(settings or {}, kinds, current.settings))
    elif kind or settings:
        kinds = _kinds(kind, current.model, current.head, current.kinds)
        same = {
            system: current.settings.get(system, {}) for system in kinds if kinds[system] == current.kinds.get(system)
        }
        current = replace(current, kinds=kinds, settings=_settings(settings or {}, kinds, same))
    if source is not None:
        spec, places = absolute(source, [str(place) for place in images], split)
        if spec != current.source and _is_available(current.source):
            raise LibraryError(
                f"{folder}: this library is of {current.source}, not of {spec}.",
                hint="make another library: --out NEW_FOLDER",
            )
        current = replace(current, source=spec, images=places or current.images, split=split or current.split)
    current = _with_words(current, language, synonyms)
    if name is None:
        return current
    check_library_name(name)
    return replace(current, name=name)


def _with_kinds(new: LibraryCard, kind: str | Sequence[str] | None, settings: Mapping[str, Any] | None) -> LibraryCard:
    """The card of a library whose first vectors are to come."""
    kinds = _kinds(kind, new.model, new.head, {})
    if is_table_of_products(new.source):  # the titles are in the vectors of the products
        kinds.pop(CAPTIONS, None)
    return replace(new, kinds=kinds, settings=_settings(settings or {}, kinds, {}))


def _with_words(card: LibraryCard, language: str | None, synonyms: str | Path | None) -> LibraryCard:
    """The card with the search by words that products have."""
    if is_table_of_products(card.source):
        return replace(card, words=planned_words(card.words, language, synonyms))
    given = {"--language": language, "--synonyms": synonyms}
    faults = [
        f"{option} {value}: {card.source} is no table of products, which are searched by words"
        for option, value in given.items()
        if value is not None
    ]
    raise_faults(LibraryError, "the words of a library", faults, hint="leave it out")
    return card


def check_apart(folder: Path, source: str | Path | None) -> None:
    """Raise `LibraryError` when a place and its library are one folder, or the place lies inside the library."""
    if source is None or "://" in str(source):
        return
    text = str(source)
    for path in (Path(text), Path(text.partition(":")[2])):
        if path.is_dir() and str(path) != ".":
            break
        if text in (".", "photos:."):
            path = Path.cwd()
            break
    else:
        return
    place, library = os.path.realpath(path), os.path.realpath(folder)
    if place == library or place.startswith(library + os.sep):
        raise LibraryError(
            f"{folder}: a place and its library cannot be one folder"
            + (f": {source} lies inside it." if place != library else "."),
            hint=f"give the library a folder of its own: --out {Path(library).with_suffix('.visir')}",
        )


def _is_available(source: str) -> bool:
    """Whether a source still is where it was; if not, another one may be the same under a new path."""
    path = place_of(source)
    return (path.exists() and not is_empty(path)) or not path.is_absolute()


def _kinds(
    kind: str | Sequence[str] | None, model: str, head: str | None, current: Mapping[str, str]
) -> dict[str, str]:
    """The kind of each index, and whether there is one: those that are named, with what belongs beside them; else those
    that are there."""
    # Captions are indexed as pictures are where these are in an engine that has both forms, so that it holds all
    # vectors.
    from visir.retrieval.kinds import KINDS, USUAL_KINDS

    kinds = {} if head == model or not model else {"dense": "exact", CAPTIONS: "exact"}
    if head is not None:
        kinds["sparse"] = "inverted"
    kinds |= current
    named = [kind] if isinstance(kind, str) else list(kind or ())
    of_model = [KINDS.get(kind_name) for kind_name in named if _system(KINDS.get(kind_name)) == "dense"]
    if CAPTIONS in kinds and of_model:
        kinds[CAPTIONS] = of_model[0].name if of_model[0].beside else USUAL_KINDS[of_model[0].vectors]
    with_them = [
        other
        for kind_name in named
        for other in KINDS.get(kind_name).beside
        if _system(KINDS.get(other)) in kinds and _system(KINDS.get(other)) != _system(KINDS.get(kind_name))
    ]
    for kind_name in [*with_them, *named]:
        described = KINDS.get(kind_name)
        if _system(described) not in kinds:
            raise LibraryError(
                f"--kind {kind_name}: holds {described.vectors} vectors, and this library has none.",
                hint="visir index kinds lists the kinds",
                code="holds-vectors-library-none",
            )
        described.index()  # says now, not after hours, that a package is missing
        kinds[_system(described)] = kind_name
    return of_form(kinds, KINDS.get(current["dense"]).vectors) if "dense" in current else kinds


def _system(kind: Kind) -> str:
    """The index of a library that a kind is for: vectors of its model, one or several for each picture, or words."""
    return "sparse" if kind.vectors == "sparse" else "dense"


def fitted(card: LibraryCard, models: LibraryModels) -> LibraryCard:
    """The card with kinds of index for the form of vectors that the model makes."""
    encoder = models.dense
    return card if encoder is None else replace(card, kinds=of_form(card.kinds, encoder.form))


def of_form(kinds: Mapping[str, str], form: VectorForm) -> dict[str, str]:
    """Kinds of index for vectors of a form. "exact" means the exact kind of every form; an engine's kind all of its."""
    from visir.retrieval.kinds import KINDS, USUAL_KINDS

    fitting = dict(kinds)
    for system in ("dense", CAPTIONS):
        kind = KINDS.get(kinds[system]) if system in kinds else None
        if kind is None or kind.vectors == form:
            continue
        beside = [name for name in kind.beside if KINDS.get(name).vectors == form]
        if kind.name == "exact":
            fitting[system] = USUAL_KINDS[form]
        elif beside:
            fitting[system] = beside[0]
        else:
            possible = [name for name in KINDS if KINDS.get(name).vectors == form]
            raise LibraryError(
                f"--kind {kind.name}: holds {kind.vectors} vectors, and the model makes {form} ones.",
                hint=f"one of {', '.join(possible)}; or another model (visir models --form {kind.vectors})",
                code="holds-vectors-model-makes",
            )
    return fitting


def _settings(
    settings: Mapping[str, Any], kinds: Mapping[str, str], current: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The named settings of each index: those it has, and of those given what its kind knows."""
    # A name for a collection is the beginning of the names of several.
    from visir.retrieval.kinds import KINDS, settings_of_kind
    from visir.retrieval.remote.addresses import name_address
    from visir.retrieval.settings import settings_of

    known = {system: {name for name, *_ in settings_of_kind(KINDS.get(kind))} for system, kind in kinds.items()}
    every = set().union(*known.values())
    faults = [
        f"no index of it has a setting {name!r} ({nearest(name, every)})" for name in settings if name not in every
    ]
    raise_faults(ConfigurationError, "the settings of a library", faults, hint="visir index kinds lists them")
    result = {}
    for system, kind in kinds.items():
        own = {name: value for name, value in settings.items() if name in known[system]}
        if own.get("collection"):
            own["collection"] = f"{own['collection']}-{system}"
        stated = getattr(KINDS.get(kind).described(), "settings_type", None)
        named = {**current.get(system, {}), **own}
        if named.get("collection") == "":
            named.pop("collection")  # the index gets a name of its own, which its folder holds
        if stated is not None:
            read = settings_of(kind, stated, named)  # also where none is named: some kinds need an address
        if named and stated is not None:
            result[system] = {name: getattr(read, name) for name in named}
            if own.get("url"):
                name_address(own["url"], getattr(read, "grpc", 0))
    return result


def drop_other_indexes(change: FolderChange, plan: LibraryCard, models: LibraryModels) -> None:
    """Remove the indexes that a killed first update left, unless they are of the same models and kinds."""
    folder = change.folder
    for system in INDEXES:
        change.own_folder(system)
        if not is_made_by_visir(folder / system, INDEX.name):
            continue
        encoder = models.sparse if system == "sparse" else models.dense
        try:
            index = load_index(folder / system)
            card = index.select(index.ids[:1]).encoder
            same = encoder is not None and card == encoder.card and is_as_planned(folder, system, plan)
        except LibraryError:
            same = False
        if not same:
            remove_own_folders(change, system)


def is_as_planned(folder: Path, system: str, plan: LibraryCard) -> bool:
    """Whether the index that lies there is of the kind, and has the settings, that the library is to have."""
    content = read_index(folder / plan.place(system)).content
    stated = plan.settings.get(system, {})
    has = content.get("settings", {})
    return content["kind"] == plan.kinds.get(system) and all(has.get(name) == value for name, value in stated.items())


def are_moved(folder: Path, before: LibraryCard) -> bool:
    """Whether the models of the library lie elsewhere than it says."""
    card = LibraryCard.read(folder)
    return (card.model, card.head) != (before.model, before.head)
