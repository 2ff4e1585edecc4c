"""Find the reading of the protocol that gives a published number: the plainest that fits all printed digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from visir.collections import open_collection
from visir.display import Displayed, Tabular, brief
from visir.encoders import load
from visir.errors import ConfigurationError, VisirError, nearest
from visir.evaluation.brittleness_runs import evaluate_log, is_log
from visir.evaluation.brittleness_runs import read as read_log
from visir.evaluation.explaining.readings import NEVER, Combined, Reading, singles
from visir.evaluation.explaining.search import Bench, Search
from visir.evaluation.explaining.world import Material
from visir.evaluation.measures import MEASURES
from visir.evaluation.published import Published, PublishedRow
from visir.evaluation.published.denominators import remarks
from visir.evaluation.published.judge import EXAMPLE, Digits, Judgement, judge_one, measure_of, published_row
from visir.evaluation.results import Evaluation, load_evaluation
from visir.evaluation.systems import EncoderSystem
from visir.evaluation.systems.given import vectors_by_side
from visir.records import TASKS, Collection, Protocol, Vectors
from visir.records.collection import task_words
from visir.robustness.perturbations import PERTURBATIONS

_SAME = 1e-9
_OF_NOUGHT = 1.0
"""How far another value is from a printed 0."""


@dataclass(frozen=True)
class Fit(Displayed):
    """One reading, compared with the published values.

    Attributes:
        reading: The reading, of each task.
        values: Our values and the published ones.
        distance: The mean of |ours − published| / published, over all values but the cross-modal DCG, which does not
            depend on the reading of recall.
        candidates: For each task the number of candidates of each fold (one number: no folds).
        fits: Whether all printed digits follow.
        same: Other readings that give exactly the same values here.
    """

    reading: Combined
    values: tuple[Judgement, ...]
    distance: float
    candidates: Mapping[str, tuple[int, ...]]
    fits: bool
    same: tuple[Combined, ...] = ()

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

    def is_same(self, other: Fit) -> bool:
        """Whether another reading gives exactly the same values."""
        pairs = [(own.ours, others.ours) for own, others in zip(self.values, other.values, strict=False)]
        same = all(own == others or abs(own - others) <= _SAME for own, others in pairs)
        return same and len(self.values) == len(other.values)


Verdict = Literal["named", "several", "chance", "none"]


@dataclass(frozen=True)
class Explanation(Tabular):
    """The readings that give the published values, and the nearest others.

    Attributes:
        sentence: The answer in words.
        verdict: "named", one reading fits and accidental fits are unlikely; "several", the digits cannot tell;
            "chance", the values are at chance and no mix-up gives them; "none", no reading that can be computed fits.
        fits: The readings: those that fit, the plainest first, and then the others in order of distance.
        not_computable: (reading in words, reason) of the readings that cannot be computed.
        scored: How the ranks were computed, and by which similarity.
        remarks: What the published row shows by itself (see `published.denominators.remarks`), and which values are
            doubtful in print.
        accidents: The expected number of readings that fit by accident.
        decimals: How many decimals the published values are printed with; a label with its own has those.
    """

    sentence: str
    verdict: Verdict
    fits: tuple[Fit, ...]
    not_computable: tuple[tuple[str, str], ...]
    scored: str
    remarks: tuple[str, ...] = ()
    accidents: float = 0.0
    decimals: int = 2

    def __repr__(self) -> str:
        first = [f"{100 * fit.distance:.2f} % off: {fit.reading}" for fit in self.fits[:3]]
        more = f"{len(self.fits) - 3:,} more readings" if len(self.fits) > 3 else ""
        return brief(self, self.sentence, *first, more)

    @property
    def best(self) -> Fit:
        """The plainest reading that fits; the nearest one, if none does."""
        return self.fits[0]

    @property
    def named(self) -> tuple[Fit, ...]:
        """The readings that the answer names: one, or several that the digits cannot tell apart."""
        return tuple(fit for fit in self.fits if fit.fits)


def explain(
    result: Any,
    published: Any,
    *,
    source: Any = None,
    vectors: Any = None,
    model: Any = None,
    also: Sequence[str] | None = None,
    direction: str | None = None,
    system: str | None = None,
    collection: str | None = None,
    decimals: int | None = None,
) -> Explanation:
    """Find the plainest reading of the protocol that gives published values to all printed digits.

    Readings are tried plainest first: the protocol of the result, one departure from it, pairs, a few triples. The
    search stops where something fits. A reading of both directions is plainer than one of one direction only.

    Args:
        result: An `Evaluation`, the folder of one, a log of the brittleness paper, or a `Material`.
        published: The published values: {"t2i R@1": 30.4} or {"t2i": {"R@1": 30.4}}, in the units of the paper; a row;
            a table, by its name or its file. The labels "R@k" and "rsum" are read in every way; labels that name a
            measure ("hit@5", "mrr") have one meaning.
        source: The collection of the result, with all its splits, or its name. With `vectors` or `model` it makes
            readings of other splits, candidates and similarities computable.
        vectors: (images, texts), or {"image": …, "text": …} as `visir.evaluate` takes them: those that the result was
            made from, of its split or of the whole collection.
        model: The model of the result, or its name, in place of vectors: it encodes the splits that are tried.
        also: Further splits that `model` encodes, or "all". None is val and test, and whatever a file of vectors
            holds.
        direction: "t2i" or "i2t": explain the values of this direction only. Labels then need no direction.
        system: The name of the system in the published table, where it is another.
        collection: The name of the collection in the published table, where it is another.
        decimals: How many decimals the values are printed with; None takes those of the table, or of the values.

    Returns:
        The readings, those that fit first.

    Raises:
        VisirError: The row has no value for the tasks of the runs; the collection is not that of the result; or
            vectors are given for a run that is re-ranked or has no recorded similarity, or they are not those of it.
        ConfigurationError: A label of the row is not a measure, a value is no number, the direction or a split is
            unknown, `model` is given without `source`, or `source` or `vectors` has another form.

    Example:
        >>> import visir
        >>> from visir.records import Collection
        >>> pictures = Collection.build(
        ...     "two pictures",
        ...     images={"id": ["a", "b"]},
        ...     captions={"id": ["1", "2"], "text": ["red", "blue"], "image_id": ["a", "b"]},
        ... )
        >>> own = {"image": {"a": [1, 0], "b": [0, 1]}, "text": {"1": [1, 0], "2": [1, 0]}}
        >>> explanation = visir.explain(visir.evaluate(pictures, vectors=own), {"t2i R@1": "0.500"})
        >>> str(explanation.best.reading), explanation.best.reproduced
        ('printed as fractions of 1, not in percent', 1)
    """
    if source is not None and not isinstance(source, Collection):
        if not isinstance(source, (str, PathLike)):
            raise ConfigurationError(
                f"source: a Collection is needed, not a {type(source).__name__}.",
                hint="source=visir.open(…)",
                code="collection-needed-not",
            )
        source = open_collection(source)
    if model is not None or also:
        result, vectors = _searched_anew(result, source, model, also)
    material, names = _material(result, source, _pair(vectors))
    if direction is not None and direction not in material.runs:
        raise ConfigurationError(
            f"direction: the result has no {direction!r}.",
            hint=nearest(direction, tuple(material.runs)),
            code="result-no",
        )
    tasks = list(material.runs) if direction is None else [direction]
    row, printed, table = published_row(published, tasks, system=system, collection=collection, of=names)
    if (
        direction is not None
        and len(row.values) == 1
        and not {*TASKS, *material.runs, "both", "category"} & {*row.values}
    ):
        # A model card may call its one task "Retrieval": the caller says which direction it is.
        row = replace(row, values={direction: next(iter(row.values.values()))}, spread={})
    decimals = printed if decimals is None else decimals
    labels = _labels_of(row, material, tasks)
    both = row.values.get("both", {}).get("rsum") if len(labels) == 2 else None
    search = Search(Bench(material), labels, decimals, both, in_percent=row.in_percent).run()
    fits = _fits(search)
    if not fits:
        reasons = dict.fromkeys(search.impossible.values())
        raise VisirError(
            f"{row.system}: no reading can be computed: {'; '.join(reasons)}.",
            hint="explain the runs as they are, without collection and model",
        )
    reasons_of: dict[str, dict[str, None]] = {}  # of single departures, without those that would change nothing
    for (_, reading), reason in search.impossible.items():
        if reading.departures == 1:
            reasons_of.setdefault(reason, {})[str(reading)] = None
    impossible = (*((words, reason) for reason, several in reasons_of.items() for words in several), *NEVER)
    fitting = sum(fit.fits for fit in fits)
    verdict: Verdict = "chance" if search.at_chance else "none"
    if fitting:
        verdict = "named" if fitting == 1 and search.is_certain else "several"
    return Explanation(
        _sentence(search, fits, row, impossible),
        verdict,
        tuple(fits),
        impossible,
        search.bench.describe(labels),
        (*remarks(row, material.protocol), *_doubts(table, row, labels, material)),
        search.accidents,
        decimals,
    )


def _pair(vectors: Any) -> tuple[Vectors, Vectors] | None:
    """(images, texts)."""
    if vectors is None:
        return None
    if isinstance(vectors, Mapping) and set(vectors) == {"image", "text"}:
        by_side = vectors_by_side(vectors, [])
        vectors = (by_side["image"], by_side["text"])
    parts = vectors if isinstance(vectors, (tuple, list)) else ()
    modalities = [part.modality for part in parts if isinstance(part, Vectors)]
    if len(parts) != 2 or sorted(modalities) != ["image", "text"]:
        raise ConfigurationError(
            "vectors: those of the images and those of the captions are needed.",
            hint="vectors={'image': (ids, matrix), 'text': (ids, matrix)}, or two Embeddings, (images, texts)",
            code="images-captions-needed",
        )
    first, second = parts
    return (first, second) if first.modality == "image" else (second, first)


def _material(
    result: Any, source: Collection | None, vectors: tuple[Vectors, Vectors] | None
) -> tuple[Material, tuple[str, str]]:
    """What is at hand, and the names of system and collection."""
    if isinstance(result, Material):
        material = replace(result, source=source or result.source, vectors=vectors or result.vectors)
        return material, ("", result.protocol.collection if result.protocol is not None else "")
    result = _evaluation(result)
    if not result.runs:
        raise VisirError(
            f"{result.system}: the runs are not at hand, and a reading is computed from them.",
            hint="evaluate again and save the evaluation: evaluation.save(FOLDER)",
            code="runs-not-hand-reading",
        )
    return Material.of(result, vectors, source), (result.system, result.protocol.collection)


def _evaluation(result: Any) -> Evaluation:
    if isinstance(result, (str, Path)):
        result = evaluate_log(read_log(result)) if is_log(result) else load_evaluation(result)
    if not isinstance(result, Evaluation):
        raise ConfigurationError(f"cannot explain a {type(result).__name__}.", hint=EXAMPLE, code="cannot-explain")
    return result


def _searched_anew(
    result: Any, source: Collection | None, model: Any, also: Sequence[str] | None
) -> tuple[Evaluation, tuple[Vectors, Vectors]]:
    """The result, and the vectors by `model` of the splits that are tried: of all, where a file has them already."""
    evaluation = _evaluation(result)
    protocol = evaluation.protocol
    if source is None or model is None:
        what = "also names splits whose vectors are computed: " if model is None else "to search anew, "
        raise ConfigurationError(
            f"{what}collection and model are both needed.", hint="source=COLLECTION, model=MODEL (--data, --model)"
        )
    if protocol.rerank:
        raise ConfigurationError(
            f"{evaluation.system} is re-ranked ({protocol.rerank}); a new search would leave the second stage out.",
            hint="explain it without collection and model",
        )
    if source.fingerprint != protocol.collection_fingerprint:  # before hours of encoding
        raise ConfigurationError(
            f"{source.name} is not the collection of this result (fingerprint {source.fingerprint[:12]}, the "
            f"result's {protocol.collection_fingerprint[:12]}).",
            hint="name the collection that was evaluated",
        )
    splits = [name for name in source.splits if name]
    unknown = [name for name in also or () if name not in (*splits, "all")]
    if unknown:
        raise ConfigurationError(
            f"also: there is no split {', '.join(map(repr, unknown))}.", hint=nearest(unknown[0], (*splits, "all"))
        )
    encoder = load(model) if isinstance(model, (str, PathLike)) else model
    system = EncoderSystem(encoder)

    def encoded(part: Collection) -> tuple[Vectors, Vectors]:
        return system.vectors(part.items("image"), "document"), system.vectors(part.items("text"), "query")

    of_all = any("of the collection" in line for line in protocol.galleries.values()) or "all" in (also or ())
    if encoder.card.family == "imported" and not of_all:
        try:
            return evaluation, encoded(source)
        except VisirError:  # it holds vectors of some splits only
            return evaluation, encoded(source.split(protocol.split))
    others = also if also is not None else [name for name in splits if name in ("val", "test")]
    wanted = dict.fromkeys([*protocol.split.split("+"), *others])
    return evaluation, encoded(source if of_all or "all" in wanted else source.split("+".join(wanted)))


def _fits(search: Search) -> list[Fit]:
    """Those that fit, the plainest first; then the nearest of the plain reading and the single departures."""
    fitting = _distinct([_fit(search, combined, True) for combined in search.fitting])
    shown = {reading for fit in fitting for reading in (fit.reading, *fit.same)}
    others = []
    for reading in (Reading(), *singles()):
        combined = Combined(tuple((task, reading) for task in search.tasks))
        if combined not in shown and all(key in search.done for key in combined.by_task):
            others.append(_fit(search, combined, False))
    of_unit = [fit for fit in _distinct(others) if search.unit != "fraction" or fit.reading["unit"] == "fraction"]
    near = sorted(of_unit, key=lambda fit: (round(fit.distance, 9), fit.reading.cost))
    return [*fitting, *(fit for fit in near if not any(fit.is_same(other) for other in fitting))]


def _fit(search: Search, combined: Combined, fits: bool) -> Fit:
    """Show a reading that can be computed for every task."""
    values: list[Judgement] = []
    candidates: dict[str, tuple[int, ...]] = {}
    for task, reading in combined.by_task:
        trial = search.done[task, reading]
        values += trial.values
        (subject, _), *_ = reading.columns(task)
        # Of the result's own candidates as stated, where a gallery is known by its size only.
        gallery = search.bench.material.runs[subject].gallery
        is_stated = gallery.ids is None and gallery.size > 0
        is_stated = is_stated and trial.sizes == search.bench.part(subject, Reading()).sizes
        candidates[subject] = (gallery.size,) if is_stated else trial.sizes
    if search.both is not None and len(combined.by_task) == 2:
        ours = sum(search.sums(combined)) / 2
        values.append(judge_one("both", "rsum", "rsum", ours, search.both, search.decimals))
    relative = [abs(value.relative) for value in values if not value.measure.startswith("dcg_cm")]
    gaps = [gap if np.isfinite(gap) else _OF_NOUGHT for gap in relative]
    return Fit(combined, tuple(values), float(np.mean(gaps)) if gaps else 0.0, candidates, fits)


def _distinct(fits: Sequence[Fit]) -> list[Fit]:
    """Without readings that give exactly the values of an earlier one: they are named with it."""
    distinct: list[Fit] = []
    for fit in fits:
        same = next((place for place, other in enumerate(distinct) if fit.is_same(other)), None)
        if same is None:
            distinct.append(fit)
        else:
            distinct[same] = replace(distinct[same], same=(*distinct[same].same, fit.reading))
    return distinct


# Which printed values are explained: those of a task that can be computed from ranks, or that the result holds.


def _labels_of(row: PublishedRow, material: Material, tasks: Sequence[str]) -> dict[str, dict[str, float]]:
    """The printed values that are explained, by task and label; tasks without a value are absent."""
    # A table of rsum under perturbations names its columns after them: the column of the result's own perturbation is
    # its rsum, and the others are of other results.
    perturbation = None if material.protocol is None else material.protocol.perturbation
    unknown: list[str] = []
    labels: dict[str, dict[str, float]] = {}
    for task in (task for task in TASKS if task in tasks):
        printed = row.values.get(task, {})
        of_perturbations = any(label in PERTURBATIONS for label in printed)
        if perturbation and of_perturbations:
            if perturbation not in printed:
                raise VisirError(
                    f"{row.system}: no value is printed under {perturbation}, which this result is measured under.",
                    hint=f"printed are {', '.join(printed)}",
                )
            labels[task] = {"rsum": printed[perturbation]}
            continue
        part = {}
        for label, value in printed.items():
            name = measure_of(label)
            if (
                name == "rsum"
                or name.partition("@")[0] in MEASURES
                or name in MEASURES
                or name in material.fixed.get(task, {})
            ):
                part[label] = value
            elif not (of_perturbations or name.partition("@")[0] == "dcg_cm"):
                unknown.append(f"{task} {label!r}")
        if part:
            labels[task] = part
    if unknown:
        raise ConfigurationError(
            f"{row.system}: {', '.join(unknown)} {'is no measure' if len(unknown) == 1 else 'are no measures'} that "
            "visir knows.",
            hint="visir.measures() lists them; leave the others out",
        )
    if not labels:
        raise VisirError(
            f"{row.system}: nothing is published for {' and '.join(material.runs)} that these runs can give.",
            hint=f"is it the right row, and the right task? The row has {', '.join(row.values) or 'none'}; "
            "--direction t2i (in Python direction=) says which direction a task without one is",
            code="nothing-published-runs-give",
        )
    return labels


def _printed_label(label: str, task: str, row: PublishedRow, protocol: Protocol | None) -> str:
    """What the paper calls a value: rsum of a perturbed result is in the column of the perturbation."""
    perturbation = None if protocol is None else protocol.perturbation
    return perturbation if perturbation and label == "rsum" and perturbation in row.values.get(task, {}) else label


def _doubts(
    table: Published | None, row: PublishedRow, labels: Mapping[str, Mapping[str, float]], material: Material
) -> tuple[str, ...]:
    """Which of the explained values are doubtful in print, and why: once for each reason."""
    if table is None:
        return ()
    about: dict[str, list[str]] = {}
    for task, part in labels.items():
        for label in part:
            name = _printed_label(label, task, row, material.protocol)
            if reason := table.doubt(row, task, name):
                about.setdefault(reason, []).append(f"{task_words(task)} {name}")
    return tuple(f"doubtful in print, {', '.join(names)}: {reason}" for reason, names in about.items())


# The answer in words: what is certain, what cannot be told apart, and what could not be computed.

GIVE_VECTORS = "give the collection and the vectors (--data COLLECTION --model MODEL; in Python source= and vectors=)"
_SHOWN = 4
_WAYS: Mapping[Digits, str] = {
    "truncated": "truncated, not rounded",
    "summed": "summed from the rounded recalls",
    "bounded": "known within bounds, because the run goes no deeper",
}


def _sentence(search: Search, fits: Sequence[Fit], row: PublishedRow, not_computable: Sequence[tuple[str, str]]) -> str:
    """The answer."""
    named = f"{row.system} on {row.collection}" if row.collection else row.system
    fitting = [fit for fit in fits if fit.fits]
    first, says = fits[0], ""
    if search.at_chance:
        unless = " if they are percentages (as fractions of 1 no reading gives them)" if search.unit == "open" else ""
        says = (
            f"the published {' and '.join(search.at_chance)} values of {named} are at chance, no better than a random "
            f"ranking{unless}: look whether captions stand beside their own images. "
        )
    elif search.unit == "fraction":
        says = (
            f"the published values of {named} are taken as fractions of 1: as percentages they would be no better than "
            "a random ranking. "
        )
    elif search.below_chance:
        says = (
            f"the published values of {named} are below chance: nearly nothing is found, as when the worst are ranked "
            "first or ids do not match. "
        )
    if not fitting:
        if search.at_chance:
            return says.rstrip()
        off = [
            f"{value.task} {value.label} {value.ours:.2f}, printed {value.published:.2f}"
            for value in first.values
            if value.digits == "off"
        ]
        says += (
            f"no reading that can be computed gives all published values of {named}; the nearest is {first.reading}, "
            f"{over(first)}, {first.distance:.1%} off, with {first.reproduced} of {len(first.values)} to the printed "
            f"digits{'; off: ' if first.reproduced and off else ''}{', '.join(off[:6]) if first.reproduced else ''}."
        )
        if any("give the collection" in reason for _, reason in not_computable):
            says += f" Other splits, candidates and similarities could not be computed: {GIVE_VECTORS}."
        return says
    shown = "; or ".join(str(fit.reading) for fit in fitting[:_SHOWN])
    shown += f"; or {len(fitting) - _SHOWN} more" if len(fitting) > _SHOWN else ""
    count = f"{first.reproduced} of {len(first.values)} published values of {named}"
    if not search.is_certain:
        return (
            f"{says}the published values of {named} are too few, or have too few digits, to tell the protocol: a wrong "
            f"reading fits them by accident ({search.accidents:.2g} are expected, of {search.tried:,} that were "
            f"tried). What fits: {shown}."
        )
    if len(fitting) > 1:
        return (
            f"{says}the printed digits fit {len(fitting)} readings and cannot tell them apart: {shown}. Each "
            f"reproduces {count}."
        )
    recall = "" if first.reading.departures else f" (R@k: {search.recall})"
    special = "; ".join(f"{first.count(way)} {words}" for way, words in _WAYS.items() if first.count(way))
    says += f"{first.reading}{recall}, {over(first)} reproduces {count} to the printed digits"
    says += f" ({special})" if special else ""
    same = " / ".join(map(str, first.same[:_SHOWN]))
    return f"{says}. The same numbers come from: {same}." if same else f"{says}."


def over(fit: Fit) -> str:
    """The number of candidates in words; with folds, of each fold that has some."""
    present = {task: [size for size in sizes if size] or [0] for task, sizes in fit.candidates.items()}
    folds = max(map(len, present.values()), default=1)
    counts = []
    for task, several in present.items():
        low, high = min(several), max(several)
        kind = "images" if task == "t2i" else "captions"
        counts.append(f"{low:,} {kind}" if low == high else f"{low:,} to {high:,} {kind}")
    counted = " and ".join(counts)
    return f"over all {counted}" if folds == 1 else f"each query within its own of {folds} folds of {counted}"
