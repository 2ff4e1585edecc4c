"""The Jaccard analysis: do perturbations break the same captions? (brittleness paper, section 5.4, Table 5)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visir.display import Displayed, brief, counted
from visir.errors import ConfigurationError

GROUPS = ("decreased", "increased", "unchanged")


@dataclass(frozen=True, eq=False)
class Jaccard(Displayed):
    """How similar the sets of captions are on which perturbations have the same effect."""

    names: tuple[str, ...]  # (p,) the perturbations
    counts: Mapping[str, NDArray[np.int64]]  # by group: (p,) the number of captions of each perturbation in the group
    # By group: (p, p) the Jaccard similarity |A ∩ B| / |A ∪ B| of every two sets; NaN where both are empty.
    pairwise: Mapping[str, NDArray[np.float64]]
    queries: int  # the number of captions, n

    def __repr__(self) -> str:
        means = ", ".join(f"{group} {self.mean(group):.3f}" for group in self.counts)
        return brief(self, f"{counted(len(self.names), 'perturbations')}, {counted(self.queries, 'captions')}: {means}")

    def mean(self, group: str) -> float:
        """The mean similarity over all pairs of perturbations."""
        # With p perturbations there are p (p − 1) / 2 pairs: 78 for thirteen. Pairs of two empty sets are left out.
        pairs = self._pairs(group)
        return float(pairs.mean()) if len(pairs) else float("nan")

    def range(self, group: str) -> tuple[float, float]:
        """The lowest and the highest similarity of all pairs."""
        # Returns: (lowest, highest); (NaN, NaN) without any pair.
        pairs = self._pairs(group)
        return (float(pairs.min()), float(pairs.max())) if len(pairs) else (float("nan"), float("nan"))

    def by_chance(self, group: str) -> float:
        """The mean similarity that independent sets of these sizes would have: pq / (p + q − pq) for each pair."""
        # Most captions are unchanged, so two sets of unchanged captions are similar by their size alone. Compare a
        # similarity with this value.
        share = self.counts[group] / self.queries
        both = share[:, None] * share[None, :]
        either = share[:, None] + share[None, :] - both
        upper = np.triu_indices(len(share), 1)
        is_defined = either[upper] > 0
        return float((both[upper][is_defined] / either[upper][is_defined]).mean()) if is_defined.any() else float("nan")

    def _pairs(self, group: str) -> NDArray[np.float64]:
        values = self.pairwise[group][np.triu_indices(len(self.names), 1)]
        defined: NDArray[np.float64] = values[~np.isnan(values)]
        return defined


def jaccard(differences: Mapping[str, NDArray[np.float64]]) -> Jaccard:
    """Analyse the per-query changes of rsum."""
    # The paper sorts the perturbed captions of a model into those that decreased rsum, increased it, or left it as it
    # was, and takes the similarity of each group "across all image-caption pairs within a dataset". Here, for each
    # group, there is one set of captions per perturbation, and the sets are compared pairwise. The other reading, the
    # intersection of all thirteen sets at once, gives values near 0 for every group but the unchanged.
    # differences: {perturbation: (n,) rsum after − before}, all over the same n queries.
    if len(differences) < 2:
        raise ConfigurationError(
            "a similarity of sets needs two perturbations at least.",
            hint="name more of them",
            code="similarity-sets-needs-two",
        )
    if len({len(difference) for difference in differences.values()}) > 1:
        raise ConfigurationError(
            "perturbations over different queries cannot be compared caption by caption.",
            code="perturbations-over-different-queries",
        )
    matrix = np.stack(list(differences.values()))
    # Sums of three recalls in binary: values that differ in the last bits are equal.
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
