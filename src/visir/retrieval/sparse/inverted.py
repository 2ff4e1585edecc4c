"""The inverted index: visir's own search over weighted words, exact or within a budget."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.arrays import load_array
from visir.errors import EmbeddingError
from visir.jit import pays, plain
from visir.records import EncoderCard, Modality, SparseEmbeddings
from visir.records.columns import check_unique, rows_of_spans
from visir.retrieval.answers import CandidateRows, Hits
from visir.retrieval.index import Finder
from visir.retrieval.rows import SPARSE, Rows, Sparse
from visir.retrieval.settings import recall, setting
from visir.retrieval.sparse import few, kernels
from visir.threads import cores

# The inverted lists of one part of an index: the arrays of the kernels, and their files.

FREQUENT = 1 / 5
"""Terms that more than this share of the documents have are kept as columns too: a byte for every document."""
_TYPES = {
    "listed": ("i4", 1), "maxima": ("f4", 1), "levels": ("u2", 3), "postings": ("u2", 1), "columned": ("i4", 1),
    "columns": ("u1", 2), "gap_starts": ("i8", 1), "gaps": ("u1", 1), "offsets": ("i8", 1), "values": ("f4", 1),
}  # fmt: skip
"""What each array holds, and its dimensions: the kernels read without a check of their own."""
_FILES = tuple(name for name in _TYPES if name not in ("offsets", "values"))


@dataclass(frozen=True, eq=False)
class Lists:
    """The T terms that occur in a part of n documents, each with its postings (see `kernels`)."""

    # - `listed`: (T,) int32 the terms, ascending; `maxima`: (T,) float32 the largest weight of each
    # - `levels`: (T, B, 16) uint16 how many postings of each of B blocks are up to each level; `postings`: uint16,
    #   those of one term after those of another, block by block
    # - `columned`: (c,) int32 which rows have a column; `columns`: (c, 32,768 B) uint8
    # - `gap_starts`: (n + 1,) int64 into `gaps`: uint8, the terms of each document
    # - `offsets`, `values`: the weights of the documents; `dimension`: V
    # - `rows`: (V,) int32 which of the T terms each is, -1 for those that do not occur
    # - `vectors`, `arguments`: the documents and the lists as the kernels take them

    listed: NDArray[np.int32]
    maxima: NDArray[np.float32]
    levels: NDArray[np.uint16]
    postings: NDArray[np.uint16]
    columned: NDArray[np.int32]
    columns: NDArray[np.uint8]
    gap_starts: NDArray[np.int64]
    gaps: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    values: NDArray[np.float32]
    dimension: int
    rows: NDArray[np.int32] = field(init=False)
    vectors: tuple[NDArray[Any], ...] = field(init=False)
    arguments: tuple[NDArray[Any], ...] = field(init=False)
    _rooms: list[tuple[Any, ...]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        for name in (*_FILES, "offsets", "values"):
            object.__setattr__(self, name, plain(getattr(self, name)))
        object.__setattr__(self, "rows", _rows(self.listed, self.dimension))
        object.__setattr__(self, "vectors", (self.offsets, self.gap_starts, self.gaps, self.values))
        lengths = self.levels[:, :, -1].astype(np.int64)
        starts = np.cumsum(lengths).reshape(lengths.shape) - lengths
        totals = self.levels.sum(axis=1, dtype=np.uint32)
        documents, columns = len(self.offsets) - 1, np.full(len(self.listed), -1, np.int32)
        columns[self.columned] = np.arange(len(self.columned))
        # Of a term that every document has little is to be learnt, but not nothing: its query may have no other.
        idf = np.log(documents / np.minimum(totals[:, -1], documents)) + 0.01
        object.__setattr__(
            self, "arguments",
            (
                starts, self.maxima, idf.astype(np.float32), totals, self.levels, self.postings, columns, self.columns,
            ),
        )  # fmt: skip

    @classmethod
    def of(cls, part: SparseEmbeddings) -> Lists:
        """The lists of these documents, made in three passes: some 10 million postings a second on one core."""
        if len(part) > kernels.MAX_DOCUMENTS:
            raise EmbeddingError(
                f"{len(part):,} documents in one part of an inverted index, which holds {kernels.MAX_DOCUMENTS:,}.",
                hint="build with the first of them and add the rest",
            )
        vectors = (plain(part.offsets), plain(part.terms), plain(part.values))
        numbers = _LAID_OUT * len(part.values)
        frequency, maxima = np.zeros(part.dimension, np.int64), np.zeros(part.dimension, np.float32)
        _loops(numbers, "count").count(*vectors[1:], frequency, maxima)
        listed = np.flatnonzero(frequency).astype(np.int32)
        frequency, maxima, rows = frequency[listed], maxima[listed], _rows(listed, part.dimension)
        blocks = _blocks(len(part))
        place = np.zeros((len(listed), blocks, kernels.GRADES), np.int64)
        gap_starts = np.zeros(len(part) + 1, np.int64)
        _loops(numbers, "count_grades").count_grades(*vectors, rows, maxima, place, gap_starts)
        levels = np.zeros((len(listed), blocks, kernels.LEVELS), np.uint16)
        postings = np.empty(_loops(numbers, "lay_out").lay_out(place, levels), np.uint16)
        columned = np.flatnonzero(frequency > FREQUENT * len(part)).astype(np.int32)
        column_of = np.full(len(listed), -1, np.int32)
        column_of[columned] = np.arange(len(columned))
        columns = np.zeros((len(columned), blocks * (kernels.BLOCK + 1)), np.uint8)
        gaps = np.empty(gap_starts[-1], np.uint8)
        _loops(numbers, "invert").invert(*vectors, rows, maxima, place, levels, column_of, postings, columns, gaps)
        return cls(
            listed, maxima, levels, postings, columned, columns, gap_starts, gaps, part.offsets, part.values,
            part.dimension,
        )  # fmt: skip

    def terms(self, documents: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the terms of these documents, one after another."""
        terms = np.empty(int((self.offsets[documents + 1] - self.offsets[documents]).sum()), np.int32)
        _loops(_READ * len(terms), "decode").decode(documents, self.gap_starts, self.gaps, self.listed, terms)
        return terms

    def fault(self) -> str:
        """Return what does not fit in the arrays of a file, or nothing."""
        arguments = (self.offsets, self.gap_starts, self.gaps, len(self.listed))
        blocks, end = _blocks(len(self.offsets) - 1), int(self.levels[:, :, -1].sum(dtype=np.int64))
        if self.levels.shape != (len(self.listed), blocks, kernels.LEVELS) or end != len(self.postings):
            return f"lists of {end} postings in {len(self.postings)}"
        if (self.levels[:, :, :-1] > self.levels[:, :, 1:]).any() or len(self.maxima) != len(self.listed):
            return "levels out of order"
        if len(self.listed) and not (
            self.listed[0] >= 0 and self.listed[-1] < self.dimension and (np.diff(self.listed) > 0).all()
        ):
            return "terms out of order"
        if self.columns.shape != (len(self.columned), blocks * (kernels.BLOCK + 1)):
            return "columns of another size"
        loops = _loops(_READ * len(self.gaps), "first_fault")
        if len(self.gap_starts) != len(self.offsets) or loops.first_fault(*arguments) >= 0:
            return "terms of another number than weights"
        return ""

    @property
    def bytes(self) -> int:
        """The size on disk, without the weights of the documents."""
        return sum(int(getattr(self, name).nbytes) for name in _FILES)

    def take_room(self) -> tuple[Any, ...]:
        """Scratch for `kernels.answer`, used again and again: making it would cost more than a query."""
        try:
            return self._rooms.pop()
        except IndexError:
            width, terms = _blocks(len(self.offsets) - 1) * (kernels.BLOCK + 1), len(self.listed)
            return (
                np.zeros(width, np.uint16), np.empty(width // kernels.STRIPES, np.uint16), np.empty(width, np.int64),
                np.empty(width + 1, np.uint64), (np.zeros(terms, np.float64), np.empty(terms + 1, np.uint32)),
            )  # fmt: skip

    def give_room(self, room: tuple[Any, ...]) -> None:
        """Return scratch of `take_room`, which must be as clean as it was."""
        self._rooms.append(room)


_LAID_OUT, _READ = 256, 32
"""What it costs in NumPy to lay out a posting, and to read one, in multiplications (`visir.jit.pays`)."""
_AT_ONCE = 16
"""Queries that are answered in NumPy before it is asked again whether the loops are compiled."""


def _loops(numbers: int, name: str) -> ModuleType:
    """The compiled loops, or those in NumPy where there is little to do and the one of this name is not ready."""
    return kernels if pays(numbers, getattr(kernels, name)) else few


class ListedEmbeddings(SparseEmbeddings):
    """The documents of a part on disk: sparse embeddings whose terms are decoded from the lists when asked for."""

    lists: Lists

    def __init__(self, embeddings: dict[str, Any], lists: Lists) -> None:
        for name, value in embeddings.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "origin", "")
        object.__setattr__(self, "lists", lists)

    @property
    def terms(self) -> NDArray[np.int32]:
        """(m,) int32 all terms, decoded anew at each call."""
        return self.lists.terms(np.arange(len(self)))

    def row(self, index: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the terms (ascending) and the weights of row `index`."""
        values = self.values[int(self.offsets[index]) : int(self.offsets[index + 1])]
        return self.lists.terms(np.array([index])), values

    def take(self, rows: NDArray[np.int64]) -> SparseEmbeddings:  # type: ignore[override]
        """Return the embeddings of these rows, in this order, copied into memory."""
        flat, offsets = rows_of_spans(self.offsets, rows)
        return SparseEmbeddings(
            self.modality, self.ids.take(pa.array(rows)), offsets, self.lists.terms(np.asarray(rows, np.int64)),
            self.values[flat], self.vocabulary, self.encoder,
        )  # fmt: skip


class Listed(Sparse):
    """Sparse vectors and their inverted lists, each array in its own file; terms are in the lists alone."""

    arrays = ("offsets", "values")
    files = (*(name for name in Sparse.files if name != "terms.npy"), *(f"list-{name}.npy" for name in _FILES))

    def write(self, vectors: SparseEmbeddings, folder: Path) -> None:
        """Write into an empty folder."""
        super().write(vectors, folder)
        lists = lists_of(vectors)
        for name in _FILES:
            np.save(folder / f"list-{name}.npy", getattr(lists, name), allow_pickle=False)

    def read(self, folder: Path, modality: Modality, encoder: EncoderCard) -> SparseEmbeddings:
        """Read what `write` wrote, memory-mapped."""
        # The lists of an earlier layout, which stood beside the terms, are passed over: they are built again in memory.
        if (folder / "terms.npy").exists():
            return SPARSE.read(folder, modality, encoder)
        columns = self.columns(folder)
        offsets, values = columns["offsets"], columns["values"]
        arrays = {name: load_array(folder / f"list-{name}.npy", mapped=True) for name in _FILES}
        for name, array in {**arrays, "offsets": offsets, "values": values}.items():
            if (array.dtype.str[1:], array.ndim) != _TYPES[name]:
                raise ValueError(f"{folder.name}: {name} {array.dtype} {array.shape}")
        lists = Lists(
            **arrays, offsets=offsets, values=values, dimension=len(columns["vocabulary"]),
        )  # fmt: skip
        spans = len(offsets) == len(columns["ids"]) + 1 and offsets[0] == 0 and offsets[-1] == len(values)
        fault = "weights of another number" if not spans or (np.diff(offsets) < 0).any() else lists.fault()
        if fault or not (np.isfinite(values) & (values > 0)).all():
            raise ValueError(f"{folder.name}: {fault or 'weights that are not finite and positive'}")
        check_unique(columns["ids"], folder.name)
        part = ListedEmbeddings({"modality": modality, "encoder": encoder, **columns}, lists)
        _LISTS[part] = lists
        return part

    def score(
        self,
        rows: Rows[SparseEmbeddings],
        queries: SparseEmbeddings,
        candidates: CandidateRows,
        k: int,
        *,
        fill: bool = True,
    ) -> Hits:
        """Score candidates; documents that share no term with a query are no answers, so nothing is filled up."""
        hits = []
        query, column = np.nonzero(candidates.rows >= 0)
        row = candidates.rows[query, column]
        part_of = np.searchsorted(rows.starts, row, side="right") - 1
        arrays = (plain(queries.offsets), plain(queries.terms), plain(queries.values))
        for at in np.unique(part_of):
            start, end = rows.starts[at], rows.starts[at + 1]
            here = part_of == at
            counts = np.bincount(query[here], minlength=len(queries))
            offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            documents, places = row[here] - start, rows.places[start:end]
            keys, fill_of = np.empty(len(documents), np.uint64), np.zeros(len(queries), np.int64)
            lists = lists_of(rows.parts[at])
            loops = _loops(_READ * len(documents), "score_again")

            def score(first: int, last: int) -> None:
                room = lists.take_room() if loops is kernels else None  # noqa: B023
                loops.score_again(  # noqa: B023
                    first, last, arrays, lists.rows, lists.vectors, offsets, documents, places, room, keys, fill_of,  # noqa: B023
                )  # fmt: skip
                if room is not None:
                    lists.give_room(room)  # noqa: B023

            _share(score, len(queries), 0)
            within = np.arange(len(keys)) - np.repeat(offsets[:-1], counts) < np.repeat(fill_of, counts)
            hits.append(Hits(query[here][within], *_columns(keys[within])))
        return Hits.joined(hits)


INVERTED = Listed()
_LISTS: WeakKeyDictionary[SparseEmbeddings, Lists] = WeakKeyDictionary()
"""The lists of the parts that are in use: a part never changes, so its lists are made (or read) once."""


def lists_of(part: SparseEmbeddings) -> Lists:
    """Return the lists of a part; they are read with it, or built when they are first used."""
    lists = _LISTS.get(part)
    if lists is None:
        lists = _LISTS[part] = Lists.of(part)
    return lists


def _prepared(rows: Rows[SparseEmbeddings], at: int) -> tuple[Lists, NDArray[np.int64], NDArray[np.int64], float]:
    """The lists of a part, the places of its rows, its deleted rows, and its share of all rows; made once."""
    start, end = rows.starts[at], rows.starts[at + 1]
    made = lists_of(rows.parts[at]), rows.places[start:end], np.flatnonzero(rows.dead[start:end])
    prepared = rows.prepared["lists", at] = (*made, len(made[1]) / len(rows))
    return prepared


def _blocks(documents: int) -> int:
    return max(1, -(-documents // kernels.BLOCK))


def _rows(listed: NDArray[np.int32], dimension: int) -> NDArray[np.int32]:
    rows = np.full(dimension, -1, np.int32)
    rows[listed] = np.arange(len(listed))
    return rows


@dataclass(frozen=True)
class InvertedSettings:
    """The settings of a search."""

    budget: int = setting(
        0, "postings read for a query, about; 0 reads as many as an exact answer takes", least=0, search=True
    )
    candidates: int = setting(
        0,
        "documents looked at more closely: within a budget (0: 2 k + budget / 800), or re-scored in two-stage search "
        "(0: 10 k, at least 100)",
        least=0,
        search=True,
    )
    threads: int = setting(
        0, "threads that share the queries of one search; 0: one for each core", least=0, search=True
    )
    recall: float = recall()


class Inverted(Finder[SparseEmbeddings]):
    """Kind "inverted": inverted lists of impact order, columns for frequent terms, and the vectors to score with."""

    # A search is exact unless it is given a `budget`: how many postings (document and weight of a term) it may read for
    # a query, chosen by query weight × weight × idf. Those documents that gain most from them (`candidates`) are then
    # scored exactly, so a budget may miss documents but never changes a score. Only documents that share a term with
    # the query are answers; equal scores stand in order of ids. Exact answers do not depend on the parts of the index,
    # on threads, or on the order of documents; answers within a budget depend on the parts, a little.
    # What a budget finds at what speed is in docs/background/indexes.md.
    # Two-stage search (thesis 3.5.3) retrieves with one form of the queries and scores with another: `search(expanded,
    # first=originals)`. It answers another question than exact search with the expanded queries: documents that share
    # only expansion terms with a query cannot be retrieved, and of those that share original terms only the
    # `candidates` best *by these* are scored. A search within a budget is faster and finds more.
    # Memory: the files are memory-mapped and shared between processes; a searching thread adds 19 bytes per document.

    form = INVERTED
    settings_type = InvertedSettings

    def build(self, rows: Rows[SparseEmbeddings], settings: InvertedSettings) -> None:
        for part in rows.parts:
            lists_of(part)

    def search(
        self, built: None, rows: Rows[SparseEmbeddings], queries: SparseEmbeddings, k: int, settings: InvertedSettings
    ) -> Hits:
        hits: list[Hits] = []
        arrays, count = (plain(queries.offsets), plain(queries.terms), plain(queries.values)), len(queries)
        for at in range(len(rows.parts)):
            lists, places, dead, share = rows.prepared.get(("lists", at)) or _prepared(rows, at)
            if len(dead) == len(places):
                continue
            most = min(k, len(places) - len(dead))
            budget, candidates = _shares(settings, most, share)
            keys, fill = np.empty((count, most), np.uint64), np.zeros(count, np.int64)
            begin = 0
            while begin < count:
                loops = _loops(len(lists.values) * (count - begin), "answer")
                end = count if loops is kernels else min(begin + _AT_ONCE, count)

                def answer(first: int, last: int) -> None:
                    room = lists.take_room() if loops is kernels else None  # noqa: B023 (called before the next turn)
                    loops.answer(  # noqa: B023
                        begin + first, begin + last, arrays, lists.rows, lists.arguments, lists.vectors, places, dead,  # noqa: B023
                        most, budget, candidates, room, keys, fill,  # noqa: B023
                    )  # fmt: skip
                    if room is not None:
                        lists.give_room(room)  # noqa: B023

                _share(answer, end - begin, settings.threads)
                begin = end
            hits.append(Hits.ordered(*_columns(keys), fill))
        return Hits.joined(hits)

    def efforts(self, built: None, rows: Rows[SparseEmbeddings]) -> list[dict[str, int]]:
        postings = sum(len(part.values) for part in rows.parts)
        budgets = [int(2500 * 2 ** (step / 2)) for step in range(24)]
        return [*({"budget": budget} for budget in budgets if 8 * budget < postings), {"budget": 0}]

    def details(self, built: None, rows: Rows[SparseEmbeddings], settings: InvertedSettings) -> dict[str, Any]:
        lists = [lists_of(part) for part in rows.parts]
        return {
            "postings": sum(len(posting_list.postings) for posting_list in lists),
            "columns": sum(len(posting_list.columned) for posting_list in lists),
            "bytes of lists": sum(posting_list.bytes for posting_list in lists),
        }


def _shares(settings: InvertedSettings, k: int, share: float) -> tuple[int, int]:
    """(budget, candidates) for a part with this share of the documents."""
    if settings.budget == 0:
        return 0, 0
    candidates = max(k, settings.candidates or 2 * k + settings.budget // 800)
    candidates = k + int(np.ceil((candidates - k) * share))
    return max(1, int(settings.budget * share)), candidates


def _columns(keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The places and the scores in keys."""
    bits = (keys >> np.uint64(32)).astype(np.uint32) ^ np.uint32(0x7FFFFFFF)
    return (keys & np.uint64(0xFFFFFFFF)).view(np.int64), bits.view(np.float32)


def _share(work: Any, number: int, threads: int) -> None:
    """Call `work(first, last)` for shares of `number` queries, on so many threads (0: one for each core)."""
    threads = 1 if number == 1 else max(1, min(threads or cores(), number))
    if threads == 1:
        work(0, number)
        return
    edges = np.linspace(0, number, 4 * threads + 1 if number >= 16 * threads else threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(threads, "visir-search") as pool:
        list(pool.map(work, edges[:-1], edges[1:]))
