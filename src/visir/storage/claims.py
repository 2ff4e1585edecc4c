"""The log of claims: which files a writer has begun, in the folder where it writes them; and its lock.

A name is written into the log before the file is. So what a killed writer leaves is known by name, and nothing has to
be guessed. The log is a file of lines, each with a digest over itself; a line that a kill has torn claims nothing. The
writer holds a lock on it, which the system takes back when the writer dies: a log that can be locked is of a writer who
is gone.

A claim is the name of a file ("part-2-0/vectors.npy"), whatever characters are in it, or, for files that another
library names, a pattern below a folder ("duckdb_temp_*" below "spill": "*" and "?" within one part of a path, "**" for
any number of folders). The log tells the two apart. Patterns count only in folders that visir made for that library
alone.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any

import orjson

from visir.errors import VisirError
from visir.storage.disk import check_name, files_below, remove_files
from visir.storage.manifest import LOG, MANIFEST, FolderError, Manifest

_POLL_SECONDS = 0.1
_QUIET_SECONDS = 1.0
"""Nothing is said of a shorter wait: threads of one process write one after the other, too."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_FAR = 1 << 40
"""Windows locks bytes, and nobody else can read those: one far behind the end of every file."""


@contextlib.contextmanager
def locked(path: Path, *, waiting: str | VisirError, elsewhere: str = "VISIR_CACHE=FOLDER") -> Iterator[None]:
    """Hold an exclusive lock on the file `path`, which is made if there is none. While another process holds it,
    `waiting` is said, or raised; `elsewhere` says how to name another place where nothing can be written."""
    make_folder(path.parent, elsewhere=elsewhere)
    stream = hold(path, waiting, elsewhere=elsewhere)
    try:
        yield
    finally:
        release(stream)


def locked_or(path: Path, fault: VisirError) -> contextlib.AbstractContextManager[None]:
    """Hold the lock on `path` as `locked` does, but raise `fault` instead of waiting for another process."""
    return locked(path, waiting=fault, elsewhere="")


