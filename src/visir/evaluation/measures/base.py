"""The form of a measure: a function of the ranks of the positives, with a description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visir.records import Ranks

Values = NDArray[np.float64]
"""(n,) one value per query."""


class Positives:
    """`Ranks` laid out for arithmetic over all queries at once.

    Attributes:
        source: The ranks.
        n: The number of queries.
        count: (n,) the number of positives of each query.
        query: (m,) the query of each positive.
        rank: (m,) its rank; infinite if it was not retrieved, so every comparison `rank <= k` is right without a
            special case.
        ordinal: (m,) its position among the positives of its query, from 1.
        grade: (m,) its grade.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.source = ranks
        self.n = len(ranks)
        self.count = ranks.positives.astype(np.float64)
        self.query = np.repeat(np.arange(self.n), ranks.positives)
        self.rank = np.where(ranks.ranks > 0, ranks.ranks, np.inf).astype(np.float64)
        self.ordinal = (np.arange(len(self.query)) - np.repeat(ranks.offsets[:-1], ranks.positives) + 1).astype(
            np.float64
        )
        self.grade = ranks.grades.astype(np.float64)

    def sum(self, values: NDArray[np.float64] | NDArray[np.bool_]) -> Values:
        """(n,) the sum of the positives' values, query by query, in the order of rank."""
        return np.bincount(self.query, values, self.n).astype(np.float64)

    def share(self, numerator: Values, denominator: Values) -> Values:
        """(n,) the quotient; 0 for a query without any positive, as trec_eval counts it."""
        return np.divide(numerator, denominator, out=np.zeros(self.n), where=denominator > 0)

    @cached_property
    def first(self) -> Values:
        """(n,) the rank of the first positive; infinite where none was retrieved."""
        first = np.full(self.n, np.inf)
        has_positives = self.source.positives > 0
        first[has_positives] = self.rank[self.source.offsets[:-1][has_positives]]
        return first

    @cached_property
    def ideal(self) -> NDArray[np.float64]:
        """(m,) the grades of each query in descending order: the best possible ranking."""
        if len(self.grade) == 0 or (self.grade == self.grade[0]).all():
            return self.grade
        return self.grade[np.lexsort((-self.grade, self.query))]


Compute = Callable[[Positives, float], Values]
"""(positives, cutoff) -> one value per query; the cutoff is infinite for the whole ranking."""


@dataclass(frozen=True)
class Measure:
    """A measure with its description: the list of the command line and the tables of the docs are printed from it.

    Attributes:
        name: The name without cutoff ("hit").
        title: The name in words.
        formula: The formula in plain text.
        says: One sentence for the reader.
        papers: What papers on image–caption retrieval call it.
        source: Where the definition is from.
        compute: The function.
        cutoff: "required" (hit@5), "optional" (mrr, mrr@10) or "none" (median_rank).
        cutoff_says: What the number after "@" means.
        aliases: Other names that people type, without cutoff; case, "-", "_" and spaces do not matter.
        differs: The other reading of this name, and where it is used.
        best: Whether "high" or "low" is better.
        unit: "fraction" in [0, 1], "rank" from 1, or "gain".
        aggregate: How the values of the queries become one number.
        joined: Of measures of items: whether all queries of an item in the same "task", or in "all" tasks, must be
            right. `compute` gives the value of a single query (`visir.evaluation.folds`).
    """

    name: str
    title: str
    formula: str
    says: str
    papers: str
    source: str
    compute: Compute
    cutoff: Literal["required", "optional", "none"] = "required"
    cutoff_says: str = ""
    aliases: tuple[str, ...] = ()
    differs: str = ""
    best: Literal["high", "low"] = "high"
    unit: Literal["fraction", "rank", "gain"] = "fraction"
    aggregate: Literal["mean", "median"] = "mean"
    joined: Literal["", "task", "all"] = ""

    @property
    def pattern(self) -> str:
        """The form of the name: "hit@k", "mrr[@k]", "median_rank"."""
        return self.name + {"required": "@k", "optional": "[@k]", "none": ""}[self.cutoff]
