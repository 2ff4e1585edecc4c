"""What each probe is fitted to and tried on: one example per image, and a cut that goes between images."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.errors import CollectionError, raise_faults
from visir.evaluation.captions import Choice
from visir.evaluation.latent_facts import LatentFact, latent_facts, owners_of, shortcut_digits
from visir.records import Collection

Source = Literal["image", "told", "untold"]
SOURCES: tuple[Source, ...] = get_args(Source)
"""What is read: the image's vector, that of a caption which tells the fact, that of a caption which does not."""
_WORDS = {"image": "images", "told": "captions that tell it", "untold": "captions that do not tell it"}

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Examples:
    """The examples of one fact from one source, in the order of the ids of their images.

    - `rows`: (n,) the row of each vector, among the images' or among the captions'
    - `labels`: (n,) the value of each, a code ≥ 0
    - `images`: (n,) the row of the image that each belongs to; no image comes twice
    """

    fact: LatentFact
    source: Source
    rows: Integers
    labels: Integers
    images: Integers


def in_order(collection: Collection) -> Collection:
    """Images and captions in the order of their ids: a sum, and so a probe, depends a little on the order of rows."""
    return replace(collection, images=collection.images.sort_by("id"), captions=collection.captions.sort_by("id"))


def groups_of(collection: Collection) -> list[str]:
    """(images,) what must not be cut apart: the id of each image, or of the one that it is a near-duplicate of."""
    ids: list[str] = collection.images["id"].to_pylist()
    if collection.facts is None or "near_duplicate_of" not in collection.facts.column_names:
        return ids
    known = zip(
        collection.facts["image_id"].to_pylist(), collection.facts["near_duplicate_of"].to_pylist(), strict=True
    )
    originals = {image: original for image, original in known if original is not None}
    return [originals.get(identifier, identifier) for identifier in ids]


def deal(labels: Integers, groups: Sequence[str], folds: int, seed: int) -> Integers:
    """(n,) the fold of each example, those of one group together: `labels` (n,), `groups` (n,).

    Stratified: every value is spread over the folds as evenly as it can be. Dealt at random, the value that is the most
    frequent in a held-out part would be too rare in the others, and a probe that knows nothing would guess the others'
    and end not at chance but clearly below. Within a value (the first of the group's) by the hash of (seed, group): the
    same in whatever order the examples are listed.
    """
    value = dict(zip(reversed(groups), reversed(labels.tolist()), strict=True))
    key = f"visir probes {seed}".encode()
    drawn = {member: hashlib.blake2b(member.encode(), key=key).digest() for member in value}
    ordered = sorted(value, key=lambda member: (value[member], drawn[member]))
    fold = {member: place % folds for place, member in enumerate(ordered)}
    return np.array([fold[group] for group in groups], np.int64)


def examples_of(collection: Collection, folds: int, seed: int) -> list[Examples]:
    """The examples of every fact and every source that it has, facts first, then the digits of shortcuts.

    An image gives one example to each: its vector; of its captions that tell the fact, one drawn by `seed`; of those
    that do not, one. Raises `CollectionError` naming every fact of which a value occurs in fewer than `folds` images.
    Of a shortcut's digits such values are left out, and positions where fewer than two remain.
    """
    owners = owners_of(collection)
    made: list[Examples] = []
    faults: list[str] = []
    for fact in latent_facts(collection) + shortcut_digits(collection):
        for examples in _sources(collection, fact, owners, seed):
            values, counts = np.unique(examples.labels, return_counts=True)
            often = counts >= folds
            where = f"fact {fact.name!r}, {_WORDS[examples.source]}"
            if fact.role == "shortcut":
                if often.sum() > 1:
                    made.append(_only(examples, values[often]))
            elif len(values) == 1:
                faults.append(f"{where}: all {len(examples.rows):,} have the same value")
            elif not often.all():
                faults.append(f"{where}: {(~often).sum()} of {len(values)} values in fewer than {folds} images")
            else:
                made.append(examples)
    raise_faults(
        CollectionError,
        f"{collection.name}: too few examples to probe with {folds} folds",
        faults,
        hint="probe more images: another split, or scenes of their own ('scenes:2000?seed=1')",
    )
    return made


def _only(examples: Examples, values: Integers) -> Examples:
    """The examples that have one of these values."""
    selected = np.isin(examples.labels, values)
    return replace(
        examples, rows=examples.rows[selected], labels=examples.labels[selected], images=examples.images[selected]
    )


def _sources(collection: Collection, fact: LatentFact, owners: Integers, seed: int) -> Iterator[Examples]:
    rows = np.flatnonzero(fact.of_images >= 0)
    if len(rows):
        yield Examples(fact, "image", rows, fact.of_images[rows], rows)
    for source, mask in (("told", fact.is_told), ("untold", ~fact.is_told)):
        rows = np.flatnonzero(mask & (fact.of_captions >= 0))
        if len(rows):
            drawn = collection.captions.take(pa.array(rows))
            keep = Choice("random", seed=seed).keep(drawn["id"].combine_chunks(), drawn["image_id"].combine_chunks())
            rows = rows[keep]
            rows = rows[np.argsort(owners[rows], kind="stable")]
            yield Examples(fact, source, rows, fact.of_captions[rows], owners[rows])  # type: ignore[arg-type]
