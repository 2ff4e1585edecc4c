"""What a library is, or is to be: its models, kinds of index and source, agreed before anything is read."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from visir.collections.open import resolve
from visir.errors import VisirError
from visir.library.layout import CAPTIONS, SYSTEMS, LibraryError, Manifest, is_library
from visir.library.models import Models, names_of, refuse_other_names
from visir.library.source import absolute


def planned(
    folder: Path,
    source: str | Path | None,
    model: str | Path | None,
    head: str | Path | None,
    kind: str | Sequence[str] | None,
    name: str | None,
    split: str | None,
    images: Sequence[str | Path],
) -> Manifest:
    """What the library in `folder` is, with what was asked of it. Raises `LibraryError` when that does not fit."""
    if not is_library(folder):
        if source is None or model is None:
            raise LibraryError(
                f"{folder}: there is no library yet.", hint="say of what, and with which model: visir index PLACE -m M"
            )
        spec, places = absolute(source, [str(one) for one in images], split)
        first, second = names_of(model, head)
        made = Manifest(name or folder.absolute().name.removesuffix(".visir"), spec, places, split, "", first, second)
        return replace(made, kinds=_kinds(kind, first, second))
    held = Manifest.read(folder)
    given = names_of(model, head) if model is not None else (None, None)
    refuse_other_names(held, given[0], given[1] if head is not None else None, folder)
    wanted = {**held.kinds, **(_kinds(kind, held.model, held.head) if kind else {})}
    if wanted != held.kinds:
        stated = ", ".join(f"{system} {one}" for system, one in held.kinds.items())
        raise LibraryError(f"{folder}: its indexes are {stated}.", hint="leave --kind out, or make another library")
    if source is not None:
        spec, places = absolute(source, [str(one) for one in images], split)
        if spec != held.source and _there(held.source):
            raise LibraryError(
                f"{folder}: this library is of {held.source}, not of {spec}.",
                hint="make another library: --out NEW_FOLDER",
            )
        held = replace(held, source=spec, images=places or held.images, split=split or held.split)
    return held if name is None else replace(held, name=name)


def _there(source: str) -> bool:
    """Whether a source still is where it was; if not, another one may be the same under a new path."""
    _, path, _ = resolve(source) if not source.startswith("photos:") else (None, Path(source[len("photos:") :]), None)
    return path.exists() or not path.is_absolute()


def _kinds(kind: str | Sequence[str] | None, model: str, head: str | None) -> dict[str, str]:
    """The kind of each index, and whether there is one."""
    from visir.search.kinds import KINDS

    made = {} if head == model else {"dense": "exact", CAPTIONS: "exact"}
    if head is not None:
        made["sparse"] = "inverted"
    for one in [kind] if isinstance(kind, str) else kind or ():
        described = KINDS.get(one)
        if described.vectors not in made:
            raise LibraryError(
                f"--kind {one}: holds {described.vectors} vectors, and this library has none.",
                hint="visir index kinds lists the kinds",
            )
        described.index()  # says now, not after hours, that a package is missing
        made[described.vectors] = one
    return made


def drop_others(folder: Path, plan: Manifest, models: Models) -> None:
    """Remove what a killed first update left, unless it was made by the same models for the same kinds of index."""
    from visir.search.kinds import load

    for system in (*SYSTEMS, CAPTIONS):
        if not (folder / system).is_dir():
            continue
        encoder = models.sparse if system == "sparse" else models.dense
        try:
            index = load(folder / system)
            made = index.select(index.ids[:1]).encoder
            same = encoder is not None and made == encoder.card and index.info().kind == plan.kinds.get(system)
        except VisirError:
            same = False
        if not same:
            shutil.rmtree(folder / system)
