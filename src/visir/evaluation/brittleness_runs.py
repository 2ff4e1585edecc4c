"""The experiment logs released with the brittleness paper, as runs and judgements.

Layout: `{collection}/{model}/{task}/{perturbation}.parquet`, one row per query with columns `queries`, `targets`,
`retrieved_documents` (ten ids, best first), `scores` (cosines), and the authors' own values: `recalls_at_1`, `_5`,
`_10` and `dcgs`.

The files leave some facts open. They are filled in as follows:

- Text-to-image queries are texts and repeat (4,999 distinct of 5,000): a query's id here is its target and its position
  among that target's queries, "1007129816.jpg#0", as in the Flickr token file.
- Text-to-image galleries (all of the image folder) are *stated* by size only. Image-to-text galleries are the captions
  of the test split: Flickr30k's can be listed (caption id // 5 is the image), COCO's are stated.
- COCO's positives come from a list of 25,000 caption ids, five per image, but the logs were made over all 25,010
  captions of the test split. The ten others can be recognised: they are the only retrieved ids that are not in the
  list. A log's own recall columns then show of which image they are captions, wherever it matters (`implied`); without
  them R@1 is up to 0.06 lower.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.arrays import array_of_bytes
from visir.collections import read_qrels
from visir.errors import ConfigurationError, RunError, VisirError, nearest, raise_faults
from visir.evaluation.cross_modal import dcg_cm
from visir.evaluation.results import Evaluation
from visir.evaluation.scoring import canonical, faults_of_measures, score
from visir.evaluation.second_stage import stages_of
from visir.evaluation.systems.given import is_run, task_and_file
from visir.evaluation.systems.runs import origins
from visir.files import read_bytes
from visir.fingerprint import hash_columns
from visir.parquet import read_table
from visir.records import UNDECLARED, Gallery, Protocol, Qrels, Ranks, Recall, Run, Ties, gallery_line, show_id_forms
from visir.records.result import option_faults
from visir.retrieval.formats import NOTES, read_run
from visir.retrieval.ranks import ranks_of

# Judgements and a run, and nothing else: measured as ranx and ir_measures do.

USUAL = ("ndcg@10", "map", "mrr", "hit@1", "precision@10", "recall@10", "recall@100", "rprecision")
"""The measures of a run when nothing is named."""


OF_SOURCES = (
    *("tasks", "images", "judgements", "shortcuts", "vectors", "split", "relevance", "captions", "gallery", "folds"),
    *("estimator", "rerank", "compose", "conditions", "search_device"),
)
"""Options of `visir.evaluate` that need something to search."""


def evaluate_alone(
    source: Any,
    system: Any,
    *,
    qrels: Any,
    measures: Sequence[str] | None,
    recall: Recall | None,
    ties: Ties | None,
    name: str | None,
    similarity: str | None,
    encoding: Mapping[str, Any],
    **options: Any,
) -> Evaluation:
    """Measure a run with judgements alone, or a log, for `visir.evaluate`, whose options these are."""
    if qrels is not None and system is None and is_run(source):  # evaluate(run, qrels=…)
        source, system = None, source
    if isinstance(source, (str, Path)) and is_log(source):
        if system is not None or options["vectors"] is not None:
            raise ConfigurationError(
                f"{source} is a run already.", hint="leave out the system (--model, --embeddings and --run)"
            )
        return evaluate_log(read(source), recall=recall or "hit", ties=ties or "id")
    if isinstance(source, (dict, list, tuple)) and not source and qrels is not None:
        raise RunError("the run is empty.", hint="{query: {document: score}}", code="run-empty")
    if source is not None and qrels is not None:
        raise ConfigurationError(
            "qrels go without a source of tasks: they are judgements alone, for a run.",
            hint="of a run: visir.evaluate(run, qrels=FILE); of a collection: visir.open(source, judgements=FILE)",
            code="judgements-alone-run",
        )
    faults = faults_of_measures(measures) + option_faults(recall=recall, ties=ties)
    given = {option: options[option] for option in OF_SOURCES} | dict(encoding)
    usual = {"captions": "all", "gallery": "split", "folds": 1}
    faults += [
        f"{option} needs a collection; judgements alone have none"
        + ("; measures are named measures=[…]" if option == "tasks" else "")
        for option, value in given.items()
        if value is not None and value is not False and not (option in usual and value == usual[option])
    ]
    if system is None:
        faults.append("there is no run to measure")
    hint = "visir.evaluate(qrels, run, measures=['nDCG@10', 'AP'])"
    raise_faults(ConfigurationError, "evaluate with judgements alone", faults, hint=hint)
    if isinstance(system, (list, tuple)) and system and isinstance(system[0], (str, Path)):
        if len(system) > 1:
            raise ConfigurationError(
                f"{source} are judgements, for one run alone.",
                hint="of several runs: visir compare FIRST SECOND --qrels FILE",
            )
        (system,) = system
    if isinstance(system, str):
        system = task_and_file(system)[1]
    judgements = qrels if source is None else source
    return evaluate_run(
        judgements, system, measures=measures, recall=recall, ties=ties or "id", name=name, similarity=similarity
    )


def check_order(qrels: Any, run: Any) -> None:
    """Refuse dictionaries that are given in the wrong order, as far as their values show it."""
    if _are_whole(qrels) is False and _are_whole(run):
        raise ConfigurationError(
            "the first has scores with fractions, the second whole numbers alone: judgements come first, then the run.",
            hint="visir.evaluate(qrels, run); for grades with fractions: "
            "visir.evaluate(visir.collections.read_qrels(qrels), run)",
            code="judgements-come-first-run",
        )


def _are_whole(given: Any) -> bool | None:
    """Whether all values of a dictionary of dictionaries are whole numbers; None where it is something else."""
    if not isinstance(given, Mapping) or not all(isinstance(row, Mapping) for row in given.values()):
        return None
    values = (value for row in given.values() for value in row.values() if isinstance(value, (int, float)))
    return all(float(value).is_integer() for value in values)


def evaluate_run(
    qrels: Any,
    run: Any,
    *,
    measures: Sequence[str] | None = None,
    recall: Recall | None = None,
    ties: Ties = "id",
    name: str | None = None,
    similarity: str | None = None,
) -> Evaluation:
    """Measure a run with judgements alone."""
    # Every judged query counts; one without an answer counts as failed. What is not in the answers was not found, so a
    # measure may look deeper than they reach.
    declared: Recall = recall or "recall"
    names = canonical(measures or USUAL, declared)
    check_order(qrels, run)
    judged: Qrels = read_qrels(qrels)
    answers: Run = read_run(run, name=name)
    queries = np.repeat(judged.queries.to_numpy(zero_copy_only=False), np.diff(judged.offsets))
    started = time.perf_counter()
    ranks = ranks_of(answers, judged, ties)
    protocol = Protocol(
        collection=judged.name,
        collection_fingerprint=hash_columns([pa.array(queries), judged.documents, pa.array(judged.grades)]),
        split="",
        relevance=judged.name,
        galleries={answers.task: gallery_line(answers.gallery) if answers.gallery.is_known else "not known"},
        queries={answers.task: f"{len(judged):,} queries"},
        captions="",
        similarity=similarity or answers.provenance.get("similarity") or UNDECLARED,
        recall=declared,
        ties=ties,
        depth=ranks.depth,
        **stages_of([answers]),
    )
    result = score(
        answers.name,
        {answers.task: [ranks]},
        protocol,
        measures=names,
        notes=_notes(answers, judged, ranks),
        timing={"rank": time.perf_counter() - started},
        beyond_depth=True,
    )
    result.origins.update(origins({answers.task: answers}))
    return Evaluation(result, {answers.task: answers}, {answers.task: judged})


def _notes(run: Run, qrels: Qrels, ranks: Ranks) -> list[str]:
    notes = list(run.provenance.get(NOTES, ()))
    missing = len(qrels) - int(pc.sum(pc.is_in(qrels.queries, run.queries)).as_py() or 0)
    if missing:
        notes.append(f"{missing:,} of {len(qrels):,} judged queries are not answered; they count as failed")
    more = len(run) - (len(qrels) - missing)
    if more:
        notes.append(f"{more:,} answered queries are not judged; they do not count")
    if np.any(qrels.grades != np.floor(qrels.grades)):
        notes.append("the judgements have grades that are no whole numbers; are judgements and run swapped?")
    without = int((ranks.positives == 0).sum())
    if without:
        notes.append(f"{without:,} queries have no positive; they count as failed")
    if ranks.depth is not None and (missing or run.gallery.is_known):
        notes.append(f"answers have up to {run.depth:,} documents; what is not among them counts as not found")
    if not np.any(ranks.ranks > 0):
        forms = show_id_forms("run", run.documents.to_pylist(), "judgements", qrels.documents.to_pylist())
        notes.append(f"no right document is in any answer; do the ids have one form? {forms}")
    return notes


COLUMNS = (
    "queries",
    "targets",
    "retrieved_documents",
    "scores",
    "recalls_at_1",
    "recalls_at_5",
    "recalls_at_10",
    "dcgs",
)
CUTOFFS = (1, 5, 10)
COLLECTIONS = {"coco": "MS-COCO", "coco_fg": "MS-COCO-FG", "f30k": "Flickr30k", "f30k_fg": "Flickr30k-FG"}
MODELS = {"align": "ALIGN", "altclip": "AltCLIP", "clip": "CLIP", "groupvit": "GroupViT"}
ESTIMATOR = "CLIP ViT-B/32"
"""The estimator of the gains in the authors' DCG: for the CLIP runs this is the system under test."""
FLICKR_IMAGES, COCO_CAPTIONS = 31_783, 25_010


