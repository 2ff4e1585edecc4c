"""The triplet loss: a positive should be more similar than a negative, by a margin."""

from __future__ import annotations

from typing import Literal

from visir.training.objectives.siblings import Siblings
from visir.training.settings import Settings
from visir.training.sides import Positive


class TripletSettings(Settings):
    """Margin hinge over the negatives of a batch; see `Triplet`.

    - `margin`: by how much, in cosines
    - `negatives`: the "hardest" of the batch (VSE++), or the "sum" over all of them
    - `siblings`: other captions of the same image in a batch are left "apart", or "negatives"
    """

    name: Literal["triplet"] = "triplet"
    margin: Positive = 0.2
    negatives: Literal["hardest", "sum"] = "hardest"
    siblings: Siblings = "apart"
