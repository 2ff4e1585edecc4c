"""`visir.json`: what a folder that visir made is, and which files in it visir wrote.

    {"visir": 1, "kind": "index", "version": 1, "generation": 3, "content": {…}, "files": {NAME: {…}}, "checksum": "…"}

`content` is the kind's own. `files` has the size and hash of every file that counts. The checksum is over all the rest:
a manifest that somebody changed is refused, and nothing that it names is removed.
"""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from visir.errors import VisirError
from visir.files import digest_of, is_file
from visir.fingerprint import hash_json
from visir.storage.disk import check_name, check_version, files_below, mode_of, remove_files
from visir.threads import usable_cores

MANIFEST = "visir.json"
LOG = ".visir-claims"
"""The log of claims (`claims.py`): the lock of whoever changes the folder lies on it."""
FORMAT = 1
"""The version of this file's own layout."""
_LITTLE = 1 << 23
"""Bytes that are hashed before threads have begun to."""
_WRONG_VALUES = (
    *(LookupError, TypeError, ValueError, ArithmeticError, AttributeError, StopIteration),
    *(FileNotFoundError, IsADirectoryError, NotADirectoryError),  # a file of another name than the one that is there
)
"""What code raises that takes a value for what it is not."""


class FolderError(VisirError):
    """A folder is missing, damaged, of another kind, busy, or holds files that visir did not write."""


KNOWN: dict[str, FolderKind] = {}
"""The kinds by name, as far as their modules are loaded: those that say how a folder is made again."""


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder that visir makes.

    Attributes:
        name: As `visir.json` has it; empty stands for any.
        title: For people, with its article: "an index".
        remedy: The hint where there is none, or a damaged one: how it is made.
        version: Of the kind's own layout; raise it when a folder changes such that another visir misreads it.
        error: What is raised over it.
        exists: The hint where one is to be made and there is one already.
        progress: What is said of the work done so far when a disk refuses a change that the same command goes on with.
    """

    name: str
    title: str
    remedy: str = "check the path"
    version: int = 1
    error: type[VisirError] = FolderError
    exists: str = "name a new folder, or replace it (--replace; in Python: replace=True)"
    progress: str = ""

    def __post_init__(self) -> None:
        if self.remedy != FolderKind.remedy:
            KNOWN[self.name] = self

    @property
    def noun(self) -> str:
        """The title without its article."""
        return self.title.partition(" ")[2]

    def reading(self, folder: Path, name: str = MANIFEST) -> contextlib.AbstractContextManager[None]:
        """Around code that reads the kind's own values from a file: see `reading_folder`."""
        return reading_folder(folder / name, self.error, self.remedy)


@dataclass(frozen=True)
class FileRecord:
    """A file as visir wrote it: size in bytes, hash (BLAKE2b of 16 bytes). No times: folders made from the same input
    are the same bytes, and a copied folder is as sound as the first."""

    bytes: int
    hash: str

    @classmethod
    def of(cls, path: Path) -> FileRecord:
        """The record of a file."""
        return cls(*digest_of(path))

    def fault(
        self, path: Path, digest: Callable[[Path], tuple[int, str]] | None = digest_of, *, sized: bool = False
    ) -> str:
        """What is wrong with a file (its size alone without `digest`; the rest if `sized`); empty if nothing is."""
        try:
            size = self.bytes if sized else path.stat().st_size
            if size != self.bytes:
                return f"has {size:,} bytes, {self.bytes:,} were written"
            return "" if digest is None or digest(path)[1] == self.hash else "is not as it was written"
        except FileNotFoundError:
            return "is missing"
        except OSError as fault:
            return f"cannot be read: {fault.strerror or fault}"


