"""The package `mteb`, both ways: encoders of visir as its models, and its files of results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from visir.collections.draft import Side, TaskDraft
from visir.collections.readers.mteb_tasks import item_table, sides_of
from visir.collections.readers.task_reader import TaskReader
from visir.collections.task_memory import item_tables
from visir.display import Displayed, brief
from visir.encoders import load
from visir.encoders.base import Encoder
from visir.encoders.encoding import encode_items
from visir.encoders.forms import as_dense
from visir.errors import ConfigurationError, MissingPackageError, VisirError
from visir.files import json_bytes, read_text
from visir.records import Gallery, Items, Pools, Role, Vectors
from visir.retrieval.exact import search
from visir.retrieval.pools import search_pools
from visir.retrieval.scan import Similarity
from visir.storage import write_new

if TYPE_CHECKING:
    from numpy.typing import NDArray

# What mteb knows of a model: its name, revision, and how its vectors are compared.

_FORMS = {"dense": "dense", "sparse": "sparse", "multi-vector": "late-interaction"}
_MODALITIES = {"text": ("text",), "image": ("image",), "text+image": ("image", "text")}


def meta_of(encoder: Encoder, similarity: Similarity | None, name: str | None, revision: str | None) -> Any:
    """mteb's record of a model."""
    from mteb.models import ModelMeta
    from mteb.models.model_meta import ScoringFunction

    sizes = {encoder.dimension_of(modality) for modality in encoder.modalities} - {None}
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
            "similarity_fn_name": ScoringFunction(scored),
            "embed_dim": next(iter(sizes)) if len(sizes) == 1 and encoder.form != "multi-vector" else None,
            "use_instructions": encoder.distinguishes_roles,
        }
    )


def model_name(name: str) -> str:
    """The name of an encoder in mteb's form, "organisation/model"."""
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return name
    return f"visir/{re.sub(r'[^A-Za-z0-9_.-]+', '-', name.rstrip('/').rpartition('/')[2]).strip('-') or 'model'}"


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


CUTOFFS = (1, 3, 5, 10, 20, 100, 1000)
NAMES = {"ndcg": "ndcg", "map": "map", "recall": "recall", "precision": "precision", "mrr": "mrr", "hit": "hit_rate",
         "capped_recall": "R_cap"}  # fmt: skip
"""What mteb calls a measure."""
MTEB_MEASURES = tuple(f"{name}@{cutoff}" for name in NAMES if name != "capped_recall" for cutoff in CUTOFFS)
"""The measures of mteb's retrieval tasks: what `measures="mteb"` stands for."""
_OWN = {name: measure for measure, name in NAMES.items()}
_SPLITS = {"val": ("validation", "dev", "val")}


def write_mteb(
    evaluation: Any,
    folder: str | Path,
    *,
    task: str | None = None,
    split: str | None = None,
    model: str | None = None,
    revision: str | None = None,
    main_score: str | None = None,
) -> Path:
    """Write an evaluation as a file of results of mteb, where `mteb.ResultCache(folder)` finds it."""
    # The file is `FOLDER/results/MODEL/REVISION/TASK.json`. Values have all their digits; mteb itself rounds to five.
    name = task or evaluation.protocol.collection
    known = _metadata(name)
    main = main_score or (known.main_score if known else "ndcg_at_10")
    split = split or _mteb_split(evaluation.protocol.split, known)
    languages = known.hf_subsets_to_langscripts if known else {}
    entries = []
    for part, measured in evaluation.aggregates.items():
        if part not in evaluation.per_query:
            continue
        scores = {mteb: value for measure, value in measured.items() if (mteb := mteb_name(measure)) is not None}
        if "recall_at_1" in scores:
            scores["accuracy"] = scores["recall_at_1"]
        if main not in scores:
            raise VisirError(
                f"{part}: the main score of {name}, {main}, was not measured.",
                hint='visir.evaluate(…, measures="mteb")',
                code="main-score-not-measured",
            )
        subset = part if len(evaluation.per_query) > 1 or part in languages else "default"
        subset = next(iter(languages)) if len(languages) == 1 else subset
        entries.append({**scores, "main_score": scores[main], "hf_subset": subset,
                        "languages": list(languages.get(subset, ())), "mteb_version": _version()})  # fmt: skip
    content = {
        "dataset_revision": known.revision if known else evaluation.protocol.collection_fingerprint,
        "task_name": name,
        "mteb_version": _version(),
        "scores": {split: entries},
        "evaluation_time": sum(evaluation.timing.values()),
        "kg_co2_emissions": None,
        "date": datetime.now(UTC).timestamp(),
    }
    called = model or model_name(evaluation.system)
    place = Path(folder) / "results" / called.replace("/", "__").replace(" ", "_") / (revision or "visir")
    path = place / f"{name}.json"
    if path.exists():
        raise VisirError(
            f"{path}: there is such a file.", hint="name another folder, model or revision", code="file-there-already"
        )
    about = place / "model_meta.json"
    for file, values in ((about, _meta(called, revision or "visir")), (path, content)):
        if file is path or not file.exists():  # what is known of the model may come from mteb itself
            write_new(file, json_bytes(values))
    return path


