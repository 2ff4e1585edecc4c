"""Folders that many processes share: a store of entries by their content; a folder that needs no locks."""

from __future__ import annotations

import contextlib
import os
import secrets
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from visir.errors import VisirError
from visir.files import cache_directory
from visir.storage.claims import has_log, is_begun, make_folder
from visir.storage.disk import UMASK, disk_faults, remove_files, to_disk
from visir.storage.folder import FolderChange, changing, digest_once, recover, remove_folder
from visir.storage.manifest import MANIFEST, FolderError, FolderKind, Manifest
from visir.storage.scratch import aside, move_to_new


class ContentStore:
    """A folder of entries of one kind, each a folder under a key over everything that determines its content.

    An entry counts when it has its manifest; until then it is a folder that a killed writer's successor goes on with.
    A store can be deleted at any time.

    Args:
        kind: What the entries are.
        root: Where they lie; by default the folder `name` (that of the kind) in the user's cache (`VISIR_CACHE`).
    """

    def __init__(self, kind: FolderKind, root: str | Path | None = None, *, name: str = "") -> None:
        self.kind = kind
        self.root = Path(root) if root is not None else cache_directory() / (name or kind.name)

    def path(self, key: str) -> Path:
        """Where the entry of a key lies, or will. Entries of another version of the kind are not looked at."""
        return self.root / f"v{self.kind.version}" / key[:2] / key

    def find(self, key: str, *, hashed: Callable[[str], bool] = lambda name: True) -> Manifest | None:
        """The manifest of a sound entry; None where there is none. A damaged one is put aside, with a warning.

        Files that are `hashed` are read in any case. Of others the size and the time are looked at: only one that was
        changed after the manifest, which is written last, is read.
        """
        path = self.path(key)
        if not (path / MANIFEST).is_file():
            return None
        written, latest = (path / MANIFEST).stat().st_mtime_ns, 0

        def looked_at(name: str) -> bool:
            nonlocal latest
            changed = (path / name).stat().st_mtime_ns
            latest = max(latest, changed)
            return changed > written or hashed(name)

        try:
            manifest = Manifest.read(path, self.kind)
            faults = manifest.faults(path, hashed=looked_at, digest=digest_once)
        except VisirError as fault:
            faults = [fault.message]
        if not faults:
            if latest > written:  # a copied cache, or a file that was only touched: it is read once, not every time
                with contextlib.suppress(OSError):
                    os.utime(path / MANIFEST, ns=(latest, latest))
            if has_log(path):  # its writer was killed after the last step, and no other will come
                with contextlib.suppress(VisirError):
                    recover(path, self.kind)
            return manifest
        self.put_aside(key, faults[0])
        return None

    def put_aside(self, key: str, reason: str) -> None:
        """Rename a damaged entry, if it can be: what is not as it was written is not visir's to remove."""
        path = self.path(key)
        try:
            place = aside(path, path, "damaged")
        except FileNotFoundError:
            return
        except OSError as fault:
            outcome = f"it is not used, and cannot be renamed ({fault.strerror})"
        else:
            outcome = f"it is made again. The damaged one is {place}"
        warnings.warn(f"{path}: damaged ({reason}); {outcome}", stacklevel=3)

    @contextlib.contextmanager
    def writing(self, key: str, *, waiting: str, resume: bool = True) -> Iterator[FolderChange]:
        """Be the only writer of an entry; another process that wants the same says that it is `waiting`, and then finds
        it done. With `resume`, go on from what a killed writer left."""
        path = self.path(key)
        make_folder(path.parent, elsewhere="VISIR_CACHE=FOLDER")
        # What no record names (a cleaner took its log) makes room: nobody can name another folder in a store.
        is_held = path.is_dir() and any(path.iterdir())
        if is_held and not is_begun(path, trusted=True) and not (path / MANIFEST).is_file():  # in this order
            self.put_aside(key, "no record says what is in it")
        with changing(path, self.kind, busy=waiting, resume=resume, trusted=True) as change:
            yield change

    def remove(self, key: str) -> None:
        """Remove an entry. What is memory-mapped somewhere stays readable there (not on Windows)."""
        remove_folder(self.path(key))


_COPIED_AT_ONCE = 1 << 22


class SharedFolder:
    """A folder on a disk that processes on many machines see, who write without locks: files appear whole, and once.

    Nothing here is ever replaced. All that is needed of the file system is that a file of one name can be made by one
    process alone. `visir.remote.RemoteFolder` offers the same of an object store. The folder is made by
    the first `create`.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(os.path.realpath(folder))
        self.place = str(folder)

    def listing(self, folder: str = "") -> dict[str, float]:
        """The names of the files in a folder below it, but for hidden ones (not whole yet), with the time of their last
        change in seconds since 1970."""
        files = {}
        with self._reading(folder), contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(self.folder / folder):
                with contextlib.suppress(FileNotFoundError):  # a link of somebody's to nothing ends no listing
                    if not entry.name.startswith("."):
                        files[entry.name] = entry.stat().st_mtime
        return files

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None where there is none."""
        with self._reading(name), contextlib.suppress(FileNotFoundError):
            return (self.folder / name).read_bytes()
        return None

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return (self.folder / name).is_file()

    def create(self, name: str, data: bytes, writer: str = "") -> bool:
        """Write a new small file; False where there is one of this name already. It appears whole; `writer` as of
        `publish`."""
        return self._appear(name, f".new-{writer or secrets.token_hex(4)}", lambda path: path.write_bytes(data))

    def touch(self, name: str) -> None:
        """Give a file the time of this moment."""
        with disk_faults(self.folder, FolderError):
            os.utime(self.folder / name)

    def publish(self, file: Path, name: str, writer: str) -> bool:
        """Copy a local file here; it appears whole. `writer` is a name that no other process has: the copy begins as
        `.new-WRITER`. False where there is a file of this name already, or where another process has cleared this
        writer's copy away."""
        return self._appear(name, f".new-{writer}", lambda path: _copy(file, path))

    def open(self, name: str) -> IO[bytes]:
        """A file, to be read at any place in it."""
        return (self.folder / name).open("rb")

    def remove(self, name: str) -> None:
        """Remove a file that visir wrote here, and the folders that this leaves empty."""
        remove_files(self.folder, [name])

    def clear(self, folder: str, writer: str) -> None:
        """Remove what a writer that is dead had begun to `publish` in a folder."""
        remove_files(self.folder / folder, [f".new-{writer}"])

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as fault:
            raise FolderError(
                f"{Path(self.place, name)}: cannot be read ({fault.strerror}).",
                hint="name a folder that can be read and written",
            ) from fault

    def _appear(self, name: str, hidden: str, write: Callable[[Path], object]) -> bool:
        target = self.folder / name
        make_folder(target.parent)
        path = target.with_name(hidden)
        try:
            with disk_faults(target, FolderError):
                write(path)
                path.chmod(0o666 & ~UMASK)
                to_disk(path)
                move_to_new(path, target)
        except FileNotFoundError:
            return False
        except FolderError:
            if target.is_file():
                return False
            raise
        finally:
            remove_files(target.parent, [hidden])
        return True


def _copy(file: Path, path: Path) -> None:
    with file.open("rb") as source, path.open("wb") as target:
        while data := source.read(_COPIED_AT_ONCE):
            target.write(data)
