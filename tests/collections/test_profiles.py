"""Colours: people see what a profile means, models get the numbers as they are stored."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import pytest
from bombs import chunk, saved
from PIL import Image, ImageCms

from visir.collections.images import LARGEST, ImageReader, decode, header, to_rgb, upright
from visir.records import Items

NUMBERS = (234, 51, 35)


def profile(red: tuple[float, float], green: tuple[float, float], blue: tuple[float, float], gamma: float) -> bytes:
    """An ICC profile (version 2) of these primaries, with D65, adapted to the D50 of profiles by Bradford."""
    import numpy as np

    def xyz(x: float, y: float) -> np.ndarray:
        return np.array([x / y, 1, (1 - x - y) / y])

    primaries = np.stack([xyz(*red), xyz(*green), xyz(*blue)], axis=1)
    bradford = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
    d50 = np.array([0.9642, 1, 0.8249])
    white = xyz(0.3127, 0.329)
    adapted = np.linalg.inv(bradford) @ np.diag((bradford @ d50) / (bradford @ white)) @ bradford
    columns = (adapted @ (primaries * np.linalg.solve(primaries, white))).T

    def numbers(values: np.ndarray) -> bytes:
        return b"XYZ " + bytes(4) + b"".join(struct.pack(">i", round(value * 65536)) for value in values)

    curve = b"curv" + bytes(4) + struct.pack(">IH", 1, round(gamma * 256)) + bytes(2)
    text = b"desc" + bytes(4) + struct.pack(">I", 2) + b"a\0" + bytes(78)
    tags = {b"desc": text, b"cprt": b"text" + bytes(4) + b"a\0\0\0", b"wtpt": numbers(d50)}
    tags |= dict(zip((b"rXYZ", b"gXYZ", b"bXYZ"), map(numbers, columns), strict=True))
    tags |= dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve)
    return _profile(b"RGB ", tags)


def grey_profile(gamma: float) -> bytes:
    curve = b"curv" + bytes(4) + struct.pack(">IH", 1, round(gamma * 256)) + bytes(2)
    text = b"desc" + bytes(4) + struct.pack(">I", 2) + b"a\0" + bytes(78)
    white = b"XYZ " + bytes(4) + struct.pack(">iii", 63190, 65536, 54061)
    return _profile(b"GRAY", {b"desc": text, b"cprt": b"text" + bytes(4) + b"a\0\0\0", b"wtpt": white, b"kTRC": curve})


def _profile(space: bytes, tags: dict[bytes, bytes], kind: bytes = b"mntr", between: bytes = b"XYZ ") -> bytes:
    table, body, place = struct.pack(">I", len(tags)), b"", 128 + 4 + 12 * len(tags)
    for name, data in tags.items():
        data += bytes(-len(data) % 4)
        table += name + struct.pack(">II", place + len(body), len(data))
        body += data
    size = place + len(body)
    head = struct.pack(">I4sI4s4s4s", size, b"lcms", 0x02100000, kind, space, between) + bytes(12) + b"acsp"
    return head.ljust(68, b"\0") + struct.pack(">iii", 63190, 65536, 54061) + bytes(48) + table + body


P3 = profile((0.68, 0.32), (0.265, 0.69), (0.15, 0.06), 2.2)
ADOBE = profile((0.64, 0.33), (0.21, 0.71), (0.15, 0.06), 2.2)


def on_screen(data: bytes) -> tuple[int, ...]:
    with header(data, "a picture") as undecoded, upright(undecoded, on_screen=True) as picture:
        seen = picture.getpixel((1, 1))
    assert "icc_profile" not in picture.info and to_rgb(picture, on_screen=True).getpixel((1, 1)) == seen
    return seen


def wanted(numbers: tuple[int, ...], icc: bytes, mode: str = "RGB") -> tuple[int, ...]:
    source = ImageCms.ImageCmsProfile(io.BytesIO(icc))
    seen = ImageCms.profileToProfile(
        Image.new(mode, (4, 4), numbers), source, ImageCms.createProfile("sRGB"), outputMode="RGB"
    )
    return seen.getpixel((1, 1))


def near(one: tuple[int, ...], other: tuple[int, ...], most: int = 3) -> bool:
    return max(abs(a - b) for a, b in zip(one, other, strict=True)) <= most


@pytest.mark.parametrize("icc", [P3, ADOBE], ids=["Display P3", "Adobe RGB"])
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def test_people_see_the_colours_and_models_get_the_numbers(form: str, icc: bytes) -> None:
    options = {"quality": 100} if form in ("JPEG", "WEBP", "AVIF") else {}
    data = saved(Image.new("RGB", (16, 16), (180, 90, 60)), form, icc_profile=icc, **options)
    assert near(on_screen(data), wanted((180, 90, 60), icc), 8)
    assert not near(wanted((180, 90, 60), icc), (180, 90, 60), 8)
    assert near(decode(data, "a picture").getpixel((1, 1)), (180, 90, 60), 5)


def test_a_profile_of_screens_changes_nothing() -> None:
    icc = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert on_screen(saved(Image.new("RGB", (4, 4), NUMBERS), "PNG", icc_profile=icc)) == NUMBERS


def test_transparency_and_palettes_have_profiles_too() -> None:
    clear = Image.new("RGBA", (4, 4), (*NUMBERS, 255))
    clear.putpixel((0, 0), (0, 0, 0, 0))
    assert near(on_screen(saved(clear, "PNG", icc_profile=P3)), wanted(NUMBERS, P3))
    palette = Image.new("RGB", (4, 4), NUMBERS).convert("P", palette=Image.Palette.ADAPTIVE)
    data = saved(palette, "PNG", icc_profile=P3, transparency=5)
    assert near(on_screen(data), wanted(NUMBERS, P3))
    assert decode(data, "a picture").getpixel((1, 1)) == NUMBERS


def test_the_profile_stays_with_numbers_that_stay() -> None:
    """So what shows a picture of `visir.open(…).image(id)` shows its colours."""
    for mode in ("RGB", "RGBA", "P"):
        numbers = Image.new("RGB", (4, 4), NUMBERS).convert(mode, palette=Image.Palette.ADAPTIVE)
        data = saved(numbers, "PNG", icc_profile=P3)
        picture = decode(data, "a picture")
        assert picture.info["icc_profile"] == P3
        assert near(to_rgb(picture, on_screen=True).getpixel((1, 1)), wanted(NUMBERS, P3), 4)


@pytest.mark.parametrize("depth", ["L", "I;16"])
def test_greys(depth: str) -> None:
    icc = grey_profile(1.0)
    value = 60 if depth == "L" else 60 * 257
    data = saved(Image.new(depth, (4, 4), value), "PNG", icc_profile=icc)
    assert near(on_screen(data), wanted(60, icc, "L"))  # type: ignore[arg-type]
    assert on_screen(data)[0] > 120 and decode(data, "a picture").getpixel((1, 1)) == (60, 60, 60)


def test_inks() -> None:
    """Without a profile Pillow's own conversion; with one that is of red, green and blue, likewise."""
    inks = Image.new("CMYK", (16, 16), (200, 20, 40, 10))
    plain = saved(inks, "JPEG", quality=100)
    numbers = decode(plain, "a picture").getpixel((1, 1))
    assert near(numbers, inks.convert("RGB").getpixel((1, 1))) and on_screen(plain) == numbers
    assert on_screen(saved(inks, "JPEG", quality=100, icc_profile=P3)) == numbers


