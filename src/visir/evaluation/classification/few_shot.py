"""Few-shot classifiers over frozen vectors: pictures are drawn, settings are chosen, and each draw is predicted.

The methods are a linear probe, Tip-Adapter and Tip-Adapter-F (Zhang et al. 2022, ECCV): the shots as a cache of keys
and values beside the zero-shot classifier.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from visir.errors import require
from visir.evaluation.classification.class_names import SCALE, Features, unit
from visir.evaluation.classification.labelling import LabelledPictures
from visir.evaluation.classification.result import ALL, Codes, Key, Predictions, judged
from visir.evaluation.probes import expected_warnings
from visir.progress import Progress
from visir.records import Items

Matrix = NDArray[np.float32]
Tuning = Literal["auto", "validation", "cross-validation", "fixed", "clip"]

FEW_SHOT = ("linear-probe", "tip-adapter", "tip-adapter-f")


@dataclass(frozen=True)
class FewShotPlan:
    """What is drawn and fitted."""

    methods: tuple[str, ...]  # some of `FEW_SHOT`
    shots: tuple[int, ...]  # pictures of each class, in ascending order; `ALL` for all
    draws: int  # how often shots are drawn
    tuning: Tuning  # what settings are chosen on
    seed: int  # the seed
    train: str = "train"  # the split that shots are drawn from

    @property
    def most(self) -> int | None:
        """How many pictures of each class a draw takes at most; None for all."""
        return None if ALL in self.shots else max(self.shots)


# Which training pictures a draw takes.


def shuffled_by_class(ids: Sequence[str], codes: Codes, classes: int, seed: int, draw: int) -> list[Codes]:
    """The rows of each class in a random order: the first k of them are the k shots of a draw."""
    # So the shots of 2 are among those of 4, and curves over shots compare like with like. The order follows from the
    # ids and the seed alone, and not from the order of the rows.
    # ids: (n,) the pictures.
    # codes: (n,) the class of each.
    texts = (f"{seed}\0{draw}\0{identifier}".encode("utf-8", "surrogatepass") for identifier in ids)
    keys = np.array([hashlib.blake2b(text, digest_size=16).digest() for text in texts], "S16")
    order = np.argsort(keys, kind="stable")
    by_class = order[np.argsort(codes[order], kind="stable")]
    return np.split(by_class, np.cumsum(np.bincount(codes, minlength=classes))[:-1])


def first_of_each(rows: Sequence[Codes], count: int | None, skip: int = 0) -> Codes:
    """The first few rows of each class, class by class; None takes all."""
    end = None if count is None else skip + count
    return np.concatenate([of_class[skip:end] for of_class in rows]) if rows else np.zeros(0, np.int64)


def folds_of_shots(codes: Codes, most: int) -> Codes:
    """(n,) the fold of each shot: the shots of each class in turn, so every fold has about as many of each class."""
    # codes: (n,) the class of each shot, in the order of the draw.
    folds = np.empty(len(codes), np.int64)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        folds[rows] = np.arange(len(rows)) % most
    return folds


@dataclass(frozen=True, eq=False)
class DrawnPictures:
    """The rows that each draw takes, by class in random order, and the vectors of the rows that are used."""

    codes: Codes  # (n,) the classes of all pictures
    orders: Sequence[Sequence[Codes]]  # for each draw and class the rows in the order of the draw
    vectors: NDArray[Any]  # (used, d) vectors
    places: Codes  # (n,) the row of each picture in `vectors`; -1 for unused and broken ones
    items: Items  # the n pictures

    def take(self, draw: int, count: int | None) -> tuple[NDArray[Any], Codes]:
        """Vectors and classes of the first few pictures of each class of a draw."""
        rows = first_of_each(self.orders[draw], count)
        rows = rows[self.places[rows] >= 0]
        return self.vectors[self.places[rows]], self.codes[rows]

    def among(self, features: Features, most: int | None, measured: Items, vectors: NDArray[Any]) -> int:
        """How many of the pictures that any draw takes are also among those that are measured (`Features.marks`)."""
        # vectors: (n, d) those of the measured pictures.
        rows = np.unique(np.concatenate([first_of_each(order, most) for order in self.orders]))
        rows = rows[self.places[rows] >= 0]
        known = set(features.marks(measured, vectors))
        return sum(mark in known for mark in features.marks(self.items.take(rows), self.vectors[self.places[rows]]))


def draw_pictures(features: Features, pictures: LabelledPictures, plan: FewShotPlan, most: int | None) -> DrawnPictures:
    """Draw pictures and embed those that are used; all of them where that costs little."""
    items = pictures.items
    ids = items.ids.to_pylist()
    draws = plan.draws if most is not None else 1
    orders = [shuffled_by_class(ids, pictures.codes, len(pictures.classes), plan.seed, draw) for draw in range(draws)]
    orders *= plan.draws if most is None else 1
    rows = np.unique(np.concatenate([first_of_each(order, most) for order in orders]))
    if len(rows) * 2 >= len(items) or features.at_hand(items):
        rows = np.arange(len(items))
    embeddings = features.of_pictures(items.take(rows))
    places = np.full(len(items), -1, np.int64)
    place_of = {name: row for row, name in enumerate(ids)}
    places[[place_of[name] for name in embeddings.ids.to_pylist()]] = np.arange(len(embeddings))
    return DrawnPictures(pictures.codes, orders, embeddings.vectors, places, items)


# What the settings of a classifier are chosen on: never on the pictures that are measured.

FOLDS = 4
"""Of a cross-validation on the shots; with fewer shots, as many as there are."""
VALIDATION_SHOTS = 4
"""Validation pictures of each class are at most as many as the shots, and at most so many (as CoOp has it)."""


@dataclass(frozen=True, eq=False)
class Shots:
    """The training pictures of one draw, and what settings are chosen on."""

    vectors: Matrix  # (n, d) of the shots
    codes: Codes  # (n,) their classes
    classes: int  # how many classes there are
    validation: Matrix | None = None  # (m, d) of validation pictures; None to cross-validate on the shots
    validation_codes: Codes | None = None  # (m,) their classes
    tuned: bool = True  # whether settings are chosen; otherwise they are fixed

    def parts(self) -> Iterator[tuple[Matrix, Codes, Matrix, Codes]]:
        """(fitted, classes, held, classes) of each part on which settings are tried; none where they are fixed."""
        if not self.tuned:
            return
        if self.validation is not None and self.validation_codes is not None:
            yield self.vectors, self.codes, self.validation, self.validation_codes
            return
        most = int(np.bincount(self.codes).max(initial=0))
        folds = folds_of_shots(self.codes, min(FOLDS, most)) if most > 1 else np.zeros(0, np.int64)
        for fold in range(min(FOLDS, most) if most > 1 else 0):
            out = folds == fold
            # A class of which nothing is left cannot be predicted under any setting.
            held = out & np.isin(self.codes, self.codes[~out])
            if held.any():
                yield self.vectors[~out], self.codes[~out], self.vectors[held], self.codes[held]


def few_shot(
    plan: FewShotPlan,
    training: DrawnPictures,
    validation: DrawnPictures | None,
    pictures: NDArray[Any],
    truth: Codes,
    class_vectors: NDArray[Any] | None,
    classes: int,
) -> dict[Key, Predictions]:
    """Fit every method to every draw, and predict."""
    # pictures: (n, d) vectors of the pictures that are measured.
    # truth: (n,) their classes.
    # class_vectors: (classes, d) unit vectors of the classes; None for a model without texts.
    text = None if class_vectors is None else class_vectors.astype(np.float32)
    measured = {is_raw: _scaled(pictures, is_raw) for is_raw in (False, True)}
    results: dict[Key, list[Predictions]] = {(method, count): [] for method in plan.methods for count in plan.shots}
    draws = [(count, draw) for count in plan.shots for draw in range(1 if count == ALL else plan.draws)]
    with Progress("fitting", len(draws) * len(plan.methods), "classifiers") as advance:
        for (count, draw), method in product(draws, plan.methods):
            number = None if count == ALL else count
            is_raw = method == "linear-probe" and plan.tuning == "clip"
            vectors, codes = training.take(draw, number)
            held: tuple[Matrix | None, Codes | None] = (None, None)
            if validation is not None:
                most = None if number is None else min(number, VALIDATION_SHOTS)
                held_vectors, held_codes = validation.take(draw, most)
                held = _scaled(held_vectors, is_raw), held_codes
            shots = Shots(_scaled(vectors, is_raw), codes, classes, *held, plan.tuning != "fixed")
            if method == "linear-probe":
                scores, setting = probe_scores(shots, measured[is_raw], clip=is_raw)
            else:
                trained = method == "tip-adapter-f"
                scores, setting = tip_scores(shots, measured[False], text, trained=trained, seed=plan.seed + draw)
            results[method, count].append(judged(scores, truth, setting))
            advance()
    return {key: Predictions.stacked(of_key) for key, of_key in results.items()}


def _scaled(vectors: NDArray[Any], is_raw: bool) -> Matrix:
    """Vectors of length 1, or as the model gives them."""
    return np.asarray(vectors if is_raw else unit(vectors), np.float32)


# The linear probe on few shots: logistic regression over frozen vectors.

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

    def __init__(self, vectors: Matrix, codes: Codes, strength: float) -> None:
        from sklearn.linear_model import LogisticRegression

        self.basis = np.linalg.qr(vectors.T.astype(np.float64))[0] if len(vectors) < vectors.shape[1] else None
        self.codes, self.line = np.unique(codes), LogisticRegression(max_iter=STEPS, warm_start=True)
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
    for fitted, codes, held, held_codes in shots.parts():
        known = np.isin(held_codes, codes)
        if not known.any():
            continue
        parts += 1
        line = _Line(fitted, codes, STRENGTHS[0])
        for place, strength in enumerate(STRENGTHS):
            line.refit(strength)  # each C starts from the previous solution
            likelihoods[place] += line.likelihood(held[known], held_codes[known])
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
            for fitted, codes, held, held_codes in parts:
                scores = _Line(fitted, codes, _CLIP_GRID[place]).scores(held, shots.classes)
                hits += int((scores.argmax(axis=1) == held_codes).sum())
                total += len(held_codes)
            accuracies[place] = hits / total
        return accuracies[place]

    best = max(range(0, len(_CLIP_GRID), _CLIP_COARSE), key=accuracy)
    step = _CLIP_COARSE // 2
    while step:
        near = [place for place in (best, best - step, best + step) if 0 <= place < len(_CLIP_GRID)]
        best = max(near, key=accuracy)
        step //= 2
    return float(_CLIP_GRID[best])


# Tip-Adapter, and the training of its keys over frozen vectors.

ALPHA, BETA = 1.0, 5.5
"""The settings of the paper, where they are not chosen."""
ALPHAS = (0.1, 0.3, 0.6, 1.0, 2.0, 3.0, 5.0, 10.0)
BETAS = (1.0, 2.0, 3.5, 5.5, 8.0, 12.0, 20.0, 40.0)
_ENTRIES = 1 << 24
EPOCHS, BATCH, RATE = 20, 256, 1e-3
"""The paper's: 20 epochs of batches of 256, AdamW with a rate of 0.001 that falls by a cosine."""
_EPS, _DECAY, _MOMENTS = 1e-4, 0.01, (0.9, 0.999)


