"""Flickr's token files: `Flickr8k.token.txt`, `results_20130124.token`; splits from lists of names beside them."""

from __future__ import annotations

import re
from pathlib import Path

from visir.collections.descriptor import Format, Option, one_of
from visir.collections.draft import Draft
from visir.collections.readers.names import split_in
from visir.collections.readers.sniffing import head, plain_name, plain_stem
from visir.errors import CollectionError
from visir.files import read_lines

_LINE = re.compile(r"^(?P<image>[^\t]+)#(?P<number>\d+)\t(?P<text>.*)$", re.DOTALL)
_LIST = re.compile(r"^(?:.*[_.])?(train|val|valid|dev|test)(?:Images|_images|_ids)?\.txt$", re.IGNORECASE)
UNLISTED = "unlisted"
"""The split of images that no list names."""


def read(path: Path, *, splits: str | Path | list[str] | None = None, unlisted: str = "keep") -> Draft:
    """Read `name.jpg#n<TAB>caption` lines.

    Image ids are file names, caption ids `name.jpg#n`, as Flickr8k's human judgements call them.

    Args:
        path: The file.
        splits: The folder of the split lists, or the lists themselves (`Flickr_8k.testImages.txt`, `split_test.txt`,
            `test.txt`; one file name per line, with or without ".jpg"). By default they are looked for beside the file;
            with none, every image is in the split "". "none" looks for none.
        unlisted: Images in no list are a split of their own, "unlisted" ("keep"), or left out ("drop"). Flickr8k has
            92: 91 photos outside the standard splits, and `2258277193_586949ec62.jpg.1`, a name that no photo bears.
    """
    draft = Draft(plain_stem(path), path.parent, f"token file {path.name}")
    lists = _lists(path, splits)
    split_of = _split_of(draft, lists)
    seen: dict[str, bool] = {}
    left_out = 0
    for number, line in enumerate(read_lines(path), start=1):
        match = _LINE.match(line)
        if match is None:
            draft.fault(f"{path.name}, line {number}: expected name#number<TAB>caption, found {line[:60]!r}")
            continue
        image = match["image"]
        if image not in seen:
            split = split_of.pop(image, None) or split_of.pop(image.removesuffix(".jpg"), None)
            seen[image] = not lists or split is not None or unlisted == "keep"
            if seen[image]:
                draft.add_image(image, image, (split or UNLISTED) if lists else "")
            else:
                left_out += 1
        if seen[image]:
            draft.add_caption(f"{image}#{match['number']}", match["text"], image)
    for image, split in split_of.items():
        draft.fault(f"the list of {split} names image {image!r}, which has no captions in {path.name}")
    if lists:
        draft.notes.append(f"splits from {', '.join(file.name for file in lists)}")
    if left_out:
        draft.notes.append(f"{left_out} images in no split list left out")
    return draft


def _lists(path: Path, splits: str | Path | list[str] | None) -> list[Path]:
    if splits == "none":
        return []
    if isinstance(splits, list):
        return [Path(file) for file in splits]
    if isinstance(splits, str) and "," in splits:
        return [Path(file) for file in splits.split(",")]
    folder = path.parent if splits is None else Path(splits)
    if folder.is_file():
        return [folder]
    lists = sorted(file for file in folder.iterdir() if _LIST.match(plain_name(file)) and file != path)
    if splits is not None and not lists:
        raise CollectionError(f"{folder}: no split lists (files such as test.txt, Flickr_8k.testImages.txt) in it.")
    return lists


def _split_of(draft: Draft, lists: list[Path]) -> dict[str, str]:
    split_of: dict[str, str] = {}
    for file in lists:
        match = _LIST.match(plain_name(file))
        split = split_in(match[1]) if match else split_in(plain_stem(file)) or plain_stem(file)
        for line in read_lines(file):
            name = line.strip()
            if name and split_of.setdefault(name, split) != split:
                draft.fault(f"image {name!r} is in the lists of {split_of[name]} and of {split}")
    return split_of


def _sniff(path: Path) -> bool:
    first = head(path).split(b"\n", 1)[0]
    return re.match(rb"^(?:\xef\xbb\xbf)?[^\t\n]+#\d+\t", first) is not None


FORMAT = Format(
    name="flickr_tokens",
    title="Flickr token file",
    layout="Flickr8k.token.txt or results_20130124.token: name.jpg#n<TAB>caption; lists of the splits beside it",
    reference="Hodosh, Young, Hockenmaier (JAIR 47, 2013); Young et al. (TACL 2014)",
    sniff=_sniff,
    options=(
        Option("splits", "folder of the split lists, or the lists, comma-separated; 'none' for none (default: beside)"),
        Option("unlisted", "images in no list: 'keep' as split 'unlisted', or 'drop'", "keep", one_of("keep", "drop")),
    ),
    read=read,
)
