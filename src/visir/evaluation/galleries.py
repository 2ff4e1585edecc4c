"""The galleries that a protocol declares, and how galleries and queries are written on its card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from visir.evaluation.captions import Choice
from visir.evaluation.options import Pool
from visir.fingerprint import hash_columns
from visir.records import Collection, Direction, Gallery, Qrels, gallery_line


def galleries_of(
    part: Collection, whole: Collection, gallery: Pool | Mapping[Direction, Gallery], split: str | None, captions: str
) -> dict[Direction, Gallery]:
    """The declared candidates of both directions: of the split `part`, of the `whole` collection, or as given."""
    pool = whole if gallery == "collection" else part
    of = f"of the {split} split" if split not in (None, "all") and gallery != "collection" else "of the collection"
    which = {"all": "all captions"}.get(captions, f"captions ({Choice.parse(captions)} of each image)")
    galleries: dict[Direction, Gallery] = {
        "i2t": pool.caption_gallery(f"{which} {of}"),
        "t2i": pool.image_gallery(f"all images {of}"),
    }
    return galleries if isinstance(gallery, str) else galleries | dict(gallery)


def gallery_said(direction: Direction, pools: Sequence[Mapping[Direction, Gallery]]) -> str:
    """The card's line on the candidates of one direction; with folds, on all of them."""
    if len(pools) == 1:
        return gallery_line(pools[0][direction])
    together = hash_columns([pa.array([pool[direction].fingerprint for pool in pools])], sort=False)
    return f"{len(pools)} × {gallery_line(pools[0][direction]).rsplit(' · ', 1)[0]} · {together[:12]}"


def queries_said(direction: Direction, parts: Sequence[Qrels]) -> str:
    """The card's line on the queries of one direction."""
    count = sum(map(len, parts))
    kind = "images" if direction == "i2t" else "captions"
    return f"{count:,} {kind} · {hash_columns([pa.concat_arrays([part.queries for part in parts])])[:12]}"
