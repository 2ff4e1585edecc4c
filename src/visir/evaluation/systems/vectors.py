"""Vectors as a system: embeddings that exist, or those of an encoder, searched exactly."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.encoders.base import Encoder
from visir.encoders.composed import OPTION, ComposedEncoder, CompositionRule
from visir.encoders.encoding import encode_items
from visir.encoders.forms import joined_vectors
from visir.encoders.sources import check_accepted
from visir.errors import ConfigurationError, nearest, raise_faults
from visir.evaluation.systems.base import System
from visir.records import (
    PLAIN,
    Embeddings,
    EncoderCard,
    Items,
    MultiVectorEmbeddings,
    Qrels,
    Ranks,
    Role,
    SparseEmbeddings,
    Task,
    Ties,
    Vectors,
)
from visir.retrieval.exact import SearchResult, search, search_both, similarity_of
from visir.retrieval.pools import ranks_in_pools, search_pools
from visir.retrieval.scan import Similarity
from visir.retrieval.sparse.scan import check_same_vocabulary

# The fields of the protocol that encoders fill.

_TRUNCATION = ("truncation", "max_length", "context_length", "max_tokens")
_OF_VOCABULARY = ("vocabulary", "terms")
"""Fields of a sparse encoder's card that the protocol shows under "vocabulary"."""


def system_name(queries: EncoderCard, documents: EncoderCard) -> str:
    """One name for the encoders of queries and documents."""
    return " + ".join(dict.fromkeys([queries.name, documents.name]))


def system_fields(vectors: Mapping[str, Vectors]) -> dict[str, str]:
    """The fields of `Protocol` that vectors and their cards fill: preprocessing, truncation, template, vocabulary, how
    many vectors there are for an item, how a text and an image become one."""
    both = vectors.get("text+image")
    images, texts = vectors.get("image", both), vectors.get("text", both)
    text = {} if texts is None else dict(texts.encoder.text_preprocessing)
    if isinstance(texts, SparseEmbeddings):
        text = {name: value for name, value in text.items() if name not in _OF_VOCABULARY}
    text.pop(OPTION, None)
    template = str(text.pop("template", "{}"))
    truncation = ", ".join(f"{name.replace('_', ' ')} {text.pop(name)}" for name in _TRUNCATION if name in text)
    return {
        "image_preprocessing": "" if images is None else _in_words(images.encoder.image_preprocessing),
        "text_preprocessing": _in_words(text),
        "truncation": truncation,
        "query_template": template,
        "vocabulary": _vocabulary(texts),
        "vectors_per_item": _several(vectors),
        "composition": "" if both is None else str(both.encoder.text_preprocessing.get(OPTION, "by the model")),
    }


def _vocabulary(vectors: Vectors | None) -> str:
    if not isinstance(vectors, SparseEmbeddings):
        return ""
    words = vectors.vocabulary
    return f"{words.name} · {len(words):,} terms · {words.fingerprint[:12]}"


def _several(vectors: Mapping[str, Vectors]) -> str:
    """How many vectors there are for an item, on average: "image 49, text 11.3 · 128 dimensions, float16"."""
    sides = [(side, value) for side, value in sorted(vectors.items()) if isinstance(value, MultiVectorEmbeddings)]
    if not sides:
        return ""
    counts = [f"{side} {len(value.vectors) / max(len(value), 1):,.1f}".removesuffix(".0") for side, value in sides]
    dtypes = dict.fromkeys(str(value.vectors.dtype) for _, value in sides)
    return f"{', '.join(counts)} · {sides[0][1].dimension:,} dimensions, {' and '.join(dtypes)}"


def _in_words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in sorted(values.items()))


