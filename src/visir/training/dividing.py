"""A collection without splits is divided: some pictures are trained on, the others say how well it goes."""

from __future__ import annotations

import math

import pyarrow.compute as pc

from visir.collections import open_collection
from visir.errors import CollectionError, ConfigurationError
from visir.records import Collection

SHARE = 0.1
"""The share of the pictures that validate, where nothing else is said."""
_LEAST = 2
"""Pictures with captions that a part needs: with fewer there is nothing to tell a pair from."""


def default_rule(collection: Collection) -> str:
    """How a collection is divided that has no split to validate on: 9 to 1, and at least two pictures in each part."""
    count = pc.count_distinct(collection.captions["image_id"]).as_py()
    if count < 2 * _LEAST:
        raise CollectionError(
            f"{collection.name}: {count} pictures with captions; to train and to validate takes at least {2 * _LEAST}.",
            hint="train on more pairs",
            code="pictures-captions",
        )
    share = max(SHARE, math.ceil(100 * _LEAST / count) / 100)
    return f"random(train={1 - share:.2g},val={share:.2g},seed=0)"


def divided(collection: Collection, rule: str) -> Collection:
    """A collection with the splits of a rule, of which one must be "train" and one "val"."""
    parts = open_collection(collection, split_by=rule)
    missing = [name for name in ("train", "val") if name not in parts.splits]
    if missing:
        raise ConfigurationError(
            f'split_by = "{rule}": it makes no split "{missing[0]}".',
            hint='"random(train=0.9, val=0.1, seed=0)", or with a part for tests "random(0.8, 0.1, 0.1, seed=0)"',
            code="makes-no-split",
        )
    return parts
