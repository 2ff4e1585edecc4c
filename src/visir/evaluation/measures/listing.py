"""All measures in a list, as people type them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from visir.display import Tabular
from visir.errors import VisirError
from visir.evaluation.measures.base import Measure
from visir.evaluation.measures.registry import MEASURES, read_measure
from visir.evaluation.measures.typed import Named


@dataclass(frozen=True, repr=False)
class MeasureList(Tabular, view="visir.reports.views.measures"):
    """The measures, with their formulas and the names that people type."""

    measures: dict[str, Measure]  # the measures by name

    def __len__(self) -> int:
        return len(self.measures)

    def __iter__(self) -> Iterator[Measure]:
        return iter(self.measures.values())

    def __getitem__(self, typed: str) -> Measure:
        """The measure that a name means: "nDCG@10", "AP"."""
        named = read_measure(typed)
        if not isinstance(named, Named):  # without the cutoff that it needs
            named = read_measure(f"{typed}@10")
        if not isinstance(named, Named):
            raise VisirError(str(read_measure(typed)), hint="visir.measures() lists them")
        return named.measure

    def __repr__(self) -> str:
        names = ", ".join(measure.pattern for measure in self.measures.values())
        return f"MeasureList({names})"


def measures() -> MeasureList:
    """List the measures: what each is called, what it computes, and what else its name is used for.

    Wherever measures are named, `visir.evaluate(…, measures=["R@1", "nDCG@10"])`, `evaluation["t2i R@1"]`,
    `visir.compare(…, measures=…)`, `visir evaluate --measure`, names are read as people type them:

    - **R@k** is the recall that the protocol declares: `hit@k` in image–text retrieval ("is one of the positives among
      the first k"), `recall@k` for judgements alone. Every other name has one meaning; `recall@k` is the share of the
      positives.
    - Upper and lower case, "-", "_" and spaces do not matter: `nDCG@10`, `ndcg@10`; `hit_rate@5`, `HitRate@5`.
    - Names of ir_measures, ranx and trec_eval are known: `Success@5`, `RR`, `AP`, `P@5`, `P_5`, `ndcg_cut_10`,
      `recip_rank`, and measures of `ir_measures` themselves.
    - `rel=` is the lowest grade that counts as right: `AP(rel=2)@10`.
    - `rsum` is R@1 + R@5 + R@10 in percentage points.

    Returns:
        The list, which prints itself as a table; `measures()["nDCG"]` is one of them.

    Example:
        >>> import visir
        >>> visir.measures()["Success@5"].name, visir.measures()["AP"].aliases[0]
        ('hit', 'AP')
        >>> print(visir.measures()["R@5"].differs)
        recall@k, the share of the positives; the `hits@k` of ranx counts them

    A measure of your own is a function of the ranks of the positives; `R@k` and the others are written in the same way:

        from visir.evaluation.measures import MEASURES, Measure

        def late(positives, k):
            return positives.sum(positives.rank > k)

        MEASURES.add("late", Measure("late", "Late positives", "|positives behind rank k|", "How many come late?",
                                     "", "own", late, best="low", unit="gain"))
        visir.evaluate(collection, model, measures=["late@10"])
    """
    return MeasureList(dict(MEASURES.items()))
