"""The galleries that a protocol declares, and how galleries and queries are written on its card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from visir.evaluation.captions import Choice
from visir.evaluation.options import Pool
from visir.fingerprint import hash_columns
from visir.records import Collection, Gallery, Qrels, gallery_line


def galleries_of(
    part: Collection, whole: Collection, gallery: Pool | Mapping[str, Gallery], split: str | None, captions: str
) -> dict[str, Gallery]:
    """The declared candidates of both tasks: of the split `part`, of the `whole` collection, or as given."""
    pool = whole if gallery == "collection" else part
    of = f"of the {split} split" if split not in (None, "all") and gallery != "collection" else "of the collection"
    which = {"all": "all captions"}.get(captions, f"captions ({Choice.parse(captions)} of each image)")
    galleries: dict[str, Gallery] = {
        "i2t": pool.caption_gallery(f"{which} {of}"),
        "t2i": pool.image_gallery(f"all images {of}"),
    }
    return galleries if isinstance(gallery, str) else galleries | dict(gallery)


def gallery_said(task: str, pools: Sequence[Mapping[str, Gallery]]) -> str:
    """The card's line on the candidates of one task; with folds, on all of them."""
    if len(pools) == 1:
        return gallery_line(pools[0][task])
    together = hash_columns([pa.array([pool[task].fingerprint for pool in pools])], sort=False)
    return f"{len(pools)} × {gallery_line(pools[0][task]).rsplit(' · ', 1)[0]} · {together[:12]}"


def queries_said(task: str, parts: Sequence[Qrels]) -> str:
    """The card's line on the queries of one task."""
    count = sum(map(len, parts))
    kind = "images" if task == "i2t" else "captions"
    return f"{count:,} {kind} · {hash_columns([pa.concat_arrays([part.queries for part in parts])])[:12]}"
