"""Vectors of texts that are the same, bit by bit, whatever else is encoded at the time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder

WIDEST = 32
"""Texts of one batch."""
KEPT = 2048
"""Vectors of texts that are kept: 6 MB at 768 dimensions."""


class PinnedTexts:
    """An encoder of texts that gives a text one vector, alone or in any company; thread-safe.

    A network's vectors depend on the company by rounding (1e-7): padding changes how an attention's sums are cut, and
    a product of matrices takes another kernel for another number of rows. Near ties then change places with the load.
    So here a text's vector is *defined*: as the first of a batch of two, the text and itself. (Not of a batch of one:
    one row goes through a matrix-vector product, whose sums no larger batch repeats.)

    Larger batches are only a faster way to the same bits. They hold texts of one length, so nothing is padded, and
    2, 4, 8, 16 or 32 of them, so there are few shapes. The first batch of a shape is encoded both ways; only when all
    its vectors are the defined ones is that shape used from then on, otherwise never, and its texts are encoded one by
    one. So that the ways agree is measured on the machine that runs, not assumed. An encoder that cannot tell lengths
    (`Encoder.text_lengths`) encodes one by one.

    A head over a frozen encoder is applied vector by vector: it costs next to nothing, and its products are of so few
    rows that larger batches seldom repeat them.

    It costs: of captions of 8 to 20 words few have one length, so a batch of 16 takes twice as long as padded ones.

    Rounding the vectors to a grid instead would not do: whatever lies near the edge of two cells still falls into
    either. At 768 dimensions, errors of 1e-7 and a grid of 1e-4, that is every second text.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        below = encoder.backbone("text")
        self._below = None if below is None else PinnedTexts(below)
        self._lock = threading.Lock()
        self._steady: dict[tuple[int, int], bool] = {}
        self._kept: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimension) vectors, not normalised. Those of the last `KEPT` texts are remembered."""
        with self._lock:
            found = {text: self._kept[text] for text in texts if text in self._kept}
            wanted = [text for text in dict.fromkeys(texts) if text not in found]
            found.update(zip(wanted, self._made(wanted), strict=True))
            for text in found:
                self._kept[text] = found[text]
                self._kept.move_to_end(text)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return np.stack([found[text] for text in texts]) if texts else np.empty((0, self.encoder.dimension), np.float32)

    def _made(self, texts: list[str]) -> list[NDArray[np.float32]]:
        if self._below is not None:
            return [self._projected(vector) for vector in self._below.vectors(texts)]
        made: dict[str, NDArray[np.float32]] = {}
        for length, alike in self._by_length(texts).items():
            for group in _cut(alike):
                made.update(zip(group, self._batch(length, group), strict=True))
        return [made[text] for text in texts]

    def _projected(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        projected: NDArray[np.float32] = self.encoder.project("text", np.repeat(vector[None], 2, axis=0))[0]
        return projected

    def _by_length(self, texts: list[str]) -> dict[int, list[str]]:
        lengths = self.encoder.text_lengths(texts) if len(texts) > 1 else None
        groups: dict[int, list[str]] = {}
        for place, text in enumerate(texts):
            groups.setdefault(-1 - place if lengths is None else int(lengths[place]), []).append(text)
        return groups

    def _batch(self, length: int, texts: list[str]) -> NDArray[np.float32]:
        """The vectors of texts of one length, as many as a shape holds, or one."""
        shape = (length, len(texts))
        if len(texts) == 1 or self._steady.get(shape) is False:
            return self._one_by_one(texts)
        together = self.encoder.encode_texts(texts)
        if shape not in self._steady:
            alone = self._one_by_one(texts)
            self._steady[shape] = bool(np.array_equal(together, alone))
            return alone
        return together

    def _one_by_one(self, texts: list[str]) -> NDArray[np.float32]:
        return np.concatenate([self.encoder.encode_texts([text, text])[:1] for text in texts])


def _cut(texts: list[str]) -> list[list[str]]:
    """In groups of powers of two, the largest first: 13 texts as 8, 4 and 1."""
    groups, start = [], 0
    while start < len(texts):
        size = min(1 << (len(texts) - start).bit_length() - 1, WIDEST)
        groups.append(texts[start : start + size])
        start += size
    return groups
