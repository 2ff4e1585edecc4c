"""What is read is what was written: files are held against the manifest that names them, before their values count.

- `check_folder`: every file that a manifest names, or those that are read.
- `check_written`: one file, by the manifest beside it or above it; a file that no manifest names is nobody's business.
- `LateCheck`: large files that are in use already, such as mapped vectors. A thread hashes them meanwhile, and the
  first answer waits for its verdict, up to `PATIENCE`.

A file is hashed once in a process as long as its size, times and inode are the same.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from visir.errors import VisirError, raise_faults
from visir.files import digest_of, digest_of_stream, read_json
from visir.storage.claims import Claims, has_log
from visir.storage.manifest import KNOWN, LOG, MANIFEST, FileRecord, FolderError, FolderKind, Manifest

PATIENCE = 5.0
"""Seconds that a first answer waits for a verdict on large files: about 4 GiB that are in memory already."""
MOST = 8 << 30
"""How many bytes a `LateCheck` hashes: ten seconds of one core. Of larger files the size is looked at; to read
everything is for `visir data check` and `visir library check`."""
_SETTLED_NS = 50_000_000
"""A file that changed so recently may change again without another time: clocks of file systems tick every 10 ms."""

State = tuple[int, int, int, int, int]
_digests: dict[State, tuple[int, str]] = {}
_manifests: dict[tuple[str, State], Manifest] = {}


def digest_once(path: Path) -> tuple[int, str]:
    """`digest_of` a file, computed once in this process while the file stays as it is."""
    state = _state(path.stat())
    if (digest := _digests.get(state)) is None:
        digest = digest_of(path)
        _remember(state, digest)
    return digest


def check_folder(
    folder: Path, manifest: Manifest, kind: FolderKind, *, names: Callable[[str], bool] = lambda name: True
) -> None:
    """Raise the kind's error that lists every file that is missing or not as it was written.

    Args:
        folder: The folder of the manifest.
        manifest: What it should hold.
        kind: Of the folder.
        names: Whether a file of this name is hashed; of others the size is looked at.
    """
    faults = manifest.faults(folder, hashed=names, digest=digest_once)
    if faults and (claims := _claims(folder)) is not None:
        others = {name: record for name, record in manifest.files.items() if name not in claims}
        faults = replace(manifest, files=others).faults(folder, hashed=names, digest=digest_once)
    raise_faults(kind.error, f"{folder}: {kind.title} that is damaged", faults, hint=kind.remedy)


def read_checked(folder: Path, kind: FolderKind) -> Manifest:
    """The manifest of a folder whose every file is as it was written. Raises the kind's error."""
    manifest = Manifest.read(folder, kind)
    check_folder(folder, manifest, kind)
    return manifest


def check_written(path: str | Path, names: Callable[[str], bool] = lambda name: True) -> None:
    """Raise `FolderError`, or the kind's own error, where a manifest names this file, and it is not as it was written.

    Args:
        path: Any file, or a folder: then every file that should be in it. One that no manifest names is not looked at.
        names: Which files of a folder are meant, by their names in the manifest.

    Example:
        >>> from pathlib import Path
        >>> from visir.storage import FolderKind, new_folder
        >>> with new_folder("notes", FolderKind("notes", "notes")) as change:
        ...     change.write("a.txt", b"one")
        >>> check_written("notes/a.txt")
        >>> _ = Path("notes/a.txt").write_bytes(b"two")
        >>> check_written("notes/a.txt")
        Traceback (most recent call last):
            ...
        visir.storage.manifest.FolderError: notes/a.txt: not as visir wrote it.
          → restore it from a backup, or make the whole folder again; visir data check FOLDER lists all that is wrong
    """
    whole = Path(os.path.normpath(Path(path).absolute()))
    folder = next((folder for folder in (whole, *whole.parents) if (folder / MANIFEST).is_file()), None)
    if folder is None:
        return
    inside = whole.relative_to(folder).as_posix()
    for _ in range(2):  # another process may have changed the folder between the two looks
        manifest, meant = _manifest(folder), [inside]
        records = manifest.files
        if inside not in records:
            below = "" if whole == folder else f"{inside}/"
            meant = [name for name in records if name.startswith(below) and names(name)] if whole.is_dir() else []
        faults = {name: fault for name in meant if (fault := _fault(folder / name, records[name]))}
        if not faults:
            return
    claims = _claims(folder)
    for name, fault in faults.items():
        if claims is None or name not in claims:
            kind = KNOWN.get(manifest.kind)
            again = "make the whole folder again" if kind is None else kind.remedy
            raise (FolderError if kind is None else kind.error)(
                f"{Path(path, Path(folder, name).relative_to(whole))}: {fault}.",
                hint=f"restore it from a backup, or {again}; visir data check FOLDER lists all that is wrong",
            )


