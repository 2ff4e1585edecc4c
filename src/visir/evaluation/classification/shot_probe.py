"""The linear probe on few shots: logistic regression over frozen vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import require
from visir.evaluation.classification.tuning import Codes, Matrix, Shots
from visir.evaluation.linear_probe import expected_warnings

STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1_000.0, 10_000.0)
"""scikit-learn's C on unit vectors, from a strong penalty to a weak one."""
FIXED = 10.0
"""C where it is not chosen: with one shot and no validation pictures."""
STEPS = 1_000
_CLIP_GRID = np.logspace(-6, 6, 97)
_CLIP_COARSE = 16


def probe_scores(shots: Shots, pictures: Matrix, *, clip: bool = False) -> tuple[NDArray[np.float32], str]:
    """Fit a probe to shots and score pictures with it."""
    # Multinomial logistic regression with an L2 penalty (scikit-learn's, by L-BFGS, at most 1,000 steps). C is the one
    # of `STRENGTHS` with the highest likelihood on the validation pictures, or on held-out shots.
    # CLIP's reading (Radford et al. 2021, appendix A.3): C is searched from 1e-6 to 1e6 by accuracy, first at seven
    # places and then by halves around the best, to eight steps per decade; the probe is fitted anew to shots and
    # validation pictures. It takes vectors as the model gives them, and not of length 1.
    # pictures: (n, d) vectors.
    # Returns: (n, classes) scores, -inf for classes without shots; and the C, as text.
    require("sklearn", extra="classification", purpose="a linear probe")
    with expected_warnings():
        strength = _clip_strength(shots) if clip else _strength(shots)
        vectors, codes = shots.vectors, shots.codes
        if clip and shots.validation is not None and shots.validation_codes is not None:
            vectors = np.concatenate([vectors, shots.validation])
            codes = np.concatenate([codes, shots.validation_codes])
        return _Line(vectors, codes, strength).scores(pictures, shots.classes), f"C = {strength:g}"


class _Line:
    """A fitted probe."""

    # The solution lies in the span of the fitted vectors, because the penalty is on the weights' length. So where there
    # are fewer vectors than dimensions, it is sought in that span: the same solution, in a fraction of the time.

    def __init__(self, vectors: Matrix, codes: Codes, strength: float, line: Any = None) -> None:
        from sklearn.linear_model import LogisticRegression

        self.basis = np.linalg.qr(vectors.T.astype(np.float64))[0] if len(vectors) < vectors.shape[1] else None
        self.codes, self.line = np.unique(codes), line or LogisticRegression(max_iter=STEPS, warm_start=True)
        self.vectors, self.labels = self._inside(vectors), codes
        self.refit(strength)

    def refit(self, strength: float) -> None:
        """Fit it with another strength, from where it is."""
        if len(self.codes) > 1:
            self.line.set_params(C=strength).fit(self.vectors, self.labels)

    def scores(self, pictures: Matrix, classes: int) -> NDArray[np.float32]:
        """(n, classes) the log-odds of each class."""
        scores = np.full((len(pictures), classes), -np.inf, np.float32)
        if len(self.codes) == 1:
            scores[:, self.codes] = 0
            return scores
        decided = self.line.decision_function(self._inside(pictures))
        scores[:, self.codes] = np.stack([-decided, decided], axis=1) if decided.ndim == 1 else decided
        return scores

    def likelihood(self, pictures: Matrix, codes: Codes) -> float:
        """The mean log-likelihood of the right classes."""
        if len(self.codes) == 1:
            return 0.0
        chances = self.line.predict_proba(self._inside(pictures))
        chances = chances[np.arange(len(codes)), np.searchsorted(self.codes, codes)]
        return float(np.log(np.maximum(chances, 1e-30)).mean())

    def _inside(self, vectors: Matrix) -> NDArray[np.floating[Any]]:
        return vectors if self.basis is None else vectors @ self.basis


def _strength(shots: Shots) -> float:
    """The C with the highest likelihood."""
    likelihoods = np.zeros(len(STRENGTHS))
    parts = 0
    for fitted, codes, judged, judged_codes in shots.parts():
        known = np.isin(judged_codes, codes)
        if not known.any():
            continue
        parts += 1
        line = _Line(fitted, codes, STRENGTHS[0])
        for place, strength in enumerate(STRENGTHS):
            line.refit(strength)  # each C starts from the previous solution
            likelihoods[place] += line.likelihood(judged[known], judged_codes[known])
    return STRENGTHS[int(likelihoods.argmax())] if parts else FIXED


def _clip_strength(shots: Shots) -> float:
    """The C with the highest accuracy, by CLIP's search."""
    parts = list(shots.parts())
    if not parts:
        return FIXED
    accuracies: dict[int, float] = {}

    def accuracy(place: int) -> float:
        if place not in accuracies:
            hits = total = 0
            for fitted, codes, judged, judged_codes in parts:
                scores = _Line(fitted, codes, _CLIP_GRID[place]).scores(judged, shots.classes)
                hits += int((scores.argmax(axis=1) == judged_codes).sum())
                total += len(judged_codes)
            accuracies[place] = hits / total
        return accuracies[place]

    best = max(range(0, len(_CLIP_GRID), _CLIP_COARSE), key=accuracy)
    step = _CLIP_COARSE // 2
    while step:
        near = [place for place in (best, best - step, best + step) if 0 <= place < len(_CLIP_GRID)]
        best = max(near, key=accuracy)
        step //= 2
    return float(_CLIP_GRID[best])
