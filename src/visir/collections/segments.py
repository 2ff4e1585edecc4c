"""What stands before the pixels of a picture is counted before a decoder sees it.

Pillow reads headers in Python, a segment, chunk, block or byte at a time: some microseconds each, and in places it
copies all that came before. Six megabytes of segments take it a minute. No camera and no editor writes so many.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator, Sequence

from PIL import Image

from visir.errors import ImageError

MOST = 4096
"""Of segments, chunks and boxes: XMP of 200 MB takes 3,200 segments of a JPEG. Pillow reads so many in 20 ms."""
MOST_EXIF = 64
"""Of segments of Exif, which Pillow joins one by one: 4 MB. Cameras write one."""
MOST_PROFILES = 8
"""Of a PNG's profiles, each of which Pillow unpacks, up to a megabyte. There should be one."""
MOST_BLOCKS = 1 << 16
"""Of a GIF's blocks before its first frame (XMP of 5 MB), and of a TIFF's strips or tiles (rows of a tall picture)."""
MOST_PLAIN = 1 << 24
"""Bytes of a PPM in decimal digits, which Pillow reads in Python: three seconds."""
_PPM_HEADER = 1 << 16
_SMALL_CHUNK = 64
"""A PNG may have a chunk of pixels for each so many bytes: encoders write kilobytes into each."""
_TOKEN = re.compile(rb"(?:\s|#[^\r\n]*[\r\n])*[^\s#]+")


