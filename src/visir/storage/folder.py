"""Folders of visir's that live on: a library, an index, a training; how they are read, changed, recovered and removed.

What counts is what `visir.json` names, and that is replaced in one step at the end of a change. What is read is what
was written: files are held against the manifest that names them, before their values count.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path, PurePosixPath
from typing import IO, Any

from visir.errors import VisirError, raise_faults
from visir.files import digest_of, digest_of_stream, is_file, json_bytes, read_json
from visir.storage.claims import Claims, has_log, is_begun, make_folder, matches
from visir.storage.disk import (
    disk_faults,
    files_below,
    give_to_owner,
    mode_of,
    remove_empty_folders,
    remove_files,
    to_disk,
)
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
    """`digest_of` a file, computed once in this process while its size, times and inode are the same."""
    state = _state(path.stat())
    if (digest := _digests.get(state)) is None:
        digest = digest_of(path)
        _remember(state, digest)
    return digest


def check_folder(
    folder: Path, manifest: Manifest, kind: FolderKind, *, names: Callable[[str], bool] = lambda name: True
) -> None:
    """Raise the kind's error over every file that is missing or not as it was written; `names` says which are hashed,
    of others the size is looked at."""
    faults = manifest.faults(folder, hashed=names, digest=digest_once)
    if faults and (claims := _claims(folder)) is not None:
        others = {name: record for name, record in manifest.files.items() if name not in claims}
        faults = replace(manifest, files=others).faults(folder, hashed=names, digest=digest_once)
    _raise_damage(folder, kind, faults)


def read_checked(folder: Path, kind: FolderKind) -> Manifest:
    """The manifest of a folder whose every file is as it was written. Raises the kind's error."""
    manifest = Manifest.read(folder, kind)
    check_folder(folder, manifest, kind)
    return manifest


def check_written(path: str | Path, names: Callable[[str], bool] = lambda name: True) -> None:
    """Raise `FolderError`, or the kind's own error, where a manifest names this file, and it is not as it was written.

    Of a folder, that is every file that should be in it and that `names` takes. What no manifest names is not looked
    at.
    """
    whole = Path(os.path.normpath(Path(path).absolute()))
    folder = next((folder for folder in (whole, *whole.parents) if is_file(folder / MANIFEST)), None)
    if folder is None:
        return
    inside = whole.relative_to(folder).as_posix()
    for _ in range(2):  # another process may have changed the folder between the two looks
        manifest, meant = _manifest(folder), [inside]
        records = manifest.files
        if inside not in records:
            below = "" if whole == folder else f"{inside}/"
            meant = [name for name in records if name.startswith(below) and names(name)] if whole.is_dir() else []
        faults = {name: fault for name in meant if (fault := records[name].fault(folder / name, digest_once))}
        if not faults:
            return
    claims = _claims(folder)
    for name, fault in faults.items():
        if claims is None or name not in claims:
            kind = KNOWN.get(manifest.kind)
            again = "make the whole folder again" if kind is None else kind.remedy
            fault = {"is missing": "missing", "is not as it was written": "not as visir wrote it"}.get(fault, fault)
            raise (FolderError if kind is None else kind.error)(
                f"{Path(path, Path(folder, name).relative_to(whole))}: {fault}.",
                hint=f"restore it from a backup, or {again}; visir data check FOLDER lists all that is wrong",
            )


def read_written_json(path: Path) -> Any:
    """The JSON of a file that visir wrote, held against its manifest first."""
    check_written(path)
    return read_json(path)