@dataclass(frozen=True)
class MtebResults(Displayed):
    """The numbers of one model on one task, as mteb wrote them. They have no values of single queries."""

    task: str  # the name of the task
    revision: str  # the version of its data
    # By (split, subset): {measure as visir names it: value}; nAUC and the like keep mteb's names.
    scores: Mapping[tuple[str, str], Mapping[str, float]]
    path: str = ""  # the file

    def __repr__(self) -> str:
        lines = [f"{split} {subset}: main score {values.get('main_score', float('nan')):.5f}"
                 for (split, subset), values in self.scores.items()]  # fmt: skip
        return brief(self, f"{self.task} by mteb", *lines)

    def beside(self, evaluation: Any) -> dict[str, dict[str, tuple[float, float]]]:
        """The numbers of an evaluation beside these, where both measured the same."""
        # Returns: By task {measure: (here, in the file)}. Rounding aside, both are equal where ties are counted as mteb
        # does.
        evaluation = getattr(evaluation, "result", evaluation)
        both: dict[str, dict[str, tuple[float, float]]] = {}
        for part, measured in evaluation.aggregates.items():
            for (split, subset), values in self.scores.items():
                fits = split == evaluation.protocol.split or split in _SPLITS.get(evaluation.protocol.split, ())
                if fits and subset in (part, "default"):
                    both[part] = {name: (value, values[name]) for name, value in measured.items() if name in values}
        if not any(both.values()):
            listing = ", ".join(f"{split} {subset}" for split, subset in self.scores)
            raise VisirError(
                f"{self.task}: nothing in common with {', '.join(evaluation.tasks)} of {evaluation.protocol.split}.",
                hint=f"the file has {listing}",
            )
        return both


def read_mteb(path: str | Path) -> MtebResults:
    """Read a file of results of mteb (`TASK.json`)."""
    try:
        content = json.loads(read_text(path))  # mteb writes NaN, which is no JSON for stricter readers
    except ValueError as fault:
        raise VisirError(f"{path}: not valid JSON: {fault}", hint="copy it again", code="not-valid-json") from fault
    if not (isinstance(content, dict) and "task_name" in content and isinstance(content.get("scores"), dict)):
        raise VisirError(f"{path}: not a file of results of mteb.", hint="it has task_name and scores by split")
    scores = {
        (str(split), str(entry["hf_subset"])): {
            own_name(name): float(value) for name, value in entry.items() if isinstance(value, (int, float))
        }
        for split, entries in content["scores"].items()
        for entry in entries
    }
    return MtebResults(content["task_name"], str(content.get("dataset_revision", "")), scores, str(path))


def mteb_name(measure: str) -> str | None:
    """What mteb calls a measure; None where it has none."""
    name, _, cutoff = measure.partition("@")
    return f"{NAMES[name]}_at_{cutoff}" if name in NAMES and cutoff.isdecimal() else None


def own_name(name: str) -> str:
    """What visir calls a measure of mteb; other names stay."""
    match = re.fullmatch(r"(.+)_at_(\d+)", name)
    return f"{_OWN[match[1]]}@{match[2]}" if match and match[1] in _OWN else name


def _metadata(name: str) -> Any:
    """What mteb knows of a task; None where it does not know it, or is not installed."""
    if find_spec("mteb") is None:
        return None
    import mteb

    try:
        return mteb.get_task(name).metadata
    except KeyError:
        return None


def _mteb_split(split: str, known: Any) -> str:
    if split == "all" and known is not None and len(known.eval_splits) == 1:
        return str(known.eval_splits[0])
    names = _SPLITS.get(split, (split,))
    return next((name for name in names if known is not None and name in known.eval_splits), names[0])


def _version() -> str:
    try:
        return version("mteb")
    except PackageNotFoundError:
        return "2.0.0"


def _meta(name: str, revision: str) -> dict[str, Any]:
    if find_spec("mteb") is None:
        return {"name": name, "revision": revision}
    from mteb.models import ModelMeta

    meta: dict[str, Any] = ModelMeta.create_empty().model_copy(update={"name": name, "revision": revision}).to_dict()
    return meta