def tip_scores(
    shots: Shots, pictures: Matrix, class_vectors: NDArray[Any] | None, *, trained: bool = False, seed: int = 0
) -> tuple[NDArray[np.float32], str]:
    """Score pictures with a cache of shots."""
    #     scores = α · exp(-β (1 - f Kᵀ)) V + 100 · f Wᵀ
    # f are pictures, K the shots (keys), V their classes (one-hot), W the class vectors, all of length 1. α and β are
    # those of a grid with the highest accuracy on the validation pictures or on held-out shots; the highest likelihood
    # decides among equals. Tip-Adapter-F trains K first, with α and β of the paper.
    # The paper's keys are means over ten random crops of each shot, and Tip-Adapter-F trains on crops; here the vectors
    # are frozen, one for each shot.
    # pictures: (n, d) unit vectors.
    # class_vectors: (classes, d) unit vectors; None for a model without texts: then the cache decides alone.
    # Returns: (n, classes) scores, and the settings as text.
    alpha, beta = _settings(shots, class_vectors, trained, seed)
    keys = shots.vectors
    if trained:
        keys = trained_keys(keys, shots.codes, shots.classes, class_vectors, seed=seed)
    scores = cache_scores(pictures, keys, shots.codes, shots.classes, class_vectors, alpha, beta)
    return scores, f"β = {beta:g}" if class_vectors is None else f"α = {alpha:g}, β = {beta:g}"


