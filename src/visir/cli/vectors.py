"""What the verbs search with: a picture, or texts from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.records import Vectors


def picture_vector(encoder: Encoder, path: Path) -> Vectors:
    """The vector of a picture that is searched with, under the id "query"."""
    from visir.collections.images import decode
    from visir.files import open_binary

    with open_binary(path) as stream:
        image = decode(stream.read(), str(path))
    return encoder.encode_inputs("image", {"query": image})


def read_queries(path: Path) -> dict[str, str]:
    """{id: text} from a file of lines "id, tab, text" (plain, .gz, .xz). Faults name their lines, all at once."""
    from visir.errors import ConfigurationError, raise_faults
    from visir.files import read_lines

    texts: dict[str, str] = {}
    faults = []
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        name, tab, text = line.partition("\t")
        if not tab or not name.strip() or not text.strip():
            faults.append(f"line {number}: {line[:60]!r} is not an id, a tab, and a text")
        elif name.strip() in texts:
            faults.append(f"line {number}: the id {name.strip()!r} is there already")
        else:
            texts[name.strip()] = text.strip()
    if not texts and not faults:
        faults.append("there is no query")
    raise_faults(ConfigurationError, str(path), faults, hint="one query a line: q1<TAB>a dog on a beach")
    return texts
