"""Captions with the tags written beside their words: what the taggers make, without one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from visir.robustness.language.tagged_captions import TaggedCaptions


def tagged(*captions: str) -> TaggedCaptions:
    """`tagged("A/AT0 dog/NN1")`: one space between the words; a word and its tag are parted by the last "/"."""
    texts, starts, ends, tags, offsets = [], [], [], [], [0]
    for caption in captions:
        text = ""
        for piece in caption.split():
            word, _, tag = piece.rpartition("/")
            text += " " if text else ""
            starts.append(len(text))
            text += word
            ends.append(len(text))
            tags.append(tag)
        texts.append(text)
        offsets.append(len(starts))
    column = pa.array(tags, pa.string()).dictionary_encode()
    return TaggedCaptions(
        pa.array(texts, pa.string()),
        np.array(offsets, np.int64),
        np.array(starts, np.int32),
        np.array(ends, np.int32),
        column,
        column,
    )
