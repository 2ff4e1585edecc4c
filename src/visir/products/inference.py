"""`infer_categories`: the likely categories of products that have none, with a calibrated confidence."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.sparse import csr_array, vstack

import visir.stats as stats
from visir.collections.readers.products import UNCATEGORISED
from visir.display import Tabular, brief, counted
from visir.encoders.store import Store
from visir.errors import ConfigurationError, nearest, raise_faults
from visir.products.opening import open_uncategorised, write_new_table
from visir.products.systems import CategoryVectorSystem, baseline
from visir.products.task import folds
from visir.products.text_search import catalogue_texts
from visir.records import Embeddings
from visir.records.catalogue import Catalogue
from visir.records.category_tree import NONE, CategoryTree
from visir.retrieval.text.words import STOP_WORDS, Language, words_of

# What products and categories are compared by: weighted words, vectors of an encoder or a trained model, or yours.

WORDS = "words"
FORMS = (WORDS, "text:NAME", "clip:NAME", "the folder of a trained model")
"""How a system is named."""
Rows = NDArray[np.float32] | csr_array


@dataclass(frozen=True, eq=False)
class ProductFeatures:
    """Products and categories as rows of length 1, compared by cosine."""

    name: str  # the system they come from
    products: Rows  # (n, d) in the order of `catalogue.products`; a product without text or picture has zeros
    # (c, d) in the order of `catalogue.categories`, in the same space; None where there are none.
    categories: Rows | None

    @property
    def present(self) -> NDArray[np.bool_]:
        """(n,) bool: which products can be compared."""
        squares = self.products.power(2) if isinstance(self.products, csr_array) else np.square(self.products)
        return np.asarray(squares.sum(axis=1)).ravel() > 0


def product_features(
    catalogue: Catalogue,
    system: str | Path | Embeddings,
    *,
    device: str | None = None,
    store: Store | None = None,
) -> ProductFeatures:
    """Return the features of all products and categories. No category of a product is read."""
    # system: "words" (words of titles and attributes, rare ones count more), "text:NAME" (titles), "clip:NAME"
    # (pictures), the folder of a trained model, or vectors of your own with product ids.
    if isinstance(system, Embeddings):
        features = ProductFeatures(system.encoder.name, _placed(system, catalogue.products["id"]), None)
    elif system == WORDS:
        features = _words(catalogue)
    elif Path(system).is_dir() or str(system).partition(":")[0] in ("text", "clip"):
        loaded = baseline(str(system), catalogue, device=device, store=store)
        assert isinstance(loaded, CategoryVectorSystem)
        products, categories = _placed(loaded.products, catalogue.products["id"]), catalogue.categories["id"]
        features = ProductFeatures(loaded.name, products, _placed(loaded.categories, categories))
    else:
        raise ConfigurationError(
            f"unknown system {str(system)!r}: no such folder",
            hint=nearest(str(system), FORMS),
            code="configuration-no-such-folder",
        )
    if not features.present.any():
        raise ConfigurationError(
            f"{catalogue.name}: no product has what {features.name} reads.",
            hint="name another system, or give titles, attributes or pictures",
        )
    return features


def _placed(embeddings: Embeddings, ids: object) -> NDArray[np.float32]:
    """(n, d) unit vectors in the order of `ids`; zeros where there is none."""
    rows = pc.fill_null(pc.index_in(ids, value_set=embeddings.ids), -1).to_numpy().astype(np.int64)
    vectors = np.zeros((len(rows), embeddings.vectors.shape[1]), np.float32)
    vectors[rows >= 0] = np.asarray(embeddings.vectors)[rows[rows >= 0]]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1))


def _words(catalogue: Catalogue) -> ProductFeatures:
    _, texts = catalogue_texts(catalogue)
    language = Language("plural")

    def terms(text: str) -> list[str]:
        return language.terms([word for word in words_of(text) if word not in STOP_WORDS])

    products = [terms(f"{title} {rest}") for title, rest in zip(texts["title"], texts["attributes"], strict=True)]
    frequencies = Counter(term for words in products for term in set(words))
    columns = {term: column for column, term in enumerate(sorted(frequencies))}
    idf = np.log((1 + len(products)) / (1 + np.array([frequencies[term] for term in columns]))) + 1
    names = [terms(name) for name in catalogue.categories["id"].to_pylist()]
    return ProductFeatures(WORDS, _weighted(products, columns, idf), _weighted(names, columns, idf))


def _weighted(texts: Sequence[Sequence[str]], columns: dict[str, int], idf: NDArray[np.float64]) -> csr_array:
    """(n, terms) TF-IDF: (1 + log count) · idf, rows of length 1."""
    counts = [Counter(columns[term] for term in words if term in columns) for words in texts]
    indices = np.array([column for count in counts for column in count], np.int64)
    values = np.array([number for count in counts for number in count.values()], np.float64)
    offsets = np.concatenate([[0], np.cumsum([len(count) for count in counts])]).astype(np.int64)
    values = (1 + np.log(values)) * idf[indices]
    owners = np.repeat(np.arange(len(texts)), np.diff(offsets))
    lengths = np.sqrt(np.bincount(owners, values**2, minlength=len(texts)))
    data = (values / lengths[owners]).astype(np.float32)
    return csr_array((data, indices, offsets), shape=(len(texts), len(columns)))


def similarities(first: Rows, second: Rows) -> NDArray[np.float32]:
    """(a, b) the cosine of every pair of rows."""
    product = first @ second.T
    return np.asarray(product.toarray() if isinstance(product, csr_array) else product, np.float32)


def chosen_rows(features: Rows, rows: NDArray[np.int64]) -> Rows:
    """The rows with these numbers."""
    if isinstance(features, csr_array):
        return vstack([features[rows]], format="csr") if len(rows) else features[:0]
    return features[rows]


# From the nearest labelled products, and the names of categories, to a share for every category of the tree.

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


# Shares become confidences: how often an answer with such a share was right among products that were held out.

GROUP, MOST_GROUPS = 25, 20
"""How many answers a group has at least, and how many groups there are at most."""
FEWEST_OF_LEVEL = 100
"""A level of the tree with fewer held-out answers than this has no map of its own."""


@dataclass(frozen=True, eq=False)
class ConfidenceMap:
    """Straight lines between points; flat beyond the first and the last. A larger share never has less confidence."""

    shares: Floats  # (k,) rising
    confidences: Floats  # (k,) never falling, between 0 and 1

    def __call__(self, shares: Floats) -> Floats:
        """Confidences of shares, of any shape."""
        return np.asarray(np.interp(shares, self.shares, self.confidences))


def fit_confidence(shares: Floats, right: NDArray[np.bool_]) -> ConfidenceMap:
    """Fit the map to answers whose outcome is known: isotonic regression over groups of equally many answers."""
    # A group has `GROUP` answers or more; with r right ones among n its confidence is (r + p) / (n + 1), p the same for
    # all m answers, (R + 1) / (m + 2). So a few answers that are all right do not give the confidence 1. Groups that
    # would fall are joined (Zadrozny and Elkan, 2002).
    # shares: (m,) shares in [0, 1].
    # right: (m,) whether each answer is right.
    if not len(shares):
        return ConfidenceMap(np.zeros(1), np.full(1, 0.5))
    order = np.argsort(shares, kind="stable")
    groups = np.array_split(order, min(MOST_GROUPS, max(1, len(order) // GROUP)))
    points = np.array([shares[group].mean() for group in groups])
    overall = (right.sum() + 1) / (len(right) + 2)
    confidences = [(right[group].sum() + overall) / (len(group) + 1) for group in groups]
    rising = never_falling(np.array(confidences))
    distinct, first = np.unique(points, return_index=True)  # groups of one and the same share
    joined = np.add.reduceat(rising, first) / np.diff([*first, len(rising)])
    return ConfidenceMap(distinct, joined)


def never_falling(values: Floats) -> Floats:
    """(d,) the nearest values, in squares, that never fall."""
    return np.asarray(isotonic_regression(values).x, np.float64) if len(values) else values


@dataclass(frozen=True)
class PathConfidence:
    """Confidences of the categories of a path, level by level."""

    # The confidence of the most general category comes from its share. That of every other one is the confidence of the
    # category above it, times how likely this category is where the one above is right; that comes from the ratio of
    # their shares. So no category has more confidence than the one above it.

    levels: tuple[ConfidenceMap, ...]  # the map of level 1, of level 2, …; deeper levels have the last

    def __call__(self, shares: Floats) -> Floats:
        """(d,) confidences of the shares of a path, the most general category first."""
        last = len(self.levels) - 1
        each = [self.levels[min(level, last)](ratio) for level, ratio in enumerate(ratios(shares))]
        return np.asarray(np.cumprod(np.array(each, np.float64)))


def ratios(shares: Floats) -> Floats:
    """(d,) the share of each category of a path, divided by that of the category above it."""
    return np.asarray(np.minimum(shares / np.maximum(np.concatenate([[1.0], shares[:-1]]), 1e-12), 1))


def fit_path_confidence(shares: Sequence[Floats], right: Sequence[NDArray[np.bool_]]) -> PathConfidence:
    """Fit the map of each level to the paths on which the category above is right."""
    # A level with fewer than 100 such paths shares its map with the levels below it, and with the one above where these
    # are fewer together.
    deepest = max(map(len, shares), default=1)
    inputs: list[list[float]] = [[] for _ in range(deepest)]
    outcomes: list[list[bool]] = [[] for _ in range(deepest)]
    for path, is_right in zip(shares, right, strict=True):
        for level, (ratio, hit) in enumerate(zip(ratios(path), is_right, strict=True)):
            inputs[level].append(float(ratio))
            outcomes[level].append(bool(hit))
            if not hit:
                break
    own = max(1, sum(len(level) >= FEWEST_OF_LEVEL for level in inputs))
    ends = [*range(1, own), deepest]
    maps = []
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        part = [ratio for level in inputs[start:end] for ratio in level]
        outcome = [hit for level in outcomes[start:end] for hit in level]
        maps.append(fit_confidence(np.array(part), np.array(outcome, np.bool_)))
    return PathConfidence(tuple(maps))


# Which products a trained model has not learnt from: only those can calibrate its confidences.

MOST_FOLDS = 10


def unseen_products(catalogue: Catalogue, folder: str | Path) -> NDArray[np.bool_] | None:
    """Return the products that were left out when a model was trained, as its folds say."""
    # Returns: (n,) bool in the order of the products; None where the model was trained on other products.
    from visir.products.model import load_categories_model

    trained_on = load_categories_model(folder).facts.get("trained_on", {}).get("catalogue")
    has_category = pc.not_equal(catalogue.products["category_id"], UNCATEGORISED)
    part = catalogue.keep_products(has_category)
    names = part.categories.filter(pc.not_equal(part.categories["id"], UNCATEGORISED))
    labelled = Catalogue(part.name, part.products, part.attributes, names, part.root)
    for n in (5, *(n for n in range(2, MOST_FOLDS + 1) if n != 5)):
        try:
            splits = folds(labelled, n)
        except ConfigurationError:  # too few products for so many folds
            continue
        for split in splits:
            if labelled.keep_products(split.train).fingerprint == trained_on:
                left_out = labelled.products["id"].filter(pa.array(split.test)).combine_chunks()
                return np.asarray(pc.is_in(catalogue.products["id"], left_out).to_numpy())
    return None


HELD_OUT = 2_000
"""How many labelled products are held out at most, one at a time."""
FEWEST = 20
"""How many labelled products are needed to calibrate."""
FOLDS = 5


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
        return stats.of_counts(self.right, self.answered).ends if self.answered else (0.0, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class InferredCategories(Tabular):
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
    (`visir.products.inference`). The settings and the confidences come from labelled products, of which each
    is held out once; its category is then not read. Of a trained model only products that it was not trained with are
    held out.

    The confidences hold for products like the labelled ones. Where categories are missing for a reason (a new
    supplier, a new category), they can be too high.

    Args:
        catalogue: A table or folder that `open_catalogue` takes; products without a category are those to infer. Or
            a `Catalogue`; then `products` says which.
        system: A model: "words" (of titles and attributes), "text:NAME", "clip:NAME", or a trained model's folder.
            "text:NAME" reads titles, "clip:NAME" pictures. Or vectors of your own with the ids of products.
        products: Ids of the products to infer, whatever category they have now; None: those without one.
        above: Answer only with this confidence or more, by the most specific category that reaches it: 0.9. Each
            product gets the most specific category whose confidence is at least this, 0 to 1, or none; None: the most
            likely of the categories in which products stand.
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
        table = catalogue.products
        named = table["id"].filter(pc.equal(table["category_id"], UNCATEGORISED)).to_pylist()
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


# Inferred categories as a new table; the table that was read stays as it is.


def inferred_table(inferred: InferredCategories) -> pa.Table:
    """One row for each product: `id`, `title`, `category` (a path), `confidence`, `confidences`, `others`."""
    # `confidences` has a number for each level of the path; `others` has the further likely categories with theirs.
    rows = inferred.products
    answers = [product.answer for product in rows]
    return pa.table(
        {
            "id": pa.array([product.id for product in rows], pa.string()),
            "title": pa.array([product.title for product in rows], pa.string()),
            "category": pa.array([answer and " > ".join(answer.path) for answer in answers], pa.string()),
            "confidence": pa.array([answer and round(answer.confidence, 4) for answer in answers], pa.float64()),
            "confidences": pa.array(
                [answer and "; ".join(f"{level:.4f}" for level in answer.confidences) for answer in answers],
                pa.string(),
            ),
            "others": pa.array(
                ["; ".join(f"{' > '.join(other.path)} ({other.confidence:.4f})" for other in product.others)
                 for product in rows],
                pa.string(),
            ),
        }
    )  # fmt: skip


def write_inferred(path: str | Path, inferred: InferredCategories) -> Path:
    """Write the categories as a new table: CSV, TSV, JSON lines or Parquet, by the ending. Nothing is replaced.

    Args:
        path: A file that is not there yet.
        inferred: The categories.

    Raises:
        FolderError: There is a file already.
        ConfigurationError: The ending is another one.
    """
    return write_new_table(path, inferred_table(inferred), for_people=True)
