"""Worlds of two or more systems of retrieval: comparisons, families, categories, trainings, labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import visir
from calibration_rows import Floats, Simulation, covers, documented, rejects
from visir.evaluation.by_label import value_difference
from visir.evaluation.compare import paired_difference
from visir.products.evaluation import mean_by_category
from visir.stats import adjust, difference
from visir.stats.differences import difference_interval, paired_t, randomisation, wilcoxon
from visir.stats.means import mean_interval

SOURCES = ("evaluation", "products", "stats")
"""What of visir these worlds measure."""
Owners = NDArray[np.int64]
Rng = np.random.Generator
Rates = dict[str, float]
SIGNS = 1_000
"""Sign assignments of the randomisation test."""


def simulations(scratch: Path) -> Iterator[Simulation]:
    """All of this module; `scratch` is not needed."""
    yield from _by_image()
    yield from _by_caption()
    yield from _few_units()
    yield from _signed_ranks()
    yield from _near_a_ceiling()
    yield from _heavy_tails()
    yield from _beyond_the_answers()
    yield from _families()
    yield from _categories()
    yield from _trainings()
    yield from _labels()


def caption_differences(images: int, captions: str, correlation: float, rng: Rng) -> tuple[Floats, Owners]:
    """Differences of hits (−1, 0, 1 with chances ¼, ½, ¼) of two systems that are alike, and the image of each caption.

    A caption takes its image's value with the chance √correlation, otherwise one of its own: so two captions of one
    image correlate by just that.

    Args:
        images: How many.
        captions: Of each image; "1 to 20" are 1, 2, 5 or 20 with chances of 50, 20, 20 and 10 %.
        correlation: Of two captions of one image.
        rng: Of the draws.
    """
    sizes = rng.choice([1, 2, 5, 20], images, p=[0.5, 0.2, 0.2, 0.1]) if " " in captions else int(captions)
    owners = np.repeat(np.arange(images), sizes)
    shared, own = (rng.choice([-1.0, 0.0, 1.0], count, p=[0.25, 0.5, 0.25]) for count in (images, len(owners)))
    return np.where(rng.random(len(owners)) < np.sqrt(correlation), shared[owners], own), owners


def _by_image() -> Iterator[Simulation]:
    cases = [(8, "5", 0.3), (8, "1 to 20", 0.3), (20, "1", 0.0), (20, "5", 0.3), (20, "5", 0.9), (20, "1 to 20", 0.3)]
    cases += [(20, "1 to 20", 0.9), (100, "1", 0.0), (100, "5", 0.3), (100, "5", 0.9), (100, "1 to 20", 0.3)]
    cases += [(100, "1 to 20", 0.9), (500, "5", 0.3), (500, "1 to 20", 0.9)]
    for images, captions, correlation in cases:

        def repeat(rng: Rng, case: tuple[int, str, float] = (images, captions, correlation)) -> Mapping[str, float]:
            differences, owners = caption_differences(*case, rng)
            hits = (differences > 0).astype(np.float64), (differences < 0).astype(np.float64)
            return {
                "t": rejects(paired_t(differences, owners).p),
                "randomisation": rejects(randomisation(differences, owners, samples=SIGNS).p),
                "interval of hits": covers(difference_interval(*hits, owners), 0),
                "interval (t)": covers(mean_interval(differences, owners), 0),
            }

        each = f"{captions} caption{'' if captions == '1' else 's'} each"
        yield Simulation("compare, by image", f"{images} images, {each}, correlation {correlation:g}", repeat)


def _by_caption() -> Iterator[Simulation]:
    for captions, correlation, size in (("5", 0.3, 19), ("5", 0.9, 37), ("1 to 20", 0.3, 33), ("1 to 20", 0.9, 55)):

        def repeat(rng: Rng, case: tuple[int, str, float] = (100, captions, correlation)) -> Mapping[str, float]:
            differences, _ = caption_differences(*case, rng)
            hits = (differences > 0).astype(np.float64), (differences < 0).astype(np.float64)
            return {
                "t, by caption": rejects(paired_t(differences).p),
                "randomisation, by caption": rejects(randomisation(differences, samples=SIGNS).p),
                "interval, by caption": covers(difference_interval(*hits), 0),
            }

        known = {
            "t, by caption": documented(size - 6, size + 6),
            "randomisation, by caption": documented(size - 8, size + 5),
            "interval, by caption": documented(94 - size, 106 - size),
        }
        case = f"100 images, {captions} captions each, correlation {correlation:g}"
        yield Simulation("compare, --unit caption (a note warns)", case, repeat, known)


KINDS: dict[str, Callable[[Rng, int], Floats]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "of one size": lambda rng, n: rng.choice([-0.1, 0.1], n),
    "of nearly one size": lambda rng, n: rng.choice([-0.1, 0.1], n) * (1 + 0.01 * rng.normal(size=n)),
    "of two shares": lambda rng, n: rng.beta(0.5, 0.5, n) - rng.beta(0.5, 0.5, n),
}


def _few_units() -> Iterator[Simulation]:
    for kind, draw in KINDS.items():
        for units in (4, 5, 7, 9, 10):

            def repeat(rng: Rng, units: int = units, draw: Callable[[Rng, int], Floats] = draw) -> Mapping[str, float]:
                return _few(draw(rng, units), None)

            few_and_alike = units < 6 and kind.endswith("one size")
            known = {"interval": documented(82, 100)} if few_and_alike else {}
            yield Simulation("compare, few units", f"{units} differences, {kind}", repeat, known)
    for images in (5, 9):

        def clustered(rng: Rng, images: int = images) -> Mapping[str, float]:
            owners = np.repeat(np.arange(images), rng.integers(1, 6, images))
            return _few(rng.choice([-0.1, 0.1], images)[owners], owners)

        known = {"interval": documented(82, 96)} if images < 6 else {}
        case = f"{images} images of 1 to 5 captions, of one size in each image"
        yield Simulation("compare, few units", case, clustered, known)


def _few(differences: Floats, owners: Owners | None) -> Mapping[str, float]:
    return {
        "t": rejects(paired_t(differences, owners).p),
        "randomisation": rejects(randomisation(differences, owners, samples=SIGNS).p),
        "interval": covers(difference_interval(differences, np.zeros(len(differences)), owners), 0),
    }


def _signed_ranks() -> Iterator[Simulation]:
    """Wilcoxon's test: costly with few units, where all signs are tried."""
    for kind, units in [(kind, units) for kind in KINDS for units in (5, 7, 10, 16, 30)]:

        def repeat(rng: Rng, units: int = units, draw: Callable[[Rng, int], Floats] = KINDS[kind]) -> dict[str, float]:
            return {"Wilcoxon": rejects(wilcoxon(draw(rng, units)).p)}

        yield Simulation("compare, signed ranks", f"{units} differences, {kind}", repeat, share=0.25)
    for images, captions, correlation in ((50, "5", 0.3), (100, "5", 0.3), (100, "1 to 20", 0.9)):

        def of_images(rng: Rng, case: tuple[int, str, float] = (images, captions, correlation)) -> dict[str, float]:
            return {"Wilcoxon": rejects(wilcoxon(*caption_differences(*case, rng)).p)}

        case = f"{images} images, {captions} captions each, correlation {correlation:g}"
        yield Simulation("compare, signed ranks", case, of_images, share=0.5)


