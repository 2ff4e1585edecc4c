"""The one small interface of every index: vectors in, a `Run` out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import pyarrow as pa

from visir.records import Embeddings, Modality, Run, SparseEmbeddings

Vectors = TypeVar("Vectors", Embeddings, SparseEmbeddings)


@dataclass(frozen=True)
class IndexInfo:
    """What an index says of itself.

    - `kind`: its name in `visir.search.kinds.KINDS`; `exact`: whether every answer is exactly the best
    - `modality`: of what is indexed; `documents`: how many, without deleted ones; `deleted`: marked, not yet removed
    - `dimension`: of a dense vector, or the size of the vocabulary
    - `bytes`: on disk, or what saving would take; `encoder`: who made the vectors
    - `details`: what else is worth knowing (postings, segments, parameters)
    """

    kind: str
    exact: bool
    modality: Modality
    documents: int
    deleted: int
    dimension: int
    bytes: int
    encoder: str
    details: dict[str, Any]


class Index(ABC, Generic[Vectors]):
    """An index over the vectors of one modality.

    `build` makes one, in memory or in a folder; `add` and `delete` change it; `search` answers with the same `Run` as
    every other search; `save` and `load` keep it. An index in a folder is changed there, atomically: a kill leaves the
    index as it was before the call, or as it is after.

    Ids are unique: adding one that is there is an error that names it (delete it first). Deleting an unknown id is an
    error too. Queries must be of the encoder and dimension that the documents are of.
    """

    kind: str

    @classmethod
    @abstractmethod
    def build(cls, documents: Vectors, folder: Path | None = None, **options: Any) -> Self:
        """An index of `documents`, kept in `folder` if one is given (which must be new or empty)."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Self:
        """The index in `folder`, memory-mapped where that serves."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write a copy into `folder`, which must be new or empty."""

    @abstractmethod
    def add(self, documents: Vectors) -> None:
        """Add documents."""

    @abstractmethod
    def delete(self, ids: object) -> None:
        """Delete documents by id."""

    @abstractmethod
    def search(self, queries: Vectors, k: int = 10, **options: Any) -> Run:
        """The best `k` documents of each query: by falling score, equal scores by id."""

    @property
    @abstractmethod
    def ids(self) -> pa.StringArray:
        """The ids of all documents, sorted."""

    @abstractmethod
    def documents(self) -> Vectors:
        """The vectors of all documents, in order of their ids (copied into memory)."""

    @abstractmethod
    def select(self, ids: object) -> Vectors:
        """The vectors of these documents, in this order; unknown ids are an error that names them."""

    @abstractmethod
    def info(self) -> IndexInfo:
        """What the index says of itself."""
