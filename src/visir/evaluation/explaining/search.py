"""The plainest readings that give all printed digits: the ranks of each, their values, and the search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import pyarrow as pa
from cachetools import LRUCache

from visir.errors import VisirError
from visir.evaluation.explaining.ranks import (
    KnownRanks,
    Numbers,
    Scores,
    chance_of_fit,
    id_places,
    interval_of_chance,
    is_near,
    known_ranks,
    scores_of_run,
)
from visir.evaluation.explaining.readings import (
    BY_NAME,
    PART_AXES,
    RANK_AXES,
    RULES,
    USUAL_TIES,
    Combined,
    Reading,
    singles,
    tiers,
)
from visir.evaluation.explaining.world import (
    GIVE,
    Material,
    NotComputable,
    Part,
    Places,
    World,
    part_as_evaluated,
    part_of,
    places,
    refuse,
    world_of,
)
from visir.evaluation.measures import MEASURES, RSUM_CUTOFFS, measure
from visir.evaluation.published.judge import (
    LABEL,
    Digits,
    Judgement,
    decimals_of,
    judge_one,
    measure_of,
    printed_value,
    sums_of_rounded,
)
from visir.progress import Progress
from visir.records import SIDES, UNDECLARED, Embeddings, Gallery, Ranks, Vectors
from visir.retrieval.exact import search
from visir.retrieval.scan import Similarity

# The ranks of readings: of the lists of the run, or of scores of a search anew.

MOST_SCORES, MOST_OF_PAIRS = 400_000_000, 40_000_000
"""A search anew of more queries times candidates is not tried (1.6 GB); of two departures, of fewer."""
EXACT = (None, "cosine", "dot", "euclidean")
"""Similarities that are summed in float64 however many scores there are: equal vectors then have equal scores."""
MOST_EXACT_SCORES = 30_000_000
"""Rare similarities of more scores than this are computed in float32, so that equal vectors may get unequal scores."""
BY_SCORES = ("mean of scores", "best score")
MERGED = ("mean", *BY_SCORES)
"""Choices that make one of all captions of an image."""
SAME_SCORES = 0.01
"""Relative difference of scores, at the median query, up to which vectors are taken for those of the run.

