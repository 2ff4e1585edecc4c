"""What a library knows of one picture."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ItemFile:
    """One place where a picture lies.

    - `path`: its id in the source; for a folder of photos the path relative to it
    - `name`: what to call it: the file's name
    - `place`, `archive`: as in `Collection.images`; `place` is None where the source has no pictures
    - `category`: the folder it lies in, or the category that the source tells
    """

    path: str
    name: str
    place: str | None
    archive: str | None
    category: str


@dataclass(frozen=True)
class Item:
    """A picture by content: equal files are one item.

    - `id`: the first 32 hexadecimal digits of the SHA-256 of its bytes; where there are none, of the generated scene's
      description, or of the image's id in the source
    - `files`: where it lies, at least one, by path
    - `captions`: (caption id, text), and `fields`: (name, value): what the source tells of it
    - `width`, `height`: upright, in pixels; `format`: as Pillow calls it ("JPEG"); `bytes`: of the file. All None where
      there are no bytes
    - `taken`: ISO 8601; in UTC where the camera knew its time zone, and then it ends in "Z"; `camera`: maker and model
    - `category`: of the first file; `added`: when the library first saw it, for people to read
    - `phash`: 64 hexadecimal digits that near duplicates nearly share (`visir.library.perceptual_hash`)
    """

    id: str
    files: tuple[ItemFile, ...]
    captions: tuple[tuple[str, str], ...]
    fields: tuple[tuple[str, str | int | float], ...]
    width: int | None
    height: int | None
    format: str | None
    bytes: int | None
    taken: str | None
    camera: str | None
    category: str
    added: str
    phash: str | None

    @property
    def name(self) -> str:
        """What to call it: the name of its first file."""
        return self.files[0].name

    @property
    def media_type(self) -> str:
        """As HTTP calls the format ("image/jpeg")."""
        return MEDIA_TYPES.get(self.format or "", "application/octet-stream")


MEDIA_TYPES = {
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",
    "PNG": "image/png",
    "GIF": "image/gif",
    "WEBP": "image/webp",
    "BMP": "image/bmp",
    "TIFF": "image/tiff",
    "AVIF": "image/avif",
    "JPEG2000": "image/jp2",
    "PPM": "image/x-portable-anymap",
}
"""Of the formats that a library takes, by Pillow's names."""
