"""Densely Captioned Images (DCI): photos with a dense description each, and summaries of 77 tokens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from visir.collections.draft import Draft
from visir.collections.readers.names import SPLITS, compare_counts
from visir.collections.sources import Format, Option, one_of
from visir.display import counted
from visir.errors import CollectionError, VisirError
from visir.files import read_json

TEXTS = ("extended", "short", "complete", "summary", "summaries")
PUBLISHED = {"images": 7_805}
_FOLDERS = ("complete", "annotations")


def read(path: Path, *, text: str = "extended") -> Draft:
    """Read the folder `densely_captioned_images`: a JSON file for each photo, `splits.json`, and `photos/`."""
    folder = next((each for each in (path, path / "densely_captioned_images") if _is_dci(each)), None)
    if folder is None:
        missing = ["no folder annotations/ or complete/ with a JSON file for each photo"]
        raise FORMAT.lacks(path, *missing, *([] if (path / "splits.json").is_file() else ["no splits.json"]))
    source = next(folder / name for name in _FOLDERS if (folder / name).is_dir())
    split_of, notes = _splits(folder)
    draft = Draft("DCI", folder, f"Densely Captioned Images {folder.absolute().name}/, {text}", notes=notes)
    without, facts = 0, []
    for file in sorted(source.glob("*.json")):
        entry = _entry(draft, file)
        if entry is None:
            continue
        texts = _texts(entry, text)
        if not texts:
            without += 1
            continue
        identifier = file.stem
        draft.add_image(identifier, entry["image"], split_of.pop(file.name, "unlisted" if split_of else ""))
        facts.append({"image_id": identifier, "masks": len(entry.get("mask_data") or ())})
        for number, caption in enumerate(texts):
            draft.add_caption(f"{identifier}#{number}", caption, identifier)
    if without and not draft.ids:
        raise CollectionError(
            f"{source}: no photo has {text}.",
            hint="the summaries are in the folder complete/ of dci.tar.gz",
            code="no-photo",
        )
    if without:
        draft.notes.append(f"{counted(without, 'photos')} without {text} left out")
    draft.facts = pa.Table.from_pylist(facts) if facts else None
    compare_counts(draft, PUBLISHED, {"images": len(draft.ids)})
    return draft


def _is_dci(folder: Path) -> bool:
    return any((folder / name).is_dir() and any((folder / name).glob("*.json")) for name in _FOLDERS)


def _splits(folder: Path) -> tuple[dict[str, str], list[str]]:
    """The split of each annotation file, and what to note."""
    if not (folder / "splits.json").is_file():
        return {}, ["no splits.json: no splits"]
    content = read_json(folder / "splits.json")
    if not isinstance(content, dict) or not all(isinstance(names, list) for names in content.values()):
        raise CollectionError(f"{folder / 'splits.json'}: expected {{split: [annotation files]}}.")
    return {str(name): SPLITS.get(str(split), str(split)) for split, names in content.items() for name in names}, []


def _entry(draft: Draft, file: Path) -> dict[str, Any] | None:
    """The content of one annotation file; None, and a fault, where it is none."""
    try:
        entry = read_json(file)
    except VisirError as fault:
        draft.fault(str(fault.message))
        return None
    lacking = [key for key in ("image", "short_caption") if not isinstance(entry, dict) or not entry.get(key)]
    if lacking:
        draft.fault(f"{file.name}: no {', '.join(lacking)}")
        return None
    return dict(entry)


def _texts(entry: Mapping[str, Any], text: str) -> list[str]:
    short, extra = str(entry["short_caption"]), str(entry.get("extra_caption") or "")
    extended = "\n".join(filter(None, [short.strip(), extra.strip()]))
    if text == "short":
        return [short.strip()]
    if text == "extended":
        return [extended]
    if text == "complete":
        return ["\n".join([extended, *filter(None, map(_of_mask, (entry.get("mask_data") or {}).values()))])]
    summaries = (entry.get("summaries") or {}).get("base")
    listed = [summaries] if isinstance(summaries, str) else list(summaries or ())
    texts = [str(summary).strip() for summary in listed if str(summary).strip()]
    return texts[:1] if text == "summary" else texts


def _of_mask(mask: Mapping[str, Any]) -> str:
    """The text of one masked part: label and caption; the label alone where the mask is poor; nothing if unusable."""
    quality, label = mask.get("mask_quality", 0), str(mask.get("label") or "").strip()
    if quality == 2:
        return ""
    caption = str(mask.get("caption") or "").strip()
    return f"{label}: {caption}" if quality == 0 and caption else label


def _sniff(path: Path) -> bool:
    if not path.is_dir():
        return False
    folder = path / "densely_captioned_images" if (path / "densely_captioned_images").is_dir() else path
    return (folder / "splits.json").is_file() and _is_dci(folder)


FORMAT = Format(
    name="dci",
    title="Densely Captioned Images (DCI, sDCI)",
    layout="densely_captioned_images/: annotations/*.json or complete/*.json {image, short_caption, extra_caption, "
    "mask_data, summaries}, splits.json {split: [files]}, photos/",
    reference="Urbanek et al., A Picture is Worth More Than 77 Text Tokens (CVPR 2024)",
    obtain="https://dl.fbaipublicfiles.com/densely_captioned_images/dci.tar.gz; the photos are of SA-1B "
    "(https://github.com/facebookresearch/DCI)",
    sniff=_sniff,
    options=(
        Option("text", "the captions: extended, short, complete, summary or summaries", "extended", one_of(*TEXTS)),
    ),
    read=read,
)
