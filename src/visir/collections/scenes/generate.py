"""Generated scenes as a collection: images drawn when they are looked at, captions, facts, and true judgements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from visir.collections.scenes.captions import ROLES, Length, written_captions
from visir.collections.scenes.facts import BY_NAME, FACTS, Scene, change_one, sample_scene
from visir.collections.scenes.languages import GRAMMARS
from visir.collections.scenes.render import LARGEST, SMALLEST, render
from visir.errors import CollectionError, nearest, raise_faults
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
    language: str = "en",
    length: Length = "usual",
    roles: str = "usual",
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
        language: The language of the captions: en, de, fr, es, zh; or several ("en+de"), each with five captions.
        length: "usual": five captions of one sentence. "short": five of a few words, which do not tell the place.
            "long": one of 100 to 250 words that tells all that captions can tell. The last two are in English only.
        roles: Which facts captions tell: "usual"; "0" to "5", where the roles of facts rotate; "shared", where every
            caption tells every fact. All but the usual are plain English clauses (`visir.collections.scenes.captions`).

    Raises:
        CollectionError: Listing everything that is wrong with the arguments.

    Example:
        >>> collection = scenes(12, size=64)
        >>> collection.splits, collection.captions.num_rows, collection.relevances
        (('test', 'train', 'val'), 60, ('links', 'facts'))
        >>> collection.facts["subject"][0].as_py(), collection.captions["text"][0].as_py()
        ('armchair', 'A mid-sized stripy white armchair is standing out in a meadow.')
    """
    languages = language.split("+")
    check_arguments(n, seed, size, near_duplicates, splits, languages, length, roles)
    drawn = [_scene(seed, index, near_duplicates) for index in range(n)]
    ids = [f"scene-{seed}-{index:06d}" for index in range(n)]
    written = [
        (row, f"{ids[row]}{suffix}", code, kind, caption.text, caption.tells)
        for row, (scene, _) in enumerate(drawn)
        for suffix, code, kind, caption in written_captions(scene, languages, length, roles)
    ]
    owners, caption_ids, codes, kinds, texts, tells = map(list, zip(*written, strict=True))
    listed = {names: [fact.name for fact in FACTS if fact.name in names] for names in set(tells)}
    return Collection.build(
        "scenes",
        images={
            "id": ids,
            "path": [_place(seed, index, size, scene, changed) for index, (scene, changed) in enumerate(drawn)],
            "split": list(split_names([changed is not None for _, changed in drawn], splits)),
        },
        captions={
            "id": caption_ids,
            "text": texts,
            "image_id": [ids[row] for row in owners],
            **({"language": codes} if languages != ["en"] else {}),
        },
        judgements=_judgements(ids, [scene for scene, _ in drawn], caption_ids, np.array(owners, np.int64), tells),
        source=_source(seed, size, near_duplicates, languages, length, roles),
        facts=_facts(ids, drawn, tells),
        caption_facts=pa.table(
            {
                "caption_id": pa.array(caption_ids, pa.string()),
                "kind": pa.array(kinds, pa.string()),
                "tells": pa.array([listed[names] for names in tells], pa.list_(pa.string())),
            }
        ),
    )


def location(seed: int, index: int, size: int, changes: Mapping[str, str | int] | None = None) -> str:
    """Where an image of a generated collection "lies": all that is needed to draw it again.

    Args:
        seed: Of the collection.
        index: The number of the scene.
        size: Pixels of a side.
        changes: The facts in which the image differs from that scene, and their values.

    Example:
        >>> location(0, 41, 128), location(0, 41, 128, {"time": "night", "flyers": 2})
        ('scene:0:41:128', 'scene:0:41:128:time=night,flyers=2')
    """
    place = f"{SCHEME}{seed}:{index}:{size}"
    return f"{place}:{','.join(f'{name}={value}' for name, value in changes.items())}" if changes else place


def read_location(path: str) -> tuple[Scene, int]:
    """The scene and the size that a location names."""
    parts = path.removeprefix(SCHEME).split(":", 3)
    fault = CollectionError(
        f"{path!r} is not the location of a generated scene.",
        hint="expected scene:SEED:INDEX:SIZE or scene:SEED:INDEX:SIZE:FACT=VALUE,FACT=VALUE",
        code="not-location-generated-scene",
    )
    if not path.startswith(SCHEME) or len(parts) < 3 or not all(part.isdecimal() for part in parts[:3]):
        raise fault
    seed, index, size = (int(part) for part in parts[:3])
    scene = sample_scene(seed, index)
    for change in parts[3].split(",") if len(parts) == 4 else ():
        name, equals, value = change.partition("=")
        if not equals or name not in BY_NAME:
            raise fault
        number = isinstance(BY_NAME[name].values[0], int)
        if number and not value.isdecimal():
            raise fault
        scene = scene.with_fact(name, int(value) if number else value)
    return scene, size


def render_location(path: str) -> npt.NDArray[np.uint8]:
    """The picture at a location: (size, size, 3), RGB, 0–255."""
    return render(*read_location(path))


def _scene(seed: int, index: int, near_duplicates: float) -> tuple[Scene, str | None]:
    """Scene `index`, and the fact in which it differs from the one before it if it is a near-duplicate."""
    # Near-duplicates are spread evenly: index i is one where i·share passes a whole number. With a share of at most a
    # half no two of them are neighbours, so the scene before is always an original.
    if int((index + 1) * near_duplicates) == int(index * near_duplicates):
        return sample_scene(seed, index), None
    return change_one(sample_scene(seed, index - 1), seed, index)


