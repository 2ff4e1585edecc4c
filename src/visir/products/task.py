"""Tasks of category search: which categories are queries, which products are documents, and what is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import Displayed
from visir.errors import CollectionError, ConfigurationError, nearest
from visir.records import Gallery, Qrels, Task
from visir.records.catalogue import Catalogue
from visir.records.category_tree import NONE, CategoryTree
from visir.splitmix import seed_of, splitmix64

# The ground truth of category-to-image search: which products are relevant to which category, in three settings.

Setting = Literal["all", "general", "specific"]
SETTINGS: tuple[Setting, ...] = ("all", "general", "specific")
"""In the order of Table 7.1."""


def relevant_products(catalogue: Catalogue, setting: Setting) -> Qrels:
    """Which products are relevant to which category (thesis section 7.4.2).

    A product is relevant to a category when the category is on its path, in every setting. Settings differ in which
    categories are queries. A query is the id of a category, so of two that share a name each has the products of its
    own tree. The other reading, one query per name, would call a camera strap relevant to the "Accessories" of shoes.

    Args:
        catalogue: Products and their tree.
        setting: "all": every category that has products, in itself or below; "general": the roots among them;
            "specific": those that are the most specific category of at least one product.

    Returns:
        Ids of categories as queries, ids of products as documents, every grade 1.

    Raises:
        CollectionError: The setting is unknown.

    Example:
        >>> from visir.records import Catalogue
        >>> catalogue = Catalogue.of("two", ids=["a", "b"], paths=[["Toys", "Trains"], ["Toys", "Boats"]])
        >>> relevant_products(catalogue, "general").to_dict()
        {'Toys': {'a': 1.0, 'b': 1.0}}
    """
    if setting not in SETTINGS:
        raise CollectionError(f"unknown setting {setting!r}", hint=nearest(setting, SETTINGS), code="unknown-setting")
    tree = CategoryTree.of(catalogue)
    own = tree.rows(catalogue.products["category_id"])
    paths = tree.paths[own]
    queried = np.ones(len(tree), dtype=np.bool_)
    if setting == "general":
        queried = tree.depths == 1
    elif setting == "specific":
        queried = np.isin(np.arange(len(tree)), own)
    # After the end of a path stands NONE, which as an index means the last category: hence both conditions.
    product, level = np.nonzero((paths != NONE) & queried[paths])
    return Qrels.of(
        pa.array(tree.ids, pa.string()).take(pa.array(paths[product, level])),
        catalogue.products["id"].take(pa.array(product)),
        name=f"category path, {setting} categories",
    )


# Category–product pairs: which category of its path stands for a product (thesis section 7.4.2).


def drawn_categories(catalogue: Catalogue, setting: Setting, seed: int = 0) -> NDArray[np.int64]:
    """The category that each product makes a pair with."""
    # The draw is a function of `seed` and the id of the product alone, so a product has the same category in the whole
    # catalogue and in every part of it.
    # Returns: (n,) int64, one row of `catalogue.categories` for each product.
    if setting not in SETTINGS:
        raise CollectionError(f"unknown setting {setting!r}", hint=nearest(setting, SETTINGS), code="unknown-setting")
    tree = CategoryTree.of(catalogue)
    own = tree.rows(catalogue.products["category_id"])
    if setting == "general":
        return np.asarray(tree.roots[own])
    if setting == "specific":
        return own
    level = _numbers(catalogue, seed) % tree.depths[own].astype(np.uint64)
    return np.asarray(tree.paths[own, level.astype(np.int64)])


# Folds of a catalogue, cut by product, and which categories a training part has seen.

Mask = NDArray[np.bool_]
VALIDATION = 0.1
"""The share of the products outside the test part that choose the epoch and the settings."""
_FOLD, _VALIDATION = range(2)


@dataclass(frozen=True, eq=False)
class Split:
    """Three parts of the products of a catalogue; every product is in exactly one of them."""

    train: Mask  # (n,) which products are learnt from
    validation: Mask  # (n,) which products choose the epoch and the settings
    test: Mask  # (n,) which products are searched
    name: str = ""  # which split it is: "fold 2 of 5, seed 0"


def everything(catalogue: Catalogue) -> Split:
    """All products as the test part: what is searched where nothing is held out."""
    none = np.zeros(catalogue.products.num_rows, dtype=np.bool_)
    return Split(none, none, ~none, "all")


def folds(catalogue: Catalogue, n: int = 5, seed: int = 0) -> list[Split]:
    """Cut the products into folds; each fold is the test part of one split, the others train and validate."""
    # The fold of a product depends on `seed` and its id alone: products that are added later move no other, and two
    # catalogues that share products cut them alike. So folds are only about equally large, and categories are not
    # spread evenly: a category whose products are all in the test part is an unseen one, as in any new catalogue. The
    # thesis says no more than "test set" (section 7.4.2).
    if n < 2:
        raise ConfigurationError(f"{n} folds: at least 2 are needed.", hint="5 is usual", code="least-needed")
    fold = _numbers(catalogue, seed, _FOLD) % np.uint64(n)
    held_out = _numbers(catalogue, seed, _VALIDATION) / 2.0**64 < VALIDATION
    splits = []
    for number in range(n):
        test = fold == number
        split = Split(~test & ~held_out, ~test & held_out, test, f"fold {number + 1} of {n}, seed {seed}")
        for part in ("train", "validation", "test"):
            if not getattr(split, part).any():
                raise ConfigurationError(
                    f"{catalogue.name}: {split.name} has no product in its {part} part "
                    f"({catalogue.products.num_rows:,} products in all).",
                    hint="take fewer folds, another seed, or a larger catalogue",
                    code="no-product-part-products",
                )
        splits.append(split)
    return splits


def seen_categories(catalogue: Catalogue, split: Split, setting: Setting, seed: int = 0) -> Mask:
    """(c,) bool over `catalogue.categories`: which were the query of a training pair (thesis section 7.6.2)."""
    # The pairs are those of `drawn_categories` with this seed, so in the setting "all" a category with few training
    # products may be unseen although it has some. A category of which only the name occurs elsewhere is unseen.
    seen = np.zeros(catalogue.categories.num_rows, dtype=np.bool_)
    seen[drawn_categories(catalogue, setting, seed)[split.train]] = True
    return seen


def _numbers(catalogue: Catalogue, *seeds: int) -> NDArray[np.uint64]:
    """(n,) a random number of each product, from its id, the seed and what it is for."""
    ids = catalogue.products["id"].to_pylist()
    digests = b"".join(blake2b(product.encode(), digest_size=8).digest() for product in ids)
    return splitmix64(seed_of(*seeds), np.frombuffer(digests, dtype="<i8").astype(np.int64))


By = Literal["id", "name"]
Relevance = Literal["path", "drawn"]
Documents = Literal["products", "titles", "pictures"]
TASK_NAME = "category"
"""How results name the task: categories search products."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CategoryTask(Task):
    """The categories of one setting, searched over the test products of one split. `category_task` makes it.

    Queries are categories, documents are the test products, whether or not they have a title, a picture or attributes.

    Args:
        catalogue: The whole catalogue, with the products of all parts.
        tree: Its categories.
        fold: The split whose test products are the documents.
        setting: Which categories are queries.
        by: Whether a query is the id of a category or a name.
        relevance: Which reading of the judgements; see `category_task`.
        seed: Of the categories that are drawn for products.
        rows: (q,) int64: the row of `catalogue.categories` whose name is the text of each query.
    """

    catalogue: Catalogue
    tree: CategoryTree
    fold: Split
    setting: Setting
    by: By
    relevance: Relevance
    seed: int
    rows: NDArray[np.int64]

    @cached_property
    def names(self) -> list[str]:
        """The text of each query: the name of the category."""
        return [self.tree.names[row] for row in self.rows]

    @cached_property
    def namesakes(self) -> dict[str, NDArray[np.int64]]:
        """Name to the rows of all categories that have it."""
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(self.tree.names):
            rows.setdefault(name, []).append(row)
        return {name: np.array(same, dtype=np.int64) for name, same in rows.items()}

    @cached_property
    def predicted(self) -> dict[str, int]:
        """Product id to the row of the category that stands for it in this setting (`drawn_categories`)."""
        drawn = drawn_categories(self.catalogue, self.setting, self.seed)[self.fold.test]
        return dict(zip(self.documents.ids.to_pylist(), drawn.tolist(), strict=True))


