"""What a camera wrote into a photo: time, camera, and whether the photo is rotated."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from PIL import Image
from PIL.ExifTags import IFD, Base

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
