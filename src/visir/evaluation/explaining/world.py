"""What is at hand as numbers, and who searches among whom: a reading of it is a function, part → part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import Displayed
from visir.errors import VisirError
from visir.evaluation.assembly import ALIKE, CaptionChoice
from visir.evaluation.folds import folds_of
from visir.evaluation.results import Evaluation
from visir.records import SIDES, Collection, Protocol, Qrels, Run, Vectors, strings

Places = NDArray[np.int64]
"""Positions in `World.image_ids` or `World.caption_ids`."""
Mask = NDArray[np.bool_]
MOST_PAIRS = 20_000_000
"""Another split of more pairs of an image and a caption is tried only if it is at most four times the result's own."""
GIVE = "its vectors are not at hand (give the collection and the model)"
"""Why a reading of other items, or of other scores, cannot be computed from a result folder."""
ONE_CAPTION = "every image has one caption"


class NotComputable(Exception):
    """What is at hand does not allow a reading; the text is the reason."""


def refuse(condition: Any, reason: str) -> None:
    """Raise the reason why a reading cannot be computed."""
    if condition:
        raise NotComputable(reason)


@dataclass(frozen=True, eq=False, repr=False)
class Material(Displayed):
    """The data that readings are computed from.

    Attributes:
        runs: By task.
        qrels: By task: the judgements.
        captions: Columns id, image_id of the split in the source's order; without it, captions cannot be chosen and
            folds cannot be cut.
        vectors: (images, texts), dense or sparse, of the split or of the whole collection. With them every reading is
            searched again; without them it is cut out of the run.
        fixed: By task and measure: values of the run as it is (an imported `dcg_cm@10`, an exact `mrr`).
        protocol: The protocol of the runs, if it is known.
        source: The collection of the runs, with all its splits.
    """

    runs: Mapping[str, Run]
    qrels: Mapping[str, Qrels]
    captions: pa.Table | None = None
    vectors: tuple[Vectors, Vectors] | None = None
    fixed: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    protocol: Protocol | None = None
    source: Collection | None = None

    @classmethod
    def of(
        cls,
        evaluation: Evaluation,
        vectors: tuple[Vectors, Vectors] | None = None,
        source: Collection | None = None,
    ) -> Material:
        """Collect the data of an evaluation.

        Args:
            evaluation: The evaluation.
            vectors: (images, texts), if at hand.
            source: The collection, if at hand.

        Returns:
            The material.
        """
        result = evaluation.result
        fixed = {
            task: {name: value for name, value in result.aggregates[task].items() if not result.last_rank(task, name)}
            for task in evaluation.runs
        }  # a rank beyond the answers is not known
        return cls(
            evaluation.runs, evaluation.qrels, evaluation.captions, vectors, fixed, result.protocol, source
        )  # fmt: skip


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
    text: Places | None  # (m,) the number of the text of each caption, its own where it is not known; None for no texts

    def ids(self, side: str) -> pa.StringArray:
        """The ids of one side, "image" or "text"."""
        return self.image_ids if side == "image" else self.caption_ids

    def places(self, side: str, ids: pa.StringArray) -> Places:
        """The position of each id of one side, -1 for an unknown one."""
        return places(ids, self.ids(side))

    def mask(self, side: str, chosen: Places) -> Mask:
        """Which images or captions are chosen; the last is none, for position -1."""
        mask = np.zeros(len(self.ids(side)) + 1, bool)
        mask[chosen] = True
        mask[-1] = False
        return mask

    def of_split(self, name: str) -> Places:
        """The images of a split, or of several ("val+test"); "all" is every image."""
        if name == "all":
            return np.arange(len(self.image_ids))
        return np.flatnonzero(np.isin(self.image_split, name.split("+")))

    def captions_of(self, images: Places) -> Places:
        """The captions of these images, in the source's order."""
        return np.flatnonzero(self.mask("image", images)[self.owner])

    def captions_by_image(self, images: Places) -> tuple[Places, Places]:
        """(captions, starts): the captions of these images, image by image as they are given, and where each begins."""
        captions = self.captions_of(images)
        place = np.full(len(self.image_ids), -1)
        place[images] = np.arange(len(images))
        captions = captions[np.argsort(place[self.owner[captions]], kind="stable")]
        return captions, np.searchsorted(place[self.owner[captions]], np.arange(len(images)))

    def own_fold_count(self) -> int:
        """The number of folds of the result."""
        return 1 if self.own_folds is None else len(np.unique(self.own_folds[self.images]))


