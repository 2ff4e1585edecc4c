"""Files: transparent decompression, digests, and where things live on disk. What visir writes: `visir.storage`."""

from __future__ import annotations

import bz2
import contextlib
import difflib
import errno
import gzip
import hashlib
import io
import json
import lzma
import mmap
import os
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import orjson

from visir.errors import ConfigurationError, VisirError

# Memory-mapped arrays: pages that were read are given back, so that they do not count as memory of the process.


def release(array: Any) -> None:
    """Give back the pages of an array that is mapped read-only from a file; of another array, do nothing."""
    # The system may keep the pages in its cache, so reading them again costs no disk.
    _advise(array, "MADV_DONTNEED")


def expect_single_rows(array: Any) -> None:
    """Say that single rows of a mapped array will be read, so that the system reads no more than these from disk."""
    _advise(array, "MADV_RANDOM")


def _advise(array: Any, advice: str) -> None:
    while array is not None and not isinstance(getattr(array, "_mmap", None), mmap.mmap):
        array = getattr(array, "base", None)
    # Pages of a map that was written to ("c") would lose what was written.
    if array is not None and array.mode == "r" and hasattr(mmap, advice):
        with contextlib.suppress(OSError, ValueError):  # a file system that takes no advice, a map that was closed
            array._mmap.madvise(getattr(mmap, advice))


_MIB = 2**20


def user_path(text: str | os.PathLike[str]) -> Path:
    """A path as people write it: "~" is the home folder, unless a file of that very name is there."""
    if not os.fspath(text).startswith("~") or os.path.lexists(text):
        return Path(text)
    return Path(os.path.expanduser(text))  # noqa: PTH111 (Path raises where there is no such user)


def literal_root(path: Path) -> tuple[Path, str]:
    """The deepest folder above a path that is there by its very name, and what stands below it, perhaps a pattern."""
    root = next((parent for parent in path.parents if parent.is_dir()), path.parents[-1] if path.parents else Path())
    return root, path.relative_to(root).as_posix()


def hash_file(path: str | Path) -> str:
    """32 hexadecimal digits over the bytes of a file."""
    digest = hashlib.blake2b(digest_size=16)
    with Path(path).open("rb") as stream:
        while block := stream.read(4 * _MIB):
            digest.update(block)
    return digest.hexdigest()


def digest_of(path: Path) -> tuple[int, str]:
    """(size, BLAKE2b) of a file; of what is nothing but zeros only where it stands is hashed, whole MiB at a time."""
    # Some engines' files are mostly holes, which take no time to leave out; a copy in which they are filled in has the
    # same digest. Of a file without any it is the digest of its bytes.
    with path.open("rb") as stream:
        return digest_of_stream(stream)