Half precision and other hardware give much smaller differences; another model, or another similarity, does not.
"""
_SEARCHES, _RESULTS = 1_000_000_000, 300_000_000
"""How many bytes searches, and what was computed from them, may take that are kept for the next readings."""
Value = TypeVar("Value")
Cache = MutableMapping[tuple[str, Reading], Value | NotComputable]


class Bench:
    """The ranks of readings, each computed once."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self.world: World = world_of(material)
        self._own = {
            task: part_as_evaluated(self.world, run, material.qrels[task]) for task, run in material.runs.items()
        }
        self._id_place = {side: id_places(self.world, side) for side in ("image", "text")}
        self._of_runs = {
            task: scores_of_run(run, self.world, run.gallery.size or int(self._own[task].candidates.sum()))
            for task, run in material.runs.items()
        }
        self._parts: Cache[Part] = LRUCache(_RESULTS, self._bytes_of)
        self._ranks: Cache[KnownRanks] = LRUCache(_RESULTS, self._bytes_of)
        self._searched: Cache[Scores] = LRUCache(_SEARCHES, self._bytes_of)
        self._matrices: dict[str, Numbers] = {}
        self._rows: dict[str, Places] = {}
        if material.vectors is not None:
            self._take(material.vectors)

    def similarity(self, task: str) -> str | None:
        """The recorded similarity of a run; None for runs from outside that do not record it."""
        similarity: str | None = self.material.runs[task].provenance.get("similarity")
        return similarity

    def part(self, task: str, reading: Reading) -> Part:
        """The queries and candidates of a task under a reading."""
        reading = reading.only(PART_AXES)
        pairs = list(zip(reading.choices, reading.parts, strict=True))
        taken = [choice.takes for _, choice in pairs if choice.takes is not None]
        searched = {
            axis: choice.do if callable(choice.do) else lambda part: part
            for (axis, _), choice in pairs
            if choice.takes is None
        }
        return _once(self._parts, (task, reading), lambda: part_of(self._own[task], taken, searched))

    def ranks(self, task: str, reading: Reading) -> KnownRanks:
        """The ranks of a task under a reading."""
        reading = reading.only(RANK_AXES)
        return _once(self._ranks, (task, reading), lambda: self._new_ranks(task, reading))

    def _new_ranks(self, task: str, reading: Reading) -> KnownRanks:
        part, run, protocol = self.part(task, reading), self.material.runs[task], self.material.protocol
        fewer = "rerank" in run.provenance and reading.only(("captions", "gallery", "folds")).departures
        refuse(fewer, "the run is re-ranked; over fewer candidates, others would be among the first k")
        own_ties = "list" if protocol is None or protocol.ties == "id" else protocol.ties
        refuse(reading["ties"] == own_ties, "ties are counted so as it is")
        depth = int(reading["depth"] or 0) or None
        shallow = depth is not None and self.material.vectors is None and run.depth <= depth
        refuse(shallow, f"the run goes only {run.depth} deep as it is")
        alike = reading.do("positives") if reading["positives"] == "any alike" else None
        rule = alike or reading.do("ties") or RULES[own_ties]
        ranks = known_ranks(self._scores(task, reading), part, rule, depth)
        has_ties = ranks.has_ties or any(lists.has_ties for lists in self._of_runs.values())
        refuse((alike or reading["ties"]) and not has_ties, "no scores are equal")
        return ranks

    def _scores(self, task: str, reading: Reading) -> Scores:
        """Scores that hold the queries and candidates of a reading."""
        part, of_run = self.part(task, reading), self._of_runs[task]
        leaves_folds = reading["folds"] is not None and self.world.own_folds is not None
        if self.material.vectors is None:
            refuse(not part.is_own, GIVE)
            refuse(
                leaves_folds,
                f"the run was made within {self.world.own_fold_count()} folds: a query was never compared with the "
                "candidates of the others (search anew, with the collection and the model)",
            )
            refuse(any(choice.needs == "vectors" for choice in reading.parts), GIVE)
            return of_run
        similarity = reading["similarity"]
        refuse(similarity and similarity == self.similarity(task), f"{similarity} is the similarity of the run")
        searched = reading.searched
        if not searched.departures and not leaves_folds and of_run.is_whole:
            return of_run
        cut = reading.only(tuple({*(axis for axis, _ in searched.choices), "gallery"}))
        if searched["split"] and cut != searched:  # what is too large as a whole may be searched in part
            with suppress(NotComputable):
                return _once(self._searched, (task, searched), lambda: self._search(task, searched))
            searched = cut
        return _once(self._searched, (task, searched), lambda: self._search(task, searched))

    def _search(self, task: str, reading: Reading) -> Scores:
        """Score all queries and candidates of a reading anew, with the vectors."""
        part, merged = self.part(task, reading), reading["captions"] if reading["captions"] in MERGED else None
        queries, documents = part.queries, np.flatnonzero(part.candidates[:-1])
        if part.has_own_queries and not merged:  # those that are not judged too: a mix-up of captions asks them
            queries = np.union1d(queries, self.world.captions if task == "t2i" else self.world.images)
        count = len(queries) * len(documents)
        if merged in BY_SCORES:  # every caption of these images is scored
            captions = self.world.captions_of(part.owner[part.captions])
            count = count * len(captions) // max(len(part.captions), 1)
        refuse(
            count > (MOST_SCORES if reading.departures < 2 else MOST_OF_PAIRS),
            f"{len(queries):,} queries and {len(documents):,} candidates are too many to try: evaluate it so",
        )
        return self._score(task, queries, documents, reading["similarity"], merged)

    def _score(
        self, task: str, queries: Places, documents: Places, similarity: str | None = None, merged: str | None = None
    ) -> Scores:
        """The scores of queries and candidates, by a similarity or that of the run."""
        of_queries, of_documents = SIDES[task]
        if not self._matrices:
            refuse(similarity, "these vectors are not dense")
            return self._score_other_forms(task, queries, documents)
        sides = {of_queries: queries, of_documents: documents}
        if merged in BY_SCORES:
            images, of_image = np.unique(self.world.owner[sides["text"]], return_inverse=True)
            sides["text"], starts = self.world.captions_by_image(images)
        first, second = (self._vectors(side, items, merged == "mean") for side, items in sides.items())
        if similarity not in EXACT and len(queries) * len(documents) > MOST_EXACT_SCORES:
            first, second = first.astype(np.float32), second.astype(np.float32)
        values = BY_NAME["similarity"][similarity or self.similarity(task) or "cosine"].do(first, second, task)
        if merged in BY_SCORES:
            axis = list(sides).index("text")
            values = _of_each_image(values, starts, axis, merged == "best score").take(of_image, axis=axis)
        return Scores(queries, documents[None].astype(np.int32), values, self._id_place[of_documents])

    def _vectors(self, side: str, items: Places, mean: bool = False) -> Numbers:
        """The vectors of images or captions; with `mean`, of all captions of the image of each."""
        if mean and side == "text":
            owners = self.world.owner[items]
            members = self.world.captions_of(owners)
            vectors = self._vectors(side, members)
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
            sums = np.zeros((len(self.world.image_ids), vectors.shape[1]))
            np.add.at(sums, self.world.owner[members], vectors)
            means: Numbers = sums[owners]
            return means
        rows = self._rows[side][items]
        _at_hand(side, rows)
        return self._matrices[side][rows]

    def _score_other_forms(self, task: str, queries: Places, documents: Places) -> Scores:
        """Search weighted words or several vectors for each item: by their own score only."""
        assert self.material.vectors is not None
        vectors, ids = {part.modality: part for part in self.material.vectors}, {}
        for side, items in zip(SIDES[task], (queries, documents), strict=True):
            ids[side] = self.world.ids(side).take(pa.array(items))
            _at_hand(side, places(ids[side], vectors[side].ids))
        of_queries, of_documents = SIDES[task]
        run = search(
            vectors[of_queries].select(ids[of_queries]),
            vectors[of_documents],
            task,
            gallery=Gallery.of(of_documents, ids[of_documents], "searched anew"),
            depth=len(documents),
            similarity=self.similarity(task),  # type: ignore[arg-type]
        ).run
        return scores_of_run(run, self.world, len(documents))

    def _take(self, vectors: tuple[Vectors, Vectors]) -> None:
        """Take vectors for searches anew; those of another system are refused."""
        as_it_is = "explain it as it is, without collection and model"
        for task, run in self.material.runs.items():
            if "rerank" in run.provenance:
                raise VisirError(
                    f"run {run.name} ({task}) is re-ranked; a search anew would leave the second stage out.",
                    hint=as_it_is,
                    code="run-re-ranked",
                )
            stated = self.similarity(task)
            if stated not in get_args(Similarity):
                raise VisirError(
                    f"run {run.name} ({task}) does not say by which similarity it was scored"
                    + (f" ({stated})" if stated else "")
                    + ": a search anew could be another one.",
                    hint=as_it_is,
                    code="search-anew-could-another",
                )
        for part in vectors:
            if isinstance(part, Embeddings):
                self._matrices[part.modality] = np.asarray(part.vectors, np.float64)
                self._rows[part.modality] = places(self.world.ids(part.modality), part.ids)
        dimensions = {side: matrix.shape[1] for side, matrix in self._matrices.items()}
        if len(dimensions) == 1:
            raise VisirError(
                f"the vectors of {next(iter(dimensions))}s are dense, the others are not.",
                hint="give both sides by the model of the run",
            )
        if len(set(dimensions.values())) > 1:
            counts = ", ".join(f"those of {side}s have {count:,}" for side, count in dimensions.items())
            raise VisirError(
                f"the vectors differ in their dimensions: {counts}.", hint="give both sides by the model of the run"
            )
        for task, run in self.material.runs.items():
            lists = self._of_runs[task]
            rows = np.flatnonzero(lists.documents[:, 0] >= 0)[:500]
            queries, best, documents = lists.queries[rows], lists.values[rows, 0], lists.documents[rows, 0]
            try:
                anew = self._score(task, queries, np.unique(documents).astype(np.int64))
            except NotComputable as reason:
                raise VisirError(
                    f"run {run.name} ({task}): {reason}.", hint="give the vectors of all images and captions it names"
                ) from reason
            # Among the best answers of all, its own is the best one of a list again.
            values = anew.values[anew.rows(queries), 0 if anew.is_list else anew.column_of[documents]]
            if len(rows) == 0 or np.median(np.abs(values - best)) > SAME_SCORES * np.median(np.abs(best)):
                raise VisirError(
                    f"run {run.name} ({task}): the best answers have other scores when these vectors are searched "
                    "anew; it was made by another model, or re-ranked.",
                    hint="name the model that made the run, or explain it as it is, without collection and model",
                    code="best-answers-other-scores",
                )

    def knows_all(self, task: str) -> bool:
        """Whether every candidate of a query is known, and not only those that the run lists."""
        return self.material.vectors is not None or self._of_runs[task].is_whole

    def describe(self, tasks: Mapping[str, Any]) -> str:
        """How ranks are computed, and by which similarity, in a line."""
        how = "cut out of the run" if self.material.vectors is None else "searched anew"
        named = [self.similarity(task) or UNDECLARED for task in tasks]
        return f"{how}; similarity: {' and '.join(dict.fromkeys(named))}"

    def _bytes_of(self, result: object) -> int:
        """The memory of the arrays of a record, but those of the world."""
        shared = {id(value) for value in vars(self.world).values()}
        held = [value for value in getattr(result, "__dict__", {}).values() if id(value) not in shared]
        arrays = [array for value in held for array in (value if isinstance(value, tuple) else (value,))]
        return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


