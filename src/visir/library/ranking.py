"""Ranking: queries that are answered together are encoded, searched and fused together where it changes nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import WIDTH, Columnar, Displayed, brief, cut_path, quoted
from visir.errors import VisirError
from visir.library.check import mended_by_update
from visir.library.query import DEEPEST, QueryError
from visir.library.query_encoding import EncodedQuery
from visir.library.query_state import WORDS, LibraryState, QueryState, StageTimer, is_exact
from visir.library.results import RankedItem, ResultPage, count_in_words
from visir.parquet import integer_array
from visir.records import Run, Vectors
from visir.retrieval.answers import part_of
from visir.retrieval.filtered import FilteredIndex
from visir.retrieval.fusion import K, Normalisation, fuse
from visir.retrieval.index import Index
from visir.retrieval.stored import StoredIndex

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.library.check import Item, ItemFile
    from visir.library.price_words import ReadWords
    from visir.library.query import Query
    from visir.library.snapshot import LibrarySnapshot


# Pictures of a library as Python hands them out: with a name, a path, a thumbnail, and in a notebook as pictures.

_LINES = 5
"""Hits that the `repr` of an answer lists."""
_PATH_WIDTH = WIDTH - 16
"""How wide paths are shown in a `repr`, beside a rank and a score."""


@dataclass(frozen=True, repr=False)
class LibraryPicture(Displayed, view="visir.library.reports.pictures"):
    """A picture of a library.

    Attributes:
        item: Everything that the library knows of it.
        path: Where it lies, absolute; None for a generated picture and for one inside an archive.
        webp: The bytes of its thumbnail; None where there is none.
    """

    item: Item
    path: Path | None
    webp: bytes | None = field(repr=False)

    @property
    def id(self) -> str:
        """Its id: the first 32 hexadecimal digits of the SHA-256 of its bytes."""
        return self.item.id

    @property
    def name(self) -> str:
        """The name of its file."""
        return self.item.name

    @property
    def fields(self) -> dict[str, Any]:
        """What the source says of it, by name: a value, or a list where there are several."""
        values: dict[str, list[Any]] = {}
        for name, value in self.item.fields:
            values.setdefault(name, []).append(value)
        return {name: each[0] if len(each) == 1 else each for name, each in values.items()}

    @property
    def label(self) -> str:
        """What a line of a list shows of it: its path, or of a product its title, price and id."""
        if self.item.product is None:
            return str(self.path or self.name)
        price = self.item.price
        return f"{self.name}{f', {price}' if price else ''}  [{self.item.product}]"

    @property
    def caption(self) -> str | None:
        """Its first caption; None where the source has no captions."""
        return self.item.captions[0][1] if self.item.captions else None

    @property
    def category(self) -> str:
        """The folder it lies in, or the category that the source names."""
        return self.item.category

    @property
    def thumbnail(self) -> Image | None:
        """A small picture, at most 320 × 320 pixels; None where there is none."""
        if self.webp is None:
            return None
        from visir.collections.images import decode  # a stranger's library may hold anything under this name

        return decode(self.webp, f"the thumbnail of {self.item.name}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: `id`, `name`, `path`, `caption`, `category`, `width`, `height`, `taken`, `camera`.

        Of a product `product`, its id, and `price` too.
        """
        item = self.item
        return {
            "id": self.id,
            "name": self.name,
            "path": None if self.path is None else str(self.path),
            "caption": self.caption,
            "category": self.category,
            "width": item.width,
            "height": item.height,
            "taken": item.taken,
            "camera": item.camera,
            **({} if item.product is None else {"product": item.product, "price": self.fields.get("price")}),
        }

    def __repr__(self) -> str:
        return brief(
            self, f"{quoted(self.name)}, id {self.id[:8]}…", cut_path(self.path or "", _PATH_WIDTH), self.caption or ""
        )


@dataclass(frozen=True, repr=False)
class LibraryHit(LibraryPicture):
    """A picture of an answer.

    Attributes:
        rank: From 1, over all pages.
        score: The score that ranks it; see `visir.library.results.RankedItem`.
        parts: From each system that listed it ("words", "dense", "sparse", "matching") to its rank and score there.
    """

    rank: int
    score: float
    parts: Mapping[str, tuple[int, float]]

    def to_dict(self) -> dict[str, Any]:
        """Return `rank` and `score`, and the values of the picture."""
        return {"rank": self.rank, "score": self.score, **super().to_dict()}

    def __repr__(self) -> str:
        return brief(
            self, f"{self.rank}, {quoted(self.name)}, score {self.score:.4f}", cut_path(self.path or "", _PATH_WIDTH)
        )


