"""FashionIQ, CIRR and CIRCO as their makers lay them out, with a handful of pictures."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

from PIL import Image

COLOURS = {"a": "red", "b": "green", "c": "blue", "d": "yellow", "e": "cyan", "f": "magenta", "g": "white"}


def write(file: Path, content: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps(content).encode()
    file.write_bytes(lzma.compress(data) if file.suffix == ".xz" else data)


def picture(file: Path, colour: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), colour).save(file)


def fashioniq(folder: Path, *, ending: str = ".json") -> Path:
    """One category with three splits; of its seven images of val three are named by no query."""
    pairs = [("a", "b", ["is green.", " and longer"]), ("c", "d", ["is more yellow, ", "brighter"])]
    rows = [{"candidate": first, "target": second, "captions": texts} for first, second, texts in pairs]
    for split in ("train", "val"):
        write(folder / f"captions/cap.dress.{split}{ending}", rows)
        write(folder / f"image_splits/split.dress.{split}{ending}", list("abcdefg"))
    write(folder / f"captions/cap.dress.test{ending}", [{"candidate": "e", "captions": ["is red", ""]}])
    write(folder / f"image_splits/split.dress.test{ending}", list("aeg"))
    for name, colour in COLOURS.items():
        picture(folder / f"images/{name}.png", colour)
    return folder


def cirr(folder: Path, images: int = 7) -> Path:
    """Two queries of val, and one of test1 whose target is not published."""
    names = [f"dev-{number}" for number in range(images)]
    write(folder / "image_splits/split.rc2.val.json", {name: f"./dev/{name}.png" for name in names})
    row = {"pairid": 7, "reference": "dev-0", "target_hard": "dev-1", "target_soft": {"dev-1": 1.0},
           "caption": "make it green", "img_set": {"id": 1, "members": names[:6], "reference_rank": 1}}  # fmt: skip
    other = row | {"pairid": 8, "reference": "dev-2", "target_hard": "dev-3", "caption": "make it yellow"}
    write(folder / "captions/cap.rc2.val.json", [row, other])
    names = [f"test1-{number}" for number in range(images)]
    write(folder / "image_splits/split.rc2.test1.json", {name: f"./test1/{name}.png" for name in names})
    hidden = {"pairid": 9, "reference": "test1-0", "caption": "darker", "img_set": {"id": 2, "members": names[:6]}}
    write(folder / "captions/cap.rc2.test1.json", [hidden])
    for part in ("dev", "test1"):
        for number in range(images):
            picture(folder / f"img_raw/{part}/{part}-{number}.png", list(COLOURS.values())[number % 7])
    return folder


def circo(folder: Path, images: int = 7) -> Path:
    """One query of val with three right answers, and one of test."""
    row = {"id": 0, "reference_img_id": 1, "target_img_id": 2, "gt_img_ids": [2, 3, 4], "relative_caption": "is green",
           "shared_concept": "a square", "semantic_aspects": ["addition", "viewpoint"]}  # fmt: skip
    write(folder / "annotations/val.json", [row])
    hidden = {"id": 0, "reference_img_id": 5, "relative_caption": "is red", "shared_concept": "a square"}
    write(folder / "annotations/test.json", [hidden])
    index = [{"id": number, "file_name": f"{number:012}.jpg"} for number in range(1, images + 1)]
    write(folder / "COCO2017_unlabeled/annotations/image_info_unlabeled2017.json", {"images": index})
    for number in range(1, images + 1):
        picture(folder / f"COCO2017_unlabeled/unlabeled2017/{number:012}.jpg", list(COLOURS.values())[number % 7])
    return folder
