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
