"""The images and captions at hand as numbers, and who searches among whom under a reading: queries, candidates, right
pairs, folds, weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.evaluation.captions import Choice as CaptionsOfImages
from visir.evaluation.explaining.readings import GIVE, Material, NotComputable, Reading
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
        (_folds_of_run(run, images, owner, ids) for run in material.runs.values() if folds_of(run) > 1), None
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


def _folds_of_run(run: Run, images: Places, owner: Places, ids: dict[str, pa.StringArray]) -> Places:
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


# Who searches among whom under a reading: queries, candidates, right pairs, folds and weights.


Extent = tuple[str, str]
"""(whose queries, which candidates): names of splits, "own", or "with NAME"."""


MOST_PAIRS = 20_000_000
"""Another split of more pairs of an image and a caption is tried only if it is at most four times the result's own."""


@dataclass(frozen=True, eq=False)
class Part:
    """The queries and candidates of one task under a reading."""

    extent: Extent  # which lists hold them
    queries: Places  # (n,) the queries, by position in the world
    candidates: NDArray[np.bool_]  # (u + 1,) which documents of the world are candidates; the last is False
    pairs: tuple[Places, Places]  # (query, document) positions of the right pairs, by query in the order of `queries`
    weights: NDArray[np.float64]  # (n,) the weight of each query in the mean; the sum is 1
    query_fold: Places | None = None  # (n,) the fold of each query; None for one gallery
    document_fold: Places | None = None  # (u + 1,) the fold of each document
    folds: int = 1  # the number of folds
    copies: Places | None = None  # (u + 1,) how often each document is a candidate; None for once
    copies_before: Places | None = None  # (n,) how many copies of its image stand before the right one, for each query
    # (n,) the number of the image of each query, where the captions of an image are one query, and `weights` are of
    # images; None where every query is its own.
    groups: Places | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of candidates of each fold."""
        if self.document_fold is None:
            return (int(self.candidates.sum()),)
        folds = self.document_fold[self.candidates]
        return tuple(np.bincount(folds[folds >= 0], minlength=self.folds).tolist())


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Images and captions that take part, with the image that each caption is taken for."""

    images: Places
    captions: Places
    owner: Places
    extent: Extent


@dataclass(frozen=True, eq=False)
class AsEvaluated:
    """What the result itself has: its queries, right pairs and candidates, by position in the world."""

    queries: Places  # (n,) the judged queries; the mean is over these
    pairs: tuple[Places, Places]  # (query, document) of its right pairs
    gallery: Places  # (m,) its candidates


def part_of(world: World, task: str, reading: Reading, own: AsEvaluated) -> Part:
    """Resolve a reading."""
    chosen = _links(world, _split(world, reading), reading)
    chosen = _cut(_captions(world, chosen, reading), reading)
    is_own = chosen.extent == ("own", "own") and not reading["links"]
    queries = chosen.captions if task == "t2i" else chosen.images
    documents = chosen.images if task == "t2i" else chosen.captions
    if is_own and len(chosen.captions) == len(world.captions) and len(chosen.images) == len(world.images):
        documents = own.gallery
    if is_own:
        queries = queries[_mask(own.queries, len(world.ids(SIDES[task][0])))[queries]]
    elif _has_other_right_ones(world, task, own.pairs):
        raise NotComputable("the judgements of the result are of its own split and captions: evaluate it so")
    owners = chosen.owner[chosen.captions]
    pairs = own.pairs if is_own else (chosen.captions, owners) if task == "t2i" else (owners, chosen.captions)
    candidates = _mask(documents, len(world.ids(SIDES[task][1])))
    extent = chosen.extent
    wider = reading.value("gallery")
    if isinstance(wider, tuple) and wider[0] == "with":
        candidates, extent = _wider(world, task, candidates, wider[1], chosen, extent)
    elif wider == "judged":
        candidates = _mask(own.pairs[1], len(candidates) - 1)
    plain = is_own and reading.only(("captions", "queries", "positives", "gallery", "folds", "copies")).departures == 0
    queries, pairs = _queries(world, task, queries, pairs, chosen, reading)
    pairs = _positives(task, pairs, chosen, reading)
    if not plain:
        pairs = tuple(side[candidates[pairs[1]]] for side in pairs)  # type: ignore[assignment]
        queries = queries[_mask(pairs[0], len(world.ids(SIDES[task][0])))[queries]]
    part = Part(extent, queries, candidates, pairs, np.empty(0))
    part = _copies(world, task, _folds(world, task, part, chosen, reading), chosen, reading)
    part = replace(part, pairs=_in_order(part))
    weights = _weights(world, task, part, reading)
    if reading["queries"] != "any caption" or task != "t2i":
        return replace(part, weights=weights)
    groups = np.unique(world.owner[part.queries], return_inverse=True)[1]
    return replace(part, weights=np.bincount(groups, weights).astype(np.float64), groups=groups)


