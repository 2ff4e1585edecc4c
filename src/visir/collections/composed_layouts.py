"""Published benchmarks of composed image retrieval: a picture and a change in words as query, pictures as documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from visir.collections.draft import SourceDraft, TaskDraft, TaskSetDraft
from visir.collections.layout import reader
from visir.collections.readers.locate import relative
from visir.collections.readers.names import compare_counts, has_key, identifier, json_head, plain_name, plain_stem
from visir.collections.sources import Format
from visir.display import counted
from visir.errors import CollectionError
from visir.files import read_json
from visir.records import IMAGE


def _files_like(folder: Path, pattern: str) -> dict[tuple[str, ...], Path]:
    """The files in a folder and the folders in it whose plain names fit a pattern, by the groups of the pattern."""
    files: dict[tuple[str, ...], Path] = {}
    for file in [*sorted(folder.glob("*")), *sorted(folder.glob("*/*"))] if folder.is_dir() else ():
        match = re.fullmatch(pattern, plain_name(file))
        if match is None or not file.is_file():
            continue
        if match.groups() in files:
            first = relative(files[match.groups()], folder)
            raise CollectionError(
                f"{folder}: {first} and {relative(file, folder)}: which of them?",
                hint="leave one of them",
                code="two-of-a-kind",
            )
        files[match.groups()] = file
    return files


def _paired_files(layout: Format, path: Path, kinds: str, example: str) -> list[tuple[tuple[str, ...], Path, Path]]:
    """The files `cap.KIND.SPLIT.json`, each with its kind and split, and its `split.KIND.SPLIT.json`."""
    queries, lists = (_files_like(path, rf"{begin}\.{kinds}\.json") for begin in ("cap", "split"))
    if not queries:
        raise layout.lacks(path, f"no {example} in it")
    without = [f"no split.{'.'.join(key)}.json" for key in queries if key not in lists]
    if without:
        raise layout.lacks(path, *without)
    return [(key, file, lists[key]) for key, file in sorted(queries.items())]


def _has_captions(path: Path, pattern: str) -> bool:
    """Whether a folder, or captions/ in it, has a file whose name without .gz or .xz fits."""
    folders = [folder for folder in (path, path / "captions") if folder.is_dir()]
    return any(re.fullmatch(pattern, plain_name(entry)) for folder in folders for entry in folder.iterdir())


def _composed_rows(draft: SourceDraft, file: Path, texts: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON list, each with its place; a row that lacks one of the named ids or texts is a fault."""
    content = read_json(file)
    if not isinstance(content, list):
        draft.fault(f"{file.name}: expected a list of queries")
        return
    for number, row in enumerate(content):
        place = f"{file.name}, entry {number + 1}"
        if not isinstance(row, dict):
            draft.fault(f"{place}: expected an object")
            continue
        missing = [key for key in texts if not isinstance(row.get(key), str | int)]
        if missing:
            draft.fault(f"{place}: no {', '.join(missing)}")
            continue
        yield place, row


def ids_in(values: object) -> list[str] | None:
    """A list of ids as text; None for anything else."""
    try:
        return [identifier(value) for value in values] if isinstance(values, list) else None
    except TypeError:
        return None


def _add_query(
    task: TaskDraft, query: str, text: str, reference: str, name: str, split: str, grades: Mapping[str, float] | None
) -> None:
    """Add one composed query."""
    task.add_item("queries", query, text, picture=name)
    task.labels.setdefault(IMAGE, {})[query] = reference
    if grades is None:
        task.unjudged[split, query] = None
    for document, grade in (grades or {}).items():
        task.judgements[split, query, document] = grade


def _are_documents(task: TaskDraft, split: str, query: str, place: str, *documents: str) -> bool:
    """Whether these pictures are documents of a split; a fault where they are not."""
    missing = [document for document in documents if (split, document) not in task.galleries]
    if missing:
        task.fault(f"{place}: picture {missing[0]!r} of query {query!r} is not in the gallery of {split}")
    return not missing


