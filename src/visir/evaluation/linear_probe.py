"""A linear probe: can a linear classifier read the values of a fact from vectors?"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from visir.errors import require

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""scikit-learn's C, the inverse of the L2 penalty: from a strong penalty to a weak one."""
STEPS = 1_000

Matrix = NDArray[np.floating]
Labels = NDArray[np.int64]


def held_out_hits(vectors: Matrix, labels: Labels, folds: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Predict each example with a probe that was not fitted to it."""
    # Each fold in turn is held out, and the probe is fitted to all the others. It is a multinomial logistic regression
    # with an L2 penalty (scikit-learn's, by L-BFGS, at most 1,000 steps) on dimensions standardised by the mean and
    # deviation of the fitted part. Otherwise the penalty would depend on the scale of each dimension.
    # The penalty is chosen again for every held-out fold: the next fold is the validation part, the probe is fitted to
    # the rest with C = 0.01, 0.1, … until the likelihood of the validation part falls, and then to both with the best
    # C. No single C is right for all facts. A fact in few weak directions needs a weak penalty (the second thing, in
    # captions of scenes-vse: 28 % with C = 0.1, 66 % with 10); a fact spread over all directions needs a strong one
    # (the subject, in images of scenes-heads: 45 % and 40 %). The likelihood is used, not the accuracy, because it
    # changes smoothly.
    # vectors: (n, d) the vectors.
    # labels: (n,) the value of each example, a code.
    # folds: (n,) the fold of each example; at least three folds.
    # Returns: (n,) whether the probe predicts the value.
    require("sklearn", extra="shortcuts", purpose="a linear probe")
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    hits = np.zeros(len(labels), bool)
    present = np.unique(folds)
    with expected_warnings():
        for fold, behind in zip(present, np.roll(present, -1), strict=True):
            held, validation = folds == fold, folds == behind
            values = np.unique(labels[~held])
            if len(values) == 1:  # a single value: it is always predicted
                hits[held] = labels[held] == values[0]
                continue
            scaled = StandardScaler().fit(vectors[~held]).transform(vectors)
            rest = ~(held | validation)
            strength = _strength(scaled[rest], labels[rest], scaled[validation], labels[validation])
            line = LogisticRegression(C=strength, max_iter=STEPS).fit(scaled[~held], labels[~held])
            hits[held] = line.predict(scaled[held]) == labels[held]
    return hits


@contextlib.contextmanager
def expected_warnings() -> Iterator[None]:
    """Leave out what scikit-learn warns of while probes are fitted, and what says nothing new here."""
    # A probe stops after its steps, and there may be few examples of many classes.
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The number of unique classes is greater than", UserWarning)
        yield


def _strength(vectors: Matrix, labels: Labels, validation: Matrix, validation_labels: Labels) -> float:
    """The C with the highest likelihood of the validation part; the search stops at the first worse one."""
    from sklearn.linear_model import LogisticRegression

    values = np.unique(labels)
    # A value that is not in the rest has no likelihood under any C.
    judged = np.isin(validation_labels, values)
    if len(values) == 1 or not judged.any():
        return STRENGTHS[0]
    place = (np.arange(judged.sum()), np.searchsorted(values, validation_labels[judged]))
    line = LogisticRegression(max_iter=STEPS, warm_start=True)  # each C starts from the previous solution
    best, likeliest = STRENGTHS[0], -np.inf
    for strength in STRENGTHS:
        line.set_params(C=strength).fit(vectors, labels)
        likelihood = float(np.log(np.maximum(line.predict_proba(validation[judged])[place], 1e-30)).mean())
        if likelihood <= likeliest:
            break
        best, likeliest = strength, likelihood
    return best