@dataclass(frozen=True, eq=False)
class Log:
    """One log: a run, its judgements, and the authors' values."""

    run: Run  # the run
    qrels: Qrels  # the judgements
    # Columns query_id, recalls_at_1, recalls_at_5, recalls_at_10, dcgs, in the order of `qrels.queries`.
    authors: pa.Table
    texts: Mapping[str, str]  # query id → the text of the query (text-to-image only)
    collection: str  # the collection, as the paper prints it
    system: str  # the system, as the paper prints it
    perturbation: str | None  # the perturbation; None for unperturbed queries
    notes: tuple[str, ...] = ()  # what was inferred in reading

    @property
    def task(self) -> str:
        """The task of the search."""
        return self.run.task

    @property
    def scores_are_gains(self) -> bool:
        """Whether the run's own scores are the gains of the authors' DCG: true if CLIP is system and estimator."""
        return self.system == "CLIP"

    def protocol(self, **changes: Any) -> Protocol:
        """The protocol as far as it is known."""
        side = "images" if self.task == "i2t" else "captions"
        protocol = Protocol(
            collection=self.collection,
            collection_fingerprint="stated",
            split="test",
            galleries={self.task: gallery_line(self.run.gallery)},
            queries={self.task: f"{len(self.qrels):,} {side}"},
            similarity=self.run.provenance["similarity"],
            depth=self.run.depth,
            perturbation=self.perturbation,
        )
        return protocol.changed(**changes)


