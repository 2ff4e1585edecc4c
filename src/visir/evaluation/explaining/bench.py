"""Ranks of every reading from what is at hand: the lists of the run, or scores of a search anew."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import combinations, groupby
from typing import Any, TypeVar, get_args

import numpy as np
import pyarrow as pa
from cachetools import LRUCache
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.evaluation.explaining.ranks import KnownRanks, RankedLists, ScoreMatrix, id_places, known_ranks, lists_of_run
from visir.evaluation.explaining.readings import (
    AXES,
    GIVE,
    SIMILARITY,
    Axis,
    AxisChoice,
    Material,
    NotComputable,
    Reading,
)
from visir.evaluation.explaining.world import AsEvaluated, Part, Places, World, part_of, places, world_of
from visir.evaluation.folds import folds_of
from visir.records import SIDES, Embeddings, Gallery, Run, Vectors
from visir.retrieval.exact import search
from visir.retrieval.vectors import Similarity

# Which readings are tried, plainest first: none, one departure, pairs, a few named triples.

USUAL_TIES = ("optimistic", "pessimistic", "any order")
"""What scripts do that count the scores above, or at least, that of the right one, and what noise does: a few equal
scores show beside another departure only, so these go with every one."""
ALONE = frozenset({"cutoffs", "depth", "queries", "links", "copies", "unit"})
"""Axes whose rare choices are tried alone only: with a second departure they fit small values by accident."""
NEVER_TOGETHER = (
    frozenset({"positives", "recall"}),
    frozenset({"positives", "copies"}),
    frozenset({"copies", "folds"}),
    frozenset({"ties", "positives"}),
    frozenset({"depth", "cutoffs"}),
)
"""Pairs of axes that mean nothing together, or the same as a choice of one of them."""
BESIDE_LINKS = frozenset({"recall", "unit", "digits", "similarity"})
"""The axes that a mix-up of captions goes with: with more freedom it fits noise."""
TRIPLES: tuple[tuple[tuple[str, str], ...], ...] = tuple(
    (*pair, third)
    for pair in (
        (("split", "val"), ("captions", "first")),
        (("split", "test"), ("captions", "first")),
        (("captions", "first"), ("similarity", "dot")),
        (("captions", "first"), ("folds", "5")),
        (("folds", "5"), ("similarity", "dot")),
        (("split", "val"), ("folds", "5")),
        (("split", "val"), ("similarity", "dot")),
        (("captions", "first 5"), ("folds", "5")),
    )
    for third in (
        ("folds", "5"), ("similarity", "dot"), ("recall", "recall"), ("recall", "capped_recall"), ("digits", "cut"),
        ("unit", "fraction"),
    )
    if third[0] not in {axis for axis, _ in pair}
)  # fmt: skip
"""The triples that are tried."""


@cache
def singles() -> tuple[Reading, ...]:
    """Every reading with one departure, the plainest first."""
    every = [Reading.of(**{axis.name: choice.name}) for axis in AXES for choice in axis.choices]
    return tuple(sorted(every, key=lambda reading: reading.cost))


@cache
def pairs() -> tuple[Reading, ...]:
    """Every reading of two departures that go together, one of them a usual one, the plainest first."""
    every = [
        Reading.of(**{first.name: choice.name, second.name: other.name})
        for first, second in combinations(AXES, 2)
        if ({first.name, second.name} & BESIDE_LINKS or "links" not in (first.name, second.name))
        and frozenset({first.name, second.name}) not in NEVER_TOGETHER
        for choice in first.choices
        for other in second.choices
        if _is_usual(first, choice, second, other)
        or {(first.name, choice.name), (second.name, other.name)} & {("ties", name) for name in USUAL_TIES}
    ]
    return tuple(sorted(every, key=lambda reading: reading.cost))


def _is_usual(first: Axis, choice: AxisChoice, second: Axis, other: AxisChoice) -> bool:
    if choice.cost + other.cost > 3:
        return False
    if (choice.cost > 1 and first.name in ALONE) or (other.cost > 1 and second.name in ALONE):
        return False
    # Candidates of other splits are in no fold, and a rare similarity beside them is not worth its time: it scores them
    # all anew.
    adds_candidates = isinstance(choice.value, tuple) and choice.value[0] == "with"
    return not adds_candidates or (second.name != "folds" and (second.name != "similarity" or other.cost == 1))


@cache
def triples() -> tuple[Reading, ...]:
    """The named triples."""
    return tuple(dict.fromkeys(Reading.of(**dict(triple)) for triple in TRIPLES))


@cache
def tiers() -> tuple[tuple[int, tuple[Reading, ...]], ...]:
    """(cost, readings) by rising cost: the plain one, single departures, pairs, and the triples as one tier."""
    tiers: list[tuple[int, tuple[Reading, ...]]] = []
    for readings in ((Reading(),), singles(), pairs()):
        tiers += [(cost, tuple(group)) for cost, group in groupby(readings, key=lambda reading: reading.cost)]
    return (*tiers, (min(reading.cost for reading in triples()), triples()))


# Matrices of scores under each reading of the similarity: a higher score is a better candidate.

Matrix = NDArray[Any]
EXACT = (None, "cosine", "dot", "euclidean")
"""Similarities that are summed in float64 however many scores there are: equal vectors then have equal scores."""
_NEAREST = 10
_ROWS = 1024
"""How many queries are scored at once."""


def scores(images: Matrix, texts: Matrix, similarity: str, task: str) -> NDArray[np.float32]:
    """Score every query with every candidate."""
    # Products of float64 vectors are rounded to float32, so that equal vectors have equal scores.
    # images: (n, d) the vectors of images.
    # texts: (m, d) the vectors of texts.
    # Returns: (queries, candidates) the scores.
    queries, documents = (texts, images) if task == "t2i" else (images, texts)
    if similarity == "signs":  # whole numbers: the length of all vectors is one
        return _products(_signs(queries), _signs(documents))
    if similarity in _CHANGED:
        first, second = _CHANGED[similarity](images, texts)
        queries, documents = (second, first) if task == "t2i" else (first, second)
        return _products(_unit(queries), _unit(documents))
    if similarity.startswith("first "):
        share = SIMILARITY[similarity].value
        dimensions = int(queries.shape[1] * share) if isinstance(share, float) else share
        return _products(_unit(queries[:, :dimensions]), _unit(documents[:, :dimensions]))
    if similarity in ("images normalised", "texts normalised"):
        # Only the lengths of candidates change an order: those of queries scale a whole list.
        similarity = "cosine" if (similarity == "images normalised") == (task == "t2i") else "dot"
    if similarity == "dot":
        return _products(queries, documents)
    if similarity == "euclidean":
        return _products(2 * queries, documents, (documents**2).sum(axis=1))
    if similarity == "cosine":
        return _products(_unit(queries), _unit(documents))
    cosines = _unit(queries) @ _unit(documents).T
    if similarity == "csls":
        values = 2 * cosines - _near(cosines, 0)[None, :] - _near(cosines, 1)[:, None]
    else:  # dual softmax
        weights = np.exp(SIMILARITY[similarity].value * (cosines - cosines.max(axis=0)))
        values = cosines * weights / weights.sum(axis=0)
    return values.astype(np.float32, copy=False)


def _products(queries: Matrix, documents: Matrix, less: Matrix | float = 0.0) -> NDArray[np.float32]:
    """Products of all rows, less a number for each candidate, some rows at a time to save memory."""
    products = np.empty((len(queries), len(documents)), np.float32)
    for start in range(0, len(queries), _ROWS):
        products[start : start + _ROWS] = queries[start : start + _ROWS] @ documents.T - less
    return products


def _unit(vectors: Matrix) -> Matrix:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Matrix = vectors / np.where(lengths == 0, 1, lengths)
    return unit


def _near(cosines: Matrix, axis: int) -> Matrix:
    """The mean of the highest cosines of each row or column."""
    count = min(_NEAREST, cosines.shape[axis])
    highest = -np.partition(-cosines, count - 1, axis=axis)
    mean: Matrix = (highest[:count] if axis == 0 else highest[:, :count]).mean(axis=axis)
    return mean


def _signs(vectors: Matrix) -> Matrix:
    signs: Matrix = np.where(vectors >= 0, np.float32(1), np.float32(-1))
    return signs


def _eight_bits(vectors: Matrix) -> Matrix:
    largest = np.abs(vectors).max()
    rounded: Matrix = np.round(vectors / (largest or 1) * 127)
    return rounded


def _standardised(vectors: Matrix) -> Matrix:
    spread = vectors.std(axis=0)
    standard: Matrix = (vectors - vectors.mean(axis=0)) / np.where(spread == 0, 1, spread)
    return standard


_CHANGED: dict[str, Callable[[Matrix, Matrix], tuple[Matrix, Matrix]]] = {
    "int8": lambda images, texts: (_eight_bits(images), _eight_bits(texts)),
    "centred": lambda images, texts: (images - images.mean(axis=0), texts - texts.mean(axis=0)),
    "standardised": lambda images, texts: (_standardised(images), _standardised(texts)),
}
"""Similarities that are the cosine of changed vectors."""


RANK_AXES = (
    "split", "links", "captions", "queries", "positives", "gallery", "folds", "similarity", "ties", "copies", "depth",
)  # fmt: skip
"""Axes that change ranks; the others change what is measured from them."""
_PART_AXES = ("split", "links", "captions", "queries", "positives", "gallery", "folds", "copies")
MOST_SCORES, MOST_OF_PAIRS = 400_000_000, 40_000_000
"""A search anew of more queries times candidates is not tried (1.6 GB); of two departures, of fewer."""
MOST_EXACT_SCORES = 30_000_000
"""Rare similarities of more scores than this are computed in float32, so that equal vectors may get unequal scores."""
SAME_SCORES = 0.01
"""Relative difference of scores, at the median query, up to which vectors are taken for those of the run.