class VectorSystem(System):
    """Embeddings that exist already.

    Args:
        vectors: By role ("query", "document") or by modality ("image", "text", "text+image"). With roles, a task takes
            them by role; otherwise by the modality of its queries and documents.
        similarity: "cosine" or "dot"; None is cosine for dense vectors and dot for sparse ones. Several vectors per
            item are scored with "maxsim".
        name: The name in tables; None takes the names of the encoders.

    Attributes:
        search_device: A device of torch that searches (`visir.retrieval.exact.search`); None is the cores. Pools are
            scored on the cores in any case.

    Raises:
        ConfigurationError: The vectors are not of one space, or forms are mixed.
    """

    search_device: str | None = None

    def __init__(
        self, vectors: Mapping[str, Vectors], similarity: Similarity | None = None, name: str | None = None
    ) -> None:
        self.vectors = dict(vectors)
        self._roles: dict[int, str] = {}
        self._mixed: dict[int, tuple[Items, Vectors]] = {}
        first, *others = self.vectors.values()
        for other in others:
            similarity_of(None, first, other)  # refuses two forms
            if isinstance(first, SparseEmbeddings) and isinstance(other, SparseEmbeddings):
                check_same_vocabulary(first, other)
            if first.dimension != other.dimension:
                raise ConfigurationError(
                    f"{first.modality} vectors have {first.dimension} dimensions ({first.encoder.name}), "
                    f"{other.modality} vectors {other.dimension} ({other.encoder.name}): they are not in one space.",
                    hint="encode both sides with one model, or train heads over the two",
                    code="configuration-not-one-space",
                )
        super().__init__(name or system_name(first.encoder, (others or [first])[-1].encoder))
        self.similarity = similarity_of(similarity, first, (others or [first])[-1])

    def sides(self, task: Task) -> tuple[Vectors, Vectors]:
        """The vectors of a task's queries and of its documents.

        Args:
            task: The task.

        Returns:
            (queries, documents).

        Raises:
            ConfigurationError: There are no vectors of the right modality.
        """
        if "query" in self.vectors:
            for items, role in ((task.queries, "query"), (task.documents, "document")):
                modality = self.vectors[role].modality
                if modality != items.modality and "text+image" not in (modality, items.modality):
                    raise ConfigurationError(
                        f"task {task.name}: its {items.title} are {items.modality}s; the {role} vectors are of "
                        f"{modality}s.",
                        hint="expected image and text embeddings: give the pair (images, texts)",
                        code="modalities-swapped",
                    )
            return self.vectors["query"], self.vectors["document"]
        both = [self._of_kinds(items) for items in (task.queries, task.documents)]
        missing = [
            f"{items.title} ({items.holding})"
            for items, vectors in zip((task.queries, task.documents), both, strict=True)
            if vectors is None
        ]
        if both[0] is None or both[1] is None:
            raise ConfigurationError(
                f"task {task.name}: there are no vectors of the {' and the '.join(missing)}; "
                f"given are vectors of modality {', '.join(self.vectors)}.",
                hint='give both sides: {"query": embeddings, "document": embeddings}',
                code="no-vectors-given-vectors",
            )
        return both[0], both[1]

    def _of_kinds(self, items: Items) -> Vectors | None:
        """The vectors of items; of a side of texts, images and both, each has that of its kind. None for no vectors."""
        whole = self.vectors.get(items.modality)
        if not items.is_mixed or not items.kinds or not set(items.kinds) <= set(self.vectors):
            return whole
        if whole is not None and pc.all(pc.is_in(items.ids, whole.ids)).as_py():
            return whole
        if id(items) not in self._mixed:
            parts = []
            for kind, rows in items.kinds.items():
                own = self.vectors[kind]
                ids = items.ids.take(pa.array(rows))
                parts.append(own.select(ids.filter(pc.is_in(ids, own.ids))))
            joined = replace(joined_vectors(items.ids, parts), modality=items.modality)
            self._mixed[id(items)] = (items, joined)  # holding the items keeps their id() unique
        return self._mixed[id(items)][1]

    def search(self, tasks: Sequence[Task], *, depth: int, ties: Ties) -> list[SearchResult]:
        """Exact search; two tasks that are each other's reverse are searched in one pass."""
        if len(tasks) == 2 and all(task.pools is None for task in tasks):
            first, second = sorted(tasks, key=lambda task: task.name)
            if (first.name, second.name) == ("i2t", "t2i"):
                images, texts = self.sides(first)
                reverse = self.sides(second)
                if texts is reverse[0] and images is reverse[1]:
                    both = search_both(
                        images,
                        texts,
                        galleries={task.name: task.gallery for task in tasks},
                        depth=depth,
                        similarity=self.similarity,
                        ties=ties,
                        qrels={task.name: task.judgements() for task in tasks},
                        name=self.name,
                        device=self.search_device,
                    )
                    return [both[task.name] for task in tasks]
        return [self._search(task, depth, ties) for task in tasks]

    def _search(self, task: Task, depth: int, ties: Ties) -> SearchResult:
        queries, documents = self.sides(task)
        qrels = task.judgements()
        if task.pools is None:
            return search(
                queries,
                documents,
                task.name,
                gallery=task.gallery,
                depth=depth,
                similarity=self.similarity,
                ties=ties,
                qrels=qrels,
                name=self.name,
                device=self.search_device,
            )
        pools = task.pools.select(qrels.queries)
        run = search_pools(
            queries, documents, pools, task.gallery, task=task.name, similarity=self.similarity, name=self.name
        )
        return SearchResult(run, ranks_in_pools(run, task.pools, qrels, ties))

    def prepare(self, tasks: Sequence[Task], *, skip_broken: bool = False) -> None:
        """Remember which items are queries and which are documents."""
        for task in tasks:
            self._roles |= {id(task.queries): "query", id(task.documents): "document"}

    def broken(self, items: Items) -> pa.StringArray:
        """The ids of the images that have no vector."""
        vectors = self.vectors.get(self._roles.get(id(items), ""), self.by_modality().get(items.modality))
        if items.places is None or vectors is None:
            return items.ids[:0]
        return items.ids.filter(pc.invert(pc.is_in(items.ids, vectors.ids)))

    def by_modality(self) -> dict[str, Vectors]:
        """The vectors by modality."""
        # Of two sides of one modality that of the queries: it says the template and where texts are cut.
        return {str(vectors.modality): vectors for vectors in reversed(self.vectors.values())}

    def fields(self) -> dict[str, Any]:
        """Similarity, preprocessing, truncation, template, vocabulary."""
        return {**system_fields(self.by_modality()), "similarity": self.similarity}

    def conditions(self, task: str) -> list[str]:
        """No condition: ready vectors cannot answer perturbed queries."""
        return []

    def origins(self) -> dict[str, str]:
        """The source of the vectors."""
        unknown = "given by the caller"
        return {f"{_label(key, vectors)} vectors": vectors.origin or unknown for key, vectors in self.vectors.items()}


