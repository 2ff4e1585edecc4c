"""False negatives: captions of one image that fell into the same batch."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

FalseNegatives = Literal["masked", "kept"]
"""What an objective does with captions of the same image in a batch.

- "masked" (every default): such a pair is neither a positive nor a negative.
- "kept": such a pair is a negative like every other in the batch. The papers do this: neither LTD nor VSE++ looks at
  which image a caption in the batch belongs to. Ask for it to reproduce them.
"""


def false_negative_pairs(anchor_rows: Tensor) -> Tensor:
    """Find the different captions of one image."""
    # anchor_rows: (n,) the image of each caption.
    # Returns: (n, n) booleans: whether i and j are different captions of one image.
    same = anchor_rows[:, None] == anchor_rows[None, :]
    same.fill_diagonal_(False)
    return same