@dataclass(frozen=True, repr=False)
class LibraryResults(Columnar, Sequence[LibraryHit], view="visir.library.reports.results"):
    """The answer to a search in a library; a sequence of its hits, best first.

    Attributes:
        hits: Best first.
        total: How many items the answer has on all its pages: what words found, or all that vectors ranked.
        next_offset: The `offset` of the next page; None where the answer ends.
        by: What answered: "words", "vectors", "both", or "filters", where what satisfies conditions is listed.
        system: The system of vectors that answered: "dense", "sparse" or "hybrid"; None for words alone.
        label: What people call it: "late interaction" for the dense system of a model that makes several vectors.
        query: What was searched.
        seconds: By stage: "filter", "encode", "search", "fuse", "rerank".
        library: The name of the library.
        generation: Of the library.
        unit: What the items are: "pictures" or "products".
        read: Words of the query that became conditions: "under 50". `read_prices=False` searches for them as words.
        changes: What was searched beside or instead of words of the query, a sentence each.
        matched: How many items share a word with the query; None where words have no part in the answer.
    """

    hits: tuple[LibraryHit, ...]
    total: int
    next_offset: int | None
    by: str
    system: str | None
    label: str
    query: Query = field(repr=False)
    seconds: Mapping[str, float]
    library: str
    generation: int
    unit: str = "pictures"
    read: tuple[ReadWords, ...] = ()
    changes: tuple[str, ...] = ()
    matched: int | None = None

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[LibraryHit]:
        return iter(self.hits)

    @overload
    def __getitem__(self, index: int) -> LibraryHit: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[LibraryHit, ...]: ...

    def __getitem__(self, index: int | slice) -> LibraryHit | tuple[LibraryHit, ...]:
        return self.hits[index]

    @property
    def title(self) -> str:
        """What was searched, in words: "'a red car' in holidays"."""
        query = self.query
        parts = [quoted(query.text)] if query.text and query.text.strip() else []
        parts += ["a picture"] if query.image is not None else []
        parts += [f"like {query.like}"] if query.like is not None else []
        parts += [f"in {query.category}"] if query.category else []
        parts += [f"where {condition}" for condition in query.where]
        parts += [f"{words.words!r} as {' and '.join(map(str, words.where))}" for words in self.read]
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: `hits` (see `LibraryHit.to_dict`), `total`, `matched`, `next_offset`, …."""
        return {
            "hits": [hit.to_dict() for hit in self.hits],
            "total": self.total,
            "matched": self.matched,
            "next_offset": self.next_offset,
            "by": self.by,
            "system": self.system,
            "label": self.label,
            "seconds": dict(self.seconds),
            "generation": self.generation,
            "changes": list(self.changes),
        }

    @property
    def how_many(self) -> str:
        """How many of how many, in words: "2 of 2 products found", "10 of 1,050 products, ranked"."""
        if not self.hits:
            return f"nothing behind rank {self.total:,}" if self.total else "nothing found"
        filtered = bool(self.query.where or self.query.category or self.read)
        return f"{len(self.hits)} of " + count_in_words(
            self.total,
            self.matched,
            by=self.by,
            system=self.system,
            label=self.label,
            unit=self.unit,
            filtered=filtered,
        )

    def __repr__(self) -> str:
        label = [] if self.by == "filters" else [self.label]
        lines = [f"{hit.rank:>3}  {hit.score:.4f}  {cut_path(hit.label, _PATH_WIDTH)}" for hit in self.hits]
        return brief(self, f"{self.title}: {', '.join([self.how_many, *label])}", *self.changes, *lines)


def picture_of(snapshot: LibrarySnapshot, item: Item) -> LibraryPicture:
    """An item of a library with its path and its thumbnail."""
    return LibraryPicture(item, path_of(snapshot, item), snapshot.thumbnail(item.id))


def results_of(snapshot: LibrarySnapshot, query: Query, page: ResultPage) -> LibraryResults:
    """A page of answers with what people see of each hit. What has been deleted meanwhile is left out."""
    existing = snapshot.existing(hit.id for hit in page.hits)
    ranked = [hit for hit in page.hits if hit.id in existing]
    hits = tuple(
        LibraryHit(item, path_of(snapshot, item), snapshot.thumbnail(item.id), hit.rank, hit.score, hit.parts)
        for hit, item in zip(ranked, snapshot.items(hit.id for hit in ranked), strict=True)
    )
    return LibraryResults(
        hits,
        page.total,
        page.next_offset,
        page.by,
        page.system,
        page.label,
        query,
        page.seconds,
        snapshot.name,
        page.generation,
        snapshot.card.unit,
        page.read,
        page.changes,
        page.matched,
    )


def path_of(snapshot: LibrarySnapshot, item: Item) -> Path | None:
    """Where the first file of an item lies; None for what is no file by itself."""
    paths = (path_of_file(snapshot, file) for file in item.files)
    return next((path for path in paths if path is not None), None)


def path_of_file(snapshot: LibrarySnapshot, file: ItemFile) -> Path | None:
    """Where a file lies, absolute; None inside an archive, and for what is generated."""
    from visir.collections.images import SCENE

    if file.place is None or file.archive is not None or file.place.startswith(SCENE):
        return None
    return Path(snapshot.card.root, file.place)


# The list of one system for each of several queries: (item, score), as deep as their pages need.

RankedList: TypeAlias = Sequence[tuple[str, float]]
"""(item, score), best first. Behind the end of a step of an approximate index scores may rise once."""
DEEPEST_LIST = DEEPEST + 2
"""All pages, one more item, which says if there is a next page, and the item that the query is to be like."""
STEPS = (128, DEEPEST_LIST)
"""How deep an approximate index is asked: for the first pages, and for the rest."""


def lists_of(run: Run) -> dict[str, RankedList]:
    """From query to its list in a run."""
    ids = run.documents.take(integer_array(run.indices)).to_pylist()
    entries, cuts = list(zip(ids, run.scores.tolist(), strict=True)), run.offsets.tolist()
    return {
        query: entries[start:stop]
        for query, start, stop in zip(run.queries.to_pylist(), cuts[:-1], cuts[1:], strict=True)
    }


def lists_in_steps(search: Callable[[Any, int], Run], queries: Vectors, depth: int) -> dict[str, RankedList]:
    """From query to its list in an approximate index, by the steps of this module."""
    lists: dict[str, dict[str, float]] = {query: {} for query in queries.ids.to_pylist()}
    for step in STEPS:
        short = [query for query, items in lists.items() if len(items) < depth]
        if not short:
            break
        run = search(queries if len(short) == len(lists) else queries.select(short), step)
        for query, listed in lists_of(run).items():
            for item, score in listed:
                lists[query].setdefault(item, score)
    return {query: list(items.items()) for query, items in lists.items()}


def fused_step(fused: RankedList, lengths: Iterable[int], step: int) -> RankedList:
    """What lists that end with rank `step` settle of their reciprocal rank fusion (`visir.retrieval.fusion`)."""
    # An item that none of them lists has ranks behind their ends. So it has no more than the sum of the reciprocals of
    # those ranks, and comes behind all items with a higher score. These are the first part of the joined list: no item
    # is missing between them. With two lists they are 34 at least, where these have as many. One that a list does not
    # reach gets nothing from it, where deeper lists would give it up to 1 / (60 + 129).
    highest = sum(1 / (K + length + 1) for length in lengths if length >= step - 1)
    return [(item, score) for item, score in fused if score > highest]


NORMALISATION: Normalisation = "maximum"
"""Of scores before a weighted sum (`visir.retrieval.fusion`): it finds as much as the others
(docs/background/searching.md), and does not depend on how deep the lists go."""


def rank(state: LibraryState, query_states: Sequence[QueryState], timer: StageTimer) -> None:
    """Fill `encoded` and `hits` of the queries without an error."""
    for query_state in query_states:
        if query_state.error is None and query_state.by == "filters":
            _list(state, query_state)
    sound = [query_state for query_state in query_states if query_state.error is None and query_state.rankings]
    with timer.timed("encode"):
        encoded = state.encoder.encode(
            [query_state.query for query_state in sound], [{*query_state.systems} for query_state in sound],
            state.library,
        )  # fmt: skip
    groups: dict[Any, list[QueryState]] = defaultdict(list)
    for query_state, vectors in zip(sound, encoded, strict=True):
        if isinstance(vectors, QueryError) and query_state.by == "both" and query_state.query.is_text_alone:
            query_state.by, vectors = "words", EncodedQuery()  # a text that the model cannot read
        if isinstance(vectors, VisirError):
            query_state.error = vectors
        elif query_state.candidates > 0:
            query_state.encoded = vectors
            query = query_state.query
            depth = query_state.search_depth
            alone = query_state.lists_all and query_state.by == "words"
            key = (id(query_state.allowed), query_state.rankings, alone, depth, query_state.fusion, query.weight)
            groups[key].append(query_state)
    for group in groups.values():
        try:
            _rank_group(state, group, timer)
        except VisirError as error:  # no query is at fault: an index cannot be read, or an engine is away
            for query_state in group:
                query_state.error = error.with_traceback(None)
        for query_state in group:
            query_state.allowed = None  # it is as large as the library, and there may be as many as queries


def _rank_group(state: LibraryState, group: Sequence[QueryState], timer: StageTimer) -> None:
    """Rank queries of the same rankings, filter, depth and fusion."""
    first, depth = group[0], group[0].search_depth
    if len(first.rankings) > 1:
        for step in STEPS if first.fusion == "rrf" else (DEEPEST_LIST,):
            if short := [each for each in group if len(each.hits) < min(each.list_length, each.candidates)]:
                _join(state, short, step, timer)
        if "sparse" in first.rankings:
            for query_state in group:
                query_state.matched = _count(state, query_state)
        return
    [name] = first.rankings
    with timer.timed("search"):
        lists = _lists(state, group, name, depth)
    with timer.timed("fuse"):
        for position, query_state in enumerate(group):
            query_state.name = f"{position:06}"
            listed, like = lists[query_state.name], query_state.query.like
            if like is not None:  # it would always be the best answer to itself
                listed = [(item, score) for item, score in listed if item != like]
            query_state.hits = [
                RankedItem(item, rank, score, {name: (rank, score)})
                for rank, (item, score) in enumerate(listed[: query_state.list_length], 1)
            ]
            if name == "sparse":
                ended = len(lists[query_state.name]) < depth
                query_state.matched = len(listed) if ended else _count(state, query_state)


def _list(state: LibraryState, query_state: QueryState) -> None:
    """Fill the hits of a query that has filters alone, in the order of the library's own list."""
    assert query_state.allowed is not None, "there are conditions"
    rows, mask = state.library.listed[0], query_state.allowed.mask
    chosen = state.library.columns.ids.take(pa.array(rows[mask[rows]][: query_state.list_length])).to_pylist()
    query_state.hits = [RankedItem(item, rank, 0.0, {}) for rank, item in enumerate(chosen, 1)]
    query_state.allowed = None


