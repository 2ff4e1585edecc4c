"""What a classification found: accuracies by method and shots, confusions, predictions, and the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import visir.stats as stats
from visir.display import Plotted, Tabular, brief, counted
from visir.errors import VisirError
from visir.evaluation.results import Saved, plain

# Accuracy of classifiers: top-k, the mean over classes, and their intervals.

Codes = NDArray[np.int64]
_BLOCK = 1 << 22


@dataclass(frozen=True)
class Accuracy:
    """A share in [0, 1] with its 95 % interval.

    Attributes:
        mean: The share, or the mean of several draws.
        low: The lower end; NaN where there is none.
        high: The upper end.
        deviation: The standard deviation over draws; None for a single one.
    """

    mean: float
    low: float
    high: float
    deviation: float | None = None


@dataclass(frozen=True, eq=False)
class Predictions:
    """What one classifier says of every picture, draw by draw."""

    predicted: NDArray[np.int32]  # (draws, n) the class of the highest score; among equal scores a wrong one
    ranks: NDArray[np.int32]  # (draws, n) the rank of the right class, from 1; among equal scores the last
    settings: tuple[str, ...] = ("",)  # for each draw what was chosen: "C = 10"; "" for nothing

    @classmethod
    def stacked(cls, draws: Sequence[Predictions]) -> Predictions:
        """Several draws as one."""
        return cls(
            np.concatenate([draw.predicted for draw in draws]),
            np.concatenate([draw.ranks for draw in draws]),
            tuple(setting for draw in draws for setting in draw.settings),
        )


def judged(scores: NDArray[Any], truth: Codes, setting: str = "") -> Predictions:
    """Predictions from scores. A tie counts against the classifier: it could not tell the classes apart."""
    # scores: (n, classes) the higher, the better.
    # truth: (n,) the right class of each picture.
    ranks, predicted = np.empty(len(scores), np.int32), np.empty(len(scores), np.int32)
    step = max(1, _BLOCK // max(1, scores.shape[1]))
    for start in range(0, len(scores), step):
        part, right = scores[start : start + step], truth[start : start + step]
        rows = np.arange(len(part))
        own = part[rows, right]
        ranks[start : start + step] = (part >= own[:, None]).sum(axis=1)
        others = part.astype(np.float64)
        others[rows, right] = -np.inf
        best = others.argmax(axis=1)
        predicted[start : start + step] = np.where(own > others[rows, best], right, best)
    return Predictions(predicted[None], ranks[None], (setting,))


def top(predictions: Predictions, k: int) -> Accuracy:
    """The share of pictures whose right class is among the first k."""
    # The interval of one draw is Wilson's, over pictures. That of several draws is Student's t over draws: the pictures
    # that are predicted stay the same, other shots are drawn.
    return _share(predictions.ranks <= k)


def mean_per_class(predictions: Predictions, truth: Codes, classes: int) -> Accuracy:
    """The mean over classes of the share of pictures that are predicted rightly; classes without pictures are left
    out."""
    # What is random is the pictures of each class; the classes are fixed.
    if len(predictions.predicted) > 1:
        shares, counts = per_class(predictions, truth, classes)
        return over_draws(shares[:, counts > 0].mean(axis=1))
    mean = stats.estimate(predictions.predicted[0] == truth, strata=truth)
    return Accuracy(mean.value, mean.low, mean.high)


def per_class(predictions: Predictions, truth: Codes, classes: int) -> tuple[NDArray[np.float64], Codes]:
    """(draws, classes) the share of each class that is predicted rightly, NaN for none; (classes,) its pictures."""
    counts = np.bincount(truth, minlength=classes)
    hits = np.stack([np.bincount(truth, row == truth, minlength=classes) for row in predictions.predicted])
    with np.errstate(invalid="ignore"):
        return hits / counts, counts


def class_estimate(predictions: Predictions, truth: Codes, code: int) -> Accuracy:
    """The share of the pictures of one class that are predicted rightly."""
    hits = predictions.predicted[:, truth == code] == code
    return _share(hits) if hits.shape[1] else Accuracy(float("nan"), float("nan"), float("nan"))


def confusion(predictions: Predictions, truth: Codes, classes: int) -> Codes:
    """(classes, classes) how many pictures of each class (rows) are taken for each (columns), summed over draws."""
    counts = np.zeros((classes, classes), np.int64)
    for row in predictions.predicted:
        np.add.at(counts, (truth, row), 1)
    return counts


def _share(hits: NDArray[np.bool_]) -> Accuracy:
    """The share of (draws, n) hits: Wilson's interval over the pictures of one draw, or that over several draws."""
    if len(hits) > 1:
        return over_draws(hits.mean(axis=1))
    return Accuracy(float(hits.mean()), *stats.estimate(hits[0]).ends)


