"""A large generated catalogue of vectors: no pictures and no encoders, but a tree and a planted structure.

For questions of scale and for tests of models: 100,000 products in 5,000 categories are made in seconds. The structure,
as in `visir.products.generated`:

- The vector of a category is that of its parent with a part of its own, so the tree shows in the vectors.
- Pictures tell the upper two levels of a product's path and nothing below.
- One kind of attribute tells the own part of a most specific category, and nothing of the levels above; the other
  kinds are noise. So a model that reads attributes must do better on specific categories, and no better on roots.
- Titles tell the category, weakly; three of ten tell nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.errors import CollectionError, raise_faults
from visir.products.encoding import AttributeVectors, CatalogueVectors, Floats, Ints, ProductVectors
from visir.records.catalogue import Catalogue
from visir.records.category_tree import NONE, CategoryTree
from visir.splitmix import seed_of, splitmix64
from visir.storage.claims import make_folder

ROOTS, DEEPEST = 34, 9
"""As in the thesis's catalogue (section 7.4.1)."""
IMAGE, TEXT = 512, 384
"""Widths of the vectors: those of CLIP ViT-B/32 and of MiniLM."""
KINDS, NUISANCE = 3, 2_000
"""How many telling attributes a category has, and how many that tell nothing all products share."""
SHOWN = 2
"""Down to which level pictures tell."""
_NARROWER = 1.5
_SILENT = 0.3
_MOST = 7
_ROWS = 8_192
_PARENT, _OWN, _PRODUCT, _KIND, _SHARED, _TITLE, _SPEAKS, _IMAGE, _ATTRIBUTE, _NAME, _LOOK, _COUNT = range(12)


