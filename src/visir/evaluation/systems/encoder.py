"""An encoder as a system: items are encoded through the store, then searched exactly."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.encoders.base import Encoder
from visir.encoders.encoding import encode_items
from visir.errors import ConfigurationError, nearest, raise_faults
from visir.evaluation.systems.base import System
from visir.evaluation.systems.vectors import VectorSystem
from visir.records import PLAIN, Embeddings, Items, Qrels, Ranks, Role, Task, Ties, Vectors
from visir.retrieval.exact import SearchResult
from visir.retrieval.vectors import Similarity


class EncoderSystem(System):
    """Any encoder, whatever the form of its vectors.

    Items are encoded once, even if several tasks have them. The store keeps vectors, so an interrupted evaluation does
    not encode anything twice.

    Args:
        encoder: The encoder.
        similarity: "cosine" or "dot"; None is cosine for dense vectors and dot for sparse ones. Several vectors per
            item are scored with "maxsim".
        name: The name in tables; None takes the encoder's name.
        zero_queries: The treatment of a query with a zero vector under cosine: "refused", an error; "unanswered", it
            finds nothing, and a note counts these queries.
        **options: Options of `visir.encoders.encode` (`store`, `batch_size`, `workers`).

    Attributes:
        search_device: As of `VectorSystem`.

    Raises:
        ConfigurationError: An option is unknown.
    """

    search_device: str | None = None

    def __init__(
        self,
        encoder: Encoder,
        similarity: Similarity | None = None,
        name: str | None = None,
        *,
        zero_queries: Literal["refused", "unanswered"] = "refused",
        **options: Any,
    ) -> None:
        super().__init__(name or encoder.card.name)
        check_options(encoder, options)
        self.encoder = encoder
        self._similarity = similarity
        self._zero_queries = zero_queries
        self._options = options
        self._skip_broken = False
        self._vectors: dict[tuple[int, Role], tuple[Items, Vectors]] = {}

    def prepare(self, tasks: Sequence[Task], *, skip_broken: bool = False) -> None:
        """Encode the queries and documents of all tasks: images first, then texts."""
        self._skip_broken = skip_broken
        # Every evaluation has items of its own: vectors of earlier ones would be held for nothing.
        wanted = {id(items) for task in tasks for items in (task.queries, task.documents)}
        # Those of an encoder without a version may be those of older code: they are computed anew.
        held = self._vectors.items() if self.encoder.card.is_versioned else ()
        self._vectors = {key: value for key, value in held if key[0] in wanted}
        sides = [side for task in tasks for side in (("query", task.queries), ("document", task.documents))]
        for role, items in sorted(sides, key=lambda side: side[1].modality):
            self.vectors(items, role)  # type: ignore[arg-type]

    def vectors(self, items: Items, role: Role) -> Vectors:
        """The vectors of these items, encoded once in this role.

        Args:
            items: The items.
            role: "query" or "document".

        Returns:
            The vectors.
        """
        if not self.encoder.distinguishes_roles:
            role = "document"
        key = (id(items), role)
        if key not in self._vectors:
            started = time.perf_counter()
            skip_broken = self._skip_broken and items.places is not None
            vectors = encode_items(self.encoder, items, role, skip_broken=skip_broken, **self._options)
            self._vectors[key] = (items, vectors)  # holding the items keeps their id() unique
            stage = f"encode {items.title}"
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - started
        return self._vectors[key][1]

    def broken(self, items: Items) -> pa.StringArray:
        """The ids of the items that could not be encoded."""
        for held, vectors in self._vectors.values():
            if held is items and len(vectors) < len(items):
                return items.ids.filter(pc.invert(pc.is_in(items.ids, vectors.ids)))
        return items.ids[:0]

    def search(self, tasks: Sequence[Task], *, depth: int, ties: Ties) -> list[SearchResult]:
        """Encode the items that are not encoded yet, and search."""
        held = set(self._vectors)
        system = self._system(tasks)
        answered = [self._answerable(task) for task in tasks]
        results = []
        for task, result in zip(tasks, system.search(answered, depth=depth, ties=ties), strict=True):
            judged = task.judgements().select(task.measured_queries())
            assert result.ranks is not None, "judgements were given"
            complete = len(result.ranks) == len(judged)
            results.append(result if complete else replace(result, ranks=unanswered(result.ranks, judged)))
        if any(task.condition != PLAIN for task in tasks):  # perturbed queries are searched once
            self._vectors = {key: value for key, value in self._vectors.items() if key in held}
        return results

    def fields(self) -> dict[str, Any]:
        """Similarity, preprocessing, truncation, template, vocabulary, composition."""
        fields = self._system([]).fields()
        if "text+image" not in self.encoder.modalities:  # a side of texts and images, but no item of both
            fields["composition"] = ""
        return fields

    def origins(self) -> dict[str, str]:
        """The source of the vectors."""
        return {
            f"{vectors.modality} vectors": vectors.origin or "given by the caller"
            for _, vectors in self._vectors.values()
        }

    def by_modality(self) -> dict[str, Vectors]:
        """The vectors by modality, of the items that were encoded; the first of each."""
        first: dict[str, Vectors] = {}
        for _, vectors in self._vectors.values():
            first.setdefault(vectors.modality, vectors)
        return first

    def _system(self, tasks: Sequence[Task]) -> VectorSystem:
        """One system for the vectors of these tasks."""
        for task in tasks:
            self.vectors(task.queries, "query")
            self.vectors(task.documents, "document")
        system = _Prepared(self.by_modality(), self._similarity, self.name, self)
        system.search_device = self.search_device
        return system

    def _answerable(self, task: Task) -> Task:
        """The task without the queries with a zero vector, if these find nothing (a bag of words knows no typo)."""
        queries = self.vectors(task.queries, "query")
        if task.condition != PLAIN:
            task = replace(task, qrels={task.relevances[0]: task.judgements().select(task.measured_queries())})
        if self._zero_queries == "refused" or self._similarity == "dot" or not isinstance(queries, Embeddings):
            return task
        longest = np.abs(np.asarray(queries.vectors)).max(axis=1)
        zero = queries.ids.filter(pa.array(longest == 0))
        qrels = task.judgements()
        if not len(zero) or not pc.any(pc.is_in(qrels.queries, zero)).as_py():
            return task
        self.notes.append(
            f"{task.condition}: {len(zero):,} queries have a zero vector (no known word?); they found nothing"
        )
        left = qrels.select(qrels.queries.filter(pc.invert(pc.is_in(qrels.queries, zero))))
        return replace(task, qrels={task.relevances[0]: left})


class _Prepared(VectorSystem):
    """The vectors of an `EncoderSystem`, looked up by the items of a task and not by modality alone."""

    def __init__(
        self, vectors: dict[str, Vectors], similarity: Similarity | None, name: str, encoders: EncoderSystem
    ) -> None:
        super().__init__(vectors, similarity, name)
        self._encoders = encoders

    def sides(self, task: Task) -> tuple[Vectors, Vectors]:
        return self._encoders.vectors(task.queries, "query"), self._encoders.vectors(task.documents, "document")


def check_options(encoder: Encoder, options: dict[str, Any]) -> None:
    """Check the options of encoding."""
    known = ("store", "batch_size", "workers")
    faults = [f"unknown option {name!r} ({nearest(name, known)})" for name in options if name not in known]
    raise_faults(ConfigurationError, f"encoding with {encoder.card.name}", faults)


def unanswered(ranks: Ranks, qrels: Qrels) -> Ranks:
    """Add the queries that found nothing."""
    row = pc.is_in(qrels.queries, ranks.queries).to_numpy(zero_copy_only=False)
    positives = qrels.positives
    offsets = np.concatenate([[0], np.cumsum(positives)]).astype(np.int64)
    inside = np.repeat(row, positives)
    all_ranks, grades = np.zeros(offsets[-1], np.int64), qrels.grades[qrels.grades > 0].copy()
    all_ranks[inside], grades[inside] = ranks.ranks, ranks.grades
    return Ranks(qrels.queries, offsets, all_ranks, grades, ranks.depth, ranks.gallery_size)
