"""Vectors of texts that are the same, bit by bit, whatever else is encoded at the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.library.text_encoder import WIDEST, TextEncoder, vectors_of_each

Input = TypeVar("Input")

COMPARED = 32
"""Texts that a shape must have given the defined vectors of, before it is used. Sums that are cut otherwise still round
to the same bits now and then: in a network of a few dimensions for every second text."""


class DeterministicTextEncoder(TextEncoder):
    """An encoder of texts that gives a text one vector, alone or in any company; thread-safe."""

    # A network's vectors depend on the company by rounding (1e-7): padding changes how an attention's sums are cut, and
    # a product of matrices takes another kernel for another number of rows. Near ties then change places with the load.
    # So here a text's vector is *defined*: as the first of a batch of two, the text and itself, padded as if alone.
    # (Not of a batch of one: one row goes through a matrix-vector product, whose sums no larger batch may repeat.)
    # Batches of other sizes are only a faster way to the same bits. They hold texts that are padded to one length
    # (`Encoder.text_lengths`), and 1, 2, 4, 8, 16 or 32 of them, filled up with one of them again, so there are few
    # shapes. Those of a shape are encoded both ways until `COMPARED` texts were (`learn` does it ahead); only when all
    # vectors are the defined ones is that shape used from then on, otherwise never, and its texts are encoded one by
    # one. So that the ways agree is measured on the machine that runs, not assumed. An encoder that cannot tell lengths
    # encodes one by one.
    # A head over a frozen encoder is defined on four rows, and used on 4, 8, … in the same way.
    # Rounding the vectors to a grid instead would not do: whatever lies near the edge of two cells still falls into
    # either. At 768 dimensions, errors of 1e-7 and a grid of 1e-4, that is every second text.

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        backbone = encoder.base_encoder("text")
        self._backbone = None if backbone is None else DeterministicTextEncoder(backbone)
        self._texts = BatchShapes[str](lambda texts: vectors_of_each(encoder, encoder.embed_texts_alike(texts)), 2)
        self._heads = BatchShapes[NDArray[Any]](lambda rows: projected(encoder, rows), 4)

    def learn(self, texts: Sequence[str]) -> None:
        """Find out with these texts which shapes can be used, so that no query pays for it."""
        # `COMPARED` texts or more of one length settle all shapes of it.
        with self._lock:
            if self._backbone is not None:
                self._backbone.learn(texts)
                self._heads.learn(0, self._backbone.vectors(texts))
                return
            for length, same_length in self._by_length(list(dict.fromkeys(texts))).items():
                self._texts.learn(length, same_length)

    def _encode(self, texts: list[str]) -> list[NDArray[Any]]:
        if self._backbone is not None:
            return self._heads.vectors(0, self._backbone.vectors(texts))
        vectors: dict[str, NDArray[Any]] = {}
        for length, same_length in self._by_length(texts).items():
            vectors.update(zip(same_length, self._texts.vectors(length, same_length), strict=True))
        return [vectors[text] for text in texts]

    def _by_length(self, texts: list[str]) -> dict[int, list[str]]:
        lengths = self.encoder.text_lengths(texts) if texts else None
        if lengths is None:
            return {-1 - position: [text] for position, text in enumerate(texts)}
        groups: dict[int, list[str]] = {}
        for text, length in zip(texts, lengths.tolist(), strict=True):
            groups.setdefault(length, []).append(text)
        return groups


class BatchShapes(Generic[Input]):
    """A network's vectors of inputs that are alike, in batches of the sizes that give the defined bits."""

    def __init__(self, network: Callable[[Sequence[Input]], Sequence[NDArray[Any]]], least: int) -> None:
        self._network, self._least = network, least
        self._agreed: dict[tuple[int, int], int] = {}

    def vectors(self, kind: int, inputs: list[Input]) -> list[NDArray[Any]]:
        """Of inputs of one kind: a length, below zero where it is unknown."""
        vectors: list[NDArray[Any]] = []
        for group, size in _cut(inputs):
            vectors += self._batch(kind, group, size)
        return vectors

    def learn(self, kind: int, inputs: list[Input]) -> None:
        """Compare every size of batch of one kind with the defined vectors."""
        if kind < 0 or not inputs:
            return
        defined = [self._defined(row) for row in inputs]
        for size in (1 << power for power in range(WIDEST.bit_length())):
            agreed = self._agreed.get((kind, size), 0)
            for start in range(0, len(inputs), size):
                if not 0 <= agreed < COMPARED:
                    break
                batch = inputs[start : start + size]
                together = self._network([*batch, *[batch[-1]] * (size - len(batch))])
                same = _are_equal(together[: len(batch)], defined[start : start + size])
                agreed = agreed + len(batch) if same else -1
            self._agreed[kind, size] = agreed

    def _batch(self, kind: int, inputs: list[Input], size: int) -> list[NDArray[Any]]:
        agreed = self._agreed.get((kind, size), 0)
        if agreed < 0 or kind < 0:
            return [self._defined(row) for row in inputs]
        together = list(self._network([*inputs, *[inputs[-1]] * (size - len(inputs))])[: len(inputs)])
        if agreed >= COMPARED:
            return together
        defined = [self._defined(row) for row in inputs]
        same = _are_equal(together, defined)
        self._agreed[kind, size] = agreed + len(inputs) if same else -1
        return defined

    def _defined(self, row: Input) -> NDArray[Any]:
        return self._network([row] * self._least)[0]


def projected(encoder: Encoder, rows: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """What the head of an encoder makes of the vectors of each input by its base encoder."""
    if encoder.form != "multi-vector":
        return list(encoder.project("text", np.stack(rows)))
    ends = np.cumsum([len(row) for row in rows])[:-1]
    flat = encoder.project("text", np.concatenate(rows)).astype(encoder.kept_dtype)
    return list(np.split(flat, ends))


def _are_equal(vectors: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> bool:
    return all(np.array_equal(vector, other) for vector, other in zip(vectors, expected, strict=True))


def _cut(inputs: list[Input]) -> list[tuple[list[Input], int]]:
    """Groups of at most `WIDEST`, each with the power of two that it is filled up to: 13 of 16; of 11, 8 and 3 of 4."""
    # A group that would be filled up by more than a quarter is cut instead.
    groups, start = [], 0
    while start < len(inputs):
        left = min(len(inputs) - start, WIDEST)
        size = 1 << left.bit_length() - 1
        if 2 * left >= 3 * size:
            size *= 2
        groups.append((inputs[start : start + size], size))
        start += size
    return groups
