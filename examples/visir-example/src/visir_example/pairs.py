"""A format of collections: a file `NAME.pairs` with a picture's path, a tab and a caption in each line."""

from __future__ import annotations

from pathlib import Path

from visir.collections.draft import Draft
from visir.collections.sources import Format
from visir.files import read_lines


def read(path: Path) -> Draft:
    """Read a file of pairs; every line that is no pair is a fault, and all faults are raised together."""
    draft = Draft(path.stem, path.parent, f"pairs in {path.name}")
    pictures: set[str] = set()
    for number, line in enumerate(read_lines(path), 1):
        picture, tab, caption = line.partition("\t")
        if not (picture and tab and caption):
            draft.fault(f"{path.name}, line {number}: expected path<TAB>caption, found {line[:60]!r}")
            continue
        if picture not in pictures:
            pictures.add(picture)
            draft.add_image(picture, picture)
        draft.add_caption(f"{picture}#{number}", caption, picture)
    return draft


FORMAT = Format(
    name="pairs",
    title="pairs of a picture and a caption",
    layout="NAME.pairs: path<TAB>caption in each line, paths relative to the file",
    reference="docs/how-to/extend-visir.md",
    sniff=lambda path: path.suffix == ".pairs",
    read=read,
)
