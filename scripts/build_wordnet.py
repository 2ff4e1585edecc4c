"""Make visir's word net file from WordNet 3.0's own database files.

    python scripts/build_wordnet.py wordnet-base_3.0-37_all.deb
    python scripts/build_wordnet.py /usr/share/wordnet

What is given is either the folder with `data.noun`, `index.noun`, `noun.exc` and their like for verbs, adjectives and
adverbs, or Debian's package `wordnet-base` (`apt download wordnet-base`; unpacked with `dpkg-deb`). The result is
written into the package, beside its reader `visir.robustness.language.wordnet`, which describes its columns.

Kept are lemmas, their senses in order, hypernyms and the exceptions of inflection; glosses, verb frames and all other
relations are left out. Equal files give an equal result, byte for byte (with the same liblzma). What the reader derives
(which synsets a lemma has, and in which order) is compared with the index files before anything is written.
"""

from __future__ import annotations

import io
import lzma
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.files import read_lines
from visir.robustness.language.wordnet import FILE, Pos, WordNet
from visir.storage import write_new

FILES: dict[Pos, str] = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}


def main() -> None:
    """Build the file from the folder or the package named on the command line."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python scripts/build_wordnet.py FOLDER-OR-DEB")
    source = Path(sys.argv[1])
    try:
        if source.is_dir():
            content = build(source)
        else:
            with tempfile.TemporaryDirectory() as unpacked:
                subprocess.run(["dpkg-deb", "-x", str(source), unpacked], check=True)
                content = build(Path(unpacked) / "usr/share/wordnet")
    except VisirError as fault:
        raise SystemExit(str(fault)) from None
    write_new(FILE, content, replace=True)
    print(f"{FILE}: {FILE.stat().st_size:,} bytes")


def build(folder: Path) -> bytes:
    """The content of the file, from the database files in `folder`; what its reader makes of it is checked."""
    try:
        columns, places = read(folder)
    except (KeyError, ValueError, IndexError) as fault:
        raise VisirError(
            f"{folder}: no database of WordNet that is whole: {fault!r}.", hint="are these the files of WordNet 3.0?"
        ) from fault
    check(WordNet(columns), folder, places)
    stream = io.BytesIO()
    np.savez(stream, **columns)  # type: ignore[arg-type]
    return lzma.compress(stream.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def read(folder: Path) -> tuple[dict[str, NDArray[Any]], dict[tuple[str, int], int]]:
    """The columns, and which number the synset at a place (part of speech, byte offset) of the data files got."""
    lines: list[list[str]] = []
    places: dict[tuple[str, int], int] = {}
    for pos, name in FILES.items():
        for line in database(folder / f"data.{name}"):
            fields = line.split("|", 1)[0].split()  # offset, file, kind, lemmas, pointers; the gloss follows "|"
            places[pos, int(fields[0])] = len(lines)
            lines.append(fields)
    order = {
        (lemma, synset): sense
        for pos in FILES
        for lemma, synsets in index(folder, pos, places).items()
        for sense, synset in enumerate(synsets)
    }
    lemmas, hypernyms = [], []
    for fields in lines:
        last = 4 + 2 * int(fields[3], 16)  # lemmas alternate with ids in hexadecimal
        lemmas.append([re.sub(r"\([^()]*\)$", "", lemma) for lemma in fields[4:last:2]])  # "galore(ip)": a position
        pointers = zip(*[iter(fields[last + 1 : last + 1 + 4 * int(fields[last])])] * 4, strict=True)
        hypernyms.append([places[pos, int(at)] for kind, at, pos, _ in pointers if kind in ("@", "@i")])
    columns: dict[str, NDArray[Any]] = {
        "lemmas": text("\n".join(" ".join(names) for names in lemmas)),
        "senses": np.array([order[one.lower(), i] for i, names in enumerate(lemmas) for one in names], np.uint8),
        "kinds": text("".join(fields[2] for fields in lines)),
        "hypernyms": np.array([one for several in hypernyms for one in several], "<i4"),
        "hypernym_counts": np.array([len(several) for several in hypernyms], np.uint8),
    }
    for pos, name in FILES.items():
        columns[f"exceptions_{pos}"] = text("\n".join(read_lines(folder / f"{name}.exc")))
    # Byte after byte of all numbers instead of number after number: a tenth less after compression.
    columns["hypernyms"] = columns["hypernyms"].view(np.uint8).reshape(-1, 4).T.copy()
    return columns, places


def index(folder: Path, pos: Pos, places: dict[tuple[str, int], int]) -> dict[str, list[int]]:
    """The synsets of each lemma, in the order of its senses, as an index file lists them."""
    found = {}
    for line in database(folder / f"index.{FILES[pos]}"):
        fields = line.split()
        found[fields[0]] = [places[pos, int(at)] for at in fields[-int(fields[2]) :]]
    return found


def check(made: WordNet, folder: Path, places: dict[tuple[str, int], int]) -> None:
    """Raise unless the reader finds, for every lemma of the index files, the synsets listed there, and no other."""
    for pos in FILES:
        listed = index(folder, pos, places)
        wrong = [lemma for lemma, synsets in listed.items() if made.synsets(lemma, pos) != synsets]
        kinds = {"a": "as"}.get(pos, pos)
        ours = [synset for synset in range(len(made)) if made.pos_of(synset) in kinds]
        more = {lemma.lower() for synset in ours for lemma in made.lemmas(synset)} - set(listed)
        if wrong or more:
            raise VisirError(
                f"{folder}: {len(wrong)} lemmas of index.{FILES[pos]} are not found as listed "
                f"(the first: {wrong[:1]}), {len(more)} more are found.",
                hint="are these the files of WordNet 3.0?",
            )


def database(path: Path) -> list[str]:
    """The lines of a database file without its licence, whose lines begin with blanks."""
    return [line for line in read_lines(path) if not line.startswith(" ")]


def text(content: str) -> NDArray[np.uint8]:
    """A text as its bytes."""
    return np.frombuffer(content.encode(), np.uint8)


if __name__ == "__main__":
    main()
