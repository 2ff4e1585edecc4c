"""Where the pictures are: the file names that a source lists, found in folders, zips and tars."""

from __future__ import annotations

import bisect
import contextlib
import difflib
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from visir.collections.archives import TarArchive, open_archive
from visir.collections.draft import NOT_LOOKED_FOR, SourceDraft, found_note
from visir.collections.picture_kinds import is_picture_name
from visir.collections.readers.names import escaped
from visir.collections.tars import tar_notes
from visir.display import counted, cut_path
from visir.errors import CollectionError
from visir.files import as_spelled, missing_hint
from visir.remote import local_path

DEPTH = 4
"""How many folders deep pictures are looked for when nobody said where they are."""
_ANY = ("jpg", "jpeg", "png", "webp", "gif", "bmp")
"""Endings that the name "photo.*" stands for: a source names its pictures, and copies of it differ in their format."""
_SAME_KIND = {"jpeg": "jpg", "jpe": "jpg", "jfif": "jpg", "tiff": "tif"}
"""Endings that say the same."""
_COCO = re.compile(r"^COCO_(?:train|val|test)20\d\d_(?=\d{12}\.)")
_FLICKR = re.compile(r"^(\d+)_[0-9a-f]{8,12}(?=\.)")


class PictureLocation(NamedTuple):
    """One picture found."""

    rank: int  # the number of the source in which it is
    member: str  # its path inside the source
    folder: str  # the folder of the source, as seen from that of the collection; "" where they are one, and in archives
    archive: str | None  # the column `archive` of the collection

    @property
    def path(self) -> str:
        """The column `path` of the collection."""
        return f"{self.folder}/{self.member}" if self.folder else self.member


def place_images(draft: SourceDraft, images: object = None) -> None:
    """Fill `draft.paths` and `draft.archives` for the names that the source lists."""
    # A picture that is nowhere keeps a null path: the collection can still be searched by text and by imported vectors,
    # and `visir data check` reports it. `draft.notes` say how many were found and where.
    # An absolute name of a file that is there is taken as it is, where nobody says where the pictures are. Otherwise a
    # name matches a file of the same base name; where there is none, one of the same `file_key`; at last the only
    # picture that differs in its ending alone. Where several fit, the one that shares most of the path counts, and
    # among equals the one in the earlier source. COCO's 2014 names also match those of 2017, which lack the
    # `COCO_val2014_`: the pictures are the same. Flickr30k's names, the numbers of photos (`1007129816.jpg`), also
    # match those of Flickr8k (`1007129816_e794419615.jpg`). The name "photo.*" stands for every usual ending.
    here = len(draft.paths) - draft.paths.count(None) if draft.whole_paths else 0
    if draft.whole_paths and (images in (None, "none") or not any(draft.names)):
        draft.notes.append(f"images: {here:,} of {len(draft.paths):,} found")
        return
    if not draft.names or (not any(draft.names) and len(draft.paths) == len(draft.names)):
        return
    if len(draft.paths) != len(draft.names):
        draft.paths, draft.archives = [None] * len(draft.names), [None] * len(draft.names)
    count = draft.paths.count(None)
    absolute = _take_absolute(draft) if images is None else set()
    if absolute and len(absolute) == count:
        draft.notes.append(f"images: {count:,} of {count:,} found, by absolute paths")
        return
    if images == "none" or not any(draft.names):
        draft.notes.append(NOT_LOOKED_FOR)
        return
    sources = beside(draft.root) if images is None else _given_paths(images)
    names = {base_of(name) for name in draft.names if name is not None}
    names |= {_COCO.sub("", name) for name in names}
    files = _Files(draft, sources, names, explicit=images is not None)
    if images is not None and not files.index:  # a folder that holds the pictures in archives, as it was downloaded
        sources += [archive for folder in sources if folder.is_dir() for archive in _archives(folder)]
        files = _Files(draft, sources, names, explicit=True)
    placed: dict[int, PictureLocation] = {}
    missing: list[tuple[int, str]] = []
    for row, name in enumerate(draft.names):
        if name is not None and row not in absolute:
            base = base_of(name)
            locations = files.index.get(base) or files.index.get(_COCO.sub("", base)) or files.index.get(f"#{base}")
            if not locations:
                missing.append((row, name))
            elif location := _match(draft, name, locations):
                placed[row] = location
    respelled: list[tuple[str, str]] = []
    for row, name, locations in files.spelled_otherwise(missing):
        if location := _match(draft, name, locations):
            placed[row] = location
            respelled.append((name, location.member))
    if respelled:
        draft.notes.append(spelling_note(respelled))
    _give_up_doubtful(draft, placed)
    found_by_rank: dict[int, int] = {}
    for row, location in placed.items():
        draft.paths[row] = location.path + draft.fragments.get(row, "")
        draft.archives[row] = location.archive
        found_by_rank[location.rank] = found_by_rank.get(location.rank, 0) + 1
    total = len(placed) + len(absolute)
    if images is not None and total == 0:
        named = [name for name in draft.names if name is not None]
        near = close_names(named[0], [member for _, member in files.others])
        raise CollectionError(
            f"{draft.name}: none of its {len(named):,} images is in {', '.join(str(s) for s in sources)}.",
            hint=f"it looks for names such as {named[0]!r}"
            + (f"; the nearest there: {', '.join(near)}" if near else "")
            + "; images='none' goes without pictures",
            code="none-images",
        )
    where = ", ".join(files.titles[rank] for rank in sorted(found_by_rank))
    draft.notes.append(found_note(here + total, here + count, where))