def evaluate_log(log: Log, *, recall: Recall = "hit", ties: Ties = "id") -> Evaluation:
    """Measure a log with its own judgements; the galleries are those that it states."""
    # `dcg_cm@10` is recomputed where the run's scores are its gains (CLIP). For the other models the authors' per-query
    # values are imported, with a note.
    task = log.task
    notes = list(log.notes)
    if not log.run.gallery.is_listed:
        notes.append(f"the gallery is known by its size only ({log.run.gallery.size:,}, {log.run.gallery.description})")
    if log.scores_are_gains:
        dcg = dcg_cm(log.run, log.qrels, [10], None)
        who = f"self (circular): {ESTIMATOR}"
    else:
        dcg = log.authors.select(["query_id", "dcgs"]).rename_columns(["query_id", "dcg_cm@10"])
        who = ESTIMATOR
        notes.append("dcg_cm@10 is imported as its authors computed it: their estimator's cosines are not in the log")
    result = score(
        log.system,
        {task: [ranks_of(log.run, log.qrels, ties)]},
        log.protocol(recall=recall, ties=ties, estimator=who),
        further={task: dcg},
        notes=notes,
    )
    result = replace(result, origins=origins({task: log.run}))
    if task == "t2i":  # the one positive of a caption is its image
        owners = pa.table({"id": log.qrels.queries, "image_id": log.qrels.documents})
        result = replace(result, captions=owners)
    return Evaluation(result, {task: log.run}, {task: log.qrels})


