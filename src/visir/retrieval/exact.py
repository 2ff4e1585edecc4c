"""Exact search: every query with every candidate of a declared gallery, for one task or both in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import EmbeddingError, RunError, nearest
from visir.records import (
    Embeddings,
    Gallery,
    MultiVectorEmbeddings,
    Qrels,
    Ranks,
    Run,
    SparseEmbeddings,
    Ties,
    Vectors,
    strings,
    task_name,
)
from visir.retrieval.answers import check_depth, check_finite_scores, positions
from visir.retrieval.kinds import form_of
from visir.retrieval.multi_vector.scan import TokenSide, scan_tokens
from visir.retrieval.scan import Answers, SearchState, Side, Similarity, check_same_dimension, scan_on
from visir.retrieval.sparse import scan as sparse


@dataclass(frozen=True)
class SearchResult:
    """The result of an exact search.

    Attributes:
        run: The best documents of each query.
        ranks: The rank of each positive in the whole gallery; None without judgements.
    """

    run: Run
    ranks: Ranks | None


@dataclass(frozen=True)
class _Task:
    """One task of a search, with all ids resolved."""

    task: str
    queries: Vectors
    candidates: Vectors
    query_ids: pa.StringArray
    gallery: Gallery
    qrels: Qrels | None
    similarity: Similarity
    depth: int
    ties: Ties
    name: str | None
    device: str | None

    @classmethod
    def of(
        cls, task: str | None, queries: Vectors, candidates: Vectors, gallery: Any, qrels: Any, depth: int, **how: Any
    ) -> _Task:
        """Resolve what was left out."""
        if task is None:
            task = task_name(queries.modality, candidates.modality)
        if gallery is None:
            gallery = Gallery.of(candidates.modality, candidates.ids, f"all encoded {candidates.modality}s")
        if gallery.ids is None:
            raise RunError(
                f"{task} search needs a listed gallery; the size alone is known of {gallery.description!r}.",
                hint="make one with Task.gallery(), Collection.image_gallery() or Collection.caption_gallery()",
                code="search-needs-listed-gallery",
            )
        # Sorted by id: the same searches, the same run, in whatever order the vectors were encoded.
        query_ids = queries.ids.take(pc.sort_indices(queries.ids)) if qrels is None else qrels.queries
        if len(query_ids) == 0:
            raise RunError(f"{task} search: there is no query.", hint="is the split, or the filter, right?")
        check_depth(depth, "depth")
        return cls(task, queries, candidates, query_ids, gallery, qrels, depth=depth, **how)

    @cached_property
    def positives(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """(m,) the row of the query, the position in the gallery (-1: not in it) and the grade of each positive."""
        if self.qrels is None:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)
        positive = self.qrels.grades > 0
        query = np.repeat(np.arange(len(self.qrels)), np.diff(self.qrels.offsets))
        return query[positive], _places(self.qrels.documents, self.gallery.ids)[positive], self.qrels.grades[positive]

    def sides(self, query_ids: pa.StringArray) -> tuple[Any, Any]:
        """Both sides: the queries of these ids, in order, and the gallery."""
        if self.device and isinstance(self.queries, SparseEmbeddings):
            raise EmbeddingError(
                f"sparse vectors (by {self.queries.encoder.name}) are searched on the cores; the device "
                f"{self.device!r} was named.",
                hint="leave the device out",
                code="sparse-vectors-searched-cores",
            )
        rows, columns = _rows(self.queries, query_ids), _rows(self.candidates, self.gallery.ids)
        return sides_of(self.queries, rows, self.candidates, columns, self.similarity)

    def state(self, queries: Any, candidates: Any, row_ids: pa.StringArray) -> SearchState:
        """The task in numbers; `row_ids` are the ids of the rows on the query side, in order."""
        query, document, _ = self.positives
        inside = document >= 0
        counts = np.bincount(query[inside], minlength=len(self.query_ids))
        # Documents of a query are sorted by id in the qrels, and the gallery is sorted by id: places ascend too.
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        judged = _places(row_ids, self.query_ids), offsets, document[inside]
        return SearchState(queries, candidates, min(self.depth, self.gallery.size), self.ties, judged)

    def alone(self) -> SearchResult:
        """Search this task alone."""
        state = self.state(*self.sides(self.query_ids), self.query_ids)
        return self.result(state, _scan([state], self.device)[0])

    def result(self, state: SearchState, answers: Answers) -> SearchResult:
        """The run, and with judgements the ranks."""
        indices, scores = answers
        vocabulary = {"vocabulary": self.queries.vocabulary.name} if isinstance(self.queries, SparseEmbeddings) else {}
        of_queries, of_candidates = self.queries.encoder, self.candidates.encoder
        run = Run(
            name=self.name or " + ".join(dict.fromkeys([self.queries.encoder.name, self.candidates.encoder.name])),
            task=self.task,
            queries=self.query_ids,
            offsets=np.arange(len(self.query_ids) + 1, dtype=np.int64) * state.depth,
            documents=self.gallery.ids,
            indices=indices.ravel(),
            scores=scores.ravel(),
            gallery=self.gallery,
            depth=self.depth,
            provenance={
                "search": "exact",
                "similarity": self.similarity,
                **vocabulary,
                "queries": {"encoder": of_queries.name, "fingerprint": of_queries.fingerprint},
                "candidates": {"encoder": of_candidates.name, "fingerprint": of_candidates.fingerprint},
            },
        )
        check_finite_scores(run)
        if self.qrels is None:
            return SearchResult(run, None)
        query, place, grades = self.positives
        ranks = np.zeros(len(place), np.int64)
        ranks[place >= 0] = state.better + 1
        order = np.lexsort((np.where(ranks == 0, np.iinfo(np.int64).max, ranks), query))
        offsets = np.concatenate([[0], np.cumsum(self.qrels.positives)]).astype(np.int64)
        size = self.gallery.size
        return SearchResult(run, Ranks(self.qrels.queries, offsets, ranks[order], grades[order], None, size))


def search(
    queries: Vectors,
    candidates: Vectors,
    task: str | None = None,
    *,
    gallery: Gallery | None = None,
    depth: int = 100,
    similarity: Similarity | None = None,
    ties: Ties = "id",
    qrels: Qrels | None = None,
    name: str | None = None,
    device: str | None = None,
) -> SearchResult:
    """Search all candidates of a gallery for every query.

    The score of a pair is a function of its two vectors alone: their cosine (or dot product) summed in float64 and
    rounded to float32. Equal vectors have equal scores. The order of the input, the size of the gallery, blocks and
    threads change nothing. (Scores taken from a plain matrix product do not have this property.)

    The score of two items with several vectors each is MaxSim: for each vector of the query the greatest dot product
    with a vector of the candidate, summed (`visir.retrieval.multi_vector.kernels`). It has the same properties.

    Args:
        queries: Vectors of the queries.
        candidates: Vectors of at least the gallery.
        task: The name of the task; None takes the usual name of what both sides hold ("t2i", "t2t", …).
        gallery: The declared candidates; None is all of `candidates`.
        depth: How many documents per query the run keeps.
        similarity: "cosine" or "dot" for dense vectors (default: cosine); sparse ones are scored by "dot" only, and
            multi-vectors by "maxsim" only.
        ties: How equal scores are ordered where *ranks* are counted: "id" (smaller document id first, as in the run),
            "pessimistic" (a positive after all non-positives of equal score), "optimistic" (before them),
            "trec" (larger document id first, as trec_eval, pytrec_eval and mteb order them). Positives
            that tie with one another stand in order of id.
        qrels: The judgements. Exactly the judged queries are searched, and the ranks of their positives are exact to
            the end of the gallery. None searches all `queries`.
        name: The name of the run; None takes the names of the encoders.
        device: A device of torch ("cuda") that makes the matrix products; None is the cores of this machine. The result
            is the same. Sparse vectors are searched on the cores only.

    Raises:
        EmbeddingError: Vectors are missing, zero (under cosine) or too long, scores exceed float32, dimensions or
            vocabularies differ, the two sides are of different forms (dense, sparse, multi-vector), or a device is
            named for sparse ones.
        EncoderError: There is no such device.
        RunError: The gallery is not listed, or there is no query.

    Example:
        >>> from visir.records import EncoderCard
        >>> card = EncoderCard("by hand", "example", revision="1")
        >>> texts = Embeddings("text", ["q"], np.array([[1, 0]], np.float32), card)
        >>> images = Embeddings("image", ["a", "b"], np.array([[0, 1], [1, 1]], np.float32), card)
        >>> search(texts, images).run.answer("q", 1)
        [('b', 0.7071067690849304)]
    """
    similarity = similarity_of(similarity, queries, candidates)
    how: dict[str, Any] = {"similarity": similarity, "depth": depth, "ties": ties, "name": name, "device": device}
    return _Task.of(task, queries, candidates, gallery, qrels, **how).alone()


def search_both(
    images: Vectors,
    texts: Vectors,
    *,
    galleries: Mapping[str, Gallery] | None = None,
    depth: int = 100,
    similarity: Similarity | None = None,
    ties: Ties = "id",
    qrels: Mapping[str, Qrels] | None = None,
    name: str | None = None,
    device: str | None = None,
) -> dict[str, SearchResult]:
    """Search both tasks of images and texts; the results are those of `search`, bit by bit.

    Both tasks share one pass if the queries of each are among the candidates of the other. Multi-vectors take two,
    because MaxSim has no symmetry: it sums over the vectors of the query.

    Args:
        images: Vectors of the images.
        texts: Vectors of the texts.
        galleries: The gallery of each task, "i2t" and "t2i"; a missing one is all vectors of that side.
        depth: How many documents per query the runs keep.
        similarity: As in `search`.
        ties: As in `search`.
        qrels: The judgements of each task.
        name: The name of the runs; None takes the names of the encoders.
        device: As in `search`.

    Returns:
        The result of each task, "i2t" and "t2i".

    Raises:
        EmbeddingError: As in `search`.
        RunError: As in `search`.

    Example:
        >>> from visir.records import EncoderCard
        >>> card = EncoderCard("by hand", "example", revision="1")
        >>> images = Embeddings("image", ["a", "b"], np.array([[1, 0], [0, 1]], np.float32), card)
        >>> texts = Embeddings("text", ["1", "2"], np.array([[0, 2], [3, 0]], np.float32), card)
        >>> results = search_both(images, texts, depth=1)
        >>> results["i2t"].run.answer("a"), results["t2i"].run.answer("1")
        ([('2', 1.0)], [('b', 1.0)])
    """
    similarity = similarity_of(similarity, images, texts)
    galleries, qrels = galleries or {}, qrels or {}
    name = name or " + ".join(dict.fromkeys([images.encoder.name, texts.encoder.name]))
    how: dict[str, Any] = {"similarity": similarity, "depth": depth, "ties": ties, "name": name, "device": device}
    i2t = _Task.of("i2t", images, texts, galleries.get("i2t"), qrels.get("i2t"), **how)
    t2i = _Task.of("t2i", texts, images, galleries.get("t2i"), qrels.get("t2i"), **how)
    shared = _within(t2i.query_ids, i2t.gallery.ids) and _within(i2t.query_ids, t2i.gallery.ids)
    if similarity == "maxsim" or not shared:
        return {"i2t": i2t.alone(), "t2i": t2i.alone()}
    of_texts, of_images = t2i.sides(i2t.gallery.ids)
    forward = t2i.state(of_texts, of_images, i2t.gallery.ids)
    backward = i2t.state(of_images, of_texts, t2i.gallery.ids)
    to_images, to_texts = _scan([forward, backward], device)
    return {"i2t": i2t.result(backward, to_texts), "t2i": t2i.result(forward, to_images)}


def similarity_of(requested: Similarity | None, first: Vectors, second: Vectors) -> Similarity:
    """Return how two sides are scored."""
    # As requested; else by "cosine" for dense vectors, "dot" for sparse ones, and "maxsim" for multi-vectors.
    # Sparse vectors have no cosine here. Their lengths are learnt (a sharp image has heavier words than a blurred one),
    # they are trained for the dot product, and every inverted index computes it.
    forms = [form_of(side) for side in (first, second)]
    if forms[0] != forms[1]:
        sides = sorted(zip(forms, (first, second), strict=True), key=lambda side: side[0], reverse=True)
        named = [f"{side.modality} embeddings by {side.encoder.name}" for _, side in sides]
        raise EmbeddingError(
            f"{named[0]} are {sides[0][0]}, {named[1]} {sides[1][0]}: they are not of one space.",
            hint="encode both sides with one encoder",
            code="not-of-one-space",
        )
    if forms[0] == "multi-vector":
        if requested in (None, "maxsim"):
            return "maxsim"
        raise EmbeddingError(
            f"multi-vectors (by {first.encoder.name}) are scored by maxsim; {requested!r} was asked for.",
            hint="leave the similarity out; for cosines, normalise the vectors first (.normalise())",
            code="multi-vectors-scored-maxsim",
        )
    if requested == "maxsim":
        raise EmbeddingError(
            f"maxsim compares several vectors for each item; those by {first.encoder.name} are {forms[0]}.",
            hint="leave the similarity out, or take a model of late interaction",
            code="maxsim-compares-several-vectors",
        )
    if requested not in (None, "cosine", "dot"):
        raise EmbeddingError(
            f"similarity: {requested!r} is not known.",
            hint=nearest(str(requested), ("cosine", "dot")),
            code="not-known",
        )
    if forms[0] == "dense":
        return requested or "cosine"
    if requested == "cosine":
        raise EmbeddingError(
            f"sparse vectors (by {first.encoder.name}) are scored by their dot product; a cosine was asked for.",
            hint="leave the similarity out, or ask for 'dot'",
            code="sparse-vectors-scored-dot",
        )
    return "dot"


def sides_of(
    queries: Vectors, rows: NDArray[np.int64], documents: Vectors, columns: NDArray[np.int64], similarity: Similarity
) -> tuple[Any, Any]:
    """Some rows of queries and of documents as two sides of one form."""
    if isinstance(queries, SparseEmbeddings) and isinstance(documents, SparseEmbeddings):
        sparse.check_same_vocabulary(queries, documents)
        return sparse.SparseSide(queries, rows), sparse.SparseSide(documents, columns)
    if isinstance(queries, MultiVectorEmbeddings) and isinstance(documents, MultiVectorEmbeddings):
        check_same_dimension(queries, documents)
        return TokenSide(queries, rows), TokenSide(documents, columns)
    assert isinstance(queries, Embeddings) and isinstance(documents, Embeddings), "similarity_of refuses a mixture"
    check_same_dimension(queries, documents)
    return Side(queries, rows, similarity), Side(documents, columns, similarity)


def _scan(states: list[SearchState], device: str | None) -> list[Answers]:
    """Scan both sides, whatever their form."""
    if isinstance(states[0].queries, TokenSide):
        return [scan_tokens(state, device) for state in states]
    return sparse.scan(states) if isinstance(states[0].queries, sparse.SparseSide) else scan_on(device, states)


def _places(ids: pa.StringArray, among: pa.StringArray | None) -> NDArray[np.int64]:
    """Return the (n,) position of each id in `among`, -1 for an unknown id."""
    if ids.equals(among):  # the usual case: all queries of one task are all candidates of the other
        return np.arange(len(ids))
    return positions(ids, among)


def _rows(embeddings: Vectors, ids: pa.StringArray | None) -> NDArray[np.int64]:
    """Return the rows of these ids; an id without a vector is an error that names it."""
    rows = _places(strings(ids), embeddings.ids)
    return embeddings.rows(ids) if (rows < 0).any() else rows


def _within(ids: pa.StringArray, among: pa.StringArray | None) -> bool:
    return ids.equals(among) or bool(pc.all(pc.is_in(ids, among)).as_py())
