"""The two sides of many pairs: the distinct items of each, what they are, and their tokens."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visir.encoders.content import image_contents
from visir.encoders.cross_encoder import CrossEncoder, Tokens
from visir.encoders.loader import load_images
from visir.encoders.pair_store import Keys, keys_of
from visir.encoders.suffixes import with_suffixes
from visir.records import Items, Modality
from visir.shortcuts.view import endings, plain_texts

Rows = NDArray[np.int64]
TOKEN_BYTES = 1 << 30
"""Of tokens that are kept: those of 25,000 captions (13 tokens × 768 floats each) fit."""


@dataclass(frozen=True, eq=False)
class PairSide:
    """The distinct items of one side."""

    items: Items  # where they are
    # (m,) their rows. Of texts, one row for each distinct text, sorted by length: neighbours are then padded to little
    # more than their content.
    rows: Rows
    texts: list[str] | None  # (m,) what the model reads; None where the items have no text
    keys: Keys  # (m,) what each item is

    @classmethod
    def of(cls, cross_encoder: CrossEncoder, items: Items, rows: Rows) -> tuple[PairSide, Rows]:
        """The side, and for each row its position on it."""
        distinct, inverse = np.unique(rows, return_inverse=True)
        part = items.take(distinct)
        texts = None if items.texts is None else _read(cross_encoder, part)
        if items.places is None:
            assert texts is not None, "items have a text or an image"
            first = {text: int(row) for row, text in zip(distinct[::-1], texts[::-1], strict=True)}
            ordered = sorted(first, key=lambda text: (len(text), text))
            position = {text: number for number, text in enumerate(ordered)}
            places = np.array([position[text] for text in texts], np.int64)
            text_rows = np.array([first[text] for text in ordered], np.int64)
            return cls(items, text_rows, ordered, keys_of(ordered)), places[inverse]
        contents = _images(part)
        if texts is not None:
            contents = [f"{content}\0{text}" for content, text in zip(contents, texts, strict=True)]
        return cls(items, distinct, texts, keys_of(contents)), inverse.astype(np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def modality(self) -> Modality:
        """What the items hold."""
        return self.items.modality

    @property
    def has_images(self) -> bool:
        """Whether they have images."""
        return self.items.places is not None

    def texts_of(self, start: int, count: int) -> list[str] | None:
        """The texts from one position on."""
        return None if self.texts is None else self.texts[start : start + count]

    def shown(self, position: int) -> str:
        """An item in words, for error messages."""
        if self.modality == "text" and self.texts is not None:
            return repr(self.texts[position])
        return f"{self.modality} {self.items.ids[int(self.rows[position])].as_py()!r}"


class InnerTokens:
    """Tokens of items, made in fixed batches when they are first needed; beyond a bound the oldest batch is dropped."""

    def __init__(self, cross_encoder: CrossEncoder, side: PairSide, workers: int | None) -> None:
        self._cross_encoder, self._side, self._workers = cross_encoder, side, workers
        self._cached: OrderedDict[int, list[Tokens]] = OrderedDict()
        self._bytes = 0

    def of(self, positions: list[int]) -> list[Tokens]:
        """The tokens of the items at these positions."""
        size = self._cross_encoder.images_at_once if self._side.has_images else self._cross_encoder.texts_at_once
        batches = {}
        for batch in dict.fromkeys(position // size for position in positions):
            if batch not in self._cached:
                tokens = self._tokens(batch * size, size)
                self._cached[batch] = tokens
                self._bytes += sum(token.nbytes for token in tokens)
            self._cached.move_to_end(batch)
            batches[batch] = self._cached[batch]
        while self._bytes > TOKEN_BYTES and len(self._cached) > 1:
            _, dropped = self._cached.popitem(last=False)
            self._bytes -= sum(token.nbytes for token in dropped)
        return [batches[position // size][position % size] for position in positions]

    def _tokens(self, start: int, size: int) -> list[Tokens]:
        side, pixels = self._side, None
        if side.has_images:
            part = side.items.take(side.rows[start : start + size])
            loaded = load_images(
                part, self._cross_encoder, start=0, batch_size=size, workers=self._workers, skip_broken=False
            )
            pixels = [picture for batch in loaded for picture in batch.pixels]
        return self._cross_encoder.item_tokens(side.modality, side.texts_of(start, size), pixels)


def _read(cross_encoder: CrossEncoder, items: Items) -> list[str]:
    """What the cross-encoder reads of each item."""
    texts: list[str] = plain_texts(items).to_pylist()
    suffixes = endings(items)
    return texts if suffixes is None else with_suffixes(cross_encoder, texts, suffixes)


def _images(items: Items) -> list[str]:
    """What each image is: id, mark of its bytes, and whatever is done to it before the model sees it."""
    injected, corrupted = items.injected, items.corrupted
    stamp = injected.fingerprint if injected is not None and injected.on("image") else ""
    corruption = corrupted.fingerprint if corrupted is not None else ""
    marks: Iterator[tuple[str, str]] = zip(items.ids.to_pylist(), image_contents(items).to_pylist(), strict=True)
    return ["\0".join((name, mark, stamp, corruption)) for name, mark in marks]
