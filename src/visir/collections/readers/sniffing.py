"""Looking at the beginning of a file to tell its format: quick, and silent about files that cannot be read."""

from __future__ import annotations

import lzma
import re
import zlib
from pathlib import Path

from visir.errors import VisirError
from visir.files import open_binary

HEAD = 1 << 16


def plain_name(path: Path) -> str:
    """The file's name without `.gz` or `.xz`."""
    return path.stem if path.suffix in (".gz", ".xz") else path.name


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