Half precision and other hardware give much smaller differences; another model, or another similarity, does not.
"""
_SEARCHES, _RESULTS = 1_000_000_000, 300_000_000
"""How many bytes searches, and what was computed from them, may take that are kept for the next readings."""
Scored = RankedLists | ScoreMatrix
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Bench:
    """The ranks of readings."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self.world: World = world_of(material)
        self._judged = {task: self._own(task, run) for task, run in material.runs.items()}
        self._id_place = {side: id_places(self.world, side) for side in ("image", "text")}
        self._of_runs = {
            task: lists_of_run(run, self.world, run.gallery.size or len(self._judged[task].gallery))
            for task, run in material.runs.items()
        }
        self._parts: LRUCache[tuple[str, Reading], Part | NotComputable] = LRUCache(_RESULTS, _bytes_of)
        self._ranks: LRUCache[tuple[str, Reading], KnownRanks | NotComputable] = LRUCache(_RESULTS, _bytes_of)
        self._searched: LRUCache[tuple[str, Reading], Scored | NotComputable] = LRUCache(_SEARCHES, _bytes_of)
        self._matrices: dict[str, NDArray[np.float64]] = {}
        self._rows: dict[str, Places] = {}
        if material.vectors is not None:
            self._take_vectors(material.vectors)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks of the runs."""
        return tuple(self.material.runs)

    def similarity(self, task: str) -> str | None:
        """The recorded similarity of a run; None for runs from outside that do not record it."""
        similarity: str | None = self.material.runs[task].provenance.get("similarity")
        return similarity

    def ties(self, task: str) -> str:
        """The plain tie rule of a task: as the lists have them, or as the protocol of the result says."""
        protocol = self.material.protocol
        return "list" if protocol is None or protocol.ties == "id" else protocol.ties

    def part(self, task: str, reading: Reading) -> Part:
        """The queries and candidates of a task under a reading."""
        reading = reading.only(_PART_AXES)
        judged = self._judged[task]
        return _remembered(self._parts, (task, reading), lambda: part_of(self.world, task, reading, judged))

    def ranks(self, task: str, reading: Reading) -> KnownRanks:
        """The ranks of a task under a reading."""
        reading = reading.only(RANK_AXES)
        return _remembered(self._ranks, (task, reading), lambda: self._new_ranks(task, reading))

    def _new_ranks(self, task: str, reading: Reading) -> KnownRanks:
        part = self.part(task, reading)
        run = self.material.runs[task]
        if "rerank" in run.provenance and reading.only(("captions", "gallery", "folds")).departures:
            raise NotComputable("the run is re-ranked; over fewer candidates, others would be among the first k")
        ties = reading["ties"] or self.ties(task)
        if reading["ties"] == self.ties(task):
            raise NotComputable("ties are counted so as it is")
        depth = reading.value("depth")
        if isinstance(depth, int) and self.material.vectors is None and run.depth <= depth:
            raise NotComputable(f"the run goes only {run.depth} deep as it is")
        ranks = known_ranks(self._scored(task, reading), part, reading, ties)
        of_scores = reading["ties"] or reading["positives"] == "any alike"
        if of_scores and not (ranks.has_ties or any(lists.has_ties for lists in self._of_runs.values())):
            raise NotComputable("no scores are equal")
        return ranks

    # lists and scores

    def _scored(self, task: str, reading: Reading) -> Scored:
        """The lists of the run, or the scores of a search anew that holds the queries and candidates of a reading."""
        part = self.part(task, reading)
        similarity = reading["similarity"]
        leaves_folds = reading["folds"] is not None and self.world.own_folds is not None
        of_run = self._of_runs[task]
        if self.material.vectors is None:
            self._check_without_vectors(part, reading, leaves_folds)
            return of_run
        if similarity is not None and similarity == self.similarity(task):
            raise NotComputable(f"{similarity} is the similarity of the run")
        searched = searched_by(reading)
        if not searched.departures and not leaves_folds and of_run.is_whole:
            return of_run
        return _remembered(self._searched, (task, searched), lambda: self._search(task, searched))

    def _check_without_vectors(self, part: Part, reading: Reading, leaves_folds: bool) -> None:
        if part.extent != ("own", "own"):
            raise NotComputable(GIVE)
        if leaves_folds and self.world.own_folds is not None:
            folds = len(np.unique(self.world.own_folds[self.world.images]))
            raise NotComputable(
                f"the run was made within {folds} folds: a query was never compared with the candidates of the others "
                "(search anew, with the collection and the model)"
            )
        if any(choice.needs == "vectors" for choice in reading.parts):
            raise NotComputable(GIVE)

    def _search(self, task: str, reading: Reading) -> Scored:
        """Score all queries and candidates of a reading anew, with the vectors."""
        part = self.part(task, reading)
        of_queries, of_documents = SIDES[task]
        mean = reading["captions"] == "mean"
        queries, documents = part.queries, np.flatnonzero(part.candidates[:-1])
        if part.extent[0] == "own" and not mean:  # those that are not judged too: a mix-up of captions asks them
            queries = np.union1d(queries, self.world.images if of_queries == "image" else self.world.captions)
        if len(queries) * len(documents) > (MOST_SCORES if reading.departures < 2 else MOST_OF_PAIRS):
            raise NotComputable(
                f"{len(queries):,} queries and {len(documents):,} candidates are too many to try: evaluate it so"
            )
        similarity = reading["similarity"]
        if not self._matrices:
            return self._search_other_forms(task, queries, documents, similarity)
        first = self._vectors(of_queries, queries, mean)
        second = self._vectors(of_documents, documents, mean)
        if similarity not in EXACT and len(queries) * len(documents) > MOST_EXACT_SCORES:
            first, second = first.astype(np.float32), second.astype(np.float32)
        images, texts = (second, first) if task == "t2i" else (first, second)
        values = scores(images, texts, similarity or self.similarity(task) or "cosine", task)
        return ScoreMatrix(queries, documents, values, self._id_place[of_documents])

    def _vectors(self, side: str, items: Places, mean: bool) -> NDArray[np.float64]:
        if mean and side == "text":
            owners = self.world.owner[items]
            members = self.world.captions_of(owners)
            unit = self._vectors(side, members, False)
            unit = unit / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-30)
            sums = np.zeros((len(self.world.image_ids), unit.shape[1]))
            np.add.at(sums, self.world.owner[members], unit)
            means: NDArray[np.float64] = sums[owners]
            return means
        rows = self._rows[side][items]
        if (rows < 0).any():
            raise NotComputable(_not_at_hand(side, int((rows < 0).sum())))
        return self._matrices[side][rows]

    def _search_other_forms(self, task: str, queries: Places, documents: Places, similarity: str | None) -> RankedLists:
        """Search weighted words or several vectors for each item: by their own score only."""
        if similarity is not None:
            raise NotComputable("these vectors are not dense")
        assert self.material.vectors is not None
        by_modality = {vectors.modality: vectors for vectors in self.material.vectors}
        ids = {}
        for side, items in zip(SIDES[task], (queries, documents), strict=True):
            ids[side] = self.world.ids(side).take(pa.array(items))
            missing = int((places(ids[side], by_modality[side].ids) < 0).sum())
            if missing:
                raise NotComputable(_not_at_hand(side, missing))
        of_queries, of_documents = SIDES[task]
        run = search(
            by_modality[of_queries].select(ids[of_queries]),
            by_modality[of_documents],
            task,
            gallery=Gallery.of(of_documents, ids[of_documents], "searched anew"),
            depth=len(documents),
            similarity=self.similarity(task),  # type: ignore[arg-type]
        ).run
        return lists_of_run(run, self.world, len(documents))

    # the result itself

    def _own(self, task: str, run: Run) -> AsEvaluated:
        qrels = self.material.qrels[task]
        of_queries, of_documents = SIDES[task]
        right = qrels.grades > 0
        queries = self.world.places(of_queries, qrels.queries)
        query = queries[np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))[right]]
        document = self.world.places(of_documents, qrels.documents)[right]
        if run.gallery.ids is not None:
            gallery = self.world.places(of_documents, run.gallery.ids)
        else:  # known by its size at most: what takes part in the result, and what is ranked
            part = self.world.images if of_documents == "image" else self.world.captions
            ranked = self.world.places(of_documents, run.documents)
            gallery = np.unique(np.concatenate([part, document, ranked]))
        return AsEvaluated(queries, (query, document), gallery)

    def _take_vectors(self, vectors: tuple[Vectors, Vectors]) -> None:
        by_modality = {part.modality: part for part in vectors}
        for task, run in self.material.runs.items():
            if "rerank" in run.provenance:
                raise VisirError(
                    f"run {run.name} ({task}) is re-ranked; a search anew would leave the second stage out.",
                    hint="explain it as it is, without collection and model",
                    code="run-re-ranked",
                )
            if self.similarity(task) not in get_args(Similarity):
                stated = self.similarity(task)
                raise VisirError(
                    f"run {run.name} ({task}) does not say by which similarity it was scored"
                    + (f" ({stated})" if stated else "")
                    + ": a search anew could be another one.",
                    hint="explain it as it is, without collection and model",
                    code="search-anew-could-another",
                )
        for side, part in by_modality.items():
            if isinstance(part, Embeddings):
                self._matrices[side] = np.asarray(part.vectors, np.float64)
                self._rows[side] = places(self.world.ids(side), part.ids)
        dimensions = {side: matrix.shape[1] for side, matrix in self._matrices.items()}
        if len(dimensions) == 1:
            raise VisirError(
                f"the vectors of {next(iter(dimensions))}s are dense, the others are not.",
                hint="give both sides by the model of the run",
            )
        if len(set(dimensions.values())) > 1:
            stated = ", ".join(f"those of {side}s have {count:,}" for side, count in dimensions.items())
            raise VisirError(
                f"the vectors differ in their dimensions: {stated}.", hint="give both sides by the model of the run"
            )
        self._check_same_scores()

    def _check_same_scores(self) -> None:
        """Refuse vectors whose scores are not those of the run: they belong to another system."""
        for task, run in self.material.runs.items():
            lists = self._of_runs[task]
            rows = np.flatnonzero(lists.order[:, 0] >= 0)[:500]
            try:
                values = self._scores_anew(task, lists.queries[rows], lists.order[rows, 0].astype(np.int64))
            except NotComputable as reason:
                raise VisirError(
                    f"run {run.name} ({task}): {reason}.", hint="give the vectors of all images and captions it names"
                ) from reason
            gaps = np.abs(values - lists.scores[rows, 0])
            if len(rows) == 0 or np.median(gaps) > SAME_SCORES * np.median(np.abs(lists.scores[rows, 0])):
                raise VisirError(
                    f"run {run.name} ({task}): the best answers have other scores when these vectors are searched "
                    "anew; it was made by another model, or re-ranked.",
                    hint="name the model that made the run, or explain it as it is, without collection and model",
                    code="best-answers-other-scores",
                )

    def _scores_anew(self, task: str, queries: Places, documents: Places) -> NDArray[Any]:
        """(n,) the scores of queries and the best answer of each, with the vectors."""
        if not self._matrices:  # among the best answers of all, its own is the best one again
            lists = self._search_other_forms(task, queries, np.unique(documents), None)
            best: NDArray[Any] = lists.scores[lists.rows(queries), 0]
            return best
        first, second = (
            self._vectors(side, items, False) for side, items in zip(SIDES[task], (queries, documents), strict=True)
        )
        values: NDArray[Any] = np.einsum("nd,nd->n", first, second)
        if self.similarity(task) == "cosine":
            values /= np.maximum(np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1), 1e-30)
        return values

    def knows_all(self, task: str) -> bool:
        """Whether every candidate of a query is known, and not only those that the run lists."""
        return self.material.vectors is not None or self._of_runs[task].is_whole

    def describe(self, tasks: Mapping[str, Any]) -> str:
        """How ranks are computed, and by which similarity, in a line."""
        from visir.records import UNDECLARED

        how = "cut out of the run" if self.material.vectors is None else "searched anew"
        named = [self.similarity(task) or UNDECLARED for task in tasks]
        return f"{how}; similarity: {' and '.join(dict.fromkeys(named))}"

    def own_folds(self) -> int:
        """The number of folds of the result."""
        return max((folds_of(run) for run in self.material.runs.values()), default=1)


def _not_at_hand(side: str, count: int) -> str:
    return f"the vectors of {count:,} of its {'images' if side == 'image' else 'captions'} are not at hand"


def _bytes_of(result: object) -> int:
    """The memory of the arrays of a record."""
    if isinstance(result, tuple):
        return sum(map(_bytes_of, result))
    if is_dataclass(result):
        return sum(_bytes_of(getattr(result, field.name)) for field in fields(result))
    return result.nbytes if isinstance(result, np.ndarray) else 0


def searched_by(reading: Reading) -> Reading:
    """The choices of a reading that need scores of their own; its queries and candidates are among those of these."""
    wider = reading.value("gallery")
    needed = {
        "split": True,
        "links": str(reading["links"]).startswith("captions of "),
        "captions": reading["captions"] in ("all", "mean"),
        "gallery": isinstance(wider, tuple) and wider[0] == "with",
        "similarity": True,
    }
    return reading.only(tuple(axis for axis, is_needed in needed.items() if is_needed))


def _remembered(results: MutableMapping[Key, Value | NotComputable], key: Key, compute: Callable[[], Value]) -> Value:
    """What was computed under a key, or is computed now; raises the reason again where it cannot be."""
    result = results.get(key)
    if result is None:
        try:
            result = compute()
        except NotComputable as reason:
            result = reason
        with suppress(ValueError):  # larger than all that may be kept
            results[key] = result
    if isinstance(result, NotComputable):
        raise result
    return result
