"""Fields that a picture brings along: what programs and cameras wrote into it, or into a file beside it.

An `Extractor` makes fields of a picture. What it told is kept by the picture's content and the extractor's version
(table `extracted` of `visir.library.database`): no picture is read twice for it, a killed update goes on, and a library
that an older visir made is read at its next update, without encoding anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import orjson
from PIL import Image
from PIL.ExifTags import GPS, IFD

from visir.library.xmp import XmpError, read_xmp
from visir.plugins import EXTRACTORS, left_out, plugins

# The interface.


@dataclass(frozen=True)
class Position:
    """Where a picture was taken."""

    latitude: float  # degrees, north is positive
    longitude: float  # degrees, east is positive
    altitude: float | None = None  # metres above the sea


Value: TypeAlias = "str | int | float | datetime | Position"
Fields: TypeAlias = "dict[str, list[str | int | float]]"
"""The values of each field, as a library keeps them."""


@dataclass(frozen=True)
class Metadata:
    """What a file says of a picture: the picture's own, or one that lies beside it."""

    exif: Mapping[int, Any] = field(default_factory=dict)  # from tag to value (`PIL.ExifTags.Base`)
    gps: Mapping[int, Any] = field(default_factory=dict)  # likewise (`PIL.ExifTags.GPS`)
    iptc: Mapping[int, list[str]] = field(default_factory=dict)  # from data set of record 2 to its values
    # From "dc:subject" to a text, a list of values, or a mapping of the same kind.
    xmp: Mapping[str, Any] = field(default_factory=dict)
    takeout: Mapping[str, Any] = field(default_factory=dict)  # the JSON that Google Takeout writes beside a photo
    faults: tuple[str, ...] = ()  # what of it cannot be read


class Extractor(Protocol):
    """What makes fields of a picture; another package names one by an entry point in the group `visir.extractors`."""

    version: str
    """Another one reads every picture again at the next update."""
    takes_pixels: bool
    """Whether it is given the decoded picture, upright RGB, which takes most of the time."""
    takes_sidecars: bool
    """Whether it is asked for files beside a picture too, without the picture."""

    def fields(self, picture: Image.Image | None, metadata: Metadata) -> Mapping[str, Value | Sequence[Value]]:
        """The values of each field. Whatever it raises costs its fields only, and is counted."""
        ...


@dataclass(frozen=True)
class Told:
    """What an extractor told of a picture, or a file beside it says."""

    mark: str  # version of the extractor; of a file beside a picture size and time of change too
    fields: Fields = field(default_factory=dict)
    fault: str = ""  # what could not be read; empty where all could

    def to_record(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"mark": self.mark, "fields": self.fields, "fault": self.fault}


@cache
def extractors() -> dict[str, Extractor]:
    """Every extractor by name: visir's own, then those of other packages."""
    results: dict[str, Extractor] = {"metadata": _OfMetadata()}
    for name, extractor in plugins(EXTRACTORS):
        sound = all(hasattr(extractor, part) for part in ("version", "takes_pixels", "takes_sidecars", "fields"))
        if not sound or not re.fullmatch(r"[a-z][a-z0-9-]*", name) or name in results:
            left_out(EXTRACTORS, name, "it is no Extractor" if not sound else "its name is taken, or no name")
        else:
            results[name] = extractor
    return results


def tell(image: Image.Image, decoded: Callable[[], Image.Image]) -> dict[str, Told]:
    """What every extractor tells of an opened picture; `decoded` gives it upright, where one wants its pixels."""
    metadata = metadata_of(image)
    pixels: Image.Image | None = None
    answers = {}
    for name, extractor in extractors().items():
        if extractor.takes_pixels and pixels is None:
            pixels = decoded()
        answers[name] = _asked(extractor, pixels if extractor.takes_pixels else None, metadata, extractor.version)
    return answers