_GARMENTS = {"dress": 3_817, "shirt": 6_346, "toptee": 5_373}
"""The categories of FashionIQ, and how many images the gallery of val has."""
_FASHIONIQ = r"(dress|shirt|toptee)\.(train|val|test)"


@reader("fashioniq", sniff=lambda path: _has_captions(path, rf"cap\.{_FASHIONIQ}\.json"))
def fashioniq(path: Path, *, captions: str, gallery: str, reference: str) -> TaskSetDraft:
    """Read `cap.CATEGORY.SPLIT.json` and `split.CATEGORY.SPLIT.json`, each category a task of its own."""
    # The two captions of a query are joined by "and", without full stops and commas at their ends. "each" makes every
    # caption a query of its own, as VAL does.
    # The gallery of a category is its image split (the benchmark's). `gallery=val` takes the pictures that the queries
    # of the split name instead, references and targets (VAL's, and of those who compare with it): a smaller gallery
    # makes every number higher. The targets of test are not published, so there it is the image split in both readings.
    files = _paired_files(fashioniq, path, _FASHIONIQ, "cap.dress.val.json, cap.shirt.train.json, …")
    draft = TaskSetDraft("FashionIQ", path, f"FashionIQ {path.absolute().name}/")
    published = {f"{category} images of val": count for category, count in _GARMENTS.items()}
    counts = dict.fromkeys(published, 0)
    for (category, split), file, listed in files:
        task = draft.parts.get(category) or draft.add_task(category)
        task.measures = ("hit@10", "hit@50")
        images = ids_in(read_json(listed))
        if images is None:
            draft.fault(f"{listed.name}: expected a list of image names")
            continue
        if split == "val":
            counts[f"{category} images of val"] = len(images)
        rows = list(_composed_rows(draft, file, ("candidate",)))
        shown = {str(row[key]) for _, row in rows for key in ("candidate", "target") if key in row}
        for image in dict.fromkeys(images):
            if gallery != "val" or split == "test" or image in shown:
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
            _add_garment(task, f"{category}-{split}-{number}", split, place, row, captions, reference == "excluded")
    if draft.parts.keys() >= _GARMENTS.keys() and gallery == "split":
        compare_counts(draft, published, counts)
    draft.notes.append(f"captions {captions}, gallery {gallery}, reference {reference}")
    return draft


def _add_garment(
    task: TaskDraft, own: str, split: str, place: str, row: dict[str, Any], how: str, excluded: bool
) -> None:
    texts = row.get("captions")
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        task.fault(f"{place}: no captions")
        return
    reference, target = str(row["candidate"]), row.get("target")
    if not _are_documents(task, split, own, place, reference, *([] if target is None else [str(target)])):
        return
    clean = [text.strip(" .,?\n\t") for text in texts]
    queries = {own: clean[0] if how == "first" else " and ".join(filter(None, clean))}
    if how == "each":
        queries = {f"{own}#{number}": text for number, text in enumerate(clean)}
    for query, text in queries.items():
        grades = None if target is None else {str(target): 1.0}
        _add_query(task, query, text, reference, f"{reference}.*", split, grades)
        if excluded:
            task.excluded[query, reference] = None


_CIRR = r"(\w+)\.(train|val|test1)"
_CIRR_PUBLISHED = {"queries of val": 4_181, "images of val": 2_297, "queries of test1": 4_148, "images of test1": 2_315}


