"""`visir library make PLACE --watch`: bring a library up to date whenever its place changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

from visir.collections.readers.locate import walk
from visir.errors import require
from visir.library.layout import LibraryCard, LibraryError

SETTLE = 2.0
"""Seconds without a change before the library is updated: copying a folder of photos is one update, not hundreds."""
LONGEST = 60.0
"""Seconds after which it is updated even where changes never cease."""

LOOK = 2.0
"""Seconds after which is looked whether the place is still the same folder."""
FIRST = 1.0
"""Seconds after which is tried again what failed; twice as long each time, up to `LONGEST`."""


def watch(
    folder: Path,
    changed: Callable[[], object],
    *,
    settle: float = SETTLE,
    stop: Event | None = None,
    callback: Callable[[str], object] = lambda message: None,
) -> None:
    """Call `changed` whenever something changed where the library's pictures lie; returns when `stop` is set."""
    # Hidden files and the library's own folder are ignored. The system does not report changes that another machine
    # makes on a network share: run `visir library update` from time to time there.
    # Whatever `changed` raises, and a place that is away for a while, goes to `callback` once, and is tried again, at
    # first after a second and then more seldom.
    # Raises `MissingPackageError` without the package watchfiles, `LibraryError` where there is no folder to watch.
    require_watching()
    require_place(folder)
    root, own, stop = Path(LibraryCard.read(folder).root), folder.absolute(), stop or Event()
    due, last_message, wait = False, "", FIRST
    while not stop.is_set():
        try:
            place = _identity(root)
            if due:
                changed()
            due, last_message, wait = False, "", FIRST
            for _ in _changes(root, place, own, settle, stop):
                due = True
                changed()
                due = False
            due = True  # another place lies there now, or a new folder: it may hold anything
        except Exception as fault:  # whatever it is, the next look may find it mended
            if str(fault) != last_message:
                last_message = str(fault)
                callback(f"{last_message}\n  (watching on; it is tried again)")
            due = True
            stop.wait(wait)
            wait = min(2 * wait, LONGEST)


def _changes(root: Path, place: tuple[int, int], own: Path, settle: float, stop: Event) -> Iterator[object]:
    """Something for each time that something changed."""
    # It ends when another folder lies at `root`, when there is a new folder in it, or when `stop` is set. The first
    # comes in any case, once the system reports changes: what changed before that was reported to nobody.
    from watchfiles import Change
    from watchfiles import watch as changes

    def counts(_: Change, path: str) -> bool:
        seen = Path(path)
        return not seen.is_relative_to(own) and not any(part.startswith(".") for part in seen.relative_to(root).parts)

    folders = _folders(root, own)
    all_changes = changes(
        *(folders or [str(root)]),
        watch_filter=counts,
        debounce=int(LONGEST * 1000),
        step=int(settle * 1000),
        stop_event=stop,
        rust_timeout=int(LOOK * 1000),
        yield_on_timeout=True,
        raise_interrupt=True,
        recursive=not folders,
    )
    first = True
    for change_set in all_changes:
        if _identity(root) != place:
            return
        if change_set or first:
            yield change_set
        first = False
        if folders and any(change == Change.added and Path(path).is_dir() for change, path in change_set):
            return


def _folders(root: Path, own: Path) -> list[str]:
    """The folders that are watched one by one, as an update looks into them; none where the system watches them all."""
    # Linux watches single folders. What makes many of them one follows every link, without end in `/proc`.
    if sys.platform != "linux":
        return []
    folders: list[str] = []
    for _ in walk(root, folders=folders):
        pass
    return [folder for folder in folders if not Path(folder).is_relative_to(own)]


def _identity(root: Path) -> tuple[int, int]:
    """Which folder lies there: an unmounted disk, or a folder that was exchanged, is another."""
    try:
        about = root.stat()
    except OSError as fault:
        raise LibraryError(f"{root}: is away ({fault.strerror or fault}); its pictures are kept.") from fault
    return about.st_dev, about.st_ino


def watchable(folder: Path) -> bool:
    """Whether the library's source lies on a disk: generated scenes do not."""
    manifest = LibraryCard.read(folder)
    return bool(manifest.root) and ":/" in manifest.source and Path(manifest.root).is_dir()


def require_place(folder: Path) -> None:
    """Raise `LibraryError` where the library's source lies on no disk, or is away."""
    if not watchable(folder):
        raise LibraryError(
            f"{folder}: its source {LibraryCard.read(folder).source} is no place on a disk; there is nothing to watch.",
            hint="is the disk mounted?",
        )


def require_watching() -> None:
    """Raise `MissingPackageError` unless changes can be watched: before an hour of indexing, not after it."""
    require("watchfiles", extra="watch", purpose="--watch")
