"""What chance would give: how many pairs and statements agree with the paper if our systems stood in random order.

Pairs are no independent coins: of three systems not every combination of orders is possible, and the values of one
system go together (who is first by R@1 is first by R@5, and often on the next collection too). So the *systems* are
exchanged at random, with all their values on all collections, and the pairs that count are counted again. Statements
are taken to be independent, each with the chance that it gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from math import factorial

import numpy as np
from numpy.typing import NDArray

from visir.papers.pairs import PairOrder
from visir.studies.trend_check import TrendCheck

SAMPLES = 4_000
_ALL = 7
"""Up to so many systems every order is looked at; of more, random ones."""

Counts = NDArray[np.int64]
"""(SAMPLES,) counts under random orders."""


@dataclass(frozen=True)
class Agreement:
    """How many of the pairs and statements that count agree with the paper, beside what chance gives."""

    measured: int  # pairs and statements that were measured
    counted: int  # those whose interval excludes 0, or that hold or fail in nearly all draws
    agreeing: int  # those of them that agree with the paper
    expected: float  # how many of them chance makes agree, the mean
    low: float  # the lower end of the central 95 % of what chance makes agree
    high: float  # the upper end


def agreement(blocks: Sequence[Sequence[PairOrder]], checks: Sequence[TrendCheck], *, seed: int = 0) -> Agreement:
    """Count what agrees, and what would agree by chance."""
    rng = np.random.default_rng(seed)
    pairs = [pair for block in blocks for pair in block]
    counted_checks = [check for check in checks if check.agrees is not None]
    agreeing, counted = np.zeros(SAMPLES, np.int64), np.full(SAMPLES, len(counted_checks), np.int64)
    for block in blocks:
        of_block = _of_random_orders(block, rng)
        picks = rng.integers(0, of_block.shape[1], SAMPLES)
        agreeing, counted = agreeing + of_block[0, picks], counted + of_block[1, picks]
    for check in counted_checks:
        agreeing = agreeing + (rng.random(SAMPLES) < check.chance)
    shares = np.divide(agreeing, counted, out=np.zeros(SAMPLES), where=counted > 0)
    same = [pair.agrees for pair in pairs if pair.agrees is not None] + [bool(check.agrees) for check in counted_checks]
    low, high = np.quantile(shares, [0.025, 0.975])
    count = len(same)
    return Agreement(
        len(pairs) + len(checks),
        count,
        sum(same),
        float(count * shares.mean()),
        float(count * low),
        float(count * high),
    )


def _of_random_orders(pairs: Sequence[PairOrder], rng: np.random.Generator) -> Counts:
    """(2, orders) of pairs that agree and of pairs that count, if the members stood in other orders."""
    members = list(dict.fromkeys(name for pair in pairs for name in (pair.higher, pair.lower)))
    labels = _measurements(pairs)
    row = {name: number for number, name in enumerate(members)}
    column = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    ours = np.zeros((len(column), len(members), len(members)), np.int64)  # who is above whom here: 1, -1, 0 for neither
    printed = np.zeros_like(ours)
    for pair, name in zip(pairs, labels, strict=True):
        above, below, label = row[pair.higher], row[pair.lower], column[name]
        sign = 0 if pair.agrees is None else 1 if pair.agrees else -1
        printed[label, above, below] = 1
        ours[label, above, below], ours[label, below, above] = sign, -sign
    if len(members) <= _ALL:
        orders = np.array(list(permutations(range(len(members)))))
    else:
        orders = np.stack([rng.permutation(len(members)) for _ in range(factorial(6))])
    counts = np.zeros((2, len(orders)), np.int64)
    for number, order in enumerate(orders):
        exchanged = ours[:, order][:, :, order] * printed
        counts[:, number] = (exchanged > 0).sum(), (exchanged != 0).sum()
    return counts


def _measurements(pairs: Sequence[PairOrder]) -> list[tuple[str, str, int]]:
    """(n,) what each pair was measured by: collection, label, and a number where one was measured more than once."""
    seen: Counter[tuple[str, str, frozenset[str]]] = Counter()
    names = []
    for pair in pairs:
        key = pair.collection, pair.label, frozenset((pair.higher, pair.lower))
        names.append((pair.collection, pair.label, seen[key]))
        seen[key] += 1
    return names