def category_task(
    catalogue: Catalogue,
    fold: Split,
    setting: Setting,
    *,
    by: By = "id",
    relevance: Relevance = "path",
    seed: int = 0,
) -> CategoryTask:
    """The task of a setting on the test products of a split (thesis section 7.4.2).

    Every category of the setting that has a relevant test product is a query.

    Args:
        catalogue: Products and their tree.
        fold: Its test products are the documents.
        setting: "all", "general" or "specific"; see `relevant_products`.
        by: "id" tells categories apart by their place in the tree: "Accessories" of shoes and of cameras are two
            queries with one text, and each is right with its own products only. "name" makes them one query, right
            with the products of both. The thesis does not say which ("5,471 unique categories"). The default is "id",
            because the tree (depths, distances, seen and unseen, Tables 7.2 and 7.3) is one of ids. No system that
            reads names alone can tell such categories apart, so "name" is the fairer reading where many names repeat.
        relevance: "path": a product is relevant to every category of its path. "drawn": it is relevant to one category
            only, the one that `drawn_categories` gives it in this setting (category–product *pairs*, as section 7.4.2
            can be read). In the setting "all" they differ: under "drawn" a skirt drawn as "Skirts" is a wrong answer to
            "Clothes". The 72 % of wrong first answers that lie in the right tree (Table 7.2), against 11 % for most
            specific categories, look like that reading.
        seed: Of the draw.

    Raises:
        ConfigurationError: An option is unknown.

    Example:
        >>> from visir.products.task import everything
        >>> catalogue = Catalogue.of("two", ids=["a", "b"], paths=[["Toys", "Trains"], ["Toys", "Boats"]])
        >>> category_task(catalogue, everything(catalogue), "specific")
        CategoryTask(category of two: 2 categories, 2 products)
          categories: 'Boats', 'Trains'
          products: a, b
          judgements: category path, specific categories
          split all: test
    """
    for option, value, values in (("by", by, get_args(By)), ("relevance", relevance, get_args(Relevance))):
        if value not in values:
            raise ConfigurationError(f"unknown {option} {value!r}", hint=nearest(value, values), code="unknown-name")
    part = catalogue.keep_products(fold.test)
    tree = CategoryTree.of(catalogue)
    if relevance == "path":
        qrels = relevant_products(part, setting)
    else:
        queries = pa.array(tree.ids, pa.string()).take(pa.array(drawn_categories(part, setting, seed)))
        name = f"one drawn category each, {setting} categories, seed {seed}"
        qrels = Qrels.of(queries, part.products["id"], name=name)
    row_of = {category: row for row, category in enumerate(tree.ids)}
    if by == "name":
        qrels = _by_name(qrels, tree, row_of)
        row_of = {}
        for row, name in enumerate(tree.names):
            row_of.setdefault(name, row)
    rows = np.array([row_of[query] for query in qrels.queries.to_pylist()], dtype=np.int64)
    names = catalogue.category_items.take(rows)
    documents = catalogue.items.take(np.flatnonzero(fold.test))
    return CategoryTask(
        TASK_NAME,
        replace(names, ids=qrels.queries),
        documents,
        {qrels.name: qrels},
        source=catalogue.name,
        source_fingerprint=catalogue.fingerprint,
        split=f"{fold.name}: test" if fold.name else "test",
        candidates=Gallery.of(documents.modality, documents.ids, "all test products", title=documents.title),
        catalogue=catalogue,
        tree=tree,
        fold=fold,
        setting=setting,
        by=by,
        relevance=relevance,
        seed=seed,
        rows=rows,
    )


