"""Files inside archives: zips and tars opened once and read from many threads at once."""

from __future__ import annotations

import bisect
import bz2
import os
import struct
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache, partial, reduce
from itertools import accumulate, chain
from lzma import LZMAError
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar
from weakref import WeakValueDictionary

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from visir.collections.picture_kinds import of_another_kind
from visir.collections.readers.names import escaped
from visir.collections.tars import MAX_RATIO, TARS, TarHeaders, remedy_of
from visir.errors import CollectionError, ImageError
from visir.fingerprint import hash_json
from visir.parquet import reading_parquet
from visir.storage import ContentStore, FolderKind

TAR_INDEX = FolderKind("tar", "the index of a tar", remedy="delete it: it is made again")

ARCHIVE_SUFFIXES = (".zip", ".tar", ".arrow", ".parquet")
MAX_MEMBER = 2**29
"""Bytes of a member: half a GiB. Larger ones are refused before they are read."""
SMALL = 2**24
"""Bytes of a member from which on it may be `MAX_RATIO` times its packed size, and no more."""
KEEP_INDEX_FROM = 2_000
"""Tars with at least this many members keep their index of offsets on disk; smaller ones are scanned as quickly."""

_COPY = "copy the archive again"
_UNPACKERS: dict[int, Callable[[], Any]] = {
    zipfile.ZIP_DEFLATED: partial(zlib.decompressobj, -15),
    zipfile.ZIP_BZIP2: bz2.BZ2Decompressor,
}
"""What unpacks a member up to a length; the others of `zipfile` know no bounds but those of what they are fed."""


class Archive(Protocol):
    """A read-only store of named byte strings, safe to read from several threads."""

    def names(self) -> Iterable[str]:
        """The names of all members, as they are written in the archive."""

    def read(self, name: str) -> bytes:
        """The bytes of one member; `ImageError` when there is none or it is damaged."""


def open_archive(path: str | Path) -> Archive:
    """Open a zip, an uncompressed tar, an Arrow or a Parquet file by the suffix of its name."""
    path = Path(path)
    if not path.is_file():
        raise CollectionError(
            f"{path}: no such archive.", hint="has it been moved? give its place with images=", code="no-such-archive"
        )

    kinds: dict[str, type[Archive]] = {
        ".zip": ZipArchive,
        ".tar": TarArchive,
        ".arrow": ArrowArchive,
        ".parquet": ParquetArchive,
    }
    kind = kinds.get(path.suffix.lower())
    if kind is None:
        hint = "decompress it first: members of a compressed tar cannot be read one by one"
        is_tar = path.name.lower().endswith(TARS)
        raise CollectionError(
            f"{path}: not an archive that can be read from.",
            hint=hint if is_tar else f"supported: {', '.join(ARCHIVE_SUFFIXES)}",
            code="not-archive-read",
        )
    return opened_as(kind, path)


_Kind = TypeVar("_Kind", bound=Archive)
_open: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()
"""Archives that somebody holds: who asks for one of them again need not look through it again."""


