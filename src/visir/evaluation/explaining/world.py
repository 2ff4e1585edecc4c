"""The images and captions at hand, as numbers: which caption is of which image, in which split, in which order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.evaluation.explaining.material import Material
from visir.evaluation.folds import folds_of
from visir.records import SIDES, Run, strings

Places = NDArray[np.int64]
"""Positions in `World.image_ids` or `World.caption_ids`."""


@dataclass(frozen=True, eq=False)
class World:
    """All images and captions that a run, its captions, or the collection name."""

    image_ids: pa.StringArray  # (n,) ids, those of the split first in the source's order
    caption_ids: pa.StringArray  # (m,) ids, likewise
    owner: Places  # (m,) the image of each caption; -1 where it is not known
    image_split: NDArray[np.str_]  # (n,) the split of each image; "" where it is not known
    images: Places  # the images of the result, in the source's order
    captions: Places  # the captions of the result, in the source's order
    has_captions: bool  # whether it is known which captions belong to which image
    has_source: bool  # whether the collection of the result is at hand, with its splits
    own_folds: Places | None  # (n,) the fold of each image in the result; None without folds

    def ids(self, side: str) -> pa.StringArray:
        """The ids of one side, "image" or "text"."""
        return self.image_ids if side == "image" else self.caption_ids

    def places(self, side: str, ids: pa.StringArray) -> Places:
        """The position of each id of one side, -1 for an unknown one."""
        return places(ids, self.ids(side))

    def of_split(self, name: str) -> Places:
        """The images of a split; "all" is every image."""
        if name == "all":
            return np.arange(len(self.image_ids))
        return np.flatnonzero(self.image_split == name)

    def captions_of(self, images: Places) -> Places:
        """The captions of these images, in the source's order."""
        chosen = np.zeros(len(self.image_ids) + 1, bool)
        chosen[images] = True
        return np.flatnonzero(chosen[self.owner])


def places(ids: pa.Array, among: pa.Array) -> Places:
    """The position of each id among others, -1 for an unknown one."""
    found_at = pc.fill_null(pc.index_in(ids, among), -1).to_numpy(zero_copy_only=False)
    positions: Places = found_at.astype(np.int64)
    return positions


def world_of(material: Material) -> World:
    """Number the images and captions at hand."""
    _check_source(material)
    named: dict[str, list[pa.Array]] = {"image": [], "text": []}
    owners: pa.Table | None = None
    if material.source is not None:
        named["image"].append(strings(material.source.images["id"]))
        named["text"].append(strings(material.source.captions["id"]))
        owners = material.source.captions
    elif material.captions is not None:
        named["image"].append(strings(material.captions["image_id"]).unique())
        named["text"].append(strings(material.captions["id"]))
        owners = material.captions
    for task, run in material.runs.items():
        queries, documents = SIDES[task]
        named[queries].append(run.queries)
        named[documents] += [run.documents] if run.gallery.ids is None else [run.gallery.ids, run.documents]
        named[queries].append(material.qrels[task].queries)
        named[documents].append(material.qrels[task].documents)
    ids = {side: _joined(parts) for side, parts in named.items()}
    owner = np.full(len(ids["text"]), -1)
    if owners is not None:
        owner[places(strings(owners["id"]), ids["text"])] = places(strings(owners["image_id"]), ids["image"])
    image_split = np.full(len(ids["image"]), "", dtype=object)
    if material.source is not None:
        image_split[: material.source.images.num_rows] = material.source.images["split"].to_pylist()
    captions = (
        places(strings(material.captions["id"]), ids["text"])
        if material.captions is not None
        else _of_runs(material, "text", ids["text"])
    )
    images = _images(material, owner[captions], ids["image"])
    own_folds = next(
        (_folds(run, images, owner, ids) for run in material.runs.values() if folds_of(run) > 1), None
    )  # fmt: skip
    return World(
        ids["image"],
        ids["text"],
        owner,
        image_split.astype(str),
        images,
        captions,
        owners is not None and material.captions is not None,
        material.source is not None,
        own_folds,
    )


def _check_source(material: Material) -> None:
    """Refuse a collection that lacks captions of the result, or has them beside other images."""
    if material.source is None or material.captions is None:
        return
    ours, theirs = material.captions, material.source.captions
    at = pc.index_in(strings(ours["id"]), strings(theirs["id"]))
    same = pc.equal(strings(theirs["image_id"]).take(at), strings(ours["image_id"]))
    different = len(same) - (pc.sum(same).as_py() or 0)
    if different:
        raise VisirError(
            f"{material.source.name} is not the collection of this result: {different:,} of {len(same):,} captions of "
            "the result are not in it, or are of another image.",
            hint="give the collection that was evaluated, with all its splits",
            code="captions-result-not-another",
        )


def _joined(parts: list[pa.Array]) -> pa.StringArray:
    return pa.concat_arrays(parts).unique() if parts else pa.array([], pa.string())


def _of_runs(material: Material, side: str, ids: pa.StringArray) -> Places:
    """What the judged queries and the right documents of a side are."""
    parts = []
    for task, qrels in material.qrels.items():
        queries, _ = SIDES[task]
        parts.append(qrels.queries if queries == side else qrels.documents.filter(pa.array(qrels.grades > 0)))
    return np.sort(places(_joined(parts), ids))


def _images(material: Material, owners: Places, ids: pa.StringArray) -> Places:
    if material.captions is None:
        return _of_runs(material, "image", ids)
    chosen = np.zeros(len(ids), bool)
    chosen[owners] = True
    run = material.runs.get("t2i")
    if run is not None and run.gallery.ids is not None and not _is_wider(material):
        chosen[places(run.gallery.ids, ids)] = True  # images without a caption are candidates too
    return np.flatnonzero(chosen)


def _is_wider(material: Material) -> bool:
    """Whether candidates of the whole collection were searched for the queries of a split."""
    protocol = material.protocol
    return protocol is None or any("of the collection" in line for line in protocol.galleries.values())


def _folds(run: Run, images: Places, owner: Places, ids: dict[str, pa.StringArray]) -> Places:
    """(n,) the fold of each image: that of its queries, which the run lists fold by fold."""
    folds = np.full(len(ids["image"]), -1)
    parts = run.provenance["folds"]
    if isinstance(parts, int):
        folds[images] = np.arange(len(images)) * parts // max(len(images), 1)
        return folds
    fold = np.repeat(np.arange(len(parts)), [part["queries"] for part in parts])
    queries = places(run.queries, ids[SIDES[run.task][0]])
    folds[queries if run.task == "i2t" else owner[queries]] = fold[: len(queries)]
    return folds
