"""Vectors as a system: embeddings of queries and documents in any form, searched exactly."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.encoders import Encoder, load
from visir.encoders.composed import OPTION
from visir.encoders.forms import joined_vectors
from visir.errors import ConfigurationError, RunError
from visir.evaluation.systems.base import System
from visir.evaluation.systems.blind import PREFIX, BlindSystem
from visir.evaluation.systems.bm25 import Bm25System
from visir.records import (
    Embeddings,
    EncoderCard,
    Items,
    MultiVectorEmbeddings,
    Run,
    SparseEmbeddings,
    Task,
    Ties,
    Vectors,
    show_id_forms,
)
from visir.retrieval.exact import SearchResult, search, search_both, similarity_of
from visir.retrieval.formats import is_ranking, read_run, run_form
from visir.retrieval.pools import ranks_in_pools, search_pools
from visir.retrieval.sparse.scan import check_same_vocabulary
from visir.retrieval.vectors import Similarity

# What people hand in as a system: names, pairs of functions, vectors as arrays and dictionaries, runs in any form.

SIDES = ("image", "text", "query", "document")

FORMS = (
    "give a model or its name, two functions (Encoder.wrap), a run ({query: {document: score}}, a data frame, a file), "
    "or vectors={'image': (ids, matrix), 'text': (ids, matrix)}"
)
"""What is taken as a system, in words."""


def is_run_file(name: object) -> bool:
    """Whether a text is the path of a file with a run: by its ending, "b.trec", "runs/a.json.gz", or what it holds."""
    if not isinstance(name, (str, Path)) or ":" in str(name).partition("/")[0]:
        return False
    return bool(run_form(name))


def is_run(given: object) -> bool:
    """Whether an object is a run of another tool: a dictionary of dictionaries, a table, a list of scored documents."""
    if isinstance(given, Run):
        return True
    if isinstance(given, Mapping):
        values = list(given.values())
        answers = all(isinstance(value, Mapping) or is_ranking(value) for value in values)
        return bool(values) and answers and not set(given) <= set(SIDES)
    if isinstance(given, (list, tuple)):
        first = given[0] if given else None
        scored = isinstance(first, tuple) and len(first) == 3
        matrix = isinstance(given, tuple) and len(given) == 3 and np.ndim(given[0]) == 2
        return scored or matrix
    return is_run_file(given) or type(given).__module__.partition(".")[0] == "ranx" or hasattr(given, "columns")


def opened(given: Any, tasks: Mapping[str, Task], *, device: str | None = None, dtype: str = "float32") -> Any:
    """Make of what people hand in what `system_of` takes; what it takes already stays as it is."""
    if isinstance(given, (System, Encoder)):
        return given
    if isinstance(runs := getattr(given, "runs", None), Mapping) and runs:  # an evaluation: measured again
        return {task: run for task, run in runs.items() if task in tasks}
    if is_run_file(given) and not Path(given).is_file():
        raise ConfigurationError(
            f"{given}: no such file.", hint="name the file of a run, or a model", code="no-such-file"
        )
    if isinstance(given, Mapping) and bool(given) and set(given) <= set(tasks) and all(map(is_run, given.values())):
        return {
            task: run if isinstance(run, Run) and run.task in tasks else read_run(run, task=task)
            for task, run in given.items()
        }
    if is_run(given):
        run = read_run(given)
        return run if run.task in tasks else read_run(run, task=task_of(run, tasks))
    if given == "bm25":
        return Bm25System()
    if isinstance(given, str) and given.startswith(PREFIX):
        return BlindSystem(given.removeprefix(PREFIX))
    if isinstance(given, (str, PathLike)):
        return load(given, device=device, dtype=dtype)
    functions = _functions(given)
    return Encoder.wrap("functions", **functions) if functions else given


def _functions(given: object) -> dict[str, Any]:
    """The two functions of a pair (image, text), or of a dictionary; none if these are no functions."""
    if isinstance(given, (tuple, list)) and len(given) == 2:
        given = {"image": given[0], "text": given[1]}
    if not isinstance(given, Mapping) or not given or not set(given) <= {"image", "text"}:
        return {}
    return dict(given) if all(map(callable, given.values())) else {}


def task_of(run: Run, tasks: Mapping[str, Task]) -> str:
    """The task whose queries a run answers."""
    counts = {
        name: int(pc.sum(pc.is_in(run.queries, task.measured_queries())).as_py() or 0) for name, task in tasks.items()
    }
    best = [name for name, count in counts.items() if count and count == max(counts.values())]
    if len(best) == 1:
        return best[0]
    if best:
        raise RunError(
            f"run {run.name}: its queries may be those of {' and of '.join(best)}.",
            hint=f"say which: {{{best[0]!r}: run}}",
        )
    forms = [
        show_id_forms("run", run.queries.to_pylist(), name, task.measured_queries().to_pylist())
        for name, task in tasks.items()
    ]
    matching = [form for form in forms if "they differ" in form]
    raise RunError(
        f"run {run.name} answers no query of {', '.join(tasks)}.",
        hint="; ".join(matching or forms),
        code="run-answers-no-query",
    )


def vectors_by_side(vectors: Mapping[str, Any], tasks: Sequence[Task], name: str | None = None) -> dict[str, Vectors]:
    """Make embeddings of vectors by side."""
    # vectors: By "image" and "text", or by "query" and "document": {id: vector}, (ids, matrix), or `Embeddings`; {id:
    # (t, d) vectors}, (ids, list of these), or `MultiVectorEmbeddings`. A text may stand in place of its id.
    example = "vectors={'image': (ids, matrix), 'text': (ids, matrix)}"
    if not isinstance(vectors, Mapping) or set(vectors) not in ({"image", "text"}, {"query", "document"}):
        keys = ", ".join(map(repr, vectors)) if isinstance(vectors, Mapping) else f"a {type(vectors).__name__}"
        raise ConfigurationError(
            f"vectors are given for {keys or 'nothing'}.",
            hint=f"{example}, or of 'query' and 'document'",
            code="vectors-of-other-sides",
        )
    modalities = {"image": "image", "text": "text"}
    if tasks:
        modalities |= {"query": tasks[0].queries.modality, "document": tasks[0].documents.modality}
    return {
        side: _by_id(_embeddings(value, side, modalities.get(side, side), name), side, tasks)
        for side, value in vectors.items()
    }


def _by_id(given: Vectors, side: str, tasks: Sequence[Task]) -> Vectors:
    """Vectors under the ids of the tasks; those under texts (of `visir.encode(model, texts)`) get the ids of these."""
    roles = [(role, items) for task in tasks for role, items in (("query", task.queries), ("document", task.documents))]
    texts = {
        id_: text
        for role, items in roles
        if side in (role, items.modality) and items.texts is not None
        for id_, text in zip(items.ids.to_pylist(), items.texts.to_pylist(), strict=True)
    }
    rows = {key: row for row, key in enumerate(given.ids.to_pylist())}
    if not texts or not rows.keys().isdisjoint(texts) or not rows.keys() >= set(texts.values()):
        return given
    if isinstance(given, SparseEmbeddings):
        return given
    order, ids = [rows[text] for text in texts.values()], pa.array(list(texts), pa.string())
    if isinstance(given, Embeddings):
        return dataclasses.replace(given, ids=ids, vectors=given.vectors[order])
    several = given.tokens.take(np.array(order))
    return dataclasses.replace(given, ids=ids, offsets=several.offsets, vectors=several.vectors)


def _embeddings(value: Any, side: str, modality: str, name: str | None) -> Vectors:
    if isinstance(value, Vectors):
        return value
    if not isinstance(value, Mapping) and not (isinstance(value, (tuple, list)) and len(value) == 2):
        raise ConfigurationError(
            f"vectors[{side!r}] is a {type(value).__name__}; which vector belongs to which id?",
            hint=f"vectors={{{side!r}: (ids, matrix), …}} or {{{side!r}: {{id: vector}}, …}}",
        )
    given: Any = value if isinstance(value, Mapping) else tuple(value)
    kind = MultiVectorEmbeddings if _holds_several_vectors(given) else Embeddings
    return kind.of(given, modality=modality, name=name or "own vectors")  # type: ignore[arg-type]


def _holds_several_vectors(given: Mapping[str, Any] | tuple[Any, Any]) -> bool:
    """Whether an id has several vectors: an array with two axes, or a list of vectors."""
    vectors = list(given.values()) if isinstance(given, Mapping) else given[1]
    if len(shape := getattr(vectors, "shape", ())) > 1 or len(vectors) == 0:
        return len(shape) == 3
    first = vectors[0]
    if hasattr(first, "shape"):
        return len(first.shape) == 2 and not hasattr(first, "toarray")  # a row of a sparse matrix has two axes
    return isinstance(first, (list, tuple)) and len(first) > 0 and np.ndim(first[0]) == 1


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