def opened_as(kind: type[_Kind], path: Path) -> _Kind:
    """The archive of a kind at a path."""
    try:
        status = path.stat()
    except OSError:  # the archive says so
        return kind(path)  # type: ignore[call-arg]
    key = (kind, str(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    opened: _Kind | None = _open.get(key)
    if opened is None:
        opened = _open[key] = kind(path)  # type: ignore[call-arg]
    return opened


class RandomFile:
    """A file read at given offsets from any thread: without a lock where the system has `pread`."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("rb")
        self._lock = threading.Lock()
        self.size = os.fstat(self._stream.fileno()).st_size

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset` (fewer at the end of the file)."""
        size = max(0, min(size, self.size - offset))  # room is made for as many as are asked for
        if hasattr(os, "pread"):
            return os.pread(self._stream.fileno(), size, offset)
        with self._lock:
            self._stream.seek(offset)
            return self._stream.read(size)


class ZipArchive:
    """A zip: stored and deflated members are read without a lock and their checksum is verified."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with zipfile.ZipFile(path) as opened:
                self._members = zip_members(opened)
        except (zipfile.BadZipFile, NotImplementedError) as fault:  # the latter: a version that does not exist yet
            what, remedy = of_another_kind(RandomFile(path).read_at(0, 512))
            raise CollectionError(
                f"{path}: not a readable zip ({what or fault}).",
                hint=remedy or "is the download complete?",
                code="not-readable-zip",
            ) from fault
        self._file = RandomFile(path)

    def names(self) -> Iterable[str]:
        """The names of all members."""
        return self._members.keys()

    def read(self, name: str) -> bytes:
        """The bytes of one member, checked against the checksum in the archive."""
        member = self._members.get(name) or self._members.get(name.replace("\\", "/"))
        if member is None:
            raise ImageError(f"{self.path}: no member {name!r}.", code="no-member")
        check_member_size(self.path, name, member.file_size, member.compress_size)
        if member.compress_type not in (zipfile.ZIP_STORED, *_UNPACKERS) or member.flag_bits & 1:
            return self._read_slowly(member)
        header = self._file.read_at(member.header_offset, 30)
        if len(header) < 30:
            raise ImageError(f"{self.path}: the archive is truncated before {name!r}.", hint="copy it again")
        # The local header's name and extra field may be longer than those of the central directory.
        name_length, extra_length = struct.unpack("<HH", header[26:30])
        data = self._file.read_at(member.header_offset + 30 + name_length + extra_length, member.compress_size)
        if member.compress_type in _UNPACKERS:
            try:
                # A byte more than the archive declares shows that there is more; nothing beyond it is unpacked.
                data = _UNPACKERS[member.compress_type]().decompress(data, member.file_size + 1)
            except (zlib.error, OSError, EOFError) as fault:
                raise ImageError(f"{self.path}: {name!r} is damaged ({fault}).", hint=_COPY) from fault
        if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
            raise ImageError(f"{self.path}: {name!r} is damaged (its size or its checksum differs).", hint=_COPY)
        return data

    def _read_slowly(self, member: zipfile.ZipInfo) -> bytes:
        try:
            with zipfile.ZipFile(self.path) as opened, opened.open(member) as stream:
                data = b"".join(_at_most(stream, member.file_size + 1))
        except (
            zipfile.BadZipFile,
            RuntimeError,
            NotImplementedError,
            EOFError,
            zlib.error,
            OSError,
            LZMAError,
        ) as fault:
            raise ImageError(f"{self.path}: {member.filename!r} cannot be read: {fault}") from fault
        if len(data) != member.file_size:
            raise ImageError(f"{self.path}: {member.filename!r} is damaged (its size differs).", hint=_COPY)
        return data


def zip_members(opened: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The files in a zip by their names; some programs of Windows write a backslash where the format has a slash."""
    members = {member.filename: member for member in opened.infolist()}
    members = {
        slashed if (slashed := name.replace("\\", "/")) not in members else name: member
        for name, member in members.items()
    }
    return {name: member for name, member in members.items() if not name.endswith("/")}


def _at_most(stream: IO[bytes], size: int) -> Iterator[bytes]:
    """What a stream gives until it ends, or has given so much; unpacked from 4 kB at a time."""
    while size > 0 and (part := stream.read(4096)):
        size -= len(part)
        yield part


def check_member_size(path: Path, name: str, size: int, packed: int) -> None:
    """Raise `ImageError` for a member that is too large to be a picture or a text, as its archive tells."""
    if size > MAX_MEMBER:
        reason = f"{size:,} bytes, over the limit of {MAX_MEMBER:,}"
    elif size > SMALL and size > MAX_RATIO * packed:
        reason = f"{size:,} bytes packed into {packed:,}, more than {MAX_RATIO} to 1"
    else:
        return
    raise ImageError(
        f"{path}: {name!r} has {reason} (a decompression bomb?).",
        hint="if it is meant, unpack it first",
        code="decompression-bomb",
    )


class TarArchive:
    """An uncompressed tar, read through an index of offsets that is made once and, for large tars, kept on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.links: list[str] = []
        """The names of links, hard and symbolic, which are no members; known when the index is."""
        self.goes_on = False
        """Whether there is more behind the mark of its end, as where one tar was put behind another; known likewise."""
        self._file = RandomFile(path)
        if self._file.read_at(0, 2) in (b"\x1f\x8b", b"BZ", b"\xfd7"):
            raise CollectionError(
                f"{path}: a compressed tar; its members cannot be read one by one.",
                hint="decompress it first (gunzip, bunzip2, unxz)",
                code="compressed-tar",
            )

    def names(self) -> Iterable[str]:
        """The names of all members that are plain files."""
        return self.index.keys()

    def read(self, name: str) -> bytes:
        """The bytes of one member."""
        if name not in self.index:
            raise ImageError(f"{self.path}: no member {name!r}.", code="no-member")
        offset, size = self.index[name]
        check_member_size(self.path, name, size, size)
        return self._file.read_at(offset, size)

    @cached_property
    def index(self) -> dict[str, tuple[int, int]]:
        """Name to (offset of the data, size) of every plain file, in the order of the tar."""
        status = self.path.stat()
        # The time of change of its entry too: another tar may lie there, of the same size and time.
        about: dict[str, Any] = {"path": str(self.path.resolve()), "size": self._file.size}
        about["times"] = [status.st_mtime_ns, status.st_ctime_ns]
        store, key = ContentStore(TAR_INDEX), hash_json({**about, "counts": ["links", "goes on"], "end": "all zeros"})
        if store.find(key) is not None:
            columns = orjson.loads((store.path(key) / "index.json").read_bytes())
            self.links, self.goes_on = columns["links"], columns["goes on"]
            return dict(zip(columns["names"], zip(columns["offsets"], columns["sizes"], strict=True), strict=True))
        index = self._scan()
        if len(index) >= KEEP_INDEX_FROM:
            offsets, sizes = zip(*index.values(), strict=True)
            with store.writing(key, waiting=f"another process is reading {self.path}; waiting for it") as change:
                columns = {"names": list(index), "offsets": offsets, "sizes": sizes}
                columns |= {"links": self.links, "goes on": self.goes_on}
                change.write("index.json", orjson.dumps(columns))
        return index

    def _scan(self) -> dict[str, tuple[int, int]]:
        index: dict[str, tuple[int, int]] = {}
        headers = TarHeaders()
        try:
            with tarfile.open(self.path, "r:", tarinfo=headers.kind) as opened:
                for member in opened:
                    if member.issym() or member.islnk():
                        self.links.append(escaped(member.name))
                    if not member.isreg():
                        continue
                    if member.offset_data + member.size > self._file.size:
                        raise CollectionError(
                            f"{self.path}: the archive is truncated within {member.name!r}.",
                            hint="copy it again",
                            code="archive-truncated-within",
                        )
                    index[member.name] = (member.offset_data, member.size)
                self.goes_on = headers.check_end(opened)
        except (tarfile.TarError, OSError) as fault:
            what, remedy = of_another_kind(self._file.read_at(0, 512))
            raise CollectionError(
                f"{self.path}: damaged or truncated ({what or fault}).",
                hint=remedy or remedy_of(fault),
                code="damaged-truncated",
            ) from fault
        return _as_text(index)


def _as_text(index: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """The index with names that are text: a byte that is no UTF-8 (an old disk's Latin-1) is escaped."""
    named: dict[str, tuple[int, int]] = {}
    for real, place in index.items():
        name = escaped(real)
        while name != real and (name in index or name in named):  # another file has just that name
            stem, dot, ending = name.rpartition(".")
            name = f"{stem}?{dot}{ending}" if dot else f"{name}?"
        named[name] = place
    return named


# Pictures in the cells of Arrow and Parquet files, as the `datasets` library and the Hugging Face hub keep them.


class ArrowArchive:
    """An Arrow file with images as values: member "column#row", the value being bytes or a struct {bytes, path}."""

    # The form in which the `datasets` library keeps image columns. The file is memory-mapped.

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def table(self) -> Any:
        """The memory-mapped table."""
        source = pa.memory_map(str(self.path))
        try:
            return pa.ipc.open_stream(source).read_all()
        except (pa.ArrowException, OSError):
            source.seek(0)
        with reading_parquet(self.path, CollectionError, title="Arrow"):
            table = pa.ipc.open_file(source).read_all()
            table.validate(full=True)
            return table

    def names(self) -> Iterable[str]:
        """The members of every image column."""
        return _cell_names(self.table.schema, self.table.num_rows)

    def read(self, name: str) -> bytes:
        """The bytes of one cell."""
        column, row = _cell(name, self.path, self.table.schema, self.table.num_rows)
        return _cell_bytes(self.table[column][row].as_py(), self.path, name)


class ParquetArchive:
    """A Parquet file with images as values, as on the Hugging Face hub: member "column#row", as in `ArrowArchive`."""

    # Row groups are decompressed whole; the last few are kept, so that reading in order costs nothing extra.

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading_parquet(path, CollectionError):
            self._file = pq.ParquetFile(path)
        groups = (self._file.metadata.row_group(group) for group in range(self._file.num_row_groups))
        self._starts = [0, *accumulate(group.num_rows for group in groups)]
        self._lock = threading.Lock()
        self._group = lru_cache(maxsize=4)(self._read_group)

    def names(self) -> Iterable[str]:
        """The members of every image column."""
        return _cell_names(self._file.schema_arrow, self._starts[-1])

    def read(self, name: str) -> bytes:
        """The bytes of one cell."""
        column, row = _cell(name, self.path, self._file.schema_arrow, self._starts[-1])
        group = bisect.bisect_right(self._starts, row) - 1
        with self._lock:
            values = self._group(group, column)
        return _cell_bytes(values[row - self._starts[group]].as_py(), self.path, name)

    def _read_group(self, group: int, column: str) -> Any:
        with reading_parquet(self.path, CollectionError):
            return self._file.read_row_group(group, columns=[column])[column]


def _cell_names(schema: Any, rows: int) -> Iterable[str]:
    return (f"{column}#{row}" for column in image_columns(schema) for row in range(rows))


def _cell(name: str, path: Path, schema: Any, rows: int) -> tuple[str, int]:
    """The column and the row of a member."""
    column, _, row = name.rpartition("#")
    if not column or not row.isdecimal():
        raise ImageError(f"{path}: no member {name!r}; members are called column#row.")
    if column not in schema.names or int(row) >= rows:
        raise ImageError(f"{path}: no member {name!r}.", code="no-member")
    return column, int(row)


def _cell_bytes(value: Any, path: Path, name: str) -> bytes:
    if isinstance(value, dict):
        if value.get("bytes") is None and value.get("path"):
            beside = path.parent / value["path"]
            if not beside.is_file():
                raise ImageError(f"{path}: {name!r} points to {value['path']!r}, which is not there.")
            return bytes(beside.read_bytes())
        value = value.get("bytes")
    if value is None:
        raise ImageError(f"{path}: {name!r} is null.", code="is-null")
    return bytes(value)


class PictureCells:
    """Where the pictures in a column of Parquet or Arrow files are, whose rows follow one another: (member, file)."""

    def __init__(self, files: Mapping[str, Path], column: str) -> None:
        self._files, self._column = list(files), column
        present = [_present(file, column) for file in files.values()]
        self._starts = [0, *accumulate(map(len, present))]
        self._present = list(chain.from_iterable(present))

    def __call__(self, row: int) -> tuple[str, str] | None:
        """The member of a row and the name of its file; None where it has no picture."""
        if not self._present[row]:
            return None
        file = bisect.bisect_right(self._starts, row) - 1
        return f"{self._column}#{row - self._starts[file]}", self._files[file]

    @classmethod
    def of(cls, file: Path, column: str | None, name: str) -> tuple[PictureCells, list[str]] | None:
        """Those of a Parquet file that is called so, and its other columns; None for a file that has none."""
        if not file.name.lower().endswith(".parquet"):
            return None
        with reading_parquet(file, CollectionError):
            schema = pq.read_schema(file)
        held = image_columns(schema)
        columns = held if column is None else [column] if column in held else []
        if len(columns) > 1:
            raise CollectionError(f"{file}: several columns of images: {', '.join(columns)}.", hint="say which one")
        others = [other for other in schema.names if other not in columns]
        return (cls({name: file}, columns[0]), others) if columns else None


def _present(file: Path, column: str) -> list[bool]:
    """(n,) whether each row has a picture. They are read for it, unless the file says that every row has one."""
    if file.name.lower().endswith(".parquet"):
        with reading_parquet(file, CollectionError):
            parquet = pq.ParquetFile(file)
            groups = [parquet.metadata.row_group(number) for number in range(parquet.num_row_groups)]
            leaves = [group.column(leaf) for group in groups for leaf in range(group.num_columns)]
            bytes_of = [leaf for leaf in leaves if leaf.path_in_schema in (column, f"{column}.bytes")]
            if all(leaf.statistics is not None and leaf.statistics.null_count == 0 for leaf in bytes_of):
                return [True] * parquet.metadata.num_rows
            parts = [batch.column(0) for batch in parquet.iter_batches(256, columns=[column])]
    else:
        parts = [ArrowArchive(file).table[column]]
    present: list[bool] = []
    for part in parts:
        valid = pc.is_valid(part)
        if pa.types.is_struct(part.type):
            names = [name for name in ("bytes", "path") if part.type.get_field_index(name) >= 0]
            held = [pc.is_valid(pc.struct_field(part, name)) for name in names]
            valid = pc.and_(valid, reduce(pc.or_, held))
        present += valid.to_pylist()
    return present


def image_columns(schema: Any) -> list[str]:
    """The columns of an Arrow schema that can hold image bytes: binary, or a struct with a field `bytes`."""

    def holds(kind: Any) -> bool:
        if pa.types.is_struct(kind):
            return bool(kind.get_field_index("bytes") >= 0)
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))

    return [part.name for part in schema if holds(part.type)]


def pictures_in_cells(path: Path) -> list[str]:
    """The columns of pictures of a Parquet file; none for any other file."""
    if not path.name.lower().endswith(".parquet"):
        return []
    try:
        return image_columns(pq.read_schema(path))
    except (pa.ArrowException, OSError):
        return []