def _near_a_ceiling() -> Iterator[Simulation]:
    cases = [(0.985, 0.98, 50, True), (0.985, 0.98, 50, False), (0.97, 0.95, 50, True), (0.97, 0.95, 50, False)]
    cases += [(0.98, 0.98, 50, False), (0.985, 0.98, 500, True), (0.98, 0.98, 500, False), (0.9, 0.8, 10, True)]
    for chance, other, images, nested in cases:

        def repeat(
            rng: Rng, case: tuple[float, float, int, bool] = (chance, other, images, nested)
        ) -> Mapping[str, float]:
            chance, other, images, nested = case
            first = rng.random(images)
            second = first if nested else rng.random(images)
            hits = (first < chance).astype(np.float64), (second < other).astype(np.float64)
            measured = {
                "interval (Agresti and Min)": covers(difference_interval(*hits), chance - other),
                "interval by t (not used; none holds nothing)": float(
                    covers(mean_interval(hits[0] - hits[1]), chance - other) == 1
                ),
            }
            if chance == other:
                measured["t"] = rejects(paired_t(hits[0] - hits[1]).p)
                measured["randomisation (McNemar)"] = rejects(randomisation(hits[0] - hits[1]).p)
            return measured

        how = "the same queries are hard for both" if nested else "independent"
        case = f"{100 * chance:g} and {100 * other:g} % of {images}, {how}"
        known = {"interval by t (not used; none holds nothing)": documented(15, 98)}
        if nested and images == 500:  # all differences go one way, and in 8 % of the draws there is none
            known["interval (Agresti and Min)"] = documented(88, 95)
        yield Simulation("compare, near a ceiling", case, repeat, known)