def _mask(chosen: Places, size: int) -> NDArray[np.bool_]:
    mask = np.zeros(size + 1, bool)
    mask[chosen] = True
    mask[-1] = False
    return mask


def _split(world: World, reading: Reading) -> _Chosen:
    name = reading["split"]
    if name is None:
        return _Chosen(world.images, world.captions, world.owner, ("own", "own"))
    images = _images_of(world, name)
    captions = world.captions_of(images)
    if len(images) * len(captions) > max(MOST_PAIRS, 4 * len(world.images) * len(world.captions)):
        how = "without --split" if name == "all" else f"with --split {name}"
        raise NotComputable(f"it has {len(images):,} images, too many to try: evaluate it {how}")
    return _Chosen(images, captions, world.owner, (name, name))


def _images_of(world: World, name: str) -> Places:
    """The images of a split, or of the whole collection ("all")."""
    if not world.has_source:
        raise NotComputable(GIVE)
    images = world.of_split(name)
    if len(images) == 0:
        raise NotComputable(f"the collection at hand has no split {name!r}")
    if len(images) == len(world.images) and (images == world.images).all():
        raise NotComputable(f"it is {'the whole collection' if name == 'all' else f'the {name} split'} as it is")
    return images


def _need_captions(world: World) -> None:
    if not world.has_captions:
        raise NotComputable("the collection is not at hand: which captions belong to which image, in which order")


def _links(world: World, chosen: _Chosen, reading: Reading) -> _Chosen:
    """Take captions for those of other images."""
    name = reading["links"]
    if name is None:
        return chosen
    _need_captions(world)
    images, captions = chosen.images, chosen.captions
    owner = np.full(len(chosen.owner), -1)
    place = np.zeros(len(world.image_ids), np.int64)
    place[images] = np.arange(len(images))
    own = place[chosen.owner[captions]]
    rows, n = np.arange(len(captions)), len(images)
    if name.startswith("captions of "):
        others = world.captions_of(_images_of(world, str(reading.value("links"))))[: len(captions)]
        if len(others) < len(captions):
            raise NotComputable("that split has fewer captions")
        owner[others] = chosen.owner[captions]
        return replace(chosen, captions=others, owner=owner, extent=(str(reading.value("links")), name))
    if name == "modulo":
        taken = images[rows % n]
    elif name == "same number":
        captions, taken = captions[:n], images[: len(captions[:n])]
    elif name in ("next image", "previous image"):
        taken = images[(own + (1 if name == "next image" else -1)) % n]
    elif name in ("next caption", "previous caption"):
        taken = images[np.roll(own, 1 if name == "next caption" else -1)]
    elif name == "reversed":
        taken = images[n - 1 - own]
    else:  # images by id
        order = np.argsort(np.array(world.image_ids.take(pa.array(images)).to_pylist()), kind="stable")
        if (order == np.arange(n)).all():
            raise NotComputable("the ids are in the order of the source")
        taken = images[order[own]]
    owner[captions] = taken
    return replace(chosen, captions=captions, owner=owner)


