"""From the bytes of an image, wherever they lie, to an upright RGB picture."""

from __future__ import annotations

import io
import re
import threading
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from visir.collections.archives import Archive, open_archive
from visir.errors import CollectionError, ImageError
from visir.records import Collection

MAX_PIXELS = 89_478_485
"""Images with more pixels are refused before they are decoded (a quarter GiB as RGB; Pillow's own warning limit)."""
FORMATS = ("JPEG", "MPO", "PNG", "GIF", "WEBP", "AVIF", "HEIF", "BMP", "DIB", "TIFF", "PPM", "JPEG2000", "ICO", "TGA")
"""What is decoded, by Pillow's names (HEIF where a plugin brings it). Not all that Pillow knows: an EPS file is a
program, which Pillow hands to Ghostscript, and decoders of what nobody keeps photos in are seldom looked at."""
MAX_SCANS = 100
"""A JPEG that is drawn in more passes is refused: encoders take about ten, and 10 kB of passes cost seconds."""
_ESCAPED = re.compile(r"\\ud[c-f][0-9a-f]{2}")
"""What `visir.collections.readers.names.escaped` makes of a byte that is no UTF-8."""
SCENE = "scene:"
"""Paths with this prefix are not files: the picture is rendered by `visir.collections.scenes`."""

_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_METADATA = ("exif", "XML:com.adobe.xmp", "xmp", "Raw profile type exif")
_AGAIN = "download it again, or drop it"
_unlimited = threading.Lock()


class TooLargeError(ImageError):
    """An image has more pixels than are decoded."""


def to_rgb(image: Image.Image) -> Image.Image:
    """The picture as a person sees it in a viewer: upright, on white, 8-bit RGB. Calling it twice changes nothing.

    - EXIF orientation is applied (the bare `convert("RGB")` of many loaders leaves phone photos lying on their side).
    - Transparency (alpha channel or a transparent palette entry) is laid over white; `convert("RGB")` would show
      whatever colour the invisible pixels happen to have, mostly black.
    - 16-bit greys are scaled by 1/257 (`convert("RGB")` clips them to white). Integers and floats of undeclared range
      are stretched from their own minimum and maximum.
    - Of an animation the frame it is at: the first, when just opened. Colour profiles are not applied, because the
      models' own loaders do not.
    """
    image.load()
    # Parsing metadata costs a tenth of decoding a small JPEG; most have none, and Pillow says so in `info`.
    bare = image.format == "JPEG" and not any(key in image.info for key in _METADATA)
    turn = None if bare else _TURNS.get(image.getexif().get(_ORIENTATION, 1))
    if turn is not None:
        image = image.transpose(turn)
        for key in _METADATA:  # else the next reader would turn it again
            image.info.pop(key, None)
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith(("I", "F")):
        return _from_wide(image).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        canvas = Image.new("RGBA", image.size, "white")
        canvas.alpha_composite((image.convert("LA") if image.mode == "La" else image).convert("RGBA"))
        return canvas.convert("RGB")
    if image.mode == "LAB":
        from PIL import ImageCms

        transform = ImageCms.buildTransform(ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB"), "LAB", "RGB")
        return ImageCms.applyTransform(image, transform) or image
    return image.convert("RGB")


def decode(data: bytes, where: str, *, max_pixels: int | None = MAX_PIXELS) -> Image.Image:
    """Decode the bytes of one image (any of `FORMATS`, whatever its name ends in) to upright RGB.

    `where` names the image in errors. `max_pixels` refuses decompression bombs before a pixel is decoded; None sets no
    limit. Raises `ImageError` for empty, foreign, broken and truncated files alike.
    """
    if not data:
        raise ImageError(f"{where}: the file is empty (0 bytes).", hint=_AGAIN)
    if data.startswith(b"\xff\xd8") and (scans := data.count(b"\xff\xda")) > MAX_SCANS:
        raise ImageError(f"{where}: a JPEG of {scans:,} passes, over the limit of {MAX_SCANS} (a bomb?).", hint=_AGAIN)
    try:
        with _opened(data, max_pixels) as image:
            width, height = image.size
            if max_pixels is not None and width * height > max_pixels:
                raise _bomb(where, f"{width} × {height} = {width * height:,} pixels", max_pixels)
            return to_rgb(image)
    except (ImageError, MemoryError):
        raise
    except UnidentifiedImageError as fault:
        raise ImageError(f"{where}: not an image: {_looks_like(data)}.", hint=_AGAIN) from fault
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as fault:
        raise _bomb(where, str(fault).split(",")[0], max_pixels or MAX_PIXELS) from fault
    except Exception as fault:
        # Decoders fed damaged bytes raise nearly anything (OSError, SyntaxError, struct.error, ValueError, KeyError…);
        # whatever it is, this image cannot be had.
        raise ImageError(f"{where}: broken or truncated image ({fault}); {len(data):,} bytes.", hint=_AGAIN) from fault


class ImageReader:
    """The pictures of a collection by row of `collection.images`, from folders, zips, tars and Arrow files alike.

    Thread-safe: archives are opened once and read at offsets, without a lock. Errors name the image's id and its place.
    """

    def __init__(self, collection: Collection, *, max_pixels: int | None = MAX_PIXELS) -> None:
        images = collection.images
        self._ids, self._paths, self._archives = images["id"], images["path"], images["archive"]
        self._root = Path(collection.root)
        self._max_pixels = max_pixels
        self._opened: dict[str, Archive] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._ids)

    def where(self, row: int) -> str:
        """The image's id and place, as errors name them."""
        path, archive = self._paths[row].as_py(), self._archives[row].as_py()
        place = "" if path is None else f" ({path} in {Path(archive).name})" if archive else f" ({path})"
        return f"image {self._ids[row].as_py()!r}{place}"

    def read(self, row: int) -> bytes:
        """The encoded bytes as they lie on disk (a generated scene: PNG)."""
        path = self._paths[row].as_py()
        if path is None:
            raise ImageError(
                f"{self.where(row)}: only its metadata is at hand.",
                hint="say where the pictures are: images=FOLDER_OR_ZIP (--images; in a recipe data.images)",
            )
        if path.startswith(SCENE):
            stream = io.BytesIO()
            self._render(path).save(stream, "PNG")
            return stream.getvalue()
        archive = self._archives[row].as_py()
        try:
            if archive is not None:
                return self._archive(archive).read(path)
            return bytes((self._root / path).read_bytes())
        except (OSError, CollectionError) as fault:
            if _ESCAPED.search(path):
                reason = f"{self.where(row)}: its name is not valid Unicode (the part that is not is shown escaped)."
                raise ImageError(reason, hint="rename it") from fault
            if isinstance(fault, CollectionError):  # the archive, or the member in it
                raise ImageError(f"{self.where(row)}: {fault.message}", hint=fault.hint) from fault
            reason = f"{self.where(row)}: cannot be read: {fault.strerror or fault}."
            raise ImageError(reason, hint="visir data check lists all such images") from fault

    def open(self, row: int) -> Image.Image:
        """The picture, upright RGB."""
        path = self._paths[row].as_py()
        if path is not None and path.startswith(SCENE):
            return self._render(path)
        return decode(self.read(row), self.where(row), max_pixels=self._max_pixels)

    def _archive(self, name: str) -> Archive:
        opened = self._opened.get(name)
        if opened is None:
            with self._lock:
                opened = self._opened.get(name)
                if opened is None:
                    opened = self._opened[name] = open_archive(self._root / name)
        return opened

    @staticmethod
    def _render(path: str) -> Image.Image:
        from visir.collections import scenes

        return Image.fromarray(scenes.render_location(path))


