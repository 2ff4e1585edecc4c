"""Re-scoring runs under another reading of the protocol, as far as what is at hand allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import VisirError
from visir.evaluation.captions import Choice
from visir.evaluation.evaluate import Evaluation
from visir.evaluation.ranking import search_vectors
from visir.evaluation.readings import Reading
from visir.evaluation.restrict import is_whole, restrict
from visir.records import CANDIDATES, Direction, Embeddings, Gallery, Protocol, Qrels, Ranks, Run
from visir.search.ranks import ranks_of


class NotComputable(Exception):
    """A reading that the material at hand does not allow; the text is the reason."""


@dataclass(frozen=True, eq=False)
class Material:
    """What is at hand for re-scoring.

    - `runs`, `qrels`: by direction
    - `captions`: columns id, image_id of the split in the source's order; without it no captions can be chosen and no
      folds be cut
    - `vectors`: (images, texts): with them every reading is searched anew and exactly; without, it is cut out of the
      run
    - `fixed`: per direction values that no reading alters, by measure (an imported or separately computed `dcg_cm@10`);
      they take part for the run as it is only
    - `protocol`: under which the runs were evaluated, if it is known
    """

    runs: Mapping[Direction, Run]
    qrels: Mapping[Direction, Qrels]
    captions: pa.Table | None = None
    vectors: tuple[Embeddings, Embeddings] | None = None
    fixed: Mapping[Direction, Mapping[str, float]] = field(default_factory=dict)
    protocol: Protocol | None = None

    @classmethod
    def of(cls, evaluation: Evaluation, vectors: tuple[Embeddings, Embeddings] | None = None) -> Material:
        """What an evaluation leaves behind for re-scoring; its cross-modal DCG is taken as it was computed."""
        fixed = {
            direction: {
                name: value
                for name, value in evaluation.result.aggregates[direction].items()
                if name.startswith("dcg_cm")
            }
            for direction in evaluation.runs
        }
        protocol = evaluation.result.protocol
        return cls(evaluation.runs, evaluation.qrels, evaluation.captions, vectors, fixed, protocol)


def rank(material: Material, direction: Direction, reading: Reading, cutoff: int) -> list[Ranks]:
    """The ranks of each fold under a reading; `cutoff` is the deepest k that will be asked for.

    Raises `NotComputable` with the reason.
    """
    run, qrels = material.runs[direction], material.qrels[direction]
    if reading.depth != "as run":
        if run.depth <= int(reading.depth):
            raise NotComputable(f"the run goes only {run.depth} deep as it is")
        return [ranks_of(run.cut(int(reading.depth)), qrels)]
    if reading.captions == "as run" and reading.gallery == "as run" and reading.folds == 1:
        if material.vectors is not None and run.gallery.is_listed:
            return _searched(material, direction, [(qrels, run.gallery)], reading.ties)
        return [ranks_of(run, qrels, reading.ties)]  # type: ignore[arg-type]
    parts = _parts(material, direction, reading)
    if material.vectors is not None:
        return _searched(material, direction, parts, reading.ties)
    if "rerank" in run.provenance and any(gallery.fingerprint != run.gallery.fingerprint for _, gallery in parts):
        raise NotComputable("the run is re-ranked; over fewer candidates, others would be among the first k")
    return [_cut_out(run, one, gallery, cutoff) for one, gallery in parts]


def _searched(material: Material, direction: Direction, parts: list[tuple[Qrels, Gallery]], ties: str) -> list[Ranks]:
    assert material.vectors is not None
    ranks, _ = search_vectors(
        material.vectors,
        [direction],
        {direction: [qrels for qrels, _ in parts]},
        [{direction: gallery} for _, gallery in parts],
        1,
        "cosine",
        ties,  # type: ignore[arg-type]
        material.runs[direction].name,
    )
    return ranks[direction]


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


def _parts(material: Material, direction: Direction, reading: Reading) -> list[tuple[Qrels, Gallery]]:
    """(qrels, gallery) of each fold of a reading."""
    qrels, gallery = material.qrels[direction], material.runs[direction].gallery
    table = material.captions
    if table is None:
        if reading.captions != "as run" or reading.folds > 1:
            raise NotComputable("the collection is not at hand: which captions belong to which image, in which order")
        return [(qrels, _judged_only(qrels, gallery, direction))]
    if reading.captions != "as run":
        choice = Choice.parse(reading.captions)
        kept = choice.keep(table["id"].combine_chunks(), table["image_id"].combine_chunks())
        if kept.all():
            raise NotComputable("every image has one caption")
        left_out = table["id"].filter(pa.array(~kept))
        table = table.filter(pa.array(kept))
        if direction == "t2i":
            qrels = qrels.select(table["id"])
        else:
            if reading.gallery == "as run":
                gallery = _without(gallery, left_out, table)
            qrels = _documents(qrels, table["id"])
    if reading.folds == 1:
        return [(qrels, _of_table(table, direction) if reading.gallery == "split" else gallery)]
    if reading.gallery == "split":
        raise NotComputable("folds are cut from the split as it is")
    images = table["image_id"].unique()
    if len(images) % reading.folds:
        raise NotComputable(f"{len(images):,} images do not divide into {reading.folds} equal folds")
    if gallery.size != (len(images) if direction == "t2i" else table.num_rows):
        raise NotComputable("the gallery is larger than the split, so folds of it are not defined")
    parts = []
    for fold in range(reading.folds):
        size = len(images) // reading.folds
        part = table.filter(pc.is_in(table["image_id"], images[fold * size : (fold + 1) * size]))
        queries = part["id"] if direction == "t2i" else part["image_id"].unique()
        parts.append((qrels.select(queries), _of_table(part, direction)))
    return parts


def _of_table(table: pa.Table, direction: Direction) -> Gallery:
    ids = table["image_id"].unique() if direction == "t2i" else table["id"]
    return Gallery.of(CANDIDATES[direction], ids, "the split")


def _judged_only(qrels: Qrels, gallery: Gallery, direction: Direction) -> Gallery:
    """The documents that are positives of some query: without the collection, the best one knows of the split."""
    ids = qrels.documents.filter(pa.array(qrels.grades > 0)).unique()
    if len(ids) == gallery.size:
        raise NotComputable("the gallery holds nothing but the judged ones as it is")
    return Gallery.of(CANDIDATES[direction], ids, "the judged ones")


def _without(gallery: Gallery, left_out: pa.ChunkedArray, table: pa.Table) -> Gallery:
    if gallery.ids is None or len(gallery.ids) != len(left_out) + table.num_rows:
        raise NotComputable("the gallery is not exactly the split's captions, so one per image cannot be chosen in it")
    return gallery.restrict(table["id"].combine_chunks(), "chosen captions")


def _documents(qrels: Qrels, documents: pa.ChunkedArray) -> Qrels:
    keep = pc.is_in(qrels.documents, documents.combine_chunks())
    query = qrels.queries.take(pa.array(np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))))
    grades = qrels.grades[keep.to_numpy(zero_copy_only=False)]
    return Qrels.of(query.filter(keep), qrels.documents.filter(keep), grades, name=qrels.name)
