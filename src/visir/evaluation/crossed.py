"""Significance over queries *and* trainings: is a recipe better than another, for new photos and new seeds?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.evaluation.results import Evaluation

Floats = NDArray[np.float64]
CUTOFFS = (1, 5, 10)


def crossed_test(differences: Floats) -> float:
    """Test the mean of paired differences over seeds and images, where both are samples (minF′, Clark 1973)."""
    # A test over queries alone treats the few available trainings as the recipe itself, and finds differences between
    # two seeds of one recipe. A test over three seeds alone ignores thousands of queries. This test uses both: it adds
    # the squared standard errors of the mean over images (each averaged over seeds) and over seeds (each averaged over
    # images), and takes the degrees of freedom from Satterthwaite's formula. Seed i of one recipe is paired with seed i
    # of the other, which has the same batches.
    # In simulated studies without a true difference (three seeds, 1,000 images with a standard deviation of the
    # differences of 2.6 points, and of 0.15 between seeds), p < 0.05 in 6 %; with a test by images alone in 17 %. With
    # two seeds it is 8 % (22 % by images alone), with five at most 5 % (`benchmarks/calibration.py`).
    # differences: (seeds, images), two of each at least.
    error, degrees = _error(differences)
    if error == 0:
        return 1.0 if differences.mean() == 0 else float("nan")
    from scipy.special import stdtr

    return float(2 * stdtr(degrees, -abs(differences.mean()) / error))


def crossed_interval(differences: Floats, level: float = 0.95) -> tuple[float, float]:
    """The confidence interval of the mean of `crossed_test`: for new photos and new seeds."""
    # differences: (seeds, images), two of each at least; values of one system alone give the interval of its mean.
    # Returns: (low, high); (NaN, NaN) where there is no spread.
    error, degrees = _error(differences)
    if error == 0:
        return float("nan"), float("nan")
    from scipy.special import stdtrit

    half = float(stdtrit(degrees, (1 + level) / 2)) * error
    return float(differences.mean()) - half, float(differences.mean()) + half


def _error(differences: Floats) -> tuple[float, float]:
    """The standard error of the mean over seeds and images, and its degrees of freedom."""
    if min(differences.shape) < 2:
        raise VisirError(
            f"{differences.shape[0]} seeds and {differences.shape[1]} images: both are samples, of two at least.",
            hint="train more seeds",
            code="both-samples-two-least",
        )
    parts = [differences.mean(axis).var(ddof=1) / differences.shape[1 - axis] for axis in (0, 1)]
    freedom = [differences.shape[1 - axis] - 1 for axis in (0, 1)]
    total = sum(parts)
    degrees = total**2 / sum(part**2 / free for part, free in zip(parts, freedom, strict=True)) if total else 1.0
    return float(np.sqrt(total)), float(degrees)


def rsum_by_image(evaluation: Evaluation) -> Floats:
    """The contribution of each image to rsum: its own hits, plus the mean hits of its captions."""
    # With equally many captions per image the mean over images is the rsum of the result.
    # Returns: (images,) points, in the order of the result's i2t queries.
    result, captions = evaluation.result, evaluation.captions
    assert captions is not None, "an evaluation knows its captions"
    hits = {task: sum(result.values(task, f"hit@{k}") for k in CUTOFFS) for task in ("i2t", "t2i")}
    images = result.per_query["i2t"]["query_id"].to_pylist()
    row_of = {image: row for row, image in enumerate(images)}
    owner = dict(zip(captions["id"].to_pylist(), captions["image_id"].to_pylist(), strict=True))
    rows = np.array([row_of[owner[caption]] for caption in result.per_query["t2i"]["query_id"].to_pylist()])
    mean = np.bincount(rows, hits["t2i"], len(images)) / np.bincount(rows, minlength=len(images))
    values: Floats = 100 * (hits["i2t"] + mean)
    return values