def _take_absolute(draft: SourceDraft) -> set[int]:
    """Take absolute names of files that are there as they are; return their rows."""
    rows = set()
    for row, name in enumerate(draft.names):
        if name is None or draft.paths[row] is not None:
            continue
        path = unquote(urlsplit(name).path) if name.startswith("file://") else name
        if os.path.isabs(path) and os.path.isfile(path):  # noqa: PTH113, PTH117 - of every row, and four times as fast
            draft.paths[row] = f"{path}{draft.fragments.get(row, '')}"
            rows.add(row)
    return rows


def beside(root: Path) -> list[Path]:
    """Where to look when nobody said: the source's folder (the parent of a folder "annotations") and archives in it."""
    base = root.parent if root.name in ("annotations", "Annotations") else root
    folders = list(dict.fromkeys([base, root]))
    return [base, *sorted(archive for folder in folders for archive in _archives(folder))]


def _archives(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in (".zip", ".tar"))


def walk(
    folder: Path, depth: int | None = None, unread: dict[str, str] | None = None, folders: list[str] | None = None
) -> Iterator[str]:
    """Relative POSIX paths of all visible files under a folder, sorted; links to folders are followed once."""
    # None leads into what the system draws of itself (`/proc`): that has no end, and all other folders are in it.
    seen: set[tuple[int, int]] = set()
    unread = {} if unread is None else unread
    drawn = _drawn_by_the_system()

    def visit(subfolder: Path, prefix: str, levels_left: int | None) -> Iterator[str]:
        try:
            status = subfolder.stat()
            if (status.st_dev, status.st_ino) in seen:
                return
            if not prefix:
                drawn.discard(status.st_dev)
            if status.st_dev in drawn:
                unread[prefix.rstrip("/")] = "a link to what the system draws of itself, not to files"
                return
            seen.add((status.st_dev, status.st_ino))
            entries = sorted(os.scandir(subfolder), key=lambda entry: entry.name)
        except OSError as fault:
            if not prefix:
                raise CollectionError(
                    f"{folder}: cannot be looked into: {fault.strerror or fault}",
                    hint="is the disk mounted, and may you read it?",
                    code="cannot-looked",
                ) from fault
            unread[prefix.rstrip("/")] = fault.strerror or str(fault)
            return
        if folders is not None:
            folders.append(str(subfolder))
        for entry in entries:
            if entry.name.startswith("."):
                continue
            try:
                is_folder, is_file, is_link = entry.is_dir(), entry.is_file(), entry.is_symlink()
            except OSError as fault:  # a link to itself, a disk that fails
                unread[prefix + entry.name] = fault.strerror or str(fault)
                continue
            if is_folder:
                if levels_left is None or levels_left > 0:
                    yield from visit(
                        Path(entry.path), f"{prefix}{entry.name}/", None if levels_left is None else levels_left - 1
                    )
            elif is_file:
                yield prefix + entry.name
            elif is_link:
                unread[prefix + entry.name] = LEADS_NOWHERE

    yield from visit(Path(folder), "", depth)


def _drawn_by_the_system() -> set[int]:
    """The devices of file systems that hold no files of anybody; none where the system does not list them."""
    devices = set()
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines():
            before, _, after = line.partition(" - ")
            if after.split(" ", 1)[0] in _DRAWN:
                major, minor = before.split(" ")[2].split(":")
                devices.add(os.makedev(int(major), int(minor)))
    return devices


LEADS_NOWHERE = "a link that leads nowhere"
"""Why a link is passed over whose file or folder is not there: moved, not fetched, or on a disk that is away."""

