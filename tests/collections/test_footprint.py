"""What decoding takes, reckoned from the header beside what it really takes; and the budget that it is taken from."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from bombs import icon, saved, tiled_tiff
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from refusals import refused
from visir.collections.budget import DECODING, Budget
from visir.collections.images import BAND, MAX_ICON, TooLargeError, decode, opened, to_rgb

SIDE = 3000
TURNED = Image.Exif()
TURNED[0x0112] = 6
STRIP = {"compression": "tiff_deflate", "strip_size": 10**9}
FAST: dict[str, tuple[str, str, dict[str, Any]]] = {
    "one bit": ("1", "PNG", {}),
    "transparent PNG": ("RGBA", "PNG", {}),
    "JPEG in passes": ("RGB", "JPEG", {"progressive": True, "subsampling": 0}),
    "WebP": ("RGBA", "WEBP", {"method": 0}),
    "floats": ("F", "TIFF", STRIP),
}
SLOW: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{f"PNG {mode}": (mode, "PNG", {}) for mode in ("L", "LA", "I;16", "RGB", "P")},
    "PNG turned": ("RGB", "PNG", {"exif": TURNED}),
    "PNG, a clear entry": ("P", "PNG", {"transparency": 0}),
    **{f"JPEG {mode}": (mode, "JPEG", {}) for mode in ("L", "RGB", "CMYK")},
    "JPEG turned": ("RGB", "JPEG", {"exif": TURNED}),
    "JPEG CMYK in passes": ("CMYK", "JPEG", {"progressive": True}),
    **{f"{form} {mode}": (mode, form, {}) for form in ("GIF", "BMP", "TGA", "PPM") for mode in ("1", "RGB")},
    "TGA packed": ("RGBA", "TGA", {"compression": "tga_rle"}),
    "WebP lossless": ("RGBA", "WEBP", {"lossless": True, "method": 0}),
    "WebP RGB": ("RGB", "WEBP", {"method": 0}),
    "AVIF": ("RGB", "AVIF", {"speed": 10}),
    "AVIF RGBA": ("RGBA", "AVIF", {"speed": 10, "subsampling": "4:4:4"}),
    **{f"JPEG2000 {mode}": (mode, "JPEG2000", {}) for mode in ("L", "RGB", "RGBA")},
    **{f"TIFF {mode}": (mode, "TIFF", STRIP) for mode in ("1", "RGB", "RGBA", "I;16", "LAB", "CMYK")},
    "TIFF of JPEG": ("RGB", "TIFF", {**STRIP, "compression": "jpeg"}),
    "TIFF as it is": ("RGB", "TIFF", {}),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks of memory are read from /proc")
@pytest.mark.parametrize("name", [*FAST, *(pytest.param(one, marks=pytest.mark.nightly) for one in SLOW)])
def test_no_decoder_takes_more_than_was_reckoned(tmp_path: Path, name: str) -> None:
    mode, form, options = {**FAST, **SLOW}[name]
    try:
        (tmp_path / "x").write_bytes(
            saved(Image.new(mode, (SIDE, SIDE), 1 if mode in "1LP" else None), form, **options)
        )
    except (KeyError, OSError) as fault:
        pytest.skip(f"this Pillow does not write it: {fault}")
    run = [sys.executable, str(Path(__file__).with_name("measured_decoding.py")), str(tmp_path / "x")]
    measured, reckoned = map(int, subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())
    assert measured <= reckoned <= 5 * measured, f"{measured / SIDE**2:.1f} of {reckoned / SIDE**2:.1f} bytes a pixel"


def test_bands_change_no_pixel() -> None:
    """A picture of several bands is what its bands are by themselves; floats know the range of the whole."""
    width, height = 1100, BAND // 1000 * 2
    slope = Image.linear_gradient("L").resize((width, height))
    for mode in ("1", "L", "P", "LA", "RGBA", "CMYK", "I;16", "I", "F"):
        image = slope.convert(mode) if mode != "I;16" else slope.convert("I").convert("I;16")
        whole = to_rgb(image.copy())
        assert whole.size == (width, height) and whole.mode == "RGB"
        for top in (0, BAND // width, height - 50):
            if mode not in ("I", "F"):
                box = (0, top, width, top + 50)
                assert whole.crop(box).tobytes() == to_rgb(image.crop(box)).tobytes(), mode
    assert to_rgb(slope.convert("F")).getextrema() == ((0, 255),) * 3


@pytest.mark.parametrize(
    "data", [tiled_tiff(64, 30_000), icon(16, 8_000), icon(16, 8_000, form="DIB")], ids=["TIFF", "icon", "icon of DIB"]
)
def test_what_a_header_hides_is_found(data: bytes) -> None:
    """A TIFF of 64 × 64 pixels in a tile of 30,000 × 30,000; icons of 16 × 16 that hold 8,000 × 8,000."""
    before = time.process_time()
    with refused(TooLargeError, code="over-limit-pixels-decompression"):
        decode(data, "x", max_pixels=32_000_000)
    assert time.process_time() - before < 0.2


def test_honest_tiles_and_icons_are_decoded() -> None:
    for size in (16, 256):
        assert decode(saved(Image.new("RGBA", (size, size), "red"), "ICO"), "x").size == (size, size)
    assert MAX_ICON > 256 * 256
    tiled = saved(Image.new("L", (300, 200), 9), "TIFF", compression="tiff_deflate", tiffinfo={322: 256, 323: 256})
    assert decode(tiled, "x").getpixel((299, 199)) == (9, 9, 9)


def test_memory_has_a_limit_of_its_own() -> None:
    """Nine million one-bit pixels are a MB by themselves, and 50 MB as they are brought to RGB."""
    data = saved(Image.new("1", (3000, 3000)), "PNG")
    with refused(TooLargeError, "20,000,000", code="decode-takes-bytes-memory"):
        decode(data, "x", max_bytes=20_000_000)
    assert decode(data, "x", max_bytes=100_000_000).size == (3000, 3000)


def test_memory_is_given_back_whatever_happens() -> None:
    good = saved(Image.new("RGB", (40, 40)), "PNG")
    with opened(good, "x"):
        assert DECODING.decoding > 4800
    for bad in (good[:-30], b"", b"hello"):
        with pytest.raises(Exception, match="x: "):
            decode(bad, "x")
    with pytest.raises(KeyError), opened(good, "x"):
        raise KeyError("of whoever uses it, and not an ImageError")
    assert DECODING.decoding == 0


@given(st.lists(st.integers(1, 130), min_size=1, max_size=12))
def test_a_budget_is_kept_and_everybody_gets_a_turn(sizes: list[int]) -> None:
    """Threads that take up to more than there is: never more at once than the limit, but for one that is alone."""
    budget, held, most = Budget(100), [], []
    lock = threading.Lock()

    def work(size: int) -> None:
        with budget.reserve(size):
            with lock:
                held.append(size)
                most.append((sum(held), len(held)))
            time.sleep(0.0005)
            with lock:
                held.remove(size)

    threads = [threading.Thread(target=work, args=(size,)) for size in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(most) == len(sizes) and budget.decoding == 0
    assert all(total <= 100 or count == 1 for total, count in most)


def test_what_waits_is_refused_and_not_waited_for() -> None:
    budget = Budget(100)
    assert budget.largest == 75
    assert budget.hold(20) and not budget.hold(6) and budget.hold(5)
    with budget.reserve(75):
        assert (budget.waiting, budget.decoding) == (25, 75)
    budget.release(25)
    assert budget.waiting == 0
