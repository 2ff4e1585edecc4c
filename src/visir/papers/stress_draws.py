"""Draws of what perturbations do: images are drawn with all their captions."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from visir.evaluation.stress.jaccard import GROUPS
from visir.evaluation.stress.stress import Stress
from visir.studies.experiment import Draws, finite, unit_means, unit_sums


def rsum_draws(study: Stress) -> dict[str, Draws]:
    """Draws of the rsum of text to image: "rsum" unperturbed, and under each perturbation by its name."""
    effects = [effect for effect in study.effects if effect.outcome.task == "t2i"]
    values = {"rsum": effects[0].before} | {effect.name: effect.after for effect in effects}
    return unit_means(_images(study), values)


def jaccard_draws(study: Stress) -> dict[str, Draws]:
    """Draws of the mean similarity of the sets of captions that two perturbations harm, help or leave."""
    effects = [effect for effect in study.effects if effect.outcome.task == "t2i"]
    changes = np.stack([effect.after - effect.before for effect in effects], axis=1)
    signs = np.where(np.abs(changes) < 1e-9, 0, np.sign(changes))
    draws = {}
    for group, sign in zip(GROUPS, (-1, 1, 0), strict=True):
        member = signs == sign
        pairs = list(combinations(range(len(effects)), 2))
        both = np.stack([member[:, first] & member[:, second] for first, second in pairs], axis=1)
        either = np.stack([member[:, first] | member[:, second] for first, second in pairs], axis=1)
        sums = unit_sums(_images(study), np.concatenate([both, either], axis=1).astype(np.float64))
        with np.errstate(invalid="ignore", divide="ignore"):
            draws[group] = np.nanmean(sums[:, : len(pairs)] / sums[:, len(pairs) :], axis=1)
    return finite(draws)


def _images(study: Stress) -> list[str]:
    """The image of each caption, in the order of the effects."""
    effect = next(effect for effect in study.effects if effect.outcome.task == "t2i")
    return [study.images[caption] for caption in effect.queries.to_pylist()]
