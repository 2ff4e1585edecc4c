"""The log of claims: which files a writer has begun, in the folder where it writes them.

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
import hashlib
import os
import re
from functools import cache
from pathlib import Path
from typing import IO, Any

import orjson

from visir.errors import VisirError
from visir.storage.locks import hold, release
from visir.storage.manifest import LOG, FolderError, Manifest
from visir.storage.removal import check_name, files_below, remove_files

FORMAT = 1
_DIGEST = 16
_ENTRIES = ("visir", "claim", "pattern")
"""What the log itself has to say; all else are facts."""


class Claims:
    """The log of one folder, locked by this process. Use it as a context, or `release` it.

    Attributes:
        folder: The folder that the names are below.
    """

    def __init__(self, folder: Path, stream: IO[bytes]) -> None:
        self.folder = folder
        self._stream = stream
        self._names: set[str] = set()
        self._patterns: set[tuple[str, str]] = set()
        stream.seek(0)
        for line in stream.read().splitlines(keepends=True):
            entry = _unpacked(line)
            if entry is not None and "claim" in entry:
                self._names.add(entry["claim"])
            elif entry is not None and "pattern" in entry:
                self._patterns.add((entry["below"], entry["pattern"]))

    @classmethod
    def take(cls, folder: Path, *, busy: str | VisirError) -> Claims:
        """Lock the log of an existing folder, and make it if there is none.

        Args:
            folder: A folder that visir made (or is about to, when it is empty).
            busy: While another process holds the lock: a text to say once while waiting, or the error to raise.

        Raises:
            FolderError: The log cannot be written, or a newer visir wrote it.
        """
        path = folder / LOG
        while True:
            stream = hold(path, busy)
            if _is_at(path, stream):
                break
            release(stream)  # it was removed with its folder while this process waited
            if not folder.is_dir():
                raise FolderError(f"{folder}: another process has removed this folder.", hint="run the same again")
        try:
            claims = cls(folder, stream)
            claims._check_format()
            return claims
        except BaseException:
            release(stream)
            raise

    def __contains__(self, name: str) -> bool:
        return name in self._names or any(_is_of(name, *pattern) for pattern in self._patterns)

    def __len__(self) -> int:
        return len(self._names) + len(self._patterns)

    def add(self, *names: str) -> None:
        """Claim names, before anything is written under them."""
        fresh = [name for name in names if name not in self._names]
        for name in fresh:
            check_name(name)
        self._append(*({"claim": name} for name in fresh))
        self._names.update(fresh)

    def add_patterns(self, below: str, *patterns: str) -> None:
        """Claim what another library will name in the folder `below`, before it writes anything."""
        fresh = [pattern for pattern in patterns if (below, pattern) not in self._patterns]
        for pattern in fresh:
            check_name(f"{below}/{pattern}")
        self._append(*({"pattern": pattern, "below": below} for pattern in fresh))
        self._patterns.update((below, pattern) for pattern in fresh)

    def note(self, **facts: Any) -> None:
        """Write further facts into the log, and wait until they are on disk."""
        self._append(facts)
        os.fsync(self._stream.fileno())

    def facts(self) -> list[dict[str, Any]]:
        """The facts that `note` wrote, in order."""
        self._stream.seek(0)
        return _facts(self._stream.read())

    def remove_claimed(self, *, keep: Manifest | None = None) -> list[str]:
        """Remove every claimed file that `keep` does not name; the names of those that could not be removed."""
        kept = set() if keep is None else set(keep.files)
        names = set(self._names)
        if self._patterns:
            names.update(name for name in files_below(self.folder) if name in self)
        return remove_files(self.folder, sorted(names - kept - {LOG}), links=True)

    def clear(self) -> None:
        """Forget all claims: what was begun now counts, or is gone."""
        self._names, self._patterns = set(), set()
        self._stream.seek(0)
        self._stream.truncate()

    def discard(self) -> None:
        """Remove the log itself, at the end of the folder's life."""
        remove_files(self.folder, [LOG])

    def release(self) -> None:
        """Give the lock back."""
        release(self._stream)

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _append(self, *entries: dict[str, Any]) -> None:
        if not entries:
            return
        end = self._stream.seek(0, os.SEEK_END)
        if end == 0:
            entries = ({"visir": FORMAT}, *entries)
        lines = memoryview(b"".join(_packed(entry) for entry in entries))
        try:
            while lines:
                lines = lines[self._stream.write(lines) :]
        except OSError:
            with contextlib.suppress(OSError):
                self._stream.truncate(end)  # the next line must not go on from half a line
            raise

    def _check_format(self) -> None:
        self._stream.seek(0)
        first = _unpacked(self._stream.readline())
        if first is not None and first.get("visir", 0) > FORMAT:
            raise FolderError(f"{self.folder}: a newer visir is at work in this folder.", hint="update visir")


def has_log(folder: Path) -> bool:
    """Whether a folder has a log of claims that visir wrote."""
    try:
        with (folder / LOG).open("rb") as stream:
            line = stream.readline()
    except OSError:
        return False
    first = _unpacked(line)
    return line == b"" or (first is not None and "visir" in first)


def read_facts(folder: Path) -> list[dict[str, Any]]:
    """The facts in a folder's log, whoever holds it; none where there is no log."""
    try:
        return _facts((folder / LOG).read_bytes())
    except OSError:
        return []


def matches(pattern: str, name: str) -> bool:
    """Whether a name is of a pattern: "*" and "?" within one part of a path, "**/" for any number of folders."""
    return _expression(pattern).fullmatch(name) is not None


def _is_of(name: str, below: str, pattern: str) -> bool:
    return name.startswith(f"{below}/") and matches(pattern, name.removeprefix(f"{below}/"))


def _packed(entry: dict[str, Any]) -> bytes:
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


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    parts = {"**/": r"(?:[^/]+/)*", "*": r"[^/]*", "?": r"[^/]"}
    return re.compile("".join(parts.get(token, re.escape(token)) for token in re.split(r"(\*\*/|\*|\?)", pattern)))


def _is_at(path: Path, stream: IO[bytes]) -> bool:
    """Whether this open file still lies there: its folder may have been removed, and made again by somebody else."""
    try:
        there, held = path.stat(), os.fstat(stream.fileno())
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)