def test_inks_with_a_profile() -> None:
    """A printer whose inks are all grey: a table of 2 × 2 × 2 × 2 inks and their lightness."""
    same = bytes(range(256))
    corners = b"".join(bytes([255 if inks == 0 else 40 * (4 - inks.bit_count()), 128, 128]) for inks in range(16))
    one = struct.pack(">9i", *(65536 if place % 4 == 0 else 0 for place in range(9)))
    table = b"mft1" + bytes(4) + bytes([4, 3, 2, 0]) + one + same * 4 + corners + same * 3
    text = b"desc" + bytes(4) + struct.pack(">I", 2) + b"a\0" + bytes(78)
    white = b"XYZ " + bytes(4) + struct.pack(">iii", 63190, 65536, 54061)
    tags = {b"desc": text, b"cprt": b"text" + bytes(4) + b"a\0\0\0", b"wtpt": white, b"A2B0": table}
    icc = _profile(b"CMYK", tags, b"prtr", b"Lab ")
    inks = Image.new("CMYK", (16, 16), (200, 20, 40, 10))
    seen = wanted((200, 20, 40, 10), icc, "CMYK")
    assert near(on_screen(saved(inks, "JPEG", quality=100, icc_profile=icc)), seen, 6)
    assert on_screen(saved(inks, "TIFF", icc_profile=icc)) == seen and len({*seen}) == 1
    assert decode(saved(inks, "TIFF", icc_profile=icc), "a picture").getpixel((1, 1)) == (53, 226, 207)