def places(ids: pa.Array, among: pa.Array) -> Places:
    """The position of each id among others, -1 for an unknown one."""
    positions: Places = pc.fill_null(pc.index_in(ids, among), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return positions


def _joined(parts: list[pa.Array]) -> pa.StringArray:
    return pa.concat_arrays(parts).unique() if parts else pa.array([], pa.string())


def world_of(material: Material) -> World:
    """Number the images and captions at hand."""
    source, listed = material.source, material.captions
    if source is not None and listed is not None:
        _check_source(source, listed)
    named: dict[str, list[pa.Array]] = {"image": [], "text": []}
    judged: dict[str, list[pa.Array]] = {"image": [], "text": []}
    owners = source.captions if source is not None else listed
    if owners is not None:
        of_images = strings(source.images["id"]) if source is not None else strings(owners["image_id"]).unique()
        named["image"].append(of_images)
        named["text"].append(strings(owners["id"]))
    for task, run in material.runs.items():
        queries, documents = SIDES[task]
        qrels = material.qrels[task]
        named[queries] += [run.queries, qrels.queries]
        ranked = [run.documents] if run.gallery.ids is None else [run.gallery.ids, run.documents]
        named[documents] += [*ranked, qrels.documents]
        judged[queries].append(qrels.queries)
        judged[documents].append(qrels.documents.filter(pa.array(qrels.grades > 0)))
    ids = {side: _joined(parts) for side, parts in named.items()}
    owner = np.full(len(ids["text"]), -1)
    if owners is not None:
        owner[places(strings(owners["id"]), ids["text"])] = places(strings(owners["image_id"]), ids["image"])
    split = np.full(len(ids["image"]), "", dtype=object)
    if source is not None:
        split[: source.images.num_rows] = source.images["split"].to_pylist()
    if listed is None:
        images, captions = (np.sort(places(_joined(judged[side]), ids[side])) for side in ("image", "text"))
    else:
        captions = places(strings(listed["id"]), ids["text"])
        chosen = np.zeros(len(ids["image"]), bool)
        chosen[owner[captions]] = True
        run_of_images, protocol = material.runs.get("t2i"), material.protocol
        # Unless candidates of the whole collection were searched for the queries of a split, images without a caption
        # are candidates too.
        is_wider = protocol is None or any("of the collection" in line for line in protocol.galleries.values())
        if run_of_images is not None and run_of_images.gallery.ids is not None and not is_wider:
            chosen[places(run_of_images.gallery.ids, ids["image"])] = True
        images = np.flatnonzero(chosen)
    in_folds = next((run for run in material.runs.values() if folds_of(run) > 1), None)
    folds = None
    if in_folds is not None:  # the fold of an image is that of its queries, which the run lists fold by fold
        folds, parts = np.full(len(ids["image"]), -1), in_folds.provenance["folds"]
        if isinstance(parts, int):
            folds[images] = np.arange(len(images)) * parts // max(len(images), 1)
        else:
            asking = places(in_folds.queries, ids[SIDES[in_folds.task][0]])
            fold = np.repeat(np.arange(len(parts)), [part["queries"] for part in parts])
            folds[asking if in_folds.task == "i2t" else owner[asking]] = fold[: len(asking)]
    return World(
        ids["image"],
        ids["text"],
        owner,
        split.astype(str),
        images,
        captions,
        owners is not None and listed is not None,
        source is not None,
        folds,
        _texts(owners, ids["text"]),
    )


def _texts(owners: pa.Table | None, captions: pa.StringArray) -> Places | None:
    """The number of the text of each caption: of the source's own texts, or as a result folder keeps them."""
    column = next((name for name in ("text", ALIKE) if owners is not None and name in owners.column_names), None)
    if owners is None or column is None:
        return None
    numbers = np.arange(len(captions)) + len(owners)
    known = pc.fill_null(strings(owners[column]).dictionary_encode().indices, -1).to_numpy(zero_copy_only=False)
    at = places(strings(owners["id"]), captions)
    numbers[at[known >= 0]] = known[known >= 0]
    return numbers


def _check_source(source: Collection, ours: pa.Table) -> None:
    """Refuse a collection that lacks captions of the result, or has them beside other images."""
    at = pc.index_in(strings(ours["id"]), strings(source.captions["id"]))
    same = pc.equal(strings(source.captions["image_id"]).take(at), strings(ours["image_id"]))
    different = len(same) - (pc.sum(same).as_py() or 0)
    if different:
        raise VisirError(
            f"{source.name} is not the collection of this result: {different:,} of {len(same):,} captions of "
            "the result are not in it, or are of another image.",
            hint="give the collection that was evaluated, with all its splits",
            code="captions-result-not-another",
        )


# Who searches among whom. First images and captions are taken, and then one side asks and the other is ranked.


@dataclass(frozen=True, eq=False)
class Part:
    """The queries and candidates of one task under a reading."""

    world: World
    task: str
    images: Places  # the images that take part
    captions: Places  # the captions that take part
    owner: Places  # (m,) the image that each caption is taken for; -1 where it is not known
    queries: Places  # (n,) the queries
    candidates: Mask  # (u + 1,) which documents of the world are candidates; the last is False
    # (p,) the right pairs: positions of (query, document); in the end rows of `queries`, in their order, and positions
    pairs: tuple[Places, Places]
    weights: NDArray[np.float64]  # (n,) the weight of each query in the mean, in the end; the sum is 1
    has_own_queries: bool = True  # whether the queries are of the result
    has_own_candidates: bool = True  # whether the candidates are among those of the result
    is_relinked: bool = False  # whether captions are taken for those of other images
    by_image: bool = False  # whether each image weighs the same, and not each caption
    is_grouped: bool = False  # whether the captions of an image are one query
    answered: Mask | None = None  # which of the queries of the result find something; None for all
    query_fold: Places | None = None  # (n,) the fold of each query; None for one gallery
    document_fold: Places | None = None  # (u + 1,) the fold of each document
    folds: int = 1  # the number of folds
    copies: Places | None = None  # (u + 1,) how often each document is a candidate; None for once
    copies_before: Places | None = None  # (n,) how many copies of its image stand before the right one, for each query
    groups: Places | None = None  # (n,) the number of the image of each query, where `weights` are of images

    @property
    def is_own(self) -> bool:
        """Whether the scores of the result hold all of it."""
        return self.has_own_queries and self.has_own_candidates

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of candidates of each fold."""
        if self.document_fold is None:
            return (int(self.candidates.sum()),)
        folds = self.document_fold[self.candidates]
        return tuple(np.bincount(folds[folds >= 0], minlength=self.folds).tolist())

    @property
    def nth_captions(self) -> tuple[Places, Places]:
        """(place, count): which caption of its image each is, from 0, and how many that image has."""
        refuse(not self.world.has_captions, NO_CAPTIONS)
        return place_among(self.owner[self.captions])


Change = Callable[[Part], Part]
NO_CAPTIONS = "the collection is not at hand: which captions belong to which image, in which order"


def part_as_evaluated(world: World, run: Run, qrels: Qrels) -> Part:
    """The queries, candidates and right pairs of the result."""
    of_queries, of_documents = SIDES[run.task]
    right = qrels.grades > 0
    queries = world.places(of_queries, qrels.queries)
    query = queries[np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))[right]]
    document = world.places(of_documents, qrels.documents)[right]
    if run.gallery.ids is not None:
        gallery = world.places(of_documents, run.gallery.ids)
    else:  # known by its size at most: what takes part in the result, and what is ranked
        own = world.images if of_documents == "image" else world.captions
        gallery = np.concatenate([own, document, world.places(of_documents, run.documents)])
    candidates, images, captions = world.mask(of_documents, gallery), world.images, world.captions
    finds = run.queries.filter(pa.array(np.diff(run.offsets) > 0))
    answered = world.mask(of_queries, world.places(of_queries, finds))
    return Part(
        world, run.task, images, captions, world.owner, queries, candidates, (query, document), np.ones(len(queries)),
        answered=answered,
    )  # fmt: skip


def part_of(own: Part, taken: Sequence[Change], searched: Mapping[str, Change]) -> Part:
    """Change who searches among whom: which images and captions are `taken`, and by name of an axis who asks whom."""
    part, world, is_t2i = own, own.world, own.task == "t2i"
    for change in taken:
        part = change(part)
    most, count = max(MOST_PAIRS, 4 * len(world.images) * len(world.captions)), len(part.images)
    is_larger = not part.has_own_queries and count * len(part.captions) > most
    refuse(is_larger, f"it has {count:,} images, too many to try: evaluate it with its own --split, or without one")
    of_queries, of_documents = SIDES[own.task]
    queries, documents = (part.captions, part.images) if is_t2i else (part.images, part.captions)
    candidates, pairs = world.mask(of_documents, documents), own.pairs
    if part.is_own and not part.is_relinked:
        queries = queries[world.mask(of_queries, own.queries)[queries]]
        if len(part.captions) == len(world.captions) and len(part.images) == len(world.images):
            candidates = own.candidates
    else:
        caption, image = own.pairs if is_t2i else own.pairs[::-1]
        other = (world.owner[caption] >= 0) & (world.owner[caption] != image)
        refuse(other.any(), "the judgements of the result are of its own split and captions: evaluate it so")
        owners = part.owner[part.captions]
        pairs = (part.captions, owners) if is_t2i else (owners, part.captions)
    part = replace(part, queries=queries, candidates=candidates, pairs=pairs)
    for name in ("gallery", "queries", "positives"):
        part = searched[name](part) if name in searched else part
    keep = world.mask(of_queries, part.queries)[part.pairs[0]]
    if taken or searched:  # a query whose right ones are no candidates is none
        keep = keep & part.candidates[part.pairs[1]]
        asking = world.mask(of_queries, part.pairs[0][keep])[part.queries]
        part = replace(part, queries=part.queries[asking])
    part = replace(part, pairs=(part.pairs[0][keep], part.pairs[1][keep]))
    part = searched.get("folds", own_folds)(part)
    part = searched["copies"](part) if "copies" in searched else part
    return _weighted(_in_order(part))


def _in_order(part: Part) -> Part:
    """The right pairs in the order of the queries, and by the row of their query."""
    size = int(max(part.queries.max(initial=0), part.pairs[0].max(initial=0))) + 1
    row = np.full(size, -1)
    row[part.queries] = np.arange(len(part.queries))
    keep = row[part.pairs[0]] >= 0
    query, document = part.pairs[0][keep], part.pairs[1][keep]
    order = np.argsort(row[query], kind="stable")
    return replace(part, pairs=(row[query][order], document[order]))


def _weighted(part: Part) -> Part:
    """Each fold weighs the same, and within a fold each query, or each image."""
    n, asks_captions = len(part.queries), part.task == "t2i"
    refuse(n == 0, "no query is left")
    weights = np.ones(n)
    if part.by_image and asks_captions:
        weights = 1 / place_among(part.world.owner[part.queries])[1]
    if part.query_fold is not None:
        weights = weights / np.bincount(part.query_fold, weights, minlength=part.folds)[part.query_fold]
    weights = weights / weights.sum()
    if not (part.is_grouped and asks_captions):
        return replace(part, weights=weights)
    groups = np.unique(part.world.owner[part.queries], return_inverse=True)[1]
    return replace(part, weights=np.bincount(groups, weights).astype(np.float64), groups=groups)


def place_among(owners: Places) -> tuple[Places, Places]:
    """(place, count): which of those with its number each is, from 0, and how many those are."""
    order = np.argsort(owners, kind="stable")
    grouped = owners[order]
    starts = np.flatnonzero(np.concatenate([[True], grouped[1:] != grouped[:-1]]))
    lengths = np.diff(np.concatenate([starts, [len(order)]]))
    place, count = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    place[order] = np.arange(len(order)) - np.repeat(starts, lengths)
    count[order] = np.repeat(lengths, lengths)
    return place, count


# Functions of readings: which images and captions take part.


def split(part: Part, name: str) -> Part:
    """Another split, or the whole collection ("all")."""
    world = part.world
    images = _images_of(world, name)
    captions = world.captions_of(images)
    return replace(part, images=images, captions=captions, has_own_queries=False, has_own_candidates=False)


def _images_of(world: World, name: str) -> Places:
    refuse(not world.has_source, GIVE)
    images = world.of_split(name)
    missing = [split for split in name.split("+") if split != "all" and not (world.image_split == split).any()]
    refuse(missing, f"the collection at hand has no split {' and none '.join(map(repr, missing))}")
    refuse("+" in name and len(images) == len(world.image_ids), "these are all splits of the collection")
    is_own = len(images) == len(world.images) and (images == world.images).all()
    refuse(is_own, f"it is {'the whole collection' if name == 'all' else f'the {name} split'} as it is")
    return images


def captions_of_split(part: Part, name: str) -> Part:
    """The captions of another split beside these images, row by row."""
    refuse(not part.world.has_captions, NO_CAPTIONS)
    others = part.world.captions_of(_images_of(part.world, name))[: len(part.captions)]
    refuse(len(others) < len(part.captions), "that split has fewer captions")
    owner = np.full(len(part.owner), -1)
    owner[others] = part.owner[part.captions]
    part = replace(part, captions=others, owner=owner, is_relinked=True)
    return replace(part, has_own_queries=False, has_own_candidates=False)


def linked(part: Part, place: Callable[[Places, int], Places]) -> Part:
    """Take captions for those of other images."""
    # place: (the place of the image of each caption, the number of images) → the place of the image it is taken for.
    refuse(not part.world.has_captions, NO_CAPTIONS)
    images, n = part.images, len(part.images)
    position = np.zeros(len(part.world.image_ids), np.int64)
    position[images] = np.arange(n)
    taken = images[place(position[part.owner[part.captions]], n)]
    captions = part.captions[: len(taken)]
    owner = np.full(len(part.owner), -1)
    owner[captions] = taken
    return replace(part, captions=captions, owner=owner, is_relinked=True)


def images_by_id(part: Part) -> Part:
    """Take captions in the order of the source for those of the images in the order of ids."""
    order = np.argsort(np.array(part.world.image_ids.take(pa.array(part.images)).to_pylist()), kind="stable")
    refuse(part.world.has_captions and (order == np.arange(len(order))).all(), "the ids are in the order of the source")
    return linked(part, lambda own, n: order[own])


def all_captions(part: Part) -> Part:
    """Every caption of each image."""
    refuse(not part.world.has_captions, NO_CAPTIONS)
    captions = part.world.captions_of(part.images)
    refuse(len(captions) == len(part.captions), "all captions took part as it is")
    return replace(part, captions=captions)


def captions_where(part: Part, keep: Callable[[Places, Places], Mask]) -> Part:
    """Some captions of each image, chosen by their place in it, from 0, and their number."""
    return _keep(part, keep(*part.nth_captions))


def random_captions(part: Part) -> Part:
    """One random caption of each image."""
    refuse(not part.world.has_captions, NO_CAPTIONS)
    ids = part.world.caption_ids.take(pa.array(part.captions))
    return _keep(part, CaptionChoice("random").keep(ids, pa.array(part.owner[part.captions])))


def _keep(part: Part, keep: Mask) -> Part:
    refuse(keep.all(), "no image has more captions")
    refuse(not keep.any(), "no image has so many captions")
    return replace(part, captions=part.captions[keep])


def some_images(part: Part, count: float, last: bool) -> Part:
    """The first or the last images only, a number or a share of them, and their captions."""
    n = len(part.images)
    number = int(n * count) if count < 1 else int(count)
    refuse(number >= n or number == 0, f"there are only {n:,} images")
    images = part.images[-number:] if last else part.images[:number]
    inside = np.isin(part.owner[part.captions], images)
    refuse(not inside.any(), "the images are not known by their captions")
    return replace(part, images=images, captions=part.captions[inside])


# Functions of readings: who asks, who is ranked, and who is right.


def judged(part: Part) -> Part:
    """Only what is judged is ranked."""
    return replace(part, candidates=part.world.mask(SIDES[part.task][1], part.pairs[1]))


def candidates_of(part: Part, name: str) -> Part:
    """Candidates of another split too, or of the whole collection ("all")."""
    world = part.world
    refuse(not world.has_source, GIVE)
    images = world.of_split(name)
    more = images if part.task == "t2i" else world.captions_of(images)
    wider = part.candidates | world.mask(SIDES[part.task][1], more)
    is_same = len(images) == 0 or wider.sum() == part.candidates.sum()
    refuse(is_same, f"the collection at hand has no more candidates of {name!r}")
    return replace(part, candidates=wider, has_own_candidates=False)


def first_captions_ask(part: Part) -> Part:
    """The first caption of each image is a query; all captions are candidates."""
    place, count = part.nth_captions
    refuse(count.max() == 1, ONE_CAPTION)
    return replace(part, queries=part.captions[place == 0]) if part.task == "t2i" else part


def first_queries(part: Part, number: int) -> Part:
    """The first queries only."""
    refuse(number >= len(part.queries), f"there are only {len(part.queries):,} queries")
    return replace(part, queries=part.queries[:number])


def any_caption(part: Part) -> Part:
    """The captions of an image are one query."""
    refuse(part.nth_captions[1].max() == 1, ONE_CAPTION)
    return replace(part, by_image=True, is_grouped=True)


def each_image(part: Part) -> Part:
    """Each image weighs the same, whatever its number of captions."""
    _, count = part.nth_captions
    refuse(count.max() == 1, ONE_CAPTION)
    refuse(count.min() == count.max(), "all images have equally many captions")
    return replace(part, by_image=True)


def merged_by_text(part: Part) -> Part:
    """Captions of one text are one: a query with all their images, a candidate that is right for all of them."""
    text = part.world.text
    refuse(
        text is None,
        "it is not known which captions have one text (give the collection)",
    )
    assert text is not None
    captions = part.queries if part.task == "t2i" else np.flatnonzero(part.candidates[:-1])
    _, first, number = np.unique(text[captions], return_index=True, return_inverse=True)
    refuse(len(first) == len(captions), "no two captions have one text")
    merged = np.arange(len(text))  # the first caption of its text, for each caption
    merged[captions] = captions[first[number]]
    caption, image = part.pairs if part.task == "t2i" else part.pairs[::-1]
    caption, image = np.unique(np.stack([merged[caption], image]), axis=1)
    if part.task == "t2i":
        return replace(part, queries=captions[np.sort(first)], pairs=(caption, image))
    return replace(part, candidates=part.world.mask("text", captions[first]), pairs=(image, caption))


def answered_queries(part: Part) -> Part:
    """Without the queries that find nothing at all."""
    refuse(part.answered is None or not part.has_own_queries, GIVE)
    assert part.answered is not None
    keep = part.answered[part.queries]
    refuse(keep.all(), "every query finds something")
    return replace(part, queries=part.queries[keep])


def answerable_queries(part: Part) -> Part:
    """Without the queries none of whose right ones is a candidate: what every reading but the plain one leaves out."""
    missing = np.setdiff1d(part.pairs[0], part.pairs[0][part.candidates[part.pairs[1]]])
    refuse(not len(missing), "every query has a right candidate")
    return part


def first_captions_are_right(part: Part) -> Part:
    """The other captions of an image are wrong candidates."""
    if part.task == "t2i":
        return part
    place, _ = place_among(part.owner[part.captions])
    keep = np.isin(part.pairs[1], part.captions[place == 0])
    return replace(part, pairs=(part.pairs[0][keep], part.pairs[1][keep]))


# Functions of readings: folds and copies.


def own_folds(part: Part) -> Part:
    """Within the folds of the result, where it has some."""
    own = part.world.own_folds
    if own is None or not part.is_own:
        return part
    lost = part.task == "t2i" and (own[np.flatnonzero(part.candidates[:-1])] < 0).any()
    refuse(lost, "folds hold images without a caption, and the run does not say which are in which")
    return _within(part, np.append(own, -1))


def one_gallery(part: Part) -> Part:
    """One gallery in place of the folds of the result."""
    refuse(part.world.own_folds is None, "it is one gallery as it is")
    return part


def in_folds(
    part: Part, fold: Callable[[Places, int], Places], count: int, equal: bool = False, sizes: bool = False
) -> Part:
    """Cut the images into parts; each query meets the candidates of its own part."""
    # fold: (the place of each image, the number of images) → its fold.
    # equal: whether `count` folds have equally many images; sizes: whether `count` is how many images a fold has.
    world, n = part.world, len(part.images)
    refuse(not world.has_captions, NO_CAPTIONS)
    refuse(equal and world.own_fold_count() == count and part.is_own, f"it is {count} folds as it is")
    refuse(equal and n % count, f"{n:,} images do not divide into {count} equal folds")
    refuse(count >= n if sizes else count > n, f"there are only {n:,} images")
    folds = np.full(len(world.image_ids) + 1, -1)
    folds[part.images] = fold(np.arange(n), n)
    return _within(part, folds)


def _within(part: Part, fold: Places) -> Part:
    """Each query within the fold of its image, or of its right one."""
    of_captions = np.append(np.where(part.owner < 0, -1, fold[part.owner]), -1)
    if not part.world.has_captions:  # the fold of a caption is that of its right image
        caption, image = part.pairs if part.task == "t2i" else part.pairs[::-1]
        of_captions = np.full(len(part.owner) + 1, -1)
        of_captions[caption] = fold[image]
    queries, documents = (of_captions, fold) if part.task == "t2i" else (fold, of_captions)
    return replace(part, query_fold=queries[part.queries], document_fold=documents, folds=int(fold.max()) + 1)


def copied(part: Part, before: Callable[[Places, Places], Places]) -> Part:
    """Each image is a candidate once for each of its captions that take part."""
    # before: (place of a caption in its image, number of those) → how many copies stand before the right one.
    place, count = part.nth_captions
    refuse(count.max() <= 1, ONE_CAPTION)
    if part.task != "t2i":
        return part
    world = part.world
    further = world.owner[world.captions_of(np.setdiff1d(np.flatnonzero(part.candidates[:-1]), part.images))]
    owners = np.concatenate([part.owner[part.captions], further])
    earlier = np.zeros(len(world.caption_ids), np.int64)
    earlier[part.captions] = before(place, count)
    times = np.bincount(owners, minlength=len(world.image_ids) + 1)
    return replace(part, copies=times, copies_before=earlier[part.queries])
