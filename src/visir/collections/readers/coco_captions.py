"""COCO's own captions JSON: `captions_train2014.json`, `captions_val2017.json`, and whatever else has that layout."""

from __future__ import annotations

import re
from pathlib import Path

from visir.collections.draft import Draft
from visir.collections.readers.names import identifier, split_in
from visir.collections.readers.sniffing import has_key, json_head, plain_stem
from visir.collections.sources import Format, Option
from visir.errors import CollectionError
from visir.files import read_json

_OFFICIAL = re.compile(r"^captions_(train|val|test)(20\d\d)\.json(?:\.gz|\.xz)?$")


def read(path: Path, *, split_name: str | None = None) -> Draft:
    """Read one captions file, or a folder of `captions_{train,val}YYYY.json` merged into one collection."""
    # Image ids are COCO's image ids, caption ids its annotation ids, both as text. Beware: COCO's own train and val are
    # not the splits of the retrieval literature, which uses Karpathy's: read `dataset_coco.json` for those.
    files = [path] if path.is_file() else _official(path)
    if not files:
        raise CollectionError(f"{path}: no captions_*.json in this folder.", hint="name the file")
    years = {_OFFICIAL.match(file.name)[2] for file in files if len(files) > 1}  # type: ignore[index]
    if len(years) > 1:
        raise CollectionError(
            f"{path}: captions of {' and '.join(sorted(years))}, which hold the same pictures in other splits.",
            hint="name one file, or keep one year in the folder",
            code="captions-hold-same-pictures",
        )
    root = path.parent if path.is_file() else path
    draft = Draft(plain_stem(path), root, f"COCO captions {', '.join(file.name for file in files)}")
    for file in files:
        _read_file(draft, file, split_in(file.name) if split_name is None else split_name)
    return draft


def _read_file(draft: Draft, file: Path, split: str) -> None:
    content = read_json(file)
    missing = [
        key
        for key in ("images", "annotations")
        if not isinstance(content, dict) or not isinstance(content.get(key), list)
    ]
    if missing:
        raise CollectionError(
            f"{file}: not COCO's captions layout: no list {' and no list '.join(missing)}.",
            code="not-coco-captions-layout",
        )
    for number, image in enumerate(content["images"]):
        try:
            name = image["file_name"]
            if not isinstance(name, str):
                raise TypeError("file_name is not text")
            draft.add_image(identifier(image["id"]), name, split)
        except (KeyError, TypeError) as fault:
            draft.fault(f"{file.name}: images[{number}]: expected id and file_name ({fault})")
    for number, annotation in enumerate(content["annotations"]):
        try:
            text = annotation["caption"]
            if not isinstance(text, str):
                raise TypeError("caption is not text")
            draft.add_caption(identifier(annotation["id"]), text, identifier(annotation["image_id"]))
        except (KeyError, TypeError) as fault:
            draft.fault(f"{file.name}: annotations[{number}]: expected id, image_id and caption ({fault})")


def _official(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if _OFFICIAL.match(file.name))


def _sniff(path: Path) -> bool:
    if path.is_dir():  # the folder of the distribution; elsewhere other collections may lie beside the file
        return path.name == "annotations" and bool(_official(path))
    text = json_head(path)
    return text.startswith(b"{") and (has_key(text, "file_name", "images") or has_key(text, "annotations", "image_id"))


FORMAT = Format(
    name="coco_captions",
    title="COCO captions JSON",
    layout="captions_val2017.json: {images: [{id, file_name}], annotations: [{id, image_id, caption}]}, or the folder "
    "annotations/ with one year of them",
    reference="Chen et al., Microsoft COCO Captions (2015), cocodataset.org",
    sniff=_sniff,
    options=(Option("split_name", "the split of all its images (default: by the file's name)"),),
    read=read,
)