@reader("cirr", sniff=lambda path: _has_captions(path, r"cap\.rc\d+\.(train|val|test1)\.json"))
def cirr(path: Path, *, reference: str) -> TaskSetDraft:
    """Read `cap.rc2.SPLIT.json` and `split.rc2.SPLIT.json`: two tasks with the same queries."""
    # - `it2i`: all images of the split are candidates; its hit@k is the benchmark's recall@k.
    # - `subset`: the candidates are the five other images of `img_set.members`, alike photos in which the right one is
    #   hard to tell; its hit@k is recall_subset@k.
    # The picture of a query is no candidate, as on the benchmark's server. `reference=candidate` is the other reading;
    # it holds for both tasks. The right answer is `target_hard`. The targets of test1 are not published.
    files = _paired_files(cirr, path, _CIRR, "cap.rc2.val.json")
    draft = TaskSetDraft("CIRR", path, f"CIRR {path.absolute().name}/")
    whole, subset = draft.add_task("it2i"), draft.add_task("subset")
    whole.submission = subset.submission = "cirr"
    whole.measures, subset.measures = ("hit@1", "hit@5", "hit@10", "hit@50"), ("hit@1", "hit@2", "hit@3")
    counts = dict.fromkeys(_CIRR_PUBLISHED, 0)
    for (_, split), file, listed in files:
        images = read_json(listed)
        if not isinstance(images, dict):
            draft.fault(f"{listed.name}: expected {{image: path}}")
            continue
        for image, name in images.items():
            for task in (whole, subset):
                task.galleries[split, image] = None
                if image not in task.documents.known:
                    task.add_item("documents", image, None, picture=str(name).removeprefix("./"))
        rows = list(_composed_rows(draft, file, ("pairid", "reference", "caption")))
        counts |= {f"queries of {split}": len(rows), f"images of {split}": len(images)}
        for place, row in rows:
            _add_photo(draft, split, place, row, images, reference == "excluded")
    compare_counts(draft, {name: count for name, count in _CIRR_PUBLISHED.items() if counts[name]}, counts)
    draft.notes.append(f"reference {reference}")
    return draft


def _add_photo(
    draft: TaskSetDraft, split: str, place: str, row: dict[str, Any], images: dict[str, Any], excluded: bool
) -> None:
    whole, subset = draft.parts["it2i"], draft.parts["subset"]
    query, reference, target = str(row["pairid"]), str(row["reference"]), row.get("target_hard")
    image_set = row.get("img_set")
    members = ids_in(image_set.get("members")) if isinstance(image_set, dict) else None
    if members is None:
        draft.fault(f"{place}: no img_set.members")
        return
    targets = [] if target is None else [str(target)]
    if not _are_documents(whole, split, query, place, reference, *members, *targets):
        return
    if targets and targets[0] not in members:
        draft.fault(f"{place}: the target {targets[0]!r} of query {query!r} is not in its subset")
        return
    if query in whole.queries.known:
        draft.fault(f"{place}: query {query!r} stands twice")
        return
    for task in (whole, subset):
        name, grades = str(images[reference]).removeprefix("./"), dict.fromkeys(targets, 1.0)
        _add_query(task, query, row["caption"], reference, name, split, grades or None)
    for member in members:
        if not excluded or member != reference:
            subset.candidates[split, query, member] = None
    if excluded:
        whole.excluded[query, reference] = None


_ASPECTS = (
    *("cardinality", "addition", "negation", "direct_addressing", "compare_change", "comparative_statement"),
    *("statement_with_conjunction", "spatial_relations_background", "viewpoint"),
)
"""CIRCO's semantic aspects of a query: each is a label, "yes" or "no"."""
_CIRCO_INDEX = r"(image_info_unlabeled2017)\.json"


def _circo_files(path: Path) -> dict[str, Path]:
    if path.is_file():
        files = {plain_stem(path): path} if plain_stem(path) in ("val", "test") else {}
    else:
        files = {split: file for (split,), file in _files_like(path, r"(val|test)\.json").items()}
    keys = ("relative_caption", "shared_concept", "reference_img_id")
    return {split: file for split, file in files.items() if has_key(json_head(file), *keys)}