def _of_each_image(values: Numbers, starts: Places, axis: int, best: bool) -> Numbers:
    """One score of the captions of each image, which stand side by side: the best, or their mean."""
    if best:
        highest: Numbers = np.maximum.reduceat(values, starts, axis=axis)
        return highest
    counts = np.diff(np.append(starts, values.shape[axis]))
    sums = np.add.reduceat(values, starts, axis=axis, dtype=np.float64)
    means: Numbers = (sums / (counts[:, None] if axis == 0 else counts)).astype(np.float32)
    return means


def _at_hand(side: str, rows: Places) -> None:
    missing, of = int((rows < 0).sum()), "images" if side == "image" else "captions"
    refuse(missing, f"the vectors of {missing:,} of its {of} are not at hand")


def _once(results: Cache[Value], key: tuple[str, Reading], compute: Callable[[], Value]) -> Value:
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


# One reading of one task, compared with the printed values.

Interval = tuple[float, float]
"""(lowest, highest); equal where the value is known."""
WIDEST = 1.0
"""In percentage points: a value that is known less well than this says nothing."""
MOST_ACCIDENTS = 0.05
"""Up to this expected number of accidental fits, a reading is named."""
_PLAIN_AXES = ("unit", "digits", "direction", "columns")
"""Axes that leave the ranks and what is measured from them as they are."""
_SLACK = 1e-9
_LIKE = 2
"""How many times as large as ours a value may be that is read as a fraction: recalls of one model and another setting
are this near, and those of chance are not."""


