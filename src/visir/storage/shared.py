"""A folder in which many processes on many machines write, without locks: files appear whole, and once.

Nothing here is ever replaced or removed. All that is needed of the file system is that a file of one name can be made
by one process alone. `visir.remote.RemoteFolder` offers the same of an object store.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO

from visir.storage.creation import move_to_new
from visir.storage.disk import UMASK, disk_faults, to_disk
from visir.storage.locks import make_folder
from visir.storage.manifest import FolderError
from visir.storage.removal import remove_files

_COPIED_AT_ONCE = 1 << 22


class SharedFolder:
    """A folder on a disk that all processes see.

    Args:
        folder: The folder. It is made by the first `create`.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(os.path.realpath(folder))
        self.place = str(folder)

    def listing(self, folder: str = "") -> dict[str, float]:
        """The names of the files in a folder below it, with the time of their last change in seconds since 1970.

        Hidden names, which files have before they are whole, are left out.
        """
        files = {}
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(self.folder / folder):
                with contextlib.suppress(FileNotFoundError):  # a link of somebody's to nothing ends no listing
                    if not entry.name.startswith("."):
                        files[entry.name] = entry.stat().st_mtime
        return files

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None where there is none."""
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return (self.folder / name).is_file()

    def create(self, name: str, data: bytes) -> bool:
        """Write a new small file; False where there is one of this name already. It appears whole."""
        return self._appear(name, f".new-{secrets.token_hex(4)}", lambda path: path.write_bytes(data))

    def touch(self, name: str) -> None:
        """Give a file the time of this moment."""
        with disk_faults(self.folder, FolderError):
            os.utime(self.folder / name)

    def publish(self, file: Path, name: str, writer: str) -> bool:
        """Copy a local file here. It appears whole.

        Args:
            file: The local file.
            name: Its name here.
            writer: A name that no other process has: the copy begins as `.new-WRITER`.

        Returns:
            False where there is a file of this name already, or where another process has cleared this writer's copy
            away.
        """
        return self._appear(name, f".new-{writer}", lambda path: _copy(file, path))

    def open(self, name: str) -> IO[bytes]:
        """A file, to be read at any place in it."""
        return (self.folder / name).open("rb")

    def clear(self, folder: str, writer: str) -> None:
        """Remove what a writer that is dead had begun to `publish` in a folder."""
        remove_files(self.folder / folder, [f".new-{writer}"])

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
