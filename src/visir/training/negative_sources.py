"""The hard negatives that a recipe asks for: the inputs of changed captions, and a search by a given model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from visir.encoders import encode_dense
from visir.encoders.base import Encoder
from visir.errors import ConfigurationError
from visir.records import Collection
from visir.robustness.perturb import perturb_texts
from visir.shortcuts.view import plain, with_texts
from visir.training.data import image_rows_of
from visir.training.hard_negatives import Negatives, SwappedNegatives
from visir.training.inputs.base import InputSource
from visir.training.inputs.negatives import HardNegatives, Mined, Swapped
from visir.training.mining import mined_over, plain_words, search

TextSource = Callable[[Collection], InputSource]
"""The inputs of a split's captions as the text side reads them in training."""


def hard_negatives(
    settings: Negatives, split: Collection, texts: TextSource, searcher: Encoder | None
) -> HardNegatives | None:
    """The hard negatives of a training; None where the recipe asks for none."""
    if settings.swapped is None and settings.mined is None:
        return None
    swapped = None if settings.swapped is None else _swapped(settings.swapped, split, texts)
    mined = None if settings.mined is None else mined_over(split, settings.mined)
    if mined is not None and searcher is not None:
        _search_once(mined, split, searcher)
    return HardNegatives(swapped, mined)


def _search_once(mined: Mined, split: Collection, searcher: Encoder) -> None:
    images, captions = (encode_dense(searcher, plain(split), side).normalise().vectors for side in ("image", "text"))
    mined.captions, mined.images = search(mined, images, captions)


def _swapped(settings: SwappedNegatives, split: Collection, texts: TextSource) -> Swapped:
    before, rows = plain(split).captions, image_rows_of(split)
    own: list[set[str]] = [set() for _ in range(split.images.num_rows)]
    for row, text in zip(rows, before["text"].to_pylist(), strict=True):
        own[row].add(plain_words(text))
    sources, anchor_rows = [], []
    for kind in settings.kinds:
        of_kind, belong = [], []
        for variant in range(settings.variants):
            changed = perturb_texts(before["text"], before["id"], kind, seed=settings.seed + variant)
            # Words in another order may give another caption of the image ("a dog and a cat"), which is right.
            wrong = [
                plain_words(text) not in own[row] for row, text in zip(rows, changed.texts.to_pylist(), strict=True)
            ]
            if not any(wrong):
                raise ConfigurationError(
                    f"negatives.swapped.kinds: {kind!r} makes no wrong caption of any of {len(rows):,}.",
                    hint="another kind, e.g. shuffle_all_words",
                )
            of_kind.append(texts(with_texts(split, changed.texts)))
            belong.append(np.where(wrong, -1, rows))
        sources.append(of_kind)
        anchor_rows.append(belong)
    return Swapped(sources, anchor_rows)