def _opened(data: bytes, max_pixels: int | None) -> Image.Image:
    """Open without decoding. Pillow refuses above a global limit of its own; it is lifted only when ours is higher."""
    own, formats = Image.MAX_IMAGE_PIXELS, readable()
    try:
        return Image.open(io.BytesIO(data), formats=formats)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        if own is None or (max_pixels is not None and max_pixels <= own):
            raise
        with _unlimited:
            Image.MAX_IMAGE_PIXELS = None
            try:
                return Image.open(io.BytesIO(data), formats=formats)
            finally:
                Image.MAX_IMAGE_PIXELS = own


def readable() -> list[str]:
    """Those of `FORMATS` that this Pillow can decode."""
    Image.init()
    return [one for one in FORMATS if one in Image.OPEN]


def _from_wide(image: Image.Image) -> Image.Image:
    """Greys of more than 8 bits to 8 bits."""
    import numpy as np

    values = np.asarray(image)
    # Pillow opened 16-bit PNGs as 32-bit integers before version 11; their range is declared all the same.
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):
        return Image.fromarray(((values.astype(np.uint32) + 128) // 257).astype(np.uint8))
    floats = np.nan_to_num(values.astype(np.float64), posinf=0.0, neginf=0.0)
    low, high = float(floats.min()), float(floats.max())
    scale = 255.0 / (high - low) if high > low else 0.0
    return Image.fromarray(np.rint((floats - low) * scale).astype(np.uint8))


def _bomb(where: str, size: str, limit: int) -> ImageError:
    return TooLargeError(
        f"{where}: {size} is over the limit of {limit:,} pixels (a decompression bomb?).",
        hint="if the picture is meant, raise the limit: ImageReader(collection, max_pixels=…)",
    )


def _looks_like(data: bytes) -> str:
    """What a file that is no image probably is: what a failed download leaves behind most often."""
    head = data[:512].lstrip().lower()
    if head.startswith((b"<!doctype html", b"<html")):
        return "an HTML page (the error page of a download?)"
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the file itself"
    if head.startswith((b"<?xml", b"<svg")):
        return "XML or SVG, which has no pixels"
    if head.startswith((b"%!ps", b"%pdf")):
        return "PostScript or PDF, which is a program and no picture"
    for start, name in ((b"\x89PNG", "PNG"), (b"\xff\xd8", "JPEG"), (b"GIF8", "GIF"), (b"RIFF", "WebP")):
        if data.startswith(start):
            return f"it begins like a {name}, but is damaged"
    return f"{len(data):,} bytes that no decoder knows"