def value_of(label: str, ranks: KnownRanks, reading: Reading, recall: str, fixed: Mapping[str, float]) -> Interval:
    """Our value of a label but rsum, in the unit in which such measures are usually printed."""
    match = LABEL.fullmatch(label)
    name = measure_of(label)
    base, _, cutoff = name.partition("@")
    if match or (base in ("hit", "recall", "capped_recall") and cutoff.isdigit()):
        k = int(match[1] if match else cutoff)
        kind = (reading["recall"] or recall) if match else base
        return ranks.mean(BY_NAME["recall"][kind].do, (reading.do("cutoffs") or int)(k))
    is_plain = reading.departures == reading.only(_PLAIN_AXES).departures
    if name in fixed and (is_plain or base not in MEASURES):
        value = printed_value(name, fixed[name], label)
        return value, value
    ends = []
    for values in (ranks.lowest, ranks.highest):
        whole = np.where(np.isinf(values), 0, np.floor(values)).astype(np.int64)
        ids = pa.array(np.arange(len(ranks.weights))).cast(pa.string())
        record = Ranks(ids, ranks.offsets, whole, np.ones(len(whole), np.float32), None, max(ranks.sizes))
        column = measure(record, [name], beyond_depth=True)[name].to_numpy()
        mean = float(np.median(column)) if name == "median_rank" else float(ranks.weights @ column)
        ends.append(printed_value(name, mean, label))
    return min(ends), max(ends)


def _unit(reading: Reading | Combined) -> float:
    """What one, or a hundred percent, is printed as, in hundreds."""
    return 0.01 if reading["unit"] == "fraction" else 1.0


def printed(label: str, value: Interval, reading: Reading) -> Interval:
    """A value in the unit of the reading."""
    base = measure_of(label).partition("@")[0]
    is_share = label != "R-P" and base in MEASURES and MEASURES.get(base).unit == "fraction"
    if label == "rsum":  # nobody prints what a sum misses
        is_share = reading["unit"] == "fraction"
    change = reading.do("unit") if is_share else None
    return change(*value) if change else value


