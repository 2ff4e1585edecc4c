"""What chance reaches: the expected values of measures when the score of every pair is random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import comb, factorial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.evaluation.measures import Named, read_measure
from visir.evaluation.scoring import item_names
from visir.records import Task

MOST_PAIRS = 16
"""Items with more pairs of a query and a candidate that depend on each other have no exact chance here."""

Constraint = tuple[int, int]
"""(better, worse): the score of one pair must be above that of another."""


def chance_of(tasks: Mapping[str, Task], names: Sequence[str]) -> dict[str, pa.Table]:
    """The expected value of each measure for a system that gives every pair of items a random score."""
    # The score of a pair is one number, whichever of the two is the query: a caption and an image have the same score
    # in both tasks. So the two directions of an item are not independent, and chance of Winoground's group score is
    # 1/6.
    pooled = {name: _Choices(task) for name, task in tasks.items() if task.pools is not None}
    if not pooled:
        return {}
    read = [named for name in names if isinstance(named := read_measure(name), Named)]
    tables: dict[str, pa.Table] = {}
    for name, choices in pooled.items():
        columns: dict[str, NDArray[np.float64]] = {}
        for named in read:
            within = list(pooled) if named.measure.joined == "all" else [name]
            values = _expected(named, choices, [pooled[other] for other in within])
            if values is not None:
                columns[named.name] = values
        if columns:
            tables[name] = pa.table({"query_id": choices.queries, **columns})
    return tables


def mean_chance(tasks: Mapping[str, Task], name: str, measure: str) -> float:
    """What random scores reach in one task, the mean over its queries: in pools, and in a gallery for all."""
    task, named = tasks[name], read_measure(measure)
    if not isinstance(named, Named):
        return float("nan")
    if task.pools is not None:
        expected = chance_of(tasks, [measure]).get(name)
        known = expected is not None and named.name in expected.column_names
        return float(np.mean(expected[named.name].to_numpy())) if known and expected is not None else float("nan")
    if named.measure.name != "hit" or named.rel is not None or task.skip_first:
        return float("nan")
    queries, gallery = task.measured_queries(), task.gallery
    qrels = task.judgements().select(queries)
    pairs = qrels.queries.take(pa.array(np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets)))), qrels.documents
    right = qrels.grades > 0
    if gallery.ids is not None:
        right &= pc.is_in(qrels.documents, gallery.ids).to_numpy(zero_copy_only=False)
    sizes = np.full(len(qrels), gallery.size)
    if task.excluded is not None:
        excluded = task.excluded.select(queries)
        owners = pc.index_in(excluded.queries, qrels.queries).to_numpy()
        np.subtract.at(sizes, owners, np.diff(excluded.offsets))
        out = set(zip(excluded.queries.take(pa.array(excluded.query_rows)).to_pylist(),
                      excluded.documents.to_pylist(), strict=True))  # fmt: skip
        listed = zip(*(column.to_pylist() for column in pairs), strict=True)
        right &= np.array([pair not in out for pair in listed], bool)
    owners = np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))
    positives = np.bincount(owners, right, minlength=len(qrels)).astype(int)
    kinds, counts = np.unique(np.stack([sizes, positives]), axis=1, return_counts=True)
    values = [_hit(int(size), int(count), named.k or 1) for size, count in kinds.T]
    return float(np.average(values, weights=counts))


class _Choices:
    """The measured queries of a task with their candidates, positives, and the items that they belong to."""

    def __init__(self, task: Task) -> None:
        assert task.pools is not None
        self.queries = task.measured_queries()
        qrels = task.judgements()
        pools = task.pools
        rows = pc.fill_null(pc.index_in(self.queries, pools.queries), -1).to_numpy(zero_copy_only=False)
        right = pc.index_in(self.queries, qrels.queries).to_numpy()
        documents, judged = pools.documents.to_pylist(), qrels.documents.to_pylist()
        self.candidates: list[list[str]] = []
        self.positives: list[set[str]] = []
        for pool, row in zip(rows.tolist(), right.tolist(), strict=True):
            self.candidates.append([] if pool < 0 else documents[pools.offsets[pool] : pools.offsets[pool + 1]])
            places = range(int(qrels.offsets[row]), int(qrels.offsets[row + 1]))
            self.positives.append({judged[place] for place in places if qrels.grades[place] > 0})
        self.names: list[str] = self.queries.to_pylist()
        labels = task.labels
        of_queries = None if labels is None else labels.take(pc.index_in(self.queries, task.queries.ids))
        self.items: list[str | None] = item_names(of_queries, len(self.names)).to_pylist()


def _expected(named: Named, choices: _Choices, tasks: Sequence[_Choices]) -> NDArray[np.float64] | None:
    """(n,) the expected value of each query; None for a measure of which it is not known."""
    if named.rel is not None:
        return None
    sizes = [(len(pool), len(right & set(pool)), len(right))
             for pool, right in zip(choices.candidates, choices.positives, strict=True)]  # fmt: skip
    if named.measure.name == "hit":
        return np.array([_hit(size, reachable, named.k or 1) for size, reachable, _ in sizes])
    if named.measure.name == "precision":
        k = named.k or 1
        return np.array([min(k, size) * reachable / max(size, 1) / k for size, reachable, _ in sizes])
    if named.measure.name == "all_first":
        return np.array([_all_first(*entry) for entry in sizes])
    if not named.measure.joined:
        return None
    by_item: dict[str, list[tuple[_Choices, int]]] = {}
    for task in tasks:
        for row, item in enumerate(task.items):
            if item is not None:
                by_item.setdefault(item, []).append((task, row))
    values = []
    for row, item in enumerate(choices.items):
        members = [(choices, row)] if item is None else by_item[item]
        values.append(_of_item(members))
    return np.array(values)


def _hit(size: int, positives: int, k: int) -> float:
    if positives == 0:
        return 0.0
    return 1.0 if k >= size else 1 - comb(size - positives, k) / comb(size, k)


def _all_first(size: int, reachable: int, positives: int) -> float:
    return 1 / comb(size, positives) if 0 < positives == reachable else 0.0


def _of_item(members: Sequence[tuple[_Choices, int]]) -> float:
    """The chance that all queries of an item are right at once; NaN where it is not computed."""
    numbers: dict[tuple[str, str], int] = {}
    constraints = []
    for task, row in members:
        query, pool, right = task.names[row], task.candidates[row], task.positives[row]
        if not right or not right <= set(pool):
            return 0.0
        pairs = {document: numbers.setdefault((min(query, document), max(query, document)), len(numbers))
                 for document in pool}  # fmt: skip
        constraints += [(pairs[better], pairs[worse]) for better in pool if better in right
                        for worse in pool if worse not in right]  # fmt: skip
    return _share_of_orders(len(numbers), tuple(sorted(set(constraints))))


@cache
def _share_of_orders(pairs: int, constraints: tuple[Constraint, ...]) -> float:
    """The share of the orders of `pairs` scores that fulfil all constraints: linear extensions over orders."""
    parts = _components(pairs, constraints)
    if len(parts) > 1:
        product = 1.0
        for part in parts:
            place = {pair: number for number, pair in enumerate(part)}
            inside = tuple(sorted((place[a], place[b]) for a, b in constraints if a in place))
            product *= _share_of_orders(len(part), inside)
        return product
    if pairs > MOST_PAIRS:
        return float("nan")
    above = [0] * pairs
    for better, worse in constraints:
        above[worse] |= 1 << better
    orders = {0: 1}
    for _ in range(pairs):
        longer: dict[int, int] = {}
        for chosen, count in orders.items():
            for pair in range(pairs):
                if not chosen >> pair & 1 and above[pair] & ~chosen == 0:
                    longer[chosen | 1 << pair] = longer.get(chosen | 1 << pair, 0) + count
        orders = longer
    return sum(orders.values()) / factorial(pairs)


def _components(pairs: int, constraints: Sequence[Constraint]) -> list[list[int]]:
    """The pairs in sets that no constraint joins."""
    parent = list(range(pairs))

    def root(pair: int) -> int:
        while parent[pair] != pair:
            pair = parent[pair]
        return pair

    for better, worse in constraints:
        parent[root(better)] = root(worse)
    parts: dict[int, list[int]] = {}
    for pair in range(pairs):
        parts.setdefault(root(pair), []).append(pair)
    return list(parts.values())
