"""Folders that visir makes and changes, and single files for the user, which appear in one step.

- `changing`: a folder that lives on: a library, an index, a training. What counts is what `visir.json` names, and that
  is replaced in one step at the end of a change.
- `new_folder`: a folder that is complete when it appears.
- `new_file`, `write_new`: a file in a place of the user's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any

from visir.errors import VisirError
from visir.files import json_bytes
from visir.storage.claims import Claims, has_log, matches
from visir.storage.disk import disk_faults
from visir.storage.locks import make_folder
from visir.storage.manifest import LOG, MANIFEST, FileRecord, FolderError, FolderKind, Manifest
from visir.storage.removal import files_below, mode_of, remove_empty_folders, remove_files
from visir.storage.scratch import NEW, Scratch, check_alone, swap


class Change:
    """A change of a folder that visir made, or the making of one. Nothing counts before `commit`.

    Attributes:
        folder: Where the files are.
        kind: What the folder is.
        manifest: What counted before; of generation 0 and without files for a folder that is being made.
        content: The kind's own values, for the next `commit`.
    """

    def __init__(
        self, folder: Path, kind: FolderKind, claims: Claims, *, manifest: Manifest | None = None, below: str = ""
    ) -> None:
        self.folder, self.kind = folder, kind
        self.manifest = manifest or Manifest(kind.name, generation=0, version=kind.version)
        self.content: dict[str, Any] = dict(self.manifest.content)
        self._claims, self._below = claims, below
        self._counted: set[str] = set(self.manifest.files)
        self._changed = manifest is None
        self._abandoned = False

    def file(self, name: str, *, counts: bool = True, fresh: bool = False) -> Path:
        """The path for a new file, claimed; folders above it are made.

        Args:
            name: Below the folder, "/" between its parts. A file that an earlier, killed change began under this name
                may be there.
            counts: Whether the file belongs to the folder after `commit`; otherwise it is gone then.
            fresh: Remove what a killed change began under this name.

        Raises:
            FolderError: (or the kind's own) There is a file under this name that visir did not write.
        """
        if name in self.manifest.files:
            raise ValueError(f"{name} is part of {self.folder} already; it can be replaced, not made")
        self._claim(name)
        if counts:
            self._counted.add(name)
        if fresh:
            remove_files(self.folder, [name])
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def expect(self, name: str, *patterns: str) -> Path:
        """Another library will write files of its own naming into a subfolder. Call `written` when it has.

        Args:
            name: The subfolder, which need not be there.
            patterns: What files it may write ("segments/**/*.bin"): those are removed when it is killed over it.
        """
        path = self.folder / name
        if not self._claims_below(name):
            raise self.kind.error(
                f"{path}: is there already, and visir did not write it.", hint="move it away, and run the same again"
            )
        self._claims.add(*(f"{self._below}{name}/{pattern}" for pattern in patterns))
        self._changed = True
        return path

    def subfolder(self, name: str, *patterns: str) -> Path:
        """`expect` files in a subfolder, and make it."""
        path = self.expect(name, *patterns)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def written(self, name: str, pattern: str = "") -> None:
        """What another library has written into a subfolder counts after `commit`: all of it, or what has a pattern."""
        inside = files_below(self.folder / name)
        names = [f"{name}/{inner}" for inner in inside if not pattern or matches(pattern, inner)]
        self._claims.add(*(self._below + inner for inner in names))
        self._counted.update(names)

    @contextlib.contextmanager
    def replacing(self, name: str, *, counts: bool = True, through: str = "") -> Iterator[Path]:
        """A path beside `name` that takes its place in one step: for a file that visir wrote, or a new one.

        Args:
            name: Of the file.
            counts: As in `file`.
            through: The subfolder for the path, for libraries that leave more there; by default that of `name`.
        """
        parts = PurePosixPath(name)
        path = self.folder / name
        there = mode_of(self.folder, name) is not None
        if name in self.manifest.files and there and not self.manifest.is_unchanged(self.folder, name):
            if self._below + name not in self._claims:
                raise self.kind.error(
                    f"{path}: was changed since visir wrote it.", hint="move it away, and run the same again"
                )
        elif name not in self.manifest.files:
            self._claim(name)
        self._claims.add(self._below + name)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._beside(PurePosixPath(through or parts.parent), parts.name)
        temporary = self.folder / fresh
        try:
            yield temporary
            _to_disk(temporary)
            temporary.replace(path)
        finally:
            remove_files(self.folder, [fresh])
        if counts:
            self._counted.add(name)
        self._changed = True

    def write(self, name: str, data: bytes, *, counts: bool = True) -> None:
        """Write a whole file, in one step."""
        with self.replacing(name, counts=counts) as path:
            path.write_bytes(data)

    def write_json(self, name: str, value: Any, *, counts: bool = True) -> None:
        """Write JSON: indented, keys in the given order, NumPy numbers allowed."""
        self.write(name, json_bytes(value), counts=counts)

    def clear(self, name: str) -> None:
        """Remove what a killed change, or this one, has begun in a subfolder."""
        inside = [f"{name}/{inner}" for inner in files_below(self.folder / name)]
        remove_files(self.folder, [one for one in inside if self._below + one in self._claims])

    def drop(self, *names: str) -> None:
        """Files, or folders of files, that no longer count after the next `commit`."""
        self._counted -= {name for name in self._counted if _is_below(name, names)}

    def keep_only(self, *names: str) -> None:
        """Of everything, only these files or folders of files count after the next `commit`."""
        self._counted = {name for name in self._counted if _is_below(name, names)}

    def commit(self, content: Mapping[str, Any] | None = None, *, removing: Iterable[str] = ()) -> Manifest:
        """Make what was written count, in one step, and remove what no longer does.

        Args:
            content: The kind's own values; by default the attribute `content`.
            removing: Files that are visir's by other records than the manifest (a database with their digests), and
                that go with this commit.

        Returns:
            The new manifest, of the next generation.
        """
        content = self.content if content is None else dict(content)
        records: dict[str, FileRecord] = {}
        for name in self._present():
            path, known = self.folder / name, self.manifest.files.get(name)
            if known is None or self._below + name in self._claims:
                _to_disk(path)
                _give(path, self.folder)
                known = FileRecord.of(path)
            records[name] = known
        manifest = Manifest(self.kind.name, content, records, self.manifest.generation + 1, self.kind.version)
        gone = [name for name in sorted(set(self.manifest.files) - set(records)) if self._is_ours(name)]
        # No manifest names them when the next one counts.
        self._claims.add(*(self._below + name for name in (*gone, *removing)))
        self._write_manifest(manifest)
        self.manifest, self.content, self._counted = manifest, dict(content), set(records)
        if self._below:  # the scratch folder's claims end with it
            begun = [name for name in files_below(self.folder) if self._below + name in self._claims]
            remove_files(self.folder, set(begun) - set(records) - {MANIFEST})
        else:
            left = self._claims.remove_claimed(keep=manifest)
            self._claims.clear()
            self._claims.add(*left)  # what somebody holds open, where that cannot be removed (Windows)
        self._changed = False
        return manifest

    def abandon(self) -> None:
        """Leave the folder as it is, without a commit at the end."""
        self._abandoned = True

    @property
    def committed(self) -> bool:
        """Whether there is nothing left to commit."""
        as_it_was = self.manifest.generation > 0 and self.content == self.manifest.content
        return self._abandoned or (as_it_was and not self._changed)

    def note(self, name: str, fact: dict[str, Any]) -> None:
        """Write down something that is about to be done elsewhere (`visir.storage.scratch.undo`)."""
        self._claims.note(**{name: fact})

    def claimed(self, name: str) -> bool:
        """Whether this change, or a killed one that it goes on from, has begun a file of this name."""
        return self._below + name in self._claims

    def _beside(self, parent: PurePosixPath, name: str) -> str:
        """A name for what is to become a file, claimed; never that of a file, or a link, of somebody else."""
        for number in count():
            fresh = (parent / f".new{number or ''}-{name}").as_posix()
            if self._below + fresh in self._claims:
                remove_files(self.folder, [fresh])  # a killed change had begun it
            if mode_of(self.folder, fresh) is None:
                self._claims.add(self._below + fresh)
                return fresh
        raise AssertionError

    def _claim(self, name: str) -> None:
        path, mode = self.folder / name, mode_of(self.folder, name)
        linked = mode is not None and stat.S_ISLNK(mode)
        if linked or (mode is not None and self._below + name not in self._claims):
            raise self.kind.error(
                f"{path}: is there already, and visir did not write it.", hint="move it away, and run the same again"
            )
        self._claims.add(self._below + name)
        self._changed = True

    def _is_ours(self, name: str) -> bool:
        return self.manifest.is_unchanged(self.folder, name)

    def _claims_below(self, name: str) -> bool:
        """Whether everything in a subfolder was begun by this change, or by a killed one that it goes on from."""
        inside = [f"{name}/{inner}" for inner in files_below(self.folder / name)]
        return all(self._below + inner in self._claims or inner in self.manifest.files for inner in inside)

    def _present(self) -> list[str]:
        """The names of all files that are to count and are there."""
        return sorted(name for name in self._counted if (self.folder / name).is_file())

    def _write_manifest(self, manifest: Manifest) -> None:
        path = self.folder / self._beside(PurePosixPath("."), MANIFEST)
        path.write_bytes(manifest.to_bytes())
        _give(path, self.folder)
        _to_disk(path)
        path.replace(self.folder / MANIFEST)
        _to_disk(self.folder)


@contextlib.contextmanager
def changing(
    folder: str | Path,
    kind: FolderKind,
    *,
    busy: str | VisirError,
    make: bool = True,
    resume: bool = False,
    generation: int | None = None,
) -> Iterator[Change]:
    """Change a folder of this kind, or make it; nobody else changes it meanwhile.

    What was written counts from `commit` on; a block that ends without an error and has not committed does so then. An
    error takes back what was begun (not where `resume` is set).

    Args:
        folder: A folder of this kind, or, where `make` is set, a new or an empty one.
        kind: What the folder is.
        busy: While another process changes it: a text to say once while waiting, or the error to raise.
        make: Whether to make it where there is none.
        resume: Go on from what a killed change began, and leave what this one begins to the next.
        generation: The one that the caller has read; if there is a newer one, that is an error.

    Raises:
        FolderError: (or the kind's own) The folder is of another kind, damaged, or holds files that visir did not
            write; another process is changing it; the disk refuses.
    """
    folder = Path(os.path.realpath(folder))
    made = _opened(folder, kind, make)
    with disk_faults(folder, kind.error), Claims.take(folder, busy=busy) as claims:
        manifest = Manifest.read(folder, kind) if (folder / MANIFEST).is_file() else None
        if manifest is None and not make:
            Manifest.read(folder, kind)
        if generation is not None and manifest is not None and manifest.generation != generation:
            raise kind.error(f"{folder}: another process has changed this {kind.noun} since.", hint="load it again")
        manifest = _recovered(folder, kind, claims, manifest)
        if not resume:
            claims.remove_claimed(keep=manifest)
            claims.clear()
        change = Change(folder, kind, claims, manifest=manifest)
        try:
            yield change
            if not change.committed:
                change.commit()
            if not (resume and change._abandoned and len(claims)):
                claims.discard()
        except BaseException:
            if not resume:
                claims.remove_claimed(keep=change.manifest)
                claims.clear()
            raise
        finally:
            if change.manifest.generation == 0 and files_below(folder) == [LOG]:
                claims.discard()  # nothing came to be: a mistyped place leaves no folder behind
                if made:
                    remove_empty_folders(folder)


def put(folder: str | Path, kind: FolderKind, files: Mapping[str, bytes], *, keep: Iterable[str] = ()) -> None:
    """Write whole files into a folder of this kind, which is made if there is none; several processes may do so.

    Args:
        folder: A folder of this kind, a new or an empty one.
        kind: What it is.
        files: From the name of each file to its content.
        keep: Names of files that others write there by themselves (a log): they are the folder's too.
    """
    folder = Path(folder)
    with changing(folder, kind, busy=f"{folder}: another process is writing there; waiting for it") as change:
        for name, data in files.items():
            change.write(name, data)
        for name in keep:
            if name not in change.manifest.files:
                change.file(name).touch()


@contextlib.contextmanager
def new_folder(target: str | Path, kind: FolderKind, *, replace: bool = False) -> Iterator[Change]:
    """Make a folder that is complete when it appears.

    Args:
        target: A new folder, an empty one, or, with `replace`, one of this kind that visir made.
        kind: What it is.
        replace: Whether it may take the place of one that visir made. Files of others in that one stay where they are.

    Raises:
        FolderError: (or the kind's own) There is something that visir did not make, or, without `replace`, anything.
    """
    target = Path(os.path.realpath(target))
    with disk_faults(target, kind.error), Scratch.beside(target) as scratch:
        check_new_folder(target, kind, replace=replace)
        busy = kind.error(f"{target}: another process is making it.", hint="wait until it is done")
        check_alone(scratch, target, busy)
        (scratch.path / NEW).mkdir()
        change = Change(scratch.path / NEW, kind, scratch.claims, below=f"{NEW}/")
        scratch.claims.add(f"{NEW}/{MANIFEST}")
        yield change
        if not change.committed:
            change.commit()
        (scratch.path / NEW).chmod(0o777 & ~_UMASK)
        for folder, _, _ in os.walk(scratch.path / NEW):
            _to_disk(Path(folder))
        check_new_folder(target, kind, replace=replace)
        with contextlib.suppress(OSError):
            target.rmdir()  # an empty one
        swap(scratch, target)


def check_new_folder(target: str | Path, kind: FolderKind, *, replace: bool = False) -> None:
    """Raise the kind's error unless `new_folder` may put something there: before the work rather than after it."""
    target = Path(os.path.realpath(target))
    if not target.exists():
        return
    if not target.is_dir():
        raise kind.error(f"{target}: is a file, not a folder.", hint="name a new folder")
    if not any(target.iterdir()):
        return
    if not (target / MANIFEST).is_file():
        raise kind.error(
            f"{target}: holds files that visir did not write ({_some(files_below(target))}).", hint="name a new folder"
        )
    manifest = Manifest.read(target)
    if not replace:
        raise kind.error(
            f"{target}: exists already (a folder of kind {manifest.kind!r}).",
            hint=kind.exists,
        )
    if manifest.kind != kind.name:
        raise kind.error(
            f"{target}: is a folder of kind {manifest.kind!r}, not {kind.title}.", hint="name a new folder"
        )
    changed = manifest.changed(target)
    if changed:
        raise kind.error(
            f"{target}: holds files that were changed since visir wrote them ({_some(changed)}).",
            hint="move them away, or name a new folder",
        )


@contextlib.contextmanager
def new_file(target: str | Path, *, replace: bool = False) -> Iterator[Path]:
    """A path that becomes the file `target` in one step, when the block ends without an error.

    Args:
        target: Where the user wants the file.
        replace: Whether it may take the place of a file that is there.

    Raises:
        FolderError: There is a file already, or the disk refuses.
    """
    target = Path(target)
    check_new_file(target, replace=replace)
    with disk_faults(target, FolderError), Scratch.beside(target) as scratch:
        path = scratch.file(f"{NEW}{''.join(target.suffixes[-2:])}")
        yield path
        path.chmod(0o666 & ~_UMASK)
        _to_disk(path)
        if replace:
            check_new_file(target, replace=True)
            path.replace(target)
        else:
            _renamed(path, target)


def check_new_file(target: str | Path, *, replace: bool = False) -> None:
    """Raise `FolderError` unless `new_file` may put a file there: before the work rather than after it."""
    target = Path(target)
    if target.is_symlink():
        raise FolderError(f"{target}: is a symbolic link.", hint="name the file itself")
    if target.is_dir():
        raise FolderError(f"{target}: is a folder.", hint="name a file in it")
    if target.exists() and not replace:
        raise FolderError(
            f"{target}: exists already.", hint="name another file, or replace it (--force; in Python: replace=True)"
        )


def write_new(target: str | Path, data: bytes, *, replace: bool = False) -> None:
    """Write a whole file in a place of the user's, in one step; see `new_file`. One with these bytes may be there."""
    path = Path(target)
    if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
        return
    with new_file(target, replace=replace) as path:
        path.write_bytes(data)


def remove_folder(folder: str | Path) -> list[str]:
    """Remove a folder that visir made: what its manifest and its claims name, and the folder if nothing is left.

    Returns:
        The files that are still there, because visir did not write them or somebody changed them since.

    Raises:
        FolderError: Another process is changing the folder, or its manifest is damaged.
    """
    folder = Path(os.path.realpath(folder))
    if not folder.is_dir():
        return []
    manifest = Manifest.read(folder) if (folder / MANIFEST).is_file() else None
    if manifest is not None or has_log(folder):
        with Claims.take(folder, busy=FolderError(f"{folder}: another process is changing it.")) as claims:
            ours = [] if manifest is None else [one for one in manifest.files if manifest.is_unchanged(folder, one)]
            claims.add(*ours, MANIFEST)  # killed from here on, it is a folder that counts for nothing and is cleared
            remove_files(folder, [MANIFEST])
            if not claims.remove_claimed():
                claims.discard()
            remove_empty_folders(folder)
    return files_below(folder) if folder.exists() else []


def recover(folder: Path, kind: FolderKind, *, busy: str | VisirError | None = None) -> None:
    """Remove what a killed change of a folder has begun; while another process changes it, `busy` is said or raised."""
    if has_log(folder):
        busy = busy or kind.error(f"{folder}: another process is changing it.")
        with changing(folder, kind, busy=busy) as change:
            change.abandon()


def counted(folder: Path, kind: FolderKind) -> frozenset[str]:
    """The names of the files that count in a folder of this kind; none where there is no folder.

    A file may lie there and not count: a killed `put` had written it. It is removed first, as the next `put` would.
    """
    recover(folder, kind, busy=f"{folder}: another process is writing there; waiting for it")
    if not (folder / MANIFEST).is_file():
        return frozenset()
    return frozenset(Manifest.read(folder, kind).files)


def remove_folders_below(folder: Path) -> None:
    """Remove every folder below this one that visir made, by their own manifests, and what that leaves empty."""
    for path, _, files in os.walk(folder, followlinks=False):
        if MANIFEST in files or LOG in files:
            with contextlib.suppress(VisirError):
                remove_folder(path)
    remove_empty_folders(folder)


def _opened(folder: Path, kind: FolderKind, make: bool) -> bool:
    """Whether the folder was made now. Raises the kind's error for one that visir may not change."""
    if folder.is_dir():
        if (folder / MANIFEST).is_file() or not make:
            Manifest.read(folder, kind)
        # In this order: whoever makes the folder meanwhile has a log until there is a manifest.
        elif any(folder.iterdir()) and not has_log(folder) and not (folder / MANIFEST).is_file():
            raise kind.error(
                f"{folder}: holds files that visir did not write ({_some(files_below(folder))}), and no {kind.noun}.",
                hint="name a new folder",
            )
        return False
    if folder.exists():
        raise kind.error(f"{folder}: is a file, not a folder.", hint="name a new folder")
    if not make:
        Manifest.read(folder, kind)
    make_folder(folder)
    return True


def _recovered(folder: Path, kind: FolderKind, claims: Claims, manifest: Manifest | None) -> Manifest | None:
    """The manifest, with new records of the files that a killed change had replaced before it could say so."""
    if manifest is None:
        return None
    replaced = [name for name in manifest.files if name in claims and not manifest.is_unchanged(folder, name)]
    if not replaced:
        return manifest
    change = Change(folder, kind, claims, manifest=manifest)
    records = {
        **manifest.files,
        **{name: FileRecord.of(folder / name) for name in replaced if (folder / name).is_file()},
    }
    recovered = Manifest(manifest.kind, manifest.content, records, manifest.generation, manifest.version)
    change._write_manifest(recovered)
    return recovered


def _renamed(path: Path, target: Path) -> None:
    """Give a file its name unless that is taken by now: a link fails where a rename would replace."""
    try:
        os.link(path, target)
    except FileExistsError:
        check_new_file(target)
        raise
    except OSError as fault:
        if fault.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EACCES):
            raise
        check_new_file(target)  # a file system without hard links
        path.rename(target)


def _is_below(name: str, folders: Iterable[str]) -> bool:
    return any(name == folder or name.startswith(f"{folder}/") for folder in folders)


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _to_disk(path: Path) -> None:
    """Wait until the bytes are on disk: a rename that overtakes them leaves an empty file after a power cut."""
    if path.is_dir() and os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError) if path.is_dir() else contextlib.nullcontext():
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _give(path: Path, folder: Path) -> None:
    """Give a new file the owner and the rights of its folder: who may read the folder may read what is in it.

    Some libraries write for their user alone, and an administrator (root) writes into folders of others.
    """
    status = folder.stat()
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        with contextlib.suppress(OSError):  # a root without rights over other users' files
            os.chown(path, status.st_uid, status.st_gid, follow_symlinks=False)
    path.chmod(0o600 | status.st_mode & 0o666)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


_UMASK = _umask()
"""Read once: to read it means to set it, for all threads."""