def matching(state: LibraryState, query_state: QueryState) -> NDArray[np.bool_] | None:
    """(items,) which items share a word with a query that was ranked, whatever its conditions; None where words have no
    part in the answer."""
    if query_state.lists_all or not {WORDS, "sparse"} & {*query_state.rankings}:
        return None
    ids = state.library.columns.ids
    mask = np.zeros(len(ids), np.bool_)
    if query_state.plan is not None and state.words is not None:
        rows = state.rows(WORDS)
        mask = (rows >= 0) & state.words.index.matching(query_state.plan)[rows]
    if "sparse" in query_state.rankings and query_state.encoded is not None:
        index = state.library.indexes["sparse"]
        with mended_by_update(state.library.folder, "sparse"):
            run = index.search(state.encoder.query_vectors("sparse", [query_state.encoded]), len(index.ids))
        listed = run.documents.take(integer_array(run.indices))
        mask |= pc.is_in(ids, listed).to_numpy(zero_copy_only=False)
    if query_state.query.like is not None:
        mask[state.library.columns.rows_of([query_state.query.like])] = False
    return mask


def _count(state: LibraryState, query_state: QueryState) -> int | None:
    """How many items that satisfy the conditions share a word with the query."""
    mask, allowed = matching(state, query_state), state.allowed_items(query_state.query)
    return None if mask is None else int((mask if allowed is None else mask & allowed.mask).sum())