def _asked(extractor: Extractor, picture: Image.Image | None, metadata: Metadata, mark: str) -> Told:
    try:
        fields, faults = storable(extractor.fields(picture, metadata)), list(metadata.faults)
    except Exception as fault:  # files hold anything, and other packages' code raises anything
        fields, faults = {}, [f"{type(fault).__name__}: {fault}"]
    return Told(mark, fields, "; ".join(faults)[:500])


# Values as a library keeps them.

MOST_VALUES, LONGEST_TEXT = 500, 10_000
"""Values of a field, and characters of one: a keyword list of a catalogue is shorter, and a bomb is longer."""
_NAME = re.compile(r"[a-z][a-z0-9_ -]{0,39}")
_OF_LIBRARY = frozenset(
    {"width", "height", "bytes", "format", "camera", "taken", "name", "path", "category", "caption", "price", "brand"}
)


def storable(fields: Mapping[str, Value | Sequence[Value]]) -> Fields:
    """The values of each field as they are kept: trimmed, each once, nothing that SQLite or a page cannot hold."""
    result: Fields = {}
    for name, given in fields.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _OF_LIBRARY:
            continue
        several = given if isinstance(given, list | tuple | set | frozenset) else [given]
        for value in list(several)[:MOST_VALUES]:
            if isinstance(value, Position):
                if _is_place(value):
                    _add(result, "latitude", round(float(value.latitude), 6))
                    _add(result, "longitude", round(float(value.longitude), 6))
                    if value.altitude is not None and isfinite(value.altitude) and abs(value.altitude) < 100_000:
                        _add(result, "altitude", round(float(value.altitude), 1))
            elif (plain := _plain(value)) is not None:
                _add(result, name, plain)
    return result


def _is_place(place: Position) -> bool:
    there = -90 <= place.latitude <= 90 and -180 <= place.longitude <= 180
    return there and (place.latitude, place.longitude) != (0, 0)  # where nothing is known many programs write zeros


def _plain(value: object) -> str | int | float | None:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if abs(value) < 2**53 else None
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat()
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return clean(value) if isinstance(value, str) else None


def clean(text: str) -> str | None:
    """A text on one line, without characters that cannot be shown; None where nothing is left."""
    text = text[: 2 * LONGEST_TEXT].encode("utf-8", "replace").decode()
    shown = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(shown.split())[:LONGEST_TEXT] or None


def _add(fields: Fields, name: str, value: str | int | float) -> None:
    values = fields.setdefault(name, [])
    if all(_key(value) != _key(other) for other in values):
        values.append(value)


def _key(value: str | int | float) -> object:
    return value.casefold() if isinstance(value, str) else value


def told_of(record: Mapping[str, Any]) -> Told | None:
    """From a record, of a journal or a database that may come from anybody; None for what visir would not write."""
    mark, fields, fault = record.get("mark"), record.get("fields"), record.get("fault", "")
    if not isinstance(mark, str) or not isinstance(fields, dict) or not isinstance(fault, str):
        return None
    return Told(mark, storable(fields), fault)


# What stands in the file of a picture: EXIF, IPTC-IIM, XMP.

_ASKED_OF_INFO = ("exif", "xmp", "photoshop", "XML:com.adobe.xmp", "Raw profile type exif", "Raw profile type xmp")


def metadata_of(image: Image.Image) -> Metadata:
    """What the file of an opened picture says; nothing of it is decoded."""
    info = image.info
    if image.format in ("JPEG", "MPO", "WEBP", "AVIF", "HEIF") and not any(name in info for name in _ASKED_OF_INFO):
        return Metadata()
    faults: list[str] = []
    exif: dict[int, Any] = {}
    gps: dict[int, Any] = {}
    xmp: dict[str, Any] = {}
    iptc: dict[int, list[str]] = {}
    try:
        read = image.getexif()
        exif, gps = dict(read), dict(read.get_ifd(IFD.GPSInfo))
    except Exception as fault:  # a damaged block raises nearly anything
        faults.append(f"EXIF: {fault}")
    packet = info.get("xmp") or info.get("XML:com.adobe.xmp")
    if packet:
        try:
            xmp = read_xmp(packet if isinstance(packet, bytes) else str(packet).encode())
        except XmpError as fault:
            faults.append(f"XMP: {fault}")
    try:
        iptc = _iptc(image)
    except Exception as fault:
        faults.append(f"IPTC: {fault}")
    return Metadata(exif, gps, iptc, xmp, {}, tuple(faults))


