"""Batches of products for the product tower, gathered from vectors that may be memory-mapped."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch import Tensor

from visir.errors import ConfigurationError
from visir.products.model.recipe import Part
from visir.products.vectors import AttributeVectors, CatalogueVectors, Floats, ProductVectors
from visir.training.inputs.base import EpochRandom


class ProductSource:
    """The products of a catalogue: a `visir.training.inputs.base.InputSource`."""

    def __init__(self, vectors: CatalogueVectors, modalities: Sequence[Part], *, mean: bool = True) -> None:
        self._length, self.modalities = len(vectors), tuple(modalities)
        parts = _parts(vectors, modalities)
        self._present = np.stack([parts[name].present for name in modalities], axis=1)
        self._single: dict[Part, ProductVectors] = {
            name: part for name, part in parts.items() if isinstance(part, ProductVectors)
        }
        sets = parts.get("attributes")
        self._sets = sets if isinstance(sets, AttributeVectors) else None
        if self._sets is not None and mean:
            self._single["attributes"] = ProductVectors(mean_attributes(self._sets), np.arange(self._length))
            self._sets = None

    def __len__(self) -> int:
        return self._length

    def batch(
        self, rows: NDArray[np.int64], draw: EpochRandom | None = None, keys: NDArray[np.int64] | None = None
    ) -> dict[str, Tensor]:
        """The products of these rows, by modality; nothing is drawn."""
        present = self._present[rows]
        gathered: dict[str, Tensor] = {"present": torch.from_numpy(present)}
        for number, name in enumerate(self.modalities):
            if name in self._single:
                gathered[name] = torch.from_numpy(_gathered(self._single[name], rows, present[:, number]))
        if self._sets is not None:
            gathered["attributes"], gathered["filled"] = map(torch.from_numpy, _padded(self._sets, rows))
        return gathered


def widths_of(vectors: CatalogueVectors, modalities: Sequence[Part]) -> dict[Part, int]:
    """How wide the vectors of each modality are."""
    return {name: part.width for name, part in _parts(vectors, modalities).items()}


def mean_attributes(attributes: AttributeVectors) -> Floats:
    """(n, d) the mean of the attribute vectors of each product (eq. 7.5), zero where it has none."""
    # A product with a sparse matrix: no vector is copied for each product that has the attribute.
    counts = attributes.counts
    shares = np.repeat(1 / np.maximum(counts, 1), counts).astype(np.float32)
    shape = (len(counts), len(attributes.vectors))
    if not len(attributes.rows):
        return np.zeros((len(counts), attributes.width), np.float32)
    weights = csr_matrix((shares, attributes.rows, attributes.offsets), shape=shape)
    return np.asarray(weights @ np.asarray(attributes.vectors, dtype=np.float32))


def _parts(vectors: CatalogueVectors, modalities: Sequence[Part]) -> dict[Part, ProductVectors | AttributeVectors]:
    available = {"image": vectors.images, "title": vectors.titles, "attributes": vectors.attributes}
    missing = [name for name in modalities if available[name] is None]
    if missing:
        raise ConfigurationError(
            f"{vectors.catalogue.name}: the model reads {' and '.join(missing)}, and there are no such vectors.",
            hint="encode them (encode_catalogue), or train without: product.modalities",
            code="model-reads-no-such",
        )
    return {name: part for name in modalities if (part := available[name]) is not None}


def _gathered(part: ProductVectors, rows: NDArray[np.int64], present: NDArray[np.bool_]) -> Floats:
    if not len(part.vectors):  # no product has one
        return np.zeros((len(rows), part.width), np.float32)
    vectors = np.asarray(part.vectors[np.where(present, part.rows[rows], 0)], np.float32)
    if not present.all():
        vectors[~present] = 0.0
    return vectors


def _padded(sets: AttributeVectors, rows: NDArray[np.int64]) -> tuple[Floats, NDArray[np.bool_]]:
    """(k, L, d) vectors, and (k, L) whether there is one; L is at least 1."""
    begins, counts = sets.offsets[rows], sets.offsets[rows + 1] - sets.offsets[rows]
    filled = np.arange(max(int(counts.max(initial=0)), 1)) < counts[:, None]
    vectors = np.zeros((*filled.shape, sets.width), np.float32)
    positions = begins[:, None] + np.arange(filled.shape[1])
    vectors[filled] = sets.vectors[sets.rows[positions[filled]]]
    return vectors, filled
