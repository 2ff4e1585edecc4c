"""The inverted lists of one part of an index: the arrays of the kernels, and their files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from visir.errors import EmbeddingError
from visir.records import EncoderCard, Modality, SparseEmbeddings
from visir.retrieval.parts import Sparse
from visir.retrieval.sparse import kernels
from visir.retrieval.sparse.layout_kernels import count, fill_column, invert

FREQUENT = 1 / 8
"""Terms that more than this share of the documents have are kept as columns too: a byte for every document."""
_FILES = ("listed", "starts", "maxima", "levels", "postings", "columned", "columns", "numbers", "digests")


@dataclass(frozen=True, eq=False)
class Lists:
    """The T terms that occur in a part of n documents, each with its postings (see `layout_kernels`).

    - `listed`: (T,) int32 the terms, ascending; `starts`: (T + 1,) int64 into `postings`
    - `maxima`: (T,) float32 the largest weight of each; `levels`: (T, 16) uint32 how many postings are above each level
    - `postings`: (m,) uint32; `columned`: (c,) int32 which rows have a column; `columns`: (c, n and some padding) uint8
    - `numbers`: (m,) uint16 (uint32 when T is beyond 65,536) which of the T terms, in the documents' order; `digests`:
      (m,) uint8 its weight as in the postings
    - `vectors`: (offsets, numbers, values) of the documents, as the kernels take them
    - `dimension`: V; `rows`: (V,) int32 which of the T terms each is, -1 for those that do not occur
    """

    listed: NDArray[np.int32]
    starts: NDArray[np.int64]
    maxima: NDArray[np.float32]
    levels: NDArray[np.uint32]
    postings: NDArray[np.uint32]
    columned: NDArray[np.int32]
    columns: NDArray[np.uint8]
    numbers: NDArray[Any]
    digests: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    values: NDArray[np.float32]
    dimension: int
    rows: NDArray[np.int32] = field(init=False)
    vectors: tuple[NDArray[Any], ...] = field(init=False)
    arguments: tuple[NDArray[Any], ...] = field(init=False)
    _rooms: list[tuple[NDArray[Any], ...]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        for name in (*_FILES, "offsets", "values"):
            object.__setattr__(self, name, _plain(getattr(self, name)))
        object.__setattr__(self, "rows", _rows(self.listed, self.dimension))
        object.__setattr__(self, "vectors", (self.offsets, self.numbers, self.values))
        documents, columns = len(self.offsets) - 1, np.full(len(self.listed), -1, np.int32)
        columns[self.columned] = np.arange(len(self.columned))
        # Of a term that every document has little is to be learnt, but not nothing: its query may have no other.
        idf = np.log(documents / np.diff(self.starts)) + 0.01
        object.__setattr__(
            self, "arguments",
            (
                self.starts, self.maxima, idf.astype(np.float32), self.levels, self.postings, columns, self.columns,
                self.digests,
            ),
        )  # fmt: skip

    @classmethod
    def of(cls, part: SparseEmbeddings) -> Lists:
        """The lists of these documents, made in two passes: some 30 million postings a second on one core."""
        if len(part) > kernels.MAX_DOCUMENTS:
            raise EmbeddingError(
                f"{len(part):,} documents in one part of an inverted index, which holds {kernels.MAX_DOCUMENTS:,}.",
                hint="build with the first of them and add the rest",
            )
        vectors = (_plain(part.offsets), _plain(part.terms), _plain(part.values))
        frequency, maxima = np.zeros(part.dimension, np.int64), np.zeros(part.dimension, np.float32)
        count(*vectors[1:], frequency, maxima)
        listed = np.flatnonzero(frequency).astype(np.int32)
        frequency, maxima = frequency[listed], maxima[listed]
        starts = np.concatenate([[0], np.cumsum(frequency)]).astype(np.int64)
        postings, levels = np.empty(len(part.terms), np.uint32), np.zeros((len(listed), kernels.LEVELS), np.uint32)
        numbers = np.empty(len(part.terms), np.uint16 if len(listed) <= 1 << 16 else np.uint32)
        digests = np.empty(len(part.terms), np.uint8)
        invert(*vectors, _rows(listed, part.dimension), starts, maxima, postings, levels, numbers, digests)
        columned = np.flatnonzero(frequency > FREQUENT * len(part)).astype(np.int32)
        columns = np.zeros((len(columned), padded(len(part))), np.uint8)
        for column, row in zip(columns, columned, strict=True):
            fill_column(postings[starts[row] : starts[row + 1]], column)
        return cls(
            listed, starts, maxima, levels, postings, columned, columns, numbers, digests, part.offsets, part.values,
            part.dimension,
        )  # fmt: skip

    @property
    def bytes(self) -> int:
        """The size on disk, without the vectors."""
        return sum(int(getattr(self, name).nbytes) for name in _FILES)

    def take_room(self) -> tuple[NDArray[Any], ...]:
        """Scratch for `kernels.answer`, used again and again: making it would cost more than a query."""
        try:
            return self._rooms.pop()
        except IndexError:
            width, terms = padded(len(self.offsets) - 1), len(self.listed)
            return (
                np.zeros(width, np.uint16), np.empty(width // kernels.STRIPES, np.uint16), np.empty(width, np.int64),
                np.zeros(terms, np.float64), np.empty(terms + 1, np.float64), np.empty(width + 1, np.uint64),
                np.zeros(terms, np.uint32),
            )  # fmt: skip

    def give_room(self, room: tuple[NDArray[Any], ...]) -> None:
        """Return scratch of `take_room`, which must be as clean as it was."""
        self._rooms.append(room)


class Inverted(Sparse):
    """Sparse vectors and their inverted lists, each array in its own file."""

    files = (*Sparse.files, *(f"list-{name}.npy" for name in _FILES))

    def write(self, vectors: SparseEmbeddings, folder: Path) -> None:
        """Write into an empty folder."""
        super().write(vectors, folder)
        lists = lists_of(vectors)
        for name in _FILES:
            np.save(folder / f"list-{name}.npy", getattr(lists, name), allow_pickle=False)

    def read(self, folder: Path, modality: Modality, encoder: EncoderCard) -> SparseEmbeddings:
        """Read what `write` wrote, memory-mapped."""
        part = super().read(folder, modality, encoder)
        some = {name: np.load(folder / f"list-{name}.npy", mmap_mode="r", allow_pickle=False) for name in _FILES}
        lists = Lists(**some, offsets=part.offsets, values=part.values, dimension=part.dimension)
        if any(
            n != len(part.terms) for n in (lists.starts[-1], *map(len, (lists.postings, lists.numbers, lists.digests)))
        ):
            raise ValueError(f"{folder.name}: lists of {len(lists.postings)} postings for {len(part.terms)} weights")
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


def padded(documents: int) -> int:
    """Return the number of sums that the kernels use for a number of documents."""
    return max(1, -(-documents // kernels.PAD)) * kernels.PAD


def _rows(listed: NDArray[np.int32], dimension: int) -> NDArray[np.int32]:
    rows = np.full(dimension, -1, np.int32)
    rows[listed] = np.arange(len(listed))
    return rows


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory as a plain array that cannot be written: one type, for which kernels are compiled once."""
    view: NDArray[Any] = np.asarray(array).view()
    view.flags.writeable = False
    return view
