"""From the nearest labelled products, and the names of categories, to a share for every category of the tree.

A product without a category is compared with the labelled ones. Each of the k nearest gives its category the weight
exp(cosine / τ); the names of the categories do the same, with a τ of their own. The shares of the two are mixed, and
the share of a category is the sum over itself and all categories below it: so no category has a larger share than the
one above it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from visir.products.inference.features import ProductFeatures, chosen_rows, similarities
from visir.products.tree import NONE, CategoryTree

COUNTS = (1, 3, 5, 10, 20)
SHARPNESS = (0.02, 0.05, 0.1, 0.2)
NAMES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
"""The settings that are tried: k, τ, and the weight of the names."""
BLOCK = 512
_LEAST = 1e-3
_NEVER = np.float32(-np.inf)
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class NeighbourSettings:
    """How shares are computed."""

    k: int = 10  # how many labelled products count
    tau: float = 0.1  # the τ of products
    names: float = 0.0  # the weight of the categories' names, 0 to 1
    names_tau: float = 0.05  # the τ of names


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The labelled products of a catalogue, and how others are compared with them."""

    features: ProductFeatures  # of all products and categories
    tree: CategoryTree  # the categories
    labelled: Ints  # (l,) rows of the products whose category is known
    categories: Ints  # (n,) the row of the category of each product; only those of `labelled` are read
    possible: NDArray[np.bool_]  # (c,) bool: which categories a product may stand in

    def evidence(self, rows: Ints) -> tuple[Floats, Ints, Floats | None]:
        """Compare products with the labelled ones, never with themselves."""
        # rows: (m,) rows of products.
        # Returns: (m, k) cosines of the nearest labelled products, best first, k the largest of `COUNTS` (−inf where
        # there are fewer); (m, k) the rows of their categories; (m, c) cosines with the names of categories, or None.
        most = min(max(COUNTS), len(self.labelled))
        base = chosen_rows(self.features.products, self.labelled)
        own = np.full(len(self.categories), -1, np.int64)
        own[self.labelled] = np.arange(len(self.labelled))
        scores, labels = np.empty((len(rows), most)), np.empty((len(rows), most), np.int64)
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            cosines = similarities(chosen_rows(self.features.products, block), base)
            itself = np.flatnonzero(own[block] >= 0)
            cosines[itself, own[block[itself]]] = _NEVER
            best = np.argsort(-cosines, axis=1, kind="stable")[:, :most]
            scores[start : start + BLOCK] = np.take_along_axis(cosines, best, 1)
            labels[start : start + BLOCK] = self.categories[self.labelled[best]]
        if self.features.categories is None:
            return scores, labels, None
        names = similarities(chosen_rows(self.features.products, rows), self.features.categories).astype(np.float64)
        # Without this product, nobody would know of a category in which it stands alone.
        members = np.bincount(self.categories[self.labelled], minlength=len(self.tree))
        alone = np.flatnonzero((own[rows] >= 0) & (members[self.categories[rows]] == 1))
        names[alone, self.categories[rows[alone]]] = _NEVER
        return scores, labels, names

    def shares(self, rows: Ints, settings: NeighbourSettings) -> Iterator[tuple[Ints, Floats]]:
        """Yield blocks of rows with their (m, c) shares of the categories in which products may stand."""
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            yield block, self.mixed(self.evidence(block), settings)

    def mixed(self, evidence: tuple[Floats, Ints, Floats | None], settings: NeighbourSettings) -> Floats:
        """(m, c) the share of each category by itself, without those below it; rows sum to 1."""
        scores, labels, names = evidence
        by_products = np.zeros((len(scores), len(self.tree)))
        weights = _softmax(scores[:, : settings.k] / settings.tau)
        np.add.at(by_products, (np.arange(len(scores))[:, None], labels[:, : settings.k]), weights)
        if names is None or not settings.names:
            return by_products
        by_names = _softmax(np.where(self.possible, names, _NEVER) / settings.names_tau)
        return (1 - settings.names) * by_products + settings.names * by_names

    def chosen_settings(self, rows: Ints) -> NeighbourSettings:
        """Choose settings: the largest mean logarithm of the share of the right category, floored at 0.001."""
        evidence, right = self.evidence(rows), self.categories[rows]

        def value(settings: NeighbourSettings) -> float:
            share = self.mixed(evidence, settings)[np.arange(len(rows)), right]
            return float(np.log(np.maximum(share, _LEAST)).mean())

        tried = [NeighbourSettings(k, tau) for k, tau in itertools.product(COUNTS, SHARPNESS)]
        best = max(tried, key=value)
        if evidence[2] is None:
            return best
        more = [replace(best, names=names, names_tau=tau) for names, tau in itertools.product(NAMES, SHARPNESS)]
        return max(more, key=value)

    def with_those_below(self, shares: Floats) -> Floats:
        """(m, c) the share of each category and all below it, from the shares of each by itself."""
        total = shares.copy()
        for row in np.argsort(-self.tree.depths, kind="stable"):
            if (above := self.tree.parents[row]) != NONE:
                total[:, above] += total[:, row]
        return np.minimum(total, 1)


def _softmax(values: Floats) -> Floats:
    largest = values.max(axis=1, keepdims=True)
    weights = np.exp(values - np.where(np.isfinite(largest), largest, 0))
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(weights / np.where(total > 0, total, 1))
