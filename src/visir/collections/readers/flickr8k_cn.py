"""Flickr8k-CN: Chinese captions of Flickr8k's photos, by people and by machines."""

from __future__ import annotations

import re
from pathlib import Path

from visir.collections.draft import Draft
from visir.collections.readers.flickr_tokens import TokenLines, split_lists
from visir.collections.readers.sniffing import head, plain_name
from visir.collections.sources import Format, Option, one_of
from visir.errors import CollectionError
from visir.files import read_lines

SETS = {
    "zhc": "Chinese, written by people",
    "zhm": "Chinese, English captions translated by people (test photos only)",
    "zhb": "Chinese, translated by Baidu's machine",
    "zhg": "Chinese, translated by Google's machine",
    "enc": "the English captions",
}
"""The sets of captions, by the code in the names of their files."""
_LINE = re.compile(r"^(?P<image>[^\t#]+)#(?P<set>[a-z]+)#(?P<number>\d+)[ \t](?P<text>.*)$", re.DOTALL)
_FILE = re.compile(r"^flickr8k(enc|zh[a-z]+?)(?:test)?\.captions?\.txt$")


def read(
    path: Path, *, captions: str = "zhc", splits: str | Path | list[str] | None = None, unlisted: str = "keep"
) -> Draft:
    """Read `flickr8kzhc.caption.txt` and its siblings: `name.jpg#zhc#n caption` in every line."""
    # Ids are those of Flickr8k: file names, and `name.jpg#zhc#n`. Captions have the language "zh" or "en".
    # captions: Which captions of a folder: "zhc" (written by people), "zhm", "zhb", "zhg" (translations), "enc"
    # (English), or several, joined by "+". A file is read whatever it holds.
    folder = path.parent if path.is_file() else path
    files = [path] if path.is_file() else _files(path, captions.split("+"))
    draft = Draft("Flickr8k-CN", folder, f"Flickr8k-CN {', '.join(file.name for file in files)}")
    tokens = TokenLines(draft, split_lists(folder, splits, path), unlisted)
    for file in files:
        for number, line in enumerate(read_lines(file), start=1):
            match = _LINE.match(line)
            if match is None:
                if line.strip():
                    draft.fault(f"{file.name}, line {number}: expected name.jpg#zhc#0 caption, found {line[:60]!r}")
                continue
            image, code = match["image"], match["set"]
            language = "en" if code.startswith("en") else "zh"
            tokens.add(image, f"{image}#{code}#{match['number']}", match["text"].strip(), language)
    tokens.finish(files[0].name)
    if not tokens.lists:
        draft.notes.append("no split lists beside it: splits=FOLDER takes those of Flickr8k")
    return draft


def _files(folder: Path, codes: list[str]) -> list[Path]:
    """The files of these sets of captions in a folder."""
    files = {}
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if match := _FILE.match(plain_name(file)):
            files[match[1]] = file
    if not files:
        raise FORMAT.lacks(folder, "no flickr8kzhc.caption.txt in it")
    missing = [code for code in codes if code not in files]
    if missing:
        raise CollectionError(
            f"{folder}: no captions {missing[0]!r} ({SETS[missing[0]]}).",
            hint=f"there are: {', '.join(files)}; others: {FORMAT.obtain}",
            code="collection-no-captions",
        )
    return [files[code] for code in codes]


def _captions(text: str) -> str:
    """One or several sets, joined by "+"."""
    return "+".join(map(one_of(*SETS), text.split("+")))


def _sniff(path: Path) -> bool:
    if path.is_dir():
        try:
            return any(file.name.startswith("flickr8k") and _FILE.match(plain_name(file)) for file in path.iterdir())
        except OSError:
            return False
    match = _LINE.match(head(path).split(b"\n", 1)[0].decode("utf-8", "replace"))
    return match is not None and match["set"][:2] in ("zh", "en")


FORMAT = Format(
    name="flickr8k-cn",
    title="Flickr8k-CN (Chinese captions)",
    layout="flickr8kzhc.caption.txt (also zhm, zhb, zhg, enc): name.jpg#zhc#n caption; photos of Flickr8k",
    reference="Li et al., Adding Chinese Captions to Images (ICMR 2016)",
    obtain="https://github.com/li-xirong/flickr8kcn (folder data/)",
    sniff=_sniff,
    options=(
        Option("captions", "of a folder: zhc (by people), zhm, zhb, zhg (translations), enc, or several: zhc+enc",
               "zhc", _captions),
        Option("splits", "folder of the split lists, or the lists, comma-separated; 'none' for none (default: beside)"),
        Option("unlisted", "photos in no list: 'keep' as split 'unlisted', or 'drop'", "keep", one_of("keep", "drop")),
    ),
    read=read,
)  # fmt: skip
