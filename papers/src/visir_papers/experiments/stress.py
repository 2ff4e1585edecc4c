"""Perturb captions and search with them: the brittleness study on models of one's own."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from visir.collections import open_collection
from visir.encoders import encode_dense, load
from visir.errors import VisirError
from visir.evaluation.brittleness_runs import evaluate_log, read
from visir.evaluation.sparse_measures import flops
from visir.evaluation.stress.effect import GROUPS as SETS
from visir.evaluation.stress.stress import Stress, stress, stress_logs
from visir.records import PLAIN, Embeddings
from visir.retrieval.kinds import build_index
from visir.sparse.encoder import SparseEncoder
from visir.sparse.top_terms import encode_part
from visir.studies.trial import CHECKPOINT
from visir.training.data import open_whole
from visir.training.recipe import expand
from visir_papers.draws import Draws, finite, unit_means, unit_sums
from visir_papers.experiment import (
    Experiment,
    ExperimentContext,
    InsufficientDataError,
    Measurement,
)
from visir_papers.experiments.train import PriorTraining, SparseHeadExperiment, system_of
from visir_papers.published_values import nearest_reading, query_draws, values_of

if TYPE_CHECKING:
    from visir.records import Embeddings, Run, SparseEmbeddings


def rsum_draws(study: Stress) -> dict[str, Draws]:
    """Draws of the rsum of text to image: "rsum" unperturbed, and under each perturbation by its name."""
    effects = [effect for effect in study.effects if effect.outcome.task == "t2i"]
    values = {"rsum": effects[0].before} | {effect.name: effect.after for effect in effects}
    return unit_means(_images(study), values)


def jaccard_draws(study: Stress) -> dict[str, Draws]:
    """Draws of the mean similarity of the sets of captions that two perturbations harm, help or leave."""
    effects = [effect for effect in study.effects if effect.outcome.task == "t2i"]
    changes = np.stack([effect.after - effect.before for effect in effects], axis=1)
    signs = np.where(np.abs(changes) < 1e-9, 0, np.sign(changes))
    draws = {}
    for group, sign in zip(SETS, (-1, 1, 0), strict=True):
        member = signs == sign
        pairs = list(combinations(range(len(effects)), 2))
        both = np.stack([member[:, first] & member[:, second] for first, second in pairs], axis=1)
        either = np.stack([member[:, first] | member[:, second] for first, second in pairs], axis=1)
        sums = unit_sums(_images(study), np.concatenate([both, either], axis=1).astype(np.float64))
        with np.errstate(invalid="ignore", divide="ignore"):
            draws[group] = np.nanmean(sums[:, : len(pairs)] / sums[:, len(pairs) :], axis=1)
    return finite(draws)


def _images(study: Stress) -> list[str]:
    """The image of each caption, in the order of the effects."""
    effect = next(effect for effect in study.effects if effect.outcome.task == "t2i")
    return [study.images[caption] for caption in effect.queries.to_pylist()]


# Read what the brittleness paper's authors logged: its Tables 2, 3 and 5, and thesis Tables 5.2 to 5.4.

THIRTEEN = 13
"""How many perturbations the paper has; of these the similarity of sets is a mean over all pairs."""
GROUPS = {
    "distraction": ("distraction_true", "distraction_false"),
    "lexical_variation": ("synonym_noun", "synonym_adj"),
    "typos": ("char_swap", "missing_char", "extra_char", "nearby_char"),
}
"""Labels of thesis Table 5.3 that are means of perturbations (which they are is in the notes of the table)."""


class LogsExperiment(Experiment):
    """The authors' own runs, measured anew."""

    # A row without the logs that it needs is "not run", and a log that fills no value of the table is named in a note.

    experiment: Literal["logs"] = "logs"
    # The logs of one model on one collection: `i2t/none.parquet`, `t2i/none.parquet`, `t2i/PERTURBATION.parquet`, or
    # some of them.
    folder: str
    # "plain", recalls and DCG of the unperturbed runs; "perturbed", rsum of text to image under each perturbation;
    # "jaccard", how similar the sets of captions are that perturbations harm, help or leave.
    quantity: Literal["plain", "perturbed", "jaccard"]

    def describe(self) -> str:
        return f"the authors' logs in {self.folder}"

    def measure(self, context: ExperimentContext) -> Measurement:
        folder = Path(expand(self.folder)).resolve()
        provenance = {"system": f"{self.system}, by its authors", "collection": f"{self.collection}, by its authors"}
        if self.quantity == "plain":
            return self._plain(folder, provenance, context)
        return (
            self._perturbed(folder, provenance, context)
            if self.quantity == "perturbed"
            else self._jaccard(folder, provenance)
        )

    def _plain(self, folder: Path, provenance: dict[str, str], context: ExperimentContext) -> Measurement:

        values: dict[str, float] = {}
        draws: dict[str, Draws] = {}
        protocol: dict[str, str] = {}
        explained: list[str] = []
        notes: list[str] = []
        for task in ("i2t", "t2i"):
            path = folder / task / "none.parquet"
            if not path.is_file():
                notes.append(f"{task}: there is no unperturbed log")
                continue
            evaluation = evaluate_log(read(path))
            values |= values_of(evaluation.result.aggregates, context.row)
            draws |= query_draws(evaluation.result, context.row)
            protocol |= dict(evaluation.result.protocol.card())
            notes += evaluation.result.notes
            reading = nearest_reading(evaluation, context)
            explained += [reading] if reading else []
        if not protocol:
            raise InsufficientDataError("there is no unperturbed log")
        return Measurement(values, provenance, protocol, " ".join(explained), tuple(dict.fromkeys(notes)), draws=draws)

    def _perturbed(self, folder: Path, provenance: dict[str, str], context: ExperimentContext) -> Measurement:

        paths = sorted((folder / "t2i").glob("*.parquet"))
        if not paths:
            raise InsufficientDataError("there is no log of text to image")
        logs = {path.stem: evaluate_log(read(path)).result for path in paths}
        logs = {"rsum" if name == PLAIN else name: result for name, result in logs.items()}
        rsums = {name: result.mean("t2i", "rsum") for name, result in logs.items()}
        draws = {name: query_draws(result, None)["t2i rsum"] for name, result in logs.items()}
        notes = []
        for group, parts in GROUPS.items():
            there = [part for part in parts if part in rsums]
            if len(there) == len(parts):
                rsums[group] = sum(rsums[part] for part in parts) / len(parts)
                draws[group] = np.mean([draws[part] for part in parts], axis=0)
            else:
                notes.append(f"t2i {group}: the mean of {', '.join(parts)}; {_logs_of(there)}")
        printed = set(rsums) if context.row is None else set(context.row.values["t2i"])
        notes += [f"t2i {name}: there is no log of it" for name in sorted(printed - set(rsums) - set(GROUPS))]
        protocol = dict(next(iter(logs.values())).protocol.card())
        return Measurement(
            {f"t2i {name}": value for name, value in rsums.items()},
            provenance,
            protocol,
            notes=tuple(notes),
            draws={f"t2i {name}": values for name, values in draws.items()},
        )

    def _jaccard(self, folder: Path, provenance: dict[str, str]) -> Measurement:

        perturbed = sorted(path.stem for path in (folder / "t2i").glob("*.parquet") if path.stem != PLAIN)
        if not (folder / "t2i" / f"{PLAIN}.parquet").is_file():
            raise InsufficientDataError(
                "changes are measured from the unperturbed log of text to image; "
                + (f"there are only logs of {', '.join(perturbed)}" if perturbed else "there is none")
            )
        study = stress_logs(folder)
        similarity = study.jaccard
        if similarity is None:
            raise InsufficientDataError(f"a similarity compares two perturbations; {_logs_of(perturbed)}")
        values = {f"t2i {name}": similarity.mean(name) for name in SETS}
        reason = (
            f"the mean over pairs of {len(similarity.names)} perturbations; the paper's is over pairs of {THIRTEEN}, "
            "and there are no logs of the others"
        )
        partial = {} if len(similarity.names) == THIRTEEN else dict.fromkeys(values, reason)
        notes = [*study.notes, *([reason] if partial else [])]
        draws = {f"t2i {group}": drawn for group, drawn in jaccard_draws(study).items()}
        protocol = dict(study.protocol.card())
        return Measurement(values, provenance, protocol, notes=tuple(notes), not_judged=partial, draws=draws)


