"""An encoder of visir as a model of the package `mteb`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from visir.collections.readers.mteb_tasks import item_table, sides_of
from visir.collections.readers.task_reader import TaskReader
from visir.collections.task_draft import Side, TaskDraft
from visir.collections.task_memory import item_tables
from visir.encoders import load
from visir.encoders.base import Encoder
from visir.encoders.encoding import encode_items
from visir.encoders.forms import as_dense
from visir.errors import ConfigurationError, MissingPackageError
from visir.records import Gallery, Items, Pools, Role, Vectors
from visir.retrieval.exact import search
from visir.retrieval.pools import search_pools
from visir.retrieval.vectors import Similarity

if TYPE_CHECKING:
    from numpy.typing import NDArray


# What mteb knows of a model: its name, revision, and how its vectors are compared.

_FORMS = {"dense": "dense", "sparse": "sparse", "multi-vector": "late-interaction"}
_MODALITIES = {"text": ("text",), "image": ("image",), "text+image": ("image", "text")}


def meta_of(encoder: Encoder, similarity: Similarity | None, name: str | None, revision: str | None) -> Any:
    """mteb's record of a model."""
    from mteb.models import ModelMeta

    scored = {"sparse": "dot", "multi-vector": "MaxSim"}.get(encoder.form, similarity or "cosine")
    modalities = {part for modality in encoder.modalities for part in _MODALITIES[modality]}
    return ModelMeta.create_empty().model_copy(
        update={
            "name": name or model_name(encoder.card.name),
            "revision": revision
            or (encoder.card.revision if encoder.card.is_versioned else None)
            or encoder.card.fingerprint[:12],
            "modalities": sorted(modalities),
            "model_type": [_FORMS[encoder.form]],
            "similarity_fn_name": _scoring(scored),
            "embed_dim": None if encoder.form == "multi-vector" else _dimension(encoder),
            "use_instructions": encoder.distinguishes_roles,
        }
    )


def model_name(name: str) -> str:
    """The name of an encoder in mteb's form, "organisation/model"."""
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return name
    return f"visir/{re.sub(r'[^A-Za-z0-9_.-]+', '-', name.rstrip('/').rpartition('/')[2]).strip('-') or 'model'}"


def _scoring(name: str) -> Any:
    from mteb.models.model_meta import ScoringFunction

    return ScoringFunction(name)


def _dimension(encoder: Encoder) -> int | None:
    sizes = {encoder.dimension_of(modality) for modality in encoder.modalities} - {None}
    return next(iter(sizes)) if len(sizes) == 1 else None


# What mteb hands a model, as items: data sets of queries and documents, and batches of inputs.


def items_of_dataset(data: Any, role: Role, metadata: Any) -> Items:
    """The queries or documents of a task of mteb, with the text and the pictures that its category names."""
    side: Side = "queries" if role == "query" else "documents"
    letters = sides_of(metadata)[0 if role == "query" else 1]
    reader = TaskReader(TaskDraft(str(metadata.name), Path.cwd(), f"mteb:{metadata.name}"))
    reader.read_items(side, [item_table(data, letters, side)], join_titles=role == "document")
    draft = reader.finish()
    draft.raise_faults()
    return draft.items(side)


