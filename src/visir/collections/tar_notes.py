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
    """The notes of a source.

    Args:
        links: The links, hard and symbolic, each with its tar: "0.tar: a.jpg".
        going_on: The tars with more behind the mark of their end.

    Example:
        >>> for note in tar_notes(["0.tar: a.jpg"], ["0.tar", "1.tar"]):
        ...     print(note)  # doctest: +ELLIPSIS
        1 link in tars passed over, e.g. 0.tar: a.jpg (pack the files themselves: tar --dereference --hard-dereference)
        2 tars with more behind the mark of the end, not read, e.g. 0.tar (as of tars joined by cat: ...)
    """
    notes = []
    if links:
        notes.append(f"{counted(len(links), 'links')} {_LINKS}, e.g. {one_line(links[0])} ({LINKS_REMEDY})")
    if going_on:
        tars = counted(len(going_on), "tars")
        notes.append(f"{tars} {_BEHIND}, e.g. {one_line(going_on[0])} ({END_REMEDY})")
    return notes


def tar_notes_in(source: str) -> list[str]:
    """Those of these notes that the `source` of a record has.

    Example:
        >>> [note.partition(" (")[0] for note in tar_notes_in("; ".join(["a.tar", *tar_notes(["a.tar: b.jpg"], [])]))]
        ['1 link in tars passed over, e.g. a.tar: b.jpg']
    """
    return [note for note in source.split("; ") if _LINKS in note or _BEHIND in note]
