"""Find the reading of the protocol that gives a published number: re-score under each, and rank them by distance."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from visir.display import Displayed, Tabular, brief
from visir.errors import ConfigurationError, VisirError
from visir.evaluation.brittleness_runs import evaluate_log, is_log
from visir.evaluation.brittleness_runs import read as read_log
from visir.evaluation.folds import folds_of
from visir.evaluation.measures import MEASURES, measure
from visir.evaluation.measures.measure import RSUM_CUTOFFS
from visir.evaluation.published import Judgement, PublishedRow
from visir.evaluation.published.given import EXAMPLE, published_row
from visir.evaluation.published.judge import Digits, judge_one, measure_of, printed_value, sums_of_rounded
from visir.evaluation.readings import NEVER, Reading, all_readings, recall_values
from visir.evaluation.rescoring import Material, NotComputable, rank, similarity_of_run
from visir.evaluation.results import Evaluation, load_evaluation
from visir.evaluation.signatures import remarks
from visir.records import TASKS, UNDECLARED, Ranks

_SAME = 1e-9


@dataclass(frozen=True)
class Fit(Displayed):
    """One reading, compared with the published values.

    Attributes:
        reading: The reading.
        values: Our values and the published ones.
        distance: The mean of |ours − published| / published, over all values but the cross-modal DCG, which does not
            depend on the reading of recall.
        candidates: For each task the number of candidates of each fold (one number: no folds).
        same: Other readings that give exactly the same values here.
    """

    reading: Reading
    values: tuple[Judgement, ...]
    distance: float
    candidates: Mapping[str, tuple[int, ...]]
    same: tuple[Reading, ...] = ()

    def __repr__(self) -> str:
        equal = f"{self.reproduced} of {len(self.values)} values equal as printed"
        return brief(self, f"{self.reading}: {100 * self.distance:.2f} % off, {equal}")

    @property
    def reproduced(self) -> int:
        """The number of values that agree with the printed digits, in any way."""
        return sum(value.digits != "off" for value in self.values)

    def count(self, digits: Digits) -> int:
        """Count the values that agree in one way.

        Args:
            digits: The way ("truncated": only if further digits are cut off).

        Returns:
            The number of values.
        """
        return sum(value.digits == digits for value in self.values)


@dataclass(frozen=True)
class Explanation(Tabular, view="visir.reports.views.explanation"):
    """All readings, the nearest first, and one sentence on the nearest.

    Attributes:
        sentence: Which reading gives the published values.
        fits: The readings in order of distance.
        not_computable: (reading in words, reason) of the readings that cannot be computed.
        scored: How the ranks were computed, and by which similarity.
        remarks: What the published row shows by itself (see `signatures.py`).
    """

    sentence: str
    fits: tuple[Fit, ...]
    not_computable: tuple[tuple[str, str], ...]
    scored: str
    remarks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        nearest = [f"{100 * fit.distance:.2f} % off: {fit.reading}" for fit in self.fits[:3]]
        more = f"{len(self.fits) - 3:,} more readings" if len(self.fits) > 3 else ""
        return brief(self, self.sentence, *nearest, more)

    @property
    def best(self) -> Fit:
        """The nearest reading; among equally near ones, that with the fewest departures from the usual reading."""
        return self.fits[0]


def explain(
    result: Any,
    published: Any,
    *,
    system: str | None = None,
    collection: str | None = None,
    decimals: int | None = None,
) -> Explanation:
    """Re-score runs under every reading that the material allows, and rank the readings by distance to a published row.

    Args:
        result: An `Evaluation`, the folder of one, or a `Material`, which with the vectors makes every reading
            computable.
        published: The published values: {"t2i R@1": 30.4} or {"t2i": {"R@1": 30.4}}, in the units of the paper; a row;
            a table, by its name or its file. The labels "R@k" and "rsum" are read in every way; labels that name a
            measure ("hit@5", "mrr") have one meaning.
        system: The name of the system in the published table, where it is another.
        collection: The name of the collection in the published table, where it is another.
        decimals: How many decimals the values are printed with; None takes those of the table, or of the values.

    Returns:
        The readings, the nearest first.

    Raises:
        VisirError: The row has no value for the tasks of the runs; or vectors are given for a run without a recorded
            similarity; or a search of the vectors does not give the run.
        ConfigurationError: A label of the row is not a measure.

    Example:
        >>> import visir
        >>> from visir.records import Collection
        >>> pictures = Collection.build(
        ...     "two pictures",
        ...     images={"id": ["a", "b"]},
        ...     captions={"id": ["1", "2"], "text": ["red", "blue"], "image_id": ["a", "b"]},
        ... )
        >>> own = {"image": {"a": [1, 0], "b": [0, 1]}, "text": {"1": [1, 0], "2": [1, 0]}}
        >>> explanation = visir.explain(visir.evaluate(pictures, vectors=own), {"t2i R@1": 50.0})
        >>> explanation.best.reading.recall, explanation.best.distance, explanation.best.reproduced
        ('hit', 0.0, 1)
    """
    material, named = _material(result)
    row, printed = published_row(published, list(material.runs), system=system, collection=collection, of=named)
    decimals = printed if decimals is None else decimals
    labels_by_task = {
        task: labels for task in TASKS if task in material.runs and (labels := _labels(row, task, material))
    }
    if not labels_by_task:
        raise VisirError(
            f"{row.system}: nothing is published for {' and '.join(material.runs)} that these runs can give.",
            hint="is it the right row, and the right task?",
        )
    cutoff = max(_deepest(label) for labels in labels_by_task.values() for label in labels)
    ranks_by_reading: dict[Reading, Mapping[str, list[Ranks]]] = {}
    impossible: dict[Reading, str] = {}
    fits: list[Fit] = []
    for reading in all_readings(max(folds_of(material.runs[task]) for task in labels_by_task)):
        search = reading.search
        if search not in ranks_by_reading and search not in impossible:
            try:
                ranks_by_reading[search] = {task: rank(material, task, search, cutoff) for task in labels_by_task}
            except NotComputable as reason:
                impossible[search] = str(reason)
        if search in ranks_by_reading:
            fits.append(_fit(reading, ranks_by_reading[search], material, row, labels_by_task, decimals))
    if not fits:
        raise VisirError(
            f"{row.system}: no reading can be computed: {'; '.join(dict.fromkeys(impossible.values()))}.",
            hint="explain the runs as they are, without collection and model",
        )
    fits.sort(key=lambda fit: (round(fit.distance, 9), fit.reading.departures))
    distinct: list[Fit] = []
    for fit in fits:
        for position, other in enumerate(distinct):
            if _equal(fit, other):
                distinct[position] = replace(other, same=(*other.same, fit.reading))
                break
        else:
            distinct.append(fit)
    return Explanation(
        _sentence(distinct[0], row),
        tuple(distinct),
        (*_plainest(impossible), *NEVER),
        _scored(material, list(labels_by_task)),
        remarks(row, material.protocol),
    )


def _material(result: Any) -> tuple[Material, tuple[str, str]]:
    """What can be re-scored, and the names of system and collection."""
    if isinstance(result, Material):
        return result, ("", result.protocol.collection if result.protocol is not None else "")
    if isinstance(result, (str, Path)):
        result = evaluate_log(read_log(result)) if is_log(result) else load_evaluation(result)
    if not isinstance(result, Evaluation):
        raise ConfigurationError(f"cannot explain a {type(result).__name__}.", hint=EXAMPLE)
    if not result.runs:
        raise VisirError(
            f"{result.system}: the runs are not at hand, and a reading is computed from them.",
            hint="evaluate again and save the evaluation: evaluation.save(FOLDER)",
        )
    return Material.of(result), (result.system, result.protocol.collection)


def _labels(row: PublishedRow, task: str, material: Material) -> list[str]:
    """The published labels of a task that can be computed from ranks, or that are available as fixed values."""
    labels = []
    for label in row.values.get(task, {}):
        name = measure_of(label)
        is_computable = name == "rsum" or name.partition("@")[0] in MEASURES or name in MEASURES
        if is_computable or name in material.fixed.get(task, {}):
            labels.append(label)
        elif name.partition("@")[0] != "dcg_cm":
            raise ConfigurationError(f"{row.system}: {task} {label!r} is no measure that visir knows.")
    return labels


def _deepest(label: str) -> int:
    name = measure_of(label)
    if name == "rsum":
        return max(RSUM_CUTOFFS)
    cutoff = re.search(r"@(\d+)$", name)
    return int(cutoff[1]) if cutoff and not name.startswith("dcg_cm") else 1


def _fit(
    reading: Reading,
    ranks: Mapping[str, list[Ranks]],
    material: Material,
    row: PublishedRow,
    labels_by_task: Mapping[str, list[str]],
    decimals: int,
) -> Fit:
    values: list[Judgement] = []
    sums: dict[str, float] = {}
    for task, labels in labels_by_task.items():
        sums[task] = _value("rsum", reading, ranks[task])
        for label in labels:
            name = measure_of(label, reading.recall)
            if name.startswith("dcg_cm"):
                if reading.search != Reading():
                    continue
                ours = material.fixed[task][name]
            else:
                ours = _value(label, reading, ranks[task])
            # The unit is that of the usual reading: R@k is a percentage whichever recall it is.
            shown = printed_value(measure_of(label), ours, label)
            values.append(judge_one(task, label, name, shown, row.values[task][label], decimals))
    if len(sums) == 2 and "rsum" in row.values.get("both", {}):
        published = row.values["both"]["rsum"]
        values.append(judge_one("both", "rsum", "rsum", sum(sums.values()), published, decimals))
    gaps = [abs(value.relative) for value in values if not value.measure.startswith("dcg_cm")]
    candidates = {name: tuple(part.gallery_size for part in parts) for name, parts in ranks.items()}
    return Fit(reading, sums_of_rounded(values, decimals), float(np.mean(gaps)) if gaps else 0.0, candidates)


def _value(label: str, reading: Reading, parts: list[Ranks]) -> float:
    """The value of a label: the mean over folds, of the mean over queries."""
    if label == "rsum":
        return 100 * sum(_value(f"R@{k}", reading, parts) for k in RSUM_CUTOFFS)
    ambiguous = re.fullmatch(r"(?:R|Recall)@(\d+)", label)
    if ambiguous:
        return float(np.mean([recall_values(part, reading.recall, int(ambiguous[1])).mean() for part in parts]))
    name = measure_of(label)
    columns = [measure(part, [name], beyond_depth=True)[name].to_numpy() for part in parts]
    summary = np.median if name == "median_rank" else np.mean
    return float(np.mean([summary(column) for column in columns]))


def _equal(first: Fit, second: Fit) -> bool:
    first_values, second_values = (
        [value.ours for value in fit.values if not value.measure.startswith("dcg_cm")] for fit in (first, second)
    )
    return len(first_values) == len(second_values) and bool(
        np.allclose(first_values, second_values, rtol=0, atol=_SAME)
    )


def _plainest(impossible: Mapping[Reading, str]) -> list[tuple[str, str]]:
    """(reading in words, reason), without combinations that fail for the same reason as a part of them."""
    plainest: list[tuple[Reading, str]] = []
    for reading, reason in sorted(impossible.items(), key=lambda item: item[0].departures):
        if not any(reason == other and plain.is_part_of(reading) for plain, other in plainest):
            plainest.append((reading, reason))
    # Whether a reading can be computed does not depend on the recall; its words come first and are dropped.
    return [(str(reading).partition("; ")[2], reason) for reading, reason in plainest]


def _scored(material: Material, tasks: Sequence[str]) -> str:
    similarities = [similarity_of_run(material.runs[task]) or UNDECLARED for task in tasks]
    anew = material.vectors is not None and all(material.runs[task].gallery.is_listed for task in tasks)
    how = "searched anew" if anew else "cut out of the run"
    return f"{how}; similarity: {' and '.join(dict.fromkeys(similarities))}"


def _over(fit: Fit) -> str:
    """The number of candidates in words; with folds, of each fold."""
    folds = max(len(sizes) for sizes in fit.candidates.values())
    sizes = []
    for task, several in fit.candidates.items():
        low, high = min(several), max(several)
        kind = "images" if task == "t2i" else "captions"
        sizes.append(f"{low:,} {kind}" if low == high else f"{low:,} to {high:,} {kind}")
    counted = " and ".join(sizes)
    return f"over all {counted}" if folds == 1 else f"each query within its own of {folds} folds of {counted}"


def _sentence(best: Fit, row: PublishedRow) -> str:
    where = f"{best.reading}, {_over(best)}"
    named = f"{row.system} on {row.collection}" if row.collection else row.system
    count = f"{best.reproduced} of {len(best.values)} published values of {named}"
    if best.reproduced == 0:
        return f"no reading gives the published values of {named}; the nearest is {where}, {best.distance:.1%} off."
    sentence = f"{where} reproduces {count} to the printed digits"
    ways: dict[Digits, str] = {
        "truncated": "truncated, not rounded",
        "summed": "summed from the rounded recalls",
    }
    special = [f"{best.count(way)} {words}" for way, words in ways.items() if best.count(way)]
    sentence += f" ({'; '.join(special)})" if special else ""
    off = [
        f"{value.task} {value.label} {value.ours:.2f}, printed {value.published:.2f}"
        for value in best.values
        if value.digits == "off"
    ]
    return sentence + (f"; off: {', '.join(off)}" if off else "") + "."