_DRAWN = frozenset(
    ("proc", "sysfs", "cgroup", "cgroup2", "devpts", "devtmpfs", "debugfs", "tracefs", "securityfs", "configfs", "bpf",
     "pstore", "mqueue", "fusectl", "binfmt_misc", "hugetlbfs", "efivarfs", "nsfs", "selinuxfs")
)  # fmt: skip
_PASSED_OVER = "passed over that cannot be read"


def note_unread(draft: SourceDraft, unread: Mapping[str, str]) -> None:
    """Say in the draft's notes what a walk passed over."""
    if unread:
        names = {cut_path(escaped(path)).replace("; ", ";"): why for path, why in list(unread.items())[:3]}
        listing = ", ".join(f"{name} ({why})" for name, why in names.items())
        more = f" and {len(unread) - 3:,} more" if len(unread) > 3 else ""
        draft.notes.append(f"{len(unread):,} {_PASSED_OVER}: {listing}{more}")


def unread_notes_in(source: str) -> list[str]:
    """Those of these notes that the `source` of a record has."""
    return [note for note in source.split("; ") if f" {_PASSED_OVER}: " in note]


def relative(path: Path, root: Path) -> str:
    """`path` as seen from `root`, with forward slashes; absolute where there is no way (another drive)."""
    try:
        return Path(os.path.relpath(path, root)).as_posix()
    except ValueError:
        return path.resolve().as_posix()


def _given_paths(images: object) -> list[Path]:
    if isinstance(images, (str, os.PathLike)):
        items: Iterable[object] = [images]
    elif isinstance(images, Sequence):
        items = images
    else:
        raise CollectionError(f"images= takes a path or a list of paths, not {type(images).__name__}.")
    paths = [as_spelled(Path(local_path(str(item)))) for item in items]
    for path in paths:
        if not path.exists():
            near = missing_hint(path, "")
            raise CollectionError(
                f"images: {path} does not exist.",
                hint="; ".join(filter(None, ("give a folder, a zip or a tar", near))),
                code="no-pictures-there",
            )
    return paths


class _Files:
    """The files of the places where pictures are looked for: those of the names that are looked for, and the others."""

    def __init__(self, draft: SourceDraft, sources: list[Path], names: set[str], *, explicit: bool) -> None:
        self.index: dict[str, list[PictureLocation]] = {}
        self.titles: dict[int, str] = {}
        """What each source is called."""
        self.others: list[tuple[int, str]] = []
        """(rank, member) of the files of other names."""
        self._places: list[tuple[str, str | None]] = []
        any_ending = any(name.endswith(".*") for name in names)
        for rank, source in enumerate(sources):
            prefix = relative(source, draft.root)
            self.titles[rank] = f"{source.resolve().name}/" if source.is_dir() else source.name
            archive = None if source.is_dir() else prefix
            self._places.append(("" if archive is not None or prefix == "." else prefix, archive))
            try:
                unread: dict[str, str] = {}
                opened = None if source.is_dir() else open_archive(source)
                members = walk(source, None if explicit else DEPTH, unread) if opened is None else opened.names()
                for member in members:
                    key = _key(member, names, any_ending)
                    if key is None:
                        self.others.append((rank, member))
                    else:
                        self.index.setdefault(key, []).append(self._location(rank, member))
            except CollectionError as fault:
                if explicit:
                    raise
                draft.notes.append(f"{source.name} left aside: {fault.message}")
                continue
            note_unread(draft, unread)
            if isinstance(opened, TarArchive):
                links = [f"{source.name}: {link}" for link in opened.links if _key(link, names, any_ending) is not None]
                draft.notes += tar_notes(links, [source.name] if opened.goes_on else [])

    def _location(self, rank: int, member: str) -> PictureLocation:
        folder, archive = self._places[rank]
        return PictureLocation(rank, member, folder, archive)

    def spelled_otherwise(self, names: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str, list[PictureLocation]]]:
        """Of the (row, name) that no file has, those for which there are files of the same key, with these files."""
        keys = {name: base_of(file_key(name)) for _, name in names} if self.others else {}
        wanted = {*keys.values(), *map(_stem, keys.values())}
        by_key: dict[str, list[tuple[int, str]]] = {}
        for rank, member in self.others if wanted else ():
            key = base_of(file_key(member))
            for name in (key, _stem(key)) if is_picture_name(key) else (key,):
                if name in wanted:
                    by_key.setdefault(name, []).append((rank, member))
        for row, name in names:
            places = by_key.get(key := keys.get(name, "")) or by_key.get(_stem(key), [])
            locations = [self._location(rank, member) for rank, member in places]
            if key in by_key or len(_nearest(name, locations)) == 1:
                yield row, name, locations


