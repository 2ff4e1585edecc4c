"""The loss of category models against arithmetic by hand, and its limits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import refused
from visir.errors import ConfigurationError
from visir.products.model import CategoryInfoNCE, CategoryLoss
from visir.records import Catalogue
from visir.records.category_tree import CategoryTree
from visir.training.losses import InfoNCE
from visir.training.similarities import VectorPairs

TREE = CategoryTree.of(
    Catalogue.of("toy", ids=["a", "b"], paths=[["Home", "Rugs", "Kilims"], ["Toys", "Dolls"]], titles=None)
)  # Home 0, Rugs 1, Kilims 2, Toys 3, Dolls 4
OWNERS, CLASSES = torch.tensor([0, 1, 3]), torch.tensor([2, 1, 4])
"""Three pairs: (Home, a kilim), (Rugs, a rug), (Toys, a doll)."""
COSINES = torch.tensor([[0.8, 0.4, 0.0], [0.6, 1.0, 0.2], [0.0, 0.2, 0.6]], dtype=torch.float64)


def pairs(cosines: torch.Tensor, owners: torch.Tensor = OWNERS, classes: torch.Tensor | None = CLASSES) -> VectorPairs:
    """Vectors whose products are `cosines` (the loss takes them as they are)."""
    return VectorPairs(cosines, torch.eye(len(cosines), dtype=cosines.dtype), owners, classes=classes)


def loss(**asked: object) -> float:
    return float(CategoryInfoNCE(CategoryLoss(**asked), TREE)(pairs(COSINES)))  # type: ignore[arg-type]


def test_levels_to_climb_until_the_product_belongs() -> None:
    # Home: the kilim and the rug lie in it (0), the doll in no category above it: one level above the root (1).
    # Rugs: the kilim lies below it (0), the rug in it (0); the doll: past Rugs and Home (2).
    # Toys: kilim and rug 1, doll 0.
    found = CategoryInfoNCE(CategoryLoss(), TREE).levels(pairs(COSINES))
    assert found.tolist() == [[0, 0, 1], [0, 0, 2], [1, 1, 0]]


def test_equations_7_7_to_7_9() -> None:
    # τ = 1. c→p, rows of S: log(e^.8 + e^.4 + 1) = 1.55125, log(e^.6 + e + e^.2) = 1.75125,
    # log(1 + e^.2 + e^.6) = 1.39712, each minus its diagonal: (0.75125 + 0.75125 + 0.79712) / 3 = 0.76654.
    s = COSINES.numpy()
    to_product = np.mean([np.log(np.exp(s[j]).sum()) - s[j, j] for j in range(3)])
    to_category = np.mean([np.log(np.exp(s[:, j]).sum()) - s[j, j] for j in range(3)])
    assert to_product == pytest.approx(0.76654, abs=1e-5)
    assert loss(balance=0.0) == pytest.approx(to_product)
    assert loss(balance=1.0) == pytest.approx(to_category)
    assert loss(balance=0.25) == pytest.approx(0.25 * to_category + 0.75 * to_product)
    assert loss(temperature=0.1) < loss()


def test_with_half_balance_it_is_the_symmetric_infonce_of_every_other_training() -> None:
    same = InfoNCE(1.0, false_negatives="kept")
    assert loss() == pytest.approx(float(same(pairs(COSINES))))


def test_multi_positive_targets() -> None:
    # Right (level 0): Home {1, 2}, Rugs {1, 2}, Toys {3}; columns: kilim {Home, Rugs}, rug {Home, Rugs}, doll {Toys}.
    s = COSINES.numpy()
    rows = np.log(np.exp(s).sum(1)) - np.array([(0.8 + 0.4) / 2, (0.6 + 1.0) / 2, 0.6])
    columns = np.log(np.exp(s).sum(0)) - np.array([(0.8 + 0.6) / 2, (0.4 + 1.0) / 2, 0.6])
    assert loss(targets="multi-positive", balance=0.0) == pytest.approx(rows.mean())
    assert loss(targets="multi-positive", balance=1.0) == pytest.approx(columns.mean())


def test_an_ancestor_is_right_though_the_product_was_drawn_with_another_category() -> None:
    # Pair 2 was drawn with Home; its product is a kilim, so it is right for Rugs and Kilims too.
    drawn = pairs(torch.zeros(2, 2), torch.tensor([1, 0]), torch.tensor([2, 2]))
    assert CategoryInfoNCE(CategoryLoss(), TREE).levels(drawn).tolist() == [[0, 0], [0, 0]]


def test_the_penalty_is_the_expected_number_of_levels() -> None:
    # All cosines equal: every share is 1/3. Rows: (0 + 0 + 1)/3, (0 + 0 + 2)/3, (1 + 1 + 0)/3, mean 5/9;
    # columns: (0 + 0 + 1)/3, (0 + 0 + 1)/3, (1 + 2 + 0)/3, mean 5/9. The rest is log 3.
    equal = pairs(torch.zeros(3, 3, dtype=torch.float64))
    found = CategoryInfoNCE(CategoryLoss(hierarchy=0.6), TREE)(equal)
    assert float(found) == pytest.approx(np.log(3) + 0.6 * 5 / 9)


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 7), st.integers(0, 99), st.sampled_from(["pairs", "multi-positive"]), st.floats(0, 2))
def test_the_order_of_the_batch_does_not_matter(n: int, seed: int, targets: str, hierarchy: float) -> None:
    rng = np.random.default_rng(seed)
    cosines = torch.from_numpy(rng.uniform(-1, 1, (n, n)))
    classes = torch.from_numpy(rng.choice([1, 2, 4], n))
    owners = torch.from_numpy(np.array([rng.choice(TREE.paths[one][TREE.paths[one] >= 0]) for one in classes]))
    objective = CategoryInfoNCE(CategoryLoss(targets=targets, hierarchy=hierarchy), TREE)  # type: ignore[arg-type]
    order = torch.from_numpy(rng.permutation(n))
    shuffled = VectorPairs(
        cosines[order], torch.eye(n, dtype=cosines.dtype)[order], owners[order], classes=classes[order]
    )
    assert float(objective(pairs(cosines, owners, classes))) == pytest.approx(float(objective(shuffled)))
    assert (objective.levels(shuffled).diagonal() == 0).all()


def test_a_loss_that_needs_the_products_categories_says_so() -> None:
    with refused(ConfigurationError, code="loss-needs-products-categories", hint=False):
        CategoryInfoNCE(CategoryLoss(targets="multi-positive"), TREE)(pairs(COSINES, classes=None))