def read_written_json(path: Path) -> Any:
    """The JSON of a file that visir wrote, held against its manifest first."""
    check_written(path)
    return read_json(path)


class LateCheck:
    """A thread that hashes files while they are in use.

    The files are opened at once: what another process puts in their places later is not what is in use here.

    Args:
        folder: Of the manifest.
        manifest: What the files should be.
        names: Of the files, in the order in which they are hashed.
        kind: Whose error is raised.
    """

    def __init__(self, folder: Path, manifest: Manifest, names: Sequence[str], kind: FolderKind) -> None:
        self._folder, self._manifest, self._kind = folder, manifest, kind
        self._faults: list[str] = []
        self._passed_over: set[str] = set()
        self._done = threading.Event()
        self._has_waited = False
        opened: list[tuple[str, IO[bytes], FileRecord]] = []
        total = 0
        for name in names:
            total += manifest.files[name].bytes
            if total > MOST:
                self._passed_over.add(name)
                continue
            record, stream = manifest.files[name], (folder / name).open("rb")
            known = _digests.get(_state(os.fstat(stream.fileno())))
            if known == (record.bytes, record.hash):
                stream.close()
            else:
                opened.append((name, stream, record))
        if opened:
            threading.Thread(target=self._hash, args=(opened,), name="visir-check", daemon=True).start()
        else:
            self._done.set()

    def settle(self, *, wholly: bool = False) -> None:
        """Wait for the verdict, the first time for `PATIENCE` at the most; raise the kind's error over a bad one.

        Args:
            wholly: Wait as long as it takes: what follows would give damaged values a new, correct hash.
        """
        if wholly or not self._has_waited:
            self._done.wait(None if wholly else PATIENCE)
            self._has_waited = True
        if wholly and self._passed_over:
            check_folder(self._folder, self._manifest, self._kind, names=lambda name: name in self._passed_over)
        raise_faults(
            self._kind.error,
            f"{self._folder}: {self._kind.title} that is damaged",
            list(self._faults),
            hint=self._kind.remedy,
        )

    def _hash(self, opened: list[tuple[str, IO[bytes], FileRecord]]) -> None:
        for name, stream, record in opened:
            try:
                with stream:
                    state = _state(os.fstat(stream.fileno()))
                    digest = digest_of_stream(stream)
                _remember(state, digest)
                if digest != (record.bytes, record.hash):
                    self._faults.append(f"{name} is not as it was written")
            except OSError as fault:
                self._faults.append(f"{name} cannot be read: {fault.strerror or fault}")
        self._done.set()


def _state(status: os.stat_result) -> State:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _remember(state: State, digest: tuple[int, str]) -> None:
    if time.time_ns() - max(state[3:]) > _SETTLED_NS:
        _digests[state] = digest


def _manifest(folder: Path) -> Manifest:
    """The manifest of a folder, read once while it stays as it is."""
    key = str(folder), _state((folder / MANIFEST).stat())
    if key not in _manifests:
        manifest = Manifest.read(folder)
        if time.time_ns() - max(key[1][3:]) <= _SETTLED_NS:
            return manifest
        _manifests[key] = manifest
    return _manifests[key]


def _fault(path: Path, record: FileRecord) -> str:
    try:
        size = path.stat().st_size
        if size != record.bytes:
            return f"has {size:,} bytes, {record.bytes:,} were written"
        return "" if digest_once(path)[1] == record.hash else "not as visir wrote it"
    except FileNotFoundError:
        return "missing"
    except OSError as fault:
        return f"cannot be read ({fault.strerror or fault})"


def _claims(folder: Path) -> Claims | None:
    """What somebody is at work on in a folder, or was killed over: the next change of the folder counts it."""
    if not has_log(folder):
        return None
    try:
        with (folder / LOG).open("rb") as stream:
            return Claims(folder, stream)
    except (OSError, VisirError):
        return None
