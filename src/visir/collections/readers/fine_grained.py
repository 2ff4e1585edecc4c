"""MSCOCO-FG and Flickr30K-FG: refined captions of the test images, and an enlarged pool of images to search."""

from __future__ import annotations

from pathlib import Path

from visir.collections.draft import Draft
from visir.collections.readers.names import image_id, read_array
from visir.collections.readers.sniffing import json_head, plain_name, plain_stem
from visir.collections.sources import Format, Option
from visir.errors import CollectionError
from visir.files import find_file, read_json

POOL = "pool"
"""The split of the images that are only searched: they have no captions."""


def read(path: Path, *, pool: str | Path | None = None) -> Draft:
    """Read `*_ann.json`, `{image stem: [refined captions]}`, with its pool `*_img_filenames.npy`."""
    # Captioned images are in the split "test", the others of the pool in "pool"; the benchmark's text-to-image gallery
    # is both ("test+pool": 31,244 images for COCO, 6,867 for Flickr30k). COCO's extra images are from unlabeled2017.
    # Image ids are those of Karpathy's JSON, so the two can be compared. Caption ids are "image#n": the refined texts
    # are other captions than those whose ids COCO gave.
    content = read_json(path)
    if not isinstance(content, dict):
        raise CollectionError(f"{path}: expected {{image: [captions]}}.")
    draft = Draft(plain_stem(path).removesuffix("_ann"), path.parent, f"fine-grained captions {path.name}")
    pool_file = _pool_file(path, pool)
    names = [] if pool_file is None else [str(name) for name in read_array(pool_file).tolist()]
    by_stem = {Path(name).stem: name for name in names}
    if pool_file is None:
        draft.notes.append("no image pool")
    for stem, texts in content.items():
        name = by_stem.pop(stem, None)
        if name is None and pool_file is not None:
            draft.fault(f"image {stem!r} has captions, but is not in {pool_file.name}")
        name = name or f"{stem}.jpg"
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            draft.fault(f"image {stem!r}: expected a list of captions")
            continue
        identifier = image_id(name)
        draft.add_image(identifier, name, "test")
        for number, text in enumerate(texts):
            draft.add_caption(f"{identifier}#{number}", text, identifier)
    for name in by_stem.values():
        draft.add_image(image_id(name), name, POOL)
    if pool_file is not None:
        draft.notes.append(f"pool {pool_file.name}")
    return draft


def _pool_file(path: Path, pool: str | Path | None) -> Path | None:
    if pool == "none":
        return None
    if pool is not None:
        return Path(pool)
    stem = plain_stem(path).removesuffix("_ann")
    for folder in (path.parent, path.parent.parent / "Images"):
        if file := find_file(folder / f"{stem}_img_filenames.npy"):
            return file
    raise CollectionError(
        f"{path}: its image pool {stem}_img_filenames.npy is not beside it.",
        hint="give it with pool=FILE; pool=none reads the captions alone (another benchmark: a smaller gallery)",
        code="image-pool-img-filenames",
    )


def _sniff(path: Path) -> bool:
    return plain_name(path).endswith("_ann.json") and json_head(path).startswith(b"{")


FORMAT = Format(
    name="fine_grained",
    title="MSCOCO-FG, Flickr30K-FG",
    layout="MSCOCO_FG_ann.json: {stem: [5 captions]}; MSCOCO_FG_img_filenames.npy: names of the image pool",
    reference="Chen, Yao, Jin, Rethinking Benchmarks for Cross-modal Image-text Retrieval (SIGIR 2023)",
    sniff=_sniff,
    options=(Option("pool", "the image pool's .npy (default: beside it, or in ../Images); 'none' for none"),),
    read=read,
)
