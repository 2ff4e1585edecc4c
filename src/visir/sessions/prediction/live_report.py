"""How good a live model is on later sessions, beside the base rate and a plain logistic regression.

Every number has a 95 % interval: visitors are drawn with replacement, all sessions of a visitor together. The intervals
say how much the test sessions could have been others; they do not say how much a model would change that is trained on
others. They are expanded percentile intervals (`visir.stats`). What depends on who buys (all but the
mean chance) is worth as many visitors as there are that buy, or that do not; with fewer than `FEWEST_BUYERS` of them
there is no interval: it would hold the truth in 71 to 92 % only (`benchmarks/calibration_sessions.py`).

A model *loses* when its log loss over all scores from the first page on is above that of a reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import visir.stats as stats
from visir.sessions.features import LIVE_FEATURES, LearntFeatures
from visir.sessions.prediction.models import LiveClassifier, expanded, smoothed
from visir.sessions.table_labels import Bools, Floats, Ints, SessionExamples

# What a live model must beat: the base rate of a step, and a plain logistic regression on the first page.

REFERENCES = ("base rate", "plain LR")

_FIRST_PAGE = ("channel type", "start hour", "week day", "device type", "current page")


def reference_chances(examples: SessionExamples, train: Bools, test: Bools, step: int) -> dict[str, Floats]:
    """Reference → (tested,) the chances of the test sessions that reach the step."""
    # train: (n,) those to learn from; both outcomes must occur.
    # test: (n,) those to predict.
    from sklearn.linear_model import LogisticRegression

    taught, tested = (rows & (examples.reached >= step) for rows in (train, test))
    purchase = examples.purchase[taught]
    constant = np.full(int(tested.sum()), smoothed(purchase.sum(), len(purchase)))
    if not tested.any() or not purchase.any() or purchase.all():
        return {"base rate": constant, "plain LR": constant}
    features = [feature for feature in LIVE_FEATURES if feature.name in _FIRST_PAGE]
    learnt = LearntFeatures.of(features, examples, train)
    columns = np.nan_to_num(expanded(learnt, learnt.matrix(examples, min(step, 1))))
    model = LogisticRegression(max_iter=1000).fit(columns[taught], purchase)
    return {"base rate": constant, "plain LR": model.predict_proba(columns[tested])[:, 1]}


def log_losses(chance: Floats, purchase: Bools) -> Floats:
    """(n,) the log loss of each session."""
    safe = np.clip(chance, 1e-12, 1 - 1e-12)
    return -np.log(np.where(purchase, safe, 1 - safe))


def rankings(chance: Floats, purchase: Bools, weights: Floats) -> dict[str, Floats]:
    """ROC-AUC, average precision and lift, (samples,) each, under each row of weights; NaN where they have no value."""
    # Lift: the share that buys in the tenth with the highest chances, as a multiple of the share of all. Sessions of
    # one chance stand for each other: of a group that the limit cuts, a part counts.
    # chance: (n,) the chances.
    # purchase: (n,) whether each session holds an order.
    # weights: (samples, n) how often each session was drawn.
    levels, level = np.unique(-chance, return_inverse=True)
    order = np.argsort(level, kind="stable")
    first = np.searchsorted(level[order], np.arange(len(levels)))
    drawn = weights[:, order]
    buys = np.add.reduceat(drawn * purchase[order], first, axis=1)  # weight that buys, of each chance, highest first
    size = np.add.reduceat(drawn, first, axis=1)
    stays, hits, named = size - buys, np.cumsum(buys, axis=1), np.cumsum(size, axis=1)
    bought, total, limit = hits[:, -1], named[:, -1], 0.1 * named[:, -1]
    with np.errstate(invalid="ignore", divide="ignore"):
        below = (total - bought)[:, None] - np.cumsum(stays, axis=1)  # weight that does not buy, of lower chances
        top = np.where(size > 0, np.clip((limit[:, None] - named + size) / size, 0, 1), 0)
        return {
            "roc_auc": (buys * (below + stays / 2)).sum(axis=1) / (bought * (total - bought)),
            "pr_auc": (np.where(named > 0, hits / named, 0.0) * buys).sum(axis=1) / bought,
            "lift": (top * buys).sum(axis=1) / limit / (bought / total),
        }


PAGES = (0, 1, 2, 3, 5, 10)
"""The steps of the report."""
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

Interval = list[float | None]
"""A value and the ends of its 95 % interval; None for what does not exist."""


@dataclass(frozen=True, eq=False)
class DrawnVisitors:
    """n sessions whose visitors are drawn with replacement, all sessions of a visitor together."""

    draws: Ints  # (samples, visitors) how often each visitor is drawn
    group: Ints  # (n,) the visitor of each session
    buys: Bools  # (n,) whether each session holds an order

    def of(self, rows: Bools | Ints) -> DrawnVisitors:
        """Some of the sessions: a mask, or their places."""
        return DrawnVisitors(self.draws, self.group[rows], self.buys[rows])

    @cached_property
    def buyers(self) -> int:
        """The visitors that buy, or those that do not, whichever are fewer; 0 where an interval would rest on few."""
        fewer = min(len(np.unique(self.group[outcome])) for outcome in (self.buys, ~self.buys))
        return fewer if fewer >= FEWEST_BUYERS else 0

    def mean(self, values: Floats, units: int | None = None) -> Interval:
        """A mean over sessions, and its interval, which is worth so many visitors, by default the `buyers`."""
        visitors = self.draws.shape[1]
        sums = np.bincount(self.group, values, minlength=visitors)
        sizes = np.bincount(self.group, minlength=visitors).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn = (self.draws @ sums) / (self.draws @ sizes)
        value = float(values.mean()) if len(values) else 0.0
        return _interval(value, drawn, self.buyers if units is None else units)

    def rankings(self, chance: Floats) -> dict[str, Interval]:
        """The measures of a ranking, and their intervals."""
        whole = rankings(chance, self.buys, np.ones((1, len(chance))))
        if not self.buys.any() or self.buys.all():
            return {name: [None, None, None] for name in whole}
        drawn = [
            rankings(chance, self.buys, self.draws[begin : begin + _CHUNK][:, self.group].astype(np.float64))
            for begin in range(0, len(self.draws), _CHUNK)
        ]
        return {
            name: _interval(float(value[0]), np.concatenate([part[name] for part in drawn]), self.buyers)
            for name, value in whole.items()
        }


def _interval(value: float, drawn: Floats, units: int) -> Interval:
    return [
        None if np.isnan(number) else number for number in (value, *stats.estimate_of_draws(value, drawn, units).ends)
    ]


def live_report(
    model: LiveClassifier,
    examples: SessionExamples,
    train: Bools,
    test: Bools,
    *,
    test_from: int,
    samples: int = SAMPLES,
) -> dict[str, Any]:
    """Report on later sessions, as plain values for a card."""
    # train: (n,) those that the references learn from.
    # test: (n,) the later ones, which began at `test_from` (µs since 1970) or after; at least one reaches a page.
    # Returns: "pages", by step, each measure and `less_loss`: by how much the log loss of a reference is above the
    # model's, which is also there for all scores from the first page on. "reliability": the mean chance beside the
    # share that buys, by step, and at the first page by the length that sessions came to have (not known then).
    visitors, visitor = np.unique(examples.visitor[test].astype(str), return_inverse=True)
    draws = np.random.default_rng(0).multinomial(len(visitors), np.full(len(visitors), 1 / len(visitors)), samples)
    group = np.full(len(examples), -1)
    group[test] = visitor
    everybody = DrawnVisitors(draws, group, examples.purchase)
    pages: list[dict[str, Any]] = []
    reliability: list[dict[str, Any]] = []
    scored, losses = np.zeros(0, np.int64), np.zeros((0, 1 + len(REFERENCES)))

    def add_reliability(name: str, step: int, sessions: DrawnVisitors, chance: Floats) -> None:
        row = {"group": name, "step": step, "sessions": len(chance), "mean_p": float(chance.mean())}
        difference = sessions.mean(chance - sessions.buys)
        reliability.append(row | {"rate": float(sessions.buys.mean()), "difference": difference})

    for step in model.steps:
        rows = test & (examples.reached >= step)
        if not rows.any():
            continue
        sessions, length = everybody.of(rows), examples.reached[rows]
        chances = {"model": model.probability(examples, step)[rows], **reference_chances(examples, train, test, step)}
        loss = np.stack([log_losses(chance, sessions.buys) for chance in chances.values()], axis=1)
        if step:
            scored, losses = np.append(scored, np.flatnonzero(rows)), np.concatenate([losses, loss])
        if step in PAGES:
            of_chances = {
                name: {
                    "mean_p": sessions.mean(chance, len(np.unique(sessions.group))),
                    "log_loss": sessions.mean(loss[:, place]),
                    **sessions.rankings(chance),
                }
                for place, (name, chance) in enumerate(chances.items())
            }
            measures = {
                measure: {name: values[measure] for name, values in of_chances.items()}
                for measure in of_chances["model"]
            }
            page = {"step": step, "sessions": len(length), "purchases": int(sessions.buys.sum()), "measures": measures}
            pages.append(page | {"less_loss": _less_loss(sessions, loss)})
            add_reliability(f"page {step}", step, sessions, chances["model"])
        if step == 1:
            for name, low, high in LENGTHS:
                part = (length >= low) & (length <= (high or length.max()))
                if part.any():
                    add_reliability(f"{name} in all", 1, sessions.of(part), chances["model"][part])
    less_loss = _less_loss(everybody.of(scored), losses)
    return {
        "test_from": test_from,
        "sessions": int(test.sum()),
        "purchases": int(examples.purchase[test].sum()),
        "pages": pages,
        "reliability": reliability,
        "less_loss": less_loss,
        "loses_to": [name for name, less in less_loss.items() if (less[0] or 0.0) < 0],
    }


def _less_loss(sessions: DrawnVisitors, losses: Floats) -> dict[str, Interval]:
    return {name: sessions.mean(losses[:, place] - losses[:, 0]) for place, name in enumerate(REFERENCES, 1)}
