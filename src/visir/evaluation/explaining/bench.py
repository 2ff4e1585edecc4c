"""Ranks of every reading from what is at hand: each matrix of scores and each set of lists is computed once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.evaluation.explaining.known_ranks import KnownRanks, known_ranks
from visir.evaluation.explaining.lists import RankedLists, id_places, lists_of_run, lists_of_scores
from visir.evaluation.explaining.material import GIVE, Material, NotComputable
from visir.evaluation.explaining.parts import Extent, Part, part_of
from visir.evaluation.explaining.reading import Reading
from visir.evaluation.explaining.similarities import EXACT, scores
from visir.evaluation.explaining.world import Places, World, places, world_of
from visir.evaluation.folds import folds_of
from visir.records import SIDES, Embeddings, Gallery, Run, Vectors
from visir.retrieval.exact import search
from visir.retrieval.vectors import Similarity

RANK_AXES = (
    "split", "links", "captions", "queries", "positives", "gallery", "folds", "similarity", "ties", "copies", "depth",
)  # fmt: skip
"""Axes that change ranks; the others change what is measured from them."""
_PART_AXES = ("split", "links", "captions", "queries", "positives", "gallery", "folds", "copies")
SHORT = 200
"""How many candidates of each query are sorted at first; all of them, where a value needs more."""
SAME_SCORES = 0.01
"""Relative difference of scores, at the median query, up to which vectors are taken for those of the run.

