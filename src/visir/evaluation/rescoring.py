"""Re-score runs under another reading of the protocol, as far as the available data allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.display import Displayed
from visir.errors import VisirError
from visir.evaluation.captions import Choice
from visir.evaluation.folds import folds_of, joined_runs, runs_of_folds
from visir.evaluation.readings import Reading
from visir.evaluation.restrict import is_whole, restrict
from visir.evaluation.results import Evaluation
from visir.records import SIDES, Gallery, Protocol, Qrels, Ranks, Run, Vectors
from visir.retrieval.exact import search
from visir.retrieval.ranks import ranks_of
from visir.retrieval.vectors import Similarity

SAME_SCORES = 0.01
"""Relative difference of the best scores, at the median query, up to which a new search counts as the same search.

Half precision and other hardware give much smaller differences; another model, or another similarity, does not.
"""


class NotComputable(Exception):
    """The available data do not allow a reading; the text is the reason."""


@dataclass(frozen=True, eq=False, repr=False)
class Material(Displayed):
    """The data for re-scoring.

    Attributes:
        runs: By task.
        qrels: By task: the judgements.
        captions: Columns id, image_id of the split in the source's order; without it, captions cannot be chosen and
            folds cannot be cut.
        vectors: (images, texts), dense or sparse. With them every reading is searched again and exactly, by the
            similarity of the run; without them it is cut out of the run.
        fixed: By task and measure: values that no reading changes (an imported or separately computed `dcg_cm@10`);
            they are used for the run as it is only.
        protocol: The protocol of the runs, if it is known.
    """

    runs: Mapping[str, Run]
    qrels: Mapping[str, Qrels]
    captions: pa.Table | None = None
    vectors: tuple[Vectors, Vectors] | None = None
    fixed: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    protocol: Protocol | None = None

    @classmethod
    def of(cls, evaluation: Evaluation, vectors: tuple[Vectors, Vectors] | None = None) -> Material:
        """Collect the data of an evaluation; its cross-modal DCG is used as it was computed.

        Args:
            evaluation: The evaluation.
            vectors: (images, texts), if available.

        Returns:
            The material.
        """
        fixed = {
            task: {
                name: value for name, value in evaluation.result.aggregates[task].items() if name.startswith("dcg_cm")
            }
            for task in evaluation.runs
        }
        protocol = evaluation.result.protocol
        return cls(evaluation.runs, evaluation.qrels, evaluation.captions, vectors, fixed, protocol)


def rank(material: Material, task: str, reading: Reading, cutoff: int) -> list[Ranks]:
    """Compute the ranks of each fold under a reading.

    Args:
        material: The data.
        task: The task.
        reading: The reading; its recall plays no role.
        cutoff: The deepest k that will be measured.

    Returns:
        The ranks of each fold.

    Raises:
        NotComputable: With the reason.
        VisirError: The vectors are not those of the run.
    """
    run, qrels = material.runs[task], material.qrels[task]
    if reading.depth != "as run":
        if run.depth <= int(reading.depth):
            raise NotComputable(f"the run goes only {run.depth} deep as it is")
        cut = run.cut(int(reading.depth))
        return [ranks_of(part, qrels.select(part.queries)) for part in runs_of_folds(cut)]
    as_run = reading.captions == reading.gallery == reading.folds == "as run"
    if as_run and (material.vectors is None or not run.gallery.is_listed):
        parts = runs_of_folds(run)
        if len(parts) == 1:
            return [ranks_of(run, qrels, reading.ties)]  # type: ignore[arg-type]
        return [ranks_of(part, qrels.select(part.queries), reading.ties) for part in parts]  # type: ignore[arg-type]
    judged_parts = _parts(material, task, reading)
    if material.vectors is not None:
        ranks, anew = _searched(material, task, judged_parts, reading.ties)
        if as_run:
            _check_same_scores(run, anew)
        return ranks
    if "rerank" in run.provenance and any(
        gallery.fingerprint != run.gallery.fingerprint for _, gallery in judged_parts
    ):
        raise NotComputable("the run is re-ranked; over fewer candidates, others would be among the first k")
    return [_cut_out(run, judged, gallery, cutoff) for judged, gallery in judged_parts]


def similarity_of_run(run: Run) -> str | None:
    """The recorded similarity of a run.

    Args:
        run: The run.

    Returns:
        The similarity; None for runs from outside that do not record it.
    """
    similarity: str | None = run.provenance.get("similarity")
    return similarity


def _searched(material: Material, task: str, parts: list[tuple[Qrels, Gallery]], ties: str) -> tuple[list[Ranks], Run]:
    assert material.vectors is not None
    run = material.runs[task]
    similarity = similarity_of_run(run)
    if similarity not in get_args(Similarity):
        raise VisirError(
            f"run {run.name} ({task}) does not say by which similarity it was scored"
            + (f" ({similarity})" if similarity else "")
            + ": a search anew could be another one.",
            hint="explain it as it is, without collection and model",
        )
    by_modality = {vectors.modality: vectors for vectors in material.vectors}
    queries, documents = (by_modality[side] for side in SIDES[task])
    searched = [
        search(
            queries,
            documents,
            task,
            gallery=gallery,
            depth=1,
            similarity=similarity,  # type: ignore[arg-type]
            ties=ties,  # type: ignore[arg-type]
            qrels=qrels,
            name=run.name,
        )
        for qrels, gallery in parts
    ]
    return [part.ranks for part in searched if part.ranks is not None], joined_runs([part.run for part in searched])


def _check_same_scores(run: Run, anew: Run) -> None:
    """Refuse vectors whose search does not give the run: they belong to another system."""
    best, best_anew = _best_scores(run), _best_scores(anew)
    both = [query for query in best if query in best_anew]
    gaps = np.array([abs(best[query] - best_anew[query]) for query in both])
    scale = np.median([abs(best[query]) for query in both]) if both else 0.0
    if not both or np.median(gaps) > SAME_SCORES * scale:
        raise VisirError(
            f"run {run.name} ({run.task}): the best answers have other scores when these vectors are searched "
            "anew; it was made by another model, or re-ranked.",
            hint="name the model that made the run, or explain it as it is, without collection and model",
        )


def _best_scores(run: Run) -> dict[str, float]:
    answered = np.diff(run.offsets) > 0
    best = run.scores[run.offsets[:-1][answered]]
    return dict(zip(run.queries.filter(pa.array(answered)).to_pylist(), best.tolist(), strict=True))


def _cut_out(run: Run, qrels: Qrels, gallery: Gallery, cutoff: int) -> Ranks:
    try:
        part = restrict(run, gallery, qrels.queries)
    except VisirError as fault:
        raise NotComputable(fault.message) from fault
    lengths = np.diff(part.offsets)
    if not is_whole(part) and lengths.min() < min(cutoff, gallery.size):
        raise NotComputable(
            f"the run goes {run.depth} deep; of the remaining {gallery.size:,} candidates fewer than {cutoff} are left "
            f"for {int((lengths < cutoff).sum()):,} of {len(part):,} queries (search deeper, or give the embeddings)"
        )
    return ranks_of(part, qrels)


def _parts(material: Material, task: str, reading: Reading) -> list[tuple[Qrels, Gallery]]:
    """(qrels, gallery) of each fold of a reading."""
    run, qrels, table = material.runs[task], material.qrels[task], material.captions
    within = folds_of(run)
    if within > 1 and reading.folds == "1":
        if material.vectors is None:
            raise NotComputable(
                f"the run was made within {within} folds: a query was never compared with the candidates of the others "
                "(search anew, with the collection and the model)"
            )
        return [_chosen(qrels, run.gallery, table, task, reading)]
    if within > 1:
        return [_chosen(*part, task, reading) for part in _folds_as_run(run, qrels, table)]
    if reading.folds == "as run":
        return [_chosen(qrels, run.gallery, table, task, reading)]
    return _cut_into(int(reading.folds), *_chosen(qrels, run.gallery, table, task, reading), material, reading)


Part: TypeAlias = tuple[Qrels, Gallery, pa.Table | None]
"""The judgements and candidates of a fold, and its captions."""


def _folds_as_run(run: Run, qrels: Qrels, table: pa.Table | None) -> list[Part]:
    """The folds of a run, with their candidates by name."""
    if table is None:
        raise NotComputable("the collection is not at hand: which candidates belong to which fold")
    parts: list[Part] = []
    for part in runs_of_folds(run):
        is_query = pc.is_in(table["id" if run.task == "t2i" else "image_id"], part.queries)
        fold_captions = table.filter(pc.is_in(table["image_id"], table.filter(is_query)["image_id"].combine_chunks()))
        gallery = _of_table(fold_captions, run.task)
        if gallery.size != part.gallery.size:
            raise NotComputable("folds hold images without a caption, and the run does not say which are in which")
        parts.append((qrels.select(part.queries), gallery, fold_captions))
    return parts


def _chosen(
    qrels: Qrels, gallery: Gallery, table: pa.Table | None, task: str, reading: Reading
) -> tuple[Qrels, Gallery]:
    """The judgements and the gallery for chosen captions, or for judged candidates only."""
    if table is None:
        if reading.captions != "as run":
            raise NotComputable("the collection is not at hand: which captions belong to which image, in which order")
        return qrels, gallery if reading.gallery == "as run" else _judged_only(qrels, gallery, task)
    if reading.captions != "as run":
        table, left_out = _captions(table, reading)
        if task == "t2i":
            qrels = qrels.select(table["id"])
        else:
            if reading.gallery == "as run":
                gallery = _without(gallery, left_out, table)
            qrels = _documents(qrels, table["id"])
    return qrels, _of_table(table, task) if reading.gallery == "split" else gallery


def _captions(table: pa.Table, reading: Reading) -> tuple[pa.Table, pa.ChunkedArray]:
    """The captions that take part under a reading, and the ids of the others."""
    keep = Choice.parse(reading.captions).keep(table["id"].combine_chunks(), table["image_id"].combine_chunks())
    if keep.all():
        raise NotComputable("every image has one caption")
    return table.filter(pa.array(keep)), table["id"].filter(pa.array(~keep))


def _cut_into(
    folds: int, qrels: Qrels, gallery: Gallery, material: Material, reading: Reading
) -> list[tuple[Qrels, Gallery]]:
    """One gallery cut into folds, as in an evaluation over folds."""
    task: str = "t2i" if gallery.modality == "image" else "i2t"
    table = material.captions
    if table is None:
        raise NotComputable("the collection is not at hand: which captions belong to which image, in which order")
    if reading.gallery == "split":
        raise NotComputable("folds are cut from the split as it is")
    if reading.captions != "as run":
        table, _ = _captions(table, reading)
    images = table["image_id"].unique()
    if len(images) % folds:
        raise NotComputable(f"{len(images):,} images do not divide into {folds} equal folds")
    if gallery.size != (len(images) if task == "t2i" else table.num_rows):
        raise NotComputable("the gallery is larger than the split, so folds of it are not defined")
    parts = []
    for fold in range(folds):
        size = len(images) // folds
        part = table.filter(pc.is_in(table["image_id"], images[fold * size : (fold + 1) * size]))
        queries = part["id"] if task == "t2i" else part["image_id"].unique()
        parts.append((qrels.select(queries), _of_table(part, task)))
    return parts


def _of_table(table: pa.Table, task: str) -> Gallery:
    ids = table["image_id"].unique() if task == "t2i" else table["id"]
    return Gallery.of(SIDES[task][1], ids, "the split")


def _judged_only(qrels: Qrels, gallery: Gallery, task: str) -> Gallery:
    """The documents that are positives of some query: without the collection, the best available guess of the split."""
    ids = qrels.documents.filter(pa.array(qrels.grades > 0)).unique()
    if len(ids) == gallery.size:
        raise NotComputable("the gallery holds nothing but the judged ones as it is")
    return Gallery.of(SIDES[task][1], ids, "the judged ones")


def _without(gallery: Gallery, left_out: pa.ChunkedArray, table: pa.Table) -> Gallery:
    if gallery.ids is None or len(gallery.ids) != len(left_out) + table.num_rows:
        raise NotComputable("the gallery is not exactly the split's captions, so one per image cannot be chosen in it")
    return gallery.restrict(table["id"].combine_chunks(), "chosen captions")


def _documents(qrels: Qrels, documents: pa.ChunkedArray) -> Qrels:
    keep = pc.is_in(qrels.documents, documents.combine_chunks())
    query = qrels.queries.take(pa.array(np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))))
    grades = qrels.grades[keep.to_numpy(zero_copy_only=False)]
    return Qrels.of(query.filter(keep), qrels.documents.filter(keep), grades, name=qrels.name)
