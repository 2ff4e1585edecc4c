"""How long a search takes on one thread: Table 3.6 of the thesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from visir.errors import VisirError
from visir.papers.experiments.sparsify import SparseHeadExperiment
from visir.studies.experiment import ExperimentContext, Measurement

if TYPE_CHECKING:
    from visir.records import Embeddings, Run, SparseEmbeddings

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
        """See `Experiment.describe`."""
        return f"{super().describe()}, {self.index}, timed on one thread"

    def measure(self, context: ExperimentContext) -> Measurement:
        """See `Experiment.measure`."""
        from visir.encoders import encode_dense, load
        from visir.evaluation.sparse_measures import flops
        from visir.sparse.encoder import SparseEncoder
        from visir.sparse.top_terms import encode_part
        from visir.studies.trial import CHECKPOINT
        from visir.training.data import open_whole

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
        from visir.retrieval.sparse.inverted import InvertedIndex
        from visir.retrieval.timing import best_of

        if self.index == "graph":
            used = np.unique(images.terms)
            if 4 * len(images) * len(used) > _ROOM:
                raise VisirError(
                    f"{len(images):,} vectors of {len(used):,} terms do not fit into {_ROOM >> 30} GB in full.",
                    hint="the paper's last row takes a larger machine",
                )
            return _graph(_in_full(images, used), _in_full(forms["expanded"], used), "dot", notes)
        index = InvertedIndex.build(images)
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
    from visir.retrieval.dense.flat import FlatIndex
    from visir.retrieval.dense.hnsw import HnswIndex
    from visir.retrieval.timing import best_of, kth_scores, share_found

    graph = HnswIndex.build(documents, similarity=similarity)
    exact = FlatIndex.build(documents, similarity=similarity)

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
    from visir.records import Embeddings

    full = vectors.to_scipy()[:, used].toarray().astype(np.float32)
    return Embeddings(vectors.modality, vectors.ids, full, vectors.encoder)