def _iptc(image: Image.Image) -> dict[int, list[str]]:
    if "photoshop" not in image.info and image.format != "TIFF":
        return {}
    from PIL import ImageFile, IptcImagePlugin

    if not isinstance(image, ImageFile.ImageFile):
        return {}
    read: Mapping[Any, Any] = IptcImagePlugin.getiptcinfo(image) or {}
    coded = read.get((1, 90))
    is_utf8 = coded == b"\x1b%G"
    values: dict[int, list[str]] = {}
    for (record, number), given in read.items():
        if record == 2:
            each = given if isinstance(given, list) else [given]
            values[number] = [_decoded(value, is_utf8) for value in each if isinstance(value, bytes)]
    return values


def _decoded(value: bytes, is_utf8: bool) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("utf-8", "replace") if is_utf8 else value.decode("cp1252", "replace")


_PEOPLE = frozenset({"people", "person", "persons", "personen", "personnes", "personas", "persone", "faces"})
"""The root of tags under which programs keep names (digiKam, Lightroom, Picasa)."""
_PLACE_ROOTS = frozenset({"places", "place", "locations", "orte", "lieux", "lugares", "luoghi"})
"""The same of places: it says nothing of a picture."""
_BY_CAMERAS = re.compile(
    r"(olympus|sony|minolta|konica|kodak|samsung|casio|pentax|ricoh|fujifilm|sanyo|digital camera|dsc|dcim|default"
    r"|exif_jpeg|untitled|created with|file written by)\b.*",
    re.IGNORECASE,
)
"""Descriptions that cameras and libraries write into every picture: they say nothing of it."""
_XP = {0x9C9B: "title", 0x9C9C: "description", 0x9C9D: "creator", 0x9C9E: "keyword", 0x9C9F: "description"}
_IPTC = {5: "title", 25: "keyword", 80: "creator", 90: "city", 92: "location", 95: "region", 101: "country",
         105: "title", 120: "description"}  # fmt: skip
_PLACES = {
    **{f"photoshop:{name}": field for name, field in (("City", "city"), ("State", "region"), ("Country", "country"))},
    "Iptc4xmpCore:Location": "location",
}
_LOCATION = {"Iptc4xmpExt:City": "city", "Iptc4xmpExt:ProvinceState": "region", "Iptc4xmpExt:CountryName": "country",
             "Iptc4xmpExt:Sublocation": "location"}  # fmt: skip
_SEVERAL = frozenset({"keyword", "person"})
"""Fields to which every block of a file adds; of the others the first block that has one counts."""


class _OfMetadata:
    """Keywords, titles, people, ratings, places: of XMP, else IPTC, else EXIF; of Google Takeout beside a photo."""

    version, takes_pixels, takes_sidecars = "1", False, True

    def fields(self, picture: Image.Image | None, metadata: Metadata) -> Mapping[str, Value | Sequence[Value]]:
        """See `Extractor`."""
        fields: dict[str, list[Value]] = {}
        blocks = (
            _of_xmp(metadata.xmp), _of_iptc(metadata.iptc), _of_exif(metadata.exif, metadata.gps),
            _of_takeout(metadata.takeout),
        )  # fmt: skip
        for block in blocks:
            results: dict[str, list[Value]] = {}
            for name, value in block:
                results.setdefault(name, []).append(value)
            for name, values in results.items():
                if name in _SEVERAL or name not in fields:
                    fields.setdefault(name, []).extend(values)
        names = {str(name).strip().casefold() for name in fields.get("person", ())}
        if "keyword" in fields:  # programs write the names of people among the keywords too
            fields["keyword"] = [
                value for value in fields["keyword"] if str(value).strip().casefold() not in names | _PEOPLE
            ]
        return fields


