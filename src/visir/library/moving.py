"""Indexes of a library that are to be of another kind, or in another place: made anew from the vectors they hold."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from visir.library.check import load_index, refuse_changed
from visir.library.database import Database
from visir.library.layout import CAPTIONS, SYSTEMS, WORK, Manifest
from visir.library.plan import is_as_planned
from visir.search import kinds
from visir.search.folder import read_manifest


def move(folder: Path, plan: Manifest, database: Database, tell: Callable[[str, int, int], None]) -> Manifest:
    """Bring the indexes to where and what `plan` says, and say in `library.json` that they are; the plan without
    checksums of what was replaced.

    Nothing is encoded. The library can be searched all the while: the new index is complete before it takes the place
    of the old one. A kill leaves one or the other, and the next update goes on from there; only between two renames
    there is neither, and it is the next update that does the second. A collection that was left on a server stays
    there.
    """
    there = [one for one in (*SYSTEMS, CAPTIONS) if one in plan.kinds]
    for system in there:
        made = folder / WORK / f"{system}-moved"
        if not (folder / system).exists() and (made / "index.json").is_file():
            made.replace(folder / system)
    wrong = [one for one in there if (folder / one).is_dir() and not is_as_planned(folder, one, plan)]
    if not wrong:
        return plan
    refuse_changed(folder, plan, database)
    for at, system in enumerate(wrong):
        tell("moving", at, len(wrong))
        old, made = load_index(folder / system), folder / WORK / f"{system}-moved"
        if not _is_made(made, system, plan, old.ids.to_pylist()):
            shutil.rmtree(made, ignore_errors=True)
            made.parent.mkdir(exist_ok=True)
            kinds.build(plan.kinds[system], old.documents(), made, **plan.settings.get(system, {}))
        # From here on checksums of the old index say nothing, and it counts as it lies.
        files = {name: said for name, said in plan.files.items() if name.partition("/")[0] != system}
        plan = replace(plan, files=files)
        plan.write(folder)
        (folder / system).replace(folder / f".{system}.old")
        made.replace(folder / system)
        shutil.rmtree(folder / f".{system}.old")
    with database.writing():
        database.run("UPDATE meta SET value = value + 1 WHERE name = 'generation'")
    tell("moving", len(wrong), len(wrong))
    return plan


def _is_made(made: Path, system: str, plan: Manifest, ids: list[str]) -> bool:
    """Whether a killed move has come so far that its new index only needs to take its place."""
    if not (made / "index.json").is_file():
        return False
    as_one = replace(plan, kinds={made.name: plan.kinds[system]}, settings={made.name: plan.settings.get(system, {})})
    return is_as_planned(made.parent, made.name, as_one) and load_index(made).ids.to_pylist() == ids


def collections_of(folder: Path) -> dict[tuple[str, str], str]:
    """(address, collection) of every index that lies on a server, and which it is."""
    found = {}
    for system in (*SYSTEMS, CAPTIONS):
        if (folder / system / "index.json").is_file():
            said = read_manifest(folder / system).get("settings", {})
            if said.get("url"):
                found[said["url"], said["collection"]] = system
    return found
