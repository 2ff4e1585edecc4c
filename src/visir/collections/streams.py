"""Files full of pictures (tars, zips, Parquet), here or elsewhere, read once from beginning to end, never copied.

This is the road for what is too large to be opened: nothing is looked into before it is read, and what is read is
forgotten at once. `InputFiles` lists them; `pictures` gives the bytes of the pictures in one, in the order in which
`visir.open` has them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from visir.collections.archives import check_member_size, image_columns, zip_members
from visir.collections.own_folders import check_no_own_folder
from visir.collections.picture_kinds import is_picture_name, picture_endings
from visir.collections.readers.names import escaped
from visir.collections.readers.webdataset import expand, is_picture_ending, sample_key
from visir.collections.tars import COPY, TARS, Source, TarHeaders, content_faults
from visir.display import cut_path
from visir.errors import CollectionError, ImageError, nearest
from visir.files import literal_root, user_path
from visir.parquet import open_stream
from visir.remote import is_url, open_remote, remote_files, remote_state

ENDINGS = (*TARS, ".zip", ".parquet")
"""What the names of files end in that hold pictures and need no other file."""
ID_COLUMNS = ("image_id", "id", "key")
"""Columns of Parquet files that are taken for ids, the first of them that is there."""
_ROWS = 64
_SAMPLE, _SAMPLED = "+", 1 << 16


@dataclass(frozen=True)
class InputFile:
    """A file as it was listed."""

    name: str  # its path below the folder that was listed
    size: int  # bytes
    # What changes when its content does: the ETag of an object; of a file the time of its last change, and a hash of a
    # sample of it, because another shard may have its name, size and time.
    tag: str

    def is_same(self, size: int, tag: str) -> bool:
        """Whether a file of this size and tag is the one that was listed, perhaps by a version that took no sample."""
        return size == self.size and self.tag in (tag, tag.partition(_SAMPLE)[0])


@dataclass(frozen=True)
class StreamedPicture:
    """The bytes of one picture."""

    id: str  # within its file
    where: str  # its place, for errors
    data: bytes | ImageError  # the bytes, or why there are none


@dataclass
class PassedOver:
    """Pictures of a tar that are passed over."""

    count: int = 0  # how many stand behind another of their sample: of several (`a.jpg`, `a.png`) the first is taken
    first: str = ""  # the name of the first of them
    # How many are links, hard or symbolic: the tar has their names, and the picture elsewhere or not at all.
    links: int = 0
    first_link: str = ""  # the name of the first of them
    goes_on: bool = False  # whether there is more behind the mark of its end, as where one tar was put behind another

    def add(self, name: str) -> None:
        """Count a picture."""
        self.count, self.first = self.count + 1, self.first or name

    def add_link(self, name: str) -> None:
        """Count a link."""
        self.links, self.first_link = self.links + 1, self.first_link or name

    def facts(self) -> dict[str, Any]:
        """What of it is no 0, for a card."""
        counts = {"passed over": (self.count, self.first), "links": (self.links, self.first_link)}
        facts: dict[str, Any] = {
            name: {"count": count, "first": first} for name, (count, first) in counts.items() if count
        }
        return facts | ({"more behind the end": True} if self.goes_on else {})


class InputFiles:
    """The files of pictures of a folder, a pattern (`shards/*.tar`, `{000..099}.tar`) or an address; none is opened."""

    # Beside tars, Parquet files of the same name are what img2dataset notes about them: they are passed over.

    def __init__(self, source: str | Path) -> None:
        self.source = str(source)
        if not self.source.strip():
            raise CollectionError(
                "the name of the source is empty.",
                hint="name a folder, a pattern or an address",
                code="name-source-empty",
            )
        check_no_own_folder(self.source, "files of pictures")
        self._remote = is_url(source)
        self._called: dict[str, str] = {}
        """By its name as text, what a file is really called, where that is no valid Unicode."""
        listed: dict[str, tuple[int, str]] = {}
        roots = []
        for pattern in expand(self.source):
            root, entries = remote_files(pattern) if self._remote else _local_files(pattern)
            roots.append(root)
            self._called |= {escaped(name): name for name in entries if escaped(name) != name}
            listed |= {escaped(name): state for name, state in entries.items()}
        if len(set(roots)) > 1:
            raise CollectionError(f"{self.source}: files of several folders.", hint="name the folder above them")
        self.root = roots[0]
        notes = notes_on_tars(listed)
        self.files = [
            InputFile(name, *listed[name])
            for name in sorted(listed)
            if name.lower().endswith(ENDINGS)
            and not any(part.startswith((".", "__MACOSX")) for part in name.split("/"))
            and name not in notes
        ]
        if not self.files:
            endings = ", ".join(ENDINGS)
            if not listed:
                raise CollectionError(
                    f"{self.source}: there are no files.", hint=f"name some that end in {endings}", code="no-files"
                )
            raise CollectionError(
                f"{self.source}: no files of pictures: none of {len(listed):,} ends in {endings}.",
                hint="photos in a folder: visir encode without --parts; or pack them into tars, some 10,000 in each",
            )

    def holds(self, place: str | Path) -> bool:
        """Whether a place is below the folder whose files are listed."""
        if self._remote or is_url(place):
            return f"{str(place).rstrip('/')}/".startswith(f"{self.source.rstrip('/')}/")
        source = user_path(self.source)
        return source.is_dir() and user_path(place).resolve().is_relative_to(source.resolve())

    def place(self, name: str) -> str:
        """The path or address of a file."""
        return f"{self.root}/{name}" if self._remote else str(Path(self.root, name))

    def _path(self, name: str) -> Path:
        return Path(self.root, self._called.get(name, name))

    def check(self, file: InputFile) -> None:
        """Raise `CollectionError` for a file that is gone, or is not the one that was listed."""
        place = self.place(file.name)
        state = remote_state(place) if self._remote else _local_state(self._path(file.name))
        if state is None:
            raise CollectionError(
                f"{place}: is no longer there.", hint="put it back, and run the same again", code="no-longer"
            )
        if not file.is_same(*state):
            raise CollectionError(
                f"{place}: has changed since it was listed ({self.difference(file, *state)}).",
                hint="put the file back as it was; or encode what is there now: --replace (in Python: replace=True)",
                code="changed-since-listed",
            )

    def difference(self, file: InputFile, size: int, tag: str) -> str:
        """In words, in what a file differs from what was listed."""
        # size: Its bytes now.
        if size != file.size:
            return f"{file.size:,} bytes then, {size:,} now"
        what = "ETag or time of change" if self._remote else "last changed"
        then, now = (file.tag, tag) if self._remote else (_time_of(file.tag), _time_of(tag))
        if then == now:
            return f"{size:,} bytes and a time as then, but other content"
        return f"{size:,} bytes as then, but {what} {then or 'unknown'} then, {now or 'unknown'} now"

    def pictures(self, file: InputFile, passed: PassedOver | None = None) -> Iterator[StreamedPicture]:
        """The pictures of a file, one after the other."""
        self.check(file)
        place = self.place(file.name)
        kind = file.name.lower()
        of_tar = partial(_of_tar, passed=PassedOver() if passed is None else passed)
        read = of_tar if kind.endswith(TARS) else _of_zip if kind.endswith(".zip") else _of_parquet
        with open_remote(place) if self._remote else _opened(self._path(file.name)) as stream:
            source = Source(stream)
            with content_faults(place, source):
                yield from _first_of_each(read(cast(IO[bytes], source), place))
        self.check(file)


def _first_of_each(pictures: Iterator[StreamedPicture]) -> Iterator[StreamedPicture]:
    """The pictures; one whose id was there before is an error instead."""
    seen: set[str] = set()
    for picture in pictures:
        if picture.id in seen:
            fault = ImageError(f"{picture.where}: its id, {picture.id!r}, was there before.", hint="give it another")
            picture = replace(picture, data=fault)
        seen.add(picture.id)
        yield picture


_UNDECIDED = 64
"""Pictures of a sample without a plain ending that are held until one comes; then none is expected any more."""


def _of_tar(stream: IO[bytes], place: str, passed: PassedOver) -> Iterator[StreamedPicture]:
    """The first picture of each sample, whose files stand together; ids as `visir.open` has them."""
    endings, headers = picture_endings(), TarHeaders()
    last, sample, short = "", "", False  # of the last picture given; the sample, and whether its key is the short one
    longer = list[str]()  # keys of the files of a sample of which that is not known
    held: list[tuple[str, bytes | ImageError]] = []

    def give(name: str, data: bytes | ImageError) -> Iterator[StreamedPicture]:
        nonlocal last
        key, _ = sample_key(name, long=not short)
        if key == last:
            passed.add(name)
            return
        last = key
        yield StreamedPicture(key, f"{place}: {name}", data)

    def give_held() -> Iterator[StreamedPicture]:
        for name, data in held:
            yield from give(name, data)
        held.clear()

    with headers.open(stream) as opened:
        for member in opened:
            opened.members = []  # type: ignore[attr-defined]  # it would remember them all
            name = escaped(member.name)
            key, ending = sample_key(name)
            if key != sample:
                short = len(held) == 1 and len(set(longer)) == len(longer)
                yield from give_held()
                sample, short, longer = key, False, []
            if key and not short:
                longer.append(sample_key(name, long=True)[0])
                if "." not in ending:
                    short = True
                    yield from give_held()
            if not is_picture_ending(ending, endings):
                continue
            if member.issym() or member.islnk():
                passed.add_link(name)
                continue
            if not member.isreg():
                continue
            if short and key == last:
                passed.add(name)
                continue
            data: bytes | ImageError
            try:
                check_member_size(Path(place), name, member.size, member.size)
                content = opened.extractfile(member)
                data = content.read() if content is not None else b""
            except ImageError as fault:
                data = fault
            else:
                if len(data) != member.size:
                    raise tarfile.ReadError(f"it ends within {name!r}")
            if short:
                yield from give(name, data)
            else:
                held.append((name, data))
                if len(held) >= _UNDECIDED:
                    yield from give_held()
        short = len(held) == 1 and len(set(longer)) == len(longer)
        yield from give_held()
        passed.goes_on = headers.check_end(opened)


def _of_zip(stream: IO[bytes], place: str) -> Iterator[StreamedPicture]:
    """All pictures, by name, as `visir.collections.readers.folders` has them."""
    with zipfile.ZipFile(stream) as opened:
        for name, member in sorted(zip_members(opened).items()):
            hidden = any(part.startswith((".", "__MACOSX")) for part in name.split("/"))
            if hidden or not is_picture_name(name):
                continue
            data: bytes | ImageError
            try:
                check_member_size(Path(place), name, member.file_size, member.compress_size)
                data = opened.read(member)
            except ImageError as fault:
                data = fault
            except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as fault:
                data = ImageError(f"{place}: {name!r} is damaged ({fault}).", hint=COPY)
            yield StreamedPicture(escaped(name), f"{place}: {name}", data)


def _of_parquet(stream: IO[bytes], place: str) -> Iterator[StreamedPicture]:
    """The cells of the column of pictures; rows without one are left out. Ids are of a column, or numbers of rows."""
    parquet = open_stream(stream)
    schema = parquet.schema_arrow
    columns = image_columns(schema)
    if len(columns) != 1:
        held = "several columns" if columns else "no column"
        raise CollectionError(
            f"{place}: {held} of pictures; there are {', '.join(schema.names)}.",
            hint="a column of the bytes of pictures, one; name the files that have it: 'FOLDER/*.parquet'",
        )
    usual = [name for name in ID_COLUMNS if name in schema.names]
    row = -1
    for batch in parquet.iter_batches(_ROWS, columns=[columns[0], *usual[:1]], use_threads=False):
        ids = batch.column(usual[0]).to_pylist() if usual else None
        for number, cell in enumerate(batch.column(columns[0])):
            row += 1
            value: Any = cell.as_py()
            value = value.get("bytes") if isinstance(value, dict) else value
            if value is not None:
                name, where = str(row) if ids is None else str(ids[number]), f"{place}: {columns[0]}#{row}"
                if ids is not None and ids[number] is None:
                    name = str(row)
                    value = ImageError(f"{where}: has no id in the column {usual[0]!r}.", hint="give it one")
                yield StreamedPicture(name, where, value)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        stream = path.open("rb")
    except OSError as fault:
        raise CollectionError(
            f"{path}: cannot be read ({fault.strerror}).", hint="check its permissions", code="cannot-read"
        ) from fault
    with stream:
        yield stream


def _local_files(pattern: str) -> tuple[str, dict[str, tuple[int, str]]]:
    path = user_path(pattern)
    if path.is_dir():
        root, paths = path, [file for file in _below(path) if file.is_file()]
    elif path.is_file():
        root, paths = path.parent, [path]
    else:
        plain = re.split(r"[*?\[]", str(path), maxsplit=1)[0]
        if plain == str(path):
            raise _missing(path, path)
        root, below = literal_root(path)
        if not re.search(r"[*?\[]", below.partition("/")[0]):
            raise _missing(path, root / below.partition("/")[0])
        paths = [file for file in root.glob(below) if file.is_file()]
        if not paths:
            held = sorted(file.name for file in root.iterdir())
            names = ", ".join(held[:3]) + (f" and {len(held) - 3:,} more" if len(held) > 3 else "")
            raise CollectionError(f"{path}: no file has such a name.", hint=f"{root} holds {names or 'nothing'}")
    states = {file.relative_to(root).as_posix(): _local_state(file) for file in paths}
    return str(root), {name: state for name, state in states.items() if state is not None}


def _below(folder: Path) -> Iterator[Path]:
    """All files below a folder. One that cannot be listed would be missing without a word."""

    def refuse(fault: OSError) -> None:
        reason = f"{cut_path(escaped(str(fault.filename)))}: cannot be looked into ({fault.strerror})."
        raise CollectionError(
            reason, hint="check its permissions; or name the files: 'FOLDER/*.tar'", code="cannot-looked"
        ) from fault

    for parent, _, names in os.walk(folder, onerror=refuse):
        yield from (Path(parent, name) for name in names)


def _missing(path: Path, needed: Path) -> CollectionError:
    """The error for a path of which `needed` is no file or folder: it names what is missing first."""
    first = next(above for above in reversed((needed, *needed.parents)) if not above.is_dir())
    if first.is_file():
        return CollectionError(f"{path}: {first} is a file, no folder.", hint="name the file itself")
    what = "no such file or folder" if first == path else f"there is no folder {first}"
    beside = [other.name for other in first.parent.iterdir()]
    return CollectionError(
        f"{path}: {what}.", hint=nearest(first.name, beside) if beside else f"{first.parent} holds nothing"
    )


def _local_state(path: Path) -> tuple[int, str] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_size, f"{status.st_mtime_ns}{_SAMPLE}{_sample(path, status.st_size)}"


def _sample(path: Path, size: int) -> str:
    """A hash over the head, the middle and the tail of a file, 64 kB of each; "" for one that cannot be read."""
    digest = hashlib.blake2b(digest_size=8)
    try:
        with path.open("rb") as stream:
            for place in (0, size // 2, max(0, size - _SAMPLED)):
                stream.seek(place)
                digest.update(stream.read(_SAMPLED) or b"")
    except OSError:
        return ""
    return digest.hexdigest()


def _time_of(tag: str) -> str:
    """The time of a local file's last change, to the nanosecond: files may be written within one microsecond."""
    seconds, rest = divmod(int(tag.partition(_SAMPLE)[0]), 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest:09} UTC"


def notes_on_tars(names: Iterable[str]) -> set[str]:
    """Of these names, those of Parquet files that stand beside a tar of the same name: img2dataset's notes."""
    names = list(names)
    tars = {_stem(name) for name in names if name.lower().endswith(TARS)}
    return {name for name in names if name.lower().endswith(".parquet") and _stem(name) in tars}


def _stem(name: str) -> str:
    lowered = name.lower()
    return next((name[: -len(ending)] for ending in ENDINGS if lowered.endswith(ending)), name)
