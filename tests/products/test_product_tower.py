"""Products by row, and the tower over them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from category_toys import generate_vectors

from refusals import refused
from visir.encoders.towers.base import HeadSpec
from visir.errors import ConfigurationError, EmbeddingError
from visir.products.encoding import AttributeVectors, CatalogueVectors, ProductVectors
from visir.products.model import Attention, ProductSource, ProductSpec, ProductTower, mean_attributes, widths_of
from visir.records import Catalogue

TOY = Catalogue.of("toy", ids=["a", "b", "c"], paths=[["Home"]] * 3)
SETS = AttributeVectors(
    np.array([[1, 0], [0, 1], [3, 3]], np.float32), np.array([0, 1, 2, 2, 0]), np.array([0, 2, 2, 5])
)  # a: (1, 0), (0, 1); b: none; c: (3, 3), (3, 3), (1, 0)
VECTORS = CatalogueVectors(
    TOY,
    np.ones((1, 2), np.float32),
    ProductVectors(np.array([[2, 2, 2], [5, 0, 0]], np.float32), np.array([1, -1, 0])),
    attributes=SETS,
)


def tower(vectors: CatalogueVectors, source: ProductSource, **asked: object) -> ProductTower:
    widths = widths_of(vectors, source.modalities)
    head = HeadSpec(sum(widths.values()), 4)
    return ProductTower(ProductSpec(widths, head, **asked)).eval()  # type: ignore[arg-type]


def joined(source: ProductSource, rows: list[int], **asked: object) -> torch.Tensor:
    """What enters the head."""
    seen: list[torch.Tensor] = []
    made = tower(VECTORS, source, **asked)
    made.head.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    made(source.batch(np.array(rows)))
    return seen[0].detach()


def test_the_mean_of_attributes_is_equation_7_5() -> None:
    # a: ((1, 0) + (0, 1)) / 2; b has none; c: ((3, 3) + (3, 3) + (1, 0)) / 3
    assert np.allclose(mean_attributes(SETS), [[0.5, 0.5], [0, 0], [7 / 3, 2]])


def test_modalities_are_joined_in_order_and_absent_ones_are_zero() -> None:
    source = ProductSource(VECTORS, ("image", "attributes"))
    found = joined(source, [2, 1, 0], scaling="none")
    assert torch.allclose(found, torch.tensor([[2, 2, 2, 7 / 3, 2], [0, 0, 0, 0, 0], [5, 0, 0, 0.5, 0.5]]))
    unit = joined(source, [0, 1], scaling="unit")  # each modality by itself: (1, 0, 0) and (1, 1) / √2
    assert torch.allclose(unit, torch.tensor([[1, 0, 0, 2**-0.5, 2**-0.5], [0, 0, 0, 0, 0]]))


def test_a_learnt_default_stands_for_what_is_absent_and_only_there() -> None:
    source = ProductSource(VECTORS, ("image", "attributes"))
    made = tower(VECTORS, source, absent="learnt")
    with torch.no_grad():
        made.absent["image"].fill_(9.0)
    seen: list[torch.Tensor] = []
    made.head.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    made(source.batch(np.array([1, 0]))).sum().backward()
    assert seen[0][:, :3].tolist() == [[9, 9, 9], [1, 0, 0]]
    assert made.absent["image"].grad is not None
    assert made.absent["image"].grad.abs().sum() > 0


def test_attention_begins_as_the_mean_and_can_leave_it() -> None:
    every = ProductSource(VECTORS, ("attributes",), mean=False)
    batch = every.batch(np.array([0, 1, 2]))
    assert batch["filled"].tolist() == [[True, True, False], [False] * 3, [True] * 3]
    attention = Attention(2)
    assert torch.allclose(attention(batch["attributes"], batch["filled"]), torch.from_numpy(mean_attributes(SETS)))
    # Scores 100 · tanh(first coordinate): product a is nearly (1, 0). b stays zero.
    with torch.no_grad():
        attention.hidden.weight.zero_()
        attention.hidden.bias.zero_()
        attention.hidden.weight[0, 0] = 1.0
        attention.score.weight[0, 0] = 100.0
    found = attention(batch["attributes"], batch["filled"])
    assert torch.allclose(found[:2], torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    found.sum().backward()
    assert all(bool(one.grad.isfinite().all()) for one in attention.parameters() if one.grad is not None)


def test_batches_are_those_of_the_rows_one_by_one() -> None:
    _, vectors = generate_vectors(60)
    for mean in (True, False):
        source = ProductSource(vectors, ("image", "title", "attributes"), mean=mean)
        made = tower(vectors, source, attributes="mean" if mean else "attention")
        rows = np.array([7, 3, 59, 3])
        together = made(source.batch(rows))
        alone = torch.cat([made(source.batch(rows[i : i + 1])) for i in range(4)])
        assert torch.allclose(together, alone, atol=1e-6)


def test_a_part_keeps_its_vectors() -> None:
    _, vectors = generate_vectors(60)
    keep = np.arange(60) % 3 == 1
    part, whole = (ProductSource(one, ("image", "attributes")) for one in (vectors.keep_products(keep), vectors))
    for name, one in part.batch(np.arange(20)).items():
        assert torch.allclose(one, whole.batch(np.flatnonzero(keep))[name])


def test_what_is_missing_or_does_not_fit_is_told() -> None:
    with refused(ConfigurationError, "title", code="model-reads-no-such"):
        ProductSource(VECTORS, ("image", "title"))
    wrong = replace(SETS, rows=np.array([0, 1, 2, 2, 3]))
    with pytest.raises(
        EmbeddingError, match=r"(?s)categories: \(2, 2\) for 1 categories.*rows from 0 to 3 for 3 vectors"
    ):
        CatalogueVectors(TOY, np.ones((2, 2), np.float32), attributes=wrong)
