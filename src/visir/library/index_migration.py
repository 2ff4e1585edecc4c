"""Indexes of a library that are to be of another kind, or in another place: made anew from the vectors they hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from visir.library.check import check_before_change, load_index
from visir.library.index_places import named_settings
from visir.library.layout import INDEXES, WORK, LibraryCard, LibraryError
from visir.library.plan import is_as_planned
from visir.retrieval.folder import INDEX
from visir.retrieval.kinds import KINDS
from visir.storage import FolderChange, Manifest, is_made_by_visir, remove_own_folders


def migrate_indexes(change: FolderChange, plan: LibraryCard, callback: Callable[[str, int, int], None]) -> LibraryCard:
    """Bring the indexes to where and what `plan` says, and say in the manifest that they are; the new card."""
    # Nothing is encoded. The library can be searched all the while: the new index is complete before it takes the place
    # of the old one. A kill leaves one or the other, and the next update goes on from there; only between two renames
    # there is neither, and it is the next update that does the second. A collection that was left on a server stays
    # there.
    folder = change.folder
    systems = [name for name in INDEXES if name in plan.kinds]
    for system in systems:
        for work in change.works(WORK):
            new, old = _places(folder / work, system)
            if not (folder / plan.place(system)).exists() and is_made_by_visir(new, INDEX.name):
                new.rename(folder / plan.place(system))
            remove_own_folders(change, _name(change, old))
    wrong = [name for name in systems if (folder / plan.place(name)).is_dir() and not is_as_planned(folder, name, plan)]
    if not wrong:
        return plan
    check_before_change(folder)
    for position, system in enumerate(wrong):
        callback("moving", position, len(wrong))
        place = folder / plan.place(system)
        strangers = Manifest.read(place, INDEX).strangers(place)
        if strangers:
            raise LibraryError(
                f"{place}: holds files that visir did not write ({', '.join(strangers[:3])}).",
                hint="move them away, and run the same again",
            )
        index, (new, old) = load_index(place), _places(change.work_folder(WORK), system)
        if new.exists() and not _is_complete(new, system, plan, index.ids.to_pylist()):
            remove_own_folders(change, _name(change, new))
        if not new.exists():
            kind = KINDS.get(plan.kinds[system]).index()
            settings = named_settings(folder, system, plan.kinds[system], plan.settings.get(system, {}))
            kind.build(index.documents(), new, **settings)
        change.commit(plan.to_content())  # from here on the library is to have the new kind
        old.parent.mkdir(exist_ok=True)
        place.rename(old)
        new.rename(place)
        remove_own_folders(change, _name(change, old))
    callback("moving", len(wrong), len(wrong))
    plan = replace(plan, generation=plan.generation + 1)
    change.commit(plan.to_content())
    return plan


def _name(change: FolderChange, path: Path) -> str:
    return path.relative_to(change.folder).as_posix()


def _places(work: Path, system: str) -> tuple[Path, Path]:
    """Where the new index is made, and where the old one waits for its removal."""
    return work / f"{system}-moved", work / f"{system}-old"


def _is_complete(new: Path, system: str, plan: LibraryCard, ids: list[str]) -> bool:
    """Whether a killed move has come so far that its new index only needs to take its place."""
    if not is_made_by_visir(new, INDEX.name):
        return False
    as_one = replace(plan, kinds={new.name: plan.kinds[system]}, settings={new.name: plan.settings.get(system, {})})
    return is_as_planned(new.parent, new.name, as_one) and load_index(new).ids.to_pylist() == ids