def cache_scores(
    pictures: Matrix,
    keys: Matrix,
    codes: Codes,
    classes: int,
    class_vectors: NDArray[Any] | None,
    alpha: float,
    beta: float,
) -> NDArray[np.float32]:
    """(n, classes) the formula above, for given keys and settings."""
    scores = np.empty((len(pictures), classes), np.float32)
    # Keys of one class stand together, so that the cache is summed class by class.
    by_class = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[by_class], return_index=True)
    step = max(1, _ENTRIES // max(1, len(keys)))
    for start in range(0, len(pictures), step):
        part = pictures[start : start + step]
        affinity = np.exp(-beta * (1 - part @ keys[by_class].T))
        scores[start : start + step] = 0 if class_vectors is None else SCALE * (part @ class_vectors.T)
        scores[start : start + step, present] += alpha * np.add.reduceat(affinity, starts, axis=1)
    return scores


def _settings(shots: Shots, class_vectors: NDArray[Any] | None, trained: bool, seed: int) -> tuple[float, float]:
    """α and β: the first of the grid, by distance from the paper's, with the highest accuracy, then likelihood."""
    alphas = (ALPHA,) if class_vectors is None else ALPHAS
    grid = sorted(product(alphas, BETAS), key=lambda pair: abs(np.log(pair[0] / ALPHA)) + abs(np.log(pair[1] / BETA)))
    results = np.zeros((len(grid), 2))  # how many are predicted rightly, and the summed log-likelihood
    for fitted, codes, held, held_codes in shots.parts():
        keys = trained_keys(fitted, codes, shots.classes, class_vectors, seed=seed) if trained else fitted
        cached = {beta: cache_scores(held, keys, codes, shots.classes, None, 1.0, beta) for beta in BETAS}
        text = 0 if class_vectors is None else SCALE * (held @ class_vectors.T)
        for place, (alpha, beta) in enumerate(grid):
            scores = (alpha * cached[beta] + text).astype(np.float64)
            scores -= scores.max(axis=1, keepdims=True)
            likelihood = scores[np.arange(len(held)), held_codes] - np.log(np.exp(scores).sum(axis=1))
            results[place] += float((scores.argmax(axis=1) == held_codes).sum()), float(likelihood.sum())
    # Rounded, so that sums in another order do not decide among equals.
    best = max(range(len(grid)), key=lambda place: (results[place, 0], round(results[place, 1], 9), -place))
    return grid[best]


def trained_keys(
    vectors: Matrix,
    codes: Codes,
    classes: int,
    class_vectors: NDArray[Any] | None,
    *,
    alpha: float = ALPHA,
    beta: float = BETA,
    scale: float = SCALE,
    seed: int = 0,
) -> Matrix:
    """Keys that start as the shots and are trained by cross-entropy to classify the shots."""
    # The values, the class vectors and the pictures' vectors stay as they are.
    # vectors: (n, d) unit vectors of the shots.
    # codes: (n,) their classes.
    # class_vectors: (classes, d) unit vectors, or None.
    # Returns: (n, d) the keys, not brought to length 1.
    keys = vectors.astype(np.float32, copy=True)
    text = None if class_vectors is None else (scale * (vectors @ class_vectors.T)).astype(np.float32)
    one_hot = np.zeros((len(codes), classes), np.float32)
    one_hot[np.arange(len(codes)), codes] = 1
    first, second = np.zeros_like(keys), np.zeros_like(keys)
    rng = np.random.default_rng(seed)
    steps = EPOCHS * -(-len(keys) // BATCH)
    step = 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(keys))
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            gradient = key_gradient(
                keys, vectors[rows], codes[rows], one_hot, None if text is None else text[rows], alpha, beta
            )
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            step += 1
            keys *= np.float32(1 - rate * _DECAY)
            first += (1 - _MOMENTS[0]) * (gradient - first)
            second += (1 - _MOMENTS[1]) * (gradient * gradient - second)
            mean, square = first / (1 - _MOMENTS[0] ** step), second / (1 - _MOMENTS[1] ** step)
            keys -= np.float32(rate) * mean / (np.sqrt(square) + _EPS)
    return keys


def key_gradient(
    keys: Matrix, vectors: Matrix, codes: Codes, values: Matrix, text: Matrix | None, alpha: float, beta: float
) -> Matrix:
    """(n, d) the gradient of the mean cross-entropy of a batch with respect to the keys."""
    # keys: (n, d) the keys.
    # vectors: (b, d) the batch.
    # codes: (b,) its classes.
    # values: (n, classes) the classes of the keys, one-hot.
    # text: (b, classes) scaled cosines with the class vectors; None for none.
    affinity = np.exp(-beta * (1 - vectors @ keys.T))
    scores = alpha * (affinity @ values)
    if text is not None:
        scores += text
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(codes)), codes] -= 1
    chances /= len(codes)
    by_affinity = alpha * beta * (chances @ values.T) * affinity
    gradient: Matrix = (by_affinity.T @ vectors).astype(np.float32)
    return gradient