Half precision and other hardware give much smaller differences; another model, or another similarity, does not.
"""
_MATRICES = 3
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Bench:
    """The ranks of readings.

    Args:
        material: What is at hand.

    Raises:
        VisirError: Vectors are given for a run that does not say its similarity, or they are not those of the run.
    """

    def __init__(self, material: Material) -> None:
        self.material = material
        self.world: World = world_of(material)
        self._pairs = {task: self._own_pairs(task) for task in material.runs}
        self._galleries = {task: self._own_gallery(task, run) for task, run in material.runs.items()}
        self._of_runs = {task: lists_of_run(run, self.world) for task, run in material.runs.items()}
        self._parts: dict[tuple[str, Reading], Part | NotComputable] = {}
        self._ranks: dict[tuple[str, Reading, bool], KnownRanks | NotComputable] = {}
        self._lists: dict[tuple[Any, ...], RankedLists | NotComputable] = {}
        self._scores: OrderedDict[tuple[Any, ...], tuple[NDArray[np.float32], Places, Places]] = OrderedDict()
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
        """The queries and candidates of a task under a reading.

        Raises:
            NotComputable: With the reason.
        """
        own = reading.only(_PART_AXES)
        pairs, gallery = self._pairs[task], self._galleries[task]
        return _remembered(self._parts, (task, own), lambda: part_of(self.world, task, own, pairs, gallery))

    def ranks(self, task: str, reading: Reading, *, whole: bool = False) -> KnownRanks:
        """The ranks of a task under a reading.

        Args:
            task: The task.
            reading: The reading; only `RANK_AXES` play a role.
            whole: Sort all candidates of each query.

        Raises:
            NotComputable: With the reason.
        """
        reading = reading.only(RANK_AXES)
        return _remembered(self._ranks, (task, reading, whole), lambda: self._new_ranks(task, reading, whole))

    def can_go_deeper(self, task: str, reading: Reading) -> bool:
        """Whether sorting all candidates can tell more."""
        if self.material.vectors is None:
            return False
        try:
            return not self._find(task, reading, whole=False).is_whole
        except NotComputable:
            return False

    def _new_ranks(self, task: str, reading: Reading, whole: bool) -> KnownRanks:
        part = self.part(task, reading)
        if "rerank" in self.material.runs[task].provenance and (
            reading.only(("captions", "gallery", "folds")).departures
        ):
            raise NotComputable("the run is re-ranked; over fewer candidates, others would be among the first k")
        lists = self._find(task, reading, whole)
        ties = reading["ties"] or self.ties(task)
        if reading["ties"] == self.ties(task):
            raise NotComputable("ties are counted so as it is")
        of_scores = reading["ties"] or reading["positives"] == "any alike"
        if of_scores and not (lists.has_ties or any(other.has_ties for other in self._of_runs.values())):
            raise NotComputable("no scores are equal")
        depth = reading.value("depth")
        run = self.material.runs[task]
        if isinstance(depth, int) and self.material.vectors is None and run.depth <= depth:
            raise NotComputable(f"the run goes only {run.depth} deep as it is")
        return known_ranks(lists, part, reading, ties, self.world, task)

    # lists

    def _find(self, task: str, reading: Reading, whole: bool) -> RankedLists:
        part = self.part(task, reading)
        similarity = reading["similarity"]
        mean = reading["captions"] == "mean"
        of_run = self._of_runs[task]
        has_own_lists = part.extent == ("own", "own") and similarity is None and not mean
        leaves_folds = reading["folds"] is not None and self.world.own_folds is not None
        leaves_captions = reading["captions"] == "all"
        if self.material.vectors is None:
            self._check_without_vectors(part, reading, leaves_folds)
            return of_run
        if similarity is not None and similarity == self.similarity(task):
            raise NotComputable(f"{similarity} is the similarity of the run")
        if has_own_lists and not leaves_folds and not leaves_captions and of_run.is_whole:
            return of_run
        return _remembered(
            self._lists,
            (task, part.extent, similarity, mean, leaves_captions, whole),
            lambda: self._search(task, part, similarity, mean, leaves_captions, whole),
        )

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

    def _search(
        self, task: str, part: Part, similarity: str | None, mean: bool, leaves_captions: bool, whole: bool
    ) -> RankedLists:
        """Search anew, with the vectors."""
        documents = np.flatnonzero(part.candidates[:-1])
        queries = part.queries
        if part.extent == ("own", "own") and not mean and not leaves_captions:
            # One search serves every part of the result's own queries and candidates.
            own = self.part(task, Reading())
            queries, documents = own.queries, np.flatnonzero(own.candidates[:-1])
        if not self._matrices:
            return self._search_other_forms(task, queries, documents, similarity, whole)
        depth = len(documents) if whole else SHORT
        values, queries, documents = self._scored(task, queries, documents, similarity, mean, part.extent)
        side = SIDES[task][1]
        return lists_of_scores(values, queries, documents, id_places(self.world, side), depth)

    def _scored(
        self, task: str, queries: Places, documents: Places, similarity: str | None, mean: bool, extent: Extent
    ) -> tuple[NDArray[np.float32], Places, Places]:
        key = (task, extent, similarity, mean, len(queries), len(documents))
        if key not in self._scores:
            of_queries, of_documents = SIDES[task]
            first = self._vectors(of_queries, queries, mean)
            second = self._vectors(of_documents, documents, mean)
            if similarity not in EXACT or extent != ("own", "own"):
                first, second = first.astype(np.float32), second.astype(np.float32)
            images, texts = (second, first) if task == "t2i" else (first, second)
            values = scores(images, texts, similarity or self.similarity(task) or "cosine", task)
            self._scores[key] = (values, queries, documents)
            while len(self._scores) > _MATRICES:
                self._scores.popitem(last=False)
        return self._scores[key]

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
            kind = "images" if side == "image" else "captions"
            raise NotComputable(f"the vectors of {int((rows < 0).sum()):,} of its {kind} are not at hand")
        return self._matrices[side][rows]

    def _search_other_forms(
        self, task: str, queries: Places, documents: Places, similarity: str | None, whole: bool
    ) -> RankedLists:
        """Search weighted words or several vectors for each item: by their own score only."""
        if similarity is not None:
            raise NotComputable("these vectors are not dense")
        assert self.material.vectors is not None
        by_modality = {vectors.modality: vectors for vectors in self.material.vectors}
        of_queries, of_documents = SIDES[task]
        run = search(
            by_modality[of_queries].select(self.world.ids(of_queries).take(pa.array(queries))),
            by_modality[of_documents],
            task,
            gallery=Gallery.of(of_documents, self.world.ids(of_documents).take(pa.array(documents)), "searched anew"),
            depth=len(documents) if whole else min(SHORT, len(documents)),
            similarity=self.similarity(task),  # type: ignore[arg-type]
        ).run
        return lists_of_run(run, self.world)

    # the result itself

    def _own_pairs(self, task: str) -> tuple[Places, Places]:
        qrels = self.material.qrels[task]
        queries, documents = SIDES[task]
        right = qrels.grades > 0
        rows = np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))[right]
        query = self.world.places(queries, qrels.queries)[rows]
        return query, self.world.places(documents, qrels.documents)[right]

    def _own_gallery(self, task: str, run: Run) -> Places:
        side = SIDES[task][1]
        if run.gallery.ids is None:
            return np.arange(len(self.world.ids(side)))
        return self.world.places(side, run.gallery.ids)

    def _take_vectors(self, vectors: tuple[Vectors, Vectors]) -> None:
        by_modality = {part.modality: part for part in vectors}
        for task, run in self.material.runs.items():
            if self.similarity(task) not in get_args(Similarity):
                stated = self.similarity(task)
                raise VisirError(
                    f"run {run.name} ({task}) does not say by which similarity it was scored"
                    + (f" ({stated})" if stated else "")
                    + ": a search anew could be another one.",
                    hint="explain it as it is, without collection and model",
                )
        for side, part in by_modality.items():
            if isinstance(part, Embeddings):
                self._matrices[side] = np.asarray(part.vectors, np.float64)
                self._rows[side] = places(self.world.ids(side), part.ids)
        self._check_same_scores()

    def _check_same_scores(self) -> None:
        """Refuse vectors whose scores are not those of the run: they belong to another system."""
        if not self._matrices:
            return
        for task, run in self.material.runs.items():
            lists = self._of_runs[task]
            rows = np.flatnonzero(lists.order[:, 0] >= 0)[:500]
            queries, documents = lists.queries[rows], lists.order[rows, 0].astype(np.int64)
            sides = SIDES[task]
            try:
                first, second = (self._vectors(side, items, False)
                                 for side, items in zip(sides, (queries, documents), strict=True))  # fmt: skip
            except NotComputable as reason:
                raise VisirError(
                    f"run {run.name} ({task}): {reason}.", hint="give the vectors of all images and captions it names"
                ) from reason
            values = np.einsum("nd,nd->n", first, second)
            if self.similarity(task) == "cosine":
                values /= np.maximum(np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1), 1e-30)
            gaps = np.abs(values - lists.scores[rows, 0])
            if len(rows) == 0 or np.median(gaps) > SAME_SCORES * np.median(np.abs(lists.scores[rows, 0])):
                raise VisirError(
                    f"run {run.name} ({task}): the best answers have other scores when these vectors are searched "
                    "anew; it was made by another model, or re-ranked.",
                    hint="name the model that made the run, or explain it as it is, without collection and model",
                )

    def describe(self, tasks: Mapping[str, Any]) -> str:
        """How ranks are computed, and by which similarity, in a line."""
        from visir.records import UNDECLARED

        how = "cut out of the run" if self.material.vectors is None else "searched anew"
        named = [self.similarity(task) or UNDECLARED for task in tasks]
        return f"{how}; similarity: {' and '.join(dict.fromkeys(named))}"

    def own_folds(self) -> int:
        """The number of folds of the result."""
        return max((folds_of(run) for run in self.material.runs.values()), default=1)


def _remembered(results: dict[Key, Value | NotComputable], key: Key, compute: Callable[[], Value]) -> Value:
    """What was computed under a key, or is computed now; raises the reason again where it cannot be."""
    if key not in results:
        try:
            results[key] = compute()
        except NotComputable as reason:
            results[key] = reason
    result = results[key]
    if isinstance(result, NotComputable):
        raise result
    return result
