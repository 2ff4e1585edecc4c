"""The rows of an index: parts that never change, one after another, and which of their rows are deleted."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.records import Gallery, strings
from visir.search.index import Vectors
from visir.search.parts import Form

FEW = 16
"""Ids that are looked for one by one."""


@dataclass(frozen=True, eq=False)
class Rows(Generic[Vectors]):
    """What an index holds: immutable; every change makes a new one that shares the unchanged parts.

    - `form`: dense or sparse
    - `parts`: at least one; row r of the index is row `r - starts[p]` of the part p in which it lies
    - `dead`: (rows,) bool, the deleted rows. They keep their place until `compact`, so that a graph or a list over row
      numbers stays valid.

    An added part swallows those before it that are no larger, so that n additions leave about log n parts and each
    vector is copied about log n times. A deleted row that is swallowed keeps its vector but not its id, which may have
    come back in the meantime.
    """

    form: Form[Vectors]
    parts: tuple[Vectors, ...]
    dead: NDArray[np.bool_]

    @classmethod
    def of(cls, form: Form[Vectors], documents: Vectors) -> Rows[Vectors]:
        """The rows of a new index."""
        return cls(form, (documents,), np.zeros(len(documents), np.bool_))

    def __len__(self) -> int:
        return len(self.dead)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """(parts + 1,) the first row of each part, and the end."""
        return np.concatenate([[0], np.cumsum([len(part) for part in self.parts])]).astype(np.int64)

    @cached_property
    def live(self) -> NDArray[np.int64]:
        """The rows that are not deleted, in order of their ids."""
        rows = np.flatnonzero(~self.dead)
        order: NDArray[np.int64] = rows[pc.sort_indices(self._ids.take(pa.array(rows))).to_numpy()]
        return order

    @cached_property
    def ids(self) -> pa.StringArray:
        """The ids of the documents, sorted."""
        return self._ids.take(pa.array(self.live))

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """(rows,) where each row's document stands among the sorted ids; -1 for deleted rows."""
        places = np.full(len(self), -1, np.int64)
        places[self.live] = np.arange(len(self.live))
        return places

    @cached_property
    def gallery(self) -> Gallery:
        """All documents, as the gallery of a search."""
        return Gallery.of(self.parts[0].modality, self.ids, f"all indexed {self.parts[0].modality}s")

    def part_rows(self, part: int) -> NDArray[np.int64]:
        """The live rows of one part, in order of their ids, counted from the part's start."""
        first, end = self.starts[part : part + 2]
        rows: NDArray[np.int64] = self.live[(self.live >= first) & (self.live < end)] - first
        return rows

    def add(self, documents: Vectors) -> Rows[Vectors]:
        """With these documents behind all others.

        Raises `EmbeddingError` for another modality, encoder or space, and for ids that are there already.
        """
        check_fits_index(self.form, documents, self.parts[0], added=True)
        check_not_indexed(documents.ids, self.ids)
        parts = list(self.parts)
        swallowed = [documents]
        while parts and len(parts[-1]) <= sum(map(len, swallowed)):
            swallowed.insert(0, parts.pop())
        dead = np.concatenate([self.dead, np.zeros(len(documents), np.bool_)])
        if len(swallowed) > 1:
            ids = pa.concat_arrays([part.ids for part in swallowed])
            nameless = pa.array([f"\0{row}" for row in range(len(ids))], pa.string())
            gone = pa.array(dead[len(dead) - len(ids) :])
            swallowed = [self.form.join(swallowed, pc.if_else(gone, nameless, ids))]
        return Rows(self.form, tuple(parts + swallowed), dead)

    def delete(self, ids: object) -> Rows[Vectors]:
        """Without these documents. Unknown ids are an error that names them; one named twice counts once."""
        dead = self.dead.copy()
        dead[self.find(ids)] = True
        return Rows(self.form, self.parts, dead)

    def compact(self) -> Rows[Vectors]:
        """One part, in order of ids, without deleted rows."""
        return Rows.of(self.form, self.documents())

    def documents(self) -> Vectors:
        """All documents, in order of their ids (copied into memory)."""
        return self.select(self.ids)

    def find(self, ids: object) -> NDArray[np.int64]:
        """The row of each id; unknown ids are an error that names them."""
        wanted = strings(ids)
        # Arrow would put all ids into a hash table to look for one.
        places = _searched(wanted, self.ids) if len(wanted) <= FEW else None
        rows: NDArray[np.int64] = self.live[places_of(wanted, self.ids) if places is None else places]
        return rows

    def select(self, ids: object) -> Vectors:
        """The vectors of these documents, in this order (copied into memory)."""
        wanted = strings(ids)
        rows = self.find(wanted)
        part = np.searchsorted(self.starts, rows, side="right") - 1
        some, names = [], []
        for p in np.unique(part):
            some.append(self.parts[p].take(rows[part == p] - self.starts[p]))
            names.append(some[-1].ids)
        if len(some) == 0:
            return self.parts[0].select(wanted)
        joined = self.form.join(some, pa.concat_arrays(names))
        return joined if joined.ids.equals(wanted) else joined.select(wanted)

    @property
    def _ids(self) -> pa.StringArray:
        return pa.concat_arrays([part.ids for part in self.parts])


