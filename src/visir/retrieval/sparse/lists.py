"""The inverted lists of one part of an index: the arrays of the kernels, and their files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.arrays import load_array
from visir.errors import EmbeddingError
from visir.records import EncoderCard, Modality, SparseEmbeddings
from visir.records.arrays import rows_of_spans
from visir.retrieval.parts import SPARSE, Sparse
from visir.retrieval.sparse import kernels
from visir.retrieval.sparse import layout_kernels as layout

FREQUENT = 1 / 5
"""Terms that more than this share of the documents have are kept as columns too: a byte for every document."""
_FILES = ("listed", "maxima", "levels", "postings", "columned", "columns", "gap_starts", "gaps")


@dataclass(frozen=True, eq=False)
class Lists:
    """The T terms that occur in a part of n documents, each with its postings (see `layout_kernels`)."""

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
            object.__setattr__(self, name, _plain(getattr(self, name)))
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
        vectors = (_plain(part.offsets), _plain(part.terms), _plain(part.values))
        frequency, maxima = np.zeros(part.dimension, np.int64), np.zeros(part.dimension, np.float32)
        layout.count(*vectors[1:], frequency, maxima)
        listed = np.flatnonzero(frequency).astype(np.int32)
        frequency, maxima, rows = frequency[listed], maxima[listed], _rows(listed, part.dimension)
        blocks = _blocks(len(part))
        place = np.zeros((len(listed), blocks, layout.GRADES), np.int64)
        gap_starts = np.zeros(len(part) + 1, np.int64)
        layout.count_grades(*vectors, rows, maxima, place, gap_starts)
        levels = np.zeros((len(listed), blocks, layout.LEVELS), np.uint16)
        postings = np.empty(layout.lay_out(place, levels), np.uint16)
        columned = np.flatnonzero(frequency > FREQUENT * len(part)).astype(np.int32)
        column_of = np.full(len(listed), -1, np.int32)
        column_of[columned] = np.arange(len(columned))
        columns = np.zeros((len(columned), blocks * (layout.BLOCK + 1)), np.uint8)
        gaps = np.empty(gap_starts[-1], np.uint8)
        layout.invert(*vectors, rows, maxima, place, levels, column_of, postings, columns, gaps)
        return cls(
            listed, maxima, levels, postings, columned, columns, gap_starts, gaps, part.offsets, part.values,
            part.dimension,
        )  # fmt: skip

    def terms(self, documents: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the terms of these documents, one after another."""
        terms = np.empty(int((self.offsets[documents + 1] - self.offsets[documents]).sum()), np.int32)
        layout.decode(documents, self.gap_starts, self.gaps, self.listed, terms)
        return terms

    def fault(self) -> str:
        """Return what does not fit in the arrays of a file, or nothing."""
        arguments = (self.offsets, self.gap_starts, self.gaps, len(self.listed))
        blocks, end = _blocks(len(self.offsets) - 1), int(self.levels[:, :, -1].sum(dtype=np.int64))
        if self.levels.shape != (len(self.listed), blocks, layout.LEVELS) or end != len(self.postings):
            return f"lists of {end} postings in {len(self.postings)}"
        if (self.levels[:, :, :-1] > self.levels[:, :, 1:]).any() or len(self.maxima) != len(self.listed):
            return "levels out of order"
        if self.columns.shape != (len(self.columned), blocks * (layout.BLOCK + 1)):
            return "columns of another size"
        if len(self.gap_starts) != len(self.offsets) or layout.first_fault(*arguments) >= 0:
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
            width, terms = _blocks(len(self.offsets) - 1) * (layout.BLOCK + 1), len(self.listed)
            return (
                np.zeros(width, np.uint16), np.empty(width // kernels.STRIPES, np.uint16), np.empty(width, np.int64),
                np.empty(width + 1, np.uint64), (np.zeros(terms, np.float64), np.empty(terms + 1, np.uint32)),
            )  # fmt: skip

    def give_room(self, room: tuple[Any, ...]) -> None:
        """Return scratch of `take_room`, which must be as clean as it was."""
        self._rooms.append(room)


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

    def take(self, rows: NDArray[np.int64]) -> SparseEmbeddings:
        """Return the embeddings of these rows, in this order, copied into memory."""
        flat, offsets = rows_of_spans(self.offsets, rows)
        return SparseEmbeddings(
            self.modality, self.ids.take(pa.array(rows)), offsets, self.lists.terms(np.asarray(rows, np.int64)),
            self.values[flat], self.vocabulary, self.encoder,
        )  # fmt: skip


class Inverted(Sparse):
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
        lists = Lists(
            **{name: load_array(folder / f"list-{name}.npy", mapped=True) for name in _FILES},
            offsets=offsets, values=values, dimension=len(columns["vocabulary"]),
        )  # fmt: skip
        spans = len(offsets) == len(columns["ids"]) + 1 and offsets[0] == 0 and offsets[-1] == len(values)
        fault = "weights of another number" if not spans or (np.diff(offsets) < 0).any() else lists.fault()
        if fault or not (np.isfinite(values) & (values > 0)).all():
            raise ValueError(f"{folder.name}: {fault or 'weights that are not finite and positive'}")
        part = ListedEmbeddings({"modality": modality, "encoder": encoder, **columns}, lists)
        _LISTS[part] = lists
        return part


INVERTED = Inverted()
_LISTS: WeakKeyDictionary[SparseEmbeddings, Lists] = WeakKeyDictionary()
"""The lists of the parts that are in use: a part never changes, so its lists are made (or read) once."""


def lists_of(part: SparseEmbeddings) -> Lists:
    """Return the lists of a part; they are read with it, or built when they are first used."""
    lists = _LISTS.get(part)
    if lists is None:
        lists = _LISTS[part] = Lists.of(part)
    return lists


def _blocks(documents: int) -> int:
    return max(1, -(-documents // layout.BLOCK))


def _rows(listed: NDArray[np.int32], dimension: int) -> NDArray[np.int32]:
    rows = np.full(dimension, -1, np.int32)
    rows[listed] = np.arange(len(listed))
    return rows


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory as a plain array that cannot be written: one type, for which kernels are compiled once."""
    view: NDArray[Any] = np.asarray(array).view()
    view.flags.writeable = False
    return view