def generate_vectors(
    n: int, *, categories: int = 5_000, seed: int = 0, folder: str | Path | None = None
) -> CatalogueVectors:
    """Make products and the vectors of everything in their catalogue."""
    # Product `i` of a seed and a number of categories is the same whatever `n`; category `i` of a seed is the same
    # whatever their number. Depths are like the thesis's: 34 trees, up to nine levels, products 4.6 deep on average.
    # Products have two to ten attributes: one or two that tell (`KINDS` per category), up to seven shared ones that do
    # not, and one that only this product has. Pictures and titles are there for all products.
    faults = [f"n must be at least 1, not {n}"] * (n < 1)
    faults += [f"categories must be at least {ROOTS}, not {categories}"] * (categories < ROOTS)
    raise_faults(CollectionError, "planted vectors", faults)
    tree = _tree(categories, seed)
    leaves = np.flatnonzero(tree.leaves)
    # Few categories are large and many are small: a square of the chance takes the first leaves more often.
    chance = _chance(seed, _PRODUCT, np.arange(n))
    own = leaves[(chance**2 * len(leaves)).astype(np.int64)]
    names, own_parts = _category_vectors(tree, seed, _NAME, TEXT)
    looks, _ = _category_vectors(tree, seed, _LOOK, IMAGE)
    shown = tree.paths[own, np.minimum(tree.depths[own], SHOWN) - 1]
    speaks = _chance(seed, _SPEAKS, np.arange(n)) >= _SILENT
    store = None if folder is None else Path(folder)

    def image(rows: Ints) -> Floats:
        return _unit(looks[shown[rows]] + 1.5 * _noise(seed, _IMAGE, rows, IMAGE))

    def title(rows: Ints) -> Floats:
        return _unit(names[own[rows]] * speaks[rows, None] + 2.0 * _noise(seed, _TITLE, rows, TEXT))

    def attribute(rows: Ints) -> Floats:
        telling = rows < KINDS * categories
        signal = own_parts[np.minimum(rows, KINDS * categories - 1) // KINDS] * telling[:, None]
        return _unit(signal + 0.7 * _noise(seed, _ATTRIBUTE, rows, TEXT))

    rows, offsets, kinds = _attributes(n, own, categories, seed)
    return CatalogueVectors(
        _catalogue(n, tree, own, rows, offsets, kinds, seed),
        names,
        ProductVectors(_filled(store, "images", n, IMAGE, image), np.arange(n)),
        ProductVectors(_filled(store, "titles", n, TEXT, title), np.arange(n)),
        AttributeVectors(
            _filled(store, "attributes", KINDS * categories + NUISANCE + n, TEXT, attribute), rows, offsets
        ),
    )


def _tree(count: int, seed: int) -> CategoryTree:
    """Each category hangs below an earlier one; above the deepest level, below its parent instead."""
    chance = _chance(seed, _PARENT, np.arange(count))
    parents = np.full(count, NONE, dtype=np.int64)
    depths = np.ones(count, dtype=np.int64)
    for row in range(ROOTS, count):
        parent = int(chance[row] * row / _NARROWER)
        parents[row] = parents[parent] if depths[parent] == DEEPEST else parent
        depths[row] = depths[parents[row]] + 1
    names = tuple(f"Category {row}" for row in range(count))
    return CategoryTree(names, names, parents)


def _category_vectors(tree: CategoryTree, seed: int, stream: int, width: int) -> tuple[Floats, Floats]:
    """(c, d) the vectors, and (c, d) the own part of each category in them; unit vectors."""
    own = _unit(_noise(seed, stream, np.arange(len(tree)), width))
    vectors = own.copy()
    for level in range(2, int(tree.depths.max()) + 1):
        rows = np.flatnonzero(tree.depths == level)
        vectors[rows] = _unit(vectors[tree.parents[rows]] + own[rows])
    return vectors, own


def _attributes(n: int, own: Ints, categories: int, seed: int) -> tuple[Ints, Ints, Ints]:
    """(rows, offsets, kinds): which attribute vectors each product has, and of which kind each is: 0, 1, 2."""
    # One or two that tell, none to seven shared ones, and one of its own. All of one product differ.
    chance = _chance(seed, _COUNT, np.arange(n))
    telling = 1 + (chance < 0.5).astype(np.int64)
    shared = (_chance(seed, _SHARED, np.arange(n)) * (_MOST + 1)).astype(np.int64)
    first = (_chance(seed, _KIND, np.arange(n)) * KINDS).astype(np.int64)
    begin = (_chance(seed, _OWN, np.arange(n)) * NUISANCE).astype(np.int64)
    counts = telling + shared + 1
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    product = np.repeat(np.arange(n), counts)
    position = np.arange(offsets[-1]) - offsets[product]
    rows = own[product] * KINDS + (first[product] + position) % KINDS
    kinds = np.zeros(len(rows), dtype=np.int64)
    later = position >= telling[product]
    # Every seventh of a ring of 2,000: they differ.
    around = (begin[product] + 7 * (position - telling[product])) % NUISANCE
    rows[later], kinds[later] = KINDS * categories + around[later], 1
    last = position == counts[product] - 1
    rows[last], kinds[last] = KINDS * categories + NUISANCE + product[last], 2
    return rows, offsets, kinds


def _catalogue(n: int, tree: CategoryTree, own: Ints, rows: Ints, offsets: Ints, kinds: Ints, seed: int) -> Catalogue:
    ids = np.array([f"product-{seed}-{row:07d}" for row in range(n)])
    categories = np.array(tree.ids)
    above = pa.array(tree.parents, mask=tree.parents == NONE)
    return Catalogue(
        "planted vectors",
        pa.table(
            {
                "id": pa.array(ids),
                "title": pa.array([f"Product {row}" for row in range(n)]),
                "path": pa.nulls(n, pa.string()),
                "archive": pa.nulls(n, pa.string()),
                "category_id": pa.array(categories).take(pa.array(own)),
            }
        ),
        pa.table(
            {
                "product_id": pa.array(ids).take(pa.array(np.repeat(np.arange(n), np.diff(offsets)))),
                "name": pa.array(["kind", "note", "number"]).take(pa.array(kinds)),
                "value": pa.array(rows).cast(pa.string()),
            }
        ),
        pa.table(
            {"id": categories, "name": list(tree.names), "parent": pa.array(categories).take(above)},
        ),
        source=f"planted vectors, seed {seed}",
    )


def _filled(folder: Path | None, name: str, count: int, width: int, make: Callable[[Ints], Floats]) -> Floats:
    """(count, width) vectors, computed in blocks of rows, in memory or in a file."""
    if folder is None:
        vectors = np.empty((count, width), np.float32)
    else:
        make_folder(folder)
        path = folder / f"{name}.npy"
        vectors = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(count, width))
    for begin in range(0, count, _ROWS):
        rows = np.arange(begin, min(begin + _ROWS, count))
        vectors[begin : begin + len(rows)] = make(rows)
    if folder is None:
        return vectors
    vectors.flush()  # type: ignore[attr-defined]
    mapped: Floats = np.load(path, mmap_mode="r")
    return mapped


def _noise(seed: int, stream: int, rows: Ints, width: int) -> Floats:
    """(k, width) independent numbers of mean 0 in vectors of length about 1: four from each random number."""
    words = width // 4
    positions = (rows[:, None] * words + np.arange(words)).ravel()
    numbers = splitmix64(seed_of(seed, stream), positions).astype("<u8").view("<u2").reshape(len(rows), width)
    # Even between −1 and 1 the variance is 1/3.
    scale = np.float32(np.sqrt(3.0 / width) / 32_767.5)
    return (numbers.astype(np.float32) - np.float32(32_767.5)) * scale


def _chance(seed: int, stream: int, rows: Ints) -> NDArray[np.float64]:
    return np.asarray(splitmix64(seed_of(seed, 1, stream), rows) / 2.0**64)


def _unit(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)
