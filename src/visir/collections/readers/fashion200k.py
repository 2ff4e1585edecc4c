"""Fashion200k: pictures of women's clothes from a shop's catalogue, with a line of description each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.collections.draft import Draft
from visir.collections.readers.names import compare_counts
from visir.collections.sources import Format, Option, one_of
from visir.errors import CollectionError
from visir.files import read_lines
from visir.records import JUDGEMENTS

# Pictures of one thing, all bearing its descriptions: judgements in which none of them is a wrong answer.


def judge_groups(draft: Draft, groups: Sequence[str], relevance: str) -> pa.Table:
    """A set of judgements in which every image of a group is a positive (grade 1) of each caption of that group."""
    # Rows hold for both tasks, so a caption finds all images of its group and an image all captions of its own. They
    # are in the order of the captions, those of one caption in the order of the images. A caption of a group of n
    # images has n rows, its own image among them: the set contains the links.
    # groups: (n,) the group of each image of the draft, in its order.
    codes = pa.array(groups, pa.string()).dictionary_encode().indices.to_numpy()
    images = np.argsort(codes, kind="stable")  # group after group, each in the order of the source
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    ids = pa.array(draft.ids, pa.string())
    group_of_caption = codes[
        pc.index_in(pa.array(draft.caption_images, pa.string()), ids).to_numpy()
    ]  # each caption's group
    rows = sizes[group_of_caption]
    caption = np.repeat(np.arange(len(rows)), rows)
    first = np.cumsum(rows) - rows
    image = images[np.arange(len(caption)) + np.repeat(starts[group_of_caption] - first, rows)]
    columns = [
        pa.repeat(relevance, len(caption)),
        pa.repeat("both", len(caption)),
        pa.array(draft.caption_ids, pa.string()).take(pa.array(caption)),
        ids.take(pa.array(image)),
        pa.repeat(pa.scalar(1.0, pa.float32()), len(caption)),
    ]
    return pa.table(columns, schema=JUDGEMENTS)


PUBLISHED = {"train images": 172_049, "test images": 29_789}
"""What the ten label files list, by what training code printed on reading them (of TIRG, Vo et al., CVPR 2019)."""
_LABELS = re.compile(r"^(?:women_)?(?P<category>[a-z]+)_(?P<split>train|test)_detect_all\.txt(?:\.gz|\.xz)?$")
_BOXES = re.compile(r"^(?:women_)?(?P<category>[a-z]+)_detection\.txt(?:\.gz|\.xz)?$")
_BOX = re.compile(r"^(?P<label>.+?)_(?P<numbers>-?\d*\.?\d+(?:_-?\d*\.?\d+){4})$")
_EDGES = ("x_min", "x_max", "y_min", "y_max")
_CLOSE = 0.006
"""How far a detection's score, written with two decimals, may lie from that of the label file."""
_ORIGIN = "the Google Drive folder linked from https://github.com/xthan/fashion-200k"


@dataclass(frozen=True)
class _Box:
    """One detection: the label of what was seen, its score, and its edges as fractions of the uncropped picture."""

    label: str
    score: float
    edges: tuple[float, ...]


def read(path: Path, *, boxes: str = "no", relevance: str = "no") -> Draft:
    """Read the folder with `labels/` (and `women/`), or `labels/` itself."""
    # - `{dress,jacket,pants,skirt,top}_{train,test}_detect_all.txt`: path, detection score and description, separated
    #   by tabs. The image id is the path (`women/dresses/casual_and_day_dresses/57996836/57996836_9.jpeg`), as others'
    #   lists of this collection have it; the caption's id is "path#0".
    # - Splits: train and test, by the label files; there is no val.
    # - Facts: `product_id` (the folder: several pictures show one product, and all bear its description: to the links
    #   the others are wrong, to the relevance "product" right), `category` (the label file's), `folder`
    #   (`dresses/casual_and_day_dresses`), `score`.
    # - A picture that is listed more than once counts once, with each different description; if a test file is among
    #   them it is a test picture. The source says how many there are.
    # The label files list 172,049 train and 29,789 test images, 201,838 in all; the source of a copy with other counts
    # says so. Thesis section 2.5.1 says 209,544. Its recalls of X-VLM in table 2.2 fit 5,000 images, which its authors'
    # log prints too; those of CLIP do not: the two models searched different galleries.
    folder = path if (path / "labels").is_dir() or path.name != "labels" else path.parent
    draft = Draft("Fashion200k", folder.absolute(), f"Fashion200k {folder.absolute().name}/labels/")
    detected = _detections(draft, folder / "detection") if boxes == "yes" else None
    facts: dict[str, dict[str, object]] = {}
    texts: dict[str, list[str]] = {}
    repeated_lines = 0
    for split, category, place, line in _lines(_label_files(folder)):
        columns = line.split("\t", 2)
        name = columns[0]
        if len(columns) != 3 or len(PurePosixPath(name).parts) < 3:
            draft.fault(f"{place}: expected women/…/PRODUCT/NAME.jpeg, score and text, found {line[:60]!r}")
            continue
        try:
            score = float(columns[1])
        except ValueError:
            draft.fault(f"{place}: expected a detection score, found {columns[1][:20]!r}")
            continue
        repeated_lines += name in facts
        if name not in facts:
            parts = PurePosixPath(name).parts
            draft.add_image(name, name, split)
            facts[name] = {"product_id": parts[-2], "category": category, "folder": "/".join(parts[1:-2])}
            facts[name] |= {"score": score} | (_fact(detected.get(name, []), score) if detected is not None else {})
        if columns[2] not in texts.setdefault(name, []):
            draft.add_caption(f"{name}#{len(texts[name])}", columns[2], name)
            texts[name].append(columns[2])
    draft.facts = pa.Table.from_pylist([{"image_id": image} | fact for image, fact in facts.items()])
    if relevance == "yes" and facts:
        draft.judgements = judge_groups(draft, [str(fact["product_id"]) for fact in facts.values()], "product")
    if repeated_lines:
        draft.notes.append(f"{repeated_lines:,} lines list a picture again")
    sizes = {f"{split} images": draft.splits.count(split) for split in ("train", "test")}
    compare_counts(draft, PUBLISHED, sizes)
    return draft


