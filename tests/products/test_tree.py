"""The category tree on one made by hand, and against slow oracles on random forests."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import refused
from visir.errors import CollectionError
from visir.products.opening import tree_errors
from visir.records.catalogue import Catalogue
from visir.records.category_tree import NONE, CategoryTree

#   0 Home                          6 Toys
#   ├── 1 Kitchen                   └── 7 Trains
#   │   ├── 2 Knives
#   │   │   └── 3 Bread knives
#   │   └── 4 Pans
#   └── 5 Garden
HAND = CategoryTree.of(
    Catalogue.of(
        "hand",
        ids=["a", "b", "c", "d"],
        paths=[
            ["Home", "Kitchen", "Knives", "Bread knives"],
            ["Home", "Kitchen", "Pans"],
            ["Home", "Garden"],
            ["Toys", "Trains"],
        ],
    )
)


def test_depths_paths_roots_and_leaves() -> None:
    assert HAND.names == ("Home", "Kitchen", "Knives", "Bread knives", "Pans", "Garden", "Toys", "Trains")
    assert HAND.depths.tolist() == [1, 2, 3, 4, 3, 2, 1, 2]
    assert HAND.paths[3].tolist() == [0, 1, 2, 3]
    assert HAND.paths[5].tolist() == [0, 5, NONE, NONE]
    assert HAND.roots.tolist() == [0, 0, 0, 0, 0, 0, 6, 6]
    assert np.flatnonzero(HAND.leaves).tolist() == [3, 4, 5, 7]
    assert HAND.ancestors(3).tolist() == [0, 1, 2]
    assert HAND.ancestors(6).tolist() == []


def test_common_ancestors_and_distances() -> None:
    one, other = np.array([3, 3, 0, 5, 3, 0]), np.array([4, 1, 3, 5, 7, 6])
    # Bread knives and Pans meet in Kitchen: 2 up, 1 down. Bread knives and Kitchen: Kitchen itself, 2 up. Home and
    # Bread knives: Home, 3 down. Garden and itself: 0. Bread knives (4 edges below the root of all) and Trains (2): 6.
    # Home and Toys: 1 + 1.
    assert HAND.common(one, other).tolist() == [1, 1, 0, 5, NONE, NONE]
    assert HAND.distances(one, other).tolist() == [3, 2, 3, 0, 6, 2]
    assert HAND.same_tree(one, other).tolist() == [True, True, True, True, False, False]
    # depth(c_p) − depth(c): 3 − 4, 2 − 4, 4 − 1, 2 − 2, 2 − 4, 1 − 1
    assert HAND.depth_differences(one, other).tolist() == [-1, -2, 3, 0, -2, 0]


def test_a_product_is_relevant_to_its_whole_path() -> None:
    leaf = np.array([[3], [5]])  # products in Bread knives and in Garden, against every category
    assert HAND.contains(np.arange(8), leaf).astype(int).tolist() == [
        [1, 1, 1, 1, 0, 0, 0, 0],
        [1, 0, 0, 0, 0, 1, 0, 0],
    ]


def test_errors_as_in_table_7_2_and_figure_7_2() -> None:
    target = np.array([3, 3, 3, 4, 0, 7, 5])
    predicted = np.array([3, 2, 1, 2, 7, 6, 4])
    # 3→3 right. 3→2: same tree, 3 − 4 = −1, distance 1. 3→1: same, 2 − 4 = −2, distance 2. Pans→Knives: same, 0, over
    # Kitchen 2. Home→Trains: another tree, 1 + 2 = 3. Trains→Toys: same, −1, 1. Garden→Pans: same, 3 − 2 = 1, over
    # Home 1 + 2 = 3.
    found = tree_errors(HAND, target, predicted)
    assert (found.right, found.same_tree, found.different_tree) == (1, 5, 1)
    assert found.depth_differences == {-2: 1, -1: 2, 0: 1, 1: 1}
    assert found.distances == {1: 2, 2: 2, 3: 2}
    none = tree_errors(HAND, np.array([], dtype=int), np.array([], dtype=int))
    assert (none.right, none.same_tree, none.different_tree, none.distances) == (0, 0, 0, {})


def test_faults() -> None:
    with refused(CollectionError, code="targets-predictions-two-equal", hint=False):
        tree_errors(HAND, np.array([1, 2]), np.array([1]))
    with refused(CollectionError, "Home > Kitchn", code="collection-unknown-category") as told:
        HAND.rows(["Home", "Home > Kitchn"])
    assert "did you mean 'Home > Kitchen'?" in str(told.value)
    assert HAND.rows(["Toys", "Home > Garden"]).tolist() == [6, 5]


@st.composite
def forests(draw: st.DrawFn) -> CategoryTree:
    """A random forest whose rows stand in any order: children before parents too."""
    count = draw(st.integers(1, 12))
    parents = [draw(st.integers(NONE, row - 1)) for row in range(count)]
    order = draw(st.permutations(range(count)))
    moved = np.full(count, NONE)
    for row, parent in enumerate(parents):
        moved[order[row]] = NONE if parent == NONE else order[parent]
    return CategoryTree(tuple(map(str, range(count))), tuple(map(str, range(count))), moved)


@settings(deadline=None)
@given(forests())
def test_every_pair_of_a_forest_by_walking(tree: CategoryTree) -> None:
    def way(row: int) -> list[int]:
        return [row] if tree.parents[row] == NONE else [*way(int(tree.parents[row])), row]

    every = np.arange(len(tree))
    one, other = (grid.ravel() for grid in np.meshgrid(every, every))
    for number, (a, b) in enumerate(zip(one.tolist(), other.tolist(), strict=True)):
        both = [x for x in way(a) if x in way(b)]
        assert tree.common(one, other)[number] == (both[-1] if both else NONE)
        assert tree.distances(one, other)[number] == len(set(way(a)) ^ set(way(b)))
        assert tree.contains(one, other)[number] == (a in way(b))
    assert tree.depths.tolist() == [len(way(row)) for row in range(len(tree))]