def _of_xmp(xmp: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    for tag in _texts(xmp.get("digiKam:TagsList")):
        yield from _of_path(tag.split("/"))
    for tag in _texts(xmp.get("lr:hierarchicalSubject")):
        yield from _of_path(tag.split("|"))
    yield from (("keyword", text) for text in _texts(xmp.get("dc:subject")))
    for name, key in (("title", "dc:title"), ("description", "dc:description"), ("creator", "dc:creator")):
        yield from ((name, text) for text in _texts(xmp.get(key)) if not _BY_CAMERAS.fullmatch(text))
    if not _texts(xmp.get("dc:title")):
        yield from (("title", text) for text in _texts(xmp.get("photoshop:Headline")))
    yield from (("person", text) for text in _texts(xmp.get("Iptc4xmpExt:PersonInImage")))
    yield from (("person", name) for name in _names_of_regions(xmp))
    shown = [*_structures(xmp.get("Iptc4xmpExt:LocationShown")), *_structures(xmp.get("Iptc4xmpExt:LocationCreated"))]
    written = [*((xmp, _PLACES),), *((structure, _LOCATION) for structure in shown[:20])]
    for source, names in written:
        yield from ((field, text) for key, field in names.items() for text in _texts(source.get(key)))
    for text in _texts(xmp.get("xmp:Rating"))[:1]:
        yield from _rating(text)
    position = [_degrees_of_xmp(next(iter(_texts(xmp.get(f"exif:GPS{side}"))), "")) for side in _SIDES]
    if position[0] is not None and position[1] is not None:
        height = _number_of(next(iter(_texts(xmp.get("exif:GPSAltitude"))), ""))
        below = _texts(xmp.get("exif:GPSAltitudeRef")) == ["1"]
        yield "place", Position(position[0], position[1], None if height is None else -height if below else height)


_SIDES = ("Latitude", "Longitude")


def _of_path(parts: Sequence[str]) -> Iterator[tuple[str, Value]]:
    """A tag of a tree: "Places/France/Paris" is three keywords, "People/Anna" a person."""
    names = [part.strip() for part in parts if part.strip()]
    names = names[len(names) > 1 and names[0].casefold() in _PLACE_ROOTS :]
    if len(names) > 1 and names[0].casefold() in _PEOPLE:
        yield "person", names[-1]
    else:
        yield from (("keyword", name) for name in reversed(names))


def _names_of_regions(xmp: Mapping[str, Any]) -> Iterator[str]:
    for regions in _structures(xmp.get("mwg-rs:Regions")):
        for region in _structures(regions.get("mwg-rs:RegionList")):
            if not _texts(region.get("mwg-rs:Type")) or _texts(region.get("mwg-rs:Type"))[0].casefold() == "face":
                yield from _texts(region.get("mwg-rs:Name"))
    for regions in _structures(xmp.get("MP:RegionInfo")):
        for region in _structures(regions.get("MPRI:Regions")):
            yield from _texts(region.get("MPReg:PersonDisplayName"))


def _texts(value: Any) -> list[str]:
    """The texts of a property: one, or a list."""
    each = value if isinstance(value, list) else [value]
    return [text for text in each if isinstance(text, str) and text.strip()]


def _structures(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, Mapping)]


def _rating(value: object) -> Iterator[tuple[str, Value]]:
    number = _number_of(str(value))
    if number is not None and number != 0 and -1 <= number <= 5:  # 0 says that there is none
        yield "rating", int(number) if number == int(number) else number


def _of_iptc(iptc: Mapping[int, list[str]]) -> Iterator[tuple[str, Value]]:
    for number, name in _IPTC.items():
        if number != 105 or 5 not in iptc:
            yield from ((name, text) for text in iptc.get(number, ()) if not _BY_CAMERAS.fullmatch(text))


