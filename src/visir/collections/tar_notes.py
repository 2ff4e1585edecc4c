"""What is said of the members of tars that are not read: links, and what stands behind the mark of the end."""

from __future__ import annotations

from collections.abc import Sequence

from visir.display import counted
from visir.terminal import one_line

LINKS_REMEDY = "pack the files themselves: tar --dereference --hard-dereference"
END_REMEDY = "as of tars joined by cat: unpack it with tar --ignore-zeros, and pack it again"

GOES_ON = "goes on behind the mark of its end, where it is not read"
"""Why a tar is refused that is read whole or not at all."""
_LINKS, _BEHIND = "in tars passed over", "with more behind the mark of the end, not read"


def tar_notes(links: Sequence[str], going_on: Sequence[str]) -> list[str]:
    """The notes of a source."""
    notes = []
    if links:
        notes.append(f"{counted(len(links), 'links')} {_LINKS}, e.g. {one_line(links[0])} ({LINKS_REMEDY})")
    if going_on:
        tars = counted(len(going_on), "tars")
        notes.append(f"{tars} {_BEHIND}, e.g. {one_line(going_on[0])} ({END_REMEDY})")
    return notes


def tar_notes_in(source: str) -> list[str]:
    """Those of these notes that the `source` of a record has."""
    return [note for note in source.split("; ") if _LINKS in note or _BEHIND in note]
