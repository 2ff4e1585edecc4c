"""Files of arrays (NPY, NPZ) from anybody: nothing is unpickled, nothing is allocated on a file's word alone.

Whatever is wrong with such a file is an `ArrayFileError` that names it: NumPy's readers raise nearly anything over a
damaged byte, and allocate what a header claims.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.storage import check_written

_DENSEST = 1032
"""Deflate makes at most so many bytes of one (zlib's technical details)."""
_HEADER = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


class ArrayFileError(VisirError, ValueError):
    """A file of arrays is damaged, cut, or holds what only pickle can read."""


def load_array(path: Path, *, mapped: bool = False, hint: str = "is the download complete?") -> NDArray[Any]:
    """The array of an NPY file, in memory or memory-mapped."""
    # mapped: Whether it stays on disk; an array of no bytes, which cannot be mapped, is read.
    if not mapped:
        check_written(path)
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            empty = _check_header(stream, size, str(path), hint, limit=math.inf if mapped else _memory()) == 0
            stream.seek(0)
            if not mapped or empty:
                return np.lib.format.read_array(stream, allow_pickle=False)
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        return array
    except (VisirError, FileNotFoundError):
        raise
    except Exception as fault:
        raise _damaged(str(path), fault, hint) from fault


def array_of_bytes(data: bytes, where: str, *, hint: str = "is the download complete?") -> NDArray[Any]:
    """The array of the content of an NPY file; `where` is its place, for errors (see `load_array`)."""
    stream = io.BytesIO(data)
    try:
        _check_header(stream, len(data), where, hint)
        stream.seek(0)
        return np.lib.format.read_array(stream, allow_pickle=False)
    except VisirError:
        raise
    except Exception as fault:
        raise _damaged(where, fault, hint) from fault


class ArrayArchive(Mapping[str, NDArray[Any]]):
    """The arrays of an NPZ file by name, each read when it is looked up. Use it as a context."""

    def __init__(self, path: Path, *, hint: str = "is the download complete?") -> None:
        check_written(path)
        self._path, self._hint = path, hint
        try:
            self._file = zipfile.ZipFile(path)
        except Exception as fault:
            raise ArrayFileError(f"{path}: not a readable NPZ ({fault}).", hint=hint) from fault
        self._members = {info.filename.removesuffix(".npy"): info for info in self._file.infolist()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        member, where = self._members[name], f"{self._path}: {name!r}"
        if member.compress_type not in _METHODS or member.flag_bits & 1:
            raise ArrayFileError(f"{where}: packed or locked in a way that NumPy does not write.", hint=self._hint)
        if member.file_size > _DENSEST * max(member.compress_size, 1):
            raise ArrayFileError(
                f"{where}: cannot hold the {member.file_size:,} bytes that it claims.", hint=self._hint
            )
        try:
            with self._file.open(member) as stream:
                _check_header(stream, member.file_size, where, self._hint)
            with self._file.open(member) as stream:
                array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
                stream.read(1)  # at its end the checksum of the archive is looked at
                return array
        except VisirError:
            raise
        except Exception as fault:
            raise _damaged(where, fault, self._hint) from fault

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _check_header(stream: IO[bytes], size: int, where: str, hint: str, *, limit: float | None = None) -> int:
    """How many bytes of numbers a header says; raises unless the file holds them, and nothing that is unpickled."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADER:  # the third is the second in UTF-8, for names of fields
        raise ArrayFileError(
            f"{where}: an array of version {version}, with names of fields.", hint="save plain numbers"
        )
    shape, _, dtype = _HEADER[version](stream)
    if dtype.hasobject:
        raise ArrayFileError(
            f"{where} is an array of Python objects, which only pickle can read; pickle runs code and is refused.",
            hint="save it as text: np.array(values, dtype=str)",
            code="array-python-objects-pickle",
        )
    claimed, held = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if min(shape, default=0) < 0 or claimed > held:
        raise ArrayFileError(f"{where}: says {claimed:,} bytes of numbers, and holds {held:,}.", hint=hint)
    if claimed > (_memory() if limit is None else limit):
        raise ArrayFileError(
            f"{where}: {claimed:,} bytes of numbers, more than this machine's memory.",
            hint=hint,
            code="bytes-numbers-more-machine",
        )
    return claimed


def _memory() -> float:
    """The bytes of memory of this machine; infinite where the system does not tell."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # Windows
        return math.inf


def _damaged(where: str, fault: Exception, hint: str) -> ArrayFileError:
    reason = str(fault).splitlines()[0] if str(fault) else type(fault).__name__
    return ArrayFileError(f"{where}: damaged, or no array ({reason}).", hint=hint)