def digest_of_stream(stream: IO[bytes]) -> tuple[int, str]:
    """`digest_of` a file that is open."""
    digest = hashlib.blake2b(digest_size=16)
    zeros, empty = bytes(_MIB), list[int]()
    size = os.fstat(stream.fileno()).st_size
    offset = 0
    while offset < size:
        data = next_data(stream.fileno(), offset)
        filled = -(-size // _MIB) if data is None else data // _MIB
        empty.extend(range(offset // _MIB, filled))
        if data is None:
            break
        stream.seek(filled * _MIB)
        block = stream.read(_MIB)
        if block == zeros[: len(block)]:
            empty.append(filled)
        else:
            digest.update(block)
        offset = (filled + 1) * _MIB
    if empty:
        digest.update(repr(empty).encode())
    return size, digest.hexdigest()


def next_data(file: int, offset: int) -> int | None:
    """Where, from `at` on, an open file holds anything; None when there is nothing but a hole to its end."""
    if not hasattr(os, "SEEK_DATA"):
        return offset if offset < os.fstat(file).st_size else None
    try:
        return os.lseek(file, offset, os.SEEK_DATA)
    except OSError as fault:
        if fault.errno == errno.ENXIO:
            return None
        raise


def is_there(path: str | Path) -> bool:
    """Whether there is such a file or folder. A name that no file can have (too long, a null character) has none."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def is_file(path: str | Path) -> bool:
    """Whether there is such a file; a name that no file can have is none."""
    return is_there(path) and Path(path).is_file()


def as_spelled(path: Path) -> Path:
    """The path; or the one that is there and differs in how its accents are written: as one character, or as two."""
    if str(path).isascii() or is_there(path):
        return path
    place = Path(path.anchor)
    for part in path.relative_to(path.anchor).parts:
        if not is_there(place / part) and place.is_dir():
            composed = unicodedata.normalize("NFC", part)
            same = (entry.name for entry in place.iterdir() if unicodedata.normalize("NFC", entry.name) == composed)
            part = next(same, part)
        place /= part
    return place


def names_in(folder: Path) -> tuple[list[str], list[str]]:
    """The names of the folders and of the files in a folder; a link that leads nowhere, or to itself, is neither."""
    folders: list[str] = []
    files: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.is_dir():
                    folders.append(entry.name)
                elif entry.is_file():
                    files.append(entry.name)
            except OSError:
                continue
    return folders, files


def find_file(path: Path) -> Path | None:
    """The file of this name, or the same with `.gz` or `.xz` behind it; None where there is none."""
    return next((file for end in ("", ".xz", ".gz") if (file := path.with_name(path.name + end)).is_file()), None)


def nearest_folder(path: str | Path) -> str | None:
    """The folder that a path with a slip in it may mean: each of its parts is there, or nearly; None when one is
    not."""
    whole = Path(path)
    folder = Path(whole.anchor)
    for part in whole.relative_to(whole.anchor).parts:
        try:
            if not (folder / part).is_dir():
                inside = [entry.name for entry in folder.iterdir() if entry.is_dir()]
                part = difflib.get_close_matches(part, inside, n=1)[0]
        except (OSError, ValueError, IndexError):
            return None
        folder /= part
    return str(folder)


def json_bytes(value: Any) -> bytes:
    """JSON: indented, keys in the given order, NumPy numbers allowed."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY) + b"\n"


def read_json(path: str | Path) -> Any:
    """Read JSON from a plain, `.gz` or `.xz` file; a syntax fault names the file."""
    try:
        return orjson.loads(read_bytes(path))
    except orjson.JSONDecodeError as fault:
        raise VisirError(
            f"{path}: not valid JSON: {fault}", hint="is the download complete? compare its size", code="not-valid-json"
        ) from fault


def check_keys_once(path: str | Path, data: bytes, value: Any, error: type[VisirError]) -> None:
    """Check that no object of a JSON file, read as `value`, has a key twice: of the two only the last was read."""
    # Every key has a colon. So where the file has no more of them than what was read, nothing was lost; only other
    # files are parsed once more, slowly.
    waiting: list[Any]
    colons, waiting = data.count(b":"), [[value]]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            colons -= part.count(":")
            continue
        if isinstance(part, dict):
            colons -= len(part) + "".join(part).count(":")
            part = part.values()
        waiting += [inner for inner in part if isinstance(inner, (str, dict, list))]
    if colons == 0 and b"\\u003" not in data:  # a colon that is written as its number
        return

    def checked(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise error(
                    f"{path}: the key {key!r} is twice in one object.",
                    hint="leave one of the two out, or join what they hold",
                    code="key-twice",
                )
            seen.add(key)

    json.loads(data.removeprefix(b"\xef\xbb\xbf"), object_pairs_hook=checked)


def parse_toml(text: str, place: object) -> dict[str, Any]:
    """The values of TOML; a fault names the place. A list that is nested without end is a fault, too."""
    import tomllib

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as fault:
        raise ConfigurationError(
            f"{place}: not valid TOML: {fault}", hint="mend that line", code="not-valid-toml"
        ) from fault


def read_bytes(path: str | Path) -> bytes:
    """The content of a file, decompressed when its name ends in `.gz` or `.xz`."""
    with open_binary(path) as stream:
        try:
            return stream.read()
        except BROKEN as fault:
            raise _undecompressed(path, fault) from fault


def open_binary(path: str | Path) -> IO[bytes]:
    """Open a file for reading bytes, decompressing it on the way (`packing`); a missing file is a clear error."""
    path = Path(path)
    if not path.is_file():
        raise VisirError(f"{path}: no such file.", hint=missing_hint(path), code="no-such-file")
    how = packing(path)
    if how == ".xz":
        return lzma.open(path, "rb")
    if how == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    if how == ".bz2":
        return bz2.open(path, "rb")
    if how == ".zst":
        import pyarrow as pa

        return io.BufferedReader(pa.CompressedInputStream(path.open("rb"), "zstd"))
    if how == ".zip":
        return _only_member(path)
    return path.open("rb")


_PACKED_TABLES = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")


def packing(path: Path) -> str:
    """The ending that says how a file is compressed, "" for none; a zip is one only where it says it holds a table."""
    ending = path.suffix
    if ending == ".zip":
        return ending if path.stem.lower().endswith(_PACKED_TABLES) else ""
    return ending if ending in (".gz", ".xz", ".bz2", ".zst") else ""


def _only_member(path: Path) -> IO[bytes]:
    """The one file in a zip, as pandas writes "captions.csv.zip"."""
    try:
        archive = zipfile.ZipFile(path)
        files = [member for member in archive.infolist() if not member.is_dir()]
        members = [member for member in files if not member.filename.startswith("__MACOSX/")]
    except zipfile.BadZipFile as fault:
        raise _undecompressed(path, fault) from fault
    if len(members) != 1:
        raise VisirError(f"{path}: {len(members)} files in it, not one.", hint="unpack it, and name the table in it")
    return archive.open(members[0])


def read_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 text file (plain, `.gz`, `.xz`), without line ends; a byte that is not UTF-8 names its line.

    Only "\\n" and "\\r\\n" end a line: captions may hold the exotic separators at which `str.splitlines` would cut.
    """
    lines = read_text(path).split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def iter_lines(path: str | Path) -> Iterator[bytes]:
    """The lines of `read_lines` one by one, as bytes: for files that are larger than memory should hold."""
    # A byte order mark is left out. Whether a line is UTF-8 is for the caller to see. A file that cannot be
    # decompressed to its end raises only where it breaks, after the lines before.
    with open_binary(path) as stream:
        try:
            for number, line in enumerate(stream):
                line = line.removeprefix(b"\xef\xbb\xbf") if number == 0 else line
                yield line.removesuffix(b"\n").removesuffix(b"\r")
        except BROKEN as fault:
            raise _undecompressed(path, fault) from fault


def is_comment(line: str, is_entry: Callable[[str], bool]) -> bool:
    """Whether a line of a table of ids is a comment: "#" and a space before it, and no entry."""
    # Ids may begin with "#".
    begin = line.lstrip()[:2]
    return begin[:1] == "#" and not begin[1:].strip("#! \t") and not is_entry(line)


def read_text(path: str | Path) -> str:
    """A UTF-8 text file (plain, `.gz`, `.xz`), a byte order mark left out; a byte that is not UTF-8 names its line."""
    # What a mark calls UTF-16, as Windows' shells write what is sent into a file (`>`), is read as that.
    data = read_bytes(path)
    try:
        return data.decode("utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig")
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        raise VisirError(
            f"{path}, line {line}: not UTF-8 (byte 0x{data[fault.start]:02x}).",
            hint=f"convert it first: iconv -f latin1 -t utf-8 {Path(path).name} > fixed{Path(path).suffix}",
            code="text-not-utf-8",
        ) from fault


def data_directory() -> Path:
    """The optional directory of real data: `VISIR_DATA`, otherwise `../shared/data`. It need not exist."""
    return Path(os.environ.get("VISIR_DATA", "../shared/data"))


def cache_directory() -> Path:
    """Where encoded vectors are kept: `VISIR_CACHE`, otherwise the user's cache folder."""
    import platformdirs

    if "://" in os.environ.get("VISIR_CACHE", ""):
        raise VisirError(
            f"VISIR_CACHE={os.environ['VISIR_CACHE']}: the cache takes locks and memory-mapped files: a local folder.",
            hint="put finished vectors elsewhere with visir encode --out URL, shards with --shards URL",
            code="cache-takes-locks-memory-mapped",
        )
    return Path(os.environ.get("VISIR_CACHE") or platformdirs.user_cache_dir("visir"))


BROKEN = (EOFError, OSError, lzma.LZMAError, zipfile.BadZipFile, zlib.error)
"""What a file raises that cannot be read or decompressed to its end."""


def _undecompressed(path: str | Path, fault: Exception) -> VisirError:
    return VisirError(
        f"{path}: cannot be decompressed: {fault}", hint="is the download complete?", code="cannot-decompressed"
    )


def missing_hint(path: Path, otherwise: str = "check the path") -> str:
    """What to do about a path at which there is no file: the name nearest to it, a folder that is not there either."""
    if is_there(path) and path.is_dir():
        return "this is a folder; name the file inside it"
    if is_there(path):
        return "this is a device or a pipe; write what comes out of it into a file, and name that"
    if not is_there(path.parent):
        return f"the folder {path.parent} does not exist either; check the path"
    names = {entry.name.casefold(): entry.name for entry in path.parent.iterdir()}
    close = difflib.get_close_matches(path.name.casefold(), names, n=1)
    return f"in that folder there is {names[close[0]]!r}" if close else otherwise
