"""Answers as pictures: categories from general to specific, and what was found for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL.Image import Image

from visir.errors import ImageError
from visir.products.evaluation import Trial
from visir.products.first_answers import hits
from visir.products.tree import NONE
from visir.records.catalogue import Catalogue
from visir.reports.shown import cut
from visir.reports.thumbnails import Thumbnail, thumbnails
from visir.robustness.corruptions import pictures


@dataclass(frozen=True)
class ShownProduct:
    """One product of an answer."""

    id: str  # its id
    title: str  # its title, or its id where it has none
    path: tuple[str, ...]  # the names of the categories of its path, the most general first
    right: bool | None  # whether it is a right answer; None where that is not known


@dataclass(frozen=True)
class CategoryAnswer:
    """A category and the answer to it."""

    name: str  # its name
    id: str  # its id
    level: int  # its level in the tree; 1 is the most general
    relevant: int  # how many products are right
    products: tuple[ShownProduct, ...]  # the answer, best first

    @property
    def hits(self) -> int:
        """How many of the shown products are right."""
        return sum(product.right is True for product in self.products)


@dataclass(frozen=True)
class CategoryPath:
    """The categories of one path, the most general first."""

    categories: tuple[CategoryAnswer, ...]


class Products:
    """Titles and paths of products by id."""

    def __init__(self, catalogue: Catalogue, ids: Sequence[str]) -> None:
        shown_ids = pa.array(dict.fromkeys(ids), pa.string())
        rows = catalogue.products.take(pc.index_in(shown_ids, catalogue.products["id"].combine_chunks()))
        self._titles = dict(zip(rows["id"].to_pylist(), rows["title"].to_pylist(), strict=True))
        names = dict(zip(*(catalogue.categories[column].to_pylist() for column in ("id", "name")), strict=True))
        parents = dict(zip(*(catalogue.categories[column].to_pylist() for column in ("id", "parent")), strict=True))
        self._paths = {}
        for product, category in zip(rows["id"].to_pylist(), rows["category_id"].to_pylist(), strict=True):
            path: list[str] = []
            above: str | None = category
            while above is not None:
                path.append(names[above])
                above = parents[above]
            self._paths[product] = tuple(reversed(path))

    def product(self, product: str, right: bool | None = None) -> ShownProduct:
        """A product of an answer."""
        return ShownProduct(product, cut(self._titles[product] or product), self._paths[product], right)


def category_paths(trial: Trial, *, count: int = 4, top: int = 8) -> list[CategoryPath]:
    """The paths of categories that are shown, at most one per tree while there are trees left."""
    # Of each tree it is the path with the most to see: the sum over its categories of the right products, as far as
    # they could be shown.
    task = trial.task
    tree, queries = task.tree, {int(row): query for query, row in enumerate(task.rows)}
    positives = task.judgements().positives
    paths = {
        row: [int(above) for above in tree.paths[row] if above != NONE and int(above) in queries] for row in queries
    }
    to_see = {row: sum(min(int(positives[queries[above]]), top) for above in path) for row, path in paths.items()}
    ordered = sorted(queries, key=lambda row: (-to_see[row], tree.ids[row]))
    chosen: list[int] = []
    for rows in (_one_per_tree(ordered, tree.roots), ordered):
        chosen += [row for row in rows if row not in chosen][: count - len(chosen)]
    right = hits(trial, top)
    run = trial.run
    answers = {
        row: run.documents.take(
            pa.array(
                run.indices[
                    run.offsets[queries[row]] : min(run.offsets[queries[row] + 1], run.offsets[queries[row]] + top)
                ]
            )
        ).to_pylist()
        for last in chosen
        for row in paths[last]
    }
    titles = Products(task.catalogue, [product for answer in answers.values() for product in answer])
    return [
        CategoryPath(
            tuple(
                CategoryAnswer(
                    tree.names[row],
                    tree.ids[row],
                    int(tree.depths[row]),
                    int(positives[queries[row]]),
                    tuple(
                        titles.product(product, bool(right[queries[row], rank]))
                        for rank, product in enumerate(answers[row])
                    ),
                )
                for row in paths[last]
            )
        )
        for last in chosen
    ]


def product_thumbnails(catalogue: Catalogue, ids: Sequence[str], *, budget: int) -> dict[str, Thumbnail]:
    """A small picture of each product, or the reason why there is none; together at most `budget` bytes of text."""
    shown = catalogue.pictures()
    shown_ids = pa.array(dict.fromkeys(ids), pa.string())
    rows = dict(
        zip(shown_ids.to_pylist(), pc.index_in(shown_ids, shown.images["id"].combine_chunks()).to_pylist(), strict=True)
    )
    look = pictures(shown, on_screen=True)

    def open_image(product: str) -> Image:
        row = rows[product]
        if row is None:
            raise ImageError(f"product {product!r} has no picture.")
        return look(row)

    return thumbnails(list(rows), open_image, budget=budget)


def _one_per_tree(rows: Sequence[int], roots: np.ndarray) -> list[int]:
    first: dict[int, int] = {}
    for row in rows:
        first.setdefault(int(roots[row]), row)
    return list(first.values())
