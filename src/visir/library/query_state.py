"""Queries that are asked together: what each becomes on its way from question to ranked hits."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import VisirError
from visir.library.filters import satisfying
from visir.library.kept import Kept
from visir.library.library import Library
from visir.library.query import DEEPEST, Query, System
from visir.library.query_encoding import EncodedQuery, QueryEncoder
from visir.library.results import LibraryHit
from visir.records import Run
from visir.search.filtered import FilteredIndex, part_of
from visir.search.fusion import Normalisation, fuse

FILTERS_KEPT = 16
NORMALISATION: Normalisation = "maximum"
"""Of scores before a weighted sum (`visir.search.fusion`): it finds as much as the others (docs/library.md), and does
not depend on how deep the lists go."""


class LibraryState:
    """A library as it was opened, its models, and what was worked out for it; replaced as a whole when the library
    changes: a library of other models may have come into its place.
    """

    def __init__(self, library: Library, encoding: QueryEncoder) -> None:
        self.library, self.encoding = library, encoding
        self.held: tuple[str, ...] = tuple(library.indexes)
        self._filters: Kept[Any, AllowedItems] = Kept(FILTERS_KEPT)
        self.about: Kept[str, Any] = Kept(8)

    def rows(self, system: str) -> NDArray[np.int64]:
        """Where the items of the library stand in a system's index; −1 for those that it has not (yet)."""

        def look() -> NDArray[np.int64]:
            found = pc.index_in(self.library.columns.ids, self.library.indexes[system].ids)
            return found.fill_null(-1).to_numpy().astype(np.int64)  # type: ignore[no-any-return]

        rows: NDArray[np.int64] = self.about.get(f"rows of {system}", look)
        return rows

    def filter(self, query: Query) -> AllowedItems | None:
        """What the query may find; None for everything. Raises `FilterError`."""
        if not query.conditions and not query.category:
            return None
        key = (query.conditions, query.category)
        try:
            hash(key)
        except TypeError:  # a value that is no value: the filter says so
            key = (repr(key), None)  # type: ignore[assignment]
        return self._filters.get(key, lambda: AllowedItems(self, query))


class AllowedItems:
    """The items that some conditions allow: which, and, prepared when it is first asked, every system among them."""

    def __init__(self, state: LibraryState, query: Query) -> None:
        self._state, library = state, state.library
        self._library = library
        self._mask = satisfying(library.columns, query.conditions, library.fields, category=query.category)
        self._among = Kept[str, FilteredIndex](2)

    def __len__(self) -> int:
        return int(self._mask.sum())

    def __contains__(self, item: str) -> bool:
        place = pc.index(self._library.columns.ids, item).as_py()
        return place >= 0 and bool(self._mask[place])

    def among(self, system: str) -> FilteredIndex:
        """The allowed documents of a system's index."""
        return self._among.get(system, lambda: self._made(system))

    def _made(self, system: str) -> FilteredIndex:
        ids, rows = self._library.columns.ids, self._state.rows(system)
        return FilteredIndex(self._library.indexes[system], ids.filter(pa.array(self._mask)), rows[self._mask])


@dataclass
class QueryState:
    """One query under way. `runs`: of each system, with this query under `name`; `lists`: the same as (item, score)."""

    query: Query
    system: System = "dense"
    filter: AllowedItems | None = None
    total: int = 0
    vectors: EncodedQuery | None = None
    name: str = ""
    runs: Mapping[str, Run] = field(default_factory=dict)
    lists: Mapping[str, Sequence[tuple[str, float]]] = field(default_factory=dict)
    ranked: list[LibraryHit] = field(default_factory=list)
    fault: VisirError | None = None

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems that are asked: one, or both for hybrid."""
        return ("dense", "sparse") if self.system == "hybrid" else (self.system,)

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Keep what goes wrong for this query to this query; do nothing more once something has."""
        try:
            yield
        except VisirError as fault:
            # As a value: the frames of its traceback would keep a library open that has been replaced since.
            self.fault = fault.with_traceback(None)

    def begin(self, state: LibraryState, *, matching: bool) -> None:
        """Check the query, and find what it may find."""
        query = self.query
        query.check(state.held, matching=matching)
        self.system = query.among(state.held)
        if query.said is not None:
            state.encoding.check_texts(self.systems)
        if query.item is not None:
            state.library.item(query.item)
        self.filter = state.filter(query)
        if self.filter is not None:
            self.total = len(self.filter)
            self.total -= query.item is not None and query.item in self.filter
        else:
            self.total = max(len(state.library.indexes[one].ids) for one in self.systems)
            self.total -= query.item is not None

    @property
    def shown(self) -> int:
        """How many of the best are looked at: a page's, those before it, and one more, which tells of a next page."""
        return max(self.query.offset + self.query.k, self.query.rerank) + 1

    def depth(self, state: LibraryState) -> int:
        """How far down the systems' lists go: a function of this query alone, and the same for each of its pages where
        the order depends on it (fused lists, and approximate kinds, which find other documents when asked for more).
        """
        exact = all(kind_is_exact(state.library, one) for one in self.systems)
        if self.system == "hybrid" or not exact:
            return DEEPEST + 2
        return self.shown + (self.query.item is not None)