def _label(key: str, vectors: Vectors) -> str:
    return f"{key} ({vectors.modality})" if key in ("query", "document") else str(vectors.modality)


# An encoder as a system: items are encoded through the store, then searched.


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
        self.asked_similarity = similarity
        self._zero_queries = zero_queries
        self.options = options
        self._skip_broken = False
        self._vectors: dict[tuple[int, Role], tuple[Items, Vectors]] = {}
        self._given_name, self._how_chosen = name, ""

    def composed(self, rule: CompositionRule, how_chosen: str = "") -> EncoderSystem:
        """The same system with another rule for items of a text and an image.

        Args:
            rule: How one vector is made of both.
            how_chosen: How its weight was chosen, for the protocol.

        Returns:
            A new system.
        """
        made = EncoderSystem(
            ComposedEncoder(self.encoder, rule),
            self.asked_similarity,
            self._given_name,
            zero_queries=self._zero_queries,
            **self.options,
        )
        made.search_device, made._how_chosen = self.search_device, how_chosen
        return made

    def prepare(self, tasks: Sequence[Task], *, skip_broken: bool = False) -> None:
        """Encode the queries and documents of all tasks: images first, then texts."""
        self._skip_broken = skip_broken
        if not self.encoder.precomputed:  # what it cannot encode is told at once, before it encodes anything
            check_accepted(self.encoder, [side for task in tasks for side in (task.queries, task.documents)])
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
            vectors = encode_items(self.encoder, items, role, skip_broken=skip_broken, **self.options)
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
        if self._how_chosen:
            fields["composition"] += f", {self._how_chosen}"
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
        system = _Prepared(self.by_modality(), self.asked_similarity, self.name, self)
        system.search_device = self.search_device
        return system

    def _answerable(self, task: Task) -> Task:
        """The task without the queries with a zero vector, if these find nothing (a bag of words knows no typo)."""
        queries = self.vectors(task.queries, "query")
        if task.condition != PLAIN:
            task = replace(task, qrels={task.relevances[0]: task.judgements().select(task.measured_queries())})
        if self._zero_queries == "refused" or self.asked_similarity == "dot" or not isinstance(queries, Embeddings):
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


OF_EVALUATION = (
    *("split", "images", "measures", "tasks", "captions", "qrels", "vectors", "relevance", "recall", "ties", "gallery"),
    *("folds", "depth", "similarity", "rerank", "name"),
)
"""What one who misspells an option of `visir.evaluate` may mean."""


def check_options(encoder: Encoder, options: dict[str, Any]) -> None:
    """Check the options of encoding."""
    known = ("store", "batch_size", "workers")
    meant = (*known, *OF_EVALUATION)
    faults = [f"unknown option {name!r} ({nearest(name, meant)})" for name in options if name not in known]
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
