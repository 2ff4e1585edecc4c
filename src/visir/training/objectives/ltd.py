"""LTD: a caption's vector should still hold what a sentence encoder knows of the caption."""

from __future__ import annotations

from visir.training.objectives.joins import Join
from visir.training.settings import Settings
from visir.training.sides import Count, Positive


class LTDSettings(Settings):
    """Latent target decoding; see `LTD`.

    - `target`: the sentence encoder whose vectors of the captions are decoded, as `visir.load` takes it
    - `join`: as a "constraint" or as a "dual" loss; `bound` is the constraint's η, `beta` the dual loss's β
    - `hidden`: width of the decoder's two hidden layers
    """

    target: str = "st:all-MiniLM-L6-v2"
    join: Join = "constraint"
    beta: Positive = 1.0
    bound: Positive = 0.2
    hidden: Count = 1024
