"""Systems that answer categories with products: vectors from anywhere, zero-shot or trained, behind one method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import ConfigurationError, nearest
from visir.products.split import Mask
from visir.products.task import Task
from visir.records import Embeddings, Gallery, Ranks
from visir.search.exact import SearchResult, search


class System(Protocol):
    """Whatever ranks the products of a task for its categories."""

    @property
    def name(self) -> str:
        """The row of a table."""
        ...

    @property
    def similarity(self) -> str:
        """How it scores, for the protocol."""
        ...

    @property
    def card(self) -> Mapping[str, Any]:
        """Everything else that changes its numbers, as plain values."""
        ...

    def answers(self, task: Task) -> bool:
        """Whether it can take part; a model trained for one setting says no to the others."""
        ...

    def search(self, task: Task, depth: int) -> SearchResult:
        """The run (queries as in `task.qrels`, gallery `task.gallery`) and the ranks of all relevant products."""
        ...

    def seen(self, task: Task) -> Mask | None:
        """(c,) which categories it was trained with; None: whatever the pairs of the training part say."""
        ...


@dataclass(frozen=True, eq=False)
class Dense:
    """Vectors of categories and of products in one space, compared by cosine.

    - `categories`: text embeddings, ids are category ids
    - `products`: image embeddings (whatever was encoded), ids are product ids; products that have none (a title is
      missing, say) are candidates nevertheless, and never found
    """

    name: str
    categories: Embeddings
    products: Embeddings
    similarity: str = "cosine"
    trained_on: Mask | None = None

    @property
    def card(self) -> Mapping[str, Any]:
        """Who encoded."""
        return {"categories": self.categories.encoder.name, "products": self.products.encoder.name}

    def answers(self, task: Task) -> bool:
        """Vectors answer any task."""
        return True

    def search(self, task: Task, depth: int) -> SearchResult:
        """Exact search; ties by product id."""
        asked = self.categories.rows([task.tree.ids[row] for row in task.rows])
        queries = Embeddings(
            "text", task.qrels.queries, np.asarray(self.categories.vectors)[asked], self.categories.encoder
        )
        assert task.gallery.ids is not None
        there = task.gallery.ids.filter(pc.is_in(task.gallery.ids, self.products.ids))
        if len(there) == 0:
            raise ConfigurationError(
                f"{self.name}: none of the {task.gallery.size:,} test products has a vector.",
                hint="is it the same catalogue, and does it have pictures (or titles)?",
            )
        candidates = Gallery.of("image", there, task.gallery.description)
        found = search(queries, self.products, "t2i", gallery=candidates, depth=depth, qrels=task.qrels, name=self.name)
        assert found.ranks is not None
        ranks = replace(found.ranks, gallery_size=task.gallery.size)
        return SearchResult(replace(found.run, gallery=task.gallery), ranks)

    def seen(self, task: Task) -> Mask | None:
        """Of trained vectors, what they were trained with."""
        return self.trained_on


@dataclass(frozen=True, eq=False)
class Trained:
    """One model per split and setting under one name: what "CLIP-ITA, five folds" is.

    `members`: (name of the split, setting) to the system trained for it.
    """

    name: str
    members: Mapping[tuple[str, str], Dense]
    similarity: str = "cosine"
    card: Mapping[str, Any] = field(default_factory=dict)

    def answers(self, task: Task) -> bool:
        """Whether there is a model for this split and setting."""
        return (task.split.name, task.setting) in self.members

    def search(self, task: Task, depth: int) -> SearchResult:
        """By the model of this split and setting."""
        found = self._member(task).search(task, depth)
        return SearchResult(replace(found.run, name=self.name), found.ranks)

    def seen(self, task: Task) -> Mask | None:
        """What the model of this split and setting was trained with."""
        return self._member(task).seen(task)

    def _member(self, task: Task) -> Dense:
        key = (task.split.name, task.setting)
        if key not in self.members:
            known = [", ".join(one) for one in self.members]
            raise ConfigurationError(f"{self.name}: no model for {', '.join(key)}", hint=nearest(", ".join(key), known))
        return self.members[key]


def ranks_of(task: Task, queries: NDArray[np.int64], places: NDArray[np.int64]) -> Ranks:
    """`Ranks` of a system that ranks by itself.

    In the order of the qrels' documents: `queries` (m,) the place of each one's query, `places` (m,) its rank from 1, 0
    for not found.
    """
    order = np.lexsort((np.where(places == 0, np.iinfo(np.int64).max, places), queries))
    return Ranks(
        task.qrels.queries, task.qrels.offsets, places[order], task.qrels.grades[order], None, task.gallery.size
    )