def _logs_of(perturbations: list[str]) -> str:
    """Which of the logs that a value needs there are."""
    return f"there is only a log of {', '.join(perturbations)}" if perturbations else "there is no log of these"


class StressExperiment(Experiment):
    """All thirteen perturbations of captions, text to image (`visir stress`); means over several models."""

    experiment: Literal["stress"] = "stress"
    models: tuple[str, ...] = ()  # as `visir.load` takes them
    training: PriorTraining | None = None  # instead of models: a recipe whose checkpoint is stressed
    source: str  # the collection
    images: str | None = None  # where its pictures are
    split: str | None = "test"  # the split that is searched
    gallery: Literal["split", "collection"] = "split"  # the candidates; the paper's are the whole "collection"
    # "decrease", percent of rsum lost (positive for a loss, as printed); "rsum" under each perturbation; "jaccard", how
    # similar the sets of captions are that perturbations harm, help or leave.
    quantity: Literal["decrease", "rsum", "jaccard"]
    profile: Literal["sound", "paper"] = "paper"  # "paper" perturbs as the released code did

    def describe(self) -> str:
        systems = ", ".join(self.models) or (
            f"the checkpoint of {self.training.recipe}" if self.training else "nothing"
        )
        return f"{systems} on {self.source}, thirteen perturbations"

    def measure(self, context: ExperimentContext) -> Measurement:

        names = [expand(model) for model in self.models] or [system_of(None, self.training, context, self.describe())]
        with context.locks.process:
            where = None if self.images is None else expand(self.images)
            collection = open_collection(expand(self.source), images=where)
            studies = [
                stress(
                    collection, load(model), split=self.split, gallery=self.gallery, profile=self.profile,
                    corruptions=[], seed=context.seed, name=self.training.recipe if self.training else model,
                )
                for model in names
            ]  # fmt: skip
        if self.quantity == "jaccard":
            similarities = [study.jaccard for study in studies if study.jaccard is not None]
            values = {name: statistics.fmean(similarity.mean(name) for similarity in similarities) for name in SETS}
            drawn = [jaccard_draws(study) for study in studies]
        else:
            values = {
                name: statistics.fmean(
                    -overall.percent if self.quantity == "decrease" else overall.after
                    for overall in (study.effect(name).overall for study in studies)
                )
                for name in [effect.name for effect in studies[0].effects]
            }
            if self.quantity == "rsum":
                values["rsum"] = statistics.fmean(study.plain.mean("t2i", "rsum") for study in studies)
            drawn = [self._losses(rsum_draws(study)) for study in studies]
            for group, parts in GROUPS.items():
                values[group] = statistics.fmean(values[part] for part in parts)
                for draws in drawn:
                    draws |= (
                        {group: np.mean([draws[part] for part in parts], axis=0)} if set(parts) <= set(draws) else {}
                    )
        common = [label for label in values if all(label in draws for draws in drawn)]
        protocol = studies[0].protocol
        return Measurement(
            {f"t2i {name}": value for name, value in values.items()},
            {
                "system": ", ".join(dict.fromkeys(study.system for study in studies)),
                "collection": protocol.collection,
                "fingerprint": protocol.collection_fingerprint[:12],
            },
            {**dict(protocol.card()), "perturbations": f"severity 1, seed {context.seed}, {self.profile} profile"},
            notes=tuple(dict.fromkeys(note for study in studies for note in study.notes)),
            draws={f"t2i {label}": np.mean([draws[label] for draws in drawn], axis=0) for label in common},
        )

    def _losses(self, rsums: dict[str, Draws]) -> dict[str, Draws]:
        """Of draws of rsums those of the quantity: the rsums, or the percentages lost."""
        if self.quantity == "rsum":
            return rsums
        plain = rsums["rsum"]
        return finite({name: 100 * (1 - rsum / plain) for name, rsum in rsums.items() if name != "rsum"})