def kind_is_exact(library: Library, system: str) -> bool:
    """Whether the index of a system gives exactly the best."""
    return bool(getattr(library.indexes[system], "exact", False))


class StageTimer:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add what happens inside to `stage`."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += time.perf_counter() - begun


def rank(state: LibraryState, asking: Sequence[QueryState], encoding: QueryEncoder, stages: StageTimer) -> None:
    """Fill `vectors`, `lists` and `ranked` of those without a fault, together wherever that changes nothing."""
    live = [one for one in asking if one.fault is None]
    with stages.timed("encode"):
        made = encoding.of([one.query for one in live], [{*one.systems} for one in live], state.library)
    groups: dict[Any, list[QueryState]] = defaultdict(list)
    for one, vectors in zip(live, made, strict=True):
        if isinstance(vectors, VisirError):
            one.fault = vectors
        elif one.total > 0:
            one.vectors = vectors
            query = one.query
            groups[id(one.filter), one.system, one.depth(state), query.fusion, query.weight].append(one)
    for group in groups.values():
        try:
            _answer(state, group, encoding, stages)
        except VisirError as fault:  # nothing that one of them could mend: an index that cannot be read, an engine away
            for one in group:
                one.fault = fault.with_traceback(None)
        for one in group:
            one.filter = None  # what it prepared is as large as the library, and there may be as many as queries


def _answer(state: LibraryState, group: Sequence[QueryState], encoding: QueryEncoder, stages: StageTimer) -> None:
    first, depth = group[0], group[0].depth(state)
    runs: dict[str, Run] = {}
    with stages.timed("search"):
        for system in first.systems:
            vectors = encoding.queries(system, [one.vectors for one in group if one.vectors is not None])
            if first.filter is not None:
                runs[system] = first.filter.among(system).search(vectors, depth)
            else:
                runs[system] = state.library.indexes[system].search(vectors, depth)
            runs[system] = _without_themselves(runs[system], group)
    with stages.timed("fuse"):
        # What an update that was killed left behind can be in one index only; they are one gallery all the same.
        whole = next(iter(runs.values()))
        if len(runs) > 1:
            alike = {system: replace(run, gallery=whole.gallery) for system, run in runs.items()}
            weights = None if first.query.fusion == "rrf" else {"dense": first.query.weight,
                                                                "sparse": 1 - first.query.weight}  # fmt: skip
            whole = fuse(alike, fusion=first.query.fusion, weights=weights, normalisation=NORMALISATION, depth=depth)
        for at, one in enumerate(group):
            one.name, one.runs = f"{at:06}", runs
            one.lists = {system: run.answer(one.name) for system, run in runs.items()}
            places = {
                system: {item: (place, score) for place, (item, score) in enumerate(listed, 1)}
                for system, listed in one.lists.items()
            }
            one.ranked = [
                LibraryHit(item, place, score, {system: told[item] for system, told in places.items() if item in told})
                for place, (item, score) in enumerate(whole.answer(one.name)[: one.shown], 1)
            ]


def _without_themselves(run: Run, group: Sequence[QueryState]) -> Run:
    """Without the item that a query asks with, which would always be the best answer to itself."""
    out = np.zeros(len(run.indices), np.bool_)
    for at, one in enumerate(group):
        if one.query.item is not None:
            listed = slice(int(run.offsets[at]), int(run.offsets[at + 1]))
            place = int(pc.index(run.documents, one.query.item).as_py())
            out[listed] = run.indices[listed] == place
    return part_of(run, ~out, np.ones(len(run), np.bool_)) if out.any() else run
