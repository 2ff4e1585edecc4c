"""Disjoint folds of a gallery: COCO's "5-fold 1k" is the mean over five galleries of 1,000 images each.

The convention since VSE++ (Faghri et al. 2018, section 4.1): the test images in the order of the source are cut into
consecutive, equal, disjoint parts; each part is searched by its own queries only, and the numbers are averaged over the
parts. Galleries are five times smaller, so numbers are far higher than on the "5k" protocol (for CLIP by some 20
points): the two are never comparable.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from visir.errors import ConfigurationError
from visir.records import Collection, Ranks


def cut(collection: Collection, folds: int) -> list[Collection]:
    """The collection's images in their order, cut into `folds` equal consecutive parts with their captions.

    Raises `ConfigurationError` when the images do not divide evenly: unequal galleries are unequally hard, and a mean
    over them is nobody's protocol.
    """
    images = collection.images.num_rows
    if folds < 1 or images < folds:
        raise ConfigurationError(f"{images:,} images cannot be cut into {folds} folds.", hint="5 is usual, on COCO")
    if images % folds:
        raise ConfigurationError(
            f"{images:,} images do not divide into {folds} equal folds.",
            hint=f"choose a split of a multiple of {folds} images, or another number of folds",
        )
    if folds == 1:
        return [collection]
    fold = np.arange(images) // (images // folds)
    return [collection.keep_images(fold == one) for one in range(folds)]


def joined(parts: list[Ranks]) -> Ranks:
    """The ranks of all folds as one record, fold after fold."""
    if len(parts) == 1:
        return parts[0]
    depths = {part.depth for part in parts}
    known = [depth for depth in depths if depth is not None]
    ends = np.cumsum([0, *(part.offsets[-1] for part in parts)])
    return Ranks(
        pa.concat_arrays([part.queries for part in parts]),
        np.concatenate([[0], *(part.offsets[1:] + end for part, end in zip(parts, ends, strict=False))]).astype(
            np.int64
        ),
        np.concatenate([part.ranks for part in parts]),
        np.concatenate([part.grades for part in parts]),
        min(known) if known else None,
        max(part.gallery_size for part in parts),
    )
