"""What counts: the ids of the documents that are in the index, whatever else lies in the engine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from visir.parquet import read_table
from visir.records import Gallery, Modality, strings
from visir.retrieval.remote.points import Places
from visir.retrieval.rows import check_not_indexed, places_of


@dataclass(frozen=True, eq=False)
class IdIndex:
    """Immutable: every change makes a new one. `ids` are sorted."""

    ids: pa.StringArray
    modality: Modality

    @classmethod
    def of(cls, ids: object, modality: Modality) -> IdIndex:
        """The id index of these ids, in any order."""
        sorted_ids = strings(ids)
        return cls(sorted_ids.take(pc.sort_indices(sorted_ids)), modality)

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def places(self) -> Places:
        """From points to places among the ids."""
        return Places(self.ids)

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
