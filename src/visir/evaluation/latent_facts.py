"""The targets of probes: the latent facts of generated scenes, and the digits of synthetic shortcuts.

The thesis (section 4.2) divides the content of a picture into information that its captions share (S), information in
only one of them (C), and task-irrelevant information (¬R); section 4.3 adds a synthetic shortcut. On photographs nobody
knows which is which; for generated scenes it is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import Displayed
from visir.errors import CollectionError, nearest, raise_faults
from visir.records import Collection
from visir.records.shortcuts import DIGITS, Shortcuts
from visir.shortcuts.stamp import numbers
from visir.shortcuts.view import caption_places, picture_places

Role = Literal["shared", "specific", "irrelevant", "shortcut"]
ROLES: tuple[Role, ...] = get_args(Role)

FEW_BITS = 3
"""Up to this many bits a number is one digit (0 to 7), and each bit is a linear function of its one-hot code."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class LatentFact(Displayed):
    """One property that has a value in every picture."""

    name: str  # the name of the fact
    # Which captions tell it: "shared" all, "specific" one, "irrelevant" none; "shortcut": a digit of a number.
    role: Role
    of_images: Integers  # (images,) the value of each image of the collection as a code ≥ 0; −1 where there is none
    of_captions: Integers  # (captions,) the value that each caption tells, or would tell
    is_told: NDArray[np.bool_]  # (captions,) whether a caption tells it


def latent_facts(collection: Collection) -> list[LatentFact]:
    """The facts of generated scenes."""
    described = (
        [] if collection.facts is None else [fact for fact in collection.facts.schema if _role(fact) is not None]
    )
    if collection.facts is None or collection.caption_facts is None or not described:
        raise CollectionError(
            f"{collection.name}: no latent facts are known of its images.",
            hint="probe generated scenes: visir probe 'scenes:2000?seed=1' --model …",
            code="no-latent-facts-known",
        )
    faults = [
        f"fact {fact.name!r} has the role {_role(fact)!r} ({nearest(str(_role(fact)), ROLES[:3])})"
        for fact in described
        if _role(fact) not in ROLES[:3]
    ]
    of_image = pc.index_in(collection.images["id"], collection.facts["image_id"].combine_chunks())
    of_caption = pc.index_in(collection.captions["id"], collection.caption_facts["caption_id"].combine_chunks())
    for kind, rows in (("images", of_image), ("captions", of_caption)):
        if rows.null_count:
            faults.append(f"{rows.null_count:,} {kind} have no row in the table of facts")
    raise_faults(CollectionError, f"{collection.name}: facts to probe", faults)
    owners = owners_of(collection)
    tells = collection.caption_facts["tells"].take(of_caption)
    facts = []
    for column in described:
        codes = _codes(collection.facts[column.name].take(of_image))
        is_told = _contains(tells, column.name)
        facts.append(LatentFact(column.name, _role(column), codes, codes[owners], is_told))  # type: ignore[arg-type]
    return facts


def shortcut_digits(collection: Collection) -> list[LatentFact]:
    """The number that a collection's shortcuts give each tuple, digit by digit from the left."""
    # With 1 to 3 bits the number is one digit, and its bits are probed instead, the lowest first. With more bits they
    # are not: the bits of a number of several digits are no linear function of its digits, so a vector could contain
    # every digit and the probe would miss the bits.
    # `of_images` is the number in the picture alone, and `of_captions` the number in the caption. Where one side
    # carries no number (shortcuts on images or on captions only) it is the number of its tuple, which a probe can only
    # guess.
    injected = collection.injected
    if injected is None:
        return []
    places = picture_places(collection.items("image"))
    pictures = np.where(places < 0, -1, numbers(injected, np.maximum(places, 0), injected.assignment))
    captions = numbers(injected, caption_places(collection.items("text")), injected.assignment)
    is_told = np.full(len(captions), injected.shortcuts.on_captions)
    return [
        LatentFact(name, "shortcut", np.where(pictures < 0, -1, _part(pictures, divisor, base)),
                   _part(captions, divisor, base), is_told)
        for name, divisor, base in _parts(injected.shortcuts)
    ]  # fmt: skip


def owners_of(collection: Collection) -> Integers:
    """Find the image of each caption."""
    # Returns: (captions,) the row of the image.
    rows = pc.index_in(collection.captions["image_id"], collection.images["id"].combine_chunks())
    return np.asarray(rows.to_numpy(), np.int64)


def _parts(shortcuts: Shortcuts) -> Sequence[tuple[str, int, int]]:
    """(name, divisor, base) of each part of a number."""
    if shortcuts.kind == "bits" and shortcuts.bits <= FEW_BITS:
        return [(f"bit {place + 1}", 2**place, 2) for place in range(shortcuts.bits)]
    return [(f"digit {place + 1}", 10 ** (DIGITS - 1 - place), 10) for place in range(DIGITS)]


def _part(whole: Integers, divisor: int, base: int) -> Integers:
    return np.asarray(whole // divisor % base, np.int64)


def _role(column: pa.Field) -> str | None:
    role = (column.metadata or {}).get(b"role")
    return None if role is None else role.decode()


def _codes(values: pa.ChunkedArray) -> Integers:
    """(n,) each value as a code; −1 for null."""
    indices = values.combine_chunks().dictionary_encode().indices
    return np.asarray(pc.fill_null(indices, -1).to_numpy(zero_copy_only=False), np.int64)


def _contains(lists: pa.ChunkedArray, name: str) -> NDArray[np.bool_]:
    """(n,) whether each list has the string `name` in it."""
    flat = lists.combine_chunks()
    contained = np.zeros(len(flat), bool)
    rows = pc.list_parent_indices(flat).to_numpy(zero_copy_only=False)
    contained[rows[pc.equal(flat.flatten(), name).to_numpy(zero_copy_only=False)]] = True
    return contained
