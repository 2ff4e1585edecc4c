"""From the bytes of an image, wherever they lie, to an upright RGB picture; how much memory that takes."""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import struct
import threading
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import PIL
from PIL import Image, UnidentifiedImageError

from visir.collections.archives import Archive, open_archive
from visir.collections.budget import DECODING, LIMIT_VARIABLE, pixel_limit
from visir.collections.draft import no_picture
from visir.collections.picture_kinds import begins_like_picture, has_heif, looks_like, register_heif
from visir.collections.segments import FRAME, check_segments, cut, file_of, part_of
from visir.errors import CollectionError, ImageError, from_system
from visir.records import HasImages
from visir.storage import MANIFEST, FolderError, check_written
from visir.version import installed_version

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.ImageCms import ImageCmsTransform


from visir.progress import Progress

BAND = 2**20
"""Pixels that are brought to RGB at a time (`visir.collections.images.to_rgb`)."""
_BITS, _SAMPLES, _TILE_WIDTH, _TILE_HEIGHT = 258, 277, 322, 323
_STORED = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16L": 2, "I;16B": 2, "I;16N": 2}
"""Bytes in which Pillow holds a pixel of these modes; four of any other."""
_OWN = {"WEBP": 12, "AVIF": 16, "HEIF": 16, "GIF": 1, "BMP": 3, "DIB": 3, "PPM": 8, "TGA": 0, "PNG": 0}
"""Bytes for each pixel that a decoder holds beside the picture, measured (`tests/collections/test_footprint.py`)."""
_IN_A_BAND = 24
_ICON = b"\0\0\1\0"
_PNG = b"\x89PNG\r\n\x1a\n"


def pixels_of(image: Image.Image) -> int:
    """The pixels that are decoded: those of the picture, or of one tile of a TIFF where that is larger."""
    width, height = image.size
    return max(width * height, _tile(image))


def bytes_of(image: Image.Image, scans: int = 1) -> int:
    """The most that decoding an opened picture, and bringing it to upright RGB, takes at any moment."""
    # `scans`: of a JPEG, the passes in which it is drawn
    width, height = image.size
    pixels, bands = width * height, len(image.getbands())
    stored = _STORED.get(image.mode, 4)
    own, form = pixels * _OWN.get(image.format or "", 4), image.format
    if form in ("JPEG", "MPO"):  # drawn in passes: every coefficient is held until the last
        own = 2 * bands * pixels if scans > 1 else 0
    elif form == "JPEG2000":
        own = 4 * (bands + 1) * pixels
    elif form == "TIFF":  # a strip may be the whole picture, and a tile larger than it
        tags = image.tag_v2  # type: ignore[attr-defined]
        bits = tags.get(_BITS, (1,))
        depth = int(max(bits if isinstance(bits, tuple) else (bits,))) * int(tags.get(_SAMPLES, 1))
        own = max(pixels, _tile(image)) * depth // 8
    # Turned upright, a picture is there twice; as RGB, if it is of another mode, once more.
    rgb = 0 if image.mode == "RGB" and "transparency" not in image.info else 4
    return pixels * (2 * stored + rgb) + own + min(pixels, BAND) * _IN_A_BAND


def icon_pixels(data: bytes) -> int:
    """The pixels of the largest frame of a Windows icon; 0 for anything else."""
    # Pillow decodes an icon as soon as it is opened, and its directory, which has a byte for each side, need not say
    # what lies in it.
    if not data.startswith(_ICON) or len(data) < 6:
        return 0
    most = 0
    for entry in range(6, 6 + 16 * struct.unpack_from("<H", data, 4)[0], 16):
        if entry + 16 > len(data):
            break
        (offset,) = struct.unpack_from("<I", data, entry + 12)
        head = data[offset : offset + 24]
        if head.startswith(_PNG) and len(head) == 24:
            width, height = struct.unpack_from(">II", head, 16)
        elif len(head) >= 12 and head[0] != 12:
            width, height = struct.unpack_from("<ii", head, 4)
        elif len(head) >= 8:  # as OS/2 wrote them
            width, height = struct.unpack_from("<HH", head, 4)
        else:
            continue
        most = max(most, abs(width) * abs(height))
    return most


