"""Landing pages of categories, and promotions across categories (thesis section 7.1, the third use).

The thesis names "the design of cross-categorical promotions and product category landing pages" and goes no further.
Here a landing page shows the products of a category in the order in which a system ranks them for the category's name.
A promotion shows products of other categories that the same system ranks highest for that name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.collections.readers.shop_columns import PRICE
from visir.collections.tables import plain_column
from visir.display import Tabular, brief
from visir.encoders.store import Store
from visir.errors import ConfigurationError, nearest, raise_faults
from visir.products.opening import open_catalogue
from visir.products.text_search import ProductAnswer, TextOptions, search
from visir.records.catalogue import Catalogue
from visir.records.category_tree import NONE, CategoryTree

System = str | Path | Sequence[str | Path]
Relatives = Literal["path", "siblings", "tree"]


@dataclass(frozen=True)
class LandingCategory:
    """One category of a landing page."""

    id: str  # its id
    path: tuple[str, ...]  # the names from the most general category to this one
    # The names of the categories right below it, with the number of products in each.
    below: tuple[tuple[str, int], ...]
    total: int  # how many products belong to it
    products: tuple[str, ...]  # ids of the products that are shown, best first
    related: tuple[str, ...]  # ids of products of other categories that fit its name, best first


@dataclass(frozen=True, eq=False, repr=False)
class LandingPage(Tabular):
    """What a landing page shows. `landing_page` makes it; `write_landing_page` writes it as HTML.

    Args:
        catalogue: The products.
        system: What ranked them.
        categories: The categories, in the order in which they were named.
        prices: Product id to its price: as the attribute has it, without a ".0" at its end, or in words with the
            currency.
    """

    catalogue: Catalogue
    system: str
    categories: tuple[LandingCategory, ...]
    prices: dict[str, str]

    def __repr__(self) -> str:
        lines = [
            f"{category.id}: {len(category.products)} of {category.total:,}, {len(category.related)} related"
            for category in self.categories[:3]
        ]
        return brief(self, f"{self.catalogue.name}, ranked by {self.system}", *lines)


def landing_page(
    catalogue: Catalogue | str | Path,
    categories: str | Sequence[str],
    system: System = "bm25f",
    k: int = 12,
    *,
    related: int = 6,
    relatives: Relatives = "siblings",
    diverse: bool = False,
    price: str | None = None,
    text: TextOptions | None = None,
    device: str | None = None,
    store: Store | None = None,
) -> LandingPage:
    """Choose the products of a landing page.

    Args:
        catalogue: The products, or anything that `open_catalogue` takes.
        categories: Names or ids of categories.
        system: What ranks products for the name of a category, as `visir.products.search` takes it; several are fused.
            A product of the category that the system does not find stands at the end.
        k: How many products of each category are shown at most.
        related: How many products of other categories are shown for each category; 0 for none.
        relatives: Which categories are too near for those: "path", "siblings" (below one parent) or "tree". See
            `related_products`.
        diverse: Let the categories below take turns. So no single one fills the page.
        price: The attribute that is the price. Default: one with a usual name ("price", "sale_price", …), else the
            price that the table tells (`Catalogue.prices`).
        text: How "bm25f" reads words.
        device: Where encoders run.
        store: Where vectors are kept.

    Raises:
        ConfigurationError: A category is unknown, or several have its name; the message lists every fault.

    Example:
        >>> page = landing_page("generated:200", "Wooden dogs", related=2)
        >>> page.categories[0].path, len(page.categories[0].products), len(page.categories[0].related)
        (('Animals', 'Dogs', 'Wooden dogs'), 5, 2)
    """
    names = [categories] if isinstance(categories, str) else list(categories)
    catalogue = open_catalogue(catalogue)
    tree = CategoryTree.of(catalogue)
    faults = [] if k >= 1 else [f"k must be at least 1, not {k}"]
    faults += [f"related must not be negative, not {related}"] * (related < 0)
    _check_relatives(relatives, faults)
    rows = _rows_of(tree, names, faults)
    attribute = _price_attribute(catalogue, price, faults)
    raise_faults(ConfigurationError, f"{catalogue.name}: no landing page", faults)
    ranked = _ranked(catalogue, tree, rows, system, text, device, store)
    chosen = tuple(category.shown(k, related, relatives, diverse) for category in ranked)
    products = {product for category in chosen for product in (*category.products, *category.related)}
    return LandingPage(catalogue, ranked[0].answer.system, chosen, _prices(catalogue, attribute, products))


def related_products(
    catalogue: Catalogue | str | Path,
    category: str,
    system: System = "bm25f",
    k: int = 6,
    *,
    relatives: Relatives = "siblings",
    per_category: int = 2,
    text: TextOptions | None = None,
    device: str | None = None,
    store: Store | None = None,
) -> ProductAnswer:
    """Find products of other categories that fit the name of a category: a promotion across categories.

    They are ranked by the system for the category's name, as in any search. No purchase is read, so they are alike,
    which is not the same as bought together.

    Args:
        catalogue: The products, or anything that `open_catalogue` takes.
        category: The name or the id of a category.
        system: What ranks products; see `landing_page`. A system that reads words finds only products that share one.
        k: How many products at most.
        relatives: Which categories are too near: "path" leaves out the category, those above it as a place of products,
            and those below; "siblings" also all others below the same parent; "tree" all of the same most general
            category.
        per_category: How many products of one category at most.
        text: How "bm25f" reads words.
        device: Where encoders run.
        store: Where vectors are kept.

    Raises:
        ConfigurationError: The category is unknown, or an option is wrong.

    Example:
        >>> shop = Catalogue.of(
        ...     "shop", ids=["a", "b", "c"], paths=[["Clothes", "Dresses"], ["Clothes", "Skirts"], ["Shoes", "Pumps"]],
        ...     titles=["red dress", "skirt for a dress", "pumps for evening dresses"],
        ... )
        >>> [product for product, _ in related_products(shop, "Dresses").products]
        ['c']
    """
    catalogue = open_catalogue(catalogue)
    tree = CategoryTree.of(catalogue)
    faults = [
        f"{name} must be at least 1, not {value}"
        for name, value in (("k", k), ("per_category", per_category))
        if value < 1
    ]
    _check_relatives(relatives, faults)
    rows = _rows_of(tree, [category], faults)
    raise_faults(ConfigurationError, f"{catalogue.name}: no related products", faults)
    [ranked] = _ranked(catalogue, tree, rows, system, text, device, store)
    scores = dict(ranked.answer.products)
    ranking = tuple((name, scores[name]) for name in ranked.elsewhere(k, relatives, per_category))
    return replace(ranked.answer, products=ranking, right=None)


def _check_relatives(relatives: str, faults: list[str]) -> None:
    if relatives not in get_args(Relatives):
        faults.append(f"unknown relatives {relatives!r} ({nearest(relatives, get_args(Relatives))})")


def _rows_of(tree: CategoryTree, names: Sequence[str], faults: list[str]) -> list[int]:
    """The row of each category, by id or by name."""
    if not names:
        faults.append("no category is named")
    by_name: dict[str, list[int]] = {}
    for row, name in enumerate(tree.names):
        by_name.setdefault(name.casefold(), []).append(row)
    by_id = {identifier.casefold(): row for row, identifier in enumerate(tree.ids)}
    rows = []
    for name in names:
        same = [by_id[name.strip().casefold()]] if name.strip().casefold() in by_id else by_name.get(
            name.strip().casefold(), []
        )  # fmt: skip
        if len(same) == 1:
            rows.append(same[0])
        elif same:
            listed = ", ".join(repr(tree.ids[row]) for row in same)
            faults.append(f"several categories are called {name!r}; name one of {listed}")
        else:
            faults.append(f"unknown category {name!r} ({nearest(name, tree.names)})")
    return rows


@dataclass(frozen=True, eq=False)
class _Ranked:
    """All products of a catalogue, ranked for the name of one category."""

    tree: CategoryTree
    row: int  # of the category
    own: NDArray[np.int64]  # (n,) the category of each product
    row_of: dict[str, int]  # product → its row
    answer: ProductAnswer

    def shown(self, k: int, related: int, relatives: Relatives, diverse: bool) -> LandingCategory:
        """The category as a landing page shows it."""
        tree, row = self.tree, self.row
        inside = tree.contains(np.array(row), self.own)
        ranked = [product for product, _ in self.answer.products if inside[self.row_of[product]]]
        names = list(self.row_of)
        members = ranked + sorted({names[at] for at in np.flatnonzero(inside)} - set(ranked))
        below = np.flatnonzero(tree.parents == row)
        level = tree.depths[row]
        owners = {product: self.own[self.row_of[product]] for product in members}
        child_of = {
            product: int(tree.paths[owner, level]) if tree.depths[owner] > level else NONE
            for product, owner in owners.items()
        }
        if diverse:
            members = in_turn(members, [child_of[product] for product in members])
        counts = Counter(child_of.values())
        return LandingCategory(
            tree.ids[row],
            tuple(tree.names[above] for above in [*tree.ancestors(row).tolist(), row]),
            tuple((tree.names[child], counts[child]) for child in below.tolist() if counts[child]),
            int(inside.sum()),
            tuple(members[:k]),
            tuple(self.elsewhere(related, relatives, 2)) if related else (),
        )

    def elsewhere(self, k: int, relatives: Relatives, per_category: int) -> list[str]:
        """The best products of categories that are not too near."""
        tree, here = self.tree, np.array(self.row)
        near = tree.contains(here, self.own) | tree.contains(self.own, here)
        parent = int(tree.parents[self.row])
        if relatives == "siblings" and parent != NONE:
            near |= tree.contains(np.array(parent), self.own)
        if relatives == "tree":
            near |= tree.same_tree(here, self.own)
        counts: Counter[int] = Counter()
        chosen: list[str] = []
        for product, _ in self.answer.products:
            owner = int(self.own[self.row_of[product]])
            if near[self.row_of[product]] or counts[owner] >= per_category:
                continue
            counts[owner] += 1
            chosen.append(product)
            if len(chosen) == k:
                break
        return chosen


def _ranked(
    catalogue: Catalogue,
    tree: CategoryTree,
    rows: Sequence[int],
    system: System,
    text: TextOptions | None,
    device: str | None,
    store: Store | None,
) -> list[_Ranked]:
    """All products for each of these categories."""
    every, ids = max(1, catalogue.products.num_rows), catalogue.products["id"].to_pylist()
    own, row_of = tree.rows(catalogue.products["category_id"]), {product: at for at, product in enumerate(ids)}
    answers = (search(catalogue, tree.names[r], system, every, text=text, device=device, store=store) for r in rows)
    return [_Ranked(tree, row, own, row_of, answer) for row, answer in zip(rows, answers, strict=True)]


def in_turn(ranked: Sequence[str], groups: Sequence[int]) -> list[str]:
    """Put the first of every group before the second of any; within that the order stays."""
    seen: Counter[int] = Counter()
    turns = []
    for group in groups:
        turns.append(seen[group])
        seen[group] += 1
    return [ranked[at] for at in np.argsort(turns, kind="stable")]


def _price_attribute(catalogue: Catalogue, price: str | None, faults: list[str]) -> str | None:
    names = pc.unique(catalogue.attributes["name"]).to_pylist()
    if price is not None:
        if price not in names:
            faults.append(f"no product has an attribute {price!r} ({nearest(price, names)})")
        return price
    usual = {plain_column(name): name for name in reversed(names)}
    return next((usual[name] for name in PRICE if name in usual), None)


def _prices(catalogue: Catalogue, attribute: str | None, products: set[str]) -> dict[str, str]:
    if attribute is None:
        return {product: catalogue.prices[product] for product in products & catalogue.prices.keys()}
    table = catalogue.attributes.filter(pc.equal(catalogue.attributes["name"], attribute))
    pairs = zip(table["product_id"].to_pylist(), table["value"].to_pylist(), strict=True)
    return {product: value.removesuffix(".0") for product, value in pairs if product in products}