def make_folder(folder: Path, *, elsewhere: str = "") -> None:
    """Make a folder and those above it; one that is there is left as it is."""
    check_local(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise VisirError(
            f"{folder}: cannot be made ({fault.strerror}).",
            hint=f"name a place on a local disk that can be written{f': {elsewhere}' if elsewhere else ''}",
            code="cannot-made",
        ) from fault


def check_local(path: Path, error: type[VisirError] = VisirError) -> None:
    """Raise an error for an address: `s3://bucket/x`, taken as a path, is a folder `s3:` here, which nobody means."""
    for folder in path.parents:
        if _SCHEME.fullmatch(folder.name) and not folder.exists():
            raise error(
                f"{folder.name}//{path.relative_to(folder)}: an address; this is written to a local disk alone.",
                hint="name a local folder, and copy what is in it there afterwards",
                code="an-address",
            )


def hold(path: Path, busy: str | VisirError, *, elsewhere: str = "") -> IO[bytes]:
    """The locked file. While another process holds it: wait, and after a second say `busy` once; or raise it."""
    with contextlib.ExitStack() as opened:
        try:
            stream = opened.enter_context(_opened(path, os.O_CREAT))
            started, announced = time.monotonic(), False
            while not _lock(stream):
                if isinstance(busy, VisirError):
                    raise busy
                if not announced and time.monotonic() - started > _QUIET_SECONDS:
                    print(f"visir: {busy}", file=sys.stderr)  # noqa: T201
                    announced = True
                time.sleep(_POLL_SECONDS)
        except OSError as fault:
            raise VisirError(
                f"{path}: cannot be written or locked ({fault.strerror}).",
                hint=f"name a place on a local disk that can be written{f': {elsewhere}' if elsewhere else ''}",
            ) from fault
        opened.pop_all()
        return stream


def hold_if_free(path: Path) -> IO[bytes] | None:
    """The locked file, if it is there and nobody holds it; else None. Nothing is made."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:  # a file system without locks: nobody can tell
        stream = opened.enter_context(_opened(path))
        if _lock(stream):
            opened.pop_all()
            return stream
    return None


def is_held(path: Path) -> bool:
    """Whether another process (or thread) holds the lock on `path`."""
    stream = hold_if_free(path)
    if stream is None:
        return path.is_file() and os.access(path, os.W_OK)
    release(stream)
    return False


def release(stream: IO[bytes]) -> None:
    """Give the lock back and close the file."""
    if not stream.closed:
        with contextlib.suppress(OSError):
            _unlock(stream)
        stream.close()


def _opened(path: Path, flags: int = 0) -> IO[bytes]:
    """A plain file, opened to be read and written at any place; `OSError` for a link, a pipe or a device."""
    flags |= os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is no plain file", str(path))
    return os.fdopen(descriptor, "r+b", buffering=0)


if sys.platform == "win32":
    import msvcrt

    def _lock(stream: IO[bytes]) -> bool:
        stream.seek(_FAR)
        with contextlib.suppress(OSError):
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
            return True
        return False

    def _unlock(stream: IO[bytes]) -> None:
        stream.seek(_FAR)
        msvcrt.locking(stream.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(stream: IO[bytes]) -> bool:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    def _unlock(stream: IO[bytes]) -> None:
        fcntl.flock(stream, fcntl.LOCK_UN)


FORMAT = 1
_DIGEST = 16
_NAMES = ("claim", "below", "pattern", "gone", "folder", "work", "unclaim")
"""What an entry has names under: a file is begun; files of a pattern are, below a folder; a file is to go with the
manifest of a generation; a folder is made here, with records of its own ("work" in older logs: for unfinished work)."""
_ENTRIES = (*_NAMES, "visir", "cleared")
"""What the log itself has to say; all else are facts."""


class Claims:
    """The log of one folder, locked by this process. Use it as a context, or `release` it."""

    def __init__(self, folder: Path, stream: IO[bytes], *, trusted: bool = False) -> None:
        self.folder, self._stream = folder, stream
        self._forget()
        self.folders: dict[str, dict[str, Any]] = {}
        stream.seek(0)
        entries = [_unpacked(line) for line in stream.readlines()]
        header = entries[0] if entries else None
        if entries and (header is None or "visir" not in header):
            raise FolderError(
                f"{folder / LOG}: visir needs this name, and did not write the file.",
                hint="move it away, and run the same again",
            )
        if header is not None and header["visir"] != FORMAT:
            raise FolderError(
                f"{folder}: a newer visir is at work in this folder.",
                hint="update visir",
                code="newer-visir-work-folder",
            )
        # A log that came with a copy of the folder, or with an archive, claims nothing here unless it is trusted.
        self.is_foreign = header is not None and header.get("inode") != os.fstat(stream.fileno()).st_ino
        for entry in entries if trusted or not self.is_foreign else []:
            if entry is not None and _is_sound(entry):
                self._take(entry)

    def _forget(self) -> None:
        self._names: dict[str, dict[str, Any]] = {}
        self._patterns: dict[tuple[str, str], dict[str, Any]] = {}
        self._gone: dict[str, dict[str, Any]] = {}

    def _take(self, entry: dict[str, Any]) -> None:
        """Take an entry for what it says."""
        if "claim" in entry:
            self._names[entry["claim"]] = entry
        elif "pattern" in entry:
            self._patterns[entry["below"], entry["pattern"]] = entry
        elif "gone" in entry:
            self._gone[entry["gone"]] = entry
        elif "folder" in entry or "work" in entry:
            self.folders[entry.get("folder") or entry["work"]] = entry
        elif "unclaim" in entry:
            self._names.pop(entry["unclaim"], None)
            self._gone.pop(entry["unclaim"], None)
        elif "cleared" in entry:
            self._forget()

    @classmethod
    def take(cls, folder: Path, *, busy: str | VisirError, trusted: bool = False) -> Claims:
        """Lock the log of an existing folder, and make it if there is none."""
        path = folder / LOG
        while not _is_at(path, stream := hold(path, busy)):
            release(stream)  # it was removed with its folder while this process waited
            if not folder.is_dir():
                raise FolderError(f"{folder}: another process has removed this folder.", hint="run the same again")
        try:
            claims = cls(folder, stream, trusted=trusted)
            if claims.is_foreign:  # begun anew, as one of this folder, with what was taken over
                claims._restart()
                known = (claims._names, claims._patterns, claims._gone, claims.folders)
                claims._append(*(entry for entries in known for entry in entries.values()))
                claims.is_foreign = False
            return claims
        except BaseException:
            release(stream)
            raise

    def __contains__(self, name: str) -> bool:
        return name in self._names or any(
            name.startswith(f"{below}/") and matches(pattern, name.removeprefix(f"{below}/"))
            for below, pattern in self._patterns
        )

    def remove_in(self, name: str) -> None:
        """Remove the claimed files that lie in a folder below."""
        inside = [f"{name}/{inner}" for inner in files_below(self.folder / name)]
        remove_files(self.folder, [file for file in inside if file in self])

    def __len__(self) -> int:
        return len(self._names) + len(self._patterns) + len(self._gone)

    def add(self, *names: str) -> None:
        """Claim names, before anything is written under them."""
        self._add(*({"claim": name} for name in names if name not in self._names))

    def add_patterns(self, below: str, *patterns: str) -> None:
        """Claim what another library will name in the folder `below`, before it writes anything."""
        fresh = [pattern for pattern in patterns if (below, pattern) not in self._patterns]
        self._add(*({"pattern": pattern, "below": below} for pattern in fresh))

    def add_gone(self, generation: int, *names: str) -> None:
        """Claim what is to be removed once the manifest of a generation counts, and not before: it may never."""
        self._add(*({"gone": name, "generation": generation} for name in names))

    def add_folder(self, name: str) -> None:
        """Write down that visir makes a folder of this name, with records of its own; known until the log goes."""
        self._add({"folder": name})

    def unclaim(self, *names: str) -> None:
        """Names that count now by another record: what a killed writer was to remove is needed again."""
        self._add(*({"unclaim": name} for name in names if name in self._names or name in self._gone))

    def _add(self, *entries: dict[str, Any]) -> None:
        for entry in entries:
            _check_names(entry)
        self._append(*entries)
        for entry in entries:
            self._take(entry)

    def note(self, **facts: Any) -> None:
        """Write further facts into the log, and wait until they are on disk."""
        self._append(facts)
        os.fsync(self._stream.fileno())

    def facts(self) -> list[dict[str, Any]]:
        """The facts that `note` wrote, in order."""
        self._stream.seek(0)
        return [] if self.is_foreign else _facts(self._stream.read())

    def remove_claimed(self, *, keep: Manifest | None = None) -> list[str]:
        """Remove every claimed file that `keep` does not name; the names of those that could not be removed."""
        kept_names = set() if keep is None else {*keep.files, MANIFEST}  # a killed removal had claimed it
        names = set(self._names)
        if keep is not None:
            names.update(name for name, entry in self._gone.items() if entry["generation"] <= keep.generation)
        if self._patterns:
            names.update(name for name in files_below(self.folder) if name in self)
            # Of a folder that was made for a pattern and where nothing came to be, only the folder goes.
            names.update(f"{below}/-" for below, _ in self._patterns)
        # A removal that was killed before its first step has claimed the manifest: while that is there, it counts.
        own = {LOG} if keep is None else {LOG, MANIFEST}
        return remove_files(self.folder, sorted(names - kept_names - own), links=True)

    def gone(self, *, after: int = -1) -> list[str]:
        """The files that are to go with a manifest of a later generation than this."""
        return [name for name, entry in self._gone.items() if entry["generation"] > after]

    def forget_gone_folders(self) -> bool:
        """Whether there is still a folder that would be nobody's without this log."""
        self.folders = {name: entry for name, entry in self.folders.items() if (self.folder / name).is_dir()}
        return self.folders != {}

    def clear(self) -> None:
        """Forget all claims: what was begun now counts, or is gone."""
        self._forget()
        if self.forget_gone_folders():
            self._append({"cleared": True})
        else:
            self._restart()

    def discard(self) -> None:
        """Remove the log itself, at the end of the folder's life."""
        remove_files(self.folder, [LOG])

    def disown(self) -> None:
        """Leave all that was claimed to whoever finds it: it is nobody's to remove."""
        self._forget()
        self.folders = {}
        self.discard()

    def release(self) -> None:
        """Give the lock back."""
        release(self._stream)

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _restart(self) -> None:
        self._stream.seek(0)
        self._stream.truncate()

    def _append(self, *entries: Mapping[str, Any]) -> None:
        if not entries:
            return
        end = self._stream.seek(0, os.SEEK_END)
        if end == 0:
            entries = ({"visir": FORMAT, "inode": os.fstat(self._stream.fileno()).st_ino}, *entries)
        lines = memoryview(b"".join(_packed(entry) for entry in entries))
        try:
            while lines:
                lines = lines[self._stream.write(lines) :]
        except OSError:
            with contextlib.suppress(OSError):
                self._stream.truncate(end)  # the next line must not go on from half a line
            raise


def has_log(folder: Path) -> bool:
    """Whether a folder has a log of claims that visir wrote: with a first line that is as it was written, or empty."""
    path = folder / LOG
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return False
        with path.open("rb") as stream:
            line = stream.readline()
    except OSError:
        return False
    return line == b"" or "visir" in (_unpacked(line) or {})


def is_begun(folder: Path, *, trusted: bool = False) -> bool:
    """Whether visir began this folder, which has no manifest: by its log (`trusted`: also by one that came with a copy
    of the folder), or because there is nothing but the log."""
    if not has_log(folder):
        return False
    try:
        data, inode = (folder / LOG).read_bytes(), (folder / LOG).stat().st_ino
        if not data:
            if files_below(folder) == [LOG]:
                return True
            data = (folder / LOG).read_bytes()  # another writer may have begun a file: its name is in the log before
    except OSError:  # it was there, and its writer is done
        return False
    return data != b"" and (trusted or (_unpacked(data[: data.find(b"\n") + 1]) or {}).get("inode") == inode)


def read_facts(folder: Path) -> list[dict[str, Any]]:
    """The facts in a folder's log, whoever holds it; none where there is no log."""
    try:
        return _facts((folder / LOG).read_bytes()) if has_log(folder) else []
    except OSError:
        return []


def matches(pattern: str, name: str) -> bool:
    """Whether a name is of a pattern: "*" and "?" within one part of a path, "**/" for any number of folders."""
    return _expression(pattern).fullmatch(name) is not None


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    parts = {"**/": r"(?:[^/]+/)*", "*": r"[^/]*", "?": r"[^/]"}
    return re.compile("".join(parts.get(token, re.escape(token)) for token in re.split(r"(\*\*/|\*|\?)", pattern)))


def _check_names(entry: Mapping[str, Any]) -> None:
    """Raise `ValueError` or `TypeError` for an entry that names what is no name below a folder."""
    for key in _NAMES:
        if key in entry:
            check_name(entry[key])


def _is_sound(entry: Mapping[str, Any]) -> bool:
    """Whether an entry says something: others come from elsewhere, and command nothing."""
    with contextlib.suppress(ValueError, TypeError):
        _check_names(entry)
        return ("pattern" not in entry or "below" in entry) and isinstance(entry.get("generation", 0), int)
    return False


def _packed(entry: Mapping[str, Any]) -> bytes:
    content = orjson.dumps(entry)
    return hashlib.blake2b(content, digest_size=_DIGEST // 2).hexdigest().encode() + b" " + content + b"\n"


def _unpacked(line: bytes) -> dict[str, Any] | None:
    """What `_packed` wrote; None for a line that is not as it was written."""
    digest, _, content = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or hashlib.blake2b(content, digest_size=_DIGEST // 2).hexdigest().encode() != digest:
        return None
    with contextlib.suppress(orjson.JSONDecodeError):
        entry = orjson.loads(content)
        return entry if isinstance(entry, dict) else None
    return None


def _facts(log: bytes) -> list[dict[str, Any]]:
    entries = [_unpacked(line) for line in log.splitlines(keepends=True)]
    return [entry for entry in entries if entry is not None and entry.keys().isdisjoint(_ENTRIES)]


def _is_at(path: Path, stream: IO[bytes]) -> bool:
    """Whether this open file still lies there: its folder may have been removed, and made again by somebody else."""
    with contextlib.suppress(OSError):
        return os.path.samestat(path.stat(), os.fstat(stream.fileno()))
    return False
