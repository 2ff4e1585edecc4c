"""Evaluation: a system, a collection, a declared protocol; out come a `Result` and the runs it was measured from."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import Parameter, signature
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from visir.encoders.base import Encoder
from visir.encoders.encoding import encode_items
from visir.encoders.matching import Matcher
from visir.errors import ConfigurationError, nearest, raise_faults
from visir.evaluation.captions import Choice, choose
from visir.evaluation.cross_modal import Estimator, dcg_cm, split_names
from visir.evaluation.folds import cut
from visir.evaluation.galleries import galleries_of, gallery_said, queries_said
from visir.evaluation.options import Pool, refuse_empty, refuse_faulty
from visir.evaluation.ranking import missing_positives, rank_runs, search_vectors
from visir.evaluation.scoring import score
from visir.evaluation.second_stage import apply, as_protocol, second_stage, stages_of
from visir.evaluation.systems import (
    System,
    embeddings_of,
    origins,
    refuse,
    runs_of,
    system_fields,
    system_name,
    with_similarity,
)
from visir.records import (
    TASKS,
    Collection,
    Embeddings,
    Gallery,
    Protocol,
    Qrels,
    Recall,
    Result,
    Run,
    SparseEmbeddings,
    Ties,
    Vectors,
)
from visir.search.exact import similarity_of
from visir.search.rerank import Fusion, Tail
from visir.search.vectors import Similarity


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A result, the runs it was measured from, and what they were judged by."""

    result: Result
    runs: Mapping[str, Run]
    qrels: Mapping[str, Qrels] = field(default_factory=dict)

    @property
    def captions(self) -> pa.Table | None:
        """Those of the result: enough to re-score the runs under other readings."""
        return self.result.captions