def _ranks(location: float, spread: float, normal: Floats) -> Floats:
    """Ranks among 5,000 with a heavy tail: rounded up log-normal numbers."""
    ranks: Floats = np.minimum(np.ceil(np.exp(location + spread * normal)), 5_000)
    return ranks


EQUAL: dict[str, Callable[[Floats], Floats]] = {
    "mean rank": lambda ranks: ranks,
    "mean logarithm": np.log,
    "MRR": lambda ranks: 1 / ranks,
}


@cache
def _location(equal: str) -> float:
    """Where the second system lies, so that its shorter tail (1.5 for 2) gives the same mean of `EQUAL`."""
    from scipy.optimize import brentq

    normal, of = np.random.default_rng(0).normal(size=1_000_000), EQUAL[equal]
    truth = of(_ranks(1, 2, normal)).mean()
    return float(brentq(lambda location: of(_ranks(location, 1.5, normal)).mean() - truth, -1, 5, xtol=1e-4))


def _heavy_tails() -> Iterator[Simulation]:
    for equal in EQUAL:
        for queries in (50, 1_000):

            def repeat(rng: Rng, equal: str = equal, queries: int = queries) -> Mapping[str, float]:
                shared, *own = rng.normal(size=(3, queries))
                first, second = (np.sqrt(0.5) * (shared + normal) for normal in own)
                ranks = _ranks(1, 2, first), _ranks(_location(equal), 1.5, second)
                if equal == "mean rank":
                    return {
                        "t of the ranks (not used)": rejects(paired_t(ranks[0] - ranks[1]).p),
                        "interval of the ranks (not used)": covers(mean_interval(ranks[0] - ranks[1]), 0),
                    }
                if equal == "mean logarithm":
                    logarithms = np.log(ranks[0]) - np.log(ranks[1])
                    return {
                        "p of the logarithms": rejects(paired_t(logarithms).p),
                        "p of mean_rank as printed": rejects(
                            paired_difference("t2i", "mean_rank", ("a", "b"), *ranks).p
                        ),
                    }
                difference = paired_difference("t2i", "mrr", ("a", "b"), 1 / ranks[0], 1 / ranks[1])
                return {
                    "p of mrr": rejects(difference.p),
                    "interval of mrr": covers((difference.low, difference.high), 0),
                }

            known = {
                "t of the ranks (not used)": documented(5, 13),
                "interval of the ranks (not used)": documented(87, 95),
            }
            yield Simulation("compare, ranks with a long tail", f"equal {equal}, {queries:,} queries", repeat, known)


def _beyond_the_answers() -> Iterator[Simulation]:
    """A system that finds few of 30, but first, against one that finds most: runs of ten, of unknown candidates."""
    queries, depth = 30, 10
    judged = {f"q{query}": {f"d{query}": 1} for query in range(queries)}
    for finds in (2, 10, 20):

        def repeat(rng: Rng, finds: int = finds) -> Rates:
            places = {
                "most": np.where(rng.random(queries) < 0.95, rng.integers(1, depth, queries), -1),
                "few": np.where(np.arange(queries) < finds, 0, -1),
            }
            runs = {
                name: {
                    f"q{query}": {
                        f"d{query}" if rank == place else f"x{query}-{rank}": 1 - rank / 16 for rank in range(depth)
                    }
                    for query, place in enumerate(of_queries)
                }
                for name, of_queries in places.items()
            }
            difference = visir.compare(runs, qrels=judged, measures=["mean_rank"])["few", "mean_rank"]
            return {"few is better in mean_rank": float(difference.better and difference.p < 0.05)}

        case = f"one system finds {finds} of {queries}, the other 95 %"
        yield Simulation("compare, runs of unknown candidates", case, repeat, share=0.1)


