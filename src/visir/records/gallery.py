"""The gallery: the declared candidates of one direction of search."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import RunError
from visir.fingerprint import hash_columns
from visir.records.columns import strings

Modality = Literal["image", "text"]
Direction = Literal["t2i", "i2t"]
DIRECTIONS: tuple[Direction, Direction] = ("i2t", "t2i")


def modality_of(value: object) -> Modality:
    """A modality as a file has it. Raises `ValueError` for anything else."""
    if value == "image":
        return "image"
    if value == "text":
        return "text"
    raise ValueError(f"{value!r} is no modality (image or text)")


QUERIES: dict[Direction, Modality] = {"i2t": "image", "t2i": "text"}
"""The modality of the queries of each direction."""
CANDIDATES: dict[Direction, Modality] = {"i2t": "text", "t2i": "image"}
"""The modality of the candidates of each direction."""


@dataclass(frozen=True, eq=False)
class Gallery:
    """Which images, or which captions, were the candidates: half of what makes two retrieval numbers comparable.

    `ids` are sorted and unique, so the order of a gallery *is* the order by which ties are broken. A gallery known only
    by its size (an imported run whose authors say "all 31,783 images") has `ids` None: it is *stated*, not listed, and
    says so on every card.
    """

    modality: Modality
    ids: pa.StringArray | None
    size: int
    description: str = ""

    @classmethod
    def of(cls, modality: Modality, ids: object, description: str = "") -> Gallery:
        """A listed gallery of the given ids (any iterable of strings, any order; duplicates are an error)."""
        array = strings(ids)
        array = array.take(pc.sort_indices(array))
        if len(array) == 0:
            raise RunError(
                f"the gallery ({description or modality}) is empty.", hint="is the split, or the filter, right?"
            )
        if len(array) > 1:
            same = pc.equal(array[1:], array[:-1])
            if pc.any(same).as_py():
                twice = array.filter(pa.concat_arrays([pa.array([False]), same]))[0].as_py()
                raise RunError(f"the gallery ({description or modality}) holds {twice!r} twice.")
        return cls(modality, array, len(array), description)

    @classmethod
    def stated(cls, modality: Modality, size: int, description: str) -> Gallery:
        """A gallery of which only the size is known, from its authors' word."""
        return cls(modality, None, size, description)

    @property
    def is_listed(self) -> bool:
        """Whether the candidates are known one by one."""
        return self.ids is not None

    @cached_property
    def fingerprint(self) -> str:
        """A hash over modality and ids; for a stated gallery the words "stated" and its size."""
        if self.ids is None:
            return f"stated:{self.size}"
        return hash_columns([pa.array([self.modality]), self.ids], sort=False)

    def restrict(self, keep: pa.Array, description: str) -> Gallery:
        """The candidates of this gallery that are also in `keep`."""
        if self.ids is None:
            raise RunError(f"the gallery ({self.description}) is only stated; it cannot be restricted.")
        return Gallery.of(self.modality, self.ids.filter(pc.is_in(self.ids, keep)), description)
