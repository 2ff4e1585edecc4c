"""Several text encoders side by side, as one: their vectors joined end to end."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder
from visir.encoders.checkpoints import load_part, read_description, save_part, write_description
from visir.encoders.forms import one_each
from visir.errors import EncoderError
from visir.fingerprint import hash_json
from visir.records import EncoderCard, Role

if TYPE_CHECKING:
    from visir.encoders.models.text_side import TextSide

_LONGER_THAN_ANY = 1 << 16
"""Tokens of a text, at most: so the lengths of two parts fit into one number."""


class JoinedTexts(Encoder):
    """`JoinedTexts([load("st:all-MiniLM-L6-v2"), load("bow")])`: what one encoder misses, the other may say."""

    # A sentence encoder is made to forget the wording, a bag of words is nothing but wording; heads trained over both
    # are clearly better than over either. Every part is brought to length 1 first, so that none drowns the others; a
    # part that is zero (no known word) stays zero.

    def __init__(self, parts: Sequence[Encoder]) -> None:
        if len(parts) < 2:
            raise EncoderError(
                "at least two encoders are needed to join them.",
                hint="use the one encoder as it is",
                code="least-two-encoders-needed",
            )
        for part in parts:
            if "text" not in part.modalities:
                raise part.cannot("text")
        self.encoders = tuple(parts)
        self.dimension = sum(part.dimension for part in parts)
        self.modalities = frozenset({"text"})
        self.distinguishes_roles = any(part.distinguishes_roles for part in parts)
        self.batch_size = min(part.batch_size for part in parts)
        self.card = EncoderCard(
            name=" + ".join(part.card.name for part in parts),
            family="joined",
            weights=hash_json({str(number): part.card.fingerprint for number, part in enumerate(parts)})
            if all(part.card.is_versioned for part in parts)
            else None,
            text_preprocessing={
                "parts": [part.card.text_preprocessing for part in parts],
                "dimensions": [part.dimension for part in parts],
                "length of each part": 1,
            },
            dtype=parts[0].card.dtype,
        )

    def for_role(self, role: Role) -> JoinedTexts:
        """The same with every part in this role."""
        if not self.distinguishes_roles:
            return self
        encoder = copy(self)
        encoder.encoders = tuple(part.for_role(role) for part in self.encoders)
        return encoder

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, sum of the parts' dimensions): the unit vectors of every part, in the order of the parts."""
        return self._joined(texts, [one_each(part.embed_texts(texts), part.label) for part in self.encoders])

    def embed_texts_alike(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The same of texts that are of one length for every part."""
        return self._joined(texts, [one_each(part.embed_texts_alike(texts), part.label) for part in self.encoders])

    def _joined(self, texts: Sequence[str], vectors_of_parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        joined = np.empty((len(texts), self.dimension), np.float32)
        start = 0
        for part, vectors in zip(self.encoders, vectors_of_parts, strict=True):
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            stop = start + part.dimension
            joined[:, start:stop] = vectors / np.where(lengths > 0, lengths, 1.0)
            start = stop
        return joined

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64] | None:
        """(n,) the lengths that every part tells, in one number."""
        joined = np.zeros(len(texts), np.int64)
        for part in self.encoders:
            lengths = part.text_lengths(texts)
            if lengths is None:
                return None
            joined = joined * _LONGER_THAN_ANY + lengths
        return joined

    def text_side(self) -> TextSide | None:
        """See `visir.encoders.models.text_side`: those of the parts side by side, where each has one."""
        from visir.encoders.models.text_side import joined_sides, text_side_of

        sides = [side for part in self.encoders if (side := text_side_of(part)) is not None]
        return joined_sides(sides) if len(sides) == len(self.encoders) else None

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """Cut for the part that reads least: every part is given the same text."""
        for part in self.encoders:
            texts = part.truncate(texts, ending)
        return list(texts)

    def save(self, folder: Path) -> None:
        """Write the names of the parts into `folder`, and a folder for each part that has a state of its own."""
        entries = [save_part(part, folder, f"part{number}") for number, part in enumerate(self.encoders)]
        write_description(folder, "joined", {"parts": entries})


def load_checkpoint(folder: Path, device: str | None, dtype: str) -> JoinedTexts:
    """Read what `JoinedTexts.save` wrote."""
    return JoinedTexts([load_part(folder, entry, device, dtype) for entry in read_description(folder)["parts"]])
