"""From bytes to upright RGB: what every kind of picture, and every kind of damage, becomes."""

from __future__ import annotations

import io
import struct
import threading
import time
import zlib

import numpy as np
import pytest
from PIL import Image
from toys import jpeg

from refusals import refused
from visir.collections.images import ImageReader, decode, to_rgb
from visir.errors import ImageError
from visir.records import Collection


def saved(image: Image.Image, form: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def pixel(image: Image.Image, at: tuple[int, int] = (0, 0)) -> tuple[int, ...]:
    assert image.mode == "RGB"
    found = image.getpixel(at)
    assert isinstance(found, tuple)
    return found


def test_plain_jpeg_is_what_pillow_gives() -> None:
    data = jpeg("teal", (31, 17))
    assert decode(data, "x").tobytes() == Image.open(io.BytesIO(data)).convert("RGB").tobytes()


# Orientation n of EXIF says how a stored picture must be turned; this is where the stored top-left pixel ends up,
# as (right?, bottom?), worked out by hand from the standard's table.
CORNERS = {1: (0, 0), 2: (1, 0), 3: (1, 1), 4: (0, 1), 5: (0, 0), 6: (1, 0), 7: (1, 1), 8: (0, 1)}


@pytest.mark.parametrize("orientation", CORNERS)
def test_exif_rotation_is_applied_once(orientation: int) -> None:
    image = Image.new("RGB", (6, 4), "black")
    image.putpixel((0, 0), (255, 0, 0))
    exif = Image.Exif()
    exif[0x0112] = orientation
    upright = decode(saved(image, "PNG", exif=exif), "x")
    assert upright.size == ((4, 6) if orientation >= 5 else (6, 4))
    right, bottom = CORNERS[orientation]
    corner = (right * (upright.width - 1), bottom * (upright.height - 1))
    assert pixel(upright, corner) == (255, 0, 0)
    assert to_rgb(upright).tobytes() == upright.tobytes()  # not turned a second time


def test_transparency_is_laid_over_white() -> None:
    clear = Image.new("RGBA", (2, 1), (255, 0, 0, 0))
    half = Image.new("RGBA", (2, 1), (255, 0, 0, 128))
    assert pixel(decode(saved(clear, "PNG"), "x")) == (255, 255, 255)
    # 128/255 of red over white: green and blue are 255 · (1 − 128/255) = 127
    assert pixel(decode(saved(half, "PNG"), "x")) == (255, 127, 127)
    assert pixel(decode(saved(Image.new("LA", (1, 1), (0, 0)), "PNG"), "x")) == (255, 255, 255)


def test_palette_and_its_transparent_entry() -> None:
    image = Image.new("P", (2, 1), 0)
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putpixel((1, 0), 1)
    assert pixel(decode(saved(image, "PNG"), "x"), (1, 0)) == (200, 100, 50)
    transparent = decode(saved(image, "PNG", transparency=0), "x")
    assert pixel(transparent) == (255, 255, 255)
    assert pixel(transparent, (1, 0)) == (200, 100, 50)


def test_cmyk_jpeg() -> None:
    cyan = decode(saved(Image.new("CMYK", (8, 8), (255, 0, 0, 0)), "JPEG", quality=100), "x")
    red, green, blue = pixel(cyan)
    assert red < 10
    assert green > 245
    assert blue > 245


def test_16_bit_grey_is_scaled_not_clipped() -> None:
    values = np.array([[0, 257, 128 * 257, 65535]], np.uint16)
    image = decode(saved(Image.fromarray(values), "PNG"), "x")
    assert [pixel(image, (x, 0))[0] for x in range(4)] == [0, 1, 128, 255]


def test_16_bit_rgb_png() -> None:
    # Pillow writes no 16-bit RGB, so the file is made by hand: one pixel (65535, 32768, 0).
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = b"\x00" + struct.pack(">HHH", 65535, 32768, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0))
    data += chunk(b"IDAT", zlib.compress(row)) + chunk(b"IEND", b"")
    assert pixel(decode(data, "x")) == (255, 128, 0)


def test_floats_are_stretched_from_their_own_range() -> None:
    image = decode(saved(Image.fromarray(np.array([[-1.0, 0.0, 1.0]], np.float32)), "TIFF"), "x")
    assert [pixel(image, (x, 0))[0] for x in range(3)] == [0, 128, 255]


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "YCbCr", "HSV", "LAB", "I", "F", "I;16"])
def test_every_mode_becomes_rgb_and_stays_so(mode: str) -> None:
    once = to_rgb(Image.new(mode, (3, 2)))
    assert (once.mode, once.size) == ("RGB", (3, 2))
    assert to_rgb(once).tobytes() == once.tobytes()


@pytest.mark.parametrize(("form", "suffix"), [("GIF", "gif"), ("WEBP", "webp"), ("PNG", "png"), ("TIFF", "tiff")])
def test_first_frame_of_an_animation(form: str, suffix: str) -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    options = {"lossless": True} if form == "WEBP" else {}
    data = saved(frames[0], form, save_all=True, append_images=frames[1:], **options)
    assert pixel(decode(data, f"x.{suffix}")) == (255, 0, 0)


def test_wrong_extension_is_decoded_by_content(write) -> None:
    write("png_inside.jpg", jpeg("blue", form="PNG"))
    assert pixel(reader_of(write, "png_inside.jpg").open(0)) == (0, 0, 255)