def judged(
    task: str, label: str, value: Interval, published: float, decimals: int, reading: Reading, recall: str
) -> Judgement:
    """Compare a value with a printed one."""
    low, high = value
    name = measure_of(label, reading["recall"] or recall)
    judgement = judge_one(task, label, name, (low + high) / 2, published, decimals)
    unit = 10.0 ** -decimals_of(label, decimals)
    digits: Digits = judgement.digits
    if high - low > _SLACK:
        inside = low - unit / 2 - _SLACK <= published <= high + unit / 2 + _SLACK
        narrow = high - low <= WIDEST * _unit(reading)
        digits = "bounded" if inside and narrow else "off"
    elif reading["digits"] == "cut" and abs(low - unit - published) < _SLACK:
        digits = "truncated"  # in binary, 0.57 × 100 is 56.99…: a program that cuts digits prints 56.9 for it
    elif reading["digits"] == "up":
        digits = "rounded" if -_SLACK <= published - low < unit - _SLACK else "off"
    return replace(judgement, digits=digits)


def fits(judgements: Sequence[Judgement], reading: Reading) -> bool:
    """Whether all printed digits follow from the values under the reading's way of dropping digits."""
    # A half may be rounded either way. What is rounded down may be cut as well.
    ways = {
        "rounded down" if value.digits == "rounded" and value.ours >= value.published - _SLACK else value.digits
        for value in judgements
    }
    accepts = reading.do("digits")
    return accepts(ways) if accepts else ways <= {"rounded", "rounded down", "summed", "bounded"}


@dataclass(frozen=True)
class ReadingTrial:
    """One reading of one task, compared with the printed values."""

    values: tuple[Judgement, ...]  # our values and the printed ones
    fits: bool  # whether all printed digits follow
    is_near: bool  # whether every value is as near as another sample of queries would give
    sums: Interval  # our rsum, for the sum over both tasks
    sizes: tuple[int, ...]  # the number of candidates of each fold
    slack: float = 1.0  # how many times as many values the bounds of ours let in

    @property
    def numbers(self) -> tuple[float, ...]:
        """Our values, to tell readings apart that give the same."""
        return tuple(round(value.ours, 9) for value in self.values)

    def recall(self, k: int, missing: float) -> float:
        """Our R@k."""
        return next((value.ours for value in self.values if value.label == f"R@{k}"), missing)