def check_not_indexed(ids: pa.StringArray, held: pa.StringArray) -> None:
    """Raise `EmbeddingError` that names those of these ids that are held already."""
    there = ids.filter(pc.is_in(ids, held))
    if len(there):
        raise EmbeddingError(
            f"{len(there)} ids are in the index already: {_named(there)}.",
            hint="delete them first, or add the others only",
        )


def _searched(ids: pa.StringArray, held: pa.StringArray) -> NDArray[np.int64] | None:
    """Where each of a few ids stands among those that are held, which are sorted; None when one is not there."""
    places = np.empty(len(ids), np.int64)
    for at, identifier in enumerate(ids.to_pylist()):
        place = bisect_left(range(len(held)), identifier, key=lambda row: held[row].as_py())
        if place == len(held) or held[place].as_py() != identifier:
            return None
        places[at] = place
    return places


def places_of(ids: object, held: pa.StringArray) -> NDArray[np.int64]:
    """Where each of these ids stands among those that are held; unknown ids are an error that names them."""
    wanted = strings(ids)
    positions = pc.index_in(wanted, held)
    if positions.null_count:
        missing = wanted.filter(pc.is_null(positions))
        raise EmbeddingError(
            f"{len(missing)} ids are not in the index: {_named(missing)}.",
            hint="ids are those of the collection (visir data inspect shows some); a deleted one is gone",
        )
    places: NDArray[np.int64] = positions.to_numpy().astype(np.int64)
    return places


def check_fits_index(form: Form[Vectors], given: Vectors, held: Vectors, *, added: bool = False) -> None:
    """Raise `EmbeddingError` unless both are of one space and encoder; added documents must be of one modality too."""
    where = f"{given.modality} vectors by {given.encoder.name}"
    if added and given.modality != held.modality:
        raise EmbeddingError(
            f"{where}: this index holds {held.modality} vectors and takes no {given.modality} vectors.",
            hint=f"build an index of its own for {given.modality} vectors",
        )
    mine, theirs = form.space(given), form.space(held)
    for name, value in theirs.items():
        if mine[name] != value:
            raise EmbeddingError(
                f"{where} have {name} {mine[name]}; the index, by {held.encoder.name}, has {value}.",
                hint="encode with the model that the index was built with",
            )
    if not held.encoder.is_same_model(given.encoder):
        raise EmbeddingError(
            f"{where}: the index is by {held.encoder.name}, which is another model.",
            hint="encode with the model that the index was built with",
        )


def _named(ids: Any) -> str:
    return ", ".join(map(repr, ids[:5].to_pylist())) + (", …" if len(ids) > 5 else "")