def _captions(world: World, chosen: _Chosen, reading: Reading) -> _Chosen:
    value = reading.value("captions")
    if value is None:
        return chosen
    _need_captions(world)
    if value == "all":
        captions = world.captions_of(chosen.images)
        if len(captions) == len(chosen.captions):
            raise NotComputable("all captions took part as it is")
        return replace(chosen, captions=captions)
    owners = chosen.owner[chosen.captions]
    if value == "random":
        ids = world.caption_ids.take(pa.array(chosen.captions))
        keep = CaptionsOfImages("random").keep(ids, pa.array(owners))
    else:
        place, count = _place_in_image(owners)
        if value == "mean":
            keep = place == 0
        elif value == "last":
            keep = place == count - 1
        else:
            assert isinstance(value, tuple)
            first, end = value
            keep = (place >= first) & (place < end)
    if keep.all():
        raise NotComputable("no image has more captions")
    if not keep.any():
        raise NotComputable("no image has so many captions")
    return replace(chosen, captions=chosen.captions[keep])


def _place_in_image(owners: Places) -> tuple[Places, Places]:
    """(place, count): which caption of its image each is, from 0, and how many that image has."""
    order = np.argsort(owners, kind="stable")
    grouped = owners[order]
    starts = np.flatnonzero(np.concatenate([[True], grouped[1:] != grouped[:-1]]))
    lengths = np.diff(np.concatenate([starts, [len(order)]]))
    place, count = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    place[order] = np.arange(len(order)) - np.repeat(starts, lengths)
    count[order] = np.repeat(lengths, lengths)
    return place, count


def _cut(chosen: _Chosen, reading: Reading) -> _Chosen:
    """The first or the last images only."""
    value = reading.value("gallery")
    if not isinstance(value, tuple) or value[0] == "with":
        return chosen
    which, count = value
    n = len(chosen.images)
    count = int(n * count) if isinstance(count, float) else count
    if count >= n or count == 0:
        raise NotComputable(f"there are only {n:,} images")
    images = chosen.images[:count] if which == "first" else chosen.images[-count:]
    inside = np.isin(chosen.owner[chosen.captions], images)
    if not inside.any():
        raise NotComputable("the images are not known by their captions")
    return replace(chosen, images=images, captions=chosen.captions[inside])


def _wider(
    world: World, task: str, candidates: NDArray[np.bool_], name: str, chosen: _Chosen, extent: Extent
) -> tuple[NDArray[np.bool_], Extent]:
    images = world.of_split(name)
    more = images if task == "t2i" else world.captions_of(images)
    wider = candidates | _mask(more, len(candidates) - 1)
    if not world.has_source:
        raise NotComputable(GIVE)
    if len(images) == 0 or wider.sum() == candidates.sum():
        raise NotComputable(f"the collection at hand has no more candidates of {name!r}")
    return wider, (extent[0], f"with {name}")


def _has_other_right_ones(world: World, task: str, pairs: tuple[Places, Places]) -> bool:
    """Whether a caption of the result is right for an image that is not its own."""
    caption, image = pairs if task == "t2i" else pairs[::-1]
    owners = world.owner[caption]
    return bool(((owners >= 0) & (owners != image)).any())


def _queries(
    world: World, task: str, queries: Places, pairs: tuple[Places, Places], chosen: _Chosen, reading: Reading
) -> tuple[Places, tuple[Places, Places]]:
    value = reading.value("queries")
    if value == "first":
        _need_captions(world)
        place, count = _place_in_image(chosen.owner[chosen.captions])
        if count.max() == 1:
            raise NotComputable("every image has one caption")
        queries = chosen.captions[place == 0] if task == "t2i" else queries
    elif isinstance(value, int):
        if value >= len(queries):
            raise NotComputable(f"there are only {len(queries):,} queries")
        queries = queries[:value]
    elif value in ("per image", "any"):
        _need_captions(world)
        _, count = _place_in_image(chosen.owner[chosen.captions])
        if count.max() == 1:
            raise NotComputable("every image has one caption")
        if value == "per image" and count.min() == count.max():
            raise NotComputable("all images have equally many captions")
    inside = _mask(queries, len(world.ids(SIDES[task][0])))[pairs[0]]
    return queries, (pairs[0][inside], pairs[1][inside])


def _positives(task: str, pairs: tuple[Places, Places], chosen: _Chosen, reading: Reading) -> tuple[Places, Places]:
    if reading.value("positives") != "first" or task == "t2i":
        return pairs
    place, _ = _place_in_image(chosen.owner[chosen.captions])
    keep = np.isin(pairs[1], chosen.captions[place == 0])
    return pairs[0][keep], pairs[1][keep]