def check_segments(data: bytes, where: str) -> None:
    """Raise `ImageError` for a picture whose header is made to keep a decoder busy."""
    # data: The bytes of the file.
    fault = ""
    if data[:2] == b"\xff\xd8":
        fault = _jpeg(data)
    elif data[:8] == b"\x89PNG\r\n\x1a\n":
        fault = _png(data)
    elif data[:4] == b"GIF8":
        fault = _too_many("blocks before its first frame", _gif_blocks(data), MOST_BLOCKS)
    elif data[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        fault = _too_many("strips or tiles", _strips(data), MOST_BLOCKS)
    elif data[:4] == b"\0\0\0\x0c" or data[4:8] == b"ftyp":
        fault = _too_many("boxes", sum(1 for _ in _boxes(data, 0, len(data))), MOST)
    elif data[:4] == b"\0\0\1\0":
        fault = _too_many("frames", int.from_bytes(data[4:6], "little"), MOST)
    elif data[:1] == b"P" and data[1:2].isdigit():
        fault = _ppm(data)
    if fault:
        hint = "if the picture is meant, save it anew with another program"
        raise ImageError(f"{where}: {fault} (a bomb?).", hint=hint, lasting=True)


def _too_many(what: str, count: int, most: int) -> str:
    return f"more than {most:,} {what}" if count > most else ""


def _jpeg(data: bytes) -> str:
    """Of the segments before the first scan: what follows is read by libjpeg, which passes over them fast."""
    place, exif, resources = 2, 0, 0
    for _ in range(MOST):
        if data[place : place + 1] != b"\xff":
            return ""
        marker = data[place + 1 : place + 2]
        if marker in (b"\xda", b""):
            return ""
        if marker == b"\xff":  # a byte that fills, one step of Pillow's
            place += 1
        elif marker == b"\0" or b"\xd0" <= marker <= b"\xd9" or marker == b"\1":
            place += 2
        else:
            end = place + 2 + max(2, int.from_bytes(data[place + 2 : place + 4], "big"))
            exif += marker == b"\xe1" and data[place + 4 : place + 8] == b"Exif"
            resources += data.count(b"8BIM", place, end) if marker == b"\xed" else 0
            place = end
        if exif > MOST_EXIF:
            return f"more than {MOST_EXIF} segments of Exif"
        if resources > MOST:
            return f"more than {MOST:,} resources of Photoshop"
    return f"more than {MOST:,} segments before its pixels"


def _png(data: bytes) -> str:
    place, others, pixels, profiles = 8, 0, 0, 0
    while place + 8 <= len(data):
        size, name = struct.unpack_from(">I4s", data, place)
        place += 12 + size
        if name in (b"IDAT", b"fdAT", b"fcTL"):
            pixels += 1
        else:
            others += 1
            profiles += name == b"iCCP"
        if others > MOST or pixels > MOST + len(data) // _SMALL_CHUNK or profiles > MOST_PROFILES:
            return "too many profiles" if profiles > MOST_PROFILES else f"more than {MOST:,} chunks"
        if name == b"IEND":
            break
    return ""


def _gif_blocks(data: bytes) -> int:
    """How many blocks come before the first frame; one above the limit stands for all beyond it."""
    place = 13 + (3 << ((data[10] & 7) + 1) if len(data) > 10 and data[10] & 0x80 else 0)
    for count in range(MOST_BLOCKS + 1):
        introducer = data[place : place + 1]
        if introducer in (b"", b",", b";"):
            return count
        if introducer != b"!":
            place += 1  # Pillow passes over it, byte by byte
            continue
        place += 2
        while (size := data[place : place + 1]) not in (b"", b"\0"):
            count += 1
            place += 1 + size[0]
            if count > MOST_BLOCKS:
                return count
        place += 1
    return MOST_BLOCKS + 1


def _strips(data: bytes) -> int:
    """How many strips or tiles the first picture of a TIFF has."""
    order = "<" if data[:1] == b"I" else ">"
    big = data[2:4] in (b"+\0", b"\0+")
    start, counted, entry, width = ("Q", "Q", "HHQ8x", 20) if big else ("I", "H", "HHI4x", 12)
    most = 0
    try:
        (place,) = struct.unpack_from(order + start, data, 8 if big else 4)
        (number,) = struct.unpack_from(order + counted, data, place)
        place += struct.calcsize(counted)
        for row in range(min(number, MOST_BLOCKS)):
            tag, _, count = struct.unpack_from(order + entry, data, place + row * width)
            if tag in (273, 324):
                most = max(most, count)
    except struct.error:  # cut: the decoder says so
        return most
    return most


def _boxes(data: bytes, place: int, end: int) -> Iterator[None]:
    """The boxes of JPEG 2000, HEIF and AVIF, down to those that a decoder walks in Python."""
    while place + 8 <= end:
        yield
        size, name = struct.unpack_from(">I4s", data, place)
        head = 8
        if size == 1 and place + 16 <= end:
            (size,), head = struct.unpack_from(">Q", data, place + 8), 16
        if size < head:  # 0: to the end
            return
        if name in (b"jp2h", b"res "):
            yield from _boxes(data, place + head, min(end, place + size))
        place += size


def _ppm(data: bytes) -> str:
    header, place = memoryview(data)[:_PPM_HEADER], 0
    for _ in range(3 if data[1:2] in b"14" else 4):
        token = _TOKEN.match(header, place)
        if token is None:
            return f"no size in its first {_PPM_HEADER:,} bytes" if len(data) > _PPM_HEADER else ""
        place = token.end()
    if data[1:2] in b"123":
        if len(data) > MOST_PLAIN:
            return f"{len(data):,} bytes of decimal digits, over the limit of {MOST_PLAIN:,}"
        return _too_many("comments", data.count(b"#", place), MOST)
    return ""


# Fragments behind the path of a picture: the part of it that is meant, and how its file is read.

FRAME = "#bgr"
"""Behind the path of an array of a picture whose channels are blue, green, red."""
_PART = re.compile(r"(.+)#xywh=(\d+),(\d+),(\d+),(\d+)")

Part = tuple[int, int, int, int]
"""(left, top, width, height), in pixels."""


def part_of(path: str | None) -> tuple[str, Part] | None:
    """The path of the whole picture and the part, of a path that names a part; else None."""
    match = None if path is None else _PART.fullmatch(path)
    if match is None:
        return None
    left, top, width, height = (int(number) for number in match.groups()[1:])
    return match[1], (left, top, width, height)


def part_fragment(part: Sequence[int]) -> str:
    """What stands behind the path of a picture of which a part is meant."""
    return f"#xywh={','.join(map(str, part))}"


def file_of(path: str) -> str:
    """The path of the file, without fragments."""
    whole = part_of(path)
    return (path if whole is None else whole[0]).removesuffix(FRAME)


def cut(picture: Image.Image, part: Part, where: str) -> bytes:
    """The bytes of a part of a picture, as BMP; what lies beyond the edge is left out."""
    left, top, width, height = part
    box = (left, top, min(left + width, picture.width), min(top + height, picture.height))
    if box[0] >= box[2] or box[1] >= box[3]:
        raise ImageError(f"{where}: the part is outside the picture of {picture.width} × {picture.height} pixels.")
    stream = io.BytesIO()
    picture.crop(box).save(stream, "BMP")
    return stream.getvalue()