def _of_exif(exif: Mapping[int, Any], gps: Mapping[int, Any]) -> Iterator[tuple[str, Value]]:
    for tag, name in ((0x010E, "description"), (0x013B, "creator")):
        text = _utf8(exif.get(tag))
        if text and not _BY_CAMERAS.fullmatch(text.strip()):
            yield name, text
    for tag, name in _XP.items():  # as Windows writes them: UTF-16
        value = exif.get(tag)
        data = bytes(value) if isinstance(value, bytes | tuple | list) else b""
        text = data.decode("utf-16-le", "ignore").split("\0")[0]
        yield from ((name, part) for part in (text.split(";") if name in ("keyword", "creator") else [text]) if part)
    if isinstance(exif.get(0x4746), int):
        yield from _rating(exif[0x4746])
    north = _degrees(gps.get(GPS.GPSLatitude), gps.get(GPS.GPSLatitudeRef), "S")
    east = _degrees(gps.get(GPS.GPSLongitude), gps.get(GPS.GPSLongitudeRef), "W")
    if north is not None and east is not None:
        height = _number_of(str(gps.get(GPS.GPSAltitude)))
        below = gps.get(GPS.GPSAltitudeRef) in (1, b"\x01")
        yield "place", Position(north, east, None if height is None else -height if below else height)


def _utf8(value: object) -> str:
    """A text of EXIF: Pillow reads bytes as Latin-1, and most programs write UTF-8."""
    text = value if isinstance(value, str) else ""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def _degrees(value: object, side: object, negative: str) -> float | None:
    try:
        degrees, minutes, seconds = (float(part) for part in value)  # type: ignore[attr-defined]
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    size = degrees + minutes / 60 + seconds / 3600
    sign = -1 if str(side or "").strip("\0 ").upper()[:1] == negative else 1
    return sign * size if isfinite(size) and size <= 180 else None


def _degrees_of_xmp(text: str) -> float | None:
    """Degrees as XMP writes them: "48,51.5N" or "48,51,30N"; as numbers in some programs' files."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:,(\d+(?:\.\d+)?))?(?:,(\d+(?:\.\d+)?))?([NSEW])", text.strip().upper())
    if match is None:
        number = _number_of(text)
        return number if number is not None and abs(number) <= 180 else None
    size = float(match[1]) + float(match[2] or 0) / 60 + float(match[3] or 0) / 3600
    return (-size if match[4] in "SW" else size) if size <= 180 else None


def _number_of(text: str) -> float | None:
    above, _, below = text.strip().partition("/")
    try:
        number = float(above) / float(below or 1)
    except (ValueError, ZeroDivisionError):
        return None
    return number if isfinite(number) else None


def _of_takeout(record: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    if not {"photoTakenTime", "creationTime", "geoData"} & record.keys():
        return
    yield from (("description", text) for text in _texts(record.get("description")))
    people = record.get("people")
    for person in _structures(people if isinstance(people, list) else []):
        yield from (("person", name) for name in _texts(person.get("name")))
    for name in ("geoData", "geoDataExif"):
        place = record.get(name)
        place = place if isinstance(place, dict) else {}
        north, east, height = (place.get(key) for key in ("latitude", "longitude", "altitude"))
        if isinstance(north, int | float) and isinstance(east, int | float) and (north or east):
            yield "place", Position(north, east, height if isinstance(height, int | float) else None)
            return


# Files beside a picture: "photo.jpg.xmp", "photo.xmp", "photo.jpg.json" of Google Takeout.

BESIDE = "beside:"
"""How `part` begins in the table `extracted` for a file beside a picture: its place follows."""
_LARGEST_SIDECAR = 1 << 22
_TAKEOUT = "supplemental-metadata"


class Sidecars:
    """The files beside the pictures of one folder; each folder is listed once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders: dict[str, dict[str, list[os.DirEntry[str]]] | None] = {}

    def of(self, place: str) -> list[tuple[str, str]] | None:
        """(place, mark) of the files beside a picture; None where its folder cannot be looked into."""
        folder, slash, name = place.rpartition("/")
        listed = self._listed(folder)
        if not listed:
            return listed if listed is None else []
        name, stem = name.casefold(), name.rpartition(".")[0].casefold()
        entries = [
            *listed.get(f"{name}.xmp", ()), *(listed.get(f"{stem}.xmp", ()) if stem != name else ()),
            *listed.get(f"{name}.json", ()),
        ]  # fmt: skip
        results = []
        for entry in entries:
            try:
                status = entry.stat()
            except OSError:
                continue
            mark = f"{extractors_of_sidecars()} {status.st_size} {status.st_mtime_ns}"
            results.append((folder + slash + entry.name, mark))
        return results

    def read(self, place: str, mark: str) -> Told:
        """What a file beside a picture says."""
        try:
            with (self.root / place).open("rb") as stream:
                data = stream.read(_LARGEST_SIDECAR + 1)
        except OSError as fault:
            return Told(mark, {}, f"{place}: {fault.strerror or fault}")
        faults: tuple[str, ...] = ()
        xmp: Mapping[str, Any] = {}
        takeout: Mapping[str, Any] = {}
        try:
            if len(data) > _LARGEST_SIDECAR:
                raise ValueError(f"is larger than {_LARGEST_SIDECAR:,} bytes")
            if place.casefold().endswith(".xmp"):
                xmp = read_xmp(data)
            else:
                record = orjson.loads(data)
                takeout = record if isinstance(record, dict) else {}
        except (XmpError, ValueError) as fault:
            faults = (f"{place}: {fault}",)
        answers = [
            _asked(extractor, None, Metadata(xmp=xmp, takeout=takeout, faults=faults), mark)
            for extractor in extractors().values()
            if extractor.takes_sidecars
        ]
        return Told(
            mark, joined([each.fields for each in answers]), next((each.fault for each in answers if each.fault), "")
        )

    def _listed(self, folder: str) -> dict[str, list[os.DirEntry[str]]] | None:
        """The files of a folder that may lie beside a picture, by the name that it would have."""
        if folder not in self._folders:
            listed: dict[str, list[os.DirEntry[str]]] | None = {}
            try:
                with os.scandir(self.root / folder) as entries:
                    for entry in entries:
                        name = entry.name.casefold()
                        if name.endswith((".xmp", ".json")) and entry.is_file():
                            listed.setdefault(_without_addition(name), []).append(entry)  # type: ignore[union-attr]
            except OSError:
                listed = None
            self._folders[folder] = listed
        return self._folders[folder]


