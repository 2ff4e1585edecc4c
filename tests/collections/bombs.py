"""Pictures whose headers hide how large they are."""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image


def saved(image: Image.Image, form: str, **options: object) -> bytes:
    """The file of a picture."""
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def tiled_tiff(side: int, tile: int) -> bytes:
    """A deflated TIFF of one tile that is far larger than the picture."""
    data = zlib.compress(b"\0" * 65536)
    entries = [(256, 4, 1, side), (257, 4, 1, side), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1), (277, 3, 1, 1)]
    entries += [(322, 4, 1, tile), (323, 4, 1, tile), (324, 4, 1, 200), (325, 4, 1, len(data))]
    body = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    head = b"II*\0\x08\0\0\0" + struct.pack("<H", len(entries)) + body + b"\0\0\0\0"
    return head.ljust(200, b"\0") + data


def icon(told: int, real: int, *, form: str = "PNG") -> bytes:
    """An icon whose directory tells one size and whose frame has another, as large a picture of nothing as it likes."""
    frame = saved(Image.new("1", (real, real)), "PNG")
    if form == "DIB":
        frame = struct.pack("<IiiHHIIiiII", 40, real, 2 * real, 1, 8, 0, 0, 0, 0, 0, 0) + b"\0" * 2000
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, told, told, 0, 0, 1, 8, len(frame), 22) + frame


def segment(marker: int, body: bytes) -> bytes:
    """A segment of a JPEG."""
    return b"\xff" + bytes([marker]) + struct.pack(">H", len(body) + 2) + body


def jpeg_with(segments: bytes, **options: object) -> bytes:
    """A small JPEG with segments before its own."""
    jpeg = saved(Image.new("RGB", (64, 64), "red"), "JPEG", **options)
    return jpeg[:2] + segments + jpeg[2:]


def chunk(name: bytes, body: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png_with(chunks: bytes, place: int = 33) -> bytes:
    """A small PNG with chunks at a place: by default behind the first, or -12, before the last."""
    png = saved(Image.new("RGB", (64, 64), "red"), "PNG")
    return png[:place] + chunks + png[place:]


def gif_with(blocks: bytes) -> bytes:
    """A GIF of one grey frame with blocks before it."""
    return b"GIF89a\x02\0\x02\0\x80\0\0\x80\x80\x80\xff\xff\xff" + blocks + b",\0\0\0\0\2\0\2\0\0\2\3\x84\x84\5\0;"


def in_passes(side: int, passes: int) -> bytes:
    """A progressive JPEG whose last pass is repeated: 100 kB can be 90 passes over 80 million pixels."""
    jpeg = saved(Image.new("L", (side, side)), "JPEG", progressive=True)
    last = jpeg.rindex(b"\xff\xda")
    return jpeg[:-2] + jpeg[last:-2] * passes + jpeg[-2:]


def tiff_of_strips(count: int) -> bytes:
    """A TIFF one pixel wide with a strip for each row, all of them the same byte."""
    place = 8 + 2 + 12 * 9 + 4
    entries = [(256, 4, 1, 1), (257, 4, 1, count), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (277, 3, 1, 1)]
    entries += [(273, 4, count, place + 4), (278, 4, 1, 1), (279, 4, count, place + 4 + 4 * count)]
    entries.sort()
    head = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries) + bytes(4)
    return b"II*\0\x08\0\0\0" + head + bytes(4) + struct.pack("<I", place) * count + struct.pack("<I", 1) * count


def jp2_with(boxes: int) -> bytes:
    """A JPEG 2000 with so many empty boxes in its header."""
    picture = saved(Image.new("RGB", (64, 64), "red"), "JPEG2000")
    place = picture.index(b"jp2h") - 4
    (size,) = struct.unpack_from(">I", picture, place)
    free = struct.pack(">I4s", 8, b"free") * boxes
    head = struct.pack(">I", size + len(free)) + picture[place + 4 : place + size]
    return picture[:place] + head + free + picture[place + size :]


PROFILE = chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(10**6), 9))
BUSY = {
    "segments of Exif": lambda: jpeg_with(segment(0xE1, b"Exif\0\0" + b"a" * 12) * 300_000),
    "comments of a JPEG": lambda: jpeg_with(segment(0xFE, b"abc") * 300_000),
    "bytes that fill": lambda: jpeg_with(b"\xff" * 10_000_000),
    "null bytes": lambda: jpeg_with(b"\xff\0" * 1_000_000),
    "resources of Photoshop": lambda: jpeg_with(
        segment(0xED, b"Photoshop 3.0\0" + b"8BIM\4\4\0\0\0\0\0\0" * 5000) * 300
    ),
    "passes": lambda: in_passes(9000, 88),
    "texts of a PNG": lambda: png_with(chunk(b"tEXt", b"a\0b") * 300_000),
    "texts behind the pixels": lambda: png_with(chunk(b"tEXt", b"a\0b") * 300_000, -12),
    "empty pixels of a PNG": lambda: png_with(chunk(b"IDAT", b"") * 300_000),
    "profiles": lambda: png_with(PROFILE * 1000),
    "comments of a GIF": lambda: gif_with((b"!\xfe\3abc\0") * 300_000),
    "a comment in bytes": lambda: gif_with(b"!\xfe" + b"\1a" * 1_500_000 + b"\0"),
    "nothing of a GIF": lambda: gif_with(b"\1" * 6_000_000),
    "strips": lambda: tiff_of_strips(2_000_000),
    "boxes": lambda: jp2_with(700_000),
    "frames of an icon": lambda: struct.pack("<HHH", 0, 1, 65535) + bytes(16 * 65535),
    "a comment of a PPM": lambda: b"P6\n#" + b"a" * 20_000_000 + b"\n2 2\n255\n" + bytes(12),
    "comments of a PPM": lambda: b"P3\n2000 2000\n255\n" + b"#\n1 " * 4_000_000,
    "digits of a PPM": lambda: b"P3\n2000 2000\n255\n" + b"1 " * 10_000_000,
}
"""Small pictures whose headers kept Pillow 13 busy for seconds or minutes, by what they have too much of."""
