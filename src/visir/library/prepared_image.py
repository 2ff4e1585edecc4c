"""A picture that is searched with, as the models take it: a few hundred pixels a side, whatever it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from visir.encoders.inputs import Pixels


@dataclass(frozen=True, eq=False)
class PreparedImage:
    """A preprocessed picture."""

    pixels: Mapping[str, Pixels]  # from the fingerprint of an encoder's card to the encoder's input

    @property
    def nbytes(self) -> int:
        """The memory that it takes while it waits."""
        return sum(pixels.nbytes for pixels in self.pixels.values())
