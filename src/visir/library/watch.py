"""`visir index PLACE --watch`: bring a library up to date whenever its place changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event

from visir.errors import require
from visir.library.layout import LibraryCard, LibraryError

SETTLE = 2.0
"""Seconds without a change before the library is updated: copying a folder of photos is one update, not hundreds."""
LONGEST = 60.0
"""Seconds after which it is updated even where changes never cease."""


def watch(folder: Path, changed: Callable[[], object], *, settle: float = SETTLE, stop: Event | None = None) -> None:
    """Call `changed` whenever something changed where the library's pictures lie; returns when `stop` is set.

    Hidden files and the library's own folder count for nothing. Changes on a network share are not told by the system
    to those who watch from another machine: run `visir index` from time to time there.

    Raises `MissingPackageError` without the package watchfiles, `LibraryError` where there is no folder to watch.
    """
    require_watching()
    from watchfiles import Change
    from watchfiles import watch as changes

    root = Path(LibraryCard.read(folder).root)
    if not watchable(folder):
        raise LibraryError(f"{folder}: its source is no place on a disk; there is nothing to watch.")
    own = folder.absolute()

    def counts(_: Change, path: str) -> bool:
        seen = Path(path)
        return not seen.is_relative_to(own) and not any(part.startswith(".") for part in seen.relative_to(root).parts)

    told: Iterable[object] = changes(
        root,
        watch_filter=counts,
        debounce=int(LONGEST * 1000),
        step=int(settle * 1000),
        stop_event=stop,
        raise_interrupt=True,
    )
    for _ in told:
        changed()


def watchable(folder: Path) -> bool:
    """Whether the library's source lies on a disk: generated scenes do not."""
    manifest = LibraryCard.read(folder)
    return bool(manifest.root) and ":/" in manifest.source and Path(manifest.root).is_dir()


def require_watching() -> None:
    """Raise `MissingPackageError` unless changes can be watched: before an hour of indexing, not after it."""
    require("watchfiles", extra="watch", purpose="--watch")
