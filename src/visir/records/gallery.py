"""The gallery: the declared candidates of one task."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import RunError
from visir.fingerprint import hash_columns
from visir.records.columns import strings
from visir.records.items import Modality

TITLES: dict[Modality, str] = {"image": "images", "text": "captions", "text+image": "documents"}
"""What people call candidates of a modality when nothing else is said."""


def modality_of(value: object) -> Modality:
    """A modality as a file has it. Raises `ValueError` for anything else."""
    for modality in TITLES:
        if value == modality:
            return modality
    raise ValueError(f"{value!r} is no modality ({', '.join(TITLES)})")


@dataclass(frozen=True, eq=False)
class Gallery:
    """Which documents were the candidates: half of what makes two retrieval numbers comparable.

    `modality` says what the documents hold, `title` what people call them ("images", "captions", "products").

    `ids` are sorted and unique, so the order of a gallery *is* the order by which ties are broken. A gallery known only
    by its size (an imported run whose authors say "all 31,783 images") has `ids` None: it is *stated*, not listed, and
    says so on every card.
    """

    modality: Modality
    ids: pa.StringArray | None
    size: int
    description: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", TITLES[self.modality])

    @classmethod
    def of(cls, modality: Modality, ids: object, description: str = "", *, title: str = "") -> Gallery:
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
        return cls(modality, array, len(array), description, title)

    @classmethod
    def stated(cls, modality: Modality, size: int, description: str, *, title: str = "") -> Gallery:
        """A gallery of which only the size is known, from its authors' word."""
        return cls(modality, None, size, description, title)

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
        return Gallery.of(self.modality, self.ids.filter(pc.is_in(self.ids, keep)), description, title=self.title)
