"""Significance over queries *and* trainings: is a recipe better than another for further photos and further seeds?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.evaluation.evaluate import Evaluation

Floats = NDArray[np.float64]
CUTOFFS = (1, 5, 10)


def crossed_test(differences: Floats) -> float:
    """Two-sided p of the mean of (seeds, images) paired differences, both being samples (minF′, Clark 1973).

    A test over queries alone takes the few trainings at hand for the recipe itself, and finds differences between two
    seeds of one recipe; a test over three seeds alone throws thousands of queries away. Here both are counted: the
    squared standard errors of the mean over images (each averaged over seeds) and over seeds (each averaged over
    images) are added, and Satterthwaite's formula gives the degrees of freedom. With seed i of one recipe paired with
    seed i of the other, which has the same batches.

    Simulated studies without a true difference (three seeds, 1,000 images whose differences deviate by 2.6 points, and
    seeds' by 0.15): p < 0.05 in 6 %; by images alone in 25 %.

    NaN when every seed and image differs by the same amount: there is no spread to judge by.

    Raises `VisirError` for fewer than two seeds or images.
    """
    if min(differences.shape) < 2:
        raise VisirError(
            f"{differences.shape[0]} seeds and {differences.shape[1]} images: both are samples, of two at least.",
            hint="train more seeds",
        )
    parts = [differences.mean(axis).var(ddof=1) / differences.shape[1 - axis] for axis in (0, 1)]
    freedom = [differences.shape[1 - axis] - 1 for axis in (0, 1)]
    total = sum(parts)
    if total == 0:
        return 1.0 if differences.mean() == 0 else float("nan")
    from scipy.stats import t as student

    degrees = total**2 / sum(part**2 / free for part, free in zip(parts, freedom, strict=True))
    return float(2 * student.sf(abs(differences.mean()) / np.sqrt(total), degrees))


def rsum_by_image(evaluation: Evaluation) -> Floats:
    """(images,) what each image adds to rsum, in points: its own hits, and the mean hits of its captions.

    Images are in the order of the result's i2t queries. With equally many captions per image the mean over images is
    the rsum of the result.
    """
    result, captions = evaluation.result, evaluation.captions
    assert captions is not None, "an evaluation knows its captions"
    hits = {task: sum(result.values(task, f"hit@{k}") for k in CUTOFFS) for task in ("i2t", "t2i")}
    images = result.per_query["i2t"]["query_id"].to_pylist()
    place = {image: at for at, image in enumerate(images)}
    owner = dict(zip(captions["id"].to_pylist(), captions["image_id"].to_pylist(), strict=True))
    at = np.array([place[owner[caption]] for caption in result.per_query["t2i"]["query_id"].to_pylist()])
    mean = np.bincount(at, hits["t2i"], len(images)) / np.bincount(at, minlength=len(images))
    values: Floats = 100 * (hits["i2t"] + mean)
    return values