def _label_files(folder: Path) -> list[tuple[str, str, Path]]:
    """(split, category, file), those of the test split first."""
    labels = folder / "labels"
    files = sorted(labels.iterdir()) if labels.is_dir() else []
    label_files = [(match["split"], match["category"], file) for file in files if (match := _LABELS.match(file.name))]
    if not label_files:
        raise CollectionError(
            f"{folder}: no labels/*_train_detect_all.txt or labels/*_test_detect_all.txt.",
            hint=f"unpack labels and women.tar.gz into one folder; they are in {_ORIGIN}",
            code="no-labels-train-detect",
        )
    return sorted(label_files, key=lambda label_file: label_file[0] != "test")


def _lines(files: list[tuple[str, str, Path]]) -> Iterator[tuple[str, str, str, str]]:
    """(split, category, place, line) of every line that is not empty."""
    for split, category, file in files:
        for number, line in enumerate(read_lines(file), start=1):
            if line.strip():
                yield split, category, f"{file.name}, line {number}", line


def _detections(draft: Draft, folder: Path) -> dict[str, list[_Box]]:
    """The detector's boxes by picture."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    files = [file for file in files if _BOXES.match(file.name)]
    if not files:
        raise CollectionError(
            f"{folder}: no *_detection.txt in it, for boxes=yes.",
            hint=f"it is in {_ORIGIN}; boxes=no goes without",
            code="no-detection-txt-boxes",
        )
    boxes: dict[str, list[_Box]] = {}
    for file in files:
        for number, line in enumerate(read_lines(file), start=1):
            name, *cells = line.split("\t")
            for cell in filter(str.strip, cells):
                match = _BOX.match(cell.strip())
                if match is None:
                    draft.fault(
                        f"{file.name}, line {number}: expected category_score_xMin_xMax_yMin_yMax, found {cell[:60]!r}"
                    )
                    continue
                score, *edges = (float(number_text) for number_text in match["numbers"].split("_"))
                boxes.setdefault(name, []).append(_Box(match["label"], score, tuple(edges)))
    return boxes


def _fact(boxes: list[_Box], score: float) -> dict[str, object]:
    """The box with the labelled score, nulls if there is none."""
    nearest = min(boxes, key=lambda box: abs(box.score - score), default=None)
    if nearest is None or abs(nearest.score - score) > _CLOSE:
        return {"box": None} | dict.fromkeys(_EDGES)
    return {"box": nearest.label} | dict(zip(_EDGES, nearest.edges, strict=True))


def _sniff(path: Path) -> bool:
    labels = path if path.name == "labels" else path / "labels"
    return labels.is_dir() and any(_LABELS.match(file.name) for file in labels.iterdir())


FORMAT = Format(
    name="fashion200k",
    title="Fashion200k",
    layout="labels/{dress,jacket,pants,skirt,top}_{train,test}_detect_all.txt: path<TAB>score<TAB>description; "
    "women/CATEGORY/SUBCATEGORY/PRODUCT/NAME.jpeg; detection/*_detection.txt if wanted",
    reference="Han et al., Automatic Spatially-aware Fashion Concept Discovery (ICCV 2017); "
    "github.com/xthan/fashion-200k",
    sniff=_sniff,
    options=(
        Option("boxes", "'yes': the detector's boxes of detection/ as facts", "no", one_of("yes", "no")),
        Option("relevance", "'yes': the judgements 'product': all images of a product", "no", one_of("yes", "no")),
    ),
    read=read,
)
