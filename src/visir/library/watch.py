"""`visir library make PLACE --watch`: bring a library up to date whenever its place changes."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from threading import Event

from visir.collections.readers.locate import walk
from visir.errors import require
from visir.library.check import check_before_change
from visir.library.database import Database
from visir.library.layout import LIBRARY, LibraryCard, LibraryError, UnknownItemError, being_updated
from visir.library.updating import clean_indexes, commit
from visir.storage import changing
from visir.threads import BackgroundThread

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


# A library that is kept up to date in the background, by a thread that does not end without a word.


class Watcher(BackgroundThread):
    """Watches the photos of a library, and updates it when they change, until `stop`.

    What goes wrong in an update is warned of once, and tried again. Should the watching itself end in an error, it is
    begun again, a little later each time; `fault` says why.

    Args:
        folder: The library's folder.
        changed: Updates the library.
        settle: Seconds without a change before it is updated.
        callback: Called with what goes wrong, as a sentence. Default: a warning.

    Attributes:
        fault: Why the last update failed, or the watching ended; empty while all is well.
    """

    def __init__(
        self,
        folder: Path,
        changed: Callable[[], object],
        *,
        settle: float = SETTLE,
        callback: Callable[[str], object] | None = None,
    ) -> None:
        require_watching()
        require_place(folder)
        self.folder, self.fault = folder, ""
        self._changed, self._settle = changed, settle
        self._callback = callback or (lambda message: warnings.warn(message, stacklevel=2))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"visir-watch-{folder.name}", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it watches: until `stop`, unless its thread was killed."""
        return self._thread.is_alive() and not self._stop.is_set()

    def stop(self, seconds: float = 30.0) -> None:
        """Watch no more; waits so long for an update that is under way."""
        self._stop.set()
        self._thread.join(seconds)

    def __repr__(self) -> str:
        return f"Watcher({str(self.folder)!r}, {'watching' if self.is_alive else 'stopped'})"

    def _run(self) -> None:
        wait = FIRST
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                watch(self.folder, self._update, settle=self._settle, stop=self._stop, callback=self._failed)
            except BaseException as fault:  # a thread that ends would end in silence
                self._failed(f"{self.folder}: watching ended: {fault or type(fault).__name__}; it is begun again")
            wait = FIRST if time.monotonic() - began > LONGEST else min(2 * wait, LONGEST)
            self._stop.wait(wait)

    def _update(self) -> object:
        report = self._changed()
        self.fault = ""
        return report

    def _failed(self, message: str) -> None:
        if message != self.fault:
            self.fault = message
            self._callback(message)


# Taking pictures out of a library while their files stay where they are.


def remove(folder: str | Path, items: Iterable[str]) -> int:
    """Take these items out of the library, for good: later updates leave them out. How many that were."""
    # The photos stay where they are. Raises `LibraryError` that names unknown ids, and when an update is under way.
    folder, removed = Path(folder), sorted(set(items))
    LibraryCard.read(folder)
    with changing(folder, LIBRARY, busy=being_updated(folder), make=False, resume=True) as change:
        card = LibraryCard.of(change.manifest)
        database = Database.open(folder / card.database)
        try:
            digests = dict(database.of("SELECT id, thumbnail FROM items WHERE id IN", removed))
            unknown = [item for item in removed if item not in digests]
            if unknown:
                raise UnknownItemError(
                    f"{card.name}: no picture {', '.join(map(repr, unknown[:3]))}.", code="no-picture"
                )
        finally:
            database.close()
        check_before_change(folder)
        card = commit(change, card, lambda draft: _remove(draft, removed), removed=digests)
        clean_indexes(change, card)
    return len(removed)


def _remove(draft: Database, removed: Sequence[str]) -> None:
    with draft.writing():
        draft.run_many(
            "INSERT OR REPLACE INTO removed SELECT item, path, mark FROM files WHERE item = ?",
            [(item,) for item in removed],
        )
        of_item = {"files": "item", "captions": "item", "fields": "item", "extracted": "item", "items": "id"}
        for table, column in of_item.items():
            draft.run_many(f"DELETE FROM {table} WHERE {column} = ?", [(item,) for item in removed])
