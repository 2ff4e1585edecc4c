"""Accuracy of classifiers: top-k, the mean over classes, and their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.evaluation.intervals import share_interval
from visir.evaluation.significance import mean_interval
from visir.wilson import wilson

Codes = NDArray[np.int64]
_BLOCK = 1 << 22


@dataclass(frozen=True)
class Estimate:
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


def top(predictions: Predictions, k: int) -> Estimate:
    """The share of pictures whose right class is among the first k."""
    # The interval of one draw is Wilson's, over pictures. That of several draws is Student's t over draws: the pictures
    # that are predicted stay the same, other shots are drawn.
    return _share(predictions.ranks <= k)


def mean_per_class(predictions: Predictions, truth: Codes, classes: int) -> Estimate:
    """The mean over classes of the share of pictures that are predicted rightly; classes without pictures are left
    out."""
    # What is random is the pictures of each class; the classes are fixed. The interval of one draw is Wilson's, over as
    # many pictures as the mean is worth. Its variance is that of the shares of the classes, each with half a right and
    # half a wrong picture added (Jeffreys), so that a class of two pictures is not certain because both are right. Few
    # small classes can decide it; then it is as much wider as Student's t is than the normal, with Satterthwaite's
    # degrees of freedom.
    from scipy.special import stdtrit

    shares, counts = per_class(predictions, truth, classes)
    seen = counts > 0
    if len(shares) > 1:
        return over_draws(shares[:, seen].mean(axis=1))
    pictures, mean = counts[seen], float(shares[0, seen].mean())
    likely = (shares[0, seen] * pictures + 0.5) / (pictures + 1)
    parts = likely * (1 - likely) / pictures / len(pictures) ** 2
    variance, middle = float(parts.sum()), float(likely.mean())
    worth = min(middle * (1 - middle) / variance, float(pictures.sum()))
    freedom = variance**2 / float((parts**2 / pictures).sum())
    return Estimate(mean, *wilson(mean, worth, float(-stdtrit(freedom, 0.025))))


def per_class(predictions: Predictions, truth: Codes, classes: int) -> tuple[NDArray[np.float64], Codes]:
    """(draws, classes) the share of each class that is predicted rightly, NaN for none; (classes,) its pictures."""
    counts = np.bincount(truth, minlength=classes)
    hits = np.stack([np.bincount(truth, row == truth, minlength=classes) for row in predictions.predicted])
    with np.errstate(invalid="ignore"):
        return hits / counts, counts


def class_estimate(predictions: Predictions, truth: Codes, code: int) -> Estimate:
    """The share of the pictures of one class that are predicted rightly."""
    hits = predictions.predicted[:, truth == code] == code
    return _share(hits) if hits.shape[1] else Estimate(float("nan"), float("nan"), float("nan"))


def confusion(predictions: Predictions, truth: Codes, classes: int) -> Codes:
    """(classes, classes) how many pictures of each class (rows) are taken for each (columns), summed over draws."""
    counts = np.zeros((classes, classes), np.int64)
    for row in predictions.predicted:
        np.add.at(counts, (truth, row), 1)
    return counts


def _share(hits: NDArray[np.bool_]) -> Estimate:
    """The share of (draws, n) hits: Wilson's interval over the pictures of one draw, or that over several draws."""
    if len(hits) > 1:
        return over_draws(hits.mean(axis=1))
    return Estimate(float(hits.mean()), *share_interval(hits[0]))


def over_draws(shares: NDArray[np.float64]) -> Estimate:
    """The mean over draws with the 95 % interval of Student's t; no interval where all draws are equal."""
    low, high = np.clip(mean_interval(shares), 0.0, 1.0).tolist()
    return Estimate(float(shares.mean()), low, high, float(shares.std(ddof=1)))
