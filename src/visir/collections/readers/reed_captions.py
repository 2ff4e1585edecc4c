"""The captions of Reed et al. as they are distributed: a file of lines per picture, and the classes of each split."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from visir.collections.archives import ZipArchive, check_member_size
from visir.collections.readers.locate import walk
from visir.collections.tar_headers import TAR_FAULTS, TARS, TarHeaders, remedy_of
from visir.collections.tar_notes import END_REMEDY, GOES_ON, tar_notes
from visir.errors import CollectionError

ORIGIN = "cvpr2016_cub.tar.gz, linked from https://github.com/reedscot/cvpr2016"
SPLITS = ("train", "val", "test")
_CAPTIONS = re.compile(r"(?:^|/)(\d{3})\.[^/]+/([^/]+)\.txt$")
_LIST = re.compile(r"(?:^|/)(train|val|test)classes\.txt$")
_NUMBERS = re.compile(r"_(\d+)_(\d+)$")
_ARCHIVES = (".zip", *TARS)

Key = tuple[str, ...]


@dataclass
class ReedCaptions:
    """Lines of captions by picture, and the lists of classes by split (none where the distribution's part lacks
    them)."""

    # `lines` is keyed by `picture_key`. `notes` tell what of a tar is not read.

    source: Path
    lines: dict[Key, list[str]] = field(default_factory=dict)
    classes: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def picture_key(label: str, stem: str) -> Key:
    """What the name of a picture and of its captions share: the class number and the two numbers that end the name."""
    # Copies spell some classes differently ("Brewers_Blackbird" for "Brewer_Blackbird"); the numbers are the same.
    match = _NUMBERS.search(stem)
    return (label, *match.groups()) if match else (label, stem)


def find_captions(folder: Path, captions: str | Path | None) -> Path:
    """Where the captions are: as given, else `text_c10/` or the archive in `folder`, beside it, or one folder down."""
    if captions is not None:
        if not Path(captions).exists():
            raise CollectionError(
                f"captions: {captions} does not exist.", hint=f"they come in {ORIGIN}", code="collection-not-exist"
            )
        return Path(captions)
    for base in (folder, folder.absolute().parent):
        for candidate in (base / "text_c10", *sorted(base.glob("*/text_c10"))):
            if candidate.is_dir():
                return candidate
        for candidate in sorted(base.glob("cvpr2016_cub.*")):
            if candidate.name.endswith(_ARCHIVES):
                return candidate
    raise CollectionError(
        f"{folder}: the captions of Reed et al. are not beside it.",
        hint=f"put {ORIGIN} there, or give its place with captions=",
        code="captions-of-reed-missing",
    )


def read_captions(source: Path, classes: str | Path | None) -> ReedCaptions:
    """Read a folder or an archive; `classes` is a folder whose lists of classes replace those of the distribution."""
    reed = ReedCaptions(source)
    for name, data in _members(source, reed.notes):
        list_match, caption_match = _LIST.search(name), _CAPTIONS.search(name)
        lines = _lines(data, f"{source}: {name}")
        if list_match:
            reed.classes[list_match[1]] = lines
        elif caption_match:
            reed.lines[picture_key(caption_match[1], caption_match[2])] = lines
    if not reed.lines:
        raise CollectionError(
            f"{source}: no captions in it.", hint=f"expected 001.Black_footed_Albatross/*.txt, of {ORIGIN}"
        )
    if classes is not None:
        reed.classes = dict(_lists_in(Path(classes)))
        if not reed.classes:
            raise CollectionError(
                f"classes: no trainclasses.txt, valclasses.txt or testclasses.txt in {classes}.",
                code="no-trainclasses-txt-valclasses",
            )
    elif source.is_dir() and source.name == "text_c10":  # the lists are one folder up
        reed.classes = reed.classes or dict(_lists_in(source.parent))
    return reed


def _members(source: Path, notes: list[str]) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files of captions and of the lists of classes; `notes` takes what is not read."""

    def is_needed(name: str) -> bool:
        return bool(_LIST.search(name) or _CAPTIONS.search(name))

    if source.is_dir():
        yield from ((name, (source / name).read_bytes()) for name in walk(source, 3) if is_needed(name))
    elif source.suffix == ".zip":
        archive = ZipArchive(source)
        yield from ((name, archive.read(name)) for name in archive.names() if is_needed(name))
    else:
        headers, links = TarHeaders(), list[str]()
        try:
            # Once, in order: a compressed one can be read no other way.
            with source.open("rb") as file, headers.open(file) as tar:
                for member in tar:
                    if not is_needed(member.name):
                        continue
                    if member.issym() or member.islnk():
                        links.append(f"{source.name}: {member.name}")
                    elif member.isreg() and (stream := tar.extractfile(member)) is not None:
                        check_member_size(source, member.name, member.size, member.size)
                        yield member.name, stream.read()
                goes_on = headers.check_end(tar)
        except TAR_FAULTS as fault:
            raise CollectionError(
                f"{source}: not a readable tar ({fault}).", hint=remedy_of(fault, "is the download complete?")
            ) from fault
        if goes_on:
            raise CollectionError(f"{source}: {GOES_ON}.", hint=END_REMEDY, code="goes-behind-mark-end")
        notes += tar_notes(links, [])


def _lists_in(folder: Path) -> Iterator[tuple[str, list[str]]]:
    for split in SPLITS:
        file = folder / f"{split}classes.txt"
        if file.is_file():
            yield split, _lines(file.read_bytes(), str(file))


def _lines(data: bytes, where: str) -> list[str]:
    try:
        lines = [line.removesuffix("\r") for line in data.decode("utf-8-sig").split("\n")]
    except UnicodeDecodeError as fault:
        number = data.count(b"\n", 0, fault.start) + 1
        raise CollectionError(
            f"{where}, line {number}: not UTF-8.", hint="convert it to UTF-8 first", code="not-utf-8"
        ) from fault
    return lines[:-1] if lines[-1] == "" else lines
