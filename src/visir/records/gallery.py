"""The gallery: the declared candidates of one task."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from visir.display import Displayed, brief, counted, listed
from visir.errors import RunError
from visir.fingerprint import hash_columns
from visir.records.columns import is_sorted, strings
from visir.records.items import Modality

TITLES: dict[Modality, str] = {"image": "images", "text": "captions", "text+image": "documents"}
"""The usual title of the candidates of a modality."""


def modality_of(value: object) -> Modality:
    """Return a value from a file as a modality.

    Raises:
        ValueError: The value is not the name of a modality.

    Example:
        >>> modality_of("image")
        'image'
    """
    for modality in TITLES:
        if value == modality:
            return modality
    raise ValueError(f"{value!r} is no modality ({', '.join(TITLES)})")


@dataclass(frozen=True, eq=False)
class Gallery(Displayed):
    """The documents that were the candidates of a search.

    Two retrieval numbers can be compared only if their galleries are equal. A gallery is *listed* when its ids are
    known. It is *stated* when only its size is known, as for an imported run whose authors write "all 31,783 images".
    It is *unknown* for a run from a file that says nothing about it. Every card shows which of the three it is.

    Attributes:
        modality: What the documents hold: "image", "text" or "text+image".
        ids: (size,) ids, sorted and unique; ties are broken in this order. None for a stated gallery.
        size: The number of documents; 0 for an unknown gallery.
        description: What the documents are, in words, e.g. "all of the test split".
        title: What people call the documents, in the plural: "images", "captions", "products".

    Example:
        >>> gallery = Gallery.of("image", ["b", "a"], "two images")
        >>> gallery.ids.to_pylist(), gallery.size, gallery.is_listed
        (['a', 'b'], 2, True)
        >>> Gallery.stated("image", 31783, "all images of Flickr30k").is_listed
        False
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
        """Make a listed gallery.

        Args:
            modality: What the documents hold.
            ids: The ids, unique, in any order: any iterable of strings.
            description: What the documents are, in words.
            title: What people call them; "" takes the usual title of the modality.

        Raises:
            RunError: There is no id, or an id occurs twice.

        Example:
            >>> Gallery.of("text", ["2", "1"]).ids.to_pylist()
            ['1', '2']
        """
        array = strings(ids)
        if not is_sorted(array):
            array = array.take(pc.sort_indices(array))
        if len(array) == 0:
            raise RunError(
                f"the gallery ({description or modality}) is empty.",
                hint="is the split, or the filter, right?",
                code="gallery-empty",
            )
        if len(array) > 1:
            same = pc.equal(array[1:], array[:-1])
            if pc.any(same).as_py():
                twice = array.filter(pa.concat_arrays([pa.array([False]), same]))[0].as_py()
                raise RunError(
                    f"the gallery ({description or modality}) holds {twice!r} twice.", code="gallery-holds-twice"
                )
        return cls(modality, array, len(array), description, title)

    @classmethod
    def stated(cls, modality: Modality, size: int, description: str, *, title: str = "") -> Gallery:
        """Make a gallery of which only the size is known, as its authors state it."""
        return cls(modality, None, size, description, title)

    @classmethod
    def unknown(cls) -> Gallery:
        """Make the gallery of a run that does not say what was searched.

        Example:
            >>> Gallery.unknown().is_known
            False
        """
        return cls("text+image", None, 0, "not known")

    @property
    def is_known(self) -> bool:
        """Whether at least the size of the gallery is known."""
        return self.ids is not None or self.size > 0

    @property
    def counted(self) -> str:
        """How many documents there are, as people read it: "1,000 images", or that nobody knows."""
        return counted(self.size, self.title) if self.is_known else f"{self.title}, how many is not known"

    def ends_by(self, depth: int) -> bool:
        """Whether an answer of so many documents holds the whole gallery; of an unknown one nobody can say so.

        Example:
            >>> Gallery.of("image", ["a", "b"]).ends_by(2), Gallery.unknown().ends_by(2)
            (True, False)
        """
        return self.is_known and depth >= self.size

    def __repr__(self) -> str:
        if not self.is_known:
            return brief(self, self.description)
        return brief(
            self,
            f"{counted(self.size, self.title)}{f', {self.description}' if self.description else ''}",
            "stated, not listed" if self.ids is None else f"ids: {listed(self.ids[:3].to_pylist(), self.size)}",
        )

    @property
    def is_listed(self) -> bool:
        """Whether the ids of the candidates are known."""
        return self.ids is not None

    @cached_property
    def fingerprint(self) -> str:
        """A hash over modality and ids; "stated:" and the size for a stated gallery."""
        if self.ids is None:
            return f"stated:{self.size}"
        return hash_columns([pa.array([self.modality]), self.ids], sort=False)

    def restrict(self, keep: pa.Array, description: str) -> Gallery:
        """Return a gallery of the candidates that are also in `keep`.

        Args:
            keep: Ids, in any order; ids that are not in this gallery are ignored.
            description: What the remaining documents are, in words.

        Raises:
            RunError: The gallery is stated, or no candidate remains.
        """
        if self.ids is None:
            raise RunError(
                f"the gallery ({self.description}) is only stated; it cannot be restricted.", code="gallery-stated"
            )
        return Gallery.of(self.modality, self.ids.filter(pc.is_in(self.ids, keep)), description, title=self.title)
