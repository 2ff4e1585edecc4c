"""CIRCO: photos of COCO's unlabeled2017, a change in words, and several right answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from visir.collections.readers.composed import add_query, files_like, ids_in, reference_option, rows_of
from visir.collections.readers.names import compare_counts
from visir.collections.readers.sniffing import has_key, json_head, plain_stem
from visir.collections.sources import Format, Option, one_of
from visir.collections.task_draft import TaskDraft
from visir.errors import CollectionError
from visir.files import read_json

ASPECTS = (
    *("cardinality", "addition", "negation", "direct_addressing", "compare_change", "comparative_statement"),
    *("statement_with_conjunction", "spatial_relations_background", "viewpoint"),
)
"""The semantic aspects of a query: each is a label, "yes" or "no"."""
MEASURES = tuple(f"{name}@{k}" for name in ("capped_map", "hit(rel=2)") for k in (5, 10, 25, 50))
_ANNOTATIONS = re.compile(r"(val|test)\.json")
_INDEX = re.compile(r"(image_info_unlabeled2017)\.json")
PUBLISHED = {"queries of val": 220, "queries of test": 800, "images": 123_403}


def read(path: Path, *, index: str = "", text: str = "caption", reference: str = "candidate") -> TaskDraft:
    """Read `val.json` and `test.json`; the documents are the images of COCO's unlabeled2017."""
    # A query has several right answers: `gt_img_ids` with grade 1, `target_img_id` with grade 2. The benchmark's mAP@k
    # is `capped_map@k`, over all of them; its recall@k counts the target alone, which is `hit(rel=2)@k`. The answers of
    # test are not published.
    # The index comes from `image_info_unlabeled2017.json` (123,403 images). Without that file it is the pictures that
    # the annotations name, which is another and much easier benchmark; `index=named` has to be said for it.
    files = _files(path)
    if not files:
        raise FORMAT.lacks(path, "no val.json and no test.json with relative_caption in it")
    draft = TaskDraft("CIRCO", path if path.is_dir() else path.parent, f"CIRCO {path.absolute().name}", task="it2i")
    draft.submission, draft.measures = "circo", MEASURES
    rows = {
        split: list(rows_of(draft, file, ("id", "reference_img_id", "relative_caption")))
        for split, file in sorted(files.items())
    }
    images = _index(path, index, [row for listed in rows.values() for _, row in listed])
    for image, name in images.items():
        draft.add_item("documents", image, None, picture=name)
    for split, listed in rows.items():
        for place, row in listed:
            _add(draft, split, place, row, images, text, reference == "excluded")
    counts = {f"queries of {split}": len(listed) for split, listed in rows.items()} | {"images": len(images)}
    compare_counts(draft, {name: count for name, count in PUBLISHED.items() if name in counts}, counts)
    draft.notes.append(f"text {text}, reference {reference}")
    return draft


def _add(
    draft: TaskDraft, split: str, place: str, row: dict[str, Any], images: dict[str, str], how: str, excluded: bool
) -> None:
    query, reference = f"{split}-{row['id']}", str(row["reference_img_id"])
    grades: dict[str, float] | None = None
    if split == "val" or "gt_img_ids" in row:
        answers = ids_in(row.get("gt_img_ids"))
        if not answers or "target_img_id" not in row:
            draft.fault(f"{place}: no {'target_img_id' if answers else 'gt_img_ids'}")
            return
        grades = dict.fromkeys(answers, 1.0) | {str(row["target_img_id"]): 2.0}
    missing = [image for image in (reference, *(grades or {})) if image not in images]
    if missing:
        draft.fault(f"{place}: picture {missing[0]!r} of query {query!r} is not in the index")
        return
    if query in draft.queries.known:
        draft.fault(f"{place}: query {query!r} stands twice")
        return
    caption = str(row["relative_caption"])
    if how == "concept" and isinstance(row.get("shared_concept"), str):
        caption = f"{row['shared_concept']} that {caption}"
    add_query(draft, query, caption, reference, images[reference], split, grades)
    aspects = row.get("semantic_aspects")
    if isinstance(aspects, list):
        for aspect in ASPECTS:
            draft.labels.setdefault(aspect, {})[query] = "yes" if aspect in aspects else "no"
    if excluded:
        draft.excluded[query, reference] = None


def _files(path: Path) -> dict[str, Path]:
    if path.is_file():
        return {plain_stem(path): path} if plain_stem(path) in ("val", "test") and _is_circo(path) else {}
    files = files_like(path, _ANNOTATIONS) if path.is_dir() else {}
    return {split: file for (split,), file in files.items() if _is_circo(file)}


def _index(path: Path, index: str, rows: list[dict[str, Any]]) -> dict[str, str]:
    """The id of each image of the index → its file name."""
    if index == "named":
        ids = [str(row["reference_img_id"]) for row in rows]
        ids += [image for row in rows for image in ids_in(row.get("gt_img_ids")) or ()]
        return {image: f"{image:0>12}.jpg" for image in ids}
    folder = path if path.is_dir() else path.parent
    files = [Path(index)] if index else list(_index_files(folder))
    if not files:
        raise FORMAT.lacks(
            path,
            "no image_info_unlabeled2017.json beside it, which lists the 123,403 images that are searched (index=FILE "
            "names it; index=named searches the pictures of the annotations alone, another and easier benchmark)",
        )
    content = read_json(files[0])
    listed = content.get("images") if isinstance(content, dict) else None
    if not isinstance(listed, list) or not all(isinstance(image, dict) and "id" in image for image in listed):
        raise CollectionError(f"{files[0]}: no list of images.", hint="expected COCO's image_info_unlabeled2017.json")
    return {str(image["id"]): str(image.get("file_name") or f"{image['id']:0>12}.jpg") for image in listed}


def _index_files(folder: Path) -> list[Path]:
    own = files_like(folder, _INDEX)
    deeper = [file for part in ("COCO2017_unlabeled",) for file in (folder / part).glob("annotations/image_info_*")]
    beside = files_like(folder.parent / "COCO2017_unlabeled", _INDEX) if folder.name == "annotations" else {}
    return [*own.values(), *deeper, *beside.values()]


def _is_circo(file: Path) -> bool:
    return has_key(json_head(file), "relative_caption", "shared_concept", "reference_img_id")


def _sniff(path: Path) -> bool:
    if path.is_file():
        return plain_stem(path) in ("val", "test") and _is_circo(path)
    files = [folder / name for folder in (path, path / "annotations") for name in ("val.json", "test.json")]
    return any(file.is_file() and _is_circo(file) for file in files)


FORMAT = Format(
    name="circo",
    title="CIRCO (composed retrieval with several right answers)",
    layout="annotations/val.json: [{id, reference_img_id, target_img_id, gt_img_ids, relative_caption, shared_concept, "
    "semantic_aspects}]; test.json; COCO2017_unlabeled/annotations/image_info_unlabeled2017.json; photos in "
    "COCO2017_unlabeled/unlabeled2017/",
    reference="Baldrati et al., Zero-Shot Composed Image Retrieval with Textual Inversion (ICCV 2023)",
    obtain="git clone https://github.com/miccunifi/CIRCO; http://images.cocodataset.org/zips/unlabeled2017.zip and "
    "http://images.cocodataset.org/annotations/image_info_unlabeled2017.zip",
    sniff=_sniff,
    options=(
        Option("index", "the file of the images that are searched (default: beside), or named: those it names", ""),
        Option(
            "text",
            "the text of a query: caption, or concept (the shared concept before it)",
            "caption",
            one_of("caption", "concept"),
        ),
        reference_option("candidate"),
    ),
    read=read,
)
