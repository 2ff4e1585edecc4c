"""ECCV Caption: positives of COCO's test split that COCO itself misses, found by machines and verified by people."""

from __future__ import annotations

from pathlib import Path

from visir.collections.judgements.judged import COCO_HINT, Judged, Judging
from visir.collections.sources import JudgementFormat, Option
from visir.errors import CollectionError, nearest
from visir.files import find_file, read_json
from visir.records import Collection

SETS = {"eccv": "eccv", "cxc": "eccv-cxc", "original": "eccv-original"}
"""The three pairs of files, and what their relevances are called here."""


def read(path: Path, collection: Collection, *, sets: str = "eccv,cxc,original") -> Judged:
    """Read `{eccv,cxc,original}_{caption_to_image,image_to_caption}.json` (id to list of ids) from a folder."""
    # - "eccv": 1,332 query captions with 11,279 positives, and 1,261 query images with 22,550. The two tasks were
    #   annotated apart and do not mirror each other, so each counts for its own task only. Measures: mAP@R, R-precision
    #   and hit@1 (Chun et al. 2022).
    # - "eccv-cxc": CxC's positives as that package has them: pairs scored 3 or higher, 29 links fewer than "cxc".
    # - "eccv-original": COCO's links for five captions per image (25,000).
    # Ids are COCO's image and annotation ids. A sixth caption of an image may be a positive: it fits where the
    # collection has it (Karpathy's JSON), and is otherwise counted as left out.
    names = [name for name in sets.split(",") if name]
    for name in names:
        if name not in SETS:
            raise CollectionError(f"ECCV Caption: unknown set {name!r}", hint=nearest(name, SETS), code="unknown-set")
    complete = [
        name for name in names if _file(path, name, "caption_to_image") or _file(path, name, "image_to_caption")
    ]
    if not complete:
        raise CollectionError(f"{path}: no {names[0]}_caption_to_image.json in it.", hint="eccv_caption/data/ is meant")
    judging = Judging(collection, f"ECCV Caption ({', '.join(complete)})")
    for name in complete:
        for task, kind in (("t2i", "caption_to_image"), ("i2t", "image_to_caption")):
            file = _file(path, name, kind)
            if file is None:
                raise CollectionError(
                    f"{path}: {name}_{kind}.json is missing; both tasks are needed.", code="json-missing"
                )
            for query, documents in _content(file).items():
                for document in documents:
                    caption, image = (query, str(document)) if task == "t2i" else (str(document), query)
                    judging.add(SETS[name], task, caption, image, 1.0)
    return judging.done(hint=COCO_HINT)


def _file(folder: Path, name: str, kind: str) -> Path | None:
    return find_file(folder / f"{name}_{kind}.json")


def _content(file: Path) -> dict[str, list[int]]:
    content = read_json(file)
    if not isinstance(content, dict):
        raise CollectionError(f"{file}: expected {{id: [ids]}}.")
    for query, documents in content.items():
        if not isinstance(documents, list) or not all(isinstance(document, (int, str)) for document in documents):
            raise CollectionError(
                f"{file}: {query!r}: expected a list of ids, found {str(documents)[:60]}.",
                code="expected-list-ids-found",
            )
        if len(set(documents)) != len(documents):
            raise CollectionError(f"{file}: {query!r}: an id is listed twice.", code="id-listed-twice")
    return content


def _sniff(path: Path) -> bool:
    return path.is_dir() and any(_file(path, name, "caption_to_image") for name in SETS)


FORMAT = JudgementFormat(
    name="eccv",
    title="ECCV Caption",
    layout="folder with {eccv,cxc,original}_{caption_to_image,image_to_caption}.json: {id: [ids]}",
    reference="Chun et al., ECCV Caption (ECCV 2022)",
    sniff=_sniff,
    options=(Option("sets", "which of eccv, cxc, original, comma-separated", "eccv,cxc,original"),),
    read=read,
    sets="eccv, eccv-cxc, eccv-original",
)
