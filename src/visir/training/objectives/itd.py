"""ITD: a caption's vector should be enough to say the caption again, word by word."""

from __future__ import annotations

from visir.training.objectives.joins import Join
from visir.training.settings import Settings
from visir.training.sides import Count, Positive


class ITDSettings(Settings):
    """Input target decoding; see `ITD`.

    - `join`: as a "constraint" or as a "dual" loss; `bound` is the constraint's η, `beta` the dual loss's β
    - `words`: width of the decoder's word embeddings; `hidden`: of its GRU
    - `min_count`: rarer words of the training captions become the unknown word
    """

    join: Join = "constraint"
    beta: Positive = 1.0
    bound: Positive = 6.0
    words: Count = 300
    hidden: Count = 1024
    min_count: Count = 1
