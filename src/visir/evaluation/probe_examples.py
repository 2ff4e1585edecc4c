"""The examples of each probe: one per image, and folds that keep images together."""

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
"""The source of a vector: the image, a caption that tells the fact, a caption that does not."""
_WORDS = {"image": "images", "told": "captions that tell it", "untold": "captions that do not tell it"}

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Examples:
    """The examples of one fact from one source, in the order of the ids of their images."""

    fact: LatentFact  # the fact
    source: Source  # the source
    rows: Integers  # (n,) the row of each vector, among the images' or among the captions'
    labels: Integers  # (n,) the value of each, a code ≥ 0
    images: Integers  # (n,) the row of the image of each; no image occurs twice


def in_order(collection: Collection) -> Collection:
    """Sort images and captions by id: floating-point sums, and so probes, depend slightly on the order of rows."""
    return replace(collection, images=collection.images.sort_by("id"), captions=collection.captions.sort_by("id"))


def groups_of(collection: Collection) -> list[str]:
    """The groups that must stay in one fold: near-duplicates."""
    # Returns: (images,) the id of each image, or of the image that it is a near-duplicate of.
    ids: list[str] = collection.images["id"].to_pylist()
    if collection.facts is None or "near_duplicate_of" not in collection.facts.column_names:
        return ids
    pairs = zip(
        collection.facts["image_id"].to_pylist(), collection.facts["near_duplicate_of"].to_pylist(), strict=True
    )
    originals = {image: original for image, original in pairs if original is not None}
    return [originals.get(identifier, identifier) for identifier in ids]


def deal(labels: Integers, groups: Sequence[str], folds: int, seed: int) -> Integers:
    """Deal examples into folds, those of one group together."""
    # The folds are stratified: every value is spread over the folds as evenly as possible. In random folds, the most
    # frequent value of a held-out part would be rarer in the others; then a probe without any information would score
    # clearly below chance. Within a value (the first of the group's) the order is that of the hash of (seed, group), so
    # it does not depend on the order of the examples.
    # labels: (n,) the value of each example.
    # groups: (n,) the group of each example.
    # Returns: (n,) the fold of each example, from 0.
    value = dict(zip(reversed(groups), reversed(labels.tolist()), strict=True))
    key = f"visir probes {seed}".encode()
    drawn = {member: hashlib.blake2b(member.encode(), key=key).digest() for member in value}
    ordered = sorted(value, key=lambda member: (value[member], drawn[member]))
    fold = {member: place % folds for place, member in enumerate(ordered)}
    return np.array([fold[group] for group in groups], np.int64)


def examples_of(collection: Collection, folds: int, seed: int) -> list[Examples]:
    """Collect the examples of every fact and every source, facts first, then the digits of shortcuts."""
    # An image gives one example to each: its vector; one of its captions that tell the fact, drawn by `seed`; one of
    # those that do not.
    owners = owners_of(collection)
    collected: list[Examples] = []
    faults: list[str] = []
    for fact in latent_facts(collection) + shortcut_digits(collection):
        for examples in _sources(collection, fact, owners, seed):
            values, counts = np.unique(examples.labels, return_counts=True)
            often = counts >= folds
            where = f"fact {fact.name!r}, {_WORDS[examples.source]}"
            if fact.role == "shortcut":
                if often.sum() > 1:
                    collected.append(_only(examples, values[often]))
            elif len(values) == 1:
                faults.append(f"{where}: all {len(examples.rows):,} have the same value")
            elif not often.all():
                faults.append(f"{where}: {(~often).sum()} of {len(values)} values in fewer than {folds} images")
            else:
                collected.append(examples)
    raise_faults(
        CollectionError,
        f"{collection.name}: too few examples to probe with {folds} folds",
        faults,
        hint="probe more images: another split, or scenes of their own ('scenes:2000?seed=1')",
    )
    return collected


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
