"""The planted vectors: what tells what is measured, and products do not depend on how many there are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from generated_vectors import KINDS, NUISANCE, generate_vectors
from visir.errors import CollectionError
from visir.products import CategoryTree, relevant_products
from visir.products.encoding import CatalogueVectors, Floats

CATEGORIES = 200


@pytest.fixture(scope="module")
def planted() -> CatalogueVectors:
    return generate_vectors(3_000, categories=CATEGORIES, seed=1)


def own(vectors: CatalogueVectors) -> tuple[CategoryTree, np.ndarray]:
    tree = CategoryTree.of(vectors.catalogue)
    return tree, tree.rows(vectors.catalogue.products["category_id"])


def agreement(found: Floats, groups: np.ndarray) -> float:
    """How often a vector is nearest to the mean of its own group, means of one half, asked of the other."""
    learn = np.arange(len(found)) % 2 == 0
    known = np.unique(groups[learn])
    means = np.stack([found[learn & (groups == one)].mean(0) for one in known])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    ask = ~learn & np.isin(groups, known)
    return float((known[(found[ask] @ means.T).argmax(1)] == groups[ask]).mean())


def test_the_tree_is_like_the_thesiss() -> None:
    tree, rows = own(generate_vectors(2_000, categories=5_471))
    assert len(tree) == 5_471
    assert (tree.parents == -1).sum() == 34
    assert tree.depths.max() == 9
    assert 4 < tree.depths[rows].mean() < 5.5  # 4.63 in the thesis
    assert tree.leaves[rows].all()


def test_pictures_tell_what_is_general_and_attributes_what_is_specific(planted: CatalogueVectors) -> None:
    tree, leaf = own(planted)
    assert planted.images is not None
    assert planted.attributes is not None
    roots, second = tree.roots[leaf], tree.paths[leaf, 1]
    pictures = planted.images.vectors[planted.images.rows]
    assert agreement(pictures, roots) > 0.9
    # Leaves of one category on level 2 look alike, so a leaf is told no better than by the larger of its sisters.
    sisters = np.array([len(np.unique(leaf[second == one])) for one in second])
    crowded = sisters >= 3
    assert agreement(pictures[crowded], leaf[crowded]) < 0.6
    first = planted.attributes.vectors[planted.attributes.rows[planted.attributes.offsets[:-1]]]
    assert agreement(first, leaf) > 0.95
    # What is a leaf's own says nothing of its root: asked of leaves that were not among those learnt from, no better
    # than chance, which is the share of the largest trees.
    odd = leaf % 2 == 1
    means = {root: first[~odd & (roots == root)].mean(0) for root in np.unique(roots[~odd])}
    known = np.array(list(means))
    guessed = known[(first[odd] @ np.stack(list(means.values())).T).argmax(1)]
    assert (guessed == roots[odd]).mean() < 0.25


def test_titles_tell_weakly_and_not_always(planted: CatalogueVectors) -> None:
    _, leaf = own(planted)
    assert planted.titles is not None
    likeness = (planted.titles.vectors * planted.categories[leaf]).sum(1)
    # Noise of twice the length leaves a cosine of 1 / sqrt(1 + 4) = 0.45 in 7 of 10, and 0 in the others.
    assert np.isclose(likeness[likeness > 0.25].mean(), 0.447, atol=0.02)
    assert np.isclose((likeness < 0.25).mean(), 0.3, atol=0.03)


def test_it_is_a_catalogue(planted: CatalogueVectors) -> None:
    attributes, catalogue = planted.attributes, planted.catalogue
    assert attributes is not None
    assert catalogue.attributes["value"].to_pylist() == [str(row) for row in attributes.rows]
    owners = np.repeat(catalogue.products["id"].to_pylist(), attributes.counts)
    assert catalogue.attributes["product_id"].to_pylist() == owners.tolist()
    assert (attributes.counts.min(), attributes.counts.max()) == (2, 10)
    for row in range(100):
        mine = attributes.rows[attributes.offsets[row] : attributes.offsets[row + 1]]
        assert len(np.unique(mine)) == len(mine)
    names = np.array(catalogue.attributes["name"].to_pylist())
    assert (attributes.rows[names == "kind"] < KINDS * CATEGORIES).all()
    assert (attributes.rows[names == "number"] >= KINDS * CATEGORIES + NUISANCE).all()
    assert catalogue.remarks()[0] == (
        "products without a picture: 3,000 ('product-1-0000000', 'product-1-0000001', 'product-1-0000002', "
        "'product-1-0000003', 'product-1-0000004', …)"
    )
    assert len(relevant_products(catalogue, "general").documents) == 3_000


def test_products_by_place(planted: CatalogueVectors, tmp_path: Path) -> None:
    fewer = generate_vectors(40, categories=CATEGORIES, seed=1, folder=tmp_path)
    assert fewer.catalogue.products.equals(planted.catalogue.products.slice(0, 40))
    assert fewer.images is not None and planted.images is not None
    assert fewer.attributes is not None and planted.attributes is not None
    assert isinstance(fewer.images.vectors, np.memmap)
    np.testing.assert_array_equal(fewer.images.vectors, planted.images.vectors[:40])
    np.testing.assert_array_equal(fewer.attributes.rows, planted.attributes.rows[: len(fewer.attributes.rows)])
    np.testing.assert_array_equal(
        fewer.attributes.vectors[fewer.attributes.rows],
        planted.attributes.vectors[planted.attributes.rows[: len(fewer.attributes.rows)]],
    )
    larger = generate_vectors(1, categories=2 * CATEGORIES, seed=1)
    np.testing.assert_array_equal(larger.categories[:CATEGORIES], planted.categories)
    assert not np.array_equal(generate_vectors(1, categories=CATEGORIES, seed=2).categories, planted.categories)


def test_wrong_arguments_all_at_once() -> None:
    with pytest.raises(CollectionError, match=r"n must be at least 1, not 0\n.*categories must be at least 34, not 5"):
        generate_vectors(0, categories=5)