def evaluate(
    collection: Collection,
    system: System,
    *,
    split: str | None = None,
    relevance: str = "links",
    captions: str = "all",
    recall: Recall = "hit",
    ties: Ties = "id",
    gallery: Pool | Mapping[str, Gallery] = "split",
    tasks: Sequence[str] = TASKS,
    folds: int = 1,
    depth: int = 100,
    similarity: Similarity | None = None,
    measures: Sequence[str] | None = None,
    estimator: System | Literal["self"] | None = None,
    rerank: Matcher | Encoder | None = None,
    k_test: int | None = None,
    tail: Tail = "dropped",
    fusion: Fusion = "matching",
    name: str | None = None,
    conditions: Mapping[str, Any] | None = None,
    skip_broken: bool = False,
    **encoding: Any,
) -> Evaluation:
    """Search a collection with a system in both tasks and measure it, under a protocol that the result carries.

    - `system`: an `Encoder` (the collection is encoded, through the store), the pair of image and text `Embeddings` or
      `SparseEmbeddings`, or ready `Run`s. A run made over another gallery than the one declared here is refused, naming
      the difference.
    - `split`: "test", "train+val", …; None is the whole collection
    - `relevance`: "links" (a caption and its own image) or one of the collection's judgement sets ("cxc", "eccv", …)
    - `captions`: which captions of each image take part, as queries and as candidates: "all", "first", "first 5",
      "random(seed=0)" (see `captions.py`)
    - `recall`: which recall is summed to rsum and is called R@k: "hit" (the usual in image–text retrieval), "recall",
      "capped_recall". All three are measured in any case.
    - `ties`: "id" breaks ties by document id; "pessimistic" ranks a positive after whatever ties with it (what a system
      that gives equal scores deserves); "optimistic" before
    - `gallery`: candidates are the images and captions of the "split" (usual) or of the whole "collection" (as the
      brittleness paper searches all of Flickr30k's images), or declared outright per task
    - `folds`: 5 for COCO's "5-fold 1k" (see `folds.py`)
    - `depth`: how many documents per query are kept in the runs. Ranks, and with them all measures, are exact to the
      end of the gallery whatever the depth, except for runs that come from outside.
    - `similarity`: "cosine" or "dot" for dense vectors (default: cosine). Sparse ones are scored by their dot product,
      and their protocol says so; a cosine of them is refused (see `visir.search.exact.similarity_of`). For a run that
      comes from outside and does not say how it was scored, this declares it; otherwise it is "not declared".
    - `measures`: names; None takes the default ones (and `dcg_cm@10` when there is an estimator)
    - `estimator`: who says what a wrong answer is worth, for `dcg_cm@p` (see `cross_modal.py`): another encoder or its
      pair of embeddings; "self" takes the system's own cosines, which is circular, and the protocol says so
    - `rerank`: a model with a matching head: the best `k_test` (default: 128) answers of each query are ordered anew by
      it. `tail` says what is behind them: "dropped", nothing, as published numbers of such models are made; "kept", the
      rest in its old order. `fusion` says by what score: "matching", or its "sum" with the first stage's. See
      `visir.search.rerank`; the cost stands in `Result.timing` and in the notes.
    - `conditions`: what else was done to the task, and only the caller knows: `rerank` (by
      somebody else), `perturbation`, `query_template`, `extra`
    - `skip_broken`: images that cannot be encoded are set aside with their captions, and counted in the notes, instead
      of stopping
    - `encoding`: options handed to `visir.encoders.encode` (`store`, `batch_size`, `workers`)

    Raises `CollectionError` for an unknown or empty split, `ConfigurationError` listing every faulty option,
    `ProtocolError` for a run that does not fit.
    """
    stage = second_stage(rerank, k_test, tail, fusion, encoding, conditions)
    refuse_faulty(captions, recall, ties, gallery, tasks, folds, depth, conditions, collection, split, similarity)
    names, cutoffs = split_names(measures, estimator is not None)
    whole = collection
    part = collection.split(split)
    timing: dict[str, float] = {}
    notes: list[str] = []
    runs, vectors = runs_of(system), embeddings_of(system)
    if isinstance(system, Encoder):
        vectors = _encode(system, whole if gallery == "collection" else part, skip_broken, encoding, timing)
    elif set(encoding) - (set() if stage is None else {"store", "workers"}):
        raise ConfigurationError(
            f"unknown option {sorted(encoding)[0]!r}", hint="options of encoding need an encoder to evaluate"
        )
    if runs is None and vectors is None:
        raise refuse(system)
    if runs is not None and stage is not None and isinstance(estimator, str):
        raise ConfigurationError(
            "a run's own scores cannot be the gains of dcg_cm once it is re-ranked: matching scores are no cosines.",
            hint="name an encoder as the estimator, or leave it out",
        )
    if vectors is not None and skip_broken:
        part, whole = _set_aside(part, vectors[0], notes), _set_aside(whole, vectors[0], [])
    part, whole = choose(part, captions), choose(whole, captions)
    refuse_empty(part, split)
    asked = tuple(one for one in TASKS if one in tasks and (runs is None or one in runs))
    without = part.images.num_rows - pc.count_distinct(part.captions["image_id"]).as_py()
    if without and "i2t" in asked and relevance == "links":
        notes.append(f"{without:,} images have no caption; they are candidates, but no queries")
    folded = cut(part, folds)
    qrels = {one: [fold.qrels(one, relevance) for fold in folded] for one in asked}
    pools = [galleries_of(fold, whole, gallery, split, captions) for fold in folded]
    fields: dict[str, Any] = {}
    reached = depth if stage is None else max(depth, stage.k)
    started = time.perf_counter()
    if runs is not None:
        runs, scored_by = with_similarity(runs, similarity)
        label = name or " + ".join(dict.fromkeys(run.name for run in runs.values()))
        ranks, kept = rank_runs(runs, qrels, pools, galleries_of(part, whole, gallery, split, captions), ties, notes)
        ranks = as_protocol(ranks, kept)
        fields |= stages_of(kept.values())
        exact = all(one.depth is None for parts in ranks.values() for one in parts)
        fields["depth"] = None if exact else min(runs[one].depth for one in asked)
    else:
        assert vectors is not None
        label = name or system_name(vectors[0].encoder, vectors[1].encoder)
        by = similarity_of(similarity, *vectors)
        ranks, kept = search_vectors(vectors, asked, qrels, pools, reached, by, ties, label)
        scored_by, fields = by, fields | system_fields(*vectors)
    fields["similarity"] = scored_by
    timing["search" if runs is None else "rank"] = time.perf_counter() - started
    if stage is not None:
        texts_from = part if gallery == "split" else whole
        (ranks, kept), done = apply(stage, (ranks, kept), texts_from, qrels, pools, ties)
        notes += stage.notes(done, sum(timing.values()))
        timing["re-rank"] = done.seconds
        label = name or f"{label} + {stage.matcher.card.name}"
        fields |= stage.after(fields) | {"depth": None if stage.tail == "dropped" else fields.get("depth")}
    protocol = Protocol(
        collection=collection.name,
        collection_fingerprint=collection.fingerprint,
        split=split or "all",
        relevance=relevance,
        galleries={one: gallery_said(one, pools) for one in asked},
        queries={one: queries_said(one, qrels[one]) for one in asked},
        captions=str(Choice.parse(captions)),
        recall=recall,
        ties=ties,
        folds=folds,
        **(fields | _conditions(collection, conditions)),
    )
    notes += missing_positives(qrels, pools, ranks)
    started = time.perf_counter()
    judged = {one: _one_qrels(part, one, relevance, parts) for one, parts in qrels.items()}
    further = None
    if cutoffs:
        judge = _judge(estimator, part, vectors, encoding)
        who = judge.line if judge else f"self (circular): {label}"
        protocol = protocol.changed(estimator=who)
        further = {one: dcg_cm(kept[one], judged[one], cutoffs, judge) for one in asked}
        if "(circular)" in who:
            notes.append("dcg_cm is circular: the system under test says itself what its wrong answers are worth")
    result = score(label, ranks, protocol, measures=names, further=further, timing=timing, notes=notes)
    result.timing["measure"] = time.perf_counter() - started
    owners = part.captions.select(["id", "image_id"])
    return Evaluation(replace(result, captions=owners, origins=origins(vectors, runs)), kept, judged)


