"""Vectors of texts that are the same, bit by bit, whatever else is encoded at the time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder

Given = TypeVar("Given")

WIDEST = 32
"""Texts of one batch."""
COMPARED = 32
"""Texts that a shape must have given the defined vectors of, before it is used. Sums that are cut otherwise still round
to the same bits now and then: in a network of a few dimensions for every second text."""
KEPT = 2048
"""Vectors of texts that are kept: 6 MB at 768 dimensions."""


class DeterministicTextEncoder:
    """An encoder of texts that gives a text one vector, alone or in any company; thread-safe.

    A network's vectors depend on the company by rounding (1e-7): padding changes how an attention's sums are cut, and
    a product of matrices takes another kernel for another number of rows. Near ties then change places with the load.
    So here a text's vector is *defined*: as the first of a batch of two, the text and itself, padded as if alone. (Not
    of a batch of one: one row goes through a matrix-vector product, whose sums no larger batch may repeat.)

    Batches of other sizes are only a faster way to the same bits. They hold texts that are padded to one length
    (`Encoder.text_lengths`), and 1, 2, 4, 8, 16 or 32 of them, filled up with one of them again, so there are few
    shapes. Those of a shape are encoded both ways until `COMPARED` texts were (`learn` does it ahead); only when all
    vectors are the defined ones is that shape used from then on, otherwise never, and its texts are encoded one by one.
    So that the ways agree is measured on the machine that runs, not assumed. An encoder that cannot tell lengths
    encodes one by one.

    A head over a frozen encoder is defined on four rows, and used on 4, 8, … in the same way.

    Rounding the vectors to a grid instead would not do: whatever lies near the edge of two cells still falls into
    either. At 768 dimensions, errors of 1e-7 and a grid of 1e-4, that is every second text.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        below = encoder.base_encoder("text")
        self._below = None if below is None else DeterministicTextEncoder(below)
        self._lock = threading.Lock()
        self._texts = BatchShapes[str](encoder.embed_texts_alike, 2)
        self._heads = BatchShapes[NDArray[np.float32]](lambda some: encoder.project("text", np.stack(some)), 4)
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

    def learn(self, texts: Sequence[str]) -> None:
        """Find out with these texts which shapes can be used, so that nobody's question pays for it.

        `COMPARED` texts or more of one length settle all shapes of it.
        """
        with self._lock:
            if self._below is not None:
                self._below.learn(texts)
                self._heads.learn(0, list(self._below.vectors(texts)))
                return
            for length, alike in self._by_length(list(dict.fromkeys(texts))).items():
                self._texts.learn(length, alike)

    def _made(self, texts: list[str]) -> list[NDArray[np.float32]]:
        if self._below is not None:
            return self._heads.vectors(0, list(self._below.vectors(texts)))
        made: dict[str, NDArray[np.float32]] = {}
        for length, alike in self._by_length(texts).items():
            made.update(zip(alike, self._texts.vectors(length, alike), strict=True))
        return [made[text] for text in texts]

    def _by_length(self, texts: list[str]) -> dict[int, list[str]]:
        lengths = self.encoder.text_lengths(texts) if texts else None
        if lengths is None:
            return {-1 - place: [text] for place, text in enumerate(texts)}
        groups: dict[int, list[str]] = {}
        for text, length in zip(texts, lengths.tolist(), strict=True):
            groups.setdefault(length, []).append(text)
        return groups


class BatchShapes(Generic[Given]):
    """A network's vectors of inputs that are alike, in batches of the sizes that give the defined bits.

    `network`: inputs to (n, d) vectors; `least`: a vector is defined as the first of so many of the same input.
    """

    def __init__(self, network: Callable[[Sequence[Given]], NDArray[np.float32]], least: int) -> None:
        self._network, self._least = network, least
        self._agreed: dict[tuple[int, int], int] = {}

    def vectors(self, kind: int, inputs: list[Given]) -> list[NDArray[np.float32]]:
        """Of inputs of one kind: a length, below zero where nobody knows."""
        found: list[NDArray[np.float32]] = []
        for group, size in _cut(inputs):
            found += self._batch(kind, group, size)
        return found

    def learn(self, kind: int, inputs: list[Given]) -> None:
        """Compare every size of batch of one kind with the defined vectors."""
        if kind < 0 or not inputs:
            return
        defined = [self._defined(one) for one in inputs]
        for size in (1 << power for power in range(WIDEST.bit_length())):
            agreed = self._agreed.get((kind, size), 0)
            for start in range(0, len(inputs), size):
                if not 0 <= agreed < COMPARED:
                    break
                some = inputs[start : start + size]
                together = self._network([*some, *[some[-1]] * (size - len(some))])
                same = np.array_equal(together[: len(some)], np.stack(defined[start : start + size]))
                agreed = agreed + len(some) if same else -1
            self._agreed[kind, size] = agreed

    def _batch(self, kind: int, inputs: list[Given], size: int) -> list[NDArray[np.float32]]:
        agreed = self._agreed.get((kind, size), 0)
        if agreed < 0 or kind < 0:
            return [self._defined(one) for one in inputs]
        together = list(self._network([*inputs, *[inputs[-1]] * (size - len(inputs))])[: len(inputs)])
        if agreed >= COMPARED:
            return together
        alone = [self._defined(one) for one in inputs]
        same = all(np.array_equal(one, other) for one, other in zip(together, alone, strict=True))
        self._agreed[kind, size] = agreed + len(inputs) if same else -1
        return alone

    def _defined(self, one: Given) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self._network([one] * self._least)[0]
        return vector


def _cut(inputs: list[Given]) -> list[tuple[list[Given], int]]:
    """In groups of powers of two, the largest first, each with the size that it is filled up to: 13 as 13 of 16, and 11
    as 8 and 3 of 4. What would be filled by more than a quarter is cut instead.
    """
    groups, start = [], 0
    while start < len(inputs):
        left = min(len(inputs) - start, WIDEST)
        size = 1 << left.bit_length() - 1
        if 2 * left >= 3 * size:
            size *= 2
        groups.append((inputs[start : start + size], size))
        start += size
    return groups