def is_log(path: str | Path) -> bool:
    """Whether a file is one of these logs, by its columns."""
    path = Path(path)
    if path.suffix != ".parquet" or not path.is_file():
        return False
    try:
        return set(COLUMNS) <= set(pq.read_schema(path).names)
    except (pa.ArrowException, OSError):
        return False


def read(path: str | Path, *, coco_captions: str | Path | None = None, implied: bool = True) -> Log:
    """Read one log."""
    path = Path(path).resolve()
    collection, model, task = _place(path)
    if not is_log(path):
        raise RunError(f"{path}: not a log of the brittleness paper.", hint=f"it has the columns {', '.join(COLUMNS)}")
    table = read_table(path, COLUMNS)
    targets = table["targets"].cast(pa.string()).combine_chunks()
    lists = table["retrieved_documents"].combine_chunks()
    lengths = pc.list_value_length(lists).to_numpy()
    documents = lists.flatten().cast(pa.string())
    scores = np.asarray(table["scores"].combine_chunks().flatten(), np.float64)
    if len(scores) != len(documents):
        raise RunError(f"{path}: {len(documents)} documents but {len(scores)} scores.", hint="is the file complete?")
    queries = targets if task == "i2t" else _numbered(targets)
    notes: list[str] = []
    if task == "t2i":
        gallery = Gallery.stated("image", FLICKR_IMAGES, "the whole Flickr30k image folder, by the paper's word")
        qrels = Qrels.of(queries, targets)
    elif collection.startswith("f30k"):
        captions = _five_each(targets)
        gallery = Gallery.of("text", captions, "captions of the test images (id // 5)")
        qrels = Qrels.of(_each(queries, 5), captions)
    else:
        listed = _coco(path, coco_captions, len(queries))
        gallery = Gallery.stated("text", COCO_CAPTIONS, "captions of the Karpathy test split, ten of them not listed")
        query_ids, positives = _each(queries, 5), listed
        if implied:
            extra = _implied(table, queries, documents, lengths, listed)
            query_ids = pa.concat_arrays([query_ids, pa.array([query for query, _ in extra], pa.string())])
            positives = pa.concat_arrays([positives, pa.array([document for _, document in extra], pa.string())])
            if extra:
                notes.append(
                    f"{len(extra)} sixth captions are positives because the authors' recall columns count them: "
                    + ", ".join(f"{document} of image {query}" for query, document in extra)
                )
        qrels = Qrels.of(query_ids, positives)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    encoded = documents.dictionary_encode()
    run = Run(
        MODELS.get(model, model),
        task,
        queries,
        offsets,
        encoded.dictionary,
        encoded.indices.to_numpy().astype(np.int32),
        scores,
        gallery,
        int(lengths.max()),
        {"source": "/".join(path.parts[-4:]), "imported": "logs of the brittleness paper", "similarity": "cosine"},
    )
    authors = pa.table({"query_id": queries, **{name: table[name].cast(pa.float64()) for name in COLUMNS[4:]}})
    return Log(
        run,
        qrels,
        authors.take(pc.index_in(qrels.queries, queries)),
        {} if task == "i2t" else dict(zip(queries.to_pylist(), table["queries"].to_pylist(), strict=True)),
        COLLECTIONS[collection],
        MODELS.get(model, model),
        None if path.stem == "none" else path.stem,
        tuple(notes),
    )


def _place(path: Path) -> tuple[str, str, str]:
    """(collection, model, task) from the path."""
    if len(path.parts) < 4 or path.parts[-4] not in COLLECTIONS or path.parts[-2] not in ("i2t", "t2i"):
        shown = "/".join(path.parts[-4:])
        raise RunError(
            f"{shown}: the last four parts of the path should be collection/model/task/perturbation.parquet.",
            hint=nearest(path.parts[-4] if len(path.parts) >= 4 else "", COLLECTIONS),
            code="last-four-parts-path",
        )
    task: str = "i2t" if path.parts[-2] == "i2t" else "t2i"
    return path.parts[-4], path.parts[-3], task


