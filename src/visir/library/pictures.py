"""One picture read once: its id, and everything that is kept of it beside its vectors."""

from __future__ import annotations

import hashlib
import io
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import orjson
from PIL import Image
from PIL.ExifTags import IFD, Base

from visir.collections.images import SCENE, ImageReader, decode, decoders, header, upright
from visir.encoders.intake import Pixels
from visir.errors import ImageError
from visir.library.duplicates import perceptual_hash
from visir.library.extractors import Told, tell
from visir.library.layout import LibraryError, thumbnail_name, thumbnail_path
from visir.library.source import SourceEntry
from visir.storage.disk import mode_of

# A picture that is searched with, as the models take it: a few hundred pixels a side, whatever it was.


@dataclass(frozen=True, eq=False)
class PreparedImage:
    """A preprocessed picture."""

    pixels: Mapping[str, Pixels]  # from the fingerprint of an encoder's card to the encoder's input

    @property
    def nbytes(self) -> int:
        """The memory that it takes while it waits."""
        return sum(pixels.nbytes for pixels in self.pixels.values())


# What a camera wrote into a photo: time, camera, and whether the photo is rotated.

_SIDEWAYS = (5, 6, 7, 8)
_TIME = re.compile(r"(\d{4}):(\d\d):(\d\d) (\d\d):(\d\d):(\d\d)")
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")


@dataclass(frozen=True)
class Exif:
    """What a camera wrote."""

    taken: str | None = None  # ISO 8601, with "Z" where the camera knew its offset from UTC
    camera: str | None = None  # maker and model
    sideways: bool = False  # whether height and width change places


def read_exif(image: Image.Image) -> Exif:
    """The facts of an opened photo, None where it has none. Impossible values (month 0, bytes) count as absent."""
    try:
        exif = image.getexif()
        about = exif.get_ifd(IFD.Exif)
    except Exception:  # a damaged block raises nearly anything, and a photo without its date is still a photo
        return Exif()
    when = about.get(Base.DateTimeOriginal) or about.get(Base.DateTimeDigitized) or exif.get(Base.DateTime)
    offset = about.get(Base.OffsetTimeOriginal) or about.get(Base.OffsetTime)
    return Exif(_taken(when, offset), _camera(exif.get(Base.Make), exif.get(Base.Model)),
                exif.get(Base.Orientation) in _SIDEWAYS)  # fmt: skip


