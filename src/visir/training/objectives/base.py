"""What an objective sees, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class VectorPairs:
    """A batch in the common space; row i of one matches row i of the other.

    - `images`, `texts`: (n, d) unit vectors; `owners`: (n,) integers, equal for captions of one image
    - `targets`: (n, t) latent targets of the captions, or None
    - `tokens`: (n, L) token ids of the captions, 0 is padding, or None
    - `classes`: (n,) integers, what the captions are beyond the image they belong to, or None
    - `rows`: (n,) integers, which captions of the split they are, or None
    """

    images: Tensor
    texts: Tensor
    owners: Tensor
    targets: Tensor | None = None
    tokens: Tensor | None = None
    classes: Tensor | None = None
    rows: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Losses:
    """`total` is what is made small (a scalar with a graph); `parts` its terms, detached, as they enter the log.

    Names of parts: "contrastive", the name of each auxiliary ("ltd", "itd") for its reconstruction loss.
    """

    total: Tensor
    parts: Mapping[str, Tensor]
