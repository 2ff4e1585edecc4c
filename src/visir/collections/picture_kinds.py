"""Which files are pictures: by the endings of their names, or by their first bytes; and what to do about the others."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

PICTURES = frozenset(
    (".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".jp2", ".avif", ".jfif")
)
"""Endings of pictures that are always read; what a file really is, decoding decides."""
HEIF = frozenset((".heic", ".heif", ".hif"))
"""Endings of the pictures of phones, which need the package pillow-heif."""
RAW = frozenset(
    (".cr2", ".cr3", ".nef", ".arw", ".dng", ".orf", ".rw2", ".raf", ".pef", ".srw", ".raw", ".nrw", ".x3f", ".iiq")
)
"""Endings of what cameras record before it is a picture."""
_VIDEO = frozenset((".mov", ".mp4", ".m4v", ".avi", ".mkv", ".mts", ".webm", ".3gp"))
_GET_HEIF = "pip install 'visir[heif]'"
_NO_RAW = "camera RAW: save them as JPEG first"
_ORDER = (HEIF, RAW, _VIDEO)
_LOOK_AGAIN = 10.0


def picture_endings() -> frozenset[str]:
    """Return the endings of the names of pictures that are read here: with HEIC where pillow-heif is installed."""
    return PICTURES | HEIF if has_heif() else PICTURES


def is_picture_name(name: str) -> bool:
    """Whether a file of this name is taken for a picture."""
    stem, _, ending = name.rpartition("/")[2].rpartition(".")
    return bool(stem) and f".{ending.lower()}" in picture_endings()


def has_heif() -> bool:
    """Whether pictures of phones (HEIC) can be read."""
    return _has_heif(int(time.monotonic() // _LOOK_AGAIN))


@lru_cache(maxsize=1)
def _has_heif(moment: int) -> bool:
    """Asked of every name, and looked up every ten seconds: a watch sees a package that is installed meanwhile."""
    return find_spec("pillow_heif") is not None


def register_heif() -> None:
    """Make Pillow read HEIC, where pillow-heif is installed."""
    if has_heif():
        import pillow_heif

        pillow_heif.register_heif_opener()


def has_no_ending(name: str) -> bool:
    """Whether a file name ends in nothing that tells a kind: no dot, or digits behind it."""
    ending = PurePosixPath(name).suffix
    return ending in ("", ".") or ending[1:].isdigit()


def begins_like_picture(path: Path) -> bool:
    """Whether the first bytes of a file are those of a picture that can be read."""
    try:
        with path.open("rb") as stream:
            head = stream.read(32)
    except OSError:
        return False
    return kind_of(head) in ("JPEG", "PNG", "GIF", "WebP", "TIFF", "BMP", "AVIF", *(("HEIC",) if has_heif() else ()))


def kind_of(head: bytes) -> str:
    """Return the kind of picture that some first bytes belong to; "" for none that is known."""
    for start, name in (
        (b"\x89PNG", "PNG"), (b"\xff\xd8", "JPEG"), (b"GIF8", "GIF"), (b"II*\0", "TIFF"), (b"MM\0*", "TIFF"),
    ):  # fmt: skip
        if head.startswith(start):
            return name
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WebP"
    if head[:2] == b"BM" and head[6:10] == bytes(4):
        return "BMP"
    if head[4:8] == b"ftyp":
        brands = head[8:12]
        return "AVIF" if brands in (b"avif", b"avis") else "HEIC" if brands in _HEIC_BRANDS else ""
    return ""


_HEIC_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")


def left_out(names: Iterable[str]) -> str:
    """Return how many files of which kind were left out, and how the kinds that matter could be read."""
    counts = Counter(PurePosixPath(name).suffix.lower() or "without ending" for name in names)
    if not counts:
        return ""
    place = {ending: number for number, endings in reversed([*enumerate(_ORDER)]) for ending in endings}
    ordered = sorted(counts, key=lambda ending: (place.get(ending, len(_ORDER)), -counts[ending], ending))
    parts = [f"{counts[ending]:,} {ending}{_remedy(ending)}" for ending in ordered[:6]]
    rest = sum(counts[ending] for ending in ordered[6:])
    return "left out: " + ", ".join(parts) + (f" and {rest:,} of other kinds" if rest else "")


def of_another_kind(data: bytes) -> tuple[str, str]:
    """Return what a file is that was fetched or named by mistake, and what to do about it; ("", "") for any other."""
    head = data[:512].lstrip().lower()
    if head.startswith((b"<!doctype html", b"<html")):
        return "an HTML page (the error page of a download?)", ""
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the file itself", "git lfs pull fetches the files"
    if head.startswith((b"<?xml", b"<svg")):
        return "XML or SVG, which has no pixels", ""
    if head.startswith((b"%!ps", b"%pdf")):
        return "PostScript or PDF, which is a program and no picture", ""
    if head.startswith(b"\xd0\xcf\x11\xe0") or (head[:2] == b"pk" and any(name in head for name in _OFFICE)):
        return "a table or text of an office program", "save the table as CSV; or visir.open(pandas.read_excel(FILE))"
    return "", ""


_OFFICE = (b"[content_types].xml", b"xl/", b"_rels/", b"application/vnd.oasis")
"""What stands at the beginning of the zips that office programs write."""


def looks_like(data: bytes) -> tuple[str, str]:
    """Return what a file that is no readable picture probably is, and what to do about it ("" for nothing special)."""
    mistake = of_another_kind(data)
    if mistake[0]:
        return mistake
    kind = kind_of(data[:32])
    if kind == "HEIC" and not has_heif():
        return "a HEIC picture, as phones make them", _GET_HEIF
    if kind:
        return f"it begins like a {kind}, but is damaged", ""
    return f"{len(data):,} bytes that no decoder knows", ""


def _remedy(ending: str) -> str:
    if ending in HEIF:
        return "" if has_heif() else f" ({_GET_HEIF})"
    return f" ({_NO_RAW})" if ending in RAW else ""
