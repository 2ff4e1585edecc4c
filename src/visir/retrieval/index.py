"""The interface of every index: add vectors, delete them, and search for a `Run`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Self

import pyarrow as pa

from visir.records import EncoderCard, Modality, Run
from visir.retrieval.rows import Vectors


@dataclass(frozen=True)
class IndexInfo:
    """A description of an index."""

    kind: str  # the name of the kind in `visir.retrieval.kinds.KINDS`
    exact: bool  # whether every answer is the exact best
    modality: Modality  # the modality of the documents
    documents: int  # the number of documents, without deleted ones
    deleted: int  # the number of documents that are deleted and not yet removed
    dimension: int  # the length of a dense vector, or the size of the vocabulary
    bytes: int  # the size on disk; for an index in memory the size that it would have
    encoder: str  # the name of the model that computed the vectors
    details: dict[str, Any]  # further numbers and settings (postings, segments, parameters)

    @property
    def place(self) -> str:
        """The table or collection and the address of an index on a server; "" of one that lies in its folder."""
        from visir.retrieval.remote.settings import place_on_server

        on_server = self.details.get("url") and self.details.get("collection")
        return place_on_server(self.details) if on_server else ""


class Index(ABC, Generic[Vectors]):
    """An index over the vectors of one modality.

    `visir.retrieval.build_index` and `open_index` make one of any kind. `search` returns the same `Run` as every other
    search. An index in a folder is changed there, atomically: a killed call leaves the index as it was before the
    call, or as it is after.

    Ids are unique. Queries must have the same encoder and dimension as the documents.
    """

    kind: str

    @classmethod
    @abstractmethod
    def build(cls, documents: Vectors, folder: Path | None = None, **options: Any) -> Self:
        """Build an index.

        Args:
            documents: At least one vector.
            folder: A new or an empty folder for the index; None builds it in memory.
            options: The settings of the kind (`visir index kinds` lists them).

        Raises:
            ConfigurationError: Settings are wrong; the message lists every fault.
            EmbeddingError: There are no vectors, or vectors that this kind cannot index.
            IndexFolderError: The folder is not empty.
        """

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Self:
        """Open the index in a folder; large arrays are memory-mapped.

        Raises:
            IndexFolderError: The folder holds no index of this kind, or a damaged one.
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write a copy of the index into a new or an empty folder.

        Raises:
            IndexFolderError: The folder is not empty.
        """

    @abstractmethod
    def add(self, documents: Vectors) -> None:
        """Add documents.

        Raises:
            EmbeddingError: An id is in the index already (delete it first), or the vectors have another modality,
                encoder or dimension.
        """

    @abstractmethod
    def delete(self, ids: object) -> None:
        """Delete documents by id.

        Raises:
            EmbeddingError: An id is unknown; then nothing is deleted.
        """

    @abstractmethod
    def search(self, queries: Vectors, k: int = 10, **options: Any) -> Run:
        """Return the best `k` documents of each query: by falling score, equal scores by id.

        Args:
            queries: The vectors of the queries.
            k: The number of documents per query, from 1.
            options: Settings of the kind that may change from search to search, instead of those of the index.

        Raises:
            ConfigurationError: A setting is unknown, or is fixed when the index is built.
            EmbeddingError: The queries have another encoder or dimension than the documents.
            RunError: `k` is wrong, there is no query, or the index is empty.
        """

    @property
    @abstractmethod
    def ids(self) -> pa.StringArray:
        """The ids of all documents, sorted."""

    @property
    def encoder(self) -> EncoderCard:
        """The card of the model that made the vectors."""
        return self.select(self.ids[:1]).encoder

    @abstractmethod
    def documents(self) -> Vectors:
        """Return the vectors of all documents, in order of their ids, copied into memory."""

    @abstractmethod
    def select(self, ids: object) -> Vectors:
        """Return the vectors of these documents, in this order.

        Raises:
            EmbeddingError: An id is unknown; the message names it.
        """

    @abstractmethod
    def info(self) -> IndexInfo:
        """Return a description of the index."""
