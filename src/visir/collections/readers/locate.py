"""Where the pictures are: the file names that a source lists, found in folders, zips and tars."""

from __future__ import annotations

import contextlib
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from visir.collections.archives import TarArchive, open_archive
from visir.collections.draft import NOT_LOOKED_FOR, SourceDraft, found_note
from visir.collections.readers.names import escaped
from visir.collections.tars import tar_notes
from visir.display import cut_path
from visir.errors import CollectionError
from visir.remote import local_path

DEPTH = 4
"""How many folders deep pictures are looked for when nobody said where they are."""
_ANY = ("jpg", "jpeg", "png", "webp", "gif", "bmp")
"""Endings that the name "photo.*" stands for: a source names its pictures, and copies of it differ in their format."""
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
    # name matches a file of the same base name. Where several have it, the one that shares most of the path with it
    # counts, and among equals the one in the earlier source. COCO's 2014 names also match those of 2017, which lack the
    # `COCO_val2014_`: the pictures are the same. Flickr30k's names, the numbers of photos (`1007129816.jpg`), also
    # match those of Flickr8k (`1007129816_e794419615.jpg`). The name "photo.*" stands for every usual ending.
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
    names = {_base(name) for name in draft.names if name is not None}
    names |= {_COCO.sub("", name) for name in names}
    index, used, others = _index(draft, sources, names, explicit=images is not None)
    if images is not None and not index:  # a folder that holds the pictures in archives, as it was downloaded
        sources += [archive for folder in sources if folder.is_dir() for archive in _archives(folder)]
        index, used, others = _index(draft, sources, names, explicit=True)
    found_by_rank: dict[int, int] = {}

    def place(row: int, location: PictureLocation) -> None:
        draft.paths[row] = location.path + draft.fragments.get(row, "")
        draft.archives[row] = location.archive
        found_by_rank[location.rank] = found_by_rank.get(location.rank, 0) + 1

    missing: list[tuple[int, str]] = []
    for row, name in enumerate(draft.names):
        if name is not None and row not in absolute:
            base = _base(name)
            locations = index.get(base) or index.get(_COCO.sub("", base)) or index.get(f"#{base}")
            if locations:
                place(row, _match(draft, name, locations))
            else:
                missing.append((row, name))
    if missing and others:
        spelled: dict[str, list[PictureLocation]] = {}
        wanted = {_spelled(name) for _, name in missing}
        for location in others:
            if (key := _spelled(location.member)) in wanted:
                spelled.setdefault(key, []).append(location)
        respelled = [(row, name, spelled[key]) for row, name in missing if (key := _spelled(name)) in spelled]
        for row, name, locations in respelled:
            place(row, _match(draft, name.replace("\\", "/"), locations))
        if respelled:
            as_written, as_found = respelled[0][1], respelled[0][2][0].member
            draft.notes.append(
                f"{len(respelled):,} of the names are spelled otherwise here: {as_written} is {as_found}"
            )
    total = sum(found_by_rank.values()) + len(absolute)
    if images is not None and total == 0:
        named = [name for name in draft.names if name is not None]
        raise CollectionError(
            f"{draft.name}: none of its {len(named):,} images is in {', '.join(str(s) for s in sources)}.",
            hint=f"it looks for names such as {named[0]!r}; images='none' goes without pictures",
            code="none-images",
        )
    where = ", ".join(used[rank] for rank in sorted(found_by_rank))
    draft.notes.append(found_note(total, count, where))


def _take_absolute(draft: SourceDraft) -> set[int]:
    """Take absolute names of files that are there as they are; return their rows."""
    rows = {
        row
        for row, name in enumerate(draft.names)
        if name is not None and draft.paths[row] is None and Path(name).is_absolute() and Path(name).is_file()
    }
    for row in rows:
        draft.paths[row] = f"{draft.names[row]}{draft.fragments.get(row, '')}"
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
    paths = [Path(local_path(str(item))) for item in items]
    for path in paths:
        if not path.exists():
            raise CollectionError(
                f"images: {path} does not exist.", hint="give a folder, a zip or a tar", code="no-pictures-there"
            )
    return paths


def _index(
    draft: SourceDraft, sources: list[Path], names: set[str], *, explicit: bool
) -> tuple[dict[str, list[PictureLocation]], dict[int, str], list[PictureLocation]]:
    """The files by the name that is looked for, what each source is called, and the files of other names."""
    index: dict[str, list[PictureLocation]] = {}
    used: dict[int, str] = {}
    others: list[PictureLocation] = []
    for rank, source in enumerate(sources):
        prefix = relative(source, draft.root)
        used[rank] = f"{source.resolve().name}/" if source.is_dir() else source.name
        try:
            unread: dict[str, str] = {}
            deep = None if explicit else DEPTH
            opened = None if source.is_dir() else open_archive(source)
            members = list(walk(source, deep, unread)) if opened is None else opened.names()
            note_unread(draft, unread)
        except CollectionError as fault:
            if explicit:
                raise
            draft.notes.append(f"{source.name} left aside: {fault.message}")
            continue
        archive = None if source.is_dir() else prefix
        for member in members:
            key = _key(member, names)
            location = PictureLocation(rank, member, "" if archive is not None or prefix == "." else prefix, archive)
            (others if key is None else index.setdefault(key, [])).append(location)
        if isinstance(opened, TarArchive):
            links = [f"{source.name}: {link}" for link in opened.links if _key(link, names) is not None]
            draft.notes += tar_notes(links, [source.name] if opened.goes_on else [])
    return index, used, others


def _key(member: str, names: set[str]) -> str | None:
    """Under which name a file is looked for; None for one that nobody looks for."""
    base = _base(member)
    stem, _, ending = base.rpartition(".")
    if f"{stem}.*" in names and ending.lower() in _ANY:
        base = f"{stem}.*"
    number = _FLICKR.sub(r"\1", base)
    return base if base in names else f"#{number}" if number in names else None


def _spelled(name: str) -> str:
    """The name of a file, however its slashes, accents (one character or two), case and ".jpeg" are written."""
    base = _base(unicodedata.normalize("NFC", name.replace("\\", "/"))).strip().casefold()
    return f"{base[:-5]}.jpg" if base.endswith(".jpeg") else base


def _match(draft: SourceDraft, name: str, locations: list[PictureLocation]) -> PictureLocation:
    if len(locations) == 1:
        return locations[0]
    parts = PurePosixPath(name).parts[::-1]
    shared = [_shared(parts, PurePosixPath(location.member).parts[::-1]) for location in locations]
    best = [location for location, count in zip(locations, shared, strict=True) if count == max(shared)]
    best = [location for location in best if location.rank == best[0].rank]
    if len(best) > 1:
        draft.fault(f"image {name!r} could be {best[0].member!r} or {best[1].member!r}; say which with images=")
    return best[0]


def _shared(parts: tuple[str, ...], other_parts: tuple[str, ...]) -> int:
    count = 0
    for part, other_part in zip(parts, other_parts, strict=False):
        if part != other_part:
            break
        count += 1
    return count


def _base(name: str) -> str:
    return name.rsplit("/", 1)[-1]