def _place(seed: int, index: int, size: int, scene: Scene, changed: str | None) -> str:
    """A near-duplicate is the scene before it, with one fact changed."""
    if changed is None:
        return location(seed, index, size)
    return location(seed, index - 1, size, {changed: getattr(scene, changed)})


def split_names(duplicate: Iterable[bool], splits: Mapping[str, float]) -> Iterator[str]:
    """Each original goes to the split that lacks most; a near-duplicate follows its original."""
    chosen, counts = "", dict.fromkeys(splits, 0)
    for number, follows in enumerate(duplicate, 1):
        if not follows:
            chosen = max(counts, key=lambda name: splits[name] * number - counts[name])
        counts[chosen] += 1
        yield chosen


def _source(seed: int, size: int, near_duplicates: float, languages: Sequence[str], length: Length, roles: str) -> str:
    parts = [f"generated scenes, seed {seed}", f"{size} px"]
    parts += [f"{near_duplicates:g} near-duplicates"] if near_duplicates else []
    parts += [f"languages {', '.join(languages)}"] if list(languages) != ["en"] else []
    parts += [f"{length} captions"] if length != "usual" else []
    parts += [f"roles {roles}"] if roles != "usual" else []
    return ", ".join(parts)


def _facts(ids: list[str], drawn: Sequence[tuple[Scene, str | None]], tells: Sequence[frozenset[str]]) -> pa.Table:
    """The facts of each image. Their roles follow from which captions tell them."""
    distinct = list(dict.fromkeys(tells))
    columns, fields = [pa.array(ids, pa.string())], [pa.field("image_id", pa.string())]
    for fact in FACTS:
        kind = pa.int64() if isinstance(fact.values[0], int) else pa.string()
        columns.append(pa.array([getattr(scene, fact.name) for scene, _ in drawn], kind))
        tellers = [number for number, names in enumerate(distinct) if fact.name in names]
        role = "shared" if len(tellers) == len(distinct) else "specific" if tellers else "irrelevant"
        teller = {"caption": str(tellers[0])} if role == "specific" else {}
        fields.append(pa.field(fact.name, kind, metadata={"role": role, "about": fact.about, **teller}))
    originals = [ids[index - 1] if changed else None for index, (_, changed) in enumerate(drawn)]
    for name, values in (("near_duplicate_of", originals), ("changed_fact", [changed for _, changed in drawn])):
        columns.append(pa.array(values, pa.string()))
        fields.append(pa.field(name, pa.string()))
    return pa.table(columns, schema=pa.schema(fields))


def _judgements(
    ids: list[str],
    drawn: Sequence[Scene],
    caption_ids: list[str],
    owners: npt.NDArray[np.int64],
    tells: Sequence[frozenset[str]],
) -> dict[str, object]:
    """Every (caption, image) such that all facts the caption tells hold of the image, its own image among them."""
    distinct = list(dict.fromkeys(tells))
    kinds = np.array([distinct.index(names) for names in tells], np.int64)
    codes = {
        fact.name: np.array([fact.values.index(getattr(scene, fact.name)) for scene in drawn], np.int64)
        for fact in FACTS
    }
    captions: list[npt.NDArray[np.int64]] = []
    images: list[npt.NDArray[np.int64]] = []
    for kind, names in enumerate(distinct):
        key = np.zeros(len(drawn), np.int64)
        for name in sorted(names):
            key = key * len(BY_NAME[name].values) + codes[name]
        order = np.argsort(key, kind="stable")
        _, start, group, count = np.unique(key[order], return_index=True, return_inverse=True, return_counts=True)
        group_of = np.empty(len(drawn), np.int64)
        group_of[order] = group
        rows = np.flatnonzero(kinds == kind)
        size = count[group_of[owners[rows]]]
        captions.append(np.repeat(rows, size))
        within = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        images.append(order[np.repeat(start[group_of[owners[rows]]], size) + within])
    caption, image = np.concatenate(captions), np.concatenate(images)
    listing = np.lexsort((image, caption))
    caption, image = caption[listing], image[listing]
    return {
        "relevance": pa.array([RELEVANCE]).take(pa.array(np.zeros(len(caption), np.int64))),
        "task": pa.array(["both"]).take(pa.array(np.zeros(len(caption), np.int64))),
        "caption_id": pa.array(caption_ids, pa.string()).take(pa.array(caption)),
        "image_id": pa.array(ids, pa.string()).take(pa.array(image)),
        "grade": np.ones(len(caption), np.float32),
    }


def check_arguments(
    n: int,
    seed: int,
    size: int,
    near_duplicates: float,
    splits: Mapping[str, float],
    languages: Sequence[str] = ("en",),
    length: str = "usual",
    roles: str = "usual",
) -> None:
    """Raise `CollectionError` with everything that is wrong with what was asked for."""
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
    faults += [f"language {code!r}: {nearest(code, GRAMMARS)}" for code in languages if code not in GRAMMARS]
    if len({*languages}) != len(languages):
        faults.append(f"a language is named twice: {'+'.join(languages)}")
    if length not in get_args(Length):
        faults.append(f"length {length!r}: {nearest(length, get_args(Length))}")
    elif length != "usual" and list(languages) != ["en"]:
        faults.append(f"{length} captions are in English only, not {'+'.join(languages)}")
    if roles not in ("usual", *ROLES):
        faults.append(f"roles {roles!r}: {nearest(roles, ('usual', *ROLES))}")
    elif roles != "usual":
        faults += [f"roles {roles} are in English only, not {'+'.join(languages)}"] if list(languages) != ["en"] else []
        faults += [f"roles {roles} and {length} captions exclude each other"] if length != "usual" else []
        faults += [f"roles {roles} and near_duplicates exclude each other"] if near_duplicates else []
    raise_faults(CollectionError, "generated scenes", faults)
