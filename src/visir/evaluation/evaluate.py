"""Evaluation: from a system, a collection and a declared protocol to a `Result` and its runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from visir.display import Plotted, Tabular
from visir.encoders.base import Encoder
from visir.encoders.cross_encoder import CrossEncoder
from visir.errors import ConfigurationError
from visir.evaluation.assembly import Assembly, Pool, Source, assemble
from visir.evaluation.cross_modal import Estimator, dcg_cm, split_names
from visir.evaluation.options import check_options
from visir.evaluation.protocol_lines import candidates_line, queries_line
from visir.evaluation.scoring import score
from visir.evaluation.second_stage import apply, second_stage
from visir.evaluation.systems import AnySystem, EncoderSystem, RunSystem, System, VectorSystem, system_of
from visir.evaluation.systems.vectors import dense
from visir.records import Gallery, Protocol, Qrels, Ranks, Recall, Result, Run, Task, Ties
from visir.retrieval.rerank import Fusion, Tail
from visir.retrieval.vectors import Similarity


@dataclass(frozen=True, eq=False)
class Evaluation(Tabular, Plotted, view="visir.reports.views.evaluation"):
    """A result with its runs and judgements.

    Attributes:
        result: The measured values and their protocol.
        runs: By task: the answers of the search.
        qrels: By task: the judgements.
    """

    result: Result
    runs: Mapping[str, Run]
    qrels: Mapping[str, Qrels] = field(default_factory=dict)

    def __repr__(self) -> str:
        return repr(self.result).replace("Result(", "Evaluation(", 1)

    @property
    def captions(self) -> pa.Table | None:
        """The captions of the result: enough to re-score the runs under other readings."""
        return self.result.captions


def evaluate(
    source: Source,
    system: AnySystem,
    tasks: Sequence[str] | None = None,
    *,
    split: str | None = None,
    relevance: str | None = None,
    captions: str = "all",
    recall: Recall = "hit",
    ties: Ties = "id",
    gallery: Pool | Mapping[str, Gallery] = "split",
    folds: int = 1,
    depth: int = 100,
    similarity: Similarity | None = None,
    measures: Sequence[str] | None = None,
    estimator: AnySystem | Literal["self"] | None = None,
    rerank: CrossEncoder | Encoder | None = None,
    k_test: int | None = None,
    tail: Tail = "dropped",
    fusion: Fusion = "matching",
    name: str | None = None,
    conditions: Mapping[str, Any] | None = None,
    skip_broken: bool = False,
    **encoding: Any,
) -> Evaluation:
    """Search the tasks of a source with a system and measure the answers, under a protocol that the result carries.

    Args:
        source: A `Collection` of images and captions (its tasks are "t2i" and "i2t"), another source of tasks (a
            `TaskFile`), one `Task`, or several.
        system: An `Encoder` (items are encoded, through the store); embeddings, dense or sparse, as the pair of images
            and texts or by role ("query", "document"); ready `Run`s; or a `System` of your own. A run over another
            gallery than the declared one is refused, with the difference.
        tasks: The names of the tasks; None takes all that the system answers.
        split: "test", "train+val", …; None is everything.
        relevance: The set of judgements: "links" (a caption and its own image; the default of collections), "cxc", …
        captions: Which captions of each image take part, as queries and as candidates: "all", "first", "first 5",
            "random(seed=0)". Of collections only.
        recall: The recall that is called R@k and summed to rsum: "hit" (usual in image–text retrieval), "recall",
            "capped_recall". All three are measured in any case.
        ties: How equal scores are counted: "id" by document id; "pessimistic" a positive after all documents that tie
            with it; "optimistic" a positive before them.
        gallery: The candidates: images and captions of the "split" (usual) or of the whole "collection" (the
            brittleness paper searches all images of Flickr30k), or a gallery for each task. Of collections only.
        folds: 5 for COCO's "5-fold 1k"; see `visir.evaluation.folds`. Of collections only.
        depth: How many documents per query the runs keep. Ranks, and with them all measures, are exact to the end of
            the gallery, except for runs that come from outside.
        similarity: "cosine" or "dot" for dense vectors (default: cosine); sparse ones are scored by their dot product.
            For a run without a recorded similarity, this declares it.
        measures: Names; None takes the default ones (and `dcg_cm@10` when there is an estimator).
        estimator: What estimates the gain of a wrong answer, for `dcg_cm@p`: another encoder or its pair of embeddings;
            "self" takes the system's own cosines, which is circular; the protocol records it. Of collections only.
        rerank: A cross-encoder, or a model that has one: it re-ranks the best `k_test` answers of each query.
        k_test: How many answers are re-ranked (default: 128).
        tail: What follows the re-ranked answers: "dropped", nothing, as in the published numbers of such models;
            "kept", the rest in its old order.
        fusion: The score of the second stage: "matching", or its "sum" with the first stage's.
        name: What tables call the system.
        conditions: Further conditions that only the caller knows: `rerank` (done outside visir), `perturbation`,
            `query_template`, `extra`.
        skip_broken: Leave out images that cannot be read, and count them in the notes, instead of stopping.
        **encoding: Options of `visir.encoders.encode_items` (`store`, `batch_size`, `workers`).

    Returns:
        The result, the runs it was measured from, and the judgements.

    Raises:
        ConfigurationError: Options are faulty; all are named at once.
        CollectionError: The split is empty, or a relevance is unknown.
        ProtocolError: A run does not fit the declared gallery.

    Example:
        >>> import numpy as np
        >>> from visir.records import Collection, Embeddings, EncoderCard
        >>> collection = Collection.build(
        ...     "two pictures",
        ...     images={"id": ["a", "b"]},
        ...     captions={"id": ["1", "2"], "text": ["red", "blue"], "image_id": ["a", "b"]},
        ... )
        >>> card = EncoderCard("by hand", "example", revision="1")
        >>> images = Embeddings("image", ["a", "b"], np.eye(2, dtype=np.float32), card)
        >>> texts = Embeddings("text", ["1", "2"], np.array([[1, 0], [1, 0]], np.float32), card)
        >>> evaluate(collection, (images, texts)).result.mean("t2i", "hit@1")
        0.5
    """
    stage = second_stage(rerank, k_test, tail, fusion, encoding, conditions)
    check_options(captions, recall, ties, gallery, tasks, folds, depth, conditions, source, split, similarity)
    names, cutoffs = split_names(measures, estimator is not None)
    if stage is not None and not isinstance(system, Encoder):
        encoding = {name: value for name, value in encoding.items() if name not in ("store", "workers")}
    subject = system_of(system, similarity, name, **encoding)
    if isinstance(subject, RunSystem) and stage is not None and isinstance(estimator, str):
        raise ConfigurationError(
            "a run's own scores cannot be the gains of dcg_cm once it is re-ranked: matching scores are no cosines.",
            hint="name an encoder as the estimator, or leave it out",
        )
    assembly = assemble(
        source, split=split, relevance=relevance, captions=captions, gallery=gallery, tasks=tasks, folds=folds
    )
    assembly = assembly.keep([task for task in assembly.tasks if subject.answers(task)])
    noted, spent = len(subject.notes), dict(subject.seconds)  # a system may have been evaluated before
    subject.prepare(list(assembly.tasks.values()), skip_broken=skip_broken)
    if skip_broken:
        assembly = assembly.rebuild(subject.broken)
    notes = list(assembly.notes)
    reached = depth if stage is None else max(depth, stage.k)
    started = time.perf_counter()
    ranks, runs = subject.rank(assembly.folds, depth=reached, ties=ties)
    timing = {stage: seconds - spent.get(stage, 0.0) for stage, seconds in subject.seconds.items()}
    timing["rank" if isinstance(subject, RunSystem) else "search"] = time.perf_counter() - started
    fields = subject.fields()
    depths = [part.depth for parts in ranks.values() for part in parts if part.depth is not None]
    fields.setdefault("depth", min(depths) if depths else None)
    notes += [line for task in assembly.tasks.values() for line in _same_items(task)]
    notes += subject.notes[noted:]
    label = name or subject.name
    if stage is not None:
        if assembly.collection is None:
            raise ConfigurationError(
                "a second stage matches images and captions: it goes with collections of these only.",
                hint="leave rerank out",
            )
        (ranks, runs), done = apply(stage, (ranks, runs), assembly.collection, assembly.folds, ties)
        notes += stage.notes(done, sum(timing.values()))
        timing["re-rank"] = done.seconds
        label = name or f"{label} + {stage.cross_encoder.card.name}"
        fields |= stage.after(fields) | {"depth": None if stage.tail == "dropped" else fields.get("depth")}
    protocol = Protocol(
        collection=assembly.source,
        collection_fingerprint=assembly.fingerprint,
        split=assembly.split,
        relevance=assembly.relevance,
        galleries={task: candidates_line(parts) for task, parts in assembly.folds.items()},
        queries={task: queries_line(parts) for task, parts in assembly.folds.items()},
        captions=assembly.choice,
        recall=recall,
        ties=ties,
        folds=folds,
        **(fields | _conditions(assembly.carried, conditions)),
    )
    notes += missing_positives(assembly.folds, ranks)
    started = time.perf_counter()
    further = None
    if cutoffs:
        if assembly.collection is None:
            raise ConfigurationError("dcg_cm compares images with captions: it goes with collections of these only.")
        judge = _judge(estimator, assembly, subject, encoding)
        estimator_line = judge.line if judge else f"self (circular): {label}"
        protocol = protocol.changed(estimator=estimator_line)
        further = {task: dcg_cm(runs[task], assembly.qrels[task], cutoffs, judge) for task in assembly.folds}
        if "(circular)" in estimator_line:
            notes.append("dcg_cm is circular: the system under test says itself what its wrong answers are worth")
    result = score(label, ranks, protocol, measures=names, further=further, timing=timing, notes=notes)
    result.timing["measure"] = time.perf_counter() - started
    return Evaluation(
        replace(result, captions=assembly.captions, origins=subject.origins()), runs, dict(assembly.qrels)
    )


def _same_items(task: Task) -> list[str]:
    """A note when queries are documents too: a search then finds the query itself."""
    if task.queries.modality != task.documents.modality or task.gallery.ids is None:
        return []
    same = int(pc.sum(pc.is_in(task.measured_queries(), task.gallery.ids)).as_py() or 0)
    note = f"{task.name}: {same:,} queries have the id of a document; where it is the same item, it finds itself first"
    return [note] if same else []


def missing_positives(folds: Mapping[str, Sequence[Task]], ranks: Mapping[str, Sequence[Ranks]]) -> list[str]:
    """Notes on queries that cannot succeed: without a positive, or with positives outside the gallery.

    Args:
        folds: By task: one task per fold.
        ranks: By task: the ranks of each fold.

    Returns:
        The notes.
    """
    notes = []
    for name, tasks in folds.items():
        without = sum(int((part.positives == 0).sum()) for part in ranks[name])
        if without:
            notes.append(f"{name}: {without:,} queries have no positive; they count as failed")
        outside = 0
        for task in tasks:
            if task.gallery.ids is not None:
                qrels = task.judgements()
                listed = pc.is_in(qrels.documents, task.gallery.ids).to_numpy(zero_copy_only=False)
                outside += int(((qrels.grades > 0) & ~listed).sum())
            if task.pools is not None:
                unpooled = int(pc.sum(pc.invert(pc.is_in(task.measured_queries(), task.pools.queries))).as_py() or 0)
                if unpooled:
                    notes.append(f"{name}: {unpooled:,} judged queries have no pool; they count as failed")
        if outside:
            notes.append(f"{name}: {outside:,} positives are outside the gallery and cannot be found")
    return notes


def _conditions(carried: Mapping[str, Any], declared: Mapping[str, Any] | None) -> dict[str, Any]:
    """The conditions of the protocol: those of the caller and those of the collection."""
    conditions = dict(declared or {})
    if "extra" in carried:
        conditions["extra"] = {**conditions.get("extra", {}), **carried["extra"]}
    if "perturbation" in carried:
        stated = conditions.get("perturbation")
        conditions["perturbation"] = "; ".join(filter(None, [stated, carried["perturbation"]]))
    return conditions


def _judge(
    estimator: AnySystem | Literal["self"] | None,
    assembly: Assembly,
    subject: System,
    encoding: Mapping[str, Any],
) -> Estimator | None:
    """The estimator of `dcg_cm`; None if the run's own cosines are used."""
    own_vectors = subject.by_modality() if isinstance(subject, (VectorSystem, EncoderSystem)) else None
    if isinstance(estimator, str):
        if estimator != "self":
            raise ConfigurationError(
                f"unknown estimator {estimator!r}", hint="give an encoder, its embeddings, or 'self' (circular)"
            )
        return (
            None
            if own_vectors is None
            else Estimator(dense(own_vectors["image"]), dense(own_vectors["text"]), is_system=True)
        )
    if estimator is None:
        raise ConfigurationError(
            "dcg_cm needs an estimator: who says what a wrong answer is worth?",
            hint="estimator=another encoder, or 'self' (circular)",
        )
    judge = system_of(estimator, **(encoding if isinstance(estimator, Encoder) else {}))
    if not isinstance(judge, (VectorSystem, EncoderSystem)):
        raise ConfigurationError(
            f"a {type(estimator).__name__} cannot be an estimator.", hint="give an encoder, or its embeddings"
        )
    judge.prepare(list(assembly.tasks.values()))
    vectors = judge.by_modality()
    cards = {side: vectors[side].encoder.fingerprint for side in ("image", "text")}
    is_system = own_vectors is not None and cards == {
        side: own_vectors[side].encoder.fingerprint for side in ("image", "text")
    }
    return Estimator(dense(vectors["image"]), dense(vectors["text"]), is_system=is_system)
