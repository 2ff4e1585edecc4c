"""Few-shot classifiers over several draws of shots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.classification.accuracy import Codes, Predictions, judged
from visir.evaluation.classification.features import Features
from visir.evaluation.classification.shot_probe import probe_scores
from visir.evaluation.classification.shots import first_of_each, shuffled_by_class
from visir.evaluation.classification.tip_adapter import tip_scores
from visir.evaluation.classification.truth import LabelledPictures
from visir.evaluation.classification.tuning import VALIDATION_SHOTS, Matrix, Shots, Tuning
from visir.evaluation.classification.zero_shot import unit
from visir.progress import Progress
from visir.records import Items

FEW_SHOT = ("linear-probe", "tip-adapter", "tip-adapter-f")
ALL = -1
"""Stands for all training pictures."""


@dataclass(frozen=True)
class FewShotPlan:
    """What is drawn and fitted."""

    methods: tuple[str, ...]  # some of `FEW_SHOT`
    shots: tuple[int, ...]  # pictures of each class, in ascending order; `ALL` for all
    draws: int  # how often shots are drawn
    tuning: Tuning  # what settings are chosen on
    seed: int  # the seed


@dataclass(frozen=True, eq=False)
class DrawnPictures:
    """The rows that each draw takes, by class in random order, and the vectors of the rows that are used."""

    codes: Codes  # (n,) the classes of all pictures
    orders: Sequence[Sequence[Codes]]  # for each draw and class the rows in the order of the draw
    vectors: NDArray[Any]  # (used, d) vectors
    places: Codes  # (n,) the row of each picture in `vectors`; -1 for unused and broken ones
    items: Items  # the n pictures

    def drawn(self, most: int | None) -> Codes:
        """The rows that any draw takes; without broken pictures."""
        rows: Codes = np.unique(np.concatenate([first_of_each(order, most) for order in self.orders]))
        used: Codes = rows[self.places[rows] >= 0]
        return used

    def take(self, draw: int, count: int | None) -> tuple[NDArray[Any], Codes]:
        """Vectors and classes of the first few pictures of each class of a draw."""
        rows = first_of_each(self.orders[draw], count)
        rows = rows[self.places[rows] >= 0]
        return self.vectors[self.places[rows]], self.codes[rows]


def draw_pictures(features: Features, pictures: LabelledPictures, plan: FewShotPlan, most: int | None) -> DrawnPictures:
    """Draw pictures and embed those that are used; all of them where that costs little."""
    ids = pictures.collection.images["id"].to_pylist()
    draws = plan.draws if most is not None else 1
    orders = [shuffled_by_class(ids, pictures.codes, len(pictures.classes), plan.seed, draw) for draw in range(draws)]
    orders *= plan.draws if most is None else 1
    rows = np.unique(np.concatenate([first_of_each(order, most) for order in orders]))
    items = pictures.items
    if len(rows) * 2 >= len(items) or features.at_hand(items):
        rows = np.arange(len(items))
    embeddings = features.of_pictures(items.take(rows))
    places = np.full(len(items), -1, np.int64)
    place_of = {name: row for row, name in enumerate(ids)}
    places[[place_of[name] for name in embeddings.ids.to_pylist()]] = np.arange(len(embeddings))
    return DrawnPictures(pictures.codes, orders, embeddings.vectors, places, items)


def count_measured(features: Features, training: DrawnPictures, most: int | None, measured: Items, vectors: Any) -> int:
    """How many of the pictures that are drawn are also among those that are measured (`Features.marks`)."""
    # vectors: (n, d) their vectors.
    rows = training.drawn(most)
    known = set(features.marks(measured, vectors))
    marks = features.marks(training.items.take(rows), training.vectors[training.places[rows]])
    return sum(mark in known for mark in marks)


def few_shot(
    plan: FewShotPlan,
    training: DrawnPictures,
    validation: DrawnPictures | None,
    pictures: NDArray[Any],
    truth: Codes,
    class_vectors: NDArray[Any] | None,
    classes: int,
) -> dict[tuple[str, int], Predictions]:
    """Fit every method to every draw, and predict."""
    # pictures: (n, d) vectors of the pictures that are measured.
    # truth: (n,) their classes.
    # class_vectors: (classes, d) unit vectors of the classes; None for a model without texts.
    tests = {False: _unit32(pictures), True: np.asarray(pictures, np.float32)}
    text = None if class_vectors is None else class_vectors.astype(np.float32)
    results: dict[tuple[str, int], list[Predictions]] = {
        (method, count): [] for method in plan.methods for count in plan.shots
    }
    total = sum(1 if count == ALL else plan.draws for count in plan.shots) * len(plan.methods)
    with Progress("fitting", total, "classifiers") as advance:
        for count in plan.shots:
            for draw in range(1 if count == ALL else plan.draws):
                for method in plan.methods:
                    raw = method == "linear-probe" and plan.tuning == "clip"
                    shots = _shots(plan, training, validation, draw, count, classes, raw)
                    if method == "linear-probe":
                        scores, setting = probe_scores(shots, tests[raw], clip=raw)
                    else:
                        trained = method == "tip-adapter-f"
                        scores, setting = tip_scores(shots, tests[False], text, trained=trained, seed=plan.seed + draw)
                    results[method, count].append(judged(scores, truth, setting))
                    advance()
    return {key: Predictions.stacked(draws) for key, draws in results.items()}


def _shots(
    plan: FewShotPlan,
    training: DrawnPictures,
    validation: DrawnPictures | None,
    draw: int,
    count: int,
    classes: int,
    raw: bool,
) -> Shots:
    number = None if count == ALL else count
    vectors, codes = training.take(draw, number)
    judged_vectors = judged_codes = None
    if validation is not None:
        most = None if number is None else min(number, VALIDATION_SHOTS)
        judged_vectors, judged_codes = validation.take(draw, most)
        judged_vectors = np.asarray(judged_vectors, np.float32) if raw else _unit32(judged_vectors)
    made = np.asarray(vectors, np.float32) if raw else _unit32(vectors)
    return Shots(made, codes, classes, judged_vectors, judged_codes, plan.tuning != "fixed")


def _unit32(vectors: NDArray[Any]) -> Matrix:
    unit_vectors: Matrix = unit(vectors).astype(np.float32)
    return unit_vectors