def over_draws(shares: NDArray[np.float64]) -> Accuracy:
    """The mean over draws with the 95 % interval of Student's t; no interval where all draws are equal."""
    mean = stats.estimate(shares, kind="mean", bounds=(0.0, 1.0))
    return Accuracy(mean.value, mean.low, mean.high, float(shares.std(ddof=1)))


Key = tuple[str, int]
"""A method and its number of shots; 0 for none, `ALL` for all training pictures."""
ALL = -1


@dataclass(frozen=True)
class ClassifierAccuracy:
    """How often one classifier is right.

    Attributes:
        method: "zero-shot", "zero-shot, plain", "linear-probe", "tip-adapter" or "tip-adapter-f".
        shots: The training pictures of each class; 0 for none, -1 for all.
        draws: The number of draws.
        top1: The share of pictures that are predicted rightly.
        top5: The share whose right class is among the first five; None with at most five classes.
        mean_per_class: The mean of the shares of the classes.
        settings: What was chosen in each draw.
    """

    method: str
    shots: int
    draws: int
    top1: Accuracy
    top5: Accuracy | None
    mean_per_class: Accuracy
    settings: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Classification(Tabular, Plotted, Saved):
    """How well a model classifies pictures, by method and number of shots.

    Attributes:
        source: The name of the pictures.
        model: The name of the model.
        classes: What the classes are called in the data.
        names: What they are called in prompts, the first name of each.
        ids: (n,) the pictures that were measured.
        truth: (n,) the right class of each, a place in `classes`.
        predictions: By method and shots.
        protocol: (label, value) rows: everything on which the numbers depend.
        notes: What a reader should know: classes with fewer pictures than shots, pictures left out.
        seed: The seed.
    """

    source: str
    model: str
    classes: tuple[str, ...]
    names: tuple[str, ...]
    ids: tuple[str, ...] = field(repr=False)
    truth: Codes = field(repr=False)
    predictions: Mapping[Key, Predictions] = field(repr=False)
    protocol: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()
    seed: int = 0

    def __repr__(self) -> str:
        best = [
            f"{method_title(row.method, row.shots)}: {100 * row.top1.mean:.1f} %{_ends(row.top1)}"
            for row in self.accuracies
        ]
        shown = best if len(best) <= 3 else [*best[:2], f"… {len(best) - 3} more", best[-1]]
        return brief(
            self,
            f"{self.model} on {self.source}: {counted(len(self.ids), 'pictures')}, {len(self.classes):,} classes",
            *shown,
            f"chance {100 * self.chance:.1f} %, most frequent class {100 * self.majority:.1f} %",
        )

    @property
    def chance(self) -> float:
        """The accuracy of guessing: 1 / classes."""
        return 1 / len(self.classes)

    @property
    def majority(self) -> float:
        """The share of the most frequent class among the pictures that were measured."""
        return float(np.bincount(self.truth).max() / len(self.truth))

    @cached_property
    def accuracies(self) -> tuple[ClassifierAccuracy, ...]:
        """The accuracy of each method with each number of shots."""
        rows = []
        for (method, shots), predictions in self.predictions.items():
            rows.append(
                ClassifierAccuracy(
                    method,
                    shots,
                    len(predictions.ranks),
                    top(predictions, 1),
                    top(predictions, 5) if len(self.classes) > 5 else None,
                    mean_per_class(predictions, self.truth, len(self.classes)),
                    predictions.settings,
                )
            )
        return tuple(rows)

    def accuracy(self, method: str | None = None, shots: int | None = None) -> ClassifierAccuracy:
        """Look up the accuracy of a method.

        Args:
            method: "zero-shot", "linear-probe", …; None takes zero-shot, or else the first.
            shots: The number of shots; None takes the most.

        Raises:
            VisirError: There is no such classifier.
        """
        key = self.key(method, shots)
        return next(row for row in self.accuracies if (row.method, row.shots) == key)

    def confusion(self, method: str | None = None, shots: int | None = None) -> pa.Table:
        """How often pictures of each class are taken for each: columns class, predicted, pictures; no zeros.

        Args:
            method: As of `accuracy`.
            shots: As of `accuracy`; draws are summed.
        """
        counts = self.confusion_counts(method, shots)
        rows, columns = np.nonzero(counts)
        return pa.table(
            {
                "class": [self.classes[row] for row in rows],
                "predicted": [self.classes[column] for column in columns],
                "pictures": counts[rows, columns],
            }
        )

    def confusion_counts(self, method: str | None = None, shots: int | None = None) -> Codes:
        """(classes, classes) the same as a matrix: right classes in rows, predicted ones in columns."""
        return confusion(self.predictions[self.key(method, shots)], self.truth, len(self.classes))

    def per_class(self, method: str | None = None, shots: int | None = None) -> dict[str, Accuracy]:
        """The share of the pictures of each class that are predicted rightly, with its interval.

        Args:
            method: As of `accuracy`.
            shots: As of `accuracy`.
        """
        predictions = self.predictions[self.key(method, shots)]
        return {name: class_estimate(predictions, self.truth, code) for code, name in enumerate(self.classes)}

    def key(self, method: str | None = None, shots: int | None = None) -> Key:
        """The key of a classifier in `predictions`, as `accuracy` looks it up."""
        methods = list(dict.fromkeys(name for name, _ in self.predictions))
        method = method or ("zero-shot" if "zero-shot" in methods else methods[0])
        available = [number for name, number in self.predictions if name == method]
        if not available:
            raise VisirError(
                f"there is no method {method!r} here.", hint=f"there are: {', '.join(methods)}", code="no-such-method"
            )
        number = shots if shots is not None else available[-1]
        if number not in available:
            raise VisirError(
                f"{method} was not measured with {number} shots.",
                hint=f"with: {', '.join(map(str, available))}",
                code="shots-not-measured",
            )
        return method, number

    def predicted(self) -> pa.Table:
        """Every prediction: id, class, method, shots, draw, predicted, and the rank of the right class."""
        ids, names = pa.array(self.ids), pa.array(self.classes)
        right = pa.DictionaryArray.from_arrays(pa.array(self.truth, pa.int32()), names)
        tables = []
        for (method, shots), predictions in self.predictions.items():
            for draw, (codes, ranks) in enumerate(zip(predictions.predicted, predictions.ranks, strict=True)):
                count = len(ids)
                tables.append(
                    pa.table(
                        {
                            "id": ids,
                            "class": right,
                            "method": pa.array([method] * count).dictionary_encode(),
                            "shots": pa.array(np.full(count, shots, np.int32)),
                            "draw": pa.array(np.full(count, draw, np.int32)),
                            "predicted": pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), names),
                            "rank": pa.array(ranks),
                        }
                    )
                )
        return pa.concat_tables(tables).unify_dictionaries()

    def to_dict(self) -> dict[str, Any]:
        """Everything but the predictions of single pictures, as plain values for JSON; undefined values are None."""
        return {
            "model": self.model,
            "source": self.source,
            "pictures": len(self.ids),
            "classes": list(self.classes),
            "names": list(self.names),
            "chance": self.chance,
            "majority": self.majority,
            "accuracies": [plain(asdict(row)) for row in self.accuracies],
            "protocol": dict(self.protocol),
            "notes": list(self.notes),
            "seed": self.seed,
        }


def method_title(method: str, shots: int) -> str:
    """A classifier in words: "linear-probe, 16 shots"."""
    if shots == 0:
        return method
    return f"{method}, {'all pictures' if shots < 0 else counted(shots, 'shots')}"


def _ends(estimate: Accuracy) -> str:
    return "" if isnan(estimate.low) else f" ({100 * estimate.low:.1f} to {100 * estimate.high:.1f})"
