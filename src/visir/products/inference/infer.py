"""`infer_categories`: the likely categories of products that have none, with a calibrated confidence."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visir.display import Tabular, brief, counted
from visir.encoders.store import Store
from visir.errors import ConfigurationError, nearest, raise_faults
from visir.products.draft import UNCATEGORISED
from visir.products.inference.calibration import PathConfidence, fit_path_confidence
from visir.products.inference.features import WORDS, product_features
from visir.products.inference.neighbours import Neighbours, NeighbourSettings
from visir.products.inference.unseen import unseen_products
from visir.products.opening import open_uncategorised
from visir.products.tree import CategoryTree
from visir.records import Embeddings
from visir.records.catalogue import Catalogue
from visir.wilson import wilson

HELD_OUT = 2_000
"""How many labelled products are held out at most, one at a time."""
FEWEST = 20
"""How many labelled products are needed to calibrate."""
FOLDS = 5
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class LikelyCategory:
    """A category that a product may belong to."""

    id: str  # its id
    path: tuple[str, ...]  # the names from the most general category to this one
    # For each category of the path how likely it is that the product belongs to it; never rising.
    confidences: tuple[float, ...]

    @property
    def confidence(self) -> float:
        """How likely it is that the product belongs to it: 0 to 1."""
        return self.confidences[-1]


@dataclass(frozen=True)
class InferredProduct:
    """A product without a category, and its likely categories."""

    id: str  # its id
    title: str  # its title, or ""
    # The likely category; None where there is nothing to compare, or no category has enough confidence.
    answer: LikelyCategory | None
    others: tuple[LikelyCategory, ...]  # further likely categories, the most likely first


@dataclass(frozen=True)
class HeldOutPrecision:
    """How often answers were right among labelled products, each held out once."""

    # The confidences are those of maps that were fitted to other held-out products.

    products: int  # how many were held out
    answered: int  # how many have an answer
    right: int  # how many of those belong to the category of their answer
    exact: int  # how many of those stand in exactly this category
    confidence: float  # the mean confidence of the answers; equal to `precision` where confidences are calibrated

    @property
    def precision(self) -> float:
        """right / answered; NaN without answers."""
        return self.right / self.answered if self.answered else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the precision (Wilson)."""
        return wilson(self.precision, self.answered, 1.96) if self.answered else (0.0, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class InferredCategories(Tabular, view="visir.products.reports.inferred_view"):
    """The likely categories of products. `infer_categories` makes it; `visir.products.write_inferred` writes it.

    Args:
        catalogue: The products, labelled or not.
        system: What compared them.
        products: Those without a category, in the order of the catalogue.
        labelled: With how many labelled products they were compared.
        above: The least confidence of an answer; None for an answer to every product.
        held_out: What this reached on labelled products.
        settings: How shares are computed, chosen on labelled products.
        calibration: How shares become confidences.
        silent: How many products have nothing to compare.
        notes: What else must be known of the confidences.
    """

    catalogue: Catalogue
    system: str
    products: tuple[InferredProduct, ...]
    labelled: int
    above: float | None
    held_out: HeldOutPrecision
    settings: NeighbourSettings
    calibration: PathConfidence
    silent: int
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shown = [
            f"{product.id}: {' > '.join(product.answer.path)} ({product.answer.confidence:.2f})"
            for product in self.products[:3]
            if product.answer is not None
        ]
        return brief(
            self,
            f"{self.catalogue.name}: {counted(len(self.products), 'products')} by {self.system}, {self.labelled:,} "
            f"labelled",
            *shown,
            self.reached,
        )

    @property
    def answered(self) -> int:
        """How many products have an answer."""
        return sum(product.answer is not None for product in self.products)

    @property
    def reached(self) -> str:
        """What was reached on labelled products, in a sentence."""
        held = self.held_out
        where = "" if self.above is None else f" with confidence {self.above:g} or more"
        if not held.answered:
            return f"No answer{where} for {held.products:,} labelled products, each held out once."
        low, high = held.interval
        return (
            f"Answers{where}: {held.answered:,} of {held.products:,} labelled products, each held out once; "
            f"{100 * held.precision:.1f} % right (95 % interval {100 * low:.1f} to {100 * high:.1f}), mean confidence "
            f"{100 * held.confidence:.1f} %."
        )


def infer_categories(
    catalogue: Catalogue | str | Path,
    system: str | Path | Embeddings = WORDS,
    *,
    products: Collection[str] | None = None,
    above: float | None = None,
    count: int = 3,
    seed: int = 0,
    device: str | None = None,
    store: Store | None = None,
) -> InferredCategories:
    """Infer the categories of products that have none (thesis section 7.1, the second use of category search).

    Products are compared with the labelled products and, where the system knows them, with the names of categories
    (`visir.products.inference.neighbours`). The settings and the confidences come from labelled products, of which each
    is held out once; its category is then not read. Of a trained model only products that it was not trained with are
    held out.

    The confidences hold for products like the labelled ones. Where categories are missing for a reason (a new
    supplier, a new category), they can be too high.

    Args:
        catalogue: A table or folder that `open_catalogue` takes; products without a category are those to infer. Or
            a `Catalogue`; then `products` says which.
        system: "words" (titles and attributes), "text:NAME" (titles), "clip:NAME" (pictures), the folder of a trained
            model, or vectors of your own with the ids of products.
        products: Ids of the products to infer, whatever category they have now; None: those without one.
        above: Give each product the most specific category whose confidence is at least this, 0 to 1, or none; None:
            the most likely of the categories in which products stand.
        count: How many likely categories are listed for each product.
        seed: Of the draw of products that are held out, where there are more than 2,000.
        device: Where encoders run; None takes the best there is.
        store: Where vectors are kept; None takes the cache of the user.

    Raises:
        ConfigurationError: An argument is wrong, no product is without a category, or there are fewer than 20 labelled
            products.
        CollectionError: The table cannot be read.

    Example:
        >>> from visir.products import open_catalogue
        >>> shop = open_catalogue("generated:400")
        >>> inferred = infer_categories(shop, products=["product-0-000002"], above=0.5)
        >>> inferred.products[0].title, inferred.products[0].answer.path
        ('Hollis 102 teapot', ('Home and leisure', 'Teapots', 'Porcelain teapots'))
    """
    if isinstance(catalogue, Catalogue):
        named = [product for product, category in _pairs(catalogue) if category == UNCATEGORISED]
    else:
        catalogue, named = open_uncategorised(catalogue)
    ids: list[str] = catalogue.products["id"].to_pylist()
    wanted = set(named) if products is None else set(products)
    _check(catalogue, wanted, set(named), above, count)
    tree = CategoryTree.of(catalogue)
    categories = tree.rows(catalogue.products["category_id"])
    features = product_features(catalogue, system, device=device, store=store)
    hidden = np.array([product in wanted for product in ids])
    unlabelled = hidden | np.isin(ids, named)
    labelled = np.flatnonzero(~unlabelled & features.present)
    if len(labelled) < FEWEST:
        raise ConfigurationError(
            f"{catalogue.name}: {len(labelled):,} products have a category and what {features.name} reads; at least "
            f"{FEWEST} are needed to calibrate confidences.",
            hint="give more products their category",
            code="products-category-reads",
        )
    possible = tree.leaves & (np.array(tree.ids) != UNCATEGORISED)
    possible[categories[labelled]] = True
    neighbours = Neighbours(features, tree, labelled, categories, possible)
    rng = np.random.default_rng(seed)
    held_back, notes = _not_learnt_from(catalogue, system, labelled)
    trial = np.sort(rng.permutation(held_back)[:HELD_OUT])
    settings = neighbours.chosen_settings(trial)
    candidates = _candidates(neighbours, trial, settings, count)
    calibration = _fitted(candidates, categories[trial], tree)
    held_out = _held_out(candidates, categories[trial], tree, above, rng)
    rows = np.flatnonzero(hidden)
    compared = rows[features.present[rows]]
    answers = dict(zip(compared.tolist(), _candidates(neighbours, compared, settings, count), strict=True))
    titles = catalogue.products["title"].to_pylist()
    inferred = tuple(
        _inferred(ids[row], titles[row] or "", answers.get(row, []), calibration, tree, above) for row in rows.tolist()
    )
    return InferredCategories(
        catalogue,
        features.name,
        inferred,
        len(labelled),
        above,
        held_out,
        settings,
        calibration,
        len(rows) - len(compared),
        notes,
    )


def _not_learnt_from(
    catalogue: Catalogue, system: str | Path | Embeddings, labelled: Ints
) -> tuple[Ints, tuple[str, ...]]:
    """The labelled products that a trained model has not learnt from, and what must be said about it."""
    if isinstance(system, Embeddings) or not Path(system).is_dir():
        return labelled, ()
    unseen = unseen_products(catalogue, system)
    if unseen is None:
        note = "It is not known which products the model was trained with: confidences can be too high."
        return labelled, (note,)
    rows = labelled[unseen[labelled]]
    if len(rows) < FEWEST:
        note = f"The model was trained with all labelled products but {len(rows)}: confidences can be too high."
        return labelled, (note,)
    return rows, (f"Held out: the {len(rows):,} labelled products that the model was not trained with.",)


def _pairs(catalogue: Catalogue) -> zip[tuple[str, str]]:
    return zip(*(catalogue.products[column].to_pylist() for column in ("id", "category_id")), strict=True)


def _check(catalogue: Catalogue, wanted: set[str], named: set[str], above: float | None, count: int) -> None:
    ids = catalogue.products["id"].to_pylist()
    faults = [f"unknown product {product!r} ({nearest(product, ids)})" for product in sorted(wanted - set(ids))[:5]]
    if above is not None and not 0 < above < 1:
        faults.append(f"above must be between 0 and 1, not {above:g}")
    if count < 1:
        faults.append(f"count must be at least 1, not {count}")
    if not wanted:
        faults.append("no product is without a category; products= names those to infer all the same")
    raise_faults(ConfigurationError, f"{catalogue.name}: categories cannot be inferred", faults)


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A category in which a product may stand: its row, the rows of its path, and their shares."""

    row: int
    path: Ints
    shares: Floats


def _candidates(neighbours: Neighbours, rows: Ints, settings: NeighbourSettings, count: int) -> list[list[_Candidate]]:
    """For each product the `count` categories with the largest shares by themselves, where these are above 0."""
    tree = neighbours.tree
    listed: list[list[_Candidate]] = []
    for _, own in neighbours.shares(rows, settings):
        total = neighbours.with_those_below(own)
        best = np.argsort(-own, axis=1, kind="stable")[:, :count]
        for at, of_product in enumerate(best):
            paths = [tree.paths[row, : tree.depths[row]] for row in of_product if own[at, row] > 0]
            listed.append([_Candidate(int(path[-1]), path, total[at, path]) for path in paths])
    return listed


def _fitted(candidates: Sequence[Sequence[_Candidate]], right: Ints, tree: CategoryTree) -> PathConfidence:
    """The maps that fit the path of the best candidate of every product."""
    best = [(of_product[0], row) for of_product, row in zip(candidates, right, strict=True) if of_product]
    return fit_path_confidence(
        [candidate.shares for candidate, _ in best],
        [np.asarray(tree.contains(candidate.path, row)) for candidate, row in best],
    )


def _held_out(
    candidates: Sequence[Sequence[_Candidate]],
    right: Ints,
    tree: CategoryTree,
    above: float | None,
    rng: np.random.Generator,
) -> HeldOutPrecision:
    fold = rng.permutation(len(right)) % FOLDS
    answered, hits, exact, confidences = 0, 0, 0, 0.0
    for number in range(FOLDS):
        others, own = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        calibration = _fitted([candidates[at] for at in others.tolist()], right[others], tree)
        for at in own.tolist():
            answer, _ = _answer(candidates[at], calibration, tree, above)
            if answer is not None:
                row, of_path = answer
                answered += 1
                hits += bool(tree.contains(np.array(row), right[at]))
                exact += int(row == right[at])
                confidences += of_path[-1]
    return HeldOutPrecision(len(right), answered, hits, exact, confidences / answered if answered else float("nan"))


_Answer = tuple[int, list[float]]


def _answer(
    candidates: Sequence[_Candidate], calibration: PathConfidence, tree: CategoryTree, above: float | None
) -> tuple[_Answer | None, list[_Answer]]:
    """The answer and all candidates: (row, the confidences of its path)."""
    listed = [(candidate.row, calibration(candidate.shares).tolist()) for candidate in candidates]
    if above is None:
        return (listed[0] if listed else None), listed
    sure: list[_Answer] = []
    for candidate, (_, confidences) in zip(candidates, listed, strict=True):
        levels = sum(confidence >= above for confidence in confidences)
        if levels:
            sure.append((int(candidate.path[levels - 1]), confidences[:levels]))
    return max(sure, key=lambda answer: (len(answer[1]), answer[1][-1]), default=None), listed


def _inferred(
    product: str,
    title: str,
    candidates: Sequence[_Candidate],
    calibration: PathConfidence,
    tree: CategoryTree,
    above: float | None,
) -> InferredProduct:
    answer, listed = _answer(candidates, calibration, tree, above)
    others = tuple(_likely(tree, other) for other in listed if answer is None or other[0] != answer[0])
    return InferredProduct(product, title, None if answer is None else _likely(tree, answer), others)


def _likely(tree: CategoryTree, answer: _Answer) -> LikelyCategory:
    row, confidences = answer
    path = tuple(tree.names[above] for above in tree.paths[row, : tree.depths[row]])
    return LikelyCategory(tree.ids[row], path, tuple(confidences))
