"""Generated scenes as a collection: images drawn when they are looked at, captions, facts, and true judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from visir.collections.scenes.facts import (
    BY_NAME,
    CAPTIONS_PER_SCENE,
    FACTS,
    Scene,
    change_one,
    fact_names,
    sample_scene,
)
from visir.collections.scenes.language import KINDS, TELLS, describe
from visir.collections.scenes.render import LARGEST, SMALLEST, render
from visir.errors import CollectionError, raise_faults
from visir.records import Collection

SCHEME = "scene:"
RELEVANCE = "facts"
"""The name of the judgements by truth: every image of which everything a caption tells is so, is relevant to it."""
SPLITS: Mapping[str, float] = {"train": 0.8, "val": 0.1, "test": 0.1}


def scenes(
    n: int,
    *,
    seed: int = 0,
    size: int = 128,
    near_duplicates: float = 0.0,
    splits: Mapping[str, float] = SPLITS,
) -> Collection:
    """Make a collection of generated scenes with five captions each; no image is drawn yet.

    Scene `i` of a seed is the same whatever `n`.

    `Collection.facts` has a row per image and a column per fact, the role in the column's metadata (`role`: shared,
    specific, irrelevant; `caption`: which one tells it), then `near_duplicate_of` and `changed_fact` (null for all
    others). `Collection.caption_facts` says for every caption its `kind` and the facts it `tells`.

    There are two relevances. Under "links" a caption belongs to the image it was written for. Under "facts" it is
    relevant to every image of which it is true. With few facts told, some captions are true of several images (always
    those of a near-duplicate that do not tell the changed fact), so "links" counts some true answers as wrong: declare
    which.

    Args:
        n: How many scenes, from 1.
        seed: A whole number from 0.
        size: The pictures are `size` × `size` pixels, 64 to 224.
        near_duplicates: The share of scenes that are hard negatives, 0 to 0.5: each differs from the scene just before
            it in exactly one told fact, and is in the same split.
        splits: The share of each split; every prefix of the collection keeps the shares as nearly as it can.

    Raises:
        CollectionError: Listing everything that is wrong with the arguments.

    Example:
        >>> collection = scenes(12, size=64)
        >>> collection.splits, collection.captions.num_rows, collection.relevances
        (('test', 'train', 'val'), 60, ('links', 'facts'))
        >>> collection.facts["subject"][0].as_py(), collection.captions["text"][0].as_py()
        ('armchair', 'A mid-sized stripy white armchair is standing out in a meadow.')
    """
    _check_arguments(n, seed, size, near_duplicates, splits)
    drawn = [_scene(seed, index, near_duplicates) for index in range(n)]
    ids = [f"scene-{seed}-{index:06d}" for index in range(n)]
    caption_ids = [f"{image}#{k}" for image in ids for k in range(CAPTIONS_PER_SCENE)]
    share = "" if near_duplicates == 0 else f", {near_duplicates:g} near-duplicates"
    return Collection.build(
        "scenes",
        images={
            "id": ids,
            "path": [location(seed, index, size, changed, scene) for index, (scene, changed) in enumerate(drawn)],
            "split": _split([changed is not None for _, changed in drawn], splits),
        },
        captions={
            "id": caption_ids,
            "text": [caption.text for scene, _ in drawn for caption in describe(scene)],
            "image_id": [image for image in ids for _ in range(CAPTIONS_PER_SCENE)],
        },
        judgements=_judgements(ids, [scene for scene, _ in drawn]),
        source=f"generated scenes, seed {seed}, {size} px{share}",
        facts=_facts(ids, drawn),
        caption_facts=pa.table(
            {
                "caption_id": pa.array(caption_ids, pa.string()),
                "kind": pa.array(list(KINDS) * n, pa.string()),
                "tells": pa.array(
                    [fact_names(caption=k) for k in range(CAPTIONS_PER_SCENE)] * n, pa.list_(pa.string())
                ),
            }
        ),
    )


def location(seed: int, index: int, size: int, changed: str | None = None, scene: Scene | None = None) -> str:
    """Where an image of a generated collection "lies": all that is needed to draw it again.

    Args:
        seed: Of the collection.
        index: The number of the scene.
        size: Pixels of a side.
        changed: The fact in which a near-duplicate differs from the scene before it; None for other scenes.
        scene: The near-duplicate itself.

    Example:
        >>> location(0, 41, 128)
        'scene:0:41:128'
    """
    if changed is None or scene is None:
        return f"{SCHEME}{seed}:{index}:{size}"
    return f"{SCHEME}{seed}:{index - 1}:{size}:{changed}={getattr(scene, changed)}"


def read_location(path: str) -> tuple[Scene, int]:
    """The scene and the size that a location names."""
    parts = path.removeprefix(SCHEME).split(":", 3)
    fault = CollectionError(
        f"{path!r} is not the location of a generated scene.",
        hint="expected scene:SEED:INDEX:SIZE or scene:SEED:INDEX:SIZE:FACT=VALUE",
    )
    if not path.startswith(SCHEME) or len(parts) < 3 or not all(part.isdecimal() for part in parts[:3]):
        raise fault
    seed, index, size = (int(part) for part in parts[:3])
    scene = sample_scene(seed, index)
    if len(parts) == 4:
        name, equals, value = parts[3].partition("=")
        if not equals or name not in BY_NAME:
            raise fault
        scene = scene.with_fact(name, int(value) if isinstance(BY_NAME[name].values[0], int) else value)
    return scene, size


def render_location(path: str) -> npt.NDArray[np.uint8]:
    """The picture at a location: (size, size, 3), RGB, 0–255."""
    return render(*read_location(path))


def _scene(seed: int, index: int, near_duplicates: float) -> tuple[Scene, str | None]:
    """Scene `index`, and the fact in which it differs from the one before it if it is a near-duplicate.

    Near-duplicates are spread evenly: index i is one where i·share passes a whole number. With a share of at most a
    half no two of them are neighbours, so the scene before is always an original.
    """
    if int((index + 1) * near_duplicates) == int(index * near_duplicates):
        return sample_scene(seed, index), None
    return change_one(sample_scene(seed, index - 1), seed, index)


def _split(duplicate: Sequence[bool], splits: Mapping[str, float]) -> list[str]:
    """Each original goes to the split that lacks most; a near-duplicate follows its original."""
    names, counts = list(splits), dict.fromkeys(splits, 0)
    out: list[str] = []
    for position, follows in enumerate(duplicate):
        chosen = out[-1] if follows else max(names, key=lambda name: splits[name] * (position + 1) - counts[name])
        counts[chosen] += 1
        out.append(chosen)
    return out


def _facts(ids: list[str], drawn: Sequence[tuple[Scene, str | None]]) -> pa.Table:
    columns, fields = [pa.array(ids, pa.string())], [pa.field("image_id", pa.string())]
    for fact in FACTS:
        kind = pa.int64() if isinstance(fact.values[0], int) else pa.string()
        columns.append(pa.array([getattr(scene, fact.name) for scene, _ in drawn], kind))
        teller = {} if fact.caption is None else {"caption": str(fact.caption)}
        fields.append(pa.field(fact.name, kind, metadata={"role": fact.role, "about": fact.about, **teller}))
    originals = [ids[index - 1] if changed else None for index, (_, changed) in enumerate(drawn)]
    for name, values in (("near_duplicate_of", originals), ("changed_fact", [changed for _, changed in drawn])):
        columns.append(pa.array(values, pa.string()))
        fields.append(pa.field(name, pa.string()))
    return pa.table(columns, schema=pa.schema(fields))


def _judgements(ids: list[str], drawn: Sequence[Scene]) -> dict[str, object]:
    """Every (caption, image) such that all facts the caption tells hold of the image, its own image among them."""
    codes = {
        fact.name: np.array([fact.values.index(getattr(scene, fact.name)) for scene in drawn], np.int64)
        for fact in FACTS
        if fact.tellers
    }
    captions: list[npt.NDArray[np.int64]] = []
    images: list[npt.NDArray[np.int64]] = []
    for k, names in enumerate(TELLS):
        key = np.zeros(len(drawn), np.int64)
        for name in sorted(names):
            key = key * len(BY_NAME[name].values) + codes[name]
        order = np.argsort(key, kind="stable")
        _, start, count = np.unique(key[order], return_index=True, return_counts=True)
        first, size = np.repeat(start, count), np.repeat(count, count)  # of the group of each place in `order`
        captions.append(np.repeat(order, size) * CAPTIONS_PER_SCENE + k)
        within = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        images.append(order[np.repeat(first, size) + within])
    caption, image = np.concatenate(captions), np.concatenate(images)
    listing = np.lexsort((image, caption))
    caption, image = caption[listing], image[listing]
    all_captions = pa.array([f"{image}#{k}" for image in ids for k in range(CAPTIONS_PER_SCENE)], pa.string())
    return {
        "relevance": pa.array([RELEVANCE]).take(pa.array(np.zeros(len(caption), np.int64))),
        "task": pa.array(["both"]).take(pa.array(np.zeros(len(caption), np.int64))),
        "caption_id": all_captions.take(pa.array(caption)),
        "image_id": pa.array(ids, pa.string()).take(pa.array(image)),
        "grade": np.ones(len(caption), np.float32),
    }


def _check_arguments(n: int, seed: int, size: int, near_duplicates: float, splits: Mapping[str, float]) -> None:
    faults = []
    if n < 1:
        faults.append(f"n must be at least 1, not {n}")
    if seed < 0:
        faults.append(f"seed must not be negative, not {seed}")
    if not SMALLEST <= size <= LARGEST:
        faults.append(f"size must be {SMALLEST} to {LARGEST} pixels, not {size}")
    if not 0 <= near_duplicates <= 0.5:
        faults.append(f"near_duplicates must be 0 to 0.5, not {near_duplicates}: each stands beside its original")
    if not splits or any(share < 0 for share in splits.values()) or abs(sum(splits.values()) - 1) > 1e-9:
        faults.append(f"splits must be shares that add up to 1, not {dict(splits)}")
    raise_faults(CollectionError, "generated scenes", faults)