def _without_addition(name: str) -> str:
    """ "photo.jpg.supplemental-meta.json" as "photo.jpg.json": Takeout cuts long names, wherever it ends."""
    stem, _, last = name.removesuffix(".json").rpartition(".")
    return f"{stem}.json" if name.endswith(".json") and last and stem and _TAKEOUT.startswith(last) else name


@cache
def extractors_of_sidecars() -> str:
    """The versions of all extractors that are asked for files beside pictures."""
    results = extractors().items()
    return ",".join(f"{name}-{extractor.version}" for name, extractor in results if extractor.takes_sidecars)


# The fields of a picture, of all that is told of it.

PLACES = "places"
"""`part` in the table `extracted` for the names of the place of a picture (`visir.library.place_names`)."""


def joined(answers: Iterable[Fields]) -> Fields:
    """The values of all, each once."""
    fields: Fields = {}
    for each in answers:
        for name, values in each.items():
            for value in values:
                _add(fields, name, value)
    return fields


def fields_of_item(parts: Mapping[str, Fields]) -> Fields:
    """The fields of a picture from what each part tells: a file beside it counts more than its own, names of its place
    less."""
    own = joined(fields for part, fields in sorted(parts.items()) if part != PLACES and not part.startswith(BESIDE))
    beside: Fields = {}
    for suffix in (".json", ".xmp"):  # a later one takes the place of an earlier one
        beside |= joined(
            fields for part, fields in sorted(parts.items()) if part.startswith(BESIDE) and part.endswith(suffix)
        )
    fields = own | beside
    if {"latitude", "longitude"} & beside.keys():
        fields |= {name: beside.get(name, []) for name in ("latitude", "longitude", "altitude")}
    return {name: values for name, values in {**parts.get(PLACES, {}), **fields}.items() if values}
