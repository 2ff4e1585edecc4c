"""One question put to every system alike: which categories ask, which products may answer, and what is right."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.errors import ConfigurationError, nearest
from visir.fingerprint import hash_columns
from visir.products.pairs import drawn_categories
from visir.products.relevance import Setting, relevant_products
from visir.products.split import Split
from visir.products.tree import CategoryTree
from visir.records import Gallery, Protocol, Qrels
from visir.records.catalogue import Catalogue

By = Literal["id", "name"]
Relevance = Literal["path", "drawn"]


@dataclass(frozen=True, eq=False)
class Task:
    """The categories of one setting, searched over the test products of one split.

    - `qrels`: queries are ids of categories (or names, for `by` "name"), documents ids of test products
    - `gallery`: all test products, whether or not they have a title, a picture or attributes
    - `rows`: (q,) int64, the row of `catalogue.categories` whose name is each query's text

    Made by `task_of`, which explains the options.
    """

    catalogue: Catalogue
    tree: CategoryTree
    split: Split
    setting: Setting
    by: By
    relevance: Relevance
    seed: int
    qrels: Qrels
    gallery: Gallery
    rows: NDArray[np.int64]

    @cached_property
    def names(self) -> list[str]:
        """The text of each query: the category's name."""
        return [self.tree.names[row] for row in self.rows]

    @cached_property
    def namesakes(self) -> dict[str, NDArray[np.int64]]:
        """Name to the rows of all categories that bear it."""
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(self.tree.names):
            rows.setdefault(name, []).append(row)
        return {name: np.array(found, dtype=np.int64) for name, found in rows.items()}

    @cached_property
    def predicted(self) -> dict[str, int]:
        """Product id to the row of the category that stands for it in this setting (`drawn_categories`)."""
        drawn = drawn_categories(self.catalogue, self.setting, self.seed)[self.split.test]
        return dict(zip(self.test_ids.to_pylist(), drawn.tolist(), strict=True))

    @cached_property
    def test_ids(self) -> pa.ChunkedArray:
        """Ids of the test products, in the catalogue's order."""
        return self.catalogue.products["id"].filter(pa.array(self.split.test))

    def protocol(self, similarity: str) -> Protocol:
        """What a number for this task depends on, beside the system; `similarity` is the system's way to score."""
        asked = {"all": "every level", "general": "most general", "specific": "most specific"}[self.setting]
        queries = hash_columns([self.qrels.queries], sort=False)[:12]
        return Protocol(
            collection=self.catalogue.name,
            collection_fingerprint=self.catalogue.fingerprint,
            split=f"{self.split.name}: test" if self.split.name else "test",
            relevance=self.qrels.name,
            galleries={
                "t2i": f"{self.gallery.size:,} products · {self.gallery.description} · {self.gallery.fingerprint[:12]}"
            },
            queries={"t2i": f"{len(self.qrels):,} categories, {asked}, by {self.by} · {queries}"},
            captions="names of categories",
            similarity=similarity,
        )


def task_of(
    catalogue: Catalogue,
    split: Split,
    setting: Setting,
    *,
    by: By = "id",
    relevance: Relevance = "path",
    seed: int = 0,
) -> Task:
    """The task of a setting ("all", "general", "specific") on the test products of a split (thesis section 7.4.2).

    Every category of the setting that has a relevant test product is a query.

    - `by`: "id" tells categories apart by their place in the tree: "Accessories" of shoes and of cameras are two
      queries with one text, and each is right with its own products only. "name" makes them one query, right with the
      products of both. The thesis does not say which ("5,471 unique categories"). The default is "id", because the
      tree (depths, distances, seen and unseen, Tables 7.2 and 7.3) is one of ids. No system that reads names alone
      can tell such categories apart, so "name" is the fairer one where many names repeat.
    - `relevance`: "path", a product is relevant to every category of its path; "drawn", to one category only, the one
      that `drawn_categories` gives it in this setting (category–product *pairs*, as section 7.4.2 can be read). In the
      setting "all" they differ: under "drawn" a skirt drawn as "Skirts" is a wrong answer to "Clothes". The 72 % of
      wrong first answers that lie in the right tree (Table 7.2), against 11 % for most specific categories, look like
      that reading.
    - `seed`: of the draw

    Raises `ConfigurationError` for an unknown option.
    """
    for what, given, known in (("by", by, get_args(By)), ("relevance", relevance, get_args(Relevance))):
        if given not in known:
            raise ConfigurationError(f"unknown {what} {given!r}", hint=nearest(given, known))
    part = catalogue.keep_products(split.test)
    tree = CategoryTree.of(catalogue)
    qrels = relevant_products(part, setting) if relevance == "path" else _drawn(part, tree, setting, seed)
    index = {one: row for row, one in enumerate(tree.ids)}
    if by == "name":
        qrels = _by_name(qrels, tree, index)
        index = {}
        for row, name in enumerate(tree.names):
            index.setdefault(name, row)
    rows = np.array([index[one] for one in qrels.queries.to_pylist()], dtype=np.int64)
    gallery = Gallery.of("image", part.products["id"], "all test products")
    return Task(catalogue, tree, split, setting, by, relevance, seed, qrels, gallery, rows)


def _drawn(part: Catalogue, tree: CategoryTree, setting: Setting, seed: int) -> Qrels:
    drawn = drawn_categories(part, setting, seed)
    queries = pa.array(tree.ids, pa.string()).take(pa.array(drawn))
    return Qrels.of(queries, part.products["id"], name=f"one drawn category each, {setting} categories, seed {seed}")


def _by_name(qrels: Qrels, tree: CategoryTree, index: dict[str, int]) -> Qrels:
    """Categories of one name as one query, relevant to the products of all of them."""
    named = [tree.names[index[one]] for one in qrels.queries.to_pylist()]
    queries = pa.array(named, pa.string()).take(pa.array(np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets))))
    # A name may stand twice on one path (Watches > Watches): its products are relevant once.
    pairs = pa.table({"query": queries, "document": qrels.documents}).group_by(["query", "document"]).aggregate([])
    return Qrels.of(pairs["query"], pairs["document"], name=f"{qrels.name}, by name")
