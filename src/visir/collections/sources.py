"""The door of every source: a text becomes a format, a path and options, and these become what they hold.

Collections, catalogues, judgements and tasks differ in their formats alone (`SourceKind`).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import unquote

from visir.collections.archives import Archive, open_archive
from visir.collections.draft import SourceDraft
from visir.collections.own_folders import check_no_own_folder
from visir.collections.picture_kinds import is_picture_name, left_out, of_another_kind
from visir.collections.readers.locate import base_of, place_images
from visir.collections.readers.names import CAPTION_ENDINGS, METADATA, gc_paused, head
from visir.collections.tables import TABLES
from visir.collections.tars import TARS
from visir.errors import CollectionError, VisirError, nearest, raise_faults
from visir.files import as_spelled, is_there, missing_hint, names_in, user_path
from visir.options import parse_pairs
from visir.registry import Registry
from visir.remote import local_copy
from visir.storage import MANIFEST, Scratch

# What a reader says about itself, as data: `visir data formats` and the table in the docs are printed from it.


@dataclass(frozen=True)
class Option:
    """A named choice of a reader."""

    name: str  # as it is written in `"PATH?name=value"`
    about: str  # what it chooses, in one line
    default: Any = None  # its value when it is not given
    parse: Callable[[str], Any] = str  # turns text into its value; raises `ValueError` for text that it does not take


@dataclass(frozen=True, kw_only=True)
class Format:
    """A layout of files that can be read: of collections, catalogues, judgements or tasks."""

    name: str  # by which it is called in `format="…"` and in `"name:path"`
    title: str  # its name for people
    layout: str  # the files as their makers distribute them
    reference: str  # where the format comes from
    sniff: Callable[[Path], bool]  # whether a path looks like it. It must be quick and never raise.
    # `read(path, **options)` returns a draft (`visir.collections.draft`), or what is read as it is.
    read: Callable[..., Any]
    options: tuple[Option, ...] = ()  # what can be chosen
    last: bool = False  # whether it is tried only when no file in a folder is a source by itself
    one_file: bool = False  # whether it is always a file, never a folder
    # What to do with a path that does not look like it, and could be read if its options were given: a line that works.
    # "" for any other path.
    advice: Callable[[Path], str] = lambda path: ""
    obtain: str = ""  # where its makers publish it, or a command that gets it; "" where people make it themselves

    def lacks(self, path: Path, *missing: str) -> CollectionError:
        """The error for a path that is not this layout."""
        return CollectionError(
            f"{path}: not the layout of {self.name}: {', '.join(missing)}.",
            hint="; ".join(filter(None, [f"layout: {self.layout}", f"get it: {self.obtain}" if self.obtain else ""])),
            code="not-layout",
        )

    def resolve(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options with defaults filled in and text parsed."""
        by_name = {option.name: option for option in self.options}
        resolved = {option.name: option.default for option in self.options}
        faults: list[tuple[str, str]] = []
        for name, value in options.items():
            if name not in by_name:
                hint = nearest(name, by_name) if by_name else f"{self.name} has no options"
                faults.append((f"unknown option {name!r}", hint))
                continue
            try:
                resolved[name] = by_name[name].parse(value) if isinstance(value, str) else value
            except ValueError:
                faults.append((f"option {name}={value!r}: {by_name[name].about}", ""))
        if len(faults) == 1:
            raise CollectionError(f"{self.name}: {faults[0][0]}", hint=faults[0][1])
        listed = [f"{fault}: {hint}" if hint else fault for fault, hint in faults]
        raise_faults(CollectionError, f"{self.name}: options", listed)
        return resolved


@dataclass(frozen=True, kw_only=True)
class JudgementFormat(Format):
    """A layout of relevance judgements: `read(path, collection, **options)` returns `Judged` rows."""

    sets: str = ""  # the names of the sets that it adds


AnyFormat = TypeVar("AnyFormat", bound=Format)


def reader_of(kind: type[AnyFormat] = Format, **about: Any) -> Callable[[Callable[..., Any]], AnyFormat]:  # type: ignore[assignment]
    """Make a format of the function below: it is what reads the layout of which this is said."""
    return lambda read: kind(read=read, **about)


