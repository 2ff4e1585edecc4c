"""A library that goes over to other models: its indexes are made anew beside the old ones, which answer until then.

Order, so that a kill at any moment loses nothing and shows nothing wrong:

1. the card says what the library goes over to, and in which folders (`LibraryCard.next`): any update goes on with it
2. everything is encoded by the new models into these folders, as of a first update
3. one commit names models, folders and database together: from here on the new models count
4. the old folders, which that commit lists (`LibraryCard.left`), are removed by their own manifests
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from visir.errors import VisirError
from visir.library.layout import CAPTIONS, INDEXES, SYSTEMS, LibraryCard, LibraryError
from visir.library.models import LibraryModels
from visir.library.plan import fitted, is_made_by
from visir.records import EncoderCard
from visir.retrieval.index import INDEX
from visir.retrieval.kinds import USUAL_KINDS
from visir.storage import FolderChange, is_made_by_visir, recover, remove_folder
from visir.storage.disk import remove_files


def with_models(folder: Path, plan: LibraryCard, models: LibraryModels) -> LibraryCard:
    """The card of the library in `folder` when it has gone over to the models of a plan."""
    # The plan itself where they are the ones that made its vectors, under other names; what was begun is then given up.
    current = LibraryCard.read(folder)
    encoders = {"dense": models.dense, "sparse": models.sparse}
    differing = [
        system
        for system in SYSTEMS
        if (encoder := encoders[system]) is not None
        and (system not in plan.cards or EncoderCard(**plan.cards[system]).differences(encoder.card, "image"))
    ]
    begun: dict[str, str] = dict(current.next.get("places", {}))
    if not differing:
        return replace(plan, next={}, left=(*current.left, *begun.values()))
    anew = [*differing, *([CAPTIONS] if "dense" in differing and CAPTIONS in plan.kinds else [])]
    # The usual kind of one form of vectors is that of every form.
    usual = {name: "exact" if plan.kinds[name] in USUAL_KINDS.values() else plan.kinds[name] for name in anew
             if name != "sparse"}  # fmt: skip
    target = fitted(replace(plan, kinds={**plan.kinds, **usual}), models)
    others = [name for name in target.kinds if name not in anew and target.kinds[name] != current.kinds.get(name)]
    if others:
        raise LibraryError(
            f"{folder}: another model, and another kind of index of what stays ({', '.join(others)}).",
            hint="one after the other: first --model, then --kind",
        )
    if {name: current.next.get(name) for name in _NAMED} != {name: getattr(target, name) for name in _NAMED}:
        begun = {}
    places = {name: begun.get(name) or _free(folder, current, name) for name in anew}
    given_up = [place for place in current.next.get("places", {}).values() if place not in places.values()]
    old = [current.place(name) for name in anew if name in current.indexes]
    return replace(
        target,
        cards={system: card for system, card in plan.cards.items() if system not in differing},
        places={**current.places, **places},
        indexes=tuple(name for name in current.indexes if name not in anew),
        texts=None,
        next={},
        left=tuple(dict.fromkeys((*current.left, *old, *given_up))),
    )


_NAMED = ("model", "head", "kinds", "settings")
"""What `LibraryCard.next` has of the card that is to be, beside the places of the indexes that are made anew."""


def begin(change: FolderChange, target: LibraryCard, models: LibraryModels) -> None:
    """Write down what the library goes over to; what was made for other models under the same names is removed."""
    current = LibraryCard.of(change.manifest)
    places = {name: place for name, place in target.places.items() if current.places.get(name) != place}
    content: dict[str, Any] = {**{name: getattr(target, name) for name in _NAMED}, "places": places}
    if current.next != content:
        change.commit(replace(current, next=content).to_content())
    for system, place in places.items():
        there = is_made_by_visir(change.folder / place, INDEX.name)
        if there and not is_made_by(models, change.folder, system, target):
            remove_folder(change.folder / place)


def recover_indexes(change: FolderChange) -> None:
    """Remove what killed changes of the indexes have begun, wherever they lie."""
    card = LibraryCard.of(change.manifest) if change.manifest.generation else None
    more = () if card is None else (*card.places.values(), *card.next.get("places", {}).values(), *card.left)
    for name in dict.fromkeys((*INDEXES, *more)):
        recover(change.folder / name, INDEX)


def remove_left(change: FolderChange) -> None:
    """Remove the indexes that the library no longer uses: what their own manifests name."""
    card = LibraryCard.of(change.manifest)
    if not card.left:
        return
    for place in card.left:
        remove_folder(change.folder / place)
        remove_files(change.folder, [f"{place}/-"])  # the folder itself, if a kill left it empty
    change.commit(replace(card, left=()).to_content())


@contextmanager
def going_on(folder: Path, *, named: bool) -> Iterator[None]:
    """Say of an error of models that nobody named now that a change to them was begun, and the way out."""
    try:
        yield
    except VisirError as fault:
        if named:
            raise
        current = LibraryCard.read(folder)
        back = f"visir library update {shlex.quote(str(folder))} --model {shlex.quote(current.model)}"
        raise LibraryError(
            f"{folder}: its change to {current.next['model']} is not finished: {fault.message}",
            hint=f"{fault.hint or 'mend that, and run the same again'}; or stay with the model that it has: {back}",
            code="change-not-finished",
        ) from fault


def _free(folder: Path, card: LibraryCard, system: str) -> str:
    """A name for the new index of a system: nothing lies there."""
    names = (system if number == 1 else f"{system}-{number}" for number in count(1))
    taken = {card.place(system), *card.left}
    return next(name for name in names if name not in taken and not (folder / name).exists())