# How long a search takes on one thread: Table 3.6 of the thesis.

DEPTHS = (10, 100, 1000)
CANDIDATES = (16, 32, 64, 128, 256, 512, 1024, 2048)
"""Candidates that a graph examines: the first number that finds `REQUIRED_SHARE` of the exact best."""
REQUIRED_SHARE = 0.99
_ROOM = 2**34  # bytes of sparse vectors written out in full


class LatencyExperiment(SparseHeadExperiment):
    """Search an index of *all* images of the collection with captions of the test split, on one thread."""

    # Labels: "latency @k", milliseconds of processor time for a query, the best of three passes over all queries in one
    # call; "throughput @k", 1000 / latency; "FLOPs". Depths of at least the number of images are left out.
    # The engines are visir's own; the paper's are PISA and FAISS. A second run measures other times, so a saved cell
    # keeps its own.

    experiment: Literal["latency"] = "latency"
    # "dense", a graph (HNSW) of the dense vectors; "expanded" and "plain", an inverted index that is searched with
    # captions with and without their expansion; "two stages", retrieval with the plain ones and scores of the expanded
    # ones; "graph", the sparse vectors written out in full, in a graph.
    index: Literal["dense", "expanded", "plain", "two stages", "graph"]
    queries: int = 1000  # the largest number of captions

    def describe(self) -> str:
        return f"{super().describe()}, {self.index}, timed on one thread"

    def measure(self, context: ExperimentContext) -> Measurement:

        trial, out = self.trained(context)
        with context.locks.process:  # nothing else may use the processor in this process
            name = str(trial.folder(out) / CHECKPOINT)
            expanded, plain = load(name), load(f"{name}?expansion=none")
            assert isinstance(expanded, SparseEncoder) and isinstance(plain, SparseEncoder), "checkpoints of sparsify"
            opened = open_whole(trial.recipe.data)
            part = opened.split(trial.split)
            notes: list[str] = []
            values: dict[str, float] = {}
            if self.index == "dense":
                of_texts = opened if expanded.dense.precomputed else part
                texts = encode_dense(expanded.dense, of_texts, "text").select(
                    part.captions["id"].slice(0, self.queries)
                )
                search = _graph(encode_dense(expanded.dense, opened, "image"), texts, "cosine", notes)
                count = opened.images.num_rows
            else:
                images = encode_part(expanded, opened, opened, "image")
                ids = part.captions["id"].slice(0, self.queries)
                queries = {
                    form: encode_part(encoder, opened, part, "text").select(ids)
                    for form, encoder in (("expanded", expanded), ("plain", plain))
                }
                search, count = self._sparse(images, queries, notes), len(images)
                if self.index in queries:
                    values["FLOPs"] = flops(queries[self.index], images)
            values |= _times(search, count, min(self.queries, part.captions.num_rows))
        protocol = trial.evaluation(out).result.protocol
        protocol_rows = {"queries": f"{min(self.queries, part.captions.num_rows):,} captions of the test split"}
        protocol_rows |= {"documents": f"{count:,} images, all of the collection", "threads": "1"}
        protocol_rows |= {"graph": "; ".join(notes)} if notes else {}
        provenance = {**self.provenance(trial, protocol), "index": f"{self.index}, visir"}
        # A reproduction of a time would be an accident; FLOPs are a property of the vectors.
        timed = [label for label in values if "@" in label]
        times = dict.fromkeys(timed, "a time, of another machine and other engines")
        return Measurement(values, provenance, protocol_rows, not_judged=times)

    def _sparse(
        self, images: SparseEmbeddings, forms: dict[str, SparseEmbeddings], notes: list[str]
    ) -> Callable[[int], tuple[float, Run]]:

        if self.index == "graph":
            used = np.unique(images.terms)
            if 4 * len(images) * len(used) > _ROOM:
                raise VisirError(
                    f"{len(images):,} vectors of {len(used):,} terms do not fit into {_ROOM >> 30} GB in full.",
                    hint="the paper's last row takes a larger machine",
                )
            return _graph(_in_full(images, used), _in_full(forms["expanded"], used), "dot", notes)
        index = build_index(images, "inverted")
        queries = forms["plain" if self.index == "plain" else "expanded"]
        first = {"first": forms["plain"]} if self.index == "two stages" else {}
        index.search(queries.select(queries.ids[:2]), 10, threads=1)  # compiles, or reads compiled code
        return lambda k: best_of(lambda: index.search(queries, k, threads=1, **first))