def _conditions(collection: Collection, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """What else was done to the task: what the caller says, and what the collection carries."""
    conditions = dict(given or {})
    if collection.injected is not None:
        conditions["extra"] = {**conditions.get("extra", {}), "shortcuts": str(collection.injected)}
    if collection.corrupted is not None:
        said = conditions.get("perturbation")
        conditions["perturbation"] = f"{said}; {collection.corrupted}" if said else str(collection.corrupted)
    return conditions


def _encode(
    encoder: Encoder, collection: Collection, skip_broken: bool, options: Mapping[str, Any], timing: dict[str, float]
) -> tuple[Vectors, Vectors]:
    # All captions are encoded even where few take part: what is stored then serves every choice of captions.
    known = [name for name, one in signature(encode_items).parameters.items() if one.kind is Parameter.KEYWORD_ONLY]
    faults = [f"unknown option {name!r} ({nearest(name, known)})" for name in options if name not in known]
    raise_faults(ConfigurationError, f"encoding with {encoder.card.name}", faults)
    started = time.perf_counter()
    images = encode_items(encoder, collection.items("image"), skip_broken=skip_broken, **options)
    timing["encode images"] = time.perf_counter() - started
    started = time.perf_counter()
    texts = encode_items(encoder, collection.items("text"), **options)
    timing["encode texts"] = time.perf_counter() - started
    return images, texts


def _judge(
    estimator: System | Literal["self"] | None,
    part: Collection,
    system: tuple[Vectors, Vectors] | None,
    encoding: Mapping[str, Any],
) -> Estimator | None:
    """The estimator of `dcg_cm`; None when it is a run's own cosines."""
    if isinstance(estimator, str):
        if estimator != "self":
            raise ConfigurationError(
                f"unknown estimator {estimator!r}", hint="give an encoder, its embeddings, or 'self' (circular)"
            )
        return None if system is None else Estimator(*_dense(system), is_system=True)
    if estimator is None:
        raise ConfigurationError(
            "dcg_cm needs an estimator: who says what a wrong answer is worth?",
            hint="estimator=another encoder, or 'self' (circular)",
        )
    vectors = embeddings_of(estimator)
    if isinstance(estimator, Encoder):
        vectors = _encode(estimator, part, False, encoding, {})
    if vectors is None:
        raise refuse(estimator)
    cards = [one.encoder.fingerprint for one in vectors]
    return Estimator(
        *_dense(vectors), is_system=system is not None and cards == [one.encoder.fingerprint for one in system]
    )


def _dense(vectors: tuple[Vectors, Vectors]) -> tuple[Embeddings, Embeddings]:
    """The same vectors, unless they are sparse: gains are cosines."""
    images, texts = vectors
    if isinstance(images, SparseEmbeddings) or isinstance(texts, SparseEmbeddings):
        raise ConfigurationError(
            f"dcg_cm takes cosines for gains; the vectors of {images.encoder.name} are sparse.",
            hint="name a dense encoder as the estimator, the one that was made sparse for instance",
        )
    return images, texts


def _set_aside(collection: Collection, images: Vectors, notes: list[str]) -> Collection:
    encoded = pc.is_in(collection.images["id"], images.ids)
    missing = collection.images["id"].filter(pc.invert(encoded)).to_pylist()
    if not missing:
        return collection
    shown = ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")
    notes.append(f"{len(missing):,} images could not be encoded and were set aside, with their captions: {shown}")
    return collection.keep_images(encoded)


def _one_qrels(part: Collection, task: str, relevance: str, parts: Sequence[Qrels]) -> Qrels:
    return parts[0] if len(parts) == 1 else part.qrels(task, relevance)