def items_of_batches(batches: Iterable[Mapping[str, Any]]) -> Items | None:
    """The inputs of an encoder of mteb; None where there are none."""
    rows: list[dict[str, Any]] = []
    for batch in batches:
        columns = {name: batch[name] for name in ("text", "image") if name in batch}
        rows += [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if not rows:
        return None
    reader = TaskReader(TaskDraft("mteb", Path.cwd(), "inputs of mteb"))
    reader.read_items("documents", item_tables(rows, "documents"), join_titles=False)
    draft = reader.finish()
    draft.raise_faults()
    return draft.items("documents")


def mteb_model(
    model: Encoder | str | Path,
    *,
    similarity: Similarity | None = None,
    name: str | None = None,
    revision: str | None = None,
    device: str | None = None,
    dtype: str = "float32",
    **encoding: Any,
) -> SearchModel:
    """Make a model for `mteb.evaluate` of an encoder.

        mteb.evaluate(visir.mteb_model("openai/clip-vit-base-patch32"), mteb.get_tasks(["Flickr30kT2IRetrieval"]))

    Retrieval and reranking are searched by visir: exactly, in one gallery or in the candidates of each query, with
    dense vectors, weighted words, or several vectors for each item (MaxSim). Vectors are kept on disk, so a second
    evaluation encodes nothing. A model with one vector for each item also does mteb's other tasks (classification,
    clustering, similarity, …).

    Args:
        model: An encoder, or a name that `visir.load` takes.
        similarity: "cosine" or "dot" for dense vectors; None is cosine.
        name: What mteb calls it, "organisation/model"; None makes it of the name of the encoder.
        revision: What mteb calls its version; None is the fingerprint of the encoder.
        device: Where a model that is named runs.
        dtype: The arithmetic of a model that is named.
        **encoding: Options of `visir.encode`: `store`, `batch_size`, `workers`.

    Raises:
        MissingPackageError: mteb is not installed.
        EncoderError: There is no such model.

    Example:
        >>> import visir
        >>> visir.mteb_model("bow:64").mteb_model_meta.name
        'visir/bow-64'
    """
    try:
        import mteb  # noqa: F401
    except ImportError as fault:
        raise MissingPackageError("mteb", extra="mteb", purpose="a model for mteb") from fault
    encoder = model if isinstance(model, Encoder) else load(model, device=device, dtype=dtype)
    kind = DenseModel if encoder.form == "dense" else SearchModel
    return kind(encoder, similarity, meta_of(encoder, similarity, name, revision), encoding)


class SearchModel:
    """An encoder that searches for mteb (its `SearchProtocol`). `mteb_model` makes one."""

    def __init__(self, encoder: Encoder, similarity: Similarity | None, meta: Any, encoding: Mapping[str, Any]) -> None:
        self.encoder = encoder
        self.mteb_model_meta = meta
        self._similarity = similarity
        self._encoding = dict(encoding)
        self._corpus: tuple[Items, Vectors] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mteb_model_meta.name}, for mteb)"

    def index(self, corpus: Any, *, task_metadata: Any, hf_split: str, hf_subset: str, **options: Any) -> None:
        """Encode the documents of a task; mteb calls it before `search`."""
        items = items_of_dataset(corpus, "document", task_metadata)
        self._corpus = (items, self._vectors(items, "document", options))

    def search(
        self,
        queries: Any,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        top_k: int,
        top_ranked: Mapping[str, list[str]] | None = None,
        **options: Any,
    ) -> dict[str, dict[str, float]]:
        """Search the documents that `index` encoded."""
        if self._corpus is None:
            raise ConfigurationError("there is nothing to search.", hint="call index(corpus, …) first, as mteb does")
        (documents, candidates), self._corpus = self._corpus, None
        items = items_of_dataset(queries, "query", task_metadata)
        vectors = self._vectors(items, "query", options)
        gallery = Gallery.of(documents.modality, documents.ids, "all documents")
        answers: dict[str, dict[str, float]] = {query: {} for query in items.ids.to_pylist()}
        if top_ranked is None:
            run = search(
                vectors, candidates, task_metadata.name, gallery=gallery, depth=top_k, similarity=self._similarity
            ).run
        else:
            pairs = [(query, document) for query in answers for document in dict.fromkeys(top_ranked.get(query, ()))]
            if not pairs:
                return answers
            columns = [pa.array([pair[side] for pair in pairs], pa.string()) for side in (0, 1)]
            pools = Pools.of(*columns)
            run = search_pools(
                vectors, candidates, pools, gallery, task=task_metadata.name, similarity=self._similarity
            )
        for query in run.queries.to_pylist():
            answers[query] = dict(run.answer(query, top_k))
        return answers

    def _vectors(self, items: Items, role: Role, options: Mapping[str, Any]) -> Vectors:
        given = {name: value for name, value in (options.get("encode_kwargs") or {}).items() if name == "batch_size"}
        return encode_items(self.encoder, items, role, **{**given, **self._encoding})


class DenseModel(SearchModel):
    """The same for one dense vector per item: it also encodes for mteb's other tasks (its `EncoderProtocol`)."""

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: Any = None,
        **options: Any,
    ) -> NDArray[np.float32]:
        """The vectors of the batches of inputs that mteb makes."""
        items = items_of_batches(inputs)
        if items is None:
            return np.zeros((0, self.encoder.dimension_of("text") or 1), np.float32)
        role: Role = "query" if str(getattr(prompt_type, "value", prompt_type)) == "query" else "document"
        vectors = as_dense(self._vectors(items, role, {"encode_kwargs": options}))
        return np.array(vectors.vectors, np.float32)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """(n, m) the scores of all pairs, as a tensor."""
        import torch

        left, right = (_normal(torch.as_tensor(side), self._is_cosine) for side in (embeddings1, embeddings2))
        return left @ right.T

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """(n,) the scores of the pairs that stand beside each other, as a tensor."""
        import torch

        left, right = (_normal(torch.as_tensor(side), self._is_cosine) for side in (embeddings1, embeddings2))
        return (left * right).sum(dim=-1)

    @property
    def _is_cosine(self) -> bool:
        return self._similarity in (None, "cosine")


def _normal(vectors: Any, cosine: bool) -> Any:
    import torch

    vectors = vectors[None] if vectors.ndim == 1 else vectors
    return torch.nn.functional.normalize(vectors.float(), dim=-1) if cosine else vectors.float()
