"""Worlds of logs of sessions: shares, means, standardised rates, percentiles; predictions with nothing to find."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibration_rows import Floats, Simulation, covers, documented, rejects
from visir.sessions import generate, load_mapping, sessionise
from visir.sessions.description.outcomes import percentile_cell
from visir.sessions.description.session_log import LengthCounts
from visir.sessions.description.statistic import StatisticCell, dominated_note, mean, share, standardised
from visir.sessions.examples import Sample, draw
from visir.sessions.features import LearntFeatures, features_of
from visir.sessions.prediction.live_report import SAMPLES, DrawnVisitors, log_losses, rankings
from visir.sessions.prediction.models import splits
from visir.sessions.prediction.study import PredictionCell, StudyPlan, measured_cell, summarise
from visir.sessions.table_labels import SessionExamples
from visir.stats import Moments, RunningSums, difference, sequential

SOURCES = ("evaluation", "sessions", "stats")
"""What of visir these worlds measure."""
Counts = NDArray[np.int64]
Rng = np.random.Generator


def simulations(scratch: Path) -> Iterator[Simulation]:
    """All of this module.

    Args:
        scratch: Where a log is generated.
    """
    yield from _rates()
    yield from _standardised()
    yield from _percentiles()
    yield from _folds()
    yield from _live_reports()
    yield from _online_tests()
    yield from _purchase_intent(scratch)


VISITS: dict[str, Callable[[Rng, int], Counts]] = {
    "one visit each": lambda rng, visitors: np.ones(visitors, np.int64),
    "geometric visits": lambda rng, visitors: rng.geometric(0.4, visitors),
    "visits by Zipf 2.5": lambda rng, visitors: np.minimum(rng.zipf(2.5, visitors), 1_000_000),
    "visits by Zipf 2": lambda rng, visitors: np.minimum(rng.zipf(2.0, visitors), 1_000_000),
}


NOTES = {
    ("visits by Zipf 2.5", 30): (12, 38),
    ("visits by Zipf 2.5", 300): (2, 15),
    ("visits by Zipf 2.5", 2_000): (0, 10),
    ("visits by Zipf 2", 30): (50, 75),
    ("visits by Zipf 2", 300): (20, 45),
    ("visits by Zipf 2", 2_000): (12, 32),
}
"""How often a note warns that a few visitors have most of the sessions."""


def moments(counts: Floats, visits: Floats) -> Moments:
    """Sums over visitors."""
    products = (counts * counts).sum(), (counts * visits).sum()
    return Moments(counts.sum(), *products, visits.sum(), (visits * visits).sum(), len(visits))


def ends(cell: StatisticCell) -> tuple[float, float]:
    """The interval of a cell; NaN where there is none."""
    return (np.nan if cell.low is None else cell.low, np.nan if cell.high is None else cell.high)


def _rising(visits: Floats) -> Floats:
    """Who comes often buys more: the chance grows with the logarithm of the visits."""
    chances: Floats = np.minimum(0.05 * (1 + np.log2(visits)), 0.9)
    return chances


@cache
def _truth(kind: str, rising: bool) -> float:
    """The share of sessions with a purchase, of all visitors that there could be."""
    visits = VISITS[kind](np.random.default_rng(0), 4_000_000).astype(np.float64)
    return float((visits * _rising(visits)).sum() / visits.sum()) if rising else 0.1


def _rates() -> Iterator[Simulation]:
    cases = [(visitors, kind, False) for visitors in (30, 300, 2_000) for kind in VISITS]
    cases += [(n, kind, True) for n in (30, 300) for kind in ("geometric visits", "visits by Zipf 2")]
    for visitors, kind, rising in cases:

        def repeat(rng: Rng, case: tuple[int, str, bool] = (visitors, kind, rising)) -> Mapping[str, float]:
            visitors, kind, rising = case
            visits = VISITS[kind](rng, visitors)
            chances = _rising(visits.astype(np.float64)) if rising else np.full(visitors, 0.1)
            spread = (1 - 0.3) / 0.3  # sessions of one visitor correlate by 0.3
            bought = rng.binomial(visits, rng.beta(chances * spread, (1 - chances) * spread))
            purchases = moments(bought.astype(np.float64), visits.astype(np.float64))
            low, high = ends(share(purchases))
            measured = {"interval of a share": covers((low, high), 100 * _truth(kind, rising))}
            if not rising:
                queries = rng.poisson(2 * visits * rng.gamma(2, 0.5, visitors)).astype(np.float64)
                of_queries = moments(queries, visits.astype(np.float64))
                measured["interval of a mean per session"] = covers(ends(mean(of_queries, support=1)), 2)
            return measured | {"a note warns": float(bool(dominated_note({"all": purchases})))}

        known = {"a note warns": documented(*NOTES.get((kind, visitors), (0, 5)))}
        if kind.endswith("Zipf 2"):
            known["interval of a share"] = documented(25, 60) if rising else documented(84, 100)
            known["interval of a mean per session"] = documented(84, 100)
        elif kind.endswith("2.5"):
            known["interval of a share"] = known["interval of a mean per session"] = documented(88, 99)
        elif visitors == 30:
            known["interval of a share"] = known["interval of a mean per session"] = documented(91, 99)
        case = f"{visitors:,} visitors, {kind}{', who comes often buys more' if rising else ''}"
        yield Simulation("sessions describe", case, repeat, known)


def _standardised() -> Iterator[Simulation]:
    chances = np.array([0.1, 0.08, 0.05, 0.03, 0.06])
    for small in (10, 60, 200, 1_000):

        def repeat(rng: Rng, small: int = small) -> Mapping[str, float]:
            sizes = np.array([5_000, 3_000, 1_500, small, small])
            counts = rng.binomial(sizes, chances)
            groups = [Moments(y, y, y, n, n, n) for y, n in zip(counts.tolist(), sizes.tolist(), strict=True)]
            cells = standardised(groups)
            present = np.array([cell.value is not None for cell in cells])
            rates = chances[present]
            truths = (rates - rates.mean()) / rates.std()
            shown = [cell for cell in cells if cell.value is not None]
            inside = [covers(ends(cell), float(truth)) for cell, truth in zip(shown, truths, strict=True)]
            return {"interval (mean over the groups shown)": float(np.mean(inside))}

        known = {"interval (mean over the groups shown)": documented(90, 99)}
        case = f"five groups, two of them of {small:,} sessions"
        yield Simulation("sessions describe, standardised rates", case, repeat, known, 0.2)


def _percentiles() -> Iterator[Simulation]:
    level = np.random.default_rng(0).normal(size=(2, 2_000_000))
    truths = np.quantile(np.floor(np.exp(2 + 0.5 * level[0] + 0.8 * level[1])), [0.5, 0.9])
    for visitors in (50, 500):

        def repeat(rng: Rng, visitors: int = visitors) -> Mapping[str, float]:
            owners = np.repeat(np.arange(visitors), rng.geometric(0.4, visitors))
            lengths = np.exp(2 + 0.5 * rng.normal(size=visitors)[owners] + 0.8 * rng.normal(size=len(owners)))
            return _of_percentiles(owners, np.floor(lengths).astype(np.int64), truths)

        yield Simulation("sessions describe, percentiles of length", f"{visitors} visitors, geometric visits", repeat)
    # P90 of a mixture: 10 in 85 % of the sessions at most, so it is a third of the way from 11 to 99.
    for visitors in (50, 200):

        def of_some(rng: Rng, visitors: int = visitors) -> Mapping[str, float]:
            owners = np.repeat(np.arange(visitors), rng.geometric(0.1, visitors))
            is_long = (rng.random(visitors) < 0.15)[owners]
            lengths = np.where(is_long, rng.integers(11, 100, len(owners)), rng.integers(1, 11, len(owners)))
            return _of_percentiles(owners, lengths, np.array([6, 40]))

        known = {"interval of P50": documented(94, 100), "interval of P90": documented(85, 97)}
        case = f"{visitors} visitors, 15 % of whom have all the long sessions"
        yield Simulation("sessions describe, percentiles of length", case, of_some, known)


def _of_percentiles(owners: Counts, lengths: Counts, truths: Floats) -> dict[str, float]:
    """Whether P50 and P90 hold the truth; (n,) the visitor and the length of each session."""
    values, place = np.unique(lengths, return_inverse=True)
    per_visitor = np.zeros((owners[-1] + 1, len(values)), np.int64)
    np.add.at(per_visitor, (owners, place), 1)
    at_least = np.cumsum(per_visitor[:, ::-1], axis=1)[:, ::-1]
    visits = per_visitor.sum(axis=1)
    squares = at_least**2 - (at_least - per_visitor) ** 2
    added = np.stack([values, per_visitor.sum(axis=0), squares.sum(axis=0), visits @ per_visitor], axis=1)
    group = LengthCounts.of(added.tolist(), (int(visits.sum()), int((visits**2).sum()), len(visits)))
    return {
        f"interval of P{percentile}": covers(ends(percentile_cell(group, percentile)), float(truth))
        for percentile, truth in zip((50, 90), truths, strict=True)
    }


def _folds() -> Iterator[Simulation]:
    """Two models with a feature each, which are alike: their accuracies over folds differ by chance only."""
    for folds, sessions in ((3, 150), (5, 150), (10, 150), (5, 1_000)):

        def repeat(rng: Rng, folds: int = folds, sessions: int = sessions) -> Mapping[str, float]:
            bought = rng.random(sessions) < 0.5
            features = rng.normal(size=(2, sessions)) + 0.5 * bought
            fold = rng.permutation(np.arange(sessions) % folds)
            gaps = []
            for test in range(folds):
                train = fold != test
                right = []
                for feature in features:
                    middles = [feature[train & (bought == outcome)].mean() for outcome in (False, True)]
                    predicted = (feature[~train] - np.mean(middles)) * (middles[1] - middles[0]) > 0
                    right.append((predicted == bought[~train]).mean())
                gaps.append(right[1] - right[0])
            differences = np.array(gaps)
            tested = difference(differences, 0, test="folds", ratio=1 / (folds - 1))
            plain = difference(differences, 0, test="folds")
            return {
                "corrected resampled t-test": rejects(tested.p),
                "interval": covers(tested.ends, 0),
                "t-test over folds (not used)": rejects(plain.p),
            }

        known = {"t-test over folds (not used)": documented(3, 20)}
        case = f"{sessions:,} sessions, {folds} folds, two features that are worth the same"
        yield Simulation("sessions predict, two models", case, repeat, known, 0.5)


@cache
def _live_truth(base: float) -> dict[str, float]:
    """What the measures are of all sessions that there could be."""
    chance, buys, _ = _scored(np.random.default_rng(0), 500_000, base)
    ranked = {name: float(value[0]) for name, value in rankings(chance, buys, np.ones((1, len(buys)))).items()}
    return {"log loss": float(log_losses(chance, buys).mean()), "reliability": 0.0, **ranked}


def _scored(rng: Rng, visitors: int, base: float) -> tuple[Floats, NDArray[np.bool_], Counts]:
    """The chance of each session, whether it buys (just as often), and its visitor."""
    group = np.repeat(np.arange(visitors), rng.geometric(0.5, visitors))
    level = np.sqrt(0.5) * (rng.normal(size=visitors)[group] + rng.normal(size=len(group)))
    chance = 1 / (1 + np.exp(-(base + 1.2 * level)))
    return chance, rng.random(len(chance)) < chance, group


def _live_reports() -> Iterator[Simulation]:
    """Intervals of a live model on later sessions, where few or many buy."""
    for base, percent in ((-4.6, 2), (-3.3, 6), (-2.0, 17)):
        for visitors in (100, 300, 1_000):

            def repeat(rng: Rng, base: float = base, visitors: int = visitors) -> Mapping[str, float]:
                chance, buys, group = _scored(rng, visitors, base)
                draws = rng.multinomial(visitors, np.full(visitors, 1 / visitors), SAMPLES)
                sessions, truth = DrawnVisitors(draws, group, buys), _live_truth(base)
                if (visitors, base) == (100, -4.6):  # the few draws that have an interval are unusual
                    return {"no interval: too few buy": float(not sessions.buyers)}
                measured = {
                    "log loss": sessions.mean(log_losses(chance, buys)),
                    "reliability": sessions.mean(chance - buys),
                    **sessions.rankings(chance),
                }
                inside = {
                    f"interval of {name}": covers(np.array(ends[1:], float), truth[name])
                    for name, ends in measured.items()
                }
                return inside | {"no interval: too few buy": float(not sessions.buyers)}

            nothing = {(100, 2): (95, 100), (300, 2): (10, 60), (100, 6): (10, 60)}.get((visitors, percent), (0, 1))
            known = {"no interval: too few buy": documented(*nothing)}
            if nothing[1] > 1:  # those that have one are those with more buyers than usual
                known |= {
                    f"interval of {name}": documented(75, 100)
                    for name in ("log loss", "reliability", "roc_auc", "pr_auc", "lift")
                }
            case = f"{visitors:,} visitors, {percent} % of sessions buy"
            yield Simulation("sessions train, report of a live model", case, repeat, known, 0.25)


AMOUNTS: dict[str, Callable[[Rng, int], Floats]] = {
    "0 or 1": lambda rng, n: np.ones(n),
    "amounts, log-normal 0.5": lambda rng, n: np.exp(0.5 * rng.normal(size=n)),
    "amounts, log-normal 1": lambda rng, n: np.exp(rng.normal(size=n)),
    "amounts, log-normal 1.5": lambda rng, n: np.exp(1.5 * rng.normal(size=n)),
    "amounts, Pareto 1.5": lambda rng, n: (1 - rng.random(n)) ** (-1 / 1.5),
}


def _looks(rng: Rng, draw: Callable[[Rng, int], Floats], units: int, rate: float, looks: int) -> RunningSums:
    """The sums of a variant at every look."""
    come = rng.multinomial(units, np.full(looks, 1 / looks))
    bought = rng.binomial(come, rate)
    values, look = draw(rng, int(bought.sum())), np.repeat(np.arange(looks), bought)
    amounts = [np.bincount(look, values**power, looks) for power in (1, 2)]
    return RunningSums(*(np.cumsum(column).astype(np.float64) for column in (come, *amounts, bought)))


def _online_tests() -> Iterator[Simulation]:
    """Variants that do not differ, with equal and unequal shares; then how often a difference is found."""
    cases = [(rate, looks) for rate in (0.005, 0.02, 0.1) for looks in (1, 24, 336)]
    for kind, (rate, looks) in product(AMOUNTS, cases):

        def alike(rng: Rng, kind: str = kind, rate: float = rate, looks: int = looks) -> Mapping[str, float]:
            return _at_shares(rng, (AMOUNTS[kind],) * 2, (rate, rate), looks)

        case = f"{kind}; {100 * rate:g} % buy, {looks} look{'s' if looks > 1 else ''}"
        yield Simulation("sessions ab-test, no difference", case, alike, share=0.3)
    for most, words in ((np.inf, "as they are"), (5, "cut at five mean orders")):

        def other_tail(rng: Rng, most: float = most) -> Mapping[str, float]:
            return _at_shares(rng, _of_one_mean(most), (0.02, 0.02), 336)

        known = {_of_shares(part): documented(0, 8) if most == 5 else documented(5, 30) for part in SMALL}
        case = f"amounts {words}, log-normal 1.5 against 0.5; 2 % buy, 336 looks"
        yield Simulation("sessions ab-test, one mean, but another tail (no promise)", case, other_tail, known, 0.3)
    for kind, low in zip(AMOUNTS, (95, 95, 70, 5, 5), strict=True):

        def apart(rng: Rng, kind: str = kind) -> Mapping[str, float]:
            return _at_shares(rng, (AMOUNTS[kind],) * 2, (0.03, 0.02), 336)

        known = {_of_shares(part): documented(low, 100) for part in SMALL}
        yield Simulation("sessions ab-test, 3 % buy instead of 2 %", f"{kind}; 336 looks", apart, known, 0.2)


SMALL = (0.5, 0.1, 0.02)
"""The share of the smaller variant."""


def _of_shares(part: float) -> str:
    return f"p < 0.05 with shares of {part:g} and {1 - part:g}"


Draw = Callable[[Rng, int], Floats]


@cache
def _of_one_mean(most: float) -> tuple[Draw, Draw]:
    """Amounts with a long and with a short tail, cut at `most` mean orders of the latter, and of one mean."""
    from scipy.optimize import brentq

    level = np.random.default_rng(0).normal(size=1_000_000)
    short, long = np.exp(0.5 * level), np.exp(1.5 * level)
    cut = most * float(short.mean())
    truth = np.minimum(short, cut).mean()
    scale = float(brentq(lambda scale: np.minimum(scale * long, cut).mean() - truth, 0.01, 100, xtol=1e-5))
    return (
        lambda rng, n: np.minimum(scale * np.exp(1.5 * rng.normal(size=n)), cut),
        lambda rng, n: np.minimum(np.exp(0.5 * rng.normal(size=n)), cut),
    )


def _at_shares(rng: Rng, draws: tuple[Draw, Draw], rates: tuple[float, float], looks: int) -> dict[str, float]:
    """Whether a test ends with p < 0.05; 400 units of the smaller variant would buy at the rate of the other."""
    measured = {}
    for part in SMALL:
        units = 400 / (rates[1] * part)
        sides = [
            _looks(rng, draw, int(own * units), rate, looks)
            for draw, own, rate in zip(draws, (part, 1 - part), rates, strict=True)
        ]
        measured[_of_shares(part)] = rejects(float(sequential(*sides).p[-1]))
    return measured


def _purchase_intent(scratch: Path) -> Iterator[Simulation]:
    """Shuffled labels: nothing can be known of who buys, so no feature set is better."""
    sample, steps = Sample("anonymous", min_pages=6), (0, 1, 3)

    @cache
    def examples() -> SessionExamples:
        generate(scratch / "log", 1_600, seed=3)
        sessionise(scratch / "log" / "events", load_mapping(scratch / "log" / "mapping.toml"), scratch / "sessions")
        return draw(scratch / "sessions", sample)

    def repeat(rng: Rng) -> Mapping[str, float]:
        drawn = examples()
        shuffled = replace(drawn, purchase=rng.permutation(drawn.purchase))
        plan = StudyPlan((sample,), ("lr", "knn", "svm"), 5, ("grouped",), int(rng.integers(1 << 30)))
        cells = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for fold, split in enumerate(splits(shuffled, "grouped", folds=plan.folds, seed=plan.seed)):
                learnt = LearntFeatures.of(features_of("anonymous"), shuffled, split.train)
                empty = [PredictionCell("anonymous", "grouped", fold, step) for step in steps]
                cells += [measured_cell(cell, shuffled, plan, split, learnt) for cell in empty]
        comparisons = summarise({}, cells).comparisons
        measured: dict[str, float] = {}
        for measure in ("f1", "roc_auc"):
            for step in steps:
                own = [row for row in comparisons if (row.measure, row.step) == (measure, step)]
                name = f"{'F1' if measure == 'f1' else 'ROC-AUC'}, step {step}"
                measured[name] = float(np.mean([rejects(row.p) for row in own]))
                if name == "F1, step 0":
                    outside = [1 - covers((row.low, row.high), 0) for row in own]
                    measured["F1, step 0, if it were tested"] = float(np.nan_to_num(np.nanmean(outside)))
        measured["any star of a setting after Holm"] = float(any(row.corrected < 0.05 for row in comparisons))
        return measured

    known = {"F1, step 0": documented(0, 0), "F1, step 0, if it were tested": documented(8, 60)}
    yield Simulation("sessions predict, shuffled labels", "418 sessions, five folds", repeat, known, 0.06)