def _join(state: LibraryState, group: Sequence[QueryState], step: int, timer: StageTimer) -> None:
    """Join rankings that end with rank `step`, and append what is new to the hits of each query."""
    first = group[0]
    with timer.timed("search"):
        runs = {name: _without_query_items(_run(state, group, name, step), group) for name in first.rankings}
    with timer.timed("fuse"):
        # What a killed update left behind can be in one index only; they are one gallery all the same.
        base = next(iter(runs.values()))
        fused = fuse(
            {name: replace(run, task=base.task, gallery=base.gallery) for name, run in runs.items()},
            fusion=first.fusion, weights=first.weights, normalisation=NORMALISATION, depth=DEEPEST_LIST,
        )  # fmt: skip
        best, lists = lists_of(fused), {name: lists_of(run) for name, run in runs.items()}
        for position, query_state in enumerate(group):
            query_state.name = f"{position:06}"
            own = {name: of_queries[query_state.name] for name, of_queries in lists.items()}
            listed = best[query_state.name]
            if step < DEEPEST_LIST:
                listed = fused_step(listed, map(len, own.values()), step)
            query_state.runs = runs
            _append(query_state, listed, own)


def _append(query_state: QueryState, listed: RankedList, lists: Mapping[str, RankedList]) -> None:
    """Append the items of a joined list that are not among the hits yet; `lists` are those that were joined."""
    ranks = {name: {item: rank for rank, (item, _) in enumerate(own, 1)} for name, own in lists.items()}
    held = {hit.id for hit in query_state.hits}
    new = [(item, score) for item, score in listed if item not in held]
    query_state.hits += [
        RankedItem(
            item, rank, score,
            {name: (of[item], lists[name][of[item] - 1][1]) for name, of in ranks.items() if item in of},
        )
        for rank, (item, score) in enumerate(new[: query_state.list_length - len(held)], len(held) + 1)
    ]  # fmt: skip