def _tile(image: Image.Image) -> int:
    """The pixels of a tile of a TIFF; 0 without tiles."""
    tags = getattr(image, "tag_v2", None) if image.format == "TIFF" else None
    if tags is None:
        return 0
    return int(tags.get(_TILE_WIDTH, 0)) * int(tags.get(_TILE_HEIGHT, 0))


# Colours as a person sees them: what a profile says about the numbers of a picture, brought to sRGB, that of screens.

LARGEST = 1 << 23
"""Bytes of a profile. Those of printers have two million."""
_SPACES = {b"RGB ": "RGB", b"GRAY": "L", b"CMYK": "CMYK"}
"""What stands in the head of a profile, from byte 16, and Pillow's mode for it. Others are for devices alone."""
_USUAL_GAMMA = 0.45455
_NEARLY = 0.05

Paint: TypeAlias = Callable[[Image.Image], Image.Image]


def to_screen(image: Image.Image, paint: Paint) -> Paint | None:
    """What makes RGB for a screen of the bands of a picture; None where its numbers are for a screen already."""
    # A profile that is broken, or of another kind of colours than the picture, is passed over, as viewers do.
    profile = image.info.get("icc_profile")
    if isinstance(profile, bytes) and 128 < len(profile) <= LARGEST:
        kind = _SPACES.get(profile[16:20], "")
        grey = image.mode in ("1", "L", "LA", "La") or image.mode.startswith("I;16")
        fits = image.mode == "CMYK" if kind == "CMYK" else grey == (kind == "L") and image.mode not in ("CMYK", "LAB")
        transform = _transform(_Profile(profile), kind) if kind and fits else None
        if transform is None:
            return None
        if kind == "CMYK":
            return lambda band: _applied(transform, band)
        return lambda band: _applied(transform, paint(band).convert(kind))
    gamma = image.info.get("gamma")
    if image.format != "PNG" or "srgb" in image.info or not isinstance(gamma, float) or gamma <= 0:
        return None
    if abs(gamma - _USUAL_GAMMA) > _NEARLY:
        lights = [(value / 255) ** (1 / gamma) for value in range(256)]
        table = [round(255 * (12.92 * light if light <= 0.0031308 else 1.055 * light ** (1 / 2.4) - 0.055))
                 for light in lights] * 3  # as sRGB writes light (IEC 61966-2-1)  # fmt: skip
        return lambda band: paint(band).point(table)
    return None


class _Profile:
    """A profile that is looked up by its digest, so that the cache keeps no second copy of it."""

    def __init__(self, data: bytes) -> None:
        self.data, self._digest = data, hashlib.blake2b(data, digest_size=16).digest()

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Profile) and other._digest == self._digest


@lru_cache(maxsize=32)
def _transform(profile: _Profile, mode: str) -> ImageCmsTransform | None:
    """From a profile to sRGB; None for one that is broken, or changes nothing that can be seen."""
    from PIL import ImageCms  # without it a picture keeps its numbers

    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile.data))
        transform = ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
        sample = Image.new(mode, (512, 1))
        sample.putdata(_samples(mode))
        seen = _applied(transform, sample)
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return None
    if mode == "CMYK":
        return transform
    differences = zip(sample.convert("RGB").tobytes(), seen.tobytes(), strict=True)
    return transform if max(abs(before - after) for before, after in differences) > 2 else None


