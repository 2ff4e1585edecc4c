"""Approximate MaxSim scores of a block of queries and a block of documents: on the cores, or on a device of torch.

Both are float32 products, reduced. `visir.retrieval.multi_vector.scan` bounds their error and decides exactly what they
leave open, so the answers of a search are the same on every device.
"""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from visir.retrieval.multi_vector import kernels
from visir.retrieval.multi_vector.sides import Tokens, cut
from visir.retrieval.torch_device import TorchDevice
from visir.threads import Share, one_blas_thread, spread

ROWS, COLUMNS = 512, 1024
"""Vectors of documents and of queries in one product of a core: 2 MiB, which stay in its cache."""
ON_DEVICE = 2**27
"""Numbers in one product on a device (512 MiB)."""
UNEQUAL = 1.25
"""Documents of a block are padded to the longest of a group, which is at most this much longer than the shortest."""


class MatrixProducts(Protocol):
    """Where products of vectors are computed."""

    def queries(self, tokens: Tokens) -> Any:
        """Return a block of queries as `scores` takes it, to be used several times."""

    def documents(self, tokens: Tokens) -> Any:
        """Return a block of documents as `scores` takes it, to be used several times."""

    def scores(self, queries: Any, documents: Any, out: NDArray[np.float32]) -> None:
        """Fill in the (queries, documents) scores of two blocks."""

    def running(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which all products are made."""


class OnCores:
    """MatrixProducts by NumPy, on every core a share of the documents."""

    def queries(self, tokens: Tokens) -> Tokens:
        """Return the block as it is."""
        return tokens

    def documents(self, tokens: Tokens) -> Tokens:
        """Return the block as it is."""
        return tokens

    def scores(self, queries: Tokens, documents: Tokens, out: NDArray[np.float32]) -> None:
        """Fill in the (queries, documents) scores."""
        (left, query_offsets), (right, document_offsets) = queries, documents
        chunks = list(cut(document_offsets, ROWS))

        def share(part: Share) -> None:
            room = np.empty(0, np.float32)
            for start, stop in chunks[int(len(chunks) * part[0]) : int(len(chunks) * part[1])]:
                rows = right[document_offsets[start] : document_offsets[stop]]
                # A document of very many vectors meets fewer queries at a time.
                columns = min(COLUMNS, max(ROWS * COLUMNS // len(rows), 1))
                for first, last in cut(query_offsets, columns):
                    vectors = left[query_offsets[first] : query_offsets[last]]
                    if len(room) < len(rows) * len(vectors):
                        room = np.empty(len(rows) * len(vectors), np.float32)
                    product = room[: len(rows) * len(vectors)].reshape(len(rows), len(vectors))
                    np.matmul(rows, vectors.T, out=product)
                    kernels.reduce_product(
                        product,
                        document_offsets[start : stop + 1] - document_offsets[start],
                        query_offsets[first : last + 1] - query_offsets[first],
                        np.empty(len(vectors), np.float32),
                        out[first:last, start:stop],
                    )

        spread(share)

    def running(self) -> contextlib.AbstractContextManager[Any]:
        """Every core makes its own products."""
        return one_blas_thread()


class OnDevice(TorchDevice):
    """MatrixProducts by torch."""

    def queries(self, tokens: Tokens) -> Any:
        """Return the vectors on the device, the query of each, and where each query starts."""
        vectors, offsets = tokens
        owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        return self.moved(vectors), self.moved(owner), offsets

    def documents(self, tokens: Tokens) -> Any:
        """Return groups of documents of similar length: their positions, and their (documents, t, d) vectors."""
        # Shorter documents repeat their last vector, which changes no maximum.
        vectors, offsets = tokens
        whole, counts = self.moved(vectors), np.diff(offsets)
        order = np.argsort(counts, kind="stable")
        ascending = counts[order]
        groups, start = [], 0
        while start < len(order):
            stop = int(np.searchsorted(ascending, ascending[start] * UNEQUAL, side="right"))
            items = order[start:stop]
            steps = np.minimum(np.arange(ascending[stop - 1]), counts[items, None] - 1)
            groups.append((items, whole[self.moved(offsets[items, None] + steps)]))
            start = stop
        return groups

    def scores(self, queries: Any, documents: Any, out: NDArray[np.float32]) -> None:
        """Fill in the (queries, documents) scores."""
        torch = self.torch
        vectors, owner, offsets = queries
        for items, padded in documents:
            count, length, dimension = padded.shape
            flat = padded.reshape(count * length, dimension)
            for first, last in cut(offsets, max(ON_DEVICE // len(flat), 1)):
                a, b = int(offsets[first]), int(offsets[last])
                best = (flat @ vectors[a:b].T).reshape(count, length, b - a).amax(1)
                sums = torch.zeros((last - first, count), dtype=torch.float32, device=self.device)
                sums.index_add_(0, owner[a:b] - first, best.T)
                out[first:last, items] = sums.cpu().numpy()


def products_on(device: str | None) -> MatrixProducts:
    """Return where to compute: None for the cores by NumPy; else a device of torch."""
    return OnCores() if device in (None, "") else OnDevice(str(device))