def _folds(world: World, task: str, part: Part, chosen: _Chosen, reading: Reading) -> Part:
    """Cut the images into parts; each query meets the candidates of its own part."""
    value = reading.value("folds")
    n = len(chosen.images)
    fold = np.full(len(world.image_ids) + 1, -1)
    if value is None:
        if world.own_folds is None or part.extent != ("own", "own"):
            return part
        fold[:-1] = world.own_folds
        if task == "t2i" and (world.own_folds[np.flatnonzero(part.candidates[:-1])] < 0).any():
            raise NotComputable("folds hold images without a caption, and the run does not say which are in which")
    elif value == 1:
        if world.own_folds is None:
            raise NotComputable("it is one gallery as it is")
        return part
    else:
        _need_captions(world)
        assert isinstance(value, tuple)
        kind, count = value
        own = 1 if world.own_folds is None else len(np.unique(world.own_folds[world.images]))
        if own == count and part.extent == ("own", "own") and kind == "folds":
            raise NotComputable(f"it is {count} folds as it is")
        if kind == "folds" and n % count:
            raise NotComputable(f"{n:,} images do not divide into {count} equal folds")
        if (kind == "batches" and count >= n) or count > n:
            raise NotComputable(f"there are only {n:,} images")
        rows = np.arange(n)
        fold[chosen.images] = {"folds": rows * count // n, "every": rows % count, "batches": rows // count}[kind]
    folds = int(fold.max()) + 1
    of_captions = np.where(chosen.owner < 0, -1, fold[chosen.owner])
    sides = {"image": fold, "text": np.append(of_captions, -1)}
    queries, documents = SIDES[task]
    if not world.has_captions:  # the fold of a caption is that of its right image
        caption, image = part.pairs if task == "t2i" else part.pairs[::-1]
        sides["text"] = np.full(len(world.caption_ids) + 1, -1)
        sides["text"][caption] = fold[image]
    return replace(
        part, query_fold=sides[queries][part.queries], document_fold=sides[documents], folds=folds
    )  # fmt: skip


def _copies(world: World, task: str, part: Part, chosen: _Chosen, reading: Reading) -> Part:
    """Make each image a candidate once for each of its captions that take part."""
    which = reading["copies"]
    if which is None:
        return part
    _need_captions(world)
    place, count = _place_in_image(chosen.owner[chosen.captions])
    if count.max() <= 1:
        raise NotComputable("every image has one caption")
    if task != "t2i":
        return part
    images = np.flatnonzero(part.candidates[:-1])
    further = world.owner[world.captions_of(np.setdiff1d(images, chosen.images))]
    owners = np.concatenate([chosen.owner[chosen.captions], further])
    copies = np.bincount(owners, minlength=len(world.image_ids) + 1)
    before = np.zeros(len(world.caption_ids), np.int64)
    if which != "any":
        before[chosen.captions] = place if which == "own" else count - 1
    return replace(part, copies=copies, copies_before=before[part.queries])


def _in_order(part: Part) -> tuple[Places, Places]:
    """The right pairs in the order of the queries."""
    size = int(max(part.queries.max(initial=0), part.pairs[0].max(initial=0))) + 1
    row = np.full(size, -1)
    row[part.queries] = np.arange(len(part.queries))
    keep = row[part.pairs[0]] >= 0
    query, document = part.pairs[0][keep], part.pairs[1][keep]
    order = np.argsort(row[query], kind="stable")
    return row[query][order], document[order]


def _weights(world: World, task: str, part: Part, reading: Reading) -> NDArray[np.float64]:
    """Each fold weighs the same, and within a fold each query, or each image."""
    n = len(part.queries)
    if n == 0:
        raise NotComputable("no query is left")
    weights = np.ones(n)
    if reading["queries"] in ("one per image", "any caption") and task == "t2i":
        _, count = _place_in_image(world.owner[part.queries])
        weights = 1 / count
    if part.query_fold is not None:
        totals = np.bincount(part.query_fold, weights, minlength=part.folds)
        weights = weights / totals[part.query_fold]
    normalised: NDArray[np.float64] = weights / weights.sum()
    return normalised