def _samples(mode: str) -> list[int] | list[tuple[int, ...]]:
    if mode == "L":
        return [value // 2 for value in range(512)]
    inks = (0,) if mode == "CMYK" else ()
    return [(36 * (place // 64), 36 * (place // 8 % 8), 36 * (place % 8), *inks) for place in range(512)]


def _applied(transform: ImageCmsTransform, band: Image.Image) -> Image.Image:
    from PIL import ImageCms

    seen = ImageCms.applyTransform(band, transform) or band
    seen.info.pop("icc_profile", None)
    return seen


# Pictures that are kept as NumPy files: an array of bytes (height, width, 3) as OpenCV holds it, blue first.


def encoded_frame(data: bytes, where: str) -> bytes:
    """The picture in a NumPy file, as the bytes of a BMP."""
    # data: The bytes of the file.
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_column, dtype = read_header(stream)
    except Exception as fault:  # a damaged header raises nearly anything
        raise ImageError(
            f"{where}: not a NumPy file ({fault}); {len(data):,} bytes.", hint="download it again, or drop it"
        ) from fault
    if dtype != np.uint8 or len(shape) != 3 or shape[2] != 3 or 0 in shape:
        raise ImageError(
            f"{where}: an array of {' × '.join(map(str, shape)) or 'one value'} of type {dtype}; "
            "a frame has height × width × 3 values of type uint8.",
            code="array-type-frame-height",
        )
    values = data[stream.tell() :]
    if len(values) != int(np.prod(shape, dtype=np.int64)):
        raise ImageError(f"{where}: the file is truncated or longer than it says.", hint="download it again")
    frame = np.frombuffer(values, np.uint8).reshape(shape, order="F" if by_column else "C")
    encoded = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(frame[:, :, ::-1])).save(encoded, "BMP")
    return encoded.getvalue()


FORMATS = ("JPEG", "MPO", "PNG", "GIF", "WEBP", "AVIF", "HEIF", "BMP", "DIB", "TIFF", "PPM", "JPEG2000", "ICO", "TGA")
"""What is decoded, by Pillow's names (HEIF where a plugin brings it). Not all that Pillow knows: an EPS file is a
program, which Pillow hands to Ghostscript, and decoders of what nobody keeps photos in are seldom looked at."""
MAX_ICON = 2**20
"""Pixels of an icon, which has 256 × 256 by its format: Pillow decodes it before anything can be asked of it."""
MAX_SCANS = 100
"""A JPEG that is drawn in more passes is refused: encoders take about ten, and 10 kB of passes cost seconds."""
_USUAL_SCANS, MAX_PASSED = 16, 2 * 10**9
"""So many passes are taken at any size, and more while all of them go over so many pixels: two and a half seconds."""
_ESCAPED = re.compile(r"\\ud[c-f][0-9a-f]{2}")
"""What `visir.collections.readers.names.escaped` makes of a byte that is no UTF-8."""
SCENE = "scene:"
"""Paths with this prefix are not files: the picture is rendered by `visir.collections.scenes`."""

PROCESS_LIMIT = -1
"""Stands for the limit of this process: `VISIR_MAX_PIXELS`, otherwise 89 million pixels."""
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
_NUMBERS_STAY = ("RGB", "RGBA", "RGBa", "P", "PA")
_AGAIN = "download it again, or drop it"
_unlimited = threading.Lock()


class TooLargeError(ImageError):
    """An image has more pixels than are decoded."""


@dataclass(frozen=True)
class Undecoded:
    """An image of which only the header was read."""

    image: Image.Image  # with size, mode, format and metadata
    pixels: int  # how many are decoded
    size: int  # bytes of memory that decoding takes
    data: bytes  # the bytes of the file
    where: str  # the name of the file in errors


def to_rgb(image: Image.Image, *, on_screen: bool = False) -> Image.Image:
    """The picture as a person sees it in a viewer: upright, on white, 8-bit RGB. Calling it twice changes nothing."""
    # - EXIF orientation is applied (the bare `convert("RGB")` of many loaders leaves phone photos lying on their side).
    # - Transparency (alpha channel or a transparent palette entry) is laid over white; `convert("RGB")` would show
    #   whatever colour the invisible pixels happen to have, mostly black.
    # - 16-bit greys are scaled by 1/257 (`convert("RGB")` clips them to white). Integers and floats of undeclared range
    #   are stretched from their own minimum and maximum.
    # - Of an animation the frame it is at: the first, when just opened.
    # - Colour profiles are applied for people only (`on_screen`): the models' own loaders ignore them. Otherwise the
    #   numbers stay, and `info["icc_profile"]` says what they mean, as long as they are red, green and blue.
    image.load()
    # Parsing metadata costs a tenth of decoding a small JPEG; most have none, and Pillow says so in `info`.
    bare = image.format == "JPEG" and not any(key in image.info for key in _METADATA)
    turn = None if bare else _TURNS.get(_orientation(image))
    if turn is not None:
        image = image.transpose(turn)
        for key in _METADATA:  # else the next reader would turn it again
            image.info.pop(key, None)
    paint = _greys_of(image) if image.mode.startswith(("I", "F")) else _painted
    screen = to_screen(image, paint) if on_screen else None
    if image.mode == "RGB" and "transparency" not in image.info and screen is None:
        if on_screen:  # one that changes nothing, or is none
            image.info.pop("icc_profile", None)
        return image
    paint = screen or paint
    width, height = image.size
    rows = max(1, BAND // max(1, width))
    profile = None if on_screen or image.mode not in _NUMBERS_STAY else image.info.get("icc_profile")
    meaning: dict[str | tuple[int, int], Any] = {} if profile is None else {"icc_profile": profile}
    if height <= rows:
        flattened = paint(image)
        flattened.info = meaning
        return flattened
    # Band by band: what lies between a mode and RGB takes several times as much as the picture.
    flattened = Image.new("RGB", image.size)
    flattened.info = meaning
    for top in range(0, height, rows):
        flattened.paste(paint(image.crop((0, top, width, min(top + rows, height)))), (0, top))
    return flattened


def _orientation(image: Image.Image) -> int:
    """How a picture is turned, 1 for not at all: a picture whose metadata are damaged is a picture."""
    try:
        turned: int = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # a damaged block raises nearly anything
        return 1
    return turned


@contextlib.contextmanager
def opened(
    data: bytes,
    where: str,
    *,
    max_pixels: int | None = PROCESS_LIMIT,
    max_bytes: int | None = None,
    least: int | None = None,
) -> Iterator[Image.Image]:
    """The picture in the bytes of one image, upright RGB, for the length of a block."""
    # Its memory counts in the budget of the process (`visir.collections.budget`) until the block ends: bring it to the
    # size that is needed inside, and open no other there.
    # data: The bytes of a file of any of `FORMATS`, whatever its name ends in.
    with (
        header(data, where, max_pixels=max_pixels, max_bytes=max_bytes) as undecoded,
        upright(undecoded, least=least) as picture,
    ):
        yield picture


def decode(
    data: bytes, where: str, *, max_pixels: int | None = PROCESS_LIMIT, max_bytes: int | None = None
) -> Image.Image:
    """The picture in the bytes of one image, upright RGB; arguments and errors as of `opened`."""
    with opened(data, where, max_pixels=max_pixels, max_bytes=max_bytes) as picture:
        return picture


@contextlib.contextmanager
def header(
    data: bytes, where: str, *, max_pixels: int | None = PROCESS_LIMIT, max_bytes: int | None = None
) -> Iterator[Undecoded]:
    """The image opened and not decoded, for the length of a block; arguments and errors as of `opened`."""
    max_pixels = _limit(max_pixels)
    with _faults(data, where):
        check_segments(data, where)
        image = _header(data, where, max_pixels)
        scans = data.count(b"\xff\xda") if image.format in ("JPEG", "MPO") else 0
        width, height = image.size
        if scans > min(MAX_SCANS, max(_USUAL_SCANS, MAX_PASSED // max(1, width * height))):
            raise ImageError(
                f"{where}: a JPEG of {width} × {height} pixels in {scans:,} passes (a bomb?).",
                hint=_AGAIN,
                lasting=True,
            )
        pixels, size = pixels_of(image), bytes_of(image, scans)
    with image:
        if max_pixels is not None and pixels > max_pixels:
            width, height = image.size
            tile = "" if pixels == width * height else " in one tile of it"
            raise _bomb(where, f"{width} × {height} = {pixels:,} pixels{tile}", pixels, max_pixels)
        if max_bytes is not None and size > max_bytes:
            raise TooLargeError(
                f"{where}: to decode it takes {size:,} bytes of memory, over the limit of {max_bytes:,}.",
                hint="make it smaller, or save it as a JPEG",
                lasting=True,
                code="decode-takes-bytes-memory",
            )
        yield Undecoded(image, pixels, size, data, where)


@contextlib.contextmanager
def upright(undecoded: Undecoded, *, least: int | None = None, on_screen: bool = False) -> Iterator[Image.Image]:
    """The picture behind a `header`, upright RGB, in the budget of the process until the block ends."""
    # least: A JPEG with more pixels is decoded at an eighth, a quarter or half of its size, as long as its shorter side
    # keeps so many; None decodes it whole.
    image = undecoded.image
    with DECODING.reserve(undecoded.size):
        with _faults(undecoded.data, undecoded.where):
            if least is not None and image.format in ("JPEG", "MPO") and max(image.size) > least:
                image.draft("RGB", (least, least))
            picture = to_rgb(image, on_screen=on_screen)
        yield picture


class ImageReader:
    """The pictures of `Items` or a `Collection` by row: from folders, zips, tars, Arrow and Parquet files.

    It may be used by several threads: archives are opened once and read at offsets, without a lock. Errors name the
    image's id and its place.

    Args:
        source: Anything with a table `images` (`id`, `path`, `archive`) and a `root`.
        max_pixels: Larger pictures are not decoded, as `opened` says; None sets no limit.
        on_screen: Whether people look at the pictures, as of `to_rgb`; otherwise they are as models get them.

    Example:
        >>> from visir.collections import open_collection
        >>> ImageReader(open_collection("scenes:3?size=64")).open(0).size
        (64, 64)
    """

    def __init__(self, source: HasImages, *, max_pixels: int | None = PROCESS_LIMIT, on_screen: bool = False) -> None:
        images = source.images
        self._ids, self._paths, self._archives = images["id"], images["path"], images["archive"]
        self._root = Path(source.root)
        self._is_written = (self._root / MANIFEST).is_file()  # visir wrote these pictures
        self._source = getattr(source, "source", "")
        self._max_pixels, self._on_screen = _limit(max_pixels), on_screen
        self._opened: dict[str, Archive] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._ids)

    def where(self, row: int) -> str:
        """The image's id and place, as errors name them."""
        path, archive = self._paths[row].as_py(), self._archives[row].as_py()
        name = self._ids[row].as_py()
        parts = [*([path] if path not in (None, name) else []), *([f"in {Path(archive).name}"] if archive else [])]
        return f"image {name!r}" + (f" ({' '.join(parts)})" if parts else "")

    def read(self, row: int) -> bytes:
        """The encoded bytes as they lie on disk (a generated scene: PNG; a part of a picture, or an array: BMP)."""
        path = self._paths[row].as_py()
        if (cropped := part_of(path)) is None:
            return self._read(row, path)
        with opened(self._read(row, cropped[0]), self.where(row), max_pixels=self._max_pixels) as picture:
            return cut(picture, cropped[1], self.where(row))

    def stored(self, row: int) -> bytes:
        """The bytes of the file or member that a picture is in, whatever part or frame of it is meant."""
        path = self._paths[row].as_py()
        return self._read(row, None if path is None else file_of(path))

    def _read(self, row: int, path: str | None) -> bytes:
        if path is None:
            raise no_picture(self.where(row), self._source)
        if path.startswith(SCENE):
            stream = io.BytesIO()
            self._render(path).save(stream, "PNG")
            return stream.getvalue()
        if path.endswith(FRAME):
            return encoded_frame(self._read(row, path.removesuffix(FRAME)), self.where(row))
        archive = self._archives[row].as_py()
        try:
            if archive is not None:
                return self._archive(archive).read(path)
            if self._is_written:
                check_written(self._root / path)
            return (self._root / path).read_bytes()
        except FolderError as fault:
            raise ImageError(f"{self.where(row)}: {fault.message}", hint=fault.hint, code=fault.code) from fault
        except (OSError, CollectionError) as fault:
            if _ESCAPED.search(path):
                reason = f"{self.where(row)}: its name is not valid Unicode (the part that is not is shown escaped)."
                raise ImageError(reason, hint="rename it") from fault
            if isinstance(fault, CollectionError):  # the archive, or the member in it
                raise ImageError(f"{self.where(row)}: {fault.message}", hint=fault.hint, code=fault.code) from fault
            reason = f"{self.where(row)}: cannot be read: {fault.strerror or fault}."
            place = "images=FOLDER_OR_ZIP says where the pictures are; " if isinstance(fault, FileNotFoundError) else ""
            refusal = from_system(fault)
            place = f"{refusal.hint}; " if refusal is not None else place
            raise ImageError(reason, hint=f"{place}visir data check lists all such images") from fault

    def absent(self) -> dict[str, ImageError]:
        """Id to fault, of the pictures that are not there or are no pictures: of a file the first bytes are read."""
        names: dict[str, Container[str]] = {}
        absent: dict[str, ImageError] = {}
        places = zip(self._ids.to_pylist(), self._paths.to_pylist(), self._archives.to_pylist(), strict=True)
        for row, (name, path, archive) in enumerate(places):
            if not self._seems_there(path, archive, names):
                try:
                    self.open(row)  # knows for certain, and says what is wrong
                except ImageError as fault:
                    absent[name] = fault
        return absent

    def _seems_there(self, path: str | None, archive: str | None, names: dict[str, Container[str]]) -> bool:
        if path is None or path.startswith(SCENE):
            return path is not None
        path = file_of(path)
        if archive is None:
            return begins_like_picture(self._root / path)
        if archive not in names:
            try:
                names[archive] = set(self._archive(archive).names())
            except CollectionError:
                return False
        return path in names[archive]

    def open(self, row: int, *, least: int | None = None) -> Image.Image:
        """The picture, upright RGB; `least` as of `upright`."""
        with self.opened(row, least=least) as picture:
            return picture

    @contextlib.contextmanager
    def opened(self, row: int, *, least: int | None = None) -> Iterator[Image.Image]:
        """The same, in the budget of the process until the context ends; `least` as of `upright`."""
        path = self._paths[row].as_py()
        if path is not None and path.startswith(SCENE):
            yield self._render(path)
            return
        with (
            header(self.read(row), self.where(row), max_pixels=self._max_pixels) as undecoded,
            upright(undecoded, least=least, on_screen=self._on_screen) as picture,
        ):
            yield picture

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
        from visir.collections.scenes import render_location

        return Image.fromarray(render_location(path))


def _header(data: bytes, where: str, max_pixels: int | None) -> Image.Image:
    """Open without decoding. Pillow has a global limit of its own, which is lifted: ours is looked at next."""
    if not data:
        raise ImageError(f"{where}: the file is empty (0 bytes).", hint=_AGAIN, lasting=True, code="file-empty-bytes")
    if max_pixels is not None and (pixels := icon_pixels(data)) > min(max_pixels, MAX_ICON):
        raise _bomb(where, f"an icon of {pixels:,} pixels", pixels, min(max_pixels, MAX_ICON))
    own, formats = Image.MAX_IMAGE_PIXELS, readable()
    try:
        return Image.open(io.BytesIO(data), formats=formats)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as fault:
        # Opening a WebP takes memory for its pixels: its size has to be looked at here. The message has it.
        size = re.search(r"\d+", str(fault)) if data[8:12] == b"WEBP" else None
        if max_pixels is not None and size is not None and int(size[0]) > max_pixels:
            raise _bomb(where, f"{int(size[0]):,} pixels", int(size[0]), max_pixels) from fault
        with _unlimited:  # `header` looks at the size
            Image.MAX_IMAGE_PIXELS = None
            try:
                return Image.open(io.BytesIO(data), formats=formats)
            finally:
                Image.MAX_IMAGE_PIXELS = own


@contextlib.contextmanager
def _faults(data: bytes, where: str) -> Iterator[None]:
    """Whatever a decoder raises as an `ImageError` that names the image."""
    try:
        yield
    except (ImageError, MemoryError):
        raise
    except UnidentifiedImageError as fault:
        likeness, remedy = looks_like(data)
        raise ImageError(
            f"{where}: not an image: {likeness}.", hint=remedy or _AGAIN, lasting=True, code="not-image"
        ) from fault
    except Exception as fault:
        # Decoders fed damaged bytes raise nearly anything (OSError, SyntaxError, struct.error, ValueError, KeyError…);
        # whatever it is, this image cannot be had.
        reason = f"{where}: broken or truncated image ({fault}); {len(data):,} bytes."
        raise ImageError(reason, hint=_AGAIN, lasting=True) from fault


def readable() -> list[str]:
    """Those of `FORMATS` that this Pillow can decode."""
    register_heif()
    Image.init()
    return [name for name in FORMATS if name in Image.OPEN]


def decoders() -> str:
    """What judges whether bytes are a picture, in one word: where it is another, a refused picture is tried again."""
    from importlib.metadata import version  # slow to import

    heif = version("pillow-heif") if has_heif() else "none"
    return f"visir-{installed_version()},pillow-{PIL.__version__},heif-{heif},pixels-{pixel_limit()}"


def _painted(image: Image.Image) -> Image.Image:
    """A picture of at most 8 bits a channel as RGB, on white."""
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        canvas = Image.new("RGBA", image.size, "white")
        canvas.alpha_composite((image.convert("LA") if image.mode == "La" else image).convert("RGBA"))
        return canvas.convert("RGB")
    if image.mode == "LAB":
        from PIL import ImageCms

        transform = ImageCms.buildTransform(ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB"), "LAB", "RGB")
        return ImageCms.applyTransform(image, transform) or image
    return image.convert("RGB")


def _greys_of(image: Image.Image) -> Callable[[Image.Image], Image.Image]:
    """What makes RGB of the bands of a picture whose greys have more than 8 bits."""
    import numpy as np

    # Pillow opened 16-bit PNGs as 32-bit integers before version 11; their range is declared all the same.
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):

        def scaled(band: Image.Image) -> Image.Image:
            return Image.fromarray(((np.asarray(band).astype(np.uint32) + 128) // 257).astype(np.uint8)).convert("RGB")

        return scaled

    def values(band: Image.Image) -> NDArray[np.float64]:
        return np.nan_to_num(np.asarray(band).astype(np.float64), posinf=0.0, neginf=0.0)

    rows = max(1, BAND // max(1, image.width))
    edges = [
        (part.min(), part.max())
        for top in range(0, image.height, rows)
        if (part := values(image.crop((0, top, image.width, min(top + rows, image.height))))).size
    ]
    low, high = float(min(low for low, _ in edges)), float(max(high for _, high in edges))
    scale = 255.0 / (high - low) if high > low else 0.0

    def stretched(band: Image.Image) -> Image.Image:
        return Image.fromarray(np.rint((values(band) - low) * scale).astype(np.uint8)).convert("RGB")

    return stretched


def _limit(max_pixels: int | None) -> int | None:
    return pixel_limit() if max_pixels == PROCESS_LIMIT else max_pixels


def _bomb(where: str, size: str, pixels: int, limit: int) -> ImageError:
    own = limit == pixel_limit()
    return TooLargeError(
        f"{where}: {size}, over the limit of {limit:,} pixels (a decompression bomb?).",
        hint=f"if the picture is meant, raise the limit: {LIMIT_VARIABLE}={pixels} before the command, or in Python "
        f'os.environ["{LIMIT_VARIABLE}"] = "{pixels}"' if own else "make it smaller",
        lasting=True,
        code="over-limit-pixels-decompression",
    )  # fmt: skip


# Hashes of pictures' bytes: equal ones are the same picture, whatever it is called.


def content_id(data: bytes) -> str:
    """What the bytes of a picture are called: 32 hexadecimal digits, of their SHA-256."""
    return hashlib.sha256(data).hexdigest()[:32]


def picture_digests(source: HasImages) -> list[str]:
    """(n,) the hash of the bytes of each picture."""
    reader = ImageReader(source)
    digests = []
    with Progress("comparing", len(reader), "images") as advance:
        for row in range(len(reader)):
            digests.append(hashlib.blake2b(reader.read(row), digest_size=16).hexdigest())
            advance(1)
    return digests
