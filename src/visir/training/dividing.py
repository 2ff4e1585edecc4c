"""A collection without splits is divided: some pictures are trained on, the others say how well it goes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import CollectionError, ConfigurationError
from visir.records import Collection

DEFAULT = "random(0.9, 0.1, seed=0)"
"""How a collection is divided that has no splits of its own."""
_LEAST = 2
"""Pictures with captions that a part needs: with fewer there is nothing to tell a pair from."""
_PARTS = ("train", "val", "test")
_RULE = re.compile(r"random\(\s*(?P<shares>[\d.,\s]+?)\s*(,\s*seed\s*=\s*(?P<seed>\d+)\s*)?\)")


@dataclass(frozen=True)
class RandomDivision:
    """Pictures drawn at random into parts; the captions of a picture stay together.

    Attributes:
        shares: Of the parts "train", "val" and, where there is a third, "test"; they sum to 1.
        seed: Of the draw. It does not depend on the order of the pictures.
    """

    shares: tuple[float, ...]
    seed: int = 0

    @classmethod
    def parse(cls, text: str) -> RandomDivision:
        """Read "random(0.9, 0.1, seed=0)".

        Raises:
            ConfigurationError: The text is not of that form, or the shares do not sum to 1.

        Example:
            >>> RandomDivision.parse("random(0.8, 0.1, 0.1, seed=7)")
            RandomDivision(shares=(0.8, 0.1, 0.1), seed=7)
        """
        match = _RULE.fullmatch(text.strip())
        try:
            shares = tuple(float(share) for share in match["shares"].split(",")) if match else ()
        except ValueError:
            shares = ()
        if match is None or len(shares) not in (2, 3) or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-6:
            raise ConfigurationError(
                f"split_by = {text!r}: expected two or three shares that sum to 1 (train, val, test).",
                hint=f'for instance split_by="{DEFAULT}"; on the command line --split-by "{DEFAULT}"',
            )
        return cls(shares, int(match["seed"] or 0))

    def divide(self, collection: Collection) -> Collection:
        """The same collection with the splits "train", "val" and, with three shares, "test".

        Every part has at least two pictures with captions. Pictures without captions go to "train".

        Raises:
            CollectionError: There are too few pictures with captions.

        Example:
            >>> from visir.collections import open_collection
            >>> divided = RandomDivision((0.9, 0.1)).divide(open_collection("scenes:20"))
            >>> [divided.split(name).images.num_rows for name in divided.splits]
            [18, 2]
        """
        ids = np.sort(np.array(pc.unique(collection.captions["image_id"]).to_pylist(), dtype=object))
        least = _LEAST * len(self.shares)
        if len(ids) < least:
            raise CollectionError(
                f"{collection.name}: {len(ids)} pictures with captions; a division into {len(self.shares)} parts needs "
                f"at least {least}.",
                hint="train on more pairs",
            )
        rest = [max(_LEAST, round(share * len(ids))) for share in self.shares[1:]]
        ends = np.cumsum([len(ids) - sum(rest), *rest])
        drawn = np.random.default_rng(self.seed).permutation(len(ids))
        names = np.array(_PARTS, dtype=object)[np.searchsorted(ends, drawn, side="right")]
        part_of = dict(zip(ids.tolist(), names.tolist(), strict=True))
        splits = pa.array([part_of.get(image, "train") for image in collection.images["id"].to_pylist()], pa.string())
        images = collection.images
        return replace(collection, images=images.set_column(images.schema.get_field_index("split"), "split", splits))
