"""Evaluation: from a system, a collection and a declared protocol to a `Result` and its runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from visir.display import counted
from visir.encoders.base import Encoder
from visir.encoders.cross_encoder import CrossEncoder
from visir.evaluation.assembly import Assembly, Pool, assemble, check_options
from visir.evaluation.chance import chance_of
from visir.evaluation.cross_modal import Gains
from visir.evaluation.folds import Ranked
from visir.evaluation.results import Evaluation
from visir.evaluation.scoring import (
    least_depth,
    measures_of,
    score,
    skips_first,
    ties_of,
    typed_measures,
    without_first_answers,
)
from visir.evaluation.second_stage import second_stage
from visir.evaluation.sources import check_open_options, is_alone, open_tasks, reading_of
from visir.evaluation.systems.base import System
from visir.evaluation.systems.given import AnySystem, contestant, system_of
from visir.evaluation.systems.runs import RunSystem
from visir.evaluation.systems.vectors import EncoderSystem, VectorSystem
from visir.evaluation.text_weight import composed_system
from visir.records import Gallery, MultiVectorEmbeddings, Ranks, Recall, SparseEmbeddings, Task, Ties, Vectors
from visir.retrieval.rerank import Fusion, Tail
from visir.retrieval.scan import Similarity


def evaluate(
    source: Any = None,
    system: Any = None,
    tasks: Sequence[str] | str | None = None,
    *,
    images: Any = None,
    judgements: Any = None,
    shortcuts: str | None = None,
    vectors: Any = None,
    qrels: Any = None,
    split: str | None = None,
    relevance: str | None = None,
    captions: str = "all",
    recall: Recall | None = None,
    ties: Ties | None = None,
    gallery: Pool | Mapping[str, Gallery] = "split",
    folds: int = 1,
    depth: int = 100,
    similarity: Similarity | None = None,
    compose: str | None = None,
    measures: Sequence[str] | str | None = None,
    estimator: AnySystem | str | None = None,
    rerank: CrossEncoder | Encoder | str | None = None,
    k_test: int | None = None,
    tail: Tail = "dropped",
    fusion: Fusion = "matching",
    name: str | None = None,
    conditions: Mapping[str, Any] | None = None,
    skip_broken: bool = False,
    device: str | None = None,
    dtype: str = "float32",
    search_device: str | None = None,
    **encoding: Any,
) -> Evaluation:
    """Search the tasks of a source with a system and measure the answers, under a protocol that the result carries.

        visir.evaluate("photos.csv", "openai/clip-vit-base-patch32", images="photos/", split="test")
        visir.evaluate(collection, vectors={"image": (ids, matrix), "text": {"1": vector}})
        visir.evaluate("qrels.txt", "run.trec", measures=["nDCG@10", "AP"])

    Args:
        source: Whatever `visir.open` takes: a file or folder of images and captions (the tasks are "t2i" and "i2t") or
            of another task, a list of (image, caption), a data frame, a `Collection`, a `TaskFile`, one `Task`, or
            several. Or judgements alone (see `qrels`), for a run; or a log of the brittleness paper, a run itself.
        system: A model or its name, "bm25" for texts, "blind:NAME" for a language model that chooses without looking
            (`visir.evaluation.systems.blind`); two functions, of images and of texts; a run, {query: {document:
            score}}, a data frame, the path of a file, `ranx.Run`, or by task {"t2i": run}, "t2i=FILE"; embeddings of
            any form, as the pair of images and texts or by role ("query", "document"); a `System` of your own. A run
            over another gallery than the declared one is refused, with the difference.
        tasks: The names of the tasks; None takes all that the system answers.
        images: Where the pictures of the source are: a folder, zip or tar, or a list of them.
        judgements: Judgements to attach to a collection: CxC, ECCV Caption, a qrels file, …, or several.
        shortcuts: Synthetic shortcuts on pictures and captions, as of `visir.shortcuts.inject`: "bits:3".
        vectors: In place of a system, vectors of your own by "image" and "text", or by "query" and "document": {id:
            vector}, (ids, matrix), or `Embeddings`; several for each id as {id: (t, d) array}, (ids, list of arrays),
            or `MultiVectorEmbeddings`. A text may stand in place of its id: {caption: vector}. Or the name of a file,
            "npz:FILE", of several, or of one for each side.
        qrels: Judgements alone, in place of a source, in any form: {query: {document: grade}}, a TREC file, a data
            frame, `ranx.Qrels`. The system is then a run, given as `system` or in the first place, and measures are
            those of ranx and ir_measures.
        split: "test", "train+val", …; None is everything.
        relevance: What counts as right: "links" (a caption and its own image; the default of collections), or a set of
            judgements by name: "cxc", …
        captions: Which captions of each image take part, as queries and as candidates: "all", "first", "first 5",
            "random(seed=0)". Of collections only.
        recall: The recall that is called R@k and summed to rsum: "hit" (usual in image–text retrieval), "recall",
            "capped_recall". All three are measured in any case. None is "hit"; for judgements alone it is "recall", as
            text retrieval counts.
        ties: Equal scores: "id", "pessimistic", "optimistic", "trec". Default: as the task says. By document id; a
            positive after all documents that tie with it; a positive before them; by falling document id, as trec_eval
            and mteb do.
        gallery: The candidates: images and captions of the "split" (usual) or of the whole "collection" (the
            brittleness paper searches all images of Flickr30k), or a gallery for each task. Of collections only.
        folds: 5 for COCO's "5-fold 1k"; see `visir.evaluation.folds`. Of collections only.
        depth: How many answers per query are kept in the runs. Ranks, and with them all measures, are exact to the end
            of the gallery, except for runs that come from outside.
        similarity: "cosine" (default) or "dot"; "maxsim" for late interaction; of a run made elsewhere: how it was
            scored, if it does not say. Sparse vectors are scored by their dot product, several per item with "maxsim".
        compose: How a model that reads texts and images apart answers a query of both: "sum(0.5)", the weighted sum of
            the unit vectors, 0.5 being the share of the text; "text" or "image", one of the two alone; "sum(val)", a
            sum with the weight that is best on that other split. None leaves it to a model that takes both.
        measures: Names as people type them, such as "R@1", "nDCG@10", "AP(rel=2)@10", "rsum"; `visir.measures()` lists
            them, "mteb" stands for those of mteb. None takes those of the task, or else the default ones (and
            `dcg_cm@10` when there is an estimator).
        estimator: A model that estimates the gains of dcg_cm: 'self' is circular, and the card says so. For dcg_cm@p:
            another encoder or its pair of embeddings; "self" takes the system's own cosines; the protocol records it.
        rerank: A model that scores pairs and re-ranks the best answers: a cross-encoder, BLIP, ALBEF, X-VLM. Or a model
            that has one, or the name of either; it re-ranks the best `k_test` answers of each query.
        k_test: How many answers per query are re-ranked. Default: 128.
        tail: What is behind those that are re-ranked: "dropped", "kept". Nothing, as in the published numbers of such
            models; or the rest in its old order.
        fusion: By which score they are re-ranked: "matching", or its "sum" with the first stage's.
        name: A name: what the system is called in tables.
        conditions: Further conditions that only the caller knows: `rerank` (done outside visir), `perturbation`,
            `query_template`, `extra`.
        skip_broken: Leave out images that cannot be read, and count them in the notes, instead of stopping.
        device: Where models that are named are run: "cpu", "cuda", …
        dtype: The arithmetic of models that are named.
        search_device: A device of torch ("cuda") that searches the vectors, dense ones or several for each item; None
            is the cores of this machine. The numbers are the same. Pools are scored on the cores.
        **encoding: Options of `visir.encoders.encode_items` (`store`, `batch_size`, `workers`).

    Returns:
        The numbers (`evaluation["t2i R@1"]`), the runs they were measured from, and the judgements.

    Raises:
        ConfigurationError: Options are faulty; all are named at once.
        CollectionError: The split is empty, or a relevance is unknown.
        ProtocolError: A run does not fit the declared gallery.

    Example:
        >>> import visir
        >>> def colours(images):
        ...     return [image.resize((1, 1)).getpixel((0, 0)) for image in images]
        >>> def words(texts):
        ...     return [[1 + 99 * (name in text) for name in ("red", "green", "blue")] for text in texts]
        >>> mine = visir.Encoder.wrap("mine", image=colours, text=words)
        >>> evaluation = visir.evaluate("scenes:12?size=64", mine, split="test", measures=["R@1", "MRR"])
        >>> evaluation.tasks, 0 <= evaluation["t2i MRR"] <= 1
        (('i2t', 't2i'), True)
        >>> judged, run = {"q": {"a": 1, "b": 1}}, {"q": {"a": 0.9, "c": 0.5, "b": 0.1}}
        >>> visir.evaluate(judged, run, measures=["P@2", "RR"]).aggregates
        {'run': {'precision@2': 0.5, 'mrr': 1.0}}
    """
    given = dict(locals())
    check_open_options(encoding, "evaluate")
    measures, tasks = typed_measures(measures), [tasks] if isinstance(tasks, str) else tasks
    if qrels is not None or is_alone(source, system):
        from visir.evaluation.brittleness_runs import evaluate_alone

        return evaluate_alone(**{**given, "measures": measures})

    # Open the source; all options are checked before anything is computed. A weight is chosen on another split.
    source = open_tasks(source, images, None if compose else split, judgements=judgements, shortcuts=shortcuts)
    check_options(
        source, captions=captions, recall=recall, ties=ties, gallery=gallery, tasks=tasks, folds=folds, depth=depth,
        conditions=conditions, split=split, similarity=similarity, measures=measures,
    )  # fmt: skip
    stage = None
    if (rerank, k_test, tail, fusion) != (None, None, "dropped", "matching"):
        stage, system = second_stage(
            rerank, k_test, tail, fusion, system, conditions=conditions, device=device, dtype=dtype, **encoding
        )  # fmt: skip

    # Assemble the tasks, and what answers them.
    assembly = assemble(
        source, split=split, relevance=relevance, captions=captions, gallery=gallery, tasks=tasks, folds=folds
    )
    ties = ties or ties_of(assembly.tasks.values())
    system, called = contestant(system, vectors, assembly, name, device=device, dtype=dtype)
    if stage is not None and not isinstance(system, Encoder):
        encoding = stage.without_its_own(encoding)
    subject = system_of(system, similarity, called, search_device, **encoding)
    if compose is not None:
        subject = composed_system(subject, compose, assembly.tasks, source, split, relevance=relevance, ties=ties)
    assembly = assembly.keep([task for task in assembly.tasks if subject.answers(task)])
    names, gains = measures or measures_of(assembly.tasks.values()), None
    if estimator is not None or any(str(measure).startswith("dcg_cm") for measure in names or ()):
        names, gains = Gains.of(names, estimator, subject, stage is not None, device, dtype, encoding)

    # Search.
    deepest = depth if stage is None else max(depth, stage.k)
    assembly, ranked, timing, notes = searched(subject, assembly, deepest, ties, skip_broken)
    fields, label = subject.fields(), name or subject.name
    fields.setdefault("depth", least_depth(ranked[0]))
    if stage is not None:
        ranked, fields, cost = stage.after(ranked, fields, assembly, ties, timing)
        notes, label = [*notes, *cost], name or f"{label} + {stage.cross_encoder.card.name}"

    # Measure, under the protocol of everything above, and report.
    ranks, runs = ranked
    fields |= joined_conditions(conditions, assembly.carried)
    protocol = assembly.protocol(recall=recall or "hit", ties=ties, folds=folds, **fields)
    labels, unread = labels_of(subject, assembly.tasks)
    notes = [*notes, *missing_positives(assembly.folds, ranks), *unread]
    started, further = time.perf_counter(), None
    if gains is not None:
        further, protocol, circular = gains.measured(assembly, subject, runs, label, protocol)
        notes += circular
    result = score(label, ranks, protocol, measures=names, further=further, labels=labels, timing=timing, notes=notes)
    result.timing["measure"] = time.perf_counter() - started
    pooled = any(task.pools is not None for task in assembly.tasks.values())
    chance = chance_of(assembly.tasks, result.measures) if pooled else {}
    result = replace(result, captions=assembly.captions, origins=subject.origins(), chance=chance)
    return Evaluation(result, runs, dict(assembly.qrels), source)


def searched(
    subject: System, assembly: Assembly, depth: int, ties: Ties, skip_broken: bool
) -> tuple[Assembly, Ranked, dict[str, float], list[str]]:
    """The tasks without what could not be encoded, their ranks and runs, the seconds by stage, and notes."""
    noted, spent = len(subject.notes), dict(subject.seconds)  # a system may have been evaluated before
    subject.prepare(list(assembly.tasks.values()), skip_broken=skip_broken)
    if skip_broken:
        assembly = assembly.rebuild(subject.broken)
    started = time.perf_counter()
    ranked = subject.rank(assembly.folds, depth=depth + skips_first(assembly.folds), ties=ties)
    ranked = without_first_answers(ranked, assembly.folds)
    timing = {stage: seconds - spent.get(stage, 0.0) for stage, seconds in subject.seconds.items()}
    timing["rank" if isinstance(subject, RunSystem) else "search"] = time.perf_counter() - started
    notes = [line for task in assembly.tasks.values() for line in (*same_items(task), *blank_queries(task))]
    return assembly, ranked, timing, [*assembly.notes, *notes, *subject.notes[noted:], *equal_vectors(subject)]


def labels_of(subject: System, tasks: Mapping[str, Task]) -> tuple[dict[str, Sequence[pa.Table | None]], list[str]]:
    """The labels of the queries of each task, with those on texts that a model does not read whole; notes on these."""
    notes, of_reading = reading_of(subject.encoder, tasks) if isinstance(subject, EncoderSystem) else ([], {})
    return {name: [task.labels, of_reading.get(name)] for name, task in tasks.items()}, notes


# Notes of an evaluation: what a reader must know before taking the numbers for what they seem.


def equal_vectors(subject: System) -> list[str]:
    """A note for each side whose vectors are all the same: a collapsed model has numbers too, and they mean nothing."""
    if not isinstance(subject, (VectorSystem, EncoderSystem)):
        return []
    return [
        f"all {len(vectors):,} {side} vectors are equal: the order of the answers is that of the ids, not of a model"
        for side, vectors in subject.by_modality().items()
        if len(vectors) > 1 and _all_equal(vectors)
    ]


def _all_equal(vectors: Vectors) -> bool:
    if isinstance(vectors, SparseEmbeddings):
        return False
    matrix = vectors.vectors
    if isinstance(vectors, MultiVectorEmbeddings):
        count = int(vectors.counts[0])
        if (vectors.counts != count).any():
            return False
        matrix = matrix.reshape(len(vectors), count * vectors.dimension)
    return bool((matrix[0] == matrix[1]).all() and (matrix[0] == matrix).all())


def same_items(task: Task) -> list[str]:
    """A note when queries are documents too: a search then finds the query itself."""
    if task.queries.modality != task.documents.modality or task.gallery.ids is None:
        return []
    if task.pools is not None or task.excluded is not None or task.skip_first:
        return []
    same = int(pc.sum(pc.is_in(task.measured_queries(), task.gallery.ids)).as_py() or 0)
    count = counted(same, "queries", "have")
    note = f"{task.name}: {count} the id of a document; where it is the same item, it finds itself first"
    return [note] if same else []


def blank_queries(task: Task) -> list[str]:
    """A note when queries are texts without a word: whatever answers them, they count."""
    if task.queries.texts is None or task.queries.places is not None:
        return []
    blank = task.queries.ids.filter(pc.equal(pc.utf8_trim_whitespace(task.queries.texts), ""))
    count = int(pc.sum(pc.is_in(blank, task.measured_queries())).as_py() or 0) if len(blank) else 0
    return [f"{task.name}: {counted(count, 'queries', 'are')} blank, and counted like the others"] if count else []


def missing_positives(folds: Mapping[str, Sequence[Task]], ranks: Mapping[str, Sequence[Ranks]]) -> list[str]:
    """Notes on queries that cannot succeed: without a positive, or with positives outside the gallery."""
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


def joined_conditions(declared: Mapping[str, Any] | None, carried: Mapping[str, Any]) -> dict[str, Any]:
    """The conditions of the protocol: those of the caller and those of the collection."""
    conditions = dict(declared or {})
    if "extra" in carried:
        conditions["extra"] = {**conditions.get("extra", {}), **carried["extra"]}
    if "perturbation" in carried:
        stated = conditions.get("perturbation")
        conditions["perturbation"] = "; ".join(filter(None, [stated, carried["perturbation"]]))
    return conditions