def one_of(*choices: str) -> Callable[[str], str]:
    """A parser that takes one of the given words."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return parse


def bad_rows_option(default: str) -> Option:
    """What becomes of rows that cannot be read."""
    return Option(
        "bad_rows", "rows that cannot be read: refuse, or skip them, counted", default, one_of("refuse", "skip", "stop")
    )


_ELSEWHERE = re.compile(r"(?P<format>[\w-]+:)?(?P<url>[A-Za-z][A-Za-z0-9+.\-]+://[^?]*)(?P<query>\?.*)?")
_LISTS = ("images", "judgements")
_OF_ALL = ("images", "judgements", "split", "split_by", "language")
"""Options of every format."""


@dataclass(frozen=True)
class SourceKind(Generic[AnyFormat]):
    """A kind of source."""

    name: str  # "collection"; `plural`: "collections"
    plural: str
    formats: Registry[AnyFormat]  # its formats, in the order in which they are tried
    # How a format is named when it cannot be told from the content.
    how_to_name: str = "put its name before it (FORMAT:PATH), or format= in Python"
    where_listed: str = "visir data formats explains them"  # which command explains the formats
    without_path: str = ""  # what needs no path: "generated scenes need none: scenes:2000"


@dataclass(frozen=True)
class FoundSource(Generic[AnyFormat]):
    """Where a source lies and how it is read."""

    format: AnyFormat  # its format
    path: Path  # the file or folder
    options: dict[str, Any]  # what stood behind the question mark, as text
    kind: SourceKind[AnyFormat]  # of which it is
    unpacked: Unpacked | None = None  # where the path is an archive: its tables
    archive: Archive | None = None  # which is held, so that nobody looks through it again

    def take(self, name: str, value: Any = None) -> Any:
        """Take an option out: `value` unless that is None, else what the text says, else None."""
        written = self.options.pop(name, None)
        return written if value is None else value

    def read(self, *arguments: object, images: object = None, **options: Any) -> Any:
        """What the format reads: a draft with its pictures placed, or a record that needs no draft."""
        options = self.format.resolve({**self.options, **options})
        with gc_paused():
            if self.unpacked is not None:
                return self.unpacked.read(self.format, images, *arguments, **options)
            contents = self.format.read(self.path, *arguments, **options)
        if isinstance(contents, SourceDraft):
            place_images(contents, images)
            contents.notes += _tables_not_read(contents, self.kind)
        elif images is not None:
            raise CollectionError(
                f"{self.format.name} holds its own pictures; images= does not apply.", code="holds-pictures"
            )
        return contents


def find_source(
    spec: str, kind: SourceKind[AnyFormat], format: str | None = None, given: Collection[str] = ()
) -> FoundSource[AnyFormat]:
    """Find out what a text names; what lies elsewhere is copied into the cache first."""
    if match := _ELSEWHERE.fullmatch(spec):
        check_no_own_folder(match["url"], f"a {kind.name}")
        spec = f"{match['format'] or ''}{local_copy(match['url'])}{match['query'] or ''}"
    prefix, text = _prefix(spec, kind)
    if prefix is not None and format is not None and prefix != format:
        raise CollectionError(
            f"{spec!r} names the format {prefix!r}, and format={format!r} another.", code="names-format-format-another"
        )
    name = prefix or format
    path, options = _options(text)
    path = as_spelled(user_path(path))  # a shell does so; Python does not
    if name is None and "layout" in kind.formats and "layout" in {*options, *given}:
        name = "layout"
    if name is None:
        if "{" not in path.name and not is_there(path):  # a pattern of shards
            raise CollectionError(
                f"{spec if len(spec) < 500 else spec[:80] + '…'}: no such file or folder.",
                hint="; ".join(filter(None, (missing_hint(path), kind.without_path))),
                code="no-such-file-folder",
            )
        sniffed, path = _sniffed(path, kind, {*options, *given} - set(_OF_ALL))
        if sniffed.name not in _OF_ARCHIVES or not _is_archive(path):
            return FoundSource(sniffed, path, options, kind)
        archive = open_archive(path)
        inside = _in_archive(archive, path, kind)
        return FoundSource(
            inside[0] if inside else sniffed, path, options, kind, inside[1] if inside else None, archive
        )
    named = kind.formats.get(name)
    if named.one_file and path.is_dir():
        raise CollectionError(
            f"{path}: a folder; {named.name} is a file.", hint=f"layout: {named.layout}", code="a-folder"
        )
    if named.sniff(path) or not _is_archive(path):
        return FoundSource(named, path, options, kind)
    inside = _in_archive(open_archive(path), path, kind, name)
    return FoundSource(named, path, options, kind, inside[1] if inside else None)


# Tables that lie in a zip or tar beside their pictures: unpacked for as long as they are read.

_OF_ARCHIVES = ("photos", "webdataset")
"""What any archive looks like."""
_UNPACKED = tuple(
    f"{ending}{packing}" for ending in (*TABLES, ".txt", ".token", ".npy") for packing in ("", ".gz", ".xz")
)
_MOST_UNPACKED = 20
"""So many files at most: where there are more, they are of pictures, one by one."""


@dataclass(frozen=True)
class Unpacked:
    """The tables of an archive, in a folder that goes with this object."""

    archive: Path
    folder: Path  # where the archive's tables are
    path: Path  # what a format reads: a folder or a file in it
    has_pictures: bool  # whether the archive has some

    def read(self, format: Format, images: object, *arguments: object, **options: Any) -> SourceDraft:
        """What the format reads, with its pictures placed: in the archive, if it has any."""
        here, there = str(self.folder), str(self.archive)
        try:
            draft = format.read(self.path, *arguments, **options)
        except VisirError as fault:
            hint = fault.hint.replace(here, there)
            raise CollectionError(fault.message.replace(here, there), hint=hint, code=fault.code) from fault
        if not isinstance(draft, SourceDraft) or any(draft.archives):
            raise CollectionError(
                f"{self.archive}: {format.name} is not read out of an archive.", hint="unpack it", code="not-in-archive"
            )
        for part in (draft, *getattr(draft, "parts", {}).values()):
            part.root = self.archive.absolute().parent
        draft.source += f" in {self.archive.name}"
        place_images(draft, [self.archive] if images is None and self.has_pictures else images)
        return draft


def _is_archive(path: Path) -> bool:
    return path.suffix.lower() in (".zip", ".tar") and path.is_file()


def _in_archive(
    archive: Archive, path: Path, kind: SourceKind[AnyFormat], wanted: str | None = None
) -> tuple[AnyFormat, Unpacked] | None:
    """The only source among the tables of an archive, of a format; None where there is none, or there are several."""
    names = list(archive.names())
    tables = [name for name in names if name.lower().endswith(_UNPACKED)]
    if len(tables) > _MOST_UNPACKED:  # most are texts of pictures
        tables = [name for name in tables if name.rpartition(".")[2].lower() not in _OF_PICTURES]
    if not 0 < len(tables) <= _MOST_UNPACKED or any(base_of(name) in (*METADATA, MANIFEST) for name in names):
        return None
    others = {*_not_of_pictures(names)}
    tables = [name for name in tables if name in others and _is_plain(name)]
    if not tables:
        return None
    scratch = Scratch.temporary("tables")
    for name in tables:
        scratch.file(f"{path.stem}/{name}").write_bytes(archive.read(name))
    folder = scratch.path / path.stem
    top = folder / posixpath.commonpath([posixpath.dirname(name) for name in tables])
    places = [top, *(top / name for name in sorted(names_in(top)[1]))]
    if wanted is None:
        fitting = [(format, place) for place in places if (format := _first_format(place, kind)) and not format.last]
    else:
        fitting = [(kind.formats.get(wanted), place) for place in places if kind.formats.get(wanted).sniff(place)]
    fitting = fitting[:1] if fitting and fitting[0][1] == top else fitting
    unpacked = Unpacked(path, folder, fitting[0][1] if fitting else top, any(map(is_picture_name, names)))
    scratch.close_with(unpacked)
    if len(fitting) > 1 and wanted is None:
        listing = ", ".join(f"{format.name}:{place.relative_to(folder).as_posix()}" for format, place in fitting)
        raise CollectionError(
            f"{path}: several {kind.plural} in this archive.",
            hint=f"unpack it, and name one of: {listing}",
            code="several-archive",
        )
    return (fitting[0][0], unpacked) if len(fitting) == 1 else None


def _is_plain(name: str) -> bool:
    """Whether a name in an archive leads to a visible file below a folder, on any system."""
    return not name.startswith("/") and not any(
        part.startswith((".", "__MACOSX")) or ":" in part or "\\" in part for part in name.split("/")
    )


def _prefix(spec: str, kind: SourceKind[AnyFormat]) -> tuple[str | None, str]:
    name, colon, rest = spec.partition(":")
    if not colon or is_there(spec):
        return None, spec
    if name in kind.formats:
        return name, rest
    if len(name) > 1 and name.isidentifier():
        raise CollectionError(
            f"{spec!r}: unknown {kind.formats.kind} {name!r}", hint=nearest(name, kind.formats), code="unknown-name"
        )
    return None, spec


def _options(text: str) -> tuple[Path, dict[str, Any]]:
    """The path, and the options behind its last question mark, percent-decoded; "+" stays, because it joins splits."""
    if "?" not in text or is_there(text):
        return Path(text), {}
    text, _, tail = text.rpartition("?")
    pairs = parse_pairs(filter(None, tail.split("&")), f"{text}: options", error=CollectionError)
    options: dict[str, Any] = {name: unquote(value) for name, value in pairs.items()}
    for name in _LISTS:
        if "," in options.get(name, ""):
            options[name] = options[name].split(",")
    return Path(text), options


def _sniffed(path: Path, kind: SourceKind[AnyFormat], options: Set[str]) -> tuple[AnyFormat, Path]:
    """The format of a path; of a folder that is no source itself, the one source among its files."""
    format = _first_format(path, kind, options)
    if format is not None and not format.last:
        return format, path
    if path.is_dir():
        others = [path / name for name in _not_of_pictures(names_in(path)[1])]
        files = [(_first_format(file, kind), file) for file in others]
        sources = [(fitting, file) for fitting, file in files if fitting is not None and not fitting.last]
        if format is not None:  # photos: a tar among them is one of the files that are none
            sources = [
                (fitting, file)
                for fitting, file in sources
                if not file.name.lower().endswith(TARS) and not _is_list_of_downloads(file)
            ]
        if len(sources) == 1:
            return sources[0]
        if sources:
            listing = ", ".join(f"{fitting.name}:{file}" for fitting, file in sources)
            raise CollectionError(
                f"{path}: several {kind.plural} in this folder.", hint=f"name one of: {listing}", code="several-folder"
            )
    if format is not None:
        return format, path
    advice = ""
    for _, other in kind.formats.items():  # noqa: PERF102 - a registry
        if text := other.advice(path):
            if options and options <= {option.name for option in other.options}:
                return other, path
            advice = advice or text
    if advice:
        raise CollectionError(f"{path}: which of its columns has what?", hint=advice, code="columns-not-named")
    check_no_own_folder(path, f"a {kind.name}")
    if path.is_file() and (path.stat().st_size == 0 or head(path)[:1].isspace()) and not head(path).strip():
        raise CollectionError(f"{path}: the file is empty.", hint="is it the right one, and whole?", code="empty-file")
    what, remedy = of_another_kind(head(path))
    if what:
        raise CollectionError(
            f"{path}: {what}.",
            hint=remedy or "fetch the file itself; tables are read as CSV, TSV, JSON lines and Parquet",
            code="of-another-kind",
        )
    hint = f"{kind.how_to_name}; known: {', '.join(kind.formats)} ({kind.where_listed})"
    holds = ""
    if path.is_dir():
        names = left_out(file.name for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
        holds = f" (its files: {names.removeprefix('left out: ')})" if names else " (no files in it)"
    raise CollectionError(f"{path}: no known format of {kind.plural}{holds}.", hint=hint, code="no-known-format")


_MOST_TABLES = 20


def _tables_not_read(draft: SourceDraft, kind: SourceKind[Any]) -> list[str]:
    """Notes on tables among photos that may hold their captions, each with the call that reads it."""
    if not draft.tables_beside:
        return []
    stems = {stem for name in draft.ids for stem in (name, name.rpartition(".")[0])}
    notes = []
    for name in [name for name in draft.tables_beside if name.rpartition(".")[0] not in stems][:_MOST_TABLES]:
        path = draft.root / name
        if _is_list_of_downloads(path):
            continue
        format = _first_format(path, kind)
        if format is not None and not format.last:
            notes.append(f"{name} is not read ({format.title}): visir.open({str(path)!r}) reads it")
        elif any(other.advice(path) for _, other in kind.formats.items()):
            notes.append(f"{name} is not read, its columns have to be named: visir.open({str(path)!r}) says how")
    return notes


def _not_of_pictures(names: Sequence[str]) -> list[str]:
    """The files but pictures and what tells of one of them (`001.txt`, `001.json` beside `001.jpg`)."""
    pictures = set(filter(is_picture_name, names))
    stems = {name.rpartition(".")[0] for name in pictures}
    return [
        name
        for name in sorted({*names} - pictures)
        if name.rpartition(".")[2].lower() not in _OF_PICTURES or name.rpartition(".")[0] not in stems
    ]


def _is_list_of_downloads(file: Path) -> bool:
    """Whether a table is img2dataset's record of what it put into the folder of the same name: `00000.parquet`."""
    return file.suffix == ".parquet" and file.stem.isdecimal() and file.with_suffix("").is_dir()


_OF_PICTURES = (*CAPTION_ENDINGS, "json", "xml")


def _first_format(path: Path, kind: SourceKind[AnyFormat], options: Set[str] = frozenset()) -> AnyFormat | None:
    """The first format that the path looks like; where it does not know the options, the first other one that does."""
    formats = sorted((format for _, format in kind.formats.items()), key=lambda format: format.last)  # plugins too
    fitting = (format for format in formats if format.sniff(path))
    first = next(fitting, None)
    if first is None or options <= {option.name for option in first.options}:
        return first
    return next((format for format in fitting if options <= {option.name for option in format.options}), first)