def reader_of(write, name: str) -> ImageReader:
    root = write("here.txt", "").parent
    return ImageReader(Collection.build("toy", images={"id": ["7"], "path": [name]}, root=root))


BROKEN = {
    "zero bytes": (b"", "the file is empty (0 bytes)"),
    "truncated JPEG": (jpeg("red", (200, 200))[:-150], "broken or truncated image"),
    "truncated PNG": (jpeg("red", (200, 200), "PNG")[:-40], "broken or truncated image"),
    "JPEG header only": (jpeg()[:30], "broken or truncated image"),
    "damaged header": (jpeg("red", (64, 64), "PNG").replace(b"IDAT", b"IDxT"), "begins like a PNG, but is damaged"),
    "damaged pixels": (jpeg("red", (64, 64), "PNG").replace(b"\xed", b"\x00"), "broken or truncated image"),
    "an HTML page": (b"<!DOCTYPE html><html>404</html>", "an HTML page (the error page of a download?)"),
    "a Git LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1", "a Git LFS pointer"),
    "text": (b"hello", "5 bytes that no decoder knows"),
    "SVG": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "XML or SVG, which has no pixels"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_pictures_name_the_image(write, kind: str) -> None:
    data, expected = BROKEN[kind]
    write("x.jpg", data)
    with pytest.raises(ImageError) as caught:
        reader_of(write, "x.jpg").open(0)
    assert "image '7' (x.jpg)" in str(caught.value)
    assert expected in str(caught.value)


def test_a_decompression_bomb_is_refused_before_decoding() -> None:
    data = saved(Image.new("1", (20_000, 20_000)), "PNG")  # 400 million pixels in a few kilobytes
    assert len(data) < 100_000
    start = time.process_time()
    with refused(ImageError, "89,478,485", code="over-limit-pixels-decompression"):
        decode(data, "image 'bomb'")
    assert time.process_time() - start < 1.0


def test_the_pixel_limit_is_an_option() -> None:
    data = jpeg("red", (100, 50))
    with refused(ImageError, "100 × 50 = 5,000 pixels", "4,999", code="over-limit-pixels-decompression"):
        decode(data, "x", max_pixels=4_999)
    assert decode(data, "x", max_pixels=5_000).size == (100, 50)
    old = Image.MAX_IMAGE_PIXELS
    try:
        Image.MAX_IMAGE_PIXELS = 1_000  # stands for a picture above Pillow's own limit
        with refused(ImageError, code="over-limit-pixels-decompression"):
            decode(data, "x", max_pixels=900)
        assert decode(data, "x", max_pixels=5_000).size == (100, 50)
        assert Image.MAX_IMAGE_PIXELS == 1_000
    finally:
        Image.MAX_IMAGE_PIXELS = old


def test_a_missing_file_and_a_missing_place(write) -> None:
    with pytest.raises(ImageError, match=r"image '7' \(gone.jpg\): cannot be read: No such file or directory"):
        reader_of(write, "gone.jpg").read(0)
    nowhere = ImageReader(Collection.build("toy", images={"id": ["7"]}))
    with refused(ImageError, "image", "7", code="metadata-hand"):
        nowhere.open(0)


def test_generated_scenes_are_drawn() -> None:
    from visir.collections import open_collection

    reader = ImageReader(open_collection("scenes:3?size=64"))
    drawn = reader.open(1)
    assert (drawn.mode, drawn.size) == ("RGB", (64, 64))
    assert decode(reader.read(1), "x").tobytes() == drawn.tobytes()


def test_many_threads_read_the_same_bytes(write) -> None:
    colours = [f"#{n:02x}{(7 * n) % 256:02x}40" for n in range(64)]
    members = {f"{n}.png": jpeg(colour, form="PNG") for n, colour in enumerate(colours)}
    write("all.zip", members)
    path = write("all.tar", members)
    archives = ["all.zip"] * 64 + ["all.tar"] * 64
    collection = Collection.build(
        "toy",
        images={"id": [str(n) for n in range(128)], "path": [*members, *members], "archive": archives},
        root=path.parent,
    )
    reader = ImageReader(collection)
    expected = [*members.values(), *members.values()]
    wrong: list[int] = []

    def work(offset: int) -> None:
        for step in range(256):
            row = (offset + 37 * step) % 128
            if reader.read(row) != expected[row]:
                wrong.append(row)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.nightly
def test_decoding_is_as_fast_as_plain_pillow(data_dir) -> None:
    from visir.collections import open_collection

    reader = ImageReader(open_collection(data_dir / "flickr8k" / "dataset_flickr8k.karpathy_schema.json.xz"))
    data = [reader.read(row) for row in range(400)]

    def seconds(work) -> float:
        best = 9e9
        for _ in range(5):
            start = time.process_time()
            for one in data:
                work(one)
            best = min(best, time.process_time() - start)
        return best

    plain = seconds(lambda picture: Image.open(io.BytesIO(picture)).convert("RGB"))
    safety = 400 * 40e-6  # what is checked of a picture costs the same for all sizes: some 16 µs of 120 for thumbnails
    assert seconds(lambda picture: decode(picture, "x")) < 1.05 * plain + safety