def _numbered(targets: pa.StringArray) -> pa.StringArray:
    """Each target with its position among the equal ones: "a", "a", "b" → "a#0", "a#1", "b#0"."""
    codes = targets.dictionary_encode().indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(codes.max() + 1))
    place = np.empty(len(codes), np.int64)
    place[order] = np.arange(len(codes)) - starts[codes[order]]
    return pc.binary_join_element_wise(targets, pa.array(place).cast(pa.string()), "#")


def _each(queries: pa.StringArray, times: int) -> pa.StringArray:
    return queries.take(pa.array(np.repeat(np.arange(len(queries)), times)))


def _five_each(images: pa.StringArray) -> pa.StringArray:
    """Flickr30k's caption ids: image i has captions 5i … 5i + 4."""
    numbers = np.asarray(images.cast(pa.int64()))
    return pa.array((5 * numbers[:, None] + np.arange(5)).ravel()).cast(pa.string())


def _coco(path: Path, given: str | Path | None, images: int) -> pa.StringArray:
    """The caption ids of the Karpathy test split, five per image, in the order of the images."""
    default = path.parents[4] / "eccv_caption" / "coco_test_ids.npy.xz"
    try:
        content = array_of_bytes(read_bytes(given or default), str(given or default))
    except VisirError as fault:
        raise RunError(
            f"{path}: the caption ids of COCO's test split are needed for its positives. {fault.message}",
            hint="name ECCV Caption's coco_test_ids.npy (coco_captions=…)",
            code="caption-ids-coco-test",
        ) from fault
    if content.shape != (5 * images,):
        raise RunError(f"{given or default}: {content.shape} ids for {images} images; expected five each.")
    return pa.array(content).cast(pa.string())


def _implied(
    table: pa.Table, queries: pa.StringArray, documents: pa.StringArray, lengths: NDArray[Any], known: pa.StringArray
) -> list[tuple[str, str]]:
    """(query, document) pairs that the recall columns count as hits although the list of captions does not have
    them."""
    # Only retrieved documents that are in no image's list can be such. One of them is a positive of a query exactly if
    # the authors' hits in the narrowest cutoff around it exceed the listed ones there. Raises if the columns cannot be
    # explained in this way.
    unlisted = pc.invert(pc.is_in(documents, known)).to_numpy(zero_copy_only=False)
    row = np.repeat(np.arange(len(queries)), lengths)
    position = np.arange(len(documents)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    if unlisted.sum() > len(queries):
        raise _unexplained(f"{int(unlisted.sum()):,} retrieved documents that are in nobody's list")
    image_of = pc.index_in(documents, known).to_numpy(zero_copy_only=False) // 5  # NaN for unlisted ones
    listed = image_of == row
    pairs = []
    positive = listed.copy()
    for entry in np.flatnonzero(unlisted):
        query, entry_position = int(row[entry]), int(position[entry])
        cutoff = next(k for k in CUTOFFS if entry_position < k)
        counted = round(float(table[f"recalls_at_{cutoff}"][query].as_py()) * min(5, cutoff))
        if counted > int(positive[(row == query) & (position < cutoff)].sum()):
            positive[entry] = True
            pairs.append((str(queries[query]), str(documents[entry])))
    for cutoff in CUTOFFS:
        hits = np.bincount(row, positive & (position < cutoff), len(queries))
        authors_hits = table[f"recalls_at_{cutoff}"].to_numpy() * min(5, cutoff)
        wrong = np.flatnonzero(np.abs(hits - authors_hits) > 1e-6)
        if len(wrong):
            raise _unexplained(f"recalls_at_{cutoff} of query {queries[int(wrong[0])]} and {len(wrong) - 1} others")
    return pairs


def _unexplained(subject: str) -> RunError:
    return RunError(
        f"{subject} do not follow from the retrieved documents and the given caption ids.",
        hint="are these the caption ids of the same split, in the same order?",
        code="not-follow-retrieved-documents",
    )