def _families() -> Iterator[Simulation]:
    for true in (0, 6):

        def repeat(rng: Rng, true: int = true) -> Mapping[str, float]:
            baseline, systems = rng.normal(size=100), rng.normal(size=(12, 100))
            systems[:true] += 0.5
            p = [paired_t(system - baseline).p for system in systems]
            rates = {}
            for name in ("none", "bonferroni", "holm"):
                false = adjust(p, name)[true:] < 0.05
                rates[f"a false find among twelve, {name}"] = float(false.any())
            significant = adjust(p, "bh") < 0.05
            rates["share of finds that are false, bh"] = float(significant[true:].sum() / max(1, significant.sum()))
            return rates

        known = {"a false find among twelve, none": documented(12, 45)}
        case = f"{true or 'none'} of twelve systems {'differ' if true else 'differs'} from the baseline"
        yield Simulation("compare, families of twelve", case, repeat, known, 0.5)


def _categories() -> Iterator[Simulation]:
    for categories, linked in ((5, False), (7, False), (10, False), (30, False), (200, False), (30, True), (200, True)):

        def repeat(rng: Rng, categories: int = categories, linked: bool = linked) -> Mapping[str, float]:
            splits = rng.choice([1, 2, 3, 4, 5], categories, p=[0.4, 0.15, 0.1, 0.1, 0.25])
            own = np.repeat(np.arange(categories), splits)
            level = rng.normal(size=categories) * 0.2 + (0.05 * (splits - 2.65) if linked else 0.0)
            differences = level[own] + rng.normal(size=len(own)) * 0.1
            means = mean_by_category(differences, pa.array(list(map(str, own))))
            printed = paired_difference("general", "rprecision", ("a", "b"), means, np.zeros(categories))
            return {
                "t": rejects(printed.p),
                "interval": covers((printed.low, printed.high), 0),
                "t, splits counted (not used)": rejects(paired_t(differences, own).p),
            }

        case = f"{categories} categories in 1 to 5 splits{', those in many gain' if linked else ''}"
        known = {"t, splits counted (not used)": documented(*((6, 100) if linked else (0, 8)))}
        yield Simulation("products compare", case, repeat, known)


def _trainings() -> Iterator[Simulation]:
    # minF′ is a little too liberal where few seeds make most of the error.
    sizes = {2: (5, 12), 3: (4, 10), 5: (3, 8)}
    for own in (False, True):
        for seeds, (low, high) in sizes.items():

            def repeat(rng: Rng, seeds: int = seeds, own: bool = own) -> Mapping[str, float]:
                of_images = rng.normal(0, 2.6, (seeds, 1_000) if own else 1_000)
                differences = of_images + rng.normal(0, 0.15, seeds)[:, None]
                return {
                    "crossed test": rejects(difference(differences, 0).p),
                    "interval (crossed)": covers(difference(differences, 0).ends, 0),
                    "t by images alone (not used)": rejects(paired_t(differences.mean(axis=0)).p),
                }

            known = {"crossed test": documented(low, high), "interval (crossed)": documented(100 - high, 100 - low)}
            known["t by images alone (not used)"] = documented(10, 45)
            how = "every training has its own images" if own else "the same images for every training"
            yield Simulation("trainings compared (seeds and images)", f"{seeds} seeds, {how}", repeat, known)
    for seeds in (2, 3):

        def alike(rng: Rng, seeds: int = seeds) -> Mapping[str, float]:
            differences = rng.normal(0, 2.6, (seeds, 1_000)) + rng.normal(0, 2.6, 1_000)
            return {
                "crossed test": rejects(difference(differences, 0).p),
                "interval (crossed)": covers(difference(differences, 0).ends, 0),
            }

        case = f"{seeds} seeds that do not differ"
        yield Simulation("trainings compared (seeds and images)", case, alike)