def _key(member: str, names: set[str], any_ending: bool) -> str | None:
    """Under which name a file is looked for; None for one that nobody looks for."""
    base = base_of(member)
    if any_ending:
        stem, _, ending = base.rpartition(".")
        if f"{stem}.*" in names and ending.lower() in _ANY:
            return f"{stem}.*"
    if base in names:
        return base
    number = _FLICKR.sub(r"\1", base)
    return f"#{number}" if number in names else None


def file_key(name: str) -> str:
    """A path however it is written: slashes, accents (one character or two), case, blanks, "%20", "./", ".jpeg"."""
    if "?" in name:  # an address: its path, or what it asks for (`/data/local-files/?d=photos/a.jpg`)
        path, _, query = name.partition("?")
        name = path if is_picture_name(path) else query.rpartition("=")[2]
    name = unquote(name) if "%" in name else name
    if not name.isascii():
        name = unicodedata.normalize("NFD", name)
    key = "/".join(filter(lambda part: part not in ("", "."), map(str.strip, name.replace("\\", "/").split("/"))))
    key = unicodedata.normalize("NFC", key.casefold())
    stem, _, ending = key.rpartition(".")
    return f"{stem}.{_SAME_KIND[ending]}" if ending in _SAME_KIND else key


def _stem(key: str) -> str:
    """The key of a picture without its ending, ending in a dot, which stands for every ending."""
    return key[: key.rindex(".") + 1] if is_picture_name(key) else f"{key}."


def spelling_note(pairs: Sequence[tuple[str, str]]) -> str:
    """The note on (name, file) pairs that are spelled differently."""
    return f"{len(pairs):,} of the names are spelled otherwise here: {pairs[0][0]} is {pairs[0][1]}"


def close_names(name: str, names: Sequence[str], count: int = 3) -> list[str]:
    """The names nearest to one, quoted; of very many only those that stand near it in the order of their keys."""
    by_key = {base_of(file_key(other)): other for other in names}
    key, keys = base_of(file_key(name)), sorted(by_key)
    middle = bisect.bisect(keys, key)
    close = difflib.get_close_matches(key, keys[max(0, middle - 500) : middle + 500], n=count, cutoff=0.7)
    return [repr(by_key[other]) for other in close]


def _give_up_doubtful(draft: SourceDraft, placed: dict[int, PictureLocation]) -> None:
    """A file is the picture of one name: of several names that fit it the one that shares most of its path, or none."""
    rows_of: dict[tuple[int, str], list[int]] = {}
    for row, location in placed.items():
        rows_of.setdefault((location.rank, location.member), []).append(row)
    given_up: list[tuple[str, str]] = []
    for (_, member), rows in rows_of.items():
        keys = {row: file_key(str(draft.names[row])) for row in rows} if len(rows) > 1 else {}
        if len(set(keys.values())) < 2:
            continue
        shared = {key: _shared(key, file_key(member)) for key in keys.values()}
        best = [key for key, count in shared.items() if count == max(shared.values())]
        for row, key in keys.items():
            if best != [key]:
                given_up.append((str(draft.names[row]), placed.pop(row).member))
    if given_up:
        name, member = given_up[0]
        others = f"other names fit the same files as well or better: {name} is not {member}"
        draft.notes.append(f"{counted(len(given_up), 'names')} without a picture, since {others}")


def _match(draft: SourceDraft, name: str, locations: list[PictureLocation]) -> PictureLocation | None:
    """The nearest location; None for an address that fits several, which says nothing of where files lie here."""
    best = _nearest(name, locations)
    if len(best) > 1 and "://" in name:
        return None
    if len(best) > 1:
        draft.fault(f"image {name!r} could be {best[0].member!r} or {best[1].member!r}; say which with images=")
    return best[0]


def _nearest(name: str, locations: list[PictureLocation]) -> list[PictureLocation]:
    """The locations that share most of the path with a name, as it is written and by its key, of the first source."""
    if len(locations) < 2:
        return locations
    key = file_key(name)
    shared = [(_shared(name, place.member), _shared(key, file_key(place.member))) for place in locations]
    best = [location for location, count in zip(locations, shared, strict=True) if count == max(shared)]
    return [location for location in best if location.rank == best[0].rank]


def _shared(path: str, other: str) -> int:
    """How many parts two paths share from their ends."""
    pairs = zip(reversed(PurePosixPath(path).parts), reversed(PurePosixPath(other).parts), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def base_of(name: str) -> str:
    """The last part of a path."""
    return name.rsplit("/", 1)[-1]
