"""Names that the published collections share, and what the beginning of a file tells of its format."""

from __future__ import annotations

import contextlib
import gc
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from visir.arrays import ArrayFileError, array_of_bytes
from visir.collections.draft import SourceDraft
from visir.display import counted
from visir.errors import CollectionError, VisirError
from visir.files import open_binary, packing, read_bytes, read_lines

HEAD = 1 << 16
CAPTION_ENDINGS = ("txt", "text", "caption", "captions", "cap")
"""Endings of files that hold the captions of the picture of the same name."""
METADATA = ("metadata.jsonl", "metadata.csv", "metadata.parquet")
"""What tells of the pictures of a folder, in the `imagefolder` convention."""


def plain_name(path: Path) -> str:
    """The file's name without the ending of what compressed it."""
    return path.stem if packing(path) else path.name


def plain_stem(path: Path) -> str:
    """The file's name without its suffixes of compression and type."""
    return Path(plain_name(path)).stem


def head(path: Path) -> bytes:
    """The first 64 KB of a file, decompressed; empty when it cannot be read."""
    if not path.is_file():
        return b""
    try:
        with open_binary(path) as stream:
            return stream.read(HEAD)
    except (OSError, EOFError, lzma.LZMAError, zlib.error, VisirError):
        return b""


def json_head(path: Path) -> bytes:
    """The first 64 KB of a JSON file, without leading white space; empty when its name does not end in `.json`."""
    return head(path).removeprefix(b"\xef\xbb\xbf").lstrip() if plain_name(path).endswith(".json") else b""


def has_key(text: bytes, *keys: str) -> bool:
    """Whether all these occur as JSON keys."""
    return all(re.search(rb'"' + re.escape(key.encode()) + rb'"\s*:', text) for key in keys)


# Reading without the cyclic garbage collector, which would look through the half-read file again and again.


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Pause it for the length of a block."""
    # A parsed annotation file is millions of small lists and dictionaries without a single cycle; every collection
    # walks all of them. For COCO's captions that is 4 of 5 seconds.
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


# What a distribution's makers say is in it, held against what a copy holds.


def compare_counts(draft: SourceDraft, published: Mapping[str, int], counts: Mapping[str, int]) -> None:
    """Note in the collection's source which counts differ from the published ones; nothing where all agree."""
    # It is a note and not a fault: a part of a distribution is a good collection, only not the one of the papers.
    pairs = [(name, counts[name], count) for name, count in published.items() if counts[name] != count]
    if pairs:
        listing = ", ".join(f"{_counted(count_here, name)} (published: {count:,})" for name, count_here, count in pairs)
        draft.notes.append(f"not the full distribution: {listing}")


def _counted(number: int, name: str) -> str:
    """A count of "images of train": "1 image of train"."""
    noun, of, split = name.partition(" of ")
    return f"{counted(number, noun)}{of}{split}"


_COCO = re.compile(r"^(?:COCO_(?:train|val|test)20\d\d_)?(\d{12})(?:\.\w+)?$")
SPLITS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
}
"""What folders and files call the three splits, and what they are called here."""


def coco_id(name: str) -> str | None:
    """COCO's image id in a picture's name ("COCO_val2014_000000391895.jpg", "000000391895.jpg"), None if it is none."""
    match = _COCO.match(name.rsplit("/", 1)[-1])
    return str(int(match[1])) if match else None


def image_id(name: str) -> str:
    """The image id that Karpathy's JSON has for a picture: COCO's number if the name holds one, else the file name."""
    return coco_id(name) or name.rsplit("/", 1)[-1]


def split_in(name: str) -> str:
    """The split that a file's or folder's name tells ("coco_karpathy_test.json": "test"), "" if none."""
    words = re.split(r"[^a-z]+", name.lower())
    splits = [SPLITS[word] for word in words if word in SPLITS]
    return splits[-1] if splits else ""


def read_ids(path: str | Path) -> list[str]:
    """A list of ids: one per line of a text file, or a one-dimensional `.npy` (both plain, `.gz` or `.xz`)."""
    path = Path(path)
    if not plain_name(path).endswith(".npy"):
        return [line.strip() for line in read_lines(path) if line.strip()]
    return [str(value) for value in read_array(path).tolist()]


def read_array(path: Path) -> np.ndarray:
    """A one-dimensional `.npy` of numbers or text; object arrays, which would be unpickled, are refused."""
    try:
        values = array_of_bytes(read_bytes(path), str(path))
    except ArrayFileError as fault:
        raise CollectionError(
            f"{fault.message} It should be a plain .npy of ids.",
            hint="save it as numbers or fixed-width text, not as objects",
            code="ids-not-plain",
        ) from fault
    if values.ndim != 1:
        raise CollectionError(f"{path}: expected one dimension of ids.")
    return values


def whole(least: int) -> Callable[[str], int]:
    """A parser of whole numbers from `least` on."""

    def parse(text: str) -> int:
        number = int(text)
        if number < least:
            raise ValueError(text)
        return number

    return parse


def escaped(name: str) -> str:
    """The name of a file as text: what is no valid Unicode in it as `\\udce9`, other names as they are."""
    return name.encode("utf-8", "backslashreplace").decode()
