"""A change of a folder that visir made, or the making of one: what is written counts from `commit` on."""

from __future__ import annotations

import contextlib
import re
import stat
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any

from visir.files import json_bytes
from visir.storage.claims import Claims, matches
from visir.storage.disk import give_to_owner, to_disk
from visir.storage.manifest import MANIFEST, FileRecord, FolderKind, Manifest
from visir.storage.removal import files_below, mode_of, remove_files

NOT_KNOWN = ", or no longer knows it"
"""The records of a killed visir can be gone (a copy without hidden files), or be those of another folder (a backup)."""


class FolderChange:
    """A change of a folder that visir made, or the making of one. Nothing counts before `commit`.

    Attributes:
        folder: Where the files are.
        kind: What the folder is.
        manifest: What counted before; of generation 0 and without files for a folder that is being made.
        content: The kind's own values, for the next `commit`.
        abandoned: Whether the folder is to be left as it is.
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
        self.abandoned = False

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
                f"{path}: is there already, and visir did not write it{NOT_KNOWN}.",
                hint="move it away, and run the same again",
                code="already-visir-not-write",
            )
        self._claims.add_patterns(self._below + name, *patterns)
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
        exists = mode_of(self.folder, name) is not None
        if name in self.manifest.files and exists and not self.manifest.is_unchanged(self.folder, name):
            if self._below + name not in self._claims:
                raise self.kind.error(
                    f"{path}: was changed since visir wrote it.",
                    hint="move it away, and run the same again",
                    code="changed-since-visir-wrote",
                )
        elif name not in self.manifest.files:
            self._claim(name)
        self._claims.add(self._below + name)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._beside(PurePosixPath(through or parts.parent), parts.name)
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
        """The first number from this one under which all these names ("part-{}-0") are new, or were begun by a change.

        Files of another state of the folder may have the names: a backup was laid over it, or its log was removed.
        """
        return next(number for number in count(first) if all(self._is_free(name.format(number)) for name in patterns))

    def work_folder(self, name: str) -> Path:
        """The folder for work that is not finished: what visir makes in it has manifests or claims of its own.

        It is the one that a killed change has begun; else one of this name, or, where anything else lies there,
        `name`-2, `name`-3, …: what no record names is left alone.
        """
        known = self.works(name)
        if known:
            return self.folder / known[0]
        fresh = next(
            fresh
            for number in count(1)
            if mode_of(self.folder, fresh := name if number == 1 else f"{name}-{number}") is None
        )
        if fresh != name:
            warnings.warn(
                f"{self.folder / name}: no record says that visir made it; it is left alone. Delete it if nothing in "
                "it is yours",
                stacklevel=2,
            )
        self._claims.work_folder(fresh)
        return self.folder / fresh

    def works(self, name: str) -> list[str]:
        """The names of the folders that this change, or a killed one before it, has for this unfinished work."""
        return sorted(work for work in self._claims.works if re.fullmatch(rf"{re.escape(name)}(-\d+)?", work))

    def own_folder(self, name: str) -> Path:
        """The path for a folder that visir will make below this one, with a manifest of its own.

        Args:
            name: Below the folder. A killed change may have made it already.
        """
        if name not in self._claims.folders:
            if mode_of(self.folder, name) is not None:
                raise self.kind.error(
                    f"{self.folder / name}: is there already, and visir did not make it{NOT_KNOWN}.",
                    hint="move it away, and run the same again",
                    code="already-visir-not-make",
                )
            self._claims.own_folder(name)
        return self.folder / name

    def settle(self) -> None:
        """The folders that were made below count by other records now, or are gone. Until this is said the log stays:
        another verb may come between a killed change and the one that goes on from it."""
        self._claims.forget_folders()

    def own_folders(self, below: str) -> list[str]:
        """The names of folders that this change, or a killed one before it, has made at or below a name."""
        names = {name for name in (*self._claims.folders, *self._claims.works) if _is_below(name, [below])}
        return sorted(names | ({below} if _is_below(below, self._claims.works) else set()))

    def clear(self, name: str) -> None:
        """Remove what a killed change, or this one, has begun in a subfolder."""
        inside = [f"{name}/{inner}" for inner in files_below(self.folder / name)]
        remove_files(self.folder, [file for file in inside if self._below + file in self._claims])

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
        folders: set[PurePosixPath] = set()
        for name in self._present():
            path, record = self.folder / name, self.manifest.files.get(name)
            if record is None or self._below + name in self._claims:
                to_disk(path)
                give_to_owner(path, self.folder)
                record = FileRecord.of(path)
                folders.update(PurePosixPath(name).parents[:-1])
            records[name] = record
        for inner in sorted(folders, reverse=True):  # a file is found after a power cut where its folder names it
            to_disk(self.folder / inner)
        manifest = Manifest(self.kind.name, content, records, self.manifest.generation + 1, self.kind.version)
        gone = [name for name in sorted(set(self.manifest.files) - set(records)) if self._is_ours(name)]
        # No manifest names them when the next one counts; should that never come to be, they stay.
        self._claims.add_gone(manifest.generation, *(self._below + name for name in (*gone, *removing)))
        self._write_manifest(manifest)
        self.manifest, self.content, self._counted = manifest, dict(content), set(records)
        if self._below:  # the scratch folder's claims end with it
            claimed = [name for name in files_below(self.folder) if self._below + name in self._claims]
            remove_files(self.folder, set(claimed) - set(records) - {MANIFEST})
        else:
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
        self._claims.note(**{name: fact})

    def unclaim(self, *names: str) -> None:
        """Files that count by other records than the manifest, and that a killed change was to remove."""
        self._claims.unclaim(*(self._below + name for name in names))

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
                (self.folder / fresh).parent.mkdir(parents=True, exist_ok=True)
                return fresh
        raise AssertionError

    def _claim(self, name: str) -> None:
        path, mode = self.folder / name, mode_of(self.folder, name)
        linked = mode is not None and stat.S_ISLNK(mode)
        if linked or (mode is not None and self._below + name not in self._claims):
            raise self.kind.error(
                f"{path}: is there already, and visir did not write it{NOT_KNOWN}.",
                hint="move it away, and run the same again",
                code="already-visir-not-write",
            )
        self._claims.add(self._below + name)
        self._changed = True

    def _is_free(self, name: str) -> bool:
        """Whether a file or folder of this name would be this change's own, all of it."""
        mode = mode_of(self.folder, name)
        if mode is None or any(_is_below(counted, [name]) for counted in self.manifest.files):
            return mode is None
        if stat.S_ISDIR(mode):
            return self._claims_below(name)
        return stat.S_ISREG(mode) and self._below + name in self._claims

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
        give_to_owner(path, self.folder)
        to_disk(path)
        path.replace(self.folder / MANIFEST)
        to_disk(self.folder)


def _is_below(name: str, folders: Iterable[str]) -> bool:
    return any(name == folder or name.startswith(f"{folder}/") for folder in folders)
