"""The VSE++ layout: `{split}_caps.txt` with five lines per image, and `{split}_ids.txt` where they are at hand.

Also the layout of SCAN and of everything built on the two (`coco_precomp`, `f30k_precomp`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from visir.collections.draft import Draft
from visir.collections.readers.names import SPLITS, image_id, read_ids, whole
from visir.collections.sources import Format, Option
from visir.errors import CollectionError, nearest
from visir.files import find_file, read_json, read_lines

_CAPS = re.compile(r"^(?P<prefix>.*?)(?P<split>train|dev|val|testall|test)_caps\.txt(?:\.gz|\.xz)?$")


@dataclass(frozen=True)
class _CaptionFile:
    """The captions of one split."""

    prefix: str
    split: str
    caps: Path

    def beside(self, name: str) -> Path | None:
        return find_file(self.caps.with_name(f"{self.prefix}{name}"))


def read(
    path: Path,
    *,
    captions_per_image: int = 5,
    splits: str | None = None,
    caption_ids: str | Path | None = None,
) -> Draft:
    """Read a folder of `*_caps.txt`, or one such file."""
    # - Line i belongs to image i // 5 (`captions_per_image`). An empty line is an empty caption and keeps its place.
    # - Image ids come from `{split}_ids.txt`: one id per image, or one per caption, each image repeated five times in a
    #   row. Both occur; the number of lines says which it is. `id_mapping.json` (id to file name), where there is one,
    #   names the pictures, and COCO's number in that name becomes the image id. With no ids file images are called by
    #   split and position ("test/17"), and have no pictures.
    # - Splits: "dev" is called "val" here, "testall" "test". Where both `testall` and `test` are there (COCO), `test`
    #   is left out: it is the first 1,000 images of `testall`.
    parts = _parts(path, splits)
    draft = Draft(_name(path, parts), parts[0].caps.parent, f"VSE++ captions {', '.join(p.caps.name for p in parts)}")
    if len(parts) > 1 and caption_ids is not None:
        raise CollectionError(f"{path}: caption_ids= belongs to one split; name one *_caps.txt, not the folder.")
    ids = None if caption_ids is None else read_ids(caption_ids)
    for part in parts:
        _read_part(draft, part, captions_per_image, ids)
    if all(name is None for name in draft.names):
        draft.names = []
        draft.notes.append("no picture names (no ids with id_mapping.json)")
    return draft


def _read_part(draft: Draft, part: _CaptionFile, per_image: int, caption_ids: list[str] | None) -> None:
    lines = read_lines(part.caps)
    if len(lines) % per_image:
        raise CollectionError(
            f"{part.caps}: {len(lines):,} lines are no multiple of {per_image}.",
            hint="is the file complete? captions_per_image= says how many lines an image has",
            code="lines-no-multiple",
        )
    if caption_ids is not None and len(caption_ids) != len(lines):
        raise CollectionError(
            f"{part.caps}: {len(lines):,} captions, but {len(caption_ids):,} caption ids.", code="captions-caption-ids"
        )
    images = len(lines) // per_image
    split = {"testall": "test"}.get(part.split, SPLITS.get(part.split, part.split))
    ids_file, mapping_file = part.beside(f"{part.split}_ids.txt"), part.caps.parent / "id_mapping.json"
    names: list[str | None] = [None] * images
    if ids_file is None:
        ids = [f"{part.split}/{number}" for number in range(images)]
    else:
        ids = _image_ids(ids_file, images, per_image)
        if mapping_file.is_file():
            mapping = read_json(mapping_file)
            names = [mapping.get(identifier) for identifier in ids]
            for identifier, name in zip(ids, names, strict=True):
                if name is None:
                    draft.fault(f"{ids_file.name}: id {identifier} is not in {mapping_file.name}")
            ids = [identifier if name is None else image_id(name) for identifier, name in zip(ids, names, strict=True)]
    for identifier, name in zip(ids, names, strict=True):
        draft.add_image(identifier, name, split)
    for number, line in enumerate(lines):
        image, position = ids[number // per_image], number % per_image
        draft.add_caption(f"{image}#{position}" if caption_ids is None else caption_ids[number], line, image)


def _image_ids(file: Path, images: int, per_image: int) -> list[str]:
    ids = read_ids(file)
    if len(ids) == images:
        return ids
    if len(ids) != images * per_image:
        raise CollectionError(
            f"{file}: {len(ids):,} ids, but there are {images:,} images with {per_image} captions each.",
            hint=f"expected {images:,} ids, or {images * per_image:,} with every image repeated {per_image} times",
            code="ids-images-captions-each",
        )
    for start in range(0, len(ids), per_image):
        if len(set(ids[start : start + per_image])) > 1:
            raise CollectionError(
                f"{file}, line {start + 1}: the {per_image} captions of one image have different image ids: "
                f"{', '.join(ids[start : start + per_image])}.",
                code="captions-one-image-different",
            )
    return ids[::per_image]


def _parts(path: Path, splits: str | None) -> list[_CaptionFile]:
    files = [path] if path.is_file() else sorted(path.iterdir()) if path.is_dir() else []
    matched = [(match, file) for file in files if (match := _CAPS.match(file.name))]
    parts = [_CaptionFile(match["prefix"], match["split"], file) for match, file in matched]
    if not parts:
        raise CollectionError(f"{path}: no *_caps.txt here.", hint="expected files such as test_caps.txt")
    prefixes = sorted({part.prefix for part in parts})
    if len(prefixes) > 1:
        raise CollectionError(f"{path}: several collections ({', '.join(prefixes)}).", hint="name one *_caps.txt")
    order = ["train", "dev", "val", "test", "testall"]
    by_split = {part.split: part for part in sorted(parts, key=lambda part: order.index(part.split))}
    if splits is None:
        if "testall" in by_split:
            by_split.pop("test", None)
        return list(by_split.values())
    for split in splits.split(","):
        if split not in by_split:
            raise CollectionError(f"{path}: no {split}_caps.txt.", hint=nearest(split, by_split), code="no-caps-txt")
    return [by_split[split] for split in splits.split(",")]


def _name(path: Path, parts: list[_CaptionFile]) -> str:
    return parts[0].prefix.strip("_") or (path.name if path.is_dir() else path.absolute().parent.name)


def _sniff(path: Path) -> bool:
    if path.is_dir():
        return any((match := _CAPS.match(file.name)) and not match["prefix"] for file in path.iterdir())
    return _CAPS.match(path.name) is not None


FORMAT = Format(
    name="vsepp",
    title="VSE++ / SCAN captions",
    layout="{train,dev,test,testall}_caps.txt, five lines per image; {split}_ids.txt and id_mapping.json if at hand",
    reference="Faghri et al., VSE++ (BMVC 2018); Lee et al., SCAN (ECCV 2018)",
    sniff=_sniff,
    options=(
        Option("captions_per_image", "how many lines an image has", 5, whole(1)),
        Option("splits", "which splits of the folder, comma-separated, as the files are called"),
        Option("caption_ids", "list of caption ids (.npy or .txt), one per line of captions"),
    ),
    read=read,
)