def test_lab() -> None:
    lab = ImageCms.profileToProfile(
        Image.new("RGB", (4, 4), NUMBERS), ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"),
        outputMode="LAB",
    )  # fmt: skip
    for options in ({}, {"icc_profile": P3}):
        assert near(on_screen(saved(lab, "TIFF", **options)), NUMBERS, 6)


@pytest.mark.parametrize(
    "icc",
    [b"", b"abc", bytes(200), P3[:300], P3[:16] + b"XYZ " + P3[20:], grey_profile(2.2), P3 + bytes(LARGEST),
     P3[:132] + b"\xff" * 200 + P3[332:]],
    ids=["empty", "short", "nothing", "cut", "of no colours", "of greys", "large", "damaged"],
)  # fmt: skip
def test_a_profile_that_is_none_is_passed_over(icc: bytes) -> None:
    assert on_screen(saved(Image.new("RGB", (4, 4), NUMBERS), "TIFF", icc_profile=icc)) == NUMBERS


def test_gamma_of_a_png() -> None:
    def png(*chunks: bytes) -> bytes:
        data = saved(Image.new("RGB", (4, 4), (60, 60, 60)), "PNG")
        return data[:33] + b"".join(chunks) + data[33:]

    linear, usual = chunk(b"gAMA", struct.pack(">I", 100_000)), chunk(b"gAMA", struct.pack(">I", 45_455))
    assert near(on_screen(png(linear)), (133, 133, 133))
    assert decode(png(linear), "a picture").getpixel((1, 1)) == (60, 60, 60)
    assert on_screen(png(usual)) == on_screen(png(linear, chunk(b"sRGB", b"\0"))) == (60, 60, 60)
    assert on_screen(png(chunk(b"gAMA", bytes(4)))) == (60, 60, 60)
    icc = chunk(b"iCCP", b"a\0\0" + zlib.compress(P3))
    assert near(on_screen(png(linear, icc)), wanted((60, 60, 60), P3))


def test_large_pictures_band_by_band() -> None:
    data = saved(Image.new("RGB", (2000, 1200), NUMBERS), "PNG", icc_profile=P3)
    with header(data, "a picture") as undecoded, upright(undecoded, on_screen=True) as picture:
        assert {picture.getpixel((x, y)) for x in (0, 1999) for y in (0, 600, 1199)} == {picture.getpixel((9, 9))}
        assert near(picture.getpixel((9, 9)), wanted(NUMBERS, P3))


def test_a_reader_for_people(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(saved(Image.new("RGB", (4, 4), NUMBERS), "PNG", icc_profile=P3))
    items = Items.of_images({"a": tmp_path / "a.png"})
    assert ImageReader(items).open(0).getpixel((1, 1)) == NUMBERS
    assert near(ImageReader(items, on_screen=True).open(0).getpixel((1, 1)), wanted(NUMBERS, P3))
