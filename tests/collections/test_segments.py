"""Headers that are made to keep a decoder busy are refused before it sees them; those of real pictures are not."""

from __future__ import annotations

import io
import struct
import time

import pytest
from bombs import BUSY, chunk, gif_with, in_passes, jp2_with, jpeg_with, png_with, saved, segment, tiff_of_strips
from PIL import Image

from visir.collections.images import decode, readable
from visir.errors import ImageError


@pytest.mark.parametrize("kind", BUSY)
def test_a_header_that_keeps_a_decoder_busy_is_refused(kind: str) -> None:
    data = BUSY[kind]()
    began = time.process_time()
    with pytest.raises(ImageError, match=r"a picture: .*\(a bomb\?\)") as caught:
        decode(data, "a picture")
    assert caught.value.lasting
    assert time.process_time() - began < 0.5  # a tenth on a slow core


MUCH = {
    "an extended XMP of 50 MB": lambda: jpeg_with(
        segment(0xE1, b"http://ns.adobe.com/xmp/extension/\0" + bytes(65000)) * 770
    ),
    "a profile in segments": lambda: jpeg_with(b"", icc_profile=bytes(3_000_000)),
    "Exif in several segments": lambda: jpeg_with(segment(0xE1, b"Exif\0\0" + bytes(60000)) * 8),
    "a JPEG in a hundred passes": lambda: in_passes(600, 90),
    "texts": lambda: png_with(chunk(b"tEXt", b"a\0b") * 500),
    "small chunks of pixels": lambda: _in_chunks(256),
    "XMP of a GIF": lambda: gif_with(b"!\xff\x0bXMP DataXMP" + (b"\x20" + bytes(32)) * 2000 + b"\0"),
    "a strip for each row": lambda: tiff_of_strips(20_000),
    "boxes": lambda: jp2_with(20),
    "a comment of a PPM": lambda: b"P6\n# made by hand\n2 2\n255\n" + bytes(12),
    "a plain PPM": lambda: b"P3\n# made by hand\n2 1\n255\n1 2 3\n4 5 6\n",
}


def _in_chunks(size: int) -> bytes:
    """A PNG whose pixels lie in chunks of so many bytes, as an encoder writes that sends them off at once."""
    png = saved(Image.effect_noise((300, 300), 90), "PNG")
    parts, place = [], 8
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        name, body = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        step = size if name == b"IDAT" else max(1, length)
        parts += [chunk(name, body[start : start + step]) for start in range(0, max(1, length), step)]
        place += 12 + length
    return png[:8] + b"".join(parts)


@pytest.mark.parametrize("kind", MUCH)
def test_much_that_real_pictures_have_is_read(kind: str) -> None:
    assert min(decode(MUCH[kind](), "a picture").size) > 0


@pytest.mark.parametrize(
    "form", ["JPEG", "MPO", "PNG", "GIF", "WEBP", "AVIF", "BMP", "TIFF", "PPM", "JPEG2000", "ICO", "TGA"]
)
def test_every_format_is_read(form: str) -> None:
    if form not in (*readable(), "MPO"):
        pytest.skip(f"this Pillow has no {form}")
    frames = {"save_all": True, "append_images": [Image.new("RGB", (32, 32), "blue")] * 30}
    options = frames if form in ("MPO", "GIF", "WEBP", "AVIF", "TIFF", "PNG") else {}
    assert decode(saved(Image.new("RGB", (32, 32), "red"), form, **options), "a picture").size == (32, 32)


@pytest.mark.parametrize("head", ["JPEG", "PNG", "GIF", "TIFF", "PPM", "JPEG2000"])
def test_a_cut_header_is_a_broken_picture(head: str) -> None:
    data = saved(Image.effect_noise((40, 30), 90), head)
    for size in range(1, 150):
        with pytest.raises(ImageError):
            decode(data[:size], "a picture")


def test_metadata_that_are_damaged_leave_a_picture() -> None:
    stream = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(stream, "WEBP", exif=b"Exif\0\0ab")
    assert decode(stream.getvalue(), "a picture").size == (40, 30)
