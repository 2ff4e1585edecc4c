"""Flickr's token files: `Flickr8k.token.txt`, `results_20130124.token`; splits from lists of names beside them."""

from __future__ import annotations

import re
from pathlib import Path

from visir.collections.draft import Draft
from visir.collections.readers.names import split_in
from visir.collections.readers.sniffing import head, plain_name, plain_stem
from visir.collections.sources import Format, Option, one_of
from visir.display import counted
from visir.errors import CollectionError
from visir.files import read_lines

_LINE = re.compile(r"^(?P<image>[^\t]+)#(?P<number>\d+)\t(?P<text>.*)$", re.DOTALL)
_LIST = re.compile(r"^(?:.*[_.]|flickr8k)?(train|val|valid|dev|test)(?:Images|_images|_ids)?\.txt$", re.IGNORECASE)
UNLISTED = "unlisted"
"""The split of images that no list names."""


def read(path: Path, *, splits: str | Path | list[str] | None = None, unlisted: str = "keep") -> Draft:
    """Read `name.jpg#n<TAB>caption` lines."""
    # Image ids are file names, caption ids `name.jpg#n`, as Flickr8k's human judgements call them.
    draft = Draft(plain_stem(path), path.parent, f"token file {path.name}")
    tokens = TokenLines(draft, split_lists(path.parent, splits, path), unlisted)
    for number, line in enumerate(read_lines(path), start=1):
        match = _LINE.match(line)
        if match is None:
            draft.fault(f"{path.name}, line {number}: expected name#number<TAB>caption, found {line[:60]!r}")
            continue
        tokens.add(match["image"], f"{match['image']}#{match['number']}", match["text"])
    tokens.finish(path.name)
    return draft


class TokenLines:
    """Puts the lines of token files into a draft, with the splits that lists of names give."""

    def __init__(self, draft: Draft, lists: list[Path], unlisted: str) -> None:
        self.draft, self.lists, self.unlisted = draft, lists, unlisted
        self._split_of = _split_of(draft, lists)
        self._seen: dict[str, bool] = {}
        self._left_out = 0

    def add(self, image: str, caption: str, text: str, language: str | None = None) -> None:
        """One caption, and its image where it is new."""
        if image not in self._seen:
            split = self._split_of.pop(image, None) or self._split_of.pop(image.removesuffix(".jpg"), None)
            self._seen[image] = not self.lists or split is not None or self.unlisted == "keep"
            if self._seen[image]:
                self.draft.add_image(image, image, (split or UNLISTED) if self.lists else "")
            else:
                self._left_out += 1
        if self._seen[image]:
            self.draft.add_caption(caption, text, image, language)

    def finish(self, name: str) -> None:
        """Note what the lists did, and images that they name and the files called `name` do not."""
        for image, split in self._split_of.items():
            self.draft.fault(f"the list of {split} names image {image!r}, which has no captions in {name}")
        if self.lists:
            self.draft.notes.append(f"splits from {', '.join(file.name for file in self.lists)}")
        if self._left_out:
            self.draft.notes.append(f"{counted(self._left_out, 'images')} in no split list left out")


def split_lists(folder: Path, splits: str | Path | list[str] | None, path: Path | None = None) -> list[Path]:
    """The split lists: those in `folder`, or those that `splits` says (see `read`); never `path` itself."""
    if splits == "none":
        return []
    if isinstance(splits, list):
        return [Path(file) for file in splits]
    if isinstance(splits, str) and "," in splits:
        return [Path(file) for file in splits.split(",")]
    folder = folder if splits is None else Path(splits)
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise CollectionError(f"{folder}: no such folder.", hint="splits= is the folder of the split lists")
    lists = sorted(file for file in folder.iterdir() if _LIST.match(plain_name(file)) and file != path)
    if splits is not None and not lists:
        raise CollectionError(
            f"{folder}: no split lists (files such as test.txt, Flickr_8k.testImages.txt) in it.",
            code="no-split-lists-files",
        )
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