@dataclass(frozen=True)
class Manifest:
    """What `visir.json` says: the kind of folder and its values, the files that count, by their names below it."""

    kind: str
    content: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, FileRecord] = field(default_factory=dict)
    generation: int = 1
    version: int = 1

    def to_bytes(self) -> bytes:
        """The file's content."""
        files = {name: asdict(record) for name, record in sorted(self.files.items())}
        values = {
            "visir": FORMAT,
            "kind": self.kind,
            "version": self.version,
            "generation": self.generation,
            "content": self.content,
            "files": files,
        }
        # As it will be read: tuples become lists and NumPy numbers plain ones before the checksum is taken.
        plain = orjson.loads(orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY))
        return orjson.dumps({**plain, "checksum": hash_json(plain)}, option=orjson.OPT_INDENT_2) + b"\n"

    @classmethod
    def read(cls, folder: Path, kind: FolderKind | None = None) -> Manifest:
        """The manifest of a folder, which must be of this kind, or any. Raises `FolderError`, or the kind's own, where
        there is none, or it is damaged, of another kind or another version."""
        path = folder / MANIFEST
        error, remedy = (FolderError, "") if kind is None else (kind.error, kind.remedy)
        if not path.is_file():
            title = "nothing that visir made" if kind is None else f"no {kind.noun}"
            raise error(
                f"{folder}: {f'holds {title} (no {MANIFEST})' if folder.is_dir() else 'no such folder'}.", hint=remedy
            )
        try:
            data = path.read_bytes()
        except OSError as fault:
            raise error(f"{path}: cannot be read: {fault.strerror or fault}", hint="check its permissions") from fault
        return cls.from_bytes(data, str(path), kind)

    @classmethod
    def from_bytes(cls, data: bytes, path: str, kind: FolderKind | None = None) -> Manifest:
        """A manifest from the content of the file that lies at `path`; see `read`."""
        error, remedy = (FolderError, "") if kind is None else (kind.error, kind.remedy)
        try:
            values = orjson.loads(data)
        except orjson.JSONDecodeError as fault:
            raise error(f"{path}: damaged: not valid JSON: {fault}", hint=remedy) from fault
        if not isinstance(values, dict) or not isinstance(values.get("visir"), int):
            raise error(
                f"{path}: does not describe a folder that visir made.", hint=remedy, code="not-describe-folder-visir"
            )
        check_version(values["visir"], FORMAT, path, what=f"layout of {MANIFEST}", remedy=remedy, error=error)
        if values.pop("checksum", None) != hash_json(values):
            raise error(f"{path}: damaged: it is not as visir wrote it.", hint=remedy, code="damaged-not-visir-wrote")
        wrong = _wrong_field(values)
        if wrong:
            raise error(f"{path}: damaged: {wrong} is not what visir writes there.", hint=remedy)
        try:
            for name in values["files"]:
                check_name(name)
        except ValueError as fault:
            raise error(f"{path}: damaged: {fault}", hint=remedy) from fault
        files = {name: FileRecord(**record) for name, record in values["files"].items()}
        manifest = cls(values["kind"], values["content"], files, values["generation"], values["version"])
        if kind is not None:
            manifest.check_kind(path, kind)
        return manifest

    def check_kind(self, path: str, kind: FolderKind) -> None:
        """Raise the kind's error unless this, the file at `path`, is of that kind, and of a version that is read."""
        if self.kind != (kind.name or self.kind):
            raise kind.error(
                f"{path}: of a folder of kind {self.kind!r}, not {kind.title}.",
                hint=kind.remedy,
                code="work-of-another-kind",
            )
        what = kind.name or self.kind
        check_version(self.version, kind.version, path, what=what, remedy=kind.remedy, error=kind.error)

    def faults(
        self,
        folder: Path,
        *,
        hashed: Callable[[str], bool] = lambda name: True,
        follow: bool = False,
        callback: Callable[[int, int], None] = lambda done, total: None,
        digest: Callable[[Path], tuple[int, str]] = digest_of,
    ) -> list[str]:
        """What is missing or not as it was written, as sentences; only `hashed` files are read. With `follow`, links
        count as files (a folder that another program laid out of a cache). `callback` is told how many files were
        hashed, of how many."""
        faults, chosen = [], []
        for name, record in sorted(self.files.items(), key=lambda pair: pair[1].bytes):
            path = folder / name
            mode = (path.stat().st_mode if path.exists() else None) if follow else mode_of(folder, name)
            if mode is None or not stat.S_ISREG(mode):
                faults.append(f"{name} is missing" if mode is None else f"{name} is no plain file")
            elif fault := record.fault(path, None):
                faults.append(f"{name} {fault}")
            elif hashed(name):
                chosen.append(name)
        is_little = sum(self.files[name].bytes for name in chosen) < _LITTLE
        with contextlib.nullcontext() if is_little else ThreadPoolExecutor(usable_cores(), "visir-check") as pool:
            apply = map if pool is None else pool.map
            differences = apply(lambda name: self.files[name].fault(folder / name, digest, sized=True), chosen)
            for done, (name, fault) in enumerate(zip(chosen, differences, strict=True), 1):
                callback(done, len(chosen))
                faults += [f"{name} {fault}"] if fault else []
        return faults

    def is_unchanged(self, folder: Path, name: str) -> bool:
        """Whether a file is named here, and is as it was written, by its size and hash."""
        path = folder / name
        return name in self.files and not path.is_symlink() and path.is_file() and not self.files[name].fault(path)

    def remove(self, folder: Path, names: Iterable[str]) -> list[str]:
        """Remove files that are named here and as they were written; the names of those left because they are not."""
        return remove_files(folder, names, only=lambda name: self.is_unchanged(folder, name))

    def changed(self, folder: Path) -> list[str]:
        """The files that are named here, and there, and not as they were written; sorted."""
        return [name for name in files_below(folder) if name in self.files and not self.is_unchanged(folder, name)]

    def strangers(self, folder: Path) -> list[str]:
        """The files in the folder that visir did not write, or that somebody changed since; sorted."""
        ours = {MANIFEST, LOG}
        return [name for name in files_below(folder) if name not in ours and not self.is_unchanged(folder, name)]


def _wrong_field(values: dict[str, Any]) -> str:
    """The first field of a manifest that is missing or of a wrong type; a manifest may come from anybody."""
    for name, kind in {"kind": str, "version": int, "generation": int, "content": dict, "files": dict}.items():
        if type(values.get(name)) is not kind:
            return repr(name)
    for name, record in values["files"].items():
        types = {key: type(value) for key, value in record.items()} if isinstance(record, dict) else {}
        if types != {"bytes": int, "hash": str}:
            return f"the record of {name!r}"
    return ""


@contextlib.contextmanager
def reading_folder(folder: object, error: type[VisirError] = FolderError, remedy: str = "") -> Iterator[None]:
    """Around code that reads or shows what lies in a folder: what is missing there or of a wrong type is damage."""
    try:
        yield
    except _WRONG_VALUES as fault:
        what = f"no {fault}" if isinstance(fault, KeyError) else f"{type(fault).__name__}: {fault}"
        raise error(f"{folder}: damaged: {what}", hint=remedy, code="damaged") from fault


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of any folder that visir made; None where there is none, or none that is as visir wrote it."""
    try:
        return Manifest.read(folder)
    except VisirError:
        return None


def is_made_by_visir(folder: str | Path, kind: str | None = None) -> bool:
    """Whether a folder has a `visir.json` (of this kind), sound or not."""
    path = Path(folder, MANIFEST)
    if not is_file(path):
        return False
    try:
        values = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return kind is None
    return isinstance(values, dict) and "visir" in values and kind in (None, values.get("kind"))
