"""How good a live model is on later sessions, beside the base rate and a plain logistic regression.

Every number has a 95 % interval: visitors are drawn with replacement, all sessions of a visitor together. The intervals
say how much the test sessions could have been others; they do not say how much a model would change that is trained on
others. They are expanded percentile intervals (`visir.evaluation.statistics`). What depends on who buys (all but the
mean chance) is worth as many visitors as there are that buy, or that do not; with fewer than `FEWEST_BUYERS` of them
there is no interval: it would hold the truth in 71 to 92 % only (`benchmarks/calibration_sessions.py`).

A model *loses* when its log loss over all scores from the first page on is above that of a reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from visir.evaluation.statistics import interval
from visir.sessions.features import LIVE_FEATURES, LearntFeatures
from visir.sessions.prediction.live_classifier import LiveClassifier
from visir.sessions.prediction.models import expanded
from visir.sessions.table_labels import Bools, Floats, Ints, SessionExamples

# What a live model must beat: the base rate of a step, and a plain logistic regression on the first page.

REFERENCES = ("base rate", "plain LR")

_FIRST_PAGE = ("channel type", "start hour", "week day", "device type", "current page")


def reference_chances(examples: SessionExamples, train: Bools, test: Bools, step: int) -> dict[str, Floats]:
    """Reference → (tested,) the chances of the test sessions that reach the step."""
    # train: (n,) those to learn from; both outcomes must occur.
    # test: (n,) those to predict.
    from sklearn.linear_model import LogisticRegression

    reached = examples.reached >= step
    purchase = examples.purchase[train & reached]
    tested = int((test & reached).sum())
    rate = (float(purchase.sum()) + 0.5) / (len(purchase) + 1)
    constant = np.full(tested, rate)
    if not tested or not purchase.any() or purchase.all():
        return {"base rate": constant, "plain LR": constant}
    features = [feature for feature in LIVE_FEATURES if feature.name in _FIRST_PAGE]
    learnt = LearntFeatures.of(features, examples, train)
    columns = np.nan_to_num(expanded(features, learnt.states, learnt.matrix(examples, min(step, 1))))
    model = LogisticRegression(max_iter=1000).fit(columns[train & reached], purchase)
    return {"base rate": constant, "plain LR": model.predict_proba(columns[test & reached])[:, 1]}


PAGES = (0, 1, 2, 3, 5, 10)
"""The steps of the report."""
MEASURES = ("mean_p", "log_loss", "roc_auc", "pr_auc", "lift")
"""`lift`: how many times the base rate the tenth of the sessions buys that has the highest chances."""
LENGTHS = (
    ("1 page", 1, 1),
    ("2 pages", 2, 2),
    ("3 to 5 pages", 3, 5),
    ("6 to 11 pages", 6, 11),
    ("12 pages or more", 12, None),
)
"""Lengths that sessions come to have, in pages before the first order."""
SAMPLES = 500
FEWEST_BUYERS = 10
"""Visitors of either outcome, buying or not, that an interval of what depends on it needs."""

_CHUNK = 50

Interval = tuple[float, float, float]
"""A value and the ends of its 95 % interval."""


@dataclass(frozen=True)
class PageReport:
    """One step."""

    step: int  # pages opened
    sessions: int  # later sessions that reach it
    purchases: int  # those of them that buy
    # Measure → "model", "base rate" or "plain LR" → value and interval; NaN where only one outcome occurs, and for the
    # ends of an interval that too few visitors buy for.
    measures: Mapping[str, Mapping[str, Interval]]
    less_loss: Mapping[str, Interval]  # reference → its log loss minus the model's: above 0 where the model is better


@dataclass(frozen=True)
class ReliabilityRow:
    """Whether chances are as high as the share that buys."""

    group: str  # "page 3", or "5 pages in all" (not known when the score is given)
    step: int  # when the sessions are scored
    sessions: int  # of the group
    mean_p: float  # the mean chance
    rate: float  # the share that buys
    difference: Interval  # mean chance minus share, with its interval


@dataclass(frozen=True)
class LiveReport:
    """A model on later sessions."""

    test_from: int  # sessions that began at this moment or later were scored, µs since 1970 (UTC)
    sessions: int  # how many
    purchases: int  # those of them that buy
    pages: tuple[PageReport, ...]  # by step
    reliability: tuple[ReliabilityRow, ...]  # by step, and at the first page by the length that sessions came to have
    # Reference → its log loss minus the model's, over all scores from the first page on.
    less_loss: Mapping[str, Interval]

    @property
    def loses_to(self) -> list[str]:
        """The references whose log loss is below the model's."""
        return [name for name, (difference, _, _) in self.less_loss.items() if difference < 0]

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a card, with `loses_to`; NaN as null."""
        values: dict[str, Any] = _plain(asdict(self))
        return values | {"loses_to": self.loses_to}


def live_report(
    model: LiveClassifier,
    examples: SessionExamples,
    train: Bools,
    test: Bools,
    *,
    test_from: int,
    samples: int = SAMPLES,
) -> LiveReport:
    """Report on later sessions."""
    # train: (n,) those that the references learn from.
    # test: (n,) the later ones; at least one reaches a page.
    visitors, visitor = np.unique(examples.visitor.astype(str), return_inverse=True)
    rng = np.random.default_rng(0)
    tested_visitors = np.unique(visitor[test])
    place = np.full(len(visitors), -1)
    place[tested_visitors] = np.arange(len(tested_visitors))
    draws = rng.multinomial(len(tested_visitors), np.full(len(tested_visitors), 1 / len(tested_visitors)), samples)
    pages: list[PageReport] = []
    reliability: list[ReliabilityRow] = []
    losses: list[tuple[Floats, Ints, Bools]] = []
    for step in model.steps:
        rows = test & (examples.reached >= step)
        if not rows.any():
            continue
        buys, group = examples.purchase[rows], place[visitor[rows]]
        chances = {"model": model.probability(examples, step)[rows], **reference_chances(examples, train, test, step)}
        if step:
            losses.append((np.stack([log_losses(chance, buys) for chance in chances.values()], axis=1), group, buys))
        if step in PAGES:
            pages.append(_page(step, chances, buys, draws, group))
            reliability.append(_reliability(f"page {step}", step, chances["model"], buys, draws, group))
        if step == 1:
            length = examples.reached[rows]
            for name, low, high in LENGTHS:
                part = (length >= low) & (length <= (high or length.max()))
                if part.any():
                    reliability.append(
                        _reliability(f"{name} in all", 1, chances["model"][part], buys[part], draws, group[part])
                    )
    values = np.concatenate([values for values, _, _ in losses]) if losses else np.zeros((1, 3))
    group = np.concatenate([group for _, group, _ in losses]) if losses else np.zeros(1, np.int64)
    buys = np.concatenate([buys for _, _, buys in losses]) if losses else np.zeros(1, bool)
    units = buyers(buys, group)
    less = {
        name: mean_over_visitors(values[:, 1 + number] - values[:, 0], draws, group, units)
        for number, name in enumerate(REFERENCES)
    }
    return LiveReport(
        test_from, int(test.sum()), int(examples.purchase[test].sum()), tuple(pages), tuple(reliability), less
    )


def log_losses(chance: Floats, purchase: Bools) -> Floats:
    """(n,) the log loss of each session."""
    safe = np.clip(chance, 1e-12, 1 - 1e-12)
    return -np.log(np.where(purchase, safe, 1 - safe))


def weighted_roc_auc(chance: Floats, purchase: Bools, weights: Floats) -> Floats:
    """(samples,) ROC-AUC under each row of weights; NaN where only one outcome has weight."""
    # chance: (n,) the chances.
    # purchase: (n,) whether each session holds an order.
    # weights: (samples, n) how often each session was drawn.
    buys, stays, _ = _by_chance(chance, purchase, weights)
    below = np.cumsum(stays, axis=1) - stays
    with np.errstate(invalid="ignore", divide="ignore"):
        auc: Floats = (buys * (below + stays / 2)).sum(axis=1) / (buys.sum(axis=1) * stays.sum(axis=1))
    return auc


def weighted_pr_auc(chance: Floats, purchase: Bools, weights: Floats) -> Floats:
    """(samples,) average precision under each row of weights; NaN where nothing that buys has weight."""
    buys, stays, _ = _by_chance(chance, purchase, weights)
    hits = np.cumsum(buys[:, ::-1], axis=1)
    named = hits + np.cumsum(stays[:, ::-1], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision = np.where(named > 0, hits / named, 0.0)
        total: Floats = (precision * buys[:, ::-1]).sum(axis=1) / hits[:, -1]
    return total


def weighted_lift(chance: Floats, purchase: Bools, weights: Floats) -> Floats:
    """(samples,) share that buys in the tenth with the highest chances, as a multiple of the share of all."""
    # Sessions of one chance stand for each other: of a group that the limit cuts, a part counts.
    buys, stays, _ = _by_chance(chance, purchase, weights)
    size = (buys + stays)[:, ::-1]
    limit = 0.1 * size.sum(axis=1, keepdims=True)
    before = np.cumsum(size, axis=1) - size
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(size > 0, np.clip((limit - before) / size, 0, 1), 0)
        top = (part * buys[:, ::-1]).sum(axis=1) / limit[:, 0]
        lift: Floats = top / (buys.sum(axis=1) / size.sum(axis=1))
    return lift


def _by_chance(chance: Floats, purchase: Bools, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """(samples, levels) weight that buys and that does not, for each different chance in ascending order."""
    levels, level = np.unique(chance, return_inverse=True)
    order = np.argsort(level, kind="stable")
    first = np.searchsorted(level[order], np.arange(len(levels)))
    drawn = weights[:, order]
    buys = np.add.reduceat(drawn * purchase[order], first, axis=1)
    return buys, np.add.reduceat(drawn, first, axis=1) - buys, levels


RANKINGS: dict[str, Callable[[Floats, Bools, Floats], Floats]] = {
    "roc_auc": weighted_roc_auc,
    "pr_auc": weighted_pr_auc,
    "lift": weighted_lift,
}


def _page(step: int, chances: dict[str, Floats], buys: Bools, draws: Ints, group: Ints) -> PageReport:
    measures: dict[str, dict[str, Interval]] = {measure: {} for measure in MEASURES}
    has_both, units = bool(buys.any()) and not bool(buys.all()), buyers(buys, group)
    for name, chance in chances.items():
        measures["mean_p"][name] = mean_over_visitors(chance, draws, group, len(np.unique(group)))
        measures["log_loss"][name] = mean_over_visitors(log_losses(chance, buys), draws, group, units)
        for measure, function in RANKINGS.items():
            measures[measure][name] = ranking(function, chance, buys, draws, group) if has_both else (np.nan,) * 3
    model = log_losses(chances["model"], buys)
    less = {
        name: mean_over_visitors(log_losses(chances[name], buys) - model, draws, group, units) for name in REFERENCES
    }
    return PageReport(step, len(buys), int(buys.sum()), measures, less)


def _reliability(name: str, step: int, chance: Floats, buys: Bools, draws: Ints, group: Ints) -> ReliabilityRow:
    difference = mean_over_visitors(chance - buys, draws, group, buyers(buys, group))
    return ReliabilityRow(name, step, len(buys), float(chance.mean()), float(buys.mean()), difference)


def buyers(buys: Bools, group: Ints) -> int:
    """The visitors that buy, or those that do not, whichever are fewer; 0 where an interval would rest on too few."""
    fewer = min(len(np.unique(group[outcome])) for outcome in (buys, ~buys))
    return fewer if fewer >= FEWEST_BUYERS else 0


def mean_over_visitors(values: Floats, draws: Ints, group: Ints, units: int) -> Interval:
    """A mean over sessions, and its interval, which is worth so many visitors."""
    visitors = draws.shape[1]
    sums = np.bincount(group, values, minlength=visitors)
    sizes = np.bincount(group, minlength=visitors).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = (draws @ sums) / (draws @ sizes)
    return (float(values.mean()), *interval(drawn, units))


def ranking(
    function: Callable[[Floats, Bools, Floats], Floats], chance: Floats, buys: Bools, draws: Ints, group: Ints
) -> Interval:
    """A measure of a ranking, and its interval."""
    drawn = [
        function(chance, buys, draws[begin : begin + _CHUNK][:, group].astype(np.float64))
        for begin in range(0, len(draws), _CHUNK)
    ]
    ends = interval(np.concatenate(drawn), buyers(buys, group))
    return (float(function(chance, buys, np.ones((1, len(buys))))[0]), *ends)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and np.isnan(value) else value