def _times(search: Callable[[int], tuple[float, Run]], documents: int, queries: int) -> dict[str, float]:
    values: dict[str, float] = {}
    for k in DEPTHS:
        if k < documents:
            seconds = search(k)[0] / queries
            values |= {f"throughput @{k}": 1 / seconds, f"latency @{k}": 1000 * seconds}
    return values


def _graph(
    documents: Embeddings, queries: Embeddings, similarity: str, notes: list[str]
) -> Callable[[int], tuple[float, Run]]:
    """A search in a graph that looks at as many candidates as .99 of the exact best take."""

    graph = build_index(documents, "hnsw", similarity=similarity)
    exact = build_index(documents, "exact", similarity=similarity)

    def search(k: int) -> tuple[float, Run]:
        least = kth_scores(exact.search(queries, k), k) - 1e-6
        for candidates in (count for count in CANDIDATES if count >= k):
            options: dict[str, Any] = {"ef_search": candidates}
            share = share_found(graph.search(queries, k, **options), least)
            if share >= REQUIRED_SHARE:
                break
        notes.append(f"@{k}: {candidates} candidates looked at find {share:.3f} of the exact best")
        return best_of(lambda: graph.search(queries, k, **options))

    return search


def _in_full(vectors: SparseEmbeddings, used: Any) -> Embeddings:
    """Sparse vectors as dense ones of the terms `used`."""

    full = vectors.to_scipy()[:, used].toarray().astype(np.float32)
    return Embeddings(vectors.modality, vectors.ids, full, vectors.encoder)


