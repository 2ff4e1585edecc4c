"""Vectors as a system: embeddings of queries and documents in any form, searched exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from visir.encoders.composed.rule import OPTION
from visir.encoders.forms import joined_vectors
from visir.errors import ConfigurationError
from visir.evaluation.systems.base import System
from visir.records import Embeddings, EncoderCard, Items, MultiVectorEmbeddings, SparseEmbeddings, Task, Ties, Vectors
from visir.retrieval.exact import SearchResult, search, search_both, similarity_of
from visir.retrieval.pools import ranks_in_pools, search_pools
from visir.retrieval.sparse.scan import check_same_vocabulary
from visir.retrieval.vectors import Similarity

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


def dense(vectors: Vectors) -> Embeddings:
    """Check that vectors are dense: sparse ones have no cosines."""
    if isinstance(vectors, MultiVectorEmbeddings):
        raise ConfigurationError(
            f"dcg_cm takes cosines for gains; {vectors.encoder.name} makes several vectors for each item.",
            hint="name an encoder with one vector for each item as the estimator",
            code="dcg-cm-takes-cosines",
        )
    if isinstance(vectors, SparseEmbeddings):
        raise ConfigurationError(
            f"dcg_cm takes cosines for gains; the vectors of {vectors.encoder.name} are sparse.",
            hint="name a dense encoder as the estimator, the one that was made sparse for instance",
            code="dcg-cm-takes",
        )
    return vectors
