"""Worlds of one system, of perturbations, and of studies of papers: shares, means, classes, draws, verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from calibration_rows import Promise, Simulation, covers, documented
from visir.evaluation.classification.result import Predictions, mean_per_class, over_draws
from visir.evaluation.stress.effect import rsum_changes
from visir.stats import estimate
from visir.stats.means import mean_interval, median_interval
from visir_papers.draws import difference_interval, few_units, unit_means
from visir_papers.verdicts import PairOrder, agreement, answer_of

SOURCES = ("evaluation", "papers", "studies", "stats")
"""What of visir these worlds measure."""
Rng = np.random.Generator


def simulations(scratch: Path) -> Iterator[Simulation]:
    """All of this module; `scratch` is not needed."""
    yield from _shares()
    yield from _means()
    yield from _medians()
    yield from _classes()
    yield from _stress()
    yield from _draws()
    yield from _verdicts()


def _shares() -> Iterator[Simulation]:
    cases = [(0.5, 10, 1, 0.0), (0.9, 10, 1, 0.0), (0.98, 50, 1, 0.0), (0.5, 200, 1, 0.0)]
    cases += [(0.5, 10, 5, 0.3), (0.9, 50, 5, 0.3), (0.98, 200, 5, 0.3), (0.98, 200, 5, 0.9)]
    for chance, images, captions, correlation in cases:

        def repeat(
            rng: Rng, case: tuple[float, int, int, float] = (chance, images, captions, correlation)
        ) -> Mapping[str, float]:
            chance, images, captions, correlation = case
            owners = np.repeat(np.arange(images), captions)
            shared, own = rng.random(images) < chance, rng.random(len(owners)) < chance
            hits = np.where(rng.random(len(owners)) < np.sqrt(correlation), shared[owners], own).astype(np.float64)
            return {"interval (Wilson)": covers(estimate(hits, owners).ends, chance)}

        each = "" if captions == 1 else f", {captions} captions each, correlation {correlation:g}"
        # A share of few queries takes few values: the coverage of Wilson's interval swings around 95 % (Brown, Cai &
        # DasGupta 2001).
        known = {"interval (Wilson)": documented(88, 99)} if captions == 1 and images < 100 else {}
        yield Simulation("shares of one system", f"{100 * chance:g} % of {images} images{each}", repeat, known)


def _means() -> Iterator[Simulation]:
    normal = np.random.default_rng(0).normal(size=2_000_000)
    ranks = np.minimum(np.ceil(np.exp(1 + 1.5 * normal)), 5_000)
    truths = {"reciprocal ranks": float((1 / ranks).mean()), "ranks": float(ranks.mean()), "counts of words": 8.0}
    for kind, truth in truths.items():
        for images in (10, 50, 500):

            def repeat(rng: Rng, kind: str = kind, images: int = images, truth: float = truth) -> Mapping[str, float]:
                if kind == "counts of words":  # two captions of each image, which correlate
                    owners = np.repeat(np.arange(images), 2)
                    values = rng.poisson(rng.gamma(16, 0.5, images)[owners]).astype(np.float64)
                    return {"interval (t)": covers(mean_interval(values, owners), truth)}
                drawn = np.minimum(np.ceil(np.exp(1 + 1.5 * rng.normal(size=images))), 5_000)
                return {"interval (t)": covers(mean_interval(1 / drawn if kind != "ranks" else drawn), truth)}

            of = "images, counts of words, two captions each" if kind == "counts of words" else f"queries, {kind}"
            bands = {10: documented(60, 90), 50: documented(70, 92), 500: documented(84, 95)}
            known = {"interval (t)": bands[images]} if kind == "ranks" else {}
            if (kind == "counts of words" and images == 10) or (kind == "reciprocal ranks" and images == 10):
                known = {"interval (t)": documented(91, 96)}
            yield Simulation("means of one system", f"{images} {of}", repeat, known)


def _medians() -> Iterator[Simulation]:
    for images, captions in ((10, 1), (50, 1), (500, 1), (20, 5), (200, 5)):

        def repeat(rng: Rng, images: int = images, captions: int = captions) -> Mapping[str, float]:
            owners = np.repeat(np.arange(images), captions)
            level = (rng.normal(size=images)[owners] + rng.normal(size=len(owners))) / np.sqrt(2)
            ranks = np.ceil(np.exp(3 + 1.5 * level))
            return {"interval of the median rank": covers(median_interval(ranks, owners), 21)}  # exp(3) is 20.1

        each = "" if captions == 1 else f", {captions} captions each"
        yield Simulation("means of one system", f"{images} images, ranks{each}", repeat)


def _classes() -> Iterator[Simulation]:
    for classes, pictures, chance in ((5, 2, 0.6), (10, 5, 0.8), (10, 5, 0.95), (100, 5, 0.8), (100, 50, 0.95)):
        chances = np.clip(np.linspace(chance - 0.15, chance + 0.15, classes), 0, 1)
        counts = np.where(np.arange(classes) % 2, pictures, 3 * pictures)

        def repeat(
            rng: Rng, chances: NDArray[np.float64] = chances, counts: NDArray[np.int64] = counts
        ) -> Mapping[str, float]:
            truth = np.repeat(np.arange(len(counts)), counts)
            right = rng.random(len(truth)) < chances[truth]
            predicted = np.where(right, truth, (truth + 1) % len(counts)).astype(np.int32)[None]
            estimate = mean_per_class(Predictions(predicted, predicted), truth, len(counts))
            return {"interval of the mean over classes": covers((estimate.low, estimate.high), float(chances.mean()))}

        case = f"{classes} classes of {pictures} or {3 * pictures} pictures, {100 * chance:g} % right"
        yield Simulation("classify", case, repeat, share=0.5)
    hundreds = (2, 3, 100, 100, 100)
    for case, pictures, chances in (
        ("classes of 2, 3 and three times 100 pictures, 60 % right", hundreds, (0.6,) * 5),
        ("classes of 2, 3 and three times 100 pictures, 90 % right", hundreds, (0.9,) * 5),
        ("classes of 2, 3 and three times 100 pictures, 50 and 98 % right", hundreds, (0.5, 0.5, 0.98, 0.98, 0.98)),
        ("classes of 5 and 500 pictures, 80 % right", (5, 500), (0.8, 0.8)),
        ("classes of 4 and nine times 1,000 pictures, 60 and 90 % right", (4, *[1_000] * 9), (0.6, *[0.9] * 9)),
        ("classes of 2, 3 and thirty times 100 pictures, 90 % right", (2, 3, *[100] * 30), (0.9,) * 32),
    ):

        def unequal(
            rng: Rng, pictures: Sequence[int] = pictures, chances: Sequence[float] = chances
        ) -> Mapping[str, float]:
            truth = np.repeat(np.arange(len(pictures)), pictures)
            right = rng.random(len(truth)) < np.array(chances)[truth]
            predicted = np.where(right, truth, (truth + 1) % len(pictures)).astype(np.int32)[None]
            estimate = mean_per_class(Predictions(predicted, predicted), truth, len(pictures))
            truth_of_mean = float(np.mean(chances))
            return {"interval of the mean over classes": covers((estimate.low, estimate.high), truth_of_mean)}

        yield Simulation("classify", case, unequal, share=0.5)
    for draws in (3, 5):

        def over(rng: Rng, draws: int = draws) -> Mapping[str, float]:
            estimate = over_draws(0.8 + 0.02 * rng.normal(size=draws))
            return {"interval over draws (t)": covers((estimate.low, estimate.high), 0.8)}

        yield Simulation("classify", f"{draws} draws of shots", over)


def _stress() -> Iterator[Simulation]:
    hits = np.array([0.0, 100, 200, 300])
    cases = [(changed, 100, easy) for changed in (5, 10, 15, 20, 30) for easy in (True, False)]
    cases += [(20, 20, True), (100, 100, True), (100, 100, False)]
    for changed, images, easy in cases:

        def repeat(rng: Rng, case: tuple[int, int, bool] = (changed, images, easy)) -> Mapping[str, float]:
            changed, images, easy = case
            owners = np.repeat(np.arange(images), 5)
            latent = (rng.normal(size=images)[owners] + rng.normal(size=len(owners))) / np.sqrt(2)
            chances = (0.15, 0.15, 0.2, 0.5) if easy else (0.5, 0.2, 0.15, 0.15)
            before = hits[np.searchsorted(ndtri(np.cumsum(chances)[:-1]), latent)]
            touched = owners < changed
            after = np.where(touched & (rng.random(len(owners)) < 0.3), 0.0, before)  # of the changed 30 % are lost
            (part,) = rsum_changes(before[touched], [after[touched]], owners[touched], seed=int(rng.integers(1 << 30)))
            measured = {
                "interval of changed only": covers(part.percent_interval, -30),
                "no interval: too few": float(part.is_too_few),
            }
            if changed == images:
                truth = -0.3 * float(hits @ np.array(chances))
                measured["interval in points"] = covers(part.points_interval, truth)
            return measured

        nothing = 100.0 if changed < 10 else 0.0
        known: dict[str, Promise] = {"no interval: too few": documented(nothing, nothing)}
        if changed < 30:
            known["interval of changed only"] = documented(84, 98)
        case = f"{changed} of {images} images changed, {'easy' if easy else 'hard'} task"
        yield Simulation("stress, changed only (rsum in percent)", case, repeat, known, 0.25)


def _draws() -> Iterator[Simulation]:
    for images in (10, 20, 100, 500):

        def bootstrapped(rng: Rng, images: int = images) -> Mapping[str, float]:
            owners = np.repeat(np.arange(images), 5)
            level = rng.normal(size=(2, images))[:, owners] + rng.normal(size=(2, len(owners)))
            # A new name each time, because the names are the seed of the draws.
            start = int(rng.integers(1 << 40))
            drawn = unit_means([f"{start + owner}" for owner in owners], {"a": level[0], "b": level[1]})
            ends = difference_interval(drawn["a"], drawn["b"])
            assert ends is not None, "both have draws"
            return {"interval of a pair": covers(ends, 0)}

        known = {10: documented(86, 94), 20: documented(90, 95)}
        case = f"{images} images of 5 captions, bootstrap"
        of = {"interval of a pair": known[images]} if images in known else {}
        yield Simulation("papers, draws of values", case, bootstrapped, of, 0.25)
    for seeds in (2, 3, 5):

        def of_seeds(rng: Rng, seeds: int = seeds) -> Mapping[str, float]:
            values = rng.normal(size=(seeds, 2))
            drawn = values.mean(axis=0) + few_units(values, 1 / seeds, f"{rng.integers(1 << 40)}")
            ends = difference_interval(drawn[:, 0], drawn[:, 1])
            assert ends is not None, "both have draws"
            return {"interval of a pair": covers(ends, 0)}

        yield Simulation("papers, draws of values", f"{seeds} seeds", of_seeds)

    def jackknifed(rng: Rng) -> Mapping[str, float]:
        visitors, groups = 400, np.arange(400) % 20
        visits = rng.geometric(0.4, visitors)
        rates = rng.beta(1, 9, (2, visitors))
        counts = rng.binomial(visits, rates)
        without = np.array(
            [[row[groups != group].sum() / visits[groups != group].sum() for row in counts] for group in range(20)]
        )
        values = counts.sum(axis=1) / visits.sum()
        drawn = values + few_units(without, 19**2 / 20, f"{rng.integers(1 << 40)}")
        ends = difference_interval(drawn[:, 0], drawn[:, 1])
        assert ends is not None, "both have draws"
        return {"interval of a pair": covers(ends, 0)}

    case = "400 visitors in 20 groups, jackknife of two rates of purchase"
    yield Simulation("papers, draws of values", case, jackknifed)


def _verdicts() -> Iterator[Simulation]:
    """Our systems stand in random order: how often is the paper said to be right?"""
    for systems, labels, collections, alike in (
        (3, 6, 1, True), (5, 6, 1, True), (8, 6, 1, True), (5, 6, 3, False), (5, 6, 3, True), (8, 6, 3, True)
    ):  # fmt: skip

        def repeat(
            rng: Rng, case: tuple[int, int, int, bool] = (systems, labels, collections, alike)
        ) -> Mapping[str, float]:
            counts = agreement([_random_pairs(*case, rng)], (), seed=int(rng.integers(1 << 30)))
            answer = answer_of(counts)
            more = counts.agreeing > counts.high
            return {"more agree than chance gives": float(more), "the answer is yes": float(answer == "yes")}

        order = ", in the same order on all" if alike and collections > 1 else ""
        words = f"{collections} collection{'s' if collections > 1 else ''}"
        known = {"more agree than chance gives": Promise("≤ 2.5", 0, 3.5)}
        known["the answer is yes"] = documented(6, 17) if systems == 3 else documented(0, 3)
        case = f"{systems} systems in random order, {labels} measures that go together, {words}{order}"
        yield Simulation("papers, verdicts on an order", case, repeat, known, 0.25)


def _random_pairs(systems: int, labels: int, collections: int, alike: bool, rng: Rng) -> list[PairOrder]:
    """Pairs of systems, printed in the order 0 > 1 > 2 …; ours are random. Small differences do not count."""
    pairs = []
    strength = rng.normal(size=systems)
    for collection in range(collections):
        own = (strength if alike else rng.normal(size=systems))[None] + 0.4 * rng.normal(size=(labels, systems))
        gaps = {
            (label, above, below): float(own[label, above] - own[label, below])
            for label in range(labels)
            for above, below in combinations(range(systems), 2)
        }
        pairs += [
            PairOrder(f"{collection}", f"{label}", f"{above}", f"{below}", gap, (gap - 0.4, gap + 0.4))
            for (label, above, below), gap in gaps.items()
        ]
    return pairs
