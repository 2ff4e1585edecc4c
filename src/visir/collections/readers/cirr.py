"""CIRR: real-life photos, a change in words, and subsets of six alike photos in which the right one is hard to tell."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from visir.collections.readers.composed import (
    add_query,
    check_documents,
    files_like,
    ids_in,
    reference_option,
    rows_of,
)
from visir.collections.readers.names import compare_counts
from visir.collections.sources import Format
from visir.collections.task_draft import TaskSetDraft
from visir.files import read_json

WHOLE, SUBSET = "it2i", "subset"
"""The two tasks: among all images of the split, and among the six of a subset."""
MEASURES = {WHOLE: ("hit@1", "hit@5", "hit@10", "hit@50"), SUBSET: ("hit@1", "hit@2", "hit@3")}
_CAPTIONS = re.compile(r"cap\.(\w+)\.(train|val|test1)\.json")
_SPLITS = re.compile(r"split\.(\w+)\.(train|val|test1)\.json")
PUBLISHED = {"queries of val": 4_181, "images of val": 2_297, "queries of test1": 4_148, "images of test1": 2_315}


def read(path: Path, *, reference: str = "excluded") -> TaskSetDraft:
    """Read `cap.rc2.SPLIT.json` and `split.rc2.SPLIT.json`: two tasks with the same queries."""
    # - `it2i`: all images of the split are candidates; its hit@k is the benchmark's recall@k.
    # - `subset`: the candidates are the five other images of `img_set.members`; its hit@k is recall_subset@k.
    # The picture of a query is no candidate, as on the benchmark's server. `reference=candidate` is the other reading;
    # it holds for both tasks. The right answer is `target_hard`. The targets of test1 are not published.
    queries = files_like(path, _CAPTIONS) if path.is_dir() else {}
    lists = files_like(path, _SPLITS) if path.is_dir() else {}
    if not queries:
        raise FORMAT.lacks(path, "no cap.rc2.val.json in it")
    without = [f"no split.{version}.{split}.json" for version, split in queries if (version, split) not in lists]
    if without:
        raise FORMAT.lacks(path, *without)
    draft = TaskSetDraft("CIRR", path, f"CIRR {path.absolute().name}/")
    whole, subset = draft.add_task(WHOLE), draft.add_task(SUBSET)
    whole.submission = subset.submission = "cirr"
    whole.measures, subset.measures = MEASURES[WHOLE], MEASURES[SUBSET]
    counts = dict.fromkeys(PUBLISHED, 0)
    for (version, split), file in sorted(queries.items()):
        images = read_json(lists[version, split])
        if not isinstance(images, dict):
            draft.fault(f"{lists[version, split].name}: expected {{image: path}}")
            continue
        for image, name in images.items():
            for task in (whole, subset):
                task.galleries[split, image] = None
                if image not in task.documents.known:
                    task.add_item("documents", image, None, picture=str(name).removeprefix("./"))
        rows = list(rows_of(draft, file, ("pairid", "reference", "caption")))
        counts |= {f"queries of {split}": len(rows), f"images of {split}": len(images)}
        for place, row in rows:
            _add(draft, split, place, row, images, reference == "excluded")
    compare_counts(draft, {name: count for name, count in PUBLISHED.items() if counts[name]}, counts)
    draft.notes.append(f"reference {reference}")
    return draft


def _add(
    draft: TaskSetDraft, split: str, place: str, row: dict[str, Any], images: dict[str, Any], excluded: bool
) -> None:
    whole, subset = draft.parts[WHOLE], draft.parts[SUBSET]
    query, reference, target = str(row["pairid"]), str(row["reference"]), row.get("target_hard")
    image_set = row.get("img_set")
    members = ids_in(image_set.get("members")) if isinstance(image_set, dict) else None
    if members is None:
        draft.fault(f"{place}: no img_set.members")
        return
    targets = [] if target is None else [str(target)]
    if not check_documents(whole, split, query, place, reference, *members, *targets):
        return
    if targets and targets[0] not in members:
        draft.fault(f"{place}: the target {targets[0]!r} of query {query!r} is not in its subset")
        return
    if query in whole.queries.known:
        draft.fault(f"{place}: query {query!r} stands twice")
        return
    for task in (whole, subset):
        name = str(images[reference]).removeprefix("./")
        add_query(task, query, row["caption"], reference, name, split, dict.fromkeys(targets, 1.0) if targets else None)
    for member in members:
        if not excluded or member != reference:
            subset.candidates[split, query, member] = None
    if excluded:
        whole.excluded[query, reference] = None


def _sniff(path: Path) -> bool:
    folders = [path, path / "captions"] if path.is_dir() else []
    names = [entry.name for folder in folders if folder.is_dir() for entry in folder.iterdir()]
    return any(re.fullmatch(r"cap\.rc\d+\.(train|val|test1)\.json(\.xz|\.gz)?", name) for name in names)


FORMAT = Format(
    name="cirr",
    title="CIRR (composed retrieval of real-life photos)",
    layout="captions/cap.rc2.val.json: [{pairid, reference, target_hard, caption, img_set: {members}}]; "
    "image_splits/split.rc2.val.json: {image: path}; also train and test1; photos in img_raw/dev/",
    reference="Liu et al., Image Retrieval on Real-life Images with Pre-trained Vision-and-Language Models (ICCV 2021)",
    obtain="git clone -b cirr_dataset https://github.com/Cuberick-Orion/CIRR cirr; photos: of NLVR2, "
    "https://lil.nlp.cornell.edu/nlvr/",
    sniff=_sniff,
    options=(reference_option("excluded"),),
    read=read,
)
