"""FashionIQ: a photo of a garment and two captions that say how the wanted one differs from it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from visir.collections.readers.composed import add_query, check_documents, files_like, ids_in, reference_option, rows_of
from visir.collections.readers.names import compare_counts
from visir.collections.sources import Format, Option, one_of
from visir.collections.task_draft import TaskDraft, TaskSetDraft
from visir.display import counted
from visir.files import read_json

MEASURES = ("hit@10", "hit@50")
CATEGORIES = ("dress", "shirt", "toptee")
_CAPTIONS = re.compile(rf"cap\.({'|'.join(CATEGORIES)})\.(train|val|test)\.json")
_SPLITS = re.compile(rf"split\.({'|'.join(CATEGORIES)})\.(train|val|test)\.json")
PUBLISHED = {"dress images of val": 3_817, "shirt images of val": 6_346, "toptee images of val": 5_373}


def read(path: Path, *, captions: str = "and", gallery: str = "split", reference: str = "candidate") -> TaskSetDraft:
    """Read `cap.CATEGORY.SPLIT.json` and `split.CATEGORY.SPLIT.json`, each category a task of its own."""
    # The two captions of a query are joined by "and", without full stops and commas at their ends. "each" makes every
    # caption a query of its own, as VAL does.
    # The gallery of a category is its image split (the benchmark's). `gallery=val` takes the pictures that the queries
    # of the split name instead, references and targets (VAL's, and of those who compare with it): a smaller gallery
    # makes every number higher. The targets of test are not published, so there it is the image split in both readings.
    lists = files_like(path, _SPLITS) if path.is_dir() else {}
    queries = files_like(path, _CAPTIONS) if path.is_dir() else {}
    if not queries:
        raise FORMAT.lacks(path, "no cap.dress.val.json, cap.shirt.train.json, … in it")
    without = [f"no split.{category}.{split}.json" for category, split in queries if (category, split) not in lists]
    if without:
        raise FORMAT.lacks(path, *without)
    draft = TaskSetDraft("FashionIQ", path, f"FashionIQ {path.absolute().name}/")
    counts = dict.fromkeys(PUBLISHED, 0)
    for (category, split), file in sorted(queries.items()):
        task = draft.parts.get(category) or draft.add_task(category)
        task.measures = MEASURES
        images = ids_in(read_json(lists[category, split]))
        if images is None:
            draft.fault(f"{lists[category, split].name}: expected a list of image names")
            continue
        if f"{category} images of {split}" in counts:
            counts[f"{category} images of {split}"] = len(images)
        rows = list(rows_of(draft, file, ("candidate",)))
        shown = {str(row[key]) for _, row in rows for key in ("candidate", "target") if key in row}
        known = set(images)
        wanted = shown & known if gallery == "val" and split != "test" else known
        for image in dict.fromkeys(images):
            if image in wanted:
                task.galleries[split, image] = None
                if image not in task.documents.known:
                    task.add_item("documents", image, None, picture=f"{image}.*")
        lacking = sum(row.get("target") is None for _, row in rows)
        if 0 < lacking < len(rows):
            draft.notes.append(f"{file.name}: {counted(lacking, 'queries')} without a target, not measured")
        repeated = len(rows) - len({json.dumps(row, sort_keys=True) for _, row in rows})
        if repeated:  # as in the published test part, where each is answered
            draft.notes.append(f"{file.name}: {counted(repeated, 'queries')} repeat another one, and count as well")
        for number, (place, row) in enumerate(rows):
            _add(task, category, split, number, place, row, captions, reference == "excluded")
    if draft.parts.keys() >= set(CATEGORIES) and gallery == "split":
        compare_counts(draft, PUBLISHED, counts)
    draft.notes.append(f"captions {captions}, gallery {gallery}, reference {reference}")
    return draft


def _add(
    task: TaskDraft, category: str, split: str, number: int, place: str, row: dict[str, Any], how: str, excluded: bool
) -> None:
    texts = row.get("captions")
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        task.fault(f"{place}: no captions")
        return
    reference, target = str(row["candidate"]), row.get("target")
    named = [reference] if target is None else [reference, str(target)]
    if not check_documents(task, split, f"{category}-{split}-{number}", place, *named):
        return
    for ending, text in _joined(texts, how).items():
        query = f"{category}-{split}-{number}{ending}"
        grades = None if target is None else {str(target): 1.0}
        add_query(task, query, text, reference, f"{reference}.*", split, grades)
        if excluded:
            task.excluded[query, reference] = None


def _joined(captions: list[str], how: str) -> dict[str, str]:
    """The texts of a query, by what its id ends in."""
    clean = [text.strip(" .,?\n\t") for text in captions]
    if how == "each":
        return {f"#{number}": text for number, text in enumerate(clean)}
    if how == "first":
        return {"": clean[0]}
    return {"": " and ".join(filter(None, clean))}


def _sniff(path: Path) -> bool:
    if not path.is_dir():
        return False
    names = [entry.name for folder in (path, path / "captions") if folder.is_dir() for entry in folder.iterdir()]
    return any(_CAPTIONS.fullmatch(name.removesuffix(".xz").removesuffix(".gz")) for name in names)


FORMAT = Format(
    name="fashioniq",
    title="FashionIQ (composed retrieval of garments)",
    layout="cap.dress.val.json: [{candidate, target, captions: [2]}]; split.dress.val.json: [images]; also shirt and "
    "toptee, train and test; here or in captions/ and image_splits/; photos B00006M009.jpg",
    reference="Wu et al., Fashion IQ (CVPR 2021); gallery=val: Chen, Gong, Bazzani, VAL (CVPR 2020)",
    obtain="git clone https://github.com/XiaoxiaoGuo/fashion-iq; photos: https://github.com/hongwang600/fashion-iq-metadata",
    sniff=_sniff,
    options=(
        Option(
            "captions",
            "the two captions of a query: and (joined), each (a query each, as VAL), first",
            "and",
            one_of("and", "each", "first"),
        ),
        Option(
            "gallery",
            "split (the benchmark's image split) or val (the references and targets of the queries, as VAL)",
            "split",
            one_of("split", "val"),
        ),
        reference_option("candidate"),
    ),
    read=read,
)