def _is_circo(path: Path) -> bool:
    if path.is_file():
        return bool(_circo_files(path))
    files = [folder / name for folder in (path, path / "annotations") for name in ("val.json", "test.json")]
    return any(file.is_file() and _circo_files(file) for file in files)


@reader("circo", sniff=_is_circo)
def circo(path: Path, *, index: str, text: str, reference: str) -> TaskDraft:
    """Read `val.json` and `test.json`; the documents are the images of COCO's unlabeled2017."""
    # A query has several right answers: `gt_img_ids` with grade 1, `target_img_id` with grade 2. The benchmark's mAP@k
    # is `capped_map@k`, over all of them; its recall@k counts the target alone, which is `hit(rel=2)@k`. The answers of
    # test are not published.
    # The index comes from `image_info_unlabeled2017.json` (123,403 images). Without that file it is the pictures that
    # the annotations name, which is another and much easier benchmark; `index=named` has to be said for it.
    files = _circo_files(path)
    if not files:
        raise circo.lacks(path, "no val.json and no test.json with relative_caption in it")
    draft = TaskDraft("CIRCO", path if path.is_dir() else path.parent, f"CIRCO {path.absolute().name}", task="it2i")
    draft.submission = "circo"
    draft.measures = tuple(f"{name}@{k}" for name in ("capped_map", "hit(rel=2)") for k in (5, 10, 25, 50))
    rows = {
        split: list(_composed_rows(draft, file, ("id", "reference_img_id", "relative_caption")))
        for split, file in sorted(files.items())
    }
    images = _circo_index(path, index, [row for listed in rows.values() for _, row in listed])
    for image, name in images.items():
        draft.add_item("documents", image, None, picture=name)
    for split, listed in rows.items():
        for place, row in listed:
            _add_coco(draft, split, place, row, images, text, reference == "excluded")
    counts = {f"queries of {split}": len(listed) for split, listed in rows.items()} | {"images": len(images)}
    published = {"queries of val": 220, "queries of test": 800, "images": 123_403}
    compare_counts(draft, {name: count for name, count in published.items() if name in counts}, counts)
    draft.notes.append(f"text {text}, reference {reference}")
    return draft


def _add_coco(
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
    _add_query(draft, query, caption, reference, images[reference], split, grades)
    aspects = row.get("semantic_aspects")
    if isinstance(aspects, list):
        for aspect in _ASPECTS:
            draft.labels.setdefault(aspect, {})[query] = "yes" if aspect in aspects else "no"
    if excluded:
        draft.excluded[query, reference] = None


def _circo_index(path: Path, index: str, rows: list[dict[str, Any]]) -> dict[str, str]:
    """The id of each image of the index → its file name."""
    if index == "named":
        ids = [str(row["reference_img_id"]) for row in rows]
        ids += [image for row in rows for image in ids_in(row.get("gt_img_ids")) or ()]
        return {image: f"{image:0>12}.jpg" for image in ids}
    folder = path if path.is_dir() else path.parent
    files = [Path(index)] if index else [*_files_like(folder, _CIRCO_INDEX).values()]
    files += (folder / "COCO2017_unlabeled").glob("annotations/image_info_*")
    if folder.name == "annotations":
        files += _files_like(folder.parent / "COCO2017_unlabeled", _CIRCO_INDEX).values()
    if not files:
        raise circo.lacks(
            path,
            "no image_info_unlabeled2017.json beside it, which lists the 123,403 images that are searched (index=FILE "
            "names it; index=named searches the pictures of the annotations alone, another and easier benchmark)",
        )
    content = read_json(files[0])
    listed = content.get("images") if isinstance(content, dict) else None
    if not isinstance(listed, list) or not all(isinstance(image, dict) and "id" in image for image in listed):
        raise CollectionError(f"{files[0]}: no list of images.", hint="expected COCO's image_info_unlabeled2017.json")
    return {str(image["id"]): str(image.get("file_name") or f"{image['id']:0>12}.jpg") for image in listed}