class LateCheck:
    """A thread that hashes files of a folder while they are in use; they are opened at once: what another process puts
    in their places later is not what is in use here."""

    def __init__(self, folder: Path, manifest: Manifest, names: Sequence[str], kind: FolderKind) -> None:
        self._folder, self._manifest, self._kind = folder, manifest, kind
        self._faults: list[str] = []
        self._passed_over: set[str] = set()
        self._done = threading.Event()
        self._has_waited = False
        opened: list[tuple[str, IO[bytes]]] = []
        total = 0
        for name in names:
            record = manifest.files[name]
            total += record.bytes
            if total > MOST:
                self._passed_over.add(name)
                continue
            stream = (folder / name).open("rb")
            if _digests.get(_state(os.fstat(stream.fileno()))) == (record.bytes, record.hash):
                stream.close()
            else:
                opened.append((name, stream))
        if opened:
            threading.Thread(target=self._hash, args=(opened,), name="visir-check", daemon=True).start()
        else:
            self._done.set()

    def settle(self, *, wholly: bool = False) -> None:
        """Wait for the verdict, the first time for `PATIENCE` at the most, and raise the kind's error over a bad one;
        `wholly` as long as it takes: what follows would give damaged values a new, correct hash."""
        if wholly or not self._has_waited:
            self._done.wait(None if wholly else PATIENCE)
            self._has_waited = True
        if wholly and self._passed_over:
            check_folder(self._folder, self._manifest, self._kind, names=lambda name: name in self._passed_over)
        if self._faults:
            _raise_damage(self._folder, self._kind, list(self._faults))

    def _hash(self, opened: list[tuple[str, IO[bytes]]]) -> None:
        for name, stream in opened:
            record = self._manifest.files[name]
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


def _raise_damage(folder: Path, kind: FolderKind, faults: list[str]) -> None:
    raise_faults(kind.error, f"{folder}: {kind.title} that is damaged", faults, hint=kind.remedy)


def _state(status: os.stat_result) -> State:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _is_settled(state: State) -> bool:
    return time.time_ns() - max(state[3:]) > _SETTLED_NS


def _remember(state: State, digest: tuple[int, str]) -> None:
    if _is_settled(state):
        _digests[state] = digest


def _manifest(folder: Path) -> Manifest:
    """The manifest of a folder, read once while it stays as it is."""
    key = str(folder), _state((folder / MANIFEST).stat())
    if (manifest := _manifests.get(key)) is None:
        manifest = Manifest.read(folder)
        if _is_settled(key[1]):
            _manifests[key] = manifest
    return manifest


def _claims(folder: Path) -> Claims | None:
    """What somebody is at work on in a folder, or was killed over: the next change of the folder counts it."""
    with contextlib.suppress(OSError, VisirError):
        if has_log(folder):
            with (folder / LOG).open("rb") as stream:
                return Claims(folder, stream)
    return None


# A change of a folder.

NOT_KNOWN = ", or no longer knows it"
"""The records of a killed visir can be gone (a copy without hidden files), or be those of another folder (a backup)."""
NOT_KNOWN_FILES = NOT_KNOWN.replace(" it", "")
_AWAY = "move it away, and run the same again"


