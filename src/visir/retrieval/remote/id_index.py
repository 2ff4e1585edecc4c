"""Which documents count: a list of ids beside an embedded engine (`IdIndex`), else what the server says (`EngineIds`).

Of the documents on a server nothing lies in the folder. Their ids are brought here when all are asked for, and for
galleries of up to `LISTED`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.parquet import read_table
from visir.records import Gallery, Modality, strings
from visir.retrieval.answers import Hits
from visir.retrieval.remote.engine import RemoteEngine
from visir.retrieval.rows import already_indexed, bisected, check_not_indexed, not_indexed, places_of

LISTED = 50_000
"""Up to this many documents of a server are listed in the gallery of a run; of more, the number.

Runs can be compared by their galleries where these are listed. Test sets are mostly smaller; the first search of an
index waits for the list.
"""


class SearchPlaces(Protocol):
    """The documents of one search, while it is made."""

    def places(self, ids: Sequence[str | None]) -> NDArray[np.int64]:
        """(n,) the place of each document that was found; -1 for one that is not the index's."""

    def finish(self, hits: Hits) -> tuple[pa.StringArray, Hits]:
        """Ids, sorted, and the hits by their place among them."""


class Documents(Protocol):
    """The documents that count. Immutable: every change makes a new one."""

    @property
    def ids(self) -> pa.StringArray:
        """The ids, sorted."""

    @property
    def gallery(self) -> Gallery:
        """All documents, as the gallery of a search."""

    def __len__(self) -> int: ...

    def begin_search(self) -> SearchPlaces:
        """For a search that begins."""

    def check_not_indexed(self, ids: pa.StringArray) -> None:
        """Raise `EmbeddingError` that names those of these ids that are here already."""

    def add(self, ids: pa.StringArray) -> Documents:
        """With these documents."""

    def delete(self, ids: object) -> tuple[Documents, pa.StringArray]:
        """Without these documents, and their ids, each once. Unknown ids are an error that names them."""


@dataclass(frozen=True, eq=False)
class IdIndex:
    """The ids of the documents, sorted, in a file of the folder."""

    ids: pa.StringArray
    modality: Modality

    @classmethod
    def of(cls, ids: object, modality: Modality) -> IdIndex:
        """The id index of these ids, in any order."""
        sorted_ids = strings(ids)
        return cls(sorted_ids.take(pc.sort_indices(sorted_ids)), modality)

    def __len__(self) -> int:
        return len(self.ids)

    def places(self, ids: Sequence[str | None]) -> NDArray[np.int64]:
        """(n,) the place of each of these ids, by bisection; -1 for one that is not among the documents."""
        return bisected(ids, self.ids)

    def begin_search(self) -> SearchPlaces:
        """For a search that begins: places are those among all ids."""
        return self

    def finish(self, hits: Hits) -> tuple[pa.StringArray, Hits]:
        """All ids, and the hits as they are."""
        return self.ids, hits

    @cached_property
    def gallery(self) -> Gallery:
        """All documents, as the gallery of a search."""
        return Gallery.of(self.modality, self.ids, f"all indexed {self.modality}s")

    def check_not_indexed(self, ids: pa.StringArray) -> None:
        """Raise `EmbeddingError` that names those of these ids that are here already."""
        check_not_indexed(ids, self.ids)

    def add(self, ids: pa.StringArray) -> IdIndex:
        """With these documents."""
        return IdIndex.of(pa.concat_arrays([self.ids, ids]), self.modality)

    def delete(self, ids: object) -> tuple[IdIndex, pa.StringArray]:
        """Without these documents, and their ids, each once. Unknown ids are an error that names them."""
        gone = self.ids.take(pc.unique(pa.array(places_of(ids, self.ids))))
        return IdIndex(self.ids.filter(pc.invert(pc.is_in(self.ids, gone))), self.modality), gone

    def write(self, path: Path) -> None:
        """Write into one file."""
        pq.write_table(pa.table({"id": self.ids}), path)

    @classmethod
    def read(cls, path: Path, modality: Modality) -> IdIndex:
        """Read what `write` wrote."""
        return cls(strings(read_table(path)["id"]), modality)


@dataclass(frozen=True, eq=False)
class EngineIds:
    """The documents that a server holds."""

    engine: RemoteEngine
    modality: Modality
    size: int

    def __len__(self) -> int:
        return self.size

    @cached_property
    def ids(self) -> pa.StringArray:
        """The ids, sorted: all are brought here, once."""
        ids = self.engine.ids()
        self.engine.check_own(any_found=len(ids) > 0 or self.size == 0)
        return ids

    @cached_property
    def gallery(self) -> Gallery:
        """All documents: listed up to `LISTED`, else stated by their number."""
        about = f"all indexed {self.modality}s"
        if self.size > LISTED:
            return Gallery.stated(self.modality, self.size, about)
        return Gallery.of(self.modality, self.ids, about)

    def begin_search(self) -> SearchPlaces:
        """For a search that begins: places are those among all ids where these are listed."""
        return _OwnPlaces(self.engine, IdIndex(self.ids, self.modality) if self.size <= LISTED else _FoundIds())

    def check_not_indexed(self, ids: pa.StringArray) -> None:
        """Raise `EmbeddingError` that names those of these ids that are there already."""
        there = self.engine.held(ids)
        if len(there):
            raise already_indexed(there)

    def add(self, ids: pa.StringArray) -> EngineIds:
        """With these documents."""
        return replace(self, size=self.size + len(ids))

    def delete(self, ids: object) -> tuple[EngineIds, pa.StringArray]:
        """Without these documents, and their ids, each once. Unknown ids are an error that names them."""
        gone = pc.unique(strings(ids))
        missing = gone.filter(pc.invert(pc.is_in(gone, self.engine.held(gone))))
        if len(missing):
            raise not_indexed(missing)
        return replace(self, size=self.size - len(gone)), gone


class _OwnPlaces:
    """The documents of a search on a server, of which it is checked in the end that they were the index's."""

    # Ids cannot tell: whoever makes a collection anew often puts the same documents into it, with vectors of another
    # model. The mark can, and it is read after the answers came.

    def __init__(self, engine: RemoteEngine, among: SearchPlaces) -> None:
        self._engine, self._among = engine, among

    def places(self, ids: Sequence[str | None]) -> NDArray[np.int64]:
        """(n,) the place of each document; -1 for others."""
        return self._among.places(ids)

    def finish(self, hits: Hits) -> tuple[pa.StringArray, Hits]:
        """Ids, sorted, and the hits by their place among them."""
        self._engine.check_own(any_found=len(hits.places) > 0)
        return self._among.finish(hits)


class _FoundIds:
    """The ids that a search found, in the order in which they came."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}

    def places(self, ids: Sequence[str | None]) -> NDArray[np.int64]:
        """(n,) numbers of documents, for this search alone; -1 for those of another program."""
        return np.array([-1 if id is None else self._rows.setdefault(id, len(self._rows)) for id in ids], np.int64)

    def finish(self, hits: Hits) -> tuple[pa.StringArray, Hits]:
        """The ids that were found, sorted, and the hits by their place among them."""
        ids = sorted(self._rows, key=str.encode)
        place = np.empty(len(ids), np.int64)
        place[[self._rows[id] for id in ids]] = np.arange(len(ids))
        return pa.array(ids, pa.string()), replace(hits, places=place[hits.places])
