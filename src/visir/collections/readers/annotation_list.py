"""The annotation list of ALBEF, BLIP and their kin: a JSON list of {image, caption(s)}."""

from __future__ import annotations

from pathlib import Path

from visir.collections.draft import Draft
from visir.collections.readers.names import image_id, read_ids, split_in, whole
from visir.collections.readers.sniffing import has_key, json_head, plain_stem
from visir.collections.sources import Format, Option
from visir.errors import CollectionError
from visir.files import read_json


def read(
    path: Path,
    *,
    split_name: str | None = None,
    captions_per_image: int | None = None,
    caption_ids: str | Path | None = None,
) -> Draft:
    """Read `[{"image": "val2014/COCO_val2014_….jpg", "caption": text or list of texts}, …]` ("captions" is taken
    too)."""
    # - One entry per image, or, as in the training files, one per caption: entries of the same image are joined.
    # - Image ids are those of Karpathy's JSON: COCO's number where the name holds one, else the file name.
    content = read_json(path)
    if not isinstance(content, list):
        raise CollectionError(f"{path}: expected a list of {{image, caption}}.")
    draft = Draft(plain_stem(path), path.parent, f"annotation list {path.name}")
    split = split_in(plain_stem(path)) if split_name is None else split_name
    texts_of: dict[str, list[str]] = {}
    name_of: dict[str, str] = {}
    for number, entry in enumerate(content):
        try:
            name = entry["image"]
            texts = entry["caption"] if "caption" in entry else entry["captions"]
        except (KeyError, TypeError) as fault:
            draft.fault(f"[{number}]: expected image and caption ({fault})")
            continue
        texts = [texts] if isinstance(texts, str) else texts
        if not isinstance(name, str) or not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            draft.fault(f"[{number}] ({name}): image must be text, caption text or a list of texts")
            continue
        identifier = image_id(name)
        if name_of.setdefault(identifier, name) != name:
            draft.fault(f"[{number}]: {name!r} and {name_of[identifier]!r} are both image {identifier!r}")
        texts_of.setdefault(identifier, []).extend(texts)
    ids = None if caption_ids is None else read_ids(caption_ids)
    caption_row = 0
    for identifier, texts in texts_of.items():
        draft.add_image(identifier, name_of[identifier], split)
        for position, text in enumerate(texts[:captions_per_image]):
            # Too few ids are reported below, once.
            own = f"{identifier}#{position}" if ids is None or caption_row >= len(ids) else ids[caption_row]
            draft.add_caption(own, text, identifier)
            caption_row += 1
    if ids is not None and len(ids) != caption_row:
        draft.fault(
            f"{Path(str(caption_ids)).name} has {len(ids):,} ids, and there are {caption_row:,} captions; "
            "captions_per_image=5 keeps the first five of each image"
        )
    return draft


def _sniff(path: Path) -> bool:
    text = json_head(path)
    return text.startswith(b"[") and has_key(text, "image") and (has_key(text, "caption") or has_key(text, "captions"))


FORMAT = Format(
    name="annotation_list",
    title="annotation list (ALBEF, BLIP)",
    layout='coco_karpathy_test.json: [{"image": name, "caption": text or [texts]}]',
    reference="Li et al., ALBEF (NeurIPS 2021), BLIP (ICML 2022)",
    sniff=_sniff,
    options=(
        Option("split_name", "the split of all its images (default: by the file's name)"),
        Option("captions_per_image", "keep the first so many captions of each image", None, whole(1)),
        Option("caption_ids", "list of caption ids (.npy or .txt) in the order of the captions kept"),
    ),
    read=read,
)