class Search:
    """A search over the readings of a published row, plainest first; what it finds stands in its attributes."""

    def __init__(
        self,
        bench: Bench,
        labels: Mapping[str, Mapping[str, float]],
        decimals: int,
        both: float | None = None,
        *,
        in_percent: bool = False,
    ) -> None:
        self.bench, self.labels, self.decimals, self.both, self.in_percent = bench, labels, decimals, both, in_percent
        self.tasks = list(labels)
        protocol = bench.material.protocol
        self.recall: str = "hit" if protocol is None else protocol.recall
        self.done: dict[tuple[str, Reading], ReadingTrial] = {}
        self.impossible: dict[tuple[str, Reading], str] = {}
        self._near: dict[str, set[tuple[float, ...]]] = {task: set() for task in self.tasks}
        self._compared: set[tuple[str, Reading]] = set()
        self._inert: dict[tuple[str, str], bool] = {}
        self._known: dict[str, list[Reading]] = {}  # by task: the readings of it that fit
        # The readings that give all digits at the first cost at which one does, the rarer axes last.
        self.fitting: tuple[Combined, ...] = ()
        self.accidents = 0.0  # the expected number of readings that fit by accident up to that cost
        self.tried = 1  # how many readings were compared
        self.at_chance: tuple[str, ...] = ()  # the tasks whose printed values are at chance
        self.below_chance = False  # whether nearly nothing is found, less than at random
        # What nobody wrote down: "fraction", the values are taken as fractions of 1, because in percent they would be
        # at chance or below it; "open", they may be percentages at chance or fractions of 1.
        self.unit: Literal["", "fraction", "open"] = ""

    @property
    def is_certain(self) -> bool:
        """Whether accidental fits are unlikely."""
        return self.accidents <= MOST_ACCIDENTS

    # one reading

    def trial(self, task: str, reading: Reading) -> ReadingTrial | None:
        """The trial of a reading; None if it cannot be computed (`impossible` has the reason)."""
        key = (task, reading)
        if key not in self.done and key not in self.impossible:
            try:
                self.done[key] = self._try(task, reading)
            except NotComputable as reason:
                self.impossible[key] = str(reason)
        return self.done.get(key)

    def _try(self, task: str, reading: Reading) -> ReadingTrial:
        (subject, _), *_ = reading.columns(task)
        for needed in {column for label in self.labels[task] for column, _ in self._columns(task, label, reading)}:
            refuse(needed not in self.bench.material.runs, f"the result has no {needed}")
        refuse(reading["recall"] == self.recall, "it is the recall of the result")
        refuse(reading["sum"] and "rsum" not in self.labels[task], "no rsum is printed")
        fixed = self.bench.material.fixed.get(subject, {})
        without = reading["sum"] == "with DCG" and "dcg_cm@10" not in fixed
        refuse(without, "the result has no DCG (dcg_cm@10)")
        ranks = self.bench.ranks(subject, reading)
        # An image that is there once for every caption is a query as often, and only one caption is right each time.
        recall = "recall" if reading["copies"] in ("own", "last") else self.recall
        values: list[Judgement] = []
        scale, unit, slack, near, is_other, wide = 100.0 * _unit(reading), 10.0**-self.decimals, 1.0, True, True, False
        for label, published in self.labels[task].items():
            if reading.only(RANK_AXES).departures and measure_of(label).startswith("dcg_cm"):
                # It is known of the result as it is only; where it agrees, the ranking is that of the result.
                known = judge_one(task, label, label, fixed[measure_of(label)], published, self.decimals)
                is_other = is_other and known.digits == "off"
                continue
            raw = self._value(task, label, reading, recall)
            own = printed(label, raw, reading)
            values.append(judged(task, label, own, published, self.decimals, reading, self.recall))
            wide = wide or raw[1] - raw[0] > WIDEST
            slack *= 1 + (raw[1] - raw[0]) / unit * scale / 100
            if label.startswith("R@"):
                near = near and is_near(values[-1].ours, published, max(len(ranks.weights), 1), unit, scale)
        if wide:
            refuse(
                self.bench.knows_all(subject),
                "so many scores are equal that the values are known only within wide bounds",
            )
            depth, remaining = self.bench.material.runs[subject].depth, min(self.bench.part(subject, reading).sizes)
            raise NotComputable(
                f"the run goes {depth} deep; of the remaining {remaining:,} candidates too few are left for many "
                "queries (search deeper, or give the collection and the model)"
            )
        judgements = sums_of_rounded(values, self.decimals)
        follows = bool(values) and is_other and fits(judgements, reading)
        sums = (0.0, 0.0) if self.both is None else self._value(task, "rsum", reading, recall)
        return ReadingTrial(judgements, follows, near and bool(values), sums, ranks.sizes, slack)

    def _columns(self, task: str, label: str, reading: Reading) -> list[tuple[str, int]]:
        """The columns that a printed value, or each recall of a printed sum, is made of."""
        match = LABEL.fullmatch(label)
        cutoffs = RSUM_CUTOFFS if label == "rsum" else (int(match[1]) if match else 0,)
        return [column for k in cutoffs for column in reading.columns(task, k)]

    def _value(self, task: str, label: str, reading: Reading, recall: str) -> Interval:
        """Our value of a label: of the columns that the reading takes for it."""
        if label == "rsum":
            recalls = [self._value(task, f"R@{k}", reading, recall) for k in RSUM_CUTOFFS]
            dcg = self.bench.material.fixed.get(reading.columns(task)[0][0], {}).get("dcg_cm@10", 0.0)
            add = reading.do("sum") or (lambda total, dcg: total)
            low, high = (add(sum(ends), dcg) for ends in zip(*recalls, strict=True))
            return low, high
        values = []
        for subject, k in self._columns(task, label, reading):
            ranks, fixed = self.bench.ranks(subject, reading), self.bench.material.fixed.get(subject, {})
            values.append(value_of(f"R@{k}" if k else label, ranks, reading, recall, fixed))
        low, high = (sum(ends) / len(values) for ends in zip(*values, strict=True))
        return low, high

    def _shared(self, reading: Reading) -> Combined:
        return Combined(tuple((task, reading) for task in self.tasks))

    def _fits(self, task: str, reading: Reading) -> bool:
        """Whether a reading fits; it is counted as compared."""
        trial = self.trial(task, reading)
        if trial is None:
            return False
        self._compared.add((task, reading))
        if trial.is_near:
            self._near[task].add(trial.numbers)
        return trial.fits

    def _fits_all(self, combined: Combined) -> bool:
        return all(self._fits(task, reading) for task, reading in combined.by_task) and self._sum_fits(combined)

    def _sum_fits(self, combined: Combined) -> bool:
        """Whether the printed sum over both tasks follows."""
        if self.both is None or len(self.tasks) < 2:
            return True
        low, high = self.sums(combined)
        scale = _unit(combined)
        slack = 10.0**-self.decimals * (1.5 if combined["digits"] else 3)  # sums of rounded values too
        return low * scale - slack <= self.both <= high * scale + slack

    def sums(self, combined: Combined) -> Interval:
        """Our rsum over the tasks of a reading that can be computed."""
        low, high = (sum(self.done[key].sums[end] for key in combined.by_task) for end in (0, 1))
        return low, high

    # all readings

    def run(self) -> Search:
        """Search."""
        plain = self._shared(Reading())
        if self._fits_all(plain):
            self.fitting, self.accidents = (plain,), self._accidents(plain, alone=True)
            return self
        positions = {task: self._position(task) for task in self.tasks}
        chance, below = (all(position == name for position in positions.values()) for name in ("at", "below"))
        if (chance or below) and self._may_be_fractions():
            self._found(self._plainest("fraction"))
            if self.fitting:
                return self
            self.unit = "fraction" if below or self._are_like_fractions() else "open"
        if not chance:
            self.below_chance = below and not self.unit
            self._found(self._plainest())
            self.unit = "" if self.fitting else self.unit
        elif self.unit != "fraction":  # noise: only a mix-up of captions and images with certain digits is named
            self.at_chance = tuple(self.tasks)
            mix_ups = [reading for reading in singles() if reading["links"]]
            mix_ups += [Reading.of(links=choice.name, recall="recall") for choice in BY_NAME["links"].choices]
            mixed = [shared for shared in map(self._shared, mix_ups) if self._fits_all(shared)]
            least = min((combined.cost for combined in mixed), default=0)
            self._found([combined for combined in mixed if combined.cost == least])
        self.tried = len(self._compared)
        return self

    def _found(self, fitting: Sequence[Combined]) -> None:
        self.fitting, self.tried = tuple(fitting), len(self._compared)
        self.accidents = self._accidents(fitting[0]) if fitting else 0.0

    def _plainest(self, with_unit: str | None = None) -> list[Combined]:
        """The fits of the least cost at which there is one."""
        self._known = {task: [] for task in self.tasks}
        fitting: list[Combined] = []
        levels = tiers()
        with Progress("explaining", sum(len(tier) for _, tier in levels), "readings") as advance:
            for number, (cost, tier) in enumerate(levels):
                readings = [reading for reading in tier if with_unit is None or reading["unit"] == with_unit]
                for wanted in (False, True):  # what needs no vectors comes first, because it is fast
                    some = [reading for reading in readings if reading.needs_vectors == wanted]
                    fitting += self._tier(some, advance)
                    least = min((combined.cost for combined in fitting), default=None)
                    is_last = wanted and (number + 1 == len(levels) or (least or 0) < levels[number + 1][0])
                    if least is not None and (is_last or self._is_settled(fitting, cost)):
                        fitting = [combined for combined in fitting if combined.cost == least]
                        return sorted(fitting, key=lambda combined: len(combined.readings))
        return []

    def _is_settled(self, fitting: Sequence[Combined], cost: int) -> bool:
        """Whether a fit as plain as any that is to come is no accident."""
        # One that needs vectors is not settled before the others that need them: they may be the same computation.
        best = next((combined for combined in fitting if combined.cost <= cost), None)
        if best is None or any(reading.needs_vectors for reading in best.readings):
            return False
        return self._accidents(best) <= MOST_ACCIDENTS

    def _tier(self, readings: Sequence[Reading], advance: Callable[[int], None]) -> list[Combined]:
        """The fits of one tier: one reading for both tasks, for one task only, or one of each."""
        plain = {task: self._fits(task, Reading()) for task in self.tasks}
        before = {task: list(known) for task, known in self._known.items()}
        places = {reading: place for place, reading in enumerate(readings)}
        fitting: list[Combined] = []
        for reading in sorted(readings, key=lambda reading: reading.searched.choices):  # so that one search serves
            advance(1)
            if reading.departures > 1 and any(self._changes_nothing(*choice) for choice in reading.choices):
                continue
            results: dict[str, bool] = {}
            for task in self.tasks:
                # Of a rare reading or a pair, this task is hopeless where the other one fits neither by it nor plain.
                hopeless = any(not does and not plain[other] for other, does in results.items())
                results[task] = not (hopeless and reading.cost > 1) and self._fits(task, reading)
                if results[task] and reading.departures:
                    self._known[task].append(reading)
            if all(results.values()) and self._sum_fits(self._shared(reading)):
                fitting.append(self._shared(reading))
        fitting.sort(key=lambda combined: places[combined.reading])
        return [*fitting, *self._of_one_direction(plain, before, places)]

    def _of_one_direction(
        self, plain: Mapping[str, bool], before: Mapping[str, list[Reading]], places: Mapping[Reading, int]
    ) -> Iterator[Combined]:
        """A reading of one task beside the plain one, or another one, of the other."""
        if len(self.tasks) != 2 or self.both is not None:
            return
        first, second = self.tasks
        new = {task: sorted(self._known[task][len(before[task]) :], key=places.__getitem__) for task in self.tasks}
        for single, other in (
            *((Reading(), reading) for reading in new[second] if plain[first]),
            *((reading, Reading()) for reading in new[first] if plain[second]),
            *product(new[first], self._known[second]),
            *product(before[first], new[second]),
        ):
            of_both = single["columns"] or other["columns"]  # an order of the whole table, or none
            if single != other and single.departures + other.departures <= 2 and not of_both:
                yield Combined(((first, single), (second, other)))

    def _changes_nothing(self, axis: str, name: str) -> bool:
        """Whether a choice alone gives the values of the plain reading, or cannot be computed."""
        # A split that is too large to search as a whole may be cut.
        if axis in ("digits", "unit", "split") or (axis == "ties" and name in USUAL_TIES):
            return False
        if (axis, name) not in self._inert:
            trials = [(self.trial(task, Reading(((axis, name),))), self.trial(task, Reading())) for task in self.tasks]
            self._inert[axis, name] = all(
                trial is None or (plain is not None and trial.numbers == plain.numbers) for trial, plain in trials
            )
        return self._inert[axis, name]

    # accidents and chance

    def _accidents(self, best: Combined, alone: bool = False) -> float:
        """The expected number of accidental fits among the readings that came near."""
        chance, near = 1.0, 0
        for task, reading in best.by_task:
            trial = self.trial(task, reading)
            queries = len(self.bench.ranks(task, Reading()).weights)
            of_task = chance_of_fit(self.labels[task], queries, self.decimals, 100 * _unit(best.reading))
            of_task *= 1.0 if trial is None else trial.slack
            of_task *= 2 ** len(self.labels[task]) if reading["digits"] == "mixed" else 1
            if reading.departures or len(best.readings) == 1:
                chance *= min(of_task, 1.0)
                near = max(near, len(self._near[task]))
        return chance if alone else (near + 1) * chance

    def _recalls(self, task: str) -> dict[int, float]:
        """The printed recalls by cutoff."""
        labels = self.labels[task].items()
        return {int(match[1]): value for label, value in labels if (match := LABEL.fullmatch(label))}

    def _position(self, task: str) -> str:
        """Whether the printed recalls, in percent, are "at" chance while ours are not, "below" it, or "above"."""
        plain, recalls = self.trial(task, Reading()), self._recalls(task)
        if plain is None or not recalls:
            return "above"
        ranks = self.bench.ranks(task, Reading())
        samples = min(len(ranks.weights), max(ranks.sizes) if task == "t2i" else len(ranks.weights))
        half = 10.0**-self.decimals / 2
        bounds = {k: interval_of_chance(ranks, k, samples) for k in recalls}
        if min(high for _, high in bounds.values()) > 20:
            return "above"  # so few candidates that chance says nothing, at no cutoff
        if all(bounds[k][0] - half <= value <= bounds[k][1] + half for k, value in recalls.items()):
            return "above" if all(plain.recall(k, 100.0) <= bounds[k][1] for k in recalls) else "at"
        deepest = max(recalls)
        return "below" if recalls[deepest] + half < bounds[deepest][0] else "above"

    def _may_be_fractions(self) -> bool:
        """Whether the printed recalls, and sums of three, may be fractions of 1, by their size and as they are
        written."""
        # Nobody prints a fraction with one digit.
        if self.in_percent or self.decimals < 2:
            return False
        sums = [part["rsum"] for part in self.labels.values() if "rsum" in part]
        recalls = [value for task in self.tasks for value in self._recalls(task).values()]
        return all(value <= 1 for value in recalls) and all(value <= len(RSUM_CUTOFFS) for value in sums)

    def _are_like_fractions(self) -> bool:
        """Whether values that may be fractions are most likely ones: three digits, or near the values of the result."""
        plain = {task: self.trial(task, Reading()) for task in self.tasks}
        pairs = [
            (0.0 if (trial := plain[task]) is None else trial.recall(k, 0.0), 100 * value)
            for task in self.tasks
            for k, value in self._recalls(task).items()
        ]
        return self.decimals > 2 or all(own / _LIKE <= value <= own * _LIKE for own, value in pairs)
