"""Siblings: captions of one image that fell into the same batch."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

Siblings = Literal["apart", "negatives"]
"""What siblings are to each other.

- "apart" (every default): neither a positive nor a negative. A caption of the very image is no negative for it.
- "negatives": negatives like everything else in the batch. The papers do this: neither LTD nor VSE++ looks at which
  image a caption in the batch belongs to. Ask for it to reproduce them.
"""


def sibling_pairs(owners: Tensor) -> Tensor:
    """(n, n) booleans from the (n,) owners: whether i and j are different captions of one image."""
    same = owners[:, None] == owners[None, :]
    same.fill_diagonal_(False)
    return same