class FolderChange:
    """A change of a folder that visir made, or the making of one: then `manifest`, what counted before, is of
    generation 0 and has no files. Nothing counts before `commit`, which takes the kind's own values from `content`."""

    def __init__(
        self,
        folder: Path,
        kind: FolderKind,
        claims: Claims,
        *,
        manifest: Manifest | None = None,
        notes: Claims | None = None,
    ) -> None:
        self.folder, self.kind = folder, kind
        self.manifest = manifest or Manifest(kind.name, generation=0, version=kind.version)
        self.content: dict[str, Any] = dict(self.manifest.content)
        self._claims, self._notes = claims, claims if notes is None else notes
        self._counted: set[str] = set(self.manifest.files)
        self._changed = manifest is None
        self.abandoned = False

    def file(self, name: str, *, counts: bool = True, fresh: bool = False) -> Path:
        """The path for a new file, claimed; folders above it are made. After `commit` it belongs to the folder if it
        `counts`, and is gone otherwise. What a killed change began under this name stays, unless `fresh`; the kind's
        error is raised over a file that visir did not write."""
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
        """Another library will write files of its own naming into a subfolder, of these patterns
        ("segments/**/*.bin"): they are removed when it is killed over it. Call `written` when it has."""
        if not self._owns_all_below(name):
            raise self._not_written(name)
        self._claims.add_patterns(name, *patterns)
        self._changed = True
        return self.folder / name

    def subfolder(self, name: str, *patterns: str) -> Path:
        """`expect` files in a subfolder, and make it."""
        path = self.expect(name, *patterns)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def written(self, name: str, pattern: str = "") -> None:
        """What another library has written into a subfolder counts after `commit`: all of it, or what has a pattern."""
        inside = files_below(self.folder / name)
        names = [f"{name}/{inner}" for inner in inside if not pattern or matches(pattern, inner)]
        self._claims.add(*names)
        self._counted.update(names)

    @contextlib.contextmanager
    def replacing(self, name: str, *, counts: bool = True, through: str = "") -> Iterator[Path]:
        """A path beside `name` (or in the subfolder `through`, for libraries that leave more there) that takes its
        place in one step: for a file that visir wrote, or a new one."""
        path = self.folder / name
        if name not in self.manifest.files:
            self._claim(name)
        elif not (
            name in self._claims or mode_of(self.folder, name) is None or self.manifest.is_unchanged(self.folder, name)
        ):
            raise self.kind.error(
                f"{path}: was changed since visir wrote it.", hint=_AWAY, code="changed-since-visir-wrote"
            )
        self._claims.add(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._beside(PurePosixPath(through or PurePosixPath(name).parent), path.name)
        temporary = self.folder / fresh
        try:
            yield temporary
            to_disk(temporary)
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

    def free_number(self, first: int, *patterns: str) -> int:
        """The first number from this one under which all these names ("part-{}-0") are new, or a change's own."""
        # Files of another state of the folder may have the names: a backup was laid over it, or its log was removed.
        return next(number for number in count(first) if all(self._is_free(name.format(number)) for name in patterns))

    def work_folder(self, name: str) -> Path:
        """The folder for work that is not finished, and that has records of its own: the one that a killed change has
        begun; else `name`, or `name`-2, … where anything else lies there: what no record names is left alone."""
        if known := self.works(name):
            return self.folder / known[0]
        names = (name if number == 1 else f"{name}-{number}" for number in count(1))
        fresh = next(fresh for fresh in names if mode_of(self.folder, fresh) is None)
        if fresh != name:
            warnings.warn(
                f"{self.folder / name}: no record says that visir made it; it is left alone. Delete it if nothing in "
                "it is yours",
                stacklevel=2,
            )
        self._claims.add_folder(fresh)
        return self.folder / fresh

    def works(self, name: str) -> list[str]:
        """The names of the folders that this change, or a killed one before it, has for this unfinished work."""
        return sorted(work for work in self._claims.folders if re.fullmatch(rf"{re.escape(name)}(-\d+)?", work))

    def own_folder(self, name: str) -> Path:
        """The path for a folder with a manifest of its own below this one; a killed change may have made it."""
        if name not in self._claims.folders:
            if mode_of(self.folder, name) is not None:
                raise self.kind.error(
                    f"{self.folder / name}: is there already, and visir did not make it{NOT_KNOWN}.",
                    hint=_AWAY,
                    code="already-visir-not-make",
                )
            self._claims.add_folder(name)
        return self.folder / name

    def own_folders(self, below: str) -> list[str]:
        """The names of folders that this change, or a killed one before it, has made at or below a name."""
        folders = self._claims.folders
        names = {name for name in folders if _is_below(name, [below])}
        return sorted(names | ({below} if _is_below(below, folders) else set()))

    def settle(self) -> None:
        """The folders that were made below count by other records now, or are gone: until then the log stays."""
        self._claims.folders = {}

    def clear(self, name: str) -> None:
        """Remove what a killed change, or this one, has begun in a subfolder."""
        self._claims.remove_in(name)

    def drop(self, *names: str) -> None:
        """Files, or folders of files, that no longer count after the next `commit`."""
        self._counted -= {name for name in self._counted if _is_below(name, names)}

    def keep_only(self, *names: str) -> None:
        """Of everything, only these files or folders of files count after the next `commit`."""
        self._counted = {name for name in self._counted if _is_below(name, names)}

    def commit(self, content: Mapping[str, Any] | None = None, *, removing: Iterable[str] = ()) -> Manifest:
        """Make what was written count, in one step, and remove what no longer does; the manifest of the next
        generation. `removing` are files that go with it, visir's by other records (a database with their digests)."""
        content = self.content if content is None else dict(content)
        records: dict[str, FileRecord] = {}
        folders: set[PurePosixPath] = set()
        for name in sorted(self._counted):
            path, record = self.folder / name, self.manifest.files.get(name)
            if not path.is_file():
                continue
            if record is None or name in self._claims:
                to_disk(path)
                give_to_owner(path, self.folder)
                record = FileRecord.of(path)
                folders.update(PurePosixPath(name).parents[:-1])
            records[name] = record
        for inner in sorted(folders, reverse=True):  # a file is found after a power cut where its folder names it
            to_disk(self.folder / inner)
        manifest = Manifest(self.kind.name, content, records, self.manifest.generation + 1, self.kind.version)
        before = self.manifest
        gone = [name for name in sorted(set(before.files) - set(records)) if before.is_unchanged(self.folder, name)]
        # No manifest names them when the next one counts; should that never come to be, they stay.
        self._claims.add_gone(manifest.generation, *gone, *removing)
        self._write_manifest(manifest)
        self.manifest, self.content, self._counted = manifest, dict(content), set(records)
        not_removed = self._claims.remove_claimed(keep=manifest)
        self._claims.clear()
        self._claims.add(*not_removed)  # what somebody holds open, where that cannot be removed (Windows)
        self._changed = False
        return manifest

    def abandon(self) -> None:
        """Leave the folder as it is, without a commit at the end."""
        self.abandoned = True

    @property
    def committed(self) -> bool:
        """Whether there is nothing left to commit."""
        as_it_was = self.manifest.generation > 0 and self.content == self.manifest.content
        return self.abandoned or (as_it_was and not self._changed)

    def note(self, name: str, fact: dict[str, Any]) -> None:
        """Write down something that is about to be done elsewhere (`visir.storage.scratch.undo`)."""
        self._notes.note(**{name: fact})

    def unclaim(self, *names: str) -> None:
        """Files that count by other records than the manifest, and that a killed change was to remove."""
        self._claims.unclaim(*names)

    def claimed(self, name: str) -> bool:
        """Whether this change, or a killed one that it goes on from, has begun a file of this name."""
        return name in self._claims

    def _beside(self, parent: PurePosixPath, name: str) -> str:
        """A name for what is to become a file, claimed; never that of a file, or a link, of somebody else."""
        for number in count():
            fresh = (parent / f".new{number or ''}-{name}").as_posix()
            if fresh in self._claims:
                remove_files(self.folder, [fresh])  # a killed change had begun it
            if mode_of(self.folder, fresh) is None:
                self._claims.add(fresh)
                (self.folder / fresh).parent.mkdir(parents=True, exist_ok=True)
                return fresh
        raise AssertionError

    def _claim(self, name: str) -> None:
        mode = mode_of(self.folder, name)
        if mode is not None and (stat.S_ISLNK(mode) or name not in self._claims):
            raise self._not_written(name)
        self._claims.add(name)
        self._changed = True

    def _not_written(self, name: str) -> VisirError:
        return self.kind.error(
            f"{self.folder / name}: is there already, and visir did not write it{NOT_KNOWN}.",
            hint=_AWAY,
            code="already-visir-not-write",
        )

    def _is_free(self, name: str) -> bool:
        """Whether a file or folder of this name would be this change's own, all of it."""
        mode = mode_of(self.folder, name)
        if mode is None or any(_is_below(counted, [name]) for counted in self.manifest.files):
            return mode is None
        if stat.S_ISDIR(mode):
            return self._owns_all_below(name)
        return stat.S_ISREG(mode) and name in self._claims

    def _owns_all_below(self, name: str) -> bool:
        """Whether everything in a subfolder was begun by this change, or by a killed one that it goes on from."""
        inside = [f"{name}/{inner}" for inner in files_below(self.folder / name)]
        return all(inner in self._claims or inner in self.manifest.files for inner in inside)

    def _write_manifest(self, manifest: Manifest) -> None:
        path = self.folder / self._beside(PurePosixPath("."), MANIFEST)
        path.write_bytes(manifest.to_bytes())
        give_to_owner(path, self.folder)
        to_disk(path)
        path.replace(self.folder / MANIFEST)
        to_disk(self.folder)


def _is_below(name: str, folders: Iterable[str]) -> bool:
    return any(name == folder or name.startswith(f"{folder}/") for folder in folders)


@contextlib.contextmanager
def ended(change: FolderChange, claims: Claims, *, resume: bool = False) -> Iterator[None]:
    """Around the work on a change: what is not committed then is committed; an error takes it back."""
    try:
        yield
        if not change.committed:
            change.commit()
        elif not change.abandoned:
            claims.remove_claimed(keep=change.manifest)  # a killed writer had committed, and not cleared up
        # What is resumed later, or of a change that another verb came after, has no other record.
        if not (claims.forget_gone_folders() or (resume and change.abandoned and len(claims))):
            claims.discard()
    except BaseException:
        if not resume:
            claims.remove_claimed(keep=change.manifest)
            claims.clear()
        raise


@contextlib.contextmanager
def changing(
    folder: str | Path,
    kind: FolderKind,
    *,
    busy: str | VisirError,
    make: bool = True,
    resume: bool = False,
    trusted: bool = False,
    generation: int | None = None,
) -> Iterator[FolderChange]:
    """Change a folder of this kind, or make it; nobody else changes it meanwhile.

    What was written counts from `commit` on; a block that ends without an error and has not committed does so then. An
    error takes back what was begun.

    Args:
        folder: A folder of this kind, or, where `make` is set, a new or an empty one.
        kind: What the folder is. Its error is raised over one of another kind, a damaged one, one that holds files
            that visir did not write, and where the disk refuses.
        busy: While another process changes it: a text to say once while waiting, or the error to raise.
        make: Whether to make it where there is none.
        resume: Go on from what a killed change began, and leave what this one begins to the next, whatever ends it.
        trusted: Go on with a copy too, whose log of claims was written into another folder.
        generation: The one that the caller has read; if there is a newer one, that is an error.
    """
    place, folder = Path(folder), Path(os.path.realpath(folder))
    with disk_faults(place, kind.error, progress=kind.progress):
        is_new = _opened(folder, kind, make, trusted)
    claiming = Claims.take(folder, busy=busy, trusted=trusted)
    with disk_faults(place, kind.error, progress=kind.progress), claiming as claims:
        manifest = Manifest.read(folder, kind) if (folder / MANIFEST).is_file() or not make else None
        if generation is not None and manifest is not None and manifest.generation != generation:
            raise kind.error(
                f"{folder}: another process has changed this {kind.noun} since.",
                hint="load it again",
                code="another-process-changed-since",
            )
        if manifest is not None:
            manifest = _recovered(folder, kind, claims, manifest)
            # What was to go with a change that never counted stays, also after the next change.
            claims.unclaim(*claims.gone(after=manifest.generation))
        if not resume:
            claims.remove_claimed(keep=manifest)
            claims.clear()
        change = FolderChange(folder, kind, claims, manifest=manifest)
        try:
            with ended(change, claims, resume=resume):
                yield change
        finally:
            if change.manifest.generation == 0 and files_below(folder) == [LOG]:
                claims.discard()  # nothing came to be: a mistyped place leaves no folder behind
                for empty in [folder] if is_new else list(folder.iterdir()):
                    remove_empty_folders(empty)


def _opened(folder: Path, kind: FolderKind, make: bool, trusted: bool) -> bool:
    """Whether the folder was made now. Raises the kind's error for one that visir may not change."""
    if folder.exists() and not folder.is_dir():
        raise kind.error(f"{folder}: is a file, not a folder.", hint="name a new folder")
    if not make or (folder / MANIFEST).is_file():
        Manifest.read(folder, kind)
    elif not folder.is_dir():
        make_folder(folder)
        return True
    # In this order: whoever makes the folder meanwhile has a log until there is a manifest.
    elif any(folder.iterdir()) and not is_begun(folder, trusted=trusted) and not (folder / MANIFEST).is_file():
        raise kind.error(
            f"{folder}: holds files that visir did not write{NOT_KNOWN_FILES} ({some_of(files_below(folder))}), "
            f"and no {kind.noun}.",
            hint="name a new folder",
            code="holds-files-visir-not",
        )
    return False


def _recovered(folder: Path, kind: FolderKind, claims: Claims, manifest: Manifest) -> Manifest:
    """The manifest, with new records of the files that a killed change had replaced before it could say so."""
    replaced = [name for name in manifest.files if name in claims and not manifest.is_unchanged(folder, name)]
    if not replaced:
        return manifest
    records = {name: FileRecord.of(folder / name) for name in replaced if (folder / name).is_file()}
    recovered = replace(manifest, files={**manifest.files, **records})
    FolderChange(folder, kind, claims, manifest=manifest)._write_manifest(recovered)
    return recovered


def some_of(names: list[str]) -> str:
    """The first three names, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def put(folder: str | Path, kind: FolderKind, files: Mapping[str, bytes], *, keep: Iterable[str] = ()) -> None:
    """Write whole files into a folder of this kind, which is made if there is none; several processes may do so. The
    files in `keep` others write there by themselves (a log): they are the folder's too."""
    folder = Path(folder)
    with changing(folder, kind, busy=f"{folder}: another process is writing there; waiting for it") as change:
        for name, data in files.items():
            change.write(name, data)
        for name in keep:
            if name not in change.manifest.files:
                change.file(name).touch()


class Cells:
    """A folder of finished cells: a cell is written in one step, and what is not listed is still to do."""

    def __init__(self, path: Path, kind: FolderKind) -> None:
        self.path, self.kind = path, kind

    def names(self) -> list[str]:
        """The files of the cells that are finished."""
        return sorted(name for name in self._listed() if (self.path / name).is_file())

    def put(self, contents: Mapping[str, bytes]) -> None:
        """Write the files of a cell."""
        put(self.path, self.kind, contents)

    def load(self, name: str) -> Any:
        """What the JSON file of a cell says; None where the cell is not finished."""
        path = self.path / name
        return read_written_json(path) if name in self._listed() and path.is_file() else None

    def _listed(self) -> Mapping[str, Any]:
        return Manifest.read(self.path, self.kind).files if (self.path / MANIFEST).is_file() else {}


def remove_folder(folder: str | Path) -> list[str]:
    """Remove what the manifest and the claims of a folder name, and the folder if nothing is left; the files that are,
    because visir did not write them or somebody changed them since. A link stays, with all that it leads to."""
    folder = Path(folder)
    if folder.is_symlink() or not folder.is_dir():
        return []
    manifest = Manifest.read(folder) if (folder / MANIFEST).is_file() else None
    if manifest is not None or has_log(folder):
        with Claims.take(folder, busy=FolderError(f"{folder}: another process is changing it.")) as claims:
            ours = [] if manifest is None else [name for name in manifest.files if manifest.is_unchanged(folder, name)]
            # Killed from here on, it is a folder that counts for nothing and is cleared.
            claims.add(*ours, *claims.gone(), MANIFEST)
            remove_files(folder, [MANIFEST])
            if not claims.remove_claimed():
                claims.discard()
            with contextlib.suppress(OSError):  # something else is in it
                folder.rmdir()
    return files_below(folder) if folder.exists() else []


def recover(folder: Path, kind: FolderKind, *, busy: str | VisirError | None = None) -> None:
    """Remove what a killed change of a folder has begun; while another process changes it, `busy` is said or raised."""
    if has_log(folder):
        busy = busy or kind.error(f"{folder}: another process is changing it.")
        with changing(folder, kind, busy=busy) as change:
            change.abandon()


def counted(folder: Path, kind: FolderKind) -> frozenset[str]:
    """The names of the files that count in a folder of this kind, without what a killed `put` had written; none where
    there is no folder."""
    recover(folder, kind, busy=f"{folder}: another process is writing there; waiting for it")
    return frozenset(Manifest.read(folder, kind).files if (folder / MANIFEST).is_file() else ())


def remove_own_folders(change: FolderChange, below: str) -> None:
    """Remove the folders that a change has made below this name (`FolderChange.own_folder`), by their own manifests."""
    for name in change.own_folders(below):
        mode = mode_of(change.folder, name)
        if mode is None or not stat.S_ISDIR(mode):
            continue
        emptied = []
        for path, _, files in os.walk(change.folder / name, topdown=False, followlinks=False):
            if MANIFEST in files or LOG in files:
                with contextlib.suppress(VisirError):
                    remove_folder(path)
            emptied.append(f"{Path(path).relative_to(change.folder).as_posix()}/-")
        remove_files(change.folder, emptied)
