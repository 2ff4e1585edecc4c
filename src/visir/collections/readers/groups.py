"""Pictures of one thing, all bearing its descriptions: judgements in which none of them is a wrong answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.collections.draft import Draft
from visir.records import JUDGEMENTS


def judge_groups(draft: Draft, groups: Sequence[str], relevance: str) -> pa.Table:
    """A set of judgements in which every image of a group is a positive (grade 1) of each caption of that group."""
    # Rows hold for both tasks, so a caption finds all images of its group and an image all captions of its own. They
    # are in the order of the captions, those of one caption in the order of the images. A caption of a group of n
    # images has n rows, its own image among them: the set contains the links.
    # groups: (n,) the group of each image of the draft, in its order.
    codes = pa.array(groups, pa.string()).dictionary_encode().indices.to_numpy()
    images = np.argsort(codes, kind="stable")  # group after group, each in the order of the source
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    ids = pa.array(draft.ids, pa.string())
    group_of_caption = codes[
        pc.index_in(pa.array(draft.caption_images, pa.string()), ids).to_numpy()
    ]  # each caption's group
    rows = sizes[group_of_caption]
    caption = np.repeat(np.arange(len(rows)), rows)
    first = np.cumsum(rows) - rows
    image = images[np.arange(len(caption)) + np.repeat(starts[group_of_caption] - first, rows)]
    columns = [
        pa.repeat(relevance, len(caption)),
        pa.repeat("both", len(caption)),
        pa.array(draft.caption_ids, pa.string()).take(pa.array(caption)),
        ids.take(pa.array(image)),
        pa.repeat(pa.scalar(1.0, pa.float32()), len(caption)),
    ]
    return pa.table(columns, schema=JUDGEMENTS)