def _labels() -> Iterator[Simulation]:
    cases = [(0.5, 0.5, 10, 10), (0.5, 0.5, 100, 100), (0.9, 0.9, 30, 30), (0.98, 0.98, 50, 50), (0.99, 0.95, 50, 50)]
    cases += [(0.1, 0.1, 1_000, 15), (0.02, 0.02, 1_000, 5), (0.5, 0.5, 1_000, 5), (0.02, 0.02, 500, 3)]
    cases += [(0.1, 0.4, 1_000, 15), (0.5, 0.5, 200, 20), (0.1, 0.1, 100, 1)]
    for first, second, *images in cases:

        def repeat(rng: Rng, chances: tuple[float, float] = (first, second), images: list[int] = images) -> Rates:
            sides = [
                (rng.random(size) < chance).astype(np.float64) for size, chance in zip(images, chances, strict=True)
            ]
            return _of_labels(*((side, np.arange(len(side))) for side in sides), truth=chances[0] - chances[1])

        each = f"{images[0]} images each" if images[0] == images[1] else f"{images[0]:,} and {images[1]} images"
        case = f"{100 * first:g} and {100 * second:g} % of {each}"
        yield Simulation("labels, on different images", case, repeat, NEVER)
    for chance, correlation, images, captions in (
        (0.1, 0.9, [1_000, 15], "5"), (0.1, 0.5, [1_000, 15], "1 to 20"), (0.05, 0.9, [1_000, 30], "1 to 20"),
        (0.02, 0.5, [100, 100], "1 to 20"), (0.5, 0.5, [200, 10], "1 to 20"), (0.3, 0.3, [20, 20], "5"),
    ):  # fmt: skip

        def clustered(
            rng: Rng,
            case: tuple[float, float, str] = (chance, correlation, captions),
            images: list[int] = images,
        ) -> Rates:
            return _of_labels(*(_caption_hits(*case, size, rng) for size in images), truth=0.0)

        case = f"{100 * chance:g} % of {images[0]:,} and {images[1]} images, {captions} captions each"
        case += f", correlation {correlation:g}"
        yield Simulation("labels, on different images", case, clustered, NEVER, share=0.5)
    for kind, draw in GRADED.items():
        for images in ([1_000, 15], [100, 3], [10, 10], [5, 8]):

            def graded(rng: Rng, draw: Callable[[Rng, int], Floats] = draw, images: list[int] = images) -> Rates:
                return _of_labels(*((draw(rng, size), np.arange(size)) for size in images), truth=0.0)

            case = f"{images[0]:,} and {images[1]} images, {kind}"
            yield Simulation("labels, on different images", case, graded, NEVER, share=0.25)
    for labels, images in ((6, [1_000, 300, 100, 30, 10, 5]), (12, [200] + [15] * 11)):

        def family(rng: Rng, images: list[int] = images) -> Rates:
            sides = [(rng.random(size) < 0.1).astype(np.float64) for size in images]
            starts = np.cumsum([0, *images])
            owned = [(side, start + np.arange(len(side))) for side, start in zip(sides, starts, strict=False)]
            p = adjust([value_difference(*a, *b)[-1] for a, b in combinations(owned, 2)])
            return {"any pair after Holm": float((p < 0.05).any())}

        case = f"all pairs of {labels} labels of {images[0]:,} to {images[-1]} images, 10 %"
        yield Simulation("labels, on different images", case, family, share=0.25)


NEVER = {"p and interval differ": documented(0, 0)}
GRADED: dict[str, Callable[[Rng, int], Floats]] = {
    "10 % are above 0": lambda rng, n: np.where(rng.random(n) < 0.1, rng.beta(2, 2, n), 0.0),
    "reciprocal ranks": lambda rng, n: 1 / _ranks(1, 1.5, rng.normal(size=n)),
    "70 % are above 0": lambda rng, n: np.where(rng.random(n) < 0.7, rng.beta(3, 1.5, n), 0.0),
    "ranks": lambda rng, n: _ranks(1, 1.5, rng.normal(size=n)),
}


def _caption_hits(chance: float, correlation: float, captions: str, images: int, rng: Rng) -> tuple[Floats, Owners]:
    """Hits of captions that correlate within an image, and the images."""
    sizes = rng.choice([1, 2, 5, 20], images, p=[0.5, 0.2, 0.2, 0.1]) if " " in captions else int(captions)
    owners = np.repeat(np.arange(images), sizes)
    shared, own = rng.random(images) < chance, rng.random(len(owners)) < chance
    return np.where(rng.random(len(owners)) < np.sqrt(correlation), shared[owners], own).astype(np.float64), owners


def _of_labels(first: tuple[Floats, Owners], second: tuple[Floats, Owners], *, truth: float) -> Rates:
    """Two labels without a common image."""
    *_, low, high, p = value_difference(*first, second[0], second[1] + first[1].max() + 1)
    measured = {"interval": covers((low, high), truth)}
    if truth == 0:
        measured |= {"test": rejects(p), "p and interval differ": float((p < 0.05) != (low > 0 or high < 0))}
    return measured