def _lists(state: LibraryState, group: Sequence[QueryState], name: str, depth: int) -> dict[str, RankedList]:
    """From query to what one ranking lists."""
    if name == WORDS:
        return lists_of(_run(state, group, name, depth))
    index, vectors = _index(state, group, name), _vectors(state, group, name)
    with mended_by_update(state.library.folder, name):
        if not is_exact(state.library, name):
            return lists_in_steps(index.search, vectors, depth)
        if isinstance(index, StoredIndex):
            return {**index.lists(vectors, depth)}
        return lists_of(index.search(vectors, depth))


def _run(state: LibraryState, group: Sequence[QueryState], name: str, depth: int) -> Run:
    """The best so many of one ranking."""
    if name == WORDS:
        return _of_words(state, group, depth)
    index, vectors = _index(state, group, name), _vectors(state, group, name)
    with mended_by_update(state.library.folder, name):
        return index.search(vectors, depth)


def _index(state: LibraryState, group: Sequence[QueryState], system: str) -> Index[Any] | FilteredIndex:
    allowed = group[0].allowed
    return state.library.indexes[system] if allowed is None else allowed.index(system)


def _vectors(state: LibraryState, group: Sequence[QueryState], system: str) -> Vectors:
    encoded = [query_state.encoded for query_state in group if query_state.encoded is not None]
    return state.encoder.query_vectors(system, encoded)


def _of_words(state: LibraryState, group: Sequence[QueryState], depth: int) -> Run:
    """The items that share words with each query; for one of price words alone, all that it may find, by id."""
    assert state.words is not None, "the queries were checked"
    within = None if group[0].allowed is None else group[0].allowed.words
    plans = {f"{row:06}": query_state.plan for row, query_state in enumerate(group) if query_state.plan is not None}
    if not any(query_state.lists_all and query_state.by == "words" for query_state in group):
        run, totals = state.words.run(plans, depth, within)
        for query_state, total in zip(group, totals, strict=True):
            query_state.matched = None if query_state.lists_all else total
        return run
    index = state.words.index
    every = np.flatnonzero(np.ones(len(index), np.bool_) if within is None else within)[:depth]
    names = index.ids.take(pa.array(every)).to_pylist()
    queries = [query for query in plans for _ in names]
    return Run.ranked("words", "t2t", queries, names * len(plans), np.zeros(len(queries)), index.gallery)


def _without_query_items(run: Run, group: Sequence[QueryState]) -> Run:
    """Without the item that each query searches with: it would always be the best answer to itself."""
    excluded = np.zeros(len(run.indices), np.bool_)
    for position, query_state in enumerate(group):
        if query_state.query.like is not None:
            listed = slice(int(run.offsets[position]), int(run.offsets[position + 1]))
            row = int(pc.index(run.documents, query_state.query.like).as_py())
            excluded[listed] = run.indices[listed] == row
    return part_of(run, ~excluded, np.ones(len(run), np.bool_)) if excluded.any() else run
