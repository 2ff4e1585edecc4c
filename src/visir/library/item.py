"""One picture of a library."""

from __future__ import annotations

from dataclasses import dataclass

PICTURE = "picture:"
"""How the mark of a picture of a product begins in the table of files: the id of its bytes follows."""


@dataclass(frozen=True)
class ItemFile:
    """One place where a picture lies.

    Attributes:
        path: Its id in the source; for a folder of photos the path relative to it.
        name: The file's name.
        place: As `path` in `Collection.images`; None where the source has no pictures.
        archive: As in `Collection.images`.
        category: The folder it lies in, or the category that the source names.
        content: The id of its bytes, where that is not the item's: of a picture of a product.
    """

    path: str
    name: str
    place: str | None
    archive: str | None
    category: str
    content: str = ""


@dataclass(frozen=True)
class Item:
    """A picture by content: equal files are one item.

    Attributes:
        id: The first 32 hexadecimal digits of the SHA-256 of its bytes; where there are none, of the generated scene's
            description, or of the image's id in the source.
        files: Where it lies, at least one, by path.
        captions: (caption id, text).
        fields: (name, value): what the source says of it.
        width: Upright, in pixels; None without bytes, as for the next three.
        height: Upright, in pixels.
        format: As Pillow calls it ("JPEG").
        bytes: Of the file.
        taken: ISO 8601; in UTC where the camera knew its time zone, and then it ends in "Z".
        camera: Maker and model.
        category: Of the first file.
        added: When the library first saw it, for people to read.
        phash: 64 hexadecimal digits that near duplicates nearly share (`visir.library.perceptual_hash`).
        is_product: Whether it is a product of a shop: its first file is the product, the others are its pictures.
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
    is_product: bool = False

    @property
    def name(self) -> str:
        """What to call it: the name of its first file."""
        return self.files[0].name

    @property
    def product(self) -> str | None:
        """The id of the product; None for a photo."""
        return self.files[0].path if self.is_product else None

    @property
    def price(self) -> str:
        """The price of a product as text, with its currency: "49.9 EUR", "10.99–20.99 USD"; "" without one."""
        prices = sorted(value for name, value in self.fields if name == "price" and not isinstance(value, str))
        currency = next((str(value) for name, value in self.fields if name == "currency"), "")
        amounts = [f"{amount:,.2f}".removesuffix(".00") for amount in prices]
        return f"{'–'.join(amounts)} {currency}".strip() if prices else ""

    @property
    def media_type(self) -> str:
        """As HTTP calls the format ("image/jpeg")."""
        return MEDIA_TYPES.get(self.format or "", "application/octet-stream")


def media_type_of(data: bytes) -> str:
    """The media type of the bytes of a picture, by how they begin."""
    for begin, kind in {b"\x89PNG": "PNG", b"\xff\xd8": "JPEG", b"GIF8": "GIF", b"BM": "BMP"}.items():
        if data.startswith(begin):
            return MEDIA_TYPES[kind]
    return MEDIA_TYPES["WEBP"] if data[8:12] == b"WEBP" else "application/octet-stream"


MEDIA_TYPES = {
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",
    "PNG": "image/png",
    "GIF": "image/gif",
    "WEBP": "image/webp",
    "BMP": "image/bmp",
    "TIFF": "image/tiff",
    "AVIF": "image/avif",
    "HEIF": "image/heif",
    "JPEG2000": "image/jp2",
    "PPM": "image/x-portable-anymap",
}
"""Of the formats that a library takes, by Pillow's names."""