# The time of a search, and its share of the exact answer.

T = TypeVar("T")


def best_of(work: Callable[[], T], times: int = 3) -> tuple[float, T]:
    """Call `work` several times; return the least processor time in seconds, and the last result."""
    # It is the processor time of the whole process. With one thread this is the elapsed time on an idle machine. The
    # minimum is used because other work of the machine can only add to it.
    seconds = []
    for _ in range(times):
        start = time.process_time()
        result = work()
        seconds.append(time.process_time() - start)
    return min(seconds), result


def kth_scores(run: Run, k: int) -> NDArray[np.float64]:
    """Return the (n,) k-th best score of each query: the last if there are fewer, infinite if there is none."""
    last = np.minimum(run.offsets[:-1] + k, run.offsets[1:]) - 1
    return np.where(np.diff(run.offsets) > 0, run.scores[np.maximum(last, 0)], np.inf)


def share_found(run: Run, least: NDArray[np.float64]) -> float:
    """Return the share of answers that score at least as high as the exact k-th best."""
    # Unlike a comparison of ids, this counts a document that equals one of the exact answers as found.
    # least: (n,) the exact scores of `kth_scores`.
    reached = run.scores >= np.repeat(least, np.diff(run.offsets))
    return float(reached.sum() / (np.isfinite(least).sum() * run.depth))