@dataclass(frozen=True, eq=False, repr=False)
class CatalogueTasks(Displayed):
    """A catalogue as a source of tasks, which `visir.evaluate` takes: one task per setting, one split per fold.

    Args:
        catalogue: Products and their tree.
        folds: Its splits; see `visir.products.task.folds`.
        part: The split whose test products are searched; None: all products.
        by: See `category_task`.
        relevance: See `category_task`.
        seed: See `category_task`.
        documents: What of the products is searched: "products" have title and picture together; "titles" are for
            encoders of texts, and a product without a title has an empty one; "pictures" are for encoders of images,
            and a product without a picture is a broken image (`skip_broken` sets it aside).

    Raises:
        ConfigurationError: `documents` is unknown, or the catalogue has none of them.

    Example:
        >>> import visir
        >>> from visir.evaluation.systems.bm25 import Bm25System
        >>> catalogue = Catalogue.of(
        ...     "two", ids=["a", "b"], paths=[["Toys", "Trains"], ["Toys", "Boats"]], titles=["a train", "red boat"]
        ... )
        >>> evaluation = visir.evaluate(CatalogueTasks(catalogue), Bm25System(), ["specific"], measures=["rprecision"])
        >>> evaluation.result.mean("specific", "rprecision")
        1.0
    """

    catalogue: Catalogue
    folds: Sequence[Split] = field(default=())
    part: Split | None = None
    by: By = "id"
    relevance: Relevance = "path"
    seed: int = 0
    documents: Documents = "products"

    def __post_init__(self) -> None:
        if self.documents not in get_args(Documents):
            hint = nearest(self.documents, get_args(Documents))
            raise ConfigurationError(f"unknown documents {self.documents!r}", hint=hint, code="unknown-documents")
        items = self.catalogue.items
        if (self.documents == "titles" and items.texts is None) or (
            self.documents == "pictures" and items.places is None
        ):
            raise ConfigurationError(
                f"{self.name}: no product has a {self.documents[:-1]}.", hint="search the products", code="no-product"
            )

    @property
    def name(self) -> str:
        """The name of the catalogue."""
        return self.catalogue.name

    @property
    def tasks(self) -> tuple[str, ...]:
        """The settings: "all", "general", "specific"."""
        return SETTINGS

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the folds."""
        return tuple(fold.name for fold in self.folds)

    def task(self, name: str) -> CategoryTask:
        """The task of a setting; results name it by the setting.

        Raises:
            CollectionError: The setting is unknown.
        """
        fold = everything(self.catalogue) if self.part is None else self.part
        task = category_task(
            self.catalogue,
            fold,
            name,  # type: ignore[arg-type]  # `relevant_products` checks it
            by=self.by,
            relevance=self.relevance,
            seed=self.seed,
        )
        split = "all" if self.part is None else task.split
        if self.documents == "products":
            return replace(task, name=name, split=split)
        items = task.documents
        if self.documents == "titles":
            documents = replace(items, texts=pc.fill_null(items.texts, ""), places=None, title="titles")
        else:
            documents = replace(items, texts=None, title="pictures")
        candidates = Gallery.of(documents.modality, documents.ids, task.gallery.description, title=documents.title)
        return replace(task, name=name, split=split, documents=documents, candidates=candidates)

    def split(self, name: str | None) -> CatalogueTasks:
        """The tasks over the test products of one fold; None is all products.

        Raises:
            CollectionError: There is no fold of this name.
        """
        if name is None:
            return replace(self, part=None)
        for fold in self.folds:
            if fold.name == name:
                return replace(self, part=fold)
        raise CollectionError(
            f"{self.name}: unknown split {name!r}", hint=nearest(name, self.splits), code="unknown-split"
        )


def _by_name(qrels: Qrels, tree: CategoryTree, row_of: dict[str, int]) -> Qrels:
    """Categories of one name as one query, relevant to the products of all of them."""
    named = [tree.names[row_of[query]] for query in qrels.queries.to_pylist()]
    queries = pa.array(named, pa.string()).take(pa.array(np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))))
    # A name may occur twice on one path (Watches > Watches); its products are relevant once.
    pairs = pa.table({"query": queries, "document": qrels.documents}).group_by(["query", "document"]).aggregate([])
    return Qrels.of(pairs["query"], pairs["document"], name=f"{qrels.name}, by name")
