"""Whether perturbations break the same captions: the brittleness paper's Jaccard analysis (section 5.4, Table 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visir.errors import ConfigurationError

GROUPS = ("decreased", "increased", "unchanged")


@dataclass(frozen=True, eq=False)
class Jaccard:
    """How alike the sets of captions are on which perturbations have the same effect.

    - `names`: (p,) the perturbations
    - `counts[group]`: (p,) how many captions each perturbation has in the group
    - `pairwise[group]`: (p, p) the Jaccard similarity |A ∩ B| / |A ∪ B| of every two sets; NaN where both are empty
    - `queries`: n
    """

    names: tuple[str, ...]
    counts: Mapping[str, NDArray[np.int64]]
    pairwise: Mapping[str, NDArray[np.float64]]
    queries: int

    def mean(self, group: str) -> float:
        """The mean over all pairs of perturbations (those whose two sets are both empty left out); NaN without any.

        With p perturbations there are p (p − 1) / 2 pairs: 78 for thirteen.
        """
        pairs = self._pairs(group)
        return float(pairs.mean()) if len(pairs) else float("nan")

    def range(self, group: str) -> tuple[float, float]:
        """The least and the largest of all pairs."""
        pairs = self._pairs(group)
        return (float(pairs.min()), float(pairs.max())) if len(pairs) else (float("nan"), float("nan"))

    def by_chance(self, group: str) -> float:
        """The mean if sets of these sizes had nothing to do with one another: pq / (p + q − pq) for each pair.

        An unchanged caption is the usual case, so two sets of unchanged ones are alike by their size alone; a
        similarity says something only beside this.
        """
        share = self.counts[group] / self.queries
        both = share[:, None] * share[None, :]
        either = share[:, None] + share[None, :] - both
        upper = np.triu_indices(len(share), 1)
        known = either[upper] > 0
        return float((both[upper][known] / either[upper][known]).mean()) if known.any() else float("nan")

    def _pairs(self, group: str) -> NDArray[np.float64]:
        values = self.pairwise[group][np.triu_indices(len(self.names), 1)]
        defined: NDArray[np.float64] = values[~np.isnan(values)]
        return defined


def jaccard(differences: Mapping[str, NDArray[np.float64]]) -> Jaccard:
    """The analysis of per-query changes of rsum (after − before), {perturbation: (n,)}, all over the same n queries.

    The paper sorts the perturbed captions of a model into those that made rsum decrease, increase, or left it as it
    was, and takes the similarity of each group "across all image-caption pairs within a dataset". Here that is: for
    each group one set of captions per perturbation, compared pairwise. Another reading, all thirteen sets intersected
    at once, gives values near 0 for every group but the unchanged.

    Raises `ConfigurationError` when there are fewer than two perturbations or their queries differ in number.
    """
    if len(differences) < 2:
        raise ConfigurationError("a similarity of sets needs two perturbations at least.", hint="name more of them")
    if len({len(difference) for difference in differences.values()}) > 1:
        raise ConfigurationError("perturbations over different queries cannot be compared caption by caption.")
    matrix = np.stack(list(differences.values()))
    # Sums of three recalls in binary: what differs in the last bits is the same.
    sign = np.where(np.abs(matrix) < 1e-9, 0, np.sign(matrix)).astype(np.int8)
    counts, pairwise = {}, {}
    for group, which in zip(GROUPS, (-1, 1, 0), strict=True):
        member = (sign == which).astype(np.float64)
        both = member @ member.T
        sizes = np.diag(both)
        either = sizes[:, None] + sizes[None, :] - both
        pairwise[group] = np.divide(both, either, out=np.full_like(both, np.nan), where=either > 0)
        counts[group] = sizes.astype(np.int64)
    return Jaccard(tuple(differences), counts, pairwise, matrix.shape[1])