def _taken(when: object, offset: object) -> str | None:
    match = _TIME.match(str(when or ""))
    if match is None:
        return None
    try:
        time = datetime(*(int(part) for part in match.groups()))  # type: ignore[arg-type]  # six numbers, no tzinfo
    except ValueError:
        return None
    zone = _OFFSET.match(str(offset or ""))
    if zone is None:
        return time.isoformat()
    ahead = timedelta(hours=int(zone[2]), minutes=int(zone[3])) * (-1 if zone[1] == "-" else 1)
    try:
        return time.replace(tzinfo=timezone(ahead)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        return None


def _camera(make: object, model: object) -> str | None:
    maker, name = (_text(part) for part in (make, model))
    if maker and name and name.lower().startswith(maker.lower().split()[0]):
        maker = ""  # "Canon" and "Canon EOS 5D"
    return " ".join(part for part in (maker, name) if part) or None


def _text(value: object) -> str:
    text = value if isinstance(value, str) else ""
    return "".join(character for character in text if character.isprintable()).strip()[:100]


THUMBNAIL = 320
"""Pixels of the longer side of a thumbnail: sharp at the 160 px of a grid on a screen of twice the density."""
_QUALITY, _EFFORT = 80, 2


@dataclass(frozen=True)
class Facts:
    """What the table `items` holds of a picture; all but `bytes` are None where there are no pixels."""

    width: int | None = None
    height: int | None = None
    format: str | None = None
    bytes: int | None = None
    taken: str | None = None
    camera: str | None = None
    phash: str | None = None
    thumbnail: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def thumbnail_digest(data: bytes) -> str:
    """By which a damaged thumbnail is found: 16 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def read(reader: ImageReader, entry: SourceEntry) -> bytes:
    """What identifies an entry: its bytes, or of what has none its description. Raises `ImageError`."""
    if entry.place is None:
        return entry.path.encode()
    return entry.place.encode() if entry.place.startswith(SCENE) else reader.read(entry.row)


def look_at(
    reader: ImageReader, entry: SourceEntry, data: bytes, answers: dict[str, Told] | None = None
) -> tuple[Facts, bytes | None]:
    """Facts and thumbnail of a picture; its fields go into `answers`. Raises `ImageError` for what is no picture."""
    # A large JPEG is decoded at the size of the thumbnail only (an eighth of the work for a photo of 12 megapixels);
    # encoding decodes it in full and finds what is broken beyond that.
    if entry.place is None:
        return Facts(), None
    if entry.place.startswith(SCENE):
        picture = reader.open(entry.row)
        facts = Facts(*picture.size, "PNG", None)
        _shrink(picture)
    else:
        facts, picture = _opened(data, reader.where(entry.row), answers)
    stream = io.BytesIO()
    picture.save(stream, "WEBP", quality=_QUALITY, method=_EFFORT)
    small = stream.getvalue()
    hashed = perceptual_hash(picture)
    return Facts(**{**facts.to_dict(), "phash": hashed, "thumbnail": thumbnail_digest(small)}), small


def told_of_entry(reader: ImageReader, entry: SourceEntry, data: bytes) -> dict[str, Told]:
    """The fields of a picture alone: nothing else of it is made. Raises `ImageError`."""
    where = reader.where(entry.row)
    with header(data, where) as undecoded:
        return tell(undecoded.image, lambda: decode(data, where))


def brings_fields(entry: SourceEntry) -> bool:
    """Whether an entry is a file that may say something of its picture."""
    return entry.place is not None and not entry.place.startswith(SCENE)


def _opened(data: bytes, where: str, answers: dict[str, Told] | None) -> tuple[Facts, Image.Image]:
    """Facts of a picture, and the picture at the size of a thumbnail."""
    with header(data, where) as undecoded:
        image = undecoded.image
        exif, form = read_exif(image), image.format
        if answers is not None:
            answers |= tell(image, lambda: decode(data, where))
        width, height = image.size[::-1] if exif.sideways else image.size
        with upright(undecoded, least=2 * THUMBNAIL, on_screen=True) as picture:
            _shrink(picture)
    return Facts(width, height, form, len(data), exif.taken, exif.camera), picture


def _shrink(picture: Image.Image) -> None:
    picture.thumbnail((THUMBNAIL, THUMBNAIL), Image.Resampling.LANCZOS, reducing_gap=2.0)


def judged(mark: str, fault: ImageError) -> str:
    """The mark of a picture that cannot be read, and what found its bytes at fault: they need not be read again."""
    # Where the cause may pass, `MAY_PASS` stands there, which no later judge is.
    return f"{mark} {decoders() if fault.lasting else MAY_PASS}"


MAY_PASS = "?"
"""Stands for a judge where another time may do: an access right, a disk that is away, too little memory."""


def packed(
    entry: SourceEntry,
    item: str,
    facts: Facts | None,
    broken: Iterable[str] = (),
    contents: Sequence[str] = (),
    answers: Mapping[str, Told] | None = None,
) -> bytes:
    """A line of the journal of prepared pictures, with a digest by which a torn or damaged line is found."""
    content = orjson.dumps({"path": entry.path, "mark": entry.mark, "item": item, "facts": facts and facts.to_dict(),
                            "broken": [*broken], "contents": contents,
                            "told": {part: each.to_record() for part, each in (answers or {}).items()}})  # fmt: skip
    return hashlib.blake2b(content, digest_size=8).hexdigest().encode() + b" " + content + b"\n"


def unpacked(line: bytes) -> dict[str, Any] | None:
    """What `packed` wrote; None for a line that is not as it was written."""
    digest, _, content = line.rstrip(b"\n").partition(b" ")
    if hashlib.blake2b(content, digest_size=8).hexdigest().encode() != digest:
        return None
    record: dict[str, Any] = orjson.loads(content)
    return record


# Thumbnails on disk: WebP, one file per item, found again by a digest that the database keeps.


def write_thumbnail(folder: Path, item: str, data: bytes) -> None:
    """Write a thumbnail whose digest is written down already."""
    # The write is not synchronised to disk (8,000 such waits take longer than all the rest), so a kill can leave a torn
    # file: its digest does not match then, and the thumbnail is made again.
    path = thumbnail_path(folder, item)
    mode = mode_of(folder, thumbnail_name(item))
    if mode is not None and not stat.S_ISREG(mode):  # nothing is written through a link
        raise LibraryError(f"{path}: is there already, and visir did not write it.", hint="move it away")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def is_sound(folder: Path, item: str, digest: str) -> bool:
    """Whether the thumbnail of an item is there as it was written."""
    try:
        return thumbnail_digest(thumbnail_path(folder, item).read_bytes()) == digest
    except OSError:
        return False


def thumbnails_as_written(folder: Path, digests: Mapping[str, str | None]) -> list[str]:
    """The names of the thumbnails of these items (`digests`: from item to digest) that are as they were written."""
    return [thumbnail_name(item) for item, digest in digests.items() if digest and is_sound(folder, item, digest)]
